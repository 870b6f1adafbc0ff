//! The loggers that are compared, each set up as its documentation says, to lose nothing, into a file of its own.
//!
//! - `BufWriter`: the caller formats its line into a buffer of its thread, with a time stamp whose date is made once a second,
//!   and appends it to a `BufWriter` of 64 KiB under a mutex. Before each sync the buffer is flushed.
//! - `spdlog-rs async`: its pool of one thread with the default queue of 8192 and `Block`, over its `FileSink` with 64 KiB.
//! - `ticklog block`: its `FileSink`, which has 64 KiB; callers spin while their ring is full. It knows no `{:.3}`: the number
//!   is written in full.
//! - `tracing-appender`: `tracing` and the `fmt` subscriber, which format in the caller, over a lossless `NonBlocking`.
//! - `logtool`: the defaults, but that a caller waits for as long as its ring is full, as those of the peers do.
//!
//! All put the level and a time in front. Ours syncs by itself; each other file has a thread that calls `fdatasync` on it once
//! a second. The end of a run is when all was handed to the operating system: when the flush or the shutdown has returned.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use logtool::WhenFull;
use logtool::clock::{self, NS_PER_SECOND, UtcTime};

use crate::support::messages::{Message, Workload};
use crate::support::producers::{Amount, Pace, produce};
use crate::support::{ours, process};

pub(crate) const BUFFERED: &str = "BufWriter";
pub(crate) const TICKLOG: &str = "ticklog block";
pub(crate) const OURS: &str = "logtool";

/// Bytes that are gathered before a write.
const BUFFER_BYTES: usize = 64 << 10;

/// Runs a peer.
type Run = fn(&Plan) -> anyhow::Result<Figures>;

/// All, ours last.
pub(crate) const ALL: [(&str, Run); 5] = [
    (BUFFERED, buffered),
    ("spdlog-rs async", spdlog),
    (TICKLOG, ticklog),
    ("tracing-appender", tracing),
    (OURS, logtool),
];

/// What is to be run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) paces: Vec<Pace>,
    pub(crate) amount: Amount,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) entries: f64,
    /// Until the producers returned.
    pub(crate) seconds: f64,
    /// Until all was handed to the operating system.
    pub(crate) seconds_in_os: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
    pub(crate) p999_ns: f64,
    pub(crate) max_ns: f64,
    pub(crate) drops: f64,
    pub(crate) bytes: f64,
    /// Processor time while nothing is logged, in hundredths of a core; only of a run at a rate.
    pub(crate) idle_percent: f64,
}

impl Figures {
    pub(crate) fn rate_in_os(&self) -> f64 {
        self.entries / self.seconds_in_os
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_seconds / self.entries * 1e6
    }

    /// As one process gives it to the other.
    pub(crate) fn to_line(self) -> String {
        let Figures { entries, seconds, seconds_in_os, cpu_seconds, p50_ns, p99_ns, p999_ns, max_ns, drops, .. } = self;
        let Figures { bytes, idle_percent, .. } = self;
        let all = [entries, seconds, seconds_in_os, cpu_seconds, p50_ns, p99_ns, p999_ns, max_ns, drops];
        let all: Vec<String> = all.iter().chain(&[bytes, idle_percent]).map(f64::to_string).collect();
        all.join(" ")
    }

    pub(crate) fn from_line(line: &str) -> anyhow::Result<Figures> {
        let all: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        let all: [f64; 11] = all?.try_into().ok().context("not the figures of a run")?;
        let [entries, seconds, seconds_in_os, cpu_seconds, p50_ns, p99_ns, p999_ns, max_ns, drops, bytes, idle_percent] =
            all;
        Ok(Figures {
            entries,
            seconds,
            seconds_in_os,
            cpu_seconds,
            p50_ns,
            p99_ns,
            p999_ns,
            max_ns,
            drops,
            bytes,
            idle_percent,
        })
    }
}

/// Logs the workload by `log`. `finish` is given that back with the number of calls, hands all to the operating system, and
/// returns the drops.
fn measure<L: Fn(Message) + Sync>(
    plan: &Plan,
    log: L,
    finish: impl FnOnce(L, u64) -> anyhow::Result<u64>,
) -> anyhow::Result<Figures> {
    let source = |thread| {
        let mut workload = Workload::new(thread);
        move || workload.next_message()
    };
    let cpu_before = process::cpu_seconds();
    let produced = produce(&plan.paces, plan.amount, source, &log)?;
    let mut idle_percent = f64::NAN;
    if let [Pace::Spaced(_)] = plan.paces[..] {
        // Past a sync of what was logged.
        std::thread::sleep(Duration::from_millis(1200));
        let before = process::cpu_seconds();
        std::thread::sleep(Duration::from_secs(1));
        idle_percent = (process::cpu_seconds() - before) * 100.0;
    }
    let drops = finish(log, produced.calls)?;
    let (seconds_in_os, cpu_seconds) = (produced.started.elapsed().as_secs_f64(), process::cpu_seconds() - cpu_before);
    Ok(Figures {
        entries: (produced.calls - drops) as f64,
        seconds: produced.seconds,
        seconds_in_os,
        cpu_seconds,
        p50_ns: produced.times.quantile_ns(0.5),
        p99_ns: produced.times.quantile_ns(0.99),
        p999_ns: produced.times.quantile_ns(0.999),
        max_ns: produced.times.max_ns(),
        drops: drops as f64,
        bytes: process::bytes_on_disk(&plan.dir, "log") as f64,
        idle_percent,
    })
}

/// Brings a file to stable storage each second, on a thread of its own.
struct Syncs {
    stop: Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Syncs {
    fn start(path: &Path, flush: impl Fn() -> io::Result<()> + Send + 'static) -> anyhow::Result<Syncs> {
        let file = File::options().append(true).open(path)?;
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                flush()?;
                file.sync_data()?;
            }
            Ok(())
        });
        Ok(Syncs { stop, thread })
    }

    fn stop(self) -> anyhow::Result<()> {
        drop(self.stop);
        Ok(self.thread.join().map_err(|_| anyhow::anyhow!("the thread that syncs has panicked"))??)
    }
}

fn path(plan: &Plan) -> PathBuf {
    plan.dir.join("peer.log")
}

fn buffered(plan: &Plan) -> anyhow::Result<Figures> {
    /// A line, and the start of its time stamp, which holds for this second.
    #[derive(Default)]
    struct Line {
        text: String,
        second: i64,
        date: String,
    }
    thread_local! {
        static LINE: RefCell<Line> = RefCell::default();
    }
    let out = Arc::new(Mutex::new(BufWriter::with_capacity(BUFFER_BYTES, File::create(path(plan))?)));
    let lock = |out: &Mutex<BufWriter<File>>, act: &dyn Fn(&mut BufWriter<File>) -> io::Result<()>| {
        act(&mut out.lock().unwrap_or_else(PoisonError::into_inner))
    };
    let flushed = Arc::clone(&out);
    let syncs = Syncs::start(&path(plan), move || lock(&flushed, &|out| out.flush()))?;
    let log = |message: Message| {
        LINE.with_borrow_mut(|Line { text, second, date }| {
            let now_ns = clock::now_ns();
            if *second != now_ns / NS_PER_SECOND {
                *second = now_ns / NS_PER_SECOND;
                *date = UtcTime::from_ns(now_ns).rfc3339();
                date.truncate("2026-11-30T12:00:00".len());
            }
            text.clear();
            let micros = now_ns % NS_PER_SECOND / 1000;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{date}.{micros:06}Z INFO {message}");
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            // An error stays, and is what the flush returns.
            let _ = out.write_all(text.as_bytes());
        });
    };
    let figures = measure(plan, log, |_, _| {
        lock(&out, &|out| out.flush())?;
        Ok(0)
    })?;
    syncs.stop()?;
    Ok(figures)
}

fn spdlog(plan: &Plan) -> anyhow::Result<Figures> {
    use spdlog::sink::{AsyncPoolSink, FileSink, OverflowPolicy};
    let file = FileSink::builder().path(path(plan)).capacity(BUFFER_BYTES).build_arc()?;
    let pool = Arc::new(spdlog::ThreadPool::new()?);
    let sink = AsyncPoolSink::builder().overflow_policy(OverflowPolicy::Block).thread_pool(pool).sink(file);
    let logger = spdlog::Logger::builder().sink(sink.build_arc()?).build()?;
    let syncs = Syncs::start(&path(plan), || Ok(()))?;
    let log = move |message: Message| {
        let Message { id, user, ip, path, status, latency_ms, msg } = message;
        spdlog::info!(
            logger: logger,
            "req id={id} user={user} ip={ip} path={path} status={status} latency_ms={latency_ms:.3} msg={msg}"
        );
    };
    let figures = measure(plan, log, |log, _| {
        // Its logger ends the pool, which empties its queue before, and then the sink, which flushes.
        drop(log);
        Ok(0)
    })?;
    syncs.stop()?;
    Ok(figures)
}

fn ticklog(plan: &Plan) -> anyhow::Result<Figures> {
    // `configure!` leaves macros in the root of the crate; by their names they may not be imported.
    use crate::*;
    let guard = ticklog::configure! {
        sink: ticklog::FileSink::truncate(path(plan))?,
        backpressure: ticklog::Backpressure::Block,
        format: "{timestamp} {level} {message}",
    };
    let guard = guard.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let syncs = Syncs::start(&path(plan), || Ok(()))?;
    let log = |message: Message| {
        let Message { id, user, ip, path, status, latency_ms, msg } = message;
        ticklog::info!(
            "req id={} user={} ip={} path={} status={} latency_ms={} msg={}",
            id,
            user,
            ip,
            path,
            status,
            latency_ms,
            msg
        );
    };
    let figures = measure(plan, log, |_, _| {
        drop(guard);
        Ok(0)
    })?;
    syncs.stop()?;
    Ok(figures)
}

fn tracing(plan: &Plan) -> anyhow::Result<Figures> {
    /// Counts what is written: each line is one write. The guard does not wait long enough for a full queue.
    struct Counted {
        file: File,
        lines: Arc<AtomicU64>,
    }
    impl Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.file.write_all(bytes)?;
            // ORDERING: Relaxed; the number stands for itself.
            self.lines.fetch_add(1, Ordering::Relaxed);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            self.file.flush()
        }
    }
    let lines = Arc::new(AtomicU64::new(0));
    let counted = Counted { file: File::create(path(plan))?, lines: Arc::clone(&lines) };
    let (writer, guard) = tracing_appender::non_blocking::NonBlockingBuilder::default().lossy(false).finish(counted);
    tracing_subscriber::fmt().with_ansi(false).with_writer(writer).init();
    let syncs = Syncs::start(&path(plan), || Ok(()))?;
    let log = |message: Message| {
        let Message { id, user, ip, path, status, latency_ms, msg } = message;
        tracing::info!(
            "req id={id} user={user} ip={ip} path={path} status={status} latency_ms={latency_ms:.3} msg={msg}"
        );
    };
    let figures = measure(plan, log, |_, calls| {
        // ORDERING: Relaxed; as above.
        while lines.load(Ordering::Relaxed) < calls {
            std::thread::sleep(Duration::from_micros(100));
        }
        drop(guard);
        Ok(0)
    })?;
    syncs.stop()?;
    Ok(figures)
}

fn logtool(plan: &Plan) -> anyhow::Result<Figures> {
    let log = ours::builder(&plan.dir).when_full(WhenFull::Block).open()?;
    let figures = measure(
        plan,
        |message| ours::log(&log, message),
        |_, _| {
            log.flush(ours::END_WAIT)?;
            Ok(ours::drops(&log.stats()))
        },
    )?;
    log.close(ours::END_WAIT)?;
    Ok(figures)
}
