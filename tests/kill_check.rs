//! Reads a log of the kill test and holds it against what its children were told was accepted.

use std::path::Path;

use logtool::{Fault, Finding, Item, LogReader, Loss, Note, NoteKind, VerifyOptions};

use crate::kill_counts::Counts;
use crate::kill_entries::{Filler, recognise};
use crate::kill_tally::{Round, Tally, in_flight, refused};

/// In which state a log is when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// As a kill left it.
    Dead,
    /// Closed, reopened or repaired: nothing may be found.
    Settled,
}

/// What a log holds.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) tally: Tally,
    /// Last number that retention has removed.
    pub(crate) removed_upto: u64,
    pub(crate) findings: Vec<Finding>,
    /// Declared losses and numbers that were left out: not after a kill.
    pub(crate) losses: Vec<Note>,
    torn: u64,
    gaps: u64,
    /// Refused calls that the log tells of.
    dropped: u64,
    /// Long entries without their end.
    unfinished: u64,
}

/// Reads the whole log.
pub(crate) fn read(dir: &Path, filler: &Filler, long: bool) -> Result<Found, logtool::Error> {
    let (mut reader, mut found) = (LogReader::open(dir)?, Found::default());
    let (mut last_seq, mut body) = (0, Vec::new());
    let mut account = |first: u64, last: u64, found: &mut Found| {
        if first != last_seq + 1 {
            eprintln!("{}: seq {first} comes behind seq {last_seq}", dir.display());
            found.gaps += 1;
        }
        last_seq = last;
    };
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Entry(entry) => {
                account(entry.seq, entry.seq, &mut found);
                if entry.is_continued() {
                    // Its first part is known, or it is told as torn.
                    found.torn += u64::from(body.is_empty());
                } else {
                    found.unfinished += u64::from(!body.is_empty());
                    body.clear();
                }
                body.extend_from_slice(entry.body);
                if entry.has_more() {
                    continue;
                }
                match recognise(&entry, &body, filler, long) {
                    Some(id) => found.tally.take(id),
                    None => {
                        let shown = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
                        eprintln!("{}: seq {} is not what was logged: {shown:?}", dir.display(), entry.seq);
                        found.torn += 1;
                    }
                }
                body.clear();
            }
            Item::Finding(finding) => found.findings.push(finding),
            Item::Note(note) => {
                if let Some(seqs) = note.kind.seqs() {
                    account(seqs.first, seqs.last, &mut found);
                }
                match note.kind {
                    NoteKind::Retention { seqs, .. } => found.removed_upto = seqs.last,
                    NoteKind::Dropped { marker, .. } => found.dropped += marker.count,
                    NoteKind::DeclaredLoss { .. } | NoteKind::Void { .. } => found.losses.push(note),
                    _ => {}
                }
            }
        }
    }
    found.unfinished += u64::from(!body.is_empty());
    Ok(found)
}

impl Found {
    /// Counts what must not be in a damaged log either, and what is missing.
    pub(crate) fn judge_damaged(&self, rounds: &[Round]) -> Counts {
        let mut counts = self.tally.judge(rounds, self.removed_upto);
        counts.torn += self.torn;
        counts.gaps += self.gaps;
        counts
    }

    /// Counts what is wrong, and says it.
    pub(crate) fn judge(&self, dir: &Path, rounds: &[Round], state: State) -> Counts {
        let mut counts = self.judge_damaged(rounds);
        for finding in self.findings.iter().filter(|finding| !is_expected(finding, state)) {
            eprintln!("{}: {finding:?}", dir.display());
            counts.gaps += 1;
        }
        for note in &self.losses {
            eprintln!("{}: {note:?}, and there was no damage", dir.display());
            counts.gaps += 1;
        }
        if self.unfinished > in_flight(rounds) {
            eprintln!("{}: {} entries without their end", dir.display(), self.unfinished);
            counts.torn += self.unfinished;
        }
        let refused = refused(rounds, self.removed_upto);
        if !refused.contains(&self.dropped) {
            eprintln!("{}: {refused:?} calls were refused, the log tells of {}", dir.display(), self.dropped);
            counts.gaps += 1;
        }
        if counts != Counts::default() {
            let missing = self.tally.missing(rounds);
            eprintln!("{}: {counts}; removed up to seq {}", dir.display(), self.removed_upto);
            eprintln!("  first wrong {:?}, missing {:?}", self.tally.first_wrong, &missing[..missing.len().min(8)]);
        }
        counts
    }
}

/// What a kill in the middle of a write leaves: nothing of it was accepted.
fn is_expected(finding: &Finding, state: State) -> bool {
    state == State::Dead && finding.fault == Fault::TornTail && finding.loss == Loss::Nothing
}

/// Whether `verify` says of the log what it should.
pub(crate) fn verifies(dir: &Path, state: State) -> bool {
    let report = match logtool::snapshot_of(dir) {
        Ok(snapshot) => logtool::verify(&snapshot, &VerifyOptions { threads: 1 }, &|_| {}),
        Err(error) => {
            eprintln!("{}: verify: {error}", dir.display());
            return false;
        }
    };
    let is_good = report.failures.is_empty()
        && report.notes.declared_count == 0
        && report.findings.iter().all(|finding| is_expected(finding, state));
    if !is_good {
        eprintln!("{}: verify, {state:?}: {:?} {:?}", dir.display(), report.findings, report.failures);
    }
    is_good
}
