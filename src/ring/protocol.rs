//! The protocol of one ring, between the thread that owns it (producer) and the backend (consumer):
//!
//! ```text
//! producer   write the record behind `written`      consumer   load `written` (acquire)
//!            store `written` (release)                         copy the records before it, write them to the segment
//!                                                              store `read` (release)
//!            load `read` (acquire) only where what it knew of it leaves no room
//! ```
//! So neither touches what is the other's: records between `read` and `written` are the consumer's to read, the rest is the
//! producer's to write. Positions never go back. Who has to wait sleeps in a [`Sleeper`], on both sides; a log that ends waits
//! at the [`Gate`] for the call at work.
//!
//! `tests/models` has this file too, over loom.

use std::sync::Arc;

use crate::ring::file::{level_of_word, refused_level_word};
use crate::ring::primitives::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::ring::record::{
    RECORD_BODY_BYTES_MAX, RECORD_HEAD_BYTES, Record, RecordHead, body_of, finish_record, record_bytes, write_skip,
};
use crate::ring::waiting::{Gate, Sleeper};

/// Memory of one ring. Only its [`Producer`] and its [`Consumer`] use it.
pub(crate) trait Memory {
    /// Bytes of data, a power of two.
    fn capacity(&self) -> usize;
    /// End of what is published.
    fn written(&self) -> &AtomicU64;
    /// Start of what is not in a segment yet; both words say the same, but while they are changed.
    fn read(&self) -> [&AtomicU64; 2];
    /// The last tseq that a refused call has used up; 0 for none. All words say the same, but while they are changed.
    fn refused_tseq(&self) -> [&AtomicU64; 3];
    /// Highest level of refused calls, as [`refused_level_word`] gives it.
    fn refused_level(&self) -> &AtomicU32;

    /// Has `fill` write `len` bytes from `place` on.
    ///
    /// # Safety
    /// Only for the producer, of bytes that the consumer does not read: none between its `read` and `written`.
    unsafe fn fill<R>(&self, place: usize, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R;

    /// Has `view` read `len` bytes from `place` on.
    ///
    /// # Safety
    /// Only for the consumer, of bytes between `read` and the `written` that it has loaded.
    unsafe fn view<R>(&self, place: usize, len: usize, view: impl FnOnce(&[u8]) -> R) -> R;
}

/// A ring, and what its two sides share besides its memory.
#[derive(Debug)]
pub(crate) struct Ring<M> {
    memory: M,
    run_id: u64,
    /// Where the producer waits for room.
    pub(crate) room: Sleeper,
    /// The thread whose ring it is; 0 for none, and for the one that all share.
    tid: AtomicU32,
    /// Its owner has ended; it may be given to another thread once it is drained.
    is_released: AtomicBool,
    /// The log is closed: nothing comes out any more.
    is_abandoned: AtomicBool,
    pub(crate) gate: Gate,
}

impl<M: Memory> Ring<M> {
    pub(crate) fn new(memory: M, run_id: u64) -> Ring<M> {
        Ring {
            memory,
            run_id,
            room: Sleeper::new(),
            tid: AtomicU32::new(0),
            is_released: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            gate: Gate::new(),
        }
    }

    /// The memory, for what is no part of the protocol.
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// Bytes of data.
    pub(crate) fn capacity(&self) -> u64 {
        self.memory.capacity() as u64
    }

    /// Longest body that a record may have: two such records fit at once, so that neither waits for the other for ever.
    #[inline]
    pub(crate) fn body_bytes_max(&self) -> usize {
        (self.memory.capacity() / 2 - RECORD_HEAD_BYTES).min(RECORD_BODY_BYTES_MAX)
    }

    #[inline]
    fn mask(&self) -> u64 {
        self.memory.capacity() as u64 - 1
    }

    /// Gives it up, by its owner: nothing is pushed any more.
    pub(crate) fn release(&self) {
        // ORDERING: Release, pairs with the Acquire in `is_released`: what was pushed is then visible.
        self.is_released.store(true, Ordering::Release);
    }

    /// Whether its owner has given it up.
    pub(crate) fn is_released(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `release`.
        self.is_released.load(Ordering::Acquire)
    }

    /// Takes note that nobody owns it, and that this was seen to.
    pub(crate) fn set_taken_back(&self) {
        // ORDERING: Relaxed; only the backend asks.
        self.is_released.store(false, Ordering::Relaxed);
    }

    /// Takes note that nobody drains it any more.
    pub(crate) fn abandon(&self) {
        // ORDERING: Relaxed; it only spares memory.
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    /// Whether nobody drains it any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        // ORDERING: Relaxed; as above.
        self.is_abandoned.load(Ordering::Relaxed)
    }

    /// The thread whose ring it is.
    pub(crate) fn tid(&self) -> u32 {
        // ORDERING: Acquire, pairs with the Release in `Producer::new`; whoever gives rings to threads holds a lock besides.
        self.tid.load(Ordering::Acquire)
    }

    /// Takes the highest level of the refused calls so far.
    pub(crate) fn take_refused_level(&self) -> u8 {
        // ORDERING: Relaxed; a level that comes late counts for the next marker.
        level_of_word(self.memory.refused_level().swap(0, Ordering::Relaxed))
    }

    /// Bytes that wait to be written, about.
    pub(crate) fn fill(&self) -> u64 {
        // ORDERING: Relaxed; a figure for people.
        let read = self.memory.read()[0].load(Ordering::Relaxed);
        self.memory.written().load(Ordering::Relaxed).saturating_sub(read)
    }
}

/// The side that a thread logs into.
#[derive(Debug)]
pub(crate) struct Producer<M: Memory> {
    ring: Arc<Ring<M>>,
    tid: u32,
    /// End of what it has written.
    written: u64,
    /// `read` as it was when last looked at.
    read_known: u64,
    /// The last one used.
    tseq: u64,
    /// Once `written` is past this, the ring may be more than half full.
    look_at: u64,
}

impl<M: Memory> Producer<M> {
    /// The producer of a ring that nobody else writes: of `tid`, whose entries are numbered from `tseq` + 1 on.
    pub(crate) fn new(ring: Arc<Ring<M>>, tid: u32, tseq: u64) -> Producer<M> {
        // ORDERING: Relaxed for all; whoever hands out rings does so under a lock, and they are drained.
        let written = ring.memory.written().load(Ordering::Relaxed);
        let read_known = ring.memory.read()[0].load(Ordering::Relaxed);
        ring.memory.refused_tseq().iter().for_each(|copy| copy.store(0, Ordering::Relaxed));
        ring.memory.refused_level().store(0, Ordering::Relaxed);
        ring.is_released.store(false, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire in `Ring::tid`.
        ring.tid.store(tid, Ordering::Release);
        let look_at = read_known + ring.capacity() / 2;
        Producer { ring, tid, written, read_known, tseq, look_at }
    }

    #[inline]
    pub(crate) fn ring(&self) -> &Arc<Ring<M>> {
        &self.ring
    }

    /// The thread that the next records are of, where several share the ring.
    pub(crate) fn set_tid(&mut self, tid: u32) {
        self.tid = tid;
    }

    /// Whether a record with so long a body fits now.
    #[inline]
    pub(crate) fn has_room(&mut self, body_len: usize) -> bool {
        let capacity = self.ring.memory.capacity() as u64;
        let needed = self.needed(body_len);
        if self.written + needed - self.read_known <= capacity {
            return true;
        }
        // ORDERING: Acquire, pairs with the Release in `Consumer::release`: the consumer is done with what is behind it.
        self.read_known = self.ring.memory.read()[0].load(Ordering::Acquire);
        self.written + needed - self.read_known <= capacity
    }

    /// Bytes of a record with so long a body, and of the skip before it.
    #[inline]
    fn needed(&self, body_len: usize) -> u64 {
        let record = record_bytes(body_len);
        let to_end = self.ring.memory.capacity() - (self.written & self.ring.mask()) as usize;
        (if record > to_end { record + to_end } else { record }) as u64
    }

    /// Pushes a record for whose body there is room: `encode` writes all of the body, or says that it can't. Then nothing is
    /// pushed. `parts`: how many tseqs the entry uses up.
    ///
    /// There must be room for it: ask [`has_room`](Producer::has_room) first.
    #[inline]
    pub(crate) fn push(
        &mut self,
        site: u32,
        body_len: usize,
        parts: u64,
        stamp: impl FnOnce() -> u64,
        encode: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let (place, record) = (self.begin(body_len), record_bytes(body_len));
        // SAFETY: this is the producer, and `has_room` has found the bytes from `written` on to be free.
        let is_whole = unsafe { self.ring.memory.fill(place, record, |bytes| encode(body_of(bytes, body_len))) };
        if is_whole {
            self.publish(place, body_len, stamp(), site);
            self.tseq += parts;
        }
        is_whole
    }

    /// Where the next record goes.
    #[inline]
    fn begin(&mut self, body_len: usize) -> usize {
        debug_assert!(self.has_room(body_len));
        let place = (self.written & self.ring.mask()) as usize;
        if record_bytes(body_len) <= self.ring.memory.capacity() - place {
            return place;
        }
        self.skip_to_end(place);
        0
    }

    /// Completes the record at `place`, whose body is there, and publishes it. Out of line: a call site has enough of its own.
    #[inline(never)]
    fn publish(&mut self, place: usize, body_len: usize, stamp: u64, site: u32) {
        let head = RecordHead { stamp, tseq: self.tseq + 1, tid: self.tid, site };
        let (record, run_id, written) = (record_bytes(body_len), self.ring.run_id, self.written);
        let fill = |bytes: &mut [u8]| finish_record(bytes, body_len, &head, run_id, written);
        // SAFETY: as in `push`.
        unsafe { self.ring.memory.fill(place, record, fill) };
        self.written += record as u64;
        // ORDERING: Release, pairs with the Acquire in `Consumer::look`: the record is then visible.
        self.ring.memory.written().store(self.written, Ordering::Release);
    }

    #[cold]
    fn skip_to_end(&mut self, place: usize) {
        let len = self.ring.memory.capacity() - place;
        let (run_id, written) = (self.ring.run_id, self.written);
        // SAFETY: as in `push`; `needed` has counted it.
        unsafe { self.ring.memory.fill(place, len, |bytes| write_skip(bytes, run_id, written)) };
        self.written += len as u64;
    }

    /// Uses up `parts` tseqs for an entry of this level that was not accepted.
    pub(crate) fn refuse(&mut self, parts: u64, level: u8) {
        self.tseq += parts;
        // ORDERING: Relaxed; it comes with the store below.
        self.ring.memory.refused_level().fetch_max(refused_level_word(level), Ordering::Relaxed);
        let [first, others @ ..] = self.ring.memory.refused_tseq();
        // ORDERING: Relaxed; read after the process's death only.
        others.iter().for_each(|copy| copy.store(self.tseq, Ordering::Relaxed));
        // ORDERING: Release, pairs with the Acquire in `Consumer::look`: what was pushed before is then visible.
        first.store(self.tseq, Ordering::Release);
    }

    /// Uses up `parts` tseqs for an entry that goes another way; returns the first.
    pub(crate) fn take_tseqs(&mut self, parts: u64) -> u64 {
        self.tseq += parts;
        self.tseq - parts + 1
    }

    /// Whether it is time to ask [`is_half_full`](Producer::is_half_full).
    #[inline]
    pub(crate) fn seems_half_full(&self) -> bool {
        self.written > self.look_at
    }

    /// Whether more than half of the ring waits.
    pub(crate) fn is_half_full(&mut self) -> bool {
        let half = self.ring.capacity() / 2;
        // ORDERING: Acquire, as in `has_room`.
        self.read_known = self.ring.memory.read()[0].load(Ordering::Acquire);
        self.look_at = self.read_known + half;
        self.seems_half_full()
    }

    /// The backend was woken: it looks itself before it sleeps, so that it need not be woken again for a while.
    pub(crate) fn look_later(&mut self) {
        self.look_at = self.written + self.ring.capacity() / 16;
    }
}

/// The side that the backend drains.
#[derive(Debug)]
pub(crate) struct Consumer<M: Memory> {
    ring: Arc<Ring<M>>,
    /// Start of what was not taken yet.
    taken: u64,
    /// `written` as it was at the last look.
    end: u64,
    /// The last refused tseq at the last look, of the thread `owner`.
    refused_tseq: u64,
    owner: u32,
    /// The record at `taken`, once that was looked at: its head, and the length of its body.
    next: Option<(RecordHead, usize)>,
    /// Records that make no sense were passed over.
    damaged_bytes: u64,
}

impl<M: Memory> Consumer<M> {
    /// The consumer of a ring that has no other one.
    pub(crate) fn new(ring: Arc<Ring<M>>) -> Consumer<M> {
        // ORDERING: Relaxed; only the consumer changes it.
        let taken = ring.memory.read()[0].load(Ordering::Relaxed);
        Consumer { ring, taken, end: taken, refused_tseq: 0, owner: 0, next: None, damaged_bytes: 0 }
    }

    pub(crate) fn ring(&self) -> &Arc<Ring<M>> {
        &self.ring
    }

    /// Looks how far the producer has come. The refused calls first: what was pushed before them is then seen, too.
    pub(crate) fn look(&mut self) {
        let owner = self.ring.tid();
        // ORDERING: Acquire, pairs with the Release in `Producer::refuse`.
        let refused_tseq = self.ring.memory.refused_tseq()[0].load(Ordering::Acquire);
        // It may have got another owner meanwhile, who starts from 0.
        let is_same = self.ring.tid() == owner;
        (self.owner, self.refused_tseq) = (owner, if is_same { refused_tseq } else { 0 });
        // ORDERING: Acquire, pairs with the Release in `Producer::push`.
        self.end = self.ring.memory.written().load(Ordering::Acquire);
    }

    /// The owner and the last tseq that was refused to it, as of the last look.
    pub(crate) fn refused(&self) -> (u32, u64) {
        (self.owner, self.refused_tseq)
    }

    /// Whether all of the last look was taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.taken == self.end
    }

    /// Bytes of the last look that were not taken.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.end - self.taken
    }

    /// The stamp of the next record.
    #[inline]
    pub(crate) fn next_stamp(&mut self) -> Option<u64> {
        if self.next.is_none() && self.taken != self.end {
            self.find_next();
        }
        self.next.map(|(head, _)| head.stamp)
    }

    /// Takes apart the head of the next record.
    #[inline]
    fn find_next(&mut self) {
        while self.taken != self.end {
            let place = (self.taken & self.ring.mask()) as usize;
            let to_end = self.ring.memory.capacity() - place;
            let len = usize::try_from(self.end - self.taken).map_or(to_end, |waiting| waiting.min(to_end));
            let parse = |bytes: &[u8]| match Record::parse(bytes) {
                Some((Record::Entry { head, body }, _)) => Ok((head, body.len())),
                // A skip is told by its length, which is that of all up to the end.
                Some((Record::Skip, len)) => Err(Some(len)),
                None => Err(None),
            };
            // SAFETY: this is the consumer, and all up to `end` was published when it looked.
            match unsafe { self.ring.memory.view(place, len, parse) } {
                Ok(next) => {
                    self.next = Some(next);
                    return;
                }
                Err(Some(len)) => self.taken += len as u64,
                Err(None) => self.pass_over_damage(),
            }
        }
    }

    /// Gives the next record to `take`, behind a [`next_stamp`](Consumer::next_stamp) that found one; it counts as taken if
    /// that returns `Ok`.
    #[inline]
    pub(crate) fn take<T, E>(
        &mut self,
        take: impl FnOnce(&RecordHead, &[u8], &Ring<M>) -> Result<T, E>,
    ) -> Option<Result<T, E>> {
        let (head, body_len) = self.next?;
        let (place, record) = ((self.taken & self.ring.mask()) as usize, record_bytes(body_len));
        let take = |bytes: &[u8]| take(&head, &bytes[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + body_len], &self.ring);
        // SAFETY: as in `find_next`, which has found the record to be before `end`.
        let result = unsafe { self.ring.memory.view(place, record, take) };
        if result.is_ok() {
            self.taken += record as u64;
            self.next = None;
        }
        Some(result)
    }

    /// Somebody has written into the mapping: nothing says where the next record starts.
    #[cold]
    fn pass_over_damage(&mut self) {
        self.damaged_bytes += self.end - self.taken;
        self.taken = self.end;
    }

    /// Bytes that were passed over because somebody else had written there.
    pub(crate) fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// Start of what was not taken yet.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Gives back the room of all that was taken: it stands in a segment.
    pub(crate) fn release(&mut self) {
        self.release_upto(self.taken);
    }

    /// Gives back the room of what was taken up to this position.
    pub(crate) fn release_upto(&mut self, position: u64) {
        let [first, second] = self.ring.memory.read();
        // ORDERING: Relaxed; only this side changes it.
        if first.load(Ordering::Relaxed) == position {
            return;
        }
        // ORDERING: Release, pairs with the Acquire in `Producer::has_room`: this side is done with what stands there.
        first.store(position, Ordering::Release);
        // ORDERING: Relaxed; read after the process's death only.
        second.store(position, Ordering::Relaxed);
        self.ring.room.wake();
    }
}
