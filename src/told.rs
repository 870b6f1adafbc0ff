//! Errors told to the program's own callback, each kind once until it is over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::error::{Error, ErrorKind, Result};
use crate::logger::OnError;

/// The kind of error that was told last: 0 for none.
#[derive(Debug, Default)]
pub(crate) struct Told(AtomicU8);

impl Told {
    /// Tells of an error, unless the one before was of the same kind. Called without a lock: the callback may log.
    pub(crate) fn tell(&self, result: &Result<()>, on_error: Option<&OnError>) {
        if let Some(error) = self.news(result)
            && error.kind() != ErrorKind::Closed
            && let Some(on_error) = on_error
        {
            // Its panic is not the log's: neither the call nor the thread ends by it.
            let _ = catch_unwind(AssertUnwindSafe(|| on_error(error)));
        }
    }

    /// The error, if it is of another kind than what was told last. A success makes the next error news.
    fn news<'a>(&self, result: &'a Result<()>) -> Option<&'a Error> {
        let error = result.as_ref().err();
        let kind = error.map_or(0, |error| error.kind() as u8 + 1);
        let before = self.0.swap(kind, Relaxed);
        error.filter(|_| before != kind)
    }
}
