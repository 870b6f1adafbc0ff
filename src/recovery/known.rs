//! What the segments of a dead run hold already: the highest thread seq of each thread.

use std::collections::HashMap;

use crate::control::SealReason;
use crate::error::Result;
use crate::finding::NoteKind;
use crate::format::SEGMENT_RECOVERED;
use crate::ring::record::SHARED_TSEQ;
use crate::snapshot::{SegmentInfo, Snapshot};
use crate::walk::Item;

/// So many segments with entries are looked at, at least: a write may have been followed by a roll.
const SEGMENTS_MIN: usize = 2;

/// What stands in the last segments of a run.
#[derive(Debug)]
pub(super) struct Known<'a> {
    snapshot: &'a Snapshot,
    run_id: u64,
    /// Index of the run's first segment.
    index: u64,
    /// Segments before this one were not looked at.
    looked_from: usize,
    /// Of each thread.
    own: HashMap<u32, u64>,
    /// In the ring that all share.
    shared: Option<u64>,
    names: HashMap<u32, String>,
    /// All segments of the run were looked at: a thread that is not known has nothing there.
    is_whole_run: bool,
    /// When the last entry was logged, or else when the last segment was opened.
    pub(super) newest_ns: Option<i64>,
    /// Entries that a recovery before has taken from the rings.
    pub(super) recovered: u64,
    /// There has been one.
    pub(super) has_recovered: bool,
    /// The run has segments.
    pub(super) has_segments: bool,
    /// The run closed its log.
    pub(super) is_closed: bool,
}

impl<'a> Known<'a> {
    /// Looks at the last segments of the run `run_id`, whose first has index `index`, in `snapshot`: at those that a recovery
    /// has made, and before these at as many as may hold what was on its way from the rings, of `ring_bytes` bytes, into a
    /// segment.
    pub(super) fn of(snapshot: &'a Snapshot, run_id: u64, index: u64, ring_bytes: u64) -> Result<Known<'a>> {
        let mut known = Known {
            snapshot,
            run_id,
            index,
            looked_from: snapshot.segments.len(),
            own: HashMap::new(),
            shared: None,
            names: HashMap::new(),
            is_whole_run: false,
            newest_ns: None,
            recovered: 0,
            has_recovered: false,
            has_segments: false,
            is_closed: false,
        };
        let (mut bytes, mut with_entries) = (0, 0);
        while let Some(at) = known.next_segment() {
            let info = &snapshot.segments[at];
            let is_recovered = info.header.flags & SEGMENT_RECOVERED != 0;
            if !is_recovered && with_entries >= SEGMENTS_MIN && bytes >= ring_bytes {
                break;
            }
            let (has_entries, is_closed) = known.add(at)?;
            known.is_closed |= is_closed;
            known.newest_ns = known.newest_ns.or(Some(info.header.opened_ns));
            known.has_segments = true;
            if is_recovered {
                known.has_recovered = true;
                known.recovered += info.run_start.map_or(0, |start| start.entries_recovered);
            } else {
                bytes += info.bytes;
                with_entries += usize::from(has_entries);
            }
        }
        known.see_whether_whole();
        known.is_closed |= snapshot.state.is_some_and(|state| state.run_id == run_id && state.is_closed);
        Ok(known)
    }

    /// The newest segment of the run that was not looked at.
    fn next_segment(&self) -> Option<usize> {
        (0..self.looked_from).rev().find(|at| self.snapshot.segments[*at].header.run_id == self.run_id)
    }

    fn see_whether_whole(&mut self) {
        let first = self.snapshot.segments.iter().find(|segment| segment.header.run_id == self.run_id);
        let is_first = |first: &SegmentInfo| {
            let is_recovered = first.header.flags & SEGMENT_RECOVERED != 0;
            first.header.index == self.index && (is_recovered || first.run_start.is_some())
        };
        self.is_whole_run = self.next_segment().is_none() && first.is_none_or(is_first);
    }

    /// As [`last`](Known::last), looked for in all of the run's segments if need be: where calls were refused, which nothing but
    /// the distance from the thread's last entry tells of. `None` where retention has removed what would tell.
    pub(super) fn last_of_all(&mut self, tid: u32, tseq: u64) -> Result<Option<u64>> {
        while self.last(tid, tseq).is_none()
            && let Some(at) = self.next_segment()
        {
            self.add(at)?;
            self.see_whether_whole();
        }
        Ok(self.last(tid, tseq))
    }

    /// Adds what stands in a segment. Returns whether numbers are used in it, and whether the run closed the log with it.
    fn add(&mut self, at: usize) -> Result<(bool, bool)> {
        let snapshot = self.snapshot;
        self.looked_from = at;
        let path = || snapshot.storage().path().join(&snapshot.segments[at].name);
        let mut walk = snapshot.walk(at)?;
        let (mut newest_ns, mut has_entries) = (None, false);
        while walk.advance_item().map_err(|error| error.at(path()))? {
            match walk.item() {
                Some(Item::Entry(entry)) => {
                    self.raise(entry.head.tid, entry.head.tseq);
                    newest_ns = Some(entry.head.time_ns);
                    has_entries = true;
                    if let Some(name) = entry.thread
                        && !self.names.contains_key(&entry.head.tid)
                    {
                        self.names.insert(entry.head.tid, name.to_owned());
                    }
                }
                Some(Item::Note(note)) => {
                    if let NoteKind::Dropped { marker, .. } = note.kind
                        && marker.tseq > 0
                    {
                        self.raise(marker.tid, marker.tseq.saturating_add(marker.count - 1));
                        has_entries = true;
                    }
                }
                _ => {}
            }
        }
        self.newest_ns = self.newest_ns.or(newest_ns);
        let is_closed = walk.summary().seal.as_ref().is_some_and(|seal| seal.reason == SealReason::Closed);
        Ok((has_entries, is_closed))
    }

    /// The last tseq of the thread, or of the shared ring if `tseq` is one of its; `None` where the segments don't tell.
    pub(super) fn last(&self, tid: u32, tseq: u64) -> Option<u64> {
        let known = if tseq & SHARED_TSEQ != 0 { self.shared } else { self.own.get(&tid).copied() };
        known.or_else(|| self.is_whole_run.then_some(tseq & SHARED_TSEQ))
    }

    /// Takes note that `tseq` is in a segment.
    pub(super) fn raise(&mut self, tid: u32, tseq: u64) {
        if tseq & SHARED_TSEQ != 0 {
            self.shared = self.shared.max(Some(tseq));
        } else {
            let last = self.own.entry(tid).or_default();
            *last = tseq.max(*last);
        }
    }

    /// The name of a thread, as the segments tell it.
    pub(super) fn name(&self, tid: u32) -> Option<&str> {
        self.names.get(&tid).map(String::as_str)
    }
}
