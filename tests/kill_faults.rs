//! What the kill test counts: each fault as what it is, and nothing else.

use crate::kill_counts::{Counts, Random};
use crate::kill_tally::{Id, Missing, Round, STREAMS_MAX, Tally, in_flight, refused};

/// Two children were killed, each when 3 entries of stream 0 and 2 of stream 1 were accepted.
fn rounds() -> [Round; 2] {
    let mut round = Round { was_killed: true, ..Round::default() };
    round.accepted[..2].copy_from_slice(&[3, 2]);
    [round; 2]
}

const WHOLE: [(u64, u64, u64); 10] =
    [(0, 0, 1), (0, 1, 1), (0, 0, 2), (0, 0, 3), (0, 1, 2), (1, 1, 1), (1, 1, 2), (1, 0, 1), (1, 0, 2), (1, 0, 3)];

fn judge(entries: &[(u64, u64, u64)], removed_upto: u64) -> Counts {
    let mut tally = Tally::default();
    entries.iter().for_each(|&(round, stream, counter)| tally.take(Id { round, stream, counter }));
    tally.judge(&rounds(), removed_upto)
}

fn with(entry: (u64, u64, u64)) -> Vec<(u64, u64, u64)> {
    let mut entries = WHOLE.to_vec();
    entries.push(entry);
    entries
}

#[test]
fn all_that_was_accepted_is_good_with_or_without_the_call_that_was_killed() {
    assert_eq!(judge(&WHOLE, 0), Counts::default());
    assert_eq!(judge(&with((1, 0, 4)), 0), Counts::default());
}

#[test]
fn an_entry_that_is_missing_there_twice_invented_or_out_of_order_is_counted_as_that() {
    for gone in 0..WHOLE.len() {
        let mut entries = WHOLE.to_vec();
        entries.remove(gone);
        assert_eq!(judge(&entries, 0), Counts { missing: 1, ..Counts::default() });
    }
    assert_eq!(judge(&with((1, 0, 3)), 0), Counts { repeated: 1, ..Counts::default() });
    assert_eq!(judge(&with((0, 0, 5)), 0), Counts { torn: 1, ..Counts::default() });
    assert_eq!(judge(&with((2, 0, 1)), 0), Counts { torn: 1, ..Counts::default() });
    let mut entries = WHOLE.to_vec();
    entries.swap(2, 3);
    assert_eq!(judge(&entries, 0), Counts { order: 1, ..Counts::default() });
}

#[test]
fn retention_may_take_the_first_entries_and_no_others() {
    assert_eq!(judge(&WHOLE[5..], 5), Counts::default());
    assert_eq!(judge(&WHOLE[7..], 7), Counts::default());
    // More than it has removed.
    assert_eq!(judge(&WHOLE[5..], 4).missing, 5);
    // Something in the middle, of a stream and of a round.
    let mut entries = WHOLE.to_vec();
    entries.remove(2);
    assert_eq!(judge(&entries, 5).missing, 1);
    entries.remove(5);
    assert_eq!(judge(&entries, 5).missing, 2);
    let mut tally = Tally::default();
    WHOLE[1..].iter().for_each(|&(round, stream, counter)| tally.take(Id { round, stream, counter }));
    assert_eq!(tally.missing(&rounds()), [Missing { round: 0, stream: 0, count: 1, first: 1, last: 1 }]);
}

#[test]
fn counts_are_good_only_if_nothing_is_wrong_and_add_up() {
    let mut total = Counts { kills: 1, returned: 5, ..Counts::default() };
    assert!(total.is_good());
    total.add(Counts { kills: 1, gaps: 1, unsound: 2, ..Counts::default() });
    assert!(!total.is_good());
    assert_eq!(total.to_string(), "kills=2 returned=5 missing=0 repeated=0 torn=0 order=0 gaps=1 unsound=2");
}

#[test]
fn the_same_seed_draws_the_same_numbers() {
    let draw = |seed| {
        let mut random = Random(seed);
        (random.next(), random.below(1000), (0..1000).filter(|_| random.once_in(10)).count())
    };
    assert_eq!(draw(5), draw(5));
    assert_ne!(draw(5), draw(6));
    assert!((50..200).contains(&draw(5).2));
}

#[test]
fn refused_calls_must_be_told_of_but_for_what_retention_removed_and_the_kill_cut_off() {
    let mut closed = Round::default();
    closed.refused[..2].copy_from_slice(&[3, 4]);
    let killed = Round { was_killed: true, ..closed };
    assert_eq!((in_flight(&[closed]), in_flight(&[killed, closed])), (0, STREAMS_MAX as u64));
    assert_eq!(refused(&[closed], 0), 7..=7);
    assert_eq!(refused(&[closed, killed], 0), 14..=14 + STREAMS_MAX as u64);
    assert_eq!(refused(&[closed], 1), 0..=7);
}
