//! What the log macros of `logtool` expand to. Not for use by itself: the macros of `logtool` call it.
//!
//! A call is told apart by [`call`] and [`format`], put together as text with holes by [`expand`], and here turned into
//! tokens: our own resolve where this is defined, those of the caller where they were written.

mod call;
mod expand;
mod format;
mod literal;

use std::ops::Range;

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

use call::{Call, Fault, Token};
use expand::{Category, Gives, Hole, Message, Plan};

/// `($crate) Level gives { arguments }`, with `log`, `try` or `enabled` for what it gives.
#[doc(hidden)]
#[proc_macro]
pub fn log_call(input: TokenStream) -> TokenStream {
    let mut parts = input.into_iter();
    let mut next = || parts.next().unwrap_or_else(|| TokenTree::Group(Group::new(Delimiter::None, TokenStream::new())));
    let (krate, level, gives, arguments) = (inside(next()), next().to_string(), next().to_string(), inside(next()));
    let gives = match gives.as_str() {
        "try" => Gives::Result,
        "enabled" => Gives::IsEnabled,
        _ => Gives::Nothing,
    };
    let trees: Vec<TokenTree> = arguments.into_iter().map(with_parentheses).collect();
    let tokens: Vec<Token> = trees.iter().map(token).collect();
    let parsed = if gives == Gives::IsEnabled { call::parse_enabled(&tokens) } else { call::parse(&tokens) };
    match parsed {
        Ok(call) => Source { krate, trees, tokens, call }.expand(level, gives),
        Err(fault) => compile_error(&fault, &trees),
    }
}

/// What stands within brackets.
fn inside(tree: TokenTree) -> TokenStream {
    match tree {
        TokenTree::Group(group) => group.stream(),
        other => other.into(),
    }
}

/// What a macro of the caller passed on (`$value:expr`) stands in brackets that are not seen; rustc forgets them when it reads
/// what this macro gives, and `$value * 2` would be another number. So they become parentheses.
fn with_parentheses(tree: TokenTree) -> TokenTree {
    let TokenTree::Group(group) = tree else { return tree };
    let is_one = |stream: &TokenStream| stream.clone().into_iter().nth(1).is_none();
    let has_operator = |stream: TokenStream| {
        stream.into_iter().any(|tree| matches!(tree, TokenTree::Punct(mark) if mark.as_char() != ':'))
    };
    // A path stays: it may be that of a structure, `$path { .. }`.
    let becomes_seen = group.delimiter() == Delimiter::None && !is_one(&group.stream()) && has_operator(group.stream());
    let delimiter = if becomes_seen { Delimiter::Parenthesis } else { group.delimiter() };
    let mut seen = Group::new(delimiter, group.stream().into_iter().map(with_parentheses).collect());
    // The parentheses are ours: nobody is to be told that they are too many.
    seen.set_span(if becomes_seen { Span::mixed_site().located_at(group.span()) } else { group.span() });
    TokenTree::Group(seen)
}

/// The view of a token. What a macro of the caller passed on (`$text:literal`) stands in brackets that are not seen.
fn token(tree: &TokenTree) -> Token {
    match tree {
        TokenTree::Ident(word) => {
            let word = word.to_string();
            Token::Word(word.strip_prefix("r#").unwrap_or(&word).to_owned())
        }
        TokenTree::Punct(mark) => Token::Mark(mark.as_char(), mark.spacing() == Spacing::Joint),
        TokenTree::Literal(literal) => Token::Literal(literal.to_string()),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let mut inside = group.stream().into_iter();
            match (inside.next(), inside.next()) {
                (Some(only), None) => token(&only),
                _ => Token::Group,
            }
        }
        TokenTree::Group(_) => Token::Group,
    }
}

/// The first token within brackets that are not seen: its span is where the text was written.
fn innermost_span(tree: &TokenTree) -> Span {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            group.stream().into_iter().next().map_or_else(|| group.span(), |first| innermost_span(&first))
        }
        other => other.span(),
    }
}

fn compile_error(fault: &Fault, trees: &[TokenTree]) -> TokenStream {
    let span = trees.get(fault.at).map_or_else(Span::call_site, innermost_span);
    let mut text = Literal::string(&fault.text);
    text.set_span(span);
    let mark = |mark: char, spacing: Spacing| {
        let mut mark = Punct::new(mark, spacing);
        mark.set_span(span);
        TokenTree::Punct(mark)
    };
    let mut arguments = Group::new(Delimiter::Brace, TokenTree::Literal(text).into());
    arguments.set_span(span);
    TokenStream::from_iter([
        mark(':', Spacing::Joint),
        mark(':', Spacing::Alone),
        TokenTree::Ident(Ident::new("core", span)),
        mark(':', Spacing::Joint),
        mark(':', Spacing::Alone),
        TokenTree::Ident(Ident::new("compile_error", span)),
        mark('!', Spacing::Alone),
        TokenTree::Group(arguments),
    ])
}

/// A call with its tokens.
struct Source {
    krate: TokenStream,
    trees: Vec<TokenTree>,
    tokens: Vec<Token>,
    call: Call,
}

impl Source {
    fn expand(&self, level: String, gives: Gives) -> TokenStream {
        let category = match &self.call.category {
            None => Category::Module,
            Some(range) if matches!(self.tokens[range.clone()], [Token::Literal(_)]) => Category::Literal,
            Some(_) => Category::Static,
        };
        let arguments = self.arguments();
        let message = match (gives, &arguments) {
            (Gives::IsEnabled, _) => Message::None,
            (_, Some((pieces, arguments))) => {
                Message::Parsed(pieces.clone(), arguments.iter().map(|argument| argument.name.clone()).collect())
            }
            (_, None) => Message::Text,
        };
        let plan = Plan {
            level,
            gives,
            has_logger: self.call.logger.is_some(),
            category,
            has_every: self.call.every.is_some(),
            fields: self.call.fields.iter().map(|field| (field.name.clone(), field.how)).collect(),
            message,
        };
        let values = arguments.map(|(_, arguments)| arguments).unwrap_or_default();
        let values: Vec<Range<usize>> = values.into_iter().map(|argument| argument.value).collect();
        // The text is our own: it always lexes.
        let code: TokenStream = expand::expand(&plan).parse().unwrap_or_default();
        self.fill(code, &values)
    }

    /// The message's pieces and arguments; `None` where it is left to rustc.
    fn arguments(&self) -> Option<(Vec<format::Piece>, Vec<call::Argument>)> {
        let Range { start, end } = self.call.message;
        let Some(Token::Literal(source)) = self.tokens[start..end].first() else { return None };
        let pieces = format::parse(&literal::text_of(source)?)?;
        Some((pieces, call::arguments(&self.tokens, start + 1..end)?))
    }

    /// Fills the holes. Words of our own get a span of this macro, so that none of the caller's can mean them.
    fn fill(&self, code: TokenStream, arguments: &[Range<usize>]) -> TokenStream {
        let fill = |tree: TokenTree| -> TokenStream {
            let ours = Span::mixed_site();
            let mut tree = match tree {
                TokenTree::Ident(word) => match expand::hole(&word.to_string()) {
                    Some(hole) => return self.hole(&hole, arguments),
                    None => TokenTree::Ident(word),
                },
                TokenTree::Group(group) => {
                    TokenTree::Group(Group::new(group.delimiter(), self.fill(group.stream(), arguments)))
                }
                other => other,
            };
            tree.set_span(ours);
            tree.into()
        };
        code.into_iter().flat_map(fill).collect()
    }

    fn hole(&self, hole: &Hole, arguments: &[Range<usize>]) -> TokenStream {
        let call = &self.call;
        let in_brackets =
            |range: Option<&Range<usize>>| range.map_or_else(TokenStream::new, |range| self.in_brackets(range));
        match hole {
            Hole::Crate => self.krate.clone(),
            Hole::Logger => in_brackets(call.logger.as_ref()),
            Hole::Given => TokenTree::Ident(Ident::new("given", self.ours_at(call.logger.as_ref()))).into(),
            Hole::Category => in_brackets(call.category.as_ref()),
            Hole::Every => in_brackets(call.every.as_ref()),
            Hole::Literal => self.slice(&(call.message.start..call.message.start + 1)),
            Hole::Message => self.slice(&call.message),
            Hole::Argument(number) => in_brackets(arguments.get(*number)),
            Hole::Field(number) => in_brackets(call.fields.get(*number).map(|field| &field.value)),
            Hole::Variable(name) => TokenTree::Ident(variable(name, self.literal_span())).into(),
            Hole::Kept(number) => {
                let span = self.ours_at(call.fields.get(*number).map(|field| &field.value));
                TokenTree::Ident(Ident::new(&format!("f{number}"), span)).into()
            }
            Hole::Check(number) => place(&format!("a{number}"), self.ours_at(arguments.get(*number))),
            Hole::Checked(number) => {
                place(&format!("f{number}"), self.ours_at(call.fields.get(*number).map(|field| &field.value)))
            }
        }
    }

    fn slice(&self, range: &Range<usize>) -> TokenStream {
        self.trees[range.clone()].iter().cloned().collect()
    }

    /// An expression, in parentheses unless it is one word. What a macro of the caller passed on (`$value:expr`) is one token
    /// too, but may be any expression.
    fn in_brackets(&self, range: &Range<usize>) -> TokenStream {
        let stream = self.slice(range);
        if let [TokenTree::Ident(_) | TokenTree::Literal(_)] = &self.trees[range.clone()] {
            return stream;
        }
        let mut group = Group::new(Delimiter::Parenthesis, stream);
        group.set_span(innermost_span(&self.trees[range.start]));
        TokenTree::Group(group).into()
    }

    /// A span for words of our own that are to stand where the caller's tokens stand; without those, where the literal is.
    fn ours_at(&self, range: Option<&Range<usize>>) -> Span {
        let there = range.and_then(|range| self.trees.get(range.start)).map(innermost_span);
        Span::mixed_site().located_at(there.unwrap_or_else(|| self.literal_span()))
    }

    fn literal_span(&self) -> Span {
        self.trees.get(self.call.message.start).map_or_else(Span::call_site, innermost_span)
    }
}

/// What the variable refers to.
fn place(variable: &str, span: Span) -> TokenStream {
    let mut star = Punct::new('*', Spacing::Alone);
    star.set_span(span);
    TokenStream::from_iter([TokenTree::Punct(star), TokenTree::Ident(Ident::new(variable, span))])
}

/// A variable that a format string names; in the program it may have to be written `r#type`.
fn variable(name: &str, span: Span) -> Ident {
    match name {
        "self" | "Self" | "super" | "crate" => Ident::new(name, span),
        _ => Ident::new_raw(name, span),
    }
}
