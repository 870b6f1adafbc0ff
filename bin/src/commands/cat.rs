//! `logtool cat`: prints the entries of logs.

use crate::cli::CatArgs;
use crate::terminal::{Status, Ui};

/// Runs the command.
pub(crate) fn run(args: &CatArgs, ui: &Ui) -> anyhow::Result<Status> {
    let _ = (args, ui);
    anyhow::bail!("cat: this build of logtool does not have the command yet")
}
