//! The writer on a disk that fails, fills up, is killed and loses power, at every single call.

use std::collections::BTreeMap;
use std::io::ErrorKind::{Other, StorageFull, WriteZero};
use std::time::Duration;

use logtool::segment::SegmentName;
use logtool::storage::Storage;
use logtool::storage_sim::{Call, Fault, SimStorage};
use logtool::{Compression, ErrorKind, LogReader, Options, Retention, Snapshot, SyncPolicy, Writer};

use crate::writer_basic::{Contents, contents_of};

/// What a writer was given and what it has promised.
#[derive(Clone, Debug, Default)]
struct Given {
    lines: BTreeMap<u64, Vec<u8>>,
    next_seq: u64,
    flushed: u64,
    synced: u64,
}

/// Lines of one run: enough for two rolls.
const LINES: u64 = 60;

fn options() -> Options {
    Options::new().sync(SyncPolicy::EachBatch).roll_bytes(4096).batch_bytes(600).preallocate_bytes(1024)
}

/// Ways to write that differ in the calls they make: the first two and the last differ most.
fn variants() -> Vec<Options> {
    let zstd = options().compression(Compression::Zstd(1)).block_bytes(4096).batch_bytes(500);
    let never = options().sync(SyncPolicy::Never);
    let retention = Retention { keep_segments: Some(1 << 40), ..Retention::default() };
    let inline = options().sync(SyncPolicy::Interval(Duration::from_secs(3600))).sync_thread(false);
    vec![options(), zstd, never, inline.retention(retention)]
}

fn text(seq: u64, salt: u64) -> Vec<u8> {
    // Not compressible, so that all variants roll.
    let byte = |at: u64| (at + seq * 1000 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let filler = (0..seq * 37 % 300).map(|at| byte(at) as u8);
    format!("seq {seq} salt {salt} ").into_bytes().into_iter().chain(filler).collect()
}

/// Appends some lines, flushing and syncing now and then; goes on after errors.
fn work(writer: &mut Writer, given: &mut Given, count: u64, salt: u64) {
    for number in 0..count {
        let seq = writer.next_seq();
        let line = text(seq, salt);
        let _ = writer.line(&line, 0, 1_796_040_000_000_000_000 + seq as i64);
        if writer.next_seq() > seq {
            given.lines.insert(seq, line);
        }
        if number % 3 == 2 {
            given.flushed = writer.flush().map_or(given.flushed, |seq| given.flushed.max(seq));
        }
        if number % 7 == 6 {
            given.synced = writer.sync().map_or(given.synced, |seq| given.synced.max(seq));
        }
        given.next_seq = given.next_seq.max(writer.next_seq());
    }
}

fn close(writer: &mut Writer, given: &mut Given) {
    for _ in 0..40 {
        if let Ok(stats) = writer.close() {
            given.flushed = given.flushed.max(stats.flushed_seq);
            return;
        }
    }
    panic!("cannot close: {:?}", writer.stats());
}

fn read(sim: &SimStorage) -> Contents {
    contents_of(LogReader::new(Snapshot::take(sim.shared()).unwrap()))
}

/// All lines up to `upto` are there, all that is there was given, in order and once.
fn check(found: &Contents, given: &Given, upto: u64, what: &str) {
    let seqs: Vec<u64> = found.entries.iter().map(|(seq, _)| *seq).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{what}: {seqs:?}");
    for (seq, body) in &found.entries {
        assert_eq!(given.lines.get(seq), Some(body), "{what}: seq {seq}");
    }
    let missing: Vec<&u64> = given.lines.keys().filter(|seq| **seq <= upto && !seqs.contains(seq)).collect();
    assert!(missing.is_empty(), "{what}: {missing:?} of 1..={upto} are missing; found {seqs:?}, {:?}", found.findings);
}

fn segments(sim: &SimStorage) -> Vec<String> {
    let names = sim.list().unwrap_or_default().into_iter().map(|entry| entry.name);
    names.filter(|name| SegmentName::parse(name).is_some()).collect()
}

/// Calls, and writes among them, that the whole work takes when nothing fails.
fn calls_of_work(options: &Options) -> (u64, u64) {
    let sim = SimStorage::new();
    let mut given = Given::default();
    let mut writer = Writer::open_on(sim.shared(), options.clone()).unwrap();
    work(&mut writer, &mut given, LINES, 0);
    close(&mut writer, &mut given);
    let calls = (sim.calls(), sim.calls_of(Call::Write));
    assert!(segments(&sim).len() > 2);
    calls
}

/// The state of the disk when the process died at the `n`-th call.
fn died_at(options: &Options, calls: u64) -> (SimStorage, Given) {
    let (sim, mut given) = (SimStorage::new(), Given::default());
    sim.stop_after(calls);
    if let Ok(mut writer) = Writer::open_on(sim.shared(), options.clone()) {
        work(&mut writer, &mut given, LINES, 0);
        given.synced = writer.close().map_or(given.synced, |stats| stats.synced_seq);
    }
    (sim, given)
}

/// Opens the log again, writes on, closes; returns what is then read.
fn go_on(sim: &SimStorage, options: &Options, given: &mut Given, what: &str) -> Contents {
    let survived = Snapshot::take(sim.shared()).is_ok_and(|snapshot| !snapshot.segments.is_empty());
    let mut writer = Writer::open_on(sim.shared(), options.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    // Where not one segment has survived, nothing tells what was given.
    assert!(writer.next_seq() >= given.next_seq || !survived, "{what}");
    work(&mut writer, given, 5, 1);
    close(&mut writer, given);
    read(sim)
}

/// The second run appends nothing behind the first one's torn end, and hides nothing: kuzu#5852, amelie#17.
#[test]
fn killed_at_any_call_the_log_has_all_that_was_flushed_and_goes_on_without_a_finding() {
    for options in variants() {
        for calls in 0..calls_of_work(&options).0 {
            let what = format!("{:?} {:?} killed at call {calls}", options.sync, options.compression);
            let (sim, mut given) = died_at(&options, calls);
            let sim = sim.kill();
            let flushed = given.flushed;
            if !segments(&sim).is_empty() {
                check(&read(&sim), &given, flushed, &what);
            }
            let before: Vec<u64> = given.lines.keys().copied().filter(|&seq| seq > flushed).collect();
            let lost_lines: BTreeMap<u64, Vec<u8>> =
                before.iter().map(|seq| (*seq, given.lines[seq].clone())).collect();
            // Numbers that nobody saw may be given again, to other lines.
            let mut writer = Writer::open_on(sim.shared(), options.clone()).unwrap();
            let next = writer.next_seq();
            assert!(next > flushed, "{what}");
            given.lines.retain(|seq, _| *seq < next);
            work(&mut writer, &mut given, 5, 1);
            close(&mut writer, &mut given);
            let found = read(&sim);
            assert_eq!(found.findings, Vec::<String>::new(), "{what} (unflushed {:?})", lost_lines.keys());
            check(&found, &given, given.flushed, &what);
        }
    }
}

#[test]
fn after_a_power_cut_at_any_call_what_was_synced_is_there_and_no_number_is_given_twice() {
    for options in variants() {
        for calls in 0..calls_of_work(&options).0 {
            let (sim, given) = died_at(&options, calls);
            for seed in [0, 1, 2 + 3 * calls, 3 + 3 * calls, 4 + 3 * calls] {
                let what = format!("{:?} {:?} cut at call {calls} seed {seed}", options.sync, options.compression);
                let (sim, mut given) = (sim.power_cut(seed), given.clone());
                if !segments(&sim).is_empty() {
                    check(&read(&sim), &given, given.synced, &what);
                }
                let synced = given.synced;
                let found = go_on(&sim, &options, &mut given, &what);
                check(&found, &given, synced, &what);
                let new =
                    found.entries.iter().filter(|(_, body)| body.windows(7).any(|word| word == b"salt 1 ")).count();
                assert_eq!(new, 5, "{what}");
            }
        }
    }
}

/// A disk full or failing during a roll, or anywhere: quill PR 919, spdlog#2261, spdlog#2253.
#[test]
fn one_failing_call_anywhere_costs_no_line_and_leaves_a_sound_log() {
    for options in variants() {
        let (calls, writes) = calls_of_work(&options);
        for (fault, call, count) in [
            (Fault::Error(StorageFull), None, calls),
            (Fault::Error(Other), None, calls),
            (Fault::Short(3), Some(Call::Write), writes),
            (Fault::ShortThen(40, StorageFull), Some(Call::Write), writes),
        ] {
            for skip in 0..count {
                let what = format!("{:?} {:?} {fault:?} at call {skip}", options.sync, options.compression);
                let (sim, mut given) = (SimStorage::new(), Given::default());
                sim.fail(call, skip, 1, fault);
                let Ok(mut writer) = Writer::open_on(sim.shared(), options.clone()) else {
                    // Refused to open: the next try must work, with nothing left behind.
                    sim.heal();
                    let found = go_on(&sim, &options, &mut given, &what);
                    assert_eq!(found.findings, Vec::<String>::new(), "{what}");
                    continue;
                };
                work(&mut writer, &mut given, LINES, 0);
                close(&mut writer, &mut given);
                sim.heal();
                let found = read(&sim);
                assert_eq!(found.findings, Vec::<String>::new(), "{what}: {:?}", writer.stats());
                check(&found, &given, u64::MAX, &what);
                assert!(found.entries.len() as u64 >= LINES - 1, "{what}: more than one line was refused");
            }
        }
    }
}

/// A full disk must not make new files without end: BqLog#67. Logging resumes: systemd#3968.
#[test]
fn a_disk_full_from_any_call_on_leaves_old_segments_alone_makes_at_most_one_file_and_logging_resumes() {
    for options in variants() {
        for calls in (12..calls_of_work(&options).0).step_by(3) {
            let what = format!("{:?} {:?} full from call {calls} on", options.sync, options.compression);
            let (sim, mut given) = (SimStorage::new(), Given::default());
            let mut writer = Writer::open_on(sim.shared(), options.clone()).unwrap();
            for call in [Call::Create, Call::Write, Call::Allocate] {
                let skip = calls.saturating_sub(sim.calls());
                sim.fail(Some(call), skip * 2 / 3, u64::MAX, Fault::Error(StorageFull));
            }
            let mut before: Option<Vec<(String, Vec<u8>)>> = None;
            for _ in 0..10 {
                work(&mut writer, &mut given, 10, 0);
                let now: Vec<_> = segments(&sim).into_iter().map(|name| (sim.content(&name).unwrap(), name)).collect();
                if writer.stats().write_failures > 0 {
                    let now: Vec<(String, Vec<u8>)> = now.into_iter().map(|(content, name)| (name, content)).collect();
                    let old = before.get_or_insert_with(|| now.clone());
                    assert!(now.len() <= old.len() + 1, "{what}: {} files", now.len());
                    for (name, content) in old.iter().rev().skip(1) {
                        assert_eq!(&sim.content(name).unwrap(), content, "{what}: {name} was touched");
                    }
                }
            }
            assert!(writer.stats().pending_bytes <= options.batch_bytes + options.block_bytes + 400, "{what}");
            sim.heal();
            work(&mut writer, &mut given, 10, 0);
            close(&mut writer, &mut given);
            let found = read(&sim);
            assert_eq!(found.findings, Vec::<String>::new(), "{what}: {:?}", writer.stats());
            check(&found, &given, u64::MAX, &what);
        }
    }
}

#[test]
fn on_a_small_disk_appends_are_refused_with_no_space_and_go_on_when_there_is_room() {
    for options in variants() {
        let (sim, mut given) = (SimStorage::new(), Given::default());
        let mut writer = Writer::open_on(sim.shared(), options.clone()).unwrap();
        sim.set_capacity(Some(20_000));
        let mut refused = 0;
        for number in 0..400 {
            let seq = writer.next_seq();
            let line: Vec<u8> = (0..200u64).map(|at| (seq.wrapping_mul(at + 77) >> 3) as u8).collect();
            match writer.line(&line, 0, 1) {
                Ok(_) => drop(given.lines.insert(seq, line)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                    refused += 1;
                }
            }
            if number == 300 {
                sim.set_capacity(None);
            }
        }
        assert!(refused > 50, "{refused}");
        close(&mut writer, &mut given);
        let found = read(&sim);
        assert_eq!(found.findings, Vec::<String>::new());
        check(&found, &given, u64::MAX, "small disk");
    }
}

/// A write that returns 0 must not loop for ever: camunda#585.
#[test]
fn a_disk_that_accepts_nothing_is_an_error_after_a_bounded_number_of_tries() {
    let sim = SimStorage::new();
    let mut writer = Writer::open_on(sim.shared(), options()).unwrap();
    sim.fail(Some(Call::Write), 0, u64::MAX, Fault::Short(0));
    let calls = sim.calls();
    writer.line(b"kept", 0, 1).unwrap();
    let error = writer.flush().unwrap_err();
    assert!(error.to_string().contains("accepts no bytes"), "{error}");
    assert!(sim.calls() - calls < 40);
    sim.heal();
    assert_eq!(writer.flush().unwrap(), 1);
    drop(writer);
    assert_eq!(read(&sim).entries, [(1, b"kept".to_vec())]);
    assert_eq!(WriteZero, std::io::ErrorKind::WriteZero);
}

#[test]
fn what_a_failed_sync_left_in_doubt_is_written_anew_and_survives_a_power_cut() {
    for options in variants() {
        let syncs = {
            let sim = SimStorage::new();
            let mut writer = Writer::open_on(sim.shared(), options.clone()).unwrap();
            work(&mut writer, &mut Given::default(), LINES, 0);
            sim.calls_of(Call::Sync)
        };
        for times in [1, 2] {
            for skip in 0..syncs {
                let what = format!("{:?} {:?} sync {skip} fails {times} times", options.sync, options.compression);
                let (sim, mut given) = (SimStorage::new(), Given::default());
                sim.fail(Some(Call::Sync), skip, times, Fault::Error(Other));
                let Ok(mut writer) = Writer::open_on(sim.shared(), options.clone()) else { continue };
                work(&mut writer, &mut given, LINES, 0);
                let synced = (0..5).find_map(|_| writer.sync().ok()).unwrap();
                assert!(synced == given.next_seq - 1 && synced >= LINES - 2, "{what}: {synced}");
                check(&read(&sim.power_cut(0)), &given, synced, &what);
                let live = read(&sim);
                assert_eq!(live.findings, Vec::<String>::new(), "{what}");
                check(&live, &given, synced, &what);
                assert!(
                    writer.stats().sync_failures > 0 || writer.stats().last_failure.is_some() || skip < 2,
                    "{what}"
                );
                close(&mut writer, &mut given);
                let closed = read(&sim);
                assert_eq!(closed.findings, Vec::<String>::new(), "{what}");
                check(&closed, &given, u64::MAX, &what);
            }
        }
    }
}

#[test]
fn pending_entries_can_be_given_up_and_the_log_tells_how_many() {
    for options in variants() {
        let (sim, mut given) = (SimStorage::new(), Given::default());
        let mut writer = Writer::open_on(sim.shared(), options).unwrap();
        work(&mut writer, &mut given, 4, 0);
        writer.flush().unwrap();
        sim.fail(Some(Call::Write), 0, u64::MAX, Fault::ShortThen(100, StorageFull));
        for _ in 0..3 {
            writer.line(&[b'x'; 150], 0, 1).unwrap();
        }
        assert!(writer.flush().is_err());
        let kept = writer.stats().flushed_seq;
        sim.heal();
        let dropped = writer.discard_pending(logtool::control::DropReason::DiskFull).unwrap();
        assert_eq!(kept + dropped, 7);
        assert_eq!(writer.line(b"after", 0, 1).unwrap(), 8);
        close(&mut writer, &mut given);
        let found = read(&sim);
        assert_eq!(found.findings, Vec::<String>::new());
        assert_eq!(found.entries.last(), Some(&(8, b"after".to_vec())));
        assert_eq!(found.entries.len() as u64, kept + 1);
    }
}
