//! What a walk does with a valid frame, by its kind, and what a frame's number tells of those before it.

use crate::ahead::DecodeAhead;
use crate::block::{BlockFault, BlockHeader};
use crate::control::{DeclaredLoss, DropMarker, RetentionMark, RunStart, Seal, SyncMark};
use crate::entry::EntryHead;
use crate::finding::{Fault, Loss, NoteKind, SeqRange};
use crate::format::FrameKind;
use crate::frame::FrameHeader;
use crate::scan::FrameScan;
use crate::storage::ReadAt;
use crate::walk::{Ahead, Item, Pending, SegmentWalk};

impl<R: ReadAt> SegmentWalk<R> {
    /// Takes a valid frame. Returns whether it is an entry to be given.
    #[inline]
    pub(super) fn frame(&mut self, offset: u64, header: &FrameHeader) -> bool {
        let end = offset + header.frame_bytes();
        if self.summary.seal.is_some() {
            // The table's row for whatever stands behind a seal.
            self.finding(Fault::StrayBytes, offset, end - offset, Loss::Nothing);
            return false;
        }
        if header.seq < self.expected {
            self.finding(Fault::Order, offset, end - offset, Loss::Nothing);
            return false;
        }
        let Some(kind) = FrameKind::from_u8(header.kind) else {
            self.settle(header.seq, None);
            self.summary.unknown_frames += 1;
            self.summary.accepted_end = end;
            return false;
        };
        let is_entry = kind == FrameKind::Entry && self.entry_frame(offset, end, header);
        if kind == FrameKind::Block {
            self.block_frame(offset, end, header);
        } else if kind != FrameKind::Entry {
            self.settle(header.seq, None);
            if !self.control_frame(kind, offset, end, header.seq) {
                self.finding(Fault::FrameContent, offset, end - offset, Loss::Nothing);
            }
        }
        // Only now: a gap stands before the frame that tells of it.
        if kind != FrameKind::Seal {
            self.summary.accepted_end = end;
        }
        is_entry
    }

    fn entry_frame(&mut self, offset: u64, end: u64, header: &FrameHeader) -> bool {
        let Some((head, body)) = EntryHead::decode(self.scan.payload()) else {
            self.settle(header.seq, None);
            self.pending = Some(Pending { offset, end, fault: Fault::FrameContent });
            return false;
        };
        let body_len = body.len();
        self.settle(header.seq, Some(head.time_ns));
        if !self.advance(1, offset, end) {
            return false;
        }
        self.current = (header.seq, header.flags, 0);
        self.count_entry(header.seq, header.flags, &head, body_len);
        true
    }

    fn block_frame(&mut self, offset: u64, end: u64, header: &FrameHeader) {
        match self.decode_block(offset, header) {
            Ok(block) => {
                self.settle(header.seq, Some(block.time_min_ns));
                let synced_upto = header.seq.saturating_sub(block.synced_lag);
                self.summary.synced_upto = self.summary.synced_upto.max(synced_upto);
                (self.row_at, self.row_seq, self.rows_left) = (0, header.seq, block.count);
                if !self.advance(block.count, offset, end) {
                    self.rows_left = 0;
                }
            }
            Err(fault) => {
                self.settle(header.seq, None);
                self.pending = Some(Pending { offset, end, fault: Fault::Block(fault) });
            }
        }
    }

    fn decode_block(&mut self, offset: u64, frame: &FrameHeader) -> Result<BlockHeader, BlockFault> {
        if let Ahead::By(ahead) = &mut self.ahead
            && let Some(decoded) = ahead.take(offset, frame, &mut self.block)
        {
            return decoded;
        }
        if let Ahead::From(file) = std::mem::replace(&mut self.ahead, Ahead::Not) {
            let scan = FrameScan::new(file, self.segment_id, self.scan.offset(), self.scan.end(), frame.seq);
            self.ahead = DecodeAhead::start(scan).map_or(Ahead::Not, Ahead::By);
        }
        self.block.decode(self.scan.payload())
    }

    /// Uses up `count` numbers. Returns false where they do not exist.
    #[inline]
    fn advance(&mut self, count: u64, offset: u64, end: u64) -> bool {
        match self.expected.checked_add(count) {
            Some(next) => {
                self.expected = next;
                self.summary.last_seq = next - 1;
                true
            }
            None => {
                self.finding(Fault::FrameContent, offset, end - offset, Loss::Nothing);
                false
            }
        }
    }

    /// Takes a frame that is no entry. Returns whether its content makes sense.
    fn control_frame(&mut self, kind: FrameKind, offset: u64, end: u64, seq: u64) -> bool {
        match kind {
            FrameKind::CallSite => return self.definitions.add_site(self.scan.payload()),
            FrameKind::Thread => return self.definitions.add_thread(self.scan.payload()),
            FrameKind::Entry
            | FrameKind::Block
            | FrameKind::Dictionary
            | FrameKind::Replaced
            | FrameKind::IndexMark => {}
            FrameKind::DropMarker => {
                let Some(marker) = DropMarker::decode(self.scan.payload()) else { return false };
                let thread = self.definitions.thread(marker.tid).map(str::to_owned);
                if marker.count > 0 && self.advance(marker.count, offset, end) {
                    let seqs = SeqRange { first: seq, last: self.expected - 1 };
                    self.note(NoteKind::Dropped { seqs, marker, thread }, offset, end - offset);
                }
            }
            FrameKind::DeclaredLoss => {
                let loss = DeclaredLoss::decode(self.scan.payload());
                self.is_altered = true;
                if loss.count > 0 && self.advance(loss.count, offset, end) {
                    let seqs = SeqRange { first: seq, last: self.expected - 1 };
                    self.note(NoteKind::DeclaredLoss { seqs, class: loss.class }, offset, end - offset);
                }
            }
            FrameKind::SyncMark => {
                let Some(mark) = SyncMark::decode(self.scan.payload()) else { return false };
                self.summary.synced_upto = self.summary.synced_upto.max(mark.synced_upto);
            }
            FrameKind::RetentionMark => {
                let Some(mark) = RetentionMark::decode(self.scan.payload()) else { return false };
                self.summary.retention = Some(mark);
            }
            FrameKind::RunStart => {
                let Some(start) = RunStart::decode(self.scan.payload()) else { return false };
                let kind = match self.is_recovered {
                    true => NoteKind::Recovered { entries: start.entries_recovered },
                    false => NoteKind::Run { last_end: start.last_end },
                };
                self.note(kind, offset, end - offset);
            }
            FrameKind::Seal => {
                let Some(seal) = Seal::decode(self.scan.payload()) else { return false };
                self.summary.seal = Some(seal);
            }
        }
        true
    }

    /// A valid frame has number `seq`: tells what is missing before it.
    #[inline]
    fn settle(&mut self, seq: u64, time_after_ns: Option<i64>) {
        let expected = if self.expected == 0 { seq } else { self.expected };
        if self.pending.is_some() || seq > expected {
            let missing = SeqRange::new(expected, seq.saturating_sub(1)).filter(|_| expected < seq);
            self.tell_missing(missing, time_after_ns);
        }
        self.expected = seq.max(expected);
        self.summary.last_seq = self.expected.saturating_sub(1);
    }

    /// Tells of the stretch that is pending, or of a gap without one, that costs `missing`.
    pub(super) fn tell_missing(&mut self, missing: Option<SeqRange>, time_after_ns: Option<i64>) {
        let loss = missing.map_or(Loss::Nothing, Loss::Seqs);
        let place = self.pending.take().unwrap_or(Pending {
            offset: self.summary.accepted_end,
            end: self.summary.accepted_end,
            fault: Fault::Gap,
        });
        let mut finding = self.make_finding(place.fault, place.offset, place.end - place.offset, loss);
        finding.time_after_ns = time_after_ns;
        self.queue.push_back(Item::Finding(finding));
    }
}
