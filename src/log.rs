//! The log behind a logger: one whose calls go by rings, or one whose calls write.

#[cfg(test)]
pub(crate) mod testing;

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::capture::KeptList;
use crate::clock;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::logger::{ACCEPTED, Refused};
use crate::metrics::Metrics;
use crate::mirror::Mirror;
use crate::site::Site;
use crate::stats::LoggerStats;
use crate::synchronous::Synchronous;
use crate::thread::{give_back_buffer, take_buffer, thread_id};

/// Asks the thread of the log for something and waits for its answer, so that a caller's deadline holds also where the disk
/// hangs. `hand_over` gives the thread where to answer; it returns false if the thread has ended.
pub(crate) fn ask(
    path: &Path,
    is_forked: bool,
    hand_over: impl FnOnce(Sender<Result<()>>) -> bool,
    wait: Duration,
    what: &str,
) -> Result<()> {
    let failed = |kind, text: &str| Err(Error::new(kind, text).at(path));
    let closed = || failed(ErrorKind::Closed, "the log was closed: open it again to write");
    if is_forked {
        let text = "the log belongs to the process that this one was forked from: open another one";
        return failed(ErrorKind::Closed, text);
    }
    let (answer, answers) = channel();
    if !hand_over(answer) {
        return closed();
    }
    match answers.recv_timeout(wait) {
        Ok(result) => result,
        Err(RecvTimeoutError::Disconnected) => closed(),
        Err(RecvTimeoutError::Timeout) => {
            let text = format!("the {what} took longer than {wait:?}: it goes on in the background");
            failed(ErrorKind::TimedOut, &text)
        }
    }
}

/// How calls get into the log.
pub(crate) enum Log {
    /// By rings and a backend.
    Engine(Engine),
    /// By a write each.
    Synchronous(Synchronous),
}

impl Log {
    /// Takes an entry, and shows it in the mirror. No lock is held while its values are encoded: a Display may log.
    #[inline]
    pub(crate) fn take<L: KeptList>(
        &self,
        site: &'static Site,
        kept: &L,
        mirror: Option<&Mirror>,
    ) -> std::result::Result<(), Refused> {
        match self {
            Log::Engine(engine) if mirror.is_none_or(|mirror| !mirror.shows(site)) => engine.append(site, kept),
            _ => self.take_by_buffer(site, kept, mirror),
        }
    }

    fn take_by_buffer<L: KeptList>(
        &self,
        site: &'static Site,
        kept: &L,
        mirror: Option<&Mirror>,
    ) -> std::result::Result<(), Refused> {
        let mut body = take_buffer();
        kept.encode_all(&mut body);
        let time_ns = clock::now_ns();
        let result = match self {
            _ if mirror.is_some_and(|mirror| mirror.is_all_of(site)) => ACCEPTED,
            Log::Engine(engine) => engine.append_encoded(site, &body),
            Log::Synchronous(log) => log.append(site, time_ns, &body),
        };
        if let Some(mirror) = mirror {
            mirror.show(site, time_ns, thread_id(), &body);
        }
        give_back_buffer(body);
        result
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Log::Engine(engine) => engine.path(),
            Log::Synchronous(log) => log.path(),
        }
    }

    pub(crate) fn flush(&self, wait: Duration) -> Result<()> {
        match self {
            Log::Engine(engine) => engine.flush(wait),
            Log::Synchronous(log) => log.flush(wait),
        }
    }

    pub(crate) fn sync(&self, wait: Duration) -> Result<()> {
        match self {
            Log::Engine(engine) => engine.sync(wait),
            Log::Synchronous(log) => log.sync(wait),
        }
    }

    pub(crate) fn close(&self, wait: Duration) -> Result<LoggerStats> {
        match self {
            Log::Engine(engine) => engine.close(wait),
            Log::Synchronous(log) => log.close(wait),
        }
    }

    pub(crate) fn metrics(&self) -> Metrics {
        match self {
            Log::Engine(engine) => engine.metrics(),
            Log::Synchronous(log) => log.metrics(),
        }
    }

    pub(crate) fn stats(&self) -> LoggerStats {
        match self {
            Log::Engine(engine) => engine.stats(),
            Log::Synchronous(log) => log.stats(),
        }
    }
}
