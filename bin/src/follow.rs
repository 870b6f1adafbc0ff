//! Logs followed on standard output: printed as they grow, and the place kept in a file.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Context;
use logtool::follow::{StopFd, Woken, wait};
use logtool::{Cursor, Follower, Start};

use crate::merge::Merge;
use crate::source::Source;
use crate::stop::Stop;
use crate::view::View;

/// Entries printed before the output is flushed and the cursor moved on, if there are always more: what comes again at
/// most after SIGKILL. The cursor costs a sync, about a millisecond.
const BATCH_STEPS: u64 = 4096;

/// What is followed, before it has begun.
pub(crate) struct Following<'a> {
    /// Whether to go on at the end.
    waits: bool,
    cursor_file: Option<&'a Path>,
    /// Of each log: where to start.
    starts: Vec<Start>,
    stop: Stop,
    has_cursor: bool,
}

impl<'a> Following<'a> {
    /// Makes ready to follow the logs of `view`; takes the signals over, so that none comes between showing and keeping.
    ///
    /// # Errors
    /// Where the cursor file is none, or stands for several logs.
    pub(crate) fn new(view: &View<'_>, waits: bool, cursor_file: Option<&'a Path>) -> anyhow::Result<Following<'a>> {
        let cursor = match cursor_file {
            Some(_) if view.logs.len() > 1 => {
                anyhow::bail!("tail: --cursor-file keeps the place in one log: give one PATH, or follow each by itself")
            }
            Some(path) => {
                let cursor = Cursor::load(path)?;
                Cursor::check_path(path)?;
                cursor
            }
            None => None,
        };
        let stop = Stop::new().context("cannot wait for signals")?;
        let start = cursor.map_or(Start::First, Start::After);
        Ok(Following { waits, cursor_file, starts: vec![start; view.logs.len()], stop, has_cursor: cursor.is_some() })
    }

    /// Whether a cursor says where to begin.
    pub(crate) fn has_cursor(&self) -> bool {
        self.has_cursor
    }

    /// Prints the logs in `merge` as they are, but for the first `skip` lines; what follows starts behind that.
    ///
    /// # Errors
    /// Where the output or the cursor file cannot be written.
    pub(crate) fn show_start(&mut self, view: &mut View<'_>, merge: &mut Merge, mut skip: u64) -> anyhow::Result<()> {
        let mut kept = None;
        while !view.print_some(merge, &mut skip, BATCH_STEPS)? {
            view.printer.flush()?;
            if skip == 0 {
                self.keep(merge, &mut kept)?;
            }
            if self.stop.signal().is_some() {
                self.stop.end();
            }
        }
        view.printer.flush()?;
        for source in merge.sources() {
            let Some(reader) = source.reader().filter(|reader| !reader.snapshot().segments.is_empty()) else {
                continue;
            };
            let cursor = Cursor { log_id: reader.snapshot().log_id, seq: reader.last_seq() };
            self.starts[source.number] = Start::After(cursor);
            // There is one log where there is a file.
            self.cursor_file.map_or(Ok(()), |path| cursor.store(path))?;
        }
        Ok(())
    }

    /// Prints what comes until a signal ends it, or standard output is closed; without waiting, until the end.
    ///
    /// # Errors
    /// Where the output or the cursor file cannot be written. Of logs that cannot be followed it is said, the rest goes on.
    pub(crate) fn run(self, view: &mut View<'_>) -> anyhow::Result<()> {
        let mut sources = Vec::new();
        for (at, start) in self.starts.iter().enumerate() {
            match Follower::open(&view.logs[at].path, *start) {
                Ok(follower) => sources.push(view.followed(at, follower)),
                Err(error) => view.ui.failed(&error.into()),
            }
        }
        if sources.is_empty() {
            return Ok(view.printer.finish()?);
        }
        let mut merge = Merge::new(sources);
        let stdout = io::stdout();
        let mut kept = None;
        loop {
            let at_end = view.print_some(&mut merge, &mut 0, BATCH_STEPS)?;
            view.printer.flush()?;
            self.keep(&mut merge, &mut kept)?;
            if self.stop.signal().is_some() {
                break;
            }
            if !at_end {
                continue;
            }
            if !self.waits || merge.sources().iter().all(|source| source.has_ended()) {
                return Ok(view.printer.finish()?);
            }
            let stops = [StopFd::Readable(self.stop.fd()), StopFd::Closed(stdout.as_fd())];
            let mut followers: Vec<&mut Follower> = merge.sources().iter_mut().filter_map(Source::follower).collect();
            match wait(&mut followers, &stops, None)? {
                Woken::Stop(0) => break,
                Woken::Stop(_) => return Ok(()),
                Woken::Look | Woken::Deadline => merge.resume(),
            }
        }
        self.stop.end();
        Ok(())
    }

    /// Keeps the place in the cursor file: everything before it is with whoever reads standard output.
    fn keep(&self, merge: &mut Merge, kept: &mut Option<Cursor>) -> anyhow::Result<()> {
        let (Some(path), [source]) = (self.cursor_file, merge.sources()) else { return Ok(()) };
        let cursor = source.cursor();
        if cursor != *kept
            && let Some(new) = cursor
        {
            new.store(path)?;
            *kept = cursor;
        }
        Ok(())
    }
}
