//! What becomes of a log in a forked process: it belongs to the parent, and the child must neither write it nor keep it locked.
//!
//! A lock of an open file description lasts until the last copy of the descriptor is closed: a child that lives on would keep
//! the log of its killed parent locked. So each child puts something else in the place of these descriptors, right after the
//! fork; that it can't unlock them instead is since the lock is the parent's, too.

use std::io;
use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use nix::libc;

use crate::ring::file::PAGE_BYTES;

/// Locks that a process may hold at a time and that its children let go. Those beyond are kept by children that do not exec.
const LOCKS_MAX: usize = 256;

const NONE: RawFd = -1;

/// Descriptors of files that this process holds locked.
static LOCKS: [AtomicI32; LOCKS_MAX] = [const { AtomicI32::new(NONE) }; LOCKS_MAX];

/// Has children that are forked from now on let go of the descriptor, which holds a lock.
pub(crate) fn let_go_in_children(fd: RawFd) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler makes system calls only, and reads atomics. If there is no memory to register it, a child keeps
        // the locks, as without it.
        unsafe { libc::pthread_atfork(None, None, Some(let_go)) };
    });
    // ORDERING: Relaxed; a fork on another thread that comes before is before the lock, too.
    LOCKS.iter().any(|place| place.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok());
}

/// The descriptor holds no lock any more.
pub(crate) fn keep_in_children(fd: RawFd) {
    // ORDERING: Relaxed; as above.
    LOCKS.iter().any(|place| place.compare_exchange(fd, NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok());
}

/// In the child, where no other thread is: puts `/dev/null` in the place of each descriptor. They are not closed, since whoever
/// has them in the child would later close another file of that number.
extern "C" fn let_go() {
    // SAFETY: opens a path that ends in a zero; the call is safe after a fork.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for place in &LOCKS {
        // ORDERING: Relaxed; the only thread.
        let fd = place.swap(NONE, Ordering::Relaxed);
        if fd != NONE && null != NONE {
            // SAFETY: takes numbers only; `fd` is a copy of the parent's, which nothing in this process uses: the log is inert.
            unsafe { libc::dup3(null, fd, libc::O_CLOEXEC) };
        }
    }
    if null != NONE {
        // SAFETY: opened above, and nobody else's.
        unsafe { libc::close(null) };
    }
}

/// A word that a forked process finds to be 0: its copy of this process's rings is not for it to use.
#[derive(Debug)]
pub(crate) struct ForkWord {
    map: MmapRaw,
}

impl ForkWord {
    /// A word that says that this is the process.
    pub(crate) fn new() -> io::Result<ForkWord> {
        let map = MmapRaw::from(MmapOptions::new().len(PAGE_BYTES).map_anon()?);
        // SAFETY: the mapping is whole, private and anonymous, as this advice needs, and nothing else uses it yet.
        let advised = unsafe { libc::madvise(map.as_mut_ptr().cast(), map.len(), libc::MADV_WIPEONFORK) };
        if advised != 0 {
            return Err(io::Error::last_os_error());
        }
        let word = ForkWord { map };
        // ORDERING: Relaxed; no other thread has it yet.
        word.word().store(1, Ordering::Relaxed);
        Ok(word)
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is a page, aligned, and lives as long as `self`; the word is used as an atomic only.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().cast::<u32>()) }
    }

    /// Makes it as a forked process finds it.
    #[cfg(test)]
    pub(crate) fn wipe(&self) {
        // ORDERING: Relaxed; as in `is_forked`.
        self.word().store(0, Ordering::Relaxed);
    }

    /// Whether this is a copy in a forked process.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        // ORDERING: Relaxed; a fork is no other thread.
        self.word().load(Ordering::Relaxed) == 0
    }
}
