//! The JSON form: what comes out is what `src/json.md` specifies, and every value survives in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use logtool::control::{DropMarker, DropReason};
use logtool::entry::EntryHead;
use logtool::format::{FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};
use logtool::value::Value;
use logtool::{Level, Retention};
use serde_json::Value as Json;

use crate::harness::{flip_bit, logtool, repository, temp_dir};
use crate::sample::{NOON_NS, find_bytes, plain, segments, site, write_lines, writer};

/// The objects that a command writes, whatever its exit status.
fn objects(args: &[&str], paths: &[&Path]) -> Vec<Json> {
    let outcome = logtool().args(args).args(paths).run();
    outcome
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn entries(dir: &Path) -> Vec<Json> {
    objects(&["cat", "--json"], &[dir]).into_iter().filter(|object| object["type"] == "entry").collect()
}

/// All kinds of values, and how each must come out: type, value, and the string of large integers.
fn values() -> Vec<(Value<'static>, &'static str, Json, Option<&'static str>)> {
    use serde_json::json;
    vec![
        (Value::None, "none", Json::Null, None),
        (Value::Bool(true), "bool", json!(true), None),
        (Value::Char('"'), "char", json!("\""), None),
        (Value::I8(-8), "i8", json!(-8), None),
        (Value::I16(-16), "i16", json!(-16), None),
        (Value::I32(-32), "i32", json!(-32), None),
        (Value::I64(i64::MIN), "i64", json!(i64::MIN), Some("-9223372036854775808")),
        (Value::I64(1 << 53), "i64", json!(1i64 << 53), None),
        (Value::I64(-(1 << 53) - 1), "i64", json!(-(1i64 << 53) - 1), Some("-9007199254740993")),
        (Value::I128(-5), "i128", json!(-5), None),
        (Value::U8(8), "u8", json!(8), None),
        (Value::U16(16), "u16", json!(16), None),
        (Value::U32(32), "u32", json!(32), None),
        (Value::U64(u64::MAX), "u64", json!(u64::MAX), Some("18446744073709551615")),
        (Value::U128(0), "u128", json!(0), None),
        (Value::F32(0.5), "f32", json!(0.5), None),
        (Value::F64(1e300), "f64", json!(1e300), None),
        (Value::F64(-0.0), "f64", json!(-0.0), None),
        (Value::F64(f64::NAN), "f64", json!("NaN"), None),
        (Value::F64(f64::INFINITY), "f64", json!("inf"), None),
        (Value::F32(f32::NEG_INFINITY), "f32", json!("-inf"), None),
        (
            Value::Str("gr\u{fc}n\n\u{1}\u{7f}\u{9b}\u{202e}\\"),
            "string",
            json!("gr\u{fc}n\n\u{1}\u{7f}\u{9b}\u{202e}\\"),
            None,
        ),
        (Value::Bytes(b"\x00\xff\xfe"), "bytes", json!("AP/+"), None),
        (Value::Pointer(0x7ffe), "pointer", json!("0x7ffe"), None),
        (Value::Duration(1, 5), "duration_ns", json!(1_000_000_005), None),
        (Value::Duration(10_000_000, 0), "duration_ns", json!(10_000_000_000_000_000u64), Some("10000000000000000")),
        (Value::Time(NOON_NS), "time", json!("2026-11-30T12:00:00.123456789Z"), None),
        (Value::Text("made"), "text", json!("made"), None),
    ]
}

#[test]
fn every_value_keeps_its_type_and_its_exact_value() {
    let dir = temp_dir();
    let mut writer = writer(dir.path(), plain());
    let id = writer.define(&site(Level::Fatal, "a.b", "all", &["first", "", "first"]));
    let head = EntryHead { time_ns: NOON_NS, tseq: 0, tid: 3, site: id };
    let values = values();
    let stored: Vec<Value<'_>> = values.iter().map(|(value, ..)| *value).collect();
    writer.entry(&head, &stored).unwrap();
    writer.entry(&head, &[Value::U128(u128::MAX)]).unwrap();
    writer.close().unwrap();
    let entries = entries(dir.path());
    let fields = entries[0]["fields"].as_object().unwrap();
    assert_eq!(fields.len(), values.len());
    for (index, (_, kind, value, string)) in values.iter().enumerate() {
        let name = match index {
            0 => "first".to_string(),
            2 => "first#2".to_string(),
            index => format!("_{index}"),
        };
        let field = &fields[&name];
        assert_eq!(field["type"], *kind, "{name}");
        assert_eq!(field["value"], *value, "{name} {kind}");
        assert_eq!(field["string"], string.map_or(Json::Null, Json::from), "{name} {kind}");
    }
    let large = &entries[1]["fields"]["first"];
    assert_eq!(large["string"], u128::MAX.to_string());
    assert_eq!(entries[0]["level"], "FATAL");
}

#[test]
fn text_is_exact_and_bytes_that_are_no_text_are_base64() {
    let dir = temp_dir();
    write_lines(dir.path(), plain(), [&b"tab\t\"quote\" \\ \x1b"[..], b"\xff\x00\xfe", b""]);
    let entries = entries(dir.path());
    assert_eq!(entries[0]["message"], "tab\t\"quote\" \\ \x1b");
    assert_eq!((&entries[1]["message_base64"], &entries[1]["message"]), (&Json::from("/wD+"), &Json::Null));
    assert_eq!(entries[2]["message"], "");
    assert_eq!(entries[0]["seq_string"], Json::Null);
}

#[test]
fn parts_of_a_line_over_the_limit_say_that_they_belong_together() {
    let dir = temp_dir();
    let long = vec![b'x'; 20 << 20];
    let mut writer = writer(dir.path(), plain());
    writer.line(&long, 0, NOON_NS).unwrap();
    writer.line(b"open", FLAG_UNFINISHED, NOON_NS).unwrap();
    writer.close().unwrap();
    let entries = entries(dir.path());
    let flags: Vec<(bool, bool, bool)> = entries
        .iter()
        .map(|entry| (entry["continued"] == true, entry["more"] == true, entry["unfinished"] == true))
        .collect();
    assert_eq!(flags, [(false, true, false), (true, true, false), (true, false, false), (false, false, true)]);
    let whole: usize = entries[..3].iter().map(|entry| entry["message"].as_str().unwrap().len()).sum();
    assert_eq!(whole, long.len());
}

/// The fields that `json.md` lists for a type, from the first table of its section.
fn specified(kind: &str) -> BTreeSet<String> {
    let document = fs::read_to_string(repository().join("src/json.md")).unwrap();
    let section = document.split("\n## ").find(|section| section.starts_with(&format!("`{kind}`"))).unwrap();
    let rows =
        section.lines().skip_while(|line| !line.starts_with("| field ")).take_while(|line| line.starts_with('|'));
    let names = rows.skip(2).map(|row| row.split('`').nth(1).unwrap().to_string());
    names.collect()
}

#[test]
fn what_comes_out_is_what_the_specification_lists() {
    let top = temp_dir();
    let dir = top.path().join("log");
    let retention = Retention { keep_segments: Some(2), ..Retention::default() };
    let mut log = writer(&dir, plain().retention(retention));
    let id = log.define(&site(Level::Info, "net", "lost {}", &["x"]));
    log.name_thread(3, "worker-3");
    log.line(b"removed", 0, NOON_NS).unwrap();
    log.roll().unwrap();
    log.line(b"first", 0, NOON_NS).unwrap();
    log.line(b"\xff", FLAG_MORE, NOON_NS).unwrap();
    log.line(b"damaged", 0, NOON_NS).unwrap();
    log.line(b"rest", FLAG_CONTINUED, NOON_NS).unwrap();
    log.line(b"open", FLAG_UNFINISHED, NOON_NS).unwrap();
    let head = EntryHead { time_ns: NOON_NS, tseq: 0, tid: 3, site: id };
    log.entry(&head, &[Value::U8(1)]).unwrap();
    let marker = DropMarker { count: 2, time_ns: NOON_NS, tseq: 9, tid: 3, reason: DropReason::RingFull, level: 3 };
    log.drop_entries(&marker).unwrap();
    log.roll().unwrap();
    log.entry(&head, &[Value::U8(1)]).unwrap();
    log.flush().unwrap();
    let files = segments(&dir);
    flip_bit(&files[0], 8 * find_bytes(&files[0], b"damaged"));
    flip_bit(&files[1], 8 * find_bytes(&files[1], b"lost {}"));
    let other = top.path().join("other");
    write_lines(&other, plain(), [&b"line"[..]]);
    let mut all = objects(&["cat", "--json"], &[&dir, &other]);
    all.extend(objects(&["stat", "--json"], &[&dir, &other]));
    all.extend(objects(&["verify", "--json"], &[&dir, &other]));
    drop(log);
    all.extend(objects(&["cat", "--json"], &[&files[1], &other]));
    all.extend(objects(&["verify", "--json"], &[&files[1]]));

    // What these logs do not have: numbers above 2^53, losses declared by `repair`, frames of later versions.
    let rare = ["seq_string", "unknown_after_string", "class", "count", "rule", "unknown_after", "ended_without_close"];
    for kind in ["entry", "finding", "note", "stat", "verify"] {
        let listed = specified(kind);
        let seen: BTreeSet<String> = all
            .iter()
            .filter(|object| object["type"] == kind)
            .flat_map(|object| object.as_object().unwrap().keys().cloned())
            .collect();
        let unlisted: Vec<_> = seen.difference(&listed).collect();
        assert!(unlisted.is_empty(), "{kind}: not in json.md: {unlisted:?}");
        // Only the note of a log that took another's place while it was followed has the log's id.
        let is_rare = |name: &str| rare.contains(&name) || (kind, name) == ("note", "log_id");
        let unseen: Vec<_> = listed.difference(&seen).filter(|name| !is_rare(name)).collect();
        assert!(unseen.is_empty(), "{kind}: in json.md and never seen: {unseen:?}");
    }
    assert!(all.iter().all(|object| object["v"] == logtool::json::VERSION));
}

#[test]
fn the_example_of_the_specification_is_real() {
    let dir = temp_dir();
    let mut writer = writer(dir.path(), plain());
    let id = writer.define(&site(Level::Info, "net.http", "GET {path} {1}", &["path", ""]));
    writer.name_thread(3, "worker-3");
    for _ in 0..6 {
        writer.line(b"", 0, NOON_NS).unwrap();
    }
    let head = EntryHead { time_ns: NOON_NS, tseq: 0, tid: 3, site: id };
    writer.entry(&head, &[Value::Str("/a"), Value::U16(200)]).unwrap();
    writer.close().unwrap();
    let text = logtool().args(["cat", "--json", "--seq", "7"]).arg(dir.path()).run().expect_code(0).text();
    let line = text.lines().find(|line| line.contains("\"entry\"")).unwrap();
    let document = fs::read_to_string(repository().join("src/json.md")).unwrap();
    assert!(document.contains(line), "{line}");
}
