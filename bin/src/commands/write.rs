//! `logtool write`: standard input into a log, one entry a line.
//!
//! One loop: wait for input or a signal, read, cut into lines, append, flush, echo. What was read is in the log before the
//! next read; only a line without its newline waits, for at most a second. While the log can't take more, nothing is read,
//! so that the program at the other end of the pipe waits and nothing is lost.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, Instant};

use anyhow::Context;
use logtool::control::{DropMarker, DropReason};
use logtool::format::{FLAG_MORE, FLAG_UNFINISHED};
use logtool::options::{self, KeepFree, Options, Retention};
use logtool::{ErrorKind, Writer, clock};
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, poll};

use crate::cli::WriteArgs;
use crate::escape::escape;
use crate::lines::Lines;
use crate::signals::{Signals, timeout};
use crate::size::{FreeSpace, thousands};
use crate::terminal::{Output, Status, Ui};
use crate::values::{Compression, OnFull, SyncPolicy};

/// Bytes read at a time: the second-level cache holds them and the frames made of them. Reads of 64 KiB took a third more
/// processor time, those of 160 KiB and more half as much again.
const READ_BYTES: usize = 128 << 10;

/// Bytes that a batch may hold, so that what was read goes out in one write.
const BATCH_BYTES: usize = 2 * READ_BYTES;

/// The size that the pipe is given where the system allows it: the writer at its other end waits less often.
const PIPE_BYTES: i32 = 1 << 20;

/// How long a line waits for its newline.
const UNFINISHED_WAIT: Duration = Duration::from_secs(1);

/// How often the writer looks after its segment (rolls by time, syncs, retention).
const TICK: Duration = Duration::from_secs(1);

/// How long the log is left alone after it could not be written.
const RETRY_WAIT: Duration = Duration::from_millis(200);

/// How long the end of the input waits for room to tell in the log what was dropped.
const DROP_CLOSE_WAIT: Duration = Duration::from_secs(1);

/// How often the same trouble is told.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Runs the command.
pub(crate) fn run(args: &WriteArgs, ui: &Ui) -> anyhow::Result<Status> {
    let signals = Signals::new().context("cannot watch for signals")?;
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().context("standard input")?);
    let mut lines = Lines::default();
    let writer = open(args, ui, &signals, &mut input, &mut lines)?;
    if writer_options(args).retention.is_none() {
        ui.note(&args.dir, "no --keep-... option is given: the log grows until the disk is full");
    }
    let tee = if args.tee { Some(ui.stdout().context("cannot use standard output")?) } else { None };
    let now = Instant::now();
    let pump = Pump {
        args,
        ui,
        signals,
        writer,
        lines,
        tee: tee.map(|output| Tee { output, escapes: ui.escapes_stdout(), waiting: Vec::new() }),
        waiting_since: now,
        next_tick: now + TICK,
        sync_asked: None,
        trouble: Trouble::default(),
        gives_up: false,
    };
    pump.run(input)
}

/// Opens the log. On a full disk `--on-full` holds from here on: it is waited for, or lines are dropped meanwhile; of the
/// line under way `lines` keeps what has come.
fn open(args: &WriteArgs, ui: &Ui, signals: &Signals, input: &mut File, lines: &mut Lines) -> anyhow::Result<Writer> {
    let (mut trouble, mut dropped, time_ns) = (Trouble::default(), 0, clock::now_ns());
    let mut buffer = vec![0u8; READ_BYTES];
    loop {
        let error = match Writer::open(&args.dir, writer_options(args)) {
            Ok(mut writer) => {
                if dropped > 0 {
                    let reason = DropReason::DiskFull;
                    let marker = DropMarker { count: dropped, time_ns, tseq: 0, tid: 0, reason, level: 0 };
                    writer.drop_entries(&marker)?;
                }
                return Ok(writer);
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => error,
            Err(error) => return Err(error.into()),
        };
        let lost = format!("{error}; {} lines were dropped, of which the log does not tell", thousands(dropped));
        anyhow::ensure!(!signals.is_ending(), lost);
        let outcome = match args.on_full {
            OnFull::Drop => "dropping lines",
            OnFull::RemoveOldest => "there is no older segment to remove; waiting, nothing is lost",
            OnFull::Block => "waiting for space, nothing is lost",
        };
        tell(&mut trouble, &error, outcome, args, ui);
        if args.on_full != OnFull::Drop {
            signals.wait(RETRY_WAIT);
        } else if !is_readable(input, RETRY_WAIT) {
            signals.drain();
        } else if let Some(count) = read(input, &mut buffer)? {
            anyhow::ensure!(count > 0, lost);
            lines.feed(&buffer[..count], |_, _| {
                dropped += 1;
                anyhow::Ok(())
            })?;
        }
    }
}

fn writer_options(args: &WriteArgs) -> Options {
    let retention = Retention {
        keep_segments: args.keep_segments,
        keep_bytes: args.keep_bytes.map(|size| size.0),
        keep_age: args.keep_age.map(|period| period.0),
        keep_free: args.keep_free.map(|free| match free {
            FreeSpace::Bytes(bytes) => KeepFree::Bytes(bytes),
            FreeSpace::Percent(percent) => KeepFree::Percent(percent),
        }),
    };
    let compression = match args.compress {
        Compression::None => options::Compression::None,
        Compression::Zstd { level } => options::Compression::Zstd(level),
    };
    let sync = match args.sync {
        SyncPolicy::Never => options::SyncPolicy::Never,
        SyncPolicy::Each => options::SyncPolicy::EachEntry,
        SyncPolicy::Batch => options::SyncPolicy::EachBatch,
        SyncPolicy::Every(period) => options::SyncPolicy::Interval(period),
    };
    Options::new()
        .batch_bytes(BATCH_BYTES)
        .roll_bytes(args.roll_bytes.0)
        .roll_every(Some(args.roll_every.0))
        .retention(retention)
        .makes_room(args.on_full == OnFull::RemoveOldest)
        .compression(compression)
        .sync(sync)
        .mode(args.mode.0)
}

/// The echo of what is in the log.
struct Tee {
    output: Output,
    /// The output is a terminal: what would steer it is escaped.
    escapes: bool,
    /// Appended, but not flushed yet.
    waiting: Vec<u8>,
}

/// The log could not take more: since when, and when that was told last.
#[derive(Default)]
struct Trouble {
    since: Option<Instant>,
    is_told: bool,
    told: Option<Instant>,
}

/// Standard input on its way into the log.
struct Pump<'a> {
    args: &'a WriteArgs,
    ui: &'a Ui,
    signals: Signals,
    writer: Writer,
    lines: Lines,
    tee: Option<Tee>,
    /// When the line that waits for its newline began to wait.
    waiting_since: Instant,
    next_tick: Instant,
    /// The sync that was due when it was last seen to: one that could not begin waits for the next tick.
    sync_asked: Option<Instant>,
    trouble: Trouble,
    /// A signal has asked for the end and the log still can't be written: it is not waited for any more.
    gives_up: bool,
}

impl Pump<'_> {
    fn run(mut self, mut input: File) -> anyhow::Result<Status> {
        let drain_bytes = drain_bytes(&input);
        let _ = fcntl(&input, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        let mut buffer = vec![0u8; READ_BYTES];
        let mut result = Ok(());
        while !self.signals.is_ending() {
            match self.wait_and_read(&mut input, &mut buffer) {
                Ok(Some(0)) => break,
                Ok(Some(count)) => self.take(&buffer[..count])?,
                Ok(None) => {}
                Err(error) => {
                    result = Err(error).context("cannot read standard input; the log was closed");
                    break;
                }
            }
            self.look_after(&input)?;
        }
        if self.signals.is_ending() {
            self.drain(&mut input, &mut buffer, drain_bytes)?;
        }
        self.finish()?;
        result.map(|()| Status::Sound)
    }

    /// Waits for input, a signal, or the time at which something is to be done; reads if there is input.
    fn wait_and_read(&self, input: &mut File, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let now = Instant::now();
        let mut until = self.next_tick.min(self.sync_due().unwrap_or(self.next_tick));
        if self.lines.is_waiting() {
            until = until.min(self.waiting_since + UNFINISHED_WAIT);
        }
        let (readable, woken) = {
            let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN), self.signals.poll_fd()];
            match poll(&mut fds, timeout(until.saturating_duration_since(now))) {
                Ok(_) => {}
                Err(nix::errno::Errno::EINTR) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
            let is_set = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
            (is_set(&fds[0]), is_set(&fds[1]))
        };
        if woken {
            self.signals.drain();
        }
        if !readable || self.signals.is_ending() {
            return Ok(None);
        }
        read(input, buffer)
    }

    /// Appends what was read, and flushes it.
    fn take(&mut self, chunk: &[u8]) -> anyhow::Result<()> {
        let time_ns = clock::now_ns();
        let waited = self.lines.is_waiting();
        self.with_lines(|lines, pump| lines.feed(chunk, |line, flags| pump.append(line, flags, time_ns)))?;
        if self.lines.is_waiting() && (!waited || memchr::memchr(b'\n', chunk).is_some()) {
            self.waiting_since = Instant::now();
        }
        self.flush()
    }

    fn with_lines(&mut self, act: impl FnOnce(&mut Lines, &mut Self) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        let result = act(&mut lines, self);
        self.lines = lines;
        result
    }

    fn append(&mut self, line: &[u8], flags: u8, time_ns: i64) -> anyhow::Result<()> {
        loop {
            let seq = self.writer.next_seq();
            match self.writer.line(line, flags, time_ns) {
                Ok(_) => break,
                // Taken, but not on stable storage: the flush behind the chunk sees to that.
                Err(_) if self.writer.next_seq() > seq => break,
                Err(error) => self.meet_trouble(&error)?,
            }
        }
        if let Some(tee) = &mut self.tee {
            if tee.escapes {
                tee.waiting.extend_from_slice(escape(line).as_bytes());
            } else {
                tee.waiting.extend_from_slice(line);
            }
            if flags & (FLAG_MORE | FLAG_UNFINISHED) == 0 {
                tee.waiting.push(b'\n');
            }
        }
        Ok(())
    }

    /// Hands everything to the operating system, then echoes it.
    fn flush(&mut self) -> anyhow::Result<()> {
        while let Err(error) = self.writer.flush() {
            self.meet_trouble(&error)?;
            if self.drops(&error) {
                // Its lines are given up; the marker that counts them goes out with the first line that there is room for.
                return Ok(());
            }
        }
        if let Some(since) = self.trouble.since.take()
            && std::mem::take(&mut self.trouble.is_told)
        {
            self.ui.note(&self.args.dir, &format!("writing again, after {} s", since.elapsed().as_secs()));
        }
        let Some(tee) = &mut self.tee else { return Ok(()) };
        let echoed = tee.output.write_all(&tee.waiting).and_then(|()| tee.output.flush());
        tee.waiting.clear();
        if let Err(error) = echoed {
            self.tee = None;
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.ui.raise(Status::Failed);
                self.ui.message(&format!("{error}; the echo ends, the log goes on"));
            }
        }
        Ok(())
    }

    /// Whether lines are given up rather than waited for after this error.
    fn drops(&self, error: &logtool::Error) -> bool {
        self.args.on_full == OnFull::Drop && error.kind() == ErrorKind::NoSpace
    }

    /// The log did not take something: does what `--on-full` says, or waits a little.
    fn meet_trouble(&mut self, error: &logtool::Error) -> anyhow::Result<()> {
        if self.gives_up {
            let bytes = self.writer.stats().pending_bytes + self.lines.waiting_bytes();
            let dropped = self.writer.stats().entries_dropped.total();
            let lost = match dropped {
                0 => format!("about {} bytes that were read are not in the log", thousands(bytes as u64)),
                _ => format!("{} lines were dropped, of which the log may not tell", thousands(dropped)),
            };
            anyhow::bail!("{error}; {lost}");
        }
        self.gives_up = self.signals.is_ending();
        let is_full = error.kind() == ErrorKind::NoSpace;
        match self.args.on_full {
            OnFull::Drop if is_full => {
                self.tell_trouble(error, "dropping lines, counted in the log");
                if let Some(tee) = &mut self.tee {
                    tee.waiting.clear();
                }
                if self.writer.discard_pending(DropReason::DiskFull).is_err() {
                    // The marker waits; it must not be tried for each line.
                    self.signals.wait(Duration::from_millis(1));
                }
                return Ok(());
            }
            OnFull::RemoveOldest if is_full => {
                if matches!(self.writer.remove_oldest(), Ok(true)) {
                    return Ok(());
                }
                self.tell_trouble(error, "there is no older segment left to remove; waiting, nothing is lost");
            }
            _ if is_full => self.tell_trouble(error, "waiting for space, nothing is lost"),
            _ => self.tell_trouble(error, "trying again, nothing is lost"),
        }
        self.signals.wait(RETRY_WAIT);
        Ok(())
    }

    fn tell_trouble(&mut self, error: &logtool::Error, outcome: &str) {
        tell(&mut self.trouble, error, outcome, self.args, self.ui);
    }

    /// What is due: the unfinished line, a roll that was asked for, the writer's own work.
    fn look_after(&mut self, input: &File) -> anyhow::Result<()> {
        let now = Instant::now();
        let is_over = self.lines.is_waiting() && now >= self.waiting_since + UNFINISHED_WAIT;
        // After a wait for the disk the rest may be there to be read.
        if is_over && !is_readable(input, Duration::ZERO) {
            self.give_unfinished()?;
        }
        if self.signals.takes_roll()
            && let Err(error) = self.writer.roll()
        {
            self.tell_trouble(&error, "the roll is tried again");
        }
        let sync_due = self.sync_due().filter(|due| now >= *due);
        if now >= self.next_tick || sync_due.is_some() {
            self.next_tick = now + TICK;
            self.sync_asked = sync_due.or(self.sync_asked);
            if let Err(error) = self.writer.tick(clock::now_ns()) {
                self.tell_trouble(&error, "trying again");
            }
        }
        Ok(())
    }

    fn sync_due(&self) -> Option<Instant> {
        self.writer.sync_due().filter(|due| self.sync_asked != Some(*due))
    }

    fn give_unfinished(&mut self) -> anyhow::Result<()> {
        let time_ns = clock::now_ns();
        self.with_lines(|lines, pump| lines.give_unfinished(|line, flags| pump.append(line, flags, time_ns)))?;
        self.flush()
    }

    /// After a signal: what the pipe holds, and no more than it can hold, from a program that may go on for ever.
    fn drain(&mut self, input: &mut File, buffer: &mut [u8], most: usize) -> anyhow::Result<()> {
        let mut left = most;
        while left > 0 {
            if !is_readable(input, Duration::ZERO) {
                break;
            }
            let wanted = left.min(buffer.len());
            let Ok(Some(count)) = read(input, &mut buffer[..wanted]) else { break };
            if count == 0 {
                break;
            }
            left -= count;
            self.take(&buffer[..count])?;
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.give_unfinished()?;
        self.flush()?;
        let ends = Instant::now() + DROP_CLOSE_WAIT;
        while let Err(error) = self.writer.close() {
            self.gives_up |= self.drops(&error) && Instant::now() >= ends;
            self.meet_trouble(&error)?;
        }
        let dropped = self.writer.stats().entries_dropped.total();
        if dropped > 0 {
            self.ui.finding(&self.args.dir, &format!("{} lines were dropped, as the log says", thousands(dropped)));
        }
        Ok(())
    }
}

/// Says that the log can't take more, and what becomes of it: once a minute.
fn tell(trouble: &mut Trouble, error: &logtool::Error, outcome: &str, args: &WriteArgs, ui: &Ui) {
    let now = Instant::now();
    trouble.since.get_or_insert(now);
    if trouble.told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY) {
        (trouble.told, trouble.is_told) = (Some(now), true);
        ui.note(error.path().unwrap_or(&args.dir), &format!("{}; {outcome}", error.message()));
    }
}

/// Whether there is something to read, or the end, within `time`.
fn is_readable(input: &File, time: Duration) -> bool {
    let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut fds, timeout(time)), Ok(ready) if ready > 0)
}

/// Reads once; `None` where there is nothing now.
fn read(input: &mut File, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match input.read(buffer) {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How much may still be read after a signal: what a pipe or socket holds; of a file nothing, as it stays where it is.
fn drain_bytes(input: &File) -> usize {
    let is_stream = input.metadata().is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_fifo() || kind.is_socket()
    });
    if is_stream { PIPE_BYTES as usize } else { 0 }
}
