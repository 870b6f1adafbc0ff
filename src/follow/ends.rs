//! From one segment to the next: what tells that a segment has ended, and what is missing between two.

use std::sync::Arc;

use crate::control::{LossClass, RetentionMark, RetentionRule};
use crate::error::{Error, Result};
use crate::finding::{Fault, Finding, Loss, Note, NoteKind, SeqRange};
use crate::follow::{Follower, Start, Step};
use crate::format::{FrameKind, HEADER_BYTES};
use crate::reader::LogReader;
use crate::ring::file::index_of_name;
use crate::scan::Found;
use crate::snapshot::{SegmentInfo, Snapshot};
use crate::state::read_state;
use crate::storage::ReadAt;
use crate::walk::{Ending, Item};

impl Follower {
    /// The walk has given all that it knows of a growing segment: looks whether there is more, or an end.
    pub(super) fn look(&mut self) -> Result<Step> {
        let Some(current) = &mut self.current else { return Ok(Step::Again) };
        if current.walk.summary().seal.is_some() && !current.seal_seen {
            // Sealed by a roll: the next one is there. Sealed by a close: the writer is going.
            current.seal_seen = true;
            (self.wake.hints.names, self.wake.hints.writer) = (true, true);
        }
        let woken = std::mem::take(&mut self.wake.hints.data);
        if self.extend(None, woken)? {
            return Ok(Step::Again);
        }
        if std::mem::take(&mut self.wake.hints.names) {
            self.refresh()?;
            if self.replaced {
                self.end_by(Ending::Unlinked)?;
                return Ok(Step::Again);
            }
            if let Some(next) = self.next_ready() {
                return self.end_before(next);
            }
        }
        if std::mem::take(&mut self.wake.hints.writer) && self.writer_is_gone()? {
            // The record of a new writer is younger than its segment: without one in sight it is the old one's.
            self.refresh()?;
            if let Some(next) = self.next_ready() {
                return self.end_before(next);
            }
            self.take_rings()?;
            if let Some(next) = self.next_ready() {
                return self.end_before(next);
            }
            // A newer one may have been begun without being ready. A segment without its name says nothing of the log: it
            // may all have been moved elsewhere, with its writer at work.
            if !self.has_newer()
                && !self.replaced
                && let (Some(snapshot), Some(current)) = (&self.snapshot, &mut self.current)
                && self.known.contains(&current.info.name)
            {
                let ending = snapshot.ending_of(&current.info, None);
                current.ends_log = true;
                self.end_by(ending)?;
                return Ok(Step::Again);
            }
        }
        Ok(self.at_end())
    }

    /// The writer is gone: what it has left in rings comes as the segment that a recovery will make of it.
    fn take_rings(&mut self) -> Result<()> {
        let has_rings = self.storage.names().is_ok_and(|names| names.iter().any(|name| index_of_name(name).is_some()));
        if !has_rings || self.has_newer() || self.replaced {
            return Ok(());
        }
        let taken = Snapshot::take(Arc::clone(&self.storage))?;
        let Some(snapshot) = &mut self.snapshot else { return Ok(()) };
        if taken.is_live() || taken.log_id != snapshot.log_id {
            return Ok(());
        }
        snapshot.adopt_rings(&taken);
        self.view = Arc::clone(taken.storage());
        self.refresh()
    }

    /// Everything that is there has been looked at.
    fn at_end(&mut self) -> Step {
        let Some(current) = &self.current else { return Step::Wait };
        let last_seq = current.walk.summary().last_seq;
        if std::mem::take(&mut self.skips_to_end) {
            self.done_seq = last_seq;
        }
        self.check_cursor(last_seq)
    }

    /// A cursor knows numbers that are not in the log, which ends at `last_seq`: they were given, and are gone.
    fn check_cursor(&mut self, last_seq: u64) -> Step {
        let ahead = std::mem::take(&mut self.checks_cursor) && self.done_seq > last_seq;
        if !ahead {
            return Step::Wait;
        }
        self.done_seq = last_seq;
        let finding = Finding::new(Fault::MissingNewest, Loss::UnknownAfter(last_seq), LossClass::Unknown);
        self.queue.push_back(Item::Finding(finding));
        Step::Again
    }

    /// Tells the walk how long the segment is now. With an `ending` it will not grow any more. Returns whether the walk
    /// has something to do.
    fn extend(&mut self, ending: Option<Ending>, woken: bool) -> Result<bool> {
        let Some(current) = &mut self.current else { return Ok(false) };
        let len = match current.file.len() {
            Ok(len) => len,
            Err(error) => {
                let path = self.storage.path().join(&current.info.name);
                self.leave_unread();
                return Err(Error::io("cannot read", error).at(path));
            }
        };
        if let Some(ending) = ending {
            current.walk.extend(len, ending);
            current.ends = true;
            return Ok(true);
        }
        let grown = len != current.walk.file_end() || (woken && current.walk.has_incomplete_end());
        if grown {
            current.walk.extend(len, Ending::Growing);
        }
        Ok(grown)
    }

    fn end_by(&mut self, ending: Ending) -> Result<()> {
        self.extend(Some(ending), true).map(drop)
    }

    /// The segment that is read ends where segment number `next` of those ahead says.
    fn end_before(&mut self, next: usize) -> Result<Step> {
        if let (Some(snapshot), Some(current)) = (&self.snapshot, &self.current) {
            let ending = snapshot.ending_of(&current.info, snapshot.segments.get(next));
            self.end_by(ending)?;
        }
        Ok(Step::Again)
    }

    /// The segment has been read to its end.
    pub(super) fn leave(&mut self) {
        let Some(current) = self.current.take() else { return };
        let last_seq = current.walk.summary().last_seq;
        if std::mem::take(&mut self.skips_to_end) {
            self.done_seq = last_seq;
        }
        if current.ends_log {
            self.check_cursor(last_seq);
            if let Some(snapshot) = &mut self.snapshot {
                self.queue.extend(snapshot.link_end_from(Some(&current.info), last_seq));
                // Told now. One that was only begun may be the next writer's, which has come meanwhile: it is looked at again.
                for begun in snapshot.unreadable.drain(..).filter(|segment| segment.fault.is_none()) {
                    self.known.remove(&begun.name);
                }
            }
        }
        self.done_seq = self.done_seq.max(last_seq);
        self.before = Some(current.info);
        self.wake.hints.names = true;
    }

    /// The segment could not be read, which has been said: what it holds is not told as missing.
    pub(super) fn leave_unread(&mut self) {
        let Some(current) = self.current.take() else { return };
        self.before = Some(current.info);
        (self.unread, self.wake.hints.names) = (true, true);
    }

    /// Goes on to the next segment, once there is one.
    pub(super) fn open_next(&mut self) -> Result<Step> {
        for _ in 0..2 {
            if let Some(next) = self.next_ready() {
                let position = match &self.snapshot {
                    // A rewritten segment holds what has been read already.
                    Some(snapshot) if snapshot.segments[next].header.index <= self.last_index() => {
                        let reader = LogReader::new(snapshot.only(next));
                        Some(reader.position_of_seq(self.done_seq.saturating_add(1))?)
                    }
                    _ => None,
                };
                self.open_at(next, position)?;
                return Ok(Step::Again);
            }
            if !std::mem::take(&mut self.wake.hints.names) {
                return Ok(Step::Wait);
            }
            self.refresh()?;
            if !self.queue.is_empty() {
                return Ok(Step::Again);
            }
            if self.replaced {
                self.log_id_before = self.snapshot.take().map(|snapshot| snapshot.log_id);
                self.start = Start::First;
                (self.before, self.done_seq) = (None, 0);
                (self.begun, self.checks_cursor, self.replaced) = (false, false, false);
                self.known.clear();
                self.wake.hints.names = true;
                return Ok(Step::Again);
            }
        }
        Ok(Step::Wait)
    }

    /// Last index that the segment read last stands for.
    fn last_index(&self) -> u64 {
        let last = self.current.as_ref().map(|current| &current.info).or(self.before.as_ref());
        last.map_or(0, |info| info.header.index_last)
    }

    /// The segment that comes next, of those ahead, if it may be relied on: a header alone may still be taken back by a
    /// writer whose roll fails, unless the segment before is sealed or a later one is there.
    fn next_ready(&self) -> Option<usize> {
        let snapshot = self.snapshot.as_ref()?;
        let wanted = self.last_index().saturating_add(1);
        // An original is whole; a rewritten segment counts once those that it stands for are gone.
        let order = |info: &SegmentInfo| (info.header.index.max(wanted), info.header.generation);
        let (at, info) = snapshot.segments.iter().enumerate().min_by_key(|(_, info)| order(info))?;
        let sealed = self.current.as_ref().is_some_and(|current| current.seal_seen || current.ends);
        let later = snapshot.segments.iter().any(|other| other.header.index > info.header.index_last);
        (info.bytes > HEADER_BYTES as u64 || sealed || later).then_some(at)
    }

    fn has_newer(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| !snapshot.segments.is_empty())
    }

    fn writer_is_gone(&mut self) -> Result<bool> {
        let Some(snapshot) = &mut self.snapshot else { return Ok(false) };
        snapshot.ask_writer()?;
        Ok(snapshot.writer_pid.is_none())
    }

    /// Whether another log stands in the directory now: the writer's record says so, or nothing of ours is left and
    /// something else is there.
    pub(super) fn is_replaced(&self) -> bool {
        let Some(snapshot) = &self.snapshot else { return false };
        let recorded = read_state(self.storage.as_ref()).ok().flatten();
        let last = self.current.as_ref().map(|current| &current.info).or(self.before.as_ref());
        let ours = !snapshot.segments.is_empty() || last.is_some_and(|info| self.known.contains(&info.name));
        let suspect =
            recorded.is_some_and(|state| state.log_id != snapshot.log_id) || (!ours && !self.known.is_empty());
        // A look at everything there, as for the first time, decides.
        suspect
            && Snapshot::take(self.storage.clone())
                .is_ok_and(|now| now.log_id != snapshot.log_id && !now.segments.is_empty())
    }

    /// Tells what is missing before `info`, the next segment.
    pub(super) fn link(&mut self, info: &SegmentInfo) {
        let Some(snapshot) = &self.snapshot else { return };
        if std::mem::take(&mut self.unread) {
            self.done_seq = self.done_seq.max(info.header.first_seq.saturating_sub(1));
        }
        // After a failed sync numbers are written anew behind an end that lies before what has been given.
        let before = self.before.as_ref();
        let known = info.header.predecessor.filter(|known| {
            let linked = before.is_some_and(|before| before.header.segment_id == known.segment_id);
            linked && info.header.first_seq <= self.done_seq
        });
        let last_seq = known.map_or(self.done_seq, |known| known.last_seq.min(self.done_seq));
        let items = snapshot.link_from(before, info, self.begun.then_some(last_seq));
        let before_is_gone = self.before.as_ref().is_none_or(|before| !self.known.contains(&before.name));
        for item in items {
            match item {
                Item::Finding(finding) if finding.fault == Fault::MissingSegment && before_is_gone && self.begun => {
                    self.tell_removed(finding);
                }
                item => self.queue.push_back(item),
            }
        }
    }

    /// Numbers are missing, and the segment that was read before is gone too: retention, as far as the log says so.
    fn tell_removed(&mut self, finding: Finding) {
        let Loss::Seqs(seqs) = finding.loss else { return };
        let (kept, rule) = self.first_seq_kept(seqs.last);
        if let Some(seqs) = SeqRange::new(seqs.first, seqs.last.min(kept.saturating_sub(1))) {
            self.queue.push_back(Item::Note(Note { kind: NoteKind::Retention { seqs, rule }, place: None }));
        }
        if let Some(rest) = SeqRange::new(seqs.first.max(kept), seqs.last) {
            self.queue.push_back(Item::Finding(Finding { loss: Loss::Seqs(rest), ..finding }));
        }
    }

    /// First number that retention has kept, as far as record and newest segment tell, and the rule. Looks for marks only
    /// if the newest header doesn't explain why `upto` is gone.
    fn first_seq_kept(&self, upto: u64) -> (u64, Option<RetentionRule>) {
        let Some(snapshot) = &self.snapshot else { return (1, None) };
        // Record and mark are written before anything is removed; they may be younger than the snapshot.
        let recorded = read_state(self.storage.as_ref()).ok().flatten();
        let recorded = recorded.filter(|state| state.log_id == snapshot.log_id).map_or(1, |state| state.first_seq_kept);
        let told = snapshot.first_seq_kept.max(recorded);
        let newest = snapshot.segments.len().checked_sub(1);
        let newest = newest.filter(|&newest| snapshot.segments[newest].header.first_seq_kept <= upto);
        let Some(mut scan) = newest.and_then(|newest| snapshot.scan(newest).ok()) else {
            return (told, None);
        };
        if let Ok(len) = scan.source().len() {
            scan.set_end(len, HEADER_BYTES as u64);
        }
        let (mut kept, mut rule) = (told, None);
        while let Ok(Some(found)) = scan.next_found() {
            if let Found::Frame { header, .. } = found
                && header.kind == FrameKind::RetentionMark as u8
                && let Some(mark) = RetentionMark::decode(scan.payload())
                && mark.first_seq_kept >= kept
            {
                (kept, rule) = (mark.first_seq_kept, Some(mark.rule));
            }
        }
        (kept, rule)
    }
}
