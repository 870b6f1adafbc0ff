//! The clock that stamps entries: what orders them across threads, and becomes their time.
//!
//! Stamps must be ordered against memory: what happened before in the program must have the lower stamp. `rdtscp` waits for
//! all loads before it, so a thread that has seen another one's word stamps later than that one did; plain `rdtsc` does not
//! (1,275 inversions in 4 million hand-offs, measured). Where the kernel does not trust the TSC, its monotonic clock is used.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::clock;
use crate::options::Clock;
use crate::ring::file::Anchor;

/// What the kernel uses for its own clock.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Nanoseconds per tick of a clock that counts nanoseconds, times 2^32.
const NS_PER_NS: u64 = 1 << 32;

/// How long the rate of the TSC is measured at least before the first entry: an error of 50 ns then makes 25 us a second, and
/// the anchor is renewed each second.
const FIRST_MEASURE: Duration = Duration::from_millis(2);

/// The rate is measured anew over at least this long, which makes it exact to a few parts in 10^9.
const LATER_MEASURE_NS: u64 = 500_000_000;

/// Where stamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StampClock {
    /// The processor's time stamp counter.
    Tsc,
    /// The system's monotonic clock, in nanoseconds.
    System,
    /// The same as of the last tick of the kernel.
    Coarse,
}

impl StampClock {
    /// The clock that is asked for, or the system's where the TSC is not to be trusted.
    pub(crate) fn new(clock: Clock) -> StampClock {
        match clock {
            Clock::Tsc if is_tsc_sound() => StampClock::Tsc,
            Clock::Tsc | Clock::System => StampClock::System,
            Clock::Coarse => StampClock::Coarse,
        }
    }

    /// A stamp, later than those of all entries that this thread has seen or heard of.
    #[inline]
    pub(crate) fn now(self) -> u64 {
        match self {
            StampClock::Tsc => tsc(),
            StampClock::System => gettime(ClockId::CLOCK_MONOTONIC),
            StampClock::Coarse => gettime(ClockId::CLOCK_MONOTONIC_COARSE),
        }
    }

    /// A stamp such that all entries with lower ones which were published by calls that have returned are seen by the loads
    /// behind it.
    pub(crate) fn now_before_loads(self) -> u64 {
        let now = self.now();
        // ORDERING: SeqCst: the loads behind must not pass the reading of the clock, which is a load of a kind.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        load_fence();
        now
    }
}

#[cfg(target_arch = "x86_64")]
fn is_tsc_sound() -> bool {
    std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_tsc_sound() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn tsc() -> u64 {
    let mut processor = 0;
    // SAFETY: each x86-64 processor whose kernel uses the TSC as its clock has the instruction; it writes `processor` only.
    unsafe { std::arch::x86_64::__rdtscp(&raw mut processor) }
}

#[cfg(target_arch = "x86_64")]
fn load_fence() {
    // SAFETY: part of SSE2, which x86-64 has.
    unsafe { std::arch::x86_64::_mm_lfence() }
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc() -> u64 {
    gettime(ClockId::CLOCK_MONOTONIC)
}

#[cfg(not(target_arch = "x86_64"))]
fn load_fence() {}

fn gettime(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// A moment by all clocks, read as close together as can be.
#[derive(Clone, Copy, Debug)]
struct Moment {
    stamp: u64,
    monotonic_ns: u64,
    time_ns: i64,
}

impl Moment {
    /// The best of some tries: an interrupt may come between.
    fn now(clock: StampClock) -> Moment {
        let once = || {
            let before = clock.now();
            let (monotonic_ns, time_ns) = (gettime(ClockId::CLOCK_MONOTONIC), clock::now_ns());
            let after = clock.now();
            (after.saturating_sub(before), Moment { stamp: before.midpoint(after), monotonic_ns, time_ns })
        };
        let tries = [once(), once(), once(), once()];
        tries.into_iter().min_by_key(|(took, _)| *took).map_or_else(|| once().1, |(_, moment)| moment)
    }
}

/// Turns stamps into times, and keeps up with the system's clock.
#[derive(Debug)]
pub(crate) struct Calibration {
    clock: StampClock,
    first: Moment,
    ns_per_tick: u64,
    anchor: Anchor,
}

impl Calibration {
    /// Begins to measure.
    pub(crate) fn begin(clock: StampClock) -> Calibration {
        let first = Moment::now(clock);
        let anchor = Anchor { stamp: first.stamp, time_ns: first.time_ns, ns_per_tick: NS_PER_NS };
        Calibration { clock, first, ns_per_tick: NS_PER_NS, anchor }
    }

    /// Ends the first measurement; waits where it has not lasted long enough.
    pub(crate) fn finish(&mut self) {
        if self.clock == StampClock::Tsc {
            let measured = gettime(ClockId::CLOCK_MONOTONIC).saturating_sub(self.first.monotonic_ns);
            if let Some(rest) = FIRST_MEASURE.checked_sub(Duration::from_nanos(measured)) {
                std::thread::sleep(rest);
            }
            let now = Moment::now(self.clock);
            self.measure(&now);
            self.set_anchor(&now);
        }
    }

    /// A new anchor, for now.
    pub(crate) fn renew(&mut self) -> Anchor {
        let now = Moment::now(self.clock);
        if self.clock == StampClock::Tsc && now.monotonic_ns - self.first.monotonic_ns >= LATER_MEASURE_NS {
            self.measure(&now);
        }
        self.set_anchor(&now);
        self.anchor
    }

    /// The anchor in use.
    pub(crate) fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// So many ticks are one second.
    pub(crate) fn ticks_per_second(&self) -> u64 {
        ((1_000_000_000u128 << 32) / u128::from(self.ns_per_tick.max(1))) as u64
    }

    /// The monotonic clock tells the rate: the other one may be set.
    fn measure(&mut self, now: &Moment) {
        let ticks = u128::from(now.stamp.saturating_sub(self.first.stamp));
        let ns = u128::from(now.monotonic_ns.saturating_sub(self.first.monotonic_ns));
        if let Some(rate) = (ns << 32).checked_div(ticks).filter(|&rate| rate > 0) {
            self.ns_per_tick = rate as u64;
        }
    }

    fn set_anchor(&mut self, now: &Moment) {
        self.anchor = Anchor { stamp: now.stamp, time_ns: now.time_ns, ns_per_tick: self.ns_per_tick };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_each_clock_become_the_time_of_the_system() {
        for clock in [Clock::Tsc, Clock::System, Clock::Coarse].map(StampClock::new) {
            let mut calibration = Calibration::begin(clock);
            calibration.finish();
            let off_by = |calibration: &Calibration| {
                (calibration.anchor().time_ns(calibration.clock.now()) - clock::now_ns()).abs()
            };
            // The best of several: another thread may come between the two readings.
            let best = (0..50).map(|_| off_by(&calibration)).min().unwrap();
            assert!(best < 20_000_000, "{clock:?}: {best} ns");
            calibration.renew();
            let best = (0..50).map(|_| off_by(&calibration)).min().unwrap();
            let bound = if clock == StampClock::Coarse { 20_000_000 } else { 100_000 };
            assert!(best < bound, "{clock:?}: {best} ns");
        }
    }

    #[test]
    fn stamps_do_not_go_back_from_thread_to_thread() {
        use std::sync::atomic::{AtomicU64, Ordering};
        let clock = StampClock::new(Clock::Tsc);
        let last = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..100_000 {
                        // ORDERING: Acquire and Release: this is the hand-off that the stamps must follow.
                        let before = last.load(Ordering::Acquire);
                        let now = clock.now();
                        assert!(now >= before, "{now} after {before}");
                        last.fetch_max(now, Ordering::Release);
                    }
                });
            }
        });
    }
}
