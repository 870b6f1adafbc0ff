//! What a walk says of the end of its segment, by what is known of it from outside.

use crate::control::{LossClass, Seal, SealReason};
use crate::error::Result;
use crate::finding::{Fault, Loss, NoteKind, SeqRange};
use crate::format::{FrameKind, HEADER_BYTES};
use crate::scan::{Found, FrameScan};
use crate::segment::Predecessor;
use crate::storage::ReadAt;
use crate::walk::{Ending, Item, Pending, SegmentWalk};

impl<R: ReadAt> SegmentWalk<R> {
    /// All frames that can be read have been read: says what is wrong with the end.
    pub(super) fn end(&mut self) -> Result<()> {
        self.ended = true;
        match self.ending {
            Ending::Growing => return Ok(()),
            Ending::Followed { link, wants_seal } => self.end_followed(&link, wants_seal)?,
            Ending::Unlinked | Ending::Live => {
                if self.pending.is_some() {
                    self.tell_missing(None, None);
                }
            }
            Ending::Newest { upto, closed, power_cut, vouched } => self.end_newest(upto, closed, power_cut, vouched),
            Ending::Alone => self.end_alone(),
        }
        self.check_seal();
        if self.summary.unknown_frames > 0 {
            let count = self.summary.unknown_frames;
            self.note(NoteKind::UnknownFrames { count }, 0, 0);
        }
        Ok(())
    }

    fn end_followed(&mut self, known: &Predecessor, wants_seal: bool) -> Result<()> {
        // What a cut within the header costs is told with the header.
        let frames_end = self.file_end.max(HEADER_BYTES as u64);
        let short = frames_end < known.accepted_end;
        let missing = SeqRange::new(self.expected.max(1), known.last_seq).filter(|_| self.expected != 0);
        if short {
            let offset = self.pending.map_or(frames_end, |pending| pending.offset);
            self.pending = Some(Pending { offset, end: known.accepted_end, fault: Fault::ShortSegment });
        }
        if self.pending.is_some() || missing.is_some() {
            self.tell_missing(missing, None);
        }
        self.expected = self.expected.max(known.last_seq.saturating_add(1));
        self.summary.last_seq = self.expected.saturating_sub(1);
        self.summary.accepted_end = known.accepted_end;
        self.read_seal(known.accepted_end, wants_seal)
    }

    /// What stands behind the accepted end: a seal, what is left of one, or a torn tail that is accounted for.
    fn read_seal(&mut self, accepted_end: u64, wants_seal: bool) -> Result<()> {
        let mut scan = FrameScan::new(self.scan.source(), self.segment_id, accepted_end, self.file_end, 0);
        let first = scan.next_found()?;
        let seal = match &first {
            Some(Found::Frame { header, .. }) if header.kind == FrameKind::Seal as u8 => Seal::decode(scan.payload()),
            _ => None,
        };
        // Valid frames behind the end were written anew in the next segment, after trouble with this one.
        let is_other_frame = seal.is_none() && matches!(first, Some(Found::Frame { .. }));
        let seal_end = if seal.is_some() { scan.offset() } else { accepted_end };
        let len = self.file_end.saturating_sub(seal_end);
        if seal.is_some() && len > 0 {
            self.finding(Fault::StrayBytes, seal_end, len, Loss::Nothing);
        } else if seal.is_none() && wants_seal && !is_other_frame {
            self.finding(Fault::Seal, accepted_end, len, Loss::Nothing);
        } else if len > 0 {
            self.note(NoteKind::AccountedTail, accepted_end, len);
        }
        self.summary.seal = seal;
        Ok(())
    }

    /// A seal must tell what the segment holds, where nothing in it was harmed.
    fn check_seal(&mut self) {
        let summary = &self.summary;
        let is_as_written = self.is_whole && !self.is_altered && summary.unknown_frames == 0;
        let lies = |seal: &Seal| is_as_written && (seal.entries, seal.last_seq) != (summary.entries, summary.last_seq);
        if summary.seal.as_ref().is_some_and(lies) {
            let offset = summary.accepted_end;
            self.finding(Fault::Seal, offset, self.file_end.saturating_sub(offset), Loss::Nothing);
        }
    }

    fn end_newest(&mut self, upto: Option<u64>, closed: bool, power_cut: bool, vouched: bool) {
        let missing = upto.and_then(|upto| SeqRange::new(self.expected.max(1), upto));
        let last_seq = self.expected.saturating_sub(1);
        let unknown = if upto.is_some() { Loss::Nothing } else { Loss::UnknownAfter(last_seq) };
        let loss = missing.map_or(unknown, Loss::Seqs);
        let (place_offset, place_len) =
            self.pending.map_or((self.scan.offset(), 0), |pending| (pending.offset, pending.end - pending.offset));
        let class = if power_cut { LossClass::PowerCut } else { LossClass::TornTail };
        let rolled = self.summary.seal.as_ref().map(|seal| seal.reason == SealReason::Rolled);
        let fault = match rolled {
            Some(true) => Some((Fault::MissingNewest, LossClass::MissingSegment)),
            Some(false) if missing.is_some() => Some((Fault::MissingNewest, LossClass::MissingSegment)),
            Some(false) if vouched => None,
            None if self.pending.is_some() => self.pending.map(|pending| match pending.fault {
                Fault::TornTail => (Fault::TornTail, class),
                fault => (fault, LossClass::Corruption),
            }),
            None if missing.is_some() => Some((Fault::ShortSegment, class)),
            None if closed => Some((Fault::Seal, class)),
            _ if upto.is_none() && power_cut => Some((Fault::NoEvidence, LossClass::PowerCut)),
            _ if upto.is_none() => Some((Fault::NoEvidence, LossClass::Unknown)),
            _ => None,
        };
        self.pending = None;
        match fault {
            Some((fault, class)) => {
                // Behind a seal that names a successor more may be missing than the record tells.
                let loss = if rolled == Some(true) && missing.is_none() { Loss::UnknownAfter(last_seq) } else { loss };
                let mut finding = self.make_finding(fault, place_offset, place_len, loss);
                finding.class = class;
                self.queue.push_back(Item::Finding(finding));
            }
            None if self.summary.seal.is_none() => self.note(NoteKind::EndedWithoutClose, place_offset, 0),
            None => {}
        }
        if let Some(missing) = missing {
            self.expected = missing.last.saturating_add(1);
            self.summary.last_seq = missing.last;
        }
    }

    fn end_alone(&mut self) {
        let loss = Loss::UnknownAfter(self.expected.saturating_sub(1));
        if let Some(pending) = self.pending.take() {
            let len = pending.end - pending.offset;
            self.finding(pending.fault, pending.offset, len, loss);
        } else if self.summary.seal.is_none() {
            self.finding(Fault::NoEvidence, self.scan.offset(), 0, loss);
        }
    }
}
