//! Expansions: what is stored of a call, and what its code holds.

use super::*;

/// Template and field names of a literal with these arguments; an empty name is none.
fn stored(literal: &str, arguments: &[&str], fields: &[&str]) -> (String, Vec<String>) {
    let names: Vec<Option<String>> =
        arguments.iter().map(|name| (!name.is_empty()).then(|| name.to_string())).collect();
    let fields: Vec<_> = fields.iter().map(|name| (name.to_string(), How::AsItIs)).collect();
    let values = values(&crate::format::parse(literal).unwrap(), &names, &fields).unwrap();
    (values.template, values.kept.into_iter().map(|kept| kept.name).collect())
}

fn plan(literal: &str) -> Plan {
    Plan {
        level: "Info".into(),
        gives: Gives::Nothing,
        has_logger: false,
        category: Category::Module,
        has_every: false,
        fields: Vec::new(),
        message: Message::Parsed(crate::format::parse(literal).unwrap(), Vec::new()),
    }
}

#[test]
fn a_template_stays_as_it_is_where_that_is_enough() {
    for (literal, arguments) in [
        ("listening on {addr}", &[][..]),
        ("{} {}", &["", ""]),
        ("GET {} {path:>5} {status:?}", &["", "status"]),
        ("{{}} {:08.3}", &[""]),
        ("{:w$.p$}", &["", "w", "p"]),
        ("done", &[]),
    ] {
        assert_eq!(stored(literal, arguments, &[]).0, literal);
    }
}

#[test]
fn names_of_arguments_become_fields_in_the_order_of_format() {
    assert_eq!(stored("{b} {a} {}", &["", "a"], &[]).1, ["", "a", "b"]);
    assert_eq!(stored("{}", &["named"], &[]), ("{named}".into(), vec!["named".into()]));
}

#[test]
fn an_argument_shown_in_two_ways_is_kept_twice() {
    assert_eq!(stored("{x} {x:?} {x}", &[], &[]), ("{x} {1:?} {x}".into(), vec!["x".into(), "".into()]));
    assert_eq!(stored("{0} {0:x} {1}", &["", ""], &[]).0, "{} {2:x} {}");
}

#[test]
fn counts_refer_to_the_values_that_are_kept() {
    assert_eq!(stored("{:.*}", &["", ""], &[]).0, "{1:.0$}");
    assert_eq!(stored("{:1$} {1}", &["", ""], &[]).0, "{:1$} {}");
    assert_eq!(stored("{:>w$}", &[""], &[]), ("{:>w$}".into(), vec!["".into(), "w".into()]));
    assert_eq!(stored("{x:w$.w$}", &[], &[]), ("{x:w$.w$}".into(), vec!["x".into(), "w".into()]));
}

#[test]
fn a_field_has_its_name_before_a_variable() {
    assert_eq!(stored("{user}", &[], &["user"]), ("{}".into(), vec!["".into()]));
}

#[test]
fn a_missing_argument_leaves_all_to_rustc() {
    let text = expand(&plan("{0}"));
    assert!(text.contains("format_args!(__logtool_message)"), "{text}");
}

#[test]
fn arguments_are_evaluated_once_behind_the_check_of_the_level() {
    let text = expand(&plan("{a} {b:?} {a:>5}"));
    let enabled = text.find("site.is_enabled()").unwrap();
    for variable in ["&__logtool_variable_a", "&__logtool_variable_b"] {
        assert_eq!(text.matches(variable).count(), 1, "{text}");
        assert!(text.find(variable).unwrap() > enabled, "{text}");
    }
    assert!(text.contains("if false { let _ = __logtool_crate::private::format_args!(__logtool_literal, a = "));
}

#[test]
fn every_hole_has_its_word() {
    for (word, expected) in [
        ("__logtool_crate", Hole::Crate),
        ("__logtool_argument_12", Hole::Argument(12)),
        ("__logtool_variable_a_b", Hole::Variable("a_b".into())),
        ("__logtool_check_0", Hole::Check(0)),
    ] {
        assert_eq!(hole(word), Some(expected));
    }
    assert_eq!(hole("site"), None);
}
