//! `src/format.md` against the code: its constants, its kinds, and its worked example.

use std::fmt::Write as _;

use logtool::entry::EntryHead;
use logtool::format::{self, FrameKind, HEADER_BYTES};
use logtool::frame::{Seed, push_frame};
use logtool::segment::SegmentHeader;

use crate::harness::repository;

fn document() -> String {
    std::fs::read_to_string(repository().join("src/format.md")).unwrap()
}

/// The cells of all table rows of the document.
fn rows(document: &str) -> Vec<Vec<String>> {
    let row = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    document.lines().filter(|line| line.starts_with('|')).map(row).collect()
}

#[test]
fn the_document_tells_the_constants_of_the_code() {
    let constants = [
        ("VERSION", u64::from(format::VERSION)),
        ("HEADER_COPY_BYTES", format::HEADER_COPY_BYTES as u64),
        ("HEADER_BYTES", format::HEADER_BYTES as u64),
        ("FRAME_HEADER_BYTES", format::FRAME_HEADER_BYTES as u64),
        ("FRAME_ALIGN", format::FRAME_ALIGN as u64),
        ("FRAME_MARKER", u64::from(format::FRAME_MARKER)),
        ("PAYLOAD_BYTES_MAX", format::PAYLOAD_BYTES_MAX as u64),
        ("BLOCK_RAW_BYTES_MAX", format::BLOCK_RAW_BYTES_MAX as u64),
        ("ZSTD_WINDOW_LOG_MAX", u64::from(format::ZSTD_WINDOW_LOG_MAX)),
        ("ENTRY_HEAD_BYTES", format::ENTRY_HEAD_BYTES as u64),
        ("VOID_SEQS", format::VOID_SEQS),
        ("INDEX_POINTS_MAX", format::INDEX_POINTS_MAX as u64),
    ];
    let rows = rows(&document());
    for (name, value) in constants {
        let quoted = format!("`{name}`");
        let row = rows.iter().find(|row| row[0] == quoted).unwrap_or_else(|| panic!("{name} has no row"));
        assert_eq!(row[1], value.to_string(), "{name}");
    }
}

#[test]
fn the_document_lists_every_kind_with_its_number() {
    let rows = rows(&document());
    for kind in FrameKind::ALL {
        let (number, name) = ((kind as u8).to_string(), format!("{kind:?}"));
        assert!(rows.iter().any(|row| row[0] == number && row[1] == name), "{number} {name}");
    }
}

/// The segment of the example.
fn example() -> Vec<u8> {
    let header = SegmentHeader {
        flags: 0,
        log_id: 0x7f3a_91c2_0000_0001,
        run_id: 0x1111_1111_1111_1111,
        segment_id: 0x2222_2222_3333_3333,
        boot_id: [0x44; 16],
        index: 1,
        index_last: 1,
        generation: 0,
        pid: 4121,
        first_seq: 1,
        opened_ns: 1_796_040_000_000_000_000,
        synced_upto: 0,
        first_seq_kept: 1,
        predecessor: None,
    };
    let mut bytes = header.encode().to_vec();
    let mut payload = Vec::new();
    EntryHead { time_ns: header.opened_ns, tseq: 1, tid: 0, site: 0 }.encode(&mut payload);
    payload.extend_from_slice(b"hello");
    let seed = Seed::new(header.segment_id);
    push_frame(&mut bytes, seed, HEADER_BYTES as u64, FrameKind::Entry, 0, 1, &payload);
    bytes
}

/// As `hexdump -C` shows bytes.
fn dump(bytes: &[u8]) -> String {
    let (mut text, mut last, mut starred) = (String::new(), None, false);
    for (number, line) in bytes.chunks(16).enumerate() {
        if last == Some(line) {
            if !starred {
                text.push_str("*\n");
            }
            starred = true;
            continue;
        }
        (last, starred) = (Some(line), false);
        let hex = line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let shown: String =
            line.iter().map(|&byte| if (0x20..0x7f).contains(&byte) { byte as char } else { '.' }).collect();
        writeln!(text, "{:08x}  {hex:<47}  |{shown}|", number * 16).unwrap();
    }
    writeln!(text, "{:08x}", bytes.len()).unwrap();
    text
}

/// The words before the values of the record in `writer.lock`, in order.
#[test]
fn the_record_is_the_line_that_the_document_tells() {
    let state = logtool::state::WriterState {
        log_id: 1,
        run_id: 2,
        boot_id: [3; 16],
        newest_seq: 4,
        segment_id: 5,
        upto: 6,
        first_seq_kept: 7,
        is_closed: true,
    };
    let names = |line: &str| line.split(' ').step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let document = document();
    let told = document.split('`').find(|code| code.starts_with("log X ")).unwrap();
    assert_eq!(names(told), names(&state.encode()));
}

#[test]
fn the_worked_example_is_what_the_code_writes() {
    let (document, expected) = (document(), dump(&example()));
    let start = document.rfind("```text\n").unwrap() + "```text\n".len();
    let end = document[start..].find("```").unwrap() + start;
    if std::env::var_os("UPDATE").is_some() {
        let updated = format!("{}{expected}{}", &document[..start], &document[end..]);
        std::fs::write(repository().join("src/format.md"), updated).unwrap();
    } else {
        assert_eq!(&document[start..end], expected, "UPDATE=1 cargo test writes it anew");
    }
}

#[test]
fn the_worked_example_reads_as_one_entry() {
    let dir = crate::harness::temp_dir();
    let path = dir.path().join("00000001-20261130T120000Z.flog");
    std::fs::write(&path, example()).unwrap();
    let mut reader = logtool::LogReader::open(&path).unwrap();
    let mut texts = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let logtool::Item::Entry(entry) = item {
            texts.push((entry.seq, entry.text().unwrap().to_vec()));
        }
    }
    assert_eq!(texts, [(1, b"hello".to_vec())]);
}
