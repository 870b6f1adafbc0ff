//! Makes bytes safe to show: what could move the cursor, colour the screen, reorder text or hide is written as an escape.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text that a terminal shows as it stands. Escaped are, but for the tab, control characters (C0, DEL, C1), marks that
/// change the direction of text or are invisible (U+061C, U+200E, U+200F, U+2028, U+2029, U+202A..U+202E,
/// U+2066..U+2069) and bytes that are no UTF-8: `\n` and `\r` so, others as `\x1b` (a byte) or `\u{202e}` (a character).
///
/// A backslash stays as it is: this is for eyes, not for reading back.
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(is_unsafe)
    {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_escaped(&mut safe, c);
        }
        for byte in chunk.invalid() {
            push_byte(&mut safe, *byte);
        }
    }
    Cow::Owned(safe)
}

/// True for characters that must not reach a terminal.
pub fn is_unsafe(c: char) -> bool {
    match c {
        '\t' => false,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => true,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => false,
    }
}

fn push_escaped(safe: &mut String, c: char) {
    match c {
        '\n' => safe.push_str("\\n"),
        '\r' => safe.push_str("\\r"),
        '\0'..='\x7f' if is_unsafe(c) => push_byte(safe, c as u8),
        _ if is_unsafe(c) => {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        }
        _ => safe.push(c),
    }
}

fn push_byte(safe: &mut String, byte: u8) {
    let _ = write!(safe, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_text_is_borrowed() {
        for text in ["", "plain", "tab\tstays", "Grüße, 日本語 👩\u{200d}👧", "back\\slash"] {
            assert!(matches!(escape(text.as_bytes()), Cow::Borrowed(shown) if shown == text));
        }
    }

    #[test]
    fn control_characters_and_direction_marks_are_escaped() {
        for (bytes, shown) in [
            (&b"\x1b[31mred"[..], "\\x1b[31mred"),
            (b"a\r\nb", "a\\r\\nb"),
            (b"nul\0del\x7f", "nul\\x00del\\x7f"),
            ("c1 \u{9b}31m".as_bytes(), "c1 \\u{9b}31m"),
            ("\u{61c}\u{200e}\u{200f}".as_bytes(), "\\u{61c}\\u{200e}\\u{200f}"),
            ("\u{202a}\u{202e}".as_bytes(), "\\u{202a}\\u{202e}"),
            ("\u{2066}\u{2069}".as_bytes(), "\\u{2066}\\u{2069}"),
            ("\u{2028}".as_bytes(), "\\u{2028}"),
        ] {
            assert_eq!(escape(bytes), shown);
        }
    }

    #[test]
    fn invalid_utf8_is_shown_byte_by_byte() {
        assert_eq!(escape(b"a\xff\xfeb"), "a\\xff\\xfeb");
        assert_eq!(escape(b"\x9b31m"), "\\x9b31m");
        assert_eq!(escape(b"cut \xe2\x82"), "cut \\xe2\\x82");
    }

    #[test]
    fn no_escaped_text_holds_an_unsafe_character() {
        for first in 0..=255_u8 {
            for second in [0, b'\n', b'a', 0x80, 0x9b, 0xc2, 0xe2, 0xff] {
                let bytes = [first, second, first];
                let shown = escape(&bytes);
                assert!(!shown.chars().any(is_unsafe), "{bytes:?} gave {shown:?}");
            }
        }
    }
}
