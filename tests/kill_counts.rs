//! What the kill tests share: numbers drawn from a seed, and the count of what went wrong.

use std::fmt;

/// The same numbers for the same seed: splitmix64.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in `times` draws.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// What a run has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) kills: u64,
    /// Entries that were accepted before the kill.
    pub(crate) returned: u64,
    /// Accepted entries that are not in the log.
    pub(crate) missing: u64,
    /// Entries that are in the log more than once.
    pub(crate) repeated: u64,
    /// Entries that nobody logged so: a part, or altered.
    pub(crate) torn: u64,
    /// Entries that come before one that was logged before them.
    pub(crate) order: u64,
    /// Missing numbers that the log does not declare, and other findings.
    pub(crate) gaps: u64,
    /// Whatever else must not be: `verify` does not say sound, a program fails.
    pub(crate) unsound: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.kills += other.kills;
        self.returned += other.returned;
        self.missing += other.missing;
        self.repeated += other.repeated;
        self.torn += other.torn;
        self.order += other.order;
        self.gaps += other.gaps;
        self.unsound += other.unsound;
    }

    pub(crate) fn is_good(&self) -> bool {
        self.missing + self.repeated + self.torn + self.order + self.gaps + self.unsound == 0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { kills, returned, missing, repeated, torn, order, gaps, unsound } = self;
        write!(f, "kills={kills} returned={returned} missing={missing} repeated={repeated}")?;
        write!(f, " torn={torn} order={order} gaps={gaps}")?;
        if *unsound > 0 { write!(f, " unsound={unsound}") } else { Ok(()) }
    }
}
