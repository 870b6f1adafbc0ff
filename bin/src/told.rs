//! Findings and notes in one line each, for standard error.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use logtool::finding::Place;
use logtool::{Finding, Loss, Note, NoteKind, SeqRange};

use crate::timestamp::human_clock;

/// `LOST 1 entry, seq 4402117 (corruption): payload checksum, 00000021-20261129T030000Z.flog at byte 118734080, between
/// 04:14:07.118 and 04:14:07.121`
pub(crate) fn finding_text(finding: &Finding, zone: &TimeZone) -> String {
    let mut text = match finding.loss {
        Loss::Nothing => String::new(),
        Loss::Seqs(seqs) => format!("LOST {}, {seqs} ({}): ", entries(&seqs), finding.class.as_str()),
        Loss::UnknownAfter(0) => "UNKNOWN whether entries were lost: ".to_string(),
        Loss::UnknownAfter(seq) => format!("UNKNOWN whether entries after seq {seq} were lost: "),
    };
    let _ = write!(text, "{}", finding.fault);
    push_place(&mut text, finding.place.as_ref());
    let clock = |ns: i64| human_clock(ns, zone);
    let _ = match (finding.time_before_ns, finding.time_after_ns) {
        (Some(before), Some(after)) => write!(text, ", between {} and {}", clock(before), clock(after)),
        (Some(before), None) => write!(text, ", after {}", clock(before)),
        (None, Some(after)) => write!(text, ", before {}", clock(after)),
        (None, None) => Ok(()),
    };
    text
}

/// What a note says.
pub(crate) fn note_text(note: &Note) -> String {
    let mut text = match &note.kind {
        NoteKind::Retention { seqs, rule: None } => format!("{seqs} removed by retention"),
        NoteKind::Retention { seqs, rule: Some(rule) } => format!("{seqs} removed by retention ({})", rule.as_str()),
        NoteKind::Dropped { seqs, marker, thread } => {
            let thread = thread.as_ref().map_or(String::new(), |name| format!(", {name}"));
            format!("{} dropped, {}{thread}: {seqs}", entries(seqs), marker.reason.as_str())
        }
        NoteKind::DeclaredLoss { seqs, class } => {
            format!("{} declared lost ({}): {seqs}", entries(seqs), class.as_str())
        }
        NoteKind::Void { seqs } => format!("{seqs} void: left out by the run that follows"),
        NoteKind::AccountedTail => "torn tail of a run before; the next segment accounts for it".to_string(),
        NoteKind::EndedWithoutClose => "ended without close; nothing that was accepted is missing".to_string(),
        NoteKind::Recovered { entries } => format!("{entries} entries read from the rings of a run that was killed"),
        NoteKind::Run { last_end } => format!("a run starts; the one before: {}", last_end.as_str()),
        NoteKind::OtherLog { log_id } => format!("another log stands there now: {log_id:016x}, shown from its start"),
        NoteKind::Unborn => "a segment that was only begun; it held no entry".to_string(),
        NoteKind::UnknownFrames { count } => format!("{count} frames of kinds that this version does not know"),
        _ => "a note of a kind that this version does not know".to_string(),
    };
    push_place(&mut text, note.place.as_ref());
    text
}

/// Whether it is said on standard error too: entries are missing where it stands, or another log begins. What retention
/// has removed is missed only by who has seen entries before it: `with_retention`.
pub(crate) fn is_told(note: &Note, with_retention: bool) -> bool {
    match note.kind {
        NoteKind::Dropped { .. } | NoteKind::DeclaredLoss { .. } | NoteKind::OtherLog { .. } => true,
        NoteKind::Retention { .. } => with_retention,
        _ => false,
    }
}

fn entries(seqs: &SeqRange) -> String {
    match seqs.count() {
        1 => "1 entry".to_string(),
        count => format!("{count} entries"),
    }
}

fn push_place(text: &mut String, place: Option<&Place>) {
    if let Some(place) = place {
        let _ = write!(text, ", {} at byte {}", place.segment, place.offset);
    }
}
