//! Typed arguments of an entry: one tag byte, then the value, so that they can be shown without their definition.

use crate::bytes::{Fields, Out, push_varint, varint_len};

/// One argument as it is stored. Integers keep the width that they were logged with.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// Nothing: `Option::None`, or an argument that was not given.
    None,
    /// A truth value.
    Bool(bool),
    /// A character.
    Char(char),
    /// Signed, 8 bits.
    I8(i8),
    /// Signed, 16 bits.
    I16(i16),
    /// Signed, 32 bits.
    I32(i32),
    /// Signed, 64 bits.
    I64(i64),
    /// Signed, 128 bits.
    I128(i128),
    /// Unsigned, 8 bits.
    U8(u8),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Unsigned, 64 bits.
    U64(u64),
    /// Unsigned, 128 bits.
    U128(u128),
    /// Float, 32 bits, to the bit.
    F32(f32),
    /// Float, 64 bits, to the bit.
    F64(f64),
    /// A string of the program.
    Str(&'a str),
    /// Bytes that need not be text.
    Bytes(&'a [u8]),
    /// An address.
    Pointer(u64),
    /// A length of time: whole seconds and nanoseconds below one second.
    Duration(u64, u32),
    /// A moment, nanoseconds since 1970 UTC.
    Time(i64),
    /// Text that the caller made from a value by its Display or Debug.
    Text(&'a str),
}

/// Tags, in the order of the enum; part of the format.
pub(crate) mod tag {
    pub(crate) const NONE: u8 = 0;
    pub(crate) const FALSE: u8 = 1;
    pub(crate) const TRUE: u8 = 2;
    pub(crate) const CHAR: u8 = 3;
    pub(crate) const I8: u8 = 4;
    pub(crate) const I16: u8 = 5;
    pub(crate) const I32: u8 = 6;
    pub(crate) const I64: u8 = 7;
    pub(crate) const I128: u8 = 8;
    pub(crate) const U8: u8 = 9;
    pub(crate) const U16: u8 = 10;
    pub(crate) const U32: u8 = 11;
    pub(crate) const U64: u8 = 12;
    pub(crate) const U128: u8 = 13;
    pub(crate) const F32: u8 = 14;
    pub(crate) const F64: u8 = 15;
    pub(crate) const STR: u8 = 16;
    pub(crate) const BYTES: u8 = 17;
    pub(crate) const POINTER: u8 = 18;
    pub(crate) const DURATION: u8 = 19;
    pub(crate) const TIME: u8 = 20;
    pub(crate) const TEXT: u8 = 21;
}

impl<'a> Value<'a> {
    /// Appends the stored form: tag, then the value; numbers little-endian, strings with their length as LEB128.
    // Of a known kind, as in a log call, nothing of the match is left once this is inlined; rustc does not by itself.
    #[inline(always)]
    pub fn encode<O: Out + ?Sized>(&self, out: &mut O) {
        match *self {
            Value::None => out.put(&[tag::NONE]),
            Value::Bool(value) => out.put(&[if value { tag::TRUE } else { tag::FALSE }]),
            Value::Char(value) => push_tagged(out, tag::CHAR, &u32::from(value).to_le_bytes()),
            Value::I8(value) => push_tagged(out, tag::I8, &value.to_le_bytes()),
            Value::I16(value) => push_tagged(out, tag::I16, &value.to_le_bytes()),
            Value::I32(value) => push_tagged(out, tag::I32, &value.to_le_bytes()),
            Value::I64(value) => push_tagged(out, tag::I64, &value.to_le_bytes()),
            Value::I128(value) => push_tagged(out, tag::I128, &value.to_le_bytes()),
            Value::U8(value) => push_tagged(out, tag::U8, &value.to_le_bytes()),
            Value::U16(value) => push_tagged(out, tag::U16, &value.to_le_bytes()),
            Value::U32(value) => push_tagged(out, tag::U32, &value.to_le_bytes()),
            Value::U64(value) => push_tagged(out, tag::U64, &value.to_le_bytes()),
            Value::U128(value) => push_tagged(out, tag::U128, &value.to_le_bytes()),
            Value::F32(value) => push_tagged(out, tag::F32, &value.to_bits().to_le_bytes()),
            Value::F64(value) => push_tagged(out, tag::F64, &value.to_bits().to_le_bytes()),
            Value::Str(text) => push_string(out, tag::STR, text.as_bytes()),
            Value::Bytes(bytes) => push_string(out, tag::BYTES, bytes),
            Value::Pointer(address) => push_tagged(out, tag::POINTER, &address.to_le_bytes()),
            Value::Duration(seconds, nanoseconds) => {
                push_tagged(out, tag::DURATION, &seconds.to_le_bytes());
                out.put(&nanoseconds.to_le_bytes());
            }
            Value::Time(ns) => push_tagged(out, tag::TIME, &ns.to_le_bytes()),
            Value::Text(text) => push_string(out, tag::TEXT, text.as_bytes()),
        }
    }

    /// Bytes of the stored form.
    #[inline(always)]
    pub(crate) fn encoded_len(&self) -> usize {
        let content = match *self {
            Value::None | Value::Bool(_) => 0,
            Value::I8(_) | Value::U8(_) => 1,
            Value::I16(_) | Value::U16(_) => 2,
            Value::Char(_) | Value::I32(_) | Value::U32(_) | Value::F32(_) => 4,
            Value::I64(_) | Value::U64(_) | Value::F64(_) | Value::Pointer(_) | Value::Time(_) => 8,
            Value::Duration(..) => 12,
            Value::I128(_) | Value::U128(_) => 16,
            Value::Str(text) | Value::Text(text) => varint_len(text.len() as u64) + text.len(),
            Value::Bytes(bytes) => varint_len(bytes.len() as u64) + bytes.len(),
        };
        1 + content
    }

    /// Reads one value; `None` if the bytes do not hold one.
    pub(crate) fn decode(fields: &mut Fields<'a>) -> Option<Value<'a>> {
        Some(match fields.u8()? {
            tag::NONE => Value::None,
            tag::FALSE => Value::Bool(false),
            tag::TRUE => Value::Bool(true),
            tag::CHAR => Value::Char(char::from_u32(fields.u32()?)?),
            tag::I8 => Value::I8(i8::from_le_bytes(fields.array()?)),
            tag::I16 => Value::I16(i16::from_le_bytes(fields.array()?)),
            tag::I32 => Value::I32(i32::from_le_bytes(fields.array()?)),
            tag::I64 => Value::I64(i64::from_le_bytes(fields.array()?)),
            tag::I128 => Value::I128(i128::from_le_bytes(fields.array()?)),
            tag::U8 => Value::U8(fields.u8()?),
            tag::U16 => Value::U16(fields.u16()?),
            tag::U32 => Value::U32(fields.u32()?),
            tag::U64 => Value::U64(fields.u64()?),
            tag::U128 => Value::U128(u128::from_le_bytes(fields.array()?)),
            tag::F32 => Value::F32(f32::from_bits(fields.u32()?)),
            tag::F64 => Value::F64(f64::from_bits(fields.u64()?)),
            tag::STR => Value::Str(std::str::from_utf8(fields.counted()?).ok()?),
            tag::BYTES => Value::Bytes(fields.counted()?),
            tag::POINTER => Value::Pointer(fields.u64()?),
            tag::DURATION => {
                let seconds = fields.u64()?;
                Value::Duration(seconds, fields.u32().filter(|&ns| ns < 1_000_000_000)?)
            }
            tag::TIME => Value::Time(fields.i64()?),
            tag::TEXT => Value::Text(std::str::from_utf8(fields.counted()?).ok()?),
            _ => return None,
        })
    }
}

#[inline]
fn push_tagged<O: Out + ?Sized, const N: usize>(out: &mut O, tag: u8, bytes: &[u8; N]) {
    // At once: where room is looked for, that is done once.
    let mut tagged = [0u8; 17];
    tagged[0] = tag;
    tagged[1..=N].copy_from_slice(bytes);
    out.put(&tagged[..=N]);
}

#[inline]
fn push_string<O: Out + ?Sized>(out: &mut O, tag: u8, bytes: &[u8]) {
    if bytes.len() < 0x80 {
        out.put(&[tag, bytes.len() as u8]);
    } else {
        out.put(&[tag]);
        push_varint(out, bytes.len() as u64);
    }
    out.put(bytes);
}

/// The arguments of one entry, decoded as they are asked for. Ends early where the bytes are not values.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    fields: Fields<'a>,
}

impl<'a> Values<'a> {
    /// The values stored in `bytes`, one after another.
    pub fn new(bytes: &'a [u8]) -> Values<'a> {
        Values { fields: Fields::new(bytes) }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        if self.fields.is_empty() {
            return None;
        }
        let value = Value::decode(&mut self.fields);
        if value.is_none() {
            self.fields = Fields::new(&[]);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_comes_back_to_the_bit() {
        let values = [
            Value::None,
            Value::Bool(true),
            Value::Bool(false),
            Value::Char('\u{1f980}'),
            Value::I8(-1),
            Value::I16(i16::MIN),
            Value::I32(-7),
            Value::I64(i64::MIN),
            Value::I128(i128::MIN),
            Value::U8(255),
            Value::U16(65535),
            Value::U32(u32::MAX),
            Value::U64(u64::MAX),
            Value::U128(u128::MAX),
            Value::F32(-0.0),
            Value::F64(f64::INFINITY),
            Value::Str(""),
            Value::Str("gr\u{fc}n"),
            Value::Bytes(&[0, 255]),
            Value::Pointer(0xdead_beef),
            Value::Duration(u64::MAX, 999_999_999),
            Value::Time(-1),
            Value::Text("by the caller"),
        ];
        let mut out = Vec::new();
        for value in &values {
            let start = out.len();
            value.encode(&mut out);
            assert_eq!(value.encoded_len(), out.len() - start, "{value:?}");
        }
        let back: Vec<Value<'_>> = Values::new(&out).collect();
        assert_eq!(back, values);
    }

    #[test]
    fn the_payload_of_a_nan_survives() {
        let bits = 0x7ff8_dead_beef_0001u64;
        let mut out = Vec::new();
        Value::F64(f64::from_bits(bits)).encode(&mut out);
        assert!(matches!(Values::new(&out).next(), Some(Value::F64(value)) if value.to_bits() == bits));
    }

    #[test]
    fn nonsense_ends_the_values_without_a_panic() {
        assert_eq!(Values::new(&[99, 1, 2]).count(), 0);
        assert_eq!(Values::new(&[tag::STR, 200, 1, b'x']).count(), 0);
        assert_eq!(Values::new(&[tag::STR, 1, 0xff]).count(), 0);
        assert_eq!(Values::new(&[tag::CHAR, 0, 0xd8, 0, 0]).count(), 0);
    }
}
