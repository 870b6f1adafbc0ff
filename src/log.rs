//! The log behind a logger: one whose calls go by rings, or one whose calls write.

#[cfg(test)]
pub(crate) mod testing;

use std::path::Path;
use std::time::Duration;

use crate::capture::KeptList;
use crate::clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::logger::Refused;
use crate::mirror::Mirror;
use crate::site::Site;
use crate::stats::LoggerStats;
use crate::synchronous::Synchronous;
use crate::thread::{give_back_buffer, take_buffer, thread_id};

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

    pub(crate) fn stats(&self) -> LoggerStats {
        match self {
            Log::Engine(engine) => engine.stats(),
            Log::Synchronous(log) => log.stats(),
        }
    }
}
