//! Entries, findings and notes as JSON objects, one a line; `src/json.md` of the library specifies them.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logtool::finding::Place;
use logtool::format::{FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};
use logtool::render::UtcStamper;
use logtool::value::Value;
use logtool::{Entry, Finding, Loss, Note, NoteKind, SeqRange};

use crate::escape::is_unsafe;
use crate::select::Message;
use crate::source::Told;
use crate::told;

use logtool::json::VERSION;

/// Integers above this are not exact in readers that hold numbers as 64-bit floats.
const EXACT_MAX: u128 = 1 << 53;

/// Writes objects; keeps what makes the next one cheaper.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    stamper: UtcStamper,
}

impl Writer {
    /// Appends an entry and a newline.
    pub(crate) fn push_entry(
        &mut self,
        out: &mut Vec<u8>,
        log: Option<&str>,
        entry: &Entry<'_>,
        message: &mut Message,
    ) {
        push_start(out, "entry", log);
        push_seq(out, "seq", entry.seq);
        out.extend_from_slice(b",\"time\":\"");
        self.stamper.push_ns(entry.head.time_ns, out);
        out.push(b'"');
        if entry.head.site != 0 {
            push_number(out, "tid", entry.head.tid.into());
        }
        if let Some(thread) = entry.thread {
            push_text(out, "thread", thread);
        }
        if let Some(site) = entry.site {
            push_text(out, "level", site.level.as_str());
            push_text(out, "category", &site.category);
            push_text(out, "file", &site.file);
            push_number(out, "line", site.line.into());
        } else if entry.head.site != 0 {
            push_true(out, "definition_lost");
        }
        match entry.text() {
            Some(text) => match std::str::from_utf8(text) {
                Ok(text) => push_text(out, "message", text),
                Err(_) => push_base64(out, "message_base64", text),
            },
            None => {
                push_text(out, "message", message.of_structured(entry));
                push_fields(out, entry, &mut self.stamper);
            }
        }
        for (flag, name) in [(FLAG_MORE, "more"), (FLAG_CONTINUED, "continued"), (FLAG_UNFINISHED, "unfinished")] {
            if entry.flags & flag != 0 {
                push_true(out, name);
            }
        }
        out.extend_from_slice(b"}\n");
    }

    /// Appends a finding or a note and a newline.
    pub(crate) fn push_told(&mut self, out: &mut Vec<u8>, log: Option<&str>, told: &Told) {
        match told {
            Told::Finding(finding) => self.push_finding(out, log, finding),
            Told::Note(note) => push_note(out, log, note),
        }
        out.push(b'\n');
    }

    /// Appends a finding, without a newline.
    pub(crate) fn push_finding(&mut self, out: &mut Vec<u8>, log: Option<&str>, finding: &Finding) {
        push_start(out, "finding", log);
        push_text(out, "fault", &finding.fault.to_string());
        push_text(out, "class", finding.class.as_str());
        match finding.loss {
            Loss::Nothing => {}
            Loss::Seqs(seqs) => push_seqs(out, "lost", seqs),
            Loss::UnknownAfter(seq) => push_seq(out, "unknown_after", seq),
        }
        push_place(out, finding.place.as_ref());
        for (name, time) in [("time_before", finding.time_before_ns), ("time_after", finding.time_after_ns)] {
            if let Some(time_ns) = time {
                self.push_time(out, name, time_ns);
            }
        }
        out.push(b'}');
    }

    /// Appends a time in UTC: `,"time_before":"2026-11-30T12:00:00.000000000Z"`.
    pub(crate) fn push_time(&mut self, out: &mut Vec<u8>, name: &str, time_ns: i64) {
        push_key(out, name);
        out.push(b'"');
        self.stamper.push_ns(time_ns, out);
        out.push(b'"');
    }
}

/// Appends a note, without a newline.
pub(crate) fn push_note(out: &mut Vec<u8>, log: Option<&str>, note: &Note) {
    push_start(out, "note", log);
    let (kind, seqs) = match &note.kind {
        NoteKind::Retention { seqs, .. } => ("retention", Some(*seqs)),
        NoteKind::Dropped { seqs, .. } => ("dropped", Some(*seqs)),
        NoteKind::DeclaredLoss { seqs, .. } => ("declared_loss", Some(*seqs)),
        NoteKind::Void { seqs } => ("void", Some(*seqs)),
        NoteKind::AccountedTail => ("accounted_tail", None),
        NoteKind::EndedWithoutClose => ("ended_without_close", None),
        NoteKind::Recovered { .. } => ("recovered", None),
        NoteKind::Run { .. } => ("run", None),
        NoteKind::Unborn => ("unborn", None),
        NoteKind::OtherLog { .. } => ("other_log", None),
        NoteKind::UnknownFrames { .. } => ("unknown_frames", None),
        _ => ("unknown", None),
    };
    push_text(out, "note", kind);
    if let Some(seqs) = seqs {
        push_seqs(out, "seqs", seqs);
    }
    match &note.kind {
        NoteKind::Dropped { marker, thread, .. } => {
            push_text(out, "reason", marker.reason.as_str());
            if let Some(thread) = thread {
                push_text(out, "thread", thread);
            }
        }
        NoteKind::DeclaredLoss { class, .. } => push_text(out, "class", class.as_str()),
        NoteKind::Retention { rule: Some(rule), .. } => push_text(out, "rule", rule.as_str()),
        NoteKind::Run { last_end } => push_text(out, "last_end", last_end.as_str()),
        NoteKind::UnknownFrames { count } | NoteKind::Recovered { entries: count } => push_number(out, "count", *count),
        NoteKind::OtherLog { log_id } => push_text(out, "log_id", &format!("{log_id:016x}")),
        _ => {}
    }
    push_place(out, note.place.as_ref());
    push_text(out, "text", &told::note_text(note));
    out.push(b'}');
}

/// The arguments, each with its type: `"fields":{"status":{"type":"u16","value":200}}`.
fn push_fields(out: &mut Vec<u8>, entry: &Entry<'_>, stamper: &mut UtcStamper) {
    push_key(out, "fields");
    out.push(b'{');
    let names = entry.site.map_or(&[][..], |site| site.fields.as_slice());
    for (index, value) in entry.values().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let name = names.get(index).filter(|name| !name.is_empty());
        match name {
            // An object has each key once.
            Some(name) if !names[..index].contains(name) => push_string(out, name),
            Some(name) => push_string(out, &format!("{name}#{index}")),
            None => push_string(out, &format!("_{index}")),
        }
        out.push(b':');
        push_value(out, &value, stamper);
    }
    out.push(b'}');
}

fn push_value(out: &mut Vec<u8>, value: &Value<'_>, stamper: &mut UtcStamper) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(type_name(value).as_bytes());
    out.extend_from_slice(b"\",\"value\":");
    match *value {
        Value::None => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Value::Char(value) => push_string(out, value.encode_utf8(&mut [0; 4])),
        Value::I8(number) => push_integer(out, number < 0, number.unsigned_abs().into()),
        Value::I16(number) => push_integer(out, number < 0, number.unsigned_abs().into()),
        Value::I32(number) => push_integer(out, number < 0, number.unsigned_abs().into()),
        Value::I64(number) => push_integer(out, number < 0, number.unsigned_abs().into()),
        Value::I128(number) => push_integer(out, number < 0, number.unsigned_abs()),
        Value::U8(number) => push_integer(out, false, number.into()),
        Value::U16(number) => push_integer(out, false, number.into()),
        Value::U32(number) => push_integer(out, false, number.into()),
        Value::U64(number) => push_integer(out, false, number.into()),
        Value::U128(number) => push_integer(out, false, number),
        Value::F32(number) if number.is_finite() => {
            let _ = write!(out, "{number:?}");
        }
        Value::F64(number) if number.is_finite() => {
            let _ = write!(out, "{number:?}");
        }
        Value::F32(number) => push_string(out, &number.to_string()),
        Value::F64(number) => push_string(out, &number.to_string()),
        Value::Str(text) | Value::Text(text) => push_string(out, text),
        Value::Bytes(bytes) => push_string(out, &STANDARD.encode(bytes)),
        Value::Pointer(address) => push_string(out, &format!("{address:#x}")),
        Value::Duration(seconds, nanoseconds) => {
            push_integer(out, false, u128::from(seconds) * 1_000_000_000 + u128::from(nanoseconds));
        }
        Value::Time(time_ns) => {
            out.push(b'"');
            stamper.push_ns(time_ns, out);
            out.push(b'"');
        }
        _ => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
}

/// The type of a value, as `json.md` lists them.
fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::None => "none",
        Value::Bool(_) => "bool",
        Value::Char(_) => "char",
        Value::I8(_) => "i8",
        Value::I16(_) => "i16",
        Value::I32(_) => "i32",
        Value::I64(_) => "i64",
        Value::I128(_) => "i128",
        Value::U8(_) => "u8",
        Value::U16(_) => "u16",
        Value::U32(_) => "u32",
        Value::U64(_) => "u64",
        Value::U128(_) => "u128",
        Value::F32(_) => "f32",
        Value::F64(_) => "f64",
        Value::Str(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Pointer(_) => "pointer",
        Value::Duration(..) => "duration_ns",
        Value::Time(_) => "time",
        Value::Text(_) => "text",
        _ => "unknown",
    }
}

pub(crate) fn push_start(out: &mut Vec<u8>, kind: &str, log: Option<&str>) {
    let _ = write!(out, "{{\"v\":{VERSION},\"type\":\"{kind}\"");
    if let Some(log) = log {
        push_text(out, "log", log);
    }
}

/// `,"name":`
pub(crate) fn push_key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

pub(crate) fn push_true(out: &mut Vec<u8>, name: &str) {
    push_key(out, name);
    out.extend_from_slice(b"true");
}

pub(crate) fn push_text(out: &mut Vec<u8>, name: &str, text: &str) {
    push_key(out, name);
    push_string(out, text);
}

fn push_base64(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    push_key(out, name);
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

pub(crate) fn push_number(out: &mut Vec<u8>, name: &str, number: u64) {
    push_key(out, name);
    push_digits(out, number.into());
}

/// A sequence number; above 2^53 also as a string: `"seq":7`.
pub(crate) fn push_seq(out: &mut Vec<u8>, name: &str, seq: u64) {
    push_number(out, name, seq);
    if u128::from(seq) > EXACT_MAX {
        let _ = write!(out, ",\"{name}_string\":\"{seq}\"");
    }
}

pub(crate) fn push_seqs(out: &mut Vec<u8>, name: &str, seqs: SeqRange) {
    push_key(out, name);
    out.extend_from_slice(b"{\"count\":");
    push_digits(out, seqs.count().into());
    push_seq(out, "first", seqs.first);
    push_seq(out, "last", seqs.last);
    out.push(b'}');
}

fn push_place(out: &mut Vec<u8>, place: Option<&Place>) {
    if let Some(place) = place {
        push_text(out, "segment", &place.segment);
        push_number(out, "offset", place.offset);
        push_number(out, "length", place.len);
    }
}

/// An integer as the value of a field; above 2^53 with a string behind it.
fn push_integer(out: &mut Vec<u8>, is_negative: bool, magnitude: u128) {
    let digits = |out: &mut Vec<u8>| {
        if is_negative {
            out.push(b'-');
        }
        push_digits(out, magnitude);
    };
    digits(out);
    if magnitude > EXACT_MAX {
        push_key(out, "string");
        out.push(b'"');
        digits(out);
        out.push(b'"');
    }
}

fn push_digits(out: &mut Vec<u8>, mut number: u128) {
    let mut digits = [0u8; 39];
    let mut at = digits.len();
    // Most numbers are small, and division of 128 bits is slow.
    while number > u128::from(u64::MAX) {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let mut number = number as u64;
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A JSON string. Escaped are also the characters that [`escape`](crate::escape::escape) keeps from terminals, so that JSON
/// may go to one.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if text.as_bytes().iter().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
    } else {
        for c in text.chars() {
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                c if is_unsafe(c) => {
                    // All of them are in the basic plane.
                    let _ = write!(out, "\\u{:04x}", u32::from(c));
                }
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
    out.push(b'"');
}
