//! Files made to harm whoever reads them: they cost bounded memory and linear time, and hide nothing that is sound.
//!
//! Their checksums are right. What libFuzzer has found (`fuzz/`) is kept here too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use logtool::control::{
    DeclaredLoss, DropMarker, DropReason, IndexMark, IndexPoint, LossClass, Seal, SealReason, SyncMark,
};
use logtool::entry::{CallSite, EntryHead, Level};
use logtool::format::{FRAME_HEADER_BYTES, FRAME_MARKER, FrameKind, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use logtool::frame::{Seed, push_frame};
use logtool::segment::{Predecessor, SegmentHeader};
use logtool::state::{LOCK_NAME, PID_BYTES, WriterState};
use logtool::{ErrorKind, Fault, Item, LogReader, Options, Writer, snapshot_of};

use crate::harness::{Run, temp_dir};

const ID: u64 = 0x0123_4567_89ab_cdef;
const NAME: &str = "00000001-20260101T000000Z.flog";

/// A segment under construction.
pub(crate) struct Hostile {
    bytes: Vec<u8>,
}

impl Hostile {
    fn starting_at(first_seq: u64) -> Hostile {
        let header = SegmentHeader {
            flags: 0,
            log_id: 1,
            run_id: 2,
            segment_id: ID,
            boot_id: [3; 16],
            index: 1,
            index_last: 1,
            generation: 0,
            pid: 4,
            first_seq,
            opened_ns: 0,
            synced_upto: 0,
            first_seq_kept: 1,
            predecessor: None,
        };
        Hostile { bytes: header.encode().to_vec() }
    }

    pub(crate) fn new() -> Hostile {
        Hostile::starting_at(1)
    }

    pub(crate) fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn frame(&mut self, kind: FrameKind, seq: u64, payload: &[u8]) -> &mut Hostile {
        let offset = self.offset();
        push_frame(&mut self.bytes, Seed::new(ID), offset, kind, 0, seq, payload);
        self
    }

    pub(crate) fn encoded(&mut self, kind: FrameKind, seq: u64, encode: impl FnOnce(&mut Vec<u8>)) -> &mut Hostile {
        let mut payload = Vec::new();
        encode(&mut payload);
        self.frame(kind, seq, &payload)
    }

    fn entry(&mut self, seq: u64, text: &[u8]) -> &mut Hostile {
        self.frame(FrameKind::Entry, seq, &entry_payload(0, text))
    }

    pub(crate) fn entries(&mut self, seqs: std::ops::RangeInclusive<u64>) -> &mut Hostile {
        seqs.for_each(|seq| {
            self.entry(seq, b"sound");
        });
        self
    }

    /// A frame header that holds, over a length and a payload checksum that do not.
    fn lying_header(&mut self, len: u32) {
        let mut header = [0u8; FRAME_HEADER_BYTES];
        header[..2].copy_from_slice(&[FRAME_MARKER, FrameKind::Entry as u8]);
        header[4..8].copy_from_slice(&len.to_le_bytes());
        header[8] = 1;
        let mut hasher = crc32fast::Hasher::new_with_initial(ID as u32);
        hasher.update(&self.offset().to_le_bytes());
        hasher.update(&header[..20]);
        header[20..].copy_from_slice(&hasher.finalize().to_le_bytes());
        self.bytes.extend_from_slice(&header);
    }

    fn seal(&mut self, seal: &Seal) -> &mut Hostile {
        let offset = self.offset();
        self.encoded(FrameKind::Seal, seal.last_seq + 1, |out| seal.encode(offset, out))
    }

    pub(crate) fn save(&self, dir: &Path) {
        fs::write(dir.join(NAME), &self.bytes).unwrap();
    }
}

fn entry_payload(site: u32, body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    EntryHead { time_ns: 1, tseq: 1, tid: 0, site }.encode(&mut payload);
    payload.extend_from_slice(body);
    payload
}

pub(crate) fn seal(last_seq: u64) -> Seal {
    Seal {
        reason: SealReason::Closed,
        entries: last_seq,
        body_bytes: 0,
        last_seq,
        time_min_ns: 1,
        time_max_ns: 1,
        successor_id: 0,
        definitions: Vec::new(),
        points: Vec::new(),
    }
}

/// What a block's payload starts with: codec, count, raw length, and the rest as it comes.
fn block_header(codec: u8, count: u64, raw: &[u8], raw_len: u64) -> Vec<u8> {
    let mut out = vec![codec, 0, 0, 0];
    out.extend_from_slice(&crc32fast::hash(raw).to_le_bytes());
    out.extend_from_slice(&1i64.to_le_bytes());
    for mut number in [count, raw_len, 0, 0] {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }
    out
}

/// Rows of a block: empty entries.
fn rows(count: usize) -> Vec<u8> {
    [&[24u8, 0][..], &entry_payload(0, b"")].concat().repeat(count)
}

/// Sequence numbers given, and faults told, in order.
fn read(reader: &mut LogReader) -> (Vec<u64>, Vec<Fault>) {
    let (mut seqs, mut faults) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(entry) => seqs.push(entry.seq),
            Item::Finding(finding) => faults.push(finding.fault),
            Item::Note(_) => {}
        }
    }
    (seqs, faults)
}

pub(crate) fn read_dir(dir: &Path) -> (Vec<u64>, Vec<Fault>) {
    read(&mut LogReader::open(dir).unwrap())
}

/// Runs `logtool` with 64 MiB for heap, stacks and everything else that it can write to.
fn in_64_mib(args: &str, dir: &Path) -> crate::harness::Outcome {
    let line = format!("ulimit -d 65536; exec '{}' {args} '{}'", env!("CARGO_BIN_EXE_logtool"), dir.display());
    Run::new("sh").args(["-c", &line]).run()
}

#[test]
fn a_block_that_holds_more_than_it_says_costs_itself_only() {
    let dir = temp_dir();
    let mut hostile = Hostile::new();
    let bomb = zstd_of_zeros(1 << 30);
    let claims = [(1, 4096), (1, 4 << 20), (u64::MAX, 4 << 20), (1, u64::MAX), (0, 0)];
    for (count, raw_len) in claims {
        let payload = [&block_header(1, count, b"", raw_len)[..], &bomb].concat();
        hostile.frame(FrameKind::Block, 1, &payload);
    }
    hostile.entries(2..=3).seal(&seal(3)).save(dir.path());
    let (seqs, faults) = read_dir(dir.path());
    assert_eq!(seqs, [2, 3]);
    assert!(faults.iter().any(|fault| matches!(fault, Fault::Block(_))), "{faults:?}");
    let shown = in_64_mib("cat", dir.path()).expect_code(1);
    assert_eq!(shown.text(), "sound\nsound\n");
}

/// One zstd frame of `len` zeros, as repeated blocks of one byte, 128 KiB each.
fn zstd_of_zeros(len: usize) -> Vec<u8> {
    let blocks = len >> 17;
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for block in 0..blocks {
        let word = (1u32 << 17) << 3 | 1 << 1 | u32::from(block + 1 == blocks);
        out.extend_from_slice(&word.to_le_bytes()[..3]);
        out.push(0);
    }
    out
}

#[test]
fn a_block_whose_window_is_huge_costs_no_memory() {
    let dir = temp_dir();
    let raw = rows(2);
    // Window 2^41 and 2^31 bytes, the content as one raw block.
    for window in [0xf8u8, 0xa8] {
        let mut body = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, window];
        body.extend_from_slice(&((raw.len() as u32) << 3 | 1).to_le_bytes()[..3]);
        body.extend_from_slice(&raw);
        let payload = [block_header(1, 2, &raw, raw.len() as u64), body].concat();
        let mut hostile = Hostile::new();
        hostile.frame(FrameKind::Block, 1, &payload).entry(3, b"sound").seal(&seal(3)).save(dir.path());
        let shown = in_64_mib("cat", dir.path());
        assert!(shown.text().ends_with("sound\n"), "{shown:?}");
        assert!([Some(0), Some(1)].contains(&shown.code), "{shown:?}");
    }
}

#[test]
fn a_million_empty_entries_take_linear_time_and_little_memory() {
    let dir = temp_dir();
    let (count, blocks) = (150_000, 7);
    let raw = rows(count);
    let body = zstd::bulk::compress(&raw, 1).unwrap();
    let payload = [block_header(1, count as u64, &raw, raw.len() as u64), body].concat();
    let mut hostile = Hostile::new();
    (0..blocks).for_each(|block| {
        hostile.frame(FrameKind::Block, 1 + block * count as u64, &payload);
    });
    hostile.seal(&seal(blocks * count as u64)).save(dir.path());
    // The file by itself: of the end of its log nothing is known.
    let lines = in_64_mib("cat", &dir.path().join(NAME)).expect_code(0);
    assert_eq!(lines.stdout, b"\n".repeat(count * blocks as usize));
}

#[test]
fn numbers_that_a_block_or_a_marker_would_run_out_of_are_refused() {
    let dir = temp_dir();
    let last = u64::MAX;
    let mut hostile = Hostile::starting_at(last - 3);
    hostile.entry(last - 3, b"sound");
    let raw = rows(3);
    let payload = [block_header(0, 3, &raw, raw.len() as u64), raw].concat();
    hostile.frame(FrameKind::Block, last - 2, &payload);
    let marker = DropMarker { count: last, time_ns: 1, tseq: 1, tid: 0, reason: DropReason::Policy, level: 0 };
    hostile.encoded(FrameKind::DropMarker, last - 2, |out| marker.encode(out));
    let loss = DeclaredLoss { count: last, class: LossClass::Corruption };
    hostile.frame(FrameKind::DeclaredLoss, last - 2, &loss.encode(16));
    // The last number of all is nobody's, twice.
    hostile.entry(last - 1, b"sound").entry(last, b"never").entry(last, b"never").save(dir.path());
    let (seqs, faults) = read_dir(dir.path());
    assert_eq!(seqs, [last - 3, last - 1]);
    assert!(faults.iter().filter(|fault| **fault == Fault::FrameContent).count() >= 4, "{faults:?}");
    in_64_mib("verify", dir.path()).expect_code(1);
    let refused = Writer::open(dir.path(), Options::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
}

/// Found by fuzzing: a first number of 0, an entry with number 0 behind damage, a record that claims the last number.
#[test]
fn number_zero_and_the_last_number_do_no_harm() {
    let dir = temp_dir();
    let mut hostile = Hostile::starting_at(0);
    hostile.encoded(FrameKind::SyncMark, 0, |out| SyncMark { synced_upto: u64::MAX, time_ns: 1 }.encode(out));
    hostile.bytes[HEADER_BYTES] ^= 1;
    hostile.entry(0, b"zero").entry(1, b"sound").save(dir.path());
    assert_eq!(read_dir(dir.path()).0, [1]);
    let state = WriterState {
        log_id: 1,
        run_id: 2,
        boot_id: [3; 16],
        newest_seq: u64::MAX,
        segment_id: ID,
        upto: u64::MAX,
        first_seq_kept: 1,
        is_closed: true,
    };
    let record = format!("{:<width$}\n{}", "pid 1", state.encode(), width = PID_BYTES - 1);
    fs::write(dir.path().join(LOCK_NAME), record).unwrap();
    assert_eq!(read_dir(dir.path()).0, [1]);
    in_64_mib("verify", dir.path()).expect_code(1);
    assert_eq!(Writer::open(dir.path(), Options::new()).unwrap_err().kind(), ErrorKind::Damaged);
}

#[test]
fn lengths_that_lie_take_linear_time() {
    let dir = temp_dir();
    let mut sound = Hostile::new();
    while sound.bytes.len() < 8 << 20 {
        sound.entry(1, b"sound");
    }
    sound.save(dir.path());
    let started = Instant::now();
    read_dir(dir.path());
    let bound = started.elapsed() * 20 + Duration::from_secs(2);
    // Each length at each place: over the end, up to the end, over the next megabyte, over the next header.
    for len in [u32::MAX, PAYLOAD_BYTES_MAX as u32, 100_000, 8, 0] {
        let mut hostile = Hostile::new();
        while hostile.bytes.len() < 8 << 20 {
            hostile.lying_header(len);
        }
        hostile.entry(1, b"sound").save(dir.path());
        let started = Instant::now();
        let (seqs, faults) = read_dir(dir.path());
        assert!(started.elapsed() < bound, "length {len}: {:?} over {bound:?}", started.elapsed());
        assert!(!faults.is_empty());
        // A frame whose header holds is passed over by its length, whatever lies in it; one that is too long is not.
        assert!(seqs == [1] || (8..=PAYLOAD_BYTES_MAX as u32).contains(&len), "length {len}: {seqs:?}");
    }
}

#[test]
fn definitions_without_end_take_bounded_memory() {
    let dir = temp_dir();
    let mut hostile = Hostile::new();
    let site = CallSite {
        level: Level::Info,
        category: "a".into(),
        file: "b".into(),
        line: 1,
        template: "c".into(),
        fields: vec![String::new(); 4],
    };
    for id in 1..300_000u32 {
        hostile.encoded(FrameKind::CallSite, 1, |out| site.encode(id, out));
    }
    // One definition with as many names as a frame holds.
    let many = CallSite { fields: vec![String::new(); 1 << 19], ..site };
    (0..8).for_each(|id| {
        hostile.encoded(FrameKind::CallSite, 1, |out| many.encode(1_000_000 + id, out));
    });
    hostile.entry(1, b"sound").seal(&seal(1)).save(dir.path());
    assert_eq!(in_64_mib("cat", dir.path()).text(), "sound\n");
}

#[test]
fn an_index_that_lies_hides_nothing_and_takes_linear_time() {
    let dir = temp_dir();
    let point = |offset, seq| IndexPoint { offset, seq, time_min_ns: 1, time_max_ns: 1 };
    let mut sound = Hostile::new();
    sound.entries(1..=1000);
    let end = sound.offset();
    let lies = [
        vec![point(1024, 900)],
        vec![point(0, 1), point(u64::MAX, 2)],
        vec![point(1025, 1), point(1032, 2), point(end, 3)],
        vec![point(end - 56, 5), point(1024, 1)],
        vec![point(1 << 40, 1); 8192],
    ];
    for points in lies {
        let mut hostile = Hostile { bytes: sound.bytes.clone() };
        // The same place over and over, and places where nothing stands.
        let definitions = (0..60_000).map(|number| [1032, u64::MAX, 0, 1024][number % 4]).collect();
        hostile.seal(&Seal { points, definitions, ..seal(1000) }).save(dir.path());
        let started = Instant::now();
        for seq in [1, 2, 500, 1000] {
            let mut reader = LogReader::open(dir.path()).unwrap();
            let position = reader.position_of_seq(seq).unwrap();
            reader.seek(position);
            let (seqs, _) = read(&mut reader);
            assert!(seqs.ends_with(&(seq..=1000).collect::<Vec<_>>()), "{seq}: {position:?}");
        }
        let mut timed = LogReader::open(dir.path()).unwrap();
        timed.set_times(1..=1);
        assert_eq!(read(&mut timed).0.len(), 1000);
        timed.snapshot().definitions(0).unwrap();
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }
}

#[test]
fn index_marks_that_go_in_circles_come_to_an_end() {
    let dir = temp_dir();
    for previous in [0, 1, 1024, 1032, 1 << 20, u64::MAX] {
        let mut hostile = Hostile::new();
        hostile.entries(1..=3);
        let mut marks = Vec::new();
        for _ in 0..3 {
            let own = hostile.offset();
            marks.push(own);
            // Itself, the next one, and wherever.
            for previous_mark in [own, own + 88, previous] {
                let point = IndexPoint { offset: own, seq: 4, time_min_ns: 1, time_max_ns: 1 };
                hostile.encoded(FrameKind::IndexMark, 4, |out| IndexMark { previous_mark, point }.encode(out));
            }
        }
        hostile.entry(4, b"sound").save(dir.path());
        let mut reader = LogReader::open(dir.path()).unwrap();
        let position = reader.position_of_seq(2).unwrap();
        reader.seek(position);
        assert!(read(&mut reader).0.ends_with(&[2, 3, 4]), "{previous}: {position:?}");
        let mut timed = LogReader::open(dir.path()).unwrap();
        timed.set_times(1..=1);
        assert_eq!(read(&mut timed).0, [1, 2, 3, 4]);
    }
}

#[test]
fn the_index_of_a_sound_log_is_used() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), Options::new()).unwrap();
    for number in 0..40_000u64 {
        writer.line(&[b'x'; 100], 0, number as i64).unwrap();
    }
    writer.close().unwrap();
    let reader = LogReader::open(dir.path()).unwrap();
    let position = reader.position_of_seq(39_000).unwrap();
    assert!(position.offset > 1 << 20 && position.seq <= 39_000, "{position:?}");
}

#[test]
fn whatever_has_a_segments_name_is_read_or_told_and_never_waited_for() {
    let dir = temp_dir();
    Hostile::new().entries(1..=3).save(dir.path());
    let at = |name: &str| dir.path().join(name);
    nix::unistd::mkfifo(&at("00000002-20260101T000000Z.flog"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(at("00000003-20260101T000000Z.flog")).unwrap();
    symlink("/dev/zero", at("00000004-20260101T000000Z.flog")).unwrap();
    symlink("00000005-20260101T000000Z.flog", at("00000005-20260101T000000Z.flog")).unwrap();
    symlink("nowhere", at("00000006-20260101T000000Z.flog")).unwrap();
    symlink("/dev/tty", at("00000007-20260101T000000Z.flog")).unwrap();
    symlink(NAME, at("00000008-20260101T000000Z.flog")).unwrap();
    let (seqs, faults) = read_dir(dir.path());
    assert_eq!(seqs, [1, 2, 3]);
    assert!(faults.iter().filter(|fault| **fault == Fault::NotAFile).count() >= 5, "{faults:?}");
    assert!(faults.contains(&Fault::Duplicate), "{faults:?}");
    for number in 2..=7 {
        assert!(snapshot_of(&at(&format!("0000000{number}-20260101T000000Z.flog"))).is_err());
    }
    in_64_mib("verify", dir.path()).expect_code(1);
    let shown = in_64_mib("cat", dir.path()).expect_code(1);
    assert_eq!(shown.text(), "sound\n".repeat(3));
}

#[test]
fn a_lock_that_is_no_file_is_no_evidence_and_never_waited_for() {
    let make: [fn(&Path); 5] = [
        |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| symlink("/dev/zero", path).unwrap(),
        |path| symlink(LOCK_NAME, path).unwrap(),
        |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
    ];
    for make in make {
        let dir = temp_dir();
        Hostile::new().entries(1..=3).save(dir.path());
        make(&dir.path().join(LOCK_NAME));
        let (seqs, faults) = read_dir(dir.path());
        assert_eq!((seqs, faults), (vec![1, 2, 3], vec![Fault::NoEvidence]));
        assert!(Writer::open(dir.path(), Options::new()).is_err());
    }
}

#[test]
fn names_with_control_characters_reach_no_terminal() {
    let dir = temp_dir();
    Hostile::new().entries(1..=1).save(dir.path());
    let evil = "00000002-20260101T000000Z\u{1b}[2J\u{202e}.flog";
    fs::write(dir.path().join(evil), b"x").unwrap();
    for args in ["verify", "stat", "cat"] {
        let outcome = in_64_mib(args, dir.path());
        assert!(!outcome.stderr.contains(['\u{1b}', '\u{202e}']), "{args}: {:?}", outcome.stderr);
        let by_name = in_64_mib(args, &dir.path().join(evil));
        assert!(!by_name.stderr.contains(['\u{1b}', '\u{202e}']), "{args}: {:?}", by_name.stderr);
        assert!(matches!(by_name.code, Some(1 | 2)), "{by_name:?}");
    }
}

/// Found by fuzzing: a successor that puts the end of the segment before it into its header, or to the end of all offsets.
#[test]
fn an_end_that_no_writer_tells_makes_repair_harm_nothing() {
    for accepted_end in [0, 1023, 1025, u64::MAX] {
        let dir = temp_dir();
        let mut first = Hostile::new();
        first.entries(1..=3).save(dir.path());
        let header = SegmentHeader::decode(first.bytes.first_chunk().unwrap()).unwrap();
        let predecessor = Some(Predecessor { segment_id: ID, last_seq: 3, accepted_end });
        let header = SegmentHeader { index: 2, index_last: 2, segment_id: 9, first_seq: 4, predecessor, ..header };
        fs::write(dir.path().join("00000002-20260101T000000Z.flog"), header.encode()).unwrap();
        assert_eq!(read_dir(dir.path()).0, [1, 2, 3], "{accepted_end}");
        in_64_mib("repair", dir.path());
        assert_eq!(read_dir(dir.path()).0, [1, 2, 3], "{accepted_end}");
        let left = fs::read(dir.path().join(NAME)).unwrap();
        assert!(left.starts_with(&first.bytes), "{accepted_end}");
    }
}
