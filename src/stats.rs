//! What a writer and a logger tell of themselves.

use std::fmt;

use crate::writer::Writer;

/// What a writer has done and what troubled it, since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Entries (parts of long ones count each) handed to the operating system.
    pub entries: u64,
    /// Bytes of frames handed to the operating system.
    pub bytes_written: u64,
    /// Writes of batches, failed ones included.
    pub writes: u64,
    /// Syncs, failed ones included.
    pub syncs: u64,
    /// Segments begun, the first one included.
    pub segments_created: u64,
    /// Segments that retention removed.
    pub segments_removed: u64,
    /// Entries given up by [`discard_pending`](crate::Writer::discard_pending) and [`drop_entries`](crate::Writer::drop_entries).
    pub entries_dropped: u64,
    /// Last sequence number given.
    pub last_seq: u64,
    /// Last sequence number handed to the operating system.
    pub flushed_seq: u64,
    /// Last sequence number known to be on stable storage, with all before it.
    pub synced_seq: u64,
    /// Bytes that wait to be written.
    pub pending_bytes: usize,
    /// Writes of batches that failed.
    pub write_failures: u64,
    /// Syncs that failed.
    pub sync_failures: u64,
    /// Segments whose unsynced end was written anew into another one, after a failed sync or failing writes.
    pub segments_rescued: u64,
    /// Rolls that failed in one of their steps, each try counted.
    pub roll_failures: u64,
    /// Removals by retention that failed.
    pub retention_failures: u64,
    /// Writes of the record in `writer.lock` that failed.
    pub state_failures: u64,
    /// What the failure before said; it stays.
    pub last_failure: Option<String>,
}

impl Writer {
    /// What was done, and what went wrong.
    pub fn stats(&self) -> WriterStats {
        WriterStats {
            last_seq: self.batch.next_seq() - 1,
            flushed_seq: self.active.last_seq(),
            synced_seq: self.synced_seq,
            pending_bytes: self.batch.pending_bytes(),
            ..self.stats.clone()
        }
    }

    /// Index of the active segment: another one means that all before it was handed to the operating system.
    pub(crate) fn active_index(&self) -> u64 {
        self.active.header.index
    }

    /// Bytes that wait to be handed to the operating system.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.batch.pending_bytes()
    }

    /// Last sequence number handed to the operating system.
    pub(crate) fn flushed_seq(&self) -> u64 {
        self.active.last_seq()
    }
}

impl WriterStats {
    /// How much has failed that is no answer to a call, in all.
    pub(crate) fn troubles(&self) -> u64 {
        self.write_failures + self.sync_failures + self.roll_failures + self.retention_failures
    }
}

/// What a logger has done and what troubled it, since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggerStats {
    /// What its writer tells.
    pub writer: WriterStats,
    /// Calls that were not accepted.
    pub refused: u64,
}

impl fmt::Display for LoggerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WriterStats { entries, bytes_written, last_seq, synced_seq, last_failure, .. } = &self.writer;
        write!(f, "{entries} entries, {bytes_written} bytes, seq up to {last_seq}, synced up to {synced_seq}")?;
        if self.refused > 0 {
            write!(f, ", {} refused", self.refused)?;
        }
        match last_failure {
            Some(text) => write!(f, "; last failure: {text}"),
            None => Ok(()),
        }
    }
}
