//! What `stat` tells of a log without reading it: headers, seals, and the last stretch of a segment without one.

use crate::block::BlockHeader;
use crate::control::{Seal, SyncMark};
use crate::error::Result;
use crate::finding::{Fault, SeqRange};
use crate::format::{FrameKind, HEADER_BYTES};
use crate::scan::Found;
use crate::segment::SegmentName;
use crate::snapshot::Snapshot;
use crate::storage::StorageEntry;

/// How much of the end of an unsealed segment is looked at.
const TAIL_BYTES: u64 = 1 << 20;

/// How many frames are looked at to see whether a segment is compressed.
const LOOK_FRAMES: usize = 64;

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Ended cleanly.
    Sealed,
    /// Being written.
    Active,
    /// Not a file: its entries are in the rings of a run that was killed, and are read as this segment.
    InRings,
    /// Without its seal, and not being written.
    Unsealed,
    /// Made by `repair` to stand where a segment is missing.
    Placeholder,
    /// Only begun: a crash while it was being made; it never held an entry.
    Begun,
    /// Not readable as a segment.
    Unreadable,
}

impl SegmentState {
    /// For people and for JSON: `sealed`.
    pub fn as_str(self) -> &'static str {
        match self {
            SegmentState::Sealed => "sealed",
            SegmentState::Active => "active",
            SegmentState::InRings => "in rings",
            SegmentState::Unsealed => "unsealed",
            SegmentState::Placeholder => "placeholder",
            SegmentState::Begun => "begun",
            SegmentState::Unreadable => "unreadable",
        }
    }
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentStat {
    /// File name.
    pub name: String,
    /// What it is.
    pub state: SegmentState,
    /// Length of the file.
    pub bytes: u64,
    /// When it was opened, nanoseconds since 1970 UTC.
    pub opened_ns: Option<i64>,
    /// The numbers that it holds; `None` for none, or where nothing tells.
    pub seqs: Option<SeqRange>,
    /// Entries, where a seal tells.
    pub entries: Option<u64>,
    /// Bytes of their text with a newline each, where a seal tells.
    pub text_bytes: Option<u64>,
    /// Whether its entries are in compressed blocks; `None` if none was seen.
    pub is_compressed: Option<bool>,
}

/// A log at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStat {
    /// Segments in order, unreadable ones among them.
    pub segments: Vec<SegmentStat>,
    /// Ring files: names and lengths.
    pub rings: Vec<StorageEntry>,
    /// Files in `quarantine/`.
    pub quarantine_files: u64,
    /// Their bytes.
    pub quarantine_bytes: u64,
    /// The newest number that is known.
    pub last_seq: u64,
    /// The newest number that the log says was on stable storage; it lags by one sync.
    pub synced_upto: u64,
}

/// What the end of a segment tells.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    last_seq: u64,
    synced_upto: u64,
}

impl LogStat {
    /// Looks at the log in `snapshot`.
    ///
    /// # Errors
    /// Where a file or the directory can't be read.
    pub fn take(snapshot: &Snapshot) -> Result<LogStat> {
        let mut stat = LogStat {
            segments: Vec::new(),
            rings: Vec::new(),
            quarantine_files: 0,
            quarantine_bytes: 0,
            last_seq: snapshot.state.map_or(0, |state| state.newest_seq),
            synced_upto: 0,
        };
        for at in 0..snapshot.segments.len() {
            match stat.segment(snapshot, at) {
                Ok(segment) => stat.segments.push(segment),
                // Retention has removed it meanwhile.
                Err(error) if error.is_not_found() && snapshot.is_live() => {}
                Err(error) => return Err(error),
            }
        }
        for bad in &snapshot.unreadable {
            let state = if bad.fault.is_some() { SegmentState::Unreadable } else { SegmentState::Begun };
            stat.segments.push(SegmentStat::unknown(&bad.name, state, bad.bytes));
        }
        for unopened in &snapshot.unopened {
            stat.segments.push(SegmentStat::unknown(&unopened.name, SegmentState::Unreadable, 0));
        }
        let not_files = snapshot.findings.iter().filter(|finding| finding.fault == Fault::NotAFile);
        for place in not_files.filter_map(|finding| finding.place.as_ref()) {
            stat.segments.push(SegmentStat::unknown(&place.segment, SegmentState::Unreadable, 0));
        }
        stat.segments.sort_by_key(|segment| SegmentName::parse(&segment.name).map_or(0, |name| name.index()));
        if !snapshot.is_single_file {
            stat.look_around(snapshot)?;
        }
        Ok(stat)
    }

    fn segment(&mut self, snapshot: &Snapshot, at: usize) -> Result<SegmentStat> {
        let info = &snapshot.segments[at];
        let seal = snapshot.seal(at)?.map(|(_, seal)| seal);
        let is_last = at + 1 == snapshot.segments.len();
        let state = match &seal {
            _ if info.header.is_placeholder() => SegmentState::Placeholder,
            Some(_) if snapshot.is_from_ring(&info.name) => SegmentState::InRings,
            Some(_) => SegmentState::Sealed,
            None if is_last && snapshot.is_live() => SegmentState::Active,
            None => SegmentState::Unsealed,
        };
        let next = snapshot.segments.get(at + 1).and_then(|next| next.header.predecessor);
        let known = next.filter(|known| known.segment_id == info.header.segment_id).map(|known| known.last_seq);
        let tail = if seal.is_none() && (is_last || known.is_none()) { tail(snapshot, at)? } else { Tail::default() };
        let last_seq = seal.as_ref().map(|seal| seal.last_seq).or(known).unwrap_or(tail.last_seq);
        self.last_seq = self.last_seq.max(last_seq);
        self.synced_upto = self.synced_upto.max(info.header.synced_upto).max(tail.synced_upto);
        Ok(SegmentStat {
            name: info.name.clone(),
            state,
            bytes: info.bytes,
            opened_ns: info.rebuilt.is_none().then_some(info.header.opened_ns),
            seqs: SeqRange::new(info.header.first_seq.max(1), last_seq),
            entries: seal.as_ref().map(|seal| seal.entries),
            text_bytes: seal.as_ref().map(Seal::text_bytes),
            is_compressed: is_compressed(snapshot, at)?,
        })
    }

    /// Rings and quarantine.
    fn look_around(&mut self, snapshot: &Snapshot) -> Result<()> {
        let storage = snapshot.storage();
        let failed = |error| crate::error::Error::io("cannot list", error).at(storage.path());
        let is_ring = |entry: &StorageEntry| entry.name.ends_with(".ring") && entry.is_file;
        self.rings = storage.list().map_err(failed)?.into_iter().filter(is_ring).collect();
        let quarantined = storage.list_quarantine().map_err(failed)?;
        self.quarantine_files = quarantined.len() as u64;
        self.quarantine_bytes = quarantined.iter().map(|entry| entry.bytes).sum();
        Ok(())
    }
}

impl SegmentStat {
    fn unknown(name: &str, state: SegmentState, bytes: u64) -> SegmentStat {
        SegmentStat {
            name: name.to_owned(),
            state,
            bytes,
            opened_ns: None,
            seqs: None,
            entries: None,
            text_bytes: None,
            is_compressed: None,
        }
    }
}

impl Seal {
    /// Bytes of the segment's text: of all bodies, with one for each line's end.
    pub fn text_bytes(&self) -> u64 {
        self.body_bytes.saturating_add(self.entries)
    }
}

/// The last number, and the last sync, that the end of segment number `at` tells.
fn tail(snapshot: &Snapshot, at: usize) -> Result<Tail> {
    let info = &snapshot.segments[at];
    let mut scan = snapshot.scan(at)?;
    scan.seek_frame(info.bytes.saturating_sub(TAIL_BYTES).max(HEADER_BYTES as u64))?;
    let mut tail = Tail { last_seq: info.header.first_seq.saturating_sub(1), synced_upto: 0 };
    while let Some(found) = scan.next_found()? {
        let Found::Frame { header, .. } = found else { continue };
        let used = match FrameKind::from_u8(header.kind) {
            Some(FrameKind::Entry) => 1,
            Some(FrameKind::Block) => BlockHeader::decode(scan.payload()).map_or(1, |(block, _)| {
                tail.synced_upto = tail.synced_upto.max(header.seq.saturating_sub(block.synced_lag));
                block.count
            }),
            Some(FrameKind::SyncMark) => {
                let mark = SyncMark::decode(scan.payload());
                tail.synced_upto = tail.synced_upto.max(mark.map_or(0, |mark| mark.synced_upto));
                0
            }
            _ => 0,
        };
        tail.last_seq = tail.last_seq.max(header.seq.saturating_add(used).saturating_sub(1));
    }
    Ok(tail)
}

/// Whether the first entries of segment number `at` are in compressed blocks.
fn is_compressed(snapshot: &Snapshot, at: usize) -> Result<Option<bool>> {
    let mut scan = snapshot.scan(at)?;
    let mut seen = None;
    for _ in 0..LOOK_FRAMES {
        match scan.next_found()? {
            Some(Found::Frame { header, .. }) if header.kind == FrameKind::Block as u8 => return Ok(Some(true)),
            // A compressed log has plain entries too: a single one does not get smaller.
            Some(Found::Frame { header, .. }) if header.kind == FrameKind::Entry as u8 => seen = Some(false),
            Some(Found::Frame { .. }) => {}
            Some(Found::Hole(_) | Found::Tail { .. }) | None => break,
        }
    }
    Ok(seen)
}
