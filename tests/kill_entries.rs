//! The entries of the kill test: what is logged under which number, so that each can be recognised and checked to the byte.

use std::cell::Cell;
use std::fmt;

use logtool::value::Value;
use logtool::{Category, Entry, Level, Logger, Refused, try_info, try_warn};

use crate::kill_counts::Random;
use crate::kill_record::Record;
use crate::kill_tally::{Id, THREADS_MAX};

/// Longest text: an entry of two frames.
const TEXT_BYTES_MAX: usize = 1_200_000;

/// Text up to this length needs no long filler.
const SHORT_BYTES_MAX: usize = 8 << 10;

static NET: Category = Category::new("kill.net");

/// Text that all entries are cut from.
pub(crate) struct Filler(String);

impl Filler {
    /// With `long`, entries may be longer than a frame.
    pub(crate) fn new(long: bool) -> Filler {
        let mut random = Random(7);
        let mut text = String::new();
        while text.len() < 2 * SHORT_BYTES_MAX {
            text.extend(random.next().to_le_bytes().map(|byte| char::from(b' ' + byte % 95)));
        }
        if long {
            text = text.repeat(2 + TEXT_BYTES_MAX / text.len());
        }
        Filler(text)
    }

    /// The text of an entry: where it is cut and how long it is depends on all of its number.
    fn text(&self, id: Id, long: bool) -> &str {
        let mut random = Random(id.round << 48 ^ id.stream << 40 ^ id.counter);
        let start = random.below(SHORT_BYTES_MAX as u64) as usize;
        let bytes_max = match random.below(2048) {
            0 if long => TEXT_BYTES_MAX,
            0..20 => SHORT_BYTES_MAX,
            20..100 => 1,
            _ => 200,
        };
        let len = random.below(bytes_max as u64) as usize;
        &self.0[start..start + len]
    }
}

/// One thread that logs, with what it needs for that.
pub(crate) struct Caller<'a> {
    pub(crate) log: &'a Logger,
    pub(crate) record: &'a Record,
    pub(crate) filler: &'a Filler,
    pub(crate) round: u64,
    pub(crate) thread: usize,
    pub(crate) long: bool,
    /// Whether some entries log another one while they are shown.
    pub(crate) nests: bool,
}

impl Caller<'_> {
    /// Logs the next entry. Notes whether it was accepted.
    pub(crate) fn log_next(&self) -> Result<(), Refused> {
        let counter = self.record.accepted(self.thread) + 1;
        let result = self.log(Id { round: self.round, stream: self.thread as u64, counter });
        note(self.record, self.thread, counter, result)
    }

    fn log(&self, id: Id) -> Result<(), Refused> {
        let Id { round, stream, counter } = id;
        let text = self.filler.text(id, self.long);
        match kind(id) {
            Kind::Plain => try_info!(logger: self.log, round, stream, counter; "{text}"),
            Kind::Spec => {
                let eighths = counter as f64 / 8.0;
                try_warn!(logger: self.log, category: NET, round, stream, counter; "{:>9.3} of {text}", eighths)
            }
            Kind::Nesting => {
                let shown = Nested { caller: self, was_shown: Cell::new(false) };
                try_info!(logger: self.log, round, stream, counter; "{shown} {text}")
            }
        }
    }
}

fn note(record: &Record, stream: usize, counter: u64, result: Result<(), Refused>) -> Result<(), Refused> {
    match result {
        Ok(()) => record.set_accepted(stream, counter),
        Err(_) => record.count_refused(stream),
    }
    result
}

/// Logs while it is shown.
struct Nested<'a> {
    caller: &'a Caller<'a>,
    was_shown: Cell<bool>,
}

impl fmt::Display for Nested<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caller { log, record, filler, round, thread, long, nests } = *self.caller;
        if nests && !self.was_shown.replace(true) {
            let stream = THREADS_MAX + thread;
            let id = Id { round, stream: stream as u64, counter: record.accepted(stream) + 1 };
            let (stream_field, counter, text) = (id.stream, id.counter, filler.text(id, long));
            let result = try_info!(logger: log, round, stream = stream_field, counter; "{text}");
            // What was refused is counted, and the outer entry goes on.
            let _ = note(record, stream, counter, result);
        }
        f.write_str("shown")
    }
}

/// The call sites.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Spec,
    Nesting,
}

fn kind(id: Id) -> Kind {
    match id.counter % 16 {
        _ if id.stream >= THREADS_MAX as u64 => Kind::Plain,
        5 => Kind::Spec,
        11 => Kind::Nesting,
        _ => Kind::Plain,
    }
}

/// Which entry this is, if it is one to the byte. `body` is that of all its parts. Of an entry whose definition is lost only
/// the arguments can be checked.
pub(crate) fn recognise(entry: &Entry<'_>, body: &[u8], filler: &Filler, long: bool) -> Option<Id> {
    let whole = Entry { body, ..entry.clone() };
    let values: Vec<Value<'_>> = whole.values().collect();
    let [front @ .., Value::U64(round), Value::U64(stream), Value::U64(counter)] = &values[..] else { return None };
    let id = Id { round: *round, stream: *stream, counter: *counter };
    let text = Value::Str(filler.text(id, long));
    let (level, template, name, is_right) = match kind(id) {
        Kind::Plain => (Level::Info, "{text}", "text", front == [text]),
        Kind::Spec => (Level::Warn, "{:>9.3} of {text}", "", front == [Value::F64(id.counter as f64 / 8.0), text]),
        Kind::Nesting => (Level::Info, "{shown} {text}", "shown", front == [Value::Text("shown"), text]),
    };
    let fits = entry.site.is_none_or(|site| {
        site.level == level
            && site.template == template
            && site.fields.len() == values.len()
            && site.fields[0] == name
            && site.fields[values.len() - 3..] == ["round", "stream", "counter"]
    });
    (is_right && fits).then_some(id)
}
