//! The workload of a service that logs requests, about 200 bytes of text each, through our logger: how fast, at what cost.
//!
//! `cargo bench --bench workload [-- [--threads 1,2,4,8] [--seconds 4] [--long]]`. Rows: each number of threads at full speed
//! for so many seconds, with a sync each second; then one thread at a rate that nothing waits at, for what a call takes by
//! itself; then memory, idle processor time, the way of an entry to the file, and with `--long` 60 s at 200,000 entries a
//! second, which must drop nothing. All with the default policy for full rings. At full speed the disk may be what limits.
//! The exit code is 1 if a figure misses its bar. The peers' figures: `benches/peers`.
//!
//! The logs lie below `LOGTOOL_BENCH_DIR`, or else in the target directory, and are removed after each row: some GiB.

#[path = "support/support.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use logtool::{Follower, Item, Logger, Start, clock};
use support::args::Args;
use support::bars::{Bar, Bars, figure};
use support::exit::exit_code;
use support::histogram::Histogram;
use support::messages::Workload;
use support::producers::{Amount, Pace, Produced, produce};
use support::{ours, process};

/// Room that the disk must have: twice what the fastest row writes in 4 s.
const ROOM_BYTES: u64 = 16 << 30;

/// Calls a second of the thread that shows what a call takes by itself.
const UNBLOCKED_RATE: f64 = 100_000.0;

/// How long nothing is logged to see what an idle logger takes.
const IDLE: Duration = Duration::from_secs(5);

/// Entries a second whose way to the file is timed, and for how long.
const FOLLOWED_RATE: f64 = 1000.0;
const FOLLOWED: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    exit_code(bench())
}

fn bench() -> anyhow::Result<bool> {
    let args = Args::parse(&["--threads", "--seconds"], &["--long"])?;
    let threads: Vec<usize> = args.list("--threads", &[1, 2, 4, 8])?;
    let amount = Amount::Time(Duration::from_secs_f64(args.value("--seconds", 4.0)?));
    let base = std::env::var_os("LOGTOOL_BENCH_DIR").map_or(PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    std::fs::create_dir_all(&base)?;
    process::ensure_room(&base, ROOM_BYTES)?;
    let dir = tempfile::Builder::new().prefix("workload-").tempdir_in(&base)?;
    let mut bench = Bench { dir: dir.path().to_owned(), bars: Bars::default() };

    println!("{}; sync each second", process::about_machine());
    println!(
        "\n{:<22} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {:>8} {:>7}",
        "", "M/s", "M/s in", "CPU us", "p50 ns", "p99", "p99.9", "max", "drops", "bytes"
    );
    println!("{:<22} {:>8} {:>8} {:>7}", "", "returned", "the OS", "a call");
    let mut rows = Vec::new();
    for &count in &threads {
        let row = bench.row(&format!("threads: {count}"), &vec![Pace::Full; count], amount)?;
        rows.push((count, row));
    }
    let unblocked = format!("1 thread, {UNBLOCKED_RATE} a s");
    bench.row(&unblocked, &[Pace::Spaced(UNBLOCKED_RATE)], amount)?;
    let long = if args.has("--long") {
        // 50 each ms on each of four threads.
        let paces = [Pace::Bursts(50, Duration::from_millis(1)); 4];
        Some(bench.row("4 threads, 200,000 a s", &paces, Amount::Time(Duration::from_secs(60)))?)
    } else {
        None
    };

    for (count, row) in &rows {
        bench.bars.check(&format!("CPU of an entry, threads: {count}"), row.cpu_us, "us", Bar::AtMost(0.25));
    }
    let rate_of = |wanted| rows.iter().find(|(count, _)| *count == wanted).map(|(_, row)| row.rate_in_os);
    if let (Some(one), Some(eight)) = (rate_of(1), rate_of(8)) {
        bench.bars.check("8 threads against 1", eight / one, "", Bar::AtLeast(0.7));
    }
    if let Some(row) = long {
        bench.bars.check("dropped in 60 s at 200,000 entries/s", row.drops as f64, "", Bar::AtMost(0.0));
        // Of 12 million; a thread that could not keep pace would have logged fewer.
        bench.bars.check("  logged of them", row.calls as f64 / 12e6, "", Bar::AtLeast(0.98));
    }
    let rings = rows.iter().map(|(_, row)| row.ring_bytes).max().unwrap_or(0) as f64 / f64::from(1 << 20);
    bench.bars.check("resident memory at most", process::status_mib("VmHWM"), "MiB", Bar::AtMost(40.0 + rings));
    bench.idle()?;
    bench.way_to_the_file()?;
    Ok(bench.bars.is_good())
}

/// What a row came to.
struct Row {
    calls: u64,
    drops: u64,
    /// Entries a second until all were handed to the operating system.
    rate_in_os: f64,
    /// Processor time of the process by entry.
    cpu_us: f64,
    ring_bytes: u64,
}

struct Bench {
    dir: PathBuf,
    bars: Bars,
}

impl Bench {
    /// A new log, and the workload into it.
    fn row(&self, name: &str, paces: &[Pace], amount: Amount) -> anyhow::Result<Row> {
        process::settle(&self.dir)?;
        let dir = self.dir.join("log");
        let log = ours::builder(&dir).open()?;
        let cpu_before = process::cpu_seconds();
        let produced = log_workload(&log, paces, amount)?;
        log.flush(ours::END_WAIT)?;
        let (seconds_in_os, cpu_seconds) =
            (produced.started.elapsed().as_secs_f64(), process::cpu_seconds() - cpu_before);
        let ring_bytes = process::bytes_on_disk(&dir, ".ring");
        let stats = log.close(ours::END_WAIT)?;
        let (calls, drops) = (produced.calls, ours::drops(&stats));
        anyhow::ensure!(
            stats.writer.entries == calls - drops,
            "{calls} calls and {drops} drops, but {} entries written",
            stats.writer.entries
        );
        let entries = (calls - drops) as f64;
        let row =
            Row { calls, drops, rate_in_os: entries / seconds_in_os, cpu_us: cpu_seconds / entries * 1e6, ring_bytes };
        // A producer that spins until its time takes all it can get.
        let spins = paces.iter().any(|pace| matches!(pace, Pace::Spaced(_)));
        let cpu = if spins { String::new() } else { figure(row.cpu_us) };
        let ns = |share: f64| figure(produced.times.quantile_ns(share));
        println!(
            "{name:<22} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {drops:>8} {:>7}",
            figure(entries / produced.seconds / 1e6),
            figure(row.rate_in_os / 1e6),
            cpu,
            ns(0.5),
            ns(0.99),
            ns(0.999),
            figure(produced.times.max_ns()),
            figure(process::bytes_on_disk(&dir, ".flog") as f64 / entries),
        );
        std::fs::remove_dir_all(&dir)?;
        Ok(row)
    }

    /// What the threads of a logger take that nothing is given to.
    fn idle(&mut self) -> anyhow::Result<()> {
        let dir = self.dir.join("log");
        let log = ours::builder(&dir).open()?;
        log_workload(&log, &[Pace::Full], Amount::Calls(1000))?;
        // Past the sync of what was logged.
        std::thread::sleep(Duration::from_millis(1500));
        let before = process::cpu_seconds();
        std::thread::sleep(IDLE);
        let percent = (process::cpu_seconds() - before) / IDLE.as_secs_f64() * 100.0;
        self.bars.check("idle CPU, of a core", percent, "%", Bar::AtMost(0.5));
        log.close(ours::END_WAIT)?;
        std::fs::remove_dir_all(&dir)?;
        Ok(())
    }

    /// From the call until a reader of the file has the entry.
    fn way_to_the_file(&mut self) -> anyhow::Result<()> {
        let dir = self.dir.join("log");
        let log = ours::builder(&dir).open()?;
        let delays = std::thread::scope(|scope| {
            let follower = scope.spawn(|| follow(&dir, (FOLLOWED_RATE * FOLLOWED.as_secs_f64()) as u64));
            let every = Duration::from_secs_f64(1.0 / FOLLOWED_RATE);
            log_workload(&log, &[Pace::Bursts(1, every)], Amount::Time(FOLLOWED))?;
            log.flush(ours::END_WAIT)?;
            follower.join().map_err(|_| anyhow::anyhow!("the follower has panicked"))?
        })?;
        let ms = |ns: f64| ns / 1e6;
        let what = |which: &str| format!("call to reader of the file at {FOLLOWED_RATE} entries/s, {which}");
        self.bars.check(&what("p50"), ms(delays.quantile_ns(0.5)), "ms", Bar::AtMost(25.0));
        self.bars.check(&what("p99"), ms(delays.quantile_ns(0.99)), "ms", Bar::AtMost(25.0));
        self.bars.check(&what("max"), ms(delays.max_ns()), "ms", Bar::AtMost(25.0));
        log.close(ours::END_WAIT)?;
        std::fs::remove_dir_all(&dir)?;
        Ok(())
    }
}

fn log_workload(log: &Logger, paces: &[Pace], amount: Amount) -> anyhow::Result<Produced> {
    let source = |thread| {
        let mut workload = Workload::new(thread);
        move || workload.next_message()
    };
    produce(paces, amount, source, |message| ours::log(log, message))
}

/// How old entries are when a follower gives them: `count` of them, or what comes until nothing more does.
fn follow(dir: &Path, count: u64) -> anyhow::Result<Histogram> {
    let mut follower = Follower::open(dir, Start::First)?;
    let mut delays = Histogram::new();
    let mut seen = 0;
    while seen < count {
        match follower.next(Some(Instant::now() + Duration::from_secs(2)))? {
            Some(Item::Entry(entry)) => {
                delays.add(u64::try_from(clock::now_ns() - entry.head.time_ns).unwrap_or(0));
                seen += 1;
            }
            Some(Item::Finding(finding)) => anyhow::bail!("{finding:?}"),
            Some(Item::Note(_)) => {}
            None => break,
        }
    }
    anyhow::ensure!(seen as f64 >= 0.9 * count as f64, "the follower has seen {seen} of {count} entries");
    Ok(delays)
}
