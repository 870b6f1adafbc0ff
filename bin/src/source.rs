//! One log as `cat` and `tail` read it: entry by entry, the parts of a cut entry as one, and what there is to tell.

use std::sync::Arc;

use logtool::entry::EntryHead;
use logtool::format::{FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};
use logtool::{CallSite, Entry, Error, Finding, Item, LogReader, Note};

use crate::logs::Log;

/// Parts of a cut entry are put together up to this length. A longer one comes in several pieces.
const JOINED_BYTES_MAX: usize = 8 << 20;

/// Something that a log tells besides its entries.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// Something is wrong.
    Finding(Finding),
    /// Something to know.
    Note(Note),
}

/// One step through a log.
#[derive(Debug)]
pub(crate) enum Step {
    /// An entry: [`Source::entry`].
    Entry,
    /// Something to tell.
    Told(Told),
    /// A segment could not be read; the rest of the log follows.
    Failed(Error),
    /// The end of the log.
    End,
}

/// A log that is read.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its number among the logs of the command line.
    pub(crate) number: usize,
    pub(crate) log: Log,
    reader: LogReader,
    /// Whether the parts of text are put together too, and not only those of structured entries.
    joins_text: bool,
    chain: Chain,
    /// Whether the entry is the one in `chain`.
    at_chain: bool,
    /// The step behind the chain, taken already.
    ahead: Option<Step>,
    ended: bool,
    /// Whether parts are passed over until a line begins.
    skips_parts: bool,
}

/// An entry put together of its parts.
#[derive(Debug, Default)]
struct Chain {
    seq: u64,
    seq_last: u64,
    flags: u8,
    head: EntryHead,
    site: Option<Arc<CallSite>>,
    thread: Option<String>,
    body: Vec<u8>,
}

impl Chain {
    fn start(&mut self, entry: &Entry<'_>) {
        (self.seq, self.seq_last, self.flags, self.head) = (entry.seq, entry.seq, entry.flags, entry.head);
        (self.site, self.thread) = (entry.site.cloned(), entry.thread.map(str::to_owned));
        self.body.clear();
        self.body.shrink_to(JOINED_BYTES_MAX);
        self.body.extend_from_slice(entry.body);
    }

    /// Takes the entry's next part, unless it belongs to something else or there is no room.
    fn append(&mut self, entry: &Entry<'_>) -> bool {
        let fits = self.body.len() + entry.body.len() <= JOINED_BYTES_MAX;
        // Of two parts with a gap between them nobody knows whether they belong together.
        if !fits || !entry.is_continued() || entry.seq != self.seq_last + 1 || entry.head.site != self.head.site {
            return false;
        }
        self.body.extend_from_slice(entry.body);
        self.seq_last = entry.seq;
        self.flags = self.flags & FLAG_CONTINUED | entry.flags & (FLAG_MORE | FLAG_UNFINISHED);
        true
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            seq: self.seq,
            flags: self.flags,
            head: self.head,
            site: self.site.as_ref(),
            thread: self.thread.as_deref(),
            body: &self.body,
        }
    }
}

impl Source {
    /// Reads `log` through `reader`. Parts of text lines are given one by one unless `joins_text`.
    pub(crate) fn new(number: usize, log: Log, reader: LogReader, joins_text: bool) -> Source {
        let (chain, at_chain, ahead, ended, skips_parts) = (Chain::default(), false, None, false, false);
        Source { number, log, reader, joins_text, chain, at_chain, ahead, ended, skips_parts }
    }

    /// The reader, to look at its snapshot.
    pub(crate) fn reader(&self) -> &LogReader {
        &self.reader
    }

    /// The next step.
    pub(crate) fn step(&mut self) -> Step {
        self.at_chain = false;
        if self.ended {
            return Step::End;
        }
        let mut step = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.read(),
        };
        while self.skips_parts && matches!(step, Step::Entry) {
            self.skips_parts = self.reader.entry().is_some_and(|entry| entry.is_continued());
            if self.skips_parts {
                step = self.read();
            }
        }
        if matches!(step, Step::Entry) {
            self.join();
        }
        step
    }

    /// The entry that the last step went to.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        if self.at_chain { Some(self.chain.entry()) } else { self.reader.entry() }
    }

    /// Last sequence number of the entry that the last step went to.
    pub(crate) fn seq_last(&self) -> Option<u64> {
        if self.at_chain { Some(self.chain.seq_last) } else { self.reader.entry().map(|entry| entry.seq) }
    }

    /// Passes over what continues a line that began before the start.
    pub(crate) fn skip_parts(&mut self) {
        self.skips_parts = true;
    }

    /// Reads no further.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    fn read(&mut self) -> Step {
        match self.reader.advance_item() {
            Err(error) => Step::Failed(error),
            Ok(false) => Step::End,
            Ok(true) if self.reader.entry().is_some() => Step::Entry,
            Ok(true) => match self.reader.item() {
                Some(Item::Finding(finding)) => Step::Told(Told::Finding(finding)),
                Some(Item::Note(note)) => Step::Told(Told::Note(note)),
                // Cannot be: an entry was looked for before, and a step without an item is the end.
                Some(Item::Entry(_)) | None => Step::End,
            },
        }
    }

    /// Puts the entry together with its parts, where it is to be.
    fn join(&mut self) {
        let Some(entry) = self.reader.entry() else { return };
        if !entry.has_more() || (entry.head.site == 0 && !self.joins_text) {
            return;
        }
        self.chain.start(&entry);
        self.at_chain = true;
        while self.chain.flags & FLAG_MORE != 0 {
            let step = self.read();
            let taken =
                matches!(step, Step::Entry) && self.reader.entry().is_some_and(|entry| self.chain.append(&entry));
            if !taken {
                self.ahead = Some(step);
                return;
            }
        }
    }
}
