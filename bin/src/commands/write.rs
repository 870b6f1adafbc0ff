//! `logtool write`: standard input into a log, one entry a line.
//!
//! One loop: wait for input or a signal, read, cut into lines, append, flush, echo. What was read is in the log before the
//! next read; only a line without its newline waits, for at most a second. While the log can't take more, nothing is read,
//! so that the program at the other end of the pipe waits and nothing is lost.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use logtool::control::DropReason;
use logtool::format::{FLAG_MORE, FLAG_UNFINISHED};
use logtool::options::{self, KeepFree, Options, Retention};
use logtool::{ErrorKind, Writer, clock};
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::cli::WriteArgs;
use crate::escape::escape;
use crate::lines::Lines;
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
    let writer = Writer::open(&args.dir, writer_options(args))?;
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
        lines: Lines::default(),
        tee: tee.map(|output| Tee { output, escapes: ui.escapes_stdout(), waiting: Vec::new() }),
        waiting_since: now,
        next_tick: now + TICK,
        sync_asked: None,
        trouble: None,
        gives_up: false,
    };
    pump.run()
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
        .compression(compression)
        .sync(sync)
        .mode(args.mode.0)
}

/// The signals that the command listens to, and a pipe that wakes `poll` when one comes.
struct Signals {
    ends: Arc<AtomicBool>,
    rolls: Arc<AtomicBool>,
    wake: UnixStream,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        let (wake, sender) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (ends, rolls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [(SIGTERM, &ends), (SIGINT, &ends), (SIGHUP, &rolls)] {
            // The flag first: whoever is woken must find it set.
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        // A reached file size limit is an error of the write, not the end of the process.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(Signals { ends, rolls, wake })
    }

    fn is_ending(&self) -> bool {
        // ORDERING: Relaxed; the flag stands for itself.
        self.ends.load(Ordering::Relaxed)
    }

    fn takes_roll(&self) -> bool {
        // ORDERING: Relaxed; the flag stands for itself.
        self.rolls.swap(false, Ordering::Relaxed)
    }

    /// Empties the pipe, so that it wakes for the next signal only.
    fn drain(&self) {
        let mut bytes = [0u8; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(count) if count > 0) {}
    }

    /// Waits for a signal, at most `time`.
    fn wait(&self, time: Duration) {
        let mut fds = [PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, timeout(time));
        self.drain();
    }
}

fn timeout(time: Duration) -> PollTimeout {
    // Rounded up, so that the time has passed when the wait ends.
    PollTimeout::try_from(time.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
}

/// The echo of what is in the log.
struct Tee {
    output: Output,
    /// The output is a terminal: what would steer it is escaped.
    escapes: bool,
    /// Appended, but not flushed yet.
    waiting: Vec<u8>,
}

/// Why the log could not take more, and since when.
struct Trouble {
    since: Instant,
    told: Instant,
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
    trouble: Option<Trouble>,
    /// A signal has asked for the end and the log still can't be written: it is not waited for any more.
    gives_up: bool,
}

impl Pump<'_> {
    fn run(mut self) -> anyhow::Result<Status> {
        let stdin = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        let mut input = File::from(stdin);
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
            self.look_after()?;
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
            let mut fds = [
                PollFd::new(input.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.wake.as_fd(), PollFlags::POLLIN),
            ];
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
        if let Some(trouble) = self.trouble.take() {
            let text = format!("writing again, after {} s", trouble.since.elapsed().as_secs());
            self.ui.note(&self.args.dir, &text);
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
            let dropped = self.writer.stats().entries_dropped;
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
        let now = Instant::now();
        let trouble = self.trouble.get_or_insert(Trouble { since: now, told: now - TELL_EVERY });
        if now.duration_since(trouble.told) >= TELL_EVERY {
            trouble.told = now;
            self.ui.note(error.path().unwrap_or(&self.args.dir), &format!("{}; {outcome}", error.message()));
        }
    }

    /// What is due: the unfinished line, a roll that was asked for, the writer's own work.
    fn look_after(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        if self.lines.is_waiting() && now >= self.waiting_since + UNFINISHED_WAIT {
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
            let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
            if !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(ready) if ready > 0) {
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
        let dropped = self.writer.stats().entries_dropped;
        if dropped > 0 {
            self.ui.finding(&self.args.dir, &format!("{} lines were dropped, as the log says", thousands(dropped)));
        }
        Ok(())
    }
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
