//! `logtool stat --prometheus`: the figures of logs for a monitoring system.

use logtool::metrics::PrometheusText;
use logtool::{LogStat, Snapshot, ToldMetrics};

use super::stat;

/// Adds what the directory of a log shows, and what its writer has told of itself.
pub(crate) fn add(
    out: &mut PrometheusText,
    log: &str,
    snapshot: &Snapshot,
    shown: &LogStat,
    told: Option<&ToldMetrics>,
) {
    if !snapshot.is_single_file {
        let is_up = u64::from(snapshot.writer_pid.is_some());
        out.gauge(log, "logtool_writer_up", "Whether somebody writes the log.", is_up);
    }
    let bytes: u64 = shown.segments.iter().map(|segment| segment.bytes).sum();
    out.gauge(log, "logtool_log_segments", "Segments that are there.", shown.segments.len());
    out.gauge(log, "logtool_log_bytes", "Bytes of these segments.", bytes);
    let entries = shown.segments.iter().filter_map(|segment| segment.entries).fold(0, u64::saturating_add);
    out.gauge(log, "logtool_log_sealed_entries", "Entries of the segments that are sealed.", entries);
    out.gauge(log, "logtool_log_last_seq", "The newest sequence number that the log shows.", shown.last_seq);
    if stat::lag(snapshot, shown).is_some() {
        let help = "The newest sequence number that was on stable storage as the log tells, which lags by one sync.";
        out.gauge(log, "logtool_log_synced_seq", help, shown.synced_upto);
    }
    let ring_bytes: u64 = shown.rings.iter().map(|ring| ring.bytes).sum();
    out.gauge(log, "logtool_log_ring_files", "Ring files that are there.", shown.rings.len());
    out.gauge(log, "logtool_log_ring_files_bytes", "Bytes of these ring files.", ring_bytes);
    out.gauge(log, "logtool_quarantine_files", "Files that a repair has saved.", shown.quarantine_files);
    out.gauge(log, "logtool_quarantine_bytes", "Bytes of these files.", shown.quarantine_bytes);
    if let Some(told) = told {
        let help = "How long ago the writer has told the figures that follow; one that works does each second.";
        out.gauge(log, "logtool_figures_age_seconds", help, told.age.as_secs_f64());
        out.add(log, &told.metrics);
    }
}
