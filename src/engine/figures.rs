//! What the backend notes of itself for whoever asks, and puts into the ring file for who asks from outside.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::metrics::Metrics;
use crate::ring::figures_area::Figures;
use crate::ring::lock;
use crate::stats::WriterStats;
use crate::writer::Writer;

use super::backend::Lane;
use super::{LiveRing, Shared};

/// High and low water are those of the last whole stretch so long, and of the one that has begun.
const STRETCH: Duration = Duration::from_secs(60);

/// The ring file is told no more often, and only where something has changed, but for each second. Each time takes some 3
/// microseconds: less than 0.01% of a core.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Bytes that wait in a ring, whatever somebody else has written there.
fn fill_of(ring: &LiveRing) -> u64 {
    ring.fill().min(ring.capacity())
}

/// How high the rings stood, in bytes: all together, and the fullest of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Water {
    high: u64,
    low: u64,
    fullest: u64,
}

impl Water {
    /// Of no look.
    const NONE: Water = Water { high: 0, low: u64::MAX, fullest: 0 };

    fn and(self, other: Water) -> Water {
        Water {
            high: self.high.max(other.high),
            low: self.low.min(other.low),
            fullest: self.fullest.max(other.fullest),
        }
    }
}

/// What the backend counts round by round, and what it has told the ring file of it.
#[derive(Debug)]
pub(super) struct Rounds {
    before: Water,
    now: Water,
    now_begun: Instant,
    /// All that was logged before is handed to the operating system.
    complete: Instant,
    /// When the last round began.
    begun: Instant,
    told: Metrics,
    tell_at: Instant,
}

impl Rounds {
    pub(super) fn new() -> Rounds {
        let now = Instant::now();
        let told = Metrics::default();
        Rounds { before: Water::NONE, now: Water::NONE, now_begun: now, complete: now, begun: now, told, tell_at: now }
    }

    /// A round begins.
    pub(super) fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// The round is over, and all is written that was logged before it began.
    pub(super) fn complete(&mut self) {
        self.complete = self.begun;
    }

    /// Gives back the room of what was taken, if all of it is written, and notes how full the rings were before and are now.
    pub(super) fn release(&mut self, lanes: &mut [Lane], is_written: bool) {
        let (mut fill, mut left) = (0, 0);
        for lane in lanes {
            let in_lane = fill_of(lane.consumer.ring());
            if is_written {
                lane.consumer.release();
            }
            fill += in_lane;
            left += fill_of(lane.consumer.ring());
            self.now.fullest = self.now.fullest.max(in_lane);
        }
        self.now = self.now.and(Water { high: fill, low: left, fullest: 0 });
    }

    /// High and low water.
    fn water(&mut self) -> Water {
        if self.begun.saturating_duration_since(self.now_begun) >= STRETCH {
            (self.before, self.now, self.now_begun) = (self.now, Water::NONE, self.begun);
        }
        let water = self.before.and(self.now);
        if water == Water::NONE { Water { low: 0, ..water } } else { water }
    }

    /// Puts the figures into the ring file: where something has changed, or in any case.
    pub(super) fn tell(&mut self, shared: &Shared, now: Instant, in_any_case: bool) {
        if now < self.tell_at && !in_any_case {
            return;
        }
        self.tell_at = now + TELL_EVERY;
        let metrics = shared.metrics();
        if metrics == self.told && !in_any_case {
            return;
        }
        let told_ns = clock::now_ns();
        let complete_for = i64::try_from(self.complete.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let figures = Figures { told_ns, complete_ns: told_ns.saturating_sub(complete_for), metrics };
        // They come again: what could not be written is only older.
        let _ = lock(&shared.claims).tell_figures(&figures);
        self.told = figures.metrics;
    }
}

/// What whoever asks finds of the backend.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) stats: WriterStats,
    water: Water,
    complete: Instant,
    damaged_bytes: u64,
    rings: Vec<Arc<LiveRing>>,
}

impl Noted {
    pub(super) fn new(writer: &Writer) -> Noted {
        let water = Water { low: 0, ..Water::NONE };
        Noted { stats: writer.stats(), water, complete: Instant::now(), damaged_bytes: 0, rings: Vec::new() }
    }

    /// Takes note of a round.
    pub(super) fn renew(&mut self, stats: WriterStats, rounds: &mut Rounds, lanes: &[Lane], damaged_bytes: u64) {
        self.stats = stats;
        self.water = rounds.water();
        self.complete = rounds.complete;
        self.damaged_bytes = damaged_bytes;
        let new = lanes.iter().skip(self.rings.len()).map(|lane| Arc::clone(lane.consumer.ring()));
        self.rings.extend(new);
    }
}

impl Shared {
    /// How the log stands now.
    pub(super) fn metrics(&self) -> Metrics {
        let noted = lock(&self.noted);
        let ring_fill_bytes = noted.rings.iter().map(|ring| fill_of(ring)).sum();
        let waits = || noted.complete.elapsed();
        Metrics {
            refused: self.counters.refused.now(),
            rings: noted.rings.len() as u64,
            ring_bytes: noted.rings.iter().map(|ring| ring.capacity()).sum(),
            ring_fill_bytes,
            ring_fill_bytes_high: noted.water.high.max(ring_fill_bytes),
            ring_fill_bytes_low: noted.water.low.min(ring_fill_bytes),
            fullest_ring_bytes_high: noted.water.fullest,
            ring_waits: self.counters.waits(),
            oldest_unwritten: if ring_fill_bytes > 0 { waits() } else { Duration::ZERO },
            ring_damaged_bytes: noted.damaged_bytes,
            ..Metrics::of_writer(noted.stats.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_and_low_water_are_of_the_last_stretch_and_of_the_one_that_has_begun() {
        let mut rounds = Rounds::new();
        assert_eq!(rounds.water(), Water { high: 0, low: 0, fullest: 0 });
        let flood = Water { high: 9000, low: 700, fullest: 5000 };
        rounds.now = rounds.now.and(flood);
        assert_eq!(rounds.water(), flood);
        // A stretch is over; it still counts, with the lower one that follows.
        rounds.begun += STRETCH;
        assert_eq!(rounds.water(), flood);
        let ebb = Water { high: 100, low: 10, fullest: 90 };
        rounds.now = rounds.now.and(ebb);
        assert_eq!(rounds.water(), Water { low: 10, ..flood });
        rounds.begun += STRETCH - Duration::from_nanos(1);
        assert_eq!(rounds.water(), Water { low: 10, ..flood });
        rounds.begun += Duration::from_nanos(1);
        assert_eq!(rounds.water(), ebb);
    }
}
