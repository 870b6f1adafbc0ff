//! Models of the protocol: loom runs every interleaving of their threads, and every order in which memory may show itself.
//!
//! Each is run as it is, where nothing may be lost, repeated, out of order, or asleep for ever; and with orderings taken away,
//! where it must fail: so it would notice. `./check` runs them:
//! `cargo test --release --manifest-path tests/models/Cargo.toml`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::ring::primitives::{AtomicBool, AtomicU32, AtomicU64, Ordering, Weakened, heavy_fence, weaken};
use crate::ring::protocol::{Consumer, Memory, Producer, Ring};
use crate::ring::waiting::Sleeper;

/// Bytes that the race detector looks at as one.
const CELL_BYTES: usize = 16;

/// A ring for two records.
const CAPACITY: usize = 128;

/// Memory whose every use by both sides at once is found.
#[derive(Debug)]
struct Cells {
    cells: Vec<UnsafeCell<[u8; CELL_BYTES]>>,
    written: AtomicU64,
    read: [AtomicU64; 2],
    refused_tseq: [AtomicU64; 3],
    refused_level: AtomicU32,
}

impl Cells {
    fn new() -> Cells {
        Cells {
            cells: (0..CAPACITY / CELL_BYTES).map(|_| UnsafeCell::new([0; CELL_BYTES])).collect(),
            written: AtomicU64::new(0),
            read: [AtomicU64::new(0), AtomicU64::new(0)],
            refused_tseq: std::array::from_fn(|_| AtomicU64::new(0)),
            refused_level: AtomicU32::new(0),
        }
    }

    fn cells(&self, place: usize, len: usize) -> &[UnsafeCell<[u8; CELL_BYTES]>] {
        &self.cells[place / CELL_BYTES..(place + len) / CELL_BYTES]
    }
}

impl Memory for Cells {
    fn capacity(&self) -> usize {
        CAPACITY
    }

    fn written(&self) -> &AtomicU64 {
        &self.written
    }

    fn read(&self) -> [&AtomicU64; 2] {
        self.read.each_ref()
    }

    fn refused_tseq(&self) -> [&AtomicU64; 3] {
        self.refused_tseq.each_ref()
    }

    fn refused_level(&self) -> &AtomicU32 {
        &self.refused_level
    }

    unsafe fn fill<R>(&self, place: usize, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut bytes = Vec::new();
        for cell in self.cells(place, len) {
            // SAFETY: the caller's word, which loom checks.
            cell.with_mut(|cell| bytes.extend_from_slice(unsafe { &*cell }));
        }
        let result = fill(&mut bytes);
        for (cell, chunk) in self.cells(place, len).iter().zip(bytes.chunks(CELL_BYTES)) {
            // SAFETY: as above.
            cell.with_mut(|cell| unsafe { (*cell).copy_from_slice(chunk) });
        }
        result
    }

    unsafe fn view<R>(&self, place: usize, len: usize, view: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = Vec::new();
        for cell in self.cells(place, len) {
            // SAFETY: as above.
            cell.with(|cell| bytes.extend_from_slice(unsafe { &*cell }));
        }
        view(&bytes)
    }
}

type Model = fn();

/// How often a thread may be interrupted in the middle of a run: loom finds nearly all faults with 2, and a model with many
/// steps has no end without a bound.
const PREEMPTIONS: usize = 2;

/// Runs a model; it holds as it is, and not with any of these taken away.
fn check(model: Model, fails_without: &[Weakened]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    weaken(Weakened::Nothing);
    builder.check(model);
    for &weakened in fails_without {
        weaken(weakened);
        let outcome = catch_unwind(AssertUnwindSafe(|| builder.check(model)));
        weaken(Weakened::Nothing);
        assert!(outcome.is_err(), "the model does not notice that there are no {weakened:?}");
    }
}

fn ring() -> Arc<Ring<Cells>> {
    Arc::new(Ring::new(Cells::new(), 7))
}

/// Pushes the number, if there is room.
fn push(producer: &mut Producer<Cells>, number: u8) -> bool {
    let encode = |out: &mut [u8]| {
        out.fill(number);
        true
    };
    producer.has_room(4) && producer.push(1, 4, 1, || 1, encode)
}

/// Takes the next record of the last look: thread, tseq, number.
fn take(consumer: &mut Consumer<Cells>) -> Option<(u32, u64, u8)> {
    consumer.next_stamp()?;
    let taken = consumer.take(|head, body, _| {
        assert!(body.iter().all(|byte| *byte == body[0]));
        Ok::<_, ()>((head.tid, head.tseq, body[0]))
    });
    taken.and_then(Result::ok)
}

/// Where a thread sleeps that waits for the other one, for however long.
fn sleep(sleeper: &Sleeper, is_over: impl FnOnce() -> bool) {
    sleeper.sleep(Duration::MAX, is_over);
}

/// More records than the ring holds, past its end: publish, wrap, full and parked, drain, sleeping backend.
fn a_ring_between_two_threads() {
    const COUNT: u8 = 3;
    let (ring, bell) = (ring(), Arc::new(Sleeper::new()));
    let mut producer = Producer::new(Arc::clone(&ring), 5, 0);
    let ring_of_producer = Arc::clone(&ring);
    let bell_of_producer = Arc::clone(&bell);
    let other = thread::spawn(move || {
        for number in 1..=COUNT {
            while !push(&mut producer, number) {
                sleep(&ring_of_producer.room, || producer.has_room(4));
            }
            bell_of_producer.wake();
        }
    });
    // On a thread of its own: who joins must not be somebody that others unpark.
    let backend = thread::spawn(move || {
        let mut consumer = Consumer::new(ring);
        let mut taken = 0;
        while taken < COUNT {
            consumer.look();
            if consumer.is_drained() {
                sleep(&bell, || {
                    consumer.look();
                    !consumer.is_drained()
                });
            }
            while let Some((tid, tseq, number)) = take(&mut consumer) {
                taken += 1;
                assert_eq!((tid, tseq, number), (5, u64::from(taken), taken));
            }
            consumer.release();
        }
    });
    other.join().unwrap();
    backend.join().unwrap();
}

/// A thread logs, is refused, and ends; its ring goes to another one, whose numbers are its own.
fn a_ring_of_two_threads_one_after_the_other() {
    let ring = ring();
    let mut first = Producer::new(Arc::clone(&ring), 5, 0);
    let other = thread::spawn(move || {
        assert!(push(&mut first, 1));
        first.refuse(1, 3);
        first.ring().release();
    });
    let mut consumer = Consumer::new(Arc::clone(&ring));
    // One look while it may be at work: what was refused is not seen without what came before.
    consumer.look();
    let early = take(&mut consumer);
    assert!(consumer.refused() == (5, 0) || (early.is_some() && consumer.refused() == (5, 2)));
    let was_released = ring.is_released();
    if !was_released {
        other.join().unwrap();
    }
    assert!(ring.is_released());
    consumer.look();
    let late = take(&mut consumer);
    assert_eq!((early.or(late), early.and(late)), (Some((5, 1, 1)), None));
    assert_eq!(consumer.refused(), (5, 2));
    consumer.release();
    ring.set_taken_back();

    let mut second = Producer::new(Arc::clone(&ring), 6, 0);
    let other = thread::spawn(move || {
        assert!(push(&mut second, 2));
        second.refuse(1, 3);
    });
    consumer.look();
    let early = take(&mut consumer);
    assert!(consumer.refused() == (6, 0) || early.is_some());
    other.join().unwrap();
    consumer.look();
    let late = take(&mut consumer);
    assert_eq!((early.or(late), early.and(late)), (Some((6, 1, 2)), None));
    assert_eq!(consumer.refused(), (6, 2));
}

/// A log is closed while a thread logs: what was accepted is drained, and nobody is left parked.
fn a_log_that_ends_while_a_call_is_at_work() {
    let (ring, closed) = (ring(), Arc::new(AtomicBool::new(false)));
    let mut producer = Producer::new(Arc::clone(&ring), 5, 0);
    let closed_of_call = Arc::clone(&closed);
    let call = thread::spawn(move || {
        if !producer.ring().gate.enter(&closed_of_call) {
            return false;
        }
        let is_pushed = push(&mut producer, 1);
        producer.ring().gate.leave();
        is_pushed
    });
    closed.store(true, Ordering::Release);
    heavy_fence();
    while ring.gate.is_busy() {
        thread::yield_now();
    }
    let mut consumer = Consumer::new(ring);
    consumer.look();
    let is_drained = take(&mut consumer).is_some();
    assert_eq!(call.join().unwrap(), is_drained);
}

/// A thread waits for room in a ring that nobody drains any more, and is told that the log is closed.
fn a_log_that_ends_while_a_call_waits_for_room() {
    let (ring, closed) = (ring(), Arc::new(AtomicBool::new(false)));
    let mut producer = Producer::new(Arc::clone(&ring), 5, 0);
    assert!(push(&mut producer, 1) && push(&mut producer, 2) && !push(&mut producer, 3));
    let closed_of_call = Arc::clone(&closed);
    let call = thread::spawn(move || {
        let room = Arc::clone(producer.ring());
        while !closed_of_call.load(Ordering::Acquire) {
            sleep(&room.room, || closed_of_call.load(Ordering::Acquire) || producer.has_room(4));
        }
    });
    closed.store(true, Ordering::Release);
    ring.room.wake();
    call.join().unwrap();
}

#[test]
fn a_ring_loses_and_repeats_nothing_and_leaves_nobody_asleep() {
    check(a_ring_between_two_threads, &[Weakened::Releases, Weakened::Acquires, Weakened::Fences]);
}

#[test]
fn a_ring_is_given_on_with_all_that_was_in_it() {
    check(a_ring_of_two_threads_one_after_the_other, &[Weakened::Releases, Weakened::Acquires]);
}

#[test]
fn a_log_that_ends_has_what_was_accepted() {
    check(a_log_that_ends_while_a_call_is_at_work, &[Weakened::Releases, Weakened::Acquires, Weakened::Fences]);
}

#[test]
fn a_log_that_ends_wakes_who_waits() {
    check(a_log_that_ends_while_a_call_waits_for_room, &[Weakened::Fences]);
}
