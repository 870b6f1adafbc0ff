//! Signals that ask a command to end: told through a descriptor that poll(2) can wait for, so that what is under way is
//! brought to an end first.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// How long a command may take to end. It may hang in a write that nobody reads; then it is ended as it is.
const END_WITHIN: Duration = Duration::from_secs(1);

/// SIGTERM, SIGINT and SIGHUP from now on.
#[derive(Debug)]
pub(crate) struct Stop {
    signal: Arc<AtomicI32>,
    told: UnixStream,
}

impl Stop {
    /// Takes the signals over from the system.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new() -> io::Result<Stop> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let (told, mut teller) = UnixStream::pair()?;
        told.set_nonblocking(true)?;
        let signal = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&signal);
        thread::spawn(move || {
            if let Some(number) = signals.forever().next() {
                // ORDERING: Release, read by Acquire in `signal`: who sees the byte below sees the number.
                seen.store(number, Ordering::Release);
                let _ = teller.write_all(&[1]);
                thread::sleep(END_WITHIN);
                let _ = emulate_default_handler(number);
            }
        });
        Ok(Stop { signal, told })
    }

    /// The signal that has come, if one has.
    pub(crate) fn signal(&self) -> Option<i32> {
        // ORDERING: Acquire, of the Release in the thread that waits for signals.
        Some(self.signal.load(Ordering::Acquire)).filter(|&number| number != 0)
    }

    /// Can be read once a signal has come.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }

    /// Ends the process by the signal that has come, as if it had never been taken over. Returns if none has.
    pub(crate) fn end(&self) {
        let _ = (&self.told).read(&mut [0]);
        if let Some(number) = self.signal() {
            let _ = emulate_default_handler(number);
        }
    }
}
