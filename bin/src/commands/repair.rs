//! `logtool repair`: makes a damaged log sound again, with its losses declared.

use crate::cli::RepairArgs;
use crate::terminal::{Status, Ui};

/// Runs the command.
pub(crate) fn run(args: &RepairArgs, ui: &Ui) -> anyhow::Result<Status> {
    let _ = (args, ui);
    anyhow::bail!("repair: this build of logtool does not have the command yet")
}
