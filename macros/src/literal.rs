//! String literals as they stand in the source, read as rustc reads them.

/// The text of a string literal, plain or raw; `None` for any other literal.
pub(crate) fn text_of(source: &str) -> Option<String> {
    if let Some(raw) = source.strip_prefix('r') {
        let inside = raw.trim_matches('#');
        let text = inside.strip_prefix('"')?.strip_suffix('"')?;
        return Some(normal_newlines(text));
    }
    let inside = source.strip_prefix('"')?.strip_suffix('"')?;
    unescape(&normal_newlines(inside))
}

/// In a source file, CR LF within a literal is LF.
fn normal_newlines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        let escaped = chars.next()?;
        rest = chars.as_str();
        match escaped {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            '0' => out.push('\0'),
            '\\' | '"' | '\'' => out.push(escaped),
            // The line goes on at its next word.
            '\n' => rest = rest.trim_start_matches([' ', '\t', '\n', '\r']),
            'x' => {
                out.push(char::from(u8::from_str_radix(rest.get(..2)?, 16).ok()?));
                rest = &rest[2..];
            }
            'u' => {
                let (digits, behind) = rest.strip_prefix('{')?.split_once('}')?;
                out.push(char::from_u32(u32::from_str_radix(&digits.replace('_', ""), 16).ok()?)?);
                rest = behind;
            }
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds what is read from the source of a literal against what rustc makes of it.
    macro_rules! assert_as_rustc {
        ($($literal:literal),* $(,)?) => {
            $( assert_eq!(text_of(stringify!($literal)).as_deref(), Some($literal), "{}", stringify!($literal)); )*
        };
    }

    #[test]
    fn literals_are_read_as_rustc_reads_them() {
        assert_as_rustc!(
            "",
            "plain {id}",
            "quote \" backslash \\ brace {{}}",
            "\n\r\t\0\'",
            "\x41\x7f",
            "\u{fc}\u{1f_980}",
            "grün",
            "one \
             two",
            r"raw \n {}",
            r#"raw "quoted" {}"#,
            r##"a "# b"##,
            "two
lines",
        );
    }

    #[test]
    fn other_literals_are_no_text() {
        for source in ["1", "1.5", "'c'", "b\"bytes\"", "c\"text\"", "br\"x\"", "true"] {
            assert_eq!(text_of(source), None, "{source}");
        }
    }
}
