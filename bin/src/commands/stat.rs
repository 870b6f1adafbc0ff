//! `logtool stat`: shows the segments of logs, without reading them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use jiff::tz::TimeZone;
use logtool::metrics::PrometheusText;
use logtool::stat::{SegmentStat, SegmentState};
use logtool::{LogStat, Snapshot};

use super::stat_prometheus;
use crate::cli::StatArgs;
use crate::escape::escape_path;
use crate::json::{self, push_key, push_number, push_seq, push_seqs, push_start, push_text};
use crate::logs::{self, Log};
use crate::size::{human_bytes, thousands};
use crate::terminal::{Status, Ui};
use crate::time;
use crate::timestamp::human;

/// Runs the command.
pub(crate) fn run(args: &StatArgs, ui: &Ui) -> anyhow::Result<Status> {
    let zone = time::zone(args.utc, ui);
    let mut out = ui.stdout()?;
    let mut prometheus = PrometheusText::new();
    for (number, log) in logs::find(&args.logs, ui)?.iter().enumerate() {
        let taken = logtool::snapshot_of(&log.path).and_then(|snapshot| {
            let stat = LogStat::take(&snapshot)?;
            let has_rings = args.prometheus && !snapshot.is_single_file;
            let told = if has_rings { logtool::told_metrics(&log.path)? } else { None };
            Ok((snapshot, stat, told))
        });
        let (snapshot, stat, told) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                ui.failed(&error.into());
                continue;
            }
        };
        snapshot.unopened.iter().for_each(|segment| ui.failed(&segment.error.clone().into()));
        if args.json {
            let mut line = Vec::new();
            push_json(&mut line, log, &snapshot, &stat);
            out.write_all(&line)?;
        } else if args.prometheus {
            stat_prometheus::add(&mut prometheus, &escape_path(&log.path), &snapshot, &stat, told.as_ref());
        } else {
            let blank = if number > 0 { "\n" } else { "" };
            let text = format!("{blank}{}", text(&log.path, &snapshot, &stat, &zone));
            out.write_all(text.as_bytes())?;
        }
    }
    out.write_all(prometheus.to_string().as_bytes())?;
    out.flush()?;
    Ok(Status::Sound)
}

/// Sums over all segments; of entries and text, where seals tell.
#[derive(Default)]
struct Totals {
    bytes: u64,
    /// Bytes of the segments whose text is known.
    bytes_known: u64,
    entries: u64,
    text_bytes: u64,
    all_known: bool,
}

impl Totals {
    fn of(segments: &[SegmentStat]) -> Totals {
        let mut totals = Totals { all_known: true, ..Totals::default() };
        for segment in segments {
            totals.bytes += segment.bytes;
            match (segment.entries, segment.text_bytes) {
                (Some(entries), Some(text_bytes)) => {
                    totals.bytes_known += segment.bytes;
                    totals.entries = totals.entries.saturating_add(entries);
                    totals.text_bytes = totals.text_bytes.saturating_add(text_bytes);
                }
                _ => totals.all_known = false,
            }
        }
        totals
    }
}

fn text(path: &Path, snapshot: &Snapshot, stat: &LogStat, zone: &TimeZone) -> String {
    let mut out = String::new();
    let id = format!("{:016x}", snapshot.log_id);
    let writer = match snapshot.writer_pid {
        Some(0) => "writer alive".to_string(),
        Some(pid) => format!("writer pid {pid} alive"),
        None if snapshot.is_single_file => "one segment by itself".to_string(),
        None => "no writer".to_string(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}  log {}  {writer}", escape_path(path), &id[..8]);
    let mut rows =
        vec![["segment", "state", "opened", "seq", "entries", "bytes", "text", "ratio", "stored"].map(String::from)];
    rows.extend(stat.segments.iter().map(|segment| row(segment, zone)));
    let totals = Totals::of(&stat.segments);
    let at_least = if totals.all_known || totals.entries == 0 { "" } else { "+" };
    let known = totals.entries > 0 || totals.all_known;
    rows.push([
        format!("{} in all", stat.segments.len()),
        String::new(),
        String::new(),
        String::new(),
        if known { format!("{}{at_least}", thousands(totals.entries)) } else { "-".into() },
        human_bytes(totals.bytes),
        if known { format!("{}{at_least}", human_bytes(totals.text_bytes)) } else { "-".into() },
        if known { ratio(totals.text_bytes, totals.bytes_known) } else { "-".into() },
        String::new(),
    ]);
    push_table(&mut out, &rows);
    for ring in &stat.rings {
        let _ =
            writeln!(out, "  ring        {}  {}", crate::escape::escape(ring.name.as_bytes()), human_bytes(ring.bytes));
    }
    if stat.quarantine_files > 0 {
        let (files, bytes) = (stat.quarantine_files, human_bytes(stat.quarantine_bytes));
        let _ = writeln!(out, "  quarantine  {bytes} in {files} {}", if files == 1 { "file" } else { "files" });
    }
    if let Some(lag) = lag(snapshot, stat) {
        let (synced, last) = (thousands(stat.synced_upto), thousands(stat.last_seq));
        let _ =
            writeln!(out, "  synced      up to seq {synced} of {last}, as the log tells: {} behind", thousands(lag));
    }
    out
}

/// How many numbers the log's word on what is on stable storage lags behind; `None` once the log is closed.
pub(super) fn lag(snapshot: &Snapshot, stat: &LogStat) -> Option<u64> {
    let last = stat.segments.iter().rfind(|segment| segment.opened_ns.is_some())?;
    let is_open = matches!(last.state, SegmentState::Active | SegmentState::Unsealed);
    (is_open && !snapshot.is_single_file).then(|| stat.last_seq.saturating_sub(stat.synced_upto))
}

fn row(segment: &SegmentStat, zone: &TimeZone) -> [String; 9] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    [
        crate::escape::escape(segment.name.as_bytes()).into_owned(),
        segment.state.as_str().to_string(),
        or_dash(segment.opened_ns.map(|ns| human(ns, zone))),
        or_dash(segment.seqs.map(|seqs| format!("{}..{}", thousands(seqs.first), thousands(seqs.last)))),
        or_dash(segment.entries.map(thousands)),
        human_bytes(segment.bytes),
        or_dash(segment.text_bytes.map(human_bytes)),
        or_dash(segment.text_bytes.map(|text_bytes| ratio(text_bytes, segment.bytes))),
        or_dash(segment.is_compressed.map(|is| if is { "compressed" } else { "plain" }.to_string())),
    ]
}

fn ratio(text_bytes: u64, bytes: u64) -> String {
    format!("{:.1}x", text_bytes as f64 / bytes.max(1) as f64)
}

/// Appends rows with their columns in line: words to the left, numbers to the right.
fn push_table(out: &mut String, rows: &[[String; 9]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..9).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let is_word = matches!(column, 0..=2 | 8);
            let _ = if is_word { write!(line, "  {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn push_json(out: &mut Vec<u8>, log: &Log, snapshot: &Snapshot, stat: &LogStat) {
    let mut writer = json::Writer::default();
    push_start(out, "stat", Some(&log.path.to_string_lossy()));
    push_text(out, "log_id", &format!("{:016x}", snapshot.log_id));
    if let Some(pid) = snapshot.writer_pid {
        push_number(out, "writer_pid", pid.into());
    }
    push_seq(out, "last_seq", stat.last_seq);
    push_seq(out, "synced_upto", stat.synced_upto);
    if let Some(lag) = lag(snapshot, stat) {
        push_seq(out, "sync_lag", lag);
    }
    let totals = Totals::of(&stat.segments);
    push_seq(out, "bytes", totals.bytes);
    if totals.all_known {
        push_seq(out, "entries", totals.entries);
        push_seq(out, "text_bytes", totals.text_bytes);
    }
    push_key(out, "segments");
    out.push(b'[');
    for (number, segment) in stat.segments.iter().enumerate() {
        out.extend_from_slice(if number > 0 { b",{\"name\":" } else { b"{\"name\":" });
        json::push_string(out, &segment.name);
        push_text(out, "state", segment.state.as_str());
        push_seq(out, "bytes", segment.bytes);
        if let Some(opened_ns) = segment.opened_ns {
            writer.push_time(out, "opened", opened_ns);
        }
        if let Some(seqs) = segment.seqs {
            push_seqs(out, "seqs", seqs);
        }
        for (name, value) in [("entries", segment.entries), ("text_bytes", segment.text_bytes)] {
            if let Some(value) = value {
                push_seq(out, name, value);
            }
        }
        if let Some(is_compressed) = segment.is_compressed {
            push_key(out, "compressed");
            out.extend_from_slice(if is_compressed { b"true" } else { b"false" });
        }
        out.push(b'}');
    }
    out.push(b']');
    push_key(out, "rings");
    out.push(b'[');
    for (number, ring) in stat.rings.iter().enumerate() {
        out.extend_from_slice(if number > 0 { b",{\"name\":" } else { b"{\"name\":" });
        json::push_string(out, &ring.name);
        push_seq(out, "bytes", ring.bytes);
        out.push(b'}');
    }
    out.push(b']');
    push_number(out, "quarantine_files", stat.quarantine_files);
    push_seq(out, "quarantine_bytes", stat.quarantine_bytes);
    out.extend_from_slice(b"}\n");
}
