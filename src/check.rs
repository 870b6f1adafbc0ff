//! Every segment of a log walked, in parallel, and linked in order: what `verify` reports and `repair` plans from.
//!
//! The walk and the links are those of [`LogReader`](crate::LogReader), so that whoever reads a log is told the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use crate::error::{Error, Result};
use crate::finding::{Finding, Loss};
use crate::report::Notes;
use crate::snapshot::Snapshot;
use crate::walk::{Item, SegmentSummary};

/// Findings kept of one segment; more are counted. A damaged gigabyte may have millions.
const FINDINGS_KEPT: usize = 4096;

/// How many items pass between two looks at how far the walk has come.
const PROGRESS_ITEMS: u32 = 4096;

/// What one segment holds.
#[derive(Debug)]
pub(crate) struct SegmentCheck {
    /// Its findings, in order.
    pub(crate) findings: Vec<Finding>,
    /// Findings that were not kept.
    pub(crate) findings_more: u64,
    /// Entries that those cost.
    pub(crate) lost_more: u64,
    /// Its notes.
    pub(crate) notes: Notes,
    /// What the walk has learned.
    pub(crate) summary: SegmentSummary,
}

/// What is told of a log, in order.
pub(crate) enum Checked<'a> {
    /// What stands between the segments, before segment number `at`; behind the last one, `at` is their number.
    Link {
        /// Number of the segment.
        at: usize,
        /// Last number accounted for before it.
        last_seq: u64,
        /// Findings and notes.
        items: Vec<Item<'static>>,
    },
    /// A segment.
    Segment {
        /// Number of the segment.
        at: usize,
        /// What it holds.
        check: &'a SegmentCheck,
    },
    /// A segment that could not be read.
    Failed {
        /// Number of the segment.
        at: usize,
        /// Why.
        error: Error,
    },
}

/// Checks the log in `snapshot` on `threads` threads. `progress` is told of bytes looked at, from any of them.
pub(crate) fn check(
    snapshot: &Snapshot,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
    tell: &mut dyn FnMut(Checked<'_>),
) {
    let count = snapshot.segments.len();
    let mut linker = Linker { snapshot, progress, last_seq: None, tell };
    if threads <= 1 || count <= 1 {
        for at in 0..count {
            let check = check_segment(snapshot, at, None, progress);
            linker.take(at, check);
        }
        return linker.end();
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(threads);
        for _ in 0..threads.min(count) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                loop {
                    // ORDERING: Relaxed; each number is given once, results pass through the channel.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let check = check_segment(snapshot, at, None, progress);
                    if sender.send((at, check)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut wanted = 0;
        for (at, check) in receiver {
            early.insert(at, check);
            while let Some(check) = early.remove(&wanted) {
                linker.take(wanted, check);
                wanted += 1;
            }
        }
    });
    linker.end();
}

/// Walks segment number `at`; `last_seq` as in [`Snapshot::walk_behind`], where it matters.
fn check_segment(
    snapshot: &Snapshot,
    at: usize,
    last_seq: Option<u64>,
    progress: &dyn Fn(u64),
) -> Result<SegmentCheck> {
    let path = || snapshot.storage().path().join(&snapshot.segments[at].name);
    let mut walk = match last_seq {
        Some(_) => snapshot.walk_behind(at, last_seq)?,
        None => snapshot.walk(at)?,
    };
    let (mut findings, mut notes) = (Vec::new(), Notes::default());
    let (mut findings_more, mut lost_more, mut told, mut items) = (0, 0, 0, 0);
    while walk.advance_item().map_err(|error| error.at(path()))? {
        items += 1;
        if items == PROGRESS_ITEMS {
            items = 0;
            let offset = walk.offset();
            progress(offset - told);
            told = offset;
        }
        if walk.is_at_entry() {
            continue;
        }
        match walk.item() {
            Some(Item::Finding(finding)) if findings.len() < FINDINGS_KEPT => findings.push(finding),
            Some(Item::Finding(finding)) => {
                findings_more += 1;
                lost_more += if let Loss::Seqs(seqs) = finding.loss { seqs.count() } else { 0 };
            }
            Some(Item::Note(note)) => notes.add(&note),
            _ => {}
        }
    }
    progress(snapshot.segments[at].bytes.saturating_sub(told));
    Ok(SegmentCheck { findings, findings_more, lost_more, notes, summary: walk.summary().clone() })
}

/// Puts the segments' checks one behind the other.
struct Linker<'a> {
    snapshot: &'a Snapshot,
    progress: &'a dyn Fn(u64),
    last_seq: Option<u64>,
    tell: &'a mut dyn FnMut(Checked<'_>),
}

impl Linker<'_> {
    fn take(&mut self, at: usize, check: Result<SegmentCheck>) {
        let snapshot = self.snapshot;
        let items = snapshot.link(at, self.last_seq);
        (self.tell)(Checked::Link { at, last_seq: self.last_seq.unwrap_or(snapshot.first_seq_kept - 1), items });
        let check = match snapshot.first_expected(at, self.last_seq) {
            Some(expected) => check_segment(snapshot, at, Some(expected - 1), self.progress),
            None => check,
        };
        let next_last = snapshot.segments.get(at + 1).map(|next| next.header.first_seq.saturating_sub(1));
        match check {
            Ok(check) => {
                self.last_seq = Some(check.summary.last_seq);
                (self.tell)(Checked::Segment { at, check: &check });
            }
            Err(error) if snapshot.was_removed(&error) => {
                let first = snapshot.segments[at].header.first_seq;
                self.last_seq = next_last.or(self.last_seq);
                let items = snapshot.removal_of(at).map(Item::Note).into_iter().collect();
                (self.tell)(Checked::Link { at, last_seq: first.saturating_sub(1), items });
            }
            Err(error) => {
                self.last_seq = next_last.or(self.last_seq);
                (self.tell)(Checked::Failed { at, error });
            }
        }
    }

    fn end(&mut self) {
        let last_seq = self.last_seq.unwrap_or(0);
        let items = self.snapshot.link_end(last_seq);
        (self.tell)(Checked::Link { at: self.snapshot.segments.len(), last_seq, items });
    }
}
