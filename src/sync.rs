//! Bringing what was written to stable storage: at once, or on a thread of its own so that the writer need not wait.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
use nix::sys::signal::{SigSet, SigmaskHow};

use crate::active::write_whole;
use crate::control::SyncMark;
use crate::error::{Error, ErrorKind, Result};
use crate::format::FrameKind;
use crate::options::SyncPolicy;
use crate::storage::{Storage, StorageFile};
use crate::writer::Writer;

/// So many bytes are synced before the interval is over: the disk, which is the slowest, is not left idle until then, and a
/// sync never has much to do.
const SYNC_BYTES: u64 = 32 << 20;

/// The active segment to be synced, what must be synced before it, and what is on stable storage once it is.
#[derive(Clone, Debug)]
struct Job {
    storage: Arc<dyn Storage>,
    /// Segments before it, and whether names of the directory wait too.
    older: Vec<UnsyncedSegment>,
    with_directory: bool,
    file: Arc<dyn StorageFile>,
    name: String,
    segment_id: u64,
    end: u64,
    next_seq: u64,
}

/// What became of a job.
#[derive(Debug)]
enum Outcome {
    /// A segment before could not be synced; those that are left stand in the job.
    Older(Error),
    /// All before is synced; and the segment itself?
    Active(io::Result<()>),
}

impl Job {
    fn run(&mut self) -> Outcome {
        if (self.with_directory || !self.older.is_empty())
            && let Err(error) = sync_segments(&*self.storage, &mut self.older)
        {
            return Outcome::Older(error);
        }
        Outcome::Active(self.file.sync())
    }
}

/// A thread that syncs one file at a time. It ends when this is dropped, after the sync under way.
#[derive(Debug)]
struct SyncThread {
    jobs: Sender<Job>,
    /// With how long each took.
    results: Receiver<(Job, Outcome, Duration)>,
}

impl SyncThread {
    fn start(wake: Option<Thread>) -> io::Result<SyncThread> {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, results) = channel();
        without_signals(|| {
            std::thread::Builder::new().name("logtool-sync".into()).spawn(move || {
                for mut job in inbox {
                    let start = Instant::now();
                    let outcome = job.run();
                    if outbox.send((job, outcome, start.elapsed())).is_err() {
                        break;
                    }
                    if let Some(thread) = &wake {
                        thread.unpark();
                    }
                }
            })
        })?;
        Ok(SyncThread { jobs, results })
    }
}

/// Starts a thread that takes none of the program's signals: its handlers run on its own threads, never on ours. A new
/// thread inherits what its parent blocks; were it to block them itself, one could come before. Faults of the thread's own
/// (SIGSEGV and the like) stay with whoever handles them.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut signals = SigSet::all();
    [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS].into_iter().for_each(|fault| signals.remove(fault));
    let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = start();
    before.thread_set_mask()?;
    started
}

/// Syncs under way, and when the last one began.
#[derive(Debug, Default)]
pub(crate) struct Syncing {
    thread: Option<SyncThread>,
    /// The job that the thread is at, for the case that the thread is lost.
    under_way: Option<Job>,
    last_start: Option<Instant>,
    /// Who is woken after each sync.
    wake: Option<Thread>,
}

impl Syncing {
    /// Whether the interval is over.
    fn is_due(&self, interval: Duration) -> bool {
        self.last_start.is_none_or(|start| start.elapsed() >= interval)
    }

    /// Hands a job to the thread, which is started if need be. Gives it back if that can't be.
    fn hand_over(&mut self, job: Job) -> std::result::Result<(), Job> {
        if self.thread.is_none() {
            self.thread = SyncThread::start(self.wake.clone()).ok();
        }
        let Some(thread) = &self.thread else { return Err(job) };
        thread.jobs.send(job.clone()).map_err(|refused| refused.0)?;
        self.under_way = Some(job);
        Ok(())
    }

    /// The result of the sync under way: `None` if there is none, or if it is not done yet and `wait` is false.
    fn result(&mut self, wait: bool) -> Option<(Job, Outcome, Duration)> {
        let job = self.under_way.take()?;
        let result = self.thread.as_ref().map_or(Err(TryRecvError::Disconnected), |thread| {
            if wait { thread.results.recv().map_err(|_| TryRecvError::Disconnected) } else { thread.results.try_recv() }
        });
        match result {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => {
                self.under_way = Some(job);
                None
            }
            Err(TryRecvError::Disconnected) => {
                self.thread = None;
                let error = Error::new(ErrorKind::Io, "the thread that syncs has ended").at(job.storage.path());
                Some((job, Outcome::Older(error), Duration::ZERO))
            }
        }
    }
}

/// A segment before the active one that was not synced to its end.
#[derive(Clone, Debug)]
pub(crate) struct UnsyncedSegment {
    pub(crate) name: String,
    /// A sync of it failed: its pages may count as clean, so they are written again before the next sync.
    pub(crate) is_in_doubt: bool,
}

impl UnsyncedSegment {
    pub(crate) fn new(name: &str) -> UnsyncedSegment {
        UnsyncedSegment { name: name.to_owned(), is_in_doubt: false }
    }
}

/// Syncs segments, oldest first, and the directory; takes those off the list that are done.
pub(crate) fn sync_segments(storage: &dyn Storage, segments: &mut Vec<UnsyncedSegment>) -> Result<()> {
    while let Some(segment) = segments.first_mut() {
        let path = storage.path().join(&segment.name);
        match storage.open_write(&segment.name) {
            Ok(file) => {
                let written = if segment.is_in_doubt { write_again(&*file) } else { Ok(()) };
                if let Err(error) = written.and_then(|()| file.sync()) {
                    segment.is_in_doubt = true;
                    return Err(Error::io("cannot sync", error).at(path));
                }
            }
            // Retention has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("cannot open to sync it", error).at(path)),
        }
        segments.remove(0);
    }
    storage.sync_dir().map_err(|error| Error::io("cannot sync the directory", error).at(storage.path()))
}

/// Writes the bytes of a file over themselves, so that the next sync brings them to the disk.
fn write_again(file: &dyn StorageFile) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let len = file.read_full_at(&mut buffer, offset)?;
        if len == 0 {
            return Ok(());
        }
        write_whole(file, &buffer[..len], offset)?;
        offset += len as u64;
    }
}

impl Writer {
    /// Hands everything to the operating system and brings it to stable storage. Returns the last sequence number that is
    /// there: all up to it survive a power cut.
    ///
    /// # Errors
    /// What the system says; what was not synced is kept and tried again at the next call.
    pub fn sync(&mut self) -> Result<u64> {
        self.flush()?;
        self.sync_flushed()?;
        Ok(self.synced_seq)
    }

    /// Syncs what was handed to the operating system, on this thread.
    pub(crate) fn sync_flushed(&mut self) -> Result<()> {
        self.collect_sync(true);
        self.heal()?;
        self.sync_older()?;
        if !self.active.is_synced() || self.synced_seq != self.active.last_seq() {
            self.syncing.last_start = Some(Instant::now());
            let result = self.stats.syncs.time(|| self.active.file.sync());
            self.synced(self.active.end, self.active.next_seq, result);
            self.heal()?;
        }
        Ok(())
    }

    /// Syncs the segments that were left unsynced before: under [`SyncPolicy::Never`], or by an earlier run.
    fn sync_older(&mut self) -> Result<()> {
        if self.unsynced_older.is_empty() && !self.directory_unsynced {
            return Ok(());
        }
        let synced = self.stats.syncs.time(|| sync_segments(&*self.storage, &mut self.unsynced_older));
        if let Err(error) = synced {
            self.stats.sync_failures += 1;
            return Err(self.noted(error));
        }
        self.directory_unsynced = false;
        Ok(())
    }

    /// When what was flushed is to be synced under [`SyncPolicy::Interval`]: [`tick`](Writer::tick) does it then. `None`
    /// where nothing waits for that.
    pub fn sync_due(&self) -> Option<Instant> {
        let SyncPolicy::Interval(interval) = self.options.sync else { return None };
        // Where no sync has begun yet the next flush begins one.
        self.syncing.last_start.filter(|_| !self.active.is_synced()).map(|start| start + interval)
    }

    /// Starts a sync if the interval is over and there is something to sync, or if that is much already.
    pub(crate) fn sync_when_due(&mut self) -> Result<()> {
        let SyncPolicy::Interval(interval) = self.options.sync else { return Ok(()) };
        if self.syncing.under_way.is_some() || self.active.is_synced() {
            return Ok(());
        }
        let is_much = self.options.sync_thread && self.active.unsynced_bytes() >= SYNC_BYTES;
        if !is_much && !self.syncing.is_due(interval) {
            return Ok(());
        }
        self.begin_sync()
    }

    /// Starts a sync of all that was flushed, on the thread if there is one; nothing if one is under way or nothing is to be
    /// synced.
    pub(crate) fn begin_sync(&mut self) -> Result<()> {
        if self.syncing.under_way.is_some() || self.active.is_synced() {
            return Ok(());
        }
        if !self.options.sync_thread {
            return self.sync_flushed();
        }
        self.syncing.last_start = Some(Instant::now());
        let job = Job {
            storage: Arc::clone(&self.storage),
            older: std::mem::take(&mut self.unsynced_older),
            with_directory: std::mem::take(&mut self.directory_unsynced),
            file: Arc::clone(&self.active.file),
            name: self.active.name.clone(),
            segment_id: self.active.header.segment_id,
            end: self.active.end,
            next_seq: self.active.next_seq,
        };
        match self.syncing.hand_over(job) {
            Ok(()) => Ok(()),
            Err(job) => {
                self.take_back(job);
                self.sync_flushed()
            }
        }
    }

    /// Has the thread that syncs wake `thread` after each sync.
    pub(crate) fn wake_after_syncs(&mut self, thread: Thread) {
        self.syncing.wake = Some(thread);
    }

    /// Last sequence number known to be on stable storage, with all before it.
    pub(crate) fn synced_seq(&self) -> u64 {
        self.synced_seq
    }

    /// Whether the syncs that a roll needs are left to the thread: not where retention removes segments, which must not
    /// happen before what says so is on stable storage.
    pub(crate) fn defers_syncs(&self) -> bool {
        matches!(self.options.sync, SyncPolicy::Interval(_))
            && self.options.sync_thread
            && self.options.retention.is_none()
    }

    /// Takes the result of the sync under way, if there is one; with `wait`, not before it is done.
    pub(crate) fn collect_sync(&mut self, wait: bool) {
        let Some((job, outcome, took)) = self.syncing.result(wait) else { return };
        self.stats.syncs.add(took);
        match outcome {
            Outcome::Older(error) => {
                self.stats.sync_failures += 1;
                self.note(&error);
                self.take_back(job);
            }
            Outcome::Active(result) if job.segment_id == self.active.header.segment_id => {
                self.synced(job.end, job.next_seq, result);
            }
            // A roll has come between: the segment stands among the older ones.
            Outcome::Active(Ok(())) => {
                self.synced_seq = self.synced_seq.max(job.next_seq - 1);
            }
            Outcome::Active(Err(error)) => {
                self.stats.sync_failures += 1;
                self.note(&Error::io("cannot sync", error).at(self.storage.path().join(&job.name)));
                if let Some(older) = self.unsynced_older.iter_mut().find(|older| older.name == job.name) {
                    older.is_in_doubt = true;
                }
            }
        }
    }

    /// What a job has not synced is to be synced by the next one.
    fn take_back(&mut self, mut job: Job) {
        job.older.append(&mut self.unsynced_older);
        self.unsynced_older = job.older;
        self.directory_unsynced |= job.with_directory;
    }

    /// The active segment was synced up to `end`, or could not be.
    fn synced(&mut self, end: u64, next_seq: u64, result: io::Result<()>) {
        match result {
            Ok(()) => {
                self.active.synced_end = end;
                self.active.synced_next_seq = next_seq;
                self.synced_seq = next_seq - 1;
            }
            Err(error) => {
                let path = self.storage.path().join(&self.active.name);
                self.stats.sync_failures += 1;
                self.note(&Error::io("cannot sync", error).at(path));
                self.is_poisoned = true;
            }
        }
    }

    /// Notes in the log what is on stable storage, if that has changed.
    pub(crate) fn push_sync_mark(&mut self) {
        if self.marked_seq < self.synced_seq {
            let mut payload = Vec::with_capacity(16);
            SyncMark { synced_upto: self.synced_seq, time_ns: (self.options.clock)() }.encode(&mut payload);
            self.batch.push_control(FrameKind::SyncMark, &payload);
            self.marked_seq = self.synced_seq;
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

    use super::*;

    /// The signals that each sync thread of this process blocks, from what /proc says.
    fn blocked_in_sync_threads() -> Vec<u64> {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
        let of = |thread: std::path::PathBuf| {
            // Those of other tests may end meanwhile.
            let name = std::fs::read_to_string(thread.join("comm")).ok()?;
            let status = std::fs::read_to_string(thread.join("status")).ok().filter(|_| name == "logtool-sync\n")?;
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            Some(u64::from_str_radix(mask.trim(), 16).unwrap())
        };
        threads.filter_map(of).collect()
    }

    #[test]
    fn the_thread_takes_no_signals_and_the_one_that_starts_it_still_does() {
        let before = SigSet::thread_get_mask().unwrap();
        let _thread = SyncThread::start(None).unwrap();
        assert_eq!(SigSet::thread_get_mask().unwrap(), before);
        let start = Instant::now();
        let mut masks = blocked_in_sync_threads();
        // It gives itself its name.
        while masks.is_empty() {
            assert!(start.elapsed() < Duration::from_secs(20), "no such thread");
            masks = blocked_in_sync_threads();
        }
        for mask in masks {
            let is_blocked = |signal: Signal| mask & 1 << (signal as i32 - 1) != 0;
            let asked = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGXFSZ];
            assert!(asked.into_iter().all(is_blocked), "{mask:x}");
            assert!(![SIGSEGV, SIGBUS].into_iter().any(is_blocked), "{mask:x}");
        }
    }
}
