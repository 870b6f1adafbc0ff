//! What a writer and a logger tell of themselves.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::control::DropReason;
use crate::logger::Refused;
use crate::writer::Writer;

/// How often something was done, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// How often.
    pub count: u64,
    /// All of them together.
    pub total: Duration,
    /// The longest one.
    pub longest: Duration,
}

impl Timing {
    /// How long it took in the mean; zero if it was never done.
    pub fn mean(&self) -> Duration {
        let nanos = self.total.as_nanos().checked_div(self.count.into()).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(crate) fn add(&mut self, took: Duration) {
        self.count += 1;
        self.total = self.total.saturating_add(took);
        self.longest = self.longest.max(took);
    }

    /// Does something and counts it.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.add(start.elapsed());
        result
    }
}

/// Entries that the log tells to be dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// [`DropReason::RingFull`].
    pub ring_full: u64,
    /// [`DropReason::DiskFull`].
    pub disk_full: u64,
    /// [`DropReason::Policy`], and others.
    pub by_policy: u64,
}

impl DropCounts {
    /// All together.
    pub fn total(&self) -> u64 {
        self.ring_full.saturating_add(self.disk_full).saturating_add(self.by_policy)
    }

    pub(crate) fn of(&mut self, reason: DropReason) -> &mut u64 {
        match reason {
            DropReason::RingFull => &mut self.ring_full,
            DropReason::DiskFull => &mut self.disk_full,
            DropReason::Policy | DropReason::Unknown => &mut self.by_policy,
        }
    }
}

/// Calls that were not accepted, by what they were told. What the log tells of them are [`DropCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedCounts {
    /// [`Refused::Full`].
    pub full: u64,
    /// [`Refused::NoSpace`].
    pub no_space: u64,
    /// [`Refused::Io`].
    pub io: u64,
}

impl RefusedCounts {
    /// All together.
    pub fn total(&self) -> u64 {
        self.full.saturating_add(self.no_space).saturating_add(self.io)
    }
}

/// The same, while threads count. Calls behind the log's end are not counted: nothing is lost that was to be kept.
#[derive(Debug, Default)]
pub(crate) struct RefusedCounters {
    full: AtomicU64,
    no_space: AtomicU64,
    io: AtomicU64,
}

impl RefusedCounters {
    pub(crate) fn count(&self, refused: Refused) {
        let counter = match refused {
            Refused::Closed => return,
            Refused::Full => &self.full,
            Refused::NoSpace => &self.no_space,
            Refused::Io => &self.io,
        };
        // ORDERING: Relaxed, here and below; a figure for people.
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn now(&self) -> RefusedCounts {
        let [full, no_space, io] = [&self.full, &self.no_space, &self.io].map(|counter| counter.load(Relaxed));
        RefusedCounts { full, no_space, io }
    }
}

/// What a writer has done and what troubled it, since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Entries (parts of long ones count each) handed to the operating system.
    pub entries: u64,
    /// Bytes of frames handed to the operating system.
    pub bytes_written: u64,
    /// Writes of batches, failed ones included.
    pub writes: Timing,
    /// Syncs of segments, failed ones included; a group of older ones counts as one.
    pub syncs: Timing,
    /// Segments begun, the first one included.
    pub segments_created: u64,
    /// Segments that retention removed.
    pub segments_removed: u64,
    /// Entries given up by [`discard_pending`](crate::Writer::discard_pending) and [`drop_entries`](crate::Writer::drop_entries).
    pub entries_dropped: DropCounts,
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

    /// Time of the earliest entry that waits to be handed to the operating system, nanoseconds since 1970 UTC; `None` for none.
    pub(crate) fn oldest_pending_ns(&self) -> Option<i64> {
        self.batch.oldest_ns()
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
    /// Calls that were not accepted, but for those behind the log's end.
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
