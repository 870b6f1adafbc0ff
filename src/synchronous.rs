//! A log whose every call writes before it returns, and the thread that looks after it.
//!
//! ```text
//! log call        -> lock -> append, write -> unlock
//! thread          -> each second, and when a sync is due: lock -> rolls, syncs, retention -> unlock
//! flush and close -> asked of the thread, so that a caller's deadline holds also where the disk hangs
//! ```

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::control::{DropMarker, DropReason};
use crate::entry::{EntryHead, Level};
use crate::error::{Error, ErrorKind, Result};
use crate::floor::Floor;
use crate::log::ask;
use crate::logger::{OnError, Refused};
use crate::metrics::Metrics;
use crate::site::Site;
use crate::stats::{LoggerStats, RefusedCounters};
use crate::sync::without_signals;
use crate::thread::thread_id;
use crate::told::Told;
use crate::writer::Writer;

/// The thread looks after the log at least this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A log behind a lock.
pub(crate) struct Synchronous {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    /// The process that writes the log. A child that it forks has a copy of all this, and must not touch the files.
    owner: u32,
}

struct Shared {
    place: Mutex<Place>,
    path: PathBuf,
    /// Entries from here on are synced before their call returns.
    sync_at: Floor,
    on_error: Option<OnError>,
    /// What was told last of the calls, and of the thread's work.
    told_of_calls: Told,
    told_of_work: Told,
    refused: RefusedCounters,
}

/// What the lock guards.
struct Place {
    writer: Writer,
    /// What the writer calls each site, by the site's number; 0 if it does not know it yet.
    ids: Vec<u32>,
    /// The threads that the writer knows.
    threads: HashSet<u32>,
    /// Refused entries that the log does not tell of yet.
    dropped: Option<DropMarker>,
}

/// Asked of the thread.
enum Job {
    Flush(Sender<Result<()>>),
    Sync(Sender<Result<()>>),
    Close(Sender<Result<()>>),
    /// A sync is due sooner than the thread thought.
    Look,
}

impl Synchronous {
    /// Starts the thread.
    pub(crate) fn start(
        writer: Writer,
        path: PathBuf,
        sync_at: Floor,
        on_error: Option<OnError>,
    ) -> Result<Synchronous> {
        let place = Place { writer, ids: Vec::new(), threads: HashSet::new(), dropped: None };
        let shared = Arc::new(Shared {
            place: Mutex::new(place),
            path,
            sync_at,
            on_error,
            told_of_calls: Told::default(),
            told_of_work: Told::default(),
            refused: RefusedCounters::default(),
        });
        let (jobs, inbox) = channel();
        let of_thread = Arc::clone(&shared);
        without_signals(|| {
            std::thread::Builder::new().name("logtool".into()).spawn(move || of_thread.look_after(&inbox))
        })
        .map_err(|error| Error::io("cannot start the thread of the log", error).at(&shared.path))?;
        Ok(Synchronous { shared, jobs, owner: std::process::id() })
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.shared.path
    }

    /// Writes an entry.
    pub(crate) fn append(&self, site: &'static Site, time_ns: i64, body: &[u8]) -> std::result::Result<(), Refused> {
        if self.is_forked() {
            return Err(Refused::Closed);
        }
        if site.number() == 0 {
            crate::global::register(site);
        }
        let mut place = self.shared.place();
        let was_due = place.writer.sync_due();
        let result = place.append(site, time_ns, body);
        let result = match result {
            Ok(()) if self.shared.sync_at.admits_site(site) => place.writer.sync().map(|_| ()),
            result => result,
        };
        let is_due = was_due.is_none() && place.writer.sync_due().is_some();
        drop(place);
        if is_due {
            // Without the thread nobody waits for this.
            let _ = self.jobs.send(Job::Look);
        }
        self.shared.told_of_calls.tell(&result, self.shared.on_error.as_ref());
        result.map_err(|error| {
            let refused = Refused::of(&error);
            self.shared.refused.count(refused);
            refused
        })
    }

    pub(crate) fn flush(&self, wait: Duration) -> Result<()> {
        self.ask(Job::Flush, wait, "flush")
    }

    pub(crate) fn sync(&self, wait: Duration) -> Result<()> {
        self.ask(Job::Sync, wait, "sync")
    }

    pub(crate) fn close(&self, wait: Duration) -> Result<LoggerStats> {
        match self.ask(Job::Close, wait, "close") {
            // The thread ends when the log is closed.
            Err(error) if error.kind() == ErrorKind::Closed && !self.is_forked() => Ok(self.stats()),
            other => other.map(|()| self.stats()),
        }
    }

    fn ask(&self, job: fn(Sender<Result<()>>) -> Job, wait: Duration, what: &str) -> Result<()> {
        ask(self.path(), self.is_forked(), |answer| self.jobs.send(job(answer)).is_ok(), wait, what)
    }

    /// Whether this is a copy in a forked process: a lock of it may be held by a thread that is not there.
    fn is_forked(&self) -> bool {
        std::process::id() != self.owner
    }

    pub(crate) fn stats(&self) -> LoggerStats {
        if self.is_forked() {
            return LoggerStats::default();
        }
        let writer = self.shared.place().writer.stats();
        LoggerStats { writer, refused: self.shared.refused.now().total() }
    }

    pub(crate) fn metrics(&self) -> Metrics {
        if self.is_forked() {
            return Metrics::default();
        }
        let place = self.shared.place();
        let (stats, oldest_ns) = (place.writer.stats(), place.writer.oldest_pending_ns());
        drop(place);
        let waited_ns = oldest_ns.map_or(0, |oldest_ns| clock::now_ns().saturating_sub(oldest_ns).max(0) as u64);
        let oldest_unwritten = Duration::from_nanos(waited_ns);
        Metrics { refused: self.shared.refused.now(), oldest_unwritten, ..Metrics::of_writer(stats) }
    }
}

impl Place {
    fn append(&mut self, site: &'static Site, time_ns: i64, body: &[u8]) -> Result<()> {
        let head = EntryHead { time_ns, tseq: 0, tid: self.tid(), site: self.id(site) };
        let told = self.tell_of_dropped();
        let next_seq = self.writer.next_seq();
        let taken = told.and_then(|()| self.writer.entry_encoded(&head, 0, body));
        if let Err(error) = taken {
            let is_taken = self.writer.next_seq() != next_seq;
            if !is_taken && error.kind() != ErrorKind::Closed {
                self.drop_entry(&head, site.level, &error);
            }
            return Err(error);
        }
        self.writer.flush().map(|_| ())
    }

    /// This thread, known to the writer by its name.
    fn tid(&mut self) -> u32 {
        let tid = thread_id();
        if self.threads.insert(tid)
            && let Some(name) = std::thread::current().name()
        {
            self.writer.name_thread(tid, name);
        }
        tid
    }

    /// What the writer calls the site.
    fn id(&mut self, site: &'static Site) -> u32 {
        let number = site.number() as usize;
        if self.ids.len() <= number {
            self.ids.resize(number + 1, 0);
        }
        if self.ids[number] == 0 {
            self.ids[number] = self.writer.define(&site.definition());
        }
        self.ids[number]
    }

    fn drop_entry(&mut self, head: &EntryHead, level: Level, error: &Error) {
        let reason = if error.kind() == ErrorKind::NoSpace { DropReason::DiskFull } else { DropReason::Policy };
        let marker = DropMarker { count: 0, time_ns: head.time_ns, tseq: 0, tid: 0, reason, level: 0 };
        let dropped = self.dropped.get_or_insert(marker);
        dropped.count += 1;
        dropped.level = dropped.level.max(level as u8);
    }

    /// Has the log tell of the entries that were refused.
    fn tell_of_dropped(&mut self) -> Result<()> {
        let Some(marker) = &self.dropped else { return Ok(()) };
        let next_seq = self.writer.next_seq();
        let result = self.writer.drop_entries(marker).map(|_| ());
        if self.writer.next_seq() != next_seq {
            // Taken, whatever became of the sync behind it.
            self.dropped = None;
        }
        result
    }
}

impl Shared {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: does what it is asked for, and what is to be done from time to time, until the log is closed.
    fn look_after(&self, inbox: &Receiver<Job>) {
        let mut troubles = 0;
        loop {
            let due = self.place().writer.sync_due();
            let wait = due.map_or(LOOK_EVERY, |due| due.saturating_duration_since(Instant::now()).min(LOOK_EVERY));
            match inbox.recv_timeout(wait) {
                Ok(Job::Look) => {}
                Ok(Job::Flush(answer)) => self.answer(&answer, |place| place.writer.flush().map(|_| ())),
                Ok(Job::Sync(answer)) => self.answer(&answer, |place| place.writer.sync().map(|_| ())),
                Ok(Job::Close(answer)) => {
                    let result = self.close();
                    let is_closed = result.is_ok();
                    // Who asked may have gone.
                    let _ = answer.send(result);
                    if is_closed {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => troubles = self.tick(troubles),
                Err(RecvTimeoutError::Disconnected) => {
                    // Nobody can log any more, nor ask for another try.
                    let _ = self.close();
                    return;
                }
            }
        }
    }

    fn answer(&self, answer: &Sender<Result<()>>, work: impl FnOnce(&mut Place) -> Result<()>) {
        let mut place = self.place();
        let result = place.tell_of_dropped().and_then(|()| work(&mut place));
        drop(place);
        // Who asked may have gone.
        let _ = answer.send(result);
    }

    fn close(&self) -> Result<()> {
        let mut place = self.place();
        place.tell_of_dropped()?;
        place.writer.close().map(|_| ())
    }

    /// The regular work. Returns how many troubles the writer has had; it counts many that are no call's answer.
    fn tick(&self, troubles_before: u64) -> u64 {
        let mut place = self.place();
        let result = place.writer.tick(clock::now_ns());
        let stats = place.writer.stats();
        drop(place);
        let troubles = stats.troubles();
        let result = match stats.last_failure {
            Some(text) if result.is_ok() && troubles > troubles_before => {
                Err(Error::new(ErrorKind::Io, text).at(&self.path))
            }
            _ => result,
        };
        self.told_of_work.tell(&result, self.on_error.as_ref());
        troubles
    }
}

#[cfg(test)]
mod tests;
