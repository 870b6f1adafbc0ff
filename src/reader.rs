//! Entry by entry through a whole log: segments in order, what is missing between them, and places to start from.

use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use crate::control::{IndexMark, IndexPoint, Seal};
use crate::entry::{Definitions, Entry};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Note, NoteKind, SeqRange};
use crate::format::{FRAME_ALIGN, FrameKind, HEADER_BYTES, INDEX_POINTS_MAX};
use crate::scan::{Found, FrameScan, read_seal};
use crate::segment::SegmentName;
use crate::snapshot::Snapshot;
use crate::state::{read_state, writer_pid};
use crate::storage::{Storage, StorageFile};
use crate::storage_os::OsStorage;
use crate::walk::{Item, SegmentWalk};

/// How far from its end an unsealed segment is searched for its last index mark: marks stand at most that far apart.
const MARK_SEARCH_BYTES: u64 = 4 << 20;

/// Most index marks that are followed back: the writer makes them rarer long before.
const MARKS_MAX: usize = 8 * INDEX_POINTS_MAX;

/// Bytes read at a time where single frames are looked at.
const LOOK_BYTES: usize = 4 << 10;

/// A place in a log where a reader can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the segment in the snapshot.
    pub segment: usize,
    /// Byte offset of a frame.
    pub offset: u64,
    /// Number of that frame: entries behind it have this number or a later one.
    pub seq: u64,
}

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
        names.iter().any(|entry| SegmentName::parse(&entry.name).is_some() || entry.name == crate::state::LOCK_NAME)
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

    /// Passes over what the index says lies outside of `times_ns` (nanoseconds since 1970 UTC). Entries outside may still
    /// be given; the caller looks at each one's time.
    pub fn set_times(&mut self, times_ns: RangeInclusive<i64>) {
        self.times_ns = times_ns;
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

    /// The seal of segment number `at`, if it has one, and where a reader can start in it.
    ///
    /// # Errors
    /// Where the segment can't be read.
    pub fn index(&self, at: usize) -> Result<(Option<Seal>, Vec<IndexPoint>)> {
        match self.snapshot.seal(at)? {
            Some((_, seal)) => {
                let points = seal.points.clone();
                Ok((Some(seal), points))
            }
            None => Ok((None, self.snapshot.marked_points(at)?)),
        }
    }

    /// Where to start so that the entry with number `seq` is given, or the first behind it.
    ///
    /// # Errors
    /// Where the segment can't be read.
    pub fn position_of_seq(&self, seq: u64) -> Result<Position> {
        let segments = &self.snapshot.segments;
        let at = segments.iter().rposition(|segment| (1..=seq).contains(&segment.header.first_seq)).unwrap_or(0);
        let Some(info) = segments.get(at) else { return Ok(Position { segment: 0, offset: 0, seq: 0 }) };
        let (_, points) = self.index(at)?;
        let point = points.iter().rfind(|point| point.seq <= seq);
        Ok(match point {
            Some(point) if self.snapshot.is_frame(at, point)? => {
                Position { segment: at, offset: point.offset, seq: point.seq }
            }
            _ => Position { segment: at, offset: HEADER_BYTES as u64, seq: info.header.first_seq },
        })
    }

    /// Where to start so that about `bytes` bytes of frames come behind it; the start of the log if it has fewer.
    ///
    /// # Errors
    /// Where a segment can't be read.
    pub fn position_back(&self, bytes: u64) -> Result<Position> {
        let mut left = bytes;
        for at in (0..self.snapshot.segments.len()).rev() {
            let info = &self.snapshot.segments[at];
            let end = self.snapshot.seal(at)?.map_or(info.bytes, |(offset, _)| offset);
            let start = HEADER_BYTES as u64;
            let held = end.saturating_sub(start);
            if held < left && at > 0 {
                left -= held;
                continue;
            }
            let first = Position { segment: at, offset: start, seq: info.header.first_seq };
            if held <= left {
                return Ok(first);
            }
            let mut scan = self.snapshot.scan(at)?;
            scan.seek_frame(end - left)?;
            return Ok(match scan.next_found()? {
                Some(Found::Frame { offset, header, .. }) => Position { segment: at, offset, seq: header.seq },
                // No frame so near the end: a damaged end is walked as a whole.
                _ => first,
            });
        }
        Ok(Position { segment: 0, offset: HEADER_BYTES as u64, seq: 0 })
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

    /// A scan of all frames of segment number `at`.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn scan(&self, at: usize) -> Result<FrameScan<Arc<dyn StorageFile>>> {
        let info = &self.segments[at];
        Ok(FrameScan::new(self.open(at)?, info.header.segment_id, HEADER_BYTES as u64, info.bytes, 0))
    }

    /// The seal of segment number `at` and its offset; `None` if there is none at the end of the file.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn seal(&self, at: usize) -> Result<Option<(u64, Seal)>> {
        let info = &self.segments[at];
        let read = read_seal(self.open(at)?, info.header.segment_id, info.bytes);
        read.map_err(|error| error.at(self.storage().path().join(&info.name)))
    }

    /// Whether the frame that the index names is there: an index that is wrong only costs the time that it would save.
    fn is_frame(&self, at: usize, point: &IndexPoint) -> Result<bool> {
        if !is_frame_place(point.offset) {
            return Ok(false);
        }
        let mut scan = self.scan(at)?.reading(LOOK_BYTES).restarted(point.offset, 0);
        Ok(scan.next_at_start()?.is_some_and(|header| header.seq == point.seq))
    }

    /// All definitions in segment number `at`, wherever they stand.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn definitions(&self, at: usize) -> Result<Definitions> {
        let mut definitions = Definitions::default();
        let mut take = |header: u8, payload: &[u8]| {
            if header == FrameKind::CallSite as u8 {
                definitions.add_site(payload);
            } else if header == FrameKind::Thread as u8 {
                definitions.add_thread(payload);
            }
        };
        let listed = self.seal(at)?.map(|(_, seal)| seal.definitions);
        // A list out of order would be one that lies: each place is looked at once.
        let listed = listed.filter(|listed| !listed.is_empty() && listed.is_sorted_by(|one, next| one < next));
        let mut scan = self.scan(at)?;
        if let Some(listed) = listed {
            scan = scan.reading(LOOK_BYTES);
            for offset in listed.into_iter().filter(|&offset| is_frame_place(offset)) {
                scan = scan.restarted(offset, 0);
                if let Some(header) = scan.next_at_start()? {
                    take(header.kind, scan.payload());
                }
            }
            return Ok(definitions);
        }
        while let Some(found) = scan.next_found()? {
            if let Found::Frame { header, .. } = found {
                take(header.kind, scan.payload());
            }
        }
        Ok(definitions)
    }

    /// Where a reader can start in segment number `at`, as its index marks tell: from the last one back to the first.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn marked_points(&self, at: usize) -> Result<Vec<IndexPoint>> {
        let info = &self.segments[at];
        let mut scan = self.scan(at)?;
        scan.seek_frame(info.bytes.saturating_sub(MARK_SEARCH_BYTES).max(HEADER_BYTES as u64))?;
        let mut last = None;
        while let Some(found) = scan.next_found()? {
            if let Found::Frame { offset, header, .. } = found
                && header.kind == FrameKind::IndexMark as u8
                && let Some(mark) = IndexMark::decode(scan.payload())
            {
                last = Some((offset, header.seq, mark));
            }
        }
        let Some((offset, seq, mark)) = last else { return Ok(Vec::new()) };
        // The stretch behind the last mark has no bounds yet.
        let open = IndexPoint { offset, seq, time_min_ns: i64::MIN, time_max_ns: i64::MAX };
        let mut points = vec![open, mark.point];
        let (mut mark_at, mut previous) = (offset, mark.previous_mark);
        scan = scan.reading(LOOK_BYTES);
        // Offsets only ever go down, so that a chain that lies comes to an end.
        while previous != 0 {
            let is_earlier = previous < mark_at && is_frame_place(previous) && points.len() < MARKS_MAX;
            scan = scan.restarted(previous, 0);
            let header = if is_earlier { scan.next_at_start()? } else { None };
            let is_mark = header.is_some_and(|header| header.kind == FrameKind::IndexMark as u8);
            let Some(mark) = IndexMark::decode(scan.payload()).filter(|_| is_mark) else {
                // A damaged mark: without it nothing before is known, and the whole segment is read.
                return Ok(Vec::new());
            };
            points.push(mark.point);
            (mark_at, previous) = (previous, mark.previous_mark);
        }
        points.reverse();
        let in_order = points.is_sorted_by(|one, next| one.offset < next.offset && one.seq <= next.seq);
        Ok(if in_order { points } else { Vec::new() })
    }
}

/// Whether a frame may start at this offset of a segment.
fn is_frame_place(offset: u64) -> bool {
    offset >= HEADER_BYTES as u64 && offset.is_multiple_of(FRAME_ALIGN as u64)
}
