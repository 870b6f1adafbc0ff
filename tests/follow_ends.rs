//! When a follower looks again at what was only begun, and whom it believes at the end of a log.

use std::io::Write;
use std::time::{Duration, Instant};

use logtool::format::HEADER_BYTES;
use logtool::{Follower, Start, Writer};

use crate::follow::Given;
use crate::harness::temp_dir;
use crate::writer_basic::options;

/// A header alone does not tell yet that its segment comes next, and no event tells when it does.
#[test]
fn a_segment_that_was_seen_before_its_first_frame_is_not_kept_waiting() {
    let (from, to) = (temp_dir(), temp_dir());
    let mut writer = Writer::open(from.path(), options()).unwrap();
    let mut names = Vec::new();
    for number in 0..2u8 {
        names.push(writer.active_name().to_owned());
        writer.line(&[number], 0, 1).unwrap();
        writer.roll().unwrap();
    }
    let segments = names.iter().map(|name| std::fs::read(from.path().join(name)).unwrap()).collect::<Vec<_>>();
    std::fs::write(to.path().join(&names[0]), &segments[0]).unwrap();
    let mut follower = Follower::open(to.path(), Start::First).unwrap();
    let mut given = Given::default();
    given.upto(&mut follower, 1);
    // So long that it looks but each few seconds.
    let idle = |follower: &mut Follower, given: &mut Given, ms| {
        let until = Instant::now() + Duration::from_millis(ms);
        while let Some(item) = follower.next(Some(until)).unwrap() {
            given.take(item);
        }
    };
    idle(&mut follower, &mut given, 3500);
    let next = to.path().join(&names[1]);
    std::fs::write(&next, &segments[1][..HEADER_BYTES]).unwrap();
    idle(&mut follower, &mut given, 100);
    assert_eq!(given.seqs(), [1]);
    std::fs::OpenOptions::new().append(true).open(&next).unwrap().write_all(&segments[1][HEADER_BYTES..]).unwrap();
    let appended = Instant::now();
    given.upto(&mut follower, 2);
    assert!(appended.elapsed() < Duration::from_millis(2500), "{:?}", appended.elapsed());
}

/// A run killed between its first segment and its first record leaves the record of the run before.
#[test]
fn a_record_of_an_earlier_run_does_not_make_a_later_segment_missing() {
    let (from, to) = (temp_dir(), temp_dir());
    let mut names = Vec::new();
    for number in 0..3u8 {
        let mut writer = Writer::open(from.path(), options()).unwrap();
        names.push(writer.active_name().to_owned());
        if number == 0 {
            writer.line(b"the only line", 0, 1).unwrap();
            writer.flush().unwrap();
            std::fs::copy(from.path().join("writer.lock"), to.path().join("writer.lock")).unwrap();
        }
        std::fs::copy(from.path().join(&names[usize::from(number)]), to.path().join(&names[usize::from(number)]))
            .unwrap();
    }
    let mut follower = Follower::open(to.path(), Start::First).unwrap();
    let mut given = Given::default();
    // Until it has looked whether the writer is gone.
    while let Some(item) = follower.next(Some(Instant::now() + Duration::from_millis(1500))).unwrap() {
        given.take(item);
    }
    assert_eq!((given.seqs(), given.findings), (vec![1], Vec::<String>::new()));
}
