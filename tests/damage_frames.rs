//! The damage matrix beyond bits: cuts, lost sectors, frames and segments that are swapped, repeated, deleted or foreign.

use logtool::format::{FrameKind, HEADER_BYTES, HEADER_COPY_BYTES};
use logtool::scan::{Found, FrameScan};
use logtool::segment::SegmentHeader;
use logtool::storage_sim::SimStorage;
use logtool::{Fault, Loss, SeqRange};

use crate::damage::{COMPRESSED, Line, PLAIN, PLAIN_KILLED, Shape, examine, log, read, repaired, segments, verified};

/// A sector of a disk.
const SECTOR_BYTES: usize = 512;

/// Where the frames of a segment stand.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let header = SegmentHeader::decode(bytes[..HEADER_COPY_BYTES].try_into().unwrap()).unwrap();
    let mut scan = FrameScan::new(bytes, header.segment_id, HEADER_BYTES as u64, bytes.len() as u64, 0);
    let mut found = Vec::new();
    while let Some(Found::Frame { offset, header, .. }) = scan.next_found().unwrap() {
        found.push(offset as usize..(offset + header.frame_bytes()) as usize);
    }
    found
}

/// The log with one segment's bytes changed.
fn with(disk: &SimStorage, name: &str, bytes: &[u8]) -> SimStorage {
    let harmed = disk.kill();
    harmed.put(name, bytes);
    harmed
}

/// zstd#1109: also a cut at a frame's boundary is found.
fn every_cut(shape: Shape) {
    let (disk, lines) = log(shape);
    for name in segments(&disk) {
        let good = disk.content(&name).unwrap();
        for len in 0..good.len() {
            // Within a copy of the header all cuts are alike but at its ends.
            if len % HEADER_COPY_BYTES > 2 && len < HEADER_BYTES && !len.is_multiple_of(64) {
                continue;
            }
            let case = format!("{shape:?}, {name} cut to {len} of {} bytes", good.len());
            let outcome = examine(&case, &with(&disk, &name, &good[..len]), &lines);
            assert!(!outcome.report.is_sound(false) || outcome.missing.is_empty(), "{case}: not found");
            assert!(!outcome.report.is_sound(false) || !shape.closed, "{case}: not found");
        }
    }
}

#[test]
fn a_plain_log_cut_at_every_byte() {
    every_cut(PLAIN);
}

#[test]
fn a_killed_log_cut_at_every_byte() {
    every_cut(PLAIN_KILLED);
}

#[test]
fn a_compressed_log_cut_at_every_byte() {
    every_cut(COMPRESSED);
}

#[test]
fn every_sector_zeroed() {
    for shape in [PLAIN, PLAIN_KILLED, COMPRESSED] {
        let (disk, lines) = log(shape);
        for name in segments(&disk) {
            let good = disk.content(&name).unwrap();
            for start in (0..good.len()).step_by(SECTOR_BYTES) {
                let mut bad = good.clone();
                let end = good.len().min(start + SECTOR_BYTES);
                bad[start..end].fill(0);
                let case = format!("{shape:?}, {name}: zeros from {start} to {end}");
                let outcome = examine(&case, &with(&disk, &name, &bad), &lines);
                assert!(!outcome.report.is_sound(false), "{case}: not found");
            }
            for end in (0..good.len()).step_by(SECTOR_BYTES).skip(1).chain([good.len()]) {
                let mut bad = good.clone();
                bad[..end].fill(0);
                let case = format!("{shape:?}, {name}: zeros up to {end}");
                examine(&case, &with(&disk, &name, &bad), &lines);
            }
        }
    }
}

#[test]
fn frames_swapped_repeated_and_deleted() {
    for shape in [PLAIN, COMPRESSED] {
        let (disk, lines) = log(shape);
        for name in segments(&disk) {
            let good = disk.content(&name).unwrap();
            let all = frames(&good);
            for (number, one) in all.iter().enumerate() {
                let case = format!("{shape:?}, {name}: frame {number}");
                let deleted = [&good[..one.start], &good[one.end..]].concat();
                examine(&format!("{case} deleted"), &with(&disk, &name, &deleted), &lines);
                let repeated = [&good[..one.end], &good[one.start..]].concat();
                examine(&format!("{case} repeated"), &with(&disk, &name, &repeated), &lines);
                for other in &all[number + 1..] {
                    let parts = [
                        &good[..one.start],
                        &good[other.clone()],
                        &good[one.end..other.start],
                        &good[one.clone()],
                        &good[other.end..],
                    ];
                    let case = format!("{case} swapped with that at {}", other.start);
                    let outcome = examine(&case, &with(&disk, &name, &parts.concat()), &lines);
                    assert!(!outcome.report.is_sound(false), "{case}: not found");
                }
            }
        }
    }
}

/// pebble#580: frames of another file are never taken for one's own, wherever they stand.
#[test]
fn frames_of_another_log_spliced_in() {
    for shape in [PLAIN, COMPRESSED] {
        let ((disk, lines), (other, _)) = (log(shape), log(shape));
        for (name, other_name) in segments(&disk).iter().zip(segments(&other)) {
            let (good, foreign) = (disk.content(name).unwrap(), other.content(&other_name).unwrap());
            for (own, their) in frames(&good).into_iter().zip(frames(&foreign)) {
                let spliced = [&good[..own.start], &foreign[their.clone()], &good[own.end..]].concat();
                let case = format!("{shape:?}, {name}: frame at {} from another log", own.start);
                let outcome = examine(&case, &with(&disk, name, &spliced), &lines);
                assert!(!outcome.report.is_sound(false), "{case}: not found");
            }
            // A shorter segment written over the bytes of a longer one.
            let over = [&good[..good.len() - 100], &foreign[foreign.len() - 100..]].concat();
            examine(&format!("{shape:?}, {name}: another log's end"), &with(&disk, name, &over), &lines);
        }
    }
}

#[test]
fn segments_of_another_log_are_set_aside() {
    let ((disk, lines), (other, _)) = (log(PLAIN), log(PLAIN));
    for (name, other_name) in segments(&disk).iter().zip(segments(&other)) {
        let foreign = other.content(&other_name).unwrap();
        let outcome = examine(&format!("{name} replaced"), &with(&disk, name, &foreign), &lines);
        assert_eq!(outcome.missing.len(), 5);
        let added = with(&disk, "00000009-20261130T120000Z.flog", &foreign);
        let outcome = examine(&format!("{name} added"), &added, &lines);
        assert!(outcome.missing.is_empty());
        assert_eq!(outcome.report.findings[0].fault, Fault::Foreign);
    }
}

/// prometheus tsdb#528: what is missing is told with its own numbers.
#[test]
fn deleted_segments_are_told_with_their_exact_numbers() {
    for shape in [PLAIN, PLAIN_KILLED, COMPRESSED] {
        let (disk, lines) = log(shape);
        let names = segments(&disk);
        for pick in 1..8usize {
            let harmed = disk.kill();
            let picked = |at: &usize| pick & (1 << at) != 0;
            (0..3).filter(picked).for_each(|at| harmed.delete(&names[at]));
            let outcome = examine(&format!("{shape:?}: segments {pick:03b} deleted"), &harmed, &lines);
            assert_eq!(outcome.missing.len(), 5 * (0..3).filter(picked).count());
            assert!(outcome.report.findings.iter().all(|finding| !matches!(finding.loss, Loss::UnknownAfter(_))));
        }
    }
}

#[test]
fn without_the_record_the_end_of_a_log_is_never_called_sound_when_it_is_missing() {
    for shape in [PLAIN, PLAIN_KILLED, COMPRESSED] {
        let (disk, lines) = log(shape);
        let harmed = disk.kill();
        harmed.delete("writer.lock");
        harmed.delete(&segments(&disk)[2]);
        let outcome = examine(&format!("{shape:?}"), &harmed, &lines);
        assert_eq!(outcome.report.unknown_after, [10]);
    }
}

#[test]
fn segments_swapped_by_name_are_read_in_their_own_order() {
    let (disk, lines) = log(PLAIN);
    let names = segments(&disk);
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let harmed = disk.kill();
        harmed.put(&names[one], &disk.content(&names[other]).unwrap());
        harmed.put(&names[other], &disk.content(&names[one]).unwrap());
        let outcome = examine(&format!("{one} and {other} swapped"), &harmed, &lines);
        assert!(outcome.missing.is_empty());
    }
}

#[test]
fn a_second_copy_of_a_segment_is_set_aside() {
    let (disk, lines) = log(PLAIN);
    for name in segments(&disk) {
        let content = disk.content(&name).unwrap();
        for (len, copy) in [(content.len(), "00000000-20261130T120000Z.flog"), (1100, "00000008-20261130T120000Z.flog")]
        {
            let harmed = with(&disk, copy, &content[..len]);
            let outcome = examine(&format!("{name} as {copy}"), &harmed, &lines);
            assert!(outcome.missing.is_empty(), "the longer copy is the one to read");
        }
    }
}

/// Kinds of damage that meet in one log.
#[test]
fn damage_in_several_places_is_repaired_at_once() {
    let (disk, lines) = log(PLAIN);
    let names = segments(&disk);
    let harmed = disk.kill();
    let mut first = disk.content(&names[0]).unwrap();
    let places = frames(&first);
    first[places[2].start + 30] ^= 1;
    first[0] ^= 1;
    harmed.put(&names[0], &first);
    let second = disk.content(&names[1]).unwrap();
    harmed.put(&names[1], &second[..second.len() - 150]);
    harmed.put(&names[2], &[7; 3000]);
    let outcome = examine("several", &harmed, &lines);
    let lost: Vec<SeqRange> = outcome
        .report
        .findings
        .iter()
        .filter_map(|finding| if let Loss::Seqs(seqs) = finding.loss { Some(seqs) } else { None })
        .collect();
    assert_eq!(lost.last(), Some(&SeqRange { first: 10, last: 15 }));
    let repair = repaired(&harmed.kill());
    assert!(repair.actions.len() >= 4, "{:#?}", repair.actions);
}

/// A repair that is stopped after any of its calls is finished by the next one, and saves all that it changes.
#[test]
fn a_repair_killed_at_any_call_is_finished_by_the_next() {
    for (case, harmed, lines) in kinds_of_damage() {
        let before = read(&harmed).0;
        let whole = harmed.kill();
        let start = whole.calls();
        repaired(&whole);
        let declared = verified(&whole).notes.declared_count;
        let calls = whole.calls() - start;
        for stop in 0..calls {
            let stopped = harmed.kill();
            stopped.stop_after(stopped.calls() + stop);
            let storage = stopped.shared();
            let first = logtool::repair::repair(&storage, &logtool::VerifyOptions { threads: 1 }, &|_| {});
            assert!(first.is_err() || stop + 40 > calls, "{case}: not stopped after {stop} of {calls}");
            let next = stopped.kill();
            let done = repaired(&next);
            assert!(done.unsettled.is_empty(), "{case}, stopped after {stop}: {:#?}", done.unsettled);
            let report = verified(&next);
            assert!(report.is_sound(false), "{case}, stopped after {stop}: {:#?}", report.findings);
            assert_eq!(read(&next).0, before, "{case}, stopped after {stop}");
            let names = next.shared().list().unwrap();
            assert!(names.iter().all(|entry| !entry.name.ends_with(".tmp")), "{case}, stopped after {stop}: {names:?}");
            assert_eq!(report.notes.declared_count, declared, "{case}, stopped after {stop}");
            assert!(lines.len() as u64 <= report.entries + declared, "{case}, stopped after {stop}");
        }
    }
}

fn kinds_of_damage() -> Vec<(&'static str, SimStorage, Vec<Line>)> {
    let (disk, lines) = log(PLAIN);
    let names = segments(&disk);
    let second = disk.content(&names[1]).unwrap();
    let third = disk.content(&names[2]).unwrap();
    let mut hole = second.clone();
    hole[frames(&second)[1].start + 30] ^= 1;
    let mut both_headers = second.clone();
    both_headers[..HEADER_BYTES].fill(9);
    let (killed, killed_lines) = log(PLAIN_KILLED);
    let newest = segments(&killed)[2].clone();
    let tail = [killed.content(&newest).unwrap(), vec![1, 2, 3]].concat();
    let missing = disk.kill();
    missing.delete(&names[1]);
    let unknown = killed.kill();
    unknown.delete("writer.lock");
    vec![
        ("hole", with(&disk, &names[1], &hole), lines.clone()),
        ("short", with(&disk, &names[1], &second[..second.len() - 200]), lines.clone()),
        ("header", with(&disk, &names[1], &both_headers), lines.clone()),
        ("unreadable newest", with(&disk, &names[2], &[7; 3000]), lines.clone()),
        ("sealed newest cut", with(&disk, &names[2], &third[..third.len() - 9]), lines.clone()),
        ("torn tail", with(&killed, &newest, &tail), killed_lines.clone()),
        ("missing", missing, lines),
        ("nothing tells the end", unknown, killed_lines),
    ]
}

#[test]
fn what_is_cut_or_overwritten_is_saved_as_it_was() {
    let (disk, _) = log(PLAIN);
    let name = segments(&disk)[1].clone();
    let mut bad = disk.content(&name).unwrap();
    let entry = frames(&bad)
        .into_iter()
        .find(|frame| bad[frame.start + 1] == FrameKind::Entry as u8 && frame.start > HEADER_BYTES)
        .unwrap();
    bad[entry.start + 40] ^= 1;
    let harmed = with(&disk, &name, &bad);
    repaired(&harmed);
    let saved = format!("quarantine/{name}.at-{}-{}", entry.start, entry.len());
    assert_eq!(harmed.content(&saved).unwrap(), bad[entry.clone()]);
    // Another fault at the same place later does not cost what was saved first.
    let mut again = harmed.content(&name).unwrap();
    again[entry.start + 3] ^= 4;
    harmed.put(&name, &again);
    repaired(&harmed);
    assert_eq!(harmed.content(&saved).unwrap(), bad[entry.clone()]);
    assert_eq!(harmed.content(&format!("{saved}.2")).unwrap(), again[entry]);
}

#[test]
fn a_clean_copy_has_the_same_entries_declares_all_losses_and_leaves_the_log_alone() {
    for (case, harmed, lines) in kinds_of_damage() {
        let before = crate::damage::content(&harmed);
        let copy = SimStorage::new();
        let options = logtool::VerifyOptions { threads: 1 };
        logtool::clean_copy::clean_copy(&harmed.shared(), &copy.shared(), &options, &|_| {}).unwrap();
        assert_eq!(crate::damage::content(&harmed), before, "{case}");
        assert_eq!(read(&copy).0, read(&harmed).0, "{case}");
        let report = verified(&copy);
        assert!(report.is_sound(false), "{case}: {:#?}", report.findings);
        assert_eq!(report.segments_sealed, report.segments, "{case}");
        assert_eq!(report.log_id, verified(&harmed).log_id, "{case}");
        assert!(lines.len() as u64 <= report.entries + report.notes.declared_count, "{case}");
        let again = logtool::clean_copy::clean_copy(&harmed.shared(), &copy.shared(), &options, &|_| {});
        assert_eq!(again.unwrap_err().kind(), logtool::ErrorKind::Invalid, "{case}: into a full directory");
    }
}
