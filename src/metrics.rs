//! Figures of a log for whoever watches it: what [`Logger::metrics`](crate::Logger::metrics) gives, and their text form.

mod prometheus;

use std::time::Duration;

use crate::stats::{DropCounts, RefusedCounts, Timing, WriterStats};

pub use prometheus::{MetricKind, PrometheusText};

/// What a logger has done since it was opened, and how it stands now.
///
/// What the log's thread counts is as of its last round, at most some 20 ms ago; what calls count, and what waits in the rings, is as
/// of now. To ask takes a short lock that no log call takes, and never waits for the disk; of a synchronous logger it waits for the
/// call at work.
///
/// A synchronous logger has no rings; their figures are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Entries (parts of long ones count each) handed to the operating system.
    pub entries: u64,
    /// Bytes of frames handed to the operating system.
    pub bytes: u64,
    /// Entries that the log tells to be dropped, or will once it can be written.
    pub dropped: DropCounts,
    /// Calls that were not accepted, each as soon as it returned. The log tells of them later, and of all that found a full ring
    /// or a full disk.
    pub refused: RefusedCounts,
    /// Rings: one that all threads share, and one of each thread that logs or has logged, up to the most that are allowed.
    pub rings: u64,
    /// Bytes of all rings.
    pub ring_bytes: u64,
    /// Bytes that wait in the rings, now.
    pub ring_fill_bytes: u64,
    /// High water: the most bytes that have waited in all rings together, of the last one or two minutes. It was more only
    /// between two rounds of the log's thread.
    pub ring_fill_bytes_high: u64,
    /// Low water: the least bytes that were left in all rings together behind a round of the log's thread, of the last one or
    /// two minutes. Above 0 it has not come to an end with its work in all that time.
    pub ring_fill_bytes_low: u64,
    /// The most bytes that have waited in one ring, of the last one or two minutes: at the length of a ring calls have waited.
    pub fullest_ring_bytes_high: u64,
    /// Calls that found their ring full and waited for room.
    pub ring_waits: Timing,
    /// Writes of batches, failed ones included.
    pub writes: Timing,
    /// Syncs of segments, failed ones included.
    pub syncs: Timing,
    /// Bytes that were taken out of the rings, or from calls, and wait to be written.
    pub pending_bytes: u64,
    /// How long the oldest entry waits that is not handed to the operating system yet, at most; zero where none waits.
    pub oldest_unwritten: Duration,
    /// Writes of batches that failed.
    pub write_failures: u64,
    /// Syncs that failed.
    pub sync_failures: u64,
    /// Rolls that failed in one of their steps, each try counted.
    pub roll_failures: u64,
    /// Removals by retention that failed.
    pub retention_failures: u64,
    /// Writes of the record in `writer.lock` that failed.
    pub state_failures: u64,
    /// Segments whose unsynced end was written anew into another one, after a failed sync or failing writes.
    pub segments_rescued: u64,
    /// Bytes of rings that somebody else has written over: their entries are lost, and counted as dropped.
    pub ring_damaged_bytes: u64,
    /// Last sequence number given.
    pub last_seq: u64,
    /// Last sequence number handed to the operating system.
    pub flushed_seq: u64,
    /// Last sequence number known to be on stable storage, with all before it.
    pub synced_seq: u64,
    /// Segments begun, the first one included: one more than rolls, but for segments left after trouble with the disk.
    pub segments_created: u64,
    /// Segments that retention removed.
    pub segments_removed: u64,
    /// What the last failure said; it stays.
    pub last_failure: Option<String>,
}

impl Metrics {
    /// What a writer tells.
    pub(crate) fn of_writer(stats: WriterStats) -> Metrics {
        Metrics {
            entries: stats.entries,
            bytes: stats.bytes_written,
            dropped: stats.entries_dropped,
            writes: stats.writes,
            syncs: stats.syncs,
            pending_bytes: stats.pending_bytes as u64,
            write_failures: stats.write_failures,
            sync_failures: stats.sync_failures,
            roll_failures: stats.roll_failures,
            retention_failures: stats.retention_failures,
            state_failures: stats.state_failures,
            segments_rescued: stats.segments_rescued,
            last_seq: stats.last_seq,
            flushed_seq: stats.flushed_seq,
            synced_seq: stats.synced_seq,
            segments_created: stats.segments_created,
            segments_removed: stats.segments_removed,
            last_failure: stats.last_failure,
            ..Metrics::default()
        }
    }

    /// The text form of Prometheus, as one scrape gives it; `log` is the value of the label `log`. Of several logs:
    /// [`PrometheusText`].
    ///
    /// Names end with their unit, `_total` if they only grow while the program runs; `logtool_write_seconds` and its like are
    /// summaries, whose sum by their count is the mean.
    pub fn to_prometheus(&self, log: &str) -> String {
        let mut text = PrometheusText::new();
        text.add(log, self);
        text.to_string()
    }

    /// Gives each number to `each`, which may change it, in the order of the record in the ring file. New ones come last.
    pub(crate) fn each_number(&mut self, mut each: impl FnMut(&mut u64)) {
        let each = &mut each;
        each(&mut self.entries);
        each(&mut self.bytes);
        [&mut self.dropped.ring_full, &mut self.dropped.disk_full, &mut self.dropped.by_policy]
            .into_iter()
            .for_each(&mut *each);
        [&mut self.refused.full, &mut self.refused.no_space, &mut self.refused.io].into_iter().for_each(&mut *each);
        each(&mut self.rings);
        each(&mut self.ring_bytes);
        each(&mut self.ring_fill_bytes);
        each(&mut self.ring_fill_bytes_high);
        each(&mut self.ring_fill_bytes_low);
        each(&mut self.fullest_ring_bytes_high);
        for timing in [&mut self.ring_waits, &mut self.writes, &mut self.syncs] {
            each(&mut timing.count);
            each_nanosecond(&mut timing.total, each);
            each_nanosecond(&mut timing.longest, each);
        }
        each(&mut self.pending_bytes);
        each_nanosecond(&mut self.oldest_unwritten, each);
        each(&mut self.write_failures);
        each(&mut self.sync_failures);
        each(&mut self.roll_failures);
        each(&mut self.retention_failures);
        each(&mut self.state_failures);
        each(&mut self.segments_rescued);
        each(&mut self.ring_damaged_bytes);
        [&mut self.last_seq, &mut self.flushed_seq, &mut self.synced_seq].into_iter().for_each(&mut *each);
        each(&mut self.segments_created);
        each(&mut self.segments_removed);
    }
}

/// Gives a duration to `each` as nanoseconds.
fn each_nanosecond(time: &mut Duration, each: &mut impl FnMut(&mut u64)) {
    let mut nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    each(&mut nanoseconds);
    *time = Duration::from_nanos(nanoseconds);
}
