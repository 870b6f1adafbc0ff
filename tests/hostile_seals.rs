//! Seals that contradict what stands before them: no number is given twice.

use logtool::format::FrameKind;
use logtool::{Options, Writer};

use crate::harness::temp_dir;
use crate::hostile::{Hostile, read_dir, seal};

#[test]
fn numbers_that_a_seal_stands_behind_are_not_given_again() {
    let dir = temp_dir();
    let mut hostile = Hostile::new();
    hostile.entries(1..=100);
    let offset = hostile.offset();
    // What stands before its own number counts, whatever it says of itself.
    hostile.encoded(FrameKind::Seal, 1 << 40, |out| seal(100).encode(offset, out)).save(dir.path());
    let mut writer = Writer::open(dir.path(), Options::new()).unwrap();
    let seq = writer.line(b"new", 0, 1).unwrap();
    writer.close().unwrap();
    assert!(seq >= 1 << 40, "{seq}");
    assert_eq!(read_dir(dir.path()).0, (1..=100).chain([seq]).collect::<Vec<_>>());
}

/// Found by fuzzing: numbers that a seal denies would have been given again, and their entries hidden.
#[test]
fn a_seal_that_denies_numbers_does_not_have_them_given_again() {
    let dir = temp_dir();
    let mut hostile = Hostile::new();
    hostile.entries(1..=100);
    let offset = hostile.offset();
    hostile.encoded(FrameKind::Seal, 101, |out| seal(3).encode(offset, out)).save(dir.path());
    let mut writer = Writer::open(dir.path(), Options::new()).unwrap();
    let seq = writer.line(b"new", 0, 1).unwrap();
    writer.close().unwrap();
    assert!(seq > 100, "{seq}");
    assert_eq!(read_dir(dir.path()).0, (1..=100).chain([seq]).collect::<Vec<_>>());
}
