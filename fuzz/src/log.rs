//! The check of a whole log: one to three files, maybe a writer's record, read in every way there is.

use std::sync::Arc;

use logtool::finding::NoteKind;
use logtool::reader::LogReader;
use logtool::segment::{Predecessor, SegmentHeader};
use logtool::snapshot::Snapshot;
use logtool::state::{LOCK_NAME, PID_BYTES, WriterState};
use logtool::verify::{VerifyOptions, verify};
use logtool::{Item, Options, SyncPolicy, Writer};

use crate::input::Input;
use crate::memory::MemoryStorage;
use crate::script;

/// A log as a script tells it, and whether its headers tell the truth about numbers.
pub struct Log {
    /// The files.
    pub storage: Arc<MemoryStorage>,
    /// No header was made to lie.
    pub is_honest: bool,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Builds a log.
pub fn build(input: &mut Input<'_>) -> Log {
    let storage = MemoryStorage::new();
    let (count, mut is_honest, mut bytes) = (1 + input.u8() % 3, true, 0);
    let mut header = SegmentHeader { first_seq: 1, ..script::header(input) };
    let (mut last_seq, mut end) = (0u64, 0);
    for index in 1..=u64::from(count) {
        header = SegmentHeader {
            flags: 0,
            index,
            index_last: index,
            segment_id: header.segment_id.rotate_left(7) ^ index,
            first_seq: last_seq.wrapping_add(1),
            predecessor: (index > 1).then_some(Predecessor {
                segment_id: header.segment_id,
                last_seq,
                accepted_end: end,
            }),
            ..header
        };
        let lies = input.u8();
        if lies > 180 {
            is_honest = false;
            lie(&mut header, lies, input);
        }
        let segment = script::segment(input, &header);
        is_honest &= segment.is_honest;
        let content = segment.bytes;
        bytes += content.len() as u64;
        (last_seq, end) = (segment.last_seq, segment.accepted_end);
        let name = if lies & 16 != 0 && !is_honest {
            format!("{:08}-20260101T000000Z.flog", 1 + input.u8() % 4)
        } else {
            header.name().to_string()
        };
        storage.put(&name, content, false);
    }
    let record = input.u8();
    if record & 3 != 0 {
        let newest_seq = if record & 4 != 0 { input.number() } else { last_seq };
        let state = WriterState {
            log_id: header.log_id,
            run_id: header.run_id,
            boot_id: if record & 8 != 0 { [9; 16] } else { [7; 16] },
            newest_seq,
            segment_id: header.segment_id,
            upto: end,
            first_seq_kept: if record & 64 != 0 && !is_honest { input.number() } else { header.first_seq_kept },
            is_closed: record & 16 != 0,
        };
        let text = format!("{:<width$}\n{}", "pid 77", state.encode(), width = PID_BYTES - 1);
        storage.put(LOCK_NAME, text.into_bytes(), record & 3 == 3 && record & 32 != 0);
    }
    Log { storage, is_honest, bytes }
}

fn lie(header: &mut SegmentHeader, lies: u8, input: &mut Input<'_>) {
    match lies % 13 {
        0 => header.first_seq = input.number(),
        1 => (header.index, header.index_last) = (input.number(), input.number()),
        2 => header.log_id = input.number(),
        3 => header.segment_id = input.number(),
        4 => header.synced_upto = input.number(),
        5 => header.first_seq_kept = input.number(),
        6 => header.run_id = input.number(),
        7 => header.boot_id = [input.u8(); 16],
        8 => header.generation = input.u8().into(),
        9 => header.flags = input.u8(),
        _ => {
            let known = Predecessor { segment_id: header.segment_id, last_seq: 0, accepted_end: 0 };
            let known = header.predecessor.unwrap_or(known);
            let (last_seq, accepted_end) = (input.number(), input.number());
            header.predecessor = match lies % 13 {
                10 => Some(Predecessor { last_seq, ..known }),
                11 => Some(Predecessor { accepted_end, ..known }),
                _ => None,
            };
        }
    }
}

/// An entry as it is told from the others.
pub type Told = (u64, u8, Vec<u8>);

/// All entries that a reader gives; checks their order, and that what is told accounts for each number once.
pub fn read_all(reader: &mut LogReader) -> Vec<Told> {
    let (mut entries, mut next, mut items): (Vec<Told>, Option<u64>, u64) = (Vec::new(), None, 0);
    loop {
        let Some(item) = reader.next_item().unwrap() else { break };
        items += 1;
        crate::show(|| format!("{item:?}"));
        assert!(items < 1 << 24, "a reader comes to an end");
        let seqs = item.seqs();
        if let Item::Note(note) = &item
            && let NoteKind::Retention { .. } = note.kind
            && next.is_some()
        {
            // A mark in a segment speaks of numbers long gone.
            continue;
        }
        if let Some(seqs) = seqs {
            assert!(seqs.first <= seqs.last);
            assert!(next.is_none_or(|next| next == seqs.first), "{seqs} where {next:?} comes next: {item:?}");
            next = seqs.last.checked_add(1);
        }
        if let Item::Entry(entry) = item {
            entries.push((entry.seq, entry.flags, [&entry.head.tseq.to_le_bytes(), entry.body].concat()));
        }
    }
    assert!(entries.is_sorted_by(|one, next| one.0 < next.0), "numbers go up");
    entries
}

/// Only the entries, from a reader that may have started anywhere.
pub fn entries_of(mut reader: LogReader) -> Vec<Told> {
    let mut entries = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            entries.push((entry.seq, entry.flags, [&entry.head.tseq.to_le_bytes(), entry.body].concat()));
        }
    }
    assert!(entries.is_sorted_by(|one: &Told, next| one.0 < next.0), "numbers go up");
    entries
}

/// Snapshot, reader, places to start from, verify; then a writer goes on with the log.
pub fn log(data: &[u8]) {
    let mut input = Input::new(data);
    let (seq, back, from) = (input.number(), input.number(), input.number() as i64);
    let reopen = input.bool();
    let log = build(&mut input);
    let Ok(snapshot) = Snapshot::take(log.storage.clone()) else { return };
    crate::show(|| format!("{:?} {:?}", snapshot.segments, snapshot.unreadable));
    let mut reader = LogReader::new(snapshot.clone());
    let all = read_all(&mut reader);
    assert_eq!(read_all(&mut LogReader::new(snapshot.clone())), all, "reading twice gives the same");
    let bound = 64 * log.bytes + (16 << 20);
    assert!(log.storage.read_bytes() <= bound, "{} read of {}", log.storage.read_bytes(), log.bytes);

    let mut sought = LogReader::new(snapshot.clone());
    let position = sought.position_of_seq(seq).unwrap();
    sought.seek(position);
    let mut behind = entries_of(sought);
    let mut ended = LogReader::new(snapshot.clone());
    let position = ended.position_back(back).unwrap();
    ended.seek(position);
    let suffix = entries_of(ended);
    let mut timed = LogReader::new(snapshot.clone());
    timed.set_times(from..=i64::MAX);
    let timed = entries_of(timed);
    if log.is_honest {
        behind.retain(|entry| entry.0 >= seq);
        let expected: Vec<Told> = all.iter().filter(|entry| entry.0 >= seq).cloned().collect();
        assert_eq!(behind, expected, "a start at a number gives all from it on");
        assert!(all.ends_with(&suffix), "a start near the end gives the end");
        assert!(timed.iter().all(|entry| all.contains(entry)), "a start at a time gives nothing else");
    }
    let report = verify(&snapshot, &VerifyOptions { threads: 1 }, &|_| {});
    assert_eq!(report.entries, all.len() as u64);
    if reopen && log.is_honest && snapshot.writer_pid.is_none() {
        check_reopened(&log, &all);
    }
}

/// A writer goes on with the log: what could be read still can, and what it writes comes behind it.
fn check_reopened(log: &Log, all: &[Told]) {
    let storage: Arc<dyn logtool::storage::Storage> = log.storage.clone();
    let Ok(mut writer) = Writer::open_on(storage.clone(), Options::new().sync(SyncPolicy::Never)) else { return };
    let Ok(seq) = writer.line(b"one more", 0, 1) else { return };
    writer.close().unwrap();
    let snapshot = Snapshot::take(storage).unwrap();
    crate::show(|| format!("{:?} {:?}", snapshot.segments, snapshot.unreadable));
    let mut reader = LogReader::new(snapshot);
    let after = read_all(&mut reader);
    let (last, before) = after.split_last().unwrap();
    assert_eq!((last.0, &last.2[8..]), (seq, &b"one more"[..]));
    assert_eq!(before, all, "what could be read still can");
}
