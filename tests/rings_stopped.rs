//! Recoveries and repairs that are stopped, by a kill, a power cut or a full disk, and gone on with.

use logtool::storage::Storage;
use logtool::storage_sim::SimStorage;
use logtool::{ErrorKind, Writer, repair};

use crate::rings::{ONE_THREAD, Read, Run, entries, options, ring_files, verified};

#[test]
fn a_ring_file_of_which_nothing_else_is_left_is_a_log() {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill();
    let kept: Vec<_> = entries(&disk).into_iter().map(|read| (read.1, read.2, read.3)).collect();
    for name in disk.names().unwrap().iter().filter(|name| !name.ends_with(".ring")) {
        disk.delete(name);
    }
    assert_eq!(disk.names().unwrap(), ring_files(&disk));
    // Numbers were given out that nothing tells of any more.
    let read = entries(&disk);
    let in_rings: Vec<_> = read.iter().map(|read| (read.1, read.2, read.3.clone())).collect();
    assert!(in_rings.len() >= 10 && in_rings.iter().all(|entry| kept.contains(entry)));
    assert!(read[0].0 > 1 << 32);
    let report = verified(&disk);
    assert!(!report.is_sound(true), "nothing tells what the segments held: {report:#?}");
    let repaired = disk.kill();
    drop(Writer::open_on(disk.shared(), options()).unwrap());
    repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap();
    for disk in [disk, repaired] {
        assert_eq!((entries(&disk), ring_files(&disk)), (read.clone(), Vec::new()));
    }
}

#[test]
fn a_recovery_stopped_at_any_call_is_gone_on_with() {
    for first in [SimStorage::new(), Run::usual(SimStorage::new()).kill()] {
        let run = Run::usual(first.kill());
        let disk = run.kill();
        let all = entries(&disk);
        let done = disk.kill();
        drop(Writer::open_on(done.shared(), options()).unwrap());
        let calls = done.calls();
        for calls in 0..calls {
            let stopped = disk.kill();
            stopped.stop_after(calls);
            let opened = Writer::open_on(stopped.shared(), options());
            let next = stopped.kill();
            drop(opened);
            assert_eq!(entries(&next), all, "read after {calls} calls");
            let report = verified(&next);
            assert!(report.is_sound(true), "{calls} calls: {:#?}", report.findings);
            drop(Writer::open_on(next.shared(), options()).unwrap());
            assert_eq!(entries(&next), all, "opened after {calls} calls");
            assert_eq!(ring_files(&next), Vec::<String>::new());
            let report = verified(&next);
            assert!(report.is_sound(true), "{calls} calls: {:#?}", report.findings);
        }
    }
}

#[test]
fn a_repair_stopped_at_any_call_is_gone_on_with() {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill();
    let all = entries(&disk);
    let done = disk.kill();
    repair::repair(&done.shared(), &ONE_THREAD, &|_| {}).unwrap();
    for calls in 0..done.calls() {
        let stopped = disk.kill();
        stopped.stop_after(calls);
        let _ = repair::repair(&stopped.shared(), &ONE_THREAD, &|_| {});
        let next = stopped.kill();
        assert_eq!(entries(&next), all, "read after {calls} calls");
        assert!(verified(&next).is_sound(true));
        let other = next.kill();
        repair::repair(&next.shared(), &ONE_THREAD, &|_| {}).unwrap();
        drop(Writer::open_on(other.shared(), options()).unwrap());
        for next in [next, other] {
            assert_eq!(entries(&next), all, "after {calls} calls and again");
            assert!(verified(&next).is_sound(true));
        }
    }
}

#[test]
fn a_power_cut_at_any_call_of_a_recovery_loses_no_entry() {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill();
    let keys = |read: Vec<Read>| read.into_iter().map(|read| (read.1, read.2, read.3)).collect::<Vec<_>>();
    let mut all = keys(entries(&disk));
    all.sort();
    let done = disk.kill();
    drop(Writer::open_on(done.shared(), options()).unwrap());
    for calls in 0..=done.calls() {
        for seed in 0..6 {
            let stopped = disk.kill();
            stopped.stop_after(calls);
            let opened = Writer::open_on(stopped.shared(), options());
            let next = stopped.power_cut(seed);
            drop(opened);
            for again in [false, true] {
                if again {
                    drop(Writer::open_on(next.shared(), options()).unwrap());
                }
                let mut found = keys(entries(&next));
                found.sort();
                assert_eq!(found, all, "{calls} calls, seed {seed}, opened again: {again}");
            }
            assert!(verified(&next).is_sound(true), "{calls} calls, seed {seed}: {:#?}", verified(&next).findings);
        }
    }
}

#[test]
fn a_full_disk_refuses_to_open_and_loses_nothing() {
    let first = SimStorage::new();
    let mut writer = Writer::open_on(first.shared(), options()).unwrap();
    for _ in 0..20 {
        writer.line(&[b'x'; 500], 0, 1).unwrap();
    }
    writer.close().unwrap();
    let run = Run::usual(first);
    let disk = run.kill();
    let all = entries(&disk);
    disk.set_capacity(Some(disk.used() + 100));
    let error = Writer::open_on(disk.shared(), options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(entries(&disk), all);
    assert!(disk.content("recovery.tmp").is_none());
    // With room made, the oldest go; what was in the rings is there.
    let writer = Writer::open_on(disk.shared(), options().makes_room(true));
    let read = if let Ok(writer) = writer {
        drop(writer);
        entries(&disk)
    } else {
        panic!("{:?}", writer.err())
    };
    assert_eq!(read.last(), all.last());
    assert!(read.len() < all.len() && all.ends_with(&read));
    disk.set_capacity(None);
    let report = verified(&disk);
    assert!(report.is_sound(true), "{:#?}", report.findings);
}

#[test]
fn a_segment_that_was_only_begun_hides_no_ring() {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill();
    let all = entries(&disk);
    for begun in [&b""[..], &[0x89; 700]] {
        let disk = disk.kill();
        disk.put("00000002-20261130T120001Z.flog", begun);
        assert_eq!(entries(&disk), all);
        assert!(verified(&disk).is_sound(true), "{:#?}", verified(&disk).findings);
        drop(Writer::open_on(disk.shared(), options()).unwrap());
        assert_eq!(entries(&disk), all);
        assert!(verified(&disk).is_sound(true));
    }
}

/// A log whose ring file lacks what its last record was.
fn damaged() -> (SimStorage, String) {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill();
    let mut bytes = run.file.encode();
    let last = run.accepted.last().unwrap();
    let place = bytes.windows(last.2.len()).rposition(|window| window == last.2).unwrap();
    bytes[place] ^= 1;
    disk.put(&run.file.name(), &bytes);
    (disk, run.file.name())
}

#[test]
fn a_recovery_of_a_damaged_ring_that_is_stopped_never_silences_the_alarm() {
    let (disk, ring) = damaged();
    let all = entries(&disk);
    let done = disk.kill();
    drop(Writer::open_on(done.shared(), options()).unwrap());
    for calls in 0..done.calls() {
        let stopped = disk.kill();
        stopped.stop_after(calls);
        let opened = Writer::open_on(stopped.shared(), options());
        let next = stopped.kill();
        drop(opened);
        assert_eq!(entries(&next), all, "{calls} calls");
        assert!(!verified(&next).is_sound(false), "{calls} calls");
        drop(Writer::open_on(next.shared(), options()).unwrap());
        assert_eq!(entries(&next), all, "{calls} calls");
        assert!(!verified(&next).is_sound(false), "{calls} calls, opened again");
        assert_eq!(ring_files(&next), Vec::<String>::new());
        assert!(next.content(&format!("quarantine/{ring}")).is_some(), "{calls} calls");
    }
}

#[test]
fn a_repair_of_a_damaged_ring_that_is_stopped_declares_its_loss_once() {
    let (disk, ring) = damaged();
    let all = entries(&disk);
    let done = disk.kill();
    repair::repair(&done.shared(), &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!(verified(&done).notes.declared_count, 1 << 32);
    for calls in 0..done.calls() {
        let stopped = disk.kill();
        stopped.stop_after(calls);
        let _ = repair::repair(&stopped.shared(), &ONE_THREAD, &|_| {});
        let next = stopped.kill();
        assert_eq!(entries(&next), all, "{calls} calls");
        repair::repair(&next.shared(), &ONE_THREAD, &|_| {}).unwrap();
        assert_eq!(entries(&next), all, "{calls} calls, repaired again");
        let report = verified(&next);
        assert!(report.is_sound(false), "{calls} calls: {:#?}", report.findings);
        assert_eq!(report.notes.declared_count, 1 << 32, "{calls} calls");
        assert!(next.content(&format!("quarantine/{ring}")).is_some(), "{calls} calls");
        assert!(repair::repair(&next.shared(), &ONE_THREAD, &|_| {}).unwrap().actions.is_empty());
    }
}
