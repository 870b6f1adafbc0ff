//! Points in time as given on the command line: RFC 3339, dates, times of day, `10m ago`, `yesterday`.

use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan, ZonedDateTime};

use crate::duration::Period;
use crate::terminal::Ui;

const FORMS: &str = "use RFC 3339 (2026-11-30T12:00:00+01:00), a date, a date and time, a time of day (12:30), \
                     now, today, yesterday, or a length of time as in `10m ago`";

/// A point in time as it was written; what it stands for depends on the zone and on the time of asking.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TimeSpec {
    /// Given with its offset.
    Exact(Timestamp),
    /// A date and time of the zone.
    Local(DateTime),
    /// So long before now.
    Ago(Period),
    /// The day so many days after today (before, if negative), at this time of day.
    Day(i32, Time),
}

impl FromStr for TimeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(seconds) = text.strip_prefix('@') {
            return unix_seconds(seconds).map(Self::Exact);
        }
        if let Some(period) = text.strip_suffix("ago") {
            return Ok(Self::Ago(period.parse()?));
        }
        let (word, clock) = text.split_once(' ').unwrap_or((text, ""));
        let day = match word {
            "now" if clock.is_empty() => return Ok(Self::Ago(Period(std::time::Duration::ZERO))),
            "today" => Some(0),
            "yesterday" => Some(-1),
            "tomorrow" => Some(1),
            _ => None,
        };
        match (day, clock) {
            (Some(days), "") => return Ok(Self::Day(days, Time::midnight())),
            (Some(days), clock) => return Ok(Self::Day(days, time_of_day(clock)?)),
            (None, _) => {}
        }
        if let Some(timestamp) = exact(text) {
            return Ok(Self::Exact(timestamp));
        }
        if let Ok(date_time) = text.parse::<DateTime>() {
            return Ok(Self::Local(date_time));
        }
        if text.contains(':') {
            return Ok(Self::Day(0, time_of_day(text)?));
        }
        match text.parse::<Period>() {
            Ok(_) => Err(format!("for a time before now write `{text} ago`")),
            Err(_) => Err(format!("no time: {FORMS}")),
        }
    }
}

impl TimeSpec {
    /// Nanoseconds since 1970 of the first moment meant, for `--since`.
    ///
    /// # Errors
    /// Where the calendar has no such time.
    pub(crate) fn start_ns(&self, now: &ZonedDateTime) -> anyhow::Result<i64> {
        let meant = self.resolve(now).context("no such time")?;
        ns(match meant {
            Meant::Once(timestamp) | Meant::Skipped(timestamp) | Meant::Twice(timestamp, _) => timestamp,
        })
    }

    /// As [`TimeSpec::start_ns`], but the last moment meant, for `--until`, to the end of its microsecond: times are shown
    /// with microseconds, so the entry whose time was copied is included.
    ///
    /// # Errors
    /// Where the calendar has no such time.
    pub(crate) fn end_ns(&self, now: &ZonedDateTime) -> anyhow::Result<i64> {
        let start_ns = match self.resolve(now).context("no such time")? {
            Meant::Once(timestamp) | Meant::Twice(_, timestamp) => ns(timestamp)?,
            // At the change itself clocks show a later time.
            Meant::Skipped(timestamp) => return Ok(ns(timestamp)? - 1),
        };
        Ok(start_ns.saturating_add(999 - start_ns.rem_euclid(1000)))
    }

    fn resolve(&self, now: &ZonedDateTime) -> Result<Meant, jiff::Error> {
        let zone = now.time_zone();
        match self {
            Self::Exact(timestamp) => Ok(Meant::Once(*timestamp)),
            Self::Local(date_time) => local(zone, *date_time),
            Self::Ago(Period(length)) => now.timestamp().checked_sub(*length).map(Meant::Once),
            Self::Day(days, clock) => {
                let date: Date = now.date().checked_add(days.days())?;
                local(zone, date.to_datetime(*clock))
            }
        }
    }
}

/// The moments at which clocks show a time.
enum Meant {
    Once(Timestamp),
    /// None: clocks are put forward over it at this moment.
    Skipped(Timestamp),
    /// Two, as clocks are put back in between.
    Twice(Timestamp, Timestamp),
}

/// When the clocks of `zone` show this time.
fn local(zone: &TimeZone, date_time: DateTime) -> Result<Meant, jiff::Error> {
    let ambiguous = zone.to_ambiguous_timestamp(date_time);
    Ok(match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => Meant::Once(ambiguous.compatible()?),
        AmbiguousOffset::Fold { .. } => Meant::Twice(ambiguous.earlier()?, ambiguous.later()?),
        AmbiguousOffset::Gap { .. } => {
            // The change lies between the two: with the offset behind it the time lies before it, and the other way round.
            let (before, behind) = (ambiguous.earlier()?, ambiguous.later()?);
            Meant::Skipped(zone.following(before).next().map_or(behind, |change| change.timestamp()))
        }
    })
}

fn ns(timestamp: Timestamp) -> anyhow::Result<i64> {
    i64::try_from(timestamp.as_nanosecond()).context("no such time: logs know the years 1678 to 2261")
}

/// A time with its offset, also with a space before the offset, as `verify` shows it.
fn exact(text: &str) -> Option<Timestamp> {
    if let Ok(timestamp) = text.parse() {
        return Some(timestamp);
    }
    let sign = text.rfind([' '])?;
    let (date_time, offset) = (&text[..sign], &text[sign + 1..]);
    let has_offset = offset.starts_with(['+', '-', 'Z', 'z']);
    has_offset.then(|| format!("{date_time}{offset}").parse().ok())?
}

fn time_of_day(text: &str) -> Result<Time, String> {
    let shown = text.trim();
    if !shown.contains(':') {
        return Err(format!("`{shown}` is no time of day: use 12:30 or 12:30:15"));
    }
    shown.parse().map_err(|_| format!("`{shown}` is no time: {FORMS}"))
}

fn unix_seconds(text: &str) -> Result<Timestamp, String> {
    let ns =
        crate::decimal::scaled(text, 1_000_000_000).ok_or("after @ come the seconds since 1970, as in @1764500000")?;
    i128::try_from(ns)
        .ok()
        .and_then(|ns| Timestamp::from_nanosecond(ns).ok())
        .ok_or_else(|| "too far in the future".to_string())
}

/// The zone in which times are read and shown: UTC if asked for, else the local one.
///
/// Where TZ is set to what is no zone, this says so and uses UTC, as libc does.
pub(crate) fn zone(utc: bool, ui: &Ui) -> TimeZone {
    if utc {
        return TimeZone::UTC;
    }
    let zone = if names_no_file() { None } else { TimeZone::try_system().ok() };
    zone.unwrap_or_else(|| {
        if let Some(name) = std::env::var_os("TZ") {
            let name = crate::escape::escape(name.as_encoded_bytes()).into_owned();
            ui.message(&format!("TZ={name} is no time zone known here; times are in UTC"));
        }
        TimeZone::UTC
    })
}

/// Whether TZ is the path of something that is no file of a sensible size: a device would be read for ever.
fn names_no_file() -> bool {
    const ZONE_BYTES_MAX: u64 = 1 << 20;
    let Ok(name) = std::env::var("TZ") else { return false };
    let path = Path::new(name.trim_start_matches(':'));
    let is_file = || std::fs::metadata(path).is_ok_and(|zone| zone.is_file() && zone.len() <= ZONE_BYTES_MAX);
    path.is_absolute() && !is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-30 12:41:07.25 in Berlin, where clocks went back on 2026-10-25 at 03:00.
    fn now() -> ZonedDateTime {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now: Timestamp = "2026-11-30T12:41:07.25+01:00".parse().unwrap();
        now.to_zoned_datetime(berlin)
    }

    fn start(text: &str) -> String {
        let spec: TimeSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let ns = spec.start_ns(&now()).unwrap();
        Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string()
    }

    #[test]
    fn exact_times_keep_their_offset() {
        assert_eq!(start("2026-11-30T12:00:00Z"), "2026-11-30T12:00:00Z");
        assert_eq!(start("2026-11-30T12:00:00.123456+01:00"), "2026-11-30T11:00:00.123456Z");
        assert_eq!(start("2026-11-28 00:00:03 +01:00"), "2026-11-27T23:00:03Z");
        assert_eq!(start("@1764500000"), "2025-11-30T10:53:20Z");
        assert_eq!(start("@0.5"), "1970-01-01T00:00:00.5Z");
    }

    #[test]
    fn times_without_offset_are_local() {
        assert_eq!(start("2026-11-30"), "2026-11-29T23:00:00Z");
        assert_eq!(start("2026-07-01 12:30"), "2026-07-01T10:30:00Z");
        assert_eq!(start("2026-07-01T12:30:15.5"), "2026-07-01T10:30:15.5Z");
        assert_eq!(start("12:30"), "2026-11-30T11:30:00Z");
        assert_eq!(start("12:30:15"), "2026-11-30T11:30:15Z");
    }

    #[test]
    fn days_and_lengths_are_relative_to_now() {
        assert_eq!(start("now"), "2026-11-30T11:41:07.25Z");
        assert_eq!(start("10m ago"), "2026-11-30T11:31:07.25Z");
        assert_eq!(start("2h30m ago"), "2026-11-30T09:11:07.25Z");
        assert_eq!(start("1 day ago"), "2026-11-29T11:41:07.25Z");
        assert_eq!(start("today"), "2026-11-29T23:00:00Z");
        assert_eq!(start("yesterday"), "2026-11-28T23:00:00Z");
        assert_eq!(start("yesterday 04:14:07.118"), "2026-11-29T03:14:07.118Z");
        assert_eq!(start("tomorrow"), "2026-11-30T23:00:00Z");
    }

    fn end(text: &str) -> String {
        let ns = text.parse::<TimeSpec>().unwrap().end_ns(&now()).unwrap();
        Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string()
    }

    #[test]
    fn a_time_that_the_clock_change_skips_is_the_moment_of_the_change() {
        for skipped in ["2026-03-29 02:00", "2026-03-29 02:30", "2026-03-29 02:59:59.999999"] {
            assert_eq!(start(skipped), "2026-03-29T01:00:00Z", "{skipped}");
            assert_eq!(end(skipped), "2026-03-29T00:59:59.999999999Z", "{skipped}");
        }
        assert_eq!(start("2026-03-29 03:00"), "2026-03-29T01:00:00Z");
        assert_eq!(end("2026-03-29 03:00"), "2026-03-29T01:00:00.000000999Z");
        assert_eq!(start("2026-03-29 01:59:59.999999"), "2026-03-29T00:59:59.999999Z");
    }

    #[test]
    fn of_a_time_that_comes_twice_since_takes_the_first_and_until_the_second() {
        assert_eq!(start("2026-10-25 02:30"), "2026-10-25T00:30:00Z");
        assert_eq!(end("2026-10-25 02:30"), "2026-10-25T01:30:00.000000999Z");
        assert_eq!(start("2026-10-25 03:00"), "2026-10-25T02:00:00Z");
        assert_eq!(end("2026-10-25 01:59"), "2026-10-24T23:59:00.000000999Z");
    }

    #[test]
    fn until_includes_the_microsecond_that_was_named() {
        let end = |text: &str| text.parse::<TimeSpec>().unwrap().end_ns(&now()).unwrap();
        assert_eq!(end("@1.000001"), 1_000_001_999);
        assert_eq!(end("@1"), 1_000_000_999);
        assert_eq!(end("1969-12-31T23:59:59.999999Z"), -1);
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no time"),
            ("soon", "no time"),
            ("10m", "write `10m ago`"),
            ("ago", "no length of time"),
            ("10 ago", "a unit is missing"),
            ("today 25:00", "no time"),
            ("today noon", "no time of day"),
            ("2026-13-01", "no time"),
            ("2026-02-29", "no time"),
            ("25:00", "no time"),
            ("now 12:30", "no time"),
            ("@", "seconds since 1970"),
            ("@99999999999999999999", "too far"),
        ] {
            let error = text.parse::<TimeSpec>().unwrap_err();
            assert!(error.contains(reason), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn times_outside_of_what_logs_can_hold_are_errors() {
        let far: TimeSpec = "9000-01-01".parse().unwrap();
        assert!(far.start_ns(&now()).is_err());
        let long_ago: TimeSpec = "100000d ago".parse().unwrap();
        assert!(long_ago.start_ns(&now()).is_ok());
        let before_logs: TimeSpec = "1600-01-01".parse().unwrap();
        assert!(before_logs.start_ns(&now()).is_err());
    }
}
