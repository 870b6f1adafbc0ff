//! Waiting for several followers at once, and for what should end the waiting, by one poll(2).

use std::os::fd::BorrowedFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{Error, Result};
use crate::follow::Follower;

/// A descriptor that ends a [`wait`].
#[derive(Clone, Copy, Debug)]
pub enum StopFd<'a> {
    /// Once it can be read: the pipe of a signal handler, an eventfd.
    Readable(BorrowedFd<'a>),
    /// Once nobody is at its other end: standard output.
    Closed(BorrowedFd<'a>),
}

/// Why a [`wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A follower may have something.
    Look,
    /// The stop descriptor with this number is ready.
    Stop(usize),
    /// The time is up.
    Deadline,
}

/// Waits until one of `followers` may have something, one of `stops` is ready, or the time `until` has come. To be called
/// when all of them have answered `None`; a stop goes before everything else.
///
/// # Errors
/// What poll(2) says.
pub fn wait(followers: &mut [&mut Follower], stops: &[StopFd<'_>], until: Option<Instant>) -> Result<Woken> {
    let failed = |errno: Errno| Error::io("cannot wait for the log", errno.into());
    loop {
        let now = Instant::now();
        let look_at = followers.iter().map(|follower| follower.wake.look_at()).min();
        let first = [look_at, until].into_iter().flatten().min();
        let timeout = first.map_or(PollTimeout::NONE, |first| poll_timeout(now, first));
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(stops.len() + followers.len());
        fds.extend(stops.iter().map(|stop| match stop {
            StopFd::Readable(fd) => PollFd::new(*fd, PollFlags::POLLIN),
            StopFd::Closed(fd) => PollFd::new(*fd, PollFlags::empty()),
        }));
        let mut waits = Vec::with_capacity(followers.len());
        for (number, follower) in followers.iter().enumerate() {
            if let Some(fd) = follower.wake.fd() {
                waits.push(number);
                fds.push(PollFd::new(fd, PollFlags::POLLIN));
            }
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        let (stopped, events) = ready.split_at(stops.len());
        if let Some(stop) = stopped.iter().position(|&ready| ready) {
            return Ok(Woken::Stop(stop));
        }
        let mut look = false;
        for (&number, _) in waits.iter().zip(events).filter(|&(_, &ready)| ready) {
            followers[number].wake.collect();
            look = true;
        }
        let now = Instant::now();
        for follower in followers.iter_mut().filter(|follower| follower.wake.look_at() <= now) {
            follower.wake.tick(now);
            look = true;
        }
        if look {
            return Ok(Woken::Look);
        }
        if until.is_some_and(|until| until <= now) {
            return Ok(Woken::Deadline);
        }
    }
}

/// The time from `now` to `until` in the units of poll(2), rounded up; at most a minute.
fn poll_timeout(now: Instant, until: Instant) -> PollTimeout {
    let wait = until.saturating_duration_since(now);
    let ms = wait.as_micros().div_ceil(1000).min(60_000) as u16;
    PollTimeout::from(ms)
}
