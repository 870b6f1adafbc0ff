//! What `cat` and `tail` share: the logs of a command line opened, and their entries selected and printed.

use anyhow::Context;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};
use logtool::{ErrorKind, Follower, LogReader};

use crate::cli::LogArgs;
use crate::filter::{FilterArgs, FormArgs};
use crate::logs::{self, Log};
use crate::merge::{Merge, Merged};
use crate::print::Printer;
use crate::select::{Message, Selection};
use crate::source::{Feed, Source, Told};
use crate::terminal::Ui;
use crate::time;
use crate::told::{finding_text, is_told, note_text};

/// Entries of logs on their way to standard output.
pub(crate) struct View<'ui> {
    pub(crate) ui: &'ui Ui,
    pub(crate) zone: TimeZone,
    pub(crate) logs: Vec<Log>,
    pub(crate) selection: Selection,
    pub(crate) printer: Printer,
    message: Message,
    /// Of each log: the number that a part of its last entry would have, and whether that entry was wanted.
    last: Vec<(u64, bool)>,
    /// Of each log: whether its last line was skipped, and what continues it is too.
    skips: Vec<bool>,
    /// Whether what there is to say of the logs' ends is left to somebody who follows them.
    pub(crate) leaves_ends_open: bool,
    /// Whether numbers that retention has removed are told: where an entry before them was shown.
    pub(crate) tells_retention: bool,
}

impl<'ui> View<'ui> {
    /// Finds the logs and makes the options ready.
    ///
    /// # Errors
    /// Where the command line cannot be meant, or standard output is closed.
    pub(crate) fn new(logs: &LogArgs, filter: &FilterArgs, form: &FormArgs, ui: &'ui Ui) -> anyhow::Result<View<'ui>> {
        View::of(logs::find(logs, ui)?, filter, form, ui)
    }

    /// As [`View::new`], of these logs.
    ///
    /// # Errors
    /// As [`View::new`].
    pub(crate) fn of(logs: Vec<Log>, filter: &FilterArgs, form: &FormArgs, ui: &'ui Ui) -> anyhow::Result<View<'ui>> {
        let zone = time::zone(form.utc, ui);
        let now: ZonedDateTime = Timestamp::now().to_zoned_datetime(zone.clone());
        let selection = Selection::new(filter, &now)?;
        let names = logs.iter().map(|log| log.name.clone()).collect();
        let printer = Printer::new(form, names, zone.clone(), ui).context("standard output")?;
        let (last, skips) = (vec![(0, false); logs.len()], vec![false; logs.len()]);
        Ok(View {
            ui,
            zone,
            logs,
            selection,
            printer,
            message: Message::default(),
            last,
            skips,
            leaves_ends_open: false,
            tells_retention: false,
        })
    }

    /// Opens log number `at` at the first entry that can be wanted. Says so where it cannot be read.
    pub(crate) fn open(&self, at: usize) -> Option<LogReader> {
        let log = &self.logs[at];
        let opened = logtool::snapshot_of(&log.path).and_then(|mut snapshot| {
            if self.leaves_ends_open {
                snapshot.leave_end_open();
            }
            let mut reader = LogReader::new(snapshot);
            reader.set_times(self.selection.times_ns());
            // Of several logs each gives but its part of what is printed.
            if self.logs.len() == 1 {
                reader.decode_ahead();
            }
            if let Some(seqs) = self.selection.seqs().filter(|seqs| seqs.first > 1) {
                let position = reader.position_of_seq(seqs.first)?;
                reader.seek(position);
            }
            Ok(reader)
        });
        match opened {
            Ok(reader) => Some(reader),
            Err(error) => {
                self.ui.failed(&error.into());
                None
            }
        }
    }

    /// A reader's log number `at` as a source of entries in the form that is printed.
    pub(crate) fn source(&self, at: usize, reader: LogReader) -> Source {
        self.feed(at, Feed::Reader(Box::new(reader)))
    }

    /// As [`View::source`], of a log that is followed.
    pub(crate) fn followed(&self, at: usize, follower: Follower) -> Source {
        self.feed(at, Feed::Follower(Box::new(follower)))
    }

    fn feed(&self, at: usize, feed: Feed) -> Source {
        let joins_text = self.selection.reads_text() || self.printer.needs_whole_lines();
        Source::new(at, feed, joins_text)
    }

    /// Prints all lines that are wanted but for the first `skip` of them, to the end.
    ///
    /// # Errors
    /// What the output says.
    pub(crate) fn print_all(&mut self, merge: &mut Merge, mut skip: u64) -> anyhow::Result<()> {
        self.print_some(merge, &mut skip, u64::MAX)?;
        Ok(self.printer.finish()?)
    }

    /// As [`View::print_all`], in at most `steps` steps and without ending the last line; counts `skip` down. Returns
    /// whether the end was reached.
    ///
    /// # Errors
    /// What the output says.
    pub(crate) fn print_some(&mut self, merge: &mut Merge, skip: &mut u64, steps: u64) -> anyhow::Result<bool> {
        for _ in 0..steps {
            match merge.step() {
                Merged::Entry(at) => {
                    if !self.is_wanted(merge, at) {
                        continue;
                    }
                    let source = merge.source(at);
                    let Some(entry) = source.entry() else { continue };
                    if !entry.is_continued() {
                        self.skips[source.number] = *skip > 0;
                        *skip = skip.saturating_sub(1);
                    }
                    if self.skips[source.number] {
                        continue;
                    }
                    self.printer.entry(source.number, &entry, &mut self.message)?;
                }
                Merged::Told(at, told) => self.tell(merge.source(at).number, &told)?,
                Merged::Failed(at, error) => {
                    self.printer.flush()?;
                    if error.kind() == ErrorKind::Invalid {
                        // Not what was asked for, and it will not become so.
                        merge.end(at);
                    }
                    self.ui.failed(&error.into());
                }
                Merged::End => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Whether the entry that source number `at` stands at is wanted.
    #[inline]
    pub(crate) fn is_wanted(&mut self, merge: &mut Merge, at: usize) -> bool {
        self.message.clear();
        if self.selection.takes_all() {
            return true;
        }
        let source = merge.source(at);
        let (Some(entry), Some(seq_last), number) = (source.entry(), source.seq_last(), source.number) else {
            return false;
        };
        if self.selection.seqs().is_some_and(|seqs| entry.seq > seqs.last) {
            merge.end(at);
            return false;
        }
        let (seq_next, was_wanted) = self.last[number];
        // A part goes where the part before it went.
        let wanted = if entry.is_continued() && entry.seq == seq_next {
            was_wanted
        } else {
            self.selection.matches(&entry, &mut self.message)
        };
        self.last[number] = (seq_last + 1, wanted);
        wanted
    }

    /// Tells what log number `at` tells: findings and missing entries on standard error, everything in JSON.
    ///
    /// # Errors
    /// What the output says.
    pub(crate) fn tell(&mut self, at: usize, told: &Told) -> anyhow::Result<()> {
        self.printer.told(at, told)?;
        let path = &self.logs[at].path;
        match told {
            Told::Finding(finding) => {
                // Whoever sees both streams sees it where it belongs.
                self.printer.flush()?;
                self.ui.finding(path, &finding_text(finding, &self.zone));
            }
            Told::Note(note) if is_told(note, self.tells_retention) => {
                self.printer.flush()?;
                self.ui.note(path, &note_text(note));
            }
            Told::Note(_) => {}
        }
        Ok(())
    }
}
