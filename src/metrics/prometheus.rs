//! The text form of Prometheus, version 0.0.4: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
//!
//! ```text
//! # HELP logtool_entries_total Entries handed to the operating system.
//! # TYPE logtool_entries_total counter
//! logtool_entries_total{log="/var/log/shop"} 1027
//! ```
//! All samples of a metric stand together behind its two comments, whatever log they are of.

use std::fmt;
use std::time::Duration;

use crate::stats::Timing;

use super::Metrics;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows only, and begins anew with the program.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Two samples: how many there were, and their sum.
    Summary,
}

impl MetricKind {
    fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Summary => "summary",
        }
    }
}

/// The metrics of logs, as text: its Display.
#[derive(Clone, Debug, Default)]
pub struct PrometheusText {
    metrics: Vec<Metric>,
}

#[derive(Clone, Debug)]
struct Metric {
    kind: MetricKind,
    name: &'static str,
    help: &'static str,
    /// Whole lines.
    samples: String,
}

impl PrometheusText {
    /// Nothing yet.
    pub fn new() -> PrometheusText {
        PrometheusText::default()
    }

    /// Adds all figures of a log. `log`: the value of their label `log`, any text.
    pub fn add(&mut self, log: &str, metrics: &Metrics) {
        self.add_entries(log, metrics);
        self.add_rings(log, metrics);
        self.add_work(log, metrics);
        self.add_failures(log, metrics);
    }

    /// Adds a sample without a label but `log`.
    pub fn gauge(&mut self, log: &str, name: &'static str, help: &'static str, value: impl fmt::Display) {
        self.sample(MetricKind::Gauge, name, help, "", &[("log", log)], value);
    }

    fn counter(&mut self, log: &str, name: &'static str, help: &'static str, value: u64) {
        self.sample(MetricKind::Counter, name, help, "", &[("log", log)], value);
    }

    /// Adds a sample for each of some counts, which are told apart by a label.
    fn counters(&mut self, log: &str, (name, label): (&'static str, &str), help: &'static str, values: &[(&str, u64)]) {
        for (text, value) in values {
            self.sample(MetricKind::Counter, name, help, "", &[("log", log), (label, text)], value);
        }
    }

    fn seconds(&mut self, log: &str, name: &'static str, help: &'static str, time: Duration) {
        self.gauge(log, name, help, time.as_secs_f64());
    }

    fn summary(&mut self, log: &str, name: &'static str, help: &'static str, timing: &Timing) {
        let labels = [("log", log)];
        self.sample(MetricKind::Summary, name, help, "_sum", &labels, timing.total.as_secs_f64());
        self.sample(MetricKind::Summary, name, help, "_count", &labels, timing.count);
    }

    fn sample(
        &mut self,
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        suffix: &str,
        labels: &[(&str, &str)],
        value: impl fmt::Display,
    ) {
        let at = self.metrics.iter().position(|metric| metric.name == name).unwrap_or_else(|| {
            self.metrics.push(Metric { kind, name, help, samples: String::new() });
            self.metrics.len() - 1
        });
        let samples = &mut self.metrics[at].samples;
        samples.push_str(name);
        samples.push_str(suffix);
        samples.push('{');
        for (number, (label, text)) in labels.iter().enumerate() {
            samples.push_str(if number > 0 { "," } else { "" });
            samples.push_str(label);
            samples.push_str("=\"");
            push_escaped(samples, text);
            samples.push('"');
        }
        samples.push_str(&format!("}} {value}\n"));
    }

    fn add_entries(&mut self, log: &str, metrics: &Metrics) {
        self.counter(log, "logtool_entries_total", "Entries handed to the operating system.", metrics.entries);
        self.counter(log, "logtool_written_bytes_total", "Bytes handed to the operating system.", metrics.bytes);
        let reasons = [
            ("ring_full", metrics.dropped.ring_full),
            ("disk_full", metrics.dropped.disk_full),
            ("policy", metrics.dropped.by_policy),
        ];
        let help = "Entries that the log tells to be dropped.";
        self.counters(log, ("logtool_dropped_entries_total", "reason"), help, &reasons);
        let reasons =
            [("full", metrics.refused.full), ("no_space", metrics.refused.no_space), ("io", metrics.refused.io)];
        self.counters(log, ("logtool_refused_calls_total", "reason"), "Log calls that were not accepted.", &reasons);
        self.gauge(log, "logtool_last_seq", "Last sequence number given.", metrics.last_seq);
        let help = "Last sequence number handed to the operating system.";
        self.gauge(log, "logtool_flushed_seq", help, metrics.flushed_seq);
        self.gauge(log, "logtool_synced_seq", "Last sequence number on stable storage.", metrics.synced_seq);
        let help = "How long the oldest entry waits to be handed to the operating system.";
        self.seconds(log, "logtool_oldest_unwritten_seconds", help, metrics.oldest_unwritten);
    }

    fn add_rings(&mut self, log: &str, metrics: &Metrics) {
        self.gauge(log, "logtool_rings", "Rings.", metrics.rings);
        self.gauge(log, "logtool_ring_bytes", "Bytes of all rings.", metrics.ring_bytes);
        self.gauge(log, "logtool_ring_fill_bytes", "Bytes that wait in the rings.", metrics.ring_fill_bytes);
        let help = "Most bytes that have waited in all rings together, of the last one or two minutes.";
        self.gauge(log, "logtool_ring_fill_high_bytes", help, metrics.ring_fill_bytes_high);
        let help = "Least bytes that were left in all rings together, of the last one or two minutes.";
        self.gauge(log, "logtool_ring_fill_low_bytes", help, metrics.ring_fill_bytes_low);
        let help = "Most bytes that have waited in one ring, of the last one or two minutes.";
        self.gauge(log, "logtool_ring_fullest_high_bytes", help, metrics.fullest_ring_bytes_high);
        self.summary(log, "logtool_ring_wait_seconds", "Waits of log calls for room in a ring.", &metrics.ring_waits);
        let help = "Longest wait of a log call for room in a ring.";
        self.seconds(log, "logtool_ring_wait_longest_seconds", help, metrics.ring_waits.longest);
    }

    fn add_work(&mut self, log: &str, metrics: &Metrics) {
        self.summary(log, "logtool_write_seconds", "Writes of batches.", &metrics.writes);
        self.seconds(log, "logtool_write_longest_seconds", "Longest write of a batch.", metrics.writes.longest);
        self.summary(log, "logtool_sync_seconds", "Syncs of segments.", &metrics.syncs);
        self.seconds(log, "logtool_sync_longest_seconds", "Longest sync.", metrics.syncs.longest);
        let help = "Bytes that were taken and wait to be written.";
        self.gauge(log, "logtool_pending_bytes", help, metrics.pending_bytes);
        self.counter(log, "logtool_segments_created_total", "Segments begun.", metrics.segments_created);
        let help = "Segments that retention removed.";
        self.counter(log, "logtool_segments_removed_total", help, metrics.segments_removed);
    }

    fn add_failures(&mut self, log: &str, metrics: &Metrics) {
        let kinds = [
            ("write", metrics.write_failures),
            ("sync", metrics.sync_failures),
            ("roll", metrics.roll_failures),
            ("retention", metrics.retention_failures),
            ("state", metrics.state_failures),
        ];
        self.counters(log, ("logtool_errors_total", "kind"), "What the disk or the system refused.", &kinds);
        let help = "Segments whose end was written anew into another one, after trouble with the disk.";
        self.counter(log, "logtool_segments_rescued_total", help, metrics.segments_rescued);
        let help = "Bytes of rings that somebody else has written over.";
        self.counter(log, "logtool_ring_damaged_bytes_total", help, metrics.ring_damaged_bytes);
    }
}

/// Appends the value of a label.
fn push_escaped(out: &mut String, text: &str) {
    for char in text.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

impl fmt::Display for PrometheusText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Metric { kind, name, help, samples } in &self.metrics {
            writeln!(f, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str())?;
            f.write_str(samples)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_share_the_comments_and_their_names_are_escaped() {
        let metrics = Metrics { writes: Timing { count: 3, ..Timing::default() }, ..Metrics::default() };
        let mut text = PrometheusText::new();
        for log in ["/var/log/shop", "a\\b\"c\nd", "größe"] {
            text.add(log, &metrics);
        }
        let text = text.to_string();
        let lines: Vec<&str> =
            text.lines().skip_while(|line| !line.contains("logtool_write_seconds")).take(8).collect();
        let expected = [
            "# HELP logtool_write_seconds Writes of batches.",
            "# TYPE logtool_write_seconds summary",
            "logtool_write_seconds_sum{log=\"/var/log/shop\"} 0",
            "logtool_write_seconds_count{log=\"/var/log/shop\"} 3",
            "logtool_write_seconds_sum{log=\"a\\\\b\\\"c\\nd\"} 0",
            "logtool_write_seconds_count{log=\"a\\\\b\\\"c\\nd\"} 3",
            "logtool_write_seconds_sum{log=\"größe\"} 0",
            "logtool_write_seconds_count{log=\"größe\"} 3",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn all_numbers_come_out_and_times_in_seconds() {
        let (mut metrics, mut number) = (Metrics::default(), 1_000_000_000);
        metrics.each_number(|figure| {
            number += 1_500_000_000;
            *figure = number;
        });
        let text = metrics.to_prometheus("log");
        let (mut missing, mut as_seconds) = (0, 0);
        metrics.each_number(|figure| {
            let seconds = format!("}} {}\n", Duration::from_nanos(*figure).as_secs_f64());
            as_seconds += usize::from(text.contains(&seconds));
            missing += usize::from(!text.contains(&seconds) && !text.contains(&format!("}} {figure}\n")));
        });
        assert_eq!((missing, as_seconds), (0, 7));
    }
}
