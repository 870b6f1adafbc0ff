//! `logtool decompress`: the bytes that went in, whatever happens to the log and to the output.

use std::fs;
use std::path::Path;

use logtool::format::{FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};

use crate::harness::{Outcome, Run, cut, logtool, on_terminal, temp_dir};
use crate::sample::{NOON_NS, compressed, find_bytes, plain, segments, write_lines, write_requests, writer};

fn decompress(dir: &Path, args: &[&str]) -> Outcome {
    logtool().arg("decompress").args(args).arg(dir).run()
}

#[test]
fn the_bytes_that_went_in_come_out() {
    for options in [plain(), compressed(), plain().roll_bytes(64 << 10), compressed().roll_bytes(64 << 10)] {
        let dir = temp_dir();
        let mut writer = writer(dir.path(), options);
        let mut expected = Vec::new();
        let mut state = 1u64;
        for number in 0..2000usize {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let len = if number % 500 == 0 { 2 << 20 } else { (state >> 33) as usize % 300 };
            let line: Vec<u8> = (0..len).map(|at| (state >> (at % 56)) as u8).filter(|&byte| byte != b'\n').collect();
            writer.line(&line, 0, NOON_NS).unwrap();
            expected.extend_from_slice(&line);
            expected.push(b'\n');
        }
        writer.line(b"unfinished", FLAG_UNFINISHED, NOON_NS).unwrap();
        writer.line(b", finished", FLAG_CONTINUED, NOON_NS).unwrap();
        writer.line(b"at the end", FLAG_UNFINISHED, NOON_NS).unwrap();
        writer.close().unwrap();
        expected.extend_from_slice(b"unfinished, finished\nat the end");
        assert!(decompress(dir.path(), &[]).expect_code(0).stdout == expected);
        let out = dir.path().with_extension("out");
        decompress(dir.path(), &["-o", out.to_str().unwrap()]).expect_code(0);
        assert!(fs::read(&out).unwrap() == expected);
        fs::remove_file(out).unwrap();
    }
}

#[test]
fn structured_entries_are_text_in_utc_whatever_the_zone() {
    let dir = temp_dir();
    write_requests(dir.path(), compressed());
    let text = logtool().env("TZ", "CET-1").arg("decompress").arg(dir.path()).run().expect_code(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "2026-11-30T12:00:00.123456Z INFO net.http worker-3 src/http.rs:42 GET /a 200 ms=1.5 status=200"
    );
    assert_eq!((lines[2], lines.len()), ("plain text", 5));
}

/// FIELD-BUGS zstd#1422, zstd#260, lz4#1193: output over the input, and input gone although the output failed.
#[test]
fn an_output_that_is_an_input_is_refused_and_the_input_kept() {
    let top = temp_dir();
    let log = top.path().join("log");
    write_lines(&log, plain(), [&b"line"[..]]);
    let segment = segments(&log)[0].clone();
    let before = fs::read(&segment).unwrap();
    fs::hard_link(&segment, top.path().join("hard")).unwrap();
    std::os::unix::fs::symlink(&segment, top.path().join("soft")).unwrap();
    std::os::unix::fs::symlink(&log, top.path().join("dir")).unwrap();
    fs::create_dir(log.join("quarantine")).unwrap();
    let segment_name = segment.file_name().unwrap().to_str().unwrap();
    for output in ["hard", "soft", &format!("log/{segment_name}"), "log/new", "dir/new", "log/quarantine/new"] {
        for input in ["log", &format!("log/{segment_name}"), "dir"] {
            let refused = logtool().current_dir(top.path()).args(["decompress", "-f", "-o", output, input]).run();
            // A single segment as input: beside it in its log is allowed only outside of logs that are read.
            if input.ends_with(".flog") && output.ends_with("new") {
                continue;
            }
            let refused = refused.expect_code(2);
            assert!(refused.stderr.contains("read"), "{output} {input}: {}", refused.stderr);
        }
    }
    assert_eq!(fs::read(&segment).unwrap(), before);
}

/// FIELD-BUGS zstd#1422: a full disk while the output is written.
#[test]
fn a_file_is_whole_or_not_there_and_replaced_only_when_told() {
    let top = temp_dir();
    let log = top.path().join("log");
    write_lines(&log, plain(), [&b"new"[..]]);
    let out = top.path().join("out");
    fs::write(&out, "old").unwrap();
    let path = out.to_str().unwrap();
    let refused = decompress(&log, &["-o", path]).expect_code(2);
    assert!(refused.stderr.contains("exists; replace it with -f"), "{}", refused.stderr);
    assert_eq!(fs::read(&out).unwrap(), b"old");
    decompress(&log, &["-f", "-o", path]).expect_code(0);
    assert_eq!(fs::read(&out).unwrap(), b"new\n");

    let line = [b'x'; 1000];
    let large = top.path().join("large");
    write_lines(&large, plain(), (0..3000).map(|_| &line[..]));
    let command = format!(
        "ulimit -f 1024; trap '' XFSZ; exec {} decompress -f -o {path} {}",
        env!("CARGO_BIN_EXE_logtool"),
        large.display()
    );
    let failed = Run::new("bash").args(["-c", &command]).run().expect_code(2);
    assert!(failed.stderr.contains("out"), "{}", failed.stderr);
    assert_eq!(fs::read(&out).unwrap(), b"new\n");
    let names: Vec<_> = fs::read_dir(top.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let full = Run::new("bash")
        .args(["-c", &format!("{} decompress {} >/dev/full", env!("CARGO_BIN_EXE_logtool"), large.display())])
        .run();
    assert!(full.expect_code(2).stderr.contains("No space"));
}

/// FIELD-BUGS ripgrep#3382: nothing was shown of a truncated compressed log.
#[test]
fn everything_before_the_cut_of_a_compressed_segment_comes_out() {
    let dir = temp_dir();
    let mut writer = writer(dir.path(), compressed());
    for block in 0..10 {
        for line in 0..20 {
            writer.line(format!("block {block} line {line}").as_bytes(), 0, NOON_NS).unwrap();
        }
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    let segment = segments(dir.path())[0].clone();
    let len = fs::metadata(&segment).unwrap().len();
    let mut most = 0;
    for keep in (1024..len).step_by(97) {
        let whole = fs::read(&segment).unwrap();
        cut(&segment, keep);
        let outcome = decompress(dir.path(), &[]).expect_code(1);
        let lines = outcome.text().lines().count();
        assert!(
            lines.is_multiple_of(20) && lines >= most && !outcome.stderr.is_empty(),
            "{keep}: {lines} {}",
            outcome.stderr
        );
        most = lines;
        fs::write(&segment, whole).unwrap();
    }
    assert_eq!(most, 200);
}

/// FIELD-BUGS zstd#1109: a stream that was cut at a frame boundary passed as whole.
#[test]
fn frames_missing_at_the_end_of_a_sealed_segment_are_found() {
    for command in ["cat", "tail", "decompress", "verify"] {
        let dir = temp_dir();
        for run in 0..2 {
            let mut writer = writer(dir.path(), plain());
            for line in 0..3 {
                writer.line(format!("run {run} line {line}").as_bytes(), 0, NOON_NS).unwrap();
            }
            writer.close().unwrap();
        }
        let segment = segments(dir.path())[0].clone();
        cut(&segment, find_bytes(&segment, b"run 0 line 2") as u64 - 24 - 24);
        let outcome = logtool().arg(command).arg(dir.path()).run().expect_code(1);
        let said = outcome.text() + &outcome.stderr;
        assert!(said.contains("LOST") && said.contains("seq 3"), "{command}: {said}");
    }
}

#[test]
fn a_line_whose_rest_is_lost_ends_before_the_next() {
    let dir = temp_dir();
    let mut writer = writer(dir.path(), plain());
    writer.line(b"begun", FLAG_MORE, NOON_NS).unwrap();
    writer.line(b"another", 0, NOON_NS).unwrap();
    writer.line(b"begun too", FLAG_MORE, NOON_NS).unwrap();
    writer.close().unwrap();
    assert_eq!(decompress(dir.path(), &[]).expect_code(0).text(), "begun\nanother\nbegun too\n");
}

/// Everything of a log as text in UTC and as JSON, to compare logs by.
fn shown(dir: &Path) -> (Vec<u8>, Vec<u8>) {
    let json = logtool().args(["cat", "--json"]).arg(dir).run().stdout;
    let entries: Vec<&[u8]> =
        json.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"{\"v\":1,\"type\":\"entry\"")).collect();
    (decompress(dir, &[]).stdout, entries.join(&b'\n'))
}

#[test]
fn frames_are_plain_segments_that_verify_as_sound_and_hold_the_same() {
    for options in [plain(), compressed(), plain().roll_bytes(8 << 10), compressed().roll_bytes(8 << 10)] {
        let top = temp_dir();
        let (log, copy) = (top.path().join("log"), top.path().join("copy"));
        write_requests(&log, options.clone());
        write_requests(&log, options.clone());
        let mut writer = writer(&log, options);
        for number in 0..3000 {
            writer.line(format!("line {number}").as_bytes(), 0, NOON_NS + number).unwrap();
            if number % 100 == 0 {
                writer.flush().unwrap();
            }
        }
        writer.line(&vec![b'x'; 3 << 20], 0, NOON_NS).unwrap();
        writer.flush().unwrap();
        drop(writer);
        let done = decompress(&log, &["--frames", "-o", copy.to_str().unwrap()]).expect_code(0);
        assert_eq!((done.text(), done.stderr.as_str()), (String::new(), ""));
        assert!(shown(&copy) == shown(&log));
        let verified = logtool().arg("verify").arg(&copy).run().expect_code(0).text();
        assert!(verified.contains("SOUND"), "{verified}");
        assert_eq!(segments(&copy).len(), segments(&log).len());
        let stat = logtool().args(["stat", "--json"]).arg(&copy).run().expect_code(0).text();
        assert!(stat.contains("\"compressed\":false") && !stat.contains("\"compressed\":true"), "{stat}");
        let again = decompress(&log, &["--frames", "-o", copy.to_str().unwrap()]).expect_code(2);
        assert!(again.stderr.contains("not empty"), "{}", again.stderr);
    }
}

#[test]
fn frames_of_a_damaged_log_declare_what_is_lost() {
    let top = temp_dir();
    let (log, copy) = (top.path().join("log"), top.path().join("copy"));
    for run in 0..4 {
        let mut writer = writer(&log, plain());
        for line in 0..3 {
            writer.line(format!("run {run} line {line}").as_bytes(), 0, NOON_NS).unwrap();
        }
        writer.close().unwrap();
    }
    let files = segments(&log);
    let place = find_bytes(&files[0], b"run 0 line 1");
    crate::harness::flip_bit(&files[0], 8 * place);
    fs::remove_file(&files[2]).unwrap();
    let done = decompress(&log, &["--frames", "-o", copy.to_str().unwrap()]).expect_code(1);
    assert!(done.stderr.contains("seq 2") && done.stderr.contains("seq 7..9"), "{}", done.stderr);
    assert!(shown(&copy) == shown(&log));
    let verified = logtool().arg("verify").arg(&copy).run().expect_code(0).text();
    assert!(verified.contains("declared lost"), "{verified}");
}

/// A log that is looked at must not steer the terminal, whichever command shows it; other outputs get the exact bytes.
#[test]
fn on_a_terminal_what_would_steer_it_is_escaped() {
    let dir = temp_dir();
    let line = b"a\x1b[2Jb \xe2\x80\xae c\xff";
    write_lines(dir.path(), plain(), [&line[..]]);
    let path = dir.path().to_str().unwrap();
    let shown = on_terminal(&["decompress", path]).run().expect_code(0).text();
    assert_eq!(shown, "a\\x1b[2Jb \\u{202e} c\\xff\r\n");
    let exact = decompress(dir.path(), &[]).expect_code(0).stdout;
    assert_eq!(exact, [&line[..], b"\n"].concat());
}

#[test]
fn what_a_killed_run_left_beside_the_file_is_removed_by_the_next_one_and_nothing_else() {
    let top = temp_dir();
    let log = top.path().join("log");
    write_lines(&log, plain(), [&b"line"[..]]);
    let mut dead = Run::new("true").spawn();
    dead.wait().unwrap();
    let (dead, alive) = (dead.id(), std::process::id());
    let part = |name: String| {
        fs::write(top.path().join(&name), "half").unwrap();
        name
    };
    let left = part(format!(".out.txt.{dead}.part"));
    let held_name = part(format!(".out.txt.{}.part", i32::MAX));
    // As by a process of another container, whose pid is none here.
    let held = fs::File::open(top.path().join(&held_name)).unwrap();
    held.lock().unwrap();
    let kept = [
        part(format!(".out.txt.{alive}.part")),
        part(format!(".other.txt.{dead}.part")),
        part(format!(".out.txt.0{dead}.part")),
        part(format!("out.txt.{dead}.part")),
        part(format!(".out.txt.{dead}.part2")),
        part(".out.txt.part".to_string()),
        held_name,
    ];
    logtool().current_dir(top.path()).args(["decompress", "-o", "out.txt", "log"]).run().expect_code(0);
    assert_eq!(fs::read(top.path().join("out.txt")).unwrap(), b"line\n");
    assert!(!top.path().join(left).exists());
    for name in kept {
        assert!(top.path().join(&name).exists(), "{name}");
    }
}

#[test]
fn a_killed_run_leaves_one_part_which_the_next_run_takes_away() {
    let top = temp_dir();
    let log = top.path().join("log");
    write_lines(&log, compressed(), std::iter::repeat_n(&[b'x'; 1000][..], 100_000));
    let parts = || {
        let names = fs::read_dir(top.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.as_encoded_bytes().ends_with(b".part")).count()
    };
    let decompress = || logtool().current_dir(top.path()).args(["decompress", "-f", "-o", "out.txt", "log"]);
    for _ in 0..50 {
        let mut child = decompress().spawn();
        while parts() == 0 && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        if parts() > 0 {
            break;
        }
    }
    assert_eq!(parts(), 1);
    decompress().run().expect_code(0);
    assert_eq!(parts(), 0);
}

/// A full disk: what there was no room for can be tried again with the same name.
#[test]
fn a_copy_that_fails_leaves_its_directory_empty() {
    let Some(disk) = crate::write::SmallDisk::new(64 << 10) else { return };
    let dir = temp_dir();
    let lines = "a line of the log\n".repeat(3000);
    logtool().args(["write", "--keep-segments", "9"]).arg(dir.path()).stdin(lines).run().expect_code(0);
    for args in [["repair", "--output"].as_slice(), &["decompress", "--frames", "-o"]] {
        let to = disk.0.path().join("copy");
        let failed = logtool().args(args).arg(&to).arg(dir.path()).run().expect_code(2);
        assert!(failed.stderr.contains("No space left"), "{}", failed.stderr);
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0, "{args:?}");
    }
}
