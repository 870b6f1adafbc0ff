//! Following a log as it grows: every entry once and in order, whatever happens to its files.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use logtool::follow::wait;
use logtool::{
    Cursor, Error, ErrorKind, Follower, Item, LogReader, NoteKind, Options, Retention, SeqRange, Start, Writer,
};

use crate::harness::temp_dir;
use crate::writer_basic::options;

/// All that a follower has given.
#[derive(Debug, Default)]
pub(crate) struct Given {
    entries: Vec<(u64, Vec<u8>)>,
    pub(crate) findings: Vec<String>,
    notes: Vec<NoteKind>,
}

impl Given {
    pub(crate) fn take(&mut self, item: Item<'_>) {
        match item {
            Item::Entry(entry) => self.entries.push((entry.seq, entry.body.to_vec())),
            Item::Finding(finding) => self.findings.push(format!("{finding:?}")),
            Item::Note(note) => self.notes.push(note.kind),
        }
    }

    /// All that is there for now.
    fn drain(&mut self, follower: &mut Follower) {
        while let Some(item) = follower.try_next().unwrap() {
            self.take(item);
        }
    }

    /// Waits until the entry with number `seq` has come.
    #[track_caller]
    pub(crate) fn upto(&mut self, follower: &mut Follower, seq: u64) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.entries.last().is_none_or(|(last, _)| *last < seq) {
            let item = follower.next(Some(until)).unwrap();
            assert!(item.is_some(), "seq {seq} does not come; last: {:?}", self.entries.last());
            self.take(item.unwrap());
        }
    }

    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.entries.iter().map(|(seq, _)| *seq).collect()
    }

    fn gaps(&self) -> Vec<SeqRange> {
        let gap = |note: &NoteKind| if let NoteKind::Retention { seqs, .. } = note { Some(*seqs) } else { None };
        self.notes.iter().filter_map(gap).collect()
    }

    /// Each number from 1 to `last` is there once: as an entry, or in a gap that retention explains.
    #[track_caller]
    fn assert_complete(&self, last: u64) {
        assert_eq!(self.findings, Vec::<String>::new());
        let mut next = 1;
        let mut parts: BTreeMap<u64, u64> = self.gaps().iter().map(|gap| (gap.first, gap.last)).collect();
        parts.extend(self.entries.iter().map(|(seq, _)| (*seq, *seq)));
        assert!(self.entries.is_sorted_by(|one, next| one.0 < next.0), "out of order");
        for (first, end) in parts {
            assert_eq!(first, next, "missing or repeated");
            next = end + 1;
        }
        assert_eq!(next - 1, last);
        assert!(self.entries.iter().all(|(seq, body)| *body == line(*seq)), "altered");
    }
}

fn line(seq: u64) -> Vec<u8> {
    format!("line {seq} {}", "x".repeat(seq as usize % 50)).into_bytes()
}

/// Writes lines `writer.next_seq()` to `last`, flushing after each.
fn write_upto(writer: &mut Writer, last: u64) {
    while writer.next_seq() <= last {
        let seq = writer.next_seq();
        writer.line(&line(seq), 0, seq as i64).unwrap();
        writer.flush().unwrap();
    }
}

fn small_rolls() -> Options {
    options().roll_bytes(4096)
}

/// Every kind of follower: woken by events, and by the clock alone.
fn followers(dir: &Path, start: Start) -> [Follower; 2] {
    [Follower::open(dir, start).unwrap(), Follower::open_polling(dir, start).unwrap()]
}

#[test]
fn entries_come_as_they_are_written_over_rolls_and_runs() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), small_rolls()).unwrap();
    let mut both = followers(dir.path(), Start::First).map(|follower| (follower, Given::default()));
    for last in (1..=400).step_by(7) {
        write_upto(&mut writer, last);
        for (follower, given) in &mut both {
            given.upto(follower, last);
        }
        if last % 5 == 0 {
            writer.close().unwrap();
            drop(writer);
            writer = Writer::open(dir.path(), small_rolls()).unwrap();
        }
    }
    for (_, given) in both {
        given.assert_complete(400);
        assert!(given.notes.iter().all(|note| matches!(note, NoteKind::Run { .. })), "{:?}", given.notes);
    }
}

/// hpcloud/tail#127, nxadm/tail PR 73, file-tail#14: two rolls between two looks. coreutils tail (its FIXME on `-F`): more
/// than one roll behind. fluent-bit#1108: more of them than the event queue holds.
#[test]
fn a_follower_that_does_not_look_for_many_rolls_misses_nothing() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), small_rolls()).unwrap();
    let mut both = followers(dir.path(), Start::First).map(|follower| (follower, Given::default()));
    let queue_events_max: u64 =
        std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    for round in 1..=3 {
        write_upto(&mut writer, round * 1000);
        // Other names that come and go fill the queue just as rolls do, three events each.
        for number in 0..if round == 2 { queue_events_max / 3 + 100 } else { 0 } {
            let other = dir.path().join(format!("{number}"));
            std::fs::write(&other, "").unwrap();
            std::fs::remove_file(&other).unwrap();
        }
        write_upto(&mut writer, round * 1000 + 500);
        for (follower, given) in &mut both {
            given.upto(follower, round * 1000 + 500);
        }
    }
    assert!(writer.stats().segments_created > 60);
    both.iter().for_each(|(_, given)| given.assert_complete(3500));
}

/// systemd#36247, systemd#474: retention removes the segment that is being read.
#[test]
fn a_segment_removed_while_it_is_read_is_read_to_its_end_and_the_gap_behind_it_is_told() {
    let dir = temp_dir();
    let keep = Retention { keep_segments: Some(3), ..Retention::default() };
    let mut writer = Writer::open(dir.path(), small_rolls().retention(keep)).unwrap();
    write_upto(&mut writer, 10);
    let mut both = followers(dir.path(), Start::First).map(|follower| (follower, Given::default()));
    both.iter_mut().for_each(|(follower, given)| given.upto(follower, 10));
    let first = writer.active_name().to_owned();
    write_upto(&mut writer, 1000);
    assert!(!dir.path().join(&first).exists());
    for (mut follower, mut given) in both {
        given.upto(&mut follower, 1000);
        given.assert_complete(1000);
        let [gap] = given.gaps()[..] else { panic!("{:?}", given.notes) };
        assert!(gap.first > 11 && gap.last > 800, "the first segment is read to its end: {gap}");
    }
}

/// The next writer's file may come before its header does, just when the last writer is found to be gone.
#[test]
fn a_segment_seen_without_its_header_when_the_log_seemed_to_have_ended_is_read_once_it_is_whole() {
    let dir = temp_dir();
    let record = dir.path().join("writer.lock");
    let mut states = Vec::new();
    for last in [10, 20] {
        let mut writer = Writer::open(dir.path(), options()).unwrap();
        write_upto(&mut writer, last);
        writer.close().unwrap();
        states.push(std::fs::read(&record).unwrap());
    }
    let second = crate::sample::segments(dir.path()).pop().unwrap();
    let content = std::fs::read(&second).unwrap();
    for open in [Follower::open, Follower::open_polling] {
        std::fs::write(&second, b"").unwrap();
        std::fs::write(&record, &states[0]).unwrap();
        let (mut follower, mut given) = (open(dir.path(), Start::First).unwrap(), Given::default());
        given.drain(&mut follower);
        assert_eq!(given.entries.len(), 10);
        std::fs::write(&second, &content).unwrap();
        std::fs::write(&record, &states[1]).unwrap();
        given.upto(&mut follower, 20);
        given.assert_complete(20);
    }
}

#[test]
fn a_segment_taken_away_by_hand_is_a_finding_with_its_range() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), small_rolls()).unwrap();
    write_upto(&mut writer, 10);
    let mut follower = Follower::open(dir.path(), Start::First).unwrap();
    let mut given = Given::default();
    given.upto(&mut follower, 10);
    write_upto(&mut writer, 300);
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "flog"));
    names.sort();
    std::fs::remove_file(&names[1]).unwrap();
    given.upto(&mut follower, 300);
    assert_eq!(given.findings.len(), 1);
    assert!(given.findings[0].contains("MissingSegment"), "{:?}", given.findings);
    let seqs = given.seqs();
    let jump = seqs.windows(2).find(|pair| pair[1] != pair[0] + 1).unwrap();
    let range = format!("first: {}, last: {}", jump[0] + 1, jump[1] - 1);
    assert!(given.findings[0].contains(&range), "{:?} {range}", given.findings);
}

#[test]
fn a_directory_that_does_not_exist_yet_is_waited_for() {
    for (number, start) in [Start::First, Start::End].into_iter().enumerate() {
        let above = temp_dir();
        let dir = above.path().join("a/b/log");
        let both = followers(&dir, start);
        for mut follower in both {
            assert!(follower.next(Some(Instant::now())).unwrap().is_none(), "{number}");
            let mut given = Given::default();
            let write = || {
                std::thread::sleep(Duration::from_millis(20));
                std::fs::create_dir_all(&dir).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                let mut writer = Writer::open(&dir, options()).unwrap();
                write_upto(&mut writer, 5);
            };
            std::thread::scope(|scope| {
                scope.spawn(write);
                given.upto(&mut follower, 5);
            });
            given.assert_complete(5);
            std::fs::remove_dir_all(above.path().join("a")).unwrap();
        }
    }
}

#[test]
fn another_log_in_the_place_of_the_one_that_was_followed_is_followed_from_its_start() {
    let above = temp_dir();
    let dir = above.path().join("log");
    let mut first = Writer::open(&dir, options()).unwrap();
    write_upto(&mut first, 5);
    for mut follower in followers(&dir, Start::First) {
        let mut given = Given::default();
        given.upto(&mut follower, 5);
        let old = follower.cursor().unwrap();
        std::fs::rename(&dir, above.path().join("old")).unwrap();
        given.drain(&mut follower);
        let mut second = Writer::open(&dir, options()).unwrap();
        write_upto(&mut second, 3);
        let until = Instant::now() + Duration::from_secs(20);
        while given.entries.len() < 8 {
            given.take(follower.next(Some(until)).unwrap().unwrap());
        }
        assert_eq!(given.seqs(), [1, 2, 3, 4, 5, 1, 2, 3]);
        assert_eq!(given.findings, Vec::<String>::new());
        let log_id = second.log_id();
        assert!(given.notes.contains(&NoteKind::OtherLog { log_id }), "{:?}", given.notes);
        assert_ne!(old.log_id, log_id);
        assert_eq!(follower.cursor(), Some(Cursor { log_id, seq: 3 }));
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::rename(above.path().join("old"), &dir).unwrap();
    }
}

/// systemd#26746, systemd#30288: what a cursor says is neither repeated nor skipped.
#[test]
fn a_follower_goes_on_behind_its_cursor_wherever_that_is() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), small_rolls()).unwrap();
    write_upto(&mut writer, 200);
    for seq in 0..=200 {
        let cursor = Cursor { log_id: writer.log_id(), seq };
        let mut follower = Follower::open(dir.path(), Start::After(cursor)).unwrap();
        let mut given = Given::default();
        given.drain(&mut follower);
        assert_eq!(given.seqs(), (seq + 1..=200).collect::<Vec<_>>(), "after {seq}");
        assert_eq!(given.findings, Vec::<String>::new());
        assert_eq!(follower.cursor(), Some(Cursor { seq: 200, ..cursor }));
    }
}

#[test]
fn a_cursor_of_another_log_is_refused() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    write_upto(&mut writer, 3);
    let cursor = Cursor { log_id: writer.log_id() ^ 1, seq: 2 };
    let error: Error = Follower::open(dir.path(), Start::After(cursor)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("remove the cursor"), "{error}");
}

#[test]
fn a_cursor_into_what_retention_has_removed_tells_the_gap() {
    let dir = temp_dir();
    let keep = Retention { keep_segments: Some(3), ..Retention::default() };
    let mut writer = Writer::open(dir.path(), small_rolls().retention(keep)).unwrap();
    write_upto(&mut writer, 1000);
    let cursor = Cursor { log_id: writer.log_id(), seq: 100 };
    let mut follower = Follower::open(dir.path(), Start::After(cursor)).unwrap();
    let mut given = Given::default();
    given.drain(&mut follower);
    let first = given.seqs()[0];
    assert_eq!(given.gaps(), [SeqRange { first: 101, last: first - 1 }]);
    assert_eq!(given.findings, Vec::<String>::new());
    assert_eq!(*given.seqs().last().unwrap(), 1000);
}

#[test]
fn a_cursor_ahead_of_the_log_is_told_and_what_is_written_next_is_given() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    write_upto(&mut writer, 10);
    let cursor = Cursor { log_id: writer.log_id(), seq: 20 };
    let mut follower = Follower::open(dir.path(), Start::After(cursor)).unwrap();
    let mut given = Given::default();
    given.drain(&mut follower);
    assert!(given.findings.len() == 1 && given.findings[0].contains("UnknownAfter(10)"), "{:?}", given.findings);
    write_upto(&mut writer, 12);
    given.upto(&mut follower, 12);
    assert_eq!(given.seqs(), [11, 12]);
}

#[test]
fn a_follower_from_the_end_gives_what_comes_then() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), small_rolls()).unwrap();
    for last in [1, 2, 90, 300] {
        write_upto(&mut writer, last);
        let mut follower = Follower::open(dir.path(), Start::End).unwrap();
        let mut given = Given::default();
        given.drain(&mut follower);
        assert_eq!(given.seqs(), [0; 0]);
        assert_eq!(follower.cursor().unwrap().seq, last);
        write_upto(&mut writer, last + 1);
        given.upto(&mut follower, last + 1);
        assert_eq!(given.seqs(), [last + 1]);
    }
}

/// An end that is not complete, byte by byte: nothing is said while the writer lives, and the entry comes once it is whole.
#[test]
fn an_incomplete_end_of_a_live_log_is_waited_for() {
    let (dir, copy) = (temp_dir(), temp_dir());
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    write_upto(&mut writer, 3);
    let name = writer.active_name().to_owned();
    let short = std::fs::read(dir.path().join(&name)).unwrap();
    write_upto(&mut writer, 4);
    let whole = std::fs::read(dir.path().join(&name)).unwrap();
    // The copy has a writer too: a lock that this test holds.
    let storage = logtool::storage_os::OsStorage::new(copy.path(), 0o640);
    let lock = logtool::storage::Storage::create(&storage, "writer.lock").unwrap();
    assert!(lock.try_lock().unwrap());
    let target = copy.path().join(&name);
    std::fs::write(&target, &short).unwrap();
    let mut follower = Follower::open(copy.path(), Start::First).unwrap();
    let mut given = Given::default();
    for len in short.len()..whole.len() {
        std::fs::write(&target, &whole[..len]).unwrap();
        given.drain(&mut follower);
        assert!(given.entries.len() == 3 || whole.len() - len < 8, "only padding may be missing: {len}");
    }
    std::fs::write(&target, &whole).unwrap();
    given.upto(&mut follower, 4);
    assert_eq!(given.findings, Vec::<String>::new());
    given.assert_complete(4);
    // The writer dies with half a frame behind: now it is said.
    std::fs::OpenOptions::new()
        .append(true)
        .open(&target)
        .map(|mut file| std::io::Write::write_all(&mut file, &whole[1024..1050]))
        .unwrap()
        .unwrap();
    given.drain(&mut follower);
    assert_eq!(given.findings, Vec::<String>::new());
    drop(lock);
    let until = Instant::now() + Duration::from_secs(20);
    while given.findings.is_empty() {
        given.take(follower.next(Some(until)).unwrap().expect("the torn tail is told"));
    }
    assert!(given.findings[0].contains("TornTail"), "{:?}", given.findings);
}

/// An idle follower of a log of 1000 segments does not read all their headers again each time it wakes.
#[test]
fn a_look_at_a_log_of_many_segments_is_cheap() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    for _ in 0..600 {
        let last = writer.next_seq();
        write_upto(&mut writer, last);
        writer.roll().unwrap();
    }
    let mut follower = Follower::open(dir.path(), Start::End).unwrap();
    let mut given = Given::default();
    given.drain(&mut follower);
    let read_bytes = || {
        let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse::<u64>().unwrap()
    };
    for _ in 0..20 {
        let last = writer.next_seq();
        write_upto(&mut writer, last);
        writer.roll().unwrap();
        let before = read_bytes();
        given.upto(&mut follower, last);
        let used = read_bytes() - before;
        assert!(used < 100_000, "{used} bytes read for one entry and one roll");
    }
}

#[test]
fn several_logs_are_followed_by_one_wait() {
    let (one, two) = (temp_dir(), temp_dir());
    let mut writers = [one.path(), two.path()].map(|dir| Writer::open(dir, options()).unwrap());
    let mut followers: Vec<Follower> =
        [one.path(), two.path()].iter().map(|dir| Follower::open(dir, Start::First).unwrap()).collect();
    let mut given = [Given::default(), Given::default()];
    for round in 1..=20 {
        let at = round as usize % 2;
        let last = writers[at].next_seq();
        write_upto(&mut writers[at], last);
        let until = Instant::now() + Duration::from_secs(20);
        while given[at].entries.last().is_none_or(|entry| entry.0 < last) {
            followers.iter_mut().zip(&mut given).for_each(|(follower, given)| given.drain(follower));
            if given[at].entries.last().is_none_or(|entry| entry.0 < last) {
                let mut all: Vec<&mut Follower> = followers.iter_mut().collect();
                assert_ne!(wait(&mut all, &[], Some(until)).unwrap(), logtool::Woken::Deadline);
            }
        }
    }
    given.iter().for_each(|given| given.assert_complete(10));
    let read = LogReader::open(one.path()).unwrap().last_seq();
    assert_eq!(read, 0, "a reader that has read nothing accounts for nothing");
}
