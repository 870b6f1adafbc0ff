//! Entry by entry through a whole log: segments in order, what is missing between them, and places to start from.

mod places;

use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use crate::entry::{Definitions, Entry};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Note, NoteKind, SeqRange};
use crate::ring::file::index_of_name;
use crate::segment::SegmentName;
use crate::snapshot::Snapshot;
use crate::state::{read_state, writer_pid};
use crate::storage::{Storage, StorageFile};
use crate::storage_os::OsStorage;
use crate::walk::{Item, SegmentWalk};

pub use places::Position;

/// A reader of one log. Memory: one segment's scan, one block, its definitions.
#[derive(Debug)]
pub struct LogReader {
    snapshot: Snapshot,
    /// The segment that is read, or comes next.
    at: usize,
    walk: Option<SegmentWalk<Arc<dyn StorageFile>>>,
    /// The last number that is accounted for; `None` before the first segment.
    last_seq: Option<u64>,
    /// Where the first segment is to be started, if not at its start.
    start: Option<Position>,
    /// Whether definitions before the start may be missing in the segment that is read.
    definitions_missing: bool,
    times_ns: RangeInclusive<i64>,
    decodes_ahead: bool,
    queue: VecDeque<Item<'static>>,
    /// Segments that the system did not let us look at, still to be told.
    failures: VecDeque<Error>,
    /// Whether the last step went to an entry, and not to what the queue held.
    at_entry: bool,
    /// What the last step took from the queue.
    told: Option<Item<'static>>,
    ended: bool,
}

/// Takes a snapshot of the log directory or the segment file at `path`.
///
/// # Errors
/// `NotALog` where there is no log, `Version` for another format version, `Io` where it can't be read.
pub fn snapshot_of(path: &Path) -> Result<Snapshot> {
    let metadata = std::fs::metadata(path).map_err(|error| Error::io("cannot open", error).at(path))?;
    if metadata.is_dir() {
        return Snapshot::take(Arc::new(OsStorage::new(path, 0o640)));
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name else {
        return Err(Error::new(ErrorKind::NotALog, "no logtool segment: its name is not UTF-8").at(path));
    };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Snapshot::take_file(Arc::new(OsStorage::new(dir, 0o640)), name)
}

/// Whether `path` is a directory that holds a log: a segment, or a writer's lock.
pub fn is_log_dir(path: &Path) -> bool {
    let storage = OsStorage::new(path, 0o640);
    storage.list().is_ok_and(|names| {
        let is_ours = |name: &str| {
            SegmentName::parse(name).is_some() || index_of_name(name).is_some() || name == crate::state::LOCK_NAME
        };
        names.iter().any(|entry| is_ours(&entry.name))
    })
}

impl LogReader {
    /// A reader of the log directory or segment file at `path`, from its first entry on.
    ///
    /// # Errors
    /// As [`snapshot_of`].
    pub fn open(path: &Path) -> Result<LogReader> {
        snapshot_of(path).map(LogReader::new)
    }

    /// A reader of the log in `snapshot`, from its first entry on.
    pub fn new(snapshot: Snapshot) -> LogReader {
        let queue = snapshot.findings.iter().cloned().map(Item::Finding).collect();
        let failures = snapshot.unopened.iter().map(|segment| segment.error.clone()).collect();
        LogReader {
            snapshot,
            at: 0,
            walk: None,
            last_seq: None,
            start: None,
            definitions_missing: false,
            times_ns: i64::MIN..=i64::MAX,
            decodes_ahead: false,
            queue,
            failures,
            at_entry: false,
            told: None,
            ended: false,
        }
    }

    /// The log as it was when the reader was made.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Starts at `position` instead of the first entry. What stands before it is neither given nor judged.
    pub fn seek(&mut self, position: Position) {
        (self.at, self.start, self.walk, self.ended) = (position.segment, Some(position), None, false);
        self.last_seq = Some(position.seq.saturating_sub(1));
    }

    /// Keeps the segments from `position` on open, as [`Snapshot::hold`] does.
    ///
    /// # Errors
    /// As there.
    pub fn hold(&mut self, position: Position) -> Result<()> {
        self.snapshot.hold(position.segment)
    }

    /// Passes over what the index says lies outside of `times_ns` (nanoseconds since 1970 UTC). Entries outside may still
    /// be given; the caller looks at each one's time.
    pub fn set_times(&mut self, times_ns: RangeInclusive<i64>) {
        self.times_ns = times_ns;
    }

    /// Decompresses on a thread of its own, ahead of what is given, at the cost of a few blocks of memory: for whoever reads
    /// on to the end.
    pub fn decode_ahead(&mut self) {
        self.decodes_ahead = true;
    }

    /// Number in the snapshot of the segment that is read, or comes next.
    pub(crate) fn segment_number(&self) -> usize {
        self.at
    }

    /// Name of the segment that is read.
    pub fn segment_name(&self) -> Option<&str> {
        self.snapshot.segments.get(self.at).map(|segment| segment.name.as_str())
    }

    /// The walk through the segment that is read.
    pub fn walk(&self) -> Option<&SegmentWalk<Arc<dyn StorageFile>>> {
        self.walk.as_ref()
    }

    /// Last number that is accounted for so far.
    pub fn last_seq(&self) -> u64 {
        let walked = self.walk.as_ref().map(|walk| walk.summary().last_seq);
        walked.or(self.last_seq).unwrap_or(0)
    }

    /// The next item; `None` at the end of the log.
    ///
    /// # Errors
    /// Where a segment could not be read. The next call goes on with the segment behind it.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>> {
        self.advance_item()?;
        Ok(self.item())
    }

    /// Goes to the next item, which is then [`item`](LogReader::item). Returns false at the end of the log.
    ///
    /// # Errors
    /// As [`next_item`](LogReader::next_item).
    #[inline]
    pub fn advance_item(&mut self) -> Result<bool> {
        (self.at_entry, self.told) = (false, None);
        if let Some(error) = self.failures.pop_front() {
            return Err(error);
        }
        loop {
            if !self.queue.is_empty() {
                self.told = self.queue.pop_front();
                return Ok(true);
            }
            if self.walk.is_none() {
                if !self.open_next()? {
                    return Ok(false);
                }
                continue;
            }
            if self.advance()? {
                break;
            }
        }
        if self.definitions_missing {
            self.find_definitions();
        }
        let Some(walk) = &mut self.walk else { return Ok(false) };
        self.at_entry = walk.is_at_entry();
        if !self.at_entry {
            self.told = match walk.item() {
                Some(Item::Finding(finding)) => Some(Item::Finding(finding)),
                Some(Item::Note(note)) => Some(Item::Note(note)),
                Some(Item::Entry(_)) | None => None,
            };
        }
        Ok(true)
    }

    /// The item that the last [`advance_item`](LogReader::advance_item) went to. Findings and notes are given once.
    #[inline]
    pub fn item(&mut self) -> Option<Item<'_>> {
        match self.told.take() {
            Some(told) => Some(told),
            None => self.entry().map(Item::Entry),
        }
    }

    /// The entry that the last [`advance_item`](LogReader::advance_item) went to, as often as it is asked for; `None` if
    /// that was no entry.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.walk.as_ref().filter(|_| self.at_entry).and_then(SegmentWalk::entry)
    }

    /// One step in the segment that is read. Returns false at its end.
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        let Some(walk) = &mut self.walk else { return Ok(false) };
        match walk.advance_item() {
            Ok(true) => Ok(true),
            Ok(false) => {
                self.last_seq = Some(walk.summary().last_seq);
                self.leave_segment();
                Ok(false)
            }
            Err(error) => {
                let path = self.snapshot.storage().path().join(&self.snapshot.segments[self.at].name);
                self.pass_over();
                Err(error.at(path))
            }
        }
    }

    fn leave_segment(&mut self) {
        (self.walk, self.start, self.definitions_missing) = (None, None, false);
        self.at += 1;
    }

    /// Goes on behind a segment that could not be read: what it holds is neither given nor told as missing.
    fn pass_over(&mut self) {
        let next = self.snapshot.segments.get(self.at + 1).map(|next| next.header.first_seq.saturating_sub(1));
        self.last_seq = next.or(self.last_seq);
        self.leave_segment();
    }

    /// Opens the next segment. Returns false behind the last one.
    fn open_next(&mut self) -> Result<bool> {
        if self.at >= self.snapshot.segments.len() {
            if self.ended {
                return Ok(false);
            }
            self.ended = true;
            self.queue.extend(self.snapshot.link_end(self.last_seq.unwrap_or(0)));
            return Ok(!self.queue.is_empty());
        }
        if self.start.is_none() {
            self.queue.extend(self.snapshot.link(self.at, self.last_seq));
        }
        match self.open_walk() {
            Ok(walk) => self.walk = walk,
            Err(error) if self.snapshot.was_removed(&error) => {
                self.queue.extend(self.snapshot.removal_of(self.at).map(Item::Note));
                self.pass_over();
            }
            Err(error) => {
                self.pass_over();
                return Err(error);
            }
        }
        Ok(true)
    }

    /// The walk through the next segment, or `None` where the index says that nothing in it is wanted.
    fn open_walk(&mut self) -> Result<Option<SegmentWalk<Arc<dyn StorageFile>>>> {
        let everything = self.times_ns == (i64::MIN..=i64::MAX);
        let walk = self.snapshot.walk_behind(self.at, self.last_seq)?;
        let walk = if self.decodes_ahead { walk.decoding_ahead() } else { walk };
        if let Some(position) = self.start {
            self.definitions_missing = true;
            return Ok(Some(walk.starting_at(position.offset, position.seq, Definitions::default())));
        }
        if everything {
            return Ok(Some(walk));
        }
        let (seal, points) = self.index(self.at)?;
        let wanted = |min: i64, max: i64| min <= *self.times_ns.end() && max >= *self.times_ns.start();
        if let Some(seal) = seal
            && !wanted(seal.time_min_ns, seal.time_max_ns)
        {
            self.last_seq = Some(seal.last_seq);
            self.leave_segment();
            return Ok(None);
        }
        let unwanted = points.iter().take_while(|point| !wanted(point.time_min_ns, point.time_max_ns)).count();
        Ok(Some(match points.get(unwanted) {
            Some(point) if unwanted > 0 && self.snapshot.is_frame(self.at, point)? => {
                self.definitions_missing = true;
                walk.starting_at(point.offset, point.seq, Definitions::default())
            }
            _ => walk,
        }))
    }

    /// Reads the definitions that stand before the start of the segment, once an entry needs one.
    #[cold]
    fn find_definitions(&mut self) {
        let Some(walk) = &mut self.walk else { return };
        let Some(site) = walk.current_site() else { return };
        self.definitions_missing = false;
        if walk.definitions().site(site).is_none()
            && let Ok(definitions) = self.snapshot.definitions(self.at)
        {
            walk.add_definitions(definitions);
        }
    }
}

impl Snapshot {
    /// Whether opening a segment failed because a writer has removed it since the snapshot was taken: the one that was at
    /// work then, or one that has started since.
    pub(crate) fn was_removed(&self, error: &Error) -> bool {
        let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
        let has_writer = || {
            let storage = self.storage().as_ref();
            self.is_live()
                || !matches!(writer_pid(storage), Ok(None))
                || !matches!(read_state(storage), Ok(state) if state == self.state)
        };
        source.is_some_and(|source| source.kind() == io::ErrorKind::NotFound) && has_writer()
    }

    /// The note that retention has removed segment number `at`, if it held any numbers.
    pub(crate) fn removal_of(&self, at: usize) -> Option<Note> {
        let next = self.segments.get(at + 1).map_or(0, |next| next.header.first_seq);
        let seqs = SeqRange::new(self.segments[at].header.first_seq, next.saturating_sub(1))?;
        Some(Note { kind: NoteKind::Retention { seqs, rule: None }, place: None })
    }
}
