//! The ring that threads without one of their own share.

use std::path::Path;
use std::time::Duration;

use logtool::{Item, LogReader, Logger, LoggerBuilder, RingOptions, Snapshot, VerifyOptions, info, repair, verify};

use crate::faulty_storage::{Faulty, fill};
use crate::harness::temp_dir;

const WAIT: Duration = Duration::from_secs(20);

/// The names of the threads of all entries, and how many entries each has.
fn named(dir: &Path) -> Vec<(Option<String>, usize)> {
    let mut reader = LogReader::open(dir).unwrap();
    let mut names = std::collections::BTreeMap::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            *names.entry(entry.thread.map(str::to_owned)).or_insert(0) += 1;
        }
    }
    names.into_iter().collect()
}

fn one_ring(dir: &Path) -> LoggerBuilder {
    Logger::builder(dir).rings(RingOptions { rings_max: 1, ..RingOptions::default() })
}

/// Two entries of each of so many threads, whose only ring is taken by the first.
fn log_by_threads(log: &Logger, count: usize) {
    info!(logger: log, "first");
    let together = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        for number in 0..count {
            let together = &together;
            let work = move || {
                info!(logger: log, "one");
                together.wait();
                info!(logger: log, "two");
            };
            std::thread::Builder::new().name(format!("sharer-{number}")).spawn_scoped(scope, work).unwrap();
        }
    });
}

fn expected(count: usize) -> Vec<(Option<String>, usize)> {
    let here = std::thread::current().name().map(str::to_owned);
    let sharers = (0..count).map(|number| (Some(format!("sharer-{number}")), 2));
    let mut all: Vec<_> = std::iter::once((here, 1)).chain(sharers).collect();
    all.sort();
    all
}

#[test]
fn threads_that_share_a_ring_are_shown_by_their_names() {
    let dir = temp_dir();
    let log = one_ring(dir.path()).open().unwrap();
    log_by_threads(&log, 5);
    log.close(WAIT).unwrap();
    assert_eq!(named(dir.path()), expected(5));
}

#[test]
fn threads_that_shared_a_ring_have_their_names_after_a_kill() {
    let (dir, killed) = (temp_dir(), temp_dir());
    let (storage, faults) = Faulty::over(dir.path());
    let log = one_ring(dir.path()).open_on(storage).unwrap();
    // So that the backend leaves all in the rings: but for a section of names there is no room.
    info!(logger: log, "defined");
    log.flush(WAIT).unwrap();
    std::thread::scope(|scope| {
        let name_first = || info!(logger: log, "section");
        std::thread::Builder::new().name("early".into()).spawn_scoped(scope, name_first).unwrap();
    });
    log.flush(WAIT).unwrap();
    fill(dir.path(), &faults, 0);
    log_by_threads(&log, 5);
    for entry in std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(entry.path(), killed.path().join(entry.file_name())).unwrap();
    }
    let mut all = expected(5);
    all.iter_mut().filter(|(name, _)| !name.as_ref().unwrap().starts_with("sharer")).for_each(|(_, count)| *count = 2);
    all.push((Some("early".to_owned()), 1));
    all.sort();
    assert_eq!(named(killed.path()), all);
    let storage: std::sync::Arc<dyn logtool::storage::Storage> =
        std::sync::Arc::new(logtool::storage_os::OsStorage::new(killed.path(), 0o640));
    repair::repair(&storage, &VerifyOptions { threads: 1 }, &|_| {}).unwrap();
    assert_eq!(named(killed.path()), all);
    assert!(verify(&Snapshot::take(storage).unwrap(), &VerifyOptions { threads: 1 }, &|_| {}).is_sound(true));
}
