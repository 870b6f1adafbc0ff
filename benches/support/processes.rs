//! Runs commands, feeds and drains them, and measures their time and memory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// Bytes written to a pipe at a time: what `cat` writes at a time.
const CHUNK_BYTES: usize = 128 << 10;

/// How often the memory of a running command is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Assumption: USER_HZ, which is 100 on all that we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a command's standard output is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output<'a> {
    /// `/dev/null`.
    Null,
    /// A pipe that is read as fast as it goes.
    Pipe,
    /// A new file.
    File(&'a Path),
}

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// From the start of the command to its end.
    pub(crate) seconds: f64,
    /// Processor time of all its threads, user and system.
    pub(crate) cpu_seconds: f64,
    /// The most that was resident at once, in bytes (`VmHWM`); 0 for a command that ended before the first look.
    pub(crate) rss_bytes_max: u64,
}

/// Runs `command` with the bytes of the file `input` coming through a pipe, if there is one.
///
/// # Errors
/// If it can't be run, or does not succeed.
pub(crate) fn run(mut command: Command, input: Option<&Path>, output: Output<'_>) -> anyhow::Result<Sample> {
    let source = input.map(File::open).transpose()?;
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(match output {
        Output::Null => Stdio::null(),
        Output::Pipe => Stdio::piped(),
        Output::File(path) => File::create(path)?.into(),
    });
    command.stderr(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn()?;
    let is_over = AtomicBool::new(false);
    let (pid, stdin, stdout) = (child.id(), child.stdin.take(), child.stdout.take());
    let (status, seconds, cpu_seconds, rss_bytes_max) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch_memory(pid, &is_over));
        if let (Some(mut source), Some(mut stdin)) = (source, stdin) {
            scope.spawn(move || feed(&mut source, &mut stdin));
        }
        if let Some(mut stdout) = stdout {
            scope.spawn(move || drain(&mut stdout));
        }
        let cpu_seconds = cpu_seconds_at_end(pid);
        let status = child.wait();
        let seconds = started.elapsed().as_secs_f64();
        // ORDERING: Relaxed; the flag stands for itself.
        is_over.store(true, Ordering::Relaxed);
        (status, seconds, cpu_seconds, watch.join().unwrap_or(0))
    });
    let status = status?;
    anyhow::ensure!(status.success(), "{command:?}: {status}");
    Ok(Sample { seconds, cpu_seconds, rss_bytes_max })
}

/// Waits until the process has ended, without reaping it, and asks what it took. In ticks of 10 ms.
fn cpu_seconds_at_end(pid: u32) -> f64 {
    let (pid_raw, ended) = (Pid::from_raw(pid.cast_signed()), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    while matches!(waitid(Id::Pid(pid_raw), ended), Err(Errno::EINTR)) {}
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything but ends with the last parenthesis: state is field 3; the times are 14 and 15, those of its children 16 and 17.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(14 - 3).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / TICKS_PER_SECOND
}

/// Starts `command` with a pipe as its standard input.
///
/// # Errors
/// If it can't be run.
pub(crate) fn start_fed(mut command: Command) -> anyhow::Result<(Child, ChildStdin)> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let stdin = child.stdin.take().ok_or_else(|| anyhow::anyhow!("{command:?}: no pipe"))?;
    Ok((child, stdin))
}

/// Whether a program of this name is installed.
pub(crate) fn is_installed(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

fn feed(source: &mut File, stdin: &mut ChildStdin) -> io::Result<()> {
    let mut buffer = vec![0u8; CHUNK_BYTES];
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        stdin.write_all(&buffer[..count])?;
    }
}

fn drain(output: &mut impl Read) -> io::Result<()> {
    let mut buffer = vec![0u8; CHUNK_BYTES];
    while output.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Looks at the peak of a process's resident memory until it is over. The kernel keeps the peak, so that only a rise in the
/// last moments is missed.
fn watch_memory(pid: u32, is_over: &AtomicBool) -> u64 {
    let path = format!("/proc/{pid}/status");
    let mut most = 0;
    // ORDERING: Relaxed; the flag stands for itself.
    while !is_over.load(Ordering::Relaxed) {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) << 10);
        std::thread::sleep(LOOK_EVERY);
    }
    most
}
