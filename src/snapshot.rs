//! What a log directory holds at one moment: its segments in order, what their headers say of each other, and what
//! evidence there is of its end.
//!
//! A snapshot opens nothing for long and takes no lock, so that it can be taken of a live log.

mod order;
mod rings;
mod start;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::control::{LossClass, RetentionMark, RunEnd, RunStart};
use crate::entry::Definitions;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Fault, Finding, Loss};
use crate::format::{FRAME_ALIGN, FrameKind, HEADER_BYTES, SEGMENT_AFTER_TROUBLE, SEGMENT_RECOVERED};
use crate::ring::file::index_of_name;
use crate::scan::Found;
use crate::segment::{HeaderFault, SegmentHeader, SegmentName};
use crate::state::{LOCK_NAME, WriterState, read_state, writer_pid};
use crate::storage::{ReadAt, Storage, StorageFile};
use crate::walk::{Ending, SegmentWalk};

pub use rings::RingInfo;
pub(crate) use start::read_first;
use start::{Start, read_start};

/// How often a live log is looked at again whose segments don't fit together. A directory is not listed in one moment:
/// of two segments made meanwhile the later one may be seen alone, or neither, with the oldest gone.
const LIVE_TRIES: usize = 16;

/// Segments that are held open at a time.
const HELD_MAX: usize = 64;

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
    /// Set where both copies are damaged and the id is known from the next segment; only the id, the index and the first
    /// number are then right, and that number is 0 where its first frame is damaged too.
    pub rebuilt: Option<HeaderFault>,
    /// The run that starts with this segment.
    pub run_start: Option<RunStart>,
}

impl SegmentInfo {
    /// Whether the file's name tells another place in the log than its header.
    pub(crate) fn is_misnamed(&self) -> bool {
        SegmentName::parse(&self.name).is_none_or(|name| name.index() != self.header.index)
    }
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

/// A segment that the system did not let us look at: what it holds is neither there nor lost.
#[derive(Clone, Debug)]
pub struct UnopenedSegment {
    /// File name.
    pub name: String,
    /// Index that the name tells.
    pub index: u64,
    /// What the system said.
    pub error: Error,
}

/// A log at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    storage: Arc<dyn Storage>,
    /// Segments in order.
    pub segments: Vec<SegmentInfo>,
    /// Files that can't be read as segments, by index.
    pub unreadable: Vec<UnreadableSegment>,
    /// Segments that the system did not let us look at, by index.
    pub unopened: Vec<UnopenedSegment>,
    /// What the last writer recorded.
    pub state: Option<WriterState>,
    /// The process that writes the log now.
    pub writer_pid: Option<u32>,
    /// The log's id.
    pub log_id: u64,
    /// First number that retention has kept, as far as headers, record and, where these don't explain the first segment,
    /// marks tell; 1 if nothing was removed.
    pub first_seq_kept: u64,
    /// What was found while the snapshot was taken.
    pub findings: Vec<Finding>,
    /// Whether this is a file by itself, without its log.
    pub is_single_file: bool,
    /// Rings of runs that have ended, where nobody writes the log.
    pub rings: Vec<RingInfo>,
    /// Whether there are any ring files.
    has_ring_files: bool,
    /// Segments that are held open, by name.
    held: HashMap<String, Arc<dyn StorageFile>>,
}

impl Snapshot {
    /// As [`take`](Snapshot::take), by who holds the log's lock: nobody else writes it. Rings are not looked at.
    pub(crate) fn take_locked(storage: Arc<dyn Storage>) -> Result<Snapshot> {
        Snapshot::take_as(storage, true)
    }

    fn take_as(storage: Arc<dyn Storage>, is_ours: bool) -> Result<Snapshot> {
        let mut snapshot = Snapshot::take_once(&storage, is_ours)?;
        for _ in 0..LIVE_TRIES {
            // A whole run may have come and gone between two looks at the lock; its record stays.
            let is_settled = if snapshot.is_live() {
                !snapshot.segments.is_empty() && snapshot.is_linked()
            } else {
                // A record of another log says nothing of this one.
                let is_same = |state: Option<WriterState>| {
                    state == snapshot.state || state.is_some_and(|state| state.log_id != snapshot.log_id)
                };
                is_ours || read_state(storage.as_ref()).is_ok_and(is_same)
            };
            if is_settled {
                break;
            }
            snapshot = Snapshot::take_once(&storage, is_ours)?;
        }
        Ok(snapshot)
    }

    /// Whether each segment knows the one before it, and nothing is missing before the first.
    fn is_linked(&self) -> bool {
        let first_seq = self.segments.first().map_or(0, |first| first.header.first_seq);
        first_seq <= self.first_seq_kept
            && self.segments.windows(2).all(|pair| {
                let id = pair[0].header.segment_id;
                pair[1].header.predecessor.is_some_and(|known| known.segment_id == id)
            })
    }

    fn take_once(storage: &Arc<dyn Storage>, is_ours: bool) -> Result<Snapshot> {
        let failed = |error| Error::io("cannot read the log", error).at(storage.path());
        let unlocked = |error| Error::io("cannot read", error).at(storage.path().join(LOCK_NAME));
        let pid = || if is_ours { Ok(None) } else { writer_pid(storage.as_ref()).map_err(unlocked) };
        // The record first: what it tells is then in the segments that are looked at after it.
        let state = read_state(storage.as_ref()).map_err(unlocked)?;
        let writer_pid = pid()?;
        let names = storage.list().map_err(failed)?;
        // A log that was killed before its first segment was made has its lock and nothing else.
        let is_begun = names.iter().any(|entry| entry.name == LOCK_NAME);
        let has_ring_files = names.iter().any(|entry| index_of_name(&entry.name).is_some());
        let names: Vec<(String, SegmentName, bool)> = names
            .into_iter()
            .filter_map(|entry| SegmentName::parse(&entry.name).map(|name| (entry.name, name, entry.is_file)))
            .collect();
        if names.is_empty() && !is_begun && !has_ring_files {
            return Err(Error::new(ErrorKind::NotALog, "no logtool log: it holds no segment").at(storage.path()));
        }
        let mut snapshot = Snapshot::empty(Arc::clone(storage), state, writer_pid, false);
        snapshot.has_ring_files = has_ring_files;
        let mut oldest_vanished = false;
        for (name, parsed, is_file) in names {
            let is_there = match snapshot.add(&name, parsed.index(), is_file) {
                Ok(is_there) => is_there,
                Err(error) => {
                    snapshot.unopened.push(UnopenedSegment { name, index: parsed.index(), error });
                    continue;
                }
            };
            if !is_there && (snapshot.is_live() || snapshot.segments.is_empty()) {
                // Retention goes by age: what was looked at before is gone by now or will be.
                (oldest_vanished, snapshot.segments, snapshot.unreadable) = (true, Vec::new(), Vec::new());
            }
        }
        // A writer that has started meanwhile may have been at work on what was looked at.
        snapshot.writer_pid = snapshot.writer_pid.map_or_else(pid, |pid| Ok(Some(pid)))?;
        snapshot.arrange();
        snapshot.measure_sealed()?;
        snapshot.find_retention(oldest_vanished)?;
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

    pub(crate) fn empty(
        storage: Arc<dyn Storage>,
        state: Option<WriterState>,
        writer_pid: Option<u32>,
        is_single_file: bool,
    ) -> Snapshot {
        Snapshot {
            storage,
            segments: Vec::new(),
            unreadable: Vec::new(),
            unopened: Vec::new(),
            state,
            writer_pid,
            log_id: 0,
            first_seq_kept: 1,
            findings: Vec::new(),
            is_single_file,
            rings: Vec::new(),
            has_ring_files: false,
            held: HashMap::new(),
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

    /// Opens the segments from number `from` on now, and keeps them open for all readers of this snapshot: they can then be
    /// read whatever retention removes meanwhile. Of more than 64 only the oldest are.
    ///
    /// # Errors
    /// As [`open`](Snapshot::open).
    pub fn hold(&mut self, from: usize) -> Result<()> {
        for at in (from..self.segments.len()).take(HELD_MAX) {
            let file = self.open(at)?;
            self.held.insert(self.segments[at].name.clone(), file);
        }
        Ok(())
    }

    /// Opens segment number `at` of this snapshot.
    ///
    /// # Errors
    /// `Io`; its source is `NotFound` where retention has removed the file meanwhile.
    pub fn open(&self, at: usize) -> Result<Arc<dyn StorageFile>> {
        let name = &self.segments[at].name;
        if let Some(file) = self.held.get(name) {
            return Ok(Arc::clone(file));
        }
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

    /// As [`walk`](Snapshot::walk), behind segments that account for numbers up to `last_seq`: what repeats numbers is passed
    /// over, and a segment whose first number is not known starts behind them.
    ///
    /// # Errors
    /// As [`open`](Snapshot::open).
    pub fn walk_behind(&self, at: usize, last_seq: Option<u64>) -> Result<SegmentWalk<Arc<dyn StorageFile>>> {
        let walk = self.walk(at)?;
        match self.first_expected(at, last_seq) {
            Some(seq) => Ok(walk.starting_at(HEADER_BYTES as u64, seq, Definitions::default())),
            None => Ok(walk),
        }
    }

    /// The number that segment number `at` must start with, where its header doesn't tell or is wrong about it.
    pub(crate) fn first_expected(&self, at: usize, last_seq: Option<u64>) -> Option<u64> {
        let first_seq = self.segments[at].header.first_seq;
        match last_seq.filter(|_| at > 0 && !self.is_single_file) {
            Some(last_seq) => (first_seq <= last_seq).then_some(last_seq.saturating_add(1)),
            None => (first_seq == 0).then_some(self.first_seq_kept),
        }
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
            // A writer that found the segment before it missing or unreadable knows its id at most, not its end.
            let is_blind = next.run_start.is_some_and(|start| start.last_end == RunEnd::Damaged);
            let known = next.header.predecessor.filter(|known| {
                // An end within the header, or where no frame can end, is one that no writer tells.
                let is_end = known.accepted_end >= HEADER_BYTES as u64
                    && known.accepted_end.is_multiple_of(FRAME_ALIGN as u64)
                    && !(is_blind && known.accepted_end == HEADER_BYTES as u64);
                known.segment_id == info.header.segment_id && is_end
            });
            // A roll seals before it goes on; a new run does not, nor does a writer that the old segment gave trouble, nor a
            // recovery.
            let wants_seal = next.header.run_id == info.header.run_id
                && next.bytes > HEADER_BYTES as u64
                && next.header.flags & (SEGMENT_AFTER_TROUBLE | SEGMENT_RECOVERED) == 0;
            return known.map_or(Ending::Unlinked, |link| Ending::Followed { link, wants_seal });
        }
        if self.is_live() {
            return Ending::Live;
        }
        let is_followed = self.trailing(Some(info)).any(|segment| segment.fault.is_some());
        if is_followed || self.is_unopened_between(info.header.index_last, u64::MAX) {
            return Ending::Unlinked;
        }
        let power_cut = info.header.boot_id != self.storage.boot_id();
        // A run that was killed before its first record leaves that of the run before.
        let closed = self.state.is_some_and(|state| state.is_closed && state.run_id == info.header.run_id);
        let vouched = self
            .state
            .is_some_and(|state| state.run_id == info.header.run_id || state.newest_seq < info.header.first_seq);
        // Its rings may have held more than the record tells of.
        let upto = self.recorded_upto(Some(info)).filter(|_| closed || !self.lacks_rings_of(info));
        Ending::Newest { upto, closed, power_cut, vouched }
    }

    /// The last number accepted, where the record tells it for certain of a log that ends with `last`. A record that
    /// another boot has left may be older than what its run accepted, unless that run closed the log: it was not synced.
    pub(crate) fn recorded_upto(&self, last: Option<&SegmentInfo>) -> Option<u64> {
        let state = self.state?;
        let is_of =
            |last: &SegmentInfo| state.run_id == last.header.run_id || state.newest_seq >= last.header.first_seq;
        let is_certain = state.boot_id == self.storage.boot_id() || (state.is_closed && last.is_none_or(is_of));
        is_certain.then_some(state.newest_seq)
    }

    /// Whether a segment between these two indexes could not be looked at.
    pub(crate) fn is_unopened_between(&self, before: u64, behind: u64) -> bool {
        self.unopened.iter().any(|segment| segment.index > before && segment.index < behind)
    }

    /// Files behind the last segment that can't be read as segments.
    pub(crate) fn trailing(&self, last: Option<&SegmentInfo>) -> impl Iterator<Item = &UnreadableSegment> {
        let last = last.map_or(0, |segment| segment.header.index_last);
        self.unreadable.iter().filter(move |segment| segment.index > last)
    }

    /// Looks at one file. Returns false where it is gone.
    pub(crate) fn add(&mut self, name: &str, index: u64, is_file: bool) -> Result<bool> {
        if !is_file {
            let finding = Finding::new(Fault::NotAFile, Loss::Nothing, LossClass::Unknown);
            self.findings.push(finding.at(name, 0, 0));
            return Ok(true);
        }
        let path = self.storage.path().join(name);
        let file = match self.storage.open(name) {
            Ok(file) => file,
            // Retention was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_single_file => return Ok(false),
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
        Ok(true)
    }

    /// While a log is written its segments are sealed after their successors are made: what was measured before may lack
    /// the seal.
    fn measure_sealed(&mut self) -> Result<()> {
        if !self.is_live() {
            return Ok(());
        }
        for at in 1..self.segments.len() {
            let known = self.segments[at].header.predecessor;
            if known.is_some_and(|known| known.accepted_end == self.segments[at - 1].bytes) {
                match self.open(at - 1).and_then(|file| file.len().map_err(|error| Error::io("cannot read", error))) {
                    Ok(bytes) => self.segments[at - 1].bytes = bytes,
                    // Retention was faster; whoever opens it will see.
                    Err(_) => continue,
                }
            }
        }
        Ok(())
    }

    /// Retention between two rolls is on record only in a mark in the segment that was active: marks are looked for where
    /// the headers do not explain the first number.
    fn find_retention(&mut self, oldest_vanished: bool) -> Result<()> {
        let Some(first_seq) = self.segments.first().map(|first| first.header.first_seq) else { return Ok(()) };
        if first_seq <= self.first_seq_kept {
            return Ok(());
        }
        if oldest_vanished && self.is_live() {
            // It was listed a moment ago.
            self.first_seq_kept = first_seq;
            return Ok(());
        }
        // The newest segments first: that is where a mark stands that later headers do not repeat yet.
        for at in (0..self.segments.len()).rev() {
            let Ok(mut scan) = self.scan(at) else { continue };
            while let Some(found) = scan.next_found()? {
                if let Found::Frame { header, .. } = found
                    && header.kind == FrameKind::RetentionMark as u8
                    && let Some(mark) = RetentionMark::decode(scan.payload())
                {
                    self.first_seq_kept = self.first_seq_kept.max(mark.first_seq_kept);
                }
            }
            if first_seq <= self.first_seq_kept {
                break;
            }
        }
        Ok(())
    }
}
