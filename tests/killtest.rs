//! kill -9 against `logtool write`: every line that it echoed is in the log, once and whole.
//!
//! A child runs `logtool write --tee`; it is fed numbered lines and killed at a random moment, then started again on the
//! same log. What `--tee` echoed is the truth, since a line is echoed only after it was accepted; what the pipe still held
//! dies with the pipe. After each kill the log is read as it lies there; now and then it is repaired before it goes on, and
//! each log is closed in the end and must verify as sound.
//!
//! `cargo test --release --test killtest -- --kills 2000 --seed 1`; with `--library` the library instead, see `kill_library`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should say so and stop")]

mod kill_bitflip;
mod kill_check;
mod kill_child;
mod kill_counts;
mod kill_entries;
mod kill_library;
mod kill_plan;
mod kill_record;
mod kill_tally;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use kill_counts::{Counts, Random};
use logtool::format::{FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};
use logtool::{Fault, Item, LogReader, Loss};

/// Kills of the short run that is part of plain `cargo test`.
const KILLS_SHORT: u64 = 120;

/// Kills of the library in it, for each count of threads.
const LIBRARY_KILLS_SHORT: u64 = 75;

/// Runs at a time: one checks while the other's child runs.
const LANES: u64 = 2;

/// Kills that one log goes through before it is closed and judged as a whole.
const KILLS_PER_LOG: u64 = 20;

/// Most lines that a child is fed before it is killed.
const LINES_MAX: u64 = 3000;

/// The ways in which the log is written.
const VARIANTS: &[&[&str]] = &[
    &[],
    &["--compress", "zstd"],
    &["--roll-bytes", "32KiB"],
    &["--compress", "zstd:3", "--roll-bytes", "16KiB"],
    &["--roll-bytes", "16KiB", "--keep-segments", "4"],
    &["--compress", "zstd", "--roll-bytes", "8KiB", "--keep-bytes", "64KiB"],
    &["--sync", "batch", "--roll-bytes", "64KiB"],
];

/// Line number `number`: its length depends on the number, and its end tells whether it is whole.
fn line(number: u64) -> String {
    let filler = Random(number).below(200) as usize;
    format!("{number:010} {} end-{number:010}", "abcdefghij".repeat(filler / 10 + 1))
}

/// The number of a line, if it is whole.
fn number_of(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let number = text.get(..10)?.parse().ok()?;
    (line(number) == text).then_some(number)
}

/// One log on its way through its kills.
struct Log {
    dir: PathBuf,
    options: &'static [&'static str],
    next_number: u64,
    echoed: BTreeSet<u64>,
    counts: Counts,
}

impl Log {
    fn child(&self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_logtool"));
        command.args(["write", "--tee"]).args(self.options).arg(&self.dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Starts a child, feeds it, kills it after a random time, and notes what it echoed.
    fn kill_one(&mut self, random: &mut Random) {
        let mut child = self.child();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // Short times hit the opening and recovery, long ones writing and rolls.
        let (after_first, wait_us) = match random.below(4) {
            0 => (false, random.below(3_000)),
            1 => (false, random.below(8_000)),
            2 => (false, 2_000 + random.below(15_000)),
            // On a busy machine it may take longer than that before the first line is written.
            _ => (true, random.below(15_000)),
        };
        let (first, lines_at_once) = (self.next_number, 1 + random.below(60));
        let (has_echoed, first_echoed) = std::sync::mpsc::channel();
        let echoed = std::thread::scope(|scope| {
            let feeder = scope.spawn(move || {
                for number in first..first + LINES_MAX {
                    let mut text = line(number);
                    text.push('\n');
                    if stdin.write_all(text.as_bytes()).is_err() {
                        return number + 1;
                    }
                    if number % lines_at_once == 0 {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
                // The pipe stays open until the kill.
                std::thread::sleep(Duration::from_millis(40));
                first + LINES_MAX
            });
            let reader = scope.spawn(move || {
                let mut echoed = vec![0];
                let first = stdout.read(&mut echoed).unwrap();
                echoed.truncate(first);
                // Who waits for it holds the other end.
                let _ = has_echoed.send(());
                stdout.read_to_end(&mut echoed).unwrap();
                echoed
            });
            if after_first {
                first_echoed.recv_timeout(Duration::from_secs(30)).unwrap();
            }
            std::thread::sleep(Duration::from_micros(wait_us));
            child.kill().unwrap();
            child.wait().unwrap();
            self.next_number = feeder.join().unwrap();
            reader.join().unwrap()
        });
        let whole = echoed.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        for text in echoed[..whole].split(|&byte| byte == b'\n').filter(|text| !text.is_empty()) {
            let number = number_of(text).expect("the echo is what was fed");
            self.echoed.insert(number);
            self.counts.returned += 1;
        }
        self.counts.kills += 1;
    }

    /// Reads the log and compares it with what was echoed.
    fn check(&mut self) {
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        if !logtool::is_log_dir(&self.dir) {
            // Killed before the log was made.
            assert!(self.echoed.is_empty(), "lines were echoed and there is no log");
            return;
        }
        let mut reader = match LogReader::open(&self.dir) {
            Ok(reader) => reader,
            Err(error) => panic!("{error}"),
        };
        let mut last_number = None;
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::Entry(entry) => {
                    let whole = entry.flags & (FLAG_MORE | FLAG_CONTINUED | FLAG_UNFINISHED) == 0;
                    match number_of(entry.body).filter(|_| whole) {
                        Some(number) => {
                            *found.entry(number).or_default() += 1;
                            self.counts.order += u64::from(last_number > Some(number));
                            last_number = Some(number);
                        }
                        None => self.counts.torn += 1,
                    }
                }
                // What a kill in the middle of a write leaves: nothing of it was accepted.
                Item::Finding(finding) if finding.fault == Fault::TornTail && finding.loss == Loss::Nothing => {}
                Item::Finding(finding) => {
                    eprintln!("{}: {finding:?}", self.dir.display());
                    self.counts.gaps += 1;
                }
                Item::Note(_) => {}
            }
        }
        self.counts.repeated += found.values().filter(|&&times| times > 1).count() as u64;
        // Retention removes whole segments from the front, and only where it is asked to.
        let retains = self.options.iter().any(|option| option.starts_with("--keep"));
        let first = if retains { found.keys().next().copied().unwrap_or(u64::MAX) } else { 0 };
        let missing: Vec<u64> =
            self.echoed.range(first..).filter(|number| !found.contains_key(number)).copied().collect();
        if let Some(number) = missing.first() {
            eprintln!("{}: {} lines missing, the first is {number}", self.dir.display(), missing.len());
        }
        self.counts.missing += missing.len() as u64;
        if retains {
            assert!(found.is_empty() == self.echoed.is_empty() || !found.is_empty(), "retention left nothing");
            self.echoed = self.echoed.split_off(&first);
        }
    }

    /// Runs another command on the log; it must find nothing wrong.
    fn must_succeed(&mut self, command: &str) {
        let output = Command::new(env!("CARGO_BIN_EXE_logtool")).arg(command).arg(&self.dir).output().unwrap();
        if !output.status.success() {
            eprintln!(
                "{command} {}: {}\n{}",
                self.dir.display(),
                output.status,
                String::from_utf8_lossy(&output.stdout)
            );
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            self.counts.unsound += 1;
        }
    }

    /// Opens the log once more, closes it, and judges it as a whole.
    fn close(&mut self) {
        let mut child = self.child();
        drop(child.stdin.take());
        self.counts.unsound += u64::from(!child.wait_with_output().unwrap().status.success());
        self.check();
        self.must_succeed("verify");
    }
}

/// `kills` kills, log after log, in directories below `base`.
fn run(base: &Path, kills: u64, seed: u64) -> Counts {
    let (mut random, mut total) = (Random(seed), Counts::default());
    let mut number = 0;
    while total.kills < kills && total.is_good() {
        let options = VARIANTS[(number + seed as usize) % VARIANTS.len()];
        let dir = base.join(format!("log-{seed}-{number}"));
        let mut log = Log { dir, options, next_number: 1, echoed: BTreeSet::new(), counts: Counts::default() };
        for _ in 0..KILLS_PER_LOG.min(kills - total.kills) {
            log.kill_one(&mut random);
            log.check();
            if random.below(10) == 0 && logtool::is_log_dir(&log.dir) {
                log.must_succeed("repair");
                log.check();
            }
        }
        log.close();
        total.add(log.counts);
        if log.counts.is_good() {
            std::fs::remove_dir_all(&log.dir).unwrap();
        } else {
            eprintln!("{:?} of options {options:?}", log.counts);
        }
        number += 1;
    }
    total
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some((_, order)) = args.split_first().filter(|(first, _)| *first == "--child") {
        return kill_child::run(&kill_child::Order::from_args(order));
    }
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    // `cargo test NAME` hands its filter to this program too.
    let filter = args.first().filter(|arg| !arg.starts_with('-'));
    if filter.is_some_and(|filter| !"killtest".contains(filter.as_str())) || args.iter().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let (kills, seed) = (value("--kills"), value("--seed").unwrap_or(1));
    let base = tempfile::Builder::new().prefix("logtool-killtest-").tempdir().unwrap();
    let library = |kills: u64, threads: usize| {
        let name = format!("library, {threads} threads");
        lanes(&name, kills, seed, &|kills, seed| kill_library::run(base.path(), kills, threads, seed))
    };
    let command = |kills| lanes("logtool write", kills, seed, &|kills, seed| run(base.path(), kills, seed));
    let threads = (value("--threads").unwrap_or(4) as usize).clamp(1, kill_tally::THREADS_MAX);
    let is_good = if let Some(flips) = value("--bitflip") {
        flip(base.path(), flips, threads, seed)
    } else if args.iter().any(|arg| arg == "--library") {
        library(kills.unwrap_or(4 * LIBRARY_KILLS_SHORT), threads)
    } else if kills.is_some() {
        command(kills.unwrap_or(KILLS_SHORT))
    } else {
        command(KILLS_SHORT) && [1, 2, 4, 8].iter().all(|&threads| library(LIBRARY_KILLS_SHORT, threads))
    };
    if !is_good {
        println!("failed; the logs are kept in {}", base.keep().display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Flips bits in the rings that kills have left. Whether they cost no more than they may.
fn flip(base: &Path, flips: u64, threads: usize, seed: u64) -> bool {
    let started = Instant::now();
    let kill_bitflip::Flips { counts, costly, cost, told } = kill_bitflip::run(base, flips, threads, seed);
    println!("{counts}");
    println!("flips={flips} costly={costly} cost={cost} told={told}");
    println!("bit flips, {threads} threads: in {:.1} s, seed {seed}", started.elapsed().as_secs_f64());
    counts.is_good() && counts.returned > 0
}

/// Shares out the kills, each share with a seed of its own, and says what came of them. Whether all is good.
fn lanes(name: &str, kills: u64, seed: u64, run: &(dyn Fn(u64, u64) -> Counts + Sync)) -> bool {
    let started = Instant::now();
    let mut total = Counts::default();
    std::thread::scope(|scope| {
        let share = |lane: u64| (kills / LANES + u64::from(lane < kills % LANES), seed * LANES + lane);
        let runs: Vec<_> = (0..LANES).map(share).map(|(kills, seed)| scope.spawn(move || run(kills, seed))).collect();
        runs.into_iter().for_each(|run| total.add(run.join().unwrap()));
    });
    println!("{total}");
    println!("{name}: in {:.1} s, seed {seed}", started.elapsed().as_secs_f64());
    total.is_good() && total.returned > 0
}
