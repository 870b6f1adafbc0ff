//! Calls that were refused before a kill: told by the recovery as they were, whatever is damaged, and wherever their thread's
//! entries are.

use logtool::control::{DropMarker, DropReason};
use logtool::entry::EntryHead;
use logtool::storage::Storage;
use logtool::storage_sim::SimStorage;
use logtool::{Fault, Level, Report, Writer};

use crate::rings::{Run, entries, options, verified};

/// Where the ring of the first thread starts in the file: behind the file header and a section of definitions of a page.
const FIRST_RING: usize = 3 * 4096;

/// Who lost how many, and of what level.
fn dropped(report: &Report) -> Vec<(Option<String>, u64, Option<Level>)> {
    report.notes.dropped.iter().map(|dropped| (dropped.thread.clone(), dropped.count, dropped.level)).collect()
}

#[test]
fn a_flipped_bit_invents_and_hides_no_refused_call() {
    let mut run = Run::new(SimStorage::new(), 2);
    run.log(1);
    run.write(0, 1, true);
    (0..2).for_each(|_| run.refuse(1));
    let (disk, name, whole) = (run.kill(), run.file.name(), run.file.encode());
    let told = dropped(&verified(&disk));
    assert_eq!(told, [(Some("worker-1".into()), 2, Some(Level::Warn))]);
    // Both rings: that of the thread without a refused call, too.
    for ring in [FIRST_RING, FIRST_RING + 2 * 4096] {
        for at in (320..560).chain(1024..1072) {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[ring + at] ^= 1 << bit;
                disk.put(&name, &flipped);
                let report = verified(&disk);
                assert!(report.is_sound(true), "byte {at}, bit {bit}: {:#?}", report.findings);
                assert_eq!(dropped(&report), told, "byte {at}, bit {bit}");
            }
        }
    }
    // More than one of them: nothing tells, and that is said.
    let mut harmed = whole;
    harmed[FIRST_RING + 320] ^= 1;
    harmed[FIRST_RING + 385] ^= 1;
    disk.put(&name, &harmed);
    let report = verified(&disk);
    assert!(report.findings.iter().any(|finding| finding.fault == Fault::Ring), "{:#?}", report.findings);
    drop(Writer::open_on(disk.shared(), options()).unwrap());
    assert!(!verified(&disk).is_sound(false));
}

#[test]
fn refused_calls_are_told_however_long_ago_their_thread_has_logged() {
    for logs_again in [true, false] {
        let mut run = Run::new(SimStorage::new(), 2);
        run.log(1);
        // More than a recovery looks at to tell what is in a segment already.
        for number in 0..20 {
            (0..20).for_each(|_| run.log(2));
            run.write(run.accepted.len() - 20 - usize::from(number == 0), run.accepted.len(), true);
        }
        let written = run.accepted.len() as u64;
        (0..3).for_each(|_| run.refuse(1));
        if logs_again {
            run.log(1);
        }
        let disk = run.kill();
        assert!(disk.names().unwrap().iter().filter(|name| name.ends_with(".flog")).count() > 8);
        for _ in 0..2 {
            let report = verified(&disk);
            assert!(report.is_sound(true), "{:#?}", report.findings);
            assert_eq!(dropped(&report), [(Some("worker-1".into()), 3, Some(Level::Warn))], "again: {logs_again}");
            assert_eq!(report.notes.dropped[0].seqs.first, written + 1);
            assert_eq!(entries(&disk).len() as u64, written + u64::from(logs_again));
            drop(Writer::open_on(disk.shared(), options()).unwrap());
        }
    }
}

#[test]
fn refused_calls_that_a_marker_has_told_long_ago_are_not_told_again() {
    let mut run = Run::new(SimStorage::new(), 2);
    run.log(1);
    run.refuse(1);
    run.log(1);
    run.write(0, 1, false);
    let marker = DropMarker { count: 1, time_ns: 0, tseq: 2, tid: 1, reason: DropReason::RingFull, level: 4 };
    run.writer.drop_entries(&marker).unwrap();
    run.write(1, 2, true);
    for _ in 0..20 {
        (0..20).for_each(|_| run.log(2));
        run.write(run.accepted.len() - 20, run.accepted.len(), true);
    }
    for logs_again in [false, true] {
        if logs_again {
            run.log(1);
        }
        let disk = run.kill();
        let report = verified(&disk);
        assert!(report.is_sound(true), "{:#?}", report.findings);
        assert_eq!(report.notes.dropped.iter().map(|dropped| dropped.count).collect::<Vec<_>>(), [1]);
        assert_eq!(entries(&disk).len(), run.accepted.len());
    }
}

/// What `fuzz/run ring` found: a refused call with the highest number there is.
#[test]
fn numbers_of_refused_calls_at_their_end_are_only_numbers() {
    let mut run = Run::new(SimStorage::new(), 2);
    let head = EntryHead { time_ns: 0, tseq: u64::MAX, tid: 1, site: 0 };
    run.writer.entry_encoded(&head, 0, b"the last one").unwrap();
    run.writer.flush().unwrap();
    run.file.ring(0).refuse(u64::MAX, Level::Warn as u8);
    let disk = run.kill();
    for _ in 0..2 {
        let report = verified(&disk);
        assert_eq!((report.entries, dropped(&report)), (1, Vec::new()), "{:#?}", report.findings);
        drop(Writer::open_on(disk.shared(), options()).unwrap());
    }
}
