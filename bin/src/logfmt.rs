//! Entries as `key=value` pairs, one line an entry:
//! `time=2026-11-30T12:00:00.123456+01:00 seq=7 level=INFO category=net.http thread=worker-3 file=src/http.rs:42
//! msg="GET /a" path=/a status=200`
//!
//! Text is in quotes, with the escapes of JSON, where it is empty or has a space, a quote, a backslash, `=` or a control
//! character. Arguments come last, under their names, or as `_0` without one. Bytes that are no UTF-8 become U+FFFD; the
//! exact ones are in the JSON form.

use std::fmt::Write as _;

use logtool::Entry;
use logtool::render::{push_plain, push_quoted};

use crate::select::Message;
use crate::timestamp::Stamper;

/// Appends an entry, without a newline.
pub(crate) fn push_entry(
    out: &mut Vec<u8>,
    log: Option<&str>,
    entry: &Entry<'_>,
    message: &mut Message,
    stamper: &mut Stamper,
) {
    out.extend_from_slice(b"time=");
    stamper.write(entry.head.time_ns, out);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(text, " seq={}", entry.seq);
    let mut pair = |key: &str, value: &str| {
        text.push(' ');
        text.push_str(key);
        text.push('=');
        push_quoted(&mut text, value);
    };
    if let Some(log) = log {
        pair("log", log);
    }
    if let Some(site) = entry.site {
        pair("level", site.level.as_str());
        pair("category", &site.category);
    }
    if entry.head.site != 0 {
        pair("thread", entry.thread.unwrap_or(&entry.head.tid.to_string()));
    }
    if let Some(site) = entry.site.filter(|site| !site.file.is_empty()) {
        pair("file", &format!("{}:{}", site.file, site.line));
    }
    pair("msg", &String::from_utf8_lossy(message.of(entry)));
    for (index, value) in entry.values().enumerate() {
        text.push(' ');
        match entry.site.and_then(|site| site.fields.get(index)).filter(|name| !name.is_empty()) {
            Some(name) => push_key(&mut text, name),
            None => {
                let _ = write!(text, "_{index}");
            }
        }
        text.push('=');
        push_plain(&mut text, &value);
    }
    out.extend_from_slice(text.as_bytes());
}

/// A name as a key: what would end it becomes `_`.
fn push_key(text: &mut String, name: &str) {
    text.extend(name.chars().map(|c| if c <= ' ' || c == '=' || c == '"' || c.is_control() { '_' } else { c }));
}
