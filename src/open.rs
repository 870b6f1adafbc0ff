//! Opening a log to write: the lock, what the last run left, and the first segment of this run.
//!
//! A writer never appends to a segment that it did not open.

mod past;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use crate::batch::Batch;
use crate::control::RunStart;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{FrameKind, HEADER_BYTES, SEGMENT_WITH_RINGS};
use crate::options::{Options, SyncPolicy};
use crate::record::write_record;
use crate::recovery::{self, How, Recovered};
use crate::rescue::RESCUE_NAME;
use crate::retention::{
    Holdings, MAINTENANCE_LOCK_NAME, OpenedSegments, RetentionPlan, make_room, open_or_create, segment_files,
    take_maintenance_lock,
};
use crate::ring::file::ring_name;
use crate::ring::place::Place;
use crate::roll::{create_segment, random_id};
use crate::segment::{SegmentHeader, SegmentName};
use crate::snapshot::Snapshot;
use crate::state::{LOCK_NAME, WriterState, encode_pid, writer_pid};
use crate::storage::{Storage, StorageFile};
use crate::storage_os::OsStorage;
use crate::sync::sync_segments;
use crate::writer::{Start, Writer};

pub(crate) use past::{Next, Past, SEQ_MAX};

impl Writer {
    /// Opens the log in `dir` to write, and makes it (with its parents) if it is not there.
    ///
    /// # Errors
    /// `Locked` if another writer has it open, naming the process; `Invalid` for a directory of other things; `Version` for
    /// a log of a later version; `Invalid` for options out of bounds, and where the rings of a killed run stand in a directory
    /// that is not there; and what the system says.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Writer> {
        Writer::open_on(make_directory(dir.as_ref(), &options)?, options)
    }

    /// As [`open`](Writer::open), over any storage.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(storage: Arc<dyn Storage>, options: Options) -> Result<Writer> {
        Writer::open_as(storage, options, None::<fn(&SegmentHeader) -> Result<()>>)
    }

    /// As [`open_on`](Writer::open_on), for a run that keeps rings: `make_rings` makes them, before the run's first segment,
    /// whose header it is given, is made.
    pub(crate) fn open_with_rings(
        storage: Arc<dyn Storage>,
        options: Options,
        make_rings: impl FnMut(&SegmentHeader) -> Result<()>,
    ) -> Result<Writer> {
        Writer::open_as(storage, options, Some(make_rings))
    }

    fn open_as(
        storage: Arc<dyn Storage>,
        options: Options,
        make_rings: Option<impl FnMut(&SegmentHeader) -> Result<()>>,
    ) -> Result<Writer> {
        options.validate()?;
        refuse_other_directories(&*storage)?;
        let lock = take_lock(&*storage)?;
        let _ = storage.remove(RESCUE_NAME);
        let _ = recovery::remove_unfinished(&*storage);
        // Retention needs it most on a full disk, where it might not be made any more.
        let _ = open_or_create(&*storage, MAINTENANCE_LOCK_NAME);
        let is_synced = options.sync != SyncPolicy::Never;
        let how = How::open(is_synced, options.makes_room);
        let recovered = recovery::recover(&storage, Some(&*lock), how)?;
        let past = Past::of(&storage)?;
        let mut next = past.next(storage.boot_id(), |run_id| recovered.has_ring_of(run_id), recovered.is_end_unknown());
        // The name of its rings must be free.
        next.index = next.index.max(recovered.index() + 1);
        let has_rings = make_rings.is_some();
        let now_ns = (options.clock)();

        let log_id = past.log_id.map_or_else(random_id, Ok)?;
        let mut opened = OpenedSegments::new();
        let mut plan = None;
        if !options.retention.is_none() {
            let coming = Some((next.seq, HEADER_BYTES as u64));
            let mut holdings = Holdings::of(&*storage, &mut opened, log_id, &options.retention, coming, now_ns)?;
            holdings.other_bytes = holdings.other_bytes.saturating_sub(recovered.bytes());
            plan = RetentionPlan::new(&options.retention, &holdings, now_ns)
                .map(|plan| plan.looked_up(&*storage, &mut opened));
        }
        let planned = plan.as_ref().and_then(|plan| plan.first_seq_kept).unwrap_or(1);

        let mut unsynced_older = past.unsynced.clone();
        let mut synced_seq = past.synced_upto;
        if is_synced && sync_segments(&*storage, &mut unsynced_older).is_ok() {
            synced_seq = past.last_seq();
        }
        let mut header = SegmentHeader {
            flags: if has_rings { SEGMENT_WITH_RINGS } else { 0 },
            log_id,
            run_id: random_id()?,
            segment_id: random_id()?,
            boot_id: storage.boot_id(),
            index: next.index,
            index_last: next.index,
            generation: 0,
            pid: std::process::id(),
            first_seq: next.seq,
            opened_ns: now_ns,
            synced_upto: synced_seq,
            first_seq_kept: first_seq_kept(&storage, past.first_seq_kept)?.max(planned),
            predecessor: next.predecessor,
        };
        let run_start = RunStart {
            run_id: header.run_id,
            time_ns: now_ns,
            void_first: next.void.map_or(0, |(first, _)| first),
            void_last: next.void.map_or(0, |(_, last)| last),
            entries_recovered: recovered.entries(),
            pid: header.pid,
            last_end: next.last_end,
            has_rings,
        };
        // The first, so that a kill before the first flush leaves evidence that nothing was accepted.
        let begun = WriterState {
            log_id: header.log_id,
            run_id: header.run_id,
            boot_id: header.boot_id,
            newest_seq: next.seq - 1,
            segment_id: 0,
            upto: 0,
            first_seq_kept: header.first_seq_kept,
            is_closed: false,
        };
        if past.state.is_none() {
            let failed = |error| Error::io("cannot write", error).at(storage.path().join(LOCK_NAME));
            write_record(&*lock, &begun).map_err(failed)?;
        }
        let state = past.state.unwrap_or(begun);
        // Where the oldest segment may go against an error, and has gone, it is worth another try.
        let give_room = |header: &mut SegmentHeader, error: Error| -> Result<()> {
            let is_here = error.path().is_none_or(|path| path.starts_with(storage.path()));
            if !options.makes_room || error.kind() != ErrorKind::NoSpace || !is_here {
                return Err(error);
            }
            let Some(first_seq_kept) = make_room(&*storage, &*lock, state, is_synced)? else { return Err(error) };
            header.first_seq_kept = header.first_seq_kept.max(first_seq_kept);
            Ok(())
        };
        let mut ring_lock = None;
        if let Some(mut make_rings) = make_rings {
            while let Err(error) = make_rings(&header) {
                give_room(&mut header, error)?;
            }
            ring_lock = lock_ring(&*storage, header.index)?;
        }
        let active = loop {
            match create_segment(&*storage, header.clone(), options.index_stride_bytes, is_synced, false) {
                Ok(active) => break active,
                Err(failed) => give_room(&mut header, failed.error)?,
            }
        };
        let zstd_failed = |error| Error::io("cannot set up compression", error).at(storage.path());
        let batch = Batch::new(&active, options.compression).map_err(zstd_failed)?;
        let mut writer = Writer::start(Start {
            run_id: active.header.run_id,
            first_seq_kept: active.header.first_seq_kept,
            storage,
            options,
            lock,
            ring_lock,
            active,
            batch,
            synced_seq,
            unsynced_older,
            opened,
            directory_unsynced: !is_synced,
        });
        writer.begin(&run_start, &recovered, plan.as_ref());
        Ok(writer)
    }

    /// Writes the run start and the record, and removes the rings of runs before and what retention no longer keeps. What
    /// fails is counted and made up for later.
    fn begin(&mut self, run_start: &RunStart, recovered: &Recovered, plan: Option<&RetentionPlan>) {
        let mut payload = Vec::new();
        run_start.encode(&mut payload);
        self.batch.push_control(FrameKind::RunStart, &payload);
        let is_begun = self.write_pending().is_ok();
        self.write_state();
        // Before that the rings are what tells how the last run ended.
        if is_begun && let Err(error) = recovered.remove(&*self.storage, true, self.options.sync != SyncPolicy::Never) {
            self.note(&error);
        }
        if let Some(plan) = plan
            && let Err(error) = take_maintenance_lock(&*self.storage).and_then(|lock| self.remove_planned(plan, lock))
        {
            self.stats.retention_failures += 1;
            self.note(&error);
        }
        self.count_older_bytes();
    }
}

/// The directory of a log, which is made (with its parents) if it is not there.
pub(crate) fn make_directory(dir: &Path, options: &Options) -> Result<Arc<dyn Storage>> {
    options.validate()?;
    DirBuilder::new().recursive(true).mode(options.directory_mode).create(dir).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            let text = "a file stands there, or above: name a directory for the log";
            Error::new(ErrorKind::NotALog, text).at(dir)
        }
        _ => Error::io("cannot make the directory", error).at(dir),
    })?;
    Ok(Arc::new(OsStorage::new(dir, options.mode)))
}

/// First number that retention has kept: what the newest header and the record tell, or, where the oldest segment starts
/// behind that, what a mark tells that was written between two rolls and would otherwise be forgotten with its segment.
pub(crate) fn first_seq_kept(storage: &Arc<dyn Storage>, told: u64) -> Result<u64> {
    let (files, _) = segment_files(&**storage).map_err(|error| Error::io("cannot list", error).at(storage.path()))?;
    let header_of = |name: &str| storage.open(name).and_then(|file| SegmentHeader::read(&*file)).ok()?.ok();
    match files.iter().find_map(|file| header_of(&file.name)) {
        Some(oldest) if oldest.first_seq > told => {
            Ok(Snapshot::take_locked(Arc::clone(storage))?.first_seq_kept.max(told))
        }
        _ => Ok(told),
    }
}

/// A directory that holds files but no log is somebody else's.
fn refuse_other_directories(storage: &dyn Storage) -> Result<()> {
    let names = storage.list().map_err(|error| Error::io("cannot list the directory", error).at(storage.path()))?;
    let is_ours = |name: &str| {
        SegmentName::parse(name).is_some()
            || [LOCK_NAME, MAINTENANCE_LOCK_NAME].contains(&name)
            || name.ends_with(".ring")
    };
    let other = names.iter().find(|entry| entry.name != "lost+found");
    match other {
        Some(other) if !names.iter().any(|entry| is_ours(&entry.name)) => {
            let text = format!(
                "the directory holds no log but other things (such as {:?}): name an empty or a new directory",
                other.name
            );
            Err(Error::new(ErrorKind::Invalid, text).at(storage.path()))
        }
        _ => Ok(()),
    }
}

/// Locks the ring file of the run whose first segment has this index, so that readers can tell it from that of a run that
/// was killed; `None` if there is none.
fn lock_ring(storage: &dyn Storage, index: u64) -> Result<Option<Arc<dyn StorageFile>>> {
    let name = ring_name(index);
    let locked = match Place::open(storage, &name).and_then(|place| place.open_write(storage, &name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.and_then(|file| file.try_lock().map(|_| file)),
    };
    locked.map(Some).map_err(|error| Error::io("cannot lock", error).at(storage.path().join(name)))
}

/// Takes the writer's lock and puts this process's id into it.
pub(crate) fn take_lock(storage: &dyn Storage) -> Result<Arc<dyn StorageFile>> {
    let path = storage.path().join(LOCK_NAME);
    let lock = open_or_create(storage, LOCK_NAME).map_err(|error| Error::io("cannot open", error).at(&path))?;
    if !lock.try_lock().map_err(|error| Error::io("cannot lock", error).at(&path))? {
        let holder = match writer_pid(storage) {
            Ok(Some(pid)) if pid == std::process::id() => format!("this process (pid {pid}) has"),
            Ok(Some(pid)) if pid > 0 => format!("process {pid} has"),
            _ => "another process has".to_owned(),
        };
        let text = format!("{holder} this log open to write: a log has one writer at a time, so stop that one first");
        return Err(Error::new(ErrorKind::Locked, text).at(storage.path()));
    }
    // The lock counts; the pid is for messages, so a disk that is full is no reason to stop here.
    let _ = lock.write_at(encode_pid(std::process::id()).as_bytes(), 0);
    Ok(lock)
}
