//! Time as the log stores it: nanoseconds since 1970-01-01T00:00:00Z, signed, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds in a second.
pub const NS_PER_SECOND: i64 = 1_000_000_000;

/// The system clock now, in nanoseconds since 1970 UTC.
pub fn now_ns() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

/// A moment in UTC, split as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    /// Year of the Gregorian calendar.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
    /// Nanosecond within the second.
    pub nanosecond: u32,
}

impl UtcTime {
    /// Splits `ns` nanoseconds since 1970 UTC.
    ///
    /// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
    pub fn from_ns(ns: i64) -> UtcTime {
        let seconds = ns.div_euclid(NS_PER_SECOND);
        let day_number = seconds.div_euclid(86_400);
        let second_of_day = seconds.rem_euclid(86_400);
        let shifted = day_number + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        UtcTime {
            year: (year_of_era + era * 400 + i64::from(month <= 2)) as i32,
            month: month as u8,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8,
            hour: (second_of_day / 3600) as u8,
            minute: (second_of_day / 60 % 60) as u8,
            second: (second_of_day % 60) as u8,
            nanosecond: ns.rem_euclid(NS_PER_SECOND) as u32,
        }
    }

    /// As in file names: `20261130T120000Z`.
    pub fn compact(&self) -> String {
        let UtcTime { year, month, day, hour, minute, second, .. } = self;
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
    }

    /// RFC 3339 with microseconds: `2026-11-30T12:00:00.123456Z`.
    pub fn rfc3339(&self) -> String {
        let UtcTime { year, month, day, hour, minute, second, nanosecond } = self;
        let micros = nanosecond / 1000;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_split_right() {
        let text = |seconds: i64| UtcTime::from_ns(seconds * NS_PER_SECOND + 123_456_789).rfc3339();
        assert_eq!(text(0), "1970-01-01T00:00:00.123456Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00.123456Z");
        assert_eq!(text(1_796_040_000), "2026-11-30T12:00:00.123456Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59.123456Z");
        assert_eq!(UtcTime::from_ns(1_796_040_000 * NS_PER_SECOND).compact(), "20261130T120000Z");
    }

    #[test]
    fn extremes_do_not_panic() {
        assert!(UtcTime::from_ns(i64::MAX).rfc3339().starts_with("2262"));
        assert!(UtcTime::from_ns(i64::MIN).rfc3339().starts_with("1677"));
    }
}
