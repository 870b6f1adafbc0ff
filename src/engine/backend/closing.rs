//! The end of a log: what was accepted is written, the last segment sealed, the ring file removed.

use std::sync::atomic::Ordering::Release;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::ring::{heavy_fence, lock};

use super::{Backend, Request};

/// How long a close waits for calls that are at work. They are, for less than a microsecond each, unless their thread is not
/// let run.
const CALLS_WAIT: Duration = Duration::from_secs(10);

impl Backend {
    /// Lets no call in any more, writes all that was accepted, seals the log, and removes the ring file. After an error the
    /// log is open again.
    pub(super) fn close(&mut self) -> Result<()> {
        // ORDERING: Release, pairs with the Acquire in `Gate::enter`.
        self.shared.closed.store(true, Release);
        heavy_fence();
        self.wait_for_calls();
        let closed = self.write_all_and_seal();
        if closed.is_err() {
            // ORDERING: as above.
            self.shared.closed.store(false, Release);
        }
        self.take_note(&closed);
        self.rounds.tell(&self.shared, Instant::now(), true);
        closed
    }

    fn wait_for_calls(&mut self) {
        let start = Instant::now();
        // Whoever has got a ring since.
        self.learn_of_rings();
        // Who was at work in the common one.
        drop(lock(&self.shared.common));
        for lane in &self.lanes {
            let ring = lane.consumer.ring();
            while ring.gate.is_busy() && start.elapsed() < CALLS_WAIT {
                ring.room.wake();
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    fn write_all_and_seal(&mut self) -> Result<()> {
        let late = std::mem::take(&mut lock(&self.shared.requests).list);
        self.pass(true).1?;
        for request in late {
            match request {
                Request::Entry(entry, answer) => {
                    // Who asked may have gone.
                    let _ = answer.send(self.append_long(&entry, &Ok(())));
                }
                other => lock(&self.shared.requests).list.push(other),
            }
        }
        // For as long as the ring file is there nobody else may open the log.
        let held = self.sink.writer.lock.clone();
        self.sink.writer.close()?;
        let removed = lock(&self.shared.claims).remove_rings();
        drop(held);
        // All is in the segments: whoever opens the log next removes the file.
        self.shared
            .tell(&removed.map_err(|error| Error::io("cannot remove the ring file", error).at(&self.shared.path)));
        let waiters = std::mem::take(&mut self.sync_waiters);
        for (_, answer) in waiters {
            let _ = answer.send(Ok(()));
        }
        Ok(())
    }
}
