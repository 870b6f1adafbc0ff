//! What a follower asks of its snapshot: to take in segments that have appeared, and who writes the log now.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::snapshot::{SegmentInfo, Snapshot};
use crate::state::{read_state, writer_pid};

impl Snapshot {
    /// Leaves what there is to say of the log's end to somebody who follows it: read as if its writer were at work.
    pub fn leave_end_open(&mut self) {
        self.writer_pid.get_or_insert(0);
    }

    /// Takes in the segments with these names and indexes.
    pub(super) fn take_in(&mut self, names: &[(String, u64)]) -> Result<()> {
        let mut failed = None;
        for (name, index) in names {
            failed = self.add(name, *index, true).err().or(failed);
        }
        let order = |segment: &SegmentInfo| (segment.header.index, segment.header.generation, Reverse(segment.bytes));
        self.segments.sort_by_key(order);
        self.sort_out();
        failed.map_or(Ok(()), Err)
    }

    /// Names of all files that were looked at and belong to the log, or might.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let unreadable = self.unreadable.iter().map(|segment| segment.name.as_str());
        let sorted_out = self.findings.iter().filter_map(|finding| finding.place.as_ref());
        let sorted_out = sorted_out.map(|place| place.segment.as_str());
        self.segments.iter().map(|segment| segment.name.as_str()).chain(unreadable).chain(sorted_out)
    }

    /// The same log with segment number `at` only.
    pub(super) fn only(&self, at: usize) -> Snapshot {
        let storage = Arc::clone(self.storage());
        let mut only = Snapshot::empty(storage, self.state, self.writer_pid, false);
        only.segments.extend(self.segments.get(at).cloned());
        only.log_id = self.log_id;
        only
    }

    /// Asks anew who writes the log, and what the writer has recorded.
    pub(super) fn ask_writer(&mut self) -> Result<()> {
        let failed = |error| Error::io("cannot read the log", error).at(self.storage().path());
        let pid = writer_pid(self.storage().as_ref()).map_err(failed)?;
        let state = read_state(self.storage().as_ref()).map_err(failed)?;
        (self.writer_pid, self.state) = (pid, state);
        Ok(())
    }
}
