//! Opening a log to write: the lock, what the last run left, and the first segment of this run.
//!
//! A writer never appends to a segment that it did not open. What it finds decides the next number, the next index and how
//! the run-start frame says that the last run ended:
//!
//! | newest segment | evidence of more | next seq | next index | last end |
//! |---|---|---|---|---|
//! | none | none | 1 | 1 | first |
//! | sealed by close | none | last + 1 | last + 1 | closed |
//! | not sealed, same boot | none | last + 1 | last + 1 | killed |
//! | not sealed, other boot | any | last + 1 + 2^32, the range between is void | last + 1 | other boot |
//! | any, same boot or closed | the record tells seq N | N + 1 | last + 2 | damaged |
//! | names a successor that is missing, or can't be read, or is not the record's | none of the seq | last + 1 + 2^32, void between | last + 2 | damaged |
//!
//! The index that is left out is where `repair` puts a segment that declares the loss.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use crate::active::seqs_used;
use crate::batch::Batch;
use crate::control::{RunEnd, RunStart, Seal, SealReason, SyncMark};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{FrameKind, HEADER_BYTES, VOID_SEQS};
use crate::options::{Options, SyncPolicy};
use crate::rescue::RESCUE_NAME;
use crate::retention::{
    Holdings, MAINTENANCE_LOCK_NAME, OpenedSegments, RetentionPlan, make_room, open_or_create, segment_files,
    take_maintenance_lock,
};
use crate::roll::{create_segment, random_id};
use crate::scan::{Found, FrameScan, read_seal};
use crate::segment::{HeaderFault, Predecessor, SegmentHeader, SegmentName};
use crate::snapshot::Snapshot;
use crate::state::{LOCK_NAME, PID_BYTES, WriterState, encode_pid, read_state, writer_pid};
use crate::storage::{Storage, StorageFile};
use crate::storage_os::OsStorage;
use crate::sync::{UnsyncedSegment, sync_segments};
use crate::writer::{Start, Writer};

impl Writer {
    /// Opens the log in `dir` to write, and makes it (with its parents) if it is not there.
    ///
    /// # Errors
    /// `Locked` if another writer has it open, naming the process; `Invalid` for a directory of other things; `Version` for
    /// a log of a later version; `Invalid` for options out of bounds; and what the system says.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Writer> {
        let dir = dir.as_ref();
        options.validate()?;
        DirBuilder::new()
            .recursive(true)
            .mode(options.directory_mode)
            .create(dir)
            .map_err(|error| Error::io("cannot make the directory", error).at(dir))?;
        Writer::open_on(Arc::new(OsStorage::new(dir, options.mode)), options)
    }

    /// As [`open`](Writer::open), over any storage.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(storage: Arc<dyn Storage>, options: Options) -> Result<Writer> {
        options.validate()?;
        refuse_other_directories(&*storage)?;
        let lock = take_lock(&*storage)?;
        let _ = storage.remove(RESCUE_NAME);
        // Retention needs it most on a full disk, where it might not be made any more.
        let _ = open_or_create(&*storage, MAINTENANCE_LOCK_NAME);
        let past = Past::of(&*storage)?;
        let next = past.next(storage.boot_id());
        let now_ns = (options.clock)();
        let is_synced = options.sync != SyncPolicy::Never;

        let mut opened = OpenedSegments::new();
        let mut plan = None;
        if !options.retention.is_none() {
            let coming = Some((next.seq, HEADER_BYTES as u64));
            let holdings = Holdings::of(&*storage, &mut opened, &options.retention, coming, now_ns)?;
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
            flags: 0,
            log_id: past.log_id.map_or_else(random_id, Ok)?,
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
            entries_recovered: 0,
            pid: header.pid,
            last_end: next.last_end,
            has_rings: false,
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
            let path = storage.path().join(LOCK_NAME);
            let (_, error) = crate::active::write_all(&*lock, begun.encode().as_bytes(), PID_BYTES as u64);
            error.map_or(Ok(()), |error| Err(Error::io("cannot write", error).at(path)))?;
        }
        let state = past.state.unwrap_or(begun);
        let active = loop {
            let error = match create_segment(&*storage, header.clone(), options.index_stride_bytes, is_synced, false) {
                Ok(active) => break active,
                Err(failed) => failed.error,
            };
            if !options.makes_room || error.kind() != ErrorKind::NoSpace {
                return Err(error);
            }
            let Some(first_seq_kept) = make_room(&*storage, &*lock, state, is_synced)? else { return Err(error) };
            header.first_seq_kept = header.first_seq_kept.max(first_seq_kept);
        };
        let zstd_failed = |error| Error::io("cannot set up compression", error).at(storage.path());
        let batch = Batch::new(&active, options.compression).map_err(zstd_failed)?;
        let mut writer = Writer::start(Start {
            run_id: active.header.run_id,
            first_seq_kept: active.header.first_seq_kept,
            storage,
            options,
            lock,
            active,
            batch,
            synced_seq,
            unsynced_older,
            opened,
            directory_unsynced: !is_synced,
        });
        writer.begin(&run_start, plan.as_ref());
        Ok(writer)
    }

    /// Writes the run start and the record, and removes what retention no longer keeps. What fails is counted and made up
    /// for later.
    fn begin(&mut self, run_start: &RunStart, plan: Option<&RetentionPlan>) {
        let mut payload = Vec::new();
        run_start.encode(&mut payload);
        self.batch.push_control(FrameKind::RunStart, &payload);
        let _ = self.write_pending();
        self.write_state();
        if let Some(plan) = plan
            && let Err(error) = take_maintenance_lock(&*self.storage).and_then(|lock| self.remove_planned(plan, lock))
        {
            self.stats.retention_failures += 1;
            self.note(&error);
        }
        self.count_older_bytes();
    }
}

/// First number that retention has kept: what the newest header and the record tell, or, where the oldest segment starts
/// behind that, what a mark tells that was written between two rolls and would otherwise be forgotten with its segment.
fn first_seq_kept(storage: &Arc<dyn Storage>, told: u64) -> Result<u64> {
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
            header,
        };
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
struct Past {
    log_id: Option<u64>,
    newest: Option<Newest>,
    /// Highest index in the directory, readable or not; 0 for none.
    index: u64,
    /// A segment newer than the newest readable one cannot be read.
    has_unreadable: bool,
    state: Option<WriterState>,
    first_seq_kept: u64,
    synced_upto: u64,
    /// Segments that may hold what is not on stable storage.
    unsynced: Vec<UnsyncedSegment>,
}

/// How a run starts.
#[derive(Debug)]
struct Next {
    seq: u64,
    index: u64,
    predecessor: Option<Predecessor>,
    void: Option<(u64, u64)>,
    last_end: RunEnd,
}

impl Past {
    fn of(storage: &dyn Storage) -> Result<Past> {
        let listed =
            storage.list().map_err(|error| Error::io("cannot list the directory", error).at(storage.path()))?;
        let mut names: Vec<(u64, String)> = listed
            .iter()
            .filter(|entry| entry.is_file)
            .filter_map(|entry| SegmentName::parse(&entry.name).map(|name| (last_index(&name), entry.name.clone())))
            .collect();
        names.sort();
        order_by_headers(storage, &mut names)?;
        let state =
            read_state(storage).map_err(|error| Error::io("cannot read", error).at(storage.path().join(LOCK_NAME)))?;
        let mut past = Past {
            log_id: state.map(|state| state.log_id),
            newest: None,
            index: 0,
            has_unreadable: false,
            state,
            first_seq_kept: 1,
            synced_upto: 0,
            unsynced: Vec::new(),
        };
        for (index, name) in names.iter().rev() {
            let path = storage.path().join(name);
            let file = storage.open(name).map_err(|error| Error::io("cannot open", error).at(&path))?;
            let header = SegmentHeader::read(&*file).map_err(|error| Error::io("cannot read", error).at(&path))?;
            let first_seq = header.as_ref().ok().map(|header| header.first_seq);
            match header {
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
        past.check_room(storage)?;
        past.state = past.state.filter(|state| Some(state.log_id) == past.log_id);
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

    fn last_seq(&self) -> u64 {
        self.newest.as_ref().map_or(0, |newest| newest.last_seq)
    }

    fn next(&self, boot_id: [u8; 16]) -> Next {
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
        let is_closed = newest.seal.as_ref().is_some_and(|seal| seal.reason != SealReason::Rolled)
            || self.state.as_ref().is_some_and(|state| state.is_closed && state.run_id == newest.header.run_id);
        let is_other_boot = newest.header.boot_id != boot_id && !is_closed;
        let successor_id = newest.seal.as_ref().map_or(0, |seal| seal.successor_id);
        let other_recorded = self.state.as_ref().filter(|state| state.segment_id != own.segment_id && recorded > found);
        let is_segment_missing = self.has_unreadable || successor_id != 0 || other_recorded.is_some();
        // Without a record nothing tells whether an unsealed end is the end: later numbers may have been seen.
        let is_unknown = self.state.is_none() && newest.seal.is_none();
        if !is_segment_missing && (is_other_boot || is_unknown) {
            let first = found + 1;
            let seq = found.max(recorded) + 1 + VOID_SEQS;
            let void = Some((first, seq - 1));
            let last_end = if is_unknown { RunEnd::Damaged } else { RunEnd::OtherBoot };
            return Next { seq, index: self.index + 1, predecessor: Some(own), void, last_end };
        }
        if !is_segment_missing && recorded <= found {
            let last_end = if newest.seal.is_some() { RunEnd::Closed } else { RunEnd::Killed };
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
fn order_by_headers(storage: &dyn Storage, names: &mut [(u64, String)]) -> Result<()> {
    let told = |name: &str| -> Result<Option<u64>> {
        let failed = |error| Error::io("cannot read", error).at(storage.path().join(name));
        let header = storage.open(name).and_then(|file| SegmentHeader::read(&*file)).map_err(failed)?;
        Ok(header.ok().map(|header| header.index_last))
    };
    let Some((index, name)) = names.last() else { return Ok(()) };
    if told(name)?.is_none_or(|told| told == *index) {
        return Ok(());
    }
    for (index, name) in names.iter_mut() {
        *index = told(name)?.unwrap_or(*index);
    }
    names.sort();
    Ok(())
}

fn last_index(name: &SegmentName) -> u64 {
    match name {
        SegmentName::Original { index, .. } => *index,
        SegmentName::Rewritten { last, .. } => *last,
    }
}
