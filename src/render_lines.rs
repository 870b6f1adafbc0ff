//! Text forms of whole entries: the usual one, and those of a program's own.

use crate::entry::Entry;
use crate::render::{Renderer, UtcStamper, push_origin};

/// Longest entry that is put together from its parts, in bytes; of a longer one the arguments at its end are not shown.
const ENTRY_BYTES_MAX: usize = 8 << 20;

/// A text form of entries: what a [mirror](crate::LoggerBuilder::mirror_render) shows, and [`EntryLines`] make of a log.
///
/// ```
/// use logtool::render::{EntryLines, Render, Renderer};
/// use logtool::{Entry, Item, LogReader, Logger, warn};
///
/// /// `WARN disk is 91 % full`
/// #[derive(Default)]
/// struct Short {
///     renderer: Renderer,
///     message: String,
/// }
///
/// impl Render for Short {
///     fn render(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
///         self.message.clear();
///         self.renderer.push_message(entry, &mut self.message);
///         let level = entry.level().map_or("-", |level| level.as_str());
///         out.extend_from_slice(format!("{level} {}", self.message).as_bytes());
///     }
/// }
///
/// # let dir = std::env::temp_dir().join(format!("logtool-doc-render-{}", std::process::id()));
/// let log = Logger::builder(&dir).open()?;
/// warn!(logger: log, "disk is {} % full", 91);
/// log.close(std::time::Duration::from_secs(5))?;
///
/// let (mut lines, mut text) = (EntryLines::new(Short::default()), Vec::new());
/// let mut reader = LogReader::open(&dir)?;
/// while let Some(item) = reader.next_item()? {
///     if let Item::Entry(entry) = item {
///         lines.push(&entry, &mut text);
///     }
/// }
/// assert_eq!(text, b"WARN disk is 91 % full\n");
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), logtool::Error>(())
/// ```
pub trait Render {
    /// Appends the text of an entry, without a newline at its end.
    ///
    /// Values may hold anything: what goes to a terminal or is read line by line is to be [escaped](crate::escape::escape).
    fn render(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>);
}

/// The usual form, in UTC and the same on every machine: `2026-11-30T12:00:00.123456Z INFO net.http worker-3 src/http.rs:42
/// message`. What is not known is `-`. Of a text entry it is the text.
#[derive(Debug, Default)]
pub struct UtcLines {
    renderer: Renderer,
    stamper: UtcStamper,
    message: String,
}

impl Render for UtcLines {
    fn render(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        if let Some(text) = entry.text() {
            out.extend_from_slice(text);
            return;
        }
        self.stamper.push(entry.head.time_ns, out);
        out.push(b' ');
        out.extend_from_slice(entry.level().map_or("-", crate::entry::Level::as_str).as_bytes());
        out.push(b' ');
        push_origin(entry, out);
        self.message.clear();
        self.renderer.push_message(entry, &mut self.message);
        out.extend_from_slice(self.message.as_bytes());
    }
}

/// Makes lines of a log's entries, in their order; those that were cut into parts are put together again.
#[derive(Debug, Default)]
pub struct EntryLines<R> {
    form: R,
    /// Parts whose rest is still to come, and the number of the next part.
    parts: Vec<u8>,
    next_seq: u64,
}

impl<R: Render> EntryLines<R> {
    /// Lines of this form.
    pub fn new(form: R) -> EntryLines<R> {
        EntryLines { form, parts: Vec::new(), next_seq: 0 }
    }

    /// Appends the line of an entry, with its newline; of a part, nothing before its last.
    pub fn push(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let goes_on = entry.is_continued() && entry.seq == self.next_seq;
        if !entry.has_more() && !goes_on {
            self.form.render(entry, out);
            out.push(b'\n');
            return;
        }
        if !goes_on {
            self.parts.clear();
        }
        if self.parts.len() + entry.body.len() <= ENTRY_BYTES_MAX {
            self.parts.extend_from_slice(entry.body);
        }
        self.next_seq = entry.seq + 1;
        if !entry.has_more() {
            self.form.render(&Entry { body: &self.parts, ..entry.clone() }, out);
            out.push(b'\n');
            self.forget_parts();
        }
    }

    /// Takes note that no more parts come: what follows is another log.
    pub fn forget_parts(&mut self) {
        self.parts = Vec::new();
        self.next_seq = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryHead;
    use crate::format::{FLAG_CONTINUED, FLAG_MORE};
    use crate::value::Value;

    /// Of a structured entry without its definition.
    fn part(seq: u64, flags: u8, body: &[u8]) -> Entry<'_> {
        Entry { seq, flags, head: EntryHead { site: 1, ..EntryHead::default() }, site: None, thread: None, body }
    }

    #[test]
    fn parts_are_one_line_and_those_of_another_entry_are_not_mixed_in() {
        let mut body = Vec::new();
        Value::Str("a text in three parts").encode(&mut body);
        let (first, rest) = body.split_at(5);
        let (second, third) = rest.split_at(5);
        let (mut lines, mut out) = (EntryLines::new(UtcLines::default()), Vec::new());
        // One whose end is missing, then a whole one in parts.
        lines.push(&part(1, FLAG_MORE, first), &mut out);
        lines.push(&part(3, FLAG_MORE, first), &mut out);
        lines.push(&part(4, FLAG_MORE | FLAG_CONTINUED, second), &mut out);
        assert!(out.is_empty());
        lines.push(&part(5, FLAG_CONTINUED, third), &mut out);
        lines.push(&part(6, 0, &body), &mut out);
        let text = String::from_utf8(out).unwrap();
        let message = "1970-01-01T00:00:00.000000Z - - 0 - [call site 1 is lost] _0=\"a text in three parts\"\n";
        assert_eq!(text, message.repeat(2));
    }

    #[test]
    fn a_text_entry_is_its_text() {
        let entry = Entry { head: EntryHead::default(), ..part(1, 0, b"any \xff bytes") };
        let mut out = Vec::new();
        EntryLines::new(UtcLines::default()).push(&entry, &mut out);
        assert_eq!(out, b"any \xff bytes\n");
    }
}
