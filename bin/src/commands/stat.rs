//! `logtool stat`: shows what a log consists of.

use crate::cli::StatArgs;
use crate::terminal::{Status, Ui};

/// Runs the command.
pub(crate) fn run(args: &StatArgs, ui: &Ui) -> anyhow::Result<Status> {
    let _ = (args, ui);
    anyhow::bail!("stat: this build of logtool does not have the command yet")
}
