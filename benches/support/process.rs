//! What this process uses: processor time, memory, disk.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// What the page cache is made to hold before something is measured.
const WARM_BYTES: u64 = 2 << 30;

/// How often [`Watch`] looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Processor time of the process so far, user and system, all threads, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF).map_or(f64::NAN, |usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Processor time of all living threads whose name starts with `prefix`, in seconds. Of a thread that runs, it is up to a
/// tick of the scheduler (some ms) old. (`stat` beside it counts in 10 ms.)
pub(crate) fn thread_cpu_seconds(prefix: &str) -> f64 {
    let mut ns = 0;
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if read("comm").starts_with(prefix) {
            ns += read("schedstat").split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    ns as f64 / 1e9
}

/// A line of `/proc/self/status` that is in kB, in MiB: `VmRSS` and `VmHWM` (resident now and at most, mapped files such as
/// the rings included), `RssAnon` (resident now, memory of the process's own).
pub(crate) fn status_mib(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// Bytes of the files in `dir` whose names end like this.
pub(crate) fn bytes_on_disk(dir: &Path, ending: &str) -> u64 {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let matching = files.filter(|file| file.file_name().as_encoded_bytes().ends_with(ending.as_bytes()));
    matching.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
}

/// Brings all that the file system of `dir` has to write to the disk, so that it does not disturb what comes next, and has
/// the machine get [`WARM_BYTES`] of memory ready for files: a virtual machine gives what is not used back to its host, and
/// getting it anew, page by page, can cost several times what a logger does. Whoever is measured first would pay for it.
///
/// # Errors
/// What the system says.
pub(crate) fn settle(dir: &Path) -> anyhow::Result<()> {
    let sync = || -> anyhow::Result<()> { Ok(nix::unistd::syncfs(File::open(dir)?)?) };
    sync()?;
    let (path, piece) = (dir.join("settle"), vec![1; 1 << 20]);
    let mut file = File::create(&path)?;
    for _ in 0..WARM_BYTES >> 20 {
        file.write_all(&piece)?;
    }
    fs::remove_file(&path)?;
    // What the file system does for removed files it does with its next commit, which writers wait for.
    sync()
}

/// Fails if the file system of `dir` has less room than this.
///
/// # Errors
/// That, and what the system says.
pub(crate) fn ensure_room(dir: &Path, bytes: u64) -> anyhow::Result<()> {
    let disk = nix::sys::statvfs::statvfs(dir)?;
    let free = disk.blocks_available() * disk.fragment_size();
    anyhow::ensure!(free >= bytes, "{}: {bytes} bytes needed, {free} are free", dir.display());
    Ok(())
}

/// What a figure depends on besides the program.
pub(crate) fn about_machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    let clock = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    format!("{cores} cores, load {load}, Linux {}, clock {clock}", read("/proc/sys/kernel/osrelease"))
}

/// What [`Watch`] has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Processor time of the watched threads over the whole time, in hundredths of a core.
    pub(crate) mean_percent: f64,
    /// The same over the worst tenth of a second.
    pub(crate) peak_percent: f64,
    /// Resident memory at first, in MiB.
    pub(crate) first_mib: f64,
    /// At most.
    pub(crate) most_mib: f64,
    /// At last.
    pub(crate) last_mib: f64,
}

/// Looks at threads and memory ten times a second, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    /// Watches the threads whose names start with `prefix`.
    pub(crate) fn start(prefix: &'static str) -> Watch {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let first_mib = status_mib("VmRSS");
            let (started, cpu_at_start) = (Instant::now(), thread_cpu_seconds(prefix));
            let (mut looked, mut cpu, mut most_mib, mut peak_percent) = (started, cpu_at_start, first_mib, 0f64);
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let (now, cpu_now) = (Instant::now(), thread_cpu_seconds(prefix));
                peak_percent = peak_percent.max((cpu_now - cpu) / (now - looked).as_secs_f64() * 100.0);
                most_mib = most_mib.max(status_mib("VmRSS"));
                (looked, cpu) = (now, cpu_now);
            }
            let mean_percent = (thread_cpu_seconds(prefix) - cpu_at_start) / started.elapsed().as_secs_f64() * 100.0;
            let last_mib = status_mib("VmRSS");
            let peak_percent = peak_percent.max(mean_percent);
            Seen { mean_percent, peak_percent, first_mib, most_mib: most_mib.max(last_mib), last_mib }
        });
        Watch { stop, thread }
    }

    /// Ends it.
    pub(crate) fn stop(self) -> anyhow::Result<Seen> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread that watches has panicked"))
    }
}
