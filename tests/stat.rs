//! `logtool stat`: what is known of a log without reading it.

use std::fs;

use logtool::format::SEGMENT_PLACEHOLDER;
use logtool::segment::SegmentHeader;

use crate::harness::{cut, logtool, temp_dir};
use crate::sample::{NOON_NS, compressed, plain, segments, writer};

fn stat(dir: &std::path::Path) -> serde_json::Value {
    let outcome = logtool().args(["stat", "--json"]).arg(dir).run().expect_code(0);
    assert_eq!((outcome.stderr.as_str(), outcome.text().lines().count()), ("", 1));
    serde_json::from_str(&outcome.text()).unwrap()
}

#[test]
fn a_closed_log_has_exact_counts() {
    for (options, is_compressed) in [(plain(), false), (compressed(), true)] {
        let dir = temp_dir();
        let mut writer = writer(dir.path(), options.roll_bytes(8 << 10));
        let line = [b'x'; 99];
        for number in 0..1000 {
            writer.line(&line, 0, NOON_NS + number).unwrap();
            if number % 50 == 49 {
                writer.flush().unwrap();
            }
        }
        writer.close().unwrap();
        let stat = stat(dir.path());
        let files = segments(dir.path());
        let listed = stat["segments"].as_array().unwrap();
        assert_eq!(listed.len(), files.len());
        assert_eq!((stat["entries"].as_u64(), stat["text_bytes"].as_u64()), (Some(1000), Some(100_000)));
        assert_eq!(stat["last_seq"], 1000);
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert_eq!(stat["bytes"].as_u64(), Some(bytes));
        assert!(listed.iter().all(|segment| segment["state"] == "sealed"));
        assert_eq!(listed[0]["compressed"], is_compressed);
        assert_eq!(listed[0]["seqs"]["first"], 1);
        assert_eq!(listed.last().unwrap()["seqs"]["last"], 1000);
        let text = logtool().args(["stat", "--utc"]).arg(dir.path()).run().expect_code(0).text();
        assert!(text.contains("  no writer\n") && text.contains(" in all "), "{text}");
        assert!(text.contains(if is_compressed { "compressed" } else { "plain" }), "{text}");
    }
}

#[test]
fn a_log_that_is_being_written_tells_its_writer_and_how_far_syncs_lag() {
    let dir = temp_dir();
    let mut writer = writer(dir.path(), plain());
    for number in 0..10 {
        writer.line(b"synced", 0, NOON_NS + number).unwrap();
    }
    writer.flush().unwrap();
    writer.sync().unwrap();
    for number in 10..17 {
        writer.line(b"not yet", 0, NOON_NS + number).unwrap();
    }
    writer.flush().unwrap();
    let stat = stat(dir.path());
    assert_eq!(stat["writer_pid"].as_u64(), Some(u64::from(std::process::id())));
    assert_eq!(stat["segments"][0]["state"], "active");
    assert_eq!(
        (stat["last_seq"].as_u64(), stat["synced_upto"].as_u64(), stat["sync_lag"].as_u64()),
        (Some(17), Some(10), Some(7))
    );
    let text = logtool().args(["stat", "--utc"]).arg(dir.path()).run().expect_code(0).text();
    assert!(text.contains("synced      up to seq 10 of 17, as the log tells: 7 behind"), "{text}");
}

#[test]
fn each_state_of_a_segment_is_shown_and_what_is_no_segment_too() {
    let dir = temp_dir();
    for _ in 0..5 {
        let mut writer = writer(dir.path(), plain());
        writer.line(b"line", 0, NOON_NS).unwrap();
        writer.close().unwrap();
    }
    let files = segments(dir.path());
    cut(&files[0], fs::metadata(&files[0]).unwrap().len() - 16);
    fs::write(&files[4], vec![b'#'; 5000]).unwrap();
    fs::write(&files[1], vec![0; 4096]).unwrap();
    let mut bytes = fs::read(&files[2]).unwrap();
    let header = SegmentHeader::decode(bytes.first_chunk().unwrap()).unwrap();
    let header = SegmentHeader { flags: SEGMENT_PLACEHOLDER, ..header };
    bytes[..1024].copy_from_slice(&header.encode());
    fs::write(&files[2], bytes).unwrap();
    fs::create_dir(dir.path().join("00000009-20261130T120000Z.flog")).unwrap();
    fs::write(dir.path().join("00000002.ring"), vec![0; 1 << 20]).unwrap();
    fs::create_dir(dir.path().join("quarantine")).unwrap();
    fs::write(dir.path().join("quarantine/cut"), [0; 100]).unwrap();
    let stat = stat(dir.path());
    let states: Vec<&str> =
        stat["segments"].as_array().unwrap().iter().map(|segment| segment["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["unsealed", "begun", "placeholder", "sealed", "unreadable", "unreadable"]);
    assert_eq!(stat["rings"][0]["name"], "00000002.ring");
    assert_eq!((stat["quarantine_files"].as_u64(), stat["quarantine_bytes"].as_u64()), (Some(1), Some(100)));
    let text = logtool().arg("stat").arg(dir.path()).run().expect_code(0).text();
    assert!(
        text.contains("ring        00000002.ring  1.0 MiB") && text.contains("quarantine  100 B in 1 file"),
        "{text}"
    );
}

#[test]
fn a_segment_that_retention_removes_meanwhile_is_no_failure() {
    let dir = temp_dir();
    let mut writer = writer(dir.path(), plain());
    for number in 0..3 {
        writer.line(b"line", 0, NOON_NS + number).unwrap();
        writer.roll().unwrap();
    }
    let storage = std::sync::Arc::new(logtool::storage_os::OsStorage::new(dir.path(), 0o640));
    let snapshot = logtool::Snapshot::take(storage).unwrap();
    fs::remove_file(&segments(dir.path())[0]).unwrap();
    let stat = logtool::LogStat::take(&snapshot).unwrap();
    assert_eq!((stat.segments.len(), stat.last_seq), (3, 3));
}
