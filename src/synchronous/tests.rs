//! A synchronous log on a disk that fails or is full, and its deadlines.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::builder::LoggerBuilder;
use crate::levels::Levels;
use crate::log::Log;
use crate::log::testing::{ERROR, INFO, LONG, log, read, wait_for};
use crate::logger::Logger;
use crate::options::{Options, SyncPolicy};
use crate::state::read_state;
use crate::storage_sim::{Call, Fault, SimStorage};

fn open(storage: &SimStorage, set: impl FnOnce(LoggerBuilder) -> LoggerBuilder) -> Logger {
    set(Logger::builder("/sim").synchronous()).open_on(storage.shared()).unwrap()
}

#[test]
fn each_call_has_written_when_it_returns() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    for number in 0..5 {
        assert_eq!(log(&INFO, &logger, number), Ok(()));
        assert_eq!(read(&storage).0.last(), Some(&number));
    }
}

#[test]
fn all_that_threads_log_is_there_in_the_order_of_each() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let logger = &logger;
            scope.spawn(move || (0..200).for_each(|number| log(&INFO, logger, thread * 1000 + number).unwrap()));
        }
    });
    let (numbers, _) = read(&storage);
    for thread in 0..4 {
        let of_thread: Vec<u64> = numbers.iter().copied().filter(|number| number / 1000 == thread).collect();
        assert_eq!(of_thread, (0..200).map(|number| thread * 1000 + number).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_disk_is_told_once_and_every_entry_is_there_or_counted() {
    let storage = SimStorage::new();
    let told = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&told);
    // A batch of one entry: once one waits, the next one is refused.
    let options = Options::new().batch_bytes(1).preallocate_bytes(0);
    let logger = open(&storage, |builder| {
        builder.options(options).on_error(move |error| {
            assert_eq!(error.kind(), ErrorKind::NoSpace);
            counter.fetch_add(1, Relaxed);
        })
    });
    assert_eq!(log(&INFO, &logger, 0), Ok(()));
    storage.set_capacity(Some(0));
    for number in 1..=5 {
        assert_eq!(log(&INFO, &logger, number), Err(Refused::NoSpace));
    }
    assert_eq!(told.load(Relaxed), 1);
    assert_eq!(logger.flush(LONG).unwrap_err().kind(), ErrorKind::NoSpace);
    storage.set_capacity(None);
    assert_eq!(log(&INFO, &logger, 6), Ok(()));
    assert_eq!(logger.stats().refused, 5);
    // The first one waited, and was written when there was room.
    assert_eq!(read(&storage), (vec![0, 1, 6], 4));
    storage.set_capacity(Some(0));
    assert_eq!(log(&INFO, &logger, 7), Err(Refused::NoSpace));
    assert_eq!(told.load(Relaxed), 2);
}

#[test]
fn whatever_write_fails_each_entry_is_there_or_counted() {
    // Writes fail, some succeed, and one fails again.
    let gaps = |skip| (1..8).flat_map(move |times| (0..4).map(move |gap| (skip, times, gap)));
    let policies = [SyncPolicy::Interval(Duration::from_secs(1)), SyncPolicy::EachEntry];
    for ((skip, times, gap), sync) in (0..4).flat_map(gaps).flat_map(|case| policies.map(|policy| (case, policy))) {
        let storage = SimStorage::new();
        let options = Options::new().batch_bytes(1).preallocate_bytes(0).sync(sync);
        let logger = open(&storage, |builder| builder.options(options));
        let full = Fault::Error(std::io::ErrorKind::StorageFull);
        let call = if sync == SyncPolicy::EachEntry { Call::Sync } else { Call::Write };
        storage.fail(Some(call), skip, times, full);
        storage.fail(Some(Call::Write), skip + times + gap, 1, full);
        let accepted: Vec<u64> = (0..12).filter(|&number| log(&INFO, &logger, number).is_ok()).collect();
        storage.heal();
        logger.close(LONG).unwrap();
        let (numbers, dropped) = read(&storage);
        let case = format!("skip {skip}, times {times}, gap {gap}, {sync:?}: {numbers:?}, {dropped} dropped");
        assert_eq!(numbers.len() as u64 + dropped, 12, "{case}");
        assert!(numbers.is_sorted_by(|one, next| one < next), "{case}");
        assert!(accepted.iter().all(|number| numbers.contains(number)), "{case}");
        assert!(accepted.len() as u64 >= 4, "{case}");
    }
}

#[test]
fn a_callback_may_log() {
    let storage = SimStorage::new();
    let place: Arc<Mutex<Option<Logger>>> = Arc::default();
    let in_callback = Arc::clone(&place);
    let logger = open(&storage, |builder| {
        builder.on_error(move |_| {
            let logger = in_callback.lock().unwrap().clone();
            assert_eq!(log(&ERROR, &logger.unwrap(), 100), Ok(()));
        })
    });
    *place.lock().unwrap() = Some(logger.clone());
    storage.fail(Some(Call::Write), 0, 1, Fault::Error(std::io::ErrorKind::Other));
    assert_eq!(log(&INFO, &logger, 1), Err(Refused::Io));
    assert_eq!(read(&storage).0, [1, 100]);
    place.lock().unwrap().take();
}

#[test]
fn a_callback_that_panics_stops_neither_the_call_nor_the_thread() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder.on_error(|_| panic!("in the callback")));
    storage.fail(Some(Call::Write), 0, 1, Fault::Error(std::io::ErrorKind::Other));
    assert_eq!(log(&INFO, &logger, 1), Err(Refused::Io));
    assert_eq!(log(&INFO, &logger, 2), Ok(()));
    logger.flush(LONG).unwrap();
    assert_eq!(read(&storage).0, [1, 2]);
}

#[test]
fn a_forked_process_leaves_the_log_alone() {
    let storage = SimStorage::new();
    let writer = Writer::open_on(storage.shared(), Options::new()).unwrap();
    let mut log = Synchronous::start(writer, PathBuf::from("/sim"), Floor::new(&Levels::new(), None), None).unwrap();
    log.owner += 1;
    let calls = storage.calls();
    // A thread of the parent may have held it.
    let shared = Arc::clone(&log.shared);
    let _held = shared.place();
    assert_eq!(log.append(&INFO, 0, &[]), Err(Refused::Closed));
    assert_eq!(log.flush(LONG).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(log.close(LONG).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(log.stats(), LoggerStats::default());
    assert_eq!(storage.calls(), calls);
}

#[test]
fn a_deadline_holds_while_the_log_is_busy() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    let Log::Synchronous(log_of) = logger.log_for_tests() else { panic!("not synchronous") };
    let busy = log_of.shared.place();
    let start = Instant::now();
    for error in [
        logger.flush(Duration::from_millis(20)).unwrap_err(),
        logger.sync(Duration::from_millis(20)).unwrap_err(),
        logger.close(Duration::from_millis(20)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    assert!(start.elapsed() < LONG);
    drop(busy);
    // What was asked for is done later.
    wait_for("closed in the background", || log(&INFO, &logger, 1) == Err(Refused::Closed));
}

#[test]
fn what_was_logged_is_synced_though_nothing_more_is_logged() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder.sync_interval(Duration::from_millis(20)));
    for number in 1..4 {
        log(&INFO, &logger, number).unwrap();
        wait_for("synced", || logger.stats().writer.synced_seq == number);
    }
}

#[test]
fn levels_that_are_synced_at_once_are_when_the_call_returns() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder.sync_interval(Duration::from_secs(3600)).sync_at(Level::Error));
    log(&INFO, &logger, 1).unwrap();
    wait_for("the first flush begins a sync", || logger.stats().writer.synced_seq == 1 || logger.sync(LONG).is_ok());
    log(&INFO, &logger, 2).unwrap();
    assert!(logger.stats().writer.synced_seq < 2);
    log(&ERROR, &logger, 3).unwrap();
    assert_eq!(logger.stats().writer.synced_seq, 3);
}

#[test]
fn the_last_handle_closes_the_log() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder.drop_wait(LONG));
    log(&INFO, &logger, 1).unwrap();
    let clone = logger.clone();
    drop(logger);
    let is_closed = || read_state(&*storage.shared()).unwrap().unwrap().is_closed;
    assert!(!is_closed());
    drop(clone);
    assert!(is_closed());
}

#[test]
fn closing_twice_gives_the_same_and_calls_after_it_are_refused() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder);
    log(&INFO, &logger, 1).unwrap();
    let stats = logger.close(LONG).unwrap();
    assert_eq!((stats.writer.entries, stats.refused), (1, 0));
    assert_eq!(stats.to_string().split(',').next(), Some("1 entries"));
    assert_eq!(logger.close(LONG).unwrap().writer, stats.writer);
    assert_eq!(log(&INFO, &logger, 2), Err(Refused::Closed));
    assert_eq!(logger.flush(LONG).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(read(&storage).0, [1]);
}

#[test]
fn figures_tell_what_waits_since_when_and_what_was_refused() {
    let storage = SimStorage::new();
    let options = Options::new().batch_bytes(1).preallocate_bytes(0);
    let logger = open(&storage, |builder| builder.options(options));
    log(&INFO, &logger, 1).unwrap();
    let before = logger.metrics();
    assert_eq!((before.entries, before.flushed_seq, before.rings, before.ring_bytes), (1, 1, 0, 0));
    assert_eq!((before.pending_bytes, before.oldest_unwritten), (0, Duration::ZERO));
    assert!(before.writes.count > 0 && before.writes.longest <= before.writes.total);
    storage.set_capacity(Some(0));
    // One waits, the others are refused.
    for number in 2..5 {
        assert_eq!(log(&INFO, &logger, number), Err(Refused::NoSpace));
    }
    let full = logger.metrics();
    assert_eq!((full.refused.no_space, full.refused.total(), full.entries, full.last_seq), (3, 3, 1, 2));
    assert!(full.write_failures > 0 && full.pending_bytes > 0);
    std::thread::sleep(Duration::from_millis(5));
    assert!(logger.metrics().oldest_unwritten >= Duration::from_millis(5));
    storage.set_capacity(None);
    logger.close(LONG).unwrap();
    let after = logger.metrics();
    assert_eq!((after.entries, after.dropped.disk_full, after.oldest_unwritten), (2, 2, Duration::ZERO));
    // Behind its end nothing is lost that was to be kept.
    assert_eq!(log(&INFO, &logger, 6), Err(Refused::Closed));
    assert_eq!(logger.metrics().refused.total(), 3);
}
