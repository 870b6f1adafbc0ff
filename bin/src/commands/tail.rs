//! `logtool tail`: prints the last entries of logs and follows them.

use crate::cli::TailArgs;
use crate::terminal::{Status, Ui};

/// Runs the command.
pub(crate) fn run(args: &TailArgs, ui: &Ui) -> anyhow::Result<Status> {
    let _ = (args, ui);
    anyhow::bail!("tail: this build of logtool does not have the command yet")
}
