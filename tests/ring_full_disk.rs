//! Rings on a full disk: what can't be made, and what becomes of calls that need it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logtool::{
    ErrorKind, Item, LogReader, Logger, Options, RingOptions, Snapshot, VerifyOptions, info, ring_builder, try_info,
    verify,
};

use crate::faulty_storage::{Faulty, fill};
use crate::harness::temp_dir;

const WAIT: Duration = Duration::from_secs(20);

/// One call site each, with a definition of more than 2 KiB.
macro_rules! log_at_many_sites {
    ($log:expr; $($number:literal)*) => {
        [$(try_info!(
            logger: $log,
            number = $number;
            "................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................\
             ................................................................................................................................"
        )),*]
    };
}

/// Logs "before", then at sites that are new, 48 or 80, while files can't grow by more than `room` bytes. Each entry is there.
#[track_caller]
fn assert_none_is_lost(room: u64, is_long: bool) {
    let dir = temp_dir();
    let (storage, faults) = Faulty::over(dir.path());
    let log = Logger::builder(dir.path()).open_on(storage).unwrap();
    info!(logger: log, "before");
    log.flush(WAIT).unwrap();
    fill(dir.path(), &faults, room);
    let mut outcomes = log_at_many_sites!(log;
         1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
        25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48
    )
    .to_vec();
    if is_long {
        outcomes.extend(log_at_many_sites!(log;
            49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80
        ));
    }
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    faults.is_full.store(false, Ordering::Relaxed);
    assert_eq!(log.close(WAIT).unwrap().refused, 0);
    let mut reader = LogReader::open(dir.path()).unwrap();
    let mut numbers = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item
            && entry.site.unwrap().template.starts_with("....")
        {
            numbers.push(format!("{:?}", entry.values().last().unwrap()));
        }
    }
    assert_eq!(numbers, (1..=outcomes.len()).map(|number| format!("I32({number})")).collect::<Vec<_>>());
}

#[test]
fn definitions_of_new_call_sites_have_room_in_reserve_when_the_disk_is_full() {
    assert_none_is_lost(0, false);
}

#[test]
fn call_sites_for_whose_definitions_the_rings_have_no_room_are_defined_in_the_segment() {
    // Room for the entries in the segment, which has the sites once as they are all the same there, but for no section.
    assert_none_is_lost(40 << 10, true);
}

/// A log of some segments that was closed.
fn closed_log() -> tempfile::TempDir {
    let dir = temp_dir();
    let log = Logger::builder(dir.path()).roll_bytes(4096).open().unwrap();
    (0..400).for_each(|number| info!(logger: log, "entry {number} {}", "of a log that was closed".repeat(20)));
    log.close(WAIT).unwrap();
    dir
}

fn names(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn is_sound(dir: &std::path::Path) -> bool {
    let storage = std::sync::Arc::new(logtool::storage_os::OsStorage::new(dir, 0o640));
    verify(&Snapshot::take(storage).unwrap(), &VerifyOptions { threads: 1 }, &|_| {}).is_sound(false)
}

#[test]
fn a_log_without_room_for_rings_is_not_opened_and_left_as_it_is() {
    let dir = closed_log();
    let before = names(dir.path());
    // Room for nothing, for the head of the ring file, for the definitions, for all but the segment.
    let rings = RingOptions { ring_bytes: 64 << 10, ..RingOptions::default() };
    for room in [0, 5 << 10, 100 << 10, (4096 + 3 * (4096 + (64 << 10)) + 100) as u64] {
        let (storage, faults) = Faulty::over(dir.path());
        fill(dir.path(), &faults, room);
        let error = Logger::builder(dir.path()).rings(rings.clone()).open_on(storage).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.to_string().contains(dir.path().to_str().unwrap()), "{error}");
        assert_eq!(names(dir.path()), before, "with room for {room} bytes");
        assert!(is_sound(dir.path()));
    }
}

#[test]
fn the_oldest_segments_give_way_for_rings_where_that_was_asked_for() {
    let dir = closed_log();
    let before = names(dir.path()).len();
    let (storage, faults) = Faulty::over(dir.path());
    fill(dir.path(), &faults, 190 << 10);
    let rings = RingOptions { ring_bytes: 64 << 10, ..RingOptions::default() };
    let options = Options::new().makes_room(true);
    let log = Logger::builder(dir.path()).options(options).rings(rings).open_on(storage).unwrap();
    assert!(names(dir.path()).len() < before);
    info!(logger: log, "there is room");
    faults.is_full.store(false, Ordering::Relaxed);
    log.close(WAIT).unwrap();
    assert!(is_sound(dir.path()));
}

#[test]
fn rings_elsewhere_that_can_not_be_made_cost_no_segment() {
    let (dir, elsewhere) = (closed_log(), temp_dir());
    let before = names(dir.path());
    let (storage, faults) = Faulty::over(dir.path());
    fill(dir.path(), &faults, 0);
    let builder = Logger::builder(dir.path()).options(Options::new().makes_room(true)).ring_dir(elsewhere.path());
    let error = builder.open_on(storage).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NoSpace, Some(elsewhere.path())));
    assert_eq!((names(dir.path()), names(elsewhere.path())), (before, Vec::new()));
    assert!(is_sound(dir.path()));
}

#[test]
fn rings_of_another_log_give_way_and_that_is_told() {
    let dir = closed_log();
    let next =
        names(dir.path()).iter().filter_map(|name| name.split_once('-')).map(|(index, _)| index.to_owned()).max();
    let name = format!("{:08}.ring", next.unwrap().parse::<u64>().unwrap() + 1);
    let (other, told) = (temp_dir(), Arc::new(Mutex::new(Vec::new())));
    let other_storage: Arc<dyn logtool::storage::Storage> =
        Arc::new(logtool::storage_os::OsStorage::new(other.path(), 0o640));
    let (_writer, mut file) = ring_builder::open(other_storage, Options::new()).unwrap();
    file.add_ring(4096, 1, "of another log");
    file.ring(0).push(1, 1, 0, b"of another log");
    std::fs::write(dir.path().join(&name), file.encode()).unwrap();
    let tell = Arc::clone(&told);
    let builder = Logger::builder(dir.path()).on_error(move |error| tell.lock().unwrap().push(error.to_string()));
    let log = builder.open().unwrap();
    info!(logger: log, "opened all the same");
    log.close(WAIT).unwrap();
    assert!(std::fs::read(dir.path().join("quarantine").join(&name)).unwrap() == file.encode());
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains(&name) && told[0].contains("quarantine"), "{told:?}");
    assert!(is_sound(dir.path()));
}
