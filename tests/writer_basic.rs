//! The writer on the real file system: what it writes is read back, and is sound.

use std::path::Path;
use std::time::{Duration, Instant};

use logtool::control::{DropMarker, DropReason};
use logtool::entry::EntryHead;
use logtool::format::{FLAG_UNFINISHED, VOID_SEQS};
use logtool::value::Value;
use logtool::{CallSite, Compression, Error, ErrorKind, Item, Level, LogReader, NoteKind, Options, SyncPolicy, Writer};

use crate::harness::temp_dir;

/// Everything a reader gives of a log: entries as (seq, body), findings and notes as text.
pub(crate) struct Contents {
    pub(crate) entries: Vec<(u64, Vec<u8>)>,
    pub(crate) findings: Vec<String>,
    pub(crate) notes: Vec<NoteKind>,
}

pub(crate) fn contents_of(mut reader: LogReader) -> Contents {
    let mut contents = Contents { entries: Vec::new(), findings: Vec::new(), notes: Vec::new() };
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(entry) => contents.entries.push((entry.seq, entry.body.to_vec())),
            Item::Finding(finding) => contents.findings.push(format!("{finding:?}")),
            Item::Note(note) => contents.notes.push(note.kind),
        }
    }
    contents
}

pub(crate) fn contents(dir: &Path) -> Contents {
    contents_of(LogReader::open(dir).unwrap())
}

/// No sync, small batches, no threads: fast and the same each time.
pub(crate) fn options() -> Options {
    Options::new().sync(SyncPolicy::Never).preallocate_bytes(64 << 10).batch_bytes(4096)
}

fn both() -> [Options; 2] {
    [options(), options().compression(Compression::Zstd(1)).block_bytes(8192)]
}

#[test]
fn lines_come_back_in_order_over_rolls_and_runs_and_the_log_is_sound() {
    for options in both() {
        let dir = temp_dir();
        let mut expected = Vec::new();
        for run in 0..3 {
            let mut writer = Writer::open(dir.path(), options.clone().roll_bytes(8192)).unwrap();
            for number in 0..500 {
                let line = format!("run {run} line {number} {}", "x".repeat(number % 97));
                let seq = writer.line(line.as_bytes(), 0, 1_796_040_000_000_000_000 + number as i64).unwrap();
                expected.push((seq, line.into_bytes()));
            }
            let stats = writer.close().unwrap();
            assert_eq!((stats.flushed_seq, stats.last_failure), (500 * (run + 1), None));
        }
        let found = contents(dir.path());
        assert_eq!(found.findings, Vec::<String>::new());
        assert!(found.entries == expected);
        assert!(expected.iter().zip(1..).all(|((seq, _), number)| *seq == number));
    }
}

#[test]
fn what_was_flushed_is_read_while_the_writer_lives() {
    for options in both() {
        let dir = temp_dir();
        let mut writer = Writer::open(dir.path(), options).unwrap();
        for number in 1..=40u64 {
            assert_eq!(writer.line(b"hello", 0, 1).unwrap(), number);
            assert_eq!(writer.flush().unwrap(), number);
            let found = contents(dir.path());
            assert_eq!((found.entries.len() as u64, found.findings.len()), (number, 0));
        }
    }
}

#[test]
fn entries_find_their_definitions_in_each_segment() {
    let site = CallSite {
        level: Level::Warn,
        category: "net.http".into(),
        file: "a.rs".into(),
        line: 7,
        template: "GET {path} {}".into(),
        fields: vec!["path".into(), String::new()],
    };
    for options in both() {
        let dir = temp_dir();
        let mut writer = Writer::open(dir.path(), options).unwrap();
        let id = writer.define(&site);
        assert_eq!(writer.define(&site), id);
        writer.name_thread(3, "worker-3");
        for number in 0..9u64 {
            let head = EntryHead { time_ns: 5, tseq: 0, tid: 3, site: id };
            writer.entry(&head, &[Value::Str("/a"), Value::U64(number)]).unwrap();
            if number % 3 == 2 {
                writer.roll().unwrap();
            }
        }
        writer.close().unwrap();
        let mut reader = LogReader::open(dir.path()).unwrap();
        let mut count = 0;
        while let Some(item) = reader.next_item().unwrap() {
            if let Item::Entry(entry) = item {
                assert_eq!((entry.site.map(|site| site.as_ref()), entry.thread), (Some(&site), Some("worker-3")));
                assert_eq!(entry.values().collect::<Vec<_>>(), [Value::Str("/a"), Value::U64(count)]);
                assert_eq!(entry.head.tseq, count + 1);
                count += 1;
            }
        }
        assert_eq!(count, 9);
        let error = Writer::open(dir.path(), Options::new())
            .unwrap()
            .entry(&EntryHead { site: 9, ..EntryHead::default() }, &[]);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// A reader must not stumble over a length whose low bytes are zero: wiredtiger#1334.
#[test]
fn lines_of_round_lengths_come_back() {
    for options in both() {
        let dir = temp_dir();
        let mut writer = Writer::open(dir.path(), options).unwrap();
        // The payload is 24 bytes longer than the line.
        let lines: Vec<Vec<u8>> = [0, 1, 232, 256, 488, 512, 65_512, 65_536, (1 << 20) - 24]
            .into_iter()
            .map(|len| (0..len).map(|at| (at % 251) as u8).collect())
            .collect();
        for line in &lines {
            writer.line(line, 0, 1).unwrap();
        }
        writer.close().unwrap();
        let found = contents(dir.path());
        assert_eq!(found.findings, Vec::<String>::new());
        let joined: Vec<u8> = found.entries.into_iter().flat_map(|(_, body)| body).collect();
        assert!(joined == lines.concat());
    }
}

#[test]
fn a_long_line_is_cut_into_flagged_parts() {
    for options in both() {
        let dir = temp_dir();
        // Not compressible, so that a block of it is as large as can be.
        let mut state = 1u64;
        let line: Vec<u8> = (0..5 << 20)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut writer = Writer::open(dir.path(), options.block_bytes(logtool::options::BLOCK_BYTES_MAX)).unwrap();
        writer.line(b"before", 0, 1).unwrap();
        let last = writer.line(&line, FLAG_UNFINISHED, 2).unwrap();
        assert_eq!(writer.line(b"after", 0, 3).unwrap(), last + 1);
        writer.close().unwrap();
        let mut reader = LogReader::open(dir.path()).unwrap();
        let (mut joined, mut flags) = (Vec::new(), Vec::new());
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::Entry(entry) if entry.head.time_ns == 2 => {
                    joined.extend_from_slice(entry.body);
                    flags.push((entry.is_continued(), entry.has_more(), entry.flags & FLAG_UNFINISHED != 0));
                }
                Item::Finding(finding) => panic!("{finding:?}"),
                _ => {}
            }
        }
        assert!(joined == line);
        assert!(flags.len() >= 5);
        assert_eq!(flags[0], (false, true, false));
        assert!(flags[1..flags.len() - 1].iter().all(|&flag| flag == (true, true, false)));
        assert_eq!(flags[flags.len() - 1], (true, false, true));
    }
}

fn refusal(opened: Result<Writer, Error>) -> (ErrorKind, String) {
    let error = opened.map(drop).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn a_second_writer_of_this_process_is_refused_and_told_who_holds_the_log() {
    let dir = temp_dir();
    let writer = Writer::open(dir.path(), options()).unwrap();
    let (kind, text) = refusal(Writer::open(dir.path(), options()));
    assert_eq!(kind, ErrorKind::Locked);
    assert!(text.contains(&format!("this process (pid {})", std::process::id())), "{text}");
    drop(writer);
    assert!(Writer::open(dir.path(), options()).is_ok());
}

#[test]
fn a_directory_of_other_things_is_refused() {
    let dir = temp_dir();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let (kind, text) = refusal(Writer::open(dir.path(), options()));
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(text.contains("notes.txt"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn drops_use_up_numbers_and_are_told_by_the_log() {
    for options in both() {
        let dir = temp_dir();
        let mut writer = Writer::open(dir.path(), options).unwrap();
        writer.line(b"one", 0, 1).unwrap();
        let marker = DropMarker { count: 5, time_ns: 2, tseq: 2, tid: 0, reason: DropReason::RingFull, level: 3 };
        assert_eq!(writer.drop_entries(&marker).unwrap(), 2);
        assert_eq!(writer.line(b"two", 0, 3).unwrap(), 7);
        assert_eq!(writer.close().unwrap().entries_dropped.total(), 5);
        let found = contents(dir.path());
        assert_eq!(found.entries, [(1, b"one".to_vec()), (7, b"two".to_vec())]);
        assert_eq!(found.findings, Vec::<String>::new());
        assert!(found.notes.iter().any(|note| format!("{note:?}").contains("first: 2, last: 6")), "{:?}", found.notes);
    }
}

/// Clocks jump; order and gaps are a matter of numbers: systemd#24938.
#[test]
fn a_clock_set_back_between_entries_and_runs_changes_neither_order_nor_soundness() {
    const HOUR: i64 = 3_600_000_000_000;
    fn early() -> i64 {
        1_796_040_000_000_000_000 - HOUR
    }
    for options in both() {
        let dir = temp_dir();
        for run in 0..3 {
            let options = if run == 1 { options.clone().clock(early) } else { options.clone() };
            let mut writer = Writer::open(dir.path(), options.roll_bytes(4096)).unwrap();
            for number in 0..100i64 {
                writer.line(b"a line of some length", 0, 1_796_040_000_000_000_000 - number * HOUR).unwrap();
            }
            writer.close().unwrap();
        }
        let found = contents(dir.path());
        assert_eq!(found.findings, Vec::<String>::new());
        assert!(found.entries.iter().map(|(seq, _)| *seq).eq(1..=300));
    }
}

#[test]
fn calls_after_close_are_refused_and_closing_again_is_not() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    writer.line(b"x", 0, 1).unwrap();
    let stats = writer.close().unwrap();
    assert_eq!(writer.line(b"y", 0, 1).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(writer.close().unwrap(), stats);
    assert!(stats.last_seq < VOID_SEQS);
}

#[test]
fn a_dropped_writer_has_flushed_and_sealed() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    writer.line(b"kept", 0, 1).unwrap();
    drop(writer);
    let found = contents(dir.path());
    assert_eq!(found.entries, [(1, b"kept".to_vec())]);
    assert_eq!(found.findings, Vec::<String>::new());
}

#[test]
fn what_was_flushed_is_synced_by_a_tick_when_it_is_due() {
    let interval = Duration::from_secs(1);
    for with_thread in [true, false] {
        let dir = temp_dir();
        let options = options().sync(SyncPolicy::Interval(interval)).sync_thread(with_thread);
        let mut writer = Writer::open(dir.path(), options).unwrap();
        assert_eq!(writer.sync_due(), None);
        let start = Instant::now();
        writer.line(b"one", 0, 1).unwrap();
        writer.flush().unwrap();
        writer.line(b"two", 0, 1).unwrap();
        writer.flush().unwrap();
        let due = writer.sync_due().unwrap();
        assert!(due >= start + interval && due <= Instant::now() + interval);
        while writer.stats().synced_seq < 2 {
            std::thread::sleep(due.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
            writer.tick(0).unwrap();
            assert!(start.elapsed() < Duration::from_secs(20));
        }
        assert_eq!(writer.sync_due(), None);
        writer.close().unwrap();
    }
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    writer.line(b"one", 0, 1).unwrap();
    writer.flush().unwrap();
    assert_eq!(writer.sync_due(), None);
}
