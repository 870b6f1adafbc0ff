//! Retention: which old segments go, and how they are removed.
//!
//! The first sequence number kept is on record before the first file goes: in a new segment's header, or in a retention mark,
//! or, on a full disk, which takes no mark, in `writer.lock`; flushed and, but for [`SyncPolicy::Never`], synced. Files go
//! oldest first. So a reader never mistakes what retention removed for a loss, wherever a removal stops.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::control::{RetentionMark, RetentionRule};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FrameKind;
use crate::options::{KeepFree, Retention, SyncPolicy};
use crate::record::write_record;
use crate::scan::read_seal;
use crate::segment::{SegmentHeader, SegmentName};
use crate::state::{LOCK_NAME, WriterState};
use crate::storage::{Space, Storage, StorageFile};
use crate::writer::Writer;

/// Name of the lock that whoever removes or rewrites segments holds meanwhile.
pub const MAINTENANCE_LOCK_NAME: &str = "maintenance.lock";

/// A segment file as retention sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// `None` if the header cannot be read.
    pub(crate) opened: Option<OpenedSegment>,
}

/// What is known of a segment from its header, and from its seal if it had one when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedSegment {
    pub(crate) log_id: u64,
    pub(crate) first_seq: u64,
    /// When it was opened, nanoseconds since 1970 UTC.
    pub(crate) opened_ns: i64,
    /// The latest time of an entry.
    pub(crate) newest_ns: Option<i64>,
}

impl OpenedSegment {
    pub(crate) fn of(header: &SegmentHeader) -> OpenedSegment {
        OpenedSegment {
            log_id: header.log_id,
            first_seq: header.first_seq,
            opened_ns: header.opened_ns,
            newest_ns: None,
        }
    }

    /// Reads the header, and with `with_seal` the seal; `None` if there is no header.
    fn read(file: &dyn StorageFile, with_seal: bool) -> Option<OpenedSegment> {
        let header = SegmentHeader::read(file).ok()?.ok()?;
        let seal = if with_seal { read_seal(file, header.segment_id, file.len().ok()?).ok().flatten() } else { None };
        let newest_ns = seal.map(|(_, seal)| seal.time_max_ns);
        Some(OpenedSegment { newest_ns, ..OpenedSegment::of(&header) })
    }

    /// A time at which everything in it had been logged, but for what the next segment's opening tells.
    fn ended_ns(&self) -> Option<i64> {
        self.newest_ns.map(|newest_ns| newest_ns.max(self.opened_ns))
    }
}

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetentionPlan {
    /// Names, oldest first.
    pub(crate) names: Vec<String>,
    pub(crate) rule: RetentionRule,
    /// The first segment that stays; `None` for the one about to be created.
    first_kept: Option<String>,
    /// First sequence number that stays; `None` if that cannot be told, or was not looked up.
    pub(crate) first_seq_kept: Option<u64>,
}

/// The state of a directory that a plan is made for.
#[derive(Clone, Debug)]
pub(crate) struct Holdings {
    /// All segments, oldest first.
    pub(crate) files: Vec<SegmentFile>,
    /// A segment about to be created: its first sequence number and the bytes that it adds. Otherwise the last of `files` is
    /// the active one.
    pub(crate) next: Option<(u64, u64)>,
    /// Bytes of rings and quarantine.
    pub(crate) other_bytes: u64,
    /// Room on the file system, where a rule needs it.
    pub(crate) space: Option<Space>,
}

/// Segments by file name, so that each is looked into once.
pub(crate) type OpenedSegments = HashMap<String, OpenedSegment>;

/// What is known of a segment, looked up in its file the first time.
fn look_up(storage: &dyn Storage, opened: &mut OpenedSegments, name: &str, with_seal: bool) -> Option<OpenedSegment> {
    if let Some(known) = opened.get(name) {
        return Some(*known);
    }
    let known = OpenedSegment::read(&*storage.open(name).ok()?, with_seal)?;
    opened.insert(name.to_owned(), known);
    Some(known)
}

/// What was logged at or before this time is too old.
fn oldest_kept_ns(age: Duration, now_ns: i64) -> i64 {
    now_ns.saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
}

impl Holdings {
    /// What lies in the directory of the log `log_id`. Segments of other logs are not its own: they neither count nor go.
    pub(crate) fn of(
        storage: &dyn Storage,
        opened: &mut OpenedSegments,
        log_id: u64,
        rules: &Retention,
        next: Option<(u64, u64)>,
        now_ns: i64,
    ) -> Result<Holdings> {
        let failed = |what: &str, error: io::Error| Error::io(what, error).at(storage.path());
        let (mut files, other_bytes) =
            segment_files(storage).map_err(|error| failed("cannot list the directory", error))?;
        opened.retain(|name, _| files.iter().any(|file| file.name == *name));
        let by_age = rules.keep_age.is_some();
        files.retain(|file| look_up(storage, opened, &file.name, by_age).is_none_or(|known| known.log_id == log_id));
        if let Some(age) = rules.keep_age {
            let limit = oldest_kept_ns(age, now_ns);
            for file in &mut files {
                file.opened = look_up(storage, opened, &file.name, true);
                // What was opened after that, and all behind it, stays.
                if file.opened.is_some_and(|opened| opened.opened_ns > limit) {
                    break;
                }
            }
        }
        let space = match rules.keep_free {
            Some(_) => Some(storage.space().map_err(|error| failed("cannot tell the free space", error))?),
            None => None,
        };
        Ok(Holdings { files, next, other_bytes, space })
    }
}

impl RetentionPlan {
    /// What `rules` say of `holdings` at the time `now_ns`; `None` if nothing is to go.
    pub(crate) fn new(rules: &Retention, holdings: &Holdings, now_ns: i64) -> Option<RetentionPlan> {
        let Holdings { files, next, other_bytes, space } = holdings;
        let removable = if next.is_some() { files.len() } else { files.len().saturating_sub(1) };
        // How many of the oldest must go until `enough` holds of the number and the bytes removed.
        let count_until = |enough: &dyn Fn(usize, u64) -> bool| {
            let mut bytes = 0;
            for (count, file) in files.iter().enumerate().take(removable) {
                if enough(count, bytes) {
                    return count;
                }
                bytes += file.bytes;
            }
            removable
        };
        let by_segments = rules.keep_segments.map_or(0, |keep| {
            let all = files.len() as u64 + u64::from(next.is_some());
            count_until(&|count, _| all - count as u64 <= keep)
        });
        let by_bytes = rules.keep_bytes.map_or(0, |keep| {
            let all =
                files.iter().map(|file| file.bytes).sum::<u64>() + other_bytes + next.map_or(0, |(_, bytes)| bytes);
            count_until(&|_, bytes| all - bytes <= keep)
        });
        let by_age = rules.keep_age.map_or(0, |age| {
            let limit = oldest_kept_ns(age, now_ns);
            // Everything in a segment was logged before the next one was opened.
            let ended_ns = |count: usize| {
                let next_opened = match files.get(count + 1) {
                    Some(file) => file.opened.map_or(i64::MAX, |opened| opened.opened_ns),
                    None => now_ns,
                };
                let ended = files.get(count).and_then(|file| file.opened).and_then(|opened| opened.ended_ns());
                next_opened.min(ended.unwrap_or(i64::MAX))
            };
            count_until(&|count, _| ended_ns(count) > limit)
        });
        let by_free = rules.keep_free.zip(*space).map_or(0, |(keep, space)| {
            let wanted = match keep {
                KeepFree::Bytes(bytes) => bytes,
                KeepFree::Percent(percent) => (u128::from(space.total) * u128::from(percent)).div_ceil(100) as u64,
            };
            count_until(&|_, bytes| space.free.saturating_add(bytes) >= wanted)
        });
        let rules = [
            (by_segments, RetentionRule::KeepSegments),
            (by_bytes, RetentionRule::KeepBytes),
            (by_age, RetentionRule::KeepAge),
            (by_free, RetentionRule::KeepFree),
        ];
        let (count, rule) = rules.into_iter().max_by_key(|(count, _)| *count)?;
        RetentionPlan::oldest(holdings, count, rule)
    }

    /// The plan that removes the `count` oldest; `None` for none.
    pub(crate) fn oldest(holdings: &Holdings, count: usize, rule: RetentionRule) -> Option<RetentionPlan> {
        let (gone, kept) = holdings.files.split_at_checked(count).filter(|(gone, _)| !gone.is_empty())?;
        let first_seq_kept = match kept.first() {
            Some(file) => file.opened.map(|opened| opened.first_seq),
            None => holdings.next.map(|(first_seq, _)| first_seq),
        };
        let names = gone.iter().map(|file| file.name.clone()).collect();
        Some(RetentionPlan { names, rule, first_kept: kept.first().map(|file| file.name.clone()), first_seq_kept })
    }

    /// The plan with the first number that stays looked up, where it is not known yet.
    pub(crate) fn looked_up(mut self, storage: &dyn Storage, opened: &mut OpenedSegments) -> RetentionPlan {
        if let Some(name) = self.first_kept.as_ref().filter(|_| self.first_seq_kept.is_none()) {
            self.first_seq_kept = look_up(storage, opened, name, false).map(|known| known.first_seq);
        }
        self
    }
}

/// All segments of a directory, oldest first, with their headers where these can be read.
pub(crate) fn segment_files(storage: &dyn Storage) -> io::Result<(Vec<SegmentFile>, u64)> {
    let mut files = Vec::new();
    let mut other_bytes: u64 = storage.list_quarantine()?.iter().map(|entry| entry.bytes).sum();
    for entry in storage.list()?.into_iter().filter(|entry| entry.is_file) {
        match SegmentName::parse(&entry.name) {
            Some(name) => {
                files.push((name.index(), SegmentFile { name: entry.name, bytes: entry.bytes, opened: None }))
            }
            None if entry.name.ends_with(".ring") => other_bytes += entry.bytes,
            None => {}
        }
    }
    files.sort_by_key(|(index, _)| *index);
    Ok((files.into_iter().map(|(_, file)| file).collect(), other_bytes))
}

impl Writer {
    /// Removes the segments that the options no longer keep, as after each roll. Returns how many it removed.
    ///
    /// # Errors
    /// What the system says; what was not removed is tried again at the next roll or call.
    pub fn apply_retention(&mut self) -> Result<u64> {
        if self.options.retention.is_none() {
            return Ok(0);
        }
        self.flush()?;
        self.retain_now()
    }

    /// As [`apply_retention`](Writer::apply_retention), with everything flushed.
    pub(crate) fn retain_now(&mut self) -> Result<u64> {
        let (rules, now_ns) = (self.options.retention, (self.options.clock)());
        let holdings = Holdings::of(&*self.storage, &mut self.opened, self.active.header.log_id, &rules, None, now_ns)?;
        match RetentionPlan::new(&rules, &holdings, now_ns) {
            Some(plan) => self.mark_and_remove(plan),
            None => Ok(0),
        }
    }

    /// Removes the oldest segment, whatever the options say: for a full disk. Returns false if only the active one is left.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove_oldest(&mut self) -> Result<bool> {
        self.check_open()?;
        let no_rules = Retention::default();
        let holdings = Holdings::of(&*self.storage, &mut self.opened, self.active.header.log_id, &no_rules, None, 0)?;
        let count = usize::from(holdings.files.len() > 1);
        match RetentionPlan::oldest(&holdings, count, RetentionRule::DiskFull) {
            Some(plan) => self.mark_and_remove(plan).map(|removed| removed > 0),
            None => Ok(false),
        }
    }

    /// What is to go once a segment has been created whose first number is `first_seq` and that adds `bytes`.
    pub(crate) fn plan_for_roll(&mut self, first_seq: u64, bytes: u64) -> Result<Option<RetentionPlan>> {
        if self.options.retention.is_none() {
            return Ok(None);
        }
        let (rules, now_ns) = (self.options.retention, (self.options.clock)());
        let holdings = Holdings::of(
            &*self.storage,
            &mut self.opened,
            self.active.header.log_id,
            &rules,
            Some((first_seq, bytes)),
            now_ns,
        )?;
        let plan = RetentionPlan::new(&rules, &holdings, now_ns);
        Ok(plan.map(|plan| plan.looked_up(&*self.storage, &mut self.opened)))
    }

    /// Puts the first number kept on record in the log, then removes.
    fn mark_and_remove(&mut self, plan: RetentionPlan) -> Result<u64> {
        let plan = plan.looked_up(&*self.storage, &mut self.opened);
        let maintenance = take_maintenance_lock(&*self.storage)?;
        if let Some(first_seq_kept) = plan.first_seq_kept
            && first_seq_kept > self.first_seq_kept
        {
            self.first_seq_kept = first_seq_kept;
            let mark = RetentionMark {
                first_seq_kept,
                time_ns: (self.options.clock)(),
                segments_removed: plan.names.len() as u64,
                rule: plan.rule,
            };
            let mut payload = Vec::new();
            mark.encode(&mut payload);
            self.batch.push_control(FrameKind::RetentionMark, &payload);
        }
        self.record_first_seq_kept()?;
        let removed = self.remove_planned(&plan, maintenance)?;
        match self.write_pending() {
            // What went was too little, or others were faster: the mark waits on.
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(removed),
            written => written.map(|()| removed),
        }
    }

    /// Sees to it that what stays is on record before the rest goes; also where an earlier try has pushed the mark, as nothing
    /// tells that it came to be written.
    fn record_first_seq_kept(&mut self) -> Result<()> {
        let is_synced = self.options.sync != SyncPolicy::Never;
        let marked = self.write_pending().and_then(|()| if is_synced { self.sync_flushed() } else { Ok(()) });
        if !marked.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace) {
            return marked;
        }
        // The disk is full: the mark waits in the batch for the space that is freed now, and the record, which needs none,
        // tells meanwhile.
        let recorded = self.put_on_record().and_then(|()| match &self.lock {
            Some(lock) if is_synced => lock.sync(),
            _ => Ok(()),
        });
        recorded.map_err(|error| {
            let path = self.storage.path().join(LOCK_NAME);
            Error::io("cannot record what retention keeps, so nothing is removed", error).at(path)
        })
    }

    /// Removes what the plan names, whose first number kept is on record.
    pub(crate) fn remove_planned(&mut self, plan: &RetentionPlan, maintenance: Arc<dyn StorageFile>) -> Result<u64> {
        let mut removed = 0;
        let mut failure = None;
        for name in plan.names.iter().filter(|name| **name != self.active.name) {
            match self.storage.remove(name) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let path = self.storage.path().join(name);
                    failure =
                        Some(Error::io("cannot remove the segment that retention no longer keeps", error).at(path));
                    break;
                }
            }
            self.unsynced_older.retain(|older| older.name != *name);
        }
        self.stats.segments_removed += removed;
        if removed > 0 && self.options.sync != SyncPolicy::Never {
            let synced = self.storage.sync_dir();
            let path = self.storage.path();
            failure = failure.or(synced.err().map(|error| Error::io("cannot sync the directory", error).at(path)));
        }
        drop(maintenance);
        failure.map_or(Ok(removed), Err)
    }

    /// Whether time or free space may call for retention; cheap enough to ask each second.
    pub(crate) fn may_need_retention(&self, now_ns: i64) -> bool {
        let Retention { keep_age, keep_free, .. } = self.options.retention;
        let aged = keep_age.is_some_and(|age| {
            let limit = oldest_kept_ns(age, now_ns);
            let older = self.opened.iter().filter(|(name, _)| **name != self.active.name);
            older.map(|(_, opened)| opened.opened_ns).min().is_some_and(|opened_ns| opened_ns <= limit)
        });
        aged || keep_free.is_some()
    }

    /// Whether the log has outgrown `keep_bytes`, as far as this writer knows.
    pub(crate) fn outgrew_keep_bytes(&self) -> bool {
        self.older_bytes > 0
            && self.options.retention.keep_bytes.is_some_and(|keep| self.older_bytes + self.active.end > keep)
    }

    /// Counts again what the directory holds besides the active segment.
    pub(crate) fn count_older_bytes(&mut self) {
        if self.options.retention.keep_bytes.is_none() {
            return;
        }
        if let Ok((files, other_bytes)) = segment_files(&*self.storage) {
            let older = files.iter().filter(|file| file.name != self.active.name);
            let (count, bytes) = older.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes));
            self.older_bytes = if count == 0 { 0 } else { bytes + other_bytes };
        }
    }
}

/// Removes the oldest segment of a log that is to be opened on a full disk; what stays is on record in `lock`, in `state`,
/// before. Returns the first number kept; `None` if only the newest segment is left.
pub(crate) fn make_room(
    storage: &dyn Storage,
    lock: &dyn StorageFile,
    state: WriterState,
    is_synced: bool,
) -> Result<Option<u64>> {
    let mut opened = OpenedSegments::new();
    let holdings = Holdings::of(storage, &mut opened, state.log_id, &Retention::default(), None, 0)?;
    let count = usize::from(holdings.files.len() > 1);
    let plan = RetentionPlan::oldest(&holdings, count, RetentionRule::DiskFull);
    let Some(plan) = plan.map(|plan| plan.looked_up(storage, &mut opened)) else { return Ok(None) };
    let Some(first_seq_kept) = plan.first_seq_kept else { return Ok(None) };
    let first_seq_kept = first_seq_kept.max(state.first_seq_kept);
    let _maintenance = take_maintenance_lock(storage)?;
    let recorded = write_record(lock, &WriterState { first_seq_kept, ..state });
    let recorded = recorded.and_then(|()| if is_synced { lock.sync() } else { Ok(()) });
    recorded.map_err(|error| Error::io("cannot write", error).at(storage.path().join(LOCK_NAME)))?;
    for name in &plan.names {
        let removed = storage.remove(name).and_then(|()| if is_synced { storage.sync_dir() } else { Ok(()) });
        removed.map_err(|error| Error::io("cannot remove the oldest segment", error).at(storage.path().join(name)))?;
    }
    Ok(Some(first_seq_kept))
}

/// The lock of whoever removes or rewrites segments, as long as it is held: only one at a time. Who writes the log has its
/// lock besides, and takes that one first.
pub(crate) fn take_maintenance_lock(storage: &dyn Storage) -> Result<Arc<dyn StorageFile>> {
    let path = storage.path().join(MAINTENANCE_LOCK_NAME);
    let file = open_or_create(storage, MAINTENANCE_LOCK_NAME)
        .and_then(|file| file.try_lock().map(|locked| locked.then_some(file)))
        .map_err(|error| Error::io("cannot lock", error).at(&path))?;
    file.ok_or_else(|| {
        let text = "another process is removing or rewriting segments of this log: try again once it is done";
        Error::new(ErrorKind::Locked, text).at(path)
    })
}

/// Opens a file for reading and writing, or makes it.
pub(crate) fn open_or_create(storage: &dyn Storage, name: &str) -> io::Result<Arc<dyn StorageFile>> {
    match storage.open_write(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match storage.create(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => storage.open_write(name),
            created => created,
        },
        opened => opened,
    }
}
