//! `logtool write`: what goes in comes out byte for byte; signals, full disks, and directories that are not its own.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logtool::format::{FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};
use logtool::{Item, LogReader, NoteKind};
use nix::sys::signal::Signal;

use crate::harness::{Run, logtool, on_terminal_after, signal, temp_dir, wait};
use crate::sample::segments;

const LONG: Duration = Duration::from_secs(60);

/// Entries of the log with their flags.
fn entries(dir: &Path) -> Vec<(Vec<u8>, u8)> {
    let mut reader = LogReader::open(dir).unwrap();
    let mut all = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(entry) => all.push((entry.body.to_vec(), entry.flags)),
            Item::Finding(finding) => panic!("{finding:?}"),
            Item::Note(_) => {}
        }
    }
    all
}

/// The bytes that the entries of a log stand for.
fn bytes(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for (body, flags) in entries(dir) {
        all.extend_from_slice(&body);
        if flags & (FLAG_MORE | FLAG_UNFINISHED) == 0 {
            all.push(b'\n');
        }
    }
    all
}

/// Waits until `condition` holds.
#[track_caller]
fn until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn any_bytes_are_kept_exactly_in_each_way_of_writing() {
    let mut input = b"plain\r\n\n\0\xff\xfe invalid\n\x1b[2Jescape\ntab\there\n".to_vec();
    for len in [255, 256, 257, 512, 65_535, 65_536] {
        input.extend(std::iter::repeat_n(b'x', len));
        input.push(b'\n');
    }
    input.extend_from_slice(b"no newline at the end");
    for options in
        [&[][..], &["--compress", "zstd"], &["--roll-bytes", "4096"], &["--sync", "each"], &["--sync", "never"]]
    {
        let dir = temp_dir();
        let log = dir.path().join("deep/er/log");
        logtool().arg("write").args(options).arg(&log).stdin(input.clone()).run().expect_code(0);
        assert_eq!(bytes(&log), input, "{options:?}");
    }
}

#[test]
fn a_line_of_many_megabytes_comes_back_whole() {
    let mut input = vec![b'a'; 5_000_000];
    input.extend_from_slice(b"\nshort\n");
    for options in [&[][..], &["--compress", "zstd"]] {
        let dir = temp_dir();
        logtool().arg("write").args(options).arg(dir.path()).stdin(input.clone()).run().expect_code(0);
        assert!(bytes(dir.path()) == input, "{options:?}");
        let entries = entries(dir.path());
        assert_eq!(entries[0].1, FLAG_MORE);
        assert_eq!(entries[entries.len() - 2].1, FLAG_CONTINUED);
    }
}

#[test]
fn no_input_makes_a_log_that_is_whole_and_empty() {
    let dir = temp_dir();
    let outcome = logtool().arg("write").arg(dir.path().join("log")).run().expect_code(0);
    assert!(outcome.stderr.contains("no --keep-"), "{}", outcome.stderr);
    assert_eq!(bytes(&dir.path().join("log")), b"");
}

#[test]
fn an_unfinished_line_is_written_after_a_second() {
    let dir = temp_dir();
    let mut child = logtool().arg("write").arg(dir.path()).spawn();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"whole\nhalf").unwrap();
    until("the half line", || {
        logtool::is_log_dir(dir.path()) && segments(dir.path()).len() == 1 && entries(dir.path()).len() == 2
    });
    assert_eq!(entries(dir.path())[1], (b"half".to_vec(), FLAG_UNFINISHED));
    stdin.write_all(b" and rest\n").unwrap();
    drop(stdin);
    assert!(wait(&mut child, LONG).unwrap().success());
    assert_eq!(bytes(dir.path()), b"whole\nhalf and rest\n");
}

#[test]
fn sigterm_and_sigint_drain_the_pipe_and_close_the_log() {
    for which in [Signal::SIGTERM, Signal::SIGINT] {
        let dir = temp_dir();
        let mut child = logtool().args(["write", "--tee"]).arg(dir.path()).spawn();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"first\n").unwrap();
        let mut echo = [0u8; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut echo).unwrap();
        signal(&child, Signal::SIGSTOP);
        stdin.write_all(b"second\nthird").unwrap();
        signal(&child, which);
        signal(&child, Signal::SIGCONT);
        let status = wait(&mut child, LONG).unwrap();
        assert_eq!(status.code(), Some(0), "{which}");
        assert_eq!(bytes(dir.path()), b"first\nsecond\nthird", "{which}");
        logtool().arg("verify").arg(dir.path()).run().expect_code(0);
    }
}

#[test]
fn sighup_begins_a_new_segment() {
    let dir = temp_dir();
    let mut child = logtool().arg("write").arg(dir.path()).spawn();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    until("the first line", || {
        logtool::is_log_dir(dir.path()) && !segments(dir.path()).is_empty() && entries(dir.path()).len() == 1
    });
    signal(&child, Signal::SIGHUP);
    until("the second segment", || segments(dir.path()).len() == 2);
    stdin.write_all(b"two\n").unwrap();
    drop(stdin);
    assert!(wait(&mut child, LONG).unwrap().success());
    assert_eq!(bytes(dir.path()), b"one\ntwo\n");
}

#[test]
fn tee_escapes_on_a_terminal_and_the_log_keeps_the_bytes() {
    let dir = temp_dir();
    let input = r"printf 'a\033[2J\007b\r\n\n\342\200\256\377\nend' | ";
    let args = ["write", "--keep-segments", "9", "--tee", dir.path().to_str().unwrap()];
    let shown = on_terminal_after(input, &args).run().expect_code(0).text();
    assert_eq!(shown, "a\\x1b[2J\\x07b\\r\r\n\r\n\\u{202e}\\xff\r\nend");
    assert_eq!(bytes(dir.path()), b"a\x1b[2J\x07b\r\n\n\xe2\x80\xae\xff\nend");
}

#[test]
fn tee_echoes_what_was_written_and_a_closed_echo_does_not_stop_the_log() {
    let dir = temp_dir();
    let input = b"one\ntwo\nthree".to_vec();
    let outcome = logtool().args(["write", "--tee"]).arg(dir.path()).stdin(input.clone()).run().expect_code(0);
    assert_eq!(outcome.stdout, input);

    let dir = temp_dir();
    let mut child = logtool().args(["write", "--tee"]).arg(dir.path()).spawn();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    for number in 0..1000 {
        writeln!(stdin, "line {number}").unwrap();
    }
    drop(stdin);
    assert_eq!(wait(&mut child, LONG).unwrap().code(), Some(0));
    assert_eq!(entries(dir.path()).len(), 1000);
}

#[test]
fn a_directory_that_is_no_log_is_refused_and_left_alone() {
    let dir = temp_dir();
    fs::write(dir.path().join("thesis.txt"), "precious").unwrap();
    let outcome = logtool().arg("write").arg(dir.path()).stdin("x\n").run().expect_code(2);
    assert!(outcome.stderr.contains("thesis.txt"), "{}", outcome.stderr);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_second_writer_is_refused_with_the_holders_pid() {
    let dir = temp_dir();
    let mut child = logtool().arg("write").arg(dir.path()).spawn();
    until("the first writer", || logtool::is_log_dir(dir.path()) && !segments(dir.path()).is_empty());
    let outcome = logtool().arg("write").arg(dir.path()).stdin("x\n").run().expect_code(2);
    assert!(outcome.stderr.contains(&child.id().to_string()), "{}", outcome.stderr);
    drop(child.stdin.take());
    assert!(wait(&mut child, LONG).unwrap().success());
}

#[test]
fn a_log_goes_on_where_it_was_closed() {
    let dir = temp_dir();
    for number in 0..3 {
        logtool().arg("write").arg(dir.path()).stdin(format!("run {number}\n")).run().expect_code(0);
    }
    assert_eq!(bytes(dir.path()), b"run 0\nrun 1\nrun 2\n");
    assert_eq!(segments(dir.path()).len(), 3);
}

#[test]
fn new_files_have_the_mode_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let dir = temp_dir();
    let log = dir.path().join("log");
    logtool().args(["write", "--mode", "0600"]).arg(&log).stdin("x\n").run().expect_code(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&segments(&log)[0]), mode(&log)), (0o600, 0o750));
}

/// A file system of so many bytes, unmounted at the end; `None` where this process may not mount.
pub(crate) struct SmallDisk(pub(crate) tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn new(bytes: u32) -> Option<SmallDisk> {
        let dir = temp_dir();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: a small file system can't be mounted here");
        }
        mounted.then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// systemd#3968: no new lines after the disk was full.
#[test]
fn a_full_disk_is_waited_for_and_nothing_is_lost() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let (ballast, log) = (disk.0.path().join("ballast"), disk.0.path().join("log"));
    fs::write(&ballast, vec![1u8; 700_000]).unwrap();
    let mut child = logtool().args(["write", "--roll-bytes", "100KiB"]).arg(&log).spawn();
    let mut stdin = child.stdin.take().unwrap();
    let input: Vec<u8> =
        (0..5000).flat_map(|number| format!("line {number} {}\n", "y".repeat(80)).into_bytes()).collect();
    let expected = input.clone();
    let feeder = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    wait_for_text(&mut child.stderr.take().unwrap(), "waiting for space");
    // Longer than a line waits for its newline, which is there to be read.
    std::thread::sleep(Duration::from_millis(1200));
    fs::remove_file(&ballast).unwrap();
    feeder.join().unwrap();
    assert!(wait(&mut child, LONG).unwrap().success());
    assert!(bytes(&log) == expected && entries(&log).iter().all(|(_, flags)| *flags == 0));
}

#[test]
fn a_full_disk_with_drop_counts_what_it_drops_in_the_log() {
    let Some(disk) = SmallDisk::new(4 << 20) else { return };
    let (ballast, log) = (disk.0.path().join("ballast"), disk.0.path().join("log"));
    fs::write(&ballast, vec![1u8; 3_800_000]).unwrap();
    let mut child = logtool().args(["write", "--on-full", "drop", "--tee"]).arg(&log).spawn();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let echo = std::thread::spawn(move || {
        let mut echoed = String::new();
        stdout.read_to_string(&mut echoed).unwrap();
        echoed
    });
    // More than the pipe and the disk hold together: it goes on only if lines are dropped while there is no room.
    for number in 0..30_000 {
        writeln!(stdin, "line {number} {}", "y".repeat(80)).unwrap();
    }
    fs::remove_file(&ballast).unwrap();
    writeln!(stdin, "the last line").unwrap();
    drop(stdin);
    assert_eq!(wait(&mut child, LONG).unwrap().code(), Some(1));
    let (mut reader, mut kept, mut dropped) = (LogReader::open(&log).unwrap(), Vec::new(), 0);
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(entry) => kept.push(String::from_utf8(entry.body.to_vec()).unwrap()),
            Item::Note(note) => {
                if let NoteKind::Dropped { seqs, .. } = note.kind {
                    dropped += seqs.count();
                }
            }
            Item::Finding(finding) => panic!("{finding:?}"),
        }
    }
    assert!(dropped > 0 && kept.len() as u64 + dropped == 30_001, "{} kept, {dropped} dropped", kept.len());
    assert_eq!(kept.last().unwrap(), "the last line");
    // Whatever was echoed is in the log.
    let echoed = echo.join().unwrap();
    let kept: std::collections::HashSet<&str> = kept.iter().map(String::as_str).collect();
    assert!(echoed.lines().all(|line| kept.contains(line)));
}

#[test]
fn a_disk_that_stays_full_with_drop_neither_stops_the_program_in_front_nor_the_end() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let log = disk.0.path().join("log");
    let lines: Vec<u8> =
        (0..40_000).flat_map(|number| format!("line {number} {}\n", "y".repeat(80)).into_bytes()).collect();
    let ended =
        logtool().args(["write", "--on-full", "drop"]).arg(&log).stdin(lines).timeout(LONG).run().expect_code(2);
    let kept = entries(&log).len();
    let dropped = 40_000 - kept;
    let grouped = format!("{},{:03} lines were dropped", dropped / 1000, dropped % 1000);
    assert!(kept > 1000 && ended.stderr.contains(&grouped), "{kept} kept: {}", ended.stderr);
}

/// A full file system with a log of some segments on it; and the file that takes the rest of its space.
fn full_disk_with_a_log(disk: &SmallDisk) -> (PathBuf, PathBuf) {
    let (ballast, log) = (disk.0.path().join("ballast"), disk.0.path().join("log"));
    let lines: Vec<u8> =
        (0..4000).flat_map(|number| format!("old line {number} {}\n", "y".repeat(80)).into_bytes()).collect();
    let args = ["write", "--roll-bytes", "64KiB", "--keep-segments", "99"];
    logtool().args(args).arg(&log).stdin(lines).run().expect_code(0);
    let mut rest = fs::File::create(&ballast).unwrap();
    while rest.write_all(&[1; 512]).is_ok() {}
    (ballast, log)
}

/// Reads from `stderr` until it says `text`.
fn wait_for_text(stderr: &mut impl Read, text: &str) {
    let (mut said, mut buffer) = (Vec::new(), [0u8; 4096]);
    while !String::from_utf8_lossy(&said).contains(text) {
        let count = stderr.read(&mut buffer).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn a_disk_that_is_full_at_the_start_is_waited_for() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let (ballast, log) = full_disk_with_a_log(&disk);
    let mut child = logtool().args(["write", "--keep-segments", "99"]).arg(&log).spawn();
    let (mut stdin, mut stderr) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
    stdin.write_all(b"new line\n").unwrap();
    wait_for_text(&mut stderr, "waiting for space, nothing is lost");
    fs::remove_file(&ballast).unwrap();
    drop(stdin);
    assert!(wait(&mut child, LONG).unwrap().success());
    let lines = entries(&log);
    assert_eq!((lines.len(), lines.last().unwrap().0.as_slice()), (4001, &b"new line"[..]));
    logtool().arg("verify").arg(&log).run().expect_code(0);
}

#[test]
fn a_disk_that_is_full_at_the_start_with_drop_stops_nobody_and_the_log_tells_how_many() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let (ballast, log) = full_disk_with_a_log(&disk);
    let mut child = logtool().args(["write", "--keep-segments", "99", "--on-full", "drop"]).arg(&log).spawn();
    let (mut stdin, mut stderr) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
    // More than a pipe holds: it goes on only if it is read.
    stdin.write_all("early line\n".repeat(200_000).as_bytes()).unwrap();
    stdin.write_all(b"the last").unwrap();
    wait_for_text(&mut stderr, "dropping lines");
    fs::remove_file(&ballast).unwrap();
    stdin.write_all(b" line\n").unwrap();
    drop(stdin);
    assert_eq!(wait(&mut child, LONG).unwrap().code(), Some(1));
    let new = entries(&log).split_off(4000);
    assert_eq!(new.last().unwrap().0, b"the last line");
    let report = logtool().args(["verify", "--json"]).arg(&log).run().expect_code(0).text();
    let dropped = 200_001 - new.len();
    assert!(report.contains(&format!("\"count\":{dropped}")), "{dropped}: {report}");
}

#[test]
fn a_disk_that_is_full_at_the_start_loses_the_oldest_with_remove_oldest() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let (_, log) = full_disk_with_a_log(&disk);
    let first = segments(&log).remove(0);
    logtool().args(["write", "--on-full", "remove-oldest"]).arg(&log).stdin("new line\n").run().expect_code(0);
    assert!(!first.exists());
    let lines = entries(&log);
    assert!((1000..4001).contains(&lines.len()) && lines.last().unwrap().0 == b"new line", "{}", lines.len());
    let told = logtool().arg("verify").arg(&log).run().expect_code(0).text();
    assert!(told.contains("removed by retention"), "{told}");
}

/// A limit of the file's size is no full disk: the next segment has room, and removing old ones would help nothing.
#[test]
fn a_reached_file_size_limit_begins_a_new_segment_and_removes_none() {
    let top = temp_dir();
    let log = top.path().join("log");
    let lines: Vec<u8> = (0..20_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
    for on_full in ["remove-oldest", "block", "drop"] {
        let command =
            format!("ulimit -f 64; exec {} write --on-full {on_full} {}", env!("CARGO_BIN_EXE_logtool"), log.display());
        crate::harness::Run::new("bash").args(["-c", &command]).stdin(lines.clone()).timeout(LONG).run().expect_code(0);
    }
    assert!(bytes(&log) == lines.repeat(3), "not what was written");
    assert!(segments(&log).iter().all(|path| fs::metadata(path).unwrap().len() <= 64 << 10));
    logtool().arg("verify").arg(&log).run().expect_code(0);
}

#[test]
fn a_full_disk_with_remove_oldest_keeps_the_newest() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let log = disk.0.path().join("log");
    let input: Vec<u8> =
        (0..20_000).flat_map(|number| format!("line {number} {}\n", "y".repeat(80)).into_bytes()).collect();
    let args = ["write", "--on-full", "remove-oldest", "--roll-bytes", "64KiB"];
    let ended = logtool().args(args).arg(&log).stdin(input.clone()).run().expect_code(0);
    let kept = bytes(&log);
    assert!(kept.len() > 100_000 && input.ends_with(&kept), "{} of {} bytes", kept.len(), input.len());
    // The active segment does not take what the others leave.
    assert!(segments(&log).len() > 8 && !ended.stderr.contains("older"), "{}", ended.stderr);
    logtool().arg("verify").arg(&log).run().expect_code(0);
}

/// The time from the echo of a line to the sync that covers it, in a log synced each 100 ms, with nothing more to write.
fn time_to_sync() -> Duration {
    let dir = temp_dir();
    let log = dir.path().join("log");
    let traced = dir.path().join("traced");
    let binary = env!("CARGO_BIN_EXE_logtool");
    let run = Run::new("strace").args(["-f", "-q", "-e", "trace=fdatasync", "-o"]).arg(&traced);
    let mut child = run.args([binary, "write", "--tee", "--sync", "100ms"]).arg(&log).spawn();
    let syncs = || fs::read_to_string(&traced).unwrap_or_default().lines().filter(|line| line.ends_with("= 0")).count();
    let (mut stdin, mut echo) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    stdin.write_all(b"one\n").unwrap();
    echo.read_exact(&mut [0; 4]).unwrap();
    until("the first sync", || syncs() >= 2);
    stdin.write_all(b"two\n").unwrap();
    echo.read_exact(&mut [0; 4]).unwrap();
    let (echoed, before) = (Instant::now(), syncs());
    until("the second sync", || syncs() > before);
    let took = echoed.elapsed();
    drop(stdin);
    assert!(wait(&mut child, LONG).unwrap().success());
    took
}

#[test]
fn a_line_is_synced_in_its_interval_also_when_no_other_comes() {
    let times: Vec<Duration> = (0..3).map(|_| time_to_sync()).collect();
    // One of them undisturbed by what else runs here.
    assert!(times.iter().any(|time| *time < Duration::from_millis(400)), "{times:?}");
}
