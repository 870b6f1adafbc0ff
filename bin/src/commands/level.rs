//! `logtool level`: shows and changes which levels a running program logs.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use logtool::{Levels, running_levels, set_running_levels};

use crate::cli::LevelArgs;
use crate::escape::escape;
use crate::terminal::{Status, Ui};

/// How long a program may take to answer; one that runs looks each second.
const WAIT: Duration = Duration::from_secs(3);

/// Runs the command.
pub(crate) fn run(args: &LevelArgs, ui: &Ui) -> anyhow::Result<Status> {
    let running = if args.levels.is_empty() {
        running_levels(&args.dir, WAIT)?
    } else {
        let levels: Levels = args.levels.iter().map(Levels::to_string).collect::<Vec<_>>().join(",").parse()?;
        let running = set_running_levels(&args.dir, &levels, WAIT)?;
        ui.note(&args.dir, &format!("applied by process {}", running.pid));
        running
    };
    if running.is_cut {
        ui.note(&args.dir, "the program has more settings than can be shown");
    }
    let mut out = ui.stdout()?;
    let text = format!("{}\n", escape(running.levels.to_string().as_bytes()));
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write the levels")?;
    Ok(Status::Sound)
}
