//! Decimal numbers with a unit behind them, scaled exactly: shared by sizes and lengths of time.

/// Splits `1.5GB` into the number and what follows it.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let number_len = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(number_len)
}

/// `number` (digits, perhaps with a fraction) times `unit`, rounded down. `None` if it is no number; a product past
/// `u128` is `u128::MAX`.
pub(crate) fn scaled(number: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (number, ""),
    };
    let all_digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let mut scale = 1_u128;
    let mut part = 0_u128;
    // Eighteen digits are finer than the smallest part of any unit here.
    for digit in fraction.bytes().take(18) {
        part = part * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    let unit = u128::from(unit);
    let whole: u128 = whole.parse().unwrap_or(u128::MAX);
    Some(whole.saturating_mul(unit).saturating_add(part * unit / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_exactly_and_rounded_down() {
        assert_eq!(scaled("12", 1024), Some(12 * 1024));
        assert_eq!(scaled("1.5", 1_000_000_000), Some(1_500_000_000));
        assert_eq!(scaled("0.1", 1024), Some(102));
        assert_eq!(scaled("0.99999999999999999999", 1000), Some(999));
        assert_eq!(scaled(&"9".repeat(50), 1024), Some(u128::MAX));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", ".", ".5", "5.", "1.2.3", "-1", "1e3", "a"] {
            assert_eq!(scaled(text, 10), None, "{text:?}");
        }
    }
}
