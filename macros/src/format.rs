//! Format strings, parsed: the syntax of `std::fmt`, as far as the expansion must know it.
//!
//! rustc checks each format string too, since the expansion holds a `format_args!` of it. So this may take what rustc
//! refuses, and refuse what rustc takes (the message is then made in the caller); what both take must mean the same.

/// A format string in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text, with its braces no longer doubled.
    Text(String),
    /// The place of an argument.
    Place {
        /// The argument.
        argument: Which,
        /// How it is shown.
        spec: Spec,
    },
}

/// Which argument is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// By its position.
    Position(usize),
    /// By its name.
    Name(String),
}

/// How an argument is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// Fill, alignment, sign, `#` and `0`, as they are written.
    pub(crate) flags: String,
    /// Least characters.
    pub(crate) width: Count,
    /// Digits of a float, most characters of a text.
    pub(crate) precision: Count,
    /// The letters of the trait: empty for Display, `?` for Debug.
    pub(crate) kind: String,
}

impl Spec {
    /// Whether this is `{}` or `{:?}`.
    pub(crate) fn is_plain(&self) -> bool {
        let is_none = self.flags.is_empty() && self.width == Count::None && self.precision == Count::None;
        is_none && (self.kind.is_empty() || self.kind == "?")
    }
}

/// A width or a precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Not given.
    None,
    /// A number, in its digits.
    Is(String),
    /// What an argument says.
    Argument(Which),
}

/// Parses a format string; `None` if it is none.
pub(crate) fn parse(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let (mut plain, mut rest, mut next) = (String::new(), text, 0);
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            plain.push_str(brace);
            rest = behind;
            continue;
        }
        if brace == "}" {
            return None;
        }
        let end = end_of_place(rest)?;
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(place(&rest[..end], &mut next)?);
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Some(pieces)
}

/// Where the closing brace stands. A brace may also be the fill: `{:}>5}`.
fn end_of_place(rest: &str) -> Option<usize> {
    let end = rest.find('}')?;
    let is_fill = rest[..end].ends_with(':') && rest[end + 1..].starts_with(['<', '^', '>']);
    if is_fill { Some(end + 1 + rest[end + 1..].find('}')?) } else { Some(end) }
}

/// Reads `argument:spec`. `next` is the position that `{}` takes.
fn place(inside: &str, next: &mut usize) -> Option<Piece> {
    let (name, spec_text) = inside.split_once(':').unwrap_or((inside, ""));
    let mut take_next = || {
        *next += 1;
        Which::Position(*next - 1)
    };
    let spec = spec(spec_text.trim_end(), &mut take_next)?;
    let name = name.trim();
    let argument = if name.is_empty() { take_next() } else { which(name)? };
    Some(Piece::Place { argument, spec })
}

fn which(name: &str) -> Option<Which> {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return name.parse().ok().map(Which::Position);
    }
    let is_first = |c: char| c == '_' || c.is_alphabetic();
    let is_name = name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_alphanumeric());
    (is_name && name != "_").then(|| Which::Name(name.to_owned()))
}

/// Reads what stands behind the colon. A precision of `.*` takes the next argument, before the value does.
fn spec(text: &str, take_next: &mut impl FnMut() -> Which) -> Option<Spec> {
    let is_align = |c: &char| matches!(c, '<' | '^' | '>');
    let mut chars = text.chars();
    let (first, second) = (chars.next(), chars.next());
    let mut rest = if second.as_ref().is_some_and(is_align) {
        chars.as_str()
    } else {
        text.strip_prefix(|c| is_align(&c)).unwrap_or(text)
    };
    if second.as_ref().is_some_and(is_align) && first == Some('{') {
        return None;
    }
    rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest = rest.strip_prefix('#').unwrap_or(rest);
    // `0$` is the width that argument 0 tells.
    if !rest.starts_with("0$") {
        rest = rest.strip_prefix('0').unwrap_or(rest);
    }
    let flags = text[..text.len() - rest.len()].to_owned();
    let width = count(&mut rest)?;
    let mut precision = Count::None;
    if let Some(behind) = rest.strip_prefix('.') {
        rest = behind;
        precision = match rest.strip_prefix('*') {
            Some(behind) => {
                rest = behind;
                Count::Argument(take_next())
            }
            None => count(&mut rest).filter(|count| *count != Count::None)?,
        };
    }
    let kinds = ["", "?", "x?", "X?", "x", "X", "o", "b", "e", "E", "p"];
    kinds.contains(&rest).then(|| Spec { flags, width, precision, kind: rest.to_owned() })
}

/// Reads a number or `argument$`, if one stands there.
fn count(rest: &mut &str) -> Option<Count> {
    let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
    if let Some(behind) = rest[end..].strip_prefix('$') {
        let argument = which(&rest[..end])?;
        *rest = behind;
        return Some(Count::Argument(argument));
    }
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let digits = &rest[..end];
    *rest = &rest[end..];
    if digits.is_empty() {
        return Some(Count::None);
    }
    digits.parse::<u16>().ok().map(|_| Count::Is(digits.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> (Which, Spec) {
        match parse(text).as_deref() {
            Some([Piece::Place { argument, spec }]) => (argument.clone(), spec.clone()),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn name(name: &str) -> Which {
        Which::Name(name.to_owned())
    }

    #[test]
    fn text_and_places_come_in_their_order() {
        let pieces = parse("a{{b}} {} {id}{1}").unwrap();
        let shown: Vec<String> = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Place { argument, .. } => format!("{argument:?}"),
            })
            .collect();
        assert_eq!(shown, ["a{b} ", "Position(0)", " ", "Name(\"id\")", "Position(1)"]);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn every_item_of_a_spec_is_read() {
        let spec = |flags: &str, width, precision, kind: &str| Spec {
            flags: flags.into(),
            width,
            precision,
            kind: kind.into(),
        };
        let is = |digits: &str| Count::Is(digits.into());
        assert_eq!(only("{}").1, spec("", Count::None, Count::None, ""));
        assert_eq!(only("{:*^+#012.3x?}").1, spec("*^+#0", is("12"), is("3"), "x?"));
        assert_eq!(only("{:<5}").1, spec("<", is("5"), Count::None, ""));
        assert_eq!(only("{: >5}").1, spec(" >", is("5"), Count::None, ""));
        assert_eq!(only("{:}>5}").1, spec("}>", is("5"), Count::None, ""));
        assert_eq!(only("{:-}").1, spec("-", Count::None, Count::None, ""));
        assert_eq!(only("{:00$}").1, spec("0", Count::Argument(Which::Position(0)), Count::None, ""));
        assert_eq!(only("{:0$}").1, spec("", Count::Argument(Which::Position(0)), Count::None, ""));
        assert_eq!(
            only("{id:w$.p$e}"),
            (name("id"), spec("", Count::Argument(name("w")), Count::Argument(name("p")), "e"))
        );
        for kind in ["?", "x?", "X?", "x", "X", "o", "b", "e", "E", "p"] {
            assert_eq!(only(&format!("{{:{kind}}}")).1, spec("", Count::None, Count::None, kind));
        }
    }

    #[test]
    fn a_star_takes_the_argument_before_the_value() {
        let (argument, spec) = only("{:.*}");
        assert_eq!((argument, spec.precision), (Which::Position(1), Count::Argument(Which::Position(0))));
        let (argument, spec) = only("{id:.*}");
        assert_eq!((argument, spec.precision), (name("id"), Count::Argument(Which::Position(0))));
    }

    #[test]
    fn white_space_within_a_place_means_nothing() {
        assert_eq!(only("{ id :>5? }"), only("{id:>5?}"));
        assert_eq!(only("{ }"), only("{}"));
    }

    #[test]
    fn what_is_no_format_string_is_refused() {
        for text in
            ["{", "}", "a } b", "{:", "{a b}", "{:q}", "{:.}", "{:65536}", "{-1}", "{}}", "{r#a}", "{_}", "{a.b}"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
