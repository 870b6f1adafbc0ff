//! What the tests of both kinds of log share.

use std::time::{Duration, Instant};

use crate::capture::{Plain, keep::*};
use crate::entry::Level;
use crate::finding::{Finding, NoteKind};
use crate::logger::{Logger, Refused};
use crate::reader::LogReader;
use crate::site::{Origin, Site};
use crate::snapshot::Snapshot;
use crate::storage_sim::SimStorage;
use crate::walk::Item;

/// Of a call that logs a number.
pub(crate) static INFO: Site = Site::new(Level::Info, Origin::Name("net"), "a.rs", 1, "{}", &[""], 1);
/// As [`INFO`], of a higher level.
pub(crate) static ERROR: Site = Site::new(Level::Error, Origin::Name("net"), "a.rs", 2, "{}", &[""], 1);

/// Longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Logs a number.
pub(crate) fn log(site: &'static Site, logger: &Logger, number: u64) -> Result<(), Refused> {
    site.try_log_to(logger, &((&&&Plain(&number)).show(), ()))
}

/// The numbers that were logged, and how many entries the log tells to be dropped; it is sound.
pub(crate) fn read(storage: &SimStorage) -> (Vec<u64>, u64) {
    let (numbers, dropped, findings) = read_unsound(&storage.kill());
    assert_eq!(findings, []);
    (numbers, dropped)
}

/// As [`read`], and what is wrong.
pub(crate) fn read_unsound(storage: &SimStorage) -> (Vec<u64>, u64, Vec<Finding>) {
    let mut reader = LogReader::new(Snapshot::take(storage.shared()).unwrap());
    let (mut numbers, mut dropped, mut findings) = (Vec::new(), 0, Vec::new());
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(entry) => match entry.values().next() {
                Some(crate::value::Value::U64(number)) => numbers.push(number),
                other => panic!("{other:?}"),
            },
            Item::Note(note) => {
                if let NoteKind::Dropped { marker, .. } = &note.kind {
                    dropped += marker.count;
                }
            }
            Item::Finding(finding) => findings.push(finding),
        }
    }
    (numbers, dropped, findings)
}

/// Waits until this holds; the work in the background takes its time.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
