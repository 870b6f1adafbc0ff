//! What a reader gives: entries, findings, notes.

use crate::entry::Entry;
use crate::finding::{Finding, Loss, Note, SeqRange};

/// One thing that a reader gives.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// An entry.
    Entry(Entry<'a>),
    /// Something that is wrong.
    Finding(Finding),
    /// Something to know.
    Note(Note),
}

impl Item<'_> {
    /// The numbers that it is about: an entry's own, or those that a finding or a note accounts for.
    pub fn seqs(&self) -> Option<SeqRange> {
        match self {
            Item::Entry(entry) => Some(SeqRange { first: entry.seq, last: entry.seq }),
            Item::Finding(Finding { loss: Loss::Seqs(seqs), .. }) => Some(*seqs),
            Item::Finding(_) => None,
            Item::Note(note) => note.kind.seqs(),
        }
    }
}
