//! What a child that may be killed at any instruction says of itself: words in a file that it shares with its parent.
//!
//! ```text
//! word 0: how far the child is   word 1: whether it is to close
//! then 8 words a stream: [ entries accepted | calls refused | .. ]
//! ```

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapRaw;

use crate::kill_tally::STREAMS_MAX;

/// A stream has a cache line of its own: the threads must not slow each other down.
const WORDS_PER_STREAM: usize = 8;

const WORDS: usize = (1 + STREAMS_MAX) * WORDS_PER_STREAM;

/// How far a child is; 0 before that.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Stage {
    Opening = 1,
    Open = 2,
}

/// The words.
pub(crate) struct Record(MmapRaw);

impl Record {
    /// Maps the file at `path`, and makes it if it is not there.
    pub(crate) fn map(path: &Path) -> Record {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len((WORDS * 8) as u64).unwrap();
        Record(MmapRaw::map_raw(&file).unwrap())
    }

    #[allow(
        unsafe_code,
        reason = "the parent must read what the child wrote last, and a system call would slow it down"
    )]
    fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < WORDS);
        let word = self.0.as_mut_ptr().cast::<u64>().wrapping_add(number);
        // SAFETY: within the mapping, which lives as long as `self` and starts at a page; all access to it is atomic.
        // Assumption: nobody cuts the file, which stands in a directory of this test.
        unsafe { AtomicU64::from_ptr(word) }
    }

    fn of_stream(&self, stream: usize, word: usize) -> &AtomicU64 {
        self.word((1 + stream) * WORDS_PER_STREAM + word)
    }

    /// Makes all words 0, for the next child.
    pub(crate) fn clear(&self) {
        (0..WORDS).for_each(|number| self.word(number).store(0, Ordering::SeqCst));
    }

    pub(crate) fn set_stage(&self, stage: Stage) {
        self.word(0).store(stage as u64, Ordering::SeqCst);
    }

    pub(crate) fn has_reached(&self, stage: Stage) -> bool {
        self.word(0).load(Ordering::SeqCst) >= stage as u64
    }

    /// Asks the child to close its log and to end.
    pub(crate) fn ask_to_close(&self) {
        self.word(1).store(1, Ordering::SeqCst);
    }

    pub(crate) fn is_to_close(&self) -> bool {
        self.word(1).load(Ordering::Relaxed) != 0
    }

    /// How many entries of this stream were accepted. They are numbered from 1 on, so this is also the last one's number.
    pub(crate) fn accepted(&self, stream: usize) -> u64 {
        self.of_stream(stream, 0).load(Ordering::Relaxed)
    }

    /// Notes that a call has returned: the entry is now owed. Only the stream's own thread writes its words.
    pub(crate) fn set_accepted(&self, stream: usize, counter: u64) {
        self.of_stream(stream, 0).store(counter, Ordering::Release);
    }

    pub(crate) fn refused(&self, stream: usize) -> u64 {
        self.of_stream(stream, 1).load(Ordering::Relaxed)
    }

    pub(crate) fn count_refused(&self, stream: usize) {
        self.of_stream(stream, 1).store(self.refused(stream) + 1, Ordering::Release);
    }
}
