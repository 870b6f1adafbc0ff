//! Sizes in bytes: how they are read from the command line and how they are shown to people.

use std::fmt;
use std::str::FromStr;

use crate::decimal;

const UNITS: &str = "use bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB (powers of 1024) \
                     or KB, MB, GB, TB (powers of 1000)";

/// A number of bytes given as `4096`, `64k`, `256MiB` or `1.5GB`.
///
/// `K`, `Ki` and `KiB` are 1024 bytes, `KB` is 1000; likewise for M, G, T. Upper and lower case are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = decimal::split(text);
        let unit_bytes = unit_bytes(unit.trim()).ok_or_else(|| match unit.trim().as_bytes() {
            [b'-', ..] if number.is_empty() => "a size cannot be negative".to_string(),
            _ => format!("`{unit}` is no unit of size: {UNITS}"),
        })?;
        if unit_bytes == 1 && number.contains('.') {
            return Err("there is no fraction of a byte".to_string());
        }
        let bytes = decimal::scaled(number, unit_bytes).ok_or_else(|| format!("no number: {UNITS}"))?;
        let bytes = u64::try_from(bytes).map_err(|_| "larger than 2^64 bytes".to_string())?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&human_bytes(self.0))
    }
}

/// The bytes of one unit, `None` for a word that is no unit.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (power, rest) = match unit.as_bytes() {
        [] | [b'b'] => return Some(1),
        [b'k', rest @ ..] => (1, rest),
        [b'm', rest @ ..] => (2, rest),
        [b'g', rest @ ..] => (3, rest),
        [b't', rest @ ..] => (4, rest),
        _ => return None,
    };
    match rest {
        b"" | b"i" | b"ib" => Some(1024_u64.pow(power)),
        b"b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// How much room retention leaves on the file system: bytes, or a share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeSpace {
    /// At least so many bytes.
    Bytes(u64),
    /// At least this part of the file system, in percent, 1 to 99.
    Percent(u8),
}

impl FromStr for FreeSpace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(number) = text.strip_suffix('%') else {
            return Ok(Self::Bytes(text.parse::<ByteSize>()?.0));
        };
        match number.trim().parse::<u8>() {
            Ok(percent) if (1..100).contains(&percent) => Ok(Self::Percent(percent)),
            _ => Err("a share is a whole number from 1% to 99%".to_string()),
        }
    }
}

/// Bytes for people: `17 B`, `6.1 GiB`; always units of 1024.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const NAMES: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths of the unit, rounded; what would show as 1024.0 moves on to the next unit.
    let mut unit = 1024_u128;
    let mut name = 0;
    let tenths = |unit: u128| (u128::from(bytes) * 10 + unit / 2) / unit;
    while tenths(unit) >= 10240 && name + 1 < NAMES.len() {
        unit *= 1024;
        name += 1;
    }
    let tenths = tenths(unit);
    format!("{}.{} {}", tenths / 10, tenths % 10, NAMES[name])
}

/// A count with thousands separators: `8,412,906`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<u64, String> {
        text.parse::<ByteSize>().map(|size| size.0)
    }

    #[test]
    fn k_and_kib_are_1024_and_kb_is_1000() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("17B"), Ok(17));
        assert_eq!(bytes("64k"), Ok(64 << 10));
        assert_eq!(bytes("64Ki"), Ok(64 << 10));
        assert_eq!(bytes("256MiB"), Ok(256 << 20));
        assert_eq!(bytes("256 mib"), Ok(256 << 20));
        assert_eq!(bytes("2T"), Ok(2 << 40));
        assert_eq!(bytes("3kB"), Ok(3000));
        assert_eq!(bytes("1.5GB"), Ok(1_500_000_000));
        assert_eq!(bytes("0.5G"), Ok(1 << 29));
        assert_eq!(bytes("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn what_is_no_size_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no number"),
            ("MiB", "no number"),
            (".5G", "no number"),
            ("5.G", "no number"),
            ("1.2.3G", "no number"),
            ("-5", "negative"),
            ("5X", "`X` is no unit"),
            ("5Kibi", "`Kibi` is no unit"),
            ("1e9", "`e9` is no unit"),
            ("0.5", "fraction of a byte"),
            ("18446744073709551616", "2^64"),
            ("16777216T", "2^64"),
        ] {
            let error = bytes(text).unwrap_err();
            assert!(error.contains(reason), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn free_space_is_a_size_or_a_share() {
        assert_eq!("5G".parse(), Ok(FreeSpace::Bytes(5 << 30)));
        assert_eq!("10%".parse(), Ok(FreeSpace::Percent(10)));
        for text in ["0%", "100%", "2.5%", "-1%", "%", "NaN%", "5G%"] {
            assert!(text.parse::<FreeSpace>().is_err(), "{text:?} passed");
        }
    }

    #[test]
    fn human_sizes_have_one_digit_behind_the_point() {
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1024), "1.0 KiB");
        assert_eq!(human_bytes(1_048_575), "1.0 MiB");
        assert_eq!(human_bytes(6_549_825_126), "6.1 GiB");
        assert_eq!(human_bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(8_412_906), "8,412,906");
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }
}
