//! Calls that were refused before a kill: told by the recovery as they were, whatever is damaged, and wherever their thread's
//! entries are.

use logtool::storage_sim::SimStorage;
use logtool::{Fault, Level, Report, Writer};

use crate::rings::{Run, options, verified};

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
