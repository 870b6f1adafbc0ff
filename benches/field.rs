//! The tables by which loggers are compared elsewhere, filled for ours.
//!
//! `cargo bench --bench field [-- [--seconds 4] [--only NAME,..]]`. Tables, by name: `rates` (16 producers at different rates,
//! 200 bytes of mixed text), `fixed` (1 and 4 threads, 200 bytes), `short` (1 and 8 threads, 20 to 80 bytes), `game` (bursts
//! each 40 ms, as 25 frames a second), `million` (1 and 5 threads with 1 M messages of 100 bytes each).
//!
//! Columns: messages and megabytes of text a second until all was handed to the operating system; the mean and the 99th
//! percentile of a call; milliseconds from the return of the last call until a flush has returned; processor time of all threads of the
//! logger, in hundredths of a core: over a second in which nothing is logged, the mean while it is, and the worst tenth of a
//! second; resident memory before, at most and after. A sync each second, unless each call waits for its own.
//!
//! The logs lie below `LOGTOOL_BENCH_DIR`, or else in the target directory, and are removed after each row: some GiB.

#[path = "support/support.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use logtool::{Logger, Options, SyncPolicy, WhenFull, info};
use support::args::Args;
use support::bars::figure;
use support::exit::exit_code;
use support::messages::Workload;
use support::producers::{Amount, Pace, Produced, produce};
use support::{ours, process};

/// Room that the disk must have: twice what the fastest row writes in 4 s.
const ROOM_BYTES: u64 = 16 << 30;

/// Where the texts are cut from.
const TEXT: &str = "The quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs, and then sphinx of \
    black quartz, judge my vow. How vexingly quick daft zebras jump! Bright vixens jump; dozy fowl quack all day.";

const _: () = assert!(TEXT.len() >= 200);

/// Bytes of an entry with 200 bytes of text in a segment: both heads, the text with its tag and length, padding.
const FRAME_OF_200_BYTES: usize = 24 + (24 + 203usize).next_multiple_of(8);

/// Name that the logger's threads begin with.
const OUR_THREADS: &str = "logtool";

fn main() -> ExitCode {
    exit_code(bench().map(|()| true))
}

/// When an entry is handed to the operating system, and synced.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Written and synced before the call returns.
    SyncEach,
    /// Written before the call returns.
    Synchronous,
    /// Written by the backend; a call waits while its ring is full.
    Asynchronous,
    /// As before, but that a write has the bytes of 256 entries, however many wait.
    FixedBatches,
}

/// What is logged.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The workload's messages.
    Mixed,
    /// Texts of this many bytes, from the least to the most.
    Texts(usize, usize),
}

fn bench() -> anyhow::Result<()> {
    let args = Args::parse(&["--seconds", "--only"], &[])?;
    let only: Vec<String> = args.list("--only", &[])?;
    let base = std::env::var_os("LOGTOOL_BENCH_DIR").map_or(PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    std::fs::create_dir_all(&base)?;
    process::ensure_room(&base, ROOM_BYTES)?;
    let dir = tempfile::Builder::new().prefix("field-").tempdir_in(&base)?;
    let field = Field {
        dir: dir.path().join("log"),
        time: Amount::Time(Duration::from_secs_f64(args.value("--seconds", 4.0)?)),
        texts_bytes_mean: mixed_bytes_mean(),
    };
    println!("{}", process::about_machine());
    let tables: [(&str, &str, Fill); 5] = [
        ("rates", "16 producers, 500 to 8,000 messages a second each, 68,000 in all; 200 bytes, mixed", Field::rates),
        ("fixed", "200 bytes, at full speed; batches that grow with what waits, and of 256 entries", Field::fixed),
        ("short", "20 to 80 bytes, at full speed", Field::short),
        ("game", "2 threads, each 500 messages of 20 to 80 bytes each 40 ms", Field::game),
        ("million", "1 M messages of 100 bytes by each thread", Field::million),
    ];
    for (name, title, fill) in tables {
        if only.is_empty() || only.iter().any(|wanted| wanted == name) {
            print_head(name, title);
            fill(&field)?;
        }
    }
    Ok(())
}

/// Prints the rows of a table.
type Fill = fn(&Field) -> anyhow::Result<()>;

struct Field {
    dir: PathBuf,
    time: Amount,
    texts_bytes_mean: f64,
}

impl Field {
    fn rates(&self) -> anyhow::Result<()> {
        // Each so often a burst, so that they sleep between; all rates and all rhythms differ.
        let paces: Vec<Pace> = (1..=16).map(|k| Pace::Bursts(k, Duration::from_millis(2))).collect();
        self.row("sync each", Mode::SyncEach, &paces, self.time, Kind::Mixed)?;
        self.row("synchronous", Mode::Synchronous, &paces, self.time, Kind::Mixed)?;
        self.row("asynchronous", Mode::Asynchronous, &paces, self.time, Kind::Mixed)
    }

    fn fixed(&self) -> anyhow::Result<()> {
        let kind = Kind::Texts(200, 200);
        self.at_full_speed(&[1, 4], self.time, kind)?;
        for count in [1, 4] {
            let paces = vec![Pace::Full; count];
            self.row(&format!("batches of 256, threads: {count}"), Mode::FixedBatches, &paces, self.time, kind)?;
        }
        Ok(())
    }

    fn short(&self) -> anyhow::Result<()> {
        self.at_full_speed(&[1, 8], self.time, Kind::Texts(20, 80))
    }

    fn game(&self) -> anyhow::Result<()> {
        let paces = [Pace::Bursts(500, Duration::from_millis(40)); 2];
        self.row("synchronous", Mode::Synchronous, &paces, self.time, Kind::Texts(20, 80))?;
        self.row("asynchronous", Mode::Asynchronous, &paces, self.time, Kind::Texts(20, 80))
    }

    fn million(&self) -> anyhow::Result<()> {
        self.at_full_speed(&[1, 5], Amount::Calls(1_000_000), Kind::Texts(100, 100))
    }

    fn at_full_speed(&self, threads: &[usize], amount: Amount, kind: Kind) -> anyhow::Result<()> {
        for &count in threads {
            let paces = vec![Pace::Full; count];
            self.row(&format!("synchronous, threads: {count}"), Mode::Synchronous, &paces, amount, kind)?;
            self.row(&format!("asynchronous, threads: {count}"), Mode::Asynchronous, &paces, amount, kind)?;
        }
        Ok(())
    }

    /// A new log, and the messages into it.
    fn row(&self, name: &str, mode: Mode, paces: &[Pace], amount: Amount, kind: Kind) -> anyhow::Result<()> {
        process::settle(self.dir.parent().unwrap_or(&self.dir))?;
        let log = match mode {
            Mode::SyncEach => {
                ours::builder(&self.dir).synchronous().options(Options::new().sync(SyncPolicy::EachEntry))
            }
            Mode::Synchronous => ours::builder(&self.dir).synchronous(),
            Mode::Asynchronous => ours::builder(&self.dir).when_full(WhenFull::Block),
            Mode::FixedBatches => {
                let options = Options::new().batch_bytes(256 * FRAME_OF_200_BYTES);
                ours::builder(&self.dir).options(options).when_full(WhenFull::Block)
            }
        };
        let log = log.open()?;
        let watch = process::Watch::start(OUR_THREADS);
        let produced = log_kind(&log, kind, paces, amount)?;
        let returned = Instant::now();
        log.flush(ours::END_WAIT)?;
        let (to_file, seconds) = (returned.elapsed(), produced.started.elapsed().as_secs_f64());
        let seen = watch.stop()?;
        // Past the sync of what was logged.
        std::thread::sleep(Duration::from_millis(1500));
        let (idle_start, cpu_before) = (Instant::now(), process::thread_cpu_seconds(OUR_THREADS));
        std::thread::sleep(Duration::from_secs(1));
        let idle = (process::thread_cpu_seconds(OUR_THREADS) - cpu_before) / idle_start.elapsed().as_secs_f64() * 100.0;
        let drops = ours::drops(&log.close(ours::END_WAIT)?);
        anyhow::ensure!(drops == 0, "{drops} entries dropped, though calls wait");
        let entries = produced.calls as f64;
        let bytes = entries
            * match kind {
                Kind::Mixed => self.texts_bytes_mean,
                Kind::Texts(least, most) => (least + most) as f64 / 2.0,
            };
        let memory = [seen.first_mib, seen.most_mib, seen.last_mib].map(|mib| format!("{mib:.1}")).join(" ");
        println!(
            "  {name:<26} {:>10.0} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {memory:>16}",
            entries / seconds,
            figure(bytes / seconds / 1e6),
            figure(produced.times.mean_ns()),
            figure(produced.times.quantile_ns(0.99)),
            figure(to_file.as_secs_f64() * 1e3),
            figure(idle),
            figure(seen.mean_percent),
            figure(seen.peak_percent),
        );
        std::fs::remove_dir_all(&self.dir)?;
        Ok(())
    }
}

fn print_head(name: &str, title: &str) {
    println!("\n{name}: {title}");
    println!(
        "  {:<26} {:>10} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>16}",
        "", "messages/s", "MB/s", "mean ns", "p99 ns", "to file", "idle %", "mean %", "peak %", "MiB"
    );
}

fn log_kind(log: &Logger, kind: Kind, paces: &[Pace], amount: Amount) -> anyhow::Result<Produced> {
    let workload = |thread| {
        let mut workload = Workload::new(thread);
        move || workload.next_message()
    };
    match kind {
        Kind::Mixed => produce(paces, amount, workload, |message| ours::log(log, message)),
        Kind::Texts(least, most) => {
            let texts = |thread| {
                // Its ids make lengths that go through all of the range.
                let mut workload = workload(thread);
                move || &TEXT[..least + workload().id as usize * 7 % (most - least + 1)]
            };
            produce(paces, amount, texts, |text| info!(logger: log, "{text}"))
        }
    }
}

/// How long the workload's texts are.
fn mixed_bytes_mean() -> f64 {
    let (mut workload, count) = (Workload::new(0), 1000);
    let bytes: usize = (0..count).map(|_| workload.next_message().to_string().len()).sum();
    bytes as f64 / f64::from(count)
}
