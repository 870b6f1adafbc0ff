//! What a log call becomes, as text with holes: a hole is a word that the caller fills with tokens of the call.
//!
//! ```text
//! {
//!     let site = { static LOGTOOL_CALL_SITE: Site = Site::new(..); &LOGTOOL_CALL_SITE };
//!     if IS_COMPILED[LEVEL] && site.is_enabled() {             // a constant, one relaxed load, one branch
//!         match (&argument, ..) { (a0, ..) => {                // evaluated here, so that `?` and `.await` work
//!             if false { let _ = format_args!(LITERAL, ..); }  // rustc checks the call
//!             site.log(&(kept, (.., ())))                      // encodes out of line
//!         } }
//!     }
//! }
//! ```
//! Each argument is kept by its type where it has a stored form that is shown as `format!` would show it, otherwise as text.
//! Which of the two is found by autoref specialisation (`src/capture.rs` of the library). Text depends on the spec, so an
//! argument that is shown in two ways is kept twice.

use std::fmt::Write as _;

use crate::call::How;
use crate::format::{Count, Piece, Spec, Which};

/// What a call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// Nothing: `info!`.
    Nothing,
    /// Whether it was accepted: `try_info!`.
    Result,
    /// Whether it would be logged: `info_enabled!`.
    IsEnabled,
}

/// What was found in a call, but for its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The name of the level's constant: `Info`.
    pub(crate) level: String,
    pub(crate) gives: Gives,
    pub(crate) has_logger: bool,
    pub(crate) category: Category,
    pub(crate) has_every: bool,
    /// Name and form of each field in front of the message.
    pub(crate) fields: Vec<(String, How)>,
    pub(crate) message: Message,
}

/// How the category is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Category {
    /// Not at all: it is the module.
    Module,
    /// As a string.
    Literal,
    /// As a static.
    Static,
}

/// The message of a call.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// A literal that was parsed, and the name of each argument behind it.
    Parsed(Vec<Piece>, Vec<Option<String>>),
    /// Whatever it is: rustc makes the text, or says what is wrong.
    Text,
    /// None, as for an enabled call.
    None,
}

/// A hole: the word for it, and what belongs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hole {
    /// `$crate`
    Crate,
    Logger,
    /// The variable that the logger is bound to, standing where the logger stands.
    Given,
    Category,
    Every,
    /// The format string.
    Literal,
    /// Format string and arguments.
    Message,
    /// An argument behind the format string.
    Argument(usize),
    /// A variable that the format string captures.
    Variable(String),
    /// The value of a field.
    Field(usize),
    /// The place `*a0`, standing where its argument stands, so that rustc points at that.
    Check(usize),
    /// The place `*f0`, the same for a field.
    Checked(usize),
    /// The variable `f0`, standing where the value of its field stands.
    Kept(usize),
}

/// Which hole this word is.
pub(crate) fn hole(word: &str) -> Option<Hole> {
    let word = word.strip_prefix("__logtool_")?;
    Some(match word.split_once('_').unwrap_or((word, "")) {
        ("crate", _) => Hole::Crate,
        ("logger", _) => Hole::Logger,
        ("given", _) => Hole::Given,
        ("category", _) => Hole::Category,
        ("every", _) => Hole::Every,
        ("literal", _) => Hole::Literal,
        ("message", _) => Hole::Message,
        ("argument", number) => Hole::Argument(number.parse().ok()?),
        ("variable", name) => Hole::Variable(name.to_owned()),
        ("field", number) => Hole::Field(number.parse().ok()?),
        ("check", number) => Hole::Check(number.parse().ok()?),
        ("checked", number) => Hole::Checked(number.parse().ok()?),
        ("kept", number) => Hole::Kept(number.parse().ok()?),
        _ => return None,
    })
}

/// One value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    /// Empty for none.
    name: String,
    /// Which argument it shows, and how; `None` for a field.
    shows: Option<(usize, Spec)>,
    /// The expression that keeps it.
    code: String,
}

/// The values of a message, its stored template, and the variables it captures.
struct Values {
    kept: Vec<Kept>,
    template: String,
    variables: Vec<String>,
}

/// The expansion of a call.
pub(crate) fn expand(plan: &Plan) -> String {
    let values = match &plan.message {
        Message::Parsed(pieces, names) => match values(pieces, names, &plan.fields) {
            Some(values) => Some(values),
            None => return expand(&Plan { message: Message::Text, ..plan.clone() }),
        },
        Message::Text | Message::None => None,
    };
    let mut kept: Vec<Kept> = match (&values, &plan.message) {
        (Some(values), _) => values.kept.clone(),
        (None, Message::Text) => {
            vec![Kept { name: String::new(), shows: None, code: "__logtool_crate::private::Formatted(text)".into() }]
        }
        _ => Vec::new(),
    };
    for (number, (name, how)) in plan.fields.iter().enumerate() {
        let method = match how {
            How::AsItIs => "field",
            How::Debug => "inspect",
            How::Display => "show",
        };
        let code = format!("(&&&__logtool_crate::private::Plain(__logtool_kept_{number})).{method}()");
        kept.push(Kept { name: name.clone(), shows: None, code });
    }
    let template = match (&values, &plan.message) {
        (Some(values), _) => values.template.as_str(),
        (None, Message::Text) => "{0}",
        _ => "",
    };

    let mut out = String::from("{ ");
    push_site(&mut out, plan, template, &kept);
    let is_compiled = format!("__logtool_crate::private::IS_COMPILED[__logtool_crate::Level::{} as usize]", plan.level);
    let is_enabled = if plan.has_logger { "site.is_enabled_in(logger)" } else { "site.is_enabled()" };
    let with_logger = |inner: &str| {
        if plan.has_logger {
            // In two steps: what is asked of it must not tell what type it has.
            let logger = "match __logtool_crate::private::logger(__logtool_given) { logger =>";
            format!("match &__logtool_logger {{ given => {logger} {inner} }} }}")
        } else {
            inner.to_owned()
        }
    };
    if plan.gives == Gives::IsEnabled {
        let _ = write!(out, "if {is_compiled} {{ {} }} else {{ false }} }}", with_logger(is_enabled));
        return out;
    }
    let takes_turn = if plan.has_every { " && site.takes_turn()" } else { "" };
    let otherwise = if plan.gives == Gives::Result { " else { __logtool_crate::private::ACCEPTED }" } else { "" };
    let call = call(plan, &values, &kept);
    let inner = with_logger(&format!("if {is_enabled}{takes_turn} {{ {call} }}{otherwise}"));
    let _ = write!(out, "if {is_compiled} {{ {inner} }}{otherwise} }}");
    out
}

/// The static that stands for the call.
fn push_site(out: &mut String, plan: &Plan, template: &str, kept: &[Kept]) {
    let category = match plan.category {
        Category::Module => "Name(__logtool_crate::private::module_path!())",
        Category::Literal => "Name(__logtool_category)",
        Category::Static => "Category(&__logtool_category)",
    };
    let names: Vec<&str> = kept.iter().map(|kept| kept.name.as_str()).collect();
    let every = if plan.has_every { "__logtool_every" } else { "1" };
    // The static is hidden in a block of its own: no word of the caller can mean it.
    let _ = write!(
        out,
        "let site = {{ static LOGTOOL_CALL_SITE: __logtool_crate::private::Site = __logtool_crate::private::Site::new(\
         __logtool_crate::Level::{level}, __logtool_crate::private::Origin::{category}, __logtool_crate::private::file!(), \
         __logtool_crate::private::line!(), {template:?}, &{names:?}, {every}); &LOGTOOL_CALL_SITE }}; ",
        level = plan.level,
    );
}

/// Evaluates the arguments and hands them over.
fn call(plan: &Plan, values: &Option<Values>, kept: &[Kept]) -> String {
    let fields = 0..plan.fields.len();
    let mut places: Vec<String> = fields.clone().map(|number| format!("&__logtool_field_{number}")).collect();
    let mut names: Vec<String> = fields.map(|number| format!("f{number}")).collect();
    let mut check = String::new();
    for (number, (_, how)) in plan.fields.iter().enumerate() {
        let literal = match how {
            How::AsItIs => continue,
            How::Debug => "{:?}",
            How::Display => "{}",
        };
        let checked = format!("__logtool_crate::private::format_args!({literal:?}, __logtool_checked_{number})");
        let _ = write!(check, "if false {{ let _ = {checked}; }} ");
    }
    match (values, &plan.message) {
        (Some(values), Message::Parsed(_, arguments)) => {
            check.push_str("if false { let _ = __logtool_crate::private::format_args!(__logtool_literal");
            let explicit = arguments
                .iter()
                .enumerate()
                .map(|(number, name)| (format!("&__logtool_argument_{number}"), name.clone()));
            let captured =
                values.variables.iter().map(|name| (format!("&__logtool_variable_{name}"), Some(name.clone())));
            for (number, (place, name)) in explicit.chain(captured).enumerate() {
                places.push(place);
                names.push(format!("a{number}"));
                let _ = match name {
                    Some(name) => write!(check, ", {name} = __logtool_check_{number}"),
                    None => write!(check, ", __logtool_check_{number}"),
                };
            }
            check.push_str("); } ");
        }
        _ => {
            places.push("__logtool_crate::private::format_args!(__logtool_message)".into());
            names.push("text".into());
        }
    }
    let method = if plan.gives == Gives::Result { "try_log" } else { "log" };
    let to = if plan.has_logger { "_to(logger, " } else { "(" };
    let mut list = String::from("()");
    for kept in kept.iter().rev() {
        list = format!("({}, {list})", kept.code);
    }
    let traits = if kept.is_empty() { "" } else { "use __logtool_crate::private::keep::*; " };
    let tuple = |parts: &[String]| parts.iter().fold(String::new(), |tuple, part| tuple + part + ", ");
    format!("match ({}) {{ ({}) => {{ {check}{traits}site.{method}{to}&{list}) }} }}", tuple(&places), tuple(&names))
}

/// Finds what is kept of each argument, and how the template then refers to it. `None` for an argument that is not there:
/// rustc says so.
fn values(pieces: &[Piece], names: &[Option<String>], fields: &[(String, How)]) -> Option<Values> {
    let mut arguments: Vec<Option<String>> = names.to_vec();
    let position = |which: &Which, arguments: &mut Vec<Option<String>>| match which {
        Which::Position(position) => (*position < names.len()).then_some(*position),
        Which::Name(name) => {
            let found = arguments.iter().position(|argument| argument.as_ref() == Some(name));
            Some(found.unwrap_or_else(|| {
                arguments.push(Some(name.clone()));
                arguments.len() - 1
            }))
        }
    };
    // Each argument's first use comes at the argument's own place, further uses behind them all.
    let mut uses: Vec<(usize, Spec)> = Vec::new();
    for piece in pieces {
        let Piece::Place { argument, spec } = piece else { continue };
        let argument = position(argument, &mut arguments)?;
        let mut resolve = |count: &Count| match count {
            Count::Argument(which) => {
                let position = position(which, &mut arguments)?;
                uses.push((position, plain()));
                Some(Count::Argument(Which::Position(position)))
            }
            other => Some(other.clone()),
        };
        let (width, precision) = (resolve(&spec.width)?, resolve(&spec.precision)?);
        uses.push((argument, Spec { width, precision, ..spec.clone() }));
    }
    let mut order: Vec<(usize, Spec)> = Vec::new();
    for argument in 0..arguments.len() {
        order.extend(uses.iter().find(|(used, _)| *used == argument).cloned());
    }
    for used in &uses {
        if !order.contains(used) {
            order.push(used.clone());
        }
    }

    let mut kept: Vec<Kept> = Vec::new();
    for (argument, spec) in &order {
        let name = arguments[*argument].clone().unwrap_or_default();
        let is_taken = fields.iter().any(|(field, _)| *field == name) || kept.iter().any(|kept| kept.name == name);
        let name = if is_taken { String::new() } else { name };
        kept.push(Kept { name, shows: Some((*argument, spec.clone())), code: keeps(*argument, spec) });
    }
    let variables = arguments[names.len()..].iter().flatten().cloned().collect();
    let template = template(pieces, &uses, &kept);
    Some(Values { kept, template, variables })
}

/// `{}`
fn plain() -> Spec {
    Spec { flags: String::new(), width: Count::None, precision: Count::None, kind: String::new() }
}

/// The expression that keeps an argument, to be shown so.
fn keeps(argument: usize, spec: &Spec) -> String {
    let method = match spec.kind.as_str() {
        "?" | "x?" | "X?" => "inspect",
        "p" => "address",
        _ => "show",
    };
    if spec.is_plain() {
        return format!("(&&&__logtool_crate::private::Plain(a{argument})).{method}()");
    }
    let mut arguments = format!("__logtool_check_{argument}");
    let mut number = 0;
    let mut count = |count: &Count| match count {
        Count::Argument(Which::Position(position)) => {
            number += 1;
            let _ = write!(arguments, ", __logtool_check_{position}");
            format!("{number}$")
        }
        Count::Is(digits) => digits.clone(),
        _ => String::new(),
    };
    let shown = with_counts(spec, &mut count);
    let literal = format!("{{0:{shown}}}");
    format!(
        "(&&&__logtool_crate::private::Spec(a{argument}, \
         __logtool_crate::private::format_args!({literal:?}, {arguments}))).{method}()"
    )
}

/// The spec as it is written, its width and precision by `count`.
fn with_counts(spec: &Spec, count: &mut impl FnMut(&Count) -> String) -> String {
    let width = count(&spec.width);
    let precision = if spec.precision == Count::None { String::new() } else { format!(".{}", count(&spec.precision)) };
    format!("{}{width}{precision}{}", spec.flags, spec.kind)
}

/// The template that is stored: the format string, each place naming the value that it shows.
fn template(pieces: &[Piece], uses: &[(usize, Spec)], kept: &[Kept]) -> String {
    let mut uses = uses.iter();
    let mut next = 0;
    // A name, or a number where there is none.
    let refer = |used: &(usize, Spec)| {
        let number = kept.iter().position(|kept| kept.shows.as_ref() == Some(used)).unwrap_or(usize::MAX);
        let name = kept.get(number).map_or("", |kept| kept.name.as_str());
        (number, if name.is_empty() { number.to_string() } else { name.to_owned() })
    };
    let mut out = String::new();
    for piece in pieces {
        let spec = match piece {
            Piece::Text(text) => {
                out.push_str(&text.replace('{', "{{").replace('}', "}}"));
                continue;
            }
            Piece::Place { spec, .. } => spec,
        };
        let counts = [&spec.width, &spec.precision].into_iter().filter(|count| matches!(count, Count::Argument(_)));
        let mut counts: Vec<String> = counts.filter_map(|_| uses.next()).map(|used| refer(used).1 + "$").collect();
        counts.reverse();
        let Some(used) = uses.next() else { continue };
        let shown = with_counts(spec, &mut |count| match count {
            Count::Argument(_) => counts.pop().unwrap_or_default(),
            Count::Is(digits) => digits.clone(),
            Count::None => String::new(),
        });
        let (number, mut name) = refer(used);
        if name == number.to_string() && number == next {
            next += 1;
            name = String::new();
        }
        let _ = if shown.is_empty() { write!(out, "{{{name}}}") } else { write!(out, "{{{name}:{shown}}}") };
    }
    out
}

#[cfg(test)]
mod tests;
