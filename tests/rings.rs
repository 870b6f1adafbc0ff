//! What the rings of a killed run hold: read back once and in order, by the next writer, by `repair`, and by any reader.

use logtool::control::DropReason;
use logtool::entry::EntryHead;
use logtool::format::{FLAG_CONTINUED, FLAG_MORE};
use logtool::ring_builder::{self, RingFileBuilder};
use logtool::storage::Storage;
use logtool::storage_sim::{Call, SimStorage};
use logtool::value::Value;
use logtool::{
    CallSite, Compression, Fault, Item, Level, LogReader, Loss, NoteKind, Options, Report, Retention, Snapshot,
    SyncPolicy, VerifyOptions, Writer, repair, verify,
};

pub(crate) const ONE_THREAD: VerifyOptions = VerifyOptions { threads: 1 };

/// One entry as a test compares it: seq, thread, thread seq, body.
pub(crate) type Read = (u64, u32, u64, Vec<u8>);

pub(crate) fn options() -> Options {
    Options::new().sync(SyncPolicy::EachBatch).roll_bytes(4096).clock(|| 1_796_040_000_000_000_000)
}

/// A run with rings on a disk in memory: what each thread logs, and what of it came into a segment.
pub(crate) struct Run {
    pub(crate) disk: SimStorage,
    pub(crate) writer: Writer,
    pub(crate) file: RingFileBuilder,
    /// Thread and thread seq of each entry accepted, in order.
    pub(crate) accepted: Vec<(u32, u64, Vec<u8>)>,
    stamp: u64,
    next: Vec<u64>,
}

impl Run {
    /// A run with a ring of 4 KiB for each of `threads` threads, behind whatever `disk` holds.
    pub(crate) fn new(disk: SimStorage, threads: u32) -> Run {
        Run::with_rings(disk, threads, 4096)
    }

    /// A run of three threads whose rings have no room for five short entries.
    pub(crate) fn small(disk: SimStorage) -> Run {
        Run::with_rings(disk, 3, 256)
    }

    fn with_rings(disk: SimStorage, threads: u32, bytes: usize) -> Run {
        let (writer, mut file) = ring_builder::open(disk.shared(), options()).unwrap();
        for tid in 1..=threads {
            file.add_ring(bytes, tid, &format!("worker-{tid}"));
        }
        let next = vec![1; threads as usize + 1];
        Run { disk, writer, file, accepted: Vec::new(), stamp: 1_796_040_000_000_000_000, next }
    }

    /// Thread `tid` logs a text, which stays in its ring.
    pub(crate) fn log(&mut self, tid: u32) {
        let tseq = self.next[tid as usize];
        let text = format!("thread {tid} entry {tseq} ").repeat(4).into_bytes();
        self.log_text(tid, &text);
    }

    pub(crate) fn log_text(&mut self, tid: u32, text: &[u8]) {
        let tseq = self.next[tid as usize];
        self.next[tid as usize] += 1;
        self.stamp += 1000;
        self.file.ring(tid as usize - 1).push(self.stamp, tseq, 0, text);
        self.accepted.push((tid, tseq, text.to_vec()));
    }

    /// A call of thread `tid` is refused.
    pub(crate) fn refuse(&mut self, tid: u32) {
        let tseq = self.next[tid as usize];
        self.next[tid as usize] += 1;
        self.file.ring(tid as usize - 1).refuse(tseq, Level::Warn as u8);
    }

    /// The backend writes what was accepted from number `from` to before `to`; with `moves`, it also says so in the rings.
    pub(crate) fn write(&mut self, from: usize, to: usize, moves: bool) {
        for (tid, tseq, text) in &self.accepted[from..to] {
            let head = EntryHead { time_ns: 1_796_040_000_000_000_000, tseq: *tseq, tid: *tid, site: 0 };
            self.writer.entry_encoded(&head, 0, text).unwrap();
        }
        self.writer.flush().unwrap();
        if moves {
            (0..self.next.len() - 1).for_each(|ring| self.file.ring(ring).drain());
        }
    }

    /// Kills it: the disk as the next process finds it.
    pub(crate) fn kill(&self) -> SimStorage {
        let disk = self.disk.kill();
        disk.put(&self.file.name(), &self.file.encode());
        disk
    }

    /// A run of three threads that is killed with 20 entries in segments, of which 8 are still in the rings, and 10 more that
    /// are only there.
    pub(crate) fn usual(disk: SimStorage) -> Run {
        let mut run = Run::new(disk, 3);
        (0..12).for_each(|number| run.log(number % 3 + 1));
        run.write(0, 12, true);
        (0..18).for_each(|number| run.log((number * 7) % 3 + 1));
        run.write(12, 20, false);
        run
    }
}

/// All entries of a log, and how many notes and findings there are besides.
pub(crate) fn entries(disk: &SimStorage) -> Vec<Read> {
    let mut reader = LogReader::new(Snapshot::take(disk.shared()).unwrap());
    let mut read = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            read.push((entry.seq, entry.head.tid, entry.head.tseq, entry.body.to_vec()));
        }
    }
    read
}

pub(crate) fn verified(disk: &SimStorage) -> Report {
    verify(&Snapshot::take(disk.shared()).unwrap(), &ONE_THREAD, &|_| {})
}

/// Each accepted entry is there once, each thread's in order, with numbers one behind another from `first` on.
#[track_caller]
pub(crate) fn assert_all(read: &[Read], accepted: &[(u32, u64, Vec<u8>)]) {
    let mut found: Vec<_> = read.iter().map(|(_, tid, tseq, body)| (*tid, *tseq, body.clone())).collect();
    for tid in accepted.iter().map(|(tid, ..)| *tid) {
        let tseqs: Vec<u64> = found.iter().filter(|(of, ..)| *of == tid).map(|(_, tseq, _)| *tseq).collect();
        assert!(tseqs.is_sorted_by(|one, other| one < other), "thread {tid}: {tseqs:?}");
    }
    let mut wanted = accepted.to_vec();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
    for pair in read.windows(2) {
        assert_eq!(pair[0].0 + 1, pair[1].0);
    }
}

pub(crate) fn ring_files(disk: &SimStorage) -> Vec<String> {
    disk.names().unwrap().into_iter().filter(|name| name.ends_with(".ring")).collect()
}

#[test]
fn readers_the_next_writer_and_repair_give_the_same_entries_once_and_in_order() {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill();
    let read = entries(&disk);
    assert_all(&read, &run.accepted);
    let report = verified(&disk);
    assert!(report.is_sound(true), "{:#?}", report.findings);
    assert_eq!((report.entries, report.notes.recovered), (30, 10));

    let opened = disk.kill();
    let mut writer = Writer::open_on(opened.shared(), options()).unwrap();
    assert_eq!(ring_files(&opened), Vec::<String>::new());
    assert_eq!(writer.next_seq(), 31);
    writer.line(b"later", 0, 1).unwrap();
    writer.close().unwrap();
    assert_eq!(entries(&opened)[..30], read);
    let report = verified(&opened);
    assert!(report.is_sound(true), "{:#?}", report.findings);
    assert_eq!(report.notes.recovered, 10);

    let repaired = disk.kill();
    let done = repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!(done.actions.len(), 1);
    assert_eq!(ring_files(&repaired), Vec::<String>::new());
    assert_eq!(entries(&repaired), read);
    assert!(verified(&repaired).is_sound(true));
    assert!(repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap().actions.is_empty());
    let mut writer = Writer::open_on(repaired.shared(), options()).unwrap();
    assert_eq!(writer.next_seq(), 31);
    writer.close().unwrap();
    assert!(verified(&repaired).is_sound(true));
}

#[test]
fn reading_changes_no_byte_and_makes_what_a_recovery_makes() {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill();
    let names = disk.names().unwrap();
    let contents: Vec<_> = names.iter().map(|name| disk.content(name)).collect();
    let snapshot = Snapshot::take(disk.shared()).unwrap();
    entries(&disk);
    let changing = [Call::Create, Call::Remove, Call::Rename, Call::Write, Call::SetLen, Call::Sync, Call::SyncDir];
    assert_eq!(changing.map(|call| disk.calls_of(call)), [0; 7]);
    let in_memory = snapshot.rings[0].segment.clone().unwrap();
    let file = snapshot.storage().open(&in_memory).unwrap();
    let mut bytes = vec![0; logtool::storage::ReadAt::len(&file).unwrap() as usize];
    logtool::storage::ReadAt::read_full_at(&file, &mut bytes, 0).unwrap();
    assert_eq!(disk.names().unwrap(), names);
    assert_eq!(names.iter().map(|name| disk.content(name)).collect::<Vec<_>>(), contents);
    drop(Writer::open_on(disk.shared(), options()).unwrap());
    assert!(disk.content(&in_memory).unwrap() == bytes, "not the same segment");
}

#[test]
fn runs_that_are_killed_one_after_another_lose_nothing() {
    let mut disk = SimStorage::new();
    let mut expected: Vec<Read> = Vec::new();
    for round in 0..5 {
        let run = Run::usual(disk);
        disk = run.kill();
        let read = entries(&disk);
        assert_eq!(read[..expected.len()], expected, "round {round}");
        let new: Vec<Read> = read[expected.len()..].to_vec();
        assert_all(&new, &run.accepted);
        expected = read;
        assert!(verified(&disk).is_sound(true));
    }
}

#[test]
fn a_drained_ring_of_a_run_that_closed_its_log_is_just_removed() {
    let mut run = Run::new(SimStorage::new(), 2);
    (0..6).for_each(|number| run.log(number % 2 + 1));
    run.write(0, 6, true);
    run.writer.close().unwrap();
    let disk = run.kill();
    let report = verified(&disk);
    assert!(report.is_sound(true), "{:#?}", report.findings);
    let segments = disk.names().unwrap().iter().filter(|name| name.ends_with(".flog")).count();
    drop(Writer::open_on(disk.shared(), options()).unwrap());
    assert_eq!(ring_files(&disk), Vec::<String>::new());
    assert_eq!(disk.names().unwrap().iter().filter(|name| name.ends_with(".flog")).count(), segments + 1);
    assert!(verified(&disk).is_sound(true));
}

#[test]
fn refused_calls_are_told_by_their_threads_and_only_once() {
    let mut run = Run::new(SimStorage::new(), 2);
    run.log(1);
    run.write(0, 1, true);
    run.refuse(1);
    run.refuse(1);
    run.log(1);
    run.log(2);
    run.refuse(2);
    let disk = run.kill();
    for _ in 0..2 {
        let read = entries(&disk);
        assert_eq!(
            read.iter().map(|read| (read.0, read.1, read.2)).collect::<Vec<_>>(),
            [(1, 1, 1), (4, 1, 4), (5, 2, 1)]
        );
        let report = verified(&disk);
        assert!(report.is_sound(true), "{:#?}", report.findings);
        let dropped: Vec<_> = report
            .notes
            .dropped
            .iter()
            .map(|dropped| (dropped.thread.clone(), dropped.count, dropped.seqs.first))
            .collect();
        assert_eq!(dropped, [(Some("worker-1".into()), 2, 2), (Some("worker-2".into()), 1, 6)]);
        assert_eq!(report.notes.dropped[0].reason, DropReason::RingFull);
        assert_eq!(report.notes.dropped[0].level, Some(Level::Warn));
        drop(Writer::open_on(disk.shared(), options()).unwrap());
    }
}

#[test]
fn a_ring_whose_run_is_newest_and_that_is_missing_leaves_the_end_unknown() {
    let run = Run::usual(SimStorage::new());
    for rings in [true, false] {
        let disk = run.disk.kill();
        if rings {
            disk.put(&run.file.name(), &run.file.encode());
        }
        let report = verified(&disk);
        assert_eq!(report.is_sound(false), rings, "{:#?}", report.findings);
        if !rings {
            assert_eq!(report.findings[0].fault, Fault::NoEvidence);
            assert_eq!(report.unknown_after, [20]);
            let opened = disk.kill();
            let writer = Writer::open_on(opened.shared(), options()).unwrap();
            assert!(writer.next_seq() > 1 << 32);
            drop(writer);
            assert_eq!(verified(&opened).unknown_after, [20]);
            repair::repair(&disk.shared(), &ONE_THREAD, &|_| {}).unwrap();
            assert!(verified(&disk).is_sound(false));
            assert_eq!(verified(&disk).notes.declared_count, 1 << 32);
        }
    }
}

#[test]
fn after_a_power_cut_numbers_are_left_void_and_what_the_ring_holds_comes_behind_them() {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill().power_cut(1);
    let read = entries(&disk);
    assert_eq!(read.len(), 30);
    assert_eq!(read[20].0, 21 + (1 << 32));
    let report = verified(&disk);
    assert!(report.is_sound(true), "{:#?}", report.findings);
    let repaired = disk.kill();
    repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!(entries(&repaired), read);
    for disk in [disk, repaired] {
        let writer = Writer::open_on(disk.shared(), options()).unwrap();
        assert_eq!(writer.next_seq(), 31 + (1 << 32));
        drop(writer);
        assert_eq!(entries(&disk), read);
        let report = verified(&disk);
        assert!(report.is_sound(true), "{:#?}", report.findings);
        assert_eq!(report.notes.void.len(), 1);
    }
}

#[test]
fn definitions_names_long_entries_and_wraps_come_through() {
    let mut run = Run::new(SimStorage::new(), 2);
    let site = CallSite {
        level: Level::Error,
        category: "net".into(),
        file: "a.rs".into(),
        line: 7,
        template: "got {}".into(),
        fields: vec![String::new()],
    };
    // Four times round.
    for _ in 0..150 {
        run.log(1);
        run.write(run.accepted.len() - 1, run.accepted.len(), true);
    }
    run.file.define(5, &site);
    let mut body = Vec::new();
    Value::U32(77).encode(&mut body);
    run.file.ring(1).push(1_796_040_000_000_000_500, 1, 5, &body);
    run.file.ring(1).push(1_796_040_000_000_000_501, 2, 6, &body);
    run.file.set_part_bytes(1000);
    let long: Vec<u8> = (0..2500u32).map(|number| number as u8).collect();
    let shared = run.file.add_ring(4096, 0, "");
    run.file.ring(shared).push_of(2, 1_796_040_000_000_000_502, 1 << 63 | 1, 0, &long);
    let disk = run.kill();
    let mut reader = LogReader::new(Snapshot::take(disk.shared()).unwrap());
    let (mut seen, mut parts) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Entry(entry) = item else { continue };
        if entry.seq <= 150 {
            continue;
        }
        assert_eq!(entry.thread, Some("worker-2"));
        if entry.head.site > 0 {
            seen.push((entry.head.site, entry.site.map(|site| site.template.clone())));
            assert_eq!(entry.values().next(), Some(Value::U32(77)));
        } else {
            parts.push((entry.head.tseq & !(1 << 63), entry.flags, entry.body.to_vec()));
        }
    }
    assert_eq!(seen, [(5, Some("got {}".into())), (6, None)]);
    let flags: Vec<_> = parts.iter().map(|(tseq, flags, _)| (*tseq, *flags)).collect();
    assert_eq!(flags, [(1, FLAG_MORE), (2, FLAG_MORE | FLAG_CONTINUED), (3, FLAG_CONTINUED)]);
    assert_eq!(parts.into_iter().flat_map(|(_, _, body)| body).collect::<Vec<u8>>(), long);
    assert!(verified(&disk).is_sound(true));
}

#[test]
fn rings_of_another_log_are_left_alone_and_one_without_a_run_gives_way() {
    let run = Run::usual(SimStorage::new());
    let foreign = run.file.clone().of_log(1).encode();
    let disk = run.disk.kill();
    disk.put("00000077.ring", &foreign);
    disk.put(&run.file.name(), &run.file.encode());
    drop(Writer::open_on(disk.shared(), options()).unwrap());
    assert_eq!(ring_files(&disk), ["00000077.ring"]);

    // Killed between making the rings and making the first segment.
    let (writer, file) = ring_builder::open(disk.shared(), options()).unwrap();
    let segment = writer.active_name().to_owned();
    let killed = disk.kill();
    drop(writer);
    killed.delete(&segment);
    killed.put(&file.name(), &file.encode());
    let state = killed.content("writer.lock");
    let (_, again) = ring_builder::open(killed.shared(), options()).unwrap();
    assert_ne!(killed.content("writer.lock"), state);
    assert_eq!(ring_files(&killed), ["00000077.ring"], "the name {} is free", again.name());
}

#[test]
fn without_an_anchor_the_time_of_the_last_entry_stands_for_the_rest() {
    let mut run = Run::usual(SimStorage::new());
    run.file.remove_anchor();
    let disk = run.kill();
    let mut reader = LogReader::new(Snapshot::take(disk.shared()).unwrap());
    let mut times = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            times.push(entry.head.time_ns);
        }
    }
    assert_eq!(times, [1_796_040_000_000_000_000; 30]);
}

#[test]
fn in_a_compressed_log_of_many_segments_nothing_is_repeated() {
    for compression in [Compression::None, Compression::Zstd(1)] {
        let disk = SimStorage::new();
        let compressed = options().compression(compression).block_bytes(4096).batch_bytes(1000);
        let (writer, mut file) = ring_builder::open(disk.shared(), compressed).unwrap();
        for tid in 1..=3 {
            file.add_ring(1 << 15, tid, "");
        }
        let next = vec![1; 4];
        let mut run = Run { disk, writer, file, accepted: Vec::new(), stamp: 1_796_040_000_000_000_000, next };
        let mut written = 0;
        for round in 0..6 {
            (0..90).for_each(|number| run.log((number * number) % 3 + 1));
            // A batch goes over several segments; the last one has not moved the read positions.
            let to = run.accepted.len() - 20;
            run.write(written, to, round < 5);
            written = to;
            if round < 5 {
                let rest = run.accepted.len();
                run.write(written, rest, true);
                written = rest;
            }
        }
        let disk = run.kill();
        assert!(disk.names().unwrap().len() > 6, "{:?}", disk.names());
        let read = entries(&disk);
        assert_all(&read, &run.accepted);
        drop(Writer::open_on(disk.shared(), options()).unwrap());
        assert_eq!(entries(&disk), read);
        let report = verified(&disk);
        assert!(report.is_sound(true), "{:#?}", report.findings);
    }
}

#[test]
fn retention_of_the_next_run_comes_after_the_rings() {
    let run = Run::usual(SimStorage::new());
    let disk = run.kill();
    let all = entries(&disk);
    // Rings that are about to go don't count.
    let by_bytes = disk.kill();
    let keep = Retention { keep_bytes: Some(8000), ..Retention::default() };
    drop(Writer::open_on(by_bytes.shared(), options().retention(keep)).unwrap());
    assert_eq!(entries(&by_bytes), all);
    let keep = Retention { keep_segments: Some(2), ..Retention::default() };
    drop(Writer::open_on(disk.shared(), options().retention(keep)).unwrap());
    assert_eq!(ring_files(&disk), Vec::<String>::new());
    assert_eq!(entries(&disk), all[20..]);
    assert!(verified(&disk).is_sound(true), "{:#?}", verified(&disk).findings);
}

#[test]
fn the_note_tells_how_many_entries_were_read_from_rings() {
    let disk = Run::usual(SimStorage::new()).kill();
    let mut reader = LogReader::new(Snapshot::take(disk.shared()).unwrap());
    let mut told = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Note(note) => told.push(note.kind),
            Item::Finding(finding) => assert_eq!(finding.loss, Loss::Nothing),
            Item::Entry(_) => {}
        }
    }
    assert!(told.contains(&NoteKind::Recovered { entries: 10 }), "{told:?}");
}
