//! The protocol of a ring on real threads, and where records end and begin.

use std::sync::Arc;

use super::mapping::MappedRing;
use super::*;

fn ring(capacity: usize) -> (Producer<MappedRing>, Consumer<MappedRing>) {
    let ring = Arc::new(Ring::new(MappedRing::anonymous(capacity).unwrap(), 77));
    (Producer::new(Arc::clone(&ring), 5, 0), Consumer::new(ring))
}

/// Pushes a body, if there is room.
fn push(producer: &mut Producer<MappedRing>, body: &[u8]) -> bool {
    let copy = |out: &mut [u8]| {
        out.copy_from_slice(body);
        true
    };
    producer.has_room(body.len()) && producer.push(1, body.len(), 1, || 9, copy)
}

fn take(consumer: &mut Consumer<MappedRing>) -> Option<(u64, Vec<u8>)> {
    consumer.next_stamp()?;
    let taken = consumer.take(|head, body, _| Ok::<_, ()>((head.tseq, body.to_vec())));
    taken.and_then(Result::ok)
}

#[test]
fn records_of_any_length_come_out_as_they_went_in_round_after_round() {
    let (mut producer, mut consumer) = ring(4096);
    let body = |number: u64| vec![number as u8; (number * 37 % 700) as usize];
    let (mut pushed, mut taken) = (0, 0);
    while taken < 5000 {
        while push(&mut producer, &body(pushed)) {
            pushed += 1;
        }
        consumer.look();
        while let Some((tseq, found)) = take(&mut consumer) {
            assert_eq!((tseq, found), (taken + 1, body(taken)));
            taken += 1;
        }
        consumer.release();
    }
    assert!(pushed > taken - 100 && consumer.damaged_bytes() == 0);
}

#[test]
fn a_full_ring_takes_no_more_until_what_was_taken_is_released() {
    let (mut producer, mut consumer) = ring(4096);
    while push(&mut producer, &[7; 96]) {}
    consumer.look();
    assert_eq!(consumer.waiting_bytes(), 4096);
    assert!(take(&mut consumer).is_some() && !push(&mut producer, &[7; 96]));
    consumer.release();
    assert!(push(&mut producer, &[7; 96]) && !push(&mut producer, &[7; 96]));
}

#[test]
fn what_could_not_be_encoded_is_not_pushed() {
    let (mut producer, mut consumer) = ring(4096);
    assert!(producer.has_room(8) && !producer.push(1, 8, 1, || 9, |_| false));
    assert!(push(&mut producer, b"next"));
    consumer.look();
    assert_eq!(take(&mut consumer), Some((1, b"next".to_vec())));
    assert_eq!(take(&mut consumer), None);
}

#[test]
fn a_refused_call_uses_up_its_number_and_is_told_with_what_came_before() {
    let (mut producer, mut consumer) = ring(4096);
    assert!(push(&mut producer, b"a"));
    producer.refuse(1, 5);
    consumer.look();
    assert_eq!((consumer.refused(), consumer.ring().take_refused_level()), ((5, 2), 5));
    assert_eq!(take(&mut consumer), Some((1, b"a".to_vec())));
    assert!(consumer.is_drained() && push(&mut producer, b"b"));
    consumer.look();
    assert_eq!(take(&mut consumer), Some((3, b"b".to_vec())));
}

#[test]
fn a_record_that_was_not_taken_comes_again() {
    let (mut producer, mut consumer) = ring(4096);
    assert!(push(&mut producer, b"a"));
    consumer.look();
    assert_eq!(consumer.next_stamp(), Some(9));
    assert_eq!(consumer.take(|_, _, _| Err::<(), _>(())), Some(Err(())));
    assert_eq!(take(&mut consumer), Some((1, b"a".to_vec())));
}

#[test]
fn two_threads_at_full_speed_lose_and_repeat_nothing() {
    let (mut producer, mut consumer) = ring(4096);
    let count = 200_000u64;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..count {
                let body = number.to_le_bytes();
                while !push(&mut producer, &body[..1 + (number % 8) as usize]) {
                    let ring = Arc::clone(producer.ring());
                    ring.room.sleep(std::time::Duration::from_secs(1), || producer.has_room(8));
                }
            }
        });
        let mut expected = 0;
        while expected < count {
            consumer.look();
            while let Some((tseq, body)) = take(&mut consumer) {
                assert_eq!(tseq, expected + 1);
                assert_eq!(body, expected.to_le_bytes()[..1 + (expected % 8) as usize]);
                expected += 1;
            }
            consumer.release();
        }
    });
}

#[test]
fn a_forked_process_finds_the_word_wiped() {
    let word = fork::ForkWord::new().unwrap();
    assert!(!word.is_forked());
    // The kernel's own account of it; a fork in a test of many threads is not safe.
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    assert!(maps.lines().any(|line| line.starts_with("VmFlags:") && line.split(' ').any(|flag| flag == "wf")));
}
