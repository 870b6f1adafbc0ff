//! Recovery: what the rings of dead runs hold and no segment does is appended to the log, each entry once and in order.
//!
//! For each ring file of the log, oldest first:
//!
//! | the file | what is done |
//! |---|---|
//! | is of another log | it is left alone |
//! | its run never had a segment, and it holds nothing | it is removed at once: its name is the next run's |
//! | a later run has begun | that run has accounted for it: it is removed |
//! | holds entries above the thread seqs in the run's segments | a new segment of that run gets them, merged by time stamp |
//! | holds none of these | nothing is appended |
//! | is damaged | the same; the end of the log is then unknown, and the file goes to quarantine |
//! | should stand elsewhere, and is not there | nothing is lost if its run had closed the log, was recovered, or never had a segment; otherwise as one that is damaged |
//! | stands elsewhere, and another log's writer holds it: this log is a copy | as one that is damaged, unless its run had closed the log |
//! | should stand in a directory that is not there, and is needed | nothing at all: an error tells it; readers take it for lost |
//!
//! The new segment is made under another name and renamed once it is whole, and the ring file is removed only after the next
//! run has written its run start (or, by `repair`, after the segment is there). So recovery can be stopped anywhere and begun
//! again: what is in a segment already is recognised by its thread seq.
//!
//! A reader of a dead log does the same over an [overlay](crate::overlay), and changes nothing.

mod append;
mod file;
mod known;
mod merge;
mod reach;
mod remove;
mod ring;

use std::io;
use std::sync::Arc;

use crate::active::ActiveSegment;
use crate::control::{LossClass, RunEnd, RunStart};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{HEADER_BYTES, SEGMENT_PLACEHOLDER, SEGMENT_RECOVERED, VOID_SEQS};
use crate::frame::frame_bytes;
use crate::open::{Next, Past, first_seq_kept};
use crate::record::write_record;
use crate::retention::make_room;
use crate::ring::file::{FileHeader, index_of_name};
use crate::ring::place::{Lost, Place};
use crate::segment::SegmentHeader;
use crate::snapshot::{SegmentInfo, Snapshot};
use crate::state::{LOCK_NAME, WriterState};
use crate::storage::{Storage, StorageFile};
use crate::sync::sync_segments;

pub(crate) use append::remove_unfinished;
pub(crate) use file::Stretch;
pub(crate) use reach::refuse_out_of_reach;
pub(crate) use remove::{remove_rings, set_rings_aside};

use append::Append;
use file::{DeadFile, RingFile};
use known::Known;
use merge::Merge;

/// Bytes of a run start's payload.
const RUN_START_BYTES: usize = 5 * 8 + 4 + 4;

/// How to recover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// What is written is synced.
    pub(crate) is_synced: bool,
    /// On a full disk the oldest segments go.
    pub(crate) makes_room: bool,
    /// A segment is made also where nothing is recovered: it tells that this is the end, once the ring file is gone.
    pub(crate) leaves_evidence: bool,
    /// Nothing is written but in memory: what a later run has accounted for is not looked at.
    pub(crate) only_reads: bool,
    /// A writer is at work: its own rings, which it holds locked, are left alone.
    pub(crate) is_live: bool,
}

impl How {
    /// For the next writer.
    pub(crate) fn open(is_synced: bool, makes_room: bool) -> How {
        How { is_synced, makes_room, leaves_evidence: false, only_reads: false, is_live: false }
    }

    /// For readers, over an overlay.
    pub(crate) fn read(is_live: bool) -> How {
        How { only_reads: true, is_live, ..How::open(false, false) }
    }

    /// For `repair`.
    pub(crate) fn repair() -> How {
        How { leaves_evidence: true, ..How::open(true, false) }
    }
}

/// What became of one ring file.
#[derive(Clone, Debug)]
pub(crate) struct RingFate {
    pub(crate) name: String,
    pub(crate) index: u64,
    /// Bytes in the log's directory.
    pub(crate) bytes: u64,
    /// 0 where it is not known.
    pub(crate) run_id: u64,
    /// A later run has accounted for what was in it.
    pub(crate) is_settled: bool,
    /// Entries that were taken from it, by this recovery or one before that was stopped.
    pub(crate) entries: u64,
    /// The segment that was made of it now.
    pub(crate) segment: Option<String>,
    pub(crate) damage: Vec<Stretch>,
    /// Why it may be damaged.
    pub(crate) class: LossClass,
}

/// What became of the ring files of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) rings: Vec<RingFate>,
}

impl Recovered {
    /// Entries that were taken from rings.
    pub(crate) fn entries(&self) -> u64 {
        self.rings.iter().filter(|ring| !ring.is_settled).map(|ring| ring.entries).sum()
    }

    /// Whether rings may have held more than could be read, and no power cut explains it.
    pub(crate) fn is_end_unknown(&self) -> bool {
        self.rings.iter().any(|ring| !ring.is_settled && !ring.damage.is_empty() && ring.class != LossClass::PowerCut)
    }

    /// Whether the ring file of a run is there.
    pub(crate) fn has_ring_of(&self, run_id: u64) -> bool {
        self.rings.iter().any(|ring| ring.run_id == run_id)
    }

    /// Highest index in the name of a ring file that stays for now; 0 for none.
    pub(crate) fn index(&self) -> u64 {
        self.rings.iter().map(|ring| ring.index).max().unwrap_or(0)
    }

    /// Bytes in the log's directory that are going to be removed.
    pub(crate) fn bytes(&self) -> u64 {
        self.rings.iter().filter(|ring| ring.damage.is_empty()).map(|ring| ring.bytes).sum()
    }

    /// Removes the ring files, which have been accounted for; those that are damaged go to quarantine.
    ///
    /// # Errors
    /// What the system says; what is left is looked at again by the next recovery.
    pub(crate) fn remove(&self, storage: &dyn Storage, with_damaged: bool, is_synced: bool) -> Result<()> {
        let mut removed = false;
        for ring in self.rings.iter().filter(|ring| with_damaged || ring.is_settled || ring.damage.is_empty()) {
            let done = if ring.damage.is_empty() {
                remove_rings(storage, &ring.name)
            } else {
                set_rings_aside(storage, &ring.name)
            };
            done.map_err(|error| Error::io("cannot remove the ring file", error).at(storage.path().join(&ring.name)))?;
            removed = true;
        }
        if removed && is_synced {
            storage.sync_dir().map_err(|error| Error::io("cannot sync the directory", error).at(storage.path()))?;
        }
        Ok(())
    }
}

/// Recovers what the rings of dead runs hold. The caller holds the log's lock, through `lock`; without one nothing is put on
/// record.
///
/// # Errors
/// `NoSpace` where there is no room for what is recovered, `Invalid` where rings that are needed are out of reach, and what else
/// the system says; nothing is lost then.
pub(crate) fn recover(storage: &Arc<dyn Storage>, lock: Option<&dyn StorageFile>, how: How) -> Result<Recovered> {
    let (files, log_id) = files_of_log(storage, how.is_live)?;
    if !how.only_reads {
        reach::refuse(storage, &files, None)?;
    }
    let mut recovered = Recovered::default();
    let runs: Vec<u64> = files.iter().filter_map(|file| file.header).map(|header| header.run_id).collect();
    for file in &files {
        let recovery = Recovery { storage, lock, how, runs: &runs, log_id };
        recovered.rings.extend(recovery.of(file)?);
    }
    Ok(recovered)
}

/// The ring files of the log, by index, without those that a writer holds or may hold where one is at work; and the log's id.
fn files_of_log(storage: &Arc<dyn Storage>, is_live: bool) -> Result<(Vec<RingFile>, u64)> {
    let failed = |error| Error::io("cannot read the rings", error).at(storage.path());
    let mut files = RingFile::all(&**storage).map_err(failed)?;
    if is_live {
        // Whether one that can't be reached is of that writer nobody can tell.
        files.retain(|file| file.lost.is_none() && file.file.is_locked().is_ok_and(|is_locked| !is_locked));
    }
    if files.is_empty() {
        return Ok((files, 0));
    }
    let newest_ring = files.iter().rev().find_map(|file| file.header.map(|header| header.log_id));
    let log_id = Some(segments_of(storage)?.log_id).filter(|&log_id| log_id != 0).or(newest_ring);
    files.retain(|file| file.header.is_none_or(|header| Some(header.log_id) == log_id));
    Ok((files, log_id.unwrap_or(0)))
}

/// What stands in the log besides rings. There may be no segment yet, and no record: then nothing is known.
fn segments_of(storage: &Arc<dyn Storage>) -> Result<Snapshot> {
    match Snapshot::take_locked(Arc::clone(storage)) {
        Err(error) if error.kind() == ErrorKind::NotALog => Ok(Snapshot::empty(Arc::clone(storage), None, None, false)),
        taken => taken,
    }
}

/// Whether there is a ring file that no writer holds: of a run that has ended.
///
/// # Errors
/// What the system says while listing.
pub(crate) fn has_dead_rings(storage: &dyn Storage) -> io::Result<bool> {
    let is_dead = |name: &String| {
        Place::open(storage, name)
            .is_ok_and(|place| !place.is_lost() && place.file.is_locked().is_ok_and(|locked| !locked))
    };
    Ok(storage.names()?.iter().filter(|name| index_of_name(name).is_some()).any(is_dead))
}

/// The recovery of one ring file.
struct Recovery<'a> {
    storage: &'a Arc<dyn Storage>,
    lock: Option<&'a dyn StorageFile>,
    how: How,
    /// Runs whose ring files are there.
    runs: &'a [u64],
    log_id: u64,
}

impl Recovery<'_> {
    /// As the head of this file says; `None` for a file that was removed.
    fn of(&self, file: &RingFile) -> Result<Option<RingFate>> {
        loop {
            let error = match self.try_of(file) {
                Ok(fate) => return Ok(fate),
                Err(error) => error,
            };
            let _ = remove_unfinished(&**self.storage);
            let (true, ErrorKind::NoSpace, Some(lock)) = (self.how.makes_room, error.kind(), self.lock) else {
                return Err(error);
            };
            let past = Past::of(self.storage)?;
            let Some(state) = past.state else { return Err(error) };
            if make_room(&**self.storage, lock, state, self.how.is_synced)?.is_none() {
                return Err(error);
            }
        }
    }

    fn failed(&self, file: &RingFile) -> impl Fn(io::Error) -> Error {
        let path = self.storage.path().join(&file.name);
        move |error| Error::io("cannot read", error).at(&path)
    }

    fn try_of(&self, file: &RingFile) -> Result<Option<RingFate>> {
        let failed = self.failed(file);
        let snapshot = segments_of(self.storage)?;
        let has_segment = has_segment(&snapshot, file.index);
        let mut fate = RingFate {
            name: file.name.clone(),
            index: file.index,
            bytes: file.bytes_here,
            run_id: 0,
            is_settled: false,
            entries: 0,
            segment: None,
            damage: Vec::new(),
            class: LossClass::Corruption,
        };
        let Some(header) = file.header.or_else(|| self.header_elsewhere(&snapshot, file)) else {
            fate.is_settled = is_settled(&snapshot, 0, file.index);
            if file.is_blank().map_err(&failed)? {
                return self.removed_unless(has_segment, fate);
            }
            fate.damage.push(Stretch { offset: 0, len: file.bytes, cost: None });
            return Ok(Some(fate));
        };
        fate.run_id = header.run_id;
        if header.boot_id != self.storage.boot_id() {
            fate.class = LossClass::PowerCut;
        }
        fate.is_settled = is_settled(&snapshot, header.run_id, file.index);
        if fate.is_settled && self.how.only_reads {
            return Ok(Some(fate));
        }
        let mut dead = DeadFile::read(file, header).map_err(&failed)?;
        let known = Known::of(&snapshot, header.run_id, file.index, dead.ring_bytes.min(file.bytes))?;
        fate.entries = known.recovered;
        // Rings that are written now are those of a run that has begun, whatever the copy has of it.
        let has_begun = has_segment || file.lost == Some(Lost::Held);
        let was_needed = has_begun && !(known.is_closed || known.has_recovered || fate.is_settled);
        if file.lost.is_some() && was_needed {
            dead.damage.push(Stretch { offset: 0, len: file.bytes, cost: None });
        }
        let mut merge = Merge::new(dead, known, fate.class).map_err(&failed)?;
        if fate.is_settled {
            merge.look_through().map_err(&failed)?;
            fate.damage = merge.damage();
            return Ok(Some(fate));
        }
        let mut append = None;
        while let Some(time_ns) = merge.next_new().map_err(|error| error.at(self.storage.path().join(&file.name)))? {
            let append = match &mut append {
                Some(append) => append,
                None => append.insert(self.begin(&header, file.index, time_ns)?),
            };
            merge.append_to(append)?;
        }
        let known = merge.known();
        let is_evidence = self.how.leaves_evidence && known.has_segments && !(known.has_recovered || known.is_closed);
        // Rings that nobody has looked at are none: what they held stays unknown.
        if append.is_none() && is_evidence && file.lost.is_none() {
            let time_ns = known.newest_ns.unwrap_or(0);
            append = Some(self.begin(&header, file.index, time_ns)?);
        }
        fate.damage = merge.damage();
        if let Some(append) = append {
            let (segment, entries) = append.finish(self.how.is_synced)?;
            fate.entries += entries;
            self.put_on_record(&segment)?;
            fate.segment = Some(segment.name);
        } else if fate.damage.is_empty() {
            return self.removed_unless(has_segment, fate);
        }
        Ok(Some(fate))
    }

    /// Removes the file at once where no segment has come as far as its run: it held nothing, and the next run may take its
    /// name.
    fn removed_unless(&self, has_segment: bool, fate: RingFate) -> Result<Option<RingFate>> {
        if has_segment || self.lock.is_none() {
            return Ok(Some(fate));
        }
        let failed = |error| Error::io("cannot remove", error).at(self.storage.path().join(&fate.name));
        remove_rings(&**self.storage, &fate.name).map_err(failed)?;
        Ok(None)
    }

    /// What the header of a file said, as far as the run's first segment tells, for one whose own is lost.
    fn header_elsewhere(&self, snapshot: &Snapshot, file: &RingFile) -> Option<FileHeader> {
        let first = snapshot.segments.iter().find(|segment| segment.header.index == file.index)?;
        first.has_rings().then_some(FileHeader {
            pid: first.header.pid,
            log_id: first.header.log_id,
            run_id: first.header.run_id,
            boot_id: first.header.boot_id,
            index: file.index,
            part_bytes: u64::MAX,
        })
    }

    /// Begins the segment of what is recovered, whose first entry was logged at `time_ns`.
    fn begin(&self, ring: &FileHeader, ring_index: u64, time_ns: i64) -> Result<Append<'_>> {
        let past = Past::of(self.storage)?;
        if self.how.is_synced {
            let _ = sync_segments(&**self.storage, &mut past.unsynced.clone());
        }
        let mut next = past.next(self.storage.boot_id(), |run| run == ring.run_id || self.runs.contains(&run), false);
        if past.log_id.is_none() {
            // Of the log nothing else is left: numbers may have been given out.
            (next.seq, next.void, next.last_end) = (1 + VOID_SEQS, Some((1, VOID_SEQS)), RunEnd::Damaged);
        }
        // Also where none of the run's segments is left.
        next.index = next.index.max(ring_index);
        let header = SegmentHeader {
            flags: SEGMENT_RECOVERED,
            log_id: self.log_id,
            run_id: ring.run_id,
            segment_id: segment_id(self.log_id, ring.run_id, &next),
            boot_id: self.storage.boot_id(),
            index: next.index,
            index_last: next.index,
            generation: 0,
            pid: ring.pid,
            first_seq: next.seq,
            opened_ns: time_ns,
            synced_upto: past.synced_upto,
            first_seq_kept: first_seq_kept(self.storage, past.first_seq_kept)?,
            predecessor: next.predecessor,
        };
        let start = RunStart {
            run_id: ring.run_id,
            time_ns,
            void_first: next.void.map_or(0, |(first, _)| first),
            void_last: next.void.map_or(0, |(_, last)| last),
            entries_recovered: 0,
            pid: ring.pid,
            last_end: next.last_end,
            has_rings: false,
        };
        Append::create(&**self.storage, header, start)
    }

    fn put_on_record(&self, segment: &ActiveSegment) -> Result<()> {
        let Some(lock) = self.lock else { return Ok(()) };
        let state = WriterState {
            log_id: segment.header.log_id,
            run_id: segment.header.run_id,
            boot_id: segment.header.boot_id,
            newest_seq: segment.last_seq(),
            segment_id: segment.header.segment_id,
            upto: segment.dirty_end,
            first_seq_kept: segment.header.first_seq_kept,
            is_closed: false,
        };
        write_record(lock, &state)
            .map_err(|error| Error::io("cannot write", error).at(self.storage.path().join(LOCK_NAME)))
    }
}

impl SegmentInfo {
    /// Whether its run keeps rings in the log's directory.
    pub(crate) fn has_rings(&self) -> bool {
        self.header.flags & crate::format::SEGMENT_WITH_RINGS != 0
            || self.run_start.is_some_and(|start| start.has_rings && self.header.flags & SEGMENT_RECOVERED == 0)
    }
}

/// Whether a segment has come as far as the run whose first one has this index.
fn has_segment(snapshot: &Snapshot, index: u64) -> bool {
    let highest = snapshot.segments.iter().map(|segment| segment.header.index_last);
    index <= highest.chain(snapshot.unreadable.iter().map(|bad| bad.index)).max().unwrap_or(0)
}

/// Whether a later run than `run_id`, whose first segment has index `index`, has written its run start: it has accounted
/// for all that was before.
fn is_settled(snapshot: &Snapshot, run_id: u64, index: u64) -> bool {
    let own = snapshot.segments.iter().filter(|segment| segment.header.run_id == run_id);
    let last = own.map(|segment| segment.header.index_last).max().unwrap_or(index.saturating_sub(1));
    snapshot.segments.iter().any(|segment| {
        let is_later = segment.header.index > last && segment.header.run_id != run_id;
        let has_begun = segment.bytes > (HEADER_BYTES + frame_bytes(RUN_START_BYTES)) as u64
            || segment.run_start.is_some()
            || segment.header.flags & SEGMENT_PLACEHOLDER != 0;
        is_later && has_begun
    })
}

/// The id of a segment that follows from what the log holds: whoever recovers makes the same one.
fn segment_id(log_id: u64, run_id: u64, next: &Next) -> u64 {
    let before = next.predecessor.map_or(0, |before| before.segment_id);
    let mixed = [log_id, run_id, before, next.seq, next.index].into_iter().fold(0u64, |mixed, word| {
        // The finalizer of splitmix64.
        let mut mixed = (mixed ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    mixed.max(1)
}
