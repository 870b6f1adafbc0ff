//! What the segments of a dead run hold already: the highest thread seq of each thread.

use std::collections::HashMap;

use crate::control::SealReason;
use crate::error::Result;
use crate::finding::NoteKind;
use crate::format::SEGMENT_RECOVERED;
use crate::ring::record::SHARED_TSEQ;
use crate::snapshot::Snapshot;
use crate::walk::Item;

/// So many segments with entries are looked at, at least: a write may have been followed by a roll.
const SEGMENTS_MIN: usize = 2;

/// What stands in the last segments of a run.
#[derive(Debug, Default)]
pub(super) struct Known {
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

impl Known {
    /// Looks at the last segments of the run `run_id`, whose first has index `index`, in `snapshot`: at those that a recovery
    /// has made, and before these at as many as may hold what was on its way from the rings, of `ring_bytes` bytes, into a
    /// segment.
    pub(super) fn of(snapshot: &Snapshot, run_id: u64, index: u64, ring_bytes: u64) -> Result<Known> {
        let mut known = Known { is_whole_run: true, ..Known::default() };
        let (mut bytes, mut with_entries) = (0, 0);
        let is_of_run = |at: &usize| snapshot.segments[*at].header.run_id == run_id;
        for at in (0..snapshot.segments.len()).rev().filter(is_of_run) {
            let info = &snapshot.segments[at];
            let is_recovered = info.header.flags & SEGMENT_RECOVERED != 0;
            if !is_recovered && with_entries >= SEGMENTS_MIN && bytes >= ring_bytes {
                known.is_whole_run = false;
                break;
            }
            let (has_entries, is_closed) = known.add(snapshot, at)?;
            known.is_closed |= is_closed;
            known.newest_ns = known.newest_ns.or(Some(info.header.opened_ns));
            known.has_segments = true;
            if is_recovered {
                known.has_recovered = true;
                known.recovered += info.run_start.map_or(0, |start| start.entries_recovered);
            } else {
                bytes += info.bytes;
                with_entries += usize::from(has_entries);
                known.is_whole_run &= info.header.index > index || info.run_start.is_some();
            }
        }
        let first = snapshot.segments.iter().find(|segment| segment.header.run_id == run_id);
        known.is_whole_run &= first.is_none_or(|first| first.header.index == index);
        known.is_closed |= snapshot.state.is_some_and(|state| state.run_id == run_id && state.is_closed);
        Ok(known)
    }

    /// Adds what stands in a segment. Returns whether numbers are used in it, and whether the run closed the log with it.
    fn add(&mut self, snapshot: &Snapshot, at: usize) -> Result<(bool, bool)> {
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
