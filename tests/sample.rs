//! Logs for the tests of reading, made by the library's writer, and their damage.

use std::fs;
use std::path::{Path, PathBuf};

use logtool::entry::EntryHead;
use logtool::value::Value;
use logtool::writer::Writer;
use logtool::{CallSite, Compression, Level, Options, SyncPolicy};

/// 2026-11-30T12:00:00.123456789Z
pub(crate) const NOON_NS: i64 = 1_796_040_000_123_456_789;

/// A second in nanoseconds.
pub(crate) const SECOND_NS: i64 = 1_000_000_000;

/// Options without syncs, for speed.
pub(crate) fn plain() -> Options {
    Options::new().sync(SyncPolicy::Never)
}

/// The same with compression.
pub(crate) fn compressed() -> Options {
    plain().compression(Compression::Zstd(1))
}

/// A writer of a log at `dir`.
pub(crate) fn writer(dir: &Path, options: Options) -> Writer {
    Writer::open(dir, options).unwrap()
}

/// Writes lines without their newlines, a millisecond apart from noon on, and closes the log.
pub(crate) fn write_lines<'a>(dir: &Path, options: Options, lines: impl IntoIterator<Item = &'a [u8]>) {
    let mut writer = writer(dir, options);
    for (number, line) in lines.into_iter().enumerate() {
        writer.line(line, 0, NOON_NS + number as i64 * 1_000_000).unwrap();
    }
    writer.close().unwrap();
}

/// Segment files of a log, in order.
pub(crate) fn segments(dir: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<PathBuf> = names.filter(|path| path.extension().is_some_and(|end| end == "flog")).collect();
    segments.sort();
    segments
}

/// Where `needle` stands in a file, once.
pub(crate) fn find_bytes(path: &Path, needle: &[u8]) -> usize {
    let content = fs::read(path).unwrap();
    content.windows(needle.len()).position(|window| window == needle).unwrap()
}

/// A call site of `src/http.rs` with this template.
pub(crate) fn site(level: Level, category: &str, template: &str, fields: &[&str]) -> CallSite {
    CallSite {
        level,
        category: category.into(),
        file: "src/http.rs".into(),
        line: 42,
        template: template.into(),
        fields: fields.iter().map(|field| field.to_string()).collect(),
    }
}

/// Requests of a web server: three levels, two categories, one a second from noon on; some text between them.
pub(crate) fn write_requests(dir: &Path, options: Options) {
    let mut writer = writer(dir, options);
    let request = writer.define(&site(Level::Info, "net.http", "GET {path} {}", &["", "path", "ms", "status"]));
    let slow = writer.define(&site(Level::Warn, "net", "slow: {ms:.1}", &["ms"]));
    let failed = writer.define(&site(Level::Error, "db", "no connection to {host:?}", &["host"]));
    writer.name_thread(3, "worker-3");
    let head = |number: i64, site: u32| EntryHead { time_ns: NOON_NS + number * SECOND_NS, tseq: 0, tid: 3, site };
    let values = [Value::U16(200), Value::Str("/a"), Value::F64(1.5), Value::U16(200)];
    writer.entry(&head(0, request), &values).unwrap();
    writer.entry(&head(1, slow), &[Value::F64(1234.56)]).unwrap();
    writer.line(b"plain text", 0, NOON_NS + 2 * SECOND_NS).unwrap();
    writer.entry(&head(3, failed), &[Value::Str("db\x1b[2J")]).unwrap();
    let values = [Value::U16(500), Value::Str("/b"), Value::F64(2.5), Value::U16(500)];
    writer.entry(&head(4, request), &values).unwrap();
    writer.close().unwrap();
}
