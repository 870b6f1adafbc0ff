//! What a scan gives of sound, cut, damaged and growing segments.

use super::*;
use crate::format::{FrameKind, HEADER_BYTES};
use crate::frame::{frame_bytes, push_frame};

const ID: u64 = 0x0123_4567_89ab_cdef;
const START: u64 = HEADER_BYTES as u64;

/// A segment with entries 1 to `count`, each frame 40 bytes long.
fn segment(count: u64) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    for seq in 1..=count {
        let offset = out.len() as u64;
        push_frame(&mut out, Seed::new(ID), offset, FrameKind::Entry, 0, seq, format!("entry {seq:04}").as_bytes());
    }
    out
}

fn frame_start(seq: u64) -> usize {
    HEADER_BYTES + (seq as usize - 1) * frame_bytes(10)
}

fn scan(bytes: &[u8]) -> Vec<Found> {
    let mut scan = FrameScan::new(bytes, ID, START, bytes.len() as u64, 1);
    let mut all = Vec::new();
    while let Some(found) = scan.next_found().unwrap() {
        if let Found::Frame { header, .. } = &found {
            assert_eq!(scan.payload(), format!("entry {:04}", header.seq).as_bytes());
        }
        all.push(found);
    }
    all
}

fn seqs(found: &[Found]) -> Vec<u64> {
    found
        .iter()
        .filter_map(|found| if let Found::Frame { header, .. } = found { Some(header.seq) } else { None })
        .collect()
}

#[test]
fn a_sound_segment_gives_all_its_frames() {
    let found = scan(&segment(5000));
    assert_eq!(seqs(&found), (1..=5000).collect::<Vec<_>>());
    assert_eq!(found.len(), 5000);
}

#[test]
fn a_flipped_bit_costs_one_frame_wherever_it_is() {
    let good = segment(5);
    for bit in START as usize * 8..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let hit = ((bit / 8 - HEADER_BYTES) / 40 + 1) as u64;
        let found = scan(&bad);
        let lost: Vec<u64> = (1..=5).filter(|seq| !seqs(&found).contains(seq)).collect();
        let padding = (bit / 8 - HEADER_BYTES) % 40 >= 34;
        assert_eq!(lost, if padding { vec![] } else { vec![hit] }, "bit {bit}");
        let told = found.iter().any(|found| match found {
            Found::Frame { padding_ok, .. } => !padding_ok,
            Found::Hole(hole) => hole.offset == frame_start(hit) as u64 && hole.len == 40,
            Found::Tail { hole, .. } => hit == 5 && hole.offset == frame_start(5) as u64,
        });
        assert!(told, "bit {bit}: {found:?}");
    }
}

#[test]
fn a_cut_gives_every_whole_frame_and_a_tail() {
    let good = segment(3);
    for len in HEADER_BYTES..good.len() {
        let found = scan(&good[..len]);
        let whole = (len - HEADER_BYTES) / 40;
        assert_eq!(seqs(&found).len(), whole, "{len}");
        let tail = matches!(found.last(), Some(Found::Tail { hole, .. }) if hole.offset as usize == frame_start(whole as u64 + 1));
        assert_eq!(tail, !(len - HEADER_BYTES).is_multiple_of(40), "{len}");
    }
}

/// etcd#5230, etcd#6515, spdlog#884: zeros from any place on to the end.
#[test]
fn zeros_at_the_end_are_a_tail_and_told_as_zeros() {
    let good = segment(3);
    for from in HEADER_BYTES..good.len() {
        let mut bad = good.clone();
        bad[from..].fill(0);
        bad.resize(bad.len() + 3000, 0);
        let found = scan(&bad);
        let Some(Found::Tail { zeros_from, .. }) = found.last() else { panic!("{from}: {found:?}") };
        assert!(*zeros_from as usize <= from.next_multiple_of(8), "{from}: {zeros_from}");
        assert!(seqs(&found).len() >= (from - HEADER_BYTES) / 40);
    }
}

#[test]
fn a_frame_logged_inside_a_payload_is_not_taken_for_one() {
    let inner = segment(3)[HEADER_BYTES..].to_vec();
    let mut out = vec![0; HEADER_BYTES];
    push_frame(&mut out, Seed::new(ID), START, FrameKind::Entry, 0, 1, &inner);
    let next = out.len() as u64;
    push_frame(&mut out, Seed::new(ID), next, FrameKind::Entry, 0, 2, b"entry 0002");
    out[HEADER_BYTES] = 0;
    assert_eq!(seqs(&scan(&out)), [2]);
}

/// badger#154, bookkeeper#3956.
#[test]
fn garbage_at_the_end_is_a_tail_in_bounded_memory() {
    let mut bad = segment(2);
    bad.extend_from_slice(&[0xf7; 64]);
    let at = bad.len() - 60;
    bad[at..at + 4].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    let found = scan(&bad);
    assert_eq!(seqs(&found), [1, 2]);
    assert!(matches!(found[2], Found::Tail { ref hole, .. } if hole.len == 64));
}

#[test]
fn a_file_shortened_while_it_is_read_ends_the_scan() {
    let good = segment(3);
    for len in HEADER_BYTES..good.len() {
        let mut scan = FrameScan::new(&good[..len], ID, START, good.len() as u64, 1);
        let mut whole = 0;
        while let Some(found) = scan.next_found().unwrap() {
            whole += usize::from(matches!(found, Found::Frame { .. }));
        }
        assert_eq!((whole, scan.end()), ((len - HEADER_BYTES) / 40, len as u64));
    }
}

#[test]
fn a_scan_goes_on_where_the_segment_grew() {
    let good = segment(3);
    for len in HEADER_BYTES..good.len() {
        let mut scan = FrameScan::new(good.as_slice(), ID, START, len as u64, 1);
        let (mut whole, mut at) = (0, START);
        while let Some(found) = scan.next_found().unwrap() {
            if let Found::Frame { .. } = found {
                (whole, at) = (whole + 1, scan.offset());
            }
        }
        scan.set_end(good.len() as u64, at);
        while let Some(found) = scan.next_found().unwrap() {
            assert!(matches!(found, Found::Frame { .. }), "{len}: {found:?}");
            whole += 1;
        }
        assert_eq!(whole, 3, "{len}");
    }
}

#[test]
fn a_reader_that_starts_anywhere_finds_the_next_frame() {
    let good = segment(200);
    for offset in (START..good.len() as u64).step_by(7) {
        let mut scan = FrameScan::new(good.as_slice(), ID, START, good.len() as u64, 1);
        let expected = (offset - START).div_ceil(40) * 40 + START;
        assert_eq!(scan.seek_frame(offset).unwrap(), expected.min(good.len() as u64));
    }
}

#[test]
fn many_damaged_frames_are_scanned_in_linear_time() {
    let mut bad = segment(200_000);
    (1..=200_000).for_each(|seq| bad[frame_start(seq) + 30] ^= 1);
    let started = std::time::Instant::now();
    let found = scan(&bad);
    assert_eq!(found.len(), 1);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
