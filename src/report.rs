//! What `verify` says of a log: counts, notes put together, and findings.

use std::collections::HashMap;

use crate::control::{DropReason, LossClass, RetentionRule, RunEnd};
use crate::entry::Level;
use crate::finding::{Finding, Loss, Note, NoteKind, SeqRange};

/// Lists of a report hold at most this many; more are put together or counted.
pub(crate) const LISTED_MAX: usize = 4096;

/// A log, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The log's id.
    pub log_id: u64,
    /// The process that writes it now; 0 if it is not known.
    pub writer_pid: Option<u32>,
    /// Whether this is a segment file by itself.
    pub is_single_file: bool,
    /// Segments that were read.
    pub segments: u64,
    /// Those of them with a seal.
    pub segments_sealed: u64,
    /// Those of them that a writer writes now: 0 or 1.
    pub segments_active: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes of the entries' bodies, with one for each line's end.
    pub text_bytes: u64,
    /// Entries that can be read; parts of long ones count each.
    pub entries: u64,
    /// First number that an entry has.
    pub first_seq: Option<u64>,
    /// Last number that is accounted for: the log was checked up to it.
    pub last_seq: u64,
    /// Highest number known to be on stable storage.
    pub synced_upto: u64,
    /// Earliest and latest time of an entry, nanoseconds since 1970 UTC.
    pub times_ns: Option<(i64, i64)>,
    /// What is as it should be.
    pub notes: Notes,
    /// What is wrong, in the log's order.
    pub findings: Vec<Finding>,
    /// Findings beyond those listed.
    pub findings_more: u64,
    /// Segments that could not be read, and why: the report is without them.
    pub failures: Vec<(String, String)>,
    /// Entries known to be lost, undeclared: exact, but for those that `unknown_after` tells of.
    pub lost: u64,
    /// Where nothing tells how many entries are missing: the number after which they are.
    pub unknown_after: Vec<u64>,
}

impl Report {
    /// Whether nothing is wrong and all was read. With `strict`, losses that were declared count too.
    pub fn is_sound(&self, strict: bool) -> bool {
        self.findings.is_empty() && self.failures.is_empty() && !(strict && self.notes.declared_count > 0)
    }

    /// How many findings there are.
    pub fn finding_count(&self) -> u64 {
        self.findings.len() as u64 + self.findings_more
    }

    pub(crate) fn add_finding(&mut self, finding: Finding) {
        match finding.loss {
            Loss::Seqs(seqs) => self.lost = self.lost.saturating_add(seqs.count()),
            Loss::UnknownAfter(seq) if self.unknown_after.len() < LISTED_MAX => self.unknown_after.push(seq),
            Loss::UnknownAfter(_) | Loss::Nothing => {}
        }
        if self.findings.len() < LISTED_MAX {
            self.findings.push(finding);
        } else {
            self.findings_more += 1;
        }
    }
}

/// Entries refused by policy, put together by thread, level and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Name of the logging thread, where the log tells it.
    pub thread: Option<String>,
    /// The logging thread.
    pub tid: u32,
    /// Highest level among them.
    pub level: Option<Level>,
    /// Why.
    pub reason: DropReason,
    /// How many entries.
    pub count: u64,
    /// From the first to the last number that stands for one; others may lie between.
    pub seqs: SeqRange,
}

/// Notes put together, so that they stay few however long the log is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Entries refused by policy.
    pub dropped: Vec<Dropped>,
    /// Losses that were declared; neighbours of one class are put together.
    pub declared: Vec<(SeqRange, LossClass)>,
    /// Entries in them.
    pub declared_count: u64,
    /// Numbers that retention has removed, and by which rule it removed last.
    pub retention: Vec<(SeqRange, Option<RetentionRule>)>,
    /// Numbers that a run has left out, as they may have been given out before.
    pub void: Vec<SeqRange>,
    /// Torn ends that the next segment accounts for.
    pub accounted_tails: u64,
    /// Their bytes.
    pub accounted_tail_bytes: u64,
    /// Runs, by how the one before each ended.
    pub runs: Vec<(RunEnd, u64)>,
    /// The last run ended without closing the log; nothing that it accepted is missing.
    pub ended_without_close: bool,
    /// Entries that were read from the rings of runs that had been killed.
    pub recovered: u64,
    /// Segment files that were never more than begun.
    pub unborn: Vec<String>,
    /// Frames of kinds that this version does not know.
    pub unknown_frames: u64,
    /// Which entry of `dropped` a thread, level and reason have.
    dropped_at: HashMap<(u32, u8, DropReason), usize>,
}

impl Notes {
    /// Adds one note.
    pub fn add(&mut self, note: &Note) {
        match &note.kind {
            NoteKind::Retention { seqs, rule } => push_capped(&mut self.retention, (*seqs, *rule)),
            NoteKind::Dropped { seqs, marker, thread } => self.add_dropped(Dropped {
                thread: thread.clone(),
                tid: marker.tid,
                level: Level::from_u8(marker.level),
                reason: marker.reason,
                count: marker.count,
                seqs: *seqs,
            }),
            NoteKind::DeclaredLoss { seqs, class } => {
                self.declared_count = self.declared_count.saturating_add(seqs.count());
                self.add_declared(*seqs, *class);
            }
            NoteKind::Void { seqs } => push_capped(&mut self.void, *seqs),
            NoteKind::AccountedTail => {
                self.accounted_tails += 1;
                self.accounted_tail_bytes += note.place.as_ref().map_or(0, |place| place.len);
            }
            NoteKind::EndedWithoutClose => self.ended_without_close = true,
            NoteKind::Recovered { entries } => self.recovered = self.recovered.saturating_add(*entries),
            NoteKind::Run { last_end } => self.add_runs(*last_end, 1),
            NoteKind::Unborn => {
                push_capped(&mut self.unborn, note.place.as_ref().map_or(String::new(), |place| place.segment.clone()));
            }
            NoteKind::UnknownFrames { count } => self.unknown_frames += count,
            // Only who follows a log sees another one take its place.
            NoteKind::OtherLog { .. } => {}
        }
    }

    /// Adds the notes of a later stretch.
    pub(crate) fn append(&mut self, later: &Notes) {
        later.dropped.iter().for_each(|dropped| self.add_dropped(dropped.clone()));
        self.declared_count = self.declared_count.saturating_add(later.declared_count);
        later.declared.iter().for_each(|&(seqs, class)| self.add_declared(seqs, class));
        later.retention.iter().for_each(|retention| push_capped(&mut self.retention, *retention));
        later.void.iter().for_each(|void| push_capped(&mut self.void, *void));
        self.accounted_tails += later.accounted_tails;
        self.accounted_tail_bytes += later.accounted_tail_bytes;
        later.runs.iter().for_each(|&(end, count)| self.add_runs(end, count));
        self.ended_without_close |= later.ended_without_close;
        self.recovered = self.recovered.saturating_add(later.recovered);
        later.unborn.iter().for_each(|name| push_capped(&mut self.unborn, name.clone()));
        self.unknown_frames += later.unknown_frames;
    }

    fn add_dropped(&mut self, dropped: Dropped) {
        let level = dropped.level.map_or(0, |level| level as u8);
        let key = (dropped.tid, level, dropped.reason);
        let full = self.dropped.len() >= LISTED_MAX;
        let at = *self.dropped_at.entry(key).or_insert(if full { LISTED_MAX - 1 } else { self.dropped.len() });
        match self.dropped.get_mut(at) {
            Some(known) => {
                known.count = known.count.saturating_add(dropped.count);
                known.seqs.first = known.seqs.first.min(dropped.seqs.first);
                known.seqs.last = known.seqs.last.max(dropped.seqs.last);
                known.thread = known.thread.take().or(dropped.thread);
            }
            None => self.dropped.push(dropped),
        }
        if full {
            // Which entry the rest goes to is known without a list that grows.
            self.dropped_at.remove(&key);
        }
    }

    fn add_declared(&mut self, seqs: SeqRange, class: LossClass) {
        if let Some((last, last_class)) = self.declared.last_mut()
            && *last_class == class
            && last.last.saturating_add(1) == seqs.first
        {
            last.last = seqs.last;
            return;
        }
        push_capped(&mut self.declared, (seqs, class));
    }

    fn add_runs(&mut self, end: RunEnd, count: u64) {
        match self.runs.iter_mut().find(|(known, _)| *known == end) {
            Some((_, known)) => *known += count,
            None => self.runs.push((end, count)),
        }
    }
}

fn push_capped<T>(list: &mut Vec<T>, item: T) {
    if list.len() < LISTED_MAX {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::DropMarker;

    fn dropped(tid: u32, first: u64, count: u64) -> Note {
        let marker =
            DropMarker { count, time_ns: 0, tseq: 0, tid, reason: DropReason::RingFull, level: Level::Info as u8 };
        let seqs = SeqRange { first, last: first + count - 1 };
        Note { kind: NoteKind::Dropped { seqs, marker, thread: None }, place: None }
    }

    #[test]
    fn drops_are_put_together_by_thread() {
        let mut notes = Notes::default();
        [dropped(1, 10, 5), dropped(2, 20, 1), dropped(1, 30, 2)].iter().for_each(|note| notes.add(note));
        let mut all = Notes::default();
        all.append(&notes);
        let list: Vec<_> = all.dropped.iter().map(|d| (d.tid, d.count, d.seqs.first, d.seqs.last)).collect();
        assert_eq!(list, [(1, 7, 10, 31), (2, 1, 20, 20)]);
    }

    #[test]
    fn a_million_kinds_of_notes_stay_bounded_and_are_all_counted() {
        let mut notes = Notes::default();
        for tid in 0..100_000 {
            notes.add(&dropped(tid, u64::from(tid) + 1, 1));
            let class = if tid % 2 == 0 { LossClass::Corruption } else { LossClass::TornTail };
            let seqs = SeqRange { first: u64::from(tid), last: u64::from(tid) };
            notes.add(&Note { kind: NoteKind::DeclaredLoss { seqs, class }, place: None });
        }
        assert_eq!(notes.dropped.len(), LISTED_MAX);
        assert!(notes.dropped_at.len() <= LISTED_MAX && notes.declared.len() <= LISTED_MAX);
        assert_eq!(notes.dropped.iter().map(|dropped| dropped.count).sum::<u64>(), 100_000);
        assert_eq!(notes.declared_count, 100_000);
    }
}
