//! `logtool tour`: the main job on the disk at hand, each step with the command that a person would type.
//!
//! The tour believes nothing: what a step promises it checks by itself, and it fails where a promise is not kept.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use logtool::entry::EntryHead;
use logtool::options::Options;
use logtool::value::Value;
use logtool::{CallSite, Item, Level, LogReader, Writer, clock};

use crate::cli::TourArgs;
use crate::escape::escape_path;
use crate::report_text::shell_path;
use crate::size::thousands;
use crate::terminal::{Status, Ui};

/// Entries that must have returned before the child is killed, and how long that may take.
const ENTRIES_BEFORE_KILL: u64 = 100_000;
const CHILD_TIME_MAX: Duration = Duration::from_secs(60);

/// Segments are kept small, so that the tour sees rolls.
const ROLL_BYTES: u64 = 4 << 20;

/// Runs the command.
pub(crate) fn run(args: &TourArgs, ui: &Ui) -> anyhow::Result<Status> {
    match &args.dir {
        Some(dir) if args.child => be_the_child(dir),
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("{}: cannot make it", escape_path(dir)))?;
            let is_empty = std::fs::read_dir(dir).is_ok_and(|mut names| names.next().is_none());
            ensure!(is_empty, "{}: not empty: the tour wants a directory of its own", escape_path(dir));
            Tour { log: dir.join("app-log"), ui }.run()?;
            Ok(Status::Sound)
        }
        None => {
            let dir = TemporaryDir::new()?;
            Tour { log: dir.0.join("app-log"), ui }.run()?;
            Ok(Status::Sound)
        }
    }
}

/// A directory that goes away with the tour.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    fn new() -> anyhow::Result<TemporaryDir> {
        let dir = std::env::temp_dir().join(format!("logtool-tour-{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| format!("{}: cannot make it", escape_path(&dir)))?;
        Ok(TemporaryDir(dir))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes through the library for ever; says after each flush, on standard output, which number it returned.
fn be_the_child(dir: &Path) -> anyhow::Result<Status> {
    let mut writer = Writer::open(dir, Options::new().roll_bytes(ROLL_BYTES))?;
    writer.name_thread(1, "worker-1");
    let site = writer.define(&CallSite {
        level: Level::Info,
        category: "net.http".to_owned(),
        file: "src/shop.rs".to_owned(),
        line: 42,
        template: "order {id} of {user} took {ms:.1} ms".to_owned(),
        fields: ["id", "user", "ms"].map(str::to_owned).to_vec(),
    });
    let mut stdout = io::stdout().lock();
    for id in 0u64.. {
        let head = EntryHead { time_ns: clock::now_ns(), tseq: 0, tid: 1, site };
        let user = format!("user-{:04}", id * 7919 % 10_000);
        writer.entry(&head, &[Value::U64(id), Value::Str(&user), Value::F64((id % 977) as f64 / 10.0)])?;
        if id % 10 == 9 {
            let seq = writer.flush()?;
            stdout.write_all(&seq.to_le_bytes())?;
            stdout.flush()?;
        }
    }
    Ok(Status::Sound)
}

/// The tour over one log.
struct Tour<'a> {
    log: PathBuf,
    ui: &'a Ui,
}

impl Tour<'_> {
    fn run(&self) -> anyhow::Result<()> {
        self.say("A program writes a log through the library, and is killed by SIGKILL in the middle.")?;
        let returned = self.kill_a_writer()?;
        self.say(&format!("{} calls had returned. Is each of those entries there?", thousands(returned)))?;
        self.show(&["verify"], None)?;
        let found = self.count_entries()?;
        ensure!(found >= returned, "{} entries had returned, {} are there", thousands(returned), thousands(found));
        self.say(&format!(
            "They are: {} entries, the {} that had returned among them.",
            thousands(found),
            thousands(returned)
        ))?;

        self.say(
            "The kill may have torn the entry that was being written. `repair` cuts that off, and saves it first.",
        )?;
        self.show(&["repair"], Some(0))?;
        self.show(&["verify", "-q"], Some(0))?;

        self.say("Now one byte in the middle is changed, as a bad disk or cable would.")?;
        let (segment, offset) = self.change_a_byte()?;
        self.say(&format!("(byte {} of {segment})", thousands(offset)))?;
        self.show(&["verify"], Some(1))?;
        ensure!(self.count_entries()? == found - 1, "one changed byte must cost exactly one entry");

        self.say("One entry is lost, and the log says which. All others can be read:")?;
        self.show(&["tail", "-n", "3"], None)?;
        self.say("`repair` declares the loss in the log itself: the alarm stops, the fact stays.")?;
        self.show(&["repair"], Some(0))?;
        self.show(&["verify"], Some(0))?;

        self.say("As text, the same on every machine:")?;
        self.show(&["decompress", "-o", &self.log.with_extension("txt").to_string_lossy()], Some(0))?;
        let lines = count_lines(&self.log.with_extension("txt"))?;
        ensure!(lines == found - 1, "{} lines came out of {} entries", thousands(lines), thousands(found - 1));
        self.show(&["stat"], Some(0))?;
        self.say(&format!("Done: {} lines of text, nothing silently lost.", thousands(lines)))
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        let mut output = self.ui.stdout()?;
        writeln!(output, "\n{text}")?;
        Ok(output.flush()?)
    }

    /// Runs `logtool` with `args` and the log's directory, showing the command and what it says. `code`: the exit code
    /// that it must have.
    fn show(&self, args: &[&str], code: Option<i32>) -> anyhow::Result<()> {
        let mut output = self.ui.stdout()?;
        writeln!(output, "$ logtool {} {}", args.join(" "), shell_path(&self.log))?;
        output.flush()?;
        let status = Command::new(std::env::current_exe()?).args(args).arg(&self.log).status()?;
        if let Some(code) = code {
            ensure!(status.code() == Some(code), "`logtool {}` ended with {status}, not with {code}", args.join(" "));
        }
        Ok(())
    }

    /// Starts the child, lets it write, kills it. Returns the last number that it said had returned.
    fn kill_a_writer(&self) -> anyhow::Result<u64> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["tour", "--child"])
            .arg(&self.log)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a child")?;
        let Some(mut says) = child.stdout.take() else { bail!("the child has no output") };
        let (started, mut returned, mut number) = (Instant::now(), 0, [0u8; 8]);
        let mut result = Ok(());
        while returned < ENTRIES_BEFORE_KILL && started.elapsed() < CHILD_TIME_MAX && result.is_ok() {
            result = says.read_exact(&mut number);
            returned = if result.is_ok() { u64::from_le_bytes(number) } else { returned };
        }
        child.kill()?;
        // What it said before the kill is still in the pipe.
        while says.read_exact(&mut number).is_ok() {
            returned = u64::from_le_bytes(number);
        }
        let status = child.wait()?;
        result.with_context(|| format!("the child ended by itself: {status}"))?;
        Ok(returned)
    }

    fn count_entries(&self) -> anyhow::Result<u64> {
        let (mut reader, mut count) = (LogReader::open(&self.log)?, 0);
        while let Some(item) = reader.next_item()? {
            count += u64::from(matches!(item, Item::Entry(_)));
        }
        Ok(count)
    }

    /// Changes a byte within an entry of the second segment. Returns the segment and the byte's offset.
    fn change_a_byte(&self) -> anyhow::Result<(String, u64)> {
        let mut reader = LogReader::open(&self.log)?;
        let Some(segment) = reader.snapshot().segments.get(1).map(|segment| segment.name.clone()) else {
            bail!("the log has no second segment");
        };
        loop {
            ensure!(reader.next_item()?.is_some(), "no entry in {segment}");
            let offset = reader.walk().map_or(0, |walk| walk.offset());
            if reader.segment_name() == Some(&segment) && offset > ROLL_BYTES / 2 {
                // The walk stands behind an entry; its last payload byte is before the padding.
                let place = offset - 12;
                let file = OpenOptions::new().read(true).write(true).open(self.log.join(&segment))?;
                let mut byte = [0u8];
                file.read_exact_at(&mut byte, place)?;
                file.write_all_at(&[byte[0] ^ 1], place)?;
                return Ok((segment, place));
            }
        }
    }
}

fn count_lines(path: &Path) -> anyhow::Result<u64> {
    let (mut file, mut buffer, mut lines) = (File::open(path)?, vec![0u8; 64 << 10], 0);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(lines);
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
    }
}
