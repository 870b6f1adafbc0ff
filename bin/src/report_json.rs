//! What `verify` says of a log, as one JSON object; `src/json.md` of the library specifies it.

use std::path::Path;

use logtool::report::{Notes, Report};

use crate::json::{self, push_key, push_number, push_seq, push_seqs, push_start, push_text, push_true};

/// Appends the report on the log at `path` and a newline.
pub(crate) fn push_report(out: &mut Vec<u8>, path: &Path, report: &Report, strict: bool) {
    let mut writer = json::Writer::default();
    push_start(out, "verify", Some(&path.to_string_lossy()));
    push_text(out, "log_id", &format!("{:016x}", report.log_id));
    push_key(out, "sound");
    out.extend_from_slice(if report.is_sound(strict) { b"true" } else { b"false" });
    if report.is_single_file {
        push_true(out, "single_file");
    }
    if let Some(pid) = report.writer_pid {
        push_number(out, "writer_pid", pid.into());
    }
    for (name, number) in [
        ("segments", report.segments),
        ("segments_sealed", report.segments_sealed),
        ("segments_active", report.segments_active),
        ("bytes", report.bytes),
        ("text_bytes", report.text_bytes),
        ("entries", report.entries),
    ] {
        push_seq(out, name, number);
    }
    if let Some(first) = report.first_seq {
        push_seq(out, "first_seq", first);
    }
    push_seq(out, "last_seq", report.last_seq);
    push_seq(out, "synced_upto", report.synced_upto);
    if let Some((first, last)) = report.times_ns {
        writer.push_time(out, "time_first", first);
        writer.push_time(out, "time_last", last);
    }
    push_seq(out, "lost", report.lost);
    push_list(out, "unknown_after", &report.unknown_after, |out, seq| {
        out.extend_from_slice(seq.to_string().as_bytes())
    });
    push_notes(out, &report.notes);
    push_list(out, "findings", &report.findings, |out, finding| writer.push_finding(out, None, finding));
    push_number(out, "findings_more", report.findings_more);
    push_list(out, "failures", &report.failures, |out, (segment, text)| {
        out.extend_from_slice(b"{\"segment\":");
        json::push_string(out, segment);
        push_text(out, "text", text);
        out.push(b'}');
    });
    out.extend_from_slice(b"}\n");
}

fn push_notes(out: &mut Vec<u8>, notes: &Notes) {
    push_list(out, "retention", &notes.retention, |out, (seqs, rule)| {
        open(out, rule.map_or("unknown rule", |rule| rule.as_str()), "rule");
        push_seqs(out, "seqs", *seqs);
        out.push(b'}');
    });
    push_list(out, "dropped", &notes.dropped, |out, dropped| {
        open(out, dropped.reason.as_str(), "reason");
        push_seq(out, "count", dropped.count);
        push_number(out, "tid", dropped.tid.into());
        if let Some(thread) = &dropped.thread {
            push_text(out, "thread", thread);
        }
        if let Some(level) = dropped.level {
            push_text(out, "level", level.as_str());
        }
        push_seqs(out, "seqs", dropped.seqs);
        out.push(b'}');
    });
    push_list(out, "declared", &notes.declared, |out, (seqs, class)| {
        open(out, class.as_str(), "class");
        push_seqs(out, "seqs", *seqs);
        out.push(b'}');
    });
    push_seq(out, "declared_count", notes.declared_count);
    push_list(out, "void", &notes.void, |out, seqs| {
        out.extend_from_slice(b"{\"first\":");
        out.extend_from_slice(seqs.first.to_string().as_bytes());
        push_seq(out, "last", seqs.last);
        out.push(b'}');
    });
    push_list(out, "runs", &notes.runs, |out, (end, count)| {
        open(out, end.as_str(), "last_end");
        push_number(out, "count", *count);
        out.push(b'}');
    });
    push_number(out, "accounted_tails", notes.accounted_tails);
    push_number(out, "accounted_tail_bytes", notes.accounted_tail_bytes);
    if notes.ended_without_close {
        push_true(out, "ended_without_close");
    }
    push_number(out, "recovered", notes.recovered);
    push_list(out, "unborn", &notes.unborn, |out, name| json::push_string(out, name));
    push_number(out, "unknown_frames", notes.unknown_frames);
}

/// `{"name":"text"`
fn open(out: &mut Vec<u8>, text: &str, name: &str) {
    out.extend_from_slice(format!("{{\"{name}\":").as_bytes());
    json::push_string(out, text);
}

fn push_list<T>(out: &mut Vec<u8>, name: &str, list: &[T], mut push: impl FnMut(&mut Vec<u8>, &T)) {
    push_key(out, name);
    out.push(b'[');
    for (number, item) in list.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        push(out, item);
    }
    out.push(b']');
}
