//! What the runs before have left of a log, and how the next one starts.
//!
//! What the writer finds decides the next number, the next index and how the run-start frame says that the last run ended:
//!
//! | newest segment | evidence of more | next seq | next index | last end |
//! |---|---|---|---|---|
//! | none | none | 1 | 1 | first |
//! | sealed by close | none | last + 1 | last + 1 | closed |
//! | not sealed, same boot | none | last + 1 | last + 1 | killed |
//! | not sealed, other boot | any | last + 1 + 2^32, the range between is void | last + 1 | other boot |
//! | any | no record | last + 1 + 2^32, the range between is void | last + 2 | damaged |
//! | not closed, same boot | the run kept rings, and they are missing or damaged | last + 1 + 2^32, the range between is void | last + 2 | damaged |
//! | holds what rings held | none | last + 1 | last + 1 | as its run start says |
//! | any, same boot or closed | the record tells seq N | N + 1 | last + 2 | damaged |
//! | names a successor that is missing, or can't be read, or is not the record's | none of the seq | last + 1 + 2^32, void between | last + 2 | damaged |
//!
//! The index that is left out is where `repair` puts a segment that declares the loss.

use std::path::Path;
use std::sync::Arc;

use crate::active::seqs_used;
use crate::control::{RunEnd, Seal, SealReason, SyncMark};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{FrameKind, HEADER_BYTES, SEGMENT_RECOVERED, SEGMENT_WITH_RINGS, VOID_SEQS};
use crate::scan::{Found, FrameScan, read_seal};
use crate::segment::{HeaderFault, Predecessor, SegmentHeader, SegmentName};
use crate::snapshot::{Snapshot, read_first};
use crate::state::{LOCK_NAME, WriterState, read_state};
use crate::storage::{Storage, StorageFile};
use crate::sync::UnsyncedSegment;

/// A writer opens no log that has come this far: what remains would do for a million runs and void ranges.
pub(crate) const SEQ_MAX: u64 = u64::MAX - (VOID_SEQS << 20);

/// The newest segment that can be read.
#[derive(Debug)]
struct Newest {
    header: SegmentHeader,
    /// Last sequence number found in it, or told by its header.
    last_seq: u64,
    /// End of its last valid frame before a seal.
    accepted_end: u64,
    seal: Option<Seal>,
    /// The last sync mark.
    synced_upto: u64,
    /// How the run before ended, where its first frame tells that.
    last_end: RunEnd,
}

impl Newest {
    fn scan(file: &dyn StorageFile, header: SegmentHeader) -> Result<Newest> {
        let end = file.len().map_err(|error| Error::io("cannot read", error))?;
        let before = header.predecessor.map_or(0, |before| before.last_seq);
        let mut newest = Newest {
            last_seq: header.first_seq.saturating_sub(1).max(before),
            accepted_end: HEADER_BYTES as u64,
            seal: None,
            synced_upto: header.synced_upto,
            last_end: RunEnd::Killed,
            header,
        };
        if newest.header.flags & SEGMENT_RECOVERED != 0 {
            let first =
                read_first(file, newest.header.segment_id, end).map_err(|error| Error::io("cannot read", error))?;
            newest.last_end = first.1.map_or(newest.last_end, |start| start.last_end);
        }
        // A seal tells all that a scan would.
        if let Some((offset, seal)) = read_seal(file, newest.header.segment_id, end)? {
            newest.last_seq = newest.last_seq.max(seal.last_seq);
            newest.accepted_end = offset;
            newest.seal = Some(seal);
            return Ok(newest);
        }
        let mut scan =
            FrameScan::new(file, newest.header.segment_id, HEADER_BYTES as u64, end, newest.header.first_seq);
        while let Some(found) = scan.next_found()? {
            let Found::Frame { offset, header, .. } = found else { continue };
            let kind = FrameKind::from_u8(header.kind);
            if kind == Some(FrameKind::Seal) {
                newest.seal = Seal::decode(scan.payload());
                // Also one that contradicts itself tells where numbers went on: readers account for those before it.
                newest.last_seq = newest.last_seq.max(header.seq.saturating_sub(1));
                continue;
            }
            newest.accepted_end = offset + header.frame_bytes();
            let used = kind.map_or(0, |kind| seqs_used(kind, scan.payload()));
            newest.last_seq = newest.last_seq.max(header.seq.saturating_add(used).saturating_sub(1));
            if kind == Some(FrameKind::SyncMark) {
                newest.synced_upto =
                    SyncMark::decode(scan.payload()).map_or(0, |mark| mark.synced_upto).max(newest.synced_upto);
            }
        }
        Ok(newest)
    }
}

/// What the runs before have left.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) log_id: Option<u64>,
    newest: Option<Newest>,
    /// Highest index in the directory, readable or not; 0 for none.
    index: u64,
    /// A segment newer than the newest readable one cannot be read.
    has_unreadable: bool,
    pub(crate) state: Option<WriterState>,
    pub(crate) first_seq_kept: u64,
    pub(crate) synced_upto: u64,
    /// Segments that may hold what is not on stable storage.
    pub(crate) unsynced: Vec<UnsyncedSegment>,
}

/// How a run starts.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) seq: u64,
    pub(crate) index: u64,
    pub(crate) predecessor: Option<Predecessor>,
    pub(crate) void: Option<(u64, u64)>,
    pub(crate) last_end: RunEnd,
}

impl Past {
    pub(crate) fn of(shared: &Arc<dyn Storage>) -> Result<Past> {
        let storage = &**shared;
        let listed =
            storage.list().map_err(|error| Error::io("cannot list the directory", error).at(storage.path()))?;
        // Of two copies of a segment the longer one counts, as for readers: it stands behind the other.
        let mut names: Vec<(u64, u64, String)> = listed
            .iter()
            .filter(|entry| entry.is_file)
            .filter_map(|entry| {
                SegmentName::parse(&entry.name).map(|name| (last_index(&name), entry.bytes, entry.name.clone()))
            })
            .collect();
        names.sort();
        order_by_headers(storage, &mut names)?;
        let state =
            read_state(storage).map_err(|error| Error::io("cannot read", error).at(storage.path().join(LOCK_NAME)))?;
        let told = state.map(|state| state.log_id);
        let log_id = match names.last() {
            Some((_, _, name)) if told.is_none() || log_of(storage, name) != told => {
                // Segments of another log may lie among those of this one, or its record: readers tell which one it is.
                Some(Snapshot::take_locked(Arc::clone(shared))?.log_id).filter(|&log_id| log_id != 0)
            }
            _ => told,
        };
        let mut past = Past {
            log_id,
            newest: None,
            index: 0,
            has_unreadable: false,
            state,
            first_seq_kept: 1,
            synced_upto: 0,
            unsynced: Vec::new(),
        };
        for (index, _, name) in names.iter().rev() {
            let path = storage.path().join(name);
            let file = storage.open(name).map_err(|error| Error::io("cannot open", error).at(&path))?;
            let header = SegmentHeader::read(&*file).map_err(|error| Error::io("cannot read", error).at(&path))?;
            let first_seq = header.as_ref().ok().map(|header| header.first_seq);
            match header {
                Ok(header) if log_id.is_some_and(|log_id| log_id != header.log_id) => {
                    past.index = past.index.max(*index);
                    continue;
                }
                Ok(header) if past.newest.is_none() => {
                    past.log_id = Some(header.log_id);
                    past.first_seq_kept = past.first_seq_kept.max(header.first_seq_kept);
                    past.index = past.index.max(*index);
                    let newest = Newest::scan(&*file, header).map_err(|error| error.at(&path))?;
                    past.synced_upto = newest.synced_upto;
                    past.unsynced.push(UnsyncedSegment::new(name));
                    past.newest = Some(newest);
                }
                Ok(_) => past.unsynced.push(UnsyncedSegment::new(name)),
                Err(HeaderFault::Version(version)) => {
                    let text = format!(
                        "version {version} of the format is newer than this library knows: use a newer logtool"
                    );
                    return Err(Error::new(ErrorKind::Version, text).at(path));
                }
                Err(_) if past.newest.is_none() && past.is_half_created(&*file, &path)? => {
                    storage
                        .remove(name)
                        .map_err(|error| Error::io("cannot remove a half-made segment", error).at(&path))?;
                }
                Err(_) => {
                    past.index = past.index.max(*index);
                    past.has_unreadable |= past.newest.is_none();
                }
            }
            if past.newest.is_some()
                && first_seq.is_some_and(|first_seq| first_seq <= past.synced_upto.saturating_add(1))
            {
                break;
            }
        }
        past.state = past.state.filter(|state| Some(state.log_id) == past.log_id);
        past.check_room(storage)?;
        past.first_seq_kept = past.first_seq_kept.max(past.state.map_or(1, |state| state.first_seq_kept));
        past.unsynced.reverse();
        Ok(past)
    }

    /// Whether a file without a readable header is what a writer left that was stopped while it made it: shorter than a
    /// header, so it never held a frame.
    fn is_half_created(&self, file: &dyn StorageFile, path: &Path) -> Result<bool> {
        let len = file.len().map_err(|error| Error::io("cannot read", error).at(path))?;
        Ok(len < HEADER_BYTES as u64)
    }

    /// Numbers end, and so do indexes: no log gets there, but a file may say that it has.
    fn check_room(&self, storage: &dyn Storage) -> Result<()> {
        let recorded = self.state.as_ref().map_or(0, |state| state.newest_seq);
        let newest = self.last_seq().max(recorded);
        if newest < SEQ_MAX && self.index < u64::MAX - 2 {
            return Ok(());
        }
        let text = format!(
            "the log claims to have come to seq {newest} in segment {}, and there is no room behind that: start a new log",
            self.index
        );
        Err(Error::new(ErrorKind::Damaged, text).at(storage.path()))
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.newest.as_ref().map_or(0, |newest| newest.last_seq)
    }

    /// How the next run starts. `has_ring_of` tells whether the ring file of a run is there; `is_end_unknown`, whether rings
    /// held more than could be read.
    pub(crate) fn next(&self, boot_id: [u8; 16], has_ring_of: impl Fn(u64) -> bool, is_end_unknown: bool) -> Next {
        let found = self.last_seq();
        let recorded = self.state.as_ref().map_or(0, |state| state.newest_seq);
        let Some(newest) = &self.newest else {
            if recorded == 0 && self.index == 0 {
                return Next { seq: 1, index: 1, predecessor: None, void: None, last_end: RunEnd::First };
            }
            // Nothing can be read any more, but there was something.
            let predecessor = self.state.as_ref().map(recorded_segment);
            let (seq, void) = if recorded > 0 { (recorded + 1, None) } else { (1 + VOID_SEQS, Some((1, VOID_SEQS))) };
            return Next { seq, index: self.index + 2, predecessor, void, last_end: RunEnd::Damaged };
        };
        let own =
            Predecessor { segment_id: newest.header.segment_id, last_seq: found, accepted_end: newest.accepted_end };
        // A recovery is complete once it is on record.
        let is_recorded =
            self.state.as_ref().is_some_and(|state| state.run_id == newest.header.run_id && recorded <= found);
        let is_closed =
            newest.seal.as_ref().is_some_and(|seal| match seal.reason {
                SealReason::Rolled => false,
                SealReason::Recovered => is_recorded,
                SealReason::Closed | SealReason::Repaired => true,
            }) || self.state.as_ref().is_some_and(|state| state.is_closed && state.run_id == newest.header.run_id);
        // A power cut may have taken the segment of a later run that has left its record.
        let is_later_lost = self.state.as_ref().is_some_and(|state| {
            let is_later = state.run_id != newest.header.run_id && state.newest_seq >= newest.header.first_seq;
            is_later && state.boot_id != boot_id && !state.is_closed
        });
        let is_other_boot = (newest.header.boot_id != boot_id && !is_closed) || is_later_lost;
        let successor_id = newest.seal.as_ref().map_or(0, |seal| seal.successor_id);
        let other_recorded = self.state.as_ref().filter(|state| state.segment_id != own.segment_id && recorded > found);
        let is_segment_missing = self.has_unreadable || successor_id != 0 || other_recorded.is_some();
        // More may have been accepted than the segments hold.
        let is_ring_missing =
            newest.header.flags & SEGMENT_WITH_RINGS != 0 && !is_closed && !has_ring_of(newest.header.run_id);
        // Without a record nothing tells whether this is the end: later numbers may have been seen.
        let is_unknown = (self.state.is_none() || is_ring_missing || is_end_unknown) && !is_other_boot;
        if !is_segment_missing && (is_other_boot || is_unknown) {
            let first = found + 1;
            let seq = found.max(recorded) + 1 + VOID_SEQS;
            let void = Some((first, seq - 1));
            let last_end = if is_unknown { RunEnd::Damaged } else { RunEnd::OtherBoot };
            // Room for what `repair` declares, where a loss is not known to be a power cut's.
            let index = self.index + if is_unknown { 2 } else { 1 };
            return Next { seq, index, predecessor: Some(own), void, last_end };
        }
        if !is_segment_missing && recorded <= found {
            let last_end = match newest.seal {
                // The run was killed; what its rings held came after that.
                Some(_) if newest.header.flags & SEGMENT_RECOVERED != 0 => newest.last_end,
                Some(_) => RunEnd::Closed,
                None => RunEnd::Killed,
            };
            return Next { seq: found + 1, index: self.index + 1, predecessor: Some(own), void: None, last_end };
        }
        let missing = match (other_recorded, successor_id) {
            (Some(state), _) => Some(recorded_segment(state)),
            (None, 0) => self.state.as_ref().filter(|_| recorded > found).map(recorded_segment),
            (None, segment_id) => Some(Predecessor { segment_id, last_seq: found, accepted_end: HEADER_BYTES as u64 }),
        };
        let (seq, void) = if recorded > found && !is_other_boot {
            (recorded + 1, None)
        } else {
            let seq = found.max(recorded) + 1 + VOID_SEQS;
            (seq, Some((found + 1, seq - 1)))
        };
        Next { seq, index: self.index + 2, predecessor: missing.or(Some(own)), void, last_end: RunEnd::Damaged }
    }
}

/// The segment that the record tells of, as the one before the next.
fn recorded_segment(state: &WriterState) -> Predecessor {
    Predecessor { segment_id: state.segment_id, last_seq: state.newest_seq, accepted_end: state.upto }
}

/// Names tell the order, unless somebody has renamed files: where the newest name and its header disagree, the headers
/// tell it. What can't be read keeps the place that its name tells.
fn order_by_headers(storage: &dyn Storage, names: &mut [(u64, u64, String)]) -> Result<()> {
    let told = |name: &str| -> Result<Option<u64>> {
        let failed = |error| Error::io("cannot read", error).at(storage.path().join(name));
        let header = storage.open(name).and_then(|file| SegmentHeader::read(&*file)).map_err(failed)?;
        Ok(header.ok().map(|header| header.index_last))
    };
    let Some((index, _, name)) = names.last() else { return Ok(()) };
    if told(name)?.is_none_or(|told| told == *index) {
        return Ok(());
    }
    for (index, _, name) in names.iter_mut() {
        *index = told(name)?.unwrap_or(*index);
    }
    names.sort();
    Ok(())
}

/// The log that a segment says it is of.
fn log_of(storage: &dyn Storage, name: &str) -> Option<u64> {
    let header = storage.open(name).and_then(|file| SegmentHeader::read(&*file)).ok()?;
    header.ok().map(|header| header.log_id)
}

fn last_index(name: &SegmentName) -> u64 {
    match name {
        SegmentName::Original { index, .. } => *index,
        SegmentName::Rewritten { last, .. } => *last,
    }
}
