//! The arguments of a log call, told apart: `logger: E, category: C, every: N, name = value, ..; "literal", arguments`.
//!
//! Works on a view of the tokens and answers with ranges of them, so that nothing here needs a compiler around it.
//! Expressions are not parsed: all that must be known of one is where it ends.

use std::ops::Range;

/// A token, as much of it as matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier or a keyword, without `r#`.
    Word(String),
    /// A character of punctuation, and whether the next one stands right behind it.
    Mark(char, bool),
    /// A literal as it is written.
    Literal(String),
    /// Something in brackets.
    Group,
}

/// A call, as ranges of its tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) logger: Option<Range<usize>>,
    pub(crate) category: Option<Range<usize>>,
    pub(crate) every: Option<Range<usize>>,
    pub(crate) fields: Vec<Field>,
    /// Format string and its arguments.
    pub(crate) message: Range<usize>,
}

/// `name = value` in front of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) how: How,
    /// For `name` alone, the name itself.
    pub(crate) value: Range<usize>,
}

/// How the value of a field is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By its type, otherwise as its Display shows it.
    AsItIs,
    /// By its type, otherwise as its Debug shows it: `name:? = value`.
    Debug,
    /// By its type, otherwise as its Display shows it: `name:% = value`.
    Display,
}

/// The arguments of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: Option<String>,
    pub(crate) value: Range<usize>,
}

/// What is wrong with a call, and at which token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) text: String,
}

fn fault<T>(at: usize, text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at, text: text.into() })
}

fn is_mark(tokens: &[Token], at: usize, mark: char) -> bool {
    matches!(tokens.get(at), Some(Token::Mark(found, _)) if *found == mark)
}

/// Whether `word:` stands here, and not `word::`.
fn is_label(tokens: &[Token], at: usize, word: &str) -> bool {
    matches!(tokens.get(at), Some(Token::Word(found)) if found == word)
        && is_mark(tokens, at + 1, ':')
        && !is_mark(tokens, at + 2, ':')
}

/// Whether an `=` stands here, and not `==` or `=>`.
fn is_assignment(tokens: &[Token], at: usize) -> bool {
    match tokens.get(at) {
        Some(Token::Mark('=', is_joint)) => {
            !(*is_joint && matches!(tokens.get(at + 1), Some(Token::Mark('=' | '>', _))))
        }
        _ => false,
    }
}

/// Tells the parts of a call apart.
pub(crate) fn parse(tokens: &[Token]) -> Result<Call, Fault> {
    let mut call = Call::default();
    let mut at = head(tokens, &mut call)?;
    if let Some(semicolon) = (at..tokens.len()).find(|&at| is_mark(tokens, at, ';')) {
        call.fields = fields(tokens, at..semicolon)?;
        at = semicolon + 1;
    }
    call.message = at..tokens.len();
    Ok(call)
}

/// Tells the parts of an enabled call apart: `logger: E,` and then a category, with or without its label.
pub(crate) fn parse_enabled(tokens: &[Token]) -> Result<Call, Fault> {
    let mut call = Call::default();
    let at = head(tokens, &mut call)?;
    if call.every.is_some() {
        return fault(0, "`every` is for calls that log");
    }
    if at < tokens.len() {
        let end = end_of_expression(tokens, at..tokens.len()).unwrap_or(tokens.len());
        if call.category.is_some() || end + 1 < tokens.len() {
            return fault(at, "expected nothing behind the category");
        }
        call.category = Some(at..end);
    }
    Ok(call)
}

/// Reads the labelled arguments; returns where they end.
fn head(tokens: &[Token], call: &mut Call) -> Result<usize, Fault> {
    let mut at = 0;
    loop {
        let (name, place) = if is_label(tokens, at, "logger") {
            ("logger", &mut call.logger)
        } else if is_label(tokens, at, "category") {
            ("category", &mut call.category)
        } else if is_label(tokens, at, "every") {
            ("every", &mut call.every)
        } else {
            return Ok(at);
        };
        // A field may have this name too: `logger:? = value`.
        if is_mark(tokens, at + 2, '?') || is_mark(tokens, at + 2, '%') {
            return Ok(at);
        }
        let Some(end) = end_of_expression(tokens, at + 2..tokens.len()) else {
            return fault(at, format!("expected a comma behind the value of `{name}`"));
        };
        if end == at + 2 {
            return fault(at, format!("expected a value behind `{name}:`"));
        }
        if place.replace(at + 2..end).is_some() {
            return fault(at, format!("`{name}` is given twice"));
        }
        at = (end + 1).min(tokens.len());
    }
}

/// Reads `name = value, name:? = value, name`.
fn fields(tokens: &[Token], range: Range<usize>) -> Result<Vec<Field>, Fault> {
    let mut fields: Vec<Field> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let name_at = at;
        let (name, is_word) = match &tokens[at] {
            Token::Word(name) => (name.clone(), true),
            Token::Literal(source) => match crate::literal::text_of(source) {
                Some(name) if !name.is_empty() => (name, false),
                _ => return fault(at, "expected the name of a field: an identifier or a string"),
            },
            _ => return fault(at, "expected the name of a field: an identifier or a string"),
        };
        if fields.iter().any(|field| field.name == name) {
            return fault(at, format!("two fields are named `{name}`"));
        }
        at += 1;
        let mut how = How::AsItIs;
        if is_mark(tokens, at, ':') {
            how = match tokens.get(at + 1) {
                Some(Token::Mark('?', _)) => How::Debug,
                Some(Token::Mark('%', _)) => How::Display,
                Some(Token::Word(word)) if word == "debug" => How::Debug,
                Some(Token::Word(word)) if word == "display" || word == "err" => How::Display,
                _ => return fault(at, format!("expected `{name}:?`, `{name}:%`, `{name}:debug` or `{name}:display`")),
            };
            at += 2;
        }
        let value = if at < range.end && is_assignment(tokens, at) {
            let Some(end) = end_of_expression(tokens, at + 1..range.end) else {
                return fault(at, "cannot tell where this value ends: put it in parentheses");
            };
            let value = at + 1..end;
            if value.is_empty() {
                return fault(at, format!("expected a value behind `{name} =`"));
            }
            at = end;
            value
        } else if is_word {
            name_at..name_at + 1
        } else {
            return fault(name_at, format!("expected `\"{name}\" = value`"));
        };
        fields.push(Field { name, how, value });
        if at < range.end && !is_mark(tokens, at, ',') {
            return fault(at, "expected a comma, or a semicolon behind the last field");
        }
        at += 1;
    }
    Ok(fields)
}

/// Reads what stands behind the format string; `None` where it cannot be told apart, which is left to rustc.
pub(crate) fn arguments(tokens: &[Token], range: Range<usize>) -> Option<Vec<Argument>> {
    let mut arguments: Vec<Argument> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        if !is_mark(tokens, at, ',') {
            return None;
        }
        at += 1;
        if at == range.end {
            break;
        }
        let mut name = None;
        if let Token::Word(word) = &tokens[at]
            && is_assignment(tokens, at + 1)
        {
            name = Some(word.clone());
            at += 2;
        }
        let end = end_of_expression(tokens, at..range.end)?;
        let is_out_of_place = name.is_none() && arguments.last().is_some_and(|last| last.name.is_some());
        let is_double = name.is_some() && arguments.iter().any(|argument| argument.name == name);
        if end == at || is_out_of_place || is_double {
            return None;
        }
        arguments.push(Argument { name, value: at..end });
        at = end;
    }
    Some(arguments)
}

/// Where in `x as T` a token stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cast {
    /// In none.
    No,
    /// Between `as` and the name of the type.
    Begun,
    /// In the name of the type.
    Path,
}

/// Where the expression that starts the range ends: at a comma, or at the range's end. `None` within unclosed `<`.
///
/// A comma that is not between expressions stands within brackets, or between types: `f::<A, B>()`, `<A as T<B, C>>::f()`,
/// `x as M<A, B>`. A `<` opens types behind `::`, where an operand is expected, or in the type behind `as`.
fn end_of_expression(tokens: &[Token], range: Range<usize>) -> Option<usize> {
    let (mut depth, mut expects_operand, mut cast, mut at) = (0usize, true, Cast::No, range.start);
    while at < range.end {
        match &tokens[at] {
            Token::Mark(',', _) if depth == 0 => return Some(at),
            Token::Mark('<', is_joint) => {
                let is_behind_path =
                    at >= range.start + 2 && is_mark(tokens, at - 1, ':') && is_mark(tokens, at - 2, ':');
                if depth > 0 || expects_operand || cast == Cast::Path || is_behind_path {
                    depth += 1;
                } else {
                    expects_operand = true;
                    // `<<` and `<=` are one operator.
                    if *is_joint && (is_mark(tokens, at + 1, '<') || is_mark(tokens, at + 1, '=')) {
                        at += 1;
                    }
                }
            }
            Token::Mark('>', _) if depth > 0 => {
                let is_arrow = matches!(tokens[at - 1], Token::Mark('-' | '=', true));
                depth -= usize::from(!is_arrow);
                expects_operand = false;
            }
            Token::Mark('?', _) => (expects_operand, cast) = (false, Cast::No),
            // A path goes on, also in the type of a cast.
            Token::Mark(':', _) => expects_operand = false,
            // `as *const T`, `as &T`
            Token::Mark('*' | '&', _) if cast == Cast::Begun => {}
            Token::Mark(..) => (expects_operand, cast) = (true, Cast::No),
            Token::Word(word) => {
                let goes_on = matches!(word.as_str(), "as" | "const" | "mut" | "dyn");
                cast = match cast {
                    Cast::No if word == "as" => Cast::Begun,
                    Cast::Begun if goes_on => Cast::Begun,
                    Cast::Begun | Cast::Path if word != "as" => Cast::Path,
                    Cast::Path => Cast::Begun,
                    Cast::No | Cast::Begun => Cast::No,
                };
                expects_operand =
                    matches!(word.as_str(), "return" | "break" | "in" | "if" | "match" | "while" | "else");
            }
            Token::Literal(_) | Token::Group => (expects_operand, cast) = (false, Cast::No),
        }
        at += 1;
    }
    (depth == 0).then_some(range.end)
}

#[cfg(test)]
mod tests;
