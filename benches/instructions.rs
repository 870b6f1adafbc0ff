//! A guard against regressions: instructions of a log call, and of the backend for an entry, counted by valgrind.
//!
//! `cargo bench --bench instructions` counts them for the workload and compares with `benches/instructions.txt`; it fails where
//! one has grown by more than a fifth. Counts do not depend on what else the machine does, but on the compiler: another
//! `rustc` than the one that the file names is told, and nothing is compared. `-- --record` writes the file anew; a higher
//! count needs a word in CHANGELOG.
//!
//! Each figure is the difference of two runs, of few and of many entries, so that starting and ending do not count.

#[path = "support/support.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use logtool::{RingOptions, WhenFull};
use support::args::Args;
use support::exit::exit_code;
use support::messages::Workload;
use support::ours;

/// Entries of the two runs.
const COUNTS: [u64; 2] = [10_000, 30_000];

/// What a figure may be over the one on record, in percent.
const GROWTH_MAX: u64 = 20;

/// What is counted: its name, and the functions inside of which it happens.
const FIGURES: [(&str, &str); 2] = [("call", "*Site*::log_to*"), ("backend", "*Backend::pass*")];

fn main() -> ExitCode {
    exit_code(guard())
}

fn guard() -> anyhow::Result<bool> {
    let args = Args::parse(&["--child", "--dir"], &["--record"])?;
    if let Some(dir) = args.text("--dir") {
        log(Path::new(dir), args.value("--child", 0)?)?;
        return Ok(true);
    }
    let rustc = rustc()?;
    let counted = FIGURES
        .iter()
        .map(|(name, function)| Ok((*name, per_entry(function)?)))
        .collect::<anyhow::Result<Vec<(&str, u64)>>>()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt");
    if args.has("--record") {
        let lines = counted.iter().map(|(name, count)| format!("{name} {count}\n")).collect::<String>();
        std::fs::write(&path, format!("{rustc}\n{lines}")).with_context(|| path.display().to_string())?;
    }
    let record = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let of_rustc = record.lines().next().unwrap_or_default();
    let mut holds = true;
    for (name, count) in counted {
        let line = record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let before: u64 =
            line.and_then(|count| count.parse().ok()).with_context(|| format!("no `{name}` on record"))?;
        let is_over = count * 100 > before * (100 + GROWTH_MAX) && rustc == of_rustc;
        println!(
            "{name:8} {count:5} instructions an entry, {before} on record{}",
            if is_over { "  TOO MANY" } else { "" }
        );
        holds &= !is_over;
    }
    if rustc != of_rustc {
        println!("not compared: the record is of {of_rustc}, this is {rustc}");
    }
    Ok(holds)
}

fn rustc() -> anyhow::Result<String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(program).arg("--version").output().context("rustc --version")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Logs so many entries into rings that hold them all.
fn log(dir: &Path, count: u64) -> anyhow::Result<()> {
    let rings = RingOptions { ring_bytes: 16 << 20, when_full: WhenFull::Block, ..RingOptions::default() };
    let log = ours::builder(dir).rings(rings).open()?;
    let mut workload = Workload::new(0);
    for _ in 0..count {
        ours::log(&log, workload.next_message());
    }
    let stats = log.close(ours::END_WAIT)?;
    ensure!(stats.writer.entries == count, "{} of {count} entries written", stats.writer.entries);
    Ok(())
}

/// Instructions an entry inside of a function.
fn per_entry(function: &str) -> anyhow::Result<u64> {
    let [few, many] = COUNTS;
    let more = instructions(function, many)?.saturating_sub(instructions(function, few)?);
    Ok(more / (many - few))
}

fn instructions(function: &str, count: u64) -> anyhow::Result<u64> {
    let place = PathBuf::from(std::env::var_os("CARGO_TARGET_TMPDIR").unwrap_or_else(|| std::env::temp_dir().into()));
    let place = place.join(format!("logtool-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let (dir, out) = (place.join("log"), place.join("callgrind.out"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args(["--child", &count.to_string(), "--dir"])
        .arg(&dir)
        .output()
        .context("valgrind: install it")?;
    let counts = std::fs::read_to_string(&out);
    let _ = std::fs::remove_dir_all(&place);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counts = counts.context("valgrind has written no counts")?;
    let total = counts.lines().find_map(|line| line.strip_prefix("summary:").or(line.strip_prefix("totals:")));
    match total.and_then(|total| total.trim().parse().ok()) {
        Some(0) | None => bail!("no function is named {function}: it has been renamed, or inlined"),
        Some(total) => Ok(total),
    }
}
