//! The damage matrix: a small log, harmed in every way that can be listed, then read, verified, repaired and continued.
//!
//! For each case: what is read is an in-order, unaltered subset of what was written; each entry that is missing is told,
//! by its exact number or as unknown after a number; `verify` and the reader find the same; `repair` loses nothing more,
//! declares what is lost, makes the log sound, and has nothing to do a second time; and the log can be written again.

use std::collections::BTreeSet;
use std::sync::Arc;

use logtool::format::{HEADER_BYTES, HEADER_COPY_BYTES};
use logtool::state::{PID_BYTES, read_state};
use logtool::storage::Storage;
use logtool::storage_sim::SimStorage;
use logtool::{Compression, Fault, Finding, Item, LogReader, Loss, Options, Report, Snapshot, SyncPolicy};
use logtool::{VerifyOptions, Writer, repair, verify};

/// Number and text.
pub(crate) type Line = (u64, Vec<u8>);

const ONE_THREAD: VerifyOptions = VerifyOptions { threads: 1 };

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) compressed: bool,
    /// Closed at the end, or killed.
    pub(crate) closed: bool,
}

pub(crate) const PLAIN: Shape = Shape { compressed: false, closed: true };
pub(crate) const PLAIN_KILLED: Shape = Shape { compressed: false, closed: false };
pub(crate) const COMPRESSED: Shape = Shape { compressed: true, closed: true };

pub(crate) fn options(compressed: bool) -> Options {
    let compression = if compressed { Compression::Zstd(1) } else { Compression::None };
    Options { compression, sync: SyncPolicy::Never, preallocate_bytes: 0, ..Options::default() }
}

/// A log of three segments with five lines each, and its lines.
pub(crate) fn log(shape: Shape) -> (SimStorage, Vec<Line>) {
    let disk = SimStorage::new();
    let mut writer = Writer::open_on(disk.shared(), options(shape.compressed)).unwrap();
    let mut lines = Vec::new();
    for segment in 0..3 {
        for number in 0..5u32 {
            let text = format!("segment {segment} line {number} {}", "x".repeat(number as usize * 3));
            let time_ns = 1_000_000_000 * i64::from(number);
            let seq = writer.line(text.as_bytes(), 0, time_ns).unwrap();
            lines.push((seq, text.into_bytes()));
            if number % 2 == 1 {
                writer.flush().unwrap();
            }
        }
        writer.flush().unwrap();
        if segment < 2 {
            writer.roll().unwrap();
        }
    }
    if shape.closed {
        writer.close().unwrap();
        return (disk, lines);
    }
    (disk.kill(), lines)
}

/// Names of the segments, in order.
pub(crate) fn segments(disk: &SimStorage) -> Vec<String> {
    let names = disk.shared().list().unwrap();
    names.into_iter().map(|entry| entry.name).filter(|name| name.ends_with(".flog")).collect()
}

/// All files and what they hold.
pub(crate) fn content(disk: &SimStorage) -> Vec<(String, Vec<u8>)> {
    let storage = disk.shared();
    let quarantined = storage.list_quarantine().unwrap().into_iter().map(|entry| format!("quarantine/{}", entry.name));
    let names = storage.list().unwrap().into_iter().filter(|entry| entry.is_file).map(|entry| entry.name);
    names.chain(quarantined).map(|name| (name.clone(), disk.content(&name).unwrap())).collect()
}

/// What a reader gives.
pub(crate) fn read(disk: &SimStorage) -> (Vec<Line>, Vec<Finding>) {
    let (mut lines, mut findings) = (Vec::new(), Vec::new());
    let Ok(snapshot) = Snapshot::take(disk.shared()) else { return (lines, findings) };
    let mut reader = LogReader::new(snapshot);
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(entry) => lines.push((entry.seq, entry.body.to_vec())),
            Item::Finding(finding) => findings.push(finding),
            Item::Note(_) => {}
        }
    }
    (lines, findings)
}

pub(crate) fn verified(disk: &SimStorage) -> Report {
    verify(&Snapshot::take(disk.shared()).unwrap(), &ONE_THREAD, &|_| {})
}

pub(crate) fn repaired(disk: &SimStorage) -> repair::Repaired {
    let storage: Arc<dyn Storage> = disk.shared();
    repair::repair(&storage, &ONE_THREAD, &|_| {}).unwrap()
}

/// What a case came to.
pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) missing: BTreeSet<u64>,
}

/// Holds one harmed log against all that must be true of it.
#[track_caller]
pub(crate) fn examine(case: &str, disk: &SimStorage, truth: &[Line]) -> Outcome {
    let outcome = examine_reading(case, disk, truth);
    examine_repair(case, disk, truth, &outcome);
    outcome
}

/// The half that changes nothing.
#[track_caller]
pub(crate) fn examine_reading(case: &str, disk: &SimStorage, truth: &[Line]) -> Outcome {
    let (lines, findings) = read(disk);
    let mut rest = truth.iter();
    for line in &lines {
        assert!(rest.any(|true_line| true_line == line), "{case}: invented, altered or reordered: {line:?}");
    }
    let there: BTreeSet<u64> = lines.iter().map(|line| line.0).collect();
    let missing: BTreeSet<u64> = truth.iter().map(|line| line.0).filter(|seq| !there.contains(seq)).collect();
    let report = verified(disk);
    for seq in &missing {
        let told = report.findings.iter().any(|finding| match finding.loss {
            Loss::Seqs(seqs) => (seqs.first..=seqs.last).contains(seq),
            Loss::UnknownAfter(after) => *seq > after,
            Loss::Nothing => false,
        });
        assert!(told, "{case}: seq {seq} is missing without a word: {:#?}", report.findings);
    }
    assert_eq!(report.entries, lines.len() as u64, "{case}");
    let same = |findings: &[Finding]| -> Vec<(Fault, Loss)> {
        findings.iter().map(|found| (found.fault, found.loss)).collect()
    };
    assert_eq!(same(&findings), same(&report.findings), "{case}: reader and verify disagree");
    for finding in &report.findings {
        if let Loss::Seqs(seqs) = finding.loss {
            let lost = (seqs.first..=seqs.last).all(|seq| !there.contains(&seq));
            assert!(lost, "{case}: told as lost, but there: {finding:?}");
        }
    }
    Outcome { report, missing }
}

/// The half that repairs and goes on writing.
#[track_caller]
pub(crate) fn examine_repair(case: &str, disk: &SimStorage, truth: &[Line], outcome: &Outcome) {
    let disk = disk.kill();
    let before = read(&disk).0;
    let done = repaired(&disk);
    assert!(done.unsettled.is_empty(), "{case}: {:#?}", done.unsettled);
    let report = verified(&disk);
    assert!(report.is_sound(false), "{case}: not sound after {:#?}: {:#?}", done.actions, report.findings);
    assert_eq!(read(&disk).0, before, "{case}: repair changed what is read");
    for seq in &outcome.missing {
        let declared = report.notes.declared.iter().any(|(seqs, _)| (seqs.first..=seqs.last).contains(seq));
        assert!(declared, "{case}: loss of seq {seq} is not declared: {:#?}", report.notes);
    }
    let once = content(&disk);
    assert!(repaired(&disk).actions.is_empty(), "{case}: a second repair finds something to do");
    assert_eq!(content(&disk), once, "{case}: a second repair changed something");

    let mut writer = Writer::open_on(disk.shared(), options(false)).unwrap();
    let mut all = before;
    for text in [b"appended 1", b"appended 2"] {
        let seq = writer.line(text, 0, 7).unwrap();
        assert!(truth.iter().all(|line| line.0 < seq), "{case}: seq {seq} is used again");
        all.push((seq, text.to_vec()));
    }
    writer.close().unwrap();
    assert_eq!(read(&disk).0, all, "{case}: what was appended is not read");
    let report = verified(&disk);
    assert!(report.is_sound(false), "{case}: not sound after writing again: {:#?}", report.findings);
}

#[test]
fn a_log_without_damage_is_sound_and_needs_no_repair() {
    for shape in [PLAIN, PLAIN_KILLED, COMPRESSED] {
        let (disk, lines) = log(shape);
        let outcome = examine(&format!("{shape:?}"), &disk, &lines);
        assert!(outcome.report.is_sound(true), "{shape:?}: {:#?}", outcome.report.findings);
        assert_eq!(outcome.report.entries, 15);
        assert!(repaired(&disk).actions.is_empty());
    }
}

/// Whether a bit of a byte is tried: all of them in frames and in what a header holds; of the zeros in a header, which one
/// checksum covers as a whole, one a byte. `DAMAGE=full` in the environment tries all.
fn is_tried(byte: usize, bit: usize) -> bool {
    let filled = byte >= HEADER_BYTES || (0..160).contains(&(byte % HEADER_COPY_BYTES));
    filled
        || byte % HEADER_COPY_BYTES >= HEADER_COPY_BYTES - 4
        || bit == byte % 8
        || std::env::var_os("DAMAGE").is_some()
}

/// nats-server#7549; DESIGN: one damaged frame costs one entry, or one block where compressed.
fn every_bit(shape: Shape) {
    let (disk, lines) = log(shape);
    let costs_at_most = if shape.compressed { 2 } else { 1 };
    for name in segments(&disk) {
        let good = disk.content(&name).unwrap();
        for at in 0..good.len() * 8 {
            let (byte, bit) = (at / 8, at % 8);
            if !is_tried(byte, bit) {
                continue;
            }
            let harmed = disk.kill();
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            harmed.put(&name, &bad);
            let case = format!("{shape:?}, {name}: bit {bit} of byte {byte}");
            let outcome = examine_reading(&case, &harmed, &lines);
            assert!(outcome.missing.len() <= costs_at_most, "{case}: costs {:?}", outcome.missing);
            assert!(!outcome.report.is_sound(false), "{case}: not found");
            // All bits of a word are repaired by the same bytes: one of each is.
            if byte % 8 == 3 && bit == byte / 8 % 8 {
                examine_repair(&case, &harmed, &lines, &outcome);
            }
        }
    }
}

#[test]
fn every_flipped_bit_of_a_plain_log() {
    every_bit(PLAIN);
}

#[test]
fn every_flipped_bit_of_a_compressed_log() {
    every_bit(COMPRESSED);
}

/// The record is evidence and nothing more: without it no entry is lost, but nothing tells any more whether there were others.
#[test]
fn every_flipped_bit_of_the_writers_record() {
    for shape in [PLAIN, PLAIN_KILLED] {
        let (disk, lines) = log(shape);
        let good = disk.content("writer.lock").unwrap();
        for at in 0..good.len() * 8 {
            let harmed = disk.kill();
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            harmed.put("writer.lock", &bad);
            let case = format!("{shape:?}: bit {at} of the record");
            let outcome = examine_reading(&case, &harmed, &lines);
            assert!(outcome.missing.is_empty(), "{case}");
            let is_there = read_state(&harmed).unwrap().is_some();
            assert_eq!(outcome.report.is_sound(false), is_there, "{case}: {:#?}", outcome.report.findings);
            assert!(!is_there || at / 8 < PID_BYTES || at / 8 == good.len() - 1, "{case}");
            if at % 61 == 0 {
                examine_repair(&case, &harmed, &lines, &outcome);
            }
        }
    }
}
