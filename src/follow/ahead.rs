//! What a follower asks of its snapshot: to take in segments that have appeared, and who writes the log now.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::snapshot::{SegmentInfo, Snapshot};
use crate::state::{read_state, writer_pid};

impl Snapshot {
    /// Leaves what there is to say of the log's end to somebody who follows it: read as if its writer were at work.
    pub fn leave_end_open(&mut self) {
        self.writer_pid.get_or_insert(0);
    }

    /// Takes in the segments with these names and indexes. A file that is gone by now leaves `known`: a writer removes what
    /// another one has only begun, and may give its own the same name.
    pub(super) fn take_in(&mut self, names: &[(String, u64)], known: &mut HashSet<String>) -> Result<()> {
        let mut failed = None;
        for (name, index) in names {
            match self.add(name, *index, true) {
                Ok(true) => {}
                Ok(false) => drop(known.remove(name)),
                Err(error) => failed = Some(error),
            }
        }
        let order = |segment: &SegmentInfo| (segment.header.index, segment.header.generation, Reverse(segment.bytes));
        self.segments.sort_by_key(order);
        self.sort_out();
        failed.map_or(Ok(()), Err)
    }

    /// Whether a segment has been begun that does not tell yet whether it comes next: no event tells when it does.
    pub(super) fn has_begun(&self) -> bool {
        !self.segments.is_empty() || self.unreadable.iter().any(|segment| segment.fault.is_none())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage_sim::SimStorage;

    #[test]
    fn a_file_that_is_gone_once_it_is_looked_at_may_come_again() {
        let storage = SimStorage::new();
        storage.put("00000001-20261130T000000Z.flog", b"begun");
        let mut snapshot = Snapshot::empty(storage.shared(), None, None, false);
        let names = [1, 2].map(|index| (format!("0000000{index}-20261130T000000Z.flog"), index));
        let mut known = names.iter().map(|(name, _)| name.clone()).collect();
        snapshot.take_in(&names, &mut known).unwrap();
        assert_eq!(known.into_iter().collect::<Vec<_>>(), [names[0].0.clone()]);
        assert!(snapshot.has_begun());
    }
}
