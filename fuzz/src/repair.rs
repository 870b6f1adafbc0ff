//! The check of repair: what it leaves is sound, holds every entry that could be read, and needs no second repair.

use std::sync::Arc;

use logtool::ErrorKind;
use logtool::reader::LogReader;
use logtool::repair::repair;
use logtool::snapshot::Snapshot;
use logtool::storage::Storage;
use logtool::verify::{VerifyOptions, verify};

use crate::input::Input;
use crate::log::{build, entries_of};

const ONE_THREAD: VerifyOptions = VerifyOptions { threads: 1 };

/// Repairs a log as a script tells it.
pub fn repair_log(data: &[u8]) {
    let log = build(&mut Input::new(data));
    let storage: Arc<dyn Storage> = log.storage.clone();
    let Ok(snapshot) = Snapshot::take(storage.clone()) else { return };
    if snapshot.writer_pid.is_some() {
        assert!(repair(&storage, &ONE_THREAD, &|_| {}).is_err(), "a live log is refused");
        return;
    }
    crate::show(|| format!("{:?} {:?}", snapshot.segments, snapshot.unreadable));
    let before = entries_of(LogReader::new(snapshot));
    let files: Vec<String> = log.storage.content().into_keys().collect();
    // A log whose headers lie may be refused; it must not be harmed.
    let repaired = repair(&storage, &ONE_THREAD, &|_| {});
    crate::show(|| format!("{repaired:?}"));
    let snapshot = Snapshot::take(storage.clone()).unwrap();
    let after = entries_of(LogReader::new(snapshot.clone()));
    if !log.is_honest {
        return;
    }
    let repaired = match repaired {
        // Numbers end: what is declared would use them up.
        Err(error) if error.kind() == ErrorKind::Damaged => return assert_eq!(after, before),
        repaired => repaired.unwrap(),
    };
    assert_eq!(after, before, "every entry that could be read still can, and no other");
    let left = log.storage.content();
    assert!(files.iter().all(|name| left.contains_key(name)), "no file is gone");
    let report = verify(&snapshot, &ONE_THREAD, &|_| {});
    crate::show(|| format!("{report:?}"));
    // What a later version may know, and what was never an entry, no repair settles.
    assert!(report.is_sound(false) || !repaired.unsettled.is_empty(), "{:?}", report.findings);
    repair(&storage, &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!(log.storage.content(), left, "a second repair changes nothing");
}
