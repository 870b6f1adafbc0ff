//! Follows a log as it grows: every number once and in order, over rolls, retention, rewrites and restarts of the writer.
//!
//! A [`Follower`] reads the segment that is active as far as it goes, and then waits. Its states:
//! ```text
//! no log there  --segments appear-->  between segments  --next one has frames-->  in a growing segment
//!                                          ^                                             |
//!                                          |      a later segment, or the writer's death, says where it ends
//!                                          +---------------- ending <--------------------+
//! ```
//! An end that is not complete is never a finding while its writer lives: it is looked at again once the file has grown,
//! up to the moment when a later segment's header, or the writer's death, tells what it is. A segment is held open while
//! it is read, so that retention can take its name but not its content. Numbers, not names or times, decide what has been
//! given: whatever order files come and go in, nothing at or below [`Cursor::seq`] is given again.

mod ahead;
mod cursor;
mod ends;
mod waiting;
mod wake;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

pub use crate::follow::cursor::Cursor;
pub use crate::follow::waiting::{StopFd, Woken, wait};

use crate::entry::{Definitions, Entry};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Note, NoteKind};
use crate::follow::wake::Wake;
use crate::format::HEADER_BYTES;
use crate::reader::{LogReader, Position, is_log_dir};
use crate::segment::SegmentName;
use crate::snapshot::{SegmentInfo, Snapshot};
use crate::storage::{Storage, StorageFile};
use crate::storage_os::OsStorage;
use crate::walk::{Ending, Item, SegmentWalk};

/// Where a follower starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first entry that is there.
    First,
    /// Behind the last entry that is there; at the first one of a log that does not exist yet.
    End,
    /// Behind the entry that the cursor names.
    After(Cursor),
}

/// A follower of one log directory. Memory: one segment's walk, and the headers of segments that are still ahead.
#[derive(Debug)]
pub struct Follower {
    storage: Arc<dyn Storage>,
    /// The same, with what the rings of killed runs hold.
    view: Arc<dyn Storage>,
    wake: Wake,
    start: Start,
    /// The log, with the segments that are still ahead; `None` while there is no log.
    snapshot: Option<Snapshot>,
    /// Log that was followed before.
    log_id_before: Option<u64>,
    /// Names in the directory that have been looked at.
    known: HashSet<String>,
    current: Option<Current>,
    /// The segment that was read last.
    before: Option<SegmentInfo>,
    /// Last number given or accounted for.
    done_seq: u64,
    /// Whether something stands before the next segment: a segment that was read, or a cursor.
    begun: bool,
    /// Everything up to the present end is passed over.
    skips_to_end: bool,
    /// The cursor has yet to be held against the end of the log.
    checks_cursor: bool,
    /// The segment before could not be read to its end, which has been said.
    unread: bool,
    /// Another log has taken the place of the one that was followed.
    replaced: bool,
    queue: VecDeque<Item<'static>>,
    /// What the last step went to, unless it was an entry.
    told: Option<Item<'static>>,
    at_entry: bool,
    progress: bool,
}

/// The segment that is read.
#[derive(Debug)]
struct Current {
    info: SegmentInfo,
    file: Arc<dyn StorageFile>,
    walk: SegmentWalk<Arc<dyn StorageFile>>,
    /// What its end is has been told to the walk: there will be no more.
    ends: bool,
    /// Nobody writes the log: after this segment it is said what is missing at the end of the log.
    ends_log: bool,
    seal_seen: bool,
    /// The walk started in the middle: where to find what was defined before.
    definitions_in: Option<Box<Snapshot>>,
}

/// What a step has come to.
enum Step {
    Item,
    Again,
    Wait,
}

impl Follower {
    /// A follower of the log directory `dir`, which need not exist yet.
    ///
    /// # Errors
    /// `NotALog` where something else stands there; `Io` where it can't be read; `Invalid` for a cursor of another log.
    pub fn open(dir: &Path, start: Start) -> Result<Follower> {
        Follower::open_with(dir, start, true)
    }

    /// As [`open`](Follower::open), without inotify: looks again every 1 to 250 ms.
    ///
    /// # Errors
    /// As [`open`](Follower::open).
    pub fn open_polling(dir: &Path, start: Start) -> Result<Follower> {
        Follower::open_with(dir, start, false)
    }

    fn open_with(dir: &Path, start: Start, events: bool) -> Result<Follower> {
        check_path(dir)?;
        let storage: Arc<dyn Storage> = Arc::new(OsStorage::new(dir, 0o640));
        let mut follower = Follower {
            view: Arc::clone(&storage),
            storage,
            wake: Wake::new(dir, events),
            start,
            snapshot: None,
            log_id_before: None,
            known: HashSet::new(),
            current: None,
            before: None,
            done_seq: 0,
            begun: false,
            skips_to_end: false,
            checks_cursor: false,
            unread: false,
            replaced: false,
            queue: VecDeque::new(),
            told: None,
            at_entry: false,
            progress: false,
        };
        if let Step::Wait = follower.attach()?
            && follower.start == Start::End
        {
            // All that comes is new.
            follower.start = Start::First;
        }
        Ok(follower)
    }

    /// Behind what has been given so far; `None` while there is no log.
    pub fn cursor(&self) -> Option<Cursor> {
        let log_id = self.snapshot.as_ref()?.log_id;
        let seq = if self.skips_to_end { 0 } else { self.done_seq };
        Some(Cursor { log_id, seq })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.storage.path()
    }

    /// Whether the log is there.
    pub fn has_log(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Name of the segment that is read.
    pub fn segment_name(&self) -> Option<&str> {
        self.current.as_ref().map(|current| current.info.name.as_str())
    }

    /// The next item that is there; `None` if there is none for now: then [`wait`].
    ///
    /// # Errors
    /// Where a file or the directory could not be read; the next call goes on behind what could not.
    pub fn try_next(&mut self) -> Result<Option<Item<'_>>> {
        self.advance_item()?;
        Ok(self.item())
    }

    /// The next item, waited for until `until`; `None` at that time. `until` of `None`: for ever.
    ///
    /// # Errors
    /// As [`try_next`](Follower::try_next), and where waiting fails.
    pub fn next(&mut self, until: Option<Instant>) -> Result<Option<Item<'_>>> {
        while !self.advance_item()? {
            if wait(&mut [&mut *self], &[], until)? == Woken::Deadline {
                return Ok(None);
            }
        }
        Ok(self.item())
    }

    /// Goes to the next item that is there, which is then [`item`](Follower::item). Returns false if there is none for now.
    ///
    /// # Errors
    /// As [`try_next`](Follower::try_next).
    pub fn advance_item(&mut self) -> Result<bool> {
        (self.at_entry, self.told) = (false, None);
        loop {
            if let Some(told) = self.queue.pop_front() {
                self.done_seq = told.seqs().map_or(self.done_seq, |seqs| seqs.last.max(self.done_seq));
                self.told = Some(told);
                break;
            }
            match self.step() {
                Ok(Step::Again) => {}
                Ok(Step::Item) => break,
                Ok(Step::Wait) => {
                    let has_begun = self.snapshot.as_ref().is_some_and(Snapshot::has_begun);
                    self.wake.settle(std::mem::take(&mut self.progress), has_begun);
                    return Ok(false);
                }
                Err(error) => {
                    self.wake.settle(false, false);
                    return Err(error);
                }
            }
        }
        self.progress = true;
        Ok(true)
    }

    /// The item that the last [`advance_item`](Follower::advance_item) went to. Findings and notes are given once.
    pub fn item(&mut self) -> Option<Item<'_>> {
        match self.told.take() {
            Some(told) => Some(told),
            None => self.entry().map(Item::Entry),
        }
    }

    /// The entry that the last [`advance_item`](Follower::advance_item) went to, as often as it is asked for; `None` if
    /// that was no entry.
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref().filter(|_| self.at_entry).and_then(|current| current.walk.entry())
    }

    fn step(&mut self) -> Result<Step> {
        if self.snapshot.is_none() {
            return self.attach();
        }
        let Some(current) = &mut self.current else { return self.open_next() };
        match current.walk.advance_item() {
            Ok(true) => Ok(self.take_step()),
            Ok(false) if current.ends => {
                self.leave();
                Ok(Step::Again)
            }
            Ok(false) => self.look(),
            Err(error) => {
                let path = self.storage.path().join(&current.info.name);
                self.leave_unread();
                Err(error.at(path))
            }
        }
    }

    /// The walk has gone to an item: passes over what was given before.
    fn take_step(&mut self) -> Step {
        let Some(current) = &mut self.current else { return Step::Again };
        let seqs = current.walk.current_seqs();
        let is_old = match seqs {
            Some(seqs) => seqs.last <= self.done_seq,
            None => current.walk.summary().last_seq < self.done_seq,
        };
        self.at_entry = current.walk.is_at_entry();
        if !self.at_entry {
            self.told = match current.walk.item() {
                Some(Item::Finding(finding)) => Some(Item::Finding(finding)),
                Some(Item::Note(note)) => Some(Item::Note(note)),
                Some(Item::Entry(_)) | None => None,
            };
        }
        if self.skips_to_end || is_old {
            (self.at_entry, self.told) = (false, None);
            return Step::Again;
        }
        self.done_seq = seqs.map_or(self.done_seq, |seqs| seqs.last);
        if current.definitions_in.is_some() {
            current.find_definitions();
        }
        Step::Item
    }

    /// Looks whether the log is there.
    fn attach(&mut self) -> Result<Step> {
        if !std::mem::take(&mut self.wake.hints.names) {
            return Ok(Step::Wait);
        }
        self.wake.watch_dir();
        let mut snapshot = match Snapshot::take(Arc::clone(&self.storage)) {
            Ok(snapshot) => snapshot,
            Err(error) if error.kind() == ErrorKind::NotALog || error.is_not_found() => return Ok(Step::Wait),
            Err(error) => return Err(error),
        };
        if snapshot.segments.is_empty() {
            return Ok(Step::Wait);
        }
        if let Start::After(cursor) = self.start
            && cursor.log_id != snapshot.log_id
        {
            let (old, new) = (cursor.log_id, snapshot.log_id);
            let text =
                format!("the cursor is of log {old:016x}, this is log {new:016x}: remove the cursor to start anew");
            return Err(Error::new(ErrorKind::Invalid, text).at(self.storage.path()));
        }
        self.view = Arc::clone(snapshot.storage());
        self.known = snapshot.names().map(str::to_owned).collect();
        self.queue.extend(snapshot.findings.drain(..).map(Item::Finding));
        if self.log_id_before.is_some_and(|before| before != snapshot.log_id) {
            let kind = NoteKind::OtherLog { log_id: snapshot.log_id };
            self.queue.push_back(Item::Note(Note { kind, place: None }));
        }
        let reader = LogReader::new(snapshot.clone());
        self.snapshot = Some(snapshot);
        match self.start {
            Start::First => return Ok(Step::Again),
            Start::After(cursor) => {
                (self.done_seq, self.begun, self.checks_cursor) = (cursor.seq, true, true);
                let position = reader.position_of_seq(cursor.seq.saturating_add(1))?;
                self.open_at(position.segment, Some(position))?;
            }
            Start::End => {
                (self.begun, self.skips_to_end) = (true, true);
                let position = reader.position_of_seq(u64::MAX)?;
                self.open_at(position.segment, Some(position))?;
            }
        }
        Ok(Step::Again)
    }

    /// Opens segment number `at` of those ahead, at `position` or at its start.
    fn open_at(&mut self, at: usize, position: Option<Position>) -> Result<()> {
        let Some(snapshot) = &mut self.snapshot else { return Ok(()) };
        let info = snapshot.segments[at].clone();
        let opened = snapshot.open(at).and_then(|file| {
            let bytes = file.len().map_err(|error| Error::io("cannot read", error).at(&info.name))?;
            Ok((file, bytes))
        });
        let (file, bytes) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // Removed since it was listed: what is missing is told before the next one. Or it can't be opened, which
                // is said once.
                snapshot.segments.remove(at);
                self.wake.hints.names = true;
                return if error.is_not_found() { Ok(()) } else { Err(error) };
            }
        };
        let walk = SegmentWalk::new(Arc::clone(&file), &info.name, &info.header, bytes, Ending::Growing);
        let walk = match info.header.first_seq {
            // Its header is lost.
            0 if self.begun => {
                walk.starting_at(HEADER_BYTES as u64, self.done_seq.saturating_add(1), Definitions::default())
            }
            _ => walk,
        };
        let middle = position.filter(|position| position.offset > HEADER_BYTES as u64);
        let (walk, definitions_in) = match middle {
            Some(position) => {
                let walk = walk.starting_at(position.offset, position.seq, Definitions::default());
                (walk, Some(Box::new(snapshot.only(at))))
            }
            None => (walk, None),
        };
        self.wake.watch_file(&info.name);
        let spans = self.before.as_ref().is_some_and(|before| info.header.index <= before.header.index_last);
        if middle.is_none() && !spans && !self.skips_to_end {
            self.link(&info);
        }
        let (last, first_seq) = (info.header.index_last, info.header.first_seq);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.segments.retain(|segment| segment.header.index_last > last);
            snapshot.unreadable.retain(|segment| segment.index > last);
        }
        if !self.begun {
            self.done_seq = first_seq.saturating_sub(1);
        }
        self.begun = true;
        let (ends, ends_log, seal_seen) = (false, false, false);
        self.current = Some(Current { info, file, walk, ends, ends_log, seal_seen, definitions_in });
        Ok(())
    }

    /// Looks at the directory: takes in segments that are new.
    fn refresh(&mut self) -> Result<()> {
        self.wake.watch_dir();
        let names = match self.view.names() {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Maybe it comes back, or another one in its place.
                self.wake.forget_dir();
                self.wake.watch_dir();
                self.known.clear();
                return Ok(());
            }
            Err(error) => return Err(Error::io("cannot read the log", error).at(self.storage.path())),
        };
        let Some(snapshot) = &mut self.snapshot else { return Ok(()) };
        // Those that had no frames yet, or could not be read, may be whole now.
        let is_new = |segment: &SegmentInfo| segment.bytes <= HEADER_BYTES as u64 || segment.rebuilt.is_some();
        for again in snapshot.segments.iter().filter(|segment| is_new(segment)).map(|segment| &segment.name) {
            self.known.remove(again);
        }
        self.known.retain(|name| snapshot.unreadable.iter().all(|segment| segment.name != *name));
        snapshot.segments.retain(|segment| !is_new(segment));
        snapshot.unreadable.clear();
        let last = self.current.as_ref().map(|current| &current.info).or(self.before.as_ref());
        let last = last.map_or(0, |info| info.header.index_last);
        let mut known = HashSet::with_capacity(names.len());
        let mut new = Vec::new();
        for name in names {
            let Some(parsed) = SegmentName::parse(&name) else { continue };
            if !self.known.contains(&name) && parsed.index_last() > last {
                new.push((name.clone(), parsed.index()));
            }
            known.insert(name);
        }
        self.known = known;
        snapshot.segments.retain(|segment| self.known.contains(&segment.name));
        let taken = if new.is_empty() { Ok(()) } else { snapshot.take_in(&new, &mut self.known) };
        let findings = std::mem::take(&mut snapshot.findings);
        self.replaced = self.is_replaced();
        if !self.replaced {
            self.queue.extend(findings.into_iter().map(Item::Finding));
        }
        taken
    }
}

impl Current {
    /// Reads the definitions that stand before the start of the walk, once an entry needs one.
    #[cold]
    fn find_definitions(&mut self) {
        let Some(site) = self.walk.current_site() else { return };
        let Some(snapshot) = self.definitions_in.take() else { return };
        if self.walk.definitions().site(site).is_none()
            && let Ok(definitions) = snapshot.definitions(0)
        {
            self.walk.add_definitions(definitions);
        }
    }
}

/// Refuses what can't become a log directory.
fn check_path(dir: &Path) -> Result<()> {
    let metadata = match std::fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("cannot open", error).at(dir)),
    };
    if !metadata.is_dir() {
        let name = dir.file_name().and_then(|name| name.to_str());
        let is_segment = name.is_some_and(|name| SegmentName::parse(name).is_some());
        let (kind, text) = if is_segment {
            (ErrorKind::Invalid, "one segment can't be followed: name the directory that it lies in")
        } else {
            (ErrorKind::NotALog, "no log directory: only those can be followed")
        };
        return Err(Error::new(kind, text).at(dir));
    }
    let is_empty = std::fs::read_dir(dir).map(|mut names| names.next().is_none());
    match is_empty {
        Ok(is_empty) if is_empty || is_log_dir(dir) => Ok(()),
        Ok(_) => Err(Error::new(ErrorKind::NotALog, "no logtool log: it holds no segment").at(dir)),
        Err(error) => Err(Error::io("cannot read", error).at(dir)),
    }
}
