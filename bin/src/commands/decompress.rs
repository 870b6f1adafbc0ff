//! `logtool decompress`: gives back what was written.

use crate::cli::DecompressArgs;
use crate::terminal::{Status, Ui};

/// Runs the command.
pub(crate) fn run(args: &DecompressArgs, ui: &Ui) -> anyhow::Result<Status> {
    let _ = (args, ui);
    anyhow::bail!("decompress: this build of logtool does not have the command yet")
}
