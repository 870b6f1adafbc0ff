//! Several logs as one stream, by time: of the entries that come next in each log, the earliest. The order within a log
//! stays, whatever its clock did; of equal times the log named first comes first.

use logtool::{Entry, Error};

use crate::source::{Source, Step, Told};

/// One step through all logs; the number is that of the source.
#[derive(Debug)]
pub(crate) enum Merged {
    /// An entry: [`Merge::entry`].
    Entry(usize),
    /// Something that a log tells.
    Told(usize, Told),
    /// A segment could not be read.
    Failed(usize, Error),
    /// The end of all logs.
    End,
}

/// Where a source stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// It must take a step.
    Unknown,
    /// An entry of this time waits, in nanoseconds since 1970 UTC.
    Entry(i64),
    Ended,
}

/// Logs that are read together. Memory: that of their readers.
#[derive(Debug)]
pub(crate) struct Merge {
    sources: Vec<Source>,
    heads: Vec<Head>,
    /// The source whose entry was given last.
    current: Option<usize>,
}

impl Merge {
    /// Merges `sources`.
    pub(crate) fn new(sources: Vec<Source>) -> Merge {
        let heads = vec![Head::Unknown; sources.len()];
        Merge { sources, heads, current: None }
    }

    /// Source number `at`.
    pub(crate) fn source(&self, at: usize) -> &Source {
        &self.sources[at]
    }

    /// The entry that the last step went to.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.sources.get(self.current?)?.entry()
    }

    /// All sources, in order.
    pub(crate) fn sources(&mut self) -> &mut [Source] {
        &mut self.sources
    }

    /// Asks all sources anew that were at their end: logs that are followed may have more.
    pub(crate) fn resume(&mut self) {
        self.heads.iter_mut().filter(|head| **head == Head::Ended).for_each(|head| *head = Head::Unknown);
    }

    /// Reads source number `at` no further.
    pub(crate) fn end(&mut self, at: usize) {
        self.sources[at].end();
        self.heads[at] = Head::Ended;
    }

    /// The next step.
    pub(crate) fn step(&mut self) -> Merged {
        if let Some(at) = self.current.take()
            && self.heads[at] != Head::Ended
        {
            self.heads[at] = Head::Unknown;
        }
        for at in 0..self.sources.len() {
            if self.heads[at] != Head::Unknown {
                continue;
            }
            match self.sources[at].step() {
                Step::Told(told) => return Merged::Told(at, told),
                Step::Failed(error) => return Merged::Failed(at, error),
                Step::End => self.heads[at] = Head::Ended,
                Step::Entry => {
                    let entry = self.sources[at].entry();
                    // What continues an entry is not parted from it.
                    let key = |entry: Entry<'_>| if entry.is_continued() { i64::MIN } else { entry.head.time_ns };
                    self.heads[at] = entry.map_or(Head::Ended, |entry| Head::Entry(key(entry)));
                }
            }
        }
        let waiting = self.heads.iter().enumerate().filter_map(|(at, head)| match head {
            Head::Entry(time_ns) => Some((*time_ns, at)),
            _ => None,
        });
        match waiting.min() {
            Some((_, at)) => {
                self.current = Some(at);
                Merged::Entry(at)
            }
            None => Merged::End,
        }
    }
}
