//! Little-endian fields and LEB128 integers, read from untrusted bytes without a panic.

/// Reads fields one after another; `None` as soon as the bytes do not suffice.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes }
    }

    /// What has not been read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// An unsigned LEB128 integer of at most 64 bits.
    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        // Most are lengths of less than 16 KiB.
        match *self.rest {
            [byte, ref rest @ ..] if byte < 0x80 => {
                self.rest = rest;
                Some(u64::from(byte))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.rest = rest;
                Some(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Some(value);
            }
        }
        None
    }

    /// Bytes with their length before them as LEB128.
    #[inline]
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }
}

/// Where encoded bytes go, one behind another.
pub trait Out {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Out for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A place of fixed length to encode into. What does not fit is left out.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    rest: &'a mut [u8],
    is_short: bool,
}

impl<'a> Place<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a mut [u8]) -> Place<'a> {
        Place { rest: bytes, is_short: false }
    }

    /// Whether all that was appended has filled it to its end.
    #[inline]
    pub(crate) fn is_filled(&self) -> bool {
        !self.is_short && self.rest.is_empty()
    }
}

impl Out for Place<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match std::mem::take(&mut self.rest).split_at_mut_checked(bytes.len()) {
            Some((place, rest)) => {
                place.copy_from_slice(bytes);
                self.rest = rest;
            }
            None => self.is_short = true,
        }
    }
}

/// Bytes of an unsigned LEB128 integer.
#[inline]
pub(crate) fn varint_len(value: u64) -> usize {
    if value < 0x80 {
        return 1;
    }
    let bits = u64::BITS - value.leading_zeros();
    bits.div_ceil(7) as usize
}

/// Appends an unsigned LEB128 integer.
#[inline]
pub(crate) fn push_varint<O: Out + ?Sized>(out: &mut O, mut value: u64) {
    while value >= 0x80 {
        out.put(&[value as u8 | 0x80]);
        value >>= 7;
    }
    out.put(&[value as u8]);
}

/// Appends bytes with their length before them as LEB128.
#[inline]
pub(crate) fn push_counted<O: Out + ?Sized>(out: &mut O, bytes: &[u8]) {
    push_varint(out, bytes.len() as u64);
    out.put(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            push_varint(&mut out, value);
            let mut fields = Fields::new(&out);
            assert_eq!(fields.varint(), Some(value));
            assert!(fields.is_empty());
            assert_eq!(varint_len(value), out.len());
        }
    }

    #[test]
    fn a_place_is_filled_by_what_fits_exactly() {
        let mut bytes = [0; 3];
        let mut place = Place::new(&mut bytes);
        place.put(b"ab");
        assert!(!place.is_filled());
        place.put(b"c");
        assert!(place.is_filled());
        place.put(b"d");
        assert!(!place.is_filled());
        assert_eq!(&bytes, b"abc");
    }

    #[test]
    fn overlong_and_cut_varints_are_refused() {
        assert_eq!(Fields::new(&[0xff; 11]).varint(), None);
        assert_eq!(Fields::new(&[0x80]).varint(), None);
        assert_eq!(Fields::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).varint(), None);
    }

    #[test]
    fn a_length_past_the_end_is_refused() {
        assert_eq!(Fields::new(&[5, 1, 2]).counted(), None);
    }
}
