//! Times of calls, counted in buckets of which none is wider than a 64th of its times.

/// Below this each nanosecond has a bucket of its own.
const EXACT: u64 = 128;

/// Buckets of each doubling from there on.
const STEPS: u64 = EXACT / 2;

/// Number of doublings from `EXACT` up to the largest u64.
const DOUBLINGS: u64 = 64 - EXACT.ilog2() as u64;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Histogram {
    /// One without times.
    pub(crate) fn new() -> Histogram {
        Histogram { counts: vec![0; (EXACT + DOUBLINGS * STEPS) as usize], total: 0, sum_ns: 0, max_ns: 0 }
    }

    /// Counts a time.
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[bucket_of(ns)] += 1;
        self.total += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Takes in the times of another.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The time that this share of all, from 0 to 1, does not exceed; NaN if there is none.
    pub(crate) fn quantile_ns(&self, share: f64) -> f64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        bucket.map_or(f64::NAN, |bucket| least_of(bucket) as f64)
    }

    /// The mean; NaN if there is none.
    pub(crate) fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.total as f64
    }

    /// The longest.
    pub(crate) fn max_ns(&self) -> f64 {
        self.max_ns as f64
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < EXACT {
        return ns as usize;
    }
    let doubling = u64::from(ns.ilog2() - EXACT.ilog2());
    let step = (ns >> (doubling + 1)) - STEPS;
    (EXACT + doubling * STEPS + step) as usize
}

fn least_of(bucket: usize) -> u64 {
    let Some(above) = (bucket as u64).checked_sub(EXACT) else { return bucket as u64 };
    let (doubling, step) = (above / STEPS, above % STEPS);
    (STEPS + step) << (doubling + 1)
}
