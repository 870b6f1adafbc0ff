//! Opening a log whose last run ended in any way, and a directory that goes and comes back.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use logtool::control::RunEnd;
use logtool::format::VOID_SEQS;
use logtool::segment::SegmentName;
use logtool::storage::Storage;
use logtool::storage_sim::SimStorage;
use logtool::{ErrorKind, LogReader, Options, Snapshot, SyncPolicy, Writer};

use crate::harness::temp_dir;
use crate::sample::segments;
use crate::writer_basic::{contents, contents_of, options};

/// A writer that is gone without a word, as after SIGKILL: nothing of it runs any more, but what it wrote is there.
fn killed_log(lines: usize) -> SimStorage {
    let sim = SimStorage::new();
    let mut writer = Writer::open_on(sim.shared(), options()).unwrap();
    for _ in 0..lines {
        writer.line(b"old", 0, 1).unwrap();
    }
    writer.flush().unwrap();
    let dead = sim.kill();
    drop(writer);
    dead
}

fn newest(sim: &SimStorage) -> String {
    sim.list()
        .unwrap()
        .into_iter()
        .rev()
        .map(|entry| entry.name)
        .find(|name| SegmentName::parse(name).is_some())
        .unwrap()
}

/// Opens the log and appends 5 lines; returns the first's number, what is then read, and how the run start describes the end.
fn go_on(sim: &SimStorage) -> (u64, crate::writer_basic::Contents, RunEnd) {
    let mut writer = Writer::open_on(sim.shared(), options()).unwrap();
    let first = writer.next_seq();
    for _ in 0..5 {
        writer.line(b"new", 0, 2).unwrap();
    }
    writer.close().unwrap();
    let snapshot = Snapshot::take(sim.shared()).unwrap();
    let last_end = snapshot.segments.last().unwrap().run_start.unwrap().last_end;
    (first, contents_of(LogReader::new(snapshot)), last_end)
}

fn bodies(found: &crate::writer_basic::Contents) -> (usize, usize) {
    let count = |body: &[u8]| found.entries.iter().filter(|(_, found)| found == body).count();
    (count(b"old"), count(b"new"))
}

/// The tail is not appended to: kuzu#5852 (cut 3 bytes, open, append), amelie#17 (one stray byte), etcd#5230 (a tear at a
/// page, zeros behind it).
#[test]
fn whatever_stands_behind_the_last_whole_frame_hides_nothing_of_a_later_run() {
    let whole = killed_log(100);
    let name = newest(&whole);
    let content = whole.content(&name).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut content = content.clone();
        change(&mut content);
        content
    };
    let page = 4096;
    let tails = [
        (changed(&|content| content.push(1)), 100),
        (changed(&|content| content.extend([0; 5000])), 100),
        (changed(&|content| content.extend([0xf7; 77])), 100),
    ];
    for (content, old) in tails {
        let sim = whole.kill();
        sim.put(&name, &content);
        let (first, found, last_end) = go_on(&sim);
        assert_eq!((first, last_end, bodies(&found)), (101, RunEnd::Killed, (old, 5)));
        assert_eq!(found.findings, Vec::<String>::new());
    }
    // Frames that the record vouches for are gone: their numbers are not given again, their loss is told.
    for content in
        [changed(&|content| content.truncate(content.len() - 3)), changed(&|content| content[page..].fill(0))]
    {
        let sim = whole.kill();
        sim.put(&name, &content);
        let (first, found, last_end) = go_on(&sim);
        let (old, new) = bodies(&found);
        assert_eq!((first, last_end, new), (101, RunEnd::Damaged, 5));
        assert!(old < 100 && old > 50);
        assert!(!found.findings.is_empty());
        assert!(
            found.findings.iter().any(|finding| finding.contains(&format!("first: {}, last: 100", old + 1))),
            "{:?}",
            found.findings
        );
    }
}

#[test]
fn a_newest_segment_that_was_deleted_is_missed_and_its_numbers_are_not_given_again() {
    let sim = SimStorage::new();
    let mut writer = Writer::open_on(sim.shared(), options()).unwrap();
    writer.line(b"old", 0, 1).unwrap();
    writer.roll().unwrap();
    writer.line(b"gone", 0, 1).unwrap();
    writer.flush().unwrap();
    let dead = sim.kill();
    dead.delete(&newest(&dead));
    let (first, found, last_end) = go_on(&dead);
    assert_eq!((first, last_end), (3, RunEnd::Damaged));
    assert!(found.findings.iter().any(|finding| finding.contains("first: 2, last: 2")), "{:?}", found.findings);
    // The record gone too: only the seal of the first tells that there was more.
    let dead = sim.kill();
    dead.delete(&newest(&dead));
    dead.delete("writer.lock");
    let (first, found, last_end) = go_on(&dead);
    assert_eq!((first, last_end), (2 + VOID_SEQS, RunEnd::Damaged));
    assert!(!found.findings.is_empty(), "{:?}", found.notes);
    let index = SegmentName::parse(&newest(&dead)).unwrap().index();
    assert_eq!(index, 3, "index 2 is left for a segment that declares the loss");
}

#[test]
fn after_a_reboot_without_close_numbers_jump_and_after_a_close_they_do_not() {
    let sim = killed_log(10).power_cut(1);
    let (first, found, last_end) = go_on(&sim);
    assert_eq!((first, last_end), (11 + VOID_SEQS, RunEnd::OtherBoot));
    assert_eq!((bodies(&found), found.findings.len()), ((10, 5), 0));
    assert!(found.notes.iter().any(|note| format!("{note:?}").contains("Void")), "{:?}", found.notes);
    let (first, _, last_end) = go_on(&sim.power_cut(1));
    assert_eq!((first, last_end), (11 + VOID_SEQS + 5, RunEnd::Closed));
}

#[test]
fn a_log_of_a_later_version_is_refused() {
    let sim = killed_log(1);
    let name = newest(&sim);
    let mut content = sim.content(&name).unwrap();
    for copy in content[..1024].chunks_mut(512) {
        copy[8] = 9;
        let crc = crc32(&copy[..508]).to_le_bytes();
        copy[508..].copy_from_slice(&crc);
    }
    sim.put(&name, &content);
    let error = Writer::open_on(sim.shared(), options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Version);
    assert!(error.to_string().contains("version 9"), "{error}");
}

/// CRC-32 (IEEE), bit by bit: not the library's.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1)))
    })
}

#[test]
fn a_writer_in_another_process_is_named() {
    let dir = temp_dir();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer_open::holds_a_log_until_its_input_ends", "--nocapture", "--ignored"])
        .env("LOGTOOL_TEST_DIR", dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holding")));
    let error = Writer::open(dir.path(), options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    child.kill().unwrap();
    child.wait().unwrap();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    assert_eq!(writer.line(b"next", 0, 1).unwrap(), 2);
    writer.close().unwrap();
    let found = contents(dir.path());
    assert_eq!((found.entries.len(), found.findings.len()), (2, 0));
}

#[test]
#[ignore = "the other process of a_writer_in_another_process_is_named"]
fn holds_a_log_until_its_input_ends() {
    let Some(dir) = std::env::var_os("LOGTOOL_TEST_DIR") else { return };
    let mut writer = Writer::open(dir, options()).unwrap();
    writer.line(b"held", 0, 1).unwrap();
    writer.flush().unwrap();
    println!("\nholding");
    let _ = std::io::stdin().lines().count();
}

/// Trouble with the directory is visible, costs nothing, and ends when the directory returns: tracing#1155, tracing#1941,
/// tracing#3467.
#[test]
fn a_directory_that_was_removed_is_told_and_when_it_returns_all_is_there() {
    let parent = temp_dir();
    let dir = parent.path().join("log");
    let mut writer = Writer::open(&dir, options().roll_every(None)).unwrap();
    writer.line(b"1", 0, 1).unwrap();
    writer.flush().unwrap();
    writer.tick(0).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let error = writer.tick(0).unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    writer.line(b"2", 0, 1).unwrap();
    assert!(writer.flush().is_err());
    let mut refused = false;
    for _ in 0..100 {
        refused |= writer.line(&[b'x'; 100], 0, 1).is_err();
    }
    assert!(refused && writer.stats().last_failure.is_some() && writer.stats().pending_bytes < 8192);
    std::fs::create_dir(&dir).unwrap();
    writer.tick(0).unwrap();
    let last = writer.flush().unwrap();
    assert_eq!(Writer::open(&dir, options()).unwrap_err().kind(), ErrorKind::Locked);
    writer.close().unwrap();
    let found = contents(&dir);
    assert_eq!((found.entries.len() as u64, found.findings.len()), (last, 0));
    assert_eq!(found.entries[..2], [(1, b"1".to_vec()), (2, b"2".to_vec())]);
}

#[test]
fn a_directory_that_was_moved_away_and_back_goes_on_as_if_nothing_had_been() {
    let parent = temp_dir();
    let (dir, away) = (parent.path().join("log"), parent.path().join("away"));
    let mut writer = Writer::open(&dir, options()).unwrap();
    std::fs::rename(&dir, &away).unwrap();
    writer.line(b"1", 0, 1).unwrap();
    assert!(writer.tick(0).is_err());
    std::fs::rename(&away, &dir).unwrap();
    writer.close().unwrap();
    assert_eq!(segments(&dir).len(), 1);
    let found = contents(&dir);
    assert_eq!((found.entries.len(), found.findings.len()), (1, 0));
}

#[test]
fn the_sync_thread_brings_lines_to_the_disk_without_being_asked() {
    let dir = temp_dir();
    let interval = std::time::Duration::from_millis(5);
    let mut writer = Writer::open(dir.path(), Options::new().sync(SyncPolicy::Interval(interval))).unwrap();
    let started = std::time::Instant::now();
    let mut synced = 0;
    while synced < 50 && started.elapsed().as_secs() < 20 {
        writer.line(b"x", 0, 1).unwrap();
        writer.flush().unwrap();
        synced = writer.stats().synced_seq;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(synced >= 50);
    assert!(writer.stats().syncs.count < writer.stats().last_seq);
    writer.close().unwrap();
    assert_eq!(contents(dir.path()).findings, Vec::<String>::new());
}

#[test]
fn much_that_was_written_does_not_wait_for_the_interval() {
    let sim = SimStorage::new();
    let hour = std::time::Duration::from_secs(3600);
    let mut writer =
        Writer::open_on(sim.shared(), options().roll_bytes(1 << 30).sync(SyncPolicy::Interval(hour))).unwrap();
    let line = vec![b'x'; 512 << 10];
    for _ in 0..70 {
        writer.line(&line, 0, 1).unwrap();
        writer.flush().unwrap();
    }
    let started = std::time::Instant::now();
    while writer.stats().synced_seq < 60 && started.elapsed().as_secs() < 20 {
        writer.flush().unwrap();
        writer.tick(1).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(writer.stats().synced_seq >= 60, "{:?}", writer.stats());
    assert!(writer.stats().syncs.count <= 3, "{:?}", writer.stats());
}

#[test]
fn a_segment_is_rolled_when_its_period_is_over() {
    const DAY: i64 = 86_400_000_000_000;
    fn noon() -> i64 {
        20_000 * DAY + DAY / 2
    }
    let sim = SimStorage::new();
    let mut writer = Writer::open_on(sim.shared(), options().clock(noon)).unwrap();
    let first = writer.active_name().to_owned();
    writer.tick(20_001 * DAY).unwrap();
    assert_eq!(writer.active_name(), first, "an empty segment stays");
    writer.line(b"x", 0, 1).unwrap();
    writer.tick(20_001 * DAY - 1).unwrap();
    writer.tick(19_000 * DAY).unwrap();
    assert_eq!(writer.active_name(), first);
    writer.tick(20_001 * DAY).unwrap();
    assert_ne!(writer.active_name(), first);
}
