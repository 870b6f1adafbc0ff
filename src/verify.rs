//! Whether a log is whole: every checksum, number and link, and evidence of its end.

use crate::check::{Checked, SegmentCheck, check};
use crate::control::{LossClass, RetentionMark};
use crate::finding::{Fault, Finding, Loss, SeqRange};
use crate::report::Report;
use crate::snapshot::Snapshot;
use crate::walk::Item;

/// How to verify.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyOptions {
    /// How many threads, each with one segment at a time; 0 for one a core.
    pub threads: usize,
}

impl VerifyOptions {
    pub(crate) fn thread_count(self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

/// Checks the log in `snapshot`. `progress` is told of bytes as they are looked at, from several threads.
///
/// Memory: a scan's buffer and a block for each thread, and what the report lists.
///
/// Segments that could not be read are in [`Report::failures`].
pub fn verify(snapshot: &Snapshot, options: &VerifyOptions, progress: &(dyn Fn(u64) + Sync)) -> Report {
    let mut verification = Verification::new(snapshot);
    check(snapshot, options.thread_count(), progress, &mut |checked| verification.take(checked));
    verification.finish()
}

struct Verification<'a> {
    snapshot: &'a Snapshot,
    report: Report,
    mark: Option<RetentionMark>,
}

impl<'a> Verification<'a> {
    fn new(snapshot: &'a Snapshot) -> Verification<'a> {
        let mut report = Report {
            log_id: snapshot.log_id,
            writer_pid: snapshot.writer_pid,
            is_single_file: snapshot.is_single_file,
            segments: snapshot.segments.len() as u64,
            ..Report::default()
        };
        report.bytes = snapshot.segments.iter().map(|segment| segment.bytes).sum::<u64>()
            + snapshot.unreadable.iter().map(|segment| segment.bytes).sum::<u64>();
        report.synced_upto = snapshot.segments.iter().map(|segment| segment.header.synced_upto).max().unwrap_or(0);
        snapshot.findings.iter().for_each(|finding| report.add_finding(finding.clone()));
        let unopened = snapshot.unopened.iter().map(|segment| (segment.name.clone(), segment.error.message()));
        report.failures.extend(unopened);
        Verification { snapshot, report, mark: None }
    }

    fn take(&mut self, checked: Checked<'_>) {
        match checked {
            Checked::Link { at, last_seq, items } => {
                if at == self.snapshot.segments.len() {
                    self.report.last_seq = last_seq;
                }
                for item in items {
                    match item {
                        Item::Finding(finding) => self.report.add_finding(finding),
                        Item::Note(note) => self.report.notes.add(&note),
                        Item::Entry(_) => {}
                    }
                }
            }
            Checked::Segment { at, check } => self.take_segment(at, check),
            Checked::Failed { at, error } => {
                let segment = self.snapshot.segments[at].name.clone();
                self.report.failures.push((segment, error.message()));
            }
        }
    }

    fn take_segment(&mut self, at: usize, check: &SegmentCheck) {
        let (report, summary) = (&mut self.report, &check.summary);
        let is_last = at + 1 == self.snapshot.segments.len();
        report.segments_sealed += u64::from(summary.seal.is_some());
        report.segments_active += u64::from(summary.seal.is_none() && is_last && self.snapshot.is_live());
        report.entries += summary.entries;
        report.text_bytes += summary.text_bytes;
        report.first_seq = report.first_seq.or(summary.first_entry_seq);
        report.synced_upto = report.synced_upto.max(summary.synced_upto);
        if let Some((min, max)) = summary.times_ns {
            let (known_min, known_max) = report.times_ns.unwrap_or((min, max));
            report.times_ns = Some((known_min.min(min), known_max.max(max)));
        }
        if let Some(mark) = summary.retention
            && self.mark.is_none_or(|known| known.first_seq_kept <= mark.first_seq_kept)
        {
            self.mark = Some(mark);
        }
        check.findings.iter().for_each(|finding| report.add_finding(finding.clone()));
        report.findings_more += check.findings_more;
        report.lost = report.lost.saturating_add(check.lost_more);
        report.notes.append(&check.notes);
    }

    fn finish(mut self) -> Report {
        self.beyond_the_end();
        let synced_upto = self.report.synced_upto;
        for finding in &mut self.report.findings {
            if self.snapshot.is_explained_by_power_cut(finding, synced_upto) {
                finding.class = LossClass::PowerCut;
            }
        }
        if let Some(mark) = self.mark {
            // What removed the latest has removed the first numbers that are gone.
            self.report.notes.retention.iter_mut().for_each(|(seqs, rule)| {
                *rule = rule.or((mark.first_seq_kept > seqs.first).then_some(mark.rule));
            });
        }
        self.report
    }

    /// Numbers known to be on stable storage must be in the log.
    fn beyond_the_end(&mut self) {
        let report = &mut self.report;
        let Some(seqs) = SeqRange::behind(report.last_seq, report.synced_upto) else { return };
        let unknown = |finding: &Finding| matches!(finding.loss, Loss::UnknownAfter(seq) if seq >= report.last_seq);
        if self.snapshot.is_live() || !report.failures.is_empty() || report.findings.iter().any(unknown) {
            return;
        }
        report.add_finding(Finding::new(Fault::MissingNewest, Loss::Seqs(seqs), LossClass::MissingSegment));
    }
}

impl Snapshot {
    /// Whether a loss is one that a power cut explains: the machine was started anew since the segment was written, and
    /// nothing says that what is lost was on stable storage.
    pub fn is_explained_by_power_cut(&self, finding: &Finding, synced_upto: u64) -> bool {
        let (Loss::Seqs(seqs), Some(place)) = (finding.loss, &finding.place) else { return false };
        let segment = self.segments.iter().find(|segment| segment.name == place.segment);
        let other_boot = segment.is_some_and(|segment| segment.header.boot_id != self.storage().boot_id());
        finding.class == LossClass::Corruption && place.len > 0 && other_boot && seqs.first > synced_upto
    }
}
