//! `logtool verify`: checks every checksum, link and number of logs.

use std::io::Write as _;
use std::time::Instant;

use anyhow::Context as _;
use logtool::{Fault, Snapshot, VerifyOptions};

use crate::cli::VerifyArgs;
use crate::logs::{self, Log};
use crate::report_text::{Style, push_report, shell_path, verdict};
use crate::size::human_bytes;
use crate::terminal::{Status, Ui};
use crate::{report_json, time};

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs, ui: &Ui) -> anyhow::Result<Status> {
    let style = Style { zone: time::zone(args.utc, ui), color: ui.colors_stdout() };
    let logs = logs::find(&args.logs, ui)?;
    for (number, log) in logs.iter().enumerate() {
        match logtool::snapshot_of(&log.path) {
            Ok(snapshot) => verify(log, number > 0, &snapshot, args, &style, ui)?,
            Err(error) => ui.failed(&error.into()),
        }
    }
    Ok(Status::Sound)
}

fn verify(
    log: &Log,
    is_further: bool,
    snapshot: &Snapshot,
    args: &VerifyArgs,
    style: &Style,
    ui: &Ui,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let bytes = snapshot.segments.iter().map(|segment| segment.bytes).sum();
    let report = {
        let progress = ui.progress("verify", bytes);
        logtool::verify(snapshot, &VerifyOptions::default(), &|bytes| progress.add(bytes))
    };
    for (segment, text) in &report.failures {
        ui.failure(&log.path.join(segment), text);
    }
    if !report.is_sound(args.strict) {
        ui.raise(Status::Findings);
    }
    if report.findings.iter().any(|finding| matches!(finding.fault, Fault::Version(_))) {
        ui.raise(Status::Failed);
    }
    if args.quiet {
        return Ok(());
    }
    let mut out = ui.stdout()?;
    if args.json {
        let mut line = Vec::new();
        report_json::push_report(&mut line, &log.path, &report, args.strict);
        out.write_all(&line)?;
    } else {
        let mut text = if is_further { "\n".to_string() } else { String::new() };
        push_report(&mut text, &log.path, &report, style);
        let seconds = started.elapsed().as_secs_f64();
        let verdict = verdict(&report, args.strict);
        text.push_str(&format!("{verdict} Checked {} in {seconds:.1} s.\n", human_bytes(report.bytes)));
        if !report.findings.is_empty() && !report.is_single_file {
            let first = if snapshot.is_live() { "stop its writer, then " } else { "" };
            text.push_str(&format!("next: {first}logtool repair --dry-run {}\n", shell_path(&log.path)));
        }
        out.write_all(text.as_bytes())?;
    }
    out.flush().context("cannot write the report")
}
