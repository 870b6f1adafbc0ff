//! Logs that are not as a writer left them: segments that can not be opened, headers and segments missing, old marks.

use std::path::{Path, PathBuf};

use logtool::{Options, Writer};

use crate::harness::{Outcome, Run, temp_dir};
use crate::sample::segments;

/// A log of `count` segments with one line each; the paths of the segments.
fn log_of(dir: &Path, count: u64) -> Vec<PathBuf> {
    let mut writer = Writer::open(dir, Options::new()).unwrap();
    let mut segments = Vec::new();
    for number in 1..=count {
        writer.line(format!("line {number}").as_bytes(), 0, 0).unwrap();
        segments.push(dir.join(writer.active_name()));
        if number < count {
            writer.roll().unwrap();
        }
    }
    writer.close().unwrap();
    segments
}

/// Runs `logtool` so that opening `path` fails; root may open everything, so the kernel is asked to refuse.
fn run_refused(command: &str, dir: &Path, path: &Path) -> Outcome {
    let binary = env!("CARGO_BIN_EXE_logtool");
    let run = Run::new("strace").args(["-f", "-q", "-o", "/dev/null", "-P"]).arg(path);
    let run = run.args(["-e", "trace=openat", "-e", "inject=openat:error=EACCES"]);
    run.args([binary, command]).arg(dir).run()
}

#[test]
fn the_rest_is_read_and_nothing_is_called_lost() {
    for refused in 0..3 {
        let dir = temp_dir();
        let segments = log_of(dir.path(), 3);
        let name = segments[refused].file_name().unwrap().to_str().unwrap().to_owned();
        for command in ["cat", "decompress", "verify", "tail"] {
            let outcome = run_refused(command, dir.path(), &segments[refused]).expect_code(2);
            assert!(outcome.stderr.contains(&name), "{command}: {}", outcome.stderr);
            assert!(!outcome.stderr.contains("missing"), "{command}: {}", outcome.stderr);
            assert!(!outcome.text().contains("LOST"), "{command}: {}", outcome.text());
            run_refused("stat", dir.path(), &segments[refused]).expect_code(2);
            if command != "verify" {
                let expected: Vec<String> =
                    (0..3).filter(|&number| number != refused).map(|number| format!("line {}", number + 1)).collect();
                assert_eq!(outcome.text().lines().collect::<Vec<_>>(), expected, "{command} {refused}");
            }
        }
    }
}

#[test]
fn repair_does_not_touch_a_log_that_it_can_not_see_whole() {
    let dir = temp_dir();
    let segments = log_of(dir.path(), 3);
    let before: Vec<Vec<u8>> = segments.iter().map(|path| std::fs::read(path).unwrap()).collect();
    run_refused("repair", dir.path(), &segments[1]).expect_code(2);
    let after: Vec<Vec<u8>> = segments.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(before == after && std::fs::read_dir(dir.path()).unwrap().count() <= 5);
}

/// A seal that is gone costs no entry, and still the log is not as its writer left it: all commands say so.
#[test]
fn a_seal_that_is_gone_is_told_by_each_command_alike() {
    let dir = temp_dir();
    let segments = log_of(dir.path(), 3);
    let mut walk = logtool::snapshot_of(dir.path()).unwrap().walk(1).unwrap();
    while walk.next_item().unwrap().is_some() {}
    let file = std::fs::OpenOptions::new().write(true).open(&segments[1]).unwrap();
    file.set_len(walk.summary().accepted_end).unwrap();
    for command in ["verify", "cat", "decompress", "tail"] {
        let outcome = crate::harness::logtool().arg(command).arg(dir.path()).run().expect_code(1);
        let told = format!("{}{}", outcome.text(), outcome.stderr);
        assert!(told.contains("seal missing or damaged"), "{command}: {told}");
    }
    crate::harness::logtool().arg("repair").arg(dir.path()).run().expect_code(0);
    for command in ["verify", "cat", "decompress", "tail"] {
        crate::harness::logtool().arg(command).arg(dir.path()).run().expect_code(0);
    }
}

/// The id that the next segment tells belongs to a segment that is missing, not to the one whose header is damaged.
#[test]
fn a_damaged_header_does_not_take_the_id_of_a_missing_segment() {
    let dir = temp_dir();
    let segments = log_of(dir.path(), 4);
    crate::harness::set_bytes(&segments[1], 0, &[b'x'; 1024]);
    std::fs::remove_file(&segments[2]).unwrap();
    let outcome = crate::harness::logtool().arg("verify").arg(dir.path()).run().expect_code(1);
    let text = outcome.text();
    assert!(text.contains("LOST      2 entries, seq 2..3"), "{text}");
    crate::harness::logtool().arg("repair").arg(dir.path()).run().expect_code(0);
    crate::harness::logtool().arg("verify").arg(dir.path()).run().expect_code(0);
}

/// The last block of a segment is damaged and the segments behind it are gone: what is declared over the block must count
/// for the placeholder behind it too.
#[test]
fn a_loss_right_before_a_seal_is_declared_beside_missing_segments() {
    let dir = temp_dir();
    let lines: String = (0..500).map(|number| format!("line {number} of a log\n")).collect();
    let write = ["write", "--compress", "zstd", "--roll-bytes", "4096"];
    for _ in 0..3 {
        crate::harness::logtool().args(write).arg(dir.path()).stdin(lines.clone()).run().expect_code(0);
    }
    let names = segments(dir.path());
    names[1..].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    crate::harness::flip_bit(&names[0], 8 * 1300);
    let verify = || crate::harness::logtool().arg("verify").arg(dir.path()).run();
    let before = verify().expect_code(1).text();
    assert!(before.contains("LOST      500 entries, seq 1..500"), "{before}");
    crate::harness::logtool().arg("repair").arg(dir.path()).run().expect_code(0);
    verify().expect_code(0);
}

/// What retention removed between two rolls stands in a mark, which must not be forgotten with its segment.
#[test]
fn a_retention_mark_outlives_the_runs_behind_it() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), Options::new()).unwrap();
    for number in 0..4 {
        writer.line(format!("line {number}").as_bytes(), 0, 0).unwrap();
        writer.roll().unwrap();
    }
    assert!(writer.remove_oldest().unwrap());
    writer.close().unwrap();
    for _ in 0..3 {
        let mut writer = Writer::open(dir.path(), Options::new()).unwrap();
        writer.line(b"later", 0, 0).unwrap();
        writer.close().unwrap();
        let mut reader = logtool::LogReader::open(dir.path()).unwrap();
        let newest = reader.snapshot().segments.last().unwrap().header.first_seq_kept;
        assert_eq!(newest, 2, "the newest header repeats what the mark says");
        while let Some(item) = reader.next_item().unwrap() {
            assert!(!matches!(item, logtool::Item::Finding(_)), "{item:?}");
        }
    }
}

#[test]
fn a_definition_longer_than_a_frame_costs_no_entry_and_no_panic() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), Options::new()).unwrap();
    let site = logtool::CallSite {
        level: logtool::Level::Info,
        category: String::new(),
        file: String::new(),
        line: 0,
        template: "x".repeat(2 << 20),
        fields: vec![String::new()],
    };
    let site = writer.define(&site);
    writer.name_thread(0, &"n".repeat(2 << 20));
    let head = logtool::entry::EntryHead { site, ..Default::default() };
    writer.entry(&head, &[logtool::value::Value::U8(7)]).unwrap();
    writer.close().unwrap();
    let mut reader = logtool::LogReader::open(dir.path()).unwrap();
    let mut values = 0;
    while let Some(item) = reader.next_item().unwrap() {
        if let logtool::Item::Entry(entry) = item {
            values += entry.values().count();
        }
    }
    assert_eq!(values, 1);
}

/// A gap between sound frames stands where the numbers are missing, not at the end of the log, so `repair` does not declare
/// it there again and again.
#[test]
fn a_gap_between_sound_frames_is_told_at_its_place_and_repair_comes_to_an_end() {
    use logtool::format::{FrameKind, HEADER_BYTES};
    let dir = temp_dir();
    let path = log_of(dir.path(), 1).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let header = logtool::segment::SegmentHeader::decode(bytes.first_chunk().unwrap()).unwrap();
    bytes.truncate(HEADER_BYTES);
    let mut places = Vec::new();
    for seq in [1, 2, 500] {
        let mut payload = Vec::new();
        logtool::entry::EntryHead { tseq: seq, ..Default::default() }.encode(&mut payload);
        let offset = bytes.len() as u64;
        places.push(offset);
        let seed = logtool::frame::Seed::new(header.segment_id);
        logtool::frame::push_frame(&mut bytes, seed, offset, FrameKind::Entry, 0, seq, &payload);
    }
    std::fs::write(&path, &bytes).unwrap();
    std::fs::remove_file(dir.path().join("writer.lock")).unwrap();
    let mut reader = logtool::LogReader::open(dir.path()).unwrap();
    let mut gaps = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let logtool::Item::Finding(finding) = item
            && finding.fault == logtool::Fault::Gap
        {
            gaps.push(finding.place.unwrap().offset);
        }
    }
    assert_eq!(gaps, [places[2]]);
    let repair = || crate::harness::logtool().arg("repair").arg(dir.path()).run();
    repair();
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let before = files();
    repair();
    assert_eq!(files(), before, "a second repair changes nothing");
}

fn verify(dir: &Path, code: i32) -> String {
    crate::harness::logtool().arg("verify").arg(dir).run().expect_code(code).text()
}

fn write(dir: &Path, lines: &str) {
    let run = crate::harness::logtool().args(["write", "--keep-segments", "99"]).arg(dir);
    run.stdin(lines).run().expect_code(0);
}

fn cat(dir: &Path) -> Vec<String> {
    let shown = crate::harness::logtool().arg("cat").arg(dir).run();
    shown.text().lines().map(str::to_owned).collect()
}

fn repair(dir: &Path) {
    crate::harness::logtool().arg("repair").arg(dir).run().expect_code(0);
}

/// A new run does not make known what nothing tells: whether numbers were given out behind the end that is there.
#[test]
fn an_unknown_end_stays_unknown_behind_later_runs_until_repair_declares_it() {
    for is_cut in [true, false] {
        let dir = temp_dir();
        write(dir.path(), "one\ntwo\n");
        let segment = segments(dir.path()).remove(0);
        if is_cut {
            let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
            file.set_len(std::fs::metadata(&segment).unwrap().len() - 8).unwrap();
        }
        std::fs::remove_file(dir.path().join("writer.lock")).unwrap();
        assert!(verify(dir.path(), 1).contains("UNKNOWN   what came after seq 2"), "{is_cut}");
        for line in ["three\n", "four\n"] {
            write(dir.path(), line);
            let told = verify(dir.path(), 1);
            assert!(told.contains("UNKNOWN   what came after seq 2: nothing tells"), "{told}");
        }
        assert_eq!(cat(dir.path()), ["one", "two", "three", "four"]);
        repair(dir.path());
        assert!(verify(dir.path(), 0).contains("declared lost, unknown class"));
        crate::harness::logtool().args(["verify", "--strict"]).arg(dir.path()).run().expect_code(1);
        write(dir.path(), "five\n");
        verify(dir.path(), 0);
        assert_eq!(cat(dir.path()), ["one", "two", "three", "four", "five"]);
    }
}

/// A segment of another log among ours, as its newest: the log goes on as itself.
#[test]
fn a_writer_goes_on_with_its_own_log_beside_a_segment_of_another() {
    for with_record in [true, false] {
        let (dir, other) = (temp_dir(), temp_dir());
        log_of(dir.path(), 3);
        let foreign = log_of(other.path(), 5).remove(4);
        std::fs::copy(&foreign, dir.path().join(foreign.file_name().unwrap())).unwrap();
        if !with_record {
            std::fs::remove_file(dir.path().join("writer.lock")).unwrap();
        }
        let before = cat(dir.path());
        assert_eq!(before.len(), 3);
        write(dir.path(), "new\n");
        assert_eq!(cat(dir.path()), [&before[..], &["new".to_owned()]].concat(), "record: {with_record}");
        assert!(verify(dir.path(), 1).contains("another log"));
    }
}

/// A copy of the newest segment that is cut short, under a later or an equal name: the whole one counts.
#[test]
fn a_writer_goes_on_behind_the_whole_of_two_copies_of_a_segment() {
    for name in ["00000004-20990101T000000Z.flog", "00000003-20990101T000000Z.flog"] {
        let dir = temp_dir();
        let newest = log_of(dir.path(), 3).remove(2);
        let bytes = std::fs::read(&newest).unwrap();
        std::fs::write(dir.path().join(name), &bytes[..1100]).unwrap();
        std::fs::remove_file(dir.path().join("writer.lock")).unwrap();
        write(dir.path(), "new\n");
        assert_eq!(cat(dir.path()), ["line 1", "line 2", "line 3", "new"], "{name}");
    }
}

/// The first sectors of the newest segment are gone, and with them both copies of its header: the record tells its id.
#[test]
fn the_newest_segment_is_read_without_its_header() {
    for is_closed in [true, false] {
        let dir = temp_dir();
        let segments = log_of(dir.path(), 3);
        if !is_closed {
            let mut writer = Writer::open(dir.path(), Options::new()).unwrap();
            writer.line(b"line 4", 0, 0).unwrap();
            writer.flush().unwrap();
            let copy = temp_dir();
            for entry in
                std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file())
            {
                std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
            }
            damage_newest_header(copy.path(), &copy.path().join(writer.active_name()), 4);
        } else {
            damage_newest_header(dir.path(), &segments[2], 3);
        }
    }
}

fn damage_newest_header(dir: &Path, newest: &Path, count: usize) {
    let lines = |count: usize| (1..=count).map(|number| format!("line {number}")).collect::<Vec<_>>();
    crate::harness::set_bytes(newest, 0, &[0; 1024]);
    let told = verify(dir, 1);
    assert!(!told.contains("LOST") && !told.contains("UNKNOWN"), "{told}");
    assert_eq!(cat(dir), lines(count));
    write(dir, &format!("line {}\n", count + 1));
    assert_eq!(cat(dir), lines(count + 1));
    repair(dir);
    verify(dir, 0);
    assert_eq!(cat(dir), lines(count + 1));
}

/// The record of another log: it is no evidence, and the segments stay what they are.
#[test]
fn a_record_of_another_log_is_as_none() {
    for goes_on in [false, true] {
        let (dir, other) = (temp_dir(), temp_dir());
        log_of(dir.path(), 3);
        log_of(other.path(), 2);
        std::fs::copy(other.path().join("writer.lock"), dir.path().join("writer.lock")).unwrap();
        let mut lines: Vec<String> = (1..=3).map(|number| format!("line {number}")).collect();
        assert_eq!(cat(dir.path()), lines);
        let told = verify(dir.path(), 1);
        assert!(told.contains("UNKNOWN   what came after seq 3") && !told.contains("LOST"), "{told}");
        if goes_on {
            write(dir.path(), "line 4\n");
            lines.push("line 4".to_owned());
        }
        repair(dir.path());
        verify(dir.path(), 0);
        assert_eq!(cat(dir.path()), lines);
    }
}

/// What is not the log's own neither counts for its retention nor goes by it.
#[test]
fn retention_leaves_segments_of_another_log_alone() {
    let (dir, other) = (temp_dir(), temp_dir());
    log_of(dir.path(), 3);
    let foreign: Vec<PathBuf> =
        log_of(other.path(), 8)[3..].iter().map(|path| dir.path().join(path.file_name().unwrap())).collect();
    for path in &foreign {
        std::fs::copy(other.path().join(path.file_name().unwrap()), path).unwrap();
    }
    let run = crate::harness::logtool().args(["write", "--keep-segments", "3"]).arg(dir.path());
    run.stdin("line 4\n").run().expect_code(0);
    assert_eq!(cat(dir.path()), ["line 2", "line 3", "line 4"]);
    assert!(foreign.iter().all(|path| path.exists()));
}
