//! Seals that contradict what stands before them: no number is given twice.

use logtool::format::FrameKind;
use logtool::{Options, Writer};

use crate::harness::temp_dir;
use crate::hostile::{Hostile, read_dir, seal};

/// Entries 1 to 100 and a seal numbered `seal_seq` that claims to have come to `last_seq`: the number that a writer gives
/// next, behind all of which a reader gives each.
fn next_behind(seal_seq: u64, last_seq: u64) -> u64 {
    let dir = temp_dir();
    let mut hostile = Hostile::new();
    hostile.entries(1..=100);
    let offset = hostile.offset();
    hostile.encoded(FrameKind::Seal, seal_seq, |out| seal(last_seq).encode(offset, out)).save(dir.path());
    let mut writer = Writer::open(dir.path(), Options::new()).unwrap();
    let seq = writer.line(b"new", 0, 1).unwrap();
    writer.close().unwrap();
    assert_eq!(read_dir(dir.path()).0, (1..=100).chain([seq]).collect::<Vec<_>>());
    seq
}

/// What stands before its own number counts, whatever it says of itself.
#[test]
fn numbers_that_a_seal_stands_behind_are_not_given_again() {
    let seq = next_behind(1 << 40, 100);
    assert!(seq >= 1 << 40, "{seq}");
}

/// Found by fuzzing: numbers that a seal denies would have been given again, and their entries hidden.
#[test]
fn a_seal_that_denies_numbers_does_not_have_them_given_again() {
    let seq = next_behind(101, 3);
    assert!(seq > 100, "{seq}");
}
