//! The check of one segment: scan and walk against a second reading of it, written from the words of `format.md`.

use std::cell::Cell;
use std::io;

use logtool::block::BlockReader;
use logtool::control::{DeclaredLoss, DropMarker};
use logtool::entry::EntryHead;
use logtool::finding::{Loss, NoteKind};
use logtool::format::{FRAME_HEADER_BYTES, FRAME_MARKER, FrameKind, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use logtool::scan::{Found, FrameScan};
use logtool::segment::{Predecessor, SegmentHeader};
use logtool::storage::ReadAt;
use logtool::walk::{Ending, Item, SegmentWalk};

use crate::input::Input;
use crate::script::{self, header_crc, payload_crc};

/// A file that counts what is read of it, and may give less than asked for.
struct Counted<'a> {
    bytes: &'a [u8],
    most_at_once: usize,
    read_bytes: Cell<u64>,
}

impl<'a> Counted<'a> {
    fn new(bytes: &'a [u8], most_at_once: usize) -> Counted<'a> {
        Counted { bytes, most_at_once, read_bytes: Cell::new(0) }
    }
}

impl ReadAt for Counted<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = buffer.len().min(self.most_at_once);
        let count = self.bytes.read_at(&mut buffer[..len], offset)?;
        self.read_bytes.set(self.read_bytes.get() + count as u64);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

/// A frame as the second reading has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    offset: u64,
    bytes: u64,
    kind: u8,
    flags: u8,
    seq: u64,
    payload: Vec<u8>,
}

/// What stands at a place: a whole frame and whether its payload holds; `None` without a header, or where it is too long.
fn frame_at(bytes: &[u8], id: u64, offset: u64, end: u64) -> Option<(Frame, bool)> {
    let end = end.min(bytes.len() as u64);
    let here = bytes.get(offset as usize..end as usize)?;
    let header: &[u8; FRAME_HEADER_BYTES] = here.first_chunk()?;
    if header[0] != FRAME_MARKER || header[20..] != header_crc(id, offset, header).to_le_bytes() {
        return None;
    }
    let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    let whole = FRAME_HEADER_BYTES + len.div_ceil(8) * 8;
    if len > PAYLOAD_BYTES_MAX || whole > here.len() {
        return None;
    }
    let payload = here[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + len].to_vec();
    let is_valid = header[16..20] == payload_crc(id, &payload).to_le_bytes();
    let seq = u64::from_le_bytes(header[8..16].try_into().unwrap());
    Some((Frame { offset, bytes: whole as u64, kind: header[1], flags: header[2], seq, payload }, is_valid))
}

/// The frames that are valid, as "How to read a segment" says.
fn second_scan(bytes: &[u8], id: u64, start: u64, end: u64, seq_min: u64) -> Vec<Frame> {
    let (mut frames, mut at, mut seq_min): (Vec<Frame>, u64, u64) = (Vec::new(), start, seq_min);
    while at < end {
        match frame_at(bytes, id, at, end) {
            Some((frame, true)) if frame.seq >= seq_min => {
                (at, seq_min) = (at + frame.bytes, frame.seq);
                frames.push(frame);
            }
            Some((frame, _)) => at += frame.bytes,
            None => at += 8,
        }
    }
    frames
}

/// An entry as it is told from the others.
type Told = (u64, u8, Vec<u8>);

/// The entries of these frames.
fn second_walk(frames: &[Frame], first_seq: u64) -> Vec<Told> {
    let (mut entries, mut expected) = (Vec::new(), first_seq);
    for frame in frames.iter() {
        if frame.seq < expected {
            continue;
        }
        expected = frame.seq;
        let uses = match FrameKind::from_u8(frame.kind) {
            Some(FrameKind::Seal) if logtool::control::Seal::decode(&frame.payload).is_some() => break,
            Some(FrameKind::Entry) => u64::from(frame.payload.len() >= 24),
            Some(FrameKind::Block) => BlockReader::default().decode(&frame.payload).map_or(0, |header| header.count),
            Some(FrameKind::DropMarker) => DropMarker::decode(&frame.payload).map_or(0, |marker| marker.count),
            Some(FrameKind::DeclaredLoss) => DeclaredLoss::decode(&frame.payload).count,
            _ => 0,
        };
        // Numbers end: a frame that would use more than there are uses none.
        let Some(next) = expected.checked_add(uses) else { continue };
        if frame.kind == FrameKind::Entry as u8 && uses == 1 {
            entries.push((frame.seq, frame.flags, frame.payload.clone()));
        }
        if frame.kind == FrameKind::Block as u8 && uses > 0 {
            let mut block = BlockReader::default();
            block.decode(&frame.payload).unwrap();
            entries.extend(block.rows().zip(frame.seq..).map(|(row, seq)| (seq, row.flags, row.payload.to_vec())));
        }
        expected = next;
    }
    entries
}

/// Scan and walk of one segment.
pub fn segment(data: &[u8]) {
    let mut input = Input::new(data);
    let (choice, header) = (input.u8(), script::header(&mut input));
    let ending_last = input.number();
    let script::Segment { bytes, last_seq, .. } = script::segment(&mut input, &header);
    check_scan(&bytes, &header, choice);
    let end = bytes.len() as u64;
    let accepted_end = if choice & 8 == 0 { end } else { ending_last.min(end + 64) };
    let followed = |last_seq| Ending::Followed {
        link: Predecessor { segment_id: header.segment_id, last_seq, accepted_end },
        wants_seal: choice & 1 != 0,
    };
    let ending = match choice >> 4 & 7 {
        0 | 1 => followed(last_seq),
        2 => followed(ending_last),
        3 => Ending::Unlinked,
        4 => Ending::Live,
        5 => Ending::Alone,
        6 => Ending::Newest {
            upto: Some(last_seq),
            closed: choice & 1 != 0,
            power_cut: choice & 2 != 0,
            vouched: choice & 4 != 0,
        },
        _ => {
            Ending::Newest { upto: None, closed: choice & 1 != 0, power_cut: choice & 2 != 0, vouched: choice & 4 != 0 }
        }
    };
    check_walk(&bytes, &header, ending);
}

fn check_scan(bytes: &[u8], header: &SegmentHeader, choice: u8) {
    let (id, start, end) = (header.segment_id, HEADER_BYTES as u64, bytes.len() as u64);
    // A file may have been cut since its length was asked for.
    let told_end = if choice & 4 == 0 { end } else { end + 8 * u64::from(choice) };
    let scan_all = |most_at_once| {
        let source = Counted::new(bytes, most_at_once);
        let mut scan = FrameScan::new(&source, id, start, told_end, header.first_seq);
        let (mut found_all, mut frames, mut at) = (Vec::new(), Vec::new(), start);
        while let Some(found) = scan.next_found().unwrap() {
            let (offset, len) = match &found {
                Found::Frame { offset, header, .. } => {
                    let payload = scan.payload().to_vec();
                    frames.push(Frame {
                        offset: *offset,
                        bytes: header.frame_bytes(),
                        kind: header.kind,
                        flags: header.flags,
                        seq: header.seq,
                        payload,
                    });
                    (*offset, header.frame_bytes())
                }
                Found::Hole(hole) => (hole.offset, hole.len),
                Found::Tail { hole, zeros_from } => {
                    assert!((hole.offset..=hole.offset + hole.len).contains(zeros_from));
                    let zeros = bytes.get(*zeros_from as usize..).unwrap_or(&[]);
                    assert!(zeros.iter().all(|&byte| byte == 0));
                    assert_eq!(scan.offset(), scan.end());
                    (hole.offset, hole.len)
                }
            };
            assert_eq!(offset, at, "no byte is told twice, none is passed over");
            assert!(len > 0, "each step goes on");
            at = offset + len;
            assert_eq!(at, scan.offset());
            found_all.push(found);
        }
        assert!(at == scan.end() || end < start, "{at} of {}", scan.end());
        assert!(scan.end() <= told_end && scan.end() >= end.min(told_end));
        // Each byte is read for what stands there and once more by a search: at most a buffer more for each end.
        assert!(source.read_bytes.get() <= 6 * end + (1 << 20), "{} read of {end}", source.read_bytes.get());
        (found_all, frames)
    };
    let (found, frames) = scan_all(usize::MAX);
    assert_eq!(frames, second_scan(bytes, id, start, end, header.first_seq));
    assert_eq!(scan_all(13).0, found, "however little is read at once");
    if choice & 2 != 0 {
        // A start at a rough place finds what is there from then on.
        let mut scan = FrameScan::new(bytes, id, start, end, header.first_seq);
        let place = start + u64::from(choice) * 9;
        let at = scan.seek_frame(place).unwrap();
        assert!(at >= place.min(end));
        let next = scan.next_found().unwrap();
        assert_eq!(matches!(next, Some(Found::Frame { offset, .. }) if offset == at), at < end);
    }
}

/// All of a walk: what is told accounts for each number in turn, and the entries are those of the second reading.
fn check_walk(bytes: &[u8], header: &SegmentHeader, ending: Ending) {
    let end = bytes.len() as u64;
    let source = Counted::new(bytes, usize::MAX);
    let mut walk = SegmentWalk::new(&source, "memory", header, end, ending);
    let (mut entries, mut next, mut told): (Vec<Told>, u64, u64) = (Vec::new(), header.first_seq, 0);
    while let Some(item) = walk.next_item().unwrap() {
        crate::show(|| format!("{item:?}"));
        told += 1;
        let used = match item {
            Item::Entry(entry) => {
                assert_eq!(entry.values().count(), entry.values().count());
                let mut payload = Vec::new();
                EntryHead { ..entry.head }.encode(&mut payload);
                payload.extend_from_slice(entry.body);
                entries.push((entry.seq, entry.flags, payload));
                Some((entry.seq, entry.seq))
            }
            Item::Finding(finding) => {
                let place = finding.place.unwrap();
                assert!(place.offset.checked_add(place.len).is_some());
                match finding.loss {
                    Loss::Seqs(seqs) => Some((seqs.first, seqs.last)),
                    Loss::Nothing | Loss::UnknownAfter(_) => None,
                }
            }
            Item::Note(note) => match note.kind {
                NoteKind::Dropped { seqs, .. } | NoteKind::DeclaredLoss { seqs, .. } => Some((seqs.first, seqs.last)),
                _ => None,
            },
        };
        if let Some((first, last)) = used {
            assert!(first <= last, "{first}..{last}");
            assert!(first == next || next == 0, "{first} is told where {next} comes next");
            assert!(first != 0 || next == 0);
            next = last.saturating_add(1);
        }
    }
    assert!(told <= end / 8 * 4 + 16 + entries.len() as u64);
    assert!(source.read_bytes.get() <= 12 * end + (2 << 20), "{} read of {end}", source.read_bytes.get());
    let scan_end = match ending {
        Ending::Followed { link, .. } => end.min(link.accepted_end.max(HEADER_BYTES as u64)),
        _ => end,
    };
    let frames = second_scan(bytes, header.segment_id, HEADER_BYTES as u64, scan_end, header.first_seq);
    assert_eq!(entries, second_walk(&frames, header.first_seq));
    let summary = walk.summary();
    assert_eq!(summary.entries, entries.len() as u64);
    assert_eq!(summary.first_entry_seq, entries.first().map(|entry| entry.0));
    if next != 0 && next != header.first_seq {
        assert!(summary.last_seq >= next - 1, "{} but {next} comes next", summary.last_seq);
    }
}
