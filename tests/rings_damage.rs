//! Damaged ring files: what is read is a subset of what was logged, what is missing is reported, and a repair settles it.

use std::collections::BTreeSet;

use logtool::control::LossClass;
use logtool::plain_copy::plain_copy;
use logtool::ring_builder;
use logtool::storage_sim::SimStorage;
use logtool::{Fault, Loss, Snapshot, Writer, repair};

use crate::rings::{ONE_THREAD, Read, Run, entries, options, ring_files, verified};

/// A run that is killed with entries of three threads in small rings, of which one has gone round.
fn small() -> (Run, SimStorage, Vec<Read>) {
    let mut run = Run::small(SimStorage::new());
    for number in 0..9 {
        run.log_text(number % 3 + 1, format!("entry {number}").as_bytes());
        run.write(number as usize, number as usize + 1, number < 6);
    }
    for number in 9..15 {
        run.log_text(number % 3 + 1, format!("entry {number}").as_bytes());
    }
    let disk = run.kill();
    let all = entries(&disk);
    assert_eq!(all.len(), 15);
    assert!(verified(&disk).is_sound(true));
    (run, disk, all)
}

/// Threads whose entries `read` lacks of `all`. Fails where an entry was altered, repeated, invented, or comes out of order.
#[track_caller]
fn missing(case: &str, read: &[Read], all: &[Read]) -> BTreeSet<u32> {
    let key = |read: &Read| (read.1, read.2, read.3.clone());
    let read: Vec<_> = read.iter().map(key).collect();
    let found: BTreeSet<_> = read.iter().cloned().collect();
    assert_eq!(found.len(), read.len(), "{case}: repeated");
    let expected: Vec<_> = all.iter().map(key).filter(|entry| found.contains(entry)).collect();
    assert_eq!(read, expected, "{case}: altered, invented or out of order");
    all.iter().map(key).filter(|entry| !found.contains(entry)).map(|(tid, ..)| tid).collect()
}

/// A log with a harmed ring file `bytes`: read, opened, repaired. Returns the threads that lack entries.
#[track_caller]
fn examine(case: &str, disk: &SimStorage, name: &str, bytes: &[u8], all: &[Read]) -> BTreeSet<u32> {
    let harmed = disk.kill();
    harmed.put(name, bytes);
    let read = entries(&harmed);
    let lost = missing(case, &read, all);
    let report = verified(&harmed);
    assert!(lost.is_empty() || !report.is_sound(false), "{case}: lost and not reported");
    let is_damaged = report.findings.iter().any(|finding| finding.fault == Fault::Ring);
    let repaired = harmed.kill();

    let writer = Writer::open_on(harmed.shared(), options()).unwrap();
    assert!(read.iter().all(|read| read.0 < writer.next_seq()), "{case}");
    drop(writer);
    assert_eq!(entries(&harmed), read, "{case}: opened");
    assert_eq!(ring_files(&harmed), Vec::<String>::new(), "{case}");
    assert_eq!(verified(&harmed).is_sound(false), !is_damaged, "{case}: opened");
    assert_eq!(harmed.content(&format!("quarantine/{name}")).as_deref(), is_damaged.then_some(bytes), "{case}");

    repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!(entries(&repaired), read, "{case}: repaired");
    let report = verified(&repaired);
    assert!(report.is_sound(false), "{case}: {:#?}", report.findings);
    assert!(lost.is_empty() || report.notes.declared_count > 0, "{case}: not declared");
    assert!(repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap().actions.is_empty(), "{case}: twice");
    assert_eq!(repaired.content(&format!("quarantine/{name}")).as_deref(), is_damaged.then_some(bytes), "{case}");
    lost
}

#[test]
fn a_flipped_bit_costs_at_most_the_rest_of_one_ring_and_is_reported() {
    let (run, disk, all) = small();
    let good = run.file.encode();
    let (mut lost_somewhere, rings_at) = (0, good.len() - 3 * (4096 + 256));
    for byte in 0..good.len() {
        // Of what was never written a sample.
        let bits = if good[byte] != 0 {
            0..8
        } else if byte % 97 == 0 {
            byte % 8..byte % 8 + 1
        } else {
            0..0
        };
        for bit in bits {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            let harmed = disk.kill();
            harmed.put(&run.file.name(), &bad);
            let read = entries(&harmed);
            let lost = missing(&format!("byte {byte}, bit {bit}"), &read, &all);
            assert!(lost.len() <= 1, "byte {byte}, bit {bit}: {lost:?}");
            assert!(lost.is_empty() || !verified(&harmed).is_sound(false), "byte {byte}, bit {bit}: not reported");
            // Headers, positions and definitions stand twice, or cost nothing.
            let is_record =
                (0..3).any(|ring| (rings_at + ring * 4352 + 4096..rings_at + ring * 4352 + 4352).contains(&byte));
            assert!(lost.is_empty() || is_record, "byte {byte}, bit {bit}: {lost:?}");
            lost_somewhere += lost.len();
            if byte % 16 == usize::from(good[byte]) % 16 {
                examine(&format!("byte {byte}, bit {bit}"), &disk, &run.file.name(), &bad, &all);
            }
        }
    }
    assert!(lost_somewhere > 1000, "{lost_somewhere}");
}

#[test]
fn a_ring_file_that_was_cut_is_reported_wherever_it_was_cut() {
    let (run, disk, all) = small();
    let good = run.file.encode();
    for len in (0..good.len()).step_by(52).chain((0..good.len()).step_by(4096)) {
        let report = {
            let harmed = disk.kill();
            harmed.put(&run.file.name(), &good[..len]);
            verified(&harmed)
        };
        assert!(report.findings.iter().any(|finding| finding.fault == Fault::Ring), "cut to {len}");
        examine(&format!("cut to {len}"), &disk, &run.file.name(), &good[..len], &all);
    }
}

#[test]
fn sectors_of_zeros_or_garbage_lose_nothing_unreported() {
    let (run, disk, all) = small();
    let good = run.file.encode();
    for size in [512, 4096, good.len()] {
        for (sector, from) in (0..good.len()).step_by(size).enumerate() {
            for garbage in [false, true] {
                let mut bad = good.clone();
                let to = good.len().min(from + size);
                for (number, byte) in bad[from..to].iter_mut().enumerate() {
                    *byte = if garbage { (number * 131 + sector * 31) as u8 } else { 0 };
                }
                examine(&format!("{size} bytes at {from}, {garbage}"), &disk, &run.file.name(), &bad, &all);
            }
        }
    }
}

#[test]
fn what_a_record_in_the_middle_has_cost_is_told_exactly() {
    let (run, disk, all) = small();
    let mut bad = run.file.encode();
    let place = bad.windows(8).rposition(|window| window == b"entry 10").unwrap();
    bad[place] ^= 1;
    let harmed = disk.kill();
    harmed.put(&run.file.name(), &bad);
    let report = verified(&harmed);
    let Loss::Seqs(lost) = report.findings[0].loss else { panic!("{:#?}", report.findings) };
    let told = report.findings[0].place.clone().unwrap();
    assert_eq!((lost.count(), report.lost, report.findings.len()), (1, 1, 1));
    assert_eq!(told.segment, run.file.name());
    assert!((told.offset..told.offset + told.len).contains(&(place as u64)), "{told:?} at {place}");
    assert_eq!(report.findings[0].class, LossClass::Corruption);
    let lost_entry: Vec<_> = all.iter().filter(|read| read.3 == b"entry 10").collect();
    assert_eq!(missing("middle", &entries(&harmed), &all), [lost_entry[0].1].into());
    // Once it is repaired no more than that is declared.
    let repaired = harmed.kill();
    repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!(verified(&repaired).notes.declared, [(lost, LossClass::Corruption)]);
    assert!(verified(&repaired).is_sound(false));
    let copy = SimStorage::new();
    plain_copy(Snapshot::take(harmed.shared()).unwrap(), &copy.shared(), &mut |_| {}).unwrap();
    assert_eq!(entries(&copy), entries(&harmed));
    assert_eq!(verified(&copy).notes.declared, [(lost, LossClass::Corruption)]);
    assert!(verified(&copy).is_sound(false), "{:#?}", verified(&copy).findings);
    // The numbers of the others follow as if it were there.
    let numbers: Vec<u64> = entries(&harmed).iter().map(|read| read.0).collect();
    assert!(!numbers.contains(&lost.first) && numbers.contains(&(lost.first + 1)));
}

#[test]
fn sixty_four_rings_are_merged_by_their_stamps() {
    let mut run = Run::new(SimStorage::new(), 64);
    for number in 0..640 {
        run.log_text((number * 37) % 64 + 1, format!("entry {number}").as_bytes());
    }
    let disk = run.kill();
    let texts: Vec<_> = entries(&disk).into_iter().map(|read| read.3).collect();
    assert_eq!(texts, run.accepted.iter().map(|(_, _, text)| text.clone()).collect::<Vec<_>>());
}

#[test]
fn sizes_that_a_file_claims_cost_neither_memory_nor_time() {
    let (writer, mut file) = ring_builder::open(SimStorage::new().shared(), options()).unwrap();
    let _ = writer;
    let ring = file.add_ring(4096, 1, "");
    for (written, read) in
        [(u64::MAX, 0), (u64::MAX, u64::MAX), (u64::MAX - 7, u64::MAX - 7), (1 << 40, 0), (0, 1 << 40)]
    {
        let disk = SimStorage::new();
        let (writer, mut file) = ring_builder::open(disk.shared(), options()).unwrap();
        file.add_ring(4096, 1, "");
        file.ring(ring).push(1, 1, 0, b"x");
        file.ring(ring).set_positions(written, [read; 2]);
        let killed = disk.kill();
        drop(writer);
        killed.put(&file.name(), &file.encode());
        let start = std::time::Instant::now();
        assert!(entries(&killed).len() <= 1);
        drop(Writer::open_on(killed.shared(), options()).unwrap());
        assert!(start.elapsed().as_secs() < 5);
    }
}

#[test]
fn a_thread_seq_that_jumps_beyond_all_reason_is_no_drop() {
    for jump in [1 << 33, u64::MAX >> 2, (1 << 63) - 2] {
        let mut run = Run::new(SimStorage::new(), 1);
        run.log(1);
        run.write(0, 1, true);
        run.file.ring(0).push(1_796_040_000_000_000_900, jump, 0, b"far");
        run.file.ring(0).refuse(jump + 1, 3);
        let disk = run.kill();
        let report = verified(&disk);
        assert!(report.notes.dropped.iter().map(|dropped| dropped.count).sum::<u64>() <= 1);
        assert!(report.is_sound(true), "{:#?}", report.findings);
        drop(Writer::open_on(disk.shared(), options()).unwrap());
        assert_eq!(entries(&disk).len(), 2);
    }
    // The last that there is.
    let mut run = Run::new(SimStorage::new(), 1);
    run.file.ring(0).push_of(1, 1_796_040_000_000_000_900, u64::MAX - 1, 0, b"far");
    run.file.ring(0).refuse(u64::MAX, 3);
    let disk = run.kill();
    assert_eq!(entries(&disk).len(), 1);
    drop(Writer::open_on(disk.shared(), options()).unwrap());
    assert_eq!(entries(&disk).len(), 1);
}

#[test]
fn words_and_bodies_like_long_records_do_not_make_the_search_for_the_next_one_long() {
    let disk = SimStorage::new();
    let (writer, mut file) = ring_builder::open(disk.shared(), options()).unwrap();
    let bytes = 1 << 20;
    file.add_ring(bytes, 1, "");
    file.ring(0).set_positions(bytes as u64, [0; 2]);
    let mut content = file.encode();
    let from = content.len() - bytes;
    // Each place looks like a record of half the ring.
    for word in content[from..].chunks_exact_mut(4) {
        word.copy_from_slice(&(1u32 << 19).to_le_bytes());
    }
    let killed = disk.kill();
    drop(writer);
    killed.put(&file.name(), &content);
    let start = std::time::Instant::now();
    let snapshot = Snapshot::take(killed.shared()).unwrap();
    assert_eq!(snapshot.rings[0].damage.len(), 1);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn what_a_power_cut_has_done_to_a_ring_is_told_until_the_next_run_accounts_for_it() {
    let (run, disk, all) = small();
    let mut bad = run.file.encode();
    let place = bad.windows(8).rposition(|window| window == b"entry 14").unwrap();
    bad[place] ^= 1;
    let harmed = disk.kill();
    harmed.put(&run.file.name(), &bad);
    let cut = harmed.power_cut(1);
    let report = verified(&cut);
    assert_eq!(
        report.findings.iter().map(|finding| (finding.fault, finding.class)).collect::<Vec<_>>(),
        [(Fault::Ring, LossClass::PowerCut)]
    );
    let read = entries(&cut);
    assert_eq!(read.len(), all.len() - 1);
    let repaired = cut.kill();
    drop(Writer::open_on(cut.shared(), options()).unwrap());
    assert_eq!(entries(&cut), read);
    assert!(verified(&cut).is_sound(true), "{:#?}", verified(&cut).findings);
    repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!(entries(&repaired), read);
    assert!(verified(&repaired).is_sound(false));
}
