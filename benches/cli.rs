//! The `logtool` command against the programs that people use for the same job: one table of ratios from one run.
//!
//! `cargo bench --bench cli [-- [--bytes 1GiB] [--large] [GROUP...]]`. Groups: write, verify, decompress, read, follow.
//! Each figure is the median of [`ROUNDS`] runs, ours and the peers' in turn; the column `cpu` compares processor time
//! instead of time, which a busy machine changes less. `--large` takes the figures of the group `read` from a log of ten
//! times the size. The data lie below `LOGTOOL_BENCH_DIR`, or else in the target directory, all on one file system, and are
//! removed at the end.

#[path = "support/exit.rs"]
mod exit;
#[path = "support/messages.rs"]
mod messages;
#[path = "support/processes.rs"]
mod processes;
#[path = "support/table.rs"]
mod table;

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use exit::exit_code;
use logtool::options::Options;
use logtool::{Writer, clock};
use messages::Workload;
use processes::{Output, Sample, run};
use table::{Bar, Speed, Table};

/// Runs of each command; odd, for the median.
const ROUNDS: usize = 3;

/// Runs of a command that ends at once.
const QUICK_ROUNDS: usize = 15;

/// Lines that the followers are shown one by one.
const FOLLOWED_LINES: usize = 1000;

/// Lines of the last second of a log.
const LAST_LINES: usize = 1000;

/// What no command may hold in memory.
const RSS_BYTES_MAX: f64 = (64 << 20) as f64;

/// Bytes at which s6-log rolls: the most that it can be told, one less than what `write` does.
const S6_ROLL_BYTES: u32 = 268_435_455;

fn main() -> ExitCode {
    exit_code(bench())
}

/// What is asked for.
struct Plan {
    bytes: u64,
    is_large: bool,
    groups: Vec<String>,
}

impl Plan {
    fn from_args(mut args: impl Iterator<Item = String>) -> anyhow::Result<Plan> {
        let mut plan = Plan { bytes: 1 << 30, is_large: false, groups: Vec::new() };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                // cargo gives it.
                "--bench" => {}
                "--large" => plan.is_large = true,
                "--bytes" => plan.bytes = size(&args.next().context("--bytes: give a size, such as 64MiB")?)?,
                _ if arg.starts_with('-') => anyhow::bail!("{arg}: unknown; there are --bytes SIZE and --large"),
                _ => plan.groups.push(arg),
            }
        }
        Ok(plan)
    }

    fn has(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|wanted| wanted == group)
    }
}

fn size(text: &str) -> anyhow::Result<u64> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => anyhow::bail!("{text}: give a size in KiB, MiB or GiB"),
    };
    Ok(digits.parse::<u64>().with_context(|| format!("{text}: no size"))? << shift)
}

fn bench() -> anyhow::Result<bool> {
    let plan = Plan::from_args(std::env::args().skip(1))?;
    let base = std::env::var_os("LOGTOOL_BENCH_DIR").map_or(PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    fs::create_dir_all(&base)?;
    // The text, two logs of it, one more of each while they are written; room for one log of ten times the size.
    let needed = plan.bytes * if plan.is_large && plan.has("read") { 17 } else { 5 };
    let disk = nix::sys::statvfs::statvfs(&base)?;
    let free = disk.blocks_available() * disk.fragment_size();
    anyhow::ensure!(free > needed, "{}: {needed} bytes needed, {free} are free", base.display());
    let dir = tempfile::Builder::new().prefix("bench-").tempdir_in(&base)?;
    let mut bench = Bench { text: dir.path().join("text"), dir: dir.path().to_owned(), plan, table: Table::default() };
    bench.table.head(&about_machine(bench.plan.bytes));
    let missing: Vec<&str> =
        ["cat", "tail", "cksum", "s6-log", "zstd", "taskset"].into_iter().filter(|name| !has(name)).collect();
    if !missing.is_empty() {
        bench.table.head(&format!("not installed, left out: {}", missing.join(", ")));
    }
    bench.all()?;
    Ok(bench.table.is_good())
}

fn has(name: &str) -> bool {
    processes::is_installed(name)
}

fn about_machine(bytes: u64) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let mib = bytes as f64 / f64::from(1 << 20);
    format!(
        "{cores} cores, load {load}, Linux {}; {mib:.0} MiB of lines of 250 bytes; medians of {ROUNDS}",
        kernel.trim()
    )
}

/// Runs a command once.
type Runs<'a> = Box<dyn FnMut() -> anyhow::Result<Sample> + 'a>;

/// The commands that run against each other, and what came of it.
struct Race<'a> {
    racers: Vec<(&'a str, Runs<'a>)>,
    samples: Vec<Vec<Sample>>,
}

impl<'a> Race<'a> {
    fn new() -> Race<'a> {
        Race { racers: Vec::new(), samples: Vec::new() }
    }

    /// Adds a command, if the programs that it `needs` are there.
    fn add(&mut self, name: &'a str, needs: &[&str], runs: impl FnMut() -> anyhow::Result<Sample> + 'a) {
        if needs.iter().all(|need| has(need)) {
            self.racers.push((name, Box::new(runs)));
            self.samples.push(Vec::new());
        }
    }

    fn run(&mut self) -> anyhow::Result<()> {
        for _ in 0..ROUNDS {
            for ((_, runs), samples) in self.racers.iter_mut().zip(&mut self.samples) {
                samples.push(runs()?);
            }
        }
        Ok(())
    }

    fn samples(&self, name: &str) -> Option<&[Sample]> {
        let at = self.racers.iter().position(|(racer, _)| *racer == name)?;
        Some(&self.samples[at])
    }

    /// How fast `bytes` went through this one.
    fn speed(&self, name: &str, bytes: u64) -> Option<Speed> {
        let samples = self.samples(name)?;
        let rate = |seconds: fn(&Sample) -> f64| bytes as f64 / median(samples.iter().map(seconds).collect());
        Some(Speed { rate: rate(|sample| sample.seconds), cpu_rate: rate(|sample| sample.cpu_seconds) })
    }

    fn rss(&self, name: &str) -> f64 {
        let most = |samples: &[Sample]| samples.iter().map(|sample| sample.rss_bytes_max).max();
        self.samples(name).and_then(most).unwrap_or(0) as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

struct Bench {
    dir: PathBuf,
    text: PathBuf,
    plan: Plan,
    table: Table,
}

impl Bench {
    fn all(&mut self) -> anyhow::Result<()> {
        let text_bytes = write_text(&self.text, self.plan.bytes)?;
        let (plain, packed) = (self.dir.join("plain"), self.dir.join("packed"));
        // What was made is on the disk before anything is timed.
        run(logtool(&["write"], &plain), Some(&self.text), Output::Null)?;
        run(logtool(&["write", "--compress", "zstd"], &packed), Some(&self.text), Output::Null)?;
        Command::new("sync").arg("-f").arg(&self.dir).status()?;
        if self.plan.has("write") {
            self.write(text_bytes)?;
        }
        if self.plan.has("verify") {
            self.verify(&plain, &packed, text_bytes)?;
        }
        if self.plan.has("decompress") {
            self.decompress(&plain, &packed, text_bytes)?;
        }
        if self.plan.has("read") {
            self.read(&plain)?;
        }
        if self.plan.has("follow") {
            self.follow()?;
        }
        Ok(())
    }

    /// Standard input into a log, each time a new one.
    fn write(&mut self, text_bytes: u64) -> anyhow::Result<()> {
        let (input, target) = (Some(self.text.as_path()), self.dir.join("target"));
        let fresh = |command: Command, output: Output<'_>| {
            remove(&target)?;
            run(command, input, output)
        };
        let mut race = Race::new();
        race.add("plain", &[], || fresh(logtool(&["write"], &target), Output::Null));
        race.add("cat", &["cat"], || fresh(Command::new("cat"), Output::File(&target)));
        race.add("never", &[], || fresh(logtool(&["write", "--sync", "never"], &target), Output::Null));
        race.add("cat, sync", &["cat", "sync"], || {
            let mut command = Command::new("sh");
            command.args(["-c", "cat >\"$0\" && exec sync -d \"$0\""]).arg(&target);
            fresh(command, Output::Null)
        });
        race.add("zstd", &[], || fresh(logtool(&["write", "--compress", "zstd"], &target), Output::Null));
        race.add("s6-log", &["s6-log"], || {
            let mut command = Command::new("s6-log");
            command.args(["-b", "n1000", &format!("s{S6_ROLL_BYTES}")]).arg(&target);
            fresh(command, Output::Null)
        });
        race.run()?;
        let rate = |name: &str| race.speed(name, text_bytes);
        self.table.rate("write", rate("plain"), "cat >FILE", rate("cat"), Bar::AtLeast(0.5));
        // `write` syncs each second and at the end: where the disk is slower than `cat`, this is what it is limited by.
        self.table.rate("write", rate("plain"), "cat >FILE; sync", rate("cat, sync"), Bar::None);
        self.table.rate("write --sync never", rate("never"), "cat >FILE", rate("cat"), Bar::AtLeast(0.5));
        self.table.rate("write", rate("plain"), "s6-log", rate("s6-log"), Bar::AtLeast(3.0));
        self.table.rate("write --sync never", rate("never"), "s6-log", rate("s6-log"), Bar::AtLeast(3.0));
        self.table.rate("write --compress zstd", rate("zstd"), "cat >FILE", rate("cat"), Bar::None);
        self.table.rate("write --compress zstd", rate("zstd"), "s6-log", rate("s6-log"), Bar::None);
        self.table.memory("write", race.rss("plain"), RSS_BYTES_MAX);
        self.table.memory("write --compress zstd", race.rss("zstd"), RSS_BYTES_MAX);
        remove(&target)
    }

    /// Every checksum of the same bytes.
    fn verify(&mut self, plain: &Path, packed: &Path, text_bytes: u64) -> anyhow::Result<()> {
        let segments = segments(plain)?;
        let bytes: u64 = segments.iter().filter_map(|path| fs::metadata(path).ok()).map(|found| found.len()).sum();
        let mut race = Race::new();
        race.add("one", &["taskset"], || run_pinned(&logtool(&["verify"], plain)));
        race.add("cksum", &["taskset", "cksum"], || {
            let mut command = Command::new("cksum");
            command.args(&segments);
            run_pinned(&command)
        });
        race.add("all", &[], || run(logtool(&["verify"], plain), None, Output::Null));
        race.add("packed", &[], || run(logtool(&["verify"], packed), None, Output::Null));
        race.run()?;
        self.table.rate(
            "verify, one core",
            race.speed("one", bytes),
            "cksum",
            race.speed("cksum", bytes),
            Bar::AtLeast(0.7),
        );
        self.table.rate(
            "verify, all cores",
            race.speed("all", bytes),
            "one core",
            race.speed("one", bytes),
            Bar::AtLeast(1.0),
        );
        let (packed_rate, all) = (race.speed("packed", text_bytes), race.speed("all", text_bytes));
        self.table.rate("verify of zstd, per text", packed_rate, "of plain", all, Bar::None);
        self.table.memory("verify", race.rss("all"), RSS_BYTES_MAX);
        self.table.memory("verify of zstd", race.rss("packed"), RSS_BYTES_MAX);
        Ok(())
    }

    /// Back to the text that came in.
    fn decompress(&mut self, plain: &Path, packed: &Path, text_bytes: u64) -> anyhow::Result<()> {
        let zst = self.dir.join("text.zst");
        if has("zstd") {
            let status = Command::new("zstd").args(["-q", "-3"]).arg(&self.text).arg("-o").arg(&zst).status()?;
            anyhow::ensure!(status.success(), "zstd: {status}");
        }
        for (output, to) in [(Output::Null, "to /dev/null"), (Output::Pipe, "to a pipe")] {
            let mut race = Race::new();
            race.add("plain", &[], || run(logtool(&["decompress"], plain), None, output));
            race.add("zstd -dc", &["zstd"], || {
                let mut command = Command::new("zstd");
                command.arg("-dcq").arg(&zst);
                run(command, None, output)
            });
            race.add("packed", &[], || run(logtool(&["decompress"], packed), None, output));
            race.run()?;
            let rate = |name: &str| race.speed(name, text_bytes);
            for (name, of) in [("plain", "plain"), ("packed", "zstd")] {
                let what = format!("decompress {of} {to}");
                self.table.rate(&what, rate(name), "zstd -dc", rate("zstd -dc"), Bar::AtLeast(1.0));
                self.table.memory(&what, race.rss(name), RSS_BYTES_MAX);
            }
        }
        Ok(())
    }

    /// Memory of readers; a look at the end of a large log, while it is written and when it is closed.
    fn read(&mut self, plain: &Path) -> anyhow::Result<()> {
        for args in [&["cat"][..], &["tail", "-n", "+1"]] {
            let sample = run(logtool(args, plain), None, Output::Null)?;
            self.table.memory(&args.join(" "), sample.rss_bytes_max as f64, RSS_BYTES_MAX);
        }
        let (large, times) = (self.dir.join("large"), if self.plan.is_large { 10 } else { 1 });
        let (mut writer, mut stdin) = processes::start_fed(logtool(&["write"], &large))?;
        let mut text = Vec::new();
        File::open(&self.text)?.take(64 << 20).read_to_end(&mut text)?;
        text.truncate(text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1));
        let mut left = self.plan.bytes * times;
        while left > 0 {
            let count = text.len().min(left as usize);
            stdin.write_all(&text[..count])?;
            left -= count as u64;
        }
        std::thread::sleep(Duration::from_secs(2));
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        std::thread::sleep(Duration::from_secs(1));
        let end = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(LAST_LINES - 1).map_or(0, |at| at.0);
        stdin.write_all(&text[..=end])?;
        std::thread::sleep(Duration::from_millis(500));
        let (since, log) = (format!("@{since}"), format!("{} MiB", (self.plan.bytes * times) >> 20));
        let quick = |table: &mut Table, state: &str| -> anyhow::Result<()> {
            for args in [&["tail", "-n", "10"][..], &["cat", "--since", &since]] {
                let what = format!("{} of {log}, {state}", args.join(" ").replace(&since, "its last second"));
                table.time(&what, quick_seconds(|| logtool(args, &large))?, 0.050);
            }
            Ok(())
        };
        quick(&mut self.table, "live")?;
        drop(stdin);
        writer.wait()?;
        quick(&mut self.table, "closed")?;
        let version = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_logtool"));
            command.arg("--version");
            command
        };
        self.table.time("start (--version)", quick_seconds(version)?, 0.010);
        remove(&large)
    }

    /// From the write of a line to the line on the follower's standard output, p50.
    fn follow(&mut self) -> anyhow::Result<()> {
        let (log, text) = (self.dir.join("followed"), self.dir.join("followed.txt"));
        let mut writer = Writer::open(&log, Options::new())?;
        let mut file = File::create(&text)?;
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(follow_seconds(logtool(&["tail", "-f", "-n", "0"], &log), |line| {
                writer.line(line, 0, clock::now_ns())?;
                writer.flush()?;
                Ok(())
            })?);
            if has("tail") {
                let mut command = Command::new("tail");
                command.args(["-F", "-n", "0"]).arg(&text);
                peer.push(follow_seconds(command, |line| Ok(file.write_all(&[line, b"\n"].concat())?))?);
            }
        }
        let peer = (!peer.is_empty()).then(|| median(peer));
        self.table.latency("tail -f, p50", median(ours), "tail -F", peer, 3.0);
        Ok(())
    }
}

/// p50 of the times from the write of a line to the line on the standard output of `command`.
fn follow_seconds(mut command: Command, mut write: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut stdout = child.stdout.take().context("no pipe")?;
    // It finds its place before the first line is written.
    std::thread::sleep(Duration::from_millis(300));
    let (mut workload, mut seconds, mut buffer) = (Workload::new(0), Vec::new(), vec![0u8; 4096]);
    for _ in 0..FOLLOWED_LINES {
        std::thread::sleep(Duration::from_millis(1));
        let line = workload.next_message().to_string();
        let started = Instant::now();
        write(line.as_bytes())?;
        let (mut got, wanted) = (0, line.len() + 1);
        while got < wanted {
            let count = stdout.read(&mut buffer)?;
            anyhow::ensure!(count > 0, "{command:?} ended");
            got += count;
        }
        seconds.push(started.elapsed().as_secs_f64());
    }
    child.kill()?;
    child.wait()?;
    Ok(median(seconds))
}

/// The median time of a command that ends at once.
fn quick_seconds(command: impl Fn() -> Command) -> anyhow::Result<f64> {
    let mut seconds = Vec::new();
    for _ in 0..QUICK_ROUNDS {
        seconds.push(run(command(), None, Output::Null)?.seconds);
    }
    Ok(median(seconds))
}

fn logtool(args: &[&str], log: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logtool"));
    command.args(args).arg(log);
    command
}

/// The same command on one core.
fn run_pinned(command: &Command) -> anyhow::Result<Sample> {
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", "0"]).arg(command.get_program()).args(command.get_args());
    run(pinned, None, Output::Null)
}

/// Lines of the workload, `bytes` of them or a little more; returns how many bytes.
fn write_text(path: &Path, bytes: u64) -> anyhow::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut workload, mut line, mut written) = (Workload::new(0), String::new(), 0);
    while written < bytes {
        line.clear();
        workload.push_line(&mut line);
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
    }
    file.flush()?;
    Ok(written)
}

fn segments(log: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(log)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "flog"));
    paths.sort();
    Ok(paths)
}

/// Removes the file or directory, if it is there.
fn remove(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}
