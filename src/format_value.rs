//! One argument as text, byte for byte what `format!` would have made of it in the caller.
//!
//! The flags `+ # 0`, the precision and the zero-filled width go to the standard library; fill and alignment are done here,
//! since a fill cannot be given at run time.

use std::fmt::Write as _;
use std::time::Duration;

use crate::clock::{NS_PER_SECOND, UtcTime};
use crate::template::{Align, Kind, Spec};
use crate::value::Value;

/// Writes `$value` by the trait whose letter is `$kind`, with the flags of `$spec`. The width goes in only where it is to be
/// filled with zeros.
macro_rules! write_with {
    ($out:expr, $spec:expr, $width:expr, $precision:expr, $value:expr, $kind:literal) => {{
        let (out, spec, value) = ($out, $spec, $value);
        let width: usize = $width;
        // Writing to a String cannot fail.
        let _ = match (spec.plus, spec.alternate, spec.zero, $precision) {
            (false, false, false, None) => write!(out, concat!("{:", $kind, "}"), value),
            (true, false, false, None) => write!(out, concat!("{:+", $kind, "}"), value),
            (false, true, false, None) => write!(out, concat!("{:#", $kind, "}"), value),
            (true, true, false, None) => write!(out, concat!("{:+#", $kind, "}"), value),
            (false, false, true, None) => write!(out, concat!("{:0w$", $kind, "}"), value, w = width),
            (true, false, true, None) => write!(out, concat!("{:+0w$", $kind, "}"), value, w = width),
            (false, true, true, None) => write!(out, concat!("{:#0w$", $kind, "}"), value, w = width),
            (true, true, true, None) => write!(out, concat!("{:+#0w$", $kind, "}"), value, w = width),
            (false, false, false, Some(p)) => write!(out, concat!("{:.p$", $kind, "}"), value, p = p),
            (true, false, false, Some(p)) => write!(out, concat!("{:+.p$", $kind, "}"), value, p = p),
            (false, true, false, Some(p)) => write!(out, concat!("{:#.p$", $kind, "}"), value, p = p),
            (true, true, false, Some(p)) => write!(out, concat!("{:+#.p$", $kind, "}"), value, p = p),
            (false, false, true, Some(p)) => write!(out, concat!("{:0w$.p$", $kind, "}"), value, w = width, p = p),
            (true, false, true, Some(p)) => write!(out, concat!("{:+0w$.p$", $kind, "}"), value, w = width, p = p),
            (false, true, true, Some(p)) => write!(out, concat!("{:#0w$.p$", $kind, "}"), value, w = width, p = p),
            (true, true, true, Some(p)) => write!(out, concat!("{:+#0w$.p$", $kind, "}"), value, w = width, p = p),
        };
    }};
}

/// Writes an integer: `$value` for the forms that show its sign, `$bits` (unsigned, same width) for the others.
macro_rules! write_integer {
    ($out:expr, $spec:expr, $width:expr, $precision:expr, $value:expr, $bits:expr) => {
        match $spec.kind {
            Kind::LowerHex | Kind::DebugLowerHex => write_with!($out, $spec, $width, None::<usize>, $bits, "x"),
            Kind::UpperHex | Kind::DebugUpperHex => write_with!($out, $spec, $width, None::<usize>, $bits, "X"),
            Kind::Octal => write_with!($out, $spec, $width, None::<usize>, $bits, "o"),
            Kind::Binary => write_with!($out, $spec, $width, None::<usize>, $bits, "b"),
            Kind::LowerExp => write_with!($out, $spec, $width, $precision, $value, "e"),
            Kind::UpperExp => write_with!($out, $spec, $width, $precision, $value, "E"),
            Kind::Display | Kind::Debug | Kind::Pointer => {
                write_with!($out, $spec, $width, None::<usize>, $value, "")
            }
        }
    };
}

macro_rules! write_float {
    ($out:expr, $spec:expr, $width:expr, $precision:expr, $value:expr) => {
        match $spec.kind {
            Kind::LowerExp => write_with!($out, $spec, $width, $precision, $value, "e"),
            Kind::UpperExp => write_with!($out, $spec, $width, $precision, $value, "E"),
            Kind::Debug | Kind::DebugLowerHex | Kind::DebugUpperHex => {
                write_with!($out, $spec, $width, $precision, $value, "?")
            }
            _ => write_with!($out, $spec, $width, $precision, $value, ""),
        }
    };
}

/// Appends `value` as `spec` says, with its width and precision. A form that the value does not have (`{:x}` of a string)
/// is shown as `{}`.
pub(crate) fn push_value(out: &mut String, value: &Value<'_>, spec: &Spec, width: usize, precision: Option<usize>) {
    let start = out.len();
    let mut default_align = Align::Right;
    let is_debug = matches!(spec.kind, Kind::Debug | Kind::DebugLowerHex | Kind::DebugUpperHex);
    let mut width = width;
    match *value {
        Value::I8(value) => write_integer!(&mut *out, spec, width, precision, i64::from(value), value as u8),
        Value::I16(value) => write_integer!(&mut *out, spec, width, precision, i64::from(value), value as u16),
        Value::I32(value) => write_integer!(&mut *out, spec, width, precision, i64::from(value), value as u32),
        Value::I64(value) => write_integer!(&mut *out, spec, width, precision, value, value as u64),
        Value::I128(value) => write_integer!(&mut *out, spec, width, precision, value, value as u128),
        Value::U8(value) => write_integer!(&mut *out, spec, width, precision, u64::from(value), u64::from(value)),
        Value::U16(value) => write_integer!(&mut *out, spec, width, precision, u64::from(value), u64::from(value)),
        Value::U32(value) => write_integer!(&mut *out, spec, width, precision, u64::from(value), u64::from(value)),
        Value::U64(value) => write_integer!(&mut *out, spec, width, precision, value, value),
        Value::U128(value) => write_integer!(&mut *out, spec, width, precision, value, value),
        Value::F32(value) => write_float!(&mut *out, spec, width, precision, value),
        Value::F64(value) => write_float!(&mut *out, spec, width, precision, value),
        Value::Pointer(address) => push_pointer(out, address, spec, width),
        _ => {
            default_align = Align::Left;
            if push_other(out, value, spec, width, precision, is_debug) {
                // Its Debug takes no width.
                width = 0;
            }
        }
    }
    if width > 0 {
        pad(out, start, width, spec.fill, spec.align.unwrap_or(default_align));
    }
}

/// As the pointer type of the standard library does: `{:#p}` shows all digits.
fn push_pointer(out: &mut String, address: u64, spec: &Spec, width: usize) {
    let all_digits = 2 + u64::BITS as usize / 4;
    let width = if spec.alternate && width == 0 { all_digits } else { width };
    let spec = Spec { alternate: true, zero: spec.zero || spec.alternate, ..*spec };
    write_with!(out, &spec, width, None::<usize>, address, "x");
}

/// Whatever is no number. Returns whether it takes no width.
fn push_other(
    out: &mut String,
    value: &Value<'_>,
    spec: &Spec,
    width: usize,
    precision: Option<usize>,
    is_debug: bool,
) -> bool {
    match *value {
        Value::None => push_cut(out, "None", precision.filter(|_| !is_debug)),
        Value::Bool(value) => {
            push_cut(out, if value { "true" } else { "false" }, precision);
            return false;
        }
        Value::Char(value) if is_debug => write_with!(out, &Spec::PLAIN, 0, None::<usize>, value, "?"),
        Value::Char(value) => push_cut(out, value.encode_utf8(&mut [0; 4]), precision),
        Value::Str(value) if is_debug => write_with!(out, &Spec::PLAIN, 0, None::<usize>, value, "?"),
        Value::Str(value) => push_cut(out, value, precision),
        Value::Text(value) => {
            // Whoever made it has done what the spec says.
            out.push_str(value);
            return true;
        }
        Value::Bytes(bytes) if is_debug => push_list(out, bytes, spec, width, precision),
        Value::Bytes(bytes) => push_bytes(out, bytes, spec.kind, precision),
        Value::Duration(seconds, nanoseconds) => {
            let duration = Duration::new(seconds, nanoseconds);
            let spec = Spec { zero: false, alternate: false, ..*spec };
            write_with!(out, &spec, 0, precision, duration, "?");
            return false;
        }
        Value::Time(ns) => push_cut(out, &time_text(ns), precision),
        _ => {}
    }
    is_debug
}

/// RFC 3339 in UTC with all nine digits: `2026-11-30T12:00:00.123456789Z`.
pub(crate) fn time_text(ns: i64) -> String {
    let mut text = UtcTime::from_ns(ns).rfc3339();
    text.pop();
    let _ = write!(text, "{:03}Z", ns.rem_euclid(NS_PER_SECOND) % 1000);
    text
}

/// At most `precision` characters of `text`.
fn push_cut(out: &mut String, text: &str, precision: Option<usize>) {
    let end = precision.and_then(|max| text.char_indices().nth(max)).map_or(text.len(), |(at, _)| at);
    out.push_str(&text[..end]);
}

/// Bytes as text: what is not printable ASCII as `\x00`; in hex digits where that was asked for.
fn push_bytes(out: &mut String, bytes: &[u8], kind: Kind, precision: Option<usize>) {
    let hex = |out: &mut String, upper: bool| {
        for byte in bytes {
            let _ = if upper { write!(out, "{byte:02X}") } else { write!(out, "{byte:02x}") };
        }
    };
    match kind {
        Kind::LowerHex => hex(out, false),
        Kind::UpperHex => hex(out, true),
        _ => push_cut(out, &bytes.escape_ascii().to_string(), precision),
    }
}

/// Bytes as a list, as the Debug of a slice.
fn push_list(out: &mut String, bytes: &[u8], spec: &Spec, width: usize, precision: Option<usize>) {
    out.push('[');
    for (at, &byte) in bytes.iter().enumerate() {
        out.push_str(match (spec.alternate, at) {
            (true, 0) => "\n    ",
            (true, _) => ",\n    ",
            (false, 0) => "",
            (false, _) => ", ",
        });
        push_value(out, &Value::U8(byte), spec, width, precision);
    }
    out.push_str(if spec.alternate && !bytes.is_empty() { ",\n]" } else { "]" });
}

/// Fills what stands from `start` on up to `width` characters.
fn pad(out: &mut String, start: usize, width: usize, fill: char, align: Align) {
    let missing = width.saturating_sub(out[start..].chars().count());
    if missing == 0 {
        return;
    }
    let before = match align {
        Align::Left => 0,
        Align::Center => missing / 2,
        Align::Right => missing,
    };
    if before > 0 {
        let fill: String = std::iter::repeat_n(fill, before).collect();
        out.insert_str(start, &fill);
    }
    out.extend(std::iter::repeat_n(fill, missing - before));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{Count, Piece, Template};

    /// What the template makes of the values; the last one or two may be width and precision.
    fn shown(template: &str, values: &[Value<'_>]) -> String {
        let template = Template::parse(template, &[]).unwrap_or_else(|| panic!("{template:?} does not parse"));
        let count = |count: Count| match count {
            Count::None => None,
            Count::Is(number) => Some(number),
            Count::Argument(index) => match values[index] {
                Value::U64(number) => usize::try_from(number).ok(),
                _ => None,
            },
        };
        let mut out = String::new();
        for piece in &template.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Argument { index, spec, .. } => {
                    let value = &values[index.unwrap()];
                    push_value(&mut out, value, spec, count(spec.width).unwrap_or(0), count(spec.precision));
                }
            }
        }
        out
    }

    /// Holds what we show against `format!`, for each spec and each value.
    macro_rules! assert_as_format {
        ($values:expr, $stored:expr, [$($spec:literal),* $(,)?]) => {
            for value in $values {
                let stored = $stored(value);
                $(
                    let expected = format!($spec, value);
                    assert_eq!(shown($spec, &[stored]), expected, "{} of {:?}", $spec, stored);
                )*
            }
        };
    }

    macro_rules! assert_integers {
        ($values:expr, $stored:expr) => {
            assert_as_format!(
                $values,
                $stored,
                [
                    "{}",
                    "{:?}",
                    "{:#?}",
                    "{:+}",
                    "{:5}",
                    "{:<5}|",
                    "{:^6}|",
                    "{:>6}",
                    "{:*^9}",
                    "{:é>7}",
                    "{:05}",
                    "{:+07}",
                    "{:<05}|",
                    "{:*<06}",
                    "{:x}",
                    "{:X}",
                    "{:#x}",
                    "{:#010x}",
                    "{:#X}",
                    "{:08b}",
                    "{:#b}",
                    "{:o}",
                    "{:#o}",
                    "{:e}",
                    "{:E}",
                    "{:.2e}",
                    "{:+.0e}",
                    "{:12.3e}|",
                    "{:012.3E}",
                    "{:x?}",
                    "{:#X?}",
                    "{:.3}",
                    "{:+x}",
                    "{:#06x?}",
                    "{:-}",
                    "a{{{:3}}}b",
                ]
            );
        };
    }

    macro_rules! assert_floats {
        ($values:expr, $stored:expr) => {
            assert_as_format!(
                $values,
                $stored,
                [
                    "{}",
                    "{:?}",
                    "{:#?}",
                    "{:+}",
                    "{:.0}",
                    "{:.3}",
                    "{:10.2}",
                    "{:<10.2}|",
                    "{:^11}|",
                    "{:*>12.1}",
                    "{:010.3}",
                    "{:+010.1}",
                    "{:<010}",
                    "{:e}",
                    "{:E}",
                    "{:.3e}",
                    "{:+12.1E}",
                    "{:015e}",
                    "{:.1?}",
                    "{:+?}",
                    "{:012?}",
                    "{:x?}",
                    "{:_^20?}",
                ]
            );
        };
    }

    #[test]
    fn integers_are_shown_as_format_shows_them() {
        assert_integers!([i8::MIN, -1, 0, 1, 42, i8::MAX], Value::I8);
        assert_integers!([i16::MIN, -1, 0, 7, i16::MAX], Value::I16);
        assert_integers!([i32::MIN, -1, 0, 1000, i32::MAX], Value::I32);
        assert_integers!([i64::MIN, -1, 0, 123_456, i64::MAX], Value::I64);
        assert_integers!([i128::MIN, -1, 0, 5, i128::MAX], Value::I128);
        assert_integers!([0, 9, u8::MAX], Value::U8);
        assert_integers!([0, 10, u16::MAX], Value::U16);
        assert_integers!([0, 99, u32::MAX], Value::U32);
        assert_integers!([0, 12_345, u64::MAX], Value::U64);
        assert_integers!([0, 1, u128::MAX], Value::U128);
    }

    #[test]
    fn floats_are_shown_as_format_shows_them() {
        let doubles = [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, 1e-300, f64::MAX, f64::MIN_POSITIVE, 123_456.789, 1e16];
        assert_floats!(doubles.into_iter().chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), Value::F64);
        let singles = [0.0, -0.0, 0.1, 3.4e38, -2.5, 16_777_216.0, f32::NAN, f32::INFINITY];
        assert_floats!(singles, Value::F32);
    }

    #[test]
    fn text_characters_and_truth_are_shown_as_format_shows_them() {
        assert_as_format!(
            ["", "a", "gr\u{fc}n \"q\"\n", "\u{1f980}\u{301}", "longer than ten"],
            Value::Str,
            [
                "{}", "{:?}", "{:#?}", "{:10}|", "{:>10}", "{:^10}|", "{:*^10}", "{:.3}", "{:8.2}|", "{:.0}", "{:05}|",
                "{:10?}|", "{:x?}", "{:+}",
            ]
        );
        assert_as_format!(
            ['a', '\n', '\'', '\u{202e}'],
            Value::Char,
            ["{}", "{:?}", "{:3}|", "{:>3}", "{:*^5}", "{:.0}", "{:5?}|"]
        );
        assert_as_format!([true, false], Value::Bool, ["{}", "{:?}", "{:7}|", "{:>7}", "{:.2}", "{:7?}|", "{:-^9}"]);
    }

    #[test]
    fn lengths_of_time_lists_of_bytes_and_pointers_are_shown_as_their_debug() {
        let lengths = [(0, 0), (0, 1), (0, 1_500), (1, 500_000_000), (u64::MAX, 999_999_999)];
        let lengths = lengths.map(|(seconds, nanoseconds)| Duration::new(seconds, nanoseconds));
        let stored = |value: Duration| Value::Duration(value.as_secs(), value.subsec_nanos());
        assert_as_format!(
            lengths,
            stored,
            ["{:?}", "{:.1?}", "{:.0?}", "{:12?}|", "{:>12.2?}", "{:*^14?}", "{:+?}", "{:010?}|"]
        );
        assert_as_format!(
            [&b""[..], b"\x00", b"ab\xff"],
            Value::Bytes,
            ["{:?}", "{:x?}", "{:02X?}", "{:#?}", "{:#04x?}", "{:4?}"]
        );
        let address = 0xdead_beef_usize as *const u8;
        let stored = Value::Pointer(0xdead_beef);
        let shown = |template: &str| shown(template, &[stored]);
        assert_eq!(shown("{:p}"), format!("{address:p}"));
        assert_eq!(shown("{:#p}"), format!("{address:#p}"));
        assert_eq!(shown("{:?}"), format!("{address:?}"));
        assert_eq!(shown("{:20p}|"), format!("{address:20p}|"));
        assert_eq!(shown("{:020p}"), format!("{address:020p}"));
        assert_eq!(shown("{:#20p}"), format!("{address:#20p}"));
    }

    #[test]
    fn width_and_precision_may_be_arguments() {
        let values = [Value::F64(1.23456), Value::U64(10), Value::U64(2)];
        assert_eq!(shown("{0:1$.2$}", &values), format!("{0:1$.2$}", 1.23456, 10, 2));
        assert_eq!(shown("{0:>01$}", &values), format!("{0:>01$}", 1.23456, 10));
        let values = [Value::U64(2), Value::F64(1.23456)];
        assert_eq!(shown("{:.*}", &values), format!("{:.*}", 2, 1.23456));
    }

    #[test]
    fn what_format_has_no_form_for_is_still_shown() {
        assert_eq!(shown("{} {:?} {:6}|", &[Value::None, Value::None, Value::None]), "None None None  |");
        assert_eq!(shown("{:x}", &[Value::Str("text")]), "text");
        assert_eq!(shown("{} {:x}", &[Value::Bytes(b"a\n\xff"), Value::Bytes(b"\x01\xff")]), "a\\n\\xff 01ff");
        assert_eq!(shown("{}", &[Value::Time(1_796_040_000_123_456_789)]), "2026-11-30T12:00:00.123456789Z");
        assert_eq!(shown("{:>9.2}", &[Value::Text("as it is")]), "as it is");
        assert_eq!(shown("{}", &[Value::Duration(1, 5)]), "1.000000005s");
    }
}
