//! `logtool tail` without following: the last entries, of one log and of several.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use logtool::format::FLAG_UNFINISHED;
use logtool::{LogReader, Writer};

use crate::harness::{logtool, temp_dir};
use crate::sample::{NOON_NS, SECOND_NS, compressed, plain, write_requests};

fn tail(dir: &Path, args: &[&str]) -> Vec<String> {
    let outcome = logtool().arg("tail").args(args).arg(dir).run().expect_code(0);
    assert_eq!(outcome.stderr, "");
    outcome.text().lines().map(str::to_owned).collect()
}

/// Lines 1 to `count` in segments of `roll_bytes`; every fifth is marked, and 200 bytes longer.
fn numbered(dir: &Path, options: logtool::Options, count: usize) -> Vec<String> {
    let lines: Vec<String> =
        (1..=count)
            .map(|number| {
                if number % 5 == 0 { format!("{number} marked {}", "x".repeat(200)) } else { format!("{number} line") }
            })
            .collect();
    let mut writer = Writer::open(dir, options).unwrap();
    for (number, line) in lines.iter().enumerate() {
        writer.line(line.as_bytes(), 0, NOON_NS + number as i64 * SECOND_NS).unwrap();
        if number % 100 == 99 {
            writer.flush().unwrap();
        }
    }
    writer.close().unwrap();
    lines
}

#[test]
fn the_last_lines_come_out_whatever_their_number() {
    for options in [plain(), compressed(), plain().roll_bytes(16 << 10), compressed().roll_bytes(16 << 10)] {
        let dir = temp_dir();
        let lines = numbered(dir.path(), options, 3000);
        assert_eq!(tail(dir.path(), &[]), lines[2990..]);
        for count in [0, 1, 2, 99, 100, 101, 1000, 2999, 3000, 5000] {
            let expected = &lines[lines.len().saturating_sub(count)..];
            assert_eq!(tail(dir.path(), &["-n", &count.to_string()]), expected, "-n {count}");
        }
        for first in [1, 2, 100, 2999, 3000, 3001] {
            assert_eq!(tail(dir.path(), &["-n", &format!("+{first}")]), lines[first - 1..], "-n +{first}");
        }
    }
}

#[test]
fn the_last_lines_that_match_are_looked_for_as_far_back_as_needed() {
    for options in [plain(), compressed().roll_bytes(16 << 10)] {
        let dir = temp_dir();
        let lines = numbered(dir.path(), options, 3000);
        let marked: Vec<&String> = lines.iter().filter(|line| line.contains("marked")).collect();
        assert_eq!(
            tail(dir.path(), &["-n", "3", "-g", "marked"]),
            marked[597..].iter().map(|line| line.to_string()).collect::<Vec<_>>()
        );
        assert_eq!(tail(dir.path(), &["-n", "1", "-g", "^7 "]), ["7 line"]);
        assert_eq!(tail(dir.path(), &["-n", "+600", "-g", "marked"]), [marked[599].as_str()]);
        assert_eq!(tail(dir.path(), &["-n", "2", "--seq", "..500"]), lines[498..500]);
        assert_eq!(tail(dir.path(), &["-n", "2", "--until", "2026-11-30T12:00:01Z"]), lines[..1]);
    }
}

#[test]
fn the_last_lines_of_several_logs_are_the_latest_of_all() {
    let top = temp_dir();
    for (name, seconds) in [("old", 0..50), ("new", 40..60)] {
        let mut writer = Writer::open(top.path().join(name), plain()).unwrap();
        for second in seconds {
            writer.line(second.to_string().as_bytes(), 0, NOON_NS + second * SECOND_NS).unwrap();
        }
        writer.close().unwrap();
    }
    let outcome = logtool().args(["tail", "-r", "-n", "12"]).arg(top.path()).run().expect_code(0);
    let expected = "new: 48\nold: 48\nnew: 49\nold: 49\nnew: 50\nnew: 51\nnew: 52\nnew: 53\nnew: 54\nnew: 55\nnew: 56\nnew: 57\nnew: 58\nnew: 59\n";
    let expected: Vec<&str> = expected.lines().skip(2).collect();
    assert_eq!(outcome.text().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_cut_line_counts_once_and_is_never_begun_in_its_middle() {
    for options in [plain(), compressed()] {
        let dir = temp_dir();
        let long = "x".repeat(5 << 20);
        let mut writer = Writer::open(dir.path(), options).unwrap();
        for line in ["first", &long, "last"] {
            writer.line(line.as_bytes(), 0, NOON_NS).unwrap();
        }
        writer.line(b"open", FLAG_UNFINISHED, NOON_NS).unwrap();
        writer.close().unwrap();
        assert_eq!(tail(dir.path(), &["-n", "2"]), ["last", "open"]);
        assert_eq!(tail(dir.path(), &["-n", "3"]), [&long, "last", "open"]);
        assert_eq!(tail(dir.path(), &["-n", "4"]).len(), 4);
    }
}

#[test]
fn structured_entries_have_their_definitions_wherever_reading_starts() {
    for options in [plain(), compressed()] {
        let dir = temp_dir();
        write_requests(dir.path(), options);
        let last = tail(dir.path(), &["-n", "1", "--utc"]);
        assert_eq!(
            last,
            ["2026-11-30T12:00:04.123456Z INFO net.http worker-3 src/http.rs:42 GET /b 500 ms=2.5 status=500"]
        );
        assert_eq!(tail(dir.path(), &["-n", "1", "--level", "error", "--utc"]).len(), 1);
    }
}

/// Segments that retention removes while tail looks for the end: it looks again, and shows what it has counted.
#[test]
fn the_end_of_a_log_is_shown_while_retention_removes_what_is_looked_at() {
    let dir = temp_dir();
    let args = ["write", "--sync", "never", "--roll-bytes", "16KiB", "--keep-segments", "4"];
    let mut child = logtool().args(args).arg(dir.path()).spawn();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        // Until the pipe breaks. The log holds what comes in some 20 ms.
        while stdin.write_all("a line of the log that is shown\n".repeat(100).as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    while !logtool::is_log_dir(dir.path()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    while LogReader::open(dir.path()).unwrap().snapshot().segments.len() < 4 {
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..60 {
        let shown = logtool().args(["tail", "-n", "50"]).arg(dir.path()).run().expect_code(0).text();
        assert_eq!(shown.lines().count(), 50);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    feeder.join().unwrap();
}
