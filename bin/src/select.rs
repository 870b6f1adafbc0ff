//! Whether an entry is one that `cat` or `tail` was asked for.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use jiff::ZonedDateTime;
use logtool::render::{Renderer, push_plain};
use logtool::value::Value;
use logtool::{Entry, Level};
use regex::bytes::Regex;

use crate::duration::Period;
use crate::filter::{Comparison, Condition, FilterArgs, SeqRange, Test};

/// The text of an entry, made when somebody asks for it.
#[derive(Debug, Default)]
pub(crate) struct Message {
    renderer: Renderer,
    text: String,
    is_made: bool,
}

impl Message {
    /// Forgets the text: another entry comes.
    pub(crate) fn clear(&mut self) {
        self.is_made = false;
    }

    /// The body of a text entry, or the message of a structured one.
    pub(crate) fn of<'a>(&'a mut self, entry: &Entry<'a>) -> &'a [u8] {
        if let Some(text) = entry.text() {
            return text;
        }
        if !self.is_made {
            self.text.clear();
            self.renderer.push_message(entry, &mut self.text);
            self.is_made = true;
        }
        self.text.as_bytes()
    }

    /// The message of a structured entry.
    pub(crate) fn of_structured(&mut self, entry: &Entry<'_>) -> &str {
        if !self.is_made {
            self.text.clear();
            self.renderer.push_message(entry, &mut self.text);
            self.is_made = true;
        }
        &self.text
    }
}

/// The options of [`FilterArgs`], ready for use.
#[derive(Debug)]
pub(crate) struct Selection {
    times_ns: RangeInclusive<i64>,
    seqs: Option<SeqRange>,
    level_min: Option<Level>,
    categories: Vec<String>,
    pattern: Option<Regex>,
    inverted: bool,
    conditions: Vec<Wanted>,
    takes_all: bool,
    /// Scratch for the text of a field.
    field: String,
}

/// One condition, with its value as a number where it is one.
#[derive(Debug)]
struct Wanted {
    condition: Condition,
    number: Option<Number>,
}

/// A number of a field or of the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Signed(i128),
    /// Above what the signed one holds.
    Large(u128),
    Float(f64),
}

impl Selection {
    /// Makes `args` ready. Times are relative to `now`.
    ///
    /// # Errors
    /// As [`FilterArgs::times_ns`] and [`FilterArgs::pattern`].
    pub(crate) fn new(args: &FilterArgs, now: &ZonedDateTime) -> anyhow::Result<Selection> {
        let wanted = |condition: &Condition| {
            let number = match &condition.test {
                Test::Compare(_, value) => Number::parse(value),
                Test::Matches(_) => None,
            };
            Wanted { condition: condition.clone(), number }
        };
        let mut selection = Selection {
            times_ns: args.times_ns(now)?,
            seqs: args.seq,
            level_min: args.level.map(Level::from),
            categories: args.category.clone(),
            pattern: args.pattern()?,
            inverted: args.invert_match,
            conditions: args.conditions.iter().map(wanted).collect(),
            takes_all: false,
            field: String::new(),
        };
        selection.takes_all = !selection.reads_text()
            && selection.times_ns == (i64::MIN..=i64::MAX)
            && selection.seqs.is_none()
            && selection.level_min.is_none()
            && selection.categories.is_empty();
        Ok(selection)
    }

    /// Whether every entry is wanted.
    pub(crate) fn takes_all(&self) -> bool {
        self.takes_all
    }

    /// Whether an entry must be whole to be judged.
    pub(crate) fn reads_text(&self) -> bool {
        self.pattern.is_some() || !self.conditions.is_empty()
    }

    /// The times that are wanted, nanoseconds since 1970 UTC.
    pub(crate) fn times_ns(&self) -> RangeInclusive<i64> {
        self.times_ns.clone()
    }

    /// The sequence numbers that are wanted.
    pub(crate) fn seqs(&self) -> Option<SeqRange> {
        self.seqs
    }

    /// Whether `entry` is wanted; `message` is its text.
    #[inline]
    pub(crate) fn matches(&mut self, entry: &Entry<'_>, message: &mut Message) -> bool {
        self.takes_all || self.tests_hold(entry, message)
    }

    fn tests_hold(&mut self, entry: &Entry<'_>, message: &mut Message) -> bool {
        if !self.times_ns.contains(&entry.head.time_ns)
            || self.seqs.is_some_and(|seqs| !(seqs.first..=seqs.last).contains(&entry.seq))
            || self.level_min.is_some_and(|least| entry.level().is_none_or(|level| level < least))
        {
            return false;
        }
        if !self.categories.is_empty() {
            let category = entry.site.map_or("", |site| site.category.as_str());
            if !self.categories.iter().any(|wanted| is_within(category, wanted)) {
                return false;
            }
        }
        let field = &mut self.field;
        if !self.conditions.iter().all(|wanted| wanted.holds(entry, field)) {
            return false;
        }
        self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(message.of(entry)) != self.inverted)
    }
}

/// Whether `category` is `wanted` or one below it.
fn is_within(category: &str, wanted: &str) -> bool {
    category.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Wanted {
    fn holds(&self, entry: &Entry<'_>, field: &mut String) -> bool {
        let Some(value) = find(entry, &self.condition.field) else { return false };
        let number = || Some((Number::of(&value)?, self.number_for(&value)?));
        match &self.condition.test {
            Test::Matches(pattern) => pattern.is_match(text_of(&value, field)),
            Test::Compare(comparison, wanted) => match number() {
                Some((number, wanted)) => comparison.holds(number.compare(wanted)),
                None => comparison.holds(Some(text_of(&value, field).cmp(wanted.as_bytes()))),
            },
        }
    }

    /// What a number is compared with. Lengths of time are in seconds, or have a unit: `1.5s`, `200ms`.
    fn number_for(&self, value: &Value<'_>) -> Option<Number> {
        let Test::Compare(_, wanted) = &self.condition.test else { return None };
        match value {
            Value::Duration(..) if self.number.is_none() => {
                wanted.parse::<Period>().ok().map(|Period(length)| Number::Float(length.as_secs_f64()))
            }
            _ => self.number,
        }
    }
}

impl Comparison {
    /// Whether it holds for two values that compare so; `None` for a NaN.
    fn holds(self, ordering: Option<Ordering>) -> bool {
        match self {
            Comparison::Equal => ordering == Some(Ordering::Equal),
            Comparison::NotEqual => ordering != Some(Ordering::Equal),
            Comparison::Less => ordering == Some(Ordering::Less),
            Comparison::LessOrEqual => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
            Comparison::Greater => ordering == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

/// The field of this name: an argument, `_0` for one without a name, or what the call site and the thread say.
fn find<'a>(entry: &Entry<'a>, name: &str) -> Option<Value<'a>> {
    let site = entry.site;
    let named = site.and_then(|site| site.fields.iter().position(|field| field == name));
    let numbered = || {
        let index: usize = name.strip_prefix('_')?.parse().ok()?;
        let has_name = site.and_then(|site| site.fields.get(index)).is_some_and(|field| !field.is_empty());
        (!has_name).then_some(index)
    };
    if let Some(value) = named.or_else(numbered).and_then(|index| entry.values().nth(index)) {
        return Some(value);
    }
    match name {
        "seq" => Some(Value::U64(entry.seq)),
        "tid" if entry.head.site != 0 => Some(Value::U32(entry.head.tid)),
        "thread" => entry.thread.map(Value::Str),
        "level" => Some(Value::Str(entry.level()?.as_str())),
        "category" => Some(Value::Str(&site?.category)),
        "file" => Some(Value::Str(&site?.file)),
        "line" => Some(Value::U32(site?.line)),
        _ => None,
    }
}

/// The text of a value as it is compared and matched.
fn text_of<'a>(value: &Value<'a>, scratch: &'a mut String) -> &'a [u8] {
    match *value {
        Value::Str(text) | Value::Text(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        _ => {
            scratch.clear();
            match value {
                Value::Char(c) => scratch.push(*c),
                value => push_plain(scratch, value),
            }
            scratch.as_bytes()
        }
    }
}

impl Number {
    /// The number that a field holds, if it is one.
    fn of(value: &Value<'_>) -> Option<Number> {
        Some(match *value {
            Value::I8(number) => Number::Signed(number.into()),
            Value::I16(number) => Number::Signed(number.into()),
            Value::I32(number) => Number::Signed(number.into()),
            Value::I64(number) => Number::Signed(number.into()),
            Value::I128(number) => Number::Signed(number),
            Value::U8(number) => Number::Signed(number.into()),
            Value::U16(number) => Number::Signed(number.into()),
            Value::U32(number) => Number::Signed(number.into()),
            Value::U64(number) | Value::Pointer(number) => Number::Signed(number.into()),
            Value::U128(number) => i128::try_from(number).map_or(Number::Large(number), Number::Signed),
            Value::F32(number) => Number::Float(number.into()),
            Value::F64(number) => Number::Float(number),
            Value::Duration(seconds, nanoseconds) => {
                Number::Float(std::time::Duration::new(seconds, nanoseconds).as_secs_f64())
            }
            _ => return None,
        })
    }

    /// The number that a text is: decimal, `0x` hexadecimal, or a float.
    fn parse(text: &str) -> Option<Number> {
        let text = text.trim();
        if let Some(digits) = text.strip_prefix("0x") {
            return i128::from_str_radix(digits, 16).ok().map(Number::Signed);
        }
        text.parse().map(Number::Signed).or_else(|_| text.parse().map(Number::Large)).ok().or_else(|| {
            // `inf` and `nan` are words here, unless they have digits.
            text.parse().ok().filter(|_| text.bytes().any(|byte| byte.is_ascii_digit())).map(Number::Float)
        })
    }

    /// Compares exactly, also an integer with a float.
    fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Signed(one), Number::Signed(other)) => Some(one.cmp(&other)),
            (Number::Large(one), Number::Large(other)) => Some(one.cmp(&other)),
            (Number::Large(_), Number::Signed(_)) => Some(Ordering::Greater),
            (Number::Signed(_), Number::Large(_)) => Some(Ordering::Less),
            (Number::Float(one), Number::Float(other)) => one.partial_cmp(&other),
            (Number::Signed(one), Number::Float(other)) => compare_with_float(one, other),
            (Number::Float(one), Number::Signed(other)) => compare_with_float(other, one).map(Ordering::reverse),
            (Number::Large(one), Number::Float(other)) => (one as f64).partial_cmp(&other),
            (Number::Float(one), Number::Large(other)) => one.partial_cmp(&(other as f64)),
        }
    }
}

fn compare_with_float(number: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // A cast saturates, and beyond 2^53 floats are whole: both sides are exact.
    let whole = float.trunc();
    let fraction = float - whole;
    let by_whole = if whole >= 2f64.powi(127) { Ordering::Less } else { number.cmp(&(whole as i128)) };
    Some(by_whole.then(0f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use logtool::CallSite;
    use logtool::entry::EntryHead;
    use std::sync::Arc;

    /// Whether a condition holds for a structured entry with some fields.
    fn holds(condition: &str) -> bool {
        let fields = ["status", "ms", "path", "", "big", "took", "nan", "neg", "digits", "none", "yes", "moment"]
            .map(String::from)
            .to_vec();
        let site = Arc::new(CallSite {
            level: Level::Warn,
            category: "net.http".into(),
            file: "src/http.rs".into(),
            line: 42,
            template: String::new(),
            fields,
        });
        let values = [
            Value::U16(500),
            Value::F64(1.5),
            Value::Str("/api/x"),
            Value::I8(-7),
            Value::U64(u64::MAX),
            Value::Duration(1, 500_000_000),
            Value::F32(f32::NAN),
            Value::I64(-3),
            Value::Str("9"),
            Value::None,
            Value::Bool(true),
            Value::Time(1_796_040_000_123_456_789),
        ];
        let mut body = Vec::new();
        values.iter().for_each(|value| value.encode(&mut body));
        let head = EntryHead { time_ns: 0, tseq: 1, tid: 3, site: 1 };
        let entry = Entry { seq: 9, flags: 0, head, site: Some(&site), thread: Some("worker-3"), body: &body };
        let condition: Condition = condition.parse().unwrap();
        let number = match &condition.test {
            Test::Compare(_, value) => Number::parse(value),
            Test::Matches(_) => None,
        };
        Wanted { condition, number }.holds(&entry, &mut String::new())
    }

    #[test]
    fn numbers_compare_as_numbers_across_their_types() {
        for condition in [
            "status=500",
            "status=500.0",
            "status>=499.5",
            "status<500.5",
            "status=0x1f4",
            "status!=501",
            "ms=1.5",
            "ms>1",
            "ms<2",
            "ms=15e-1",
            "_3=-7",
            "_3<0",
            "big=18446744073709551615",
            "big>18446744073709551614",
            "big<1e20",
            "took=1.5",
            "took>200ms",
            "took<=1500ms",
            "nan!=0",
            "neg<-2.5",
            "neg>-3.5",
            "line=42",
            "seq=9",
            "tid=3",
            "big<340282366920938463463374607431768211455",
        ] {
            assert!(holds(condition), "{condition}");
        }
        for condition in ["status=5000", "status<100", "ms=1", "nan=0", "nan<1", "nan>1", "big=1e20", "neg<-3.5"] {
            assert!(!holds(condition), "{condition}");
        }
    }

    #[test]
    fn other_values_compare_as_text() {
        for condition in [
            "path=/api/x",
            "path!=/api",
            "path~^/api",
            "path>/api",
            "status~^5",
            "level=WARN",
            "category~http",
            "thread=worker-3",
            "file~\\.rs$",
            "ms~1.5",
        ] {
            assert!(holds(condition), "{condition}");
        }
        for condition in ["path=500", "nobody=1", "nobody!=1", "nobody~.", "status=abc", "path~^api"] {
            assert!(!holds(condition), "{condition}");
        }
    }

    #[test]
    fn what_the_help_says_of_fields_and_values_holds() {
        for condition in [
            // Text with a number, and a number with a word: as text.
            "digits>10",
            "digits!=9.0",
            "status<abc",
            "level=WARN",
            "level<info",
            "none=None",
            "yes=true",
            "moment=2026-11-30T12:00:00.123456789Z",
            "moment<2026-11-30T12:00:01",
            "nan!=1",
            "status~^50+$",
        ] {
            assert!(holds(condition), "{condition}");
        }
        for condition in ["level=warn", "digits=9.0", "nobody!=1", "nan>1", "nan<=1", "_4=9", "status= abc"] {
            assert!(!holds(condition), "{condition}");
        }
        let head = EntryHead { time_ns: 0, tseq: 0, tid: 0, site: 0 };
        let line = Entry { seq: 9, flags: 0, head, site: None, thread: None, body: b"text" };
        let found = |name: &str| find(&line, name).is_some();
        assert!(found("seq"));
        assert!(!["_0", "tid", "thread", "level", "category", "file", "line"].into_iter().any(found));
    }

    #[test]
    fn categories_go_by_their_dots() {
        assert!(is_within("net.http", "net"));
        assert!(is_within("net", "net"));
        assert!(!is_within("network", "net"));
        assert!(!is_within("", "net"));
    }
}
