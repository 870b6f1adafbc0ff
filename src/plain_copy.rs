//! A copy of a log in plain segments: same log id, numbers, times, threads and definitions, nothing compressed.
//!
//! Each segment of the log becomes one of the copy, with the same index and an id of its own, sealed. What is lost in the log is
//! declared in the copy, so that the copy is sound; what can't be declared, since nothing tells how much it is, is only told.

use std::collections::HashMap;
use std::sync::Arc;

use crate::active::write_all;
use crate::clean_copy::remove_all;
use crate::control::{DeclaredLoss, IndexPoint, LossClass, SEAL_DEFINITIONS_MAX, Seal, SealReason};
use crate::entry::{CallSite, Entry, encode_thread};
use crate::error::{Error, Result};
use crate::finding::{Fault, Loss, NoteKind, SeqRange};
use crate::format::{FrameKind, HEADER_BYTES, INDEX_POINTS_MAX};
use crate::frame::{Seed, begin_frame, finish_frame, push_frame};
use crate::open::take_lock;
use crate::reader::LogReader;
use crate::record::write_record;
use crate::roll::random_id;
use crate::segment::{Predecessor, SegmentHeader};
use crate::snapshot::{SegmentInfo, Snapshot};
use crate::state::{LOCK_NAME, WriterState};
use crate::storage::{Storage, StorageFile};
use crate::walk::Item;

/// Bytes written at a time.
const BATCH_BYTES: usize = 1 << 20;

/// Bytes of a segment between two points of its index.
const STRIDE_BYTES: u64 = 256 << 10;

/// What a copy met on its way.
#[derive(Debug)]
pub enum Met<'a> {
    /// A finding or a note of the log.
    Item(&'a Item<'static>),
    /// A segment that could not be read; the others are copied.
    Failed(Error),
}

/// Copies the log in `snapshot` into the empty directory `to`. `met` is told what is found on the way. A copy that fails leaves
/// nothing in `to`.
///
/// # Errors
/// Where the copy could not be written.
pub fn plain_copy(snapshot: Snapshot, to: &Arc<dyn Storage>, met: &mut dyn FnMut(Met<'_>)) -> Result<()> {
    let copied = copy(snapshot, to, met);
    if copied.is_err() {
        remove_all(to.as_ref());
    }
    copied
}

fn copy(snapshot: Snapshot, to: &Arc<dyn Storage>, met: &mut dyn FnMut(Met<'_>)) -> Result<()> {
    let mut copy = Copy {
        to,
        segments: snapshot.segments.clone(),
        output: None,
        next_seq: 0,
        first_seq_kept: 1,
        next_id: random_id()?,
        is_end_known: true,
    };
    let mut reader = LogReader::new(snapshot);
    loop {
        match reader.advance_item() {
            Ok(false) => break,
            Ok(true) => {}
            Err(error) => {
                met(Met::Failed(error));
                continue;
            }
        }
        let at = reader.segment_number();
        if let Some(entry) = reader.entry() {
            copy.entry(at, &entry)?;
            continue;
        }
        let item = match reader.item() {
            Some(Item::Finding(finding)) => Item::Finding(finding),
            Some(Item::Note(note)) => Item::Note(note),
            Some(Item::Entry(_)) | None => continue,
        };
        copy.item(at, &item)?;
        met(Met::Item(&item));
    }
    copy.end()?;
    to.sync_dir().map_err(|error| Error::io("cannot sync", error).at(to.path()))
}

struct Copy<'a> {
    to: &'a Arc<dyn Storage>,
    segments: Vec<SegmentInfo>,
    output: Option<Output>,
    /// The next number; 0 before the first segment.
    next_seq: u64,
    first_seq_kept: u64,
    /// Id of the next segment of the copy.
    next_id: u64,
    /// Whether nothing may be missing behind what was read last.
    is_end_known: bool,
}

/// The segment of the copy that is being written.
struct Output {
    file: Arc<dyn StorageFile>,
    name: String,
    /// Number in the snapshot of the segment that it is a copy of.
    at: usize,
    seed: Seed,
    id: u64,
    batch: Vec<u8>,
    /// Offset of the batch in the segment.
    batch_at: u64,
    sites: HashMap<u32, Arc<CallSite>>,
    threads: HashMap<u32, String>,
    seal: Seal,
    stride: u64,
    /// Where the stretch of the index's last point starts.
    point: IndexPoint,
}

impl Copy<'_> {
    fn entry(&mut self, at: usize, entry: &Entry<'_>) -> Result<()> {
        self.begin_segment(at, entry.seq)?;
        let seq = entry.seq;
        let Some(output) = self.output.as_mut() else { return Ok(()) };
        output.define(entry);
        let offset = output.end();
        let start = begin_frame(&mut output.batch);
        entry.head.encode(&mut output.batch);
        output.batch.extend_from_slice(entry.body);
        finish_frame(&mut output.batch, start, output.seed, offset, FrameKind::Entry, entry.flags, seq);
        output.count(seq, entry.head.time_ns, entry.body.len());
        self.next_seq = seq.saturating_add(1);
        self.is_end_known = true;
        self.write_full_batch()
    }

    fn item(&mut self, at: usize, item: &Item<'static>) -> Result<()> {
        match item {
            Item::Finding(finding) => {
                let is_known = !matches!(finding.loss, Loss::UnknownAfter(_));
                if finding.fault == Fault::Ring {
                    // What it is known to have lost was declared where its entries are.
                    self.is_end_known &= is_known;
                    return Ok(());
                }
                self.is_end_known = is_known;
                let Loss::Seqs(seqs) = finding.loss else { return Ok(()) };
                self.declare(at, seqs, finding.class)
            }
            Item::Note(note) => match &note.kind {
                NoteKind::DeclaredLoss { seqs, class } => self.declare(at, *seqs, *class),
                NoteKind::Dropped { seqs, marker, .. } => {
                    let mut payload = Vec::new();
                    marker.encode(&mut payload);
                    self.numbers(at, *seqs, FrameKind::DropMarker, &payload)
                }
                NoteKind::Retention { seqs, .. } => {
                    self.first_seq_kept = self.first_seq_kept.max(seqs.last.saturating_add(1));
                    Ok(())
                }
                _ => Ok(()),
            },
            Item::Entry(_) => Ok(()),
        }
    }

    fn declare(&mut self, at: usize, seqs: SeqRange, class: LossClass) -> Result<()> {
        let payload = DeclaredLoss { count: seqs.count(), class }.encode(16);
        self.numbers(at, seqs, FrameKind::DeclaredLoss, &payload)
    }

    /// A frame that stands for the numbers `seqs`.
    fn numbers(&mut self, at: usize, seqs: SeqRange, kind: FrameKind, payload: &[u8]) -> Result<()> {
        self.begin_segment(at, seqs.first)?;
        let Some(output) = self.output.as_mut() else { return Ok(()) };
        output.push(kind, 0, seqs.first, payload);
        output.seal.last_seq = seqs.last;
        self.next_seq = seqs.last.saturating_add(1);
        self.write_full_batch()
    }

    /// Sees to it that a segment is open in which number `seq`, found on the way to or in segment number `at`, belongs.
    fn begin_segment(&mut self, at: usize, seq: u64) -> Result<()> {
        let at = at.min(self.segments.len().saturating_sub(1));
        let Some(info) = self.segments.get(at) else { return Ok(()) };
        // What is missing before a segment belongs to the one before it.
        let wanted = |output: &Output| output.at >= at || seq < info.header.first_seq;
        if self.output.as_ref().is_some_and(wanted) {
            return Ok(());
        }
        let info = info.clone();
        let predecessor = self.end_segment(SealReason::Rolled)?;
        let void = info.run_start.filter(|start| start.void_first != 0 && start.void_last < seq);
        let first_seq = match void {
            Some(start) => start.void_last.saturating_add(1),
            None if self.next_seq == 0 => seq,
            None => self.next_seq,
        };
        let id = self.next_id;
        self.next_id = random_id()?;
        let header = SegmentHeader {
            flags: 0,
            segment_id: id,
            index_last: info.header.index,
            generation: 0,
            first_seq,
            first_seq_kept: self.first_seq_kept.min(first_seq),
            predecessor,
            ..info.header.clone()
        };
        let name = header.name().to_string();
        let file = self.to.create(&name);
        let file = file.map_err(|error| Error::io("cannot create", error).at(self.to.path().join(&name)))?;
        let first = HEADER_BYTES as u64;
        let mut output = Output {
            file,
            name,
            at,
            seed: Seed::new(id),
            id,
            batch: header.encode().to_vec(),
            batch_at: 0,
            sites: HashMap::new(),
            threads: HashMap::new(),
            seal: Seal {
                reason: SealReason::Repaired,
                entries: 0,
                body_bytes: 0,
                last_seq: first_seq.saturating_sub(1),
                time_min_ns: i64::MAX,
                time_max_ns: i64::MIN,
                successor_id: 0,
                definitions: Vec::new(),
                points: Vec::new(),
            },
            stride: STRIDE_BYTES,
            point: IndexPoint { offset: first, seq: first_seq, time_min_ns: i64::MAX, time_max_ns: i64::MIN },
        };
        if let Some(start) = info.run_start {
            let mut payload = Vec::new();
            start.encode(&mut payload);
            output.push(FrameKind::RunStart, 0, first_seq, &payload);
        }
        self.output = Some(output);
        Ok(())
    }

    /// Seals the segment that is open. Returns what the next one says of it.
    fn end_segment(&mut self, reason: SealReason) -> Result<Option<Predecessor>> {
        let Some(mut output) = self.output.take() else { return Ok(None) };
        output.end_point(0);
        let accepted_end = output.end();
        let mut seal = output.seal.clone();
        if seal.definitions.len() > SEAL_DEFINITIONS_MAX {
            seal.definitions.clear();
        }
        (seal.reason, seal.successor_id) = (reason, if reason == SealReason::Rolled { self.next_id } else { 0 });
        let mut payload = Vec::new();
        seal.encode(accepted_end, &mut payload);
        output.push(FrameKind::Seal, 0, seal.last_seq.saturating_add(1), &payload);
        self.output = Some(output);
        self.write_batch()?;
        let Some(output) = self.output.take() else { return Ok(None) };
        let failed = |error| Error::io("cannot sync", error).at(self.to.path().join(&output.name));
        output.file.sync().map_err(failed)?;
        Ok(Some(Predecessor { segment_id: output.id, last_seq: seal.last_seq, accepted_end }))
    }

    /// Seals the last segment, and records that it is the last, if the log told that.
    fn end(&mut self) -> Result<()> {
        let Some(last) = self.output.as_ref().map(|output| self.segments[output.at].header.clone()) else {
            return Ok(());
        };
        let Some(sealed) = self.end_segment(SealReason::Repaired)?.filter(|_| self.is_end_known) else { return Ok(()) };
        let state = WriterState {
            log_id: last.log_id,
            run_id: last.run_id,
            boot_id: self.to.boot_id(),
            newest_seq: sealed.last_seq,
            segment_id: sealed.segment_id,
            upto: sealed.accepted_end,
            first_seq_kept: self.first_seq_kept,
            is_closed: true,
        };
        let lock = take_lock(&**self.to)?;
        let failed = |error| Error::io("cannot write", error).at(self.to.path().join(LOCK_NAME));
        write_record(&*lock, &state).and_then(|()| lock.sync()).map_err(failed)
    }

    fn write_full_batch(&mut self) -> Result<()> {
        match &self.output {
            Some(output) if output.batch.len() >= BATCH_BYTES => self.write_batch(),
            _ => Ok(()),
        }
    }

    fn write_batch(&mut self) -> Result<()> {
        let Some(output) = self.output.as_mut() else { return Ok(()) };
        let (_, error) = write_all(&*output.file, &output.batch, output.batch_at);
        if let Some(error) = error {
            return Err(Error::io("cannot write", error).at(self.to.path().join(&output.name)));
        }
        output.batch_at += output.batch.len() as u64;
        output.batch.clear();
        Ok(())
    }
}

impl Output {
    /// Offset of what is appended next.
    fn end(&self) -> u64 {
        self.batch_at + self.batch.len() as u64
    }

    fn push(&mut self, kind: FrameKind, flags: u8, seq: u64, payload: &[u8]) {
        let offset = self.end();
        push_frame(&mut self.batch, self.seed, offset, kind, flags, seq, payload);
    }

    /// Writes the definitions that `entry` needs and this segment does not have yet.
    fn define(&mut self, entry: &Entry<'_>) {
        let id = entry.head.site;
        if let Some(site) = entry.site
            && self.sites.get(&id).is_none_or(|known| !Arc::ptr_eq(known, site) && known != site)
        {
            let mut payload = Vec::new();
            site.encode(id, &mut payload);
            self.push_definition(FrameKind::CallSite, entry.seq, &payload);
            self.sites.insert(id, Arc::clone(site));
        }
        let tid = entry.head.tid;
        if let Some(name) = entry.thread
            && self.threads.get(&tid).is_none_or(|known| known != name)
        {
            let mut payload = Vec::new();
            encode_thread(tid, name, &mut payload);
            self.push_definition(FrameKind::Thread, entry.seq, &payload);
            self.threads.insert(tid, name.to_owned());
        }
    }

    fn push_definition(&mut self, kind: FrameKind, seq: u64, payload: &[u8]) {
        let offset = self.end();
        self.seal.definitions.push(offset);
        self.push(kind, 0, seq, payload);
    }

    /// Counts the entry that ends the batch, and ends a stretch of the index where it is long enough.
    fn count(&mut self, seq: u64, time_ns: i64, body_len: usize) {
        let seal = &mut self.seal;
        seal.entries += 1;
        seal.body_bytes += body_len as u64;
        seal.last_seq = seq;
        (seal.time_min_ns, seal.time_max_ns) = (seal.time_min_ns.min(time_ns), seal.time_max_ns.max(time_ns));
        let point = &mut self.point;
        (point.time_min_ns, point.time_max_ns) = (point.time_min_ns.min(time_ns), point.time_max_ns.max(time_ns));
        if self.end() - self.point.offset >= self.stride {
            self.end_point(seq.saturating_add(1));
        }
    }

    /// Ends the stretch; the next one starts here with number `seq`.
    fn end_point(&mut self, seq: u64) {
        if self.point.time_min_ns > self.point.time_max_ns {
            // No entry in it.
            return;
        }
        let points = &mut self.seal.points;
        points.push(self.point);
        if points.len() == INDEX_POINTS_MAX {
            let pairs = points.chunks(2).map(|pair| IndexPoint {
                time_min_ns: pair.iter().map(|point| point.time_min_ns).min().unwrap_or(i64::MIN),
                time_max_ns: pair.iter().map(|point| point.time_max_ns).max().unwrap_or(i64::MAX),
                ..pair[0]
            });
            self.seal.points = pairs.collect();
            self.stride *= 2;
        }
        self.point = IndexPoint { offset: self.end(), seq, time_min_ns: i64::MAX, time_max_ns: i64::MIN };
    }
}
