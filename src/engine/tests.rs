//! Rings and backend: nothing lost, nothing twice, order kept, whoever waits and whatever fails. What survives a kill is shown
//! by the kill test.

mod floors;
mod metrics;
mod refused;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;
use crate::builder::LoggerBuilder;
use crate::capture::{Plain, keep::*};
use crate::finding::NoteKind;
use crate::log::Log;
use crate::log::testing::{ERROR, INFO, LONG, log, read, read_unsound, wait_for};
use crate::logger::Logger;
use crate::options::RING_BYTES_MIN;
use crate::reader::LogReader;
use crate::site::Origin;
use crate::snapshot::Snapshot;
use crate::storage_sim::{Call, Fault, SimStorage};
use crate::value::Value;
use crate::walk::Item;

static TEXT: Site = Site::new(Level::Info, Origin::Name("net"), "a.rs", 3, "{}", &[""], 1);

/// A log of small rings in memory: they are full at once, and wrap all the time.
fn open(storage: &SimStorage, set: impl FnOnce(LoggerBuilder) -> LoggerBuilder) -> Logger {
    let rings = RingOptions { ring_bytes: RING_BYTES_MIN, in_memory: true, ..RingOptions::default() };
    set(Logger::builder("/sim").rings(rings).when_full(WhenFull::Block)).open_on(storage.shared()).unwrap()
}

fn rings_max(builder: LoggerBuilder, rings_max: usize) -> LoggerBuilder {
    let rings = RingOptions {
        ring_bytes: RING_BYTES_MIN,
        in_memory: true,
        rings_max,
        when_full: WhenFull::Block,
        ..RingOptions::default()
    };
    builder.rings(rings)
}

/// Leaves the disk no room, behind an entry that is written.
fn fill_disk(logger: &Logger, storage: &SimStorage) {
    log(&INFO, logger, 0).unwrap();
    logger.flush(LONG).unwrap();
    storage.set_capacity(Some(storage.used()));
}

/// Runs `work` on a thread of its own, which has no ring where there is just one and another thread has logged.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Logs `count` numbers from each of `threads` threads, and finds each thread's in the log, in order.
fn check_threads(logger: &Logger, storage: &SimStorage, threads: u64, count: u64) {
    let barrier = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                (0..count).for_each(|number| log(&INFO, logger, thread << 32 | number).unwrap());
                barrier.wait();
            });
        }
    });
    logger.flush(LONG).unwrap();
    let (numbers, dropped) = read(storage);
    assert_eq!((numbers.len() as u64, dropped), (threads * count, 0));
    for thread in 0..threads {
        let of_thread: Vec<u64> = numbers.iter().copied().filter(|number| number >> 32 == thread).collect();
        assert_eq!(of_thread, (0..count).map(|number| thread << 32 | number).collect::<Vec<_>>());
    }
}

/// The texts that were logged, and how many entries the log tells to be dropped; it is sound.
fn read_texts(storage: &SimStorage) -> (Vec<String>, u64) {
    let mut reader = LogReader::new(Snapshot::take(storage.shared()).unwrap());
    let (mut texts, mut dropped) = (Vec::new(), 0);
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(entry) => match entry.values().next() {
                Some(Value::Str(text)) => texts.push(text.to_owned()),
                other => panic!("{other:?}"),
            },
            Item::Finding(finding) => panic!("{finding:?}"),
            Item::Note(note) => {
                if let NoteKind::Dropped { marker, .. } = &note.kind {
                    dropped += marker.count;
                }
            }
        }
    }
    (texts, dropped)
}

fn engine(logger: &Logger) -> &Shared {
    match logger.log_for_tests() {
        Log::Engine(engine) => &engine.0,
        Log::Synchronous(_) => panic!("not of the engine"),
    }
}

#[test]
fn all_that_threads_log_is_there_once_in_the_order_of_each() {
    let storage = SimStorage::new();
    check_threads(&open(&storage, |builder| builder), &storage, 8, 5000);
}

#[test]
fn more_threads_than_rings_share_one() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| rings_max(builder, 2));
    check_threads(&logger, &storage, 12, 500);
    assert_eq!(lock(&engine(&logger).claims).all.len(), 3);
}

#[test]
fn rings_of_threads_that_have_ended_are_given_to_others() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| rings_max(builder, 4));
    for round in 0..500 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let logger = &logger;
                scope.spawn(move || log(&INFO, logger, round * 4 + thread).unwrap());
            }
        });
    }
    logger.flush(LONG).unwrap();
    assert!(lock(&engine(&logger).claims).all.len() <= 5);
    let (mut numbers, _) = read(&storage);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
}

#[test]
fn what_happened_before_stands_before() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (logger, next) = (&logger, &next);
            scope.spawn(move || {
                for turn in (thread..2000).step_by(2) {
                    while next.load(SeqCst) != turn {
                        std::thread::yield_now();
                    }
                    log(&INFO, logger, turn as u64).unwrap();
                    next.store(turn + 1, SeqCst);
                }
            });
        }
    });
    logger.flush(LONG).unwrap();
    assert_eq!(read(&storage).0, (0..2000).collect::<Vec<_>>());
}

#[test]
fn what_finds_no_room_is_dropped_and_counted_in_the_log() {
    for when_full in [WhenFull::Drop, WhenFull::Wait(Duration::from_millis(5))] {
        let storage = SimStorage::new();
        let logger = open(&storage, |builder| builder.when_full(when_full));
        log(&INFO, &logger, 0).unwrap();
        logger.flush(LONG).unwrap();
        storage.set_capacity(Some(0));
        log(&INFO, &logger, 1).unwrap();
        wait_for("full", || logger.stats().writer.write_failures > 0);
        let results: Vec<_> = (2..300).map(|number| log(&INFO, &logger, number)).collect();
        let refused = results.iter().filter(|result| result.is_err()).count() as u64;
        assert!(refused > 100 && results.contains(&Err(Refused::NoSpace)), "{refused} refused by {when_full:?}");
        storage.set_capacity(None);
        // Told though nothing more is logged, and once.
        logger.flush(LONG).unwrap();
        let (numbers, dropped) = read(&storage);
        assert_eq!((numbers.len() as u64, dropped), (300 - refused, refused));
        assert_eq!(logger.stats().refused, refused);
        log(&INFO, &logger, 300).unwrap();
        logger.close(LONG).unwrap();
        let (numbers, dropped) = read(&storage);
        assert!(numbers.is_sorted() && numbers.last() == Some(&300) && dropped == refused);
    }
}

#[test]
fn a_caller_that_waits_for_room_goes_on_when_there_is_some() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    storage.set_capacity(Some(storage.used()));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (0..1000).for_each(|number| log(&INFO, &logger, number).unwrap()));
        wait_for("full", || logger.stats().writer.write_failures > 3);
        assert!(!waiting.is_finished());
        storage.set_capacity(None);
    });
    logger.close(LONG).unwrap();
    assert_eq!(read(&storage).0, (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_log_that_is_closed_while_threads_log_has_all_that_was_accepted() {
    for round in 0..30 {
        let storage = SimStorage::new();
        let logger = open(&storage, |builder| if round % 2 == 0 { builder } else { rings_max(builder, 1) });
        let accepted: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let logger = &logger;
                    scope.spawn(move || {
                        let numbers = (0..1 << 32).map(|number| thread << 32 | number);
                        numbers.take_while(|&number| log(&INFO, logger, number) == Ok(())).collect::<Vec<_>>()
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_micros(200 * round));
            logger.close(LONG).unwrap();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let (mut numbers, dropped) = read(&storage);
        numbers.sort_unstable();
        assert!((numbers, dropped) == (accepted, 0), "round {round}");
        assert_eq!(log(&INFO, &logger, 1), Err(Refused::Closed));
        assert_eq!(logger.flush(LONG).unwrap_err().kind(), ErrorKind::Closed);
        assert!(logger.close(LONG).is_ok());
    }
}

#[test]
fn a_close_that_fails_leaves_the_log_open() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    log(&INFO, &logger, 1).unwrap();
    storage.set_capacity(Some(storage.used()));
    assert_eq!(logger.close(LONG).unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(log(&INFO, &logger, 2), Ok(()));
    storage.set_capacity(None);
    logger.close(LONG).unwrap();
    assert_eq!(read(&storage).0, [1, 2]);
}

#[test]
fn the_last_handle_closes_the_log() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    log(&INFO, &logger, 1).unwrap();
    let other = logger.clone();
    drop(logger);
    log(&INFO, &other, 2).unwrap();
    drop(other);
    assert!(crate::state::read_state(&*storage.shared()).unwrap().unwrap().is_closed);
    assert_eq!(read(&storage).0, [1, 2]);
}

#[test]
fn calls_of_a_level_return_when_their_entries_survive_a_power_cut() {
    let storage = SimStorage::new();
    let hour = Duration::from_secs(3600);
    let logger = open(&storage, |builder| builder.sync_interval(hour).sync_at(Level::Error));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let logger = &logger;
            scope.spawn(move || (0..10).for_each(|number| log(&ERROR, logger, thread * 100 + number).unwrap()));
        }
    });
    let survived = read_unsound(&storage.power_cut(1)).0;
    assert_eq!(survived.len(), 40);
    // They share syncs.
    assert!(logger.stats().writer.syncs.count < 60, "{:?}", logger.stats().writer.syncs);
    log(&INFO, &logger, 1000).unwrap();
    logger.sync(LONG).unwrap();
    assert_eq!(read_unsound(&storage.power_cut(2)).0.len(), 41);
    // One failed sync is made up for; a disk that syncs no more is not.
    storage.fail(Some(Call::Sync), 0, 1, Fault::Error(std::io::ErrorKind::Other));
    assert_eq!(log(&ERROR, &logger, 1001), Ok(()));
    storage.fail(Some(Call::Sync), 0, u64::MAX, Fault::Error(std::io::ErrorKind::Other));
    assert_eq!(log(&ERROR, &logger, 1002), Err(Refused::Io));
}

#[test]
fn an_entry_that_no_ring_holds_is_whole_and_in_its_place() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| rings_max(builder, 1));
    let texts: Vec<String> = (0..40).map(|number| format!("{number:04}").repeat(1 + number * number % 1500)).collect();
    let log_all = || {
        for text in &texts {
            TEXT.try_log_to(&logger, &((&&&Plain(text)).show(), ())).unwrap();
        }
    };
    // By a ring of its own, and by the common one.
    log_all();
    elsewhere(log_all);
    logger.close(LONG).unwrap();
    let (found, _) = read_texts(&storage);
    assert!(found.iter().eq(texts.iter().chain(&texts)));
}

#[test]
fn long_entries_of_threads_that_share_a_ring_leave_no_trace_of_refused_ones() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| rings_max(builder, 1));
    let text = |thread: usize, number: usize| format!("{thread} {number:04}").repeat([1, 1, 1, 1000][number % 4]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let logger = &logger;
            scope.spawn(move || {
                for number in 0..100 {
                    TEXT.try_log_to(logger, &((&&&Plain(&text(thread, number))).show(), ())).unwrap();
                }
            });
        }
    });
    logger.close(LONG).unwrap();
    let (found, dropped) = read_texts(&storage);
    assert_eq!((found.len(), dropped), (400, 0));
    for thread in 0..4 {
        let of_thread = found.iter().filter(|found| found.starts_with(&format!("{thread} ")));
        assert!(of_thread.cloned().eq((0..100).map(|number| text(thread, number))));
    }
}

#[test]
fn a_callback_may_log_while_its_own_ring_is_full() {
    let storage = SimStorage::new();
    let place: Arc<Mutex<Option<Logger>>> = Arc::default();
    let in_callback = Arc::clone(&place);
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let logger = open(&storage, |builder| {
        builder.sync_at(Level::Error).on_error(move |_| {
            let logger = in_callback.lock().unwrap().clone().unwrap();
            // More than its ring holds, and some of a level that is synced: it can wait for neither.
            (0..200).for_each(|number| {
                let _ = log(if number % 50 == 0 { &ERROR } else { &INFO }, &logger, 1000 + number);
            });
            count.fetch_add(1, SeqCst);
        })
    });
    *place.lock().unwrap() = Some(logger.clone());
    storage.fail(Some(Call::Write), 0, 1, Fault::Error(std::io::ErrorKind::Other));
    log(&INFO, &logger, 1).unwrap();
    wait_for("told", || told.load(SeqCst) > 0);
    logger.close(LONG).unwrap();
    let (numbers, dropped) = read(&storage);
    assert!(numbers.len() as u64 + dropped == 201 && dropped > 0, "{} and {dropped}", numbers.len());
    place.lock().unwrap().take();
}

#[test]
fn a_backend_that_panics_hangs_nobody() {
    fn broken() -> i64 {
        assert!(std::thread::current().name() != Some("logtool") || !IS_BROKEN.load(SeqCst), "a broken clock");
        0
    }
    static IS_BROKEN: AtomicBool = AtomicBool::new(false);
    let storage = SimStorage::new();
    let options = Options::default().clock(broken).sync(SyncPolicy::Interval(Duration::from_millis(1)));
    let logger = open(&storage, |builder| builder.options(options));
    IS_BROKEN.store(true, SeqCst);
    // Until the backend has come to ask for the time.
    while log(&INFO, &logger, 1) == Ok(()) {}
    assert_eq!(log(&INFO, &logger, 1), Err(Refused::Closed));
    assert_eq!(logger.flush(LONG).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_forked_process_leaves_the_log_alone() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    log(&INFO, &logger, 1).unwrap();
    logger.flush(LONG).unwrap();
    let shared = engine(&logger);
    // Threads of the parent may have held them.
    let _held = (lock(&shared.claims), lock(&shared.common), lock(&shared.requests));
    shared.fork.wipe();
    assert_eq!(log(&INFO, &logger, 2), Err(Refused::Closed));
    assert_eq!(logger.flush(LONG).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(logger.close(LONG).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(logger.stats(), LoggerStats::default());
}
