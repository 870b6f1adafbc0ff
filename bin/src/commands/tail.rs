//! `logtool tail`: prints the last entries of logs, and follows them.

use logtool::LogReader;
use logtool::format::HEADER_BYTES;
use logtool::reader::Position;

use crate::cli::TailArgs;
use crate::merge::{Merge, Merged};
use crate::terminal::{Status, Ui};
use crate::values::TailStart;
use crate::view::View;

/// Bytes of frames that are looked at first, from the end of a log: the last ten lines of most logs are there.
const LOOK_BYTES: u64 = 64 << 10;

/// Runs the command.
pub(crate) fn run(args: &TailArgs, ui: &Ui) -> anyhow::Result<Status> {
    anyhow::ensure!(!args.follow, "tail: this build of logtool cannot follow yet");
    anyhow::ensure!(args.cursor_file.is_none(), "tail: this build of logtool has no --cursor-file yet");
    let mut view = View::new(&args.logs, &args.filter, &args.form, ui)?;
    print_start(&mut view, args.lines)?;
    Ok(Status::Sound)
}

/// Prints the entries that `start` asks for, up to the end of the logs as it is now. Returns the logs, read to that end.
fn print_start(view: &mut View<'_>, start: TailStart) -> anyhow::Result<Merge> {
    let mut sources = Vec::new();
    let mut skip = 0;
    for at in 0..view.logs.len() {
        let Some(mut reader) = view.open(at) else { continue };
        if let TailStart::Last(wanted) = start {
            match find_last(view, at, &reader, wanted) {
                Ok((position, found)) => {
                    reader.seek(position);
                    skip += found;
                }
                Err(error) => {
                    view.ui.failed(&error.into());
                    continue;
                }
            }
        }
        let mut source = view.source(at, reader);
        if matches!(start, TailStart::Last(_)) {
            source.skip_parts();
        }
        sources.push(source);
    }
    let skip = match start {
        TailStart::Last(wanted) => skip.saturating_sub(wanted),
        TailStart::From(first) => first - 1,
    };
    let mut merge = Merge::new(sources);
    view.print_all(&mut merge, skip)?;
    Ok(merge)
}

/// Where to start so that the last `wanted` lines that are to be shown come behind it, and how many do.
fn find_last(
    view: &mut View<'_>,
    at: usize,
    reader: &LogReader,
    wanted: u64,
) -> Result<(Position, u64), logtool::Error> {
    let mut bytes = LOOK_BYTES;
    loop {
        let position = reader.position_back(bytes)?;
        let is_start = position.segment == 0 && position.offset <= HEADER_BYTES as u64;
        let found = count(view, at, reader, position);
        if found >= wanted || is_start {
            return Ok((position, found));
        }
        // What was looked at is looked at again: with a factor of 4, a third more in all.
        bytes = bytes.saturating_mul(4);
    }
}

/// How many lines that begin at or behind `position` are to be shown.
fn count(view: &mut View<'_>, at: usize, reader: &LogReader, position: Position) -> u64 {
    let mut again = LogReader::new(reader.snapshot().clone());
    again.set_times(view.selection.times_ns());
    again.seek(position);
    let mut source = view.source(at, again);
    source.skip_parts();
    let mut merge = Merge::new(vec![source]);
    let mut found = 0;
    loop {
        match merge.step() {
            Merged::Entry(source) => {
                let is_wanted = view.is_wanted(&mut merge, source);
                let begins = merge.entry().is_some_and(|entry| !entry.is_continued());
                found += u64::from(is_wanted && begins);
            }
            // What is wrong is told when the entries are printed.
            Merged::Told(..) | Merged::Failed(..) => {}
            Merged::End => return found,
        }
    }
}
