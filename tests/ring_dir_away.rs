//! Ring files in another directory that are not to be had: of a log that goes on elsewhere, or because that directory is not there.
//! What they held is unknown, never invented, and they stay as they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logtool::clean_copy::clean_copy;
use logtool::ring_builder;
use logtool::storage_sim::SimStorage;
use logtool::{ErrorKind, Fault, Logger, Snapshot, Writer, info, repair};

use crate::harness::temp_dir;
use crate::ring_dir::{Killed, copy_of, killed, report, storage, unknown_after};
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

/// Contents by name, but for the lock, in which each process that has had it puts its id.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let of_log = files.filter(|path| path.extension().is_none_or(|of| of != "lock"));
    of_log.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

#[test]
fn a_log_whose_rings_stand_in_a_directory_that_is_not_there_is_read_and_not_changed() {
    let Killed { log, rings, path } = killed();
    let (dir, before) = (log.path(), contents(log.path()));
    let (unmounted, copy) = (rings.path().with_extension("away"), temp_dir());
    fs::rename(rings.path(), &unmounted).unwrap();
    assert_eq!(unknown_after(&report(dir)), [0]);
    let refused = [
        Writer::open(dir, options()).map(drop),
        Logger::builder(dir).open().map(drop),
        Logger::builder(dir).ring_dir(rings.path()).open().map(drop),
        repair::repair(&storage(dir), &ONE_THREAD, &|_| {}).map(drop),
        repair::plan(&Snapshot::take(storage(dir)).unwrap(), &ONE_THREAD, &|_| {}).map(drop),
        clean_copy(&storage(dir), &storage(copy.path()), &ONE_THREAD, &|_| {}).map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Invalid, Some(&*dir.join("00000001.ring"))));
        let text = error.to_string();
        assert!(text.contains(rings.path().to_str().unwrap()) && text.contains("remove 00000001.ring"), "{text}");
    }
    assert!(contents(dir) == before, "the log was changed");
    assert!(!rings.path().exists(), "a directory stands in the way of the mount");
    fs::rename(&unmounted, rings.path()).unwrap();
    let log = Logger::builder(dir).ring_dir(rings.path()).open().unwrap();
    assert!(!path.exists());
    log.close(WAIT).unwrap();
    assert_eq!((report(dir).entries, report(dir).is_sound(true)), (3, true));
}

#[test]
fn entries_of_a_directory_that_is_not_there_can_be_given_up() {
    let Killed { log, rings, .. } = killed();
    let unmounted = rings.path().with_extension("away");
    fs::rename(rings.path(), &unmounted).unwrap();
    fs::remove_file(log.path().join("00000001.ring")).unwrap();
    drop(Writer::open(log.path(), options()).unwrap());
    assert!(!report(log.path()).is_sound(false));
    fs::rename(&unmounted, rings.path()).unwrap();
}
