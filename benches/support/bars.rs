//! What the figures of a benchmark are held against.

/// What a figure should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// At least this much.
    AtLeast(f64),
    /// At most this much.
    AtMost(f64),
}

/// Prints a line for each figure that has a bar, and remembers whether all reached theirs.
#[derive(Debug, Default)]
pub(crate) struct Bars {
    checked: usize,
    missed: usize,
}

impl Bars {
    /// Holds a figure against its bar.
    pub(crate) fn check(&mut self, what: &str, value: f64, unit: &str, bar: Bar) {
        if self.checked == 0 {
            println!("\n{:<58} {:>10}", "", "measured");
        }
        let (is_ok, bar) = match bar {
            Bar::AtLeast(least) => (value >= least, format!("at least {}", figure(least))),
            Bar::AtMost(most) => (value <= most, format!("at most {}", figure(most))),
        };
        self.checked += 1;
        self.missed += usize::from(!is_ok);
        let verdict = if is_ok { "ok" } else { "MISSED" };
        println!("{what:<58} {:>10} {unit:<4} {bar:<16} {verdict}", figure(value));
    }

    /// Whether every figure reached its bar.
    pub(crate) fn is_good(&self) -> bool {
        self.missed == 0
    }
}

/// A number with three digits that count.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.1 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The one in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
