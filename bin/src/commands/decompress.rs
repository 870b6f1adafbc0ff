//! `logtool decompress`: gives back what was written, byte for byte.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use logtool::plain_copy::{Met, plain_copy};
use logtool::render::{EntryLines, UtcLines};
use logtool::storage::Storage;
use logtool::storage_os::OsStorage;
use logtool::{Entry, Error, Item, LogReader};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::behind::Behind;
use crate::cli::DecompressArgs;
use crate::escape::{escape, escape_path};
use crate::logs::{self, Log};
use crate::terminal::{Status, Ui};
use crate::time;
use crate::told::{finding_text, is_told, note_text};

/// Bytes collected before they are written: large writes are what makes it fast, the second-level cache limits them.
const BATCH_BYTES: usize = 256 << 10;

/// Runs the command.
pub(crate) fn run(args: &DecompressArgs, ui: &Ui) -> anyhow::Result<Status> {
    let logs = logs::find(&args.logs, ui)?;
    if args.frames {
        let to = args.output.as_deref().context("--frames needs -o NEWDIR")?;
        return write_frames(&logs, to, ui);
    }
    let mut text = Text { escapes: args.output.is_none() && ui.escapes_stdout(), ..Text::default() };
    match &args.output {
        None if ui.escapes_stdout() => {
            let mut output = ui.stdout()?;
            write_all(&logs, &mut text, &mut output, ui)?;
            output.flush()?;
        }
        None => {
            let mut output = Behind::new(ui.stdout()?)?;
            write_all(&logs, &mut text, &mut output, ui)?;
            output.flush()?;
        }
        Some(path) => {
            let mut target = Target::create(path, args.force, &logs)?;
            let written = write_all(&logs, &mut text, &mut target, ui);
            written.and_then(|()| target.finish()).with_context(|| escape_path(path).into_owned())?;
        }
    }
    Ok(Status::Sound)
}

/// Writes everything that can be read of all logs, one after another. What is wrong is told as it is found.
fn write_all(logs: &[Log], text: &mut Text, output: &mut impl Write, ui: &Ui) -> anyhow::Result<()> {
    let zone = time::zone(false, ui);
    for log in logs {
        let mut reader = match LogReader::open(&log.path) {
            Ok(reader) => reader,
            Err(error) => {
                ui.failed(&error.into());
                continue;
            }
        };
        reader.decode_ahead();
        loop {
            match reader.next_item() {
                Ok(Some(Item::Entry(entry))) => {
                    text.push(&entry);
                    if text.buffer.len() >= BATCH_BYTES {
                        text.write_to(output)?;
                    }
                }
                Ok(Some(Item::Finding(finding))) => {
                    ui.finding(&log.path, &finding_text(&finding, &zone));
                }
                Ok(Some(Item::Note(note))) if is_told(&note, false) => ui.note(&log.path, &note_text(&note)),
                Ok(Some(Item::Note(_))) => {}
                Ok(None) => break,
                Err(error) => ui.failed(&error.into()),
            }
        }
        text.end_log();
    }
    text.write_to(output)?;
    Ok(())
}

/// Writes the segments of a log uncompressed into the new directory `to`.
fn write_frames(logs: &[Log], to: &Path, ui: &Ui) -> anyhow::Result<Status> {
    let shown = escape_path(to);
    let log = match logs {
        [] => return Ok(Status::Sound),
        [log] => log,
        _ => anyhow::bail!("{shown}: one directory holds one log; give --frames a single PATH"),
    };
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    refuse_input(to, dir, logs)?;
    let snapshot = logtool::snapshot_of(&log.path)?;
    match fs::create_dir(to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_empty = fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
            anyhow::ensure!(is_empty, "{shown}: exists and is not empty; give -o a new directory");
        }
        Err(error) => return Err(Error::io("cannot create", error).at(to).into()),
    }
    let zone = time::zone(false, ui);
    let storage: Arc<dyn Storage> = Arc::new(OsStorage::new(to, 0o640));
    plain_copy(snapshot, &storage, &mut |met| match met {
        Met::Item(Item::Finding(finding)) => ui.finding(&log.path, &finding_text(finding, &zone)),
        Met::Item(Item::Note(note)) if is_told(note, false) => ui.note(&log.path, &note_text(note)),
        Met::Item(_) => {}
        Met::Failed(error) => ui.failed(&error.into()),
    })?;
    Ok(Status::Sound)
}

/// Entries as the text that was written.
#[derive(Default)]
struct Text {
    buffer: Vec<u8>,
    /// The output is a terminal: what would steer it is escaped.
    escapes: bool,
    /// Of structured entries.
    lines: EntryLines<UtcLines>,
    /// The next number of a line that was cut and goes on there; 0 if none is.
    cut_goes_on_at: u64,
}

impl Text {
    #[inline]
    fn push(&mut self, entry: &Entry<'_>) {
        if self.cut_goes_on_at != 0 {
            self.end_cut(entry);
        }
        if entry.head.site != 0 {
            self.lines.push(entry, &mut self.buffer);
            return;
        }
        self.buffer.extend_from_slice(entry.body);
        if entry.ends_line() {
            self.buffer.push(b'\n');
        } else if entry.has_more() {
            self.cut_goes_on_at = entry.seq + 1;
        }
    }

    /// A line that was cut goes on, or is ended where its rest is missing, so that it does not run into the next one.
    #[cold]
    fn end_cut(&mut self, entry: &Entry<'_>) {
        if entry.seq != self.cut_goes_on_at || !entry.is_continued() {
            self.buffer.push(b'\n');
        }
        self.cut_goes_on_at = 0;
    }

    fn end_log(&mut self) {
        if self.cut_goes_on_at != 0 {
            self.buffer.push(b'\n');
        }
        self.cut_goes_on_at = 0;
        self.lines.forget_parts();
    }

    fn write_to(&mut self, output: &mut impl Write) -> io::Result<()> {
        let result = if self.escapes {
            self.buffer.split_inclusive(|&byte| byte == b'\n').try_for_each(|line| {
                let text = line.strip_suffix(b"\n");
                output.write_all(escape(text.unwrap_or(line)).as_bytes())?;
                output.write_all(if text.is_some() { b"\n" } else { b"" })
            })
        } else {
            output.write_all(&self.buffer)
        };
        self.buffer.clear();
        result
    }
}

/// A file that appears under its name once it is whole.
struct Target {
    file: File,
    path: PathBuf,
    /// Where it is written.
    beside: PathBuf,
    is_finished: bool,
}

impl Target {
    /// Begins the file at `path`, which must exist only if `force`, and be no part of what is read.
    fn create(path: &Path, force: bool, logs: &[Log]) -> anyhow::Result<Target> {
        let shown = escape_path(path);
        let name = path.file_name().with_context(|| format!("{shown}: names no file; give -o the name of a file"))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        refuse_input(path, dir, logs)?;
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => anyhow::bail!("{shown}: is a directory; give -o the name of a file"),
            Ok(found) if !found.is_file() => anyhow::bail!("{shown}: is no regular file; write to it with >{shown}"),
            Ok(_) if !force => anyhow::bail!("{shown}: exists; replace it with -f, or give another name"),
            _ => {}
        }
        remove_abandoned_parts(dir, name);
        let beside = dir.join(part_name(name, std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&beside);
        let file = file.map_err(|error| Error::io("cannot create", error).at(&beside))?;
        // Says that it is at work, also to whoever cannot see this process. Where files have no locks the pid has to do.
        let _ = file.try_lock();
        Ok(Target { file, path: path.to_owned(), beside, is_finished: false })
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if let Ok(found) = fs::metadata(&self.path) {
            // What it replaces had its permissions for a reason.
            self.file.set_permissions(found.permissions())?;
        }
        self.file.sync_all()?;
        fs::rename(&self.beside, &self.path)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_finished {
            // It is ours alone; if it cannot be removed its name tells what it is.
            let _ = fs::remove_file(&self.beside);
        }
    }
}

/// The name under which the process `pid` writes the file `name`.
fn part_name(name: &OsStr, pid: u32) -> OsString {
    let mut part = OsString::from(".");
    part.push(name);
    part.push(format!(".{pid}.part"));
    part
}

/// Removes what killed runs have left beside the file `name`: nobody else knows what it is. What cannot be removed stays.
fn remove_abandoned_parts(dir: &Path, name: &OsStr) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let pid = found.as_encoded_bytes().rsplit(|&byte| byte == b'.').nth(1);
        let pid = pid.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
        let is_abandoned = pid.is_some_and(|pid| found == part_name(name, pid) && !is_other_process(pid))
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && File::open(entry.path()).is_ok_and(|part| part.try_lock().is_ok());
        if is_abandoned {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a process other than this one has the number `pid`.
fn is_other_process(pid: u32) -> bool {
    let Ok(number) = i32::try_from(pid) else { return false };
    pid != std::process::id() && kill(Pid::from_raw(number), None) != Err(Errno::ESRCH)
}

/// Refuses an output that is a file which is read, or lies in a log that is read.
fn refuse_input(path: &Path, dir: &Path, logs: &[Log]) -> anyhow::Result<()> {
    let id = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let (output, mut above) = (id(path), fs::canonicalize(dir).ok());
    for log in logs {
        let mut inputs = vec![log.path.clone()];
        if let Ok(entries) = fs::read_dir(&log.path) {
            inputs.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())));
        }
        let is_input = |input: &PathBuf| output.is_some() && id(input) == output;
        anyhow::ensure!(
            !inputs.iter().any(is_input),
            "{}: is part of what is read; give -o another name",
            escape_path(path)
        );
    }
    while let Some(dir) = above {
        let is_log = |log: &Log| log.path.is_dir() && id(&log.path) == id(&dir);
        anyhow::ensure!(
            !logs.iter().any(is_log),
            "{}: lies in a log that is read; give -o a name outside of it",
            escape_path(path)
        );
        above = dir.parent().map(Path::to_owned);
    }
    Ok(())
}
