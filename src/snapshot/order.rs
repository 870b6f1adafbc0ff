//! Segments in order: what does not belong is sorted out, and a lost header is rebuilt where the next segment tells its id.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::control::LossClass;
use crate::finding::{Fault, Finding, Loss};
use crate::segment::SegmentHeader;
use crate::snapshot::start::{holds_frames_of, read_first};
use crate::snapshot::{SegmentInfo, Snapshot};
use crate::state::WriterState;

impl Snapshot {
    /// Puts the segments in order and sorts out what does not belong.
    pub(super) fn arrange(&mut self) {
        // Of two copies the longer one comes first, and is kept; of equals the one with the right name.
        let is_single_file = self.is_single_file;
        self.segments.sort_by_key(|segment| {
            let header = &segment.header;
            (header.index, header.generation, Reverse(segment.bytes), !is_single_file && segment.is_misnamed())
        });
        // A record of a log that none of the segments is of is a stray file: it tells nothing of theirs.
        let is_of = |state: &WriterState| self.segments.iter().any(|segment| segment.header.log_id == state.log_id);
        self.state = self.state.filter(|state| self.segments.is_empty() || is_of(state));
        self.log_id = self.most_common_log();
        self.sort_out();
    }

    /// Keeps what belongs to the log, once each.
    pub(crate) fn sort_out(&mut self) {
        let (log_id, is_single_file, mut seen) = (self.log_id, self.is_single_file, HashMap::new());
        let mut sorted_out = Vec::new();
        self.segments.retain(|segment| {
            let fault = if segment.header.log_id != log_id {
                Fault::Foreign
            } else if seen.insert(segment.header.segment_id, ()).is_some() {
                Fault::Duplicate
            } else if !is_single_file && segment.is_misnamed() {
                Fault::Misnamed
            } else {
                return true;
            };
            let finding = Finding::new(fault, Loss::Nothing, LossClass::Unknown);
            sorted_out.push(finding.at(&segment.name, 0, segment.bytes));
            fault == Fault::Misnamed
        });
        self.findings.append(&mut sorted_out);
        self.rebuild_headers();
        let told = self.segments.iter().map(|segment| segment.header.first_seq_kept);
        let recorded = self.state.map(|state| state.first_seq_kept);
        self.first_seq_kept = told.chain(recorded).fold(self.first_seq_kept, u64::max);
    }

    fn most_common_log(&self) -> u64 {
        if let Some(state) = &self.state {
            return state.log_id;
        }
        let mut counts: HashMap<u64, usize> = HashMap::new();
        self.segments.iter().for_each(|segment| *counts.entry(segment.header.log_id).or_default() += 1);
        // Of equals the one of the newest segment.
        let newest = self.segments.last().map_or(0, |segment| segment.header.log_id);
        counts.into_iter().max_by_key(|&(log_id, count)| (count, log_id == newest)).map_or(0, |(log_id, _)| log_id)
    }

    /// A segment whose header is lost can still be read if the next one tells its id, or, of the newest, the writer's record.
    fn rebuild_headers(&mut self) {
        let mut rebuilt = Vec::new();
        self.unreadable.retain(|bad| {
            let Some(Fault::Unreadable(fault)) = bad.fault else { return true };
            let next = self.segments.iter().map(|segment| &segment.header).find(|header| header.index > bad.index);
            let (told, run_id, boot_id) = match (next, &self.state) {
                (Some(next), _) => (next.predecessor.map(|known| known.segment_id), 0, next.boot_id),
                (None, Some(state)) => (Some(state.segment_id), state.run_id, state.boot_id),
                (None, None) => return true,
            };
            let is_unclaimed = |id: &u64| self.segments.iter().all(|segment| segment.header.segment_id != *id);
            let Some(segment_id) = told.filter(is_unclaimed) else { return true };
            let opened = self.storage.open(&bad.name).and_then(|file| {
                let is_its_id = holds_frames_of(&*file, segment_id, bad.bytes)?;
                Ok((is_its_id, read_first(&*file, segment_id, bad.bytes)?))
            });
            // The id may be that of another segment, which is missing.
            let Ok((true, (first_seq, run_start))) = opened else { return true };
            let before = self.segments.iter().map(|segment| &segment.header).rfind(|header| header.index < bad.index);
            let opened_ns = next.or(before).map(|header| header.opened_ns);
            let header = SegmentHeader {
                flags: 0,
                log_id: self.log_id,
                run_id: run_start.map_or(run_id, |start| start.run_id),
                segment_id,
                boot_id,
                index: bad.index,
                index_last: bad.index,
                generation: 0,
                pid: 0,
                first_seq,
                opened_ns: opened_ns.unwrap_or(0),
                synced_upto: 0,
                first_seq_kept: 1,
                predecessor: None,
            };
            rebuilt.push(SegmentInfo {
                name: bad.name.clone(),
                bytes: bad.bytes,
                header,
                copy_fault: None,
                rebuilt: Some(fault),
                run_start,
            });
            false
        });
        self.segments.append(&mut rebuilt);
        self.segments.sort_by_key(|segment| (segment.header.index, segment.header.generation));
    }
}
