//! What the backend tells of itself.

use super::*;

#[test]
fn what_was_done_and_what_waits_is_counted() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder.when_full(WhenFull::Drop));
    (0..5).for_each(|number| log(&INFO, &logger, number).unwrap());
    logger.sync(LONG).unwrap();
    let before = logger.metrics();
    assert_eq!((before.entries, before.last_seq, before.flushed_seq, before.synced_seq), (5, 5, 5, 5));
    assert_eq!((before.rings, before.ring_bytes, before.ring_fill_bytes), (2, 2 * RING_BYTES_MIN as u64, 0));
    assert_eq!((before.oldest_unwritten, before.segments_created), (Duration::ZERO, 1));
    assert!(before.writes.count > 0 && before.syncs.count > 0 && before.bytes > 0);

    std::thread::sleep(Duration::from_millis(50));
    let full_since = Instant::now();
    logger.flush(LONG).unwrap();
    storage.set_capacity(Some(storage.used()));
    let accepted = (5..).take_while(|&number| log(&INFO, &logger, number).is_ok()).count() as u64;
    wait_for("the failure is known", || logger.metrics().write_failures > 0);
    assert_eq!(log(&INFO, &logger, 0), Err(Refused::NoSpace));
    let full = logger.metrics();
    assert_eq!((full.refused.total(), full.refused.no_space > 0), (2, true));
    assert_eq!((full.entries, full.flushed_seq), (5, 5));
    assert!(full.ring_fill_bytes > RING_BYTES_MIN as u64 / 2, "{full:?}");
    assert!(full.ring_fill_bytes_high >= full.ring_fill_bytes && full.oldest_unwritten > Duration::ZERO, "{full:?}");
    assert!(full.oldest_unwritten <= full_since.elapsed(), "{full:?}");
    // It goes on to wait.
    wait_for("time passes", || logger.metrics().oldest_unwritten > full.oldest_unwritten);

    storage.set_capacity(None);
    logger.flush(LONG).unwrap();
    let after = logger.metrics();
    assert_eq!((after.entries, after.dropped.ring_full, after.ring_fill_bytes), (5 + accepted, 2, 0));
    assert_eq!((after.ring_fill_bytes_low, after.oldest_unwritten), (0, Duration::ZERO));
    assert!(after.last_failure.is_some() && after.ring_fill_bytes_high >= full.ring_fill_bytes);
}

#[test]
fn water_is_looked_at_too_where_nothing_can_be_taken() {
    let storage = SimStorage::new();
    // With a batch of one entry the next one is refused by the writer, not only by the disk.
    let options = Options::new().batch_bytes(1).preallocate_bytes(0);
    let logger = open(&storage, |builder| builder.options(options).when_full(WhenFull::Drop));
    fill_disk(&logger, &storage);
    log(&INFO, &logger, 1).unwrap();
    wait_for("a round that fails", || logger.metrics().write_failures > 1);
    while log(&INFO, &logger, 2).is_ok() {}
    let ring_bytes = RING_BYTES_MIN as u64;
    wait_for("a look at the full ring", || logger.metrics().fullest_ring_bytes_high > ring_bytes / 2);
}

#[test]
fn failed_syncs_are_errors_and_syncs_by_the_thread_are_timed() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder.sync_interval(Duration::from_millis(1)));
    log(&INFO, &logger, 1).unwrap();
    wait_for("a sync", || logger.metrics().synced_seq == 1);
    let before = logger.metrics();
    assert!(before.syncs.count > 0 && before.syncs.longest > Duration::ZERO, "{before:?}");
    storage.fail(Some(Call::Sync), 0, u64::MAX, Fault::Error(std::io::ErrorKind::Other));
    log(&INFO, &logger, 2).unwrap();
    assert!(logger.sync(LONG).is_err());
    logger.flush(LONG).unwrap_or_default();
    let metrics = logger.metrics();
    assert!(metrics.sync_failures > 0 && metrics.syncs.count > before.syncs.count, "{metrics:?}");
    assert_eq!(metrics.synced_seq, 1);
}
