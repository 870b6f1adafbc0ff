//! What the integration tests stand on: temporary directories, a runner for the command, tools that damage bytes.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The directory of the workspace: sources, man pages, completions.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// A directory of one test, removed at its end.
pub(crate) fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("logtool-test-").tempdir().unwrap()
}

/// `logtool` with an environment in which its output is the same everywhere: UTC, no colour.
pub(crate) fn logtool() -> Run {
    Run::new(env!("CARGO_BIN_EXE_logtool")).env("TZ", "UTC0").env("NO_COLOR", "1")
}

/// `logtool` with a terminal for its three streams, by script(1); what it says on either comes out as standard output,
/// with CR LF at the ends of lines.
pub(crate) fn on_terminal(args: &[&str]) -> Run {
    on_terminal_after("exec ", args)
}

/// As [`on_terminal`], with shell code before the command: its input, or what the terminal is to be.
pub(crate) fn on_terminal_after(shell: &str, args: &[&str]) -> Run {
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{}'", arg.replace('\'', "'\\''"))).collect();
    let line = format!("{shell}'{}' {}", env!("CARGO_BIN_EXE_logtool"), quoted.join(" "));
    Run::new("script").args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("TZ", "UTC0")
}

/// Sends a signal to a running child.
pub(crate) fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// A command to run to its end; also for other programs than ours.
pub(crate) struct Run {
    command: Command,
    stdin: Vec<u8>,
    timeout: Duration,
}

impl Run {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(program), stdin: Vec::new(), timeout: Duration::from_secs(60) }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn current_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// What the command finds on its standard input; nothing unless set.
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// A command that takes longer is killed and the test fails; 60 s unless set.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Starts the command with pipes on all three streams and leaves it running, for tests that talk to it.
    pub(crate) fn spawn(mut self) -> Child {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs the command to its end.
    pub(crate) fn run(self) -> Outcome {
        let (timeout, input) = (self.timeout, self.stdin.clone());
        let shown = format!("{:?}", self.command);
        let mut child = self.spawn();
        let mut stdin = child.stdin.take().unwrap();
        // A command may end without having read it all.
        let feeder = thread::spawn(move || drop(stdin.write_all(&input)));
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        let status = wait(&mut child, timeout).unwrap_or_else(|| {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{shown} did not end within {timeout:?}");
        });
        feeder.join().unwrap();
        Outcome {
            stdout: stdout.join().unwrap(),
            stderr: String::from_utf8_lossy(&stderr.join().unwrap()).into_owned(),
            code: status.code(),
            signal: status.signal(),
            shown,
        }
    }
}

/// Waits for the end of a child, `None` if it takes longer.
pub(crate) fn wait(child: &mut Child, timeout: Duration) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if start.elapsed() > timeout {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// The exit code, `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    shown: String,
}

impl Outcome {
    /// Fails, with all that the command said, unless it ended with this code.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "exit code of {}\nsignal: {:?}\nstdout: {}\nstderr: {}",
            self.shown,
            self.signal,
            self.text(),
            self.stderr
        );
        self
    }

    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Overwrites bytes of a file at an offset.
pub(crate) fn set_bytes(path: &Path, offset: usize, bytes: &[u8]) {
    let mut content = fs::read(path).unwrap();
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
    fs::write(path, content).unwrap();
}

/// Flips one bit of a file; bit 0 is the lowest of the first byte.
pub(crate) fn flip_bit(path: &Path, bit: usize) {
    let mut content = fs::read(path).unwrap();
    content[bit / 8] ^= 1 << (bit % 8);
    fs::write(path, content).unwrap();
}

/// Cuts a file to its first `len` bytes.
pub(crate) fn cut(path: &Path, len: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    assert!(len <= file.metadata().unwrap().len(), "cut makes nothing longer");
    file.set_len(len).unwrap();
}

/// Holds a generated file against the committed one; with UPDATE set in the environment it replaces that instead.
#[track_caller]
pub(crate) fn assert_current(committed: &Path, generated: &[u8]) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(committed, generated).unwrap();
        return;
    }
    let found = fs::read(committed).unwrap_or_default();
    assert!(
        found == generated,
        "{} is not current: run `UPDATE=1 cargo test` and commit what changed",
        committed.display()
    );
}

#[test]
fn byte_tools_change_what_they_say_and_nothing_else() {
    let dir = temp_dir();
    let path = dir.path().join("bytes");
    fs::write(&path, b"0123456789").unwrap();
    set_bytes(&path, 3, b"ab");
    assert_eq!(fs::read(&path).unwrap(), b"012ab56789");
    flip_bit(&path, 8 * 9);
    assert_eq!(fs::read(&path).unwrap(), b"012ab56788");
    cut(&path, 4);
    assert_eq!(fs::read(&path).unwrap(), b"012a");
}

#[test]
fn a_run_gives_input_and_takes_output_code_and_signal() {
    let outcome = Run::new("sh")
        .args(["-c", "cat; echo \"$WORD\" >&2; pwd; exit 3"])
        .env("WORD", "err")
        .current_dir(Path::new("/"))
        .stdin("in\n")
        .run()
        .expect_code(3);
    assert_eq!((outcome.text().as_str(), outcome.stderr.as_str()), ("in\n/\n", "err\n"));
    let killed = Run::new("sh").args(["-c", "kill -9 $$"]).run();
    assert_eq!((killed.code, killed.signal), (None, Some(9)));
}

#[test]
fn a_signal_reaches_the_child() {
    let mut child = Run::new("sleep").arg("60").spawn();
    signal(&child, nix::sys::signal::Signal::SIGINT);
    let status = wait(&mut child, Duration::from_secs(10)).unwrap();
    assert_eq!(status.signal(), Some(2));
}

#[test]
#[should_panic(expected = "did not end within")]
fn a_run_that_hangs_fails_the_test() {
    Run::new("sleep").arg("60").timeout(Duration::from_millis(50)).run();
}
