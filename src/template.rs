//! Format strings of call sites, parsed: the syntax of `format!`, read at run time from untrusted text.
//!
//! Grammar: the standard library's `std::fmt`, "Syntax". A template with anything else in it is not parsed at all.

/// Most characters that a width or a precision may ask for, as in `format!`.
const COUNT_MAX: usize = u16::MAX as usize;

/// A format string in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
}

/// A piece of a format string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text as it is.
    Text(String),
    /// The place of an argument.
    Argument {
        /// Its position; `None` if the call site has no argument of this name.
        index: Option<usize>,
        /// How it is shown.
        spec: Spec,
        /// The piece as it stands in the template, for an argument that is not there.
        source: String,
    },
}

/// How an argument is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) fill: char,
    pub(crate) align: Option<Align>,
    pub(crate) plus: bool,
    pub(crate) alternate: bool,
    pub(crate) zero: bool,
    pub(crate) width: Count,
    pub(crate) precision: Count,
    pub(crate) kind: Kind,
}

impl Spec {
    /// `{}`
    pub(crate) const PLAIN: Spec = Spec {
        fill: ' ',
        align: None,
        plus: false,
        alternate: false,
        zero: false,
        width: Count::None,
        precision: Count::None,
        kind: Kind::Display,
    };
}

/// Where the fill goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Center,
    Right,
}

/// A width or a precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Not given.
    None,
    /// A number.
    Is(usize),
    /// The value of the argument at this position, as in `{:1$}`.
    Argument(usize),
}

/// The trait that would format it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Display,
    Debug,
    DebugLowerHex,
    DebugUpperHex,
    LowerHex,
    UpperHex,
    Octal,
    Binary,
    LowerExp,
    UpperExp,
    Pointer,
}

impl Template {
    /// Parses a template whose arguments have these names; `None` if it is no format string.
    pub(crate) fn parse(template: &str, fields: &[String]) -> Option<Template> {
        let mut pieces = Vec::new();
        let (mut text, mut rest, mut next) = (String::new(), template, 0);
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let brace = &rest[at..at + 1];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(brace) {
                text.push_str(brace);
                rest = behind;
                continue;
            }
            if brace == "}" {
                return None;
            }
            let (inside, behind) = split_argument(rest)?;
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            let (index, spec) = argument(inside, fields, &mut next)?;
            pieces.push(Piece::Argument { index, spec, source: format!("{{{inside}}}") });
            rest = behind;
        }
        text.push_str(rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Some(Template { pieces })
    }
}

/// What stands between the braces, and what behind them. A `}` may be the fill: `{:}>5}`.
fn split_argument(rest: &str) -> Option<(&str, &str)> {
    let mut end = rest.find('}')?;
    if let Some(colon) = rest[..end].find(':')
        && end == colon + 1
        && rest[end + 1..].starts_with(['<', '^', '>'])
    {
        end += 1 + rest[end + 1..].find('}')?;
    }
    Some((&rest[..end], &rest[end + 1..]))
}

/// Reads `argument:spec`. `next` is the position that `{}` takes.
fn argument(inside: &str, fields: &[String], next: &mut usize) -> Option<(Option<usize>, Spec)> {
    let (name, spec_text) = inside.split_once(':').unwrap_or((inside, ""));
    let (spec, precision_is_next) = spec(spec_text.trim_end(), fields)?;
    let mut take_next = || {
        *next += 1;
        *next - 1
    };
    let precision = if precision_is_next { Count::Argument(take_next()) } else { spec.precision };
    let name = name.trim();
    let index = if name.is_empty() { Some(take_next()) } else { position(name, fields)? };
    Some((index, Spec { precision, ..spec }))
}

/// The position that a number or a name means; inner `None` if no argument has the name, outer if it is neither.
fn position(name: &str, fields: &[String]) -> Option<Option<usize>> {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return name.parse().ok().map(Some);
    }
    let mut chars = name.strip_prefix("r#").unwrap_or(name).chars();
    let is_name = chars.next().is_some_and(|first| first == '_' || first.is_alphabetic())
        && chars.all(|other| other == '_' || other.is_alphanumeric());
    is_name.then(|| fields.iter().position(|field| field == name))
}

/// Reads what stands behind the colon, and whether the precision is the next argument (`.*`).
fn spec(text: &str, fields: &[String]) -> Option<(Spec, bool)> {
    let mut spec = Spec::PLAIN;
    let mut rest = text;
    let align = |c: char| match c {
        '<' => Some(Align::Left),
        '^' => Some(Align::Center),
        '>' => Some(Align::Right),
        _ => None,
    };
    let mut chars = rest.chars();
    if let Some(first) = chars.next() {
        let behind = chars.as_str();
        if let Some(second) = chars.next().and_then(align) {
            (spec.fill, spec.align, rest) = (first, Some(second), chars.as_str());
        } else if let Some(first) = align(first) {
            (spec.align, rest) = (Some(first), behind);
        }
    }
    let take = |rest: &mut &str, sign: char| match rest.strip_prefix(sign) {
        Some(behind) => {
            *rest = behind;
            true
        }
        None => false,
    };
    spec.plus = take(&mut rest, '+');
    if !spec.plus {
        take(&mut rest, '-');
    }
    spec.alternate = take(&mut rest, '#');
    // `0$` is the width that argument 0 tells.
    if rest.starts_with('0') && !rest.starts_with("0$") {
        spec.zero = take(&mut rest, '0');
    }
    spec.width = count(&mut rest, fields)?;
    let mut precision_is_next = false;
    if take(&mut rest, '.') {
        precision_is_next = take(&mut rest, '*');
        if !precision_is_next {
            spec.precision = count(&mut rest, fields)?;
            // `{:.}` is refused by format! too.
            if spec.precision == Count::None {
                return None;
            }
        }
    }
    spec.kind = match rest {
        "" => Kind::Display,
        "?" => Kind::Debug,
        "x?" => Kind::DebugLowerHex,
        "X?" => Kind::DebugUpperHex,
        "x" => Kind::LowerHex,
        "X" => Kind::UpperHex,
        "o" => Kind::Octal,
        "b" => Kind::Binary,
        "e" => Kind::LowerExp,
        "E" => Kind::UpperExp,
        "p" => Kind::Pointer,
        _ => return None,
    };
    Some((spec, precision_is_next))
}

/// Reads a number or `argument$`, if one stands there.
fn count(rest: &mut &str, fields: &[String]) -> Option<Count> {
    let word_end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
    let (word, behind) = rest.split_at(word_end);
    if let Some(behind) = behind.strip_prefix('$') {
        *rest = behind;
        // An argument that is not there: the width of one that never is.
        return Some(Count::Argument(position(word, fields)?.unwrap_or(usize::MAX)));
    }
    let digits_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, behind) = rest.split_at(digits_end);
    if digits.is_empty() {
        return Some(Count::None);
    }
    *rest = behind;
    digits.parse().ok().filter(|&number| number <= COUNT_MAX).map(Count::Is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(template: &str) -> Option<Vec<Piece>> {
        let fields = ["", "id", "path", "width"].map(String::from);
        Template::parse(template, &fields).map(|template| template.pieces)
    }

    fn only_spec(template: &str) -> (Option<usize>, Spec) {
        match parse(template).unwrap().as_slice() {
            [Piece::Argument { index, spec, .. }] => (*index, *spec),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_are_found_by_place_number_and_name() {
        let index = |template: &str| only_spec(template).0;
        assert_eq!(index("{}"), Some(0));
        assert_eq!(index("{2}"), Some(2));
        assert_eq!(index("{path}"), Some(2));
        assert_eq!(index("{ id : >5 }"), Some(1));
        assert_eq!(index("{nobody}"), None);
        let pieces = parse("a{{{}}}b{1}{}").unwrap();
        let text: Vec<&str> = pieces
            .iter()
            .filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(text, ["a{", "}b"]);
        assert!(matches!(pieces.last(), Some(Piece::Argument { index: Some(1), .. })));
    }

    #[test]
    fn each_part_of_a_spec_is_read() {
        let spec = only_spec("{:*^+#012.3x?}").1;
        assert_eq!(
            (spec.fill, spec.align, spec.plus, spec.alternate, spec.zero),
            ('*', Some(Align::Center), true, true, true)
        );
        assert_eq!((spec.width, spec.precision, spec.kind), (Count::Is(12), Count::Is(3), Kind::DebugLowerHex));
        assert_eq!(only_spec("{:width$}").1.width, Count::Argument(3));
        assert_eq!(only_spec("{:0$}").1.width, Count::Argument(0));
        assert_eq!(only_spec("{:00$}").1, Spec { zero: true, width: Count::Argument(0), ..Spec::PLAIN });
        assert_eq!(only_spec("{:.1$e}").1.precision, Count::Argument(1));
        assert_eq!(
            only_spec("{:}>5}").1,
            Spec { fill: '}', align: Some(Align::Right), width: Count::Is(5), ..Spec::PLAIN }
        );
        let (index, spec) = only_spec("{:.*}");
        assert_eq!((index, spec.precision), (Some(1), Count::Argument(0)));
    }

    #[test]
    fn what_is_no_format_string_is_not_parsed() {
        for template in
            ["{", "}", "a } b", "{:", "{a b}", "{:q}", "{:.}", "{:65536}", "{-1}", "{:99999999999999999999}", "{}}"]
        {
            assert_eq!(parse(template), None, "{template:?}");
        }
    }
}
