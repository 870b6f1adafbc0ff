//! What the protocol is made of. `tests/models` has a file of the same name with loom's.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::{Thread, current};

use std::sync::PoisonError;
use std::sync::atomic::compiler_fence;
use std::time::Duration;

use nix::libc;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn park(limit: Duration) {
    std::thread::park_timeout(limit);
}

const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Whether the kernel makes no fences for us: then each side makes its own.
static NEEDS_FENCE: AtomicBool = AtomicBool::new(true);

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: takes numbers only, and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Asks the kernel once whether it makes fences on all threads of the process. To be called before the first ring is used.
pub(crate) fn prepare_fences() {
    let has = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    // ORDERING: SeqCst; a call that has not seen it yet makes its fence for nothing.
    NEEDS_FENCE.store(!has, Ordering::SeqCst);
}

/// The side of the many: see [`Gate`](crate::ring::protocol::Gate).
#[inline]
pub(crate) fn light_fence() {
    // The compiler must not move anything over it; the processor is held by the other side.
    compiler_fence(Ordering::SeqCst);
    // ORDERING: Relaxed; it is set before the first ring is used, and what it guards is never wrong to do.
    if NEEDS_FENCE.load(Ordering::Relaxed) {
        fence(Ordering::SeqCst);
    }
}

/// The side of the few: all other threads of the process pass a fence, too.
pub(crate) fn heavy_fence() {
    fence(Ordering::SeqCst);
    // Should it fail all of a sudden, NEEDS_FENCE was true from the start or this is a kernel that lies.
    let _ = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
