//! Threads that log: as fast as they can, at a rate, or in bursts; and how long their calls take.
//!
//! A call is timed by the monotonic clock (on x86 the TSC, read in order) just before and just behind it. What two readings
//! with nothing between take is measured at the start and subtracted, so that short calls can be compared.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::support::histogram::Histogram;

/// At full speed one call of so many is timed: the clock then costs each call about 1 ns. A prime, so that it keeps no step
/// with batches.
const TIMED_ONE_OF: u64 = 31;

/// How a thread goes about it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Call after call; one of 31 is timed.
    Full,
    /// So many calls a second, equally spaced, the time between spent spinning; each is timed.
    Spaced(f64),
    /// So many calls each so often, the time between spent asleep; each is timed.
    Bursts(u64, Duration),
}

/// When a thread is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    /// After this time.
    Time(Duration),
    /// After so many calls of each thread.
    Calls(u64),
}

/// What the threads did.
#[derive(Clone, Debug)]
pub(crate) struct Produced {
    /// Calls of all threads.
    pub(crate) calls: u64,
    /// When they began.
    pub(crate) started: Instant,
    /// Until the last of them was done, in seconds.
    pub(crate) seconds: f64,
    /// How long the calls took that were timed.
    pub(crate) times: Histogram,
}

/// Runs a thread for each pace. `messages` gives the source of messages of a thread, by its number; `log` logs one.
///
/// # Errors
/// If a thread can't be started, or panics.
pub(crate) fn produce<M, N: FnMut() -> M>(
    paces: &[Pace],
    amount: Amount,
    messages: impl Fn(usize) -> N + Sync,
    log: impl Fn(M) + Sync,
) -> anyhow::Result<Produced> {
    let (start, clock_ns) = (Barrier::new(paces.len() + 1), clock_ns());
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, pace) in paces.iter().enumerate() {
            let (start, messages, log) = (&start, &messages, &log);
            let named = std::thread::Builder::new().name(format!("producer-{number}"));
            threads.push(named.spawn_scoped(scope, move || {
                let mut producer =
                    Producer { next: messages(number), log, clock_ns, calls: 0, times: Histogram::new() };
                start.wait();
                let begun = Instant::now();
                match *pace {
                    Pace::Full => producer.at_full_speed(begun, amount),
                    Pace::Spaced(rate) => producer.spaced(begun, amount, Duration::from_secs_f64(1.0 / rate)),
                    Pace::Bursts(count, every) => producer.in_bursts(begun, amount, count, every),
                }
                (producer.calls, producer.times)
            })?);
        }
        start.wait();
        let started = Instant::now();
        let (mut calls, mut times) = (0, Histogram::new());
        for thread in threads {
            let (more, timed) = thread.join().map_err(|_| anyhow::anyhow!("a producer has panicked"))?;
            calls += more;
            times.merge(&timed);
        }
        Ok(Produced { calls, started, seconds: started.elapsed().as_secs_f64(), times })
    })
}

struct Producer<'a, N, L> {
    next: N,
    log: &'a L,
    clock_ns: u64,
    calls: u64,
    times: Histogram,
}

impl<M, N: FnMut() -> M, L: Fn(M)> Producer<'_, N, L> {
    fn at_full_speed(&mut self, begun: Instant, amount: Amount) {
        loop {
            let is_timed = match amount {
                Amount::Time(_) => true,
                Amount::Calls(most) => most - self.calls >= TIMED_ONE_OF,
            };
            let untimed = match amount {
                Amount::Calls(most) if !is_timed => most - self.calls,
                _ => TIMED_ONE_OF - 1,
            };
            for _ in 0..untimed {
                (self.log)((self.next)());
            }
            self.calls += untimed;
            if !is_timed {
                return;
            }
            let now = self.timed_call();
            if is_over(begun, now, amount, self.calls) {
                return;
            }
        }
    }

    fn spaced(&mut self, begun: Instant, amount: Amount, interval: Duration) {
        let mut due = begun;
        loop {
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            due += interval;
            if is_over(begun, self.timed_call(), amount, self.calls) {
                return;
            }
        }
    }

    fn in_bursts(&mut self, begun: Instant, amount: Amount, count: u64, every: Duration) {
        let mut due = begun;
        loop {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due += every;
            for _ in 0..count {
                if is_over(begun, self.timed_call(), amount, self.calls) {
                    return;
                }
            }
        }
    }

    #[inline(always)]
    fn timed_call(&mut self) -> Instant {
        let message = (self.next)();
        let before = Instant::now();
        (self.log)(message);
        let after = Instant::now();
        self.times.add(((after - before).as_nanos() as u64).saturating_sub(self.clock_ns));
        self.calls += 1;
        after
    }
}

fn is_over(begun: Instant, now: Instant, amount: Amount, calls: u64) -> bool {
    match amount {
        Amount::Time(time) => now - begun >= time,
        Amount::Calls(most) => calls >= most,
    }
}

/// What two readings of the clock with nothing between take: the median of many.
pub(crate) fn clock_ns() -> u64 {
    let mut pairs = Histogram::new();
    for _ in 0..100_000 {
        let before = Instant::now();
        let after = Instant::now();
        pairs.add((after - before).as_nanos() as u64);
    }
    pairs.quantile_ns(0.5) as u64
}
