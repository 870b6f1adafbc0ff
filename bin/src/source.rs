//! One log as `cat` and `tail` read it: entry by entry, the parts of a cut entry as one, and what there is to tell.

use std::sync::Arc;

use logtool::entry::EntryHead;
use logtool::format::{FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};
use logtool::{CallSite, Cursor, Entry, Error, Finding, Follower, Item, LogReader, Note};

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

/// Where the entries of a log come from.
#[derive(Debug)]
pub(crate) enum Feed {
    /// The log as it is: up to its end.
    Reader(Box<LogReader>),
    /// The log as it grows: its end is one for now.
    Follower(Box<Follower>),
}

impl Feed {
    fn advance_item(&mut self) -> logtool::Result<bool> {
        match self {
            Feed::Reader(reader) => reader.advance_item(),
            Feed::Follower(follower) => follower.advance_item(),
        }
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Feed::Reader(reader) => reader.entry(),
            Feed::Follower(follower) => follower.entry(),
        }
    }

    fn item(&mut self) -> Option<Item<'_>> {
        match self {
            Feed::Reader(reader) => reader.item(),
            Feed::Follower(follower) => follower.item(),
        }
    }
}

/// A log that is read.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its number among the logs of the command line.
    pub(crate) number: usize,
    feed: Feed,
    /// Whether the parts of text are put together too, and not only those of structured entries.
    joins_text: bool,
    chain: Chain,
    /// Whether the entry is the one in `chain`.
    at_chain: bool,
    /// Whether more parts of it may come as the log grows.
    chain_is_open: bool,
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
    /// Reads `log` from `feed`. Parts of text lines are given one by one unless `joins_text`.
    pub(crate) fn new(number: usize, feed: Feed, joins_text: bool) -> Source {
        let (at_chain, chain_is_open, ended, skips_parts) = (false, false, false, false);
        let (chain, ahead) = (Chain::default(), None);
        Source { number, feed, joins_text, chain, at_chain, chain_is_open, ahead, ended, skips_parts }
    }

    /// The reader of a log that is not followed.
    pub(crate) fn reader(&self) -> Option<&LogReader> {
        match &self.feed {
            Feed::Reader(reader) => Some(reader),
            Feed::Follower(_) => None,
        }
    }

    /// The follower of a log that is.
    pub(crate) fn follower(&mut self) -> Option<&mut Follower> {
        match &mut self.feed {
            Feed::Reader(_) => None,
            Feed::Follower(follower) => Some(follower),
        }
    }

    /// Behind what has been given; `None` before there is a log, and of one that is not followed at anything but an entry.
    pub(crate) fn cursor(&self) -> Option<Cursor> {
        let cursor = match &self.feed {
            Feed::Reader(reader) => Cursor { log_id: reader.snapshot().log_id, seq: self.seq_last()? },
            Feed::Follower(follower) => follower.cursor()?,
        };
        // What was read ahead, or waits for its other parts, has not been given.
        let seq = if self.chain_is_open {
            self.chain.seq - 1
        } else if matches!(self.ahead, Some(Step::Entry | Step::Told(_))) {
            self.chain.seq_last
        } else {
            cursor.seq
        };
        Some(Cursor { seq, ..cursor })
    }

    /// The next step.
    pub(crate) fn step(&mut self) -> Step {
        self.at_chain = false;
        if self.ended {
            return Step::End;
        }
        if std::mem::take(&mut self.chain_is_open) {
            return self.join();
        }
        let mut step = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.read(),
        };
        while self.skips_parts && matches!(step, Step::Entry) {
            self.skips_parts = self.feed.entry().is_some_and(|entry| entry.is_continued());
            if self.skips_parts {
                step = self.read();
            }
        }
        if matches!(step, Step::Entry) {
            return self.start_chain();
        }
        step
    }

    /// The entry that the last step went to.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        if self.at_chain { Some(self.chain.entry()) } else { self.feed.entry() }
    }

    /// Last sequence number of the entry that the last step went to.
    pub(crate) fn seq_last(&self) -> Option<u64> {
        if self.at_chain { Some(self.chain.seq_last) } else { self.feed.entry().map(|entry| entry.seq) }
    }

    /// Passes over what continues a line that began before the start.
    pub(crate) fn skip_parts(&mut self) {
        self.skips_parts = true;
    }

    /// Reads no further.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Whether it is read no further.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    fn read(&mut self) -> Step {
        match self.feed.advance_item() {
            Err(error) => Step::Failed(error),
            Ok(false) => Step::End,
            Ok(true) if self.feed.entry().is_some() => Step::Entry,
            Ok(true) => match self.feed.item() {
                Some(Item::Finding(finding)) => Step::Told(Told::Finding(finding)),
                Some(Item::Note(note)) => Step::Told(Told::Note(note)),
                // Cannot be: an entry was looked for before, and a step without an item is the end.
                Some(Item::Entry(_)) | None => Step::End,
            },
        }
    }

    /// The entry, put together with its parts where it is to be.
    fn start_chain(&mut self) -> Step {
        let Some(entry) = self.feed.entry() else { return Step::Entry };
        if !entry.has_more() || (entry.head.site == 0 && !self.joins_text) {
            return Step::Entry;
        }
        self.chain.start(&entry);
        self.join()
    }

    /// Adds the parts that come next to the chain.
    fn join(&mut self) -> Step {
        while self.chain.flags & FLAG_MORE != 0 {
            let step = self.read();
            if matches!((&step, &self.feed), (Step::End, Feed::Follower(_))) {
                // The rest is still to be written.
                self.chain_is_open = true;
                return Step::End;
            }
            let taken = matches!(step, Step::Entry) && self.feed.entry().is_some_and(|entry| self.chain.append(&entry));
            if !taken {
                self.ahead = Some(step);
                break;
            }
        }
        self.at_chain = true;
        Step::Entry
    }
}
