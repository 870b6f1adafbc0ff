//! What a log directory holds at one moment: its segments in order, what their headers say of each other, and what
//! evidence there is of its end.
//!
//! A snapshot opens nothing for long and takes no lock, so that it can be taken of a live log.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::control::{LossClass, RunStart};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Fault, Finding, Loss, Note, NoteKind, Place, SeqRange};
use crate::format::{FrameKind, HEADER_BYTES, HEADER_COPY_BYTES};
use crate::scan::{Found, FrameScan};
use crate::segment::{HeaderFault, SegmentHeader, SegmentName};
use crate::state::{WriterState, read_state, writer_pid};
use crate::storage::{ReadAt, Storage, StorageFile};
use crate::walk::{Ending, Item, SegmentWalk};

/// A segment that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// File name.
    pub name: String,
    /// Length of the file when the snapshot was taken.
    pub bytes: u64,
    /// Its header.
    pub header: SegmentHeader,
    /// Which copy of the header, 0 or 1, is damaged.
    pub copy_fault: Option<u8>,
    /// Set where both copies are damaged and the id is known from the next segment; only the id and the index are then right.
    pub rebuilt: Option<HeaderFault>,
    /// The run that starts with this segment.
    pub run_start: Option<RunStart>,
}

/// A file with a segment's name that can't be read as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableSegment {
    /// File name.
    pub name: String,
    /// Length of the file.
    pub bytes: u64,
    /// Index that the name tells.
    pub index: u64,
    /// Why it can't be read; `None` for a segment that was never more than begun: short, or all zeros.
    pub fault: Option<Fault>,
}

/// A log at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    storage: Arc<dyn Storage>,
    /// Segments in order.
    pub segments: Vec<SegmentInfo>,
    /// Files that can't be read as segments, by index.
    pub unreadable: Vec<UnreadableSegment>,
    /// What the last writer recorded.
    pub state: Option<WriterState>,
    /// The process that writes the log now.
    pub writer_pid: Option<u32>,
    /// The log's id.
    pub log_id: u64,
    /// First number that retention has kept, as far as the headers tell; 1 if nothing was removed.
    pub first_seq_kept: u64,
    /// What was found while the snapshot was taken.
    pub findings: Vec<Finding>,
    /// Whether this is a file by itself, without its log.
    pub is_single_file: bool,
}

/// What the start of a file is.
enum Start {
    Header { header: SegmentHeader, copy_fault: Option<u8>, run_start: Option<RunStart> },
    Begun,
    Bad(HeaderFault),
}

impl Snapshot {
    /// Takes a snapshot of the log in `storage`.
    ///
    /// # Errors
    /// `NotALog` where there are neither segments nor a writer's record; `Io` where the directory can't be read.
    pub fn take(storage: Arc<dyn Storage>) -> Result<Snapshot> {
        let failed = |error| Error::io("cannot read the log", error).at(storage.path());
        // The record first: what it tells is then in the segments that are looked at after it.
        let state = read_state(storage.as_ref()).map_err(failed)?;
        let writer_pid = writer_pid(storage.as_ref()).map_err(failed)?;
        let names = storage.list().map_err(failed)?;
        let names: Vec<(String, SegmentName, bool)> = names
            .into_iter()
            .filter_map(|entry| SegmentName::parse(&entry.name).map(|name| (entry.name, name, entry.is_file)))
            .collect();
        if names.is_empty() && state.is_none() && writer_pid.is_none() {
            return Err(Error::new(ErrorKind::NotALog, "no logtool log: it holds no segment").at(storage.path()));
        }
        let mut snapshot = Snapshot::empty(storage, state, writer_pid, false);
        for (name, parsed, is_file) in names {
            snapshot.add(&name, parsed.index(), is_file)?;
        }
        snapshot.arrange();
        Ok(snapshot)
    }

    /// Takes a snapshot of one segment file by itself: what stands around it is not looked at.
    ///
    /// # Errors
    /// `NotALog` where the file is no segment, `Version` where it is of another format version, `Io` where it can't be read.
    pub fn take_file(storage: Arc<dyn Storage>, name: &str) -> Result<Snapshot> {
        let mut snapshot = Snapshot::empty(storage, None, None, true);
        snapshot.add(name, 0, true)?;
        if let Some(bad) = snapshot.unreadable.pop() {
            let (kind, text) = match bad.fault {
                Some(Fault::Version(version)) => (
                    ErrorKind::Version,
                    format!("written in format version {version}; this logtool reads version 1: use a newer one"),
                ),
                Some(Fault::Unreadable(HeaderFault::Checksum)) => (
                    ErrorKind::Damaged,
                    "both copies of the segment header are damaged: verify the whole log directory instead".into(),
                ),
                _ => (ErrorKind::NotALog, "no logtool segment".into()),
            };
            return Err(Error::new(kind, text).at(snapshot.storage.path().join(name)));
        }
        snapshot.arrange();
        Ok(snapshot)
    }

    fn empty(
        storage: Arc<dyn Storage>,
        state: Option<WriterState>,
        writer_pid: Option<u32>,
        is_single_file: bool,
    ) -> Snapshot {
        Snapshot {
            storage,
            segments: Vec::new(),
            unreadable: Vec::new(),
            state,
            writer_pid,
            log_id: 0,
            first_seq_kept: 1,
            findings: Vec::new(),
            is_single_file,
        }
    }

    /// The directory.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Whether a writer holds the log.
    pub fn is_live(&self) -> bool {
        self.writer_pid.is_some()
    }

    /// Opens segment number `at` of this snapshot.
    ///
    /// # Errors
    /// `Io`; its source is `NotFound` where retention has removed the file meanwhile.
    pub fn open(&self, at: usize) -> Result<Arc<dyn StorageFile>> {
        let name = &self.segments[at].name;
        self.storage.open(name).map_err(|error| Error::io("cannot open", error).at(self.storage.path().join(name)))
    }

    /// A walk through segment number `at`.
    ///
    /// # Errors
    /// As [`open`](Snapshot::open).
    pub fn walk(&self, at: usize) -> Result<SegmentWalk<Arc<dyn StorageFile>>> {
        let info = &self.segments[at];
        Ok(SegmentWalk::new(self.open(at)?, &info.name, &info.header, info.bytes, self.ending(at)))
    }

    /// What is known of the end of segment number `at`.
    pub fn ending(&self, at: usize) -> Ending {
        self.ending_of(&self.segments[at], self.segments.get(at + 1))
    }

    /// What is known of the end of a segment that is followed by `next`.
    pub(crate) fn ending_of(&self, info: &SegmentInfo, next: Option<&SegmentInfo>) -> Ending {
        if self.is_single_file {
            return Ending::Alone;
        }
        if let Some(next) = next {
            let known = next.header.predecessor.filter(|known| known.segment_id == info.header.segment_id);
            return known.map_or(Ending::Unlinked, Ending::Followed);
        }
        if self.is_live() {
            return Ending::Live;
        }
        if self.trailing(Some(info)).any(|segment| segment.fault.is_some()) {
            return Ending::Unlinked;
        }
        let power_cut = info.header.boot_id != self.storage.boot_id();
        match &self.state {
            Some(state) => Ending::Newest { upto: Some(state.newest_seq), closed: state.is_closed, power_cut },
            None => Ending::Newest { upto: None, closed: false, power_cut },
        }
    }

    /// Files behind the last segment that can't be read as segments.
    fn trailing(&self, last: Option<&SegmentInfo>) -> impl Iterator<Item = &UnreadableSegment> {
        let last = last.map_or(0, |segment| segment.header.index_last);
        self.unreadable.iter().filter(move |segment| segment.index > last)
    }

    /// What there is to say before segment number `at`, if the one before it accounts for numbers up to `last_seq`.
    pub fn link(&self, at: usize, last_seq: Option<u64>) -> Vec<Item<'static>> {
        let before = at.checked_sub(1).and_then(|before| self.segments.get(before));
        self.link_from(before, &self.segments[at], last_seq)
    }

    /// What there is to say before `info`, if `before` stands before it and accounts for numbers up to `last_seq`.
    pub(crate) fn link_from(
        &self,
        before: Option<&SegmentInfo>,
        info: &SegmentInfo,
        last_seq: Option<u64>,
    ) -> Vec<Item<'static>> {
        let mut items = Vec::new();
        if let Some(copy) = info.copy_fault {
            let offset = u64::from(copy) * HEADER_COPY_BYTES as u64;
            items.push(self.finding_at(Fault::HeaderCopy(copy), info, offset, HEADER_COPY_BYTES as u64));
        }
        if let Some(fault) = info.rebuilt {
            items.push(self.finding_at(Fault::SegmentHeader(fault), info, 0, HEADER_BYTES as u64));
        }
        if info.header.first_seq == 0 || self.is_single_file {
            return items;
        }
        match (before, last_seq) {
            (Some(before), Some(last_seq)) => self.link_to_last(before, info, last_seq, &mut items),
            (None, Some(last_seq)) => {
                self.between(0, info, last_seq, &mut items);
            }
            (_, None) => self.link_to_nothing(info, &mut items),
        }
        items
    }

    /// The first segment of the log that is there.
    fn link_to_nothing(&self, info: &SegmentInfo, items: &mut Vec<Item<'static>>) {
        let first_seq = info.header.first_seq;
        let removed_upto = self.first_seq_kept.min(first_seq) - 1;
        if let Some(seqs) = SeqRange::new(1, removed_upto) {
            items.push(Item::Note(Note { kind: NoteKind::Retention { seqs, rule: None }, place: None }));
        }
        self.between(0, info, removed_upto, items);
    }

    fn link_to_last(&self, before: &SegmentInfo, info: &SegmentInfo, last_seq: u64, items: &mut Vec<Item<'static>>) {
        let linked = info.header.predecessor.is_some_and(|known| known.segment_id == before.header.segment_id);
        let excused = linked || before.header.is_placeholder() || before.rebuilt.is_some();
        let gap = self.between(before.header.index_last, info, last_seq, items);
        if !excused && !gap {
            let fault = if info.header.log_id == before.header.log_id { Fault::MissingSegment } else { Fault::Foreign };
            let finding = Finding::new(fault, Loss::Nothing, LossClass::MissingSegment);
            items.push(Item::Finding(finding.at(&info.name, 0, 0)));
        }
    }

    /// Tells what became of the numbers from `last_seq` to the first of `info`, and of unreadable files between. Returns
    /// whether there is a gap that is a finding.
    fn between(&self, index_before: u64, info: &SegmentInfo, last_seq: u64, items: &mut Vec<Item<'static>>) -> bool {
        let mut last_seq = last_seq;
        let next_seq = info.header.first_seq;
        let void = info.run_start.filter(|start| start.void_first != 0 && start.void_last.wrapping_add(1) == next_seq);
        let gap_last = void.map_or(next_seq, |start| start.void_first) - 1;
        let inside = |segment: &&UnreadableSegment| segment.index > index_before && segment.index < info.header.index;
        for segment in self.unreadable.iter().filter(inside) {
            let lost = SeqRange::new(last_seq + 1, gap_last).filter(|_| segment.bytes > 0);
            last_seq = if lost.is_some() { gap_last } else { last_seq };
            items.push(unreadable_item(segment, lost.map_or(Loss::Nothing, Loss::Seqs)));
        }
        let gap = SeqRange::new(last_seq + 1, gap_last);
        if let Some(seqs) = gap {
            let finding = Finding::new(Fault::MissingSegment, Loss::Seqs(seqs), LossClass::MissingSegment);
            items.push(Item::Finding(finding.at(&info.name, 0, 0)));
        }
        if let Some(start) = void
            && let Some(seqs) = SeqRange::new(start.void_first.max(last_seq + 1), start.void_last)
        {
            items.push(Item::Note(Note { kind: NoteKind::Void { seqs }, place: None }));
        }
        gap.is_some()
    }

    /// What there is to say behind the last segment, which accounts for numbers up to `last_seq`.
    pub fn link_end(&self, last_seq: u64) -> Vec<Item<'static>> {
        self.link_end_from(self.segments.last(), last_seq)
    }

    /// What there is to say behind the log's last segment `last`, which accounts for numbers up to `last_seq`.
    pub(crate) fn link_end_from(&self, last: Option<&SegmentInfo>, last_seq: u64) -> Vec<Item<'static>> {
        if self.is_single_file || self.is_live() {
            return Vec::new();
        }
        let upto = self.state.map(|state| state.newest_seq);
        let lost = upto.map_or(Loss::UnknownAfter(last_seq), |upto| {
            SeqRange::new(last_seq + 1, upto).map_or(Loss::Nothing, Loss::Seqs)
        });
        // The last segment's own walk has used the record, unless something unreadable follows.
        let damaged = last.is_none() || self.trailing(last).any(|segment| segment.fault.is_some());
        let mut items: Vec<Item<'static>> = Vec::new();
        let mut loss = if damaged { lost } else { Loss::Nothing };
        for segment in self.trailing(last) {
            let costs =
                if segment.fault.is_some() { std::mem::replace(&mut loss, Loss::Nothing) } else { Loss::Nothing };
            items.push(unreadable_item(segment, costs));
        }
        if loss != Loss::Nothing {
            items.push(Item::Finding(Finding::new(Fault::MissingNewest, loss, LossClass::MissingSegment)));
        } else if !damaged && self.newest_is_missing(last) {
            items.push(Item::Finding(Finding::new(Fault::MissingNewest, Loss::Nothing, LossClass::MissingSegment)));
        }
        items
    }

    /// Whether the writer's record names an active segment that is not here although nothing was numbered in it.
    fn newest_is_missing(&self, last: Option<&SegmentInfo>) -> bool {
        let Some(state) = &self.state else { return false };
        let newest = last.is_some_and(|segment| segment.header.run_id == state.run_id);
        let there = self.segments.iter().chain(last).any(|segment| segment.header.segment_id == state.segment_id);
        !there && !newest && self.unreadable.is_empty()
    }

    fn finding_at(&self, fault: Fault, info: &SegmentInfo, offset: u64, len: u64) -> Item<'static> {
        Item::Finding(Finding::new(fault, Loss::Nothing, LossClass::Corruption).at(&info.name, offset, len))
    }

    /// Looks at one file.
    fn add(&mut self, name: &str, index: u64, is_file: bool) -> Result<()> {
        if !is_file {
            let finding = Finding::new(Fault::NotAFile, Loss::Nothing, LossClass::Unknown);
            self.findings.push(finding.at(name, 0, 0));
            return Ok(());
        }
        let path = self.storage.path().join(name);
        let file = match self.storage.open(name) {
            Ok(file) => file,
            // Retention was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_single_file => return Ok(()),
            Err(error) => return Err(Error::io("cannot open", error).at(path)),
        };
        let failed = |error| Error::io("cannot read", error).at(&path);
        let bytes = file.len().map_err(failed)?;
        match read_start(file.as_ref(), bytes).map_err(failed)? {
            Start::Header { header, copy_fault, run_start } => {
                let name = name.to_owned();
                self.segments.push(SegmentInfo { name, bytes, header, copy_fault, rebuilt: None, run_start });
            }
            Start::Begun => {
                self.unreadable.push(UnreadableSegment { name: name.to_owned(), bytes, index, fault: None });
            }
            Start::Bad(fault) => {
                let fault = match fault {
                    HeaderFault::Version(version) => Fault::Version(version),
                    fault => Fault::Unreadable(fault),
                };
                self.unreadable.push(UnreadableSegment { name: name.to_owned(), bytes, index, fault: Some(fault) });
            }
        }
        Ok(())
    }

    /// Puts the segments in order and sorts out what does not belong.
    fn arrange(&mut self) {
        self.segments.sort_by_key(|segment| (segment.header.index, segment.header.generation));
        self.log_id = self.most_common_log();
        let (log_id, mut seen) = (self.log_id, HashMap::new());
        let mut sorted_out = Vec::new();
        self.segments.retain(|segment| {
            let fault = if segment.header.log_id != log_id {
                Fault::Foreign
            } else if seen.insert(segment.header.segment_id, ()).is_some() {
                Fault::Duplicate
            } else {
                return true;
            };
            let finding = Finding::new(fault, Loss::Nothing, LossClass::Unknown);
            sorted_out.push(finding.at(&segment.name, 0, segment.bytes));
            false
        });
        self.findings.append(&mut sorted_out);
        self.rebuild_headers();
        self.first_seq_kept =
            self.segments.iter().map(|segment| segment.header.first_seq_kept).max().unwrap_or(1).max(1);
    }

    fn most_common_log(&self) -> u64 {
        if let Some(state) = &self.state {
            return state.log_id;
        }
        let mut counts: HashMap<u64, usize> = HashMap::new();
        self.segments.iter().for_each(|segment| *counts.entry(segment.header.log_id).or_default() += 1);
        // Of equals the one of the newest segment.
        let newest = self.segments.last().map_or(0, |segment| segment.header.log_id);
        counts.into_iter().max_by_key(|&(log_id, count)| (count, log_id == newest)).map_or(0, |(log_id, _)| log_id)
    }

    /// A segment whose header is lost can still be read if the next one tells its id.
    fn rebuild_headers(&mut self) {
        let mut rebuilt = Vec::new();
        self.unreadable.retain(|bad| {
            let Some(Fault::Unreadable(fault)) = bad.fault else { return true };
            let next = self.segments.iter().find(|segment| segment.header.index > bad.index);
            let known = next.and_then(|next| next.header.predecessor.map(|known| (next, known)));
            let unclaimed = known
                .filter(|(_, known)| self.segments.iter().all(|segment| segment.header.segment_id != known.segment_id));
            let Some((next, known)) = unclaimed else { return true };
            let header = SegmentHeader {
                flags: 0,
                segment_id: known.segment_id,
                index: bad.index,
                index_last: bad.index,
                generation: 0,
                first_seq: 0,
                synced_upto: 0,
                first_seq_kept: 1,
                predecessor: None,
                ..next.header.clone()
            };
            rebuilt.push(SegmentInfo {
                name: bad.name.clone(),
                bytes: bad.bytes,
                header,
                copy_fault: None,
                rebuilt: Some(fault),
                run_start: None,
            });
            false
        });
        self.segments.append(&mut rebuilt);
        self.segments.sort_by_key(|segment| (segment.header.index, segment.header.generation));
    }
}

fn unreadable_item(segment: &UnreadableSegment, loss: Loss) -> Item<'static> {
    let place = Place { segment: segment.name.clone(), offset: 0, len: segment.bytes };
    match segment.fault {
        None if loss == Loss::Nothing => Item::Note(Note { kind: NoteKind::Unborn, place: Some(place) }),
        fault => {
            let fault = fault.unwrap_or(Fault::ShortSegment);
            Item::Finding(Finding::new(fault, loss, LossClass::Corruption).at(&place.segment, 0, place.len))
        }
    }
}

/// Reads header and first frame.
fn read_start(file: &dyn StorageFile, bytes: u64) -> io::Result<Start> {
    let mut start = [0u8; HEADER_BYTES];
    let len = file.read_full_at(&mut start, 0)?;
    let copies = [start.first_chunk::<HEADER_COPY_BYTES>(), start.last_chunk::<HEADER_COPY_BYTES>()];
    let [first, second] = copies.map(|copy| copy.map_or(Err(HeaderFault::Magic), SegmentHeader::decode));
    let (header, copy_fault) = match (first, second) {
        (Ok(header), Ok(_)) => (header, None),
        // A file that was cut within the header is short, which is told elsewhere.
        (Ok(header), Err(_)) => (header, (len == HEADER_BYTES).then_some(1)),
        (Err(_), Ok(header)) => (header, Some(0)),
        (Err(first), Err(second)) => {
            let begun = bytes < HEADER_BYTES as u64 || is_all_zeros(file, bytes)?;
            let fault = if first == HeaderFault::Magic { second } else { first };
            return Ok(if begun { Start::Begun } else { Start::Bad(fault) });
        }
    };
    let mut scan =
        FrameScan::new(file, header.segment_id, HEADER_BYTES as u64, bytes.min(HEADER_BYTES as u64 + 4096), 0);
    let first = scan.next_found().map_err(io::Error::other)?;
    let run_start = match first {
        Some(Found::Frame { header, .. }) if header.kind == FrameKind::RunStart as u8 => {
            RunStart::decode(scan.payload())
        }
        _ => None,
    };
    Ok(Start::Header { header, copy_fault, run_start })
}

fn is_all_zeros(file: &dyn StorageFile, bytes: u64) -> io::Result<bool> {
    let mut buffer = vec![0u8; 64 << 10];
    let mut at = 0;
    while at < bytes {
        let len = file.read_full_at(&mut buffer, at)?;
        if len == 0 || buffer[..len].iter().any(|&byte| byte != 0) {
            return Ok(len == 0);
        }
        at += len as u64;
    }
    Ok(true)
}
