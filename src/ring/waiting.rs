//! How the two sides of a ring wait for each other: asleep until there is something to do, and at the end of a log.

use std::time::Duration;

use crate::ring::primitives::{AtomicBool, Mutex, Ordering, Thread, current, fence, light_fence, lock, park};

/// Where one thread waits for the word of others.
///
/// ```text
/// sleeper   is_asleep = true; fence; ask whether there is need to sleep; park
/// waker     make the change; fence; is_asleep?; unpark
/// ```
/// One of the two sees what the other did before its fence: so nobody sleeps through a change.
#[derive(Debug)]
pub(crate) struct Sleeper {
    is_asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper { is_asleep: AtomicBool::new(false), thread: Mutex::new(None) }
    }

    /// Sleeps until it is woken, or `limit` is over, or for no reason; not at all where `is_over` says that what is waited
    /// for is there.
    pub(crate) fn sleep(&self, limit: Duration, is_over: impl FnOnce() -> bool) {
        *lock(&self.thread) = Some(current());
        // ORDERING: Relaxed; ordered by the fence.
        self.is_asleep.store(true, Ordering::Relaxed);
        // ORDERING: SeqCst: of this store and the waker's change, each followed by a load of the other, one must be seen;
        // acquire and release let both loads pass before the stores. Pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        if !is_over() {
            park(limit);
        }
        // ORDERING: Relaxed; a waker that sees it late wakes once more.
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes who sleeps here, if somebody does.
    #[inline]
    pub(crate) fn wake(&self) {
        // ORDERING: SeqCst, pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed; ordered by the fence.
        if self.is_asleep.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }
}

/// Tells a log that ends whether a call is at work on one ring.
///
/// ```text
/// call     is_busy = true; light fence; is the log closed? ..; push; is_busy = false
/// closer   closed = true; heavy fence; wait until is_busy is false; drain
/// ```
/// The fences pair as in [`Sleeper`]; since calls are many and closes few, the light one costs nothing where the kernel can
/// make the heavy one for both (membarrier).
///
/// It has cache lines of its own (two, which processors fetch together): each call writes it, and the backend reads what else
/// a ring has for each record.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Gate {
    is_busy: AtomicBool,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate { is_busy: AtomicBool::new(false) }
    }

    /// Enters, unless the log is closed. Each entering is followed by a [`leave`](Gate::leave).
    #[inline]
    pub(crate) fn enter(&self, closed: &AtomicBool) -> bool {
        // ORDERING: Relaxed; ordered by the fence.
        self.is_busy.store(true, Ordering::Relaxed);
        light_fence();
        // ORDERING: Acquire, pairs with the Release store of the closer; ordered by the fence.
        let is_open = !closed.load(Ordering::Acquire);
        if !is_open {
            self.leave();
        }
        is_open
    }

    /// Leaves.
    #[inline]
    pub(crate) fn leave(&self) {
        // ORDERING: Release, pairs with the Acquire in `is_busy`: what was pushed is then visible.
        self.is_busy.store(false, Ordering::Release);
    }

    /// Whether a call is at work; asked by who closes, behind [`heavy_fence`](crate::ring::primitives::heavy_fence).
    pub(crate) fn is_busy(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `leave`.
        self.is_busy.load(Ordering::Acquire)
    }
}
