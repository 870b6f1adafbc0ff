//! Ring files in another directory that are not to be had: of a log that goes on elsewhere. What they held is unknown, never
//! invented, and they stay as they are.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use logtool::clean_copy::clean_copy;
use logtool::ring_builder;
use logtool::storage_sim::SimStorage;
use logtool::{Fault, Logger, Writer, info, repair};

use crate::harness::temp_dir;
use crate::ring_dir::{copy_of, report, storage, unknown_after};
use crate::rings::{ONE_THREAD, options, verified};

const WAIT: Duration = Duration::from_secs(10);

#[test]
fn a_copy_of_a_log_that_goes_on_leaves_the_rings_to_it_and_its_end_is_unknown() {
    let (dir, rings) = (temp_dir(), temp_dir());
    let log = Logger::builder(dir.path()).ring_dir(rings.path()).open().unwrap();
    (0..10).for_each(|number| info!(logger: log, "{}", number));
    log.flush(WAIT).unwrap();
    let [read, repaired, opened, bare] = std::array::from_fn(|_| copy_of(dir.path()));
    for entry in fs::read_dir(bare.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|of| of == "flog") {
            fs::remove_file(entry).unwrap();
        }
    }
    (10..1000).for_each(|number| info!(logger: log, "{}", number));
    log.flush(WAIT).unwrap();
    // What waits in the rings of the log is none of the copy's.
    info!(logger: log, "pending");
    for (copy, entries) in [(&read, 10), (&bare, 0)] {
        let seen = report(copy.path());
        assert_eq!((seen.entries, &seen.notes.dropped[..]), (entries, &[][..]));
        assert!(seen.findings.iter().any(|finding| finding.fault == Fault::Ring), "{:#?}", seen.findings);
        assert_eq!(unknown_after(&seen), [entries]);
    }
    let clean = temp_dir();
    clean_copy(&storage(read.path()), &storage(clean.path()), &ONE_THREAD, &|_| {}).unwrap();
    repair::repair(&storage(repaired.path()), &ONE_THREAD, &|_| {}).unwrap();
    drop(Writer::open(opened.path(), options()).unwrap());
    for copy in [&clean, &repaired, &opened] {
        let seen = report(copy.path());
        assert_eq!((seen.entries, &seen.notes.dropped[..]), (10, &[][..]));
        assert!(!seen.is_sound(true));
    }
    assert_eq!(fs::read_dir(rings.path()).unwrap().count(), 1);
    log.close(WAIT).unwrap();
    let whole = report(dir.path());
    assert_eq!((whole.entries, whole.is_sound(true)), (1001, true));
}

#[test]
fn the_pointer_of_a_closed_log_is_nothing_however_long_its_paths_are() {
    let path = |letter: &str, len: usize| PathBuf::from(format!("/{}", letter.repeat(len)));
    // Two long ones stand where a ring file tells how many sections it has.
    for len in [20, 750, 800, 900] {
        let disk = SimStorage::new();
        let (mut writer, file) = ring_builder::open(disk.shared(), options()).unwrap();
        writer.close().unwrap();
        let (pointer, _) = file.pointer(&path("d", len), &path("h", len)).unwrap();
        disk.put(&file.name(), &pointer);
        let report = verified(&disk);
        assert!(report.is_sound(true), "{len}: {:#?}", report.findings);
    }
}
