//! What the log tells of refused calls: how many, of what level, and whose where that is known.

use super::*;

/// Count, thread and level of each drop marker.
fn markers(storage: &SimStorage) -> Vec<(u64, u32, u8)> {
    let mut reader = LogReader::new(Snapshot::take(storage.kill().shared()).unwrap());
    let mut all = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Note(note) = item
            && let NoteKind::Dropped { marker, .. } = &note.kind
        {
            all.push((marker.count, marker.tid, marker.level));
        }
    }
    all
}

#[test]
fn a_marker_tells_the_highest_level_of_its_calls() {
    let storage = SimStorage::new();
    let logger = open(&storage, |builder| builder.when_full(WhenFull::Drop));
    fill_disk(&logger, &storage);
    while log(&ERROR, &logger, 1).is_ok() {}
    // The marker comes behind what was accepted before, which has none.
    storage.set_capacity(None);
    logger.flush(LONG).unwrap();
    assert_eq!(markers(&storage).iter().map(|(count, _, level)| (*count, *level)).collect::<Vec<_>>(), [(1, 5)]);
}

#[test]
fn an_entry_that_is_handed_over_in_vain_is_told_also_of_a_thread_without_a_ring() {
    for rings in [4, 1] {
        let storage = SimStorage::new();
        let logger = open(&storage, |builder| rings_max(builder, rings));
        log(&INFO, &logger, 0).unwrap();
        logger.flush(LONG).unwrap();
        let text = "x".repeat(5000);
        let outcome = elsewhere(|| {
            log(&INFO, &logger, 1).unwrap();
            storage.set_capacity(Some(storage.used()));
            TEXT.try_log_to(&logger, &((&&&Plain(&text.as_str())).show(), ()))
        });
        assert_eq!(outcome, Err(Refused::NoSpace));
        storage.set_capacity(None);
        logger.flush(LONG).unwrap();
        let told: u64 = markers(&storage).iter().map(|(count, ..)| count).sum();
        assert_eq!((told, logger.stats().refused), (1, 1), "{rings} rings");
    }
}

#[test]
fn calls_that_threads_without_a_ring_were_refused_are_put_down_to_nobody_else() {
    for _ in 0..10 {
        let storage = SimStorage::new();
        let logger =
            open(&storage, |builder| rings_max(builder, 1).level(Level::Trace).keep_under_pressure(Level::Error));
        fill_disk(&logger, &storage);
        let refused = elsewhere(|| {
            while log(&INFO, &logger, 1).is_ok() {}
            crate::thread::thread_id()
        });
        elsewhere(|| log(&ERROR, &logger, 2).unwrap());
        storage.set_capacity(None);
        logger.flush(LONG).unwrap();
        let found = markers(&storage);
        assert!(
            !found.is_empty() && found.iter().all(|(_, tid, _)| [0, refused].contains(tid)),
            "{refused}: {found:?}"
        );
    }
}
