//! The signals that `write` listens to.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// The signals that the command listens to, and a pipe that wakes `poll` when one comes.
pub(crate) struct Signals {
    ends: Arc<AtomicBool>,
    rolls: Arc<AtomicBool>,
    wake: UnixStream,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        let (wake, sender) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (ends, rolls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [(SIGTERM, &ends), (SIGINT, &ends), (SIGHUP, &rolls)] {
            // The flag first: whoever is woken must find it set.
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        // A reached file size limit is an error of the write, not the end of the process.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(Signals { ends, rolls, wake })
    }

    pub(crate) fn is_ending(&self) -> bool {
        // ORDERING: Relaxed; the flag stands for itself.
        self.ends.load(Ordering::Relaxed)
    }

    pub(crate) fn takes_roll(&self) -> bool {
        // ORDERING: Relaxed; the flag stands for itself.
        self.rolls.swap(false, Ordering::Relaxed)
    }

    /// What `poll` waits on for a signal.
    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)
    }

    /// Empties the pipe, so that it wakes for the next signal only.
    pub(crate) fn drain(&self) {
        let mut bytes = [0u8; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(count) if count > 0) {}
    }

    /// Waits for a signal, at most `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let mut fds = [self.poll_fd()];
        let _ = poll(&mut fds, timeout(time));
        self.drain();
    }
}

/// `time` as `poll` takes it.
pub(crate) fn timeout(time: Duration) -> PollTimeout {
    // Rounded up, so that the time has passed when the wait ends.
    PollTimeout::try_from(time.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
}
