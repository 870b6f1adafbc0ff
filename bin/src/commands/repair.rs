//! `logtool repair`: makes a damaged log sound again, with its losses declared.

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use logtool::clean_copy::clean_copy;
use logtool::repair::{self, Action};
use logtool::storage::Storage;
use logtool::storage_os::OsStorage;
use logtool::{Error, ErrorKind, Finding, Snapshot, VerifyOptions};

use crate::cli::RepairArgs;
use crate::escape::{escape, escape_path};
use crate::report_text::{Style, push_finding, shell_path, verdict};
use crate::size::thousands;
use crate::terminal::{Status, Ui};
use crate::time;

/// Permission bits of new files; those of existing ones stay.
const FILE_MODE: u32 = 0o640;

/// Permission bits of a new directory.
const DIRECTORY_MODE: u32 = 0o750;

/// Runs the command.
pub(crate) fn run(args: &RepairArgs, ui: &Ui) -> anyhow::Result<Status> {
    let path = &args.path;
    if !std::fs::metadata(path).map_err(|error| Error::io("cannot open", error).at(path))?.is_dir() {
        let text = "not a directory: a segment is repaired together with its log";
        return Err(Error::new(ErrorKind::Invalid, text).at(path).into());
    }
    let style = Style { zone: time::zone(args.utc, ui), color: ui.colors_stdout() };
    let storage: Arc<dyn Storage> = Arc::new(OsStorage::new(path, FILE_MODE));
    let snapshot = Snapshot::take(Arc::clone(&storage))?;
    let bytes = snapshot.segments.iter().map(|segment| segment.bytes).sum();
    let options = VerifyOptions::default();
    let mut text = format!("{}  log {:08x}\n", escape_path(path), snapshot.log_id >> 32);
    if args.dry_run {
        let plan = {
            let progress = ui.progress("check", bytes);
            repair::plan(&snapshot, &options, &|bytes| progress.add(bytes))?
        };
        push_actions(&mut text, &plan.actions, &plan.unsettled, &style);
        let steps = plural(plan.actions.len(), "step");
        text.push_str(&match (plan.actions.len(), plan.unsettled.len()) {
            (0, 0) => "NOTHING TO REPAIR.\n".to_string(),
            _ => format!("PLAN: {steps}. Nothing was changed.\n"),
        });
        if plan.is_partial {
            text.push_str("More is planned once these steps are done.\n");
        }
        if !plan.actions.is_empty() {
            text.push_str(&format!("next: logtool repair {}\n", shell_path(path)));
        }
        say(ui, &text)?;
        let mut is_sound = plan.actions.is_empty() && plan.unsettled.is_empty();
        if is_sound && args.strict {
            is_sound = logtool::verify(&snapshot, &options, &|_| {}).is_sound(true);
        }
        return Ok(if is_sound { Status::Sound } else { Status::Findings });
    }
    let (done, target, result) = match &args.output {
        None => {
            let progress = ui.progress("repair", bytes);
            (repair::repair(&storage, &options, &|bytes| progress.add(bytes))?, path.as_path(), storage)
        }
        Some(new) => {
            make_directory(new)?;
            let copy: Arc<dyn Storage> = Arc::new(OsStorage::new(new, FILE_MODE));
            let progress = ui.progress("copy", bytes);
            let done = clean_copy(&storage, &copy, &options, &|bytes| progress.add(bytes))?;
            // Left behind by what was saved and cleared again; it is no fault if it is not there.
            let _ = std::fs::remove_dir(new.join("quarantine"));
            (done, new.as_path(), copy)
        }
    };
    push_actions(&mut text, &done.actions, &done.unsettled, &style);
    let report = {
        let snapshot = Snapshot::take(result)?;
        let progress = ui.progress("verify", bytes);
        logtool::verify(&snapshot, &options, &|bytes| progress.add(bytes))
    };
    let steps = plural(done.actions.len(), "step");
    let did = match (&args.output, done.actions.len()) {
        (Some(new), _) => format!("COPIED to {}, {steps} taken there.", escape_path(new)),
        (None, 0) => "NOTHING TO REPAIR.".to_string(),
        (None, _) => format!("REPAIRED: {steps} taken."),
    };
    text.push_str(&format!("{did} The log is {}\n", lower_first(&verdict(&report, args.strict))));
    text.push_str(&format!("next: logtool verify {}\n", shell_path(target)));
    say(ui, &text)?;
    Ok(if report.is_sound(args.strict) { Status::Sound } else { Status::Findings })
}

/// Makes the directory of a copy; one that is there already is left to the copy to judge.
fn make_directory(path: &Path) -> anyhow::Result<()> {
    match std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::io("cannot make the directory", error).at(path).into())
        }
        _ => Ok(()),
    }
}

/// Findings, and below each what is done about it.
fn push_actions(out: &mut String, actions: &[Action], unsettled: &[(Finding, &'static str)], style: &Style) {
    for Action { finding, step } in actions {
        if let Some(finding) = finding {
            push_finding(out, finding, style);
        }
        out.push_str(&format!("  repair    {}: {step}\n", escape(step.segment().as_bytes())));
    }
    for (finding, why) in unsettled {
        push_finding(out, finding, style);
        out.push_str(&format!("  left      {why}\n"));
    }
}

fn say(ui: &Ui, text: &str) -> anyhow::Result<()> {
    let mut out = ui.stdout()?;
    out.write_all(text.as_bytes())?;
    out.flush().context("cannot write what was done")
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{} {word}s", thousands(count as u64)) }
}

/// `SOUND: all is there` as it stands within a sentence.
fn lower_first(text: &str) -> String {
    match text.split_once(':') {
        Some((word, rest)) => format!("{}:{rest}", word.to_lowercase()),
        None => text.to_string(),
    }
}
