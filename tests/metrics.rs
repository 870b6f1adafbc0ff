//! The figures of a log, asked in the program and from outside, of writers that live and of those that were killed.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use logtool::{Logger, LoggerBuilder, Metrics, RingOptions, WhenFull, info, told_metrics, try_info};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::faulty_storage::{Faulty, fill};
use crate::harness::{logtool, temp_dir};

const LONG: Duration = Duration::from_secs(30);

/// Where the record stands in the ring file.
const AREA: std::ops::Range<usize> = 2560..3072;

/// Reads the text form as a scraper does, and holds it against its rules: the samples by name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut described) = (BTreeMap::new(), HashSet::new());
    let (mut name, mut kind) = ("", "");
    let is_name =
        |name: &str| name.starts_with("logtool_") && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    assert!(text.is_empty() || text.ends_with('\n'));
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            name = help.split_once(' ').unwrap_or_else(|| panic!("{line}: no help")).0;
            assert!(is_name(name) && described.insert(name), "{line}");
            let of_type = lines.next().unwrap().strip_prefix("# TYPE ").unwrap().split_once(' ').unwrap();
            assert_eq!(of_type.0, name, "{line}");
            kind = of_type.1;
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} {kind}");
            continue;
        }
        let (metric, rest) = line.split_once('{').unwrap_or_else(|| panic!("{line}"));
        match kind {
            "counter" | "gauge" => assert_eq!(metric, name, "{line}"),
            "summary" => assert!(metric == format!("{name}_sum") || metric == format!("{name}_count"), "{line}"),
            other => panic!("{other}"),
        }
        let (labels, value) = rest.rsplit_once("} ").unwrap();
        check_labels(labels);
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(samples.insert(line.rsplit_once(' ').unwrap().0.to_owned(), value).is_none(), "{line} comes twice");
    }
    samples
}

/// `name="value",..` with nothing in a value that must be escaped.
fn check_labels(labels: &str) {
    let mut rest = labels;
    loop {
        let (name, value) = rest.split_once("=\"").unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase()), "{labels}");
        let mut chars = value.char_indices();
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("{labels}")) {
                (_, '\\') => assert!(matches!(chars.next(), Some((_, '\\' | '"' | 'n'))), "{labels}"),
                (at, '"') => break at,
                (_, char) => assert!(!char.is_control(), "{labels}"),
            }
        };
        match value[end + 1..].strip_prefix(',') {
            Some(next) => rest = next,
            None => break assert_eq!(&value[end + 1..], "", "{labels}"),
        }
    }
}

/// What the command shows of a log.
struct Shown(BTreeMap<String, f64>, String);

impl Shown {
    fn of(dir: &Path) -> Shown {
        let outcome = logtool().args(["stat", "--prometheus"]).arg(dir).run().expect_code(0);
        assert_eq!(outcome.stderr, "");
        Shown(samples(&outcome.text()), dir.display().to_string())
    }

    /// The value of a metric without a label of its own.
    #[track_caller]
    fn value(&self, name: &str) -> f64 {
        self.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.0))
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.get(&format!("{name}{{log=\"{}\"}}", self.1)).copied()
    }

    #[track_caller]
    fn labelled(&self, name: &str, label: &str, value: &str) -> f64 {
        self.0[&format!("{name}{{log=\"{}\",{label}=\"{value}\"}}", self.1)]
    }

    /// The segments alone tell of it.
    #[track_caller]
    fn assert_without_figures(&self, is_up: impl Into<Option<bool>>, sealed: u64, last_seq: u64) {
        let is_up = is_up.into();
        assert_eq!(self.get("logtool_writer_up"), is_up.map(f64::from));
        // Of a log that was closed nothing tells how far its last sync came, nor need it.
        assert_eq!(self.get("logtool_log_synced_seq").is_some(), sealed < last_seq);
        assert_eq!(self.value("logtool_log_sealed_entries"), sealed as f64);
        assert_eq!(self.value("logtool_log_last_seq"), last_seq as f64);
        assert!(self.value("logtool_log_segments") >= 1.0 && self.value("logtool_log_bytes") > 0.0);
        assert_eq!((self.get("logtool_figures_age_seconds"), self.get("logtool_entries_total")), (None, None));
    }
}

/// Waits until the writer has told of figures that are so.
#[track_caller]
fn wait_until_told(dir: &Path, is_so: impl Fn(&Metrics) -> bool) {
    let start = Instant::now();
    while !told_metrics(dir).unwrap().is_some_and(|told| is_so(&told.metrics)) {
        assert!(start.elapsed() < LONG, "{:?}", told_metrics(dir));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn log_many(log: &Logger, count: u64) {
    (0..count).for_each(|number| info!(logger: log, "entry {number}"));
}

/// A copy of a directory while its writer goes on, or has ended: to the copy it has died.
fn copy(dir: &Path) -> tempfile::TempDir {
    let copy = temp_dir();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn only_ring_file(dir: &Path) -> fs::File {
    fs::OpenOptions::new().read(true).write(true).open(dir.join("00000001.ring")).unwrap()
}

#[test]
fn a_program_and_the_command_show_the_same_of_a_living_log() {
    let dir = temp_dir();
    let log = Logger::builder(dir.path()).open().unwrap();
    log_many(&log, 1000);
    log.sync(LONG).unwrap();
    let told = |metrics: &Metrics| (metrics.entries, metrics.synced_seq, metrics.ring_fill_bytes) == (1000, 1000, 0);
    wait_until_told(dir.path(), told);
    let metrics = log.metrics();
    assert_eq!((metrics.entries, metrics.last_seq, metrics.flushed_seq), (1000, 1000, 1000));
    assert_eq!((metrics.rings, metrics.ring_bytes), (2, 2 << 20));
    assert!(metrics.ring_fill_bytes_high >= 32 && metrics.fullest_ring_bytes_high <= metrics.ring_fill_bytes_high);
    assert_eq!((metrics.ring_fill_bytes_low, metrics.oldest_unwritten), (0, Duration::ZERO));
    for timing in [metrics.writes, metrics.syncs] {
        assert!(timing.count > 0 && timing.longest > Duration::ZERO && timing.longest <= timing.total, "{timing:?}");
        assert!(timing.mean() <= timing.longest && timing.mean() > Duration::ZERO, "{timing:?}");
    }
    let shown = Shown::of(dir.path());
    let here = samples(&metrics.to_prometheus(&dir.path().display().to_string()));
    for name in here.keys() {
        assert!(shown.0.contains_key(name), "{name}");
    }
    assert_eq!(shown.value("logtool_writer_up"), 1.0);
    assert!(shown.value("logtool_figures_age_seconds") < 30.0);
    for name in ["logtool_entries_total", "logtool_synced_seq", "logtool_log_last_seq"] {
        assert_eq!(shown.value(name), 1000.0, "{name}");
    }
    for name in ["logtool_written_bytes_total", "logtool_ring_bytes", "logtool_ring_fill_high_bytes"] {
        assert_eq!(shown.value(name), here[&format!("{name}{{log=\"{}\"}}", shown.1)], "{name}");
    }
    // Who only looks does not change what a clone, or a closed log, tells.
    log.close(LONG).unwrap();
    assert_eq!(log.metrics().entries, 1000);
    Shown::of(dir.path()).assert_without_figures(false, 1000, 1000);
}

const CHILD: &str = "LOGTOOL_TEST_IS_KILLED_IN";

#[test]
fn a_killed_writer_leaves_its_figures() {
    if let Some(dir) = std::env::var_os(CHILD) {
        let dir = Path::new(&dir);
        let log = Logger::builder(dir).open().unwrap();
        log_many(&log, 1000);
        wait_until_told(dir, |metrics| metrics.entries == 1000);
        kill(Pid::this(), Signal::SIGKILL).unwrap();
    }
    let dir = temp_dir();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "metrics::a_killed_writer_leaves_its_figures", "--nocapture"])
        .env(CHILD, dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(nix::libc::SIGKILL));
    let told = told_metrics(dir.path()).unwrap().unwrap();
    assert!(!told.is_live);
    let shown = Shown::of(dir.path());
    assert_eq!((shown.value("logtool_writer_up"), shown.value("logtool_entries_total")), (0.0, 1000.0));
    assert!(shown.value("logtool_figures_age_seconds") >= told.age.as_secs_f64());
    std::thread::sleep(Duration::from_millis(20));
    assert!(Shown::of(dir.path()).value("logtool_figures_age_seconds") > told.age.as_secs_f64() + 0.02);
    // The next writer's are its own.
    let log = Logger::builder(dir.path()).open().unwrap();
    log_many(&log, 7);
    wait_until_told(dir.path(), |metrics| metrics.entries == 7);
    let shown = Shown::of(dir.path());
    assert_eq!((shown.value("logtool_writer_up"), shown.value("logtool_last_seq")), (1.0, 1007.0));
    drop(log);
}

#[test]
fn a_record_that_is_damaged_or_of_an_older_version_is_as_none() {
    let dir = temp_dir();
    let log = Logger::builder(dir.path()).open().unwrap();
    log_many(&log, 10);
    wait_until_told(dir.path(), |metrics| metrics.entries == 10);
    let damages: [fn(&mut [u8]); 4] =
        [|area| area.fill(0), |area| area.fill(0xff), |area| area[100] ^= 1, |area| area[4] = 200];
    for damage in damages {
        let killed = copy(dir.path());
        assert_eq!(Shown::of(killed.path()).value("logtool_entries_total"), 10.0);
        let (file, mut area) = (only_ring_file(killed.path()), [0; 512]);
        file.read_exact_at(&mut area, AREA.start as u64).unwrap();
        damage(&mut area);
        file.write_all_at(&area, AREA.start as u64).unwrap();
        Shown::of(killed.path()).assert_without_figures(false, 0, 10);
    }
    // Of a writer that lives it is there again within a second.
    only_ring_file(dir.path()).write_all_at(&[0xff; 512], AREA.start as u64).unwrap();
    wait_until_told(dir.path(), |metrics| metrics.entries == 10);
}

#[test]
fn a_log_without_a_ring_file_shows_what_its_segments_tell() {
    for set in [LoggerBuilder::memory_rings, LoggerBuilder::synchronous] {
        let dir = temp_dir();
        let log = set(Logger::builder(dir.path())).open().unwrap();
        log_many(&log, 20);
        log.flush(LONG).unwrap();
        assert_eq!((log.metrics().entries, log.metrics().flushed_seq), (20, 20));
        Shown::of(dir.path()).assert_without_figures(true, 0, 20);
        log.close(LONG).unwrap();
        Shown::of(dir.path()).assert_without_figures(false, 20, 20);
        // A segment by itself has no writer.
        let segment = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let segment = segment.into_iter().find(|path| path.extension().is_some_and(|ext| ext == "flog")).unwrap();
        let single = temp_dir();
        let single = single.path().join(segment.file_name().unwrap());
        let _ = fs::copy(segment, &single);
        Shown::of(&single).assert_without_figures(None, 20, 20);
    }
}

#[test]
fn a_full_disk_shows_in_errors_and_in_what_waits() {
    let dir = temp_dir();
    let (storage, faults) = Faulty::over(dir.path());
    let rings = RingOptions { ring_bytes: 64 << 10, ..RingOptions::default() };
    let builder = Logger::builder(dir.path()).rings(rings).when_full(WhenFull::Drop);
    let log = builder.open_on(storage).unwrap();
    log_many(&log, 10);
    log.flush(LONG).unwrap();
    fill(dir.path(), &faults, 0);
    let mut accepted = 10;
    while try_info!(logger: log, "entry {accepted}").is_ok() {
        accepted += 1;
    }
    // Once the failure is known, calls are told of it.
    wait_until_told(dir.path(), |metrics| metrics.write_failures > 0);
    assert!(try_info!(logger: log, "another one").is_err());
    wait_until_told(dir.path(), |metrics| metrics.refused.no_space > 0 && metrics.oldest_unwritten.as_millis() > 300);
    for shown in [Shown::of(dir.path()), Shown::of(copy(dir.path()).path())] {
        assert!(shown.labelled("logtool_errors_total", "kind", "write") > 0.0);
        assert_eq!(shown.labelled("logtool_errors_total", "kind", "sync"), 0.0);
        let refused = ["full", "no_space"].map(|why| shown.labelled("logtool_refused_calls_total", "reason", why));
        assert_eq!((refused[0] + refused[1], refused[1] > 0.0), (2.0, true));
        let fill = shown.value("logtool_ring_fill_bytes");
        assert!(fill > 60_000.0 && fill <= 65536.0, "{fill}");
        assert!(shown.value("logtool_ring_fullest_high_bytes") >= fill);
        assert!(shown.value("logtool_oldest_unwritten_seconds") > 0.3);
        assert_eq!(shown.value("logtool_entries_total"), 10.0);
    }
    assert!(log.metrics().last_failure.is_some_and(|text| text.contains("cannot write")));
    // Once there is room all is written, and the log tells of those that were refused.
    faults.is_full.store(false, Ordering::Relaxed);
    log.flush(LONG).unwrap();
    let metrics = log.metrics();
    assert_eq!((metrics.entries, metrics.dropped.ring_full, metrics.refused.total()), (accepted, 2, 2));
    assert_eq!((metrics.ring_fill_bytes, metrics.oldest_unwritten), (0, Duration::ZERO));
    log.close(LONG).unwrap();
}

#[test]
fn several_logs_share_the_comments_and_one_that_can_not_be_read_is_told() {
    let dir = temp_dir();
    let logs = ["first", "sec\\ond \"2\"\x1b[2J"].map(|name| dir.path().join(name));
    let writers = logs.clone().map(|path| Logger::builder(path).open().unwrap());
    for (count, log) in [3, 5].into_iter().zip(&writers) {
        log_many(log, count);
    }
    for (count, path) in [3, 5].into_iter().zip(&logs) {
        wait_until_told(path, |metrics| metrics.entries == count);
    }
    let outcome = logtool().args(["stat", "--prometheus", "-r"]).arg(dir.path()).run().expect_code(0);
    let shown = samples(&outcome.text());
    let names = ["first", "sec\\\\ond \\\"2\\\"\\\\x1b[2J"].map(|name| format!("{}/{name}", dir.path().display()));
    let entries = names.map(|name| shown[&format!("logtool_entries_total{{log=\"{name}\"}}")]);
    assert_eq!(entries, [3.0, 5.0]);
    let none = dir.path().join("none");
    let outcome = logtool().args(["stat", "--prometheus"]).args([&none, &logs[0]]).run().expect_code(2);
    assert!(outcome.stderr.contains("none"), "{}", outcome.stderr);
    assert!(samples(&outcome.text()).len() > 40);
    logtool().args(["stat", "--prometheus", "--json"]).arg(&logs[0]).run().expect_code(2);
}

#[test]
fn figures_are_those_of_the_run_that_goes_on_wherever_its_rings_stand() {
    let (dir, elsewhere, other) = (temp_dir(), temp_dir(), temp_dir());
    let log = Logger::builder(dir.path()).ring_dir(elsewhere.path()).open().unwrap();
    log_many(&log, 3);
    wait_until_told(dir.path(), |metrics| metrics.entries == 3);
    assert!(told_metrics(dir.path()).unwrap().unwrap().is_live);
    // To a copy the writer is dead; but the rings that its pointer leads to are those of a living one.
    assert_eq!(told_metrics(copy(dir.path()).path()).unwrap(), None);
    // What another run has left is not told as that of a writer that keeps no ring file.
    let _synchronous = Logger::builder(other.path()).synchronous().open().unwrap();
    let ring_file = fs::read_dir(elsewhere.path()).unwrap().next().unwrap().unwrap().path();
    fs::copy(ring_file, other.path().join("00000001.ring")).unwrap();
    assert_eq!(told_metrics(other.path()).unwrap(), None);
    log.close(LONG).unwrap();
    assert_eq!(told_metrics(dir.path()).unwrap(), None);
    let error = told_metrics(&dir.path().join("none")).unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
}

#[test]
fn calls_that_wait_for_room_are_counted() {
    let dir = temp_dir();
    let (storage, faults) = Faulty::over(dir.path());
    let rings = RingOptions { ring_bytes: 64 << 10, ..RingOptions::default() };
    let builder = Logger::builder(dir.path()).rings(rings).when_full(WhenFull::Wait(Duration::from_millis(30)));
    let log = builder.open_on(storage).unwrap();
    log_many(&log, 10);
    log.flush(LONG).unwrap();
    assert_eq!(log.metrics().ring_waits.count, 0);
    fill(dir.path(), &faults, 0);
    while try_info!(logger: log, "entry").is_ok() {}
    let waits = log.metrics().ring_waits;
    assert!(waits.count >= 1 && waits.longest >= Duration::from_millis(30), "{waits:?}");
    assert!(waits.total >= waits.longest && waits.mean() <= waits.longest, "{waits:?}");
}
