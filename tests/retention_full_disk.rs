//! Retention on a disk that takes no more: what goes is on record first, in `writer.lock`, which is written in place.

use std::fs;
use std::io::ErrorKind::{Other, StorageFull};
use std::path::{Path, PathBuf};

use logtool::control::RetentionRule;
use logtool::segment::SegmentName;
use logtool::storage::Storage;
use logtool::storage_sim::{Call, Fault, SimStorage};
use logtool::{
    ErrorKind, Fault as Wrong, Follower, Item, Loss, Options, Report, SeqRange, Snapshot, Start, SyncPolicy,
    VerifyOptions, Writer,
};

use crate::harness::temp_dir;
use crate::write::SmallDisk;

fn options(sync: SyncPolicy) -> Options {
    Options { preallocate_bytes: 0, ..Options::new().sync(sync).roll_bytes(4096).batch_bytes(500) }
}

fn verified(snapshot: Snapshot) -> Report {
    logtool::verify(&snapshot, &VerifyOptions { threads: 1 }, &|_| {})
}

fn verify(sim: &SimStorage) -> Report {
    verified(Snapshot::take(sim.shared()).unwrap())
}

fn segments(sim: &SimStorage) -> usize {
    sim.list().unwrap().iter().filter(|entry| SegmentName::parse(&entry.name).is_some()).count()
}

/// A log of some segments.
fn log(sync: SyncPolicy) -> (SimStorage, Writer) {
    let sim = SimStorage::new();
    let mut writer = Writer::open_on(sim.shared(), options(sync)).unwrap();
    for _ in 0..60 {
        writer.line(&[b'x'; 200], 0, 1).unwrap();
    }
    writer.flush().unwrap();
    (sim, writer)
}

/// No byte more, also when segments go: others are faster.
fn fill(sim: &SimStorage, writer: &mut Writer) {
    sim.set_capacity(Some(0));
    while writer.line(&[b'y'; 200], 0, 1).is_ok() {}
}

/// The first number that is there, after what was removed before was told as such and as nothing else.
#[track_caller]
fn removed_is_told(report: &Report, what: &str) -> u64 {
    let missing: Vec<_> = report.findings.iter().filter(|finding| finding.fault == Wrong::MissingSegment).collect();
    assert!(missing.is_empty(), "{what}: {missing:?}");
    let first = report.first_seq.unwrap();
    let told: Vec<SeqRange> = report.notes.retention.iter().map(|(seqs, _)| *seqs).collect();
    assert_eq!(told, SeqRange::new(1, first - 1).into_iter().collect::<Vec<_>>(), "{what}");
    first
}

/// Removes twice and stops after each call, also where power is cut; the log must be read as kept from where it starts, by
/// readers and by the next run, which goes on with the next number.
fn stopped_anywhere(sync: SyncPolicy, trouble: fn(&SimStorage, &mut Writer)) {
    let mut calls = 0;
    loop {
        let (sim, mut writer) = log(sync);
        trouble(&sim, &mut writer);
        sim.stop_after(sim.calls() + calls);
        let done = writer.remove_oldest().and_then(|_| writer.remove_oldest());
        let mut images = vec![(sim.kill(), true)];
        if sync != SyncPolicy::Never {
            images.extend((0..6).map(|seed| (sim.power_cut(seed + if seed < 2 { 0 } else { calls }), false)));
        }
        for (number, (image, is_kill)) in images.into_iter().enumerate() {
            let what = format!("{sync:?}, stopped after {calls} calls, image {number}");
            image.set_capacity(None);
            let report = verify(&image);
            let first = removed_is_told(&report, &what);
            assert!(!is_kill || report.findings.iter().all(|finding| finding.loss == Loss::Nothing), "{what}");
            let mut writer = Writer::open_on(image.shared(), options(sync)).unwrap();
            assert!(!is_kill || writer.next_seq() == report.last_seq + 1, "{what}: {}", writer.next_seq());
            writer.line(b"goes on", 0, 1).unwrap();
            // The record is not all that tells it from now on.
            while writer.remove_oldest().unwrap() {}
            writer.close().unwrap();
            let report = verify(&image);
            assert!(removed_is_told(&report, &what) > first, "{what}");
            assert!(!is_kill || report.is_sound(false), "{what}: {:?}", report.findings);
        }
        if done.is_ok() {
            break;
        }
        calls += 1;
    }
    assert!(calls >= 4, "{calls}");
}

#[test]
fn stopped_anywhere_while_it_removes_on_a_full_disk_nothing_removed_is_told_as_lost() {
    stopped_anywhere(SyncPolicy::EachBatch, fill);
    stopped_anywhere(SyncPolicy::Never, fill);
}

/// The second try must not take for granted what the first one has not written.
#[test]
fn stopped_anywhere_in_a_second_try_nothing_removed_is_told_as_lost() {
    let first_try_fails = |sim: &SimStorage, writer: &mut Writer| {
        sim.fail(Some(Call::Write), 0, 1, Fault::Error(Other));
        let before = segments(sim);
        assert!(writer.remove_oldest().is_err());
        assert_eq!(segments(sim), before);
    };
    stopped_anywhere(SyncPolicy::EachBatch, first_try_fails);
    stopped_anywhere(SyncPolicy::Never, first_try_fails);
}

/// Opening on a full disk makes room for the new segment; stopped after each call, nothing that it removed is told as lost.
#[test]
fn stopped_anywhere_while_opening_makes_room_nothing_removed_is_told_as_lost() {
    for calls in 0.. {
        let (sim, writer) = log(SyncPolicy::EachBatch);
        drop(writer);
        let before = segments(&sim);
        sim.set_capacity(Some(sim.used()));
        let refused = Writer::open_on(sim.shared(), options(SyncPolicy::EachBatch)).unwrap_err();
        assert_eq!((refused.kind(), segments(&sim)), (ErrorKind::NoSpace, before));
        sim.stop_after(sim.calls() + calls);
        let opened = Writer::open_on(sim.shared(), options(SyncPolicy::EachBatch).makes_room(true));
        for (number, image) in [sim.kill(), sim.power_cut(calls), sim.power_cut(calls + 1)].into_iter().enumerate() {
            image.set_capacity(None);
            let what = format!("stopped after {calls} calls, image {number}");
            removed_is_told(&verify(&image), &what);
            Writer::open_on(image.shared(), options(SyncPolicy::EachBatch)).unwrap().close().unwrap();
            let first = removed_is_told(&verify(&image), &what);
            assert!(opened.is_err() || (first > 1 && segments(&image) > 1), "{what}");
        }
        if opened.is_ok() {
            assert!(calls > 4, "{calls}");
            break;
        }
    }
}

#[test]
fn the_mark_is_written_once_there_is_room_and_tells_the_rule() {
    let (sim, mut writer) = log(SyncPolicy::EachBatch);
    fill(&sim, &mut writer);
    assert!(writer.remove_oldest().unwrap());
    let rule = |sim: &SimStorage| verify(sim).notes.retention[0].1;
    assert_eq!(rule(&sim), None);
    sim.set_capacity(None);
    writer.flush().unwrap();
    assert_eq!(rule(&sim), Some(RetentionRule::DiskFull));
    writer.close().unwrap();
    assert!(verify(&sim).is_sound(true));
}

#[test]
fn what_cannot_be_recorded_is_not_removed() {
    let (sim, mut writer) = log(SyncPolicy::EachBatch);
    let before = segments(&sim);
    fill(&sim, &mut writer);
    sim.fail(Some(Call::Write), 0, u64::MAX, Fault::Error(StorageFull));
    let error = writer.remove_oldest().unwrap_err();
    assert!(error.kind() == ErrorKind::NoSpace && error.to_string().contains("nothing is removed"), "{error}");
    sim.heal();
    sim.set_capacity(Some(0));
    sim.fail(Some(Call::Sync), 0, 1, Fault::Error(Other));
    assert!(writer.remove_oldest().is_err());
    assert_eq!(segments(&sim), before);
    assert!(writer.remove_oldest().unwrap());
    assert_eq!(segments(&sim), before - 1);
    removed_is_told(&verify(&sim), "after all");
}

#[test]
fn of_a_log_without_segments_what_retention_had_removed_is_not_told_as_lost() {
    let (sim, mut writer) = log(SyncPolicy::EachBatch);
    writer.remove_oldest().unwrap();
    let kept = verify(&sim).first_seq.unwrap();
    let last = writer.close().unwrap().last_seq;
    for entry in sim.list().unwrap().iter().filter(|entry| SegmentName::parse(&entry.name).is_some()) {
        sim.delete(&entry.name);
    }
    let removed = [(SeqRange::new(1, kept - 1).unwrap(), None)];
    let lost = SeqRange::new(kept, last).unwrap();
    let report = verify(&sim);
    assert_eq!(report.notes.retention, removed);
    let losses: Vec<Loss> = report.findings.iter().map(|finding| finding.loss).collect();
    assert_eq!(losses, [Loss::Seqs(lost)]);
    // Also behind a repair, and behind a run that comes before it.
    for runs_before in 0..2 {
        let sim = sim.kill();
        for _ in 0..runs_before {
            let mut writer = Writer::open_on(sim.shared(), options(SyncPolicy::EachBatch)).unwrap();
            assert_eq!(writer.line(b"goes on", 0, 1).unwrap(), last + 1);
            writer.close().unwrap();
        }
        crate::damage::repaired(&sim);
        let report = verify(&sim);
        assert!(report.is_sound(false), "{:?}", report.findings);
        assert_eq!(report.notes.retention, removed);
        assert_eq!(report.notes.declared.iter().map(|(seqs, _)| *seqs).collect::<Vec<_>>(), [lost]);
    }
}

/// A log with small segments on a real file system that it has filled, and names of its segments. Their space stays taken
/// when they go: each has another name outside the log.
fn filled(disk: &SmallDisk, begun: impl FnOnce(&mut Writer)) -> (PathBuf, Writer, Vec<String>) {
    let log = disk.0.path().join("log");
    let options = Options { preallocate_bytes: 0, ..Options::new().sync(SyncPolicy::EachBatch).roll_bytes(64 << 10) };
    let mut writer = Writer::open(&log, options).unwrap();
    begun(&mut writer);
    while writer.line(&[b'x'; 1000], 0, 1).and_then(|_| writer.flush()).is_ok() {}
    let names = segment_names(&log);
    names.iter().for_each(|name| fs::hard_link(log.join(name), disk.0.path().join(name)).unwrap());
    (log, writer, names)
}

fn segment_names(log: &Path) -> Vec<String> {
    let files = fs::read_dir(log).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files.filter(|name| SegmentName::parse(name).is_some()).collect();
    names.sort();
    names
}

#[test]
fn a_real_disk_that_stays_full_takes_the_record_of_what_is_removed() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let (log, mut writer, before) = filled(&disk, |_| ());
    let flushed = writer.stats().flushed_seq;
    assert!(writer.remove_oldest().unwrap());
    assert_eq!(segment_names(&log), before[1..]);
    assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::NoSpace, "the mark waits");
    // What a kill would leave now.
    let killed = temp_dir();
    for file in fs::read_dir(&log).unwrap().map(|file| file.unwrap()) {
        fs::copy(file.path(), killed.path().join(file.file_name())).unwrap();
    }
    let verify = |dir: &Path| verified(logtool::snapshot_of(dir).unwrap());
    let report = verify(killed.path());
    assert!(report.is_sound(false), "{:?}", report.findings);
    assert!(removed_is_told(&report, "killed") > 1);
    let mut next = Writer::open(killed.path(), options(SyncPolicy::EachBatch)).unwrap();
    assert_eq!(next.line(b"goes on", 0, 1).unwrap(), flushed + 1);
    next.close().unwrap();
    assert!(verify(killed.path()).is_sound(false));
    before.iter().for_each(|name| fs::remove_file(disk.0.path().join(name)).unwrap());
    writer.close().unwrap();
    assert_eq!(verify(&log).notes.retention[0].1, Some(RetentionRule::DiskFull));
}

#[test]
fn a_follower_tells_what_was_removed_on_a_full_disk_as_removed() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let log = disk.0.path().join("log");
    let mut follower = None;
    let (_, mut writer, _) = filled(&disk, |writer| {
        writer.line(b"the first", 0, 1).unwrap();
        writer.flush().unwrap();
        let mut begun = Follower::open(&log, Start::First).unwrap();
        while !matches!(begun.try_next().unwrap(), Some(Item::Entry(_))) {}
        follower = Some(begun);
    });
    (0..3).for_each(|_| assert!(writer.remove_oldest().unwrap()));
    let (mut follower, mut removed, mut last) = (follower.unwrap(), Vec::new(), 0);
    while let Some(item) = follower.try_next().unwrap() {
        match item {
            Item::Entry(entry) => last = entry.seq,
            Item::Note(note) => removed.extend(note.kind.seqs()),
            Item::Finding(finding) => panic!("{finding:?}"),
        }
    }
    assert_eq!(last, writer.stats().flushed_seq);
    assert_eq!(removed.len(), 1, "{removed:?}");
}
