//! `logtool tail`: prints the last entries of logs, and follows them.

use std::path::Path;

use logtool::LogReader;
use logtool::format::HEADER_BYTES;
use logtool::reader::Position;

use crate::cli::TailArgs;
use crate::escape::escape_path;
use crate::follow::Following;
use crate::logs;
use crate::merge::{Merge, Merged};
use crate::report_text::shell_path;
use crate::terminal::{Status, Ui};
use crate::values::TailStart;
use crate::view::View;

/// Bytes of frames that are looked at first, from the end of a log: the last ten lines of most logs are there.
const LOOK_BYTES: u64 = 64 << 10;

/// How often a log is opened whose segments retention removes while their end is looked for.
const REMOVED_TRIES: u32 = 64;

/// Runs the command.
pub(crate) fn run(args: &TailArgs, ui: &Ui) -> anyhow::Result<Status> {
    let logs = logs::find_or_await(&args.logs, args.follow, ui)?;
    if args.follow || args.cursor_file.is_some() {
        logs.iter().try_for_each(|log| refuse_file(&log.path, args))?;
    }
    let mut view = View::of(logs, &args.filter, &args.form, ui)?;
    if !args.follow && args.cursor_file.is_none() {
        let (mut merge, skip) = open_start(&mut view, args.lines);
        view.print_all(&mut merge, skip)?;
        return Ok(Status::Sound);
    }
    let mut following = Following::new(&view, args.follow, args.cursor_file.as_deref())?;
    view.leaves_ends_open = true;
    if !following.has_cursor() {
        let (mut merge, skip) = open_start(&mut view, args.lines);
        following.show_start(&mut view, &mut merge, skip)?;
    }
    view.tells_retention = true;
    following.run(&mut view)?;
    Ok(Status::Sound)
}

/// Refuses a file where a log is to be gone on with: what comes next stands in the log's next segment.
fn refuse_file(path: &Path, args: &TailArgs) -> anyhow::Result<()> {
    if path.is_dir() || logs::is_to_come(path) {
        return Ok(());
    }
    // What is no segment says so here.
    logtool::snapshot_of(path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = escape_path(path);
    anyhow::ensure!(
        logtool::is_log_dir(dir),
        "{shown}: is a segment by itself, which does not grow; print it: logtool tail {}",
        shell_path(path)
    );
    let follow = if args.follow { " -f" } else { "" };
    let file = args.cursor_file.as_ref().map_or(String::new(), |file| format!(" --cursor-file {}", shell_path(file)));
    anyhow::bail!(
        "{shown}: is one segment of a log, which goes on in the next one; give the log: logtool tail{follow}{file} {}",
        shell_path(dir)
    )
}

/// The logs, opened at the entries that `start` asks for or a little before, and how many of their lines to skip.
fn open_start(view: &mut View<'_>, start: TailStart) -> (Merge, u64) {
    let mut sources = Vec::new();
    let mut skip = 0;
    for at in 0..view.logs.len() {
        if view.leaves_ends_open && logs::is_to_come(&view.logs[at].path) {
            continue;
        }
        let opened = match start {
            TailStart::Last(wanted) => open_last(view, at, wanted),
            TailStart::From(_) => view.open(at).map(|reader| (reader, 0)),
        };
        let Some((reader, found)) = opened else { continue };
        skip += found;
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
    (Merge::new(sources), skip)
}

/// A log, opened so that its last `wanted` lines that are to be shown come behind the place it is at, and how many do.
fn open_last(view: &mut View<'_>, at: usize, wanted: u64) -> Option<(LogReader, u64)> {
    for tries_left in (0..REMOVED_TRIES).rev() {
        let mut reader = view.open(at)?;
        match find_last(view, at, &mut reader, wanted) {
            // Retention was faster.
            Err(error) if error.is_not_found() && tries_left > 0 => {}
            Ok((position, found)) => {
                reader.seek(position);
                return Some((reader, found));
            }
            Err(error) => {
                view.ui.failed(&error.into());
                return None;
            }
        }
    }
    None
}

/// Where to start so that the last `wanted` lines that are to be shown come behind it, and how many do.
fn find_last(
    view: &mut View<'_>,
    at: usize,
    reader: &mut LogReader,
    wanted: u64,
) -> Result<(Position, u64), logtool::Error> {
    let mut bytes = LOOK_BYTES;
    loop {
        let position = reader.position_back(bytes)?;
        // What is counted here must be there when it is shown.
        reader.hold(position)?;
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
