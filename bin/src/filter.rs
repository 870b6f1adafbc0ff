//! Which entries `cat` and `tail` show, and in which form: the options that both share and their values.

use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::Context;
use clap::{Args, ValueEnum};
use jiff::ZonedDateTime;
use regex::bytes::{Regex, RegexBuilder};

use crate::time::TimeSpec;

/// Which entries are shown. Options of different kinds must all hold.
#[derive(Args, Debug)]
#[command(next_help_heading = "Which entries")]
pub(crate) struct FilterArgs {
    /// Entries at or after time T
    ///
    /// T is RFC 3339 (2026-11-30T12:00:00+01:00), a date, a date and time or a time of day in the local zone
    /// (2026-11-30 12:00, 12:30), `now`, `today`, `yesterday`, `yesterday 12:30`, a length of time as in `10m ago`
    /// or `2h30m ago`, or @SECONDS since 1970. A date alone is its first moment. Where clocks are put back a local time
    /// comes twice: --since means the first, --until the second. One that they are put forward over means the moment
    /// of the change.
    #[arg(long, value_name = "T")]
    pub(crate) since: Option<TimeSpec>,

    /// Entries at or before time T
    ///
    /// T as in --since. The microsecond that T names is included.
    #[arg(long, value_name = "T")]
    pub(crate) until: Option<TimeSpec>,

    /// Entries with these sequence numbers: A..B, A.., ..B or A, both ends included
    #[arg(long, value_name = "A..B")]
    pub(crate) seq: Option<SeqRange>,

    /// Entries of this level or a graver one
    ///
    /// Entries made by `logtool write` have no level and do not match.
    #[arg(long, value_name = "L", value_enum, ignore_case = true)]
    pub(crate) level: Option<LevelName>,

    /// Entries of category C or of one below it (net also takes net.http); may be repeated: any of them
    #[arg(long, value_name = "C")]
    pub(crate) category: Vec<String>,

    /// Entries whose text matches the regular expression
    ///
    /// The text is the line, or the message of a structured entry, without time, level and origin. The syntax is that of
    /// ripgrep (https://docs.rs/regex); any bytes can be matched.
    #[arg(short = 'g', long = "grep", value_name = "REGEX", value_parser = valid_regex)]
    pub(crate) grep: Option<String>,

    /// -g matches upper and lower case alike
    #[arg(short = 'i', long, requires = "grep")]
    pub(crate) ignore_case: bool,

    /// Entries whose text does not match -g
    #[arg(short = 'v', long, requires = "grep")]
    pub(crate) invert_match: bool,

    /// Entries with a field that compares so: FIELD then = != < <= > >= or ~ then VALUE; may be repeated: all
    /// must hold
    ///
    /// FIELD is the name of an argument, _0, _1 and so on for one without a name, or else seq, tid, thread, level,
    /// category, file or line; entries made by `logtool write` have only seq. An entry without the field does not match,
    /// not even by !=. Quote it all: < and > are the shell's too.
    ///
    /// Where FIELD and VALUE (decimal, 0x hexadecimal or with a fraction) are both numbers they are compared as such,
    /// whatever their types; a length of time is a number of seconds, and its VALUE may have units (200ms). All
    /// else is compared as text, byte by byte and minding case: a text field even with a number (`9` is greater than `10`),
    /// a number with a word, moments as 2026-11-30T12:00:00.123456789Z, true, false, None, and levels (WARN), which --level
    /// compares by gravity. NaN is unequal to every number, and neither less nor greater. ~ matches a regular expression
    /// anywhere in the text of the field; numbers are text to it too.
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    pub(crate) conditions: Vec<Condition>,
}

impl FilterArgs {
    /// The times of --since and --until in nanoseconds since 1970, both included; all times where neither was given.
    ///
    /// # Errors
    /// Where the calendar has no such time, or --since lies after --until.
    pub(crate) fn times_ns(&self, now: &ZonedDateTime) -> anyhow::Result<RangeInclusive<i64>> {
        let since = self.since.as_ref().map(|time| time.start_ns(now)).transpose().context("--since")?;
        let until = self.until.as_ref().map(|time| time.end_ns(now)).transpose().context("--until")?;
        let (first, last) = (since.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX));
        anyhow::ensure!(first <= last, "--since is after --until: no entry can match");
        Ok(first..=last)
    }

    /// The pattern of -g, compiled; `None` where none was given.
    pub(crate) fn pattern(&self) -> anyhow::Result<Option<Regex>> {
        let Some(pattern) = &self.grep else {
            return Ok(None);
        };
        RegexBuilder::new(pattern)
            .case_insensitive(self.ignore_case)
            .build()
            .map(Some)
            .with_context(|| format!("-g {pattern}"))
    }
}

/// Refuses on the command line what is no regular expression; it is compiled once all its options are known.
fn valid_regex(pattern: &str) -> Result<String, regex::Error> {
    Regex::new(pattern).map(|_| pattern.to_string())
}

/// In which form entries are shown.
#[derive(Args, Debug)]
#[command(next_help_heading = "Form")]
pub(crate) struct FormArgs {
    /// Form of the output
    ///
    /// On a terminal, control characters, marks that change the direction of text and bytes that are no UTF-8 are shown
    /// as escapes (\x1b, \u{202e}), whatever the form; in a pipe or a file text and raw are exact to the byte.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Text)]
    format: Form,

    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// In the text form, put its time before each entry made by `logtool write`
    ///
    /// Structured entries always show theirs; json and logfmt have it in any case, raw never.
    #[arg(long)]
    pub(crate) timestamps: bool,

    /// Show and read times in UTC instead of the local zone; json shows UTC in any case
    #[arg(long)]
    pub(crate) utc: bool,
}

impl FormArgs {
    /// The form that was asked for.
    pub(crate) fn form(&self) -> Form {
        if self.json { Form::Json } else { self.format }
    }
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// The line itself; structured entries as time, level, category, thread, place in the source and message
    Text,
    /// One JSON object a line
    Json,
    /// Pairs of key=value, one line an entry
    Logfmt,
    /// The bytes of the line, or the message, and nothing else
    Raw,
}

/// A level, from least to gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LevelName {
    /// Finest detail
    Trace,
    /// For the developer
    Debug,
    /// Normal course of things
    Info,
    /// Odd, but handled
    #[value(alias = "warning")]
    Warn,
    /// Something failed
    Error,
    /// The program cannot go on
    #[value(alias = "critical")]
    Fatal,
}

impl From<LevelName> for logtool::Level {
    fn from(name: LevelName) -> Self {
        match name {
            LevelName::Trace => Self::Trace,
            LevelName::Debug => Self::Debug,
            LevelName::Info => Self::Info,
            LevelName::Warn => Self::Warn,
            LevelName::Error => Self::Error,
            LevelName::Fatal => Self::Fatal,
        }
    }
}

/// Sequence numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeqRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl FromStr for SeqRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = match text.split_once("..") {
            Some(("", "")) => return Err("give at least one end, as in 100..".to_string()),
            Some((first, "")) => (seq_number(first)?, u64::MAX),
            Some(("", last)) => (1, seq_number(last)?),
            Some((first, last)) => (seq_number(first)?, seq_number(last)?),
            None => (seq_number(text)?, seq_number(text)?),
        };
        if first > last {
            return Err(format!("{first} is above {last}: give the lower number first"));
        }
        Ok(Self { first, last })
    }
}

/// A sequence number, with or without the commas that `verify` shows.
fn seq_number(text: &str) -> Result<u64, String> {
    let digits = text.replace(',', "");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(format!("`{text}` is no sequence number: use A..B, A.., ..B or A"));
    }
    match digits.parse() {
        Ok(0) => Err("the first sequence number is 1".to_string()),
        Ok(seq) => Ok(seq),
        Err(_) => Err(format!("{text} is larger than any sequence number")),
    }
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The signs of the comparisons, longer ones first: `<=` begins with `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("=", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// What a field is tested for.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// It compares so with the value.
    Compare(Comparison, String),
    /// Its text matches.
    Matches(Regex),
}

/// One `--where`: a field and what it is tested for.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) field: String,
    pub(crate) test: Test,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let operator = text
            .find(['=', '!', '<', '>', '~'])
            .ok_or("no comparison: use FIELD=VALUE with one of = != < <= > >= ~ in the middle")?;
        let (field, rest) = text.split_at(operator);
        let field = field.trim();
        if field.is_empty() {
            return Err("the name of the field is missing before the comparison".to_string());
        }
        let test = if let Some(pattern) = rest.strip_prefix('~') {
            Test::Matches(Regex::new(pattern).map_err(|error| format!("after ~: {error}"))?)
        } else {
            let (comparison, value) = COMPARISONS
                .iter()
                .find_map(|(sign, comparison)| Some((*comparison, rest.strip_prefix(sign)?)))
                .ok_or("`!` alone compares nothing: use !=")?;
            Test::Compare(comparison, value.to_string())
        };
        let field = field.to_string();
        Ok(Self { field, test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seq_ranges_include_both_ends() {
        let range = |first, last| Ok(SeqRange { first, last });
        assert_eq!("5..9".parse(), range(5, 9));
        assert_eq!("5..".parse(), range(5, u64::MAX));
        assert_eq!("..9".parse(), range(1, 9));
        assert_eq!("7".parse(), range(7, 7));
        assert_eq!("6,100,001..6,101,116".parse(), range(6_100_001, 6_101_116));
    }

    #[test]
    fn what_is_no_seq_range_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no sequence number"),
            ("..", "at least one end"),
            ("9..5", "lower number first"),
            ("0..5", "first sequence number is 1"),
            ("a..b", "`a` is no sequence number"),
            ("1...5", "no sequence number"),
            ("-5", "no sequence number"),
            ("99999999999999999999", "larger than any"),
        ] {
            let error = text.parse::<SeqRange>().unwrap_err();
            assert!(error.contains(reason), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn times_include_both_ends_and_must_not_be_crossed() {
        let now = jiff::Timestamp::UNIX_EPOCH.to_zoned_datetime(jiff::tz::TimeZone::UTC);
        let times = |since: Option<&str>, until: Option<&str>| {
            let parse = |time: Option<&str>| time.map(|time| time.parse().unwrap());
            let (since, until) = (parse(since), parse(until));
            FilterArgs { since, until, ..everything() }.times_ns(&now)
        };
        assert_eq!(times(None, None).unwrap(), i64::MIN..=i64::MAX);
        assert_eq!(times(Some("@1"), Some("@2")).unwrap(), 1_000_000_000..=2_000_000_999);
        assert_eq!(times(Some("@1"), Some("@1")).unwrap(), 1_000_000_000..=1_000_000_999);
        let crossed = times(Some("@2"), Some("@1")).unwrap_err();
        assert!(crossed.to_string().contains("--since is after --until"), "{crossed}");
    }

    #[test]
    fn the_pattern_minds_case_only_if_told() {
        let pattern = |ignore_case| {
            let grep = Some("Error".to_string());
            FilterArgs { grep, ignore_case, ..everything() }.pattern().unwrap().unwrap()
        };
        assert!(!pattern(false).is_match(b"an error \xff"));
        assert!(pattern(true).is_match(b"an error \xff"));
        assert!(everything().pattern().unwrap().is_none());
    }

    /// No option given.
    fn everything() -> FilterArgs {
        FilterArgs {
            since: None,
            until: None,
            seq: None,
            level: None,
            category: Vec::new(),
            grep: None,
            ignore_case: false,
            invert_match: false,
            conditions: Vec::new(),
        }
    }

    #[test]
    fn conditions_split_at_the_first_operator() {
        let parts = |text: &str| {
            let Condition { field, test } = text.parse().unwrap();
            (field, format!("{test:?}"))
        };
        let pair = |field: &str, test: &str| (field.to_string(), test.to_string());
        assert_eq!(parts("status=500"), pair("status", "Compare(Equal, \"500\")"));
        assert_eq!(parts("status!=500"), pair("status", "Compare(NotEqual, \"500\")"));
        assert_eq!(parts("ms<1.5"), pair("ms", "Compare(Less, \"1.5\")"));
        assert_eq!(parts("ms<=1.5"), pair("ms", "Compare(LessOrEqual, \"1.5\")"));
        assert_eq!(parts("ms>1.5"), pair("ms", "Compare(Greater, \"1.5\")"));
        assert_eq!(parts("ms>=1.5"), pair("ms", "Compare(GreaterOrEqual, \"1.5\")"));
        assert_eq!(parts("q=a=b"), pair("q", "Compare(Equal, \"a=b\")"));
        assert_eq!(parts("q="), pair("q", "Compare(Equal, \"\")"));
        assert_eq!(parts("path~^/api"), pair("path", "Matches(Regex(\"^/api\"))"));
    }

    #[test]
    fn what_is_no_condition_is_refused_with_the_reason() {
        for (text, reason) in
            [("status", "no comparison"), ("=5", "name of the field is missing"), ("a!5", "use !="), ("a~(", "after ~")]
        {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(reason), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn levels_are_ordered_from_trace_to_fatal() {
        let levels = LevelName::value_variants();
        assert!(levels.is_sorted());
        assert_eq!(levels.first(), Some(&LevelName::Trace));
        assert_eq!(levels.last(), Some(&LevelName::Fatal));
    }
}
