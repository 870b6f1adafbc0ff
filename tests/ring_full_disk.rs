//! Rings on a full disk: what can't be made, and what becomes of calls that need it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use logtool::{Item, LogReader, Logger, info, try_info};

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
