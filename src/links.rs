//! What there is to say between the segments of a log: missing ones, unreadable ones, void numbers, and a missing end.

use crate::control::{LossClass, RunEnd};
use crate::finding::{Fault, Finding, Loss, Note, NoteKind, Place, SeqRange};
use crate::format::{HEADER_BYTES, HEADER_COPY_BYTES};
use crate::snapshot::{SegmentInfo, Snapshot, UnreadableSegment};
use crate::walk::Item;

impl Snapshot {
    /// What there is to say before segment number `at`, if the one before it accounts for numbers up to `last_seq`.
    pub fn link(&self, at: usize, last_seq: Option<u64>) -> Vec<Item<'static>> {
        let before = at.checked_sub(1).and_then(|before| self.segments.get(before));
        self.link_from(before, &self.segments[at], last_seq)
    }

    /// What there is to say before `info`, if `before` stands before it and accounts for numbers up to `last_seq`.
    pub(crate) fn link_from(
        &self,
        before: Option<&SegmentInfo>,
        info: &SegmentInfo,
        last_seq: Option<u64>,
    ) -> Vec<Item<'static>> {
        let mut items = Vec::new();
        let may_be_begun = self.is_live() && info.bytes < HEADER_BYTES as u64;
        if let Some(copy) = info.copy_fault.filter(|_| !may_be_begun) {
            let offset = u64::from(copy) * HEADER_COPY_BYTES as u64;
            items.push(self.finding_at(Fault::HeaderCopy(copy), info, offset, HEADER_COPY_BYTES as u64));
        }
        if let Some(fault) = info.rebuilt {
            items.push(self.finding_at(Fault::SegmentHeader(fault), info, 0, HEADER_BYTES as u64));
        }
        if info.header.first_seq == 0 || self.is_single_file {
            return items;
        }
        match (before, last_seq) {
            (Some(_), Some(last_seq)) if info.header.first_seq <= last_seq => {
                // A stray branch of the log: what repeats numbers is passed over by the walk.
                items.push(self.finding_at(Fault::Order, info, 0, 0));
            }
            (Some(before), Some(last_seq)) => self.link_to_last(before, info, last_seq, &mut items),
            (None, Some(last_seq)) => {
                self.between(None, info, last_seq, &mut items);
            }
            (_, None) => self.link_to_nothing(info, &mut items),
        }
        items
    }

    /// The first segment of the log that is there.
    fn link_to_nothing(&self, info: &SegmentInfo, items: &mut Vec<Item<'static>>) {
        let first_seq = info.header.first_seq;
        let removed_upto = self.first_seq_kept.min(first_seq) - 1;
        if let Some(seqs) = SeqRange::new(1, removed_upto) {
            items.push(Item::Note(Note { kind: NoteKind::Retention { seqs, rule: None }, place: None }));
        }
        self.between(None, info, removed_upto, items);
    }

    fn link_to_last(&self, before: &SegmentInfo, info: &SegmentInfo, last_seq: u64, items: &mut Vec<Item<'static>>) {
        let linked = info.header.predecessor.is_some_and(|known| known.segment_id == before.header.segment_id);
        let excused = linked
            || before.header.is_placeholder()
            || info.header.is_placeholder()
            || before.rebuilt.is_some()
            || info.rebuilt.is_some();
        let gap = self.between(Some(before), info, last_seq, items);
        // The run that follows had no record of the one before: numbers may be missing that nothing tells of.
        let is_blind = info.run_start.is_some_and(|start| start.last_end == RunEnd::Damaged && start.void_first != 0);
        if linked && is_blind && !gap {
            let finding = Finding::new(Fault::NoEvidence, Loss::UnknownAfter(last_seq), LossClass::Unknown);
            items.push(Item::Finding(finding.at(&info.name, 0, 0)));
        }
        if !excused && !gap {
            // The numbers that follow may have been left void because nothing tells how many are missing.
            let void = info.run_start.is_some_and(|start| start.void_first != 0);
            let loss = if void { Loss::UnknownAfter(last_seq) } else { Loss::Nothing };
            items.push(Item::Finding(
                Finding::new(Fault::MissingSegment, loss, LossClass::MissingSegment).at(&info.name, 0, 0),
            ));
        }
    }

    /// The numbers that were never given out before `info`: as its run start tells, or, where that is
    /// damaged, as its header does, which is the very next and knows the end of the one before.
    fn void_before(&self, before: Option<&SegmentInfo>, info: &SegmentInfo, last_seq: u64) -> Option<SeqRange> {
        let next_seq = info.header.first_seq;
        if let Some(start) = info.run_start {
            let fits = start.void_first != 0 && start.void_last.wrapping_add(1) == next_seq;
            return SeqRange::new(start.void_first, start.void_last).filter(|_| fits);
        }
        let (before, known) = (before?, info.header.predecessor?);
        let vouched = known.segment_id == before.header.segment_id
            && known.last_seq == last_seq
            && before.header.index_last.checked_add(1) == Some(info.header.index)
            && before.header.run_id != info.header.run_id;
        SeqRange::behind(last_seq, next_seq - 1).filter(|_| vouched)
    }

    /// Tells what became of the numbers from `last_seq` to the first of `info`, and of unreadable files
    /// between. Returns whether there is a gap that is a finding.
    fn between(
        &self,
        before: Option<&SegmentInfo>,
        info: &SegmentInfo,
        last_seq: u64,
        items: &mut Vec<Item<'static>>,
    ) -> bool {
        let index_before = before.map_or(0, |before| before.header.index_last);
        if self.is_unopened_between(index_before, info.header.index) {
            // What is missing here may stand there: that is told as a failure.
            return true;
        }
        let mut last_seq = last_seq;
        let void = self.void_before(before, info, last_seq);
        let gap_last = void.map_or(info.header.first_seq, |void| void.first) - 1;
        let inside = |segment: &&UnreadableSegment| segment.index > index_before && segment.index < info.header.index;
        for segment in self.unreadable.iter().filter(inside) {
            let lost = SeqRange::behind(last_seq, gap_last).filter(|_| segment.bytes > 0);
            last_seq = if lost.is_some() { gap_last } else { last_seq };
            items.push(unreadable_item(segment, lost.map_or(Loss::Nothing, Loss::Seqs)));
        }
        let gap = SeqRange::behind(last_seq, gap_last);
        if let Some(seqs) = gap {
            let finding = Finding::new(Fault::MissingSegment, Loss::Seqs(seqs), LossClass::MissingSegment);
            items.push(Item::Finding(finding.at(&info.name, 0, 0)));
        }
        if let Some(void) = void
            && let Some(seqs) = SeqRange::behind(last_seq.max(void.first - 1), void.last)
        {
            items.push(Item::Note(Note { kind: NoteKind::Void { seqs }, place: None }));
        }
        gap.is_some()
    }

    /// What there is to say behind the last segment, which accounts for numbers up to `last_seq`.
    pub fn link_end(&self, last_seq: u64) -> Vec<Item<'static>> {
        self.link_end_from(self.segments.last(), last_seq)
    }

    /// What there is to say behind the log's last segment `last`, which accounts for numbers up to `last_seq`.
    pub(crate) fn link_end_from(&self, last: Option<&SegmentInfo>, last_seq: u64) -> Vec<Item<'static>> {
        let index_last = last.map_or(0, |last| last.header.index_last);
        if self.is_single_file || self.is_live() || self.is_unopened_between(index_last, u64::MAX) {
            return Vec::new();
        }
        let mut items: Vec<Item<'static>> = Vec::new();
        // Of a log without segments the record alone tells what retention had removed before.
        let removed = self
            .state
            .filter(|_| last.is_none())
            .and_then(|state| SeqRange::behind(last_seq, state.newest_seq.min(self.first_seq_kept - 1)));
        if let Some(seqs) = removed {
            items.push(Item::Note(Note { kind: NoteKind::Retention { seqs, rule: None }, place: None }));
        }
        let last_seq = removed.map_or(last_seq, |removed| removed.last);
        let upto = self.recorded_upto(last);
        // Without a record and without anything that could have been a segment, nothing was ever accepted.
        let nothing = self.segments.is_empty() && self.unreadable.is_empty();
        let unknown = if nothing { Loss::Nothing } else { Loss::UnknownAfter(last_seq) };
        let lost = upto.map_or(unknown, |upto| SeqRange::behind(last_seq, upto).map_or(Loss::Nothing, Loss::Seqs));
        // The last segment's own walk has used the record, unless something unreadable follows.
        let damaged = last.is_none() || self.trailing(last).any(|segment| segment.fault.is_some());
        let mut loss = if damaged { lost } else { Loss::Nothing };
        for segment in self.trailing(last) {
            let costs =
                if segment.fault.is_some() { std::mem::replace(&mut loss, Loss::Nothing) } else { Loss::Nothing };
            items.push(unreadable_item(segment, costs));
        }
        if loss != Loss::Nothing {
            items.push(Item::Finding(Finding::new(Fault::MissingNewest, loss, LossClass::MissingSegment)));
        } else if !damaged && self.newest_is_missing(last) {
            items.push(Item::Finding(Finding::new(Fault::MissingNewest, Loss::Nothing, LossClass::MissingSegment)));
        }
        items.extend(self.ring_damage(last_seq));
        items
    }

    /// Whether the writer's record names an active segment that is not here although nothing was numbered in it.
    fn newest_is_missing(&self, last: Option<&SegmentInfo>) -> bool {
        let Some(state) = &self.state else { return false };
        // A later run's segment may be there before that run's first record, which is then that of a run before.
        let newest = last.is_some_and(|segment| {
            segment.header.run_id == state.run_id || segment.header.first_seq > state.newest_seq
        });
        let there = self.segments.iter().chain(last).any(|segment| segment.header.segment_id == state.segment_id);
        // Id 0: the record of a run that had not made its first segment yet.
        state.segment_id != 0 && !there && !newest && self.unreadable.is_empty()
    }

    fn finding_at(&self, fault: Fault, info: &SegmentInfo, offset: u64, len: u64) -> Item<'static> {
        Item::Finding(Finding::new(fault, Loss::Nothing, LossClass::Corruption).at(&info.name, offset, len))
    }
}

fn unreadable_item(segment: &UnreadableSegment, loss: Loss) -> Item<'static> {
    let place = Place { segment: segment.name.clone(), offset: 0, len: segment.bytes };
    match segment.fault {
        None if loss == Loss::Nothing => Item::Note(Note { kind: NoteKind::Unborn, place: Some(place) }),
        fault => {
            let fault = fault.unwrap_or(Fault::ShortSegment);
            Item::Finding(Finding::new(fault, loss, LossClass::Corruption).at(&place.segment, 0, place.len))
        }
    }
}
