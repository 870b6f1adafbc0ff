//! Entries shown on standard error too, as they are logged.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::entry::{CallSite, Entry, EntryHead, Level};
use crate::escape::escape;
use crate::floor::Floor;
use crate::render::{Render, UtcLines};
use crate::site::Site;

/// Shows entries from a level on, one line each.
pub(crate) struct Mirror {
    level: Level,
    /// From where on the log stores entries; the others are only shown.
    stored: Arc<Floor>,
    lines: Mutex<Lines>,
}

struct Lines {
    out: Box<dyn Write + Send>,
    /// By the number of the call site.
    definitions: HashMap<u32, Arc<CallSite>>,
    form: Form,
}

/// A text form that a program brings along.
pub(crate) type Form = Box<dyn Render + Send>;

/// The usual form, safe for a terminal.
#[derive(Default)]
struct Escaped {
    lines: UtcLines,
    line: Vec<u8>,
}

impl Render for Escaped {
    fn render(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        self.line.clear();
        self.lines.render(entry, &mut self.line);
        out.extend_from_slice(escape(&self.line).as_bytes());
    }
}

thread_local! {
    /// A mirror is at work in this thread: what its form logs is not shown.
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

impl Mirror {
    /// A mirror on standard error, in this form or the usual one.
    pub(crate) fn stderr(level: Level, stored: Arc<Floor>, form: Option<Form>) -> Mirror {
        Mirror::new(level, stored, form, Box::new(std::io::stderr()))
    }

    fn new(level: Level, stored: Arc<Floor>, form: Option<Form>, out: Box<dyn Write + Send>) -> Mirror {
        let form = form.unwrap_or_else(|| Box::new(Escaped::default()));
        Mirror { level, stored, lines: Mutex::new(Lines { out, definitions: HashMap::new(), form }) }
    }

    /// Whether it shows entries of this site: their level is high enough.
    pub(crate) fn shows(&self, site: &Site) -> bool {
        site.level >= self.level
    }

    /// Whether entries of this site are shown and no more.
    pub(crate) fn is_all_of(&self, site: &Site) -> bool {
        self.shows(site) && !self.stored.admits_site(site)
    }

    /// Shows an entry, if its level is high enough.
    pub(crate) fn show(&self, site: &Site, time_ns: i64, tid: u32, body: &[u8]) {
        if !self.shows(site) || IS_AT_WORK.replace(true) {
            return;
        }
        self.show_line(site, time_ns, tid, body);
        IS_AT_WORK.set(false);
    }

    fn show_line(&self, site: &Site, time_ns: i64, tid: u32, body: &[u8]) {
        let thread = std::thread::current();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { out, definitions, form } = &mut *lines;
        let definition = definitions.entry(site.number()).or_insert_with(|| Arc::new(site.definition()));
        let head = EntryHead { time_ns, tseq: 0, tid, site: site.number() };
        let entry = Entry { seq: 0, flags: 0, head, site: Some(definition), thread: thread.name(), body };
        let mut line = Vec::new();
        // A form's panic is not the log call's.
        if catch_unwind(AssertUnwindSafe(|| form.render(&entry, &mut line))).is_ok() {
            line.push(b'\n');
            // One write a line, so that those of several processes stay whole. Nobody is left to be told if it fails.
            let _ = out.write_all(&line).and_then(|()| out.flush());
        }
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror").field("level", &self.level).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Origin;
    use crate::value::Value;

    /// A place that several can write to.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    static LOW: Site = Site::new(Level::Info, Origin::Name("net"), "a.rs", 1, "low", &[], 1);
    static HIGH: Site = Site::new(Level::Warn, Origin::Name("net"), "a.rs", 2, "got {what}", &["what"], 1);

    #[test]
    fn entries_from_the_level_on_are_one_safe_line_each() {
        let out = Shared::default();
        let stored = Arc::new(Floor::new(&Level::Fatal.into(), None));
        let mirror = Mirror::new(Level::Warn, stored, None, Box::new(out.clone()));
        let mut body = Vec::new();
        Value::Str("two\nlines \x1b[31m").encode(&mut body);
        crate::global::register(&LOW);
        crate::global::register(&HIGH);
        mirror.show(&LOW, 0, 7, &[]);
        mirror.show(&HIGH, 0, 7, &body);
        assert!(mirror.is_all_of(&HIGH) && !mirror.is_all_of(&LOW));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let (front, message) = text.split_once(" a.rs:2 ").unwrap();
        assert!(front.starts_with("1970-01-01T00:00:00.000000Z WARN net "), "{text}");
        assert_eq!(message, "got two\\nlines \\x1b[31m\n");
    }

    /// Panics, and logs, by way of the mirror that it is the form of.
    struct Difficult(Arc<std::sync::OnceLock<Mirror>>);

    impl Render for Difficult {
        fn render(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
            self.0.get().unwrap().show(&HIGH, 0, 7, &[]);
            out.extend_from_slice(b"from tid ");
            assert!(entry.head.tid != 8, "a form that panics");
            out.extend_from_slice(entry.head.tid.to_string().as_bytes());
        }
    }

    #[test]
    fn a_form_of_ones_own_may_log_and_panic() {
        let (out, place) = (Shared::default(), Arc::new(std::sync::OnceLock::new()));
        let stored = Arc::new(Floor::new(&Level::Fatal.into(), None));
        let form: Form = Box::new(Difficult(Arc::clone(&place)));
        place.set(Mirror::new(Level::Warn, stored, Some(form), Box::new(out.clone()))).unwrap();
        [7, 8, 9].into_iter().for_each(|tid| place.get().unwrap().show(&HIGH, 0, tid, &[]));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "from tid 7\nfrom tid 9\n");
    }
}
