//! `logtool cat`: prints the entries of logs.

use crate::cli::CatArgs;
use crate::merge::Merge;
use crate::terminal::{Status, Ui};
use crate::view::View;

/// Runs the command.
pub(crate) fn run(args: &CatArgs, ui: &Ui) -> anyhow::Result<Status> {
    let mut view = View::new(&args.logs, &args.filter, &args.form, ui)?;
    let open = |at: usize| view.open(at).map(|reader| view.source(at, reader));
    let sources = (0..view.logs.len()).filter_map(open).collect();
    view.print_all(&mut Merge::new(sources), 0)?;
    Ok(Status::Sound)
}
