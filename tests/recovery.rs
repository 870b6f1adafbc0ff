//! Faults that other logs had with tails, recovery, repair and verification: each test names the report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use logtool::control::{DropMarker, DropReason};
use logtool::format::HEADER_BYTES;
use logtool::retention::MAINTENANCE_LOCK_NAME;
use logtool::storage::Storage;
use logtool::storage_sim::SimStorage;
use logtool::{ErrorKind, Fault, Loss, SeqRange, Snapshot, VerifyOptions, Writer, repair, verify};

use crate::damage::{COMPRESSED, Line, PLAIN, PLAIN_KILLED, examine, log, options, read, repaired, segments, verified};
use crate::harness::temp_dir;

/// A log that was killed, with lines of `bytes` bytes each.
fn killed_log(count: usize, bytes: usize) -> (SimStorage, Vec<Line>) {
    let disk = SimStorage::new();
    let mut writer = Writer::open_on(disk.shared(), options(false)).unwrap();
    let mut lines = Vec::new();
    for number in 0..count {
        let text = vec![b'a' + (number % 26) as u8; bytes];
        lines.push((writer.line(&text, 0, 1).unwrap(), text));
    }
    writer.flush().unwrap();
    (disk.kill(), lines)
}

/// Its only segment and what it holds.
fn newest(disk: &SimStorage) -> (String, Vec<u8>) {
    let name = segments(disk).pop().unwrap();
    let content = disk.content(&name).unwrap();
    (name, content)
}

/// etcd#5230, etcd#6515, etcd#11488, spdlog#884: zeros from a page, or from the middle of the last payload, to the end.
#[test]
fn zeros_up_to_the_end_are_a_torn_tail_and_the_log_opens_for_writing() {
    let (disk, lines) = killed_log(20, 300);
    let (name, good) = newest(&disk);
    let last_payload = good.len() - 150;
    for (from, len) in [(4096, good.len()), (last_payload, good.len()), (last_payload, 8192), (good.len(), 9000)] {
        let mut bad = good.clone();
        bad[from..].fill(0);
        bad.resize(len, 0);
        let harmed = disk.kill();
        harmed.put(&name, &bad);
        let outcome = examine(&format!("zeros from {from} to {len}"), &harmed, &lines);
        assert_eq!(outcome.report.findings.len(), 1, "{:#?}", outcome.report.findings);
        assert_eq!(outcome.report.findings[0].fault, Fault::TornTail);
    }
}

/// kuzu#5852, amelie#17: a torn end, or one stray byte, must hide nothing that is written later, with and without a repair.
#[test]
fn nothing_that_is_appended_behind_a_torn_end_is_hidden() {
    let (disk, lines) = killed_log(10, 40);
    let (name, good) = newest(&disk);
    for (case, bad) in [("cut", good[..good.len() - 3].to_vec()), ("stray", [good.clone(), vec![1]].concat())] {
        let mut disk = disk.kill();
        disk.put(&name, &bad);
        let mut all = read(&disk).0;
        assert!(all.len() >= lines.len() - 1);
        assert!(!verified(&disk).is_sound(false), "{case}");
        for round in 0..3 {
            let mut writer = Writer::open_on(disk.shared(), options(false)).unwrap();
            for _ in 0..5 {
                let text = format!("{case} {round}").into_bytes();
                all.push((writer.line(&text, 0, 2).unwrap(), text));
            }
            writer.flush().unwrap();
            let next = disk.kill();
            drop(writer);
            disk = next;
            assert_eq!(read(&disk).0, all, "{case}, round {round}");
        }
    }
}

/// prometheus#13152: the repair of one segment leaves the others as they are.
#[test]
fn repairing_the_first_segment_keeps_the_newer_ones_whole() {
    let (disk, lines) = log(PLAIN);
    let names = segments(&disk);
    let mut first = disk.content(&names[0]).unwrap();
    first[HEADER_BYTES + 200] ^= 0x40;
    let harmed = disk.kill();
    harmed.put(&names[0], &first);
    examine("first", &harmed, &lines);
    repaired(&harmed);
    for name in &names[1..] {
        assert_eq!(harmed.content(name), disk.content(name), "{name}");
    }
}

/// A log whose files were renamed among each other, moved to other names, or copied over each other, by hand or by a sync
/// tool: the headers tell the order, repair puts the names right and destroys no segment, a writer goes on behind the last.
#[test]
fn files_under_wrong_names_are_read_in_order_and_never_overwritten() {
    let (disk, lines) = log(PLAIN_KILLED);
    let names = segments(&disk);
    let contents: Vec<Vec<u8>> = names.iter().map(|name| disk.content(name).unwrap()).collect();
    let elsewhere = |index: u32, name: &str| format!("{index:08}{}", &name[8..]);
    for one in 0..names.len() {
        for other in 0..names.len() {
            if one != other {
                let swapped = disk.kill();
                swapped.put(&names[one], &contents[other]);
                swapped.put(&names[other], &contents[one]);
                let outcome = examine(&format!("{one} and {other} swapped"), &swapped, &lines);
                assert!(outcome.missing.is_empty());
                assert!(outcome.report.findings.iter().all(|finding| finding.fault == Fault::Misnamed));
                swapped.delete(&names[one]);
                examine(&format!("{other} under the name of {one}, {one} gone"), &swapped, &lines);

                let copied = disk.kill();
                copied.put(&names[one], &contents[other]);
                examine(&format!("{other} copied over {one}"), &copied, &lines);
            }
        }
        for index in [7, 90] {
            let moved = disk.kill();
            moved.delete(&names[one]);
            moved.put(&elsewhere(index, &names[one]), &contents[one]);
            let mut writer = Writer::open_on(moved.kill().shared(), options(false)).unwrap();
            assert!(one == 2 || writer.line(b"new", 0, 2).unwrap() > lines.last().unwrap().0);
            let outcome = examine(&format!("{one} moved to {index}"), &moved, &lines);
            assert!(outcome.missing.is_empty());
        }
    }
}

/// prometheus tsdb#528: the segment that is short is the one that is named, with its offset.
#[test]
fn a_short_segment_is_named_with_its_offset() {
    let disk = SimStorage::new();
    let mut writer = Writer::open_on(disk.shared(), options(false)).unwrap();
    for number in 0..5 {
        writer.line(b"one", 0, 1).unwrap();
        writer.line(b"two", 0, 1).unwrap();
        if number < 4 {
            writer.roll().unwrap();
        }
    }
    writer.close().unwrap();
    let names = segments(&disk);
    let second = disk.content(&names[1]).unwrap();
    // The seal is what stands behind the end that the third segment tells.
    let snapshot = Snapshot::take(disk.shared()).unwrap();
    let end = snapshot.segments[2].header.predecessor.unwrap().accepted_end as usize;
    disk.put(&names[1], &second[..end - 7]);
    let report = verified(&disk);
    let place = report.findings[0].place.as_ref().unwrap();
    assert_eq!((report.findings[0].fault, &place.segment), (Fault::ShortSegment, &names[1]));
    assert_eq!(report.findings[0].loss, Loss::Seqs(SeqRange { first: 4, last: 4 }));
    assert!(place.offset < end as u64 && end as u64 - place.offset <= 56, "{place:?}");
}

/// badger#154, bookkeeper#3956: garbage at the end whose length reads as almost 4 GiB, or as negative.
#[test]
fn garbage_lengths_at_the_end_are_a_torn_tail() {
    let (disk, lines) = killed_log(5, 40);
    let (name, good) = newest(&disk);
    for length in [0xffff_fff0u32, 0x8000_0000, 0x7fff_ffff, 1 << 20] {
        let mut garbage = [0xf7u8; 64];
        garbage[4..8].copy_from_slice(&length.to_le_bytes());
        let harmed = disk.kill();
        harmed.put(&name, &[good.clone(), garbage.to_vec()].concat());
        let outcome = examine(&format!("length {length:#x}"), &harmed, &lines);
        assert!(outcome.missing.is_empty());
        assert_eq!(outcome.report.findings[0].fault, Fault::TornTail);
    }
}

/// rocksdb#12918: numbers missing exactly between two segments are told; where a drop marker stands for them they are not.
#[test]
fn a_gap_at_a_change_of_segments_is_told_unless_a_drop_marker_explains_it() {
    let disk = SimStorage::new();
    let mut writer = Writer::open_on(disk.shared(), options(false)).unwrap();
    writer.line(b"before", 0, 1).unwrap();
    let marker = DropMarker { count: 7, time_ns: 1, tseq: 1, tid: 3, reason: DropReason::RingFull, level: 3 };
    writer.drop_entries(&marker).unwrap();
    writer.roll().unwrap();
    writer.line(b"middle", 0, 1).unwrap();
    writer.roll().unwrap();
    writer.line(b"after", 0, 1).unwrap();
    writer.close().unwrap();
    let report = verified(&disk);
    assert!(report.is_sound(true), "{:#?}", report.findings);
    assert_eq!((report.notes.dropped[0].count, report.notes.dropped[0].seqs), (7, SeqRange { first: 2, last: 8 }));
    disk.delete(&segments(&disk)[1]);
    let report = verified(&disk);
    assert_eq!(report.findings.len(), 1, "{:#?}", report.findings);
    assert_eq!(report.findings[0].loss, Loss::Seqs(SeqRange { first: 9, last: 9 }));
}

/// pebble#3865: a block broken in the middle costs itself and leaves nothing behind for the next one.
#[test]
fn a_broken_block_costs_one_block() {
    let (disk, lines) = log(COMPRESSED);
    let name = segments(&disk)[1].clone();
    let good = disk.content(&name).unwrap();
    let mut bad = good.clone();
    let middle =
        good.windows(4).position(|bytes| bytes == [0x28, 0xb5, 0x2f, 0xfd]).map_or(HEADER_BYTES + 60, |at| at + 8);
    bad[middle] ^= 0xff;
    let harmed = disk.kill();
    harmed.put(&name, &bad);
    let outcome = examine("block", &harmed, &lines);
    assert!((1..=2).contains(&outcome.missing.len()), "{:?}", outcome.missing);
}

/// systemd#24938: order and gaps follow the numbers, so clocks that go back are no fault.
#[test]
fn a_clock_that_goes_back_is_no_finding() {
    let disk = SimStorage::new();
    let hour = 3_600_000_000_000i64;
    for run in [5i64, 4, 6, 1] {
        let mut writer = Writer::open_on(disk.shared(), options(false)).unwrap();
        for step in [0, -1, 2, -3] {
            writer.line(b"x", 0, (run + step) * hour).unwrap();
        }
        writer.close().unwrap();
    }
    let report = verified(&disk);
    assert!(report.is_sound(true), "{:#?}", report.findings);
    assert_eq!((report.entries, report.times_ns), (16, Some((-2 * hour, 8 * hour))));
}

/// wiredtiger#1334: lengths whose low bytes are 0.
#[test]
fn lengths_with_zero_bytes_are_read_and_survive_damage_beside_them() {
    for bytes in [256, 512, 65536] {
        let (disk, lines) = killed_log(3, bytes - 24);
        let report = examine(&format!("{bytes}"), &disk, &lines).report;
        assert!(report.is_sound(true), "{bytes}: {:#?}", report.findings);
    }
}

/// A power cut leaves what was synced; what is lost above it is told, and the log repaired, in whatever state the disk is.
#[test]
fn a_log_after_a_power_cut_is_told_truly_and_repaired() {
    for seed in 0..60 {
        let disk = SimStorage::new();
        let mut writer = Writer::open_on(disk.shared(), options(false)).unwrap();
        let (mut lines, mut synced) = (Vec::new(), 0);
        for number in 0..30u64 {
            let text = format!("line {number} of {seed} {}", "y".repeat((number as usize * 37) % 300)).into_bytes();
            lines.push((writer.line(&text, 0, 1).unwrap(), text));
            writer.flush().unwrap();
            match number {
                9 | 17 => synced = writer.sync().unwrap(),
                13 => writer.roll().unwrap(),
                _ => {}
            }
        }
        let after = disk.power_cut(seed);
        let outcome = examine(&format!("power cut {seed}"), &after, &lines);
        assert!(outcome.missing.iter().all(|&seq| seq > synced), "{seed}: {:?} up to {synced}", outcome.missing);
    }
}

/// systemd#35916: verify beside a fast writer that rolls, removes old segments and starts anew finds nothing.
#[test]
fn verify_beside_a_fast_writer_never_finds_a_fault() {
    let dir = temp_dir();
    let path = dir.path().to_path_buf();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (path, stop) = (path.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut round = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let mut options = options(round.is_multiple_of(2));
                options.retention.keep_segments = Some(4);
                options.roll_bytes = 64 << 10;
                let mut writer = Writer::open(&path, options).unwrap();
                for number in 0..3000u64 {
                    writer.line(format!("round {round} line {number}").as_bytes(), 0, number as i64).unwrap();
                    if number.is_multiple_of(7) {
                        writer.flush().unwrap();
                    }
                }
                writer.close().unwrap();
                round += 1;
            }
            round
        })
    };
    let started = std::time::Instant::now();
    let (mut checks, mut live) = (0, 0);
    while started.elapsed().as_secs() < 3 {
        let Ok(snapshot) = logtool::snapshot_of(&path) else { continue };
        let report = verify(&snapshot, &VerifyOptions { threads: 1 + checks % 2 }, &|_| {});
        assert!(report.is_sound(true), "check {checks}: {report:#?}\n{snapshot:#?}");
        checks += 1;
        live += usize::from(snapshot.is_live());
    }
    stop.store(true, Ordering::Relaxed);
    let rounds = writer.join().unwrap();
    assert!(checks > 4 && live > 2 && rounds > 2, "{checks} checks, {live} of them live, {rounds} rounds");
}

#[test]
fn a_killed_log_notes_that_it_was_not_closed() {
    let (disk, _) = log(PLAIN_KILLED);
    assert!(verified(&disk).notes.ended_without_close);
}

/// Whoever rewrites segments holds `maintenance.lock` meanwhile, and need not hold the writer's.
#[test]
fn a_log_whose_segments_are_being_rewritten_is_not_repaired() {
    let (disk, _) = log(PLAIN);
    let names = segments(&disk);
    let mut bad = disk.content(&names[0]).unwrap();
    bad[HEADER_BYTES + 200] ^= 0x40;
    disk.put(&names[0], &bad);
    let storage: Arc<dyn Storage> = disk.shared();
    let held = storage.open_write(MAINTENANCE_LOCK_NAME).unwrap();
    assert!(held.try_lock().unwrap());
    let refused = repair::repair(&storage, &VerifyOptions::default(), &|_| {}).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(refused.to_string().contains(MAINTENANCE_LOCK_NAME), "{refused}");
    assert_eq!(disk.content(&names[0]).unwrap(), bad);
    assert!(Writer::open_on(disk.shared(), options(false)).is_ok(), "the writer's lock is given back");
    drop(held);
    repaired(&disk);
    assert!(verified(&disk).is_sound(false));
}
