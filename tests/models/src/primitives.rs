//! What the protocol is made of, in models: loom's, and what can be taken away from it.

pub(crate) use loom::sync::atomic::Ordering;
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use loom::thread::{Thread, current};

use std::cell::Cell;
use std::time::Duration;

use loom::sync::atomic;

/// What is left out, to show that a model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakened {
    Nothing,
    /// Stores order nothing before them.
    Releases,
    /// Loads order nothing behind them.
    Acquires,
    /// There are no fences.
    Fences,
}

thread_local! {
    // A model runs on one thread of the system, whatever threads it has.
    static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::Nothing) };
}

/// Has all models of this thread run so.
pub(crate) fn weaken(what: Weakened) {
    WEAKENED.set(what);
}

fn in_force(ordering: Ordering) -> Ordering {
    match (WEAKENED.get(), ordering) {
        (Weakened::Releases, Ordering::Release) | (Weakened::Acquires, Ordering::Acquire) => Ordering::Relaxed,
        _ => ordering,
    }
}

macro_rules! atomics {
    ($($name:ident: $value:ty;)*) => {
        $(
            #[derive(Debug)]
            pub(crate) struct $name(atomic::$name);

            impl $name {
                pub(crate) fn new(value: $value) -> $name {
                    $name(atomic::$name::new(value))
                }

                pub(crate) fn load(&self, ordering: Ordering) -> $value {
                    self.0.load(in_force(ordering))
                }

                pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                    self.0.store(value, in_force(ordering));
                }
            }
        )*
    };
}

atomics! { AtomicBool: bool; AtomicU32: u32; AtomicU64: u64; }

impl AtomicU32 {
    pub(crate) fn fetch_max(&self, value: u32, ordering: Ordering) -> u32 {
        self.0.fetch_max(value, ordering)
    }

    pub(crate) fn swap(&self, value: u32, ordering: Ordering) -> u32 {
        self.0.swap(value, ordering)
    }
}

pub(crate) fn fence(ordering: Ordering) {
    if WEAKENED.get() != Weakened::Fences {
        atomic::fence(ordering);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// Time does not pass in a model: whoever is not woken sleeps for ever.
pub(crate) fn park(_: Duration) {
    loom::thread::park();
}

pub(crate) fn light_fence() {
    fence(Ordering::SeqCst);
}

pub(crate) fn heavy_fence() {
    fence(Ordering::SeqCst);
}
