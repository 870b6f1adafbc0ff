//! One ring of a dead run: its records from the read position on, whatever bytes stand there.
//!
//! Memory: a window. Work: each byte is looked at once, and, where records don't hold, checksummed a few times at most.

use std::io;
use std::sync::Arc;

use crate::recovery::file::Stretch;
use crate::ring::file::{
    READ, REFUSED_LEVEL, SectionHeader, SectionKind, WRITTEN, decode_owner, level_of_word, refused_tseq,
};
use crate::ring::record::{RECORD_ALIGN, RECORD_HEAD_BYTES, Record, RecordHead};
use crate::storage::{ReadAt, StorageFile};

/// Bytes that are checksummed while the next record is looked for behind a bad one, as a multiple of the ring's size: what
/// stands there may be made to look like a long record at each step.
const SEEK_ROUNDS: u64 = 8;

/// The same for a small ring.
const SEEK_BYTES_MIN: u64 = 1 << 20;

/// No ring comes that far.
const POSITION_MAX: u64 = 1 << 62;

/// Stretches of damage that are listed of one ring; those behind are put together with the last.
const DAMAGE_LISTED_MAX: usize = 64;

/// A valid record.
#[derive(Clone, Copy, Debug)]
struct Valid {
    /// The head of an entry, and the length of its body; `None` for a skip.
    entry: Option<(RecordHead, usize)>,
    whole: u64,
}

/// A ring that nobody writes any more.
#[derive(Debug)]
pub(super) struct DeadRing {
    file: Arc<dyn StorageFile>,
    run_id: u64,
    pub(super) kind: SectionKind,
    /// Offset of its data in the file, and their length.
    data_at: u64,
    bytes: u64,
    /// The thread that had it last.
    pub(super) owner: Option<(u32, String)>,
    /// The last tseq that a refused call has used up; 0 for none.
    pub(super) refused_tseq: u64,
    /// Highest level of refused calls.
    pub(super) refused_level: u8,
    /// Of the record that comes next.
    position: u64,
    /// What stands before is published.
    written: u64,
    /// No record is behind: the ring has gone round once.
    end: u64,
    /// Lengths of the entry at `position` and of its body, once that is known to be valid.
    entry: Option<(u64, usize)>,
    window: Vec<u8>,
    window_at: u64,
    window_bytes: usize,
    seek_left: u64,
    /// What is damaged.
    pub(super) damage: Vec<Stretch>,
}

impl DeadRing {
    /// The ring in a section whose header page is `page`, with its data at `data_at`.
    pub(super) fn open(
        file: &Arc<dyn StorageFile>,
        run_id: u64,
        page: &[u8],
        header: &SectionHeader,
        data_at: u64,
        window_bytes: usize,
    ) -> io::Result<DeadRing> {
        let there = header.bytes.min(file.len()?.saturating_sub(data_at));
        let word =
            |at: usize| page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
        let refused_tseq = refused_tseq(page);
        let mut ring = DeadRing {
            file: Arc::clone(file),
            run_id,
            kind: header.kind,
            data_at,
            bytes: header.bytes,
            owner: decode_owner(page, run_id),
            refused_tseq: refused_tseq.unwrap_or(0),
            refused_level: level_of_word(word(REFUSED_LEVEL) as u32),
            position: 0,
            written: word(WRITTEN),
            end: 0,
            entry: None,
            window: Vec::new(),
            window_at: 0,
            window_bytes,
            seek_left: there.saturating_mul(SEEK_ROUNDS).max(SEEK_BYTES_MIN),
            damage: Vec::new(),
        };
        let read = READ.map(word);
        let is_possible = read[0].min(read[1]) < POSITION_MAX && ring.bytes < POSITION_MAX;
        if is_possible {
            ring.position = ring.start(read)?;
            ring.end = ring.position + ring.bytes;
        }
        if !is_possible || refused_tseq.is_none() || ring.written < ring.position || ring.written > ring.end {
            // One of the words was altered: the records say what there is.
            ring.damaged(data_at - page.len() as u64, page.len() as u64);
            ring.written = ring.written.min(ring.end);
        }
        Ok(ring)
    }

    /// Which copy of the read position holds. The lower one can't be wrong where a record starts: what is in a segment
    /// already is known there.
    fn start(&mut self, [first, second]: [u64; 2]) -> io::Result<u64> {
        let (low, high) = (first.min(second), first.max(second));
        if low == high {
            return Ok(low - low % RECORD_ALIGN as u64);
        }
        for position in [low, high] {
            let fits = position < POSITION_MAX
                && position.is_multiple_of(RECORD_ALIGN as u64)
                && self.written.checked_sub(position).is_some_and(|pending| pending <= self.bytes);
            if fits && (position == self.written || self.check(position)?.is_some()) {
                return Ok(position);
            }
        }
        Ok(low - low % RECORD_ALIGN as u64)
    }

    /// Goes on to the next entry, past skips and damage; `None` at the end.
    pub(super) fn peek(&mut self) -> io::Result<Option<RecordHead>> {
        while self.position < self.end {
            match self.check(self.position)? {
                Some(Valid { entry: Some((head, body_len)), whole }) if whole <= self.end - self.position => {
                    self.entry = Some((whole, body_len));
                    self.trim_window();
                    return Ok(Some(head));
                }
                Some(Valid { entry: None, whole }) => self.position += whole,
                _ if self.position < self.written => self.seek()?,
                _ => break,
            }
        }
        self.position = self.end;
        self.window = Vec::new();
        Ok(None)
    }

    /// Length of the body of the entry that [`peek`](DeadRing::peek) found.
    pub(super) fn body_len(&self) -> usize {
        self.entry.map_or(0, |(_, body_len)| body_len)
    }

    /// Passes over the entry that [`peek`](DeadRing::peek) found.
    pub(super) fn pass(&mut self) {
        self.position += self.entry.take().map_or(0, |(whole, _)| whole);
    }

    /// The body of the entry that [`peek`](DeadRing::peek) found, which is passed over.
    pub(super) fn take_body(&mut self) -> io::Result<Vec<u8>> {
        let body_len = self.body_len();
        let record = self.at(self.position, RECORD_HEAD_BYTES + body_len)?;
        let body = record[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + body_len].to_vec();
        self.trim_window();
        self.pass();
        Ok(body)
    }

    /// Gives back what a long record took.
    fn trim_window(&mut self) {
        if self.window.len() > self.window_bytes {
            self.window = Vec::new();
        }
    }

    /// Passes over a stretch where no record holds.
    fn seek(&mut self) -> io::Result<()> {
        let (from, stop) = (self.position, self.written.min(self.end));
        let mut at = from + RECORD_ALIGN as u64;
        while at < stop {
            let room = self.room(at);
            let Some(left) = self.seek_left.checked_sub(RECORD_ALIGN as u64) else {
                at = stop;
                break;
            };
            self.seek_left = left;
            if let Some(span) = Record::span(self.at(at, RECORD_ALIGN)?, room)
                && span as u64 <= stop - at
            {
                let Some(left) = self.seek_left.checked_sub(span as u64) else {
                    at = stop;
                    break;
                };
                self.seek_left = left;
                if self.check(at)?.is_some() {
                    break;
                }
            }
            at += RECORD_ALIGN as u64;
        }
        self.position = at.min(stop);
        let place = from % self.bytes;
        self.damaged(self.data_at + place, (self.position - from).min(self.bytes - place));
        Ok(())
    }

    fn damaged(&mut self, offset: u64, len: u64) {
        if self.damage.len() < DAMAGE_LISTED_MAX {
            self.damage.push(Stretch { offset, len, cost: None });
        }
    }

    /// What is valid at a position.
    fn check(&mut self, position: u64) -> io::Result<Option<Valid>> {
        let (run_id, room) = (self.run_id, self.room(position));
        let Some(span) = Record::span(self.at(position, RECORD_HEAD_BYTES)?, room) else { return Ok(None) };
        let bytes = self.at(position, span)?;
        Ok(Record::check(bytes, run_id, position).map(|(record, whole)| match record {
            Record::Entry { head, body } => Valid { entry: Some((head, body.len())), whole: whole as u64 },
            Record::Skip => Valid { entry: None, whole: whole as u64 },
        }))
    }

    /// Bytes from a position to where the ring starts again.
    fn room(&self, position: u64) -> usize {
        usize::try_from(self.bytes - position % self.bytes).unwrap_or(usize::MAX)
    }

    /// The bytes from a position on, `len` of them at least, unless the ring starts again before. What the file lacks is
    /// zeros.
    fn at(&mut self, position: u64, len: usize) -> io::Result<&[u8]> {
        let room = self.room(position);
        let len = len.min(room);
        let window_end = self.window_at + self.window.len() as u64;
        if position < self.window_at || position + len as u64 > window_end {
            let wanted = len.max(self.window_bytes.min(room));
            self.window.clear();
            self.window.resize(wanted, 0);
            self.window_at = position;
            self.file.read_full_at(&mut self.window, self.data_at + position % self.bytes)?;
        }
        Ok(&self.window[(position - self.window_at) as usize..])
    }
}
