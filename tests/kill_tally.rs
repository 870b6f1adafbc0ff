//! Which entries were accepted, which are in the log, and what that makes: missing, repeated, out of order.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::kill_counts::Counts;

/// Most threads that log.
pub(crate) const THREADS_MAX: usize = 8;

/// Each thread has two streams: its own calls, and those that are made within one of them.
pub(crate) const STREAMS_MAX: usize = 2 * THREADS_MAX;

/// What identifies an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    /// Number of the child in its log.
    pub(crate) round: u64,
    pub(crate) stream: u64,
    /// Number of the entry in its stream, from 1 on.
    pub(crate) counter: u64,
}

/// What one child has said of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    pub(crate) accepted: [u64; STREAMS_MAX],
    pub(crate) refused: [u64; STREAMS_MAX],
    /// Then one call a stream may have done its work without being noted.
    pub(crate) was_killed: bool,
}

/// The entries of one stream that are in the log: a bit each, and the last one.
#[derive(Default)]
struct Seen {
    bits: Vec<u64>,
    last: u64,
}

impl Seen {
    /// Whether it is there the first time.
    fn insert(&mut self, counter: u64) -> bool {
        let (at, bit) = ((counter / 64) as usize, 1 << (counter % 64));
        if self.bits.len() <= at {
            self.bits.resize(at + 1, 0);
        }
        let is_new = self.bits[at] & bit == 0;
        self.bits[at] |= bit;
        is_new
    }

    fn has(&self, counter: u64) -> bool {
        self.bits.get((counter / 64) as usize).is_some_and(|bits| bits & (1 << (counter % 64)) != 0)
    }
}

/// What a log holds, entry by entry.
#[derive(Default)]
pub(crate) struct Tally {
    seen: BTreeMap<(u64, u64), Seen>,
    repeated: u64,
    order: u64,
    /// Entries that are in no range.
    odd: u64,
    /// The first entry that is wrong by itself.
    pub(crate) first_wrong: Option<Id>,
}

/// What is missing of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) round: u64,
    pub(crate) stream: u64,
    pub(crate) count: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Tally {
    /// Takes the log's next entry.
    pub(crate) fn take(&mut self, id: Id) {
        if id.counter == 0 || id.counter > 1 << 32 || id.stream >= STREAMS_MAX as u64 {
            self.odd += 1;
            self.first_wrong.get_or_insert(id);
            return;
        }
        let seen = self.seen.entry((id.round, id.stream)).or_default();
        if !seen.insert(id.counter) {
            self.repeated += 1;
            self.first_wrong.get_or_insert(id);
        } else if id.counter < seen.last {
            self.order += 1;
            self.first_wrong.get_or_insert(id);
        }
        seen.last = seen.last.max(id.counter);
    }

    /// What was accepted and is not there, by stream.
    pub(crate) fn missing(&self, rounds: &[Round]) -> Vec<Missing> {
        let mut list = Vec::new();
        for (round, stream, accepted) in streams(rounds) {
            let seen = self.seen.get(&(round, stream));
            let mut gone = (1..=accepted).filter(|&counter| !seen.is_some_and(|seen| seen.has(counter)));
            if let Some(first) = gone.next() {
                let (count, last) = gone.fold((1, first), |(count, _), counter| (count + 1, counter));
                list.push(Missing { round, stream, count, first, last });
            }
        }
        list
    }

    /// Holds what is there against what was accepted. Nothing may be missing but, if retention has removed the numbers up to
    /// `removed_upto`, the first entries, and no more than those numbers.
    pub(crate) fn judge(&self, rounds: &[Round], removed_upto: u64) -> Counts {
        let missing = self.missing(rounds);
        let mut counts = Counts { repeated: self.repeated, order: self.order, torn: self.odd, ..Counts::default() };
        let total: u64 = missing.iter().map(|missing| missing.count).sum();
        let last_round = missing.iter().map(|missing| missing.round).max();
        let is_front = missing.iter().all(|missing| missing.first == 1 && missing.last == missing.count)
            && last_round.is_none_or(|last| self.seen.keys().all(|&(round, _)| round >= last));
        if !is_front || total > removed_upto {
            counts.missing = total;
        }
        for (&(round, stream), seen) in &self.seen {
            let owed = usize::try_from(round).ok().and_then(|round| rounds.get(round));
            let most = owed.map_or(0, |owed| owed.accepted[stream as usize] + u64::from(owed.was_killed));
            counts.torn += seen.last.saturating_sub(most);
        }
        counts
    }
}

/// Calls that were in flight at the kills, at most: one a stream, whether or not it had accepted any before.
pub(crate) fn in_flight(rounds: &[Round]) -> u64 {
    rounds.iter().filter(|round| round.was_killed).count() as u64 * STREAMS_MAX as u64
}

/// How many refused calls a log may tell of. Those that retention has removed it does not tell of, and one that was killed may
/// have been refused.
pub(crate) fn refused(rounds: &[Round], removed_upto: u64) -> RangeInclusive<u64> {
    let refused: u64 = rounds.iter().flat_map(|round| round.refused).sum();
    let least = if removed_upto > 0 { 0 } else { refused };
    least..=refused + in_flight(rounds)
}

fn streams(rounds: &[Round]) -> impl Iterator<Item = (u64, u64, u64)> {
    let of = |(number, round): (usize, &Round)| {
        let accepted = round.accepted;
        (0..STREAMS_MAX).map(move |stream| (number as u64, stream as u64, accepted[stream]))
    };
    rounds.iter().enumerate().flat_map(of)
}
