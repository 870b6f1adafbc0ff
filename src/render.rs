//! The message of an entry as text: the template of its call site with its values in place.
//!
//! - A template is read as `format!` reads it, and the text is byte for byte what `format!` would have made, as far as the
//!   values have the types that they were logged with. [`Value::Text`] is shown as it is: whoever made it has formatted it.
//!   What `format!` has no form for is shown so: `None` as `None`, a moment as RFC 3339 in UTC, a length of time by its
//!   Debug, bytes as ASCII with `\x00` for what is not printable.
//! - Arguments that the template does not use come behind it as ` key=value`; one without a name has its number, ` _0=value`.
//! - The place of an argument that is not there stays as it is in the template: `{id}`.
//! - A template that is no format string is shown as it is, with all arguments behind it.
//! - An entry whose definition is lost is shown as `[call site 7 is lost]` with all arguments behind it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::clock::{NS_PER_SECOND, UtcTime};
use crate::entry::{CallSite, Entry};
use crate::format_value::{push_value, time_text};
use crate::template::{Count, Piece, Spec, Template};
use crate::value::Value;

pub use crate::render_lines::{EntryLines, Render, UtcLines};

/// About the longest message that is made of one entry, in bytes: a template can ask for far more than the entry holds.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Most templates that are kept parsed.
const TEMPLATES_MAX: usize = 4096;

/// What stands at the end of a message that was cut at [`MESSAGE_BYTES_MAX`].
const CUT: &str = " [message cut at 4 MiB]";

/// Makes messages; keeps the templates that it has parsed, at most 4096 at a time.
#[derive(Debug, Default)]
pub struct Renderer {
    /// By the address of the definition, which the second part keeps alive.
    templates: HashMap<usize, (Arc<CallSite>, Option<Template>)>,
}

impl Renderer {
    /// A renderer that has parsed nothing yet.
    pub fn new() -> Renderer {
        Renderer::default()
    }

    /// Appends the message of a structured entry; of a text entry, nothing: its text is its body, any bytes.
    pub fn push_message(&mut self, entry: &Entry<'_>, out: &mut String) {
        if entry.head.site == 0 {
            return;
        }
        let start = out.len();
        let values: Vec<Value<'_>> = entry.values().collect();
        let mut used = Used::default();
        match entry.site {
            None => {
                let _ = write!(out, "[call site {} is lost]", entry.head.site);
            }
            Some(site) => match self.template(site) {
                Some(template) => push_pieces(out, start, template, &values, &mut used),
                None => out.push_str(&site.template),
            },
        }
        push_unused(out, start, entry, &values, &used);
        if out.len() - start > MESSAGE_BYTES_MAX {
            let end = (start..=start + MESSAGE_BYTES_MAX).rev().find(|&at| out.is_char_boundary(at));
            out.truncate(end.unwrap_or(start));
            out.push_str(CUT);
        }
    }

    fn template(&mut self, site: &Arc<CallSite>) -> Option<&Template> {
        if self.templates.len() >= TEMPLATES_MAX {
            self.templates.clear();
        }
        let parsed = self.templates.entry(Arc::as_ptr(site) as usize);
        let (_, template) = parsed.or_insert_with(|| (Arc::clone(site), Template::parse(&site.template, &site.fields)));
        template.as_ref()
    }
}

/// Which arguments the template has shown: a bit each for the first 128.
#[derive(Default)]
struct Used {
    first: u128,
    others: Vec<usize>,
}

impl Used {
    fn set(&mut self, index: usize) {
        if index < 128 {
            self.first |= 1 << index;
        } else if !self.others.contains(&index) && self.others.len() < 4096 {
            self.others.push(index);
        }
    }

    fn has(&self, index: usize) -> bool {
        if index < 128 { self.first & (1 << index) != 0 } else { self.others.contains(&index) }
    }
}

fn push_pieces(out: &mut String, start: usize, template: &Template, values: &[Value<'_>], used: &mut Used) {
    for piece in &template.pieces {
        if out.len() - start > MESSAGE_BYTES_MAX {
            return;
        }
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Argument { index, spec, source } => {
                let Some((index, value)) = index.and_then(|index| Some((index, values.get(index)?))) else {
                    out.push_str(source);
                    continue;
                };
                used.set(index);
                if *spec == Spec::PLAIN {
                    push_value(out, value, spec, 0, None);
                    continue;
                }
                let width = count(spec.width, values, used).unwrap_or(0);
                let precision = count(spec.precision, values, used);
                push_value(out, value, spec, width, precision);
            }
        }
    }
}

/// The number that a width or a precision is. An argument that is no count, or larger than `format!` takes, is none.
fn count(count: Count, values: &[Value<'_>], used: &mut Used) -> Option<usize> {
    let index = match count {
        Count::None => return None,
        Count::Is(number) => return Some(number),
        Count::Argument(index) => index,
    };
    let number = match *values.get(index)? {
        Value::U8(number) => u64::from(number),
        Value::U16(number) => u64::from(number),
        Value::U32(number) => u64::from(number),
        Value::U64(number) => number,
        _ => return None,
    };
    used.set(index);
    usize::try_from(number).ok().filter(|&number| number <= usize::from(u16::MAX))
}

fn push_unused(out: &mut String, start: usize, entry: &Entry<'_>, values: &[Value<'_>], used: &Used) {
    for (index, value) in values.iter().enumerate().filter(|(index, _)| !used.has(*index)) {
        if out.len() - start > MESSAGE_BYTES_MAX {
            return;
        }
        out.push(' ');
        let name = entry.site.and_then(|site| site.fields.get(index)).filter(|name| !name.is_empty());
        match name {
            Some(name) => out.push_str(name),
            None => {
                let _ = write!(out, "_{index}");
            }
        }
        out.push('=');
        push_plain(out, value);
    }
}

/// Appends a value as it stands behind `key=`: text in quotes where it is empty or holds a space, a quote, `=` or a control
/// character.
pub fn push_plain(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Str(text) | Value::Text(text) => push_quoted(out, text),
        Value::Char(value) => push_quoted(out, value.encode_utf8(&mut [0; 4])),
        Value::Bytes(bytes) => push_quoted(out, &bytes.escape_ascii().to_string()),
        Value::Time(ns) => out.push_str(&time_text(*ns)),
        value => push_value(out, value, &Spec::PLAIN, 0, None),
    }
}

/// Appends text, in quotes with the escapes of JSON where it needs them to stand behind `key=`.
pub fn push_quoted(out: &mut String, text: &str) {
    let is_bare = |c: char| c > ' ' && c != '"' && c != '=' && c != '\\' && !c.is_control();
    if !text.is_empty() && text.chars().all(is_bare) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Writes times as `2026-11-30T12:00:00.123456Z`; remembers the second, so that the next one of the same second is cheap.
#[derive(Debug, Default)]
pub struct UtcStamper {
    second: i64,
    /// Empty before the first time.
    text: String,
}

impl UtcStamper {
    /// Appends the time, given in nanoseconds since 1970 UTC, with microseconds.
    pub fn push(&mut self, time_ns: i64, out: &mut Vec<u8>) {
        self.push_digits(time_ns, 6, out);
    }

    /// Appends the time with all nine digits of the second's fraction.
    pub fn push_ns(&mut self, time_ns: i64, out: &mut Vec<u8>) {
        self.push_digits(time_ns, 9, out);
    }

    fn push_digits(&mut self, time_ns: i64, digits: usize, out: &mut Vec<u8>) {
        let second = time_ns.div_euclid(NS_PER_SECOND);
        if second != self.second || self.text.is_empty() {
            self.text = UtcTime::from_ns(time_ns).rfc3339();
            self.text.truncate(self.text.len() - "123456Z".len());
            self.second = second;
        }
        out.extend_from_slice(self.text.as_bytes());
        let mut fraction = [b'0'; 9];
        let mut rest = time_ns.rem_euclid(NS_PER_SECOND);
        for digit in fraction.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&fraction[..digits]);
        out.push(b'Z');
    }
}

/// Appends where a structured entry comes from, each part with a space behind it: `net.http worker-3 src/http.rs:42 `.
pub fn push_origin(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let site = entry.site.map(Arc::as_ref);
    push_word(site.map_or("", |site| &site.category), out);
    match entry.thread {
        Some(name) => push_word(name, out),
        None => push_word(&entry.head.tid.to_string(), out),
    }
    match site.filter(|site| !site.file.is_empty()) {
        Some(site) => {
            out.extend_from_slice(site.file.as_bytes());
            out.push(b':');
            out.extend_from_slice(site.line.to_string().as_bytes());
            out.push(b' ');
        }
        None => push_word("", out),
    }
}

fn push_word(word: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(if word.is_empty() { b"-" } else { word.as_bytes() });
    out.push(b' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Definitions, EntryHead, Level};

    fn message(template: &str, fields: &[&str], values: &[Value<'_>]) -> String {
        let site = CallSite {
            level: Level::Info,
            category: "net.http".into(),
            file: "src/http.rs".into(),
            line: 42,
            template: template.into(),
            fields: fields.iter().map(|field| field.to_string()).collect(),
        };
        let mut definition = Vec::new();
        site.encode(7, &mut definition);
        let mut definitions = Definitions::default();
        assert!(definitions.add_site(&definition));
        line(&definitions, values).0
    }

    /// The message and the whole line.
    fn line(definitions: &Definitions, values: &[Value<'_>]) -> (String, String) {
        let mut payload = Vec::new();
        EntryHead { time_ns: 1_796_040_000_123_456_789, tseq: 1, tid: 3, site: 7 }.encode(&mut payload);
        values.iter().for_each(|value| value.encode(&mut payload));
        let entry = definitions.entry(1, 0, &payload).unwrap();
        let (mut message, mut out) = (String::new(), Vec::new());
        Renderer::new().push_message(&entry, &mut message);
        UtcLines::default().render(&entry, &mut out);
        (message, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_message_is_what_format_makes_of_template_and_arguments() {
        let values = [Value::Str("/a"), Value::U16(200), Value::F64(1.25)];
        assert_eq!(message("GET {path} {} {ms:>7.1}", &["path", "", "ms"], &values), "GET /a /a     1.2 _1=200");
        assert_eq!(message("{1} {path}", &["path", "", "ms"], &values), "200 /a ms=1.25");
        assert_eq!(message("{{}}", &[], &[]), "{}");
    }

    #[test]
    fn arguments_that_the_template_does_not_use_come_behind_it() {
        let values = [Value::U8(1), Value::Str("two words"), Value::Str(""), Value::Bool(true)];
        assert_eq!(message("done", &["a", "b", "", "d"], &values), "done a=1 b=\"two words\" _2=\"\" d=true");
        let many: Vec<Value<'_>> = (0..200u8).map(Value::U8).collect();
        let all = message("{199}", &[], &many);
        assert!(all.starts_with("199 _0=0 _1=1 ") && all.ends_with(" _198=198"), "{all}");
    }

    #[test]
    fn missing_arguments_and_bad_templates_are_shown_as_they_stand() {
        assert_eq!(message("a {} {:>5} {name}", &["x"], &[Value::U8(1)]), "a 1 {:>5} {name}");
        assert_eq!(message("100% {", &["x"], &[Value::U8(1)]), "100% { x=1");
        assert_eq!(message("{:w$}", &["x"], &[Value::U8(1)]), "1");
    }

    #[test]
    fn an_entry_without_its_definition_says_so_and_shows_its_arguments() {
        let (message, line) = line(&Definitions::default(), &[Value::U8(1), Value::Str("x")]);
        assert_eq!(message, "[call site 7 is lost] _0=1 _1=x");
        assert_eq!(line, "2026-11-30T12:00:00.123456Z - - 3 - [call site 7 is lost] _0=1 _1=x");
    }

    #[test]
    fn a_template_that_asks_for_more_than_the_limit_is_cut() {
        let text = "x".repeat(60_000);
        let long = message(&"{0}".repeat(1000), &[""], &[Value::Str(&text)]);
        assert_eq!(long.len(), MESSAGE_BYTES_MAX + CUT.len());
        assert!(long.ends_with(CUT));
        let wide = message(&"{:>65535}".repeat(20_000), &[], &vec![Value::U8(1); 20_000]);
        assert_eq!(wide.len(), MESSAGE_BYTES_MAX + CUT.len());
    }

    #[test]
    fn a_template_is_parsed_once_and_belongs_to_its_definition() {
        let mut renderer = Renderer::new();
        for number in 0..3 * TEMPLATES_MAX {
            let site = Arc::new(CallSite {
                level: Level::Info,
                category: String::new(),
                file: String::new(),
                line: 0,
                template: format!("{number} {{}}"),
                fields: Vec::new(),
            });
            let mut body = Vec::new();
            Value::U8(5).encode(&mut body);
            let head = EntryHead { site: 1, ..EntryHead::default() };
            let entry = Entry { seq: 1, flags: 0, head, site: Some(&site), thread: None, body: &body };
            let mut out = String::new();
            renderer.push_message(&entry, &mut out);
            assert_eq!(out, format!("{number} 5"));
        }
        assert!(renderer.templates.len() <= TEMPLATES_MAX);
    }

    #[test]
    fn utc_stamps_equal_those_made_one_by_one() {
        let mut stamper = UtcStamper::default();
        for ns in [0, 5, -1, 1_796_040_000_123_456_789, 1_796_040_000_999_999_999, i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            stamper.push(ns, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), UtcTime::from_ns(ns).rfc3339());
            let mut out = Vec::new();
            stamper.push_ns(ns, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), time_text(ns));
        }
    }
}
