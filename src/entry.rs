//! Entries, and the definitions that they refer to: call sites and threads.
//!
//! An entry's payload is `[time_ns i64 | tseq u64 | tid u32 | site u32 | body]`. With site 0 the body is the text itself,
//! any bytes; otherwise it is the typed arguments of that call site.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::bytes::{Fields, push_counted, push_varint};
use crate::format::{ENTRY_HEAD_BYTES, FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};
use crate::value::Values;

/// How serious an entry is, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Each step.
    Trace = 1,
    /// For those who debug.
    Debug = 2,
    /// What happens.
    Info = 3,
    /// Something to look at.
    Warn = 4,
    /// Something failed.
    Error = 5,
    /// The program cannot go on.
    Fatal = 6,
}

impl Level {
    /// All levels, from the least serious on.
    pub const ALL: [Level; 6] = [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error, Level::Fatal];

    /// The level with this number.
    pub fn from_u8(number: u8) -> Option<Level> {
        Level::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }

    /// In capital letters: `INFO`.
    pub fn as_str(self) -> &'static str {
        ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"][self as usize - 1]
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that names no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no level of this name: use trace, debug, info, warn, error or fatal")
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        Level::ALL.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(text)).ok_or(UnknownLevel)
    }
}

/// What stands in front of an entry's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryHead {
    /// When it was logged, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Number of the entry within its thread and run, from 1 on.
    pub tseq: u64,
    /// The logging thread, as numbered within the run; 0 for the only one.
    pub tid: u32,
    /// Call site that defines the body, or 0: the body is text.
    pub site: u32,
}

impl EntryHead {
    /// Appends the stored form, [`ENTRY_HEAD_BYTES`] long.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut bytes = [0u8; ENTRY_HEAD_BYTES];
        self.encode_to(&mut bytes);
        out.extend_from_slice(&bytes);
    }

    /// Writes the stored form.
    #[inline]
    pub fn encode_to(&self, bytes: &mut [u8; ENTRY_HEAD_BYTES]) {
        bytes[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.tseq.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.tid.to_le_bytes());
        bytes[20..].copy_from_slice(&self.site.to_le_bytes());
    }

    /// Splits an entry's payload into head and body; `None` if it is too short.
    #[inline]
    pub fn decode(payload: &[u8]) -> Option<(EntryHead, &[u8])> {
        let (head, body) = payload.split_first_chunk::<ENTRY_HEAD_BYTES>()?;
        let mut fields = Fields::new(head);
        let (time_ns, tseq, tid, site) = (fields.i64()?, fields.u64()?, fields.u32()?, fields.u32()?);
        Some((EntryHead { time_ns, tseq, tid, site }, body))
    }
}

/// One entry as a reader gives it.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Its sequence number in the log.
    pub seq: u64,
    /// Flags: [`FLAG_MORE`], [`FLAG_CONTINUED`], [`FLAG_UNFINISHED`].
    pub flags: u8,
    /// Time, thread and call site.
    pub head: EntryHead,
    /// The definition of the call site; `None` for text, or where the definition is lost.
    pub site: Option<&'a Arc<CallSite>>,
    /// The name of the thread, where one was given.
    pub thread: Option<&'a str>,
    /// Text, or the stored arguments.
    pub body: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The body as text made by the caller, where it is that.
    pub fn text(&self) -> Option<&'a [u8]> {
        (self.head.site == 0).then_some(self.body)
    }

    /// The typed arguments; none for text.
    pub fn values(&self) -> Values<'a> {
        Values::new(if self.head.site == 0 { &[] } else { self.body })
    }

    /// Level of the call site, where there is one.
    pub fn level(&self) -> Option<Level> {
        self.site.map(|site| site.level)
    }

    /// Whether the entry goes on in the next sequence number.
    pub fn has_more(&self) -> bool {
        self.flags & FLAG_MORE != 0
    }

    /// Whether this is not the first part of an entry that was cut.
    pub fn is_continued(&self) -> bool {
        self.flags & FLAG_CONTINUED != 0
    }

    /// Whether a newline belongs behind this text: not in the middle of a cut line, nor where the line had none.
    pub fn ends_line(&self) -> bool {
        self.flags & (FLAG_MORE | FLAG_UNFINISHED) == 0
    }
}

/// What all entries of one call site share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallSite {
    /// Level of its entries.
    pub level: Level,
    /// Category, hierarchical with dots: `net.http`.
    pub category: String,
    /// Source file.
    pub file: String,
    /// Line in the source file; 0 if unknown.
    pub line: u32,
    /// Format string, in the syntax of `format!`.
    pub template: String,
    /// Name of each argument; empty for one without a name.
    pub fields: Vec<String>,
}

impl CallSite {
    /// Appends the payload of a call-site frame that defines `id`.
    pub fn encode(&self, id: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&self.line.to_le_bytes());
        out.push(self.level as u8);
        push_counted(out, self.category.as_bytes());
        push_counted(out, self.file.as_bytes());
        push_counted(out, self.template.as_bytes());
        push_varint(out, self.fields.len() as u64);
        self.fields.iter().for_each(|field| push_counted(out, field.as_bytes()));
    }

    /// Reads the payload of a call-site frame: its id and the definition.
    pub(crate) fn decode(payload: &[u8]) -> Option<(u32, CallSite)> {
        let mut fields = Fields::new(payload);
        let (id, line, level) = (fields.u32()?, fields.u32()?, Level::from_u8(fields.u8()?)?);
        let (category, file) = (string(&mut fields)?, string(&mut fields)?);
        let template = string(&mut fields)?;
        let count = fields.varint()?;
        let names = (0..count).map(|_| string(&mut fields)).collect::<Option<Vec<String>>>()?;
        Some((id, CallSite { level, category, file, line, template, fields: names }))
    }
}

fn string(fields: &mut Fields<'_>) -> Option<String> {
    Some(std::str::from_utf8(fields.counted()?).ok()?.to_owned())
}

/// Most memory that the definitions of one segment may take, in bytes: a program with 30,000 call sites needs about half of
/// it. Those beyond are not kept, and their entries are shown with their raw arguments.
const DEFINITIONS_BYTES_MAX: usize = 16 << 20;

/// What a definition takes besides its strings: its place in the table, and the structures that hold the strings.
const DEFINITION_OVERHEAD_BYTES: usize = 256;

/// The definitions that a segment has given so far, bounded in what they take.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    sites: HashMap<u32, Arc<CallSite>>,
    threads: HashMap<u32, String>,
    /// About what they take; those that were defined twice count twice.
    bytes: usize,
}

impl Definitions {
    /// The call site with this id.
    pub fn site(&self, id: u32) -> Option<&Arc<CallSite>> {
        self.sites.get(&id)
    }

    /// The name of the thread with this id.
    pub fn thread(&self, tid: u32) -> Option<&str> {
        self.threads.get(&tid).map(String::as_str)
    }

    /// Whether there is room for a definition whose strings take `bytes`; then it counts as kept.
    fn has_room(&mut self, bytes: usize) -> bool {
        let bytes = self.bytes.saturating_add(bytes).saturating_add(DEFINITION_OVERHEAD_BYTES);
        let fits = bytes <= DEFINITIONS_BYTES_MAX;
        self.bytes = if fits { bytes } else { self.bytes };
        fits
    }

    /// Takes over what is defined in `other` and not here.
    pub(crate) fn add_missing(&mut self, other: Definitions) {
        self.bytes += other.bytes;
        other.sites.into_iter().for_each(|(id, site)| {
            self.sites.entry(id).or_insert(site);
        });
        other.threads.into_iter().for_each(|(tid, name)| {
            self.threads.entry(tid).or_insert(name);
        });
    }

    /// Takes the payload of a call-site frame. Returns whether it is one, and there is room for it.
    pub(crate) fn add_site(&mut self, payload: &[u8]) -> bool {
        let Some((id, site)) = CallSite::decode(payload) else { return false };
        let fits = self.has_room(payload.len() + site.fields.len() * size_of::<String>());
        if fits {
            self.sites.insert(id, Arc::new(site));
        }
        fits
    }

    /// Takes the payload of a thread frame. Returns whether it is one, and there is room for it.
    pub(crate) fn add_thread(&mut self, payload: &[u8]) -> bool {
        let Some((tid, name)) = decode_thread(payload) else { return false };
        let fits = self.has_room(name.len());
        if fits {
            self.threads.insert(tid, name);
        }
        fits
    }

    /// The entry in `payload`; `None` if it is too short for one.
    #[inline]
    pub(crate) fn entry<'a>(&'a self, seq: u64, flags: u8, payload: &'a [u8]) -> Option<Entry<'a>> {
        let (head, body) = EntryHead::decode(payload)?;
        let site = if head.site == 0 { None } else { self.site(head.site) };
        let thread = if self.threads.is_empty() { None } else { self.thread(head.tid) };
        Some(Entry { seq, flags, head, site, thread, body })
    }
}

/// Appends the payload of a thread frame: `[tid u32 | reserved u32 | name]`.
pub fn encode_thread(tid: u32, name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&tid.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    push_counted(out, name.as_bytes());
}

fn decode_thread(payload: &[u8]) -> Option<(u32, String)> {
    let mut fields = Fields::new(payload);
    let tid = fields.u32()?;
    fields.u32()?;
    Some((tid, string(&mut fields)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn sample() -> CallSite {
        CallSite {
            level: Level::Info,
            category: "net.http".into(),
            file: "src/http.rs".into(),
            line: 42,
            template: "GET {path} {}".into(),
            fields: vec!["path".into(), String::new()],
        }
    }

    #[test]
    fn a_call_site_comes_back_with_its_unnamed_fields() {
        let mut payload = Vec::new();
        sample().encode(7, &mut payload);
        assert_eq!(CallSite::decode(&payload), Some((7, sample())));
    }

    #[test]
    fn an_entry_finds_its_definition_and_its_values() {
        let (mut definitions, mut payload) = (Definitions::default(), Vec::new());
        sample().encode(7, &mut payload);
        assert!(definitions.add_site(&payload));
        payload.clear();
        encode_thread(3, "worker-3", &mut payload);
        assert!(definitions.add_thread(&payload));
        payload.clear();
        EntryHead { time_ns: -5, tseq: 9, tid: 3, site: 7 }.encode(&mut payload);
        Value::Str("/a").encode(&mut payload);
        Value::U16(200).encode(&mut payload);
        let entry = definitions.entry(11, 0, &payload).unwrap();
        assert_eq!((entry.level(), entry.thread), (Some(Level::Info), Some("worker-3")));
        assert_eq!(entry.values().collect::<Vec<_>>(), [Value::Str("/a"), Value::U16(200)]);
        assert_eq!((entry.text(), entry.ends_line()), (None, true));
    }

    #[test]
    fn a_definition_that_claims_more_than_it_has_is_refused() {
        let mut payload = Vec::new();
        sample().encode(7, &mut payload);
        for len in 0..payload.len() {
            assert_eq!(CallSite::decode(&payload[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn definitions_stay_within_their_bound() {
        let (mut definitions, mut kept) = (Definitions::default(), 0);
        for id in 0..200_000 {
            let mut payload = Vec::new();
            sample().encode(id, &mut payload);
            kept += usize::from(definitions.add_site(&payload));
        }
        assert!(kept > 30_000 && kept * DEFINITION_OVERHEAD_BYTES < DEFINITIONS_BYTES_MAX, "{kept}");
        assert_eq!(definitions.sites.len(), kept);
        // One definition by itself can be too large.
        let mut payload = Vec::new();
        CallSite { fields: vec![String::new(); 1 << 20], ..sample() }.encode(7, &mut payload);
        assert!(!Definitions::default().add_site(&payload));
    }

    #[test]
    fn levels_are_read_in_any_case() {
        assert_eq!("warn".parse(), Ok(Level::Warn));
        assert_eq!("FATAL".parse(), Ok(Level::Fatal));
        assert_eq!("loud".parse::<Level>(), Err(UnknownLevel));
    }
}
