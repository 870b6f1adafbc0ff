//! Calls taken apart, from their text.

use super::*;

/// A small lexer: words, numbers, strings, marks, and brackets as groups.
fn lex(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let mut at = 0;
    while at < chars.len() {
        let start = at;
        let c = chars[at];
        at += 1;
        if c.is_whitespace() {
            continue;
        } else if c == '"' {
            while chars[at] != '"' {
                at += 1;
            }
            at += 1;
            tokens.push(Token::Literal(chars[start..at].iter().collect()));
        } else if is_word(c) {
            while at < chars.len() && is_word(chars[at]) {
                at += 1;
            }
            let word: String = chars[start..at].iter().collect();
            tokens.push(if c.is_numeric() { Token::Literal(word) } else { Token::Word(word) });
        } else if "([{".contains(c) {
            let mut depth = 1;
            while depth > 0 {
                depth += i32::from("([{".contains(chars[at])) - i32::from(")]}".contains(chars[at]));
                at += 1;
            }
            tokens.push(Token::Group);
        } else {
            let is_joint = chars.get(at).is_some_and(|next| !next.is_whitespace() && !is_word(*next) && *next != '"');
            tokens.push(Token::Mark(c, is_joint));
        }
    }
    tokens
}

/// The tokens of a range, for eyes.
fn show(tokens: &[Token], range: &Range<usize>) -> String {
    let shown = tokens[range.clone()].iter().map(|token| match token {
        Token::Word(text) | Token::Literal(text) => text.clone(),
        Token::Mark(mark, _) => mark.to_string(),
        Token::Group => "()".to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// The arguments of `"", text` as `name=value`.
fn arguments_of(text: &str) -> Option<Vec<String>> {
    let tokens = lex(&format!(", {text}"));
    let found = arguments(&tokens, 0..tokens.len())?;
    let shown = |argument: &Argument| {
        format!("{}={}", argument.name.as_deref().unwrap_or_default(), show(&tokens, &argument.value))
    };
    Some(found.iter().map(shown).collect())
}

#[test]
fn all_parts_of_a_call_are_found() {
    let tokens = lex("logger: self.log(), category: NET, every: 100, user = id, took:? = t; \"done {}\", x + 1");
    let call = parse(&tokens).unwrap();
    let part = |range: &Option<Range<usize>>| show(&tokens, range.as_ref().unwrap());
    assert_eq!(part(&call.logger), "self . log ()");
    assert_eq!(part(&call.category), "NET");
    assert_eq!(part(&call.every), "100");
    let fields: Vec<_> =
        call.fields.iter().map(|field| (field.name.as_str(), field.how, show(&tokens, &field.value))).collect();
    assert_eq!(fields, [("user", How::AsItIs, "id".to_owned()), ("took", How::Debug, "t".to_owned())]);
    assert_eq!(show(&tokens, &call.message), "\"done {}\" , x + 1");
}

#[test]
fn fields_are_written_as_the_log_crate_writes_them() {
    let text = "a, b:?, c:%, d:debug = 1, e:display = f(2, 3), \"two words\" = x, logger:? = y,; \"\"";
    let tokens = lex(text);
    let fields = parse(&tokens).unwrap().fields;
    let shown: Vec<_> =
        fields.iter().map(|field| (field.name.as_str(), field.how, show(&tokens, &field.value))).collect();
    let expected = [
        ("a", How::AsItIs, "a"),
        ("b", How::Debug, "b"),
        ("c", How::Display, "c"),
        ("d", How::Debug, "1"),
        ("e", How::Display, "f ()"),
        ("two words", How::AsItIs, "x"),
        ("logger", How::Debug, "y"),
    ];
    assert_eq!(shown, expected.map(|(name, how, value)| (name, how, value.to_owned())));
}

#[test]
fn arguments_end_at_the_commas_between_them() {
    let same = [
        ("a, b", vec!["=a", "=b"]),
        ("a, b,", vec!["=a", "=b"]),
        ("x = 1, y = a == b", vec!["x=1", "y=a = = b"]),
        ("a == b", vec!["=a = = b"]),
        ("a < b, c > d", vec!["=a < b", "=c > d"]),
        ("a << b, c >> d, e <= f", vec!["=a < < b", "=c > > d", "=e < = f"]),
        ("f::<A, B>(), g", vec!["=f : : < A , B > ()", "=g"]),
        ("M::<A, V<B, C>>::new(), g", vec!["=M : : < A , V < B , C > > : : new ()", "=g"]),
        ("<A as T<B, C>>::f(), g", vec!["=< A as T < B , C > > : : f ()", "=g"]),
        ("1 + <A>::f(), g", vec!["=1 + < A > : : f ()", "=g"]),
        ("x as M<A, B>, g", vec!["=x as M < A , B >", "=g"]),
        ("x as u8 + y, g < h, i > j", vec!["=x as u8 + y", "=g < h", "=i > j"]),
        ("x as u8 * y < z, i > j", vec!["=x as u8 * y < z", "=i > j"]),
        ("p as *const M<A, B>, g", vec!["=p as * const M < A , B >", "=g"]),
        ("f::<fn(A) -> B, C>(x), g", vec!["=f : : < fn () - > B , C > ()", "=g"]),
        ("a?, b.await", vec!["=a ?", "=b . await"]),
        ("if a < b {1} else {2}, c > d", vec!["=if a < b () else ()", "=c > d"]),
    ];
    for (text, expected) in same {
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(arguments_of(text), Some(expected), "{text}");
    }
    assert_eq!(arguments_of(""), Some(Vec::new()));
}

#[test]
fn what_rustc_refuses_is_left_to_rustc() {
    for text in ["a b::<", "a,,b", "x = 1, y", "x = 1, x = 2", "x ="] {
        assert_eq!(arguments_of(text), None, "{text}");
    }
}

#[test]
fn faults_stand_at_the_token_that_is_wrong() {
    let faults = [
        ("logger: a, logger: b, \"\"", 4, "`logger` is given twice"),
        ("category: , \"\"", 0, "expected a value behind `category:`"),
        ("a = 1, a = 2; \"\"", 4, "two fields are named `a`"),
        ("a: b = 1; \"\"", 1, "expected `a:?`, `a:%`, `a:debug` or `a:display`"),
        ("a = ; \"\"", 1, "expected a value behind `a =`"),
        ("a b; \"\"", 1, "expected a comma, or a semicolon behind the last field"),
        ("\"a\"; \"\"", 0, "expected `\"a\" = value`"),
        ("1 = 2; \"\"", 0, "expected the name of a field: an identifier or a string"),
    ];
    for (text, at, words) in faults {
        assert_eq!(parse(&lex(text)), Err(Fault { at, text: words.to_owned() }), "{text}");
    }
}

#[test]
fn an_enabled_call_takes_a_logger_and_a_category() {
    let category = |text: &str| {
        let tokens = lex(text);
        parse_enabled(&tokens).map(|call| call.category.map(|range| show(&tokens, &range)))
    };
    assert_eq!(category(""), Ok(None));
    assert_eq!(category("NET"), Ok(Some("NET".to_owned())));
    assert_eq!(category("logger: l, net::NET,"), Ok(Some("net : : NET".to_owned())));
    assert_eq!(category("category: NET"), Ok(Some("NET".to_owned())));
    assert!(category("NET, 1").is_err());
    assert!(category("category: NET, OTHER").is_err());
}
