//! Entry by entry through one segment: numbers are checked, blocks opened, and what is missing is told.
//!
//! A [`SegmentWalk`] owns the scan of one segment and what its definitions are. It gives every entry that is there, in
//! order, and a [`Finding`] for each stretch that is not, with the numbers that it costs as soon as the next valid frame
//! tells them.

mod ending;
mod frames;
mod item;
mod summary;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ahead::DecodeAhead;
use crate::block::BlockReader;
use crate::control::LossClass;
use crate::entry::{Definitions, Entry, EntryHead};
use crate::error::Result;
use crate::finding::{Fault, Finding, Loss, Note, NoteKind, SeqRange};
use crate::format::{FLAG_MORE, HEADER_BYTES, SEGMENT_RECOVERED};
use crate::frame::FrameHeader;
use crate::scan::{Found, FrameScan, Hole};
use crate::segment::{Predecessor, SegmentHeader};
use crate::storage::{ReadAt, StorageFile};
use crate::verdict::{Facts, Successor, Verdict, verdict};

pub use item::Item;
pub use summary::SegmentSummary;

/// What is known of the end of a segment from outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The next segment knows this one and tells its end.
    Followed {
        /// What it tells.
        link: Predecessor,
        /// Whether the writer went on in it only after it had sealed this one.
        wants_seal: bool,
    },
    /// There is a next segment, but it does not know this one: what lies between is told by whoever links segments.
    Unlinked,
    /// The newest segment; its writer is at work.
    Live,
    /// The newest segment, which is followed as it grows: what is unclear at its end stays open until
    /// [`SegmentWalk::extend`] tells more.
    Growing,
    /// The newest segment; no writer. What its record tells: the last number accepted, and whether it closed the log.
    Newest {
        /// Last number accepted, where a record tells it.
        upto: Option<u64>,
        /// Whether the record says that the log was closed.
        closed: bool,
        /// Whether the machine was started anew since: what was not synced may be lost.
        power_cut: bool,
        /// Whether a record is there and of no later run, so that the segment's own seal tells the end.
        vouched: bool,
    },
    /// A file by itself: nothing is known of what follows.
    Alone,
}

/// What the step under way has found.
#[derive(Clone, Copy, Debug)]
enum Step {
    Queued,
    Entry,
    Row,
    End,
}

/// A stretch without valid frames that waits for the next valid one to tell what it costs.
#[derive(Clone, Copy, Debug)]
struct Pending {
    offset: u64,
    end: u64,
    fault: Fault,
}

/// Whether blocks are decoded on a second thread.
#[derive(Debug)]
enum Ahead {
    /// They are not.
    Not,
    /// They will be, from the second block of this file on.
    From(Arc<dyn StorageFile>),
    /// They are.
    By(DecodeAhead),
}

/// A walk through one segment. Memory: the scan's buffer, one block, the definitions.
#[derive(Debug)]
pub struct SegmentWalk<R> {
    scan: FrameScan<R>,
    name: String,
    segment_id: u64,
    file_end: u64,
    ending: Ending,
    definitions: Definitions,
    /// The next number; 0 while nothing tells it.
    expected: u64,
    pending: Option<Pending>,
    block: BlockReader,
    ahead: Ahead,
    /// Rows still to be given: position in the raw body, and their next number.
    row_at: usize,
    row_seq: u64,
    rows_left: u64,
    /// What the last step went to.
    at: Step,
    /// The entry that it went to: number, flags, position of its row.
    current: (u64, u8, usize),
    queue: VecDeque<Item<'static>>,
    time_last_ns: Option<i64>,
    /// Where an end starts that was not complete when it was looked at.
    tail_at: Option<u64>,
    ended: bool,
    /// Whether the walk began with the segment's first frame.
    is_whole: bool,
    /// The segment holds what rings had held.
    is_recovered: bool,
    /// Whether something is not as it was written, so that the seal may tell more than is there.
    is_altered: bool,
    summary: SegmentSummary,
}

impl<R: ReadAt> SegmentWalk<R> {
    /// A walk through all of the segment called `name`, of which `end` bytes are looked at.
    pub fn new(source: R, name: &str, header: &SegmentHeader, end: u64, ending: Ending) -> SegmentWalk<R> {
        let scan_end = match ending {
            Ending::Followed { link, .. } => end.min(link.accepted_end.max(HEADER_BYTES as u64)),
            _ => end,
        };
        let scan = FrameScan::new(source, header.segment_id, HEADER_BYTES as u64, scan_end, header.first_seq);
        SegmentWalk {
            scan,
            name: name.to_owned(),
            segment_id: header.segment_id,
            file_end: end,
            ending,
            definitions: Definitions::default(),
            expected: header.first_seq,
            pending: None,
            block: BlockReader::default(),
            ahead: Ahead::Not,
            row_at: 0,
            row_seq: 0,
            rows_left: 0,
            at: Step::End,
            current: (0, 0, 0),
            queue: VecDeque::new(),
            time_last_ns: None,
            tail_at: None,
            ended: false,
            is_whole: true,
            is_recovered: header.flags & SEGMENT_RECOVERED != 0,
            is_altered: false,
            summary: SegmentSummary {
                entries: 0,
                text_bytes: 0,
                last_seq: header.first_seq.saturating_sub(1),
                first_entry_seq: None,
                times_ns: None,
                synced_upto: header.synced_upto,
                seal: None,
                accepted_end: HEADER_BYTES as u64,
                retention: None,
                unknown_frames: 0,
                has_more: false,
            },
        }
    }

    /// Starts at a later frame instead of the first: `offset` is a frame's start whose number is `seq`. `definitions` are
    /// those that stand before it.
    #[must_use]
    pub fn starting_at(mut self, offset: u64, seq: u64, definitions: Definitions) -> SegmentWalk<R> {
        let (end, seq_min) = (self.scan.end(), seq);
        self.is_whole = offset == HEADER_BYTES as u64;
        self.definitions = definitions;
        self.expected = seq;
        self.summary.last_seq = seq.saturating_sub(1);
        self.scan = self.scan.restarted(offset.min(end), seq_min);
        self
    }

    /// Goes on behind the end: the segment is now `end` bytes long, and `ending` is what is known of its end now. For a walk
    /// that was made with [`Ending::Growing`], once it has given all it had.
    pub fn extend(&mut self, end: u64, ending: Ending) {
        let scan_end = match ending {
            Ending::Followed { link, .. } => end.min(link.accepted_end.max(HEADER_BYTES as u64)),
            _ => end,
        };
        let offset = self.tail_at.take().unwrap_or(self.scan.offset());
        self.scan.set_end(scan_end, offset);
        (self.file_end, self.ending, self.ended) = (end, ending, false);
    }

    /// How many bytes of the file the walk knows of.
    pub fn file_end(&self) -> u64 {
        self.file_end
    }

    /// Whether the end looked at was not complete, as it is while a write is under way.
    pub fn has_incomplete_end(&self) -> bool {
        self.tail_at.is_some()
    }

    /// What has been learned so far; whole once the walk has ended.
    pub fn summary(&self) -> &SegmentSummary {
        &self.summary
    }

    /// The definitions seen so far.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Offset behind the last frame looked at.
    pub fn offset(&self) -> u64 {
        self.scan.offset()
    }

    /// The next number that the walk expects.
    pub fn expected_seq(&self) -> u64 {
        self.expected
    }

    /// The next item; `None` at the end of the segment.
    ///
    /// # Errors
    /// Only where the file could not be read.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>> {
        self.advance_item()?;
        Ok(self.item())
    }

    /// Goes to the next item, which is then [`item`](SegmentWalk::item). Returns false at the end of the segment.
    ///
    /// # Errors
    /// Only where the file could not be read.
    #[inline]
    pub fn advance_item(&mut self) -> Result<bool> {
        self.at = self.step()?;
        Ok(!matches!(self.at, Step::End))
    }

    /// The item that the last [`advance_item`](SegmentWalk::advance_item) went to. Findings and notes are given once.
    #[inline]
    pub fn item(&mut self) -> Option<Item<'_>> {
        match self.at {
            Step::Queued => self.queue.pop_front(),
            _ => self.entry().map(Item::Entry),
        }
    }

    /// Whether the last [`advance_item`](SegmentWalk::advance_item) went to an entry.
    #[inline]
    pub fn is_at_entry(&self) -> bool {
        matches!(self.at, Step::Row | Step::Entry)
    }

    /// The entry that the last [`advance_item`](SegmentWalk::advance_item) went to, as often as it is asked for; `None`
    /// if that was no entry.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        let (seq, flags, at) = self.current;
        match self.at {
            Step::Queued | Step::End => None,
            Step::Row => {
                let payload = self.block.row_at(at).map_or(&[][..], |(row, _)| row.payload);
                self.definitions.entry(seq, flags, payload)
            }
            Step::Entry => self.definitions.entry(seq, flags, self.scan.payload()),
        }
    }

    /// Numbers of the item that the last step went to: of an entry its own, of a finding or note those that it is about.
    pub(crate) fn current_seqs(&self) -> Option<SeqRange> {
        match self.at {
            Step::Queued => self.queue.front().and_then(Item::seqs),
            Step::Row | Step::Entry => Some(SeqRange { first: self.current.0, last: self.current.0 }),
            Step::End => None,
        }
    }

    /// Call site of the entry that the last step went to; `None` for text, findings and notes.
    pub(crate) fn current_site(&self) -> Option<u32> {
        let payload = match self.at {
            Step::Queued | Step::End => return None,
            Step::Row => self.block.row_at(self.current.2)?.0.payload,
            Step::Entry => self.scan.payload(),
        };
        EntryHead::decode(payload).map(|(head, _)| head.site).filter(|&site| site != 0)
    }

    /// Adds definitions that stand before the place where the walk started.
    pub(crate) fn add_definitions(&mut self, before: Definitions) {
        self.definitions.add_missing(before);
    }

    #[inline]
    fn step(&mut self) -> Result<Step> {
        loop {
            if !self.queue.is_empty() {
                return Ok(Step::Queued);
            }
            if self.rows_left > 0 {
                return Ok(self.next_row());
            }
            if self.ended {
                return Ok(Step::End);
            }
            let frame = match self.scan.next_buffered() {
                Some(frame) => Some(frame),
                None => self.next_unbuffered()?,
            };
            let Some((offset, header, padding_ok)) = frame else { continue };
            if !padding_ok {
                let end = offset + header.frame_bytes();
                self.finding(Fault::Padding, offset, end - offset, Loss::Nothing);
            }
            if self.frame(offset, &header) {
                // What the frame explains comes before its entry.
                if self.queue.is_empty() {
                    return Ok(Step::Entry);
                }
                return Ok(self.behind_queue());
            }
        }
    }

    /// The next frame where it must be read first, or isn't there: then what is in its place is taken note of.
    #[cold]
    fn next_unbuffered(&mut self) -> Result<Option<(u64, FrameHeader, bool)>> {
        match self.scan.next_found()? {
            Some(Found::Frame { offset, header, padding_ok }) => return Ok(Some((offset, header, padding_ok))),
            Some(Found::Hole(hole)) => self.hole(&hole, true),
            Some(Found::Tail { hole, .. }) => {
                self.hole(&hole, false);
                self.end()?;
            }
            None => self.end()?,
        }
        Ok(None)
    }

    /// An entry waits behind what the queue holds: it is given as a row would be, once the queue is empty.
    fn behind_queue(&mut self) -> Step {
        // The frame's payload stays in the scan's buffer until the scan goes on, which it does not before the row is given.
        self.rows_left = 1;
        self.row_at = usize::MAX;
        Step::Queued
    }

    fn next_row(&mut self) -> Step {
        self.rows_left -= 1;
        if self.row_at == usize::MAX {
            return Step::Entry;
        }
        let at = self.row_at;
        let Some((row, next)) = self.block.row_at(at) else {
            // Cannot be: the block was checked when it was decoded.
            self.rows_left = 0;
            return Step::Queued;
        };
        let (flags, payload) = (row.flags, row.payload);
        let head = EntryHead::decode(payload);
        self.current = (self.row_seq, flags, at);
        self.row_at = next;
        self.row_seq += 1;
        if let Some((head, body)) = head {
            let body_len = body.len();
            self.count_entry(self.row_seq - 1, flags, &head, body_len);
        }
        Step::Row
    }

    fn count_entry(&mut self, seq: u64, flags: u8, head: &EntryHead, body_len: usize) {
        let summary = &mut self.summary;
        summary.entries += 1;
        summary.text_bytes += body_len as u64 + 1;
        summary.has_more = flags & FLAG_MORE != 0;
        summary.first_entry_seq.get_or_insert(seq);
        let (min, max) = summary.times_ns.unwrap_or((i64::MAX, i64::MIN));
        summary.times_ns = Some((min.min(head.time_ns), max.max(head.time_ns)));
        self.time_last_ns = Some(head.time_ns);
    }

    fn hole(&mut self, hole: &Hole, later_frame: bool) {
        let end = hole.offset + hole.len;
        let facts = Facts {
            header_ok: hole.header.is_some(),
            fits: hole.fits,
            payload_ok: false,
            later_frame,
            behind_seal: self.summary.seal.is_some(),
            successor: if matches!(self.ending, Ending::Followed { .. }) { Successor::Claims } else { Successor::None },
            alive: matches!(self.ending, Ending::Live | Ending::Growing),
        };
        let fault = match verdict(&facts) {
            Verdict::Damage(fault) => fault,
            Verdict::LostEnd if hole.header.is_some() && hole.fits => Fault::FramePayload,
            Verdict::LostEnd => Fault::FrameHeader,
            Verdict::TornTail => Fault::TornTail,
            Verdict::Stray => {
                self.finding(Fault::StrayBytes, hole.offset, hole.len, Loss::Nothing);
                return;
            }
            Verdict::InFlight => {
                self.tail_at = Some(hole.offset);
                return;
            }
            Verdict::Accounted | Verdict::Whole => return,
        };
        match &mut self.pending {
            Some(pending) => pending.end = end,
            None => self.pending = Some(Pending { offset: hole.offset, end, fault }),
        }
    }

    fn finding(&mut self, fault: Fault, offset: u64, len: u64, loss: Loss) {
        let finding = self.make_finding(fault, offset, len, loss);
        self.queue.push_back(Item::Finding(finding));
    }

    fn make_finding(&mut self, fault: Fault, offset: u64, len: u64, loss: Loss) -> Finding {
        self.is_altered = true;
        let class = if fault == Fault::TornTail { LossClass::TornTail } else { LossClass::Corruption };
        let mut finding = Finding::new(fault, loss, class).at(&self.name, offset, len);
        finding.next_seq = self.expected;
        finding.time_before_ns = self.time_last_ns;
        finding
    }

    fn note(&mut self, kind: NoteKind, offset: u64, len: u64) {
        let place = Some(crate::finding::Place { segment: self.name.clone(), offset, len });
        self.queue.push_back(Item::Note(Note { kind, place }));
    }
}

impl SegmentWalk<Arc<dyn StorageFile>> {
    /// Decodes blocks on a thread of its own, ahead of the walk: for a walk that goes on to the end.
    #[must_use]
    pub fn decoding_ahead(mut self) -> Self {
        self.ahead = Ahead::From(Arc::clone(self.scan.source()));
        self
    }
}
