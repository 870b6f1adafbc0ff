//! `logtool generate`, hidden: writes the man pages or the shell completions into a directory.

use crate::cli::{GenerateArgs, GenerateWhat};
use crate::pages;
use crate::terminal::Status;

/// Writes the files; what stands in the directory under their names is replaced.
pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<Status> {
    match args.what {
        GenerateWhat::Man => pages::write_man(&args.dir)?,
        GenerateWhat::Completions => pages::write_completions(&args.dir)?,
    }
    Ok(Status::Sound)
}
