//! The commands over the log of a killed run that kept rings.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logtool::entry::EntryHead;
use logtool::ring_builder::{self, RingFileBuilder};
use logtool::segment::SegmentHeader;
use logtool::storage_os::OsStorage;
use logtool::{Follower, Options, Start, SyncPolicy, Writer};

use crate::follow::Given;
use crate::harness::{logtool, signal, temp_dir};

const NOON_NS: i64 = 1_796_040_000_000_000_000;

/// The log of a run that was killed with 5 entries in a segment, of which 2 are in a ring too, and 3 that are only there.
fn killed_log() -> tempfile::TempDir {
    let (live, killed) = (temp_dir(), temp_dir());
    let (mut writer, mut file) =
        ring_builder::open(Arc::new(OsStorage::new(live.path(), 0o640)), Options::default()).unwrap();
    file.add_ring(4096, 1, "worker-1");
    writer.name_thread(1, "worker-1");
    for tseq in 1..=8 {
        let (time_ns, text) = (NOON_NS + tseq as i64, format!("entry {tseq}"));
        file.ring(0).push(time_ns as u64, tseq, 0, text.as_bytes());
        if tseq == 3 {
            file.ring(0).drain();
        }
        if tseq <= 5 {
            writer.entry_encoded(&EntryHead { time_ns, tseq, tid: 1, site: 0 }, 0, text.as_bytes()).unwrap();
        }
    }
    writer.flush().unwrap();
    fs::write(live.path().join(file.name()), file.encode()).unwrap();
    for name in contents(live.path()).keys() {
        fs::copy(live.path().join(name), killed.path().join(name)).unwrap();
    }
    killed
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

fn texts(numbers: std::ops::RangeInclusive<u32>) -> String {
    numbers.map(|number| format!("entry {number}\n")).collect()
}

#[test]
fn every_command_that_reads_shows_what_is_only_in_rings_and_changes_nothing() {
    let dir = killed_log();
    let before = contents(dir.path());
    let run = |command: &str, args: &[&str]| logtool().arg(command).args(args).arg(dir.path()).run().expect_code(0);
    assert_eq!(run("cat", &[]).text(), texts(1..=8));
    assert_eq!(run("tail", &["-n", "4"]).text(), texts(5..=8));
    assert_eq!(run("decompress", &[]).text(), texts(1..=8));
    let report = run("verify", &[]).text();
    assert!(report.contains("3 entries read from the rings of a run that was killed"), "{report}");
    assert!(report.contains("SOUND"), "{report}");
    let json: serde_json::Value = serde_json::from_str(&run("verify", &["--json"]).text()).unwrap();
    assert_eq!((&json["recovered"], &json["entries"]), (&3.into(), &8.into()));
    let stat = run("stat", &[]).text();
    assert!(stat.contains("in rings"), "{stat}");
    let copies = temp_dir();
    let frames = copies.path().join("frames");
    logtool().args(["decompress", "--frames", "--output"]).arg(&frames).arg(dir.path()).run().expect_code(0);
    assert_eq!(logtool().arg("cat").arg(&frames).run().expect_code(0).text(), texts(1..=8));
    logtool().arg("verify").arg(&frames).run().expect_code(0);
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn repair_tells_what_it_recovers_and_then_does_it() {
    let dir = killed_log();
    let before = contents(dir.path());
    let dry = logtool().args(["repair", "--dry-run"]).arg(dir.path()).run().expect_code(1).text();
    assert!(dry.contains("00000001.ring: append 3 entries that are only there, and remove it"), "{dry}");
    assert_eq!(contents(dir.path()), before);
    let done = logtool().arg("repair").arg(dir.path()).run().expect_code(0).text();
    assert!(done.contains("append 3 entries") && done.contains("REPAIRED: 1 step taken"), "{done}");
    assert!(!dir.path().join("00000001.ring").exists());
    assert_eq!(logtool().args(["cat"]).arg(dir.path()).run().expect_code(0).text(), texts(1..=8));
    let again = logtool().arg("repair").arg(dir.path()).run().expect_code(0).text();
    assert!(again.contains("NOTHING TO REPAIR"), "{again}");
}

#[test]
fn a_clean_copy_holds_what_was_in_rings() {
    let (dir, copy) = (killed_log(), temp_dir());
    let before = contents(dir.path());
    logtool().args(["repair", "--output"]).arg(copy.path()).arg(dir.path()).run().expect_code(0);
    assert_eq!(contents(dir.path()), before);
    assert_eq!(logtool().args(["cat"]).arg(copy.path()).run().expect_code(0).text(), texts(1..=8));
    logtool().args(["verify", "--strict"]).arg(copy.path()).run().expect_code(0);
}

#[test]
fn write_recovers_the_rings_of_the_run_before() {
    let dir = killed_log();
    logtool().arg("write").arg(dir.path()).stdin("later\n").run().expect_code(0);
    let all = logtool().args(["cat"]).arg(dir.path()).run().expect_code(0).text();
    assert_eq!(all, texts(1..=8) + "later\n");
    logtool().args(["verify", "--strict"]).arg(dir.path()).run().expect_code(0);
}

#[test]
fn a_ring_file_that_was_not_copied_along_leaves_the_end_unknown() {
    let dir = killed_log();
    fs::remove_file(dir.path().join("00000001.ring")).unwrap();
    let report = logtool().arg("verify").arg(dir.path()).run().expect_code(1).text();
    assert!(report.contains("unknown what came after seq 5"), "{report}");
}

#[test]
fn a_follower_goes_on_from_rings_to_the_next_writer() {
    let dir = killed_log();
    let mut follower = Follower::open(dir.path(), Start::First).unwrap();
    let mut given = Given::default();
    given.upto(&mut follower, 8);
    let mut writer = Writer::open(dir.path(), Options::default()).unwrap();
    for number in 9..12 {
        writer.line(b"later", 0, 1).unwrap();
        writer.flush().unwrap();
        given.upto(&mut follower, number);
    }
    assert_eq!(given.seqs(), (1..12).collect::<Vec<_>>());
    assert_eq!(given.findings, Vec::<String>::new());
}

#[test]
fn a_follower_of_a_writer_that_is_killed_gives_what_that_has_left_in_rings() {
    let dir = temp_dir();
    let mut child = logtool().arg("write").arg(dir.path()).spawn();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"one\ntwo\n").unwrap();
    let segment = || {
        fs::read_dir(dir.path())
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|end| end == "flog"))
    };
    let until = Instant::now() + Duration::from_secs(20);
    while segment().is_none() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut follower = Follower::open(dir.path(), Start::First).unwrap();
    let mut given = Given::default();
    given.upto(&mut follower, 2);
    let header = SegmentHeader::read(&fs::read(segment().unwrap()).unwrap()).unwrap().unwrap();
    let mut file = RingFileBuilder::new(&header);
    file.add_ring(4096, 7, "worker-7");
    file.ring(0).push(NOON_NS as u64, 1, 0, b"three");
    fs::write(dir.path().join(file.name()), file.encode()).unwrap();
    signal(&child, nix::sys::signal::Signal::SIGKILL);
    child.wait().unwrap();
    given.upto(&mut follower, 3);
    let mut writer = Writer::open(dir.path(), Options::default()).unwrap();
    writer.line(b"four", 0, 1).unwrap();
    writer.flush().unwrap();
    given.upto(&mut follower, 4);
    assert_eq!(given.seqs(), [1, 2, 3, 4]);
    assert_eq!(given.findings, Vec::<String>::new());
}

#[test]
fn readers_see_the_same_entries_while_a_writer_recovers_them() {
    for _ in 0..10 {
        let dir = killed_log();
        let path = dir.path();
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(move || {
                        for _ in 0..20 {
                            let mut reader = logtool::LogReader::open(path).unwrap();
                            let (mut seqs, mut findings) = (Vec::new(), Vec::new());
                            while let Some(item) = reader.next_item().unwrap() {
                                match item {
                                    logtool::Item::Entry(entry) => seqs.push(entry.seq),
                                    logtool::Item::Finding(finding) => findings.push(finding),
                                    logtool::Item::Note(_) => {}
                                }
                            }
                            assert_eq!((seqs, findings), ((1..=8).collect::<Vec<u64>>(), Vec::new()));
                        }
                    })
                })
                .collect();
            for _ in 0..3 {
                drop(Writer::open(path, Options::default().sync(SyncPolicy::Never)).unwrap());
            }
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }
}
