//! Times of entries as text: RFC 3339 with microseconds, fast enough for millions of lines, and the shorter forms for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const SECOND_NS: i64 = 1_000_000_000;

/// From this second on (1973-03-03) zones change only at full minutes and by full minutes.
/// Assumption: the last to do otherwise was Liberia on 1972-01-07 (tz database).
const FULL_MINUTES_SINCE: i64 = 100_000_000;

/// Writes times as `2026-11-30T12:00:00.123456+01:00`, in UTC with `Z` at the end.
///
/// The text of the last time is kept. The next one of the same second, as nearly all are in a busy log, costs only its
/// six digits (14 ns), one of the same minute two more; only a new minute asks the zone (0.7 us).
#[derive(Debug)]
pub(crate) struct Stamper {
    zone: TimeZone,
    /// The second since 1970 that `text` shows.
    second: i64,
    /// `2026-11-30T12:00:00.000000+01:00`; empty before the first time.
    text: Vec<u8>,
}

/// Where the digits of the second stand in the text.
const SECOND_AT: usize = "2026-11-30T12:00:".len();

/// Where the digits of the microseconds stand in the text.
const MICROSECONDS_AT: usize = "2026-11-30T12:00:00.".len();

impl Stamper {
    /// Times will be shown in this zone.
    pub(crate) fn new(zone: TimeZone) -> Self {
        Self { zone, second: 0, text: Vec::new() }
    }

    /// Appends the time, given in nanoseconds since 1970.
    pub(crate) fn write(&mut self, unix_ns: i64, out: &mut Vec<u8>) {
        let second = unix_ns.div_euclid(SECOND_NS);
        if second != self.second || self.text.is_empty() {
            self.set_second(second);
        }
        let microseconds = unix_ns.rem_euclid(SECOND_NS) / 1000;
        set_digits(&mut self.text[MICROSECONDS_AT..MICROSECONDS_AT + 6], microseconds);
        out.extend_from_slice(&self.text);
    }

    fn set_second(&mut self, second: i64) {
        if second >= FULL_MINUTES_SINCE && second / 60 == self.second / 60 && !self.text.is_empty() {
            set_digits(&mut self.text[SECOND_AT..SECOND_AT + 2], second % 60);
        } else {
            let shown = Shown::new(second.saturating_mul(SECOND_NS), &self.zone);
            let text = format!("{}T{}.000000{}", shown.date(), shown.clock(), shown.offset());
            self.text = text.into_bytes();
        }
        self.second = second;
    }
}

/// Fills the places with the decimal digits of a number that is not negative.
fn set_digits(places: &mut [u8], mut number: i64) {
    for digit in places.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// A time in a zone, and its parts as text.
struct Shown<'zone> {
    date_time: jiff::civil::DateTime,
    offset_seconds: i32,
    zone: &'zone TimeZone,
}

impl<'zone> Shown<'zone> {
    fn new(unix_ns: i64, zone: &'zone TimeZone) -> Self {
        // An i64 of nanoseconds lies within jiff's range by far.
        let timestamp = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
        let offset = zone.to_offset(timestamp);
        Self { date_time: offset.to_datetime(timestamp), offset_seconds: offset.seconds(), zone }
    }

    fn date(&self) -> String {
        let date = self.date_time;
        format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day())
    }

    fn clock(&self) -> String {
        let time = self.date_time;
        format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
    }

    /// `+01:00`, or `Z` where the zone is UTC itself.
    fn offset(&self) -> String {
        if *self.zone == TimeZone::UTC {
            return "Z".to_string();
        }
        let sign = if self.offset_seconds < 0 { '-' } else { '+' };
        // Offsets of local mean time had seconds; RFC 3339 has no room for them.
        let minutes = self.offset_seconds.abs() / 60;
        format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// `2026-11-28 00:00:03 +01:00`: a time for people.
pub(crate) fn human(unix_ns: i64, zone: &TimeZone) -> String {
    let shown = Shown::new(unix_ns, zone);
    format!("{} {} {}", shown.date(), shown.clock(), shown.offset())
}

/// `2026-11-28 00:00:03 .. 2026-11-30 12:41:07 +01:00`: a stretch of time for people; both offsets where they differ.
pub(crate) fn human_range(first_ns: i64, last_ns: i64, zone: &TimeZone) -> String {
    let first = Shown::new(first_ns, zone);
    let last = human(last_ns, zone);
    if last.ends_with(&first.offset()) {
        format!("{} {} .. {last}", first.date(), first.clock())
    } else {
        format!("{} .. {last}", human(first_ns, zone))
    }
}

/// `04:14:07.118`: a time of day for people, where the date is clear.
pub(crate) fn human_clock(unix_ns: i64, zone: &TimeZone) -> String {
    let milliseconds = unix_ns.rem_euclid(SECOND_NS) / 1_000_000;
    format!("{}.{milliseconds:03}", Shown::new(unix_ns, zone).clock())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn ns(text: &str) -> i64 {
        let timestamp: Timestamp = text.parse().unwrap();
        i64::try_from(timestamp.as_nanosecond()).unwrap()
    }

    fn stamps(zone: TimeZone, times: &[i64]) -> Vec<String> {
        let mut stamper = Stamper::new(zone);
        let mut stamp = |time: &i64| {
            let mut out = Vec::new();
            stamper.write(*time, &mut out);
            String::from_utf8(out).unwrap()
        };
        times.iter().map(&mut stamp).collect()
    }

    #[test]
    fn stamps_are_rfc_3339_with_microseconds() {
        let time = ns("2026-11-30T12:00:00.123456789+01:00");
        assert_eq!(stamps(berlin(), &[time]), ["2026-11-30T12:00:00.123456+01:00"]);
        assert_eq!(stamps(TimeZone::UTC, &[time]), ["2026-11-30T11:00:00.123456Z"]);
        let newfoundland = TimeZone::posix("NST3:30").unwrap();
        assert_eq!(stamps(newfoundland, &[time]), ["2026-11-30T07:30:00.123456-03:30"]);
    }

    #[test]
    fn stamps_in_any_order_equal_those_made_one_by_one() {
        let change = ns("2026-10-25T01:00:00Z");
        let offsets = [0, -1, 1, -SECOND_NS, SECOND_NS - 1, SECOND_NS, -86_400 * SECOND_NS, 999, 1000];
        let times: Vec<i64> = offsets.iter().map(|offset| change + offset).collect();
        let alone: Vec<String> = times.iter().flat_map(|time| stamps(berlin(), &[*time])).collect();
        assert_eq!(stamps(berlin(), &times), alone);
        assert_eq!(alone[0], "2026-10-25T02:00:00.000000+01:00");
        assert_eq!(alone[1], "2026-10-25T02:59:59.999999+02:00");
    }

    #[test]
    fn stamps_of_one_minute_after_the_other_equal_those_made_one_by_one() {
        let monrovia = TimeZone::get("Africa/Monrovia").unwrap();
        let change = ns("1972-01-07T00:44:30Z");
        for (zone, start) in [(berlin(), ns("2026-10-25T00:58:00Z")), (monrovia, change - 90 * SECOND_NS)] {
            let times: Vec<i64> = (0..200).map(|step| start + step * 700_000_001).collect();
            let alone: Vec<String> = times.iter().flat_map(|time| stamps(zone.clone(), &[*time])).collect();
            assert_eq!(stamps(zone.clone(), &times), alone);
            let backward: Vec<i64> = times.iter().rev().copied().collect();
            let mut stamped = stamps(zone, &backward);
            stamped.reverse();
            assert_eq!(stamped, alone);
        }
    }

    #[test]
    fn times_before_1970_and_at_the_ends_of_the_range_are_shown() {
        let shown = stamps(TimeZone::UTC, &[-1, 0, i64::MIN, i64::MAX]);
        assert_eq!(shown[0], "1969-12-31T23:59:59.999999Z");
        assert_eq!(shown[1], "1970-01-01T00:00:00.000000Z");
        assert!(shown[2].starts_with("1677-09-21T00:12:4"), "{}", shown[2]);
        assert!(shown[3].starts_with("2262-04-11T23:47:16.854775"), "{}", shown[3]);
    }

    #[test]
    fn people_see_the_offset_once_unless_it_changes() {
        let first = ns("2026-11-28T00:00:03+01:00");
        let last = ns("2026-11-30T12:41:07+01:00");
        assert_eq!(human(first, &berlin()), "2026-11-28 00:00:03 +01:00");
        assert_eq!(human_range(first, last, &berlin()), "2026-11-28 00:00:03 .. 2026-11-30 12:41:07 +01:00");
        assert_eq!(
            human_range(ns("2026-10-24T12:00:00+02:00"), last, &berlin()),
            "2026-10-24 12:00:00 +02:00 .. 2026-11-30 12:41:07 +01:00"
        );
        assert_eq!(human_clock(ns("2026-11-30T04:14:07.1189+01:00"), &berlin()), "04:14:07.118");
    }
}
