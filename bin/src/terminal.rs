//! What a command has to do with the outside: standard output and error, colour, what has gone wrong so far.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::ValueEnum;
use indicatif::ProgressBar;
use nix::fcntl::{FcntlArg, fcntl};

use crate::classify;
use crate::escape::{escape, escape_lines, escape_path};
use crate::progress::Progress;

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    Auto,
    /// In any case
    Always,
    /// In no case
    Never,
}

/// The outcome of a command; the exit code is that of the worst thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// Done, nothing wrong: exit code 0.
    Sound,
    /// Done, and something is wrong with the log: exit code 1.
    Findings,
    /// Could not do its job, or not all of it: exit code 2.
    Failed,
}

impl Status {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Sound => 0,
            Self::Findings => 1,
            Self::Failed => 2,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}

/// Standard output and error as a command sees them, and the worst status so far. Shared by all threads of a command.
#[derive(Debug)]
pub(crate) struct Ui {
    stdout_is_terminal: bool,
    stdout_has_color: bool,
    stderr_has_color: bool,
    /// The code of the worst [`Status`] so far.
    worst: AtomicU8,
    /// The bar on the screen, which must step aside for messages.
    bar: Mutex<Option<ProgressBar>>,
}

impl Ui {
    /// Looks at both streams and the environment.
    pub(crate) fn new(color: ColorWhen) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let plain = set("NO_COLOR") || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let stdout_is_terminal = io::stdout().is_terminal();
        Self {
            stdout_is_terminal,
            stdout_has_color: has_color(color, plain, stdout_is_terminal),
            stderr_has_color: has_color(color, plain, io::stderr().is_terminal()),
            worst: AtomicU8::new(Status::Sound.code()),
            bar: Mutex::new(None),
        }
    }

    /// True where standard output is a terminal: entries must then be escaped.
    pub(crate) fn escapes_stdout(&self) -> bool {
        self.stdout_is_terminal
    }

    /// True where standard output may be coloured.
    pub(crate) fn colors_stdout(&self) -> bool {
        self.stdout_has_color
    }

    /// Standard output, buffered: flushed at each newline on a terminal, at 64 KiB otherwise.
    pub(crate) fn stdout(&self) -> io::Result<Output> {
        Output::new(self.stdout_is_terminal)
    }

    /// Remembers that things are at least as bad as `status`.
    pub(crate) fn raise(&self, status: Status) {
        // ORDERING: Relaxed; the value stands for itself, and `status` is called after the threads were joined.
        self.worst.fetch_max(status.code(), Ordering::Relaxed);
    }

    /// The worst status so far.
    pub(crate) fn status(&self) -> Status {
        // ORDERING: Relaxed; see `raise`.
        match self.worst.load(Ordering::Relaxed) {
            0 => Status::Sound,
            1 => Status::Findings,
            _ => Status::Failed,
        }
    }

    /// Says `logtool: text` on standard error, escaped and on one line.
    pub(crate) fn message(&self, text: &str) {
        let text = escape(text.as_bytes());
        let line = if self.stderr_has_color {
            format!("\x1b[1mlogtool:\x1b[0m {text}\n")
        } else {
            format!("logtool: {text}\n")
        };
        // Where standard error is gone too there is nobody left to tell; the exit code still says it.
        let write = || drop(io::stderr().write_all(line.as_bytes()));
        let bar = self.bar.lock().ok().and_then(|bar| bar.clone());
        match bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Says `logtool: PATH: text` on standard error: a word to the user that changes no exit code.
    pub(crate) fn note(&self, path: &Path, text: &str) {
        self.message(&format!("{}: {text}", escape_path(path)));
    }

    /// As [`Ui::note`], for a fault in a log: the exit code will be at least 1.
    pub(crate) fn finding(&self, path: &Path, text: &str) {
        self.raise(Status::Findings);
        self.note(path, text);
    }

    /// As [`Ui::note`], for something that could not be done while the rest goes on: the exit code will be 2.
    pub(crate) fn failure(&self, path: &Path, text: &str) {
        self.raise(Status::Failed);
        self.note(path, text);
    }

    /// As [`Ui::failure`], for an error that has come up.
    pub(crate) fn failed(&self, error: &anyhow::Error) {
        self.raise(Status::Failed);
        self.message(&describe(error));
    }

    /// A progress bar for work on `total_bytes`; it shows only on a terminal and after a second. Not for work whose
    /// output goes to the same terminal.
    pub(crate) fn progress(&self, what: &str, total_bytes: u64) -> Progress<'_> {
        Progress::new(self, what, total_bytes)
    }

    /// Makes messages keep clear of this bar, or of none.
    pub(crate) fn set_bar(&self, bar: Option<ProgressBar>) {
        if let Ok(mut current) = self.bar.lock() {
            *current = bar;
        }
    }
}

fn has_color(color: ColorWhen, plain: bool, is_terminal: bool) -> bool {
    match color {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => is_terminal && !plain,
    }
}

/// `PATH: what and what to do` of an error with all its context. Of a path that holds no log it says what it holds.
fn describe(error: &anyhow::Error) -> String {
    let mut parts = Vec::new();
    for cause in error.chain() {
        let Some(error) = cause.downcast_ref::<logtool::Error>() else {
            parts.push(cause.to_string());
            continue;
        };
        let foreign = match (error.kind(), error.path()) {
            (logtool::ErrorKind::NotALog, Some(path)) => classify::what_is(path).ok(),
            _ => None,
        };
        parts.extend(error.path().map(|path| escape_path(path).into_owned()));
        parts.push(foreign.unwrap_or_else(|| error.message()));
        // Its message holds the words of its source.
        break;
    }
    parts.join(": ")
}

/// Shows what clap has to say. Help and version go to standard output and are success; the rest is misuse, exit code 2.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Status::Failed.into(),
            _ => Status::Sound.into(),
        };
    }
    // An argument may hold anything, so clap's own coloured text is not for the terminal.
    let text = error.render().to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        drop(io::stderr().write_all(text.as_bytes()));
        return Status::Failed.into();
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = escape_lines(text.trim_end());
    // Nobody left to tell if this fails; the exit code still says it.
    drop(writeln!(io::stderr(), "logtool: {text}"));
    Status::Failed.into()
}

/// True if the error comes from writing to a pipe that nobody reads any more.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe))
}

/// Standard output with a buffer of its own. What is left in it is written on drop; use `flush` to learn of errors.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    buffer: Vec<u8>,
    flush_lines: bool,
}

/// Size that a pipe on standard output is given.
const STDOUT_PIPE_BYTES: i32 = 1 << 20;

/// Bytes collected before a write: a pipe's capacity.
const OUTPUT_BUFFER_BYTES: usize = 64 << 10;

impl Output {
    fn new(flush_lines: bool) -> io::Result<Self> {
        // A duplicate of the descriptor: std's own Stdout would look for a newline in everything.
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        // A larger pipe, where it is one and the system allows it: fewer changes between the two processes.
        let _ = fcntl(&file, FcntlArg::F_SETPIPE_SZ(STDOUT_PIPE_BYTES));
        Ok(Self::over(file, flush_lines))
    }

    fn over(file: File, flush_lines: bool) -> Self {
        Self { file, buffer: Vec::with_capacity(OUTPUT_BUFFER_BYTES), flush_lines }
    }

    fn write_through(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => error,
            kind => io::Error::new(kind, format!("standard output: {error}")),
        })
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.write_through(&buffer);
        // Also after an error: a second try could only repeat half of it.
        buffer.clear();
        self.buffer = buffer;
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > OUTPUT_BUFFER_BYTES {
            self.write_buffer()?;
        }
        if bytes.len() >= OUTPUT_BUFFER_BYTES {
            self.write_through(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
            if self.flush_lines && bytes.contains(&b'\n') {
                self.write_buffer()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_buffer()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Reached with bytes left only where an error is on its way already.
        drop(self.write_buffer());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_the_flag_then_the_environment_then_the_terminal() {
        assert!(has_color(ColorWhen::Always, true, false));
        assert!(!has_color(ColorWhen::Never, false, true));
        assert!(has_color(ColorWhen::Auto, false, true));
        assert!(!has_color(ColorWhen::Auto, true, true));
        assert!(!has_color(ColorWhen::Auto, false, false));
    }

    #[test]
    fn the_worst_status_stays() {
        let ui = Ui::new(ColorWhen::Never);
        assert_eq!(ui.status(), Status::Sound);
        ui.raise(Status::Failed);
        ui.raise(Status::Findings);
        assert_eq!(ui.status(), Status::Failed);
    }

    #[test]
    fn errors_say_path_what_and_what_to_do_each_once() {
        let io = io::Error::from(ErrorKind::PermissionDenied);
        let error = logtool::Error::io("cannot read", io).at("a\nb/\x1b[2J");
        let error = anyhow::Error::from(error).context("while merging");
        assert_eq!(describe(&error), "while merging: a\\nb/\\x1b[2J: cannot read: permission denied");
        let error = anyhow::Error::from(io::Error::other("wire")).context("outer");
        assert_eq!(describe(&error), "outer: wire");
    }

    #[test]
    fn of_a_file_that_is_no_log_errors_say_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("syslog.1.gz");
        std::fs::write(&path, b"\x1f\x8b\x08").unwrap();
        let error = logtool::Error::new(logtool::ErrorKind::NotALog, "no log").at(&path);
        let text = describe(&error.into());
        assert!(text.ends_with("syslog.1.gz: is gzip, no logtool log; read it with zcat"), "{text}");
    }

    #[test]
    fn output_is_written_in_large_pieces_or_by_line_and_at_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let written = || std::fs::read(file.path()).unwrap().len();
        let mut output = Output::over(file.reopen().unwrap(), false);
        output.write_all(b"one\n").unwrap();
        assert_eq!(written(), 0);
        output.write_all(&[b'x'; OUTPUT_BUFFER_BYTES - 4]).unwrap();
        assert_eq!(written(), 0);
        output.write_all(b"y").unwrap();
        assert_eq!(written(), OUTPUT_BUFFER_BYTES);
        output.write_all(&[b'z'; 2 * OUTPUT_BUFFER_BYTES]).unwrap();
        assert_eq!(written(), 3 * OUTPUT_BUFFER_BYTES + 1);
        output.write_all(b"end").unwrap();
        drop(output);
        assert_eq!(written(), 3 * OUTPUT_BUFFER_BYTES + 4);

        let file = tempfile::NamedTempFile::new().unwrap();
        let mut output = Output::over(file.reopen().unwrap(), true);
        output.write_all(b"no line yet").unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"");
        output.write_all(b", now\n").unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"no line yet, now\n");
    }

    #[test]
    fn a_full_disk_under_the_output_is_named_and_a_closed_pipe_kept_apart() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut output = Output::over(full, false);
        output.write_all(b"x").unwrap();
        let error = output.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("standard output: "), "{error}");
        // Dropped with nothing left: what failed is not tried again.
        assert!(output.buffer.is_empty());

        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut output = Output::over(File::from(std::os::fd::OwnedFd::from(writer)), false);
        output.write_all(b"x").unwrap();
        assert!(is_closed_pipe(&output.flush().unwrap_err().into()));
    }

    #[test]
    fn a_closed_pipe_is_found_behind_any_context() {
        let pipe = anyhow::Error::from(io::Error::from(ErrorKind::BrokenPipe)).context("cat");
        assert!(is_closed_pipe(&pipe));
        let full = anyhow::Error::from(io::Error::from(ErrorKind::StorageFull)).context("cat");
        assert!(!is_closed_pipe(&full));
    }
}
