//! What `verify` and `repair` say of a log, for people.

use std::fmt::Write as _;
use std::path::Path;

use jiff::tz::TimeZone;
use logtool::control::RunEnd;
use logtool::report::{Notes, Report};
use logtool::{Finding, Loss, SeqRange};

use crate::escape::{escape, escape_path};
use crate::size::{human_bytes, thousands};
use crate::timestamp::{human_clock, human_range};

/// How the text looks.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    /// Zone of times.
    pub(crate) zone: TimeZone,
    /// Whether losses are red.
    pub(crate) color: bool,
}

/// Appends all but the verdict.
pub(crate) fn push_report(out: &mut String, path: &Path, report: &Report, style: &Style) {
    let id = format!("{:016x}", report.log_id);
    let _ = write!(out, "{}  log {}", escape_path(path), &id[..8]);
    let upto = thousands(report.last_seq);
    let _ = match report.writer_pid {
        Some(0) => writeln!(out, "  writer alive, checked up to seq {upto}"),
        Some(pid) => writeln!(out, "  writer pid {pid} alive, checked up to seq {upto}"),
        None if report.is_single_file => writeln!(out, "  one segment by itself"),
        None => writeln!(out, "  no writer"),
    };
    let mut states = vec![format!("{} sealed", thousands(report.segments_sealed))];
    if report.segments_active > 0 {
        states.push(format!("{} active", report.segments_active));
    }
    let unsealed = report.segments.saturating_sub(report.segments_sealed + report.segments_active);
    if unsealed > 0 {
        states.push(format!("{} unsealed", thousands(unsealed)));
    }
    let size = format!("{} for {} of text", human_bytes(report.bytes), human_bytes(report.text_bytes));
    let ratio = report.text_bytes as f64 / report.bytes.max(1) as f64;
    line(out, "segments", &format!("{} ({})   {size} ({ratio:.1}x)", thousands(report.segments), states.join(", ")));
    let seqs = report.first_seq.and_then(|first| SeqRange::new(first, report.last_seq));
    let range = seqs.map_or(String::new(), |seqs| format!("    {}", seqs_text(seqs)));
    line(out, "entries", &format!("{}{range}", thousands(report.entries)));
    if let Some((first, last)) = report.times_ns {
        line(out, "time", &human_range(first, last, &style.zone));
    }
    push_notes(out, &report.notes);
    report.findings.iter().for_each(|finding| push_finding(out, finding, style));
    if report.findings_more > 0 {
        line(out, "LOST", &format!("{} findings more, not listed", thousands(report.findings_more)));
    }
}

/// Appends a finding: what it costs, where, and between which times.
pub(crate) fn push_finding(out: &mut String, finding: &Finding, style: &Style) {
    let (word, cost) = match finding.loss {
        Loss::Seqs(seqs) => ("LOST", format!("{}, {}: ", entries(seqs.count()), seqs_text(seqs))),
        Loss::UnknownAfter(0) => ("UNKNOWN", "how many entries are missing: ".to_string()),
        Loss::UnknownAfter(seq) => ("UNKNOWN", format!("what came after seq {}: ", thousands(seq))),
        Loss::Nothing => ("DAMAGED", String::new()),
    };
    let red = if style.color { "\x1b[31m" } else { "" };
    let plain = if style.color { "\x1b[0m" } else { "" };
    // The class says more than the fault where a crash or a power cut explains it.
    let class = match finding.class {
        logtool::control::LossClass::PowerCut => " (power cut)",
        _ => "",
    };
    let _ = writeln!(out, "  {red}{word:<8}{plain}  {cost}{}{class}", finding.fault);
    if let Some(place) = &finding.place {
        let name = escape(place.segment.as_bytes());
        let _ = writeln!(out, "            {name} at byte {}", thousands(place.offset));
    }
    let clock = |ns: i64| human_clock(ns, &style.zone);
    let _ = match (finding.time_before_ns, finding.time_after_ns) {
        (Some(before), Some(after)) => writeln!(out, "            between {} and {}", clock(before), clock(after)),
        (Some(before), None) => writeln!(out, "            after {}", clock(before)),
        (None, Some(after)) => writeln!(out, "            before {}", clock(after)),
        (None, None) => Ok(()),
    };
}

fn push_notes(out: &mut String, notes: &Notes) {
    let mut note = |text: String| line(out, "note", &text);
    for (seqs, rule) in &notes.retention {
        let rule = rule.map_or(String::new(), |rule| format!(" ({})", rule.as_str()));
        note(format!("{} removed by retention{rule}", seqs_text(*seqs)));
    }
    for dropped in &notes.dropped {
        let thread = match &dropped.thread {
            Some(name) => escape(name.as_bytes()).into_owned(),
            None if dropped.tid == 0 => String::new(),
            None => format!("thread {}", dropped.tid),
        };
        let level = dropped.level.map_or(String::new(), |level| level.as_str().to_uppercase());
        let who: Vec<String> = [thread, level].into_iter().filter(|part| !part.is_empty()).collect();
        let who = if who.is_empty() { String::new() } else { format!("{}, ", who.join(" ")) };
        let (count, reason) = (thousands(dropped.count), dropped.reason.as_str());
        note(format!("{count} dropped, {reason}: {who}{}", seqs_text(dropped.seqs)));
    }
    for (seqs, class) in &notes.declared {
        note(format!("{} declared lost, {}: {}", entries(seqs.count()), class.as_str(), seqs_text(*seqs)));
    }
    notes.void.iter().for_each(|seqs| note(format!("{} void: left out by the run that follows", seqs_text(*seqs))));
    for (end, count) in &notes.runs {
        let text = match end {
            RunEnd::First | RunEnd::Closed => continue,
            end => end.as_str(),
        };
        note(format!("{} with an earlier one before: {text}", plural(*count, "run")));
    }
    if notes.accounted_tails > 0 {
        let (tails, bytes) = (plural(notes.accounted_tails, "torn tail"), human_bytes(notes.accounted_tail_bytes));
        note(format!("{tails} of a crash, {bytes}, which the next segment accounts for"));
    }
    if notes.ended_without_close {
        note("the last run ended without closing the log; nothing that it accepted is missing".to_string());
    }
    if notes.recovered > 0 {
        note(format!("{} read from the rings of a run that was killed", entries(notes.recovered)));
    }
    notes
        .unborn
        .iter()
        .for_each(|name| note(format!("{} was only begun and never held an entry", escape(name.as_bytes()))));
    if notes.unknown_frames > 0 {
        note(format!("{} of kinds that this version does not know", plural(notes.unknown_frames, "frame")));
    }
}

/// What all comes to: `NOT SOUND: 1 entry lost to damage.`
pub(crate) fn verdict(report: &Report, strict: bool) -> String {
    if report.is_sound(strict) {
        return match report.notes.declared_count {
            0 => "SOUND: nothing is missing or altered.".to_string(),
            count => format!("SOUND: nothing is missing but {} declared lost.", entries(count)),
        };
    }
    let mut parts = Vec::new();
    if report.lost > 0 {
        parts.push(format!("{} lost to damage", entries(report.lost)));
    }
    if let Some(seq) = report.unknown_after.first() {
        parts.push(format!("unknown what came after seq {}", thousands(*seq)));
    }
    if strict && report.notes.declared_count > 0 {
        parts.push(format!("{} declared lost", entries(report.notes.declared_count)));
    }
    if !report.failures.is_empty() {
        parts.push(format!("{} could not be read", plural(report.failures.len() as u64, "segment")));
    }
    if parts.is_empty() {
        parts.push(format!("{}, no entry lost", plural(report.finding_count(), "finding")));
    }
    format!("NOT SOUND: {}.", parts.join(", "))
}

/// A path as a shell takes it.
pub(crate) fn shell_path(path: &Path) -> String {
    let text = escape_path(path);
    // An option else.
    let text = if text.starts_with('-') { format!("./{text}").into() } else { text };
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%,=".contains(letter);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// `seq 20,480..8,412,906`
pub(crate) fn seqs_text(seqs: SeqRange) -> String {
    if seqs.first == seqs.last {
        format!("seq {}", thousands(seqs.first))
    } else {
        format!("seq {}..{}", thousands(seqs.first), thousands(seqs.last))
    }
}

/// `1 entry`, `1,116 entries`
pub(crate) fn entries(count: u64) -> String {
    if count == 1 { "1 entry".to_string() } else { format!("{} entries", thousands(count)) }
}

fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{} {word}s", thousands(count)) }
}

fn line(out: &mut String, head: &str, text: &str) {
    let _ = writeln!(out, "  {head:<8}  {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_command_can_be_pasted() {
        for (path, shown) in [("/var/log/shop", "/var/log/shop"), ("-dash", "./-dash"), ("it's", r"'it'\''s'")] {
            assert_eq!(shell_path(Path::new(path)), shown);
        }
    }
}
