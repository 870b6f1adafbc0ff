//! Which step settles which finding: the planning half of `repair`.

use std::collections::HashSet;

use crate::check::{Checked, SegmentCheck};
use crate::control::{LossClass, Seal, SealReason};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Fault, Finding, Loss, Place, SeqRange};
use crate::format::{FRAME_ALIGN, FRAME_HEADER_BYTES, HEADER_BYTES, HEADER_COPY_BYTES, SEGMENT_PLACEHOLDER, VOID_SEQS};
use crate::frame::{FrameHeader, Seed, frame_bytes};
use crate::open::SEQ_MAX;
use crate::repair::{Action, Plan, Step};
use crate::roll::random_id;
use crate::segment::{Predecessor, SegmentHeader};
use crate::snapshot::Snapshot;
use crate::state::WriterState;
use crate::storage::ReadAt;
use crate::walk::{Ending, Item, SegmentSummary};

const NS_PER_SECOND: i64 = 1_000_000_000;

/// Steps in one plan; more damage is left for the next round.
const ACTIONS_MAX: usize = 4096;

/// Payload of the declared-loss frame of a placeholder.
pub(crate) const PLACEHOLDER_LOSS_BYTES: usize = 16;

/// The segment that the next one stands behind, as it will be once the plan is done.
#[derive(Clone, Copy, Debug)]
struct Before {
    index_last: u64,
    link: Predecessor,
    is_placeholder: bool,
}

/// Makes a plan of what a check tells.
#[derive(Debug)]
pub(crate) struct Planner<'a> {
    snapshot: &'a Snapshot,
    plan: Plan,
    seals_all: bool,
    before: Option<Before>,
    /// A segment whose header is to be written, its finding, and the last number before it.
    rebuild: Option<(Finding, u64)>,
    used_indexes: HashSet<u64>,
    synced_upto: u64,
    /// Files are to be renamed: the rest is planned once that is done.
    has_misnamed: bool,
    failure: Option<Error>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, seals_all: bool) -> Planner<'a> {
        let segments = snapshot.segments.iter().map(|segment| segment.header.index);
        let used_indexes = segments.chain(snapshot.unreadable.iter().map(|bad| bad.index)).collect();
        let synced_upto = snapshot.segments.iter().map(|segment| segment.header.synced_upto).max().unwrap_or(0);
        let mut planner = Planner {
            snapshot,
            plan: Plan::default(),
            seals_all,
            before: None,
            rebuild: None,
            used_indexes,
            synced_upto,
            has_misnamed: false,
            failure: None,
        };
        for finding in &snapshot.findings {
            match (finding.fault, &finding.place) {
                (Fault::Foreign | Fault::Duplicate, Some(place)) => {
                    let step = Step::SetAside { segment: place.segment.clone() };
                    planner.push(Some(finding.clone()), step);
                }
                (Fault::Misnamed, _) => planner.has_misnamed = true,
                _ => planner.leave(finding.clone(), "remove it from the directory"),
            }
        }
        if planner.has_misnamed {
            planner.rename_misnamed();
        }
        planner
    }

    /// Names first: where a file stands under a wrong one, no other step could tell which names are free.
    fn rename_misnamed(&mut self) {
        let snapshot = self.snapshot;
        let found = snapshot.findings.iter().filter_map(|finding| finding.place.as_ref());
        let mut taken: HashSet<String> = snapshot.segments.iter().map(|segment| segment.name.clone()).collect();
        taken.extend(snapshot.unreadable.iter().map(|bad| bad.name.clone()));
        taken.extend(found.map(|place| place.segment.clone()));
        for finding in snapshot.findings.iter().filter(|finding| finding.fault == Fault::Misnamed) {
            let named = |place: &Place| snapshot.segments.iter().find(|segment| segment.name == place.segment);
            let Some(info) = finding.place.as_ref().and_then(named) else { continue };
            let mut header = info.header.clone();
            while taken.contains(&header.name().to_string()) && header.generation == 0 {
                header.opened_ns = header.opened_ns.saturating_add(NS_PER_SECOND);
            }
            let to = header.name().to_string();
            if taken.insert(to.clone()) {
                self.push(Some(finding.clone()), Step::Rename { segment: info.name.clone(), to });
            } else {
                self.leave(finding.clone(), "another file has its name: move that one away by hand");
            }
        }
        self.plan.is_partial = true;
    }

    pub(crate) fn finish(mut self) -> Result<Plan> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        for action in &mut self.plan.actions {
            let (Some(finding), Step::DeclareLoss { class, .. }) = (&mut action.finding, &mut action.step) else {
                continue;
            };
            if self.snapshot.is_explained_by_power_cut(finding, self.synced_upto) {
                (finding.class, *class) = (LossClass::PowerCut, LossClass::PowerCut);
            }
        }
        Ok(self.plan)
    }

    pub(crate) fn take(&mut self, checked: Checked<'_>) {
        if self.failure.is_some() || self.has_misnamed {
            return;
        }
        let taken = match checked {
            // What is declared uses numbers up, and there are none left.
            Checked::Link { last_seq, .. } if last_seq >= SEQ_MAX => {
                let text = format!(
                    "the log claims to have come to seq {last_seq}, and there is no room behind that: start a new log"
                );
                Err(Error::new(ErrorKind::Damaged, text).at(self.snapshot.storage().path()))
            }
            Checked::Link { at, last_seq, items } => items.into_iter().try_for_each(|item| match item {
                Item::Finding(finding) => self.link(at, last_seq, finding),
                _ => Ok(()),
            }),
            Checked::Segment { at, check } => self.segment(at, check),
            Checked::Failed { error, .. } => Err(error),
        };
        self.failure = taken.err();
    }

    fn push(&mut self, finding: Option<Finding>, step: Step) {
        if self.plan.actions.len() < ACTIONS_MAX {
            self.plan.actions.push(Action { finding, step });
        } else {
            self.plan.is_partial = true;
        }
    }

    fn leave(&mut self, finding: Finding, why: &'static str) {
        if self.plan.unsettled.len() < ACTIONS_MAX {
            self.plan.unsettled.push((finding, why));
        }
    }

    /// A finding before segment number `at`, or behind the last one.
    fn link(&mut self, at: usize, last_seq: u64, finding: Finding) -> Result<()> {
        let unreadable =
            finding.place.as_ref().filter(|place| self.snapshot.unreadable.iter().any(|bad| bad.name == place.segment));
        if let Some(name) = unreadable.map(|place| place.segment.clone()) {
            return self.placeholder(at, last_seq, finding, Some(name));
        }
        match finding.fault {
            Fault::HeaderCopy(copy) => self.header_copy(at, copy, finding),
            Fault::SegmentHeader(_) => {
                self.rebuild = Some((finding, last_seq));
                Ok(())
            }
            Fault::MissingNewest
                if finding.loss == Loss::Nothing && self.before.is_some_and(|before| before.is_placeholder) =>
            {
                self.record(finding);
                Ok(())
            }
            Fault::Ring => self.ring(at, last_seq, finding),
            Fault::MissingSegment | Fault::MissingNewest | Fault::NoEvidence => {
                self.placeholder(at, last_seq, finding, None)
            }
            Fault::Order => {
                self.leave(finding, "two branches of the log repeat numbers: move the wrong one away by hand");
                Ok(())
            }
            _ => {
                self.leave(finding, "nothing can be done about it here");
                Ok(())
            }
        }
    }

    /// A ring file that is damaged: what it has cost is declared, once for all of them, and it is set aside.
    fn ring(&mut self, at: usize, last_seq: u64, finding: Finding) -> Result<()> {
        let Some(ring) = finding.place.as_ref().map(|place| place.segment.clone()) else { return Ok(()) };
        let is_planned = |wanted: &dyn Fn(&Step) -> bool| self.plan.actions.iter().any(|action| wanted(&action.step));
        // A placeholder at the end, or a finding that makes one, declares all that is unknown.
        let is_declared = self.before.is_some_and(|before| before.is_placeholder)
            || is_planned(&|step| matches!(step, Step::Record { .. }));
        let is_set_aside = is_planned(&|step| matches!(step, Step::SetAside { segment } if *segment == ring));
        if matches!(finding.loss, Loss::UnknownAfter(_)) && !is_declared {
            self.placeholder(at, last_seq, finding.clone(), None)?;
        }
        if !is_set_aside {
            let finding = Some(finding).filter(|finding| matches!(finding.loss, Loss::Seqs(_)));
            self.push(finding, Step::SetAside { segment: ring });
        }
        Ok(())
    }

    /// The good copy of a header over the bad one.
    fn header_copy(&mut self, at: usize, copy: u8, finding: Finding) -> Result<()> {
        let mut bytes = vec![0; HEADER_COPY_BYTES];
        self.read(at, &mut bytes, u64::from(1 - copy) * HEADER_COPY_BYTES as u64)?;
        let offset = u64::from(copy) * HEADER_COPY_BYTES as u64;
        let segment = self.snapshot.segments[at].name.clone();
        self.push(Some(finding), Step::Header { segment, offset, bytes });
        Ok(())
    }

    fn read(&self, at: usize, bytes: &mut [u8], offset: u64) -> Result<usize> {
        let file = self.snapshot.open(at)?;
        let path = || self.snapshot.storage().path().join(&self.snapshot.segments[at].name);
        file.read_full_at(bytes, offset).map_err(|error| Error::io("cannot read", error).at(path()).at_byte(offset))
    }

    /// A segment that declares what `finding` costs, before segment number `at`.
    fn placeholder(&mut self, at: usize, last_seq: u64, finding: Finding, replaces: Option<String>) -> Result<()> {
        let next = self.snapshot.segments.get(at);
        let seqs = match (finding.loss, next) {
            (Loss::Nothing, _) => None,
            (Loss::Seqs(seqs), _) => Some(seqs),
            (Loss::UnknownAfter(seq), Some(next)) => SeqRange::behind(seq, next.header.first_seq.saturating_sub(1)),
            (Loss::UnknownAfter(seq), None) => SeqRange::behind(seq, seq.saturating_add(VOID_SEQS)),
        };
        let class = match finding.class {
            LossClass::PowerCut => LossClass::PowerCut,
            LossClass::Unknown if finding.fault == Fault::NoEvidence => LossClass::Unknown,
            class if finding.fault == Fault::Ring => class,
            _ if matches!(finding.loss, Loss::UnknownAfter(_)) => LossClass::MissingSegment,
            class => class,
        };
        let index_before = self.before.map_or(0, |before| before.index_last);
        let index_next = next.map_or(u64::MAX, |next| next.header.index);
        let unreadable = &self.snapshot.unreadable;
        let own = replaces.as_ref().and_then(|name| unreadable.iter().find(|bad| bad.name == *name));
        let free = (index_before.saturating_add(1)..index_next).find(|index| !self.used_indexes.contains(index));
        // A file that was never more than begun, or was cut to nothing, can give its place.
        let begun = unreadable
            .iter()
            .find(|bad| bad.fault.is_none() && (index_before.saturating_add(1)..index_next).contains(&bad.index));
        let own = own.or(begun.filter(|_| free.is_none()));
        let replaces = own.map(|bad| bad.name.clone());
        let Some(index) = own.map(|bad| bad.index).or(free) else {
            self.leave(finding, "there is no room for a segment that declares it: use --output for a clean copy");
            return Ok(());
        };
        self.used_indexes.insert(index);
        let known_last = self.before.map_or(last_seq, |before| before.link.last_seq);
        let first_seq = seqs.map_or(known_last.saturating_add(1), |seqs| seqs.first);
        let neighbour = next.or(self.snapshot.segments.last()).map(|segment| &segment.header);
        let header = SegmentHeader {
            flags: SEGMENT_PLACEHOLDER,
            log_id: self.snapshot.log_id,
            run_id: random_id()?,
            segment_id: random_id()?,
            boot_id: self.snapshot.storage().boot_id(),
            index,
            index_last: index,
            generation: 0,
            pid: std::process::id(),
            first_seq,
            opened_ns: neighbour.map_or(0, |header| header.opened_ns),
            synced_upto: 0,
            first_seq_kept: self.snapshot.first_seq_kept,
            predecessor: self.before.map(|before| before.link),
        };
        let segment = replaces.clone().unwrap_or_else(|| header.name().to_string());
        let last_seq = seqs.map_or(first_seq.saturating_sub(1), |seqs| seqs.last);
        let loss_bytes = seqs.map_or(0, |_| frame_bytes(PLACEHOLDER_LOSS_BYTES));
        let accepted_end = (HEADER_BYTES + loss_bytes) as u64;
        let link = Predecessor { segment_id: header.segment_id, last_seq, accepted_end };
        self.before = Some(Before { index_last: index, link, is_placeholder: true });
        let step = Step::Placeholder { segment, header: Box::new(header), seqs, class, replaces };
        // The record first: a repair that stops between the two finds in it what is missing.
        if next.is_none() {
            self.record(finding.clone());
        }
        self.push(Some(finding), step);
        Ok(())
    }

    /// The record of a log that ends with a placeholder.
    fn record(&mut self, finding: Finding) {
        let Some(Before { link, .. }) = self.before else { return };
        let state = WriterState {
            log_id: self.snapshot.log_id,
            run_id: link.segment_id,
            boot_id: self.snapshot.storage().boot_id(),
            newest_seq: link.last_seq,
            segment_id: link.segment_id,
            upto: link.accepted_end + frame_bytes(placeholder_seal(0).payload_len()) as u64,
            first_seq_kept: self.snapshot.first_seq_kept,
            is_closed: true,
        };
        let finding = (finding.loss == Loss::Nothing).then_some(finding);
        self.push(finding, Step::Record { state });
    }

    /// What is to be done within segment number `at`.
    fn segment(&mut self, at: usize, check: &SegmentCheck) -> Result<()> {
        let (info, summary) = (&self.snapshot.segments[at], &check.summary);
        self.synced_upto = self.synced_upto.max(summary.synced_upto);
        self.plan.is_partial |= check.findings_more > 0;
        let mut header = info.header.clone();
        if let Some((finding, last_seq)) = self.rebuild.take() {
            header = self.rebuilt_header(at, last_seq)?;
            let step = Step::Header { segment: info.name.clone(), offset: 0, bytes: header.encode().to_vec() };
            self.push(Some(finding), step);
        }
        let link = Predecessor {
            segment_id: header.segment_id,
            last_seq: summary.last_seq,
            accepted_end: summary.accepted_end,
        };
        self.before =
            Some(Before { index_last: header.index_last, link, is_placeholder: info.header.is_placeholder() });
        let mut seal_wanted = self.seals_all && summary.seal.is_none();
        let mut end_lost = None;
        for finding in &check.findings {
            self.within(at, summary, finding.clone(), &mut seal_wanted, &mut end_lost)?;
        }
        if let Some(finding) = &end_lost {
            // The placeholder declares it; this segment ends before it.
            if let (Some(before), Loss::Seqs(seqs)) = (&mut self.before, finding.loss) {
                before.link.last_seq = seqs.first.saturating_sub(1);
            }
        }
        if seal_wanted && !self.plan.is_partial {
            self.seal(at, header, end_lost.is_some());
        }
        match end_lost {
            Some(finding) => self.placeholder(self.snapshot.segments.len(), summary.last_seq, finding, None),
            None => Ok(()),
        }
    }

    /// One finding within a segment.
    fn within(
        &mut self,
        at: usize,
        summary: &SegmentSummary,
        finding: Finding,
        seal_wanted: &mut bool,
        end_lost: &mut Option<Finding>,
    ) -> Result<()> {
        let info = &self.snapshot.segments[at];
        let Some((offset, len)) = finding.place.as_ref().map(|place| (place.offset, place.len)) else { return Ok(()) };
        let is_followed = matches!(self.snapshot.ending(at), Ending::Followed { .. });
        let is_end = !is_followed && summary.seal.is_none() && offset + len >= summary.accepted_end;
        match finding.fault {
            Fault::Padding => return self.padding(at, finding),
            Fault::Block(crate::block::BlockFault::UnknownCodec(_)) => {
                self.leave(finding, "it may be whole: read it with a newer logtool");
            }
            Fault::StrayBytes => {
                let is_behind =
                    |action: &Action| matches!(&action.step, Step::Cut { segment, .. } if *segment == info.name);
                if !self.plan.actions.iter().any(is_behind) {
                    self.push(Some(finding), Step::Cut { segment: info.name.clone(), offset });
                }
            }
            Fault::Seal if finding.loss == Loss::Nothing => *seal_wanted = true,
            Fault::MissingNewest | Fault::NoEvidence => *end_lost = Some(finding),
            _ if is_end => {
                let is_closed = self.snapshot.state.is_some_and(|state| state.is_closed);
                let is_lost = finding.loss != Loss::Nothing;
                if let Some(before) = &mut self.before {
                    before.link.accepted_end = before.link.accepted_end.min(offset);
                }
                *seal_wanted |= is_closed && !is_lost && at + 1 == self.snapshot.segments.len();
                if len > 0 && !*seal_wanted {
                    self.push(Some(finding.clone()), Step::Cut { segment: info.name.clone(), offset });
                }
                if is_lost {
                    *end_lost = Some(finding);
                }
            }
            fault => {
                let seqs = if let Loss::Seqs(seqs) = finding.loss { Some(seqs) } else { None };
                if !holds_loss(len, seqs) {
                    self.leave(finding, "there is no room to declare it: use --output for a clean copy");
                    return Ok(());
                }
                *seal_wanted |= fault == Fault::ShortSegment;
                if let Some(before) = &mut self.before {
                    // What stands there then counts, also right before a seal.
                    before.link.accepted_end = before.link.accepted_end.max(offset + len);
                }
                let step = Step::DeclareLoss {
                    segment: info.name.clone(),
                    segment_id: info.header.segment_id,
                    offset,
                    len,
                    seqs,
                    next_seq: finding.next_seq,
                    class: finding.class,
                };
                self.push(Some(finding), step);
            }
        }
        Ok(())
    }

    /// Zeros where a frame's padding is altered.
    fn padding(&mut self, at: usize, finding: Finding) -> Result<()> {
        let info = &self.snapshot.segments[at];
        let Some(place) = &finding.place else { return Ok(()) };
        let mut bytes = [0u8; FRAME_HEADER_BYTES];
        self.read(at, &mut bytes, place.offset)?;
        let Some(header) = FrameHeader::decode(&bytes, Seed::new(info.header.segment_id), place.offset) else {
            return Ok(());
        };
        let used = FRAME_HEADER_BYTES as u64 + u64::from(header.payload_len);
        let step = Step::ClearPadding {
            segment: info.name.clone(),
            offset: place.offset + used,
            len: header.frame_bytes() - used,
        };
        self.push(Some(finding), step);
        Ok(())
    }

    fn seal(&mut self, at: usize, header: SegmentHeader, is_end_lost: bool) {
        let Some(Before { link, .. }) = self.before else { return };
        let next = self.snapshot.segments.get(at + 1);
        let reason = if next.is_none() && !is_end_lost { SealReason::Closed } else { SealReason::Repaired };
        let step = Step::Seal {
            segment: self.snapshot.segments[at].name.clone(),
            header: Box::new(header),
            offset: link.accepted_end,
            last_seq: link.last_seq,
            reason,
            successor_id: next.map_or(0, |next| next.header.segment_id),
        };
        self.push(None, step);
    }

    /// The header of a segment whose own is lost.
    fn rebuilt_header(&self, at: usize, last_seq: u64) -> Result<SegmentHeader> {
        let info = &self.snapshot.segments[at];
        let first_seq = if info.header.first_seq == 0 { last_seq.saturating_add(1) } else { info.header.first_seq };
        let run_id = if info.header.run_id == 0 { random_id()? } else { info.header.run_id };
        let predecessor = self.before.map(|before| before.link);
        Ok(SegmentHeader { first_seq, run_id, predecessor, ..info.header.clone() })
    }
}

/// Whether declared-loss frames for `seqs` fit exactly into `len` bytes.
fn holds_loss(len: u64, seqs: Option<SeqRange>) -> bool {
    let least = frame_bytes(if seqs.is_some() { FRAME_ALIGN } else { 0 }) as u64;
    len >= least && len.is_multiple_of(FRAME_ALIGN as u64)
}

/// The seal of a placeholder that accounts for numbers up to `last_seq`.
pub(crate) fn placeholder_seal(last_seq: u64) -> Seal {
    Seal {
        reason: SealReason::Repaired,
        entries: 0,
        body_bytes: 0,
        last_seq,
        time_min_ns: i64::MAX,
        time_max_ns: i64::MIN,
        successor_id: 0,
        definitions: Vec::new(),
        points: Vec::new(),
    }
}
