//! The writer's record of its log in `writer.lock`, which [`state`](crate::state) specifies.

use std::io;

use crate::active::write_whole;
use crate::state::{PID_BYTES, WriterState};
use crate::storage::StorageFile;
use crate::writer::Writer;

/// Writes the record of a log into its `writer.lock`, in place.
pub(crate) fn write_record(lock: &dyn StorageFile, state: &WriterState) -> io::Result<()> {
    write_whole(lock, state.encode().as_bytes(), PID_BYTES as u64)
}

impl Writer {
    /// Brings the record up to date. Here it is evidence only: a failure is counted, no more.
    pub(crate) fn write_state(&mut self) {
        let _ = self.put_on_record();
    }

    /// As [`write_state`](Writer::write_state), for who must know whether it stands there.
    pub(crate) fn put_on_record(&mut self) -> io::Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        let header = &self.active.header;
        let state = WriterState {
            log_id: header.log_id,
            run_id: self.run_id,
            boot_id: header.boot_id,
            newest_seq: self.active.last_seq(),
            segment_id: header.segment_id,
            upto: self.active.end,
            first_seq_kept: self.first_seq_kept,
            is_closed: self.is_closed,
        };
        let written = write_record(&**lock, &state);
        self.stats.state_failures += u64::from(written.is_err());
        written
    }
}
