//! `logtool write`: standard input into a log, one entry a line.

use crate::cli::WriteArgs;
use crate::terminal::{Status, Ui};

/// Runs the command.
pub(crate) fn run(args: &WriteArgs, ui: &Ui) -> anyhow::Result<Status> {
    let _ = (args, ui);
    anyhow::bail!("write: this build of logtool does not have the command yet")
}
