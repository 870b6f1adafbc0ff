//! What each logging thread has of its own: its number, and a buffer that its entries are encoded in.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A buffer that has grown beyond this is not kept.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The number of this thread in the process, from 1 on in the order of their first entries.
pub(crate) fn thread_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let known = NUMBER.get();
    if known > 0 {
        return known;
    }
    let number = NEXT.fetch_add(1, Relaxed);
    NUMBER.set(number);
    number
}

/// An empty buffer: the thread's own, or a fresh one where that is in use (a Display that logs) or gone (a thread that ends).
pub(crate) fn take_buffer() -> Vec<u8> {
    let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
    buffer.clear();
    buffer
}

/// Keeps a buffer for the thread's next entry.
pub(crate) fn give_back_buffer(buffer: Vec<u8>) {
    if buffer.capacity() <= BUFFER_BYTES_KEPT {
        // Gone with the thread: nothing to keep it for.
        let _ = BUFFER.try_with(|kept| kept.set(buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_number_of_its_own() {
        let here = thread_id();
        assert_eq!(thread_id(), here);
        assert_ne!(std::thread::spawn(thread_id).join().unwrap(), here);
    }

    #[test]
    fn a_buffer_is_kept_and_a_nested_one_is_fresh() {
        let mut outer = take_buffer();
        outer.extend_from_slice(b"in use");
        let place = outer.as_ptr();
        assert_eq!(take_buffer().capacity(), 0);
        give_back_buffer(outer);
        let again = take_buffer();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        give_back_buffer(Vec::with_capacity(BUFFER_BYTES_KEPT + 1));
        assert_eq!(take_buffer().capacity(), 0);
    }
}
