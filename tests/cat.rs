//! `logtool cat`: which entries come out, in which form, and what is said about damage.

use std::fs;
use std::path::Path;

use logtool::entry::EntryHead;
use logtool::format::{FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};
use logtool::value::Value;
use logtool::{Level, Writer};

use crate::harness::{Outcome, flip_bit, logtool, on_terminal, set_bytes, temp_dir};
use crate::sample::{
    NOON_NS, SECOND_NS, compressed, find_bytes, plain, segments, site, write_lines, write_requests, writer,
};

fn cat(dir: &Path, args: &[&str]) -> Outcome {
    logtool().arg("cat").args(args).arg(dir).run()
}

/// The lines that come out, for a log that is sound.
fn lines(dir: &Path, args: &[&str]) -> Vec<String> {
    let outcome = cat(dir, args).expect_code(0);
    assert_eq!(outcome.stderr, "", "{args:?}");
    outcome.text().lines().map(str::to_owned).collect()
}

#[test]
fn piped_text_comes_out_byte_for_byte() {
    let odd: [&[u8]; 7] = [b"plain", b"", b"crlf\r", b"nul\0", b"\xff\xfe", b"\x1b[31mred", "\u{202e}bidi".as_bytes()];
    let expected: Vec<u8> = odd.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect();
    for options in [plain(), compressed()] {
        let dir = temp_dir();
        write_lines(dir.path(), options, odd);
        assert_eq!(cat(dir.path(), &[]).expect_code(0).stdout, expected);
        assert_eq!(cat(dir.path(), &["--format", "raw"]).expect_code(0).stdout, expected);
    }
}

#[test]
fn a_terminal_gets_no_control_characters_from_a_log_whatever_the_form() {
    let dir = temp_dir();
    write_lines(dir.path(), plain(), [&b"\x1b[31mred\x07"[..], b"\xff", "\u{202e}".as_bytes()]);
    let path = dir.path().to_str().unwrap();
    let shown = on_terminal(&["cat", path]).run().expect_code(0).text();
    assert_eq!(shown, "\\x1b[31mred\\x07\r\n\\xff\r\n\\u{202e}\r\n");
    let raw = on_terminal(&["cat", "--format", "raw", path]).run().expect_code(0).text();
    assert_eq!(raw, shown);
    for form in ["json", "logfmt"] {
        let shown = on_terminal(&["cat", "--format", form, path]).run().expect_code(0).text();
        assert!(!shown.contains(['\x1b', '\x07', '\u{202e}']), "{shown:?}");
    }
}

#[test]
fn structured_entries_show_time_level_origin_and_message() {
    for options in [plain(), compressed()] {
        let dir = temp_dir();
        write_requests(dir.path(), options);
        assert_eq!(
            lines(dir.path(), &["--utc"]),
            [
                "2026-11-30T12:00:00.123456Z INFO net.http worker-3 src/http.rs:42 GET /a 200 ms=1.5 status=200",
                "2026-11-30T12:00:01.123456Z WARN net worker-3 src/http.rs:42 slow: 1234.6",
                "plain text",
                "2026-11-30T12:00:03.123456Z ERROR db worker-3 src/http.rs:42 no connection to \"db\\u{1b}[2J\"",
                "2026-11-30T12:00:04.123456Z INFO net.http worker-3 src/http.rs:42 GET /b 500 ms=2.5 status=500",
            ]
        );
        let berlin = logtool().env("TZ", "CET-1").arg("cat").arg(dir.path()).run().expect_code(0).text();
        assert!(berlin.starts_with("2026-11-30T13:00:00.123456+01:00 INFO "), "{berlin}");
        let stamped = lines(dir.path(), &["--timestamps", "--utc"]);
        assert_eq!(stamped[2], "2026-11-30T12:00:02.123456Z plain text");
    }
}

#[test]
fn levels_are_coloured_where_colour_is_wanted() {
    let dir = temp_dir();
    write_requests(dir.path(), plain());
    let colored = logtool().args(["--color", "always", "cat", "--utc"]).arg(dir.path()).run().expect_code(0).text();
    assert!(colored.contains(" \x1b[33mWARN\x1b[0m "), "{colored:?}");
    assert!(colored.contains(" \x1b[31mERROR\x1b[0m "), "{colored:?}");
    assert!(colored.contains("\nplain text\n"), "{colored:?}");
}

#[test]
fn logfmt_is_one_line_of_pairs() {
    let dir = temp_dir();
    write_requests(dir.path(), plain());
    let lines = lines(dir.path(), &["--format", "logfmt", "--utc"]);
    assert_eq!(
        lines[0],
        "time=2026-11-30T12:00:00.123456Z seq=1 level=INFO category=net.http thread=worker-3 file=src/http.rs:42 \
         msg=\"GET /a 200 ms=1.5 status=200\" _0=200 path=/a ms=1.5 status=200"
    );
    assert_eq!(lines[2], "time=2026-11-30T12:00:02.123456Z seq=3 msg=\"plain text\"");
}

#[test]
fn each_filter_takes_what_it_says() {
    for options in [plain(), compressed()] {
        let dir = temp_dir();
        write_requests(dir.path(), options);
        for (args, seqs) in [
            (&["--level", "warn"][..], &[2, 4][..]),
            (&["--level", "INFO"], &[1, 2, 4, 5]),
            (&["--level", "fatal"], &[]),
            (&["--category", "net"], &[1, 2, 5]),
            (&["--category", "net.http"], &[1, 5]),
            (&["--category", "db", "--category", "net.http"], &[1, 4, 5]),
            (&["-g", "get"], &[]),
            (&["-g", "get", "-i"], &[1, 5]),
            (&["-g", "GET", "-v"], &[2, 3, 4]),
            (&["-g", "^plain text$"], &[3]),
            (&["--where", "status>=500"], &[5]),
            (&["--where", "ms>1.5"], &[2, 5]),
            (&["--where", "path~^/[ab]", "--where", "status!=500"], &[1]),
            (&["--seq", "2..4"], &[2, 3, 4]),
            (&["--seq", "5"], &[5]),
            (&["--seq", "9.."], &[]),
            (&["--since", "2026-11-30T12:00:02.123456Z"], &[3, 4, 5]),
            (&["--until", "2026-11-30T12:00:02.123456Z"], &[1, 2, 3]),
            (&["--since", "2026-11-30T12:00:01Z", "--until", "2026-11-30T12:00:03Z", "--level", "warn"], &[2]),
        ] {
            let mut args = args.to_vec();
            args.push("--json");
            let found: Vec<u64> = lines(dir.path(), &args)
                .iter()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
                .filter(|object| object["type"] == "entry")
                .map(|object| object["seq"].as_u64().unwrap())
                .collect();
            assert_eq!(found, seqs, "{args:?}");
        }
    }
}

#[test]
fn several_logs_are_merged_by_time_and_each_keeps_its_order() {
    let top = temp_dir();
    let (shop, pay) = (top.path().join("shop"), top.path().join("pay"));
    let mut writer = writer(&shop, plain());
    for (line, second) in [("s0", 0), ("s2", 2), ("back", 1), ("s4", 4)] {
        writer.line(line.as_bytes(), 0, NOON_NS + second * SECOND_NS).unwrap();
    }
    writer.close().unwrap();
    let mut writer = Writer::open(&pay, plain()).unwrap();
    for (line, second) in [("p0", 0), ("p3", 3), ("p4", 4)] {
        writer.line(line.as_bytes(), 0, NOON_NS + second * SECOND_NS).unwrap();
    }
    writer.close().unwrap();
    let merged = logtool().arg("cat").arg(&shop).arg(&pay).run().expect_code(0).text();
    assert_eq!(merged, "shop: s0\npay: p0\nshop: s2\nshop: back\npay: p3\nshop: s4\npay: p4\n");
    let below = logtool().args(["cat", "-r"]).arg(top.path()).run().expect_code(0).text();
    assert_eq!(below.lines().count(), 7);
    let refused = cat(top.path(), &[]).expect_code(2);
    assert!(refused.stderr.contains("pay") && refused.stderr.contains("shop") && refused.stderr.contains("-r"));
    assert_eq!(refused.text(), "");
}

#[test]
fn parts_of_a_cut_line_come_out_as_one() {
    for options in [plain(), compressed()] {
        let top = temp_dir();
        let (one, other) = (top.path().join("one"), top.path().join("other"));
        let long = vec![b'x'; 3 << 20];
        let mut writer = writer(&one, options);
        writer.line(&long, 0, NOON_NS).unwrap();
        writer.line(b"half", FLAG_UNFINISHED, NOON_NS + 1).unwrap();
        writer.line(b" and half", FLAG_CONTINUED, NOON_NS + 2).unwrap();
        writer.line(b"open", FLAG_UNFINISHED, NOON_NS + 3).unwrap();
        writer.close().unwrap();
        write_lines(&other, plain(), [&b"in between"[..]]);
        let expected = [&long[..], b"\nhalf and half\nopen\n"].concat();
        assert_eq!(cat(&one, &[]).expect_code(0).stdout, expected);
        let found = cat(&one, &["-g", "xx$"]).expect_code(0);
        assert_eq!(found.stdout.len(), long.len() + 1, "a line is judged as a whole");
        let merged = logtool().arg("cat").args([&one, &other]).run().expect_code(0).stdout;
        let merged = String::from_utf8(merged).unwrap();
        let starts: Vec<&str> = merged.lines().map(|line| &line[..line.len().min(14)]).collect();
        assert_eq!(starts, ["one: xxxxxxxxx", "other: in betw", "one: half and ", "one: open"]);
        let json = cat(&one, &["--json"]).expect_code(0).text();
        let first: serde_json::Value = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .find(|object: &serde_json::Value| object["type"] == "entry")
            .unwrap();
        assert_eq!(first["message"].as_str().map(str::len), Some(long.len()));
        assert_eq!(first["more"], serde_json::Value::Null);
    }
}

#[test]
fn a_line_whose_rest_is_lost_does_not_run_into_the_next() {
    let dir = temp_dir();
    let mut writer = writer(dir.path(), plain());
    writer.line(b"begun", FLAG_MORE, NOON_NS).unwrap();
    writer.line(b"another", 0, NOON_NS).unwrap();
    writer.close().unwrap();
    assert_eq!(cat(dir.path(), &[]).expect_code(0).text(), "begun\nanother\n");
    assert_eq!(cat(dir.path(), &["-g", "."]).expect_code(0).text(), "begun\nanother\n");
}

/// FIELD-BUGS systemd#19875, systemd#23794, systemd#38043: a damaged journal was read with exit status 0 and no word, or not
/// to its end.
#[test]
fn what_is_damaged_is_told_and_the_rest_comes_out() {
    for (command, text) in [("cat", "one\nthree\n"), ("tail", "one\nthree\n"), ("decompress", "one\nthree\n")] {
        let dir = temp_dir();
        write_lines(dir.path(), plain(), [&b"one"[..], b"two", b"three"]);
        let segment = &segments(dir.path())[0];
        flip_bit(segment, 8 * find_bytes(segment, b"two"));
        let outcome = logtool().arg(command).arg(dir.path()).run().expect_code(1);
        assert_eq!(outcome.text(), text);
        assert!(outcome.stderr.contains("LOST 1 entry, seq 2 (corruption): payload checksum"), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    }
}

/// FIELD-BUGS systemd#24938: a clock that jumps broke the order.
#[test]
fn a_clock_that_jumps_back_changes_no_order_and_is_no_finding() {
    let dir = temp_dir();
    let hour = 3600 * SECOND_NS;
    let mut expected = String::new();
    for (run, start) in [(0, NOON_NS), (1, NOON_NS - hour)] {
        let mut writer = writer(dir.path(), plain());
        for number in 0..6 {
            let time = if number < 3 { start } else { start - hour } + number;
            let line = format!("run {run} line {number}");
            writer.line(line.as_bytes(), 0, time).unwrap();
            expected += &format!("{line}\n");
        }
        writer.close().unwrap();
    }
    let outcome = cat(dir.path(), &[]).expect_code(0);
    assert_eq!((outcome.text(), outcome.stderr.as_str()), (expected, ""));
    assert_eq!(lines(dir.path(), &["--since", "2026-11-30T12:00:00Z"]).len(), 3);
    assert_eq!(lines(dir.path(), &["--until", "2026-11-30T10:30:00Z"]).len(), 3);
}

#[test]
fn an_entry_whose_definition_is_damaged_shows_its_arguments() {
    let dir = temp_dir();
    let mut writer = writer(dir.path(), plain());
    let id = writer.define(&site(Level::Info, "net", "GET {path}", &["path"]));
    let head = EntryHead { time_ns: NOON_NS, tseq: 0, tid: 0, site: id };
    writer.entry(&head, &[Value::Str("/a")]).unwrap();
    writer.close().unwrap();
    let segment = &segments(dir.path())[0];
    flip_bit(segment, 8 * find_bytes(segment, b"GET {path}"));
    let outcome = cat(dir.path(), &["--utc"]).expect_code(1);
    assert_eq!(outcome.text(), "2026-11-30T12:00:00.123456Z - - 0 - [call site 1 is lost] _0=/a\n");
}

#[test]
fn what_is_no_segment_is_named_and_the_rest_is_read() {
    let make = || {
        let dir = temp_dir();
        for line in [&b"one"[..], b"two", b"three"] {
            write_lines(dir.path(), plain(), [line]);
        }
        assert_eq!(segments(dir.path()).len(), 3);
        dir
    };
    let dir = make();
    let segment = segments(dir.path())[1].clone();
    fs::remove_file(&segment).unwrap();
    fs::create_dir(&segment).unwrap();
    let outcome = cat(dir.path(), &[]).expect_code(1);
    assert_eq!(outcome.text(), "one\nthree\n");
    assert!(outcome.stderr.contains("not a regular file"), "{}", outcome.stderr);

    let dir = make();
    let segment = segments(dir.path())[1].clone();
    fs::remove_file(&segment).unwrap();
    nix::unistd::mkfifo(&segment, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(cat(dir.path(), &[]).expect_code(1).text(), "one\nthree\n");

    let dir = make();
    let segment = segments(dir.path())[1].clone();
    fs::remove_file(&segment).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &segment).unwrap();
    assert_eq!(cat(dir.path(), &[]).expect_code(1).text(), "one\nthree\n");

    let dir = make();
    let segment = segments(dir.path())[1].clone();
    set_bytes(&segment, 0, &[b'#'; 1024]);
    let outcome = cat(dir.path(), &[]).expect_code(1);
    assert!(outcome.text().contains("one\n") && outcome.text().contains("three\n"), "{}", outcome.text());
}

#[test]
fn paths_that_hold_no_log_are_told_and_the_others_are_read() {
    let top = temp_dir();
    write_lines(&top.path().join("log"), plain(), [&b"here"[..]]);
    fs::write(top.path().join("x.gz"), b"\x1f\x8b\x08").unwrap();
    let outcome = logtool().current_dir(top.path()).args(["cat", "x.gz", "log", "nothing"]).run().expect_code(2);
    assert_eq!(outcome.text(), "log: here\n");
    assert!(outcome.stderr.contains("x.gz: is gzip"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("nothing: cannot open"), "{}", outcome.stderr);
    let segment = segments(&top.path().join("log"))[0].clone();
    assert_eq!(logtool().arg("cat").arg(segment).run().expect_code(0).text(), "here\n");
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let dir = temp_dir();
    let line = [b'x'; 1000];
    write_lines(dir.path(), plain(), (0..1000).map(|_| &line[..]));
    for command in ["cat", "decompress", "tail -n 1000"] {
        let script = format!(
            "{} {command} {} | head -n 1; exit ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_logtool"),
            dir.path().display()
        );
        let outcome = crate::harness::Run::new("bash").args(["-c", &script]).run().expect_code(0);
        assert_eq!((outcome.stdout.len(), outcome.stderr.as_str()), (1001, ""));
    }
}

#[test]
fn local_times_at_the_change_of_the_clocks_take_in_what_was_logged_under_that_time() {
    let dir = temp_dir();
    let mut log = writer(dir.path(), plain());
    // In Berlin, clocks go from 02:00 to 03:00 on 2026-03-29 at 01:00 UTC, and from 03:00 to 02:00 on 2026-10-25 at 01:00 UTC.
    let spring_ns = 1_774_746_000 * SECOND_NS;
    let autumn_ns = 1_792_890_000 * SECOND_NS;
    for (name, time_ns) in [
        ("01:59 +1", spring_ns - 60 * SECOND_NS),
        ("03:01 +2", spring_ns + 60 * SECOND_NS),
        ("02:30 +2", autumn_ns - 1800 * SECOND_NS),
        ("02:31 +2", autumn_ns - 1740 * SECOND_NS),
        ("02:30 +1", autumn_ns + 1800 * SECOND_NS),
        ("02:31 +1", autumn_ns + 1860 * SECOND_NS),
    ] {
        log.line(name.as_bytes(), 0, time_ns).unwrap();
    }
    log.close().unwrap();
    let shown = |args: &[&str]| {
        let outcome = logtool().env("TZ", "Europe/Berlin").arg("cat").args(args).arg(dir.path()).run().expect_code(0);
        outcome.text().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown(&["--since", "2026-03-29 02:30", "--until", "2026-03-29 04:00"]), ["03:01 +2"]);
    assert_eq!(shown(&["--until", "2026-03-29 02:30"]), ["01:59 +1"]);
    assert_eq!(shown(&["--since", "2026-10-25 02:30"]), ["02:30 +2", "02:31 +2", "02:30 +1", "02:31 +1"]);
    assert_eq!(
        shown(&["--since", "2026-10-25 00:00", "--until", "2026-10-25 02:30"]),
        ["02:30 +2", "02:31 +2", "02:30 +1"]
    );
}
