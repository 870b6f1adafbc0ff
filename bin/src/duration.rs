//! Lengths of time as given on the command line: `500ms`, `24h`, `1d12h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::decimal;

const UNITS: &str = "use ns, us, ms, s, m (minutes), h, d (24 hours) or w, as in 500ms or 1d12h";

/// A length of time: one or more numbers, each with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period(pub(crate) Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(format!("no length of time: {UNITS}"));
        }
        if rest.starts_with('-') {
            return Err("a length of time cannot be negative".to_string());
        }
        let mut total_ns = 0_u128;
        while !rest.is_empty() {
            let (number, behind) = decimal::split(rest);
            if number.is_empty() {
                return Err(format!("`{rest}` does not begin with a number: {UNITS}"));
            }
            let behind = behind.trim_start();
            let unit_len = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
            let (unit, behind) = behind.split_at(unit_len);
            let unit_ns = unit_ns(unit).ok_or_else(|| match unit {
                "" => format!("a unit is missing: {UNITS}"),
                _ => format!("`{unit}` is no unit of time: {UNITS}"),
            })?;
            let ns = decimal::scaled(number, unit_ns).ok_or_else(|| format!("`{number}` is no number: {UNITS}"))?;
            total_ns = total_ns.saturating_add(ns);
            rest = behind.trim_start();
        }
        // A u64 of nanoseconds, 584 years, is what times of entries are made of.
        let ns = u64::try_from(total_ns).map_err(|_| "longer than 584 years".to_string())?;
        Ok(Self(Duration::from_nanos(ns)))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The nanoseconds of one unit, `None` for a word that is no unit.
fn unit_ns(unit: &str) -> Option<u64> {
    const SECOND: u64 = 1_000_000_000;
    Some(match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" | "second" | "seconds" => SECOND,
        "m" | "min" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hour" | "hours" => 3_600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        "w" | "week" | "weeks" => 7 * 86_400 * SECOND,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1.5h", 5_400_000),
            ("24h", 86_400_000),
            ("1d12h", 129_600_000),
            ("2h 30m", 9_000_000),
            ("2 hours 30 min", 9_000_000),
            ("1w", 604_800_000),
            ("0s", 0),
        ] {
            let expected = Ok(Period(Duration::from_millis(ms)));
            assert_eq!(text.parse::<Period>(), expected, "{text}");
        }
        assert_eq!("7ns".parse::<Period>(), Ok(Period(Duration::from_nanos(7))));
    }

    #[test]
    fn what_is_no_length_of_time_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no length of time"),
            ("10", "a unit is missing"),
            ("h", "`h` does not begin with a number"),
            ("1.h", "`1.` is no number"),
            ("5 fortnights", "`fortnights` is no unit"),
            ("1M", "`M` is no unit"),
            ("-5s", "negative"),
            ("1h-5m", "`-5m` does not begin"),
            ("1h,5m", "`,5m` does not begin"),
            ("600000d", "584 years"),
            ("99999999999999999999s", "584 years"),
        ] {
            let error = text.parse::<Period>().unwrap_err();
            assert!(error.contains(reason), "{text:?} gave {error:?}");
        }
    }
}
