//! The log behind a [`Logger`](crate::Logger) that does not wait for the disk: calls put entries into rings, a thread of its
//! own, the backend, writes them to the segments.
//!
//! ```text
//! log call        -> this thread's ring                                        threads.rs: no lock, no system call
//! backend         -> look at all rings, merge by stamp, frame, write, release   backend.rs
//! flush and close -> asked of the backend, so that a caller's deadline holds also where the disk hangs
//! ```
//! An entry is safe from `kill -9` once it is in the ring, see [`ring`](crate::ring). No handler for fatal signals is needed for
//! that: the page cache keeps the mapping whatever ends the process, and a handler could only add ways to hang.

mod backend;
mod claims;
mod figures;
mod level_requests;
mod names;
mod sink;
mod threads;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::capture::KeptList;
use crate::entry::Level;
use crate::error::{Error, ErrorKind, Result};
use crate::floor::Floor;
use crate::level_table::LevelTable;
use crate::log::ask;
use crate::logger::{OnError, Refused};
use crate::metrics::Metrics;
use crate::options::{Options, RingOptions, SyncPolicy, WhenFull};
use crate::repair_apply::set_aside;
use crate::ring::file::{FileHeader, ring_name};
use crate::ring::fork::ForkWord;
use crate::ring::live::Rings;
use crate::ring::mapping::MappedRing;
use crate::ring::stamp::{Calibration, StampClock};
use crate::ring::{Producer, Ring, Sleeper, lock, prepare_fences};
use crate::segment::SegmentHeader;
use crate::site::Site;
use crate::stats::{LoggerStats, RefusedCounters, Timing};
use crate::storage::Storage;
use crate::sync::without_signals;
use crate::told::Told;
use crate::writer::Writer;

use backend::Backend;
use claims::Claims;
use figures::Noted;

/// A ring of this process.
type LiveRing = Ring<MappedRing>;

/// How often a call whose ring is full lets other threads run before it sleeps: the backend is then often done.
const YIELDS: u32 = 8;

/// A call that waits for room looks again at least this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a call that waits for room in the shared ring sleeps between two looks.
const SHARED_LOOK_EVERY: Duration = Duration::from_micros(500);

/// A log behind rings.
pub(crate) struct Engine(Arc<Shared>);

/// What calls and the backend share.
struct Shared {
    /// A number that no other engine of this process has had.
    key: u64,
    path: PathBuf,
    clock: StampClock,
    when_full: WhenFull,
    /// A body longer than this is several parts, with a tseq each.
    part_bytes: usize,
    floors: Floors,
    /// The logger's, which may be changed from outside.
    levels: Arc<LevelTable>,
    fork: ForkWord,
    /// No call gets in any more.
    closed: AtomicBool,
    /// What a call that finds its ring full is told, by the backend's last failure.
    trouble: AtomicU8,
    claims: Mutex<Claims>,
    /// Whether a ring may be had.
    may_claim: AtomicBool,
    /// Counts what the backend must know of the claims.
    changes: AtomicU64,
    /// The ring of all threads that have none.
    common: Mutex<Producer<MappedRing>>,
    /// Where the backend sleeps.
    bell: Sleeper,
    /// The backend's thread, which logs too if the program's callback does, and can't wait for itself.
    backend: OnceLock<ThreadId>,
    requests: Mutex<Requests>,
    has_requests: AtomicBool,
    /// Calls that were refused, by reason, and some figures of waiting.
    counters: Counters,
    /// What the backend told of itself last.
    noted: Mutex<Noted>,
    on_error: Option<OnError>,
    /// What was told last of writing, and of the regular work.
    told: Told,
    told_of_work: Told,
    /// Nobody can log any more.
    is_orphaned: AtomicBool,
}

/// From which levels on calls are treated otherwise.
pub(crate) struct Floors {
    /// Entries from here on are synced before their call returns.
    pub(crate) sync_at: Floor,
    /// Calls from here on are kept as long as can be; those below give way once half of their ring waits.
    pub(crate) kept: Floor,
}

/// What calls count.
#[derive(Debug, Default)]
struct Counters {
    refused: RefusedCounters,
    /// Refused where not even a number could be had; the backend tells of them.
    unnumbered: AtomicU64,
    waits: AtomicU64,
    waited_ns: AtomicU64,
    longest_wait_ns: AtomicU64,
}

impl Counters {
    fn add_wait(&self, waited: Duration) {
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        // ORDERING: Relaxed, here and below; figures for people.
        self.waits.fetch_add(1, Relaxed);
        self.waited_ns.fetch_add(waited_ns, Relaxed);
        self.longest_wait_ns.fetch_max(waited_ns, Relaxed);
    }

    fn waits(&self) -> Timing {
        let [count, total, longest] =
            [&self.waits, &self.waited_ns, &self.longest_wait_ns].map(|figure| figure.load(Relaxed));
        Timing { count, total: Duration::from_nanos(total), longest: Duration::from_nanos(longest) }
    }
}

/// What is asked of the backend.
#[derive(Default)]
struct Requests {
    list: Vec<Request>,
    /// The backend has ended: nobody answers.
    has_ended: bool,
}

enum Request {
    Flush(Sender<Result<()>>),
    Sync(Sender<Result<()>>),
    Close(Sender<Result<()>>),
    /// An entry that is too long for a ring.
    Entry(LongEntry, Sender<Result<()>>),
}

/// An entry that its caller hands over by itself, and waits for.
struct LongEntry {
    site: &'static Site,
    stamp: u64,
    tid: u32,
    /// `None` for one of the common ring: the backend numbers it.
    tseq: Option<u64>,
    body: Vec<u8>,
}

impl Engine {
    /// Opens the log, makes its rings, and starts the backend.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        options: Options,
        ring_options: &RingOptions,
        levels: Arc<LevelTable>,
        floors: Floors,
        on_error: Option<OnError>,
    ) -> Result<Engine> {
        ring_options.validate()?;
        prepare_fences();
        let clock = StampClock::new(ring_options.clock);
        let mut calibration = Calibration::begin(clock);
        let path = storage.path().to_owned();
        let failed = |error| Error::io("cannot make the rings", error).at(&path);
        // Each call waits for its sync by itself, and many share one.
        let each = options.sync == SyncPolicy::EachEntry;
        let Floors { sync_at, kept } = floors;
        let sync_at = if each { Floor::new(&Level::Trace.into(), None) } else { sync_at };
        let sync = if each { Options::default().sync } else { options.sync };
        let options = Options { sync, ..options };
        let part_bytes = options.part_bytes();

        let (writer, claims, common, displaced) = if ring_options.in_memory {
            let writer = Writer::open_on(storage, options)?;
            let rings = Rings::in_memory(writer.run_id);
            let (claims, common) = Claims::new(rings, writer.run_id, ring_options).map_err(failed)?;
            (writer, claims, common, None)
        } else {
            open_with_rings(storage, options, ring_options)?
        };
        calibration.finish();
        static NEXT_KEY: AtomicU64 = AtomicU64::new(1);
        let shared = Arc::new(Shared {
            key: NEXT_KEY.fetch_add(1, Relaxed),
            path: path.clone(),
            clock,
            when_full: ring_options.when_full,
            part_bytes,
            floors: Floors { sync_at, kept },
            levels,
            fork: ForkWord::new().map_err(failed)?,
            closed: AtomicBool::new(false),
            trouble: AtomicU8::new(Refused::Full as u8),
            claims: Mutex::new(claims),
            may_claim: AtomicBool::new(true),
            changes: AtomicU64::new(1),
            common: Mutex::new(common),
            bell: Sleeper::new(),
            backend: OnceLock::new(),
            requests: Mutex::default(),
            has_requests: AtomicBool::new(false),
            counters: Counters::default(),
            noted: Mutex::new(Noted::new(&writer)),
            on_error,
            told: Told::default(),
            told_of_work: Told::default(),
            is_orphaned: AtomicBool::new(false),
        });
        if let Some(displaced) = displaced {
            shared.tell(&Err(displaced));
        }
        let backend = Backend::new(Arc::clone(&shared), writer, calibration);
        without_signals(|| std::thread::Builder::new().name("logtool".into()).spawn(move || backend.run()))
            .map_err(|error| Error::io("cannot start the thread of the log", error).at(&path))?;
        Ok(Engine(shared))
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.0.path
    }

    /// Logs an entry, whose values run no code of the caller's if that can be told.
    #[inline]
    pub(crate) fn append<L: KeptList>(&self, site: &'static Site, kept: &L) -> std::result::Result<(), Refused> {
        self.0.append(site, kept)
    }

    /// Logs an entry that is encoded already.
    pub(crate) fn append_encoded(&self, site: &'static Site, body: &[u8]) -> std::result::Result<(), Refused> {
        self.0.append_encoded(site, body)
    }

    pub(crate) fn flush(&self, wait: Duration) -> Result<()> {
        self.0.ask(Request::Flush, wait, "flush")
    }

    pub(crate) fn sync(&self, wait: Duration) -> Result<()> {
        self.0.ask(Request::Sync, wait, "sync")
    }

    pub(crate) fn close(&self, wait: Duration) -> Result<LoggerStats> {
        match self.0.ask(Request::Close, wait, "close") {
            Err(error) if error.kind() == ErrorKind::Closed && !self.0.fork.is_forked() => Ok(self.stats()),
            other => other.map(|()| self.stats()),
        }
    }

    pub(crate) fn stats(&self) -> LoggerStats {
        if self.0.fork.is_forked() {
            return LoggerStats::default();
        }
        let writer = lock(&self.0.noted).stats.clone();
        LoggerStats { writer, refused: self.0.counters.refused.now().total() }
    }

    pub(crate) fn metrics(&self) -> Metrics {
        if self.0.fork.is_forked() { Metrics::default() } else { self.0.metrics() }
    }
}

/// Opens a log whose rings stand in a file: the writer, the rings, the producer of the common one, and what was in the way of
/// the file. A log that can't be opened is left without one.
fn open_with_rings(
    storage: Arc<dyn Storage>,
    options: Options,
    ring_options: &RingOptions,
) -> Result<(Writer, Claims, Producer<MappedRing>, Option<Error>)> {
    let (files, ring_dir) = (Arc::clone(&storage), ring_options.ring_dir.as_deref());
    let place = ring_dir.unwrap_or(files.path());
    let part_bytes = options.part_bytes() as u64;
    refuse_unfit(&*files, ring_dir)?;
    let (mut made, mut displaced) = (None, None);
    let opened = Writer::open_with_rings(storage, options, |header| {
        displaced = displaced.take().or(set_other_rings_aside(&*files, header.index)?);
        let SegmentHeader { pid, log_id, run_id, boot_id, index, .. } = *header;
        let header = FileHeader { pid, log_id, run_id, boot_id, index, part_bytes };
        let rings = Rings::create(&files, ring_dir, &header);
        let rings = rings.and_then(|rings| Claims::new(rings, run_id, ring_options));
        made = Some(rings.map_err(|error| Error::io("cannot make the rings", error).at(place))?);
        Ok(())
    });
    match (opened, made) {
        (Ok(writer), Some((claims, common))) => Ok((writer, claims, common, displaced)),
        (Ok(_), None) => Err(Error::new(ErrorKind::Io, "no rings were made").at(place)),
        (Err(error), made) => {
            // The log's error counts.
            let _ = made.map(|(mut claims, _)| claims.remove_rings());
            Err(error)
        }
    }
}

/// Moves what has the name of the ring file to come to quarantine: rings of another log, which readers of this one pass over.
fn set_other_rings_aside(storage: &dyn Storage, index: u64) -> Result<Option<Error>> {
    let name = ring_name(index);
    let path = storage.path().join(&name);
    let is_taken = storage.names().map(|names| names.contains(&name));
    if !is_taken.map_err(|error| Error::io("cannot list the directory", error).at(storage.path()))? {
        return Ok(None);
    }
    set_aside(storage, &name)
        .map_err(|error| Error::io("cannot move it out of the way of the rings", error).at(&path))?;
    let text = "a file that is not of this log was in the way of its rings: it was moved to quarantine";
    Ok(Some(Error::new(ErrorKind::Invalid, text).at(path)))
}

/// Refuses a directory whose file system can't keep rings, before anything is made.
fn refuse_unfit(storage: &dyn Storage, ring_dir: Option<&Path>) -> Result<()> {
    let place = ring_dir.unwrap_or(storage.path());
    let failed = |error| Error::io("cannot tell whether rings can stand there", error).at(place);
    let why = match ring_dir {
        Some(dir) => storage.elsewhere(dir).and_then(|there| there.unfit_for_rings()),
        None => storage.unfit_for_rings(),
    };
    let Some(why) = why.map_err(failed)? else { return Ok(()) };
    let text = format!(
        "rings can't stand there, as {why}: keep them on another file system with `.ring_dir(path)`, or in memory with \
         `.memory_rings()`, which loses at a kill what was not written yet"
    );
    Err(Error::new(ErrorKind::Invalid, text).at(place))
}

impl Drop for Engine {
    fn drop(&mut self) {
        // In a forked process nobody waits, and a lock may be held by a thread that is not there.
        if !self.0.fork.is_forked() {
            self.0.is_orphaned.store(true, Relaxed);
            self.0.bell.wake();
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl Shared {
    /// Hands something to the backend, unless that has ended.
    fn request(&self, request: Request) -> std::result::Result<(), Refused> {
        let mut requests = lock(&self.requests);
        let is_late = matches!(request, Request::Entry(..)) && self.closed.load(Relaxed);
        if requests.has_ended || is_late {
            return Err(Refused::Closed);
        }
        requests.list.push(request);
        // ORDERING: Relaxed; the bell's fence orders it.
        self.has_requests.store(true, Relaxed);
        drop(requests);
        self.bell.wake();
        Ok(())
    }

    fn ask(&self, request: fn(Sender<Result<()>>) -> Request, wait: Duration, what: &str) -> Result<()> {
        let hand_over = |answer| self.request(request(answer)).is_ok();
        ask(&self.path, self.fork.is_forked(), hand_over, wait, what)
    }

    /// Waits for what the backend says of something whose call has no deadline but that of the disk.
    fn ask_and_wait(&self, request: impl FnOnce(Sender<Result<()>>) -> Request) -> std::result::Result<(), Refused> {
        if self.is_backend() {
            return Err(Refused::Full);
        }
        let (answer, answers) = channel();
        self.request(request(answer))?;
        match answers.recv() {
            Ok(result) => result.map_err(|error| Refused::of(&error)),
            Err(_) => Err(Refused::Closed),
        }
    }

    fn is_backend(&self) -> bool {
        self.backend.get() == Some(&std::thread::current().id())
    }

    /// How many tseqs an entry with so long a body uses up.
    #[inline]
    fn parts(&self, body_len: usize) -> u64 {
        if body_len <= self.part_bytes { 1 } else { body_len.div_ceil(self.part_bytes) as u64 }
    }

    /// Waits for room in a thread's own ring, as the policy says. The call is inside the ring's gate.
    #[cold]
    fn wait_for_room(&self, producer: &mut Producer<MappedRing>, body_len: usize) -> std::result::Result<(), Refused> {
        let ring = Arc::clone(producer.ring());
        self.wait_until(|step| {
            match step {
                Step::Yield => std::thread::yield_now(),
                Step::Sleep(limit) => {
                    ring.room.sleep(limit.min(LOOK_EVERY), || self.closed.load(Relaxed) || producer.has_room(body_len))
                }
            }
            producer.has_room(body_len)
        })
    }

    /// Takes steps until one says that there is room, or the policy says that it is enough.
    fn wait_until(&self, step: impl FnMut(Step) -> bool) -> std::result::Result<(), Refused> {
        self.bell.wake();
        let limit = match self.when_full {
            _ if self.is_backend() => return Err(self.refusal()),
            WhenFull::Drop => return Err(self.refusal()),
            WhenFull::Wait(limit) => Some(limit),
            WhenFull::Block => None,
        };
        let start = Instant::now();
        let outcome = self.take_steps(start, limit, step);
        self.counters.add_wait(start.elapsed());
        outcome
    }

    fn take_steps(
        &self,
        start: Instant,
        limit: Option<Duration>,
        mut step: impl FnMut(Step) -> bool,
    ) -> std::result::Result<(), Refused> {
        let mut yields = 0;
        loop {
            let left = limit.map_or(LOOK_EVERY, |limit| limit.saturating_sub(start.elapsed()));
            if left.is_zero() {
                return Err(self.refusal());
            }
            let has_room = step(if yields < YIELDS { Step::Yield } else { Step::Sleep(left) });
            yields += 1;
            if has_room {
                return Ok(());
            }
            if self.closed.load(Relaxed) {
                return Err(Refused::Closed);
            }
        }
    }

    /// Why a call is refused that has waited in vain: the ring is full, because the backend can't write.
    fn refusal(&self) -> Refused {
        Refused::from_u8(self.trouble.load(Relaxed))
    }

    /// Tells of an error, unless the one before was of the same kind.
    fn tell(&self, result: &Result<()>) {
        self.told.tell(result, self.on_error.as_ref());
    }
}

/// One step of waiting.
enum Step {
    Yield,
    Sleep(Duration),
}

#[cfg(test)]
mod tests;
