//! `logtool tour`: shows on the disk at hand what logtool is for.

use crate::cli::TourArgs;
use crate::terminal::{Status, Ui};

/// Runs the command.
pub(crate) fn run(args: &TourArgs, ui: &Ui) -> anyhow::Result<Status> {
    let _ = (args, ui);
    anyhow::bail!("tour: this build of logtool does not have the command yet")
}
