//! Our logger against its peers among published crates: the same workload, in one run, each in a process of its own.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml [-- [--threads 1,2,4,8] [--seconds 3 | --messages N]
//! [--rounds 3] [--only NAME,..]]`. Every round runs each peer with each number of threads, then each with one thread at a
//! rate that nothing waits at; all figures are medians over the rounds. With `--messages` the threads share that many, instead
//! of logging for some seconds. `x Buf` and `x CPU` are entries a second, and a second of processor time, against `BufWriter`:
//! a busy machine changes the latter less. What each peer does: [`peers`]. The exit code is 1 if a figure of ours misses its bar.
//!
//! The logs lie below `LOGTOOL_BENCH_DIR`, or else beside this program, all on one file system, and are removed after each
//! run: some GiB.

mod peers;
#[path = "../../support/support.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context;
use peers::{Figures, Plan};
use support::args::Args;
use support::exit::exit_code;
use support::bars::{Bar, Bars, figure, median};
use support::process;
use support::producers::{Amount, Pace};

/// Room that the disk must have: twice what the fastest writes in 3 s.
const ROOM_BYTES: u64 = 12 << 30;

/// Calls a second of the thread that shows what a call takes by itself.
const UNBLOCKED_RATE: f64 = 100_000.0;

fn main() -> ExitCode {
    let run = || {
        let args = Args::parse(
            &["--threads", "--seconds", "--messages", "--rounds", "--only", "--child", "--dir", "--rate"],
            &[],
        )?;
        match args.text("--child") {
            Some(name) => child(name, &args).map(|()| true),
            None => compare(&args),
        }
    };
    exit_code(run())
}

/// Runs one peer in this process, and prints its figures.
fn child(name: &str, args: &Args) -> anyhow::Result<()> {
    let threads: usize = args.value("--threads", 1)?;
    let pace = match args.text("--rate") {
        Some(_) => Pace::Spaced(args.value("--rate", 0.0)?),
        None => Pace::Full,
    };
    let amount = match args.text("--messages") {
        Some(_) => Amount::Calls(args.value("--messages", 0)? / threads as u64),
        None => Amount::Time(Duration::from_secs_f64(args.value("--seconds", 3.0)?)),
    };
    let dir = PathBuf::from(args.text("--dir").context("--dir: give a directory")?);
    let (_, run) = peers::ALL.iter().find(|(known, _)| *known == name).context("no such peer")?;
    println!("{}", run(&Plan { dir, paces: vec![pace; threads], amount })?.to_line());
    Ok(())
}

/// What one peer came to under one load, round by round.
struct Runs {
    name: &'static str,
    /// 0 for the one that nothing waits in.
    threads: usize,
    figures: Vec<Figures>,
}

impl Runs {
    fn median(&self, of: fn(&Figures) -> f64) -> f64 {
        median(self.figures.iter().map(of).collect())
    }
}

fn compare(args: &Args) -> anyhow::Result<bool> {
    let threads: Vec<usize> = args.list("--threads", &[1, 2, 4, 8])?;
    let rounds: usize = args.value("--rounds", 3)?;
    let names: Vec<&'static str> = peers::ALL.iter().map(|(name, _)| *name).collect();
    let only: Vec<String> = args.list("--only", &[])?;
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        anyhow::bail!("--only {unknown}: there are {}", names.join(", "));
    }
    let program = std::env::current_exe()?;
    let beside = program.parent().context("this program has no directory")?;
    let base = std::env::var_os("LOGTOOL_BENCH_DIR").map_or(beside.to_owned(), PathBuf::from);
    std::fs::create_dir_all(&base)?;
    process::ensure_room(&base, ROOM_BYTES)?;
    let dir = tempfile::Builder::new().prefix("peers-").tempdir_in(&base)?;
    println!("{}; sync each second; medians of {rounds}", process::about_machine());
    let names = names.into_iter().filter(|name| only.is_empty() || only.iter().any(|one| one == name));
    let mut all: Vec<Runs> = Vec::new();
    for &threads in threads.iter().chain(&[0]) {
        all.extend(names.clone().map(|name| Runs { name, threads, figures: Vec::new() }));
    }
    for _ in 0..rounds {
        for runs in &mut all {
            runs.figures.push(run_child(&program, dir.path(), runs, args)?);
        }
    }
    print_table(&all);
    Ok(check(&all))
}

fn run_child(program: &Path, dir: &Path, runs: &Runs, args: &Args) -> anyhow::Result<Figures> {
    process::settle(dir)?;
    let dir = dir.join("run");
    std::fs::create_dir(&dir)?;
    let mut command = Command::new(program);
    command.args(["--child", runs.name, "--threads", &runs.threads.max(1).to_string(), "--dir"]).arg(&dir);
    if runs.threads == 0 {
        command.args(["--rate", &UNBLOCKED_RATE.to_string(), "--seconds", "2"]);
    } else if let Some(messages) = args.text("--messages") {
        command.args(["--messages", messages]);
    } else {
        command.args(["--seconds", &args.value("--seconds", 3.0)?.to_string()]);
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(output.status.success(), "{} with {} threads: {}", runs.name, runs.threads, output.status);
    std::fs::remove_dir_all(&dir)?;
    Figures::from_line(&String::from_utf8_lossy(&output.stdout)).context(runs.name)
}

fn find<'a>(all: &'a [Runs], name: &str, threads: usize) -> Option<&'a Runs> {
    all.iter().find(|runs| runs.name == name && runs.threads == threads)
}

fn print_table(all: &[Runs]) {
    println!(
        "\n{:<28} {:>8} {:>8} {:>7} {:>7} {:>7} {:>8} {:>10} {:>6} {:>6} {:>6} {:>6} {:>7}",
        "", "M/s", "M/s in", "CPU us", "p50 ns", "p99", "p99.9", "max", "drops", "bytes", "x Buf", "x CPU", "idle %"
    );
    println!("{:<28} {:>8} {:>8} {:>7} {:>7}", "", "returned", "the OS", "", "a call");
    let mut threads_before = None;
    for runs in all {
        if threads_before.replace(runs.threads) != Some(runs.threads) {
            match runs.threads {
                0 => println!("1 thread, {UNBLOCKED_RATE} a second"),
                1 => println!("1 thread"),
                _ => println!("{} threads", runs.threads),
            }
        }
        // At a rate a producer spins until its time, which takes all the processor, and nobody waits for the end.
        let at_a_rate = runs.threads == 0;
        let show = |of: fn(&Figures) -> f64| figure(runs.median(of));
        let at_full_speed = |text: String| if at_a_rate { String::new() } else { text };
        let buffered = find(all, peers::BUFFERED, runs.threads);
        let times = |ratio: &dyn Fn(&Runs) -> f64| buffered.map_or(String::new(), |buffered| figure(ratio(buffered)));
        println!(
            "  {:<26} {:>8} {:>8} {:>7} {:>7} {:>7} {:>8} {:>10} {:>6} {:>6} {:>6} {:>6} {:>7}",
            runs.name,
            show(|figures| figures.entries / figures.seconds / 1e6),
            at_full_speed(show(|figures| figures.rate_in_os() / 1e6)),
            at_full_speed(show(Figures::cpu_us)),
            show(|figures| figures.p50_ns),
            show(|figures| figures.p99_ns),
            show(|figures| figures.p999_ns),
            show(|figures| figures.max_ns),
            show(|figures| figures.drops),
            show(|figures| figures.bytes / figures.entries),
            at_full_speed(times(&|buffered| runs.median(Figures::rate_in_os) / buffered.median(Figures::rate_in_os))),
            at_full_speed(times(&|buffered| buffered.median(Figures::cpu_us) / runs.median(Figures::cpu_us))),
            if at_a_rate { show(|figures| figures.idle_percent) } else { String::new() },
        );
    }
}

/// Holds ours against the bars.
fn check(all: &[Runs]) -> bool {
    let mut bars = Bars::default();
    let ours = |threads| find(all, peers::OURS, threads);
    for runs in all.iter().filter(|runs| runs.name == peers::OURS && runs.threads > 0) {
        let threads = runs.threads;
        if let Some(buffered) = find(all, peers::BUFFERED, threads) {
            let ratio = runs.median(Figures::rate_in_os) / buffered.median(Figures::rate_in_os);
            bars.check(&format!("throughput against BufWriter, threads: {threads}"), ratio, "", Bar::AtLeast(3.5));
        }
        bars.check(
            &format!("CPU of an entry, threads: {threads}"),
            runs.median(Figures::cpu_us),
            "us",
            Bar::AtMost(0.25),
        );
    }
    if let (Some(one), Some(eight)) = (ours(1), ours(8)) {
        let ratio = eight.median(Figures::rate_in_os) / one.median(Figures::rate_in_os);
        bars.check("8 threads against 1", ratio, "", Bar::AtLeast(0.7));
    }
    if let (Some(ours), Some(ticklog)) = (ours(0), find(all, peers::TICKLOG, 0)) {
        let p50 = |runs: &Runs| runs.median(|figures| figures.p50_ns);
        let p99 = |runs: &Runs| runs.median(|figures| figures.p99_ns);
        bars.check("p50 of a call that does not wait", p50(ours), "ns", Bar::AtMost(p50(ticklog) + 20.0));
        bars.check("p99 of it", p99(ours), "ns", Bar::AtMost(2.0 * p99(ticklog)));
    }
    bars.is_good()
}
