//! `logtool verify` and `logtool repair` as people see them: text, exit codes, what is refused.

use std::fs;
use std::path::Path;

use logtool::Writer;
use logtool::control::{DropMarker, DropReason};

use crate::harness::{cut, flip_bit, logtool, temp_dir};
use crate::sample::{NOON_NS, SECOND_NS, find_bytes, plain, segments, write_lines};

/// Two segments; a line is lost in the first, and a thread has dropped entries.
fn damaged(dir: &Path) {
    let mut writer = Writer::open(dir, plain()).unwrap();
    for number in 0..4i64 {
        writer.line(format!("line {number}").as_bytes(), 0, NOON_NS + number * SECOND_NS).unwrap();
    }
    writer.name_thread(3, "worker-3");
    let marker = DropMarker { count: 1116, time_ns: NOON_NS, tseq: 1, tid: 3, reason: DropReason::RingFull, level: 3 };
    writer.drop_entries(&marker).unwrap();
    writer.roll().unwrap();
    writer.line(b"line 4", 0, NOON_NS + 4 * SECOND_NS).unwrap();
    writer.close().unwrap();
    let first = &segments(dir)[0];
    flip_bit(first, find_bytes(first, b"line 2") * 8);
}

/// What stands for parts that differ from run to run.
fn masked(text: &str, dir: &Path) -> String {
    let mut text = text.replace(&dir.display().to_string(), "DIR");
    for (number, path) in segments(dir).iter().enumerate() {
        let name = path.file_name().unwrap().to_str().unwrap();
        text = text.replace(name, &format!("SEGMENT{}", number + 1));
    }
    let id = text.find("log ").map(|at| text[at + 4..at + 12].to_string()).unwrap_or_default();
    let text = text.replace(&id, "7f3a91c2");
    let Some(at) = text.find(" in ").filter(|_| text.contains("Checked")) else { return text };
    let checked = text.find("Checked").unwrap();
    format!("{}{}", &text[..checked.min(at)], text[checked..].split_once('\n').unwrap().1)
}

#[test]
fn verify_tells_each_loss_with_its_place_and_times_and_says_what_to_do_next() {
    let dir = temp_dir();
    damaged(dir.path());
    let outcome = logtool().arg("verify").arg(dir.path()).run().expect_code(1);
    let text = masked(&outcome.text(), dir.path());
    let offset = text.split("at byte ").nth(1).unwrap().split('\n').next().unwrap().to_string();
    let size = text.split("(2 sealed)   ").nth(1).unwrap().split('\n').next().unwrap().to_string();
    let expected = format!(
        "DIR  log 7f3a91c2  no writer
  segments  2 (2 sealed)   {size}
  entries   4    seq 1..1,121
  time      2026-11-30 12:00:00 .. 2026-11-30 12:00:04 +00:00
  note      1,116 dropped, ring full: worker-3 INFO, seq 5..1,120
  LOST      1 entry, seq 3: payload checksum
            SEGMENT1 at byte {offset}
            between 12:00:01.123 and 12:00:03.123
NOT SOUND: 1 entry lost to damage. next: logtool repair --dry-run DIR
"
    );
    assert_eq!(text, expected);
    assert_eq!(outcome.stderr, "");
}

#[test]
fn repair_shows_its_plan_does_it_and_leaves_a_log_that_is_sound_but_for_strict() {
    let dir = temp_dir();
    damaged(dir.path());
    let before: Vec<Vec<u8>> = segments(dir.path()).iter().map(|path| fs::read(path).unwrap()).collect();
    let plan = logtool().args(["repair", "--dry-run"]).arg(dir.path()).run().expect_code(1).text();
    assert!(plan.contains("LOST      1 entry, seq 3: payload checksum"), "{plan}");
    assert!(plan.contains("declare over 56 bytes: seq 3 (1 lost, corruption)"), "{plan}");
    assert!(plan.contains("PLAN: 1 step. Nothing was changed."), "{plan}");
    let after: Vec<Vec<u8>> = segments(dir.path()).iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(before == after && !dir.path().join("quarantine").exists(), "a dry run changed something");

    let done = logtool().arg("repair").arg(dir.path()).run().expect_code(0).text();
    assert!(
        done.contains("REPAIRED: 1 step taken. The log is sound: nothing is missing but 1 entry declared lost."),
        "{done}"
    );
    let text = logtool().arg("verify").arg(dir.path()).run().expect_code(0).text();
    assert!(text.contains("note      1 entry declared lost, corruption: seq 3\n"), "{text}");
    logtool().args(["verify", "--strict"]).arg(dir.path()).run().expect_code(1);
    logtool().args(["repair", "--strict"]).arg(dir.path()).run().expect_code(1);
    logtool().args(["repair", "--dry-run"]).arg(dir.path()).run().expect_code(0);
    logtool().args(["repair", "--dry-run", "--strict"]).arg(dir.path()).run().expect_code(1);
    let again = logtool().arg("repair").arg(dir.path()).run().expect_code(0).text();
    assert!(again.contains("NOTHING TO REPAIR."), "{again}");
    let lines = logtool().arg("cat").arg(dir.path()).run().text();
    assert_eq!(lines, "line 0\nline 1\nline 3\nline 4\n");
}

#[test]
fn a_quiet_verify_says_nothing_but_its_exit_code() {
    let dir = temp_dir();
    damaged(dir.path());
    let outcome = logtool().args(["verify", "-q"]).arg(dir.path()).run().expect_code(1);
    assert_eq!((outcome.text().as_str(), outcome.stderr.as_str()), ("", ""));
}

#[test]
fn a_log_that_is_being_written_verifies_as_sound_and_is_not_repaired() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), plain()).unwrap();
    writer.line(b"one", 0, NOON_NS).unwrap();
    writer.flush().unwrap();
    let text = logtool().arg("verify").arg(dir.path()).run().expect_code(0).text();
    let pid = std::process::id();
    assert!(text.contains(&format!("writer pid {pid} alive, checked up to seq 1\n")), "{text}");
    assert!(text.contains("1 (0 sealed, 1 active)"), "{text}");
    for args in [&["repair"][..], &["repair", "--dry-run"]] {
        let refused = logtool().args(args).arg(dir.path()).run().expect_code(2);
        assert!(
            refused.stderr.contains(&format!("process {pid} is writing this log: stop it first")),
            "{}",
            refused.stderr
        );
    }
    writer.close().unwrap();
}

#[test]
fn a_clean_copy_goes_into_a_new_directory_and_the_log_stays_as_it_is() {
    let (dir, target) = (temp_dir(), temp_dir());
    damaged(dir.path());
    let copy = target.path().join("clean");
    let before = fs::read(&segments(dir.path())[0]).unwrap();
    let text = logtool().arg("repair").arg("--output").arg(&copy).arg(dir.path()).run().expect_code(0).text();
    assert!(text.contains("COPIED to"), "{text}");
    assert!(fs::read(&segments(dir.path())[0]).unwrap() == before);
    assert!(!copy.join("quarantine").exists());
    logtool().arg("verify").arg(&copy).run().expect_code(0);
    logtool().arg("verify").arg(dir.path()).run().expect_code(1);
    let again = logtool().arg("repair").arg("--output").arg(&copy).arg(dir.path()).run().expect_code(2);
    assert!(again.stderr.contains("not empty: name a new directory for the copy"), "{}", again.stderr);
}

#[test]
fn several_logs_and_what_is_no_log_are_told_apart() {
    let dir = temp_dir();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    write_lines(&one, plain(), [&b"a"[..], b"b"]);
    write_lines(&two, plain(), [&b"c"[..]]);
    cut(&segments(&two)[0], fs::metadata(&segments(&two)[0]).unwrap().len() - 4);
    logtool().arg("verify").arg(dir.path()).run().expect_code(2);
    let text = logtool().args(["verify", "-r"]).arg(dir.path()).run().expect_code(1).text();
    assert!(text.contains("\nSOUND: nothing is missing or altered."), "{text}");
    assert!(text.contains("NOT SOUND: 1 finding, no entry lost."), "{text}");
    let file = dir.path().join("note.txt");
    fs::write(&file, "hello\n").unwrap();
    let outcome = logtool().arg("verify").arg(&file).arg(&one).run().expect_code(2);
    assert!(outcome.text().contains("SOUND"), "the others are verified all the same");
}
