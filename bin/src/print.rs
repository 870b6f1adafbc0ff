//! Entries in the form that was asked for, on standard output.
//!
//! - `text`: an entry made by `logtool write` is the line itself; a structured one is
//!   `2026-11-30T12:00:00.123456+01:00 INFO net.http worker-3 src/http.rs:42 message`, what is not known as `-`. Of several
//!   logs each line begins with `NAME: `.
//! - `json`, `logfmt`: see their modules.
//! - `raw`: the bytes of the line, or the message, and nothing else.
//!
//! On a terminal everything that came from the log is escaped, whatever the form; elsewhere not a byte is changed.
//! A line that was cut, or that had no newline yet, goes on in the same line of output if its next part comes next.

use std::io::{self, Write};

use logtool::{Entry, Level};

use crate::escape::escape;
use crate::filter::{Form, FormArgs};
use crate::json;
use crate::logfmt;
use crate::select::Message;
use crate::source::Told;
use crate::terminal::{Output, Ui};
use crate::timestamp::Stamper;

/// Bytes collected before they are given to the output.
const BATCH_BYTES: usize = 64 << 10;

/// Prints entries.
#[derive(Debug)]
pub(crate) struct Printer {
    form: Form,
    /// Names of the logs; empty for a single one.
    names: Vec<String>,
    timestamps: bool,
    escapes: bool,
    colors: bool,
    stamper: Stamper,
    json: json::Writer,
    buffer: Vec<u8>,
    output: Output,
    /// The log whose line has no newline yet.
    open_line: Option<usize>,
}

impl Printer {
    /// Prints entries of logs with these names in the form that `args` say; times in `zone`.
    ///
    /// # Errors
    /// Where standard output is closed.
    pub(crate) fn new(args: &FormArgs, names: Vec<String>, zone: jiff::tz::TimeZone, ui: &Ui) -> io::Result<Printer> {
        let names = if names.len() > 1 { names } else { Vec::new() };
        Ok(Printer {
            form: args.form(),
            names,
            timestamps: args.timestamps,
            escapes: ui.escapes_stdout(),
            colors: ui.colors_stdout(),
            stamper: Stamper::new(zone),
            json: json::Writer::default(),
            buffer: Vec::with_capacity(2 * BATCH_BYTES),
            output: ui.stdout()?,
            open_line: None,
        })
    }

    /// Whether the parts of a cut line must come as one.
    pub(crate) fn needs_whole_lines(&self) -> bool {
        matches!(self.form, Form::Json | Form::Logfmt)
    }

    /// Prints an entry of log number `log`.
    ///
    /// # Errors
    /// What the output says.
    #[inline]
    pub(crate) fn entry(&mut self, log: usize, entry: &Entry<'_>, message: &mut Message) -> io::Result<()> {
        match self.form {
            Form::Text => self.text(log, entry, message),
            Form::Raw => self.raw(log, entry, message),
            Form::Json => {
                let name = self.names.get(log).map(String::as_str);
                self.json.push_entry(&mut self.buffer, name, entry, message);
            }
            Form::Logfmt => {
                let name = self.names.get(log).map(String::as_str);
                let start = self.buffer.len();
                logfmt::push_entry(&mut self.buffer, name, entry, message, &mut self.stamper);
                self.escape_from(start);
                self.buffer.push(b'\n');
            }
        }
        self.end_entry()
    }

    /// Prints what a log tells, in the form that has a place for it: JSON.
    ///
    /// # Errors
    /// What the output says.
    pub(crate) fn told(&mut self, log: usize, told: &Told) -> io::Result<()> {
        if self.form != Form::Json {
            return Ok(());
        }
        let name = self.names.get(log).map(String::as_str);
        self.json.push_told(&mut self.buffer, name, told);
        self.end_entry()
    }

    /// Brings everything printed so far to the reader.
    ///
    /// # Errors
    /// What the output says.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.write_buffer()?;
        self.output.flush()
    }

    /// Ends the last line, if it is still open, and flushes.
    ///
    /// # Errors
    /// What the output says.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.end_line();
        self.flush()
    }

    #[inline]
    fn end_entry(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BATCH_BYTES || self.escapes { self.write_buffer() } else { Ok(()) }
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let result = self.output.write_all(&self.buffer);
        self.buffer.clear();
        // After a long line: most are short.
        self.buffer.shrink_to(4 * BATCH_BYTES);
        result
    }

    fn end_line(&mut self) {
        if self.open_line.take().is_some() {
            self.buffer.push(b'\n');
        }
    }

    #[inline]
    fn text(&mut self, log: usize, entry: &Entry<'_>, message: &mut Message) {
        let continues = entry.is_continued() && self.open_line == Some(log);
        if !continues {
            self.end_line();
            self.name(log);
            if entry.head.site != 0 {
                self.head(entry);
            } else if self.timestamps {
                self.colored("\x1b[2m", |printer| printer.stamper.write(entry.head.time_ns, &mut printer.buffer));
                self.buffer.push(b' ');
            }
        }
        self.line(log, entry, message);
    }

    fn raw(&mut self, log: usize, entry: &Entry<'_>, message: &mut Message) {
        if !(entry.is_continued() && self.open_line == Some(log)) {
            self.end_line();
        }
        self.line(log, entry, message);
    }

    /// The text of an entry, with its newline unless more of it may come.
    #[inline]
    fn line(&mut self, log: usize, entry: &Entry<'_>, message: &mut Message) {
        let text = message.of(entry);
        if self.escapes {
            self.buffer.extend_from_slice(escape(text).as_bytes());
        } else {
            self.buffer.extend_from_slice(text);
        }
        if entry.ends_line() || entry.head.site != 0 {
            self.buffer.push(b'\n');
            self.open_line = None;
        } else {
            self.open_line = Some(log);
        }
    }

    fn name(&mut self, log: usize) {
        if log < self.names.len() {
            self.colored("\x1b[35m", |printer| {
                let name = std::mem::take(&mut printer.names[log]);
                printer.buffer.extend_from_slice(name.as_bytes());
                printer.names[log] = name;
            });
            self.buffer.extend_from_slice(b": ");
        }
    }

    /// Time, level and origin of a structured entry.
    fn head(&mut self, entry: &Entry<'_>) {
        self.colored("\x1b[2m", |printer| printer.stamper.write(entry.head.time_ns, &mut printer.buffer));
        self.buffer.push(b' ');
        let level = entry.level();
        self.colored(level.map_or("", color), |printer| {
            printer.buffer.extend_from_slice(level.map_or("-", Level::as_str).as_bytes());
        });
        self.buffer.push(b' ');
        let start = self.buffer.len();
        logtool::render::push_origin(entry, &mut self.buffer);
        self.escape_from(start);
    }

    /// Escapes what stands in the buffer from `start` on, where the output is a terminal.
    fn escape_from(&mut self, start: usize) {
        if self.escapes {
            let escaped = escape(&self.buffer[start..]).into_owned();
            self.buffer.truncate(start);
            self.buffer.extend_from_slice(escaped.as_bytes());
        }
    }

    fn colored(&mut self, color: &str, write: impl FnOnce(&mut Printer)) {
        let colors = self.colors && !color.is_empty();
        if colors {
            self.buffer.extend_from_slice(color.as_bytes());
        }
        write(self);
        if colors {
            self.buffer.extend_from_slice(b"\x1b[0m");
        }
    }
}

/// The colour of a level; none for the usual one.
fn color(level: Level) -> &'static str {
    match level {
        Level::Trace | Level::Debug => "\x1b[2m",
        Level::Info => "",
        Level::Warn => "\x1b[33m",
        Level::Error => "\x1b[31m",
        Level::Fatal => "\x1b[1;31m",
    }
}
