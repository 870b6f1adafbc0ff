//! What an argument of a log call is stored as: its value, where the reader can show that as `format!` would; otherwise text.
//!
//! Which of the two is found at compile time by autoref specialisation: `(&&&Plain(&x)).show()` takes the first of the traits
//! in [`keep`] that fits, since each stands one reference lower than the one before.
//!
//! Source: David Tolnay, "Autoref-based stable specialization".

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bytes::{Out, push_varint};
use crate::value::{Value, tag};

pub mod keep;

/// Stands behind what a Display or Debug had written before it returned an error. `format!` would panic.
const FAILED: &str = "<its Display or Debug failed>";

/// A type with a stored form.
pub trait Stored {
    /// The stored form.
    fn value(&self) -> Value<'_>;
}

/// A type whose stored form is shown as its Display shows it, and its hexadecimal and other forms, where it has them.
pub trait ShownByDisplay: Stored {}

/// A type whose stored form is shown as its Debug shows it.
pub trait ShownByDebug: Stored {}

macro_rules! stored {
    ($($type:ty: $value:ident => $kind:expr;)*) => {
        $(
            impl Stored for $type {
                #[inline]
                fn value(&self) -> Value<'_> {
                    let $value = self;
                    $kind
                }
            }
        )*
    };
}

stored! {
    bool: value => Value::Bool(*value);
    char: value => Value::Char(*value);
    i8: value => Value::I8(*value);
    i16: value => Value::I16(*value);
    i32: value => Value::I32(*value);
    i64: value => Value::I64(*value);
    i128: value => Value::I128(*value);
    u8: value => Value::U8(*value);
    u16: value => Value::U16(*value);
    u32: value => Value::U32(*value);
    u64: value => Value::U64(*value);
    u128: value => Value::U128(*value);
    // As wide as they are: `{:x}` of a negative number shows its width.
    isize: value => if size_of::<isize>() == 4 { Value::I32(*value as i32) } else { Value::I64(*value as i64) };
    usize: value => if size_of::<usize>() == 4 { Value::U32(*value as u32) } else { Value::U64(*value as u64) };
    f32: value => Value::F32(*value);
    f64: value => Value::F64(*value);
    str: value => Value::Str(value);
    String: value => Value::Str(value);
    Cow<'_, str>: value => Value::Str(value);
    [u8]: value => Value::Bytes(value);
    Vec<u8>: value => Value::Bytes(value);
    Duration: value => Value::Duration(value.as_secs(), value.subsec_nanos());
    SystemTime: value => Value::Time(since_1970_ns(value));
}

impl<const N: usize> Stored for [u8; N] {
    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<T: Stored> Stored for Option<T> {
    #[inline]
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::None, T::value)
    }
}

fn since_1970_ns(time: &SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

macro_rules! shown {
    ($trait:ident: $($type:ty),*) => { $( impl $trait for $type {} )* };
}

shown!(ShownByDisplay: bool, char, i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, isize, usize, f32, f64);
shown!(ShownByDisplay: str, String, Cow<'_, str>);
shown!(ShownByDebug: bool, char, i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, isize, usize, f32, f64);
shown!(ShownByDebug: str, String, Cow<'_, str>, [u8], Vec<u8>, Duration);
impl<const N: usize> ShownByDebug for [u8; N] {}

/// What points to a value is shown as the value.
macro_rules! pointers {
    ($($pointer:ty),*) => {
        $(
            impl<T: Stored + ?Sized> Stored for $pointer {
                #[inline]
                fn value(&self) -> Value<'_> {
                    T::value(self)
                }
            }
            impl<T: ShownByDisplay + ?Sized> ShownByDisplay for $pointer {}
            impl<T: ShownByDebug + ?Sized> ShownByDebug for $pointer {}
        )*
    };
}

pointers!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

/// What is kept of one argument, until it is encoded.
pub trait Kept {
    /// Whether its length is known before, and encoding it runs no code of the caller's.
    const IS_STORED: bool;

    /// Bytes of the stored form; 0 where [`IS_STORED`](Kept::IS_STORED) is not set.
    fn encoded_len(&self) -> usize {
        0
    }

    /// Appends the stored form, where [`IS_STORED`](Kept::IS_STORED) is set.
    fn encode_stored<O: Out>(&self, _: &mut O) {}

    /// Appends the stored form.
    fn encode(&self, out: &mut Vec<u8>);
}

/// What is kept of all arguments of a call: `(first, (second, ()))`.
pub trait KeptList {
    /// As [`Kept::IS_STORED`], of all.
    const ARE_STORED: bool;

    /// Bytes of all stored forms.
    fn encoded_len_of_all(&self) -> usize;

    /// Appends the stored forms one behind another, where [`ARE_STORED`](KeptList::ARE_STORED) is set.
    fn encode_all_stored<O: Out>(&self, out: &mut O);

    /// Appends the stored forms one behind another.
    fn encode_all(&self, out: &mut Vec<u8>);
}

impl KeptList for () {
    const ARE_STORED: bool = true;

    #[inline]
    fn encoded_len_of_all(&self) -> usize {
        0
    }

    #[inline]
    fn encode_all_stored<O: Out>(&self, _: &mut O) {}

    #[inline]
    fn encode_all(&self, _: &mut Vec<u8>) {}
}

impl<First: Kept, Rest: KeptList> KeptList for (First, Rest) {
    const ARE_STORED: bool = First::IS_STORED && Rest::ARE_STORED;

    #[inline]
    fn encoded_len_of_all(&self) -> usize {
        self.0.encoded_len() + self.1.encoded_len_of_all()
    }

    #[inline]
    fn encode_all_stored<O: Out>(&self, out: &mut O) {
        self.0.encode_stored(out);
        self.1.encode_all_stored(out);
    }

    #[inline]
    fn encode_all(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode_all(out);
    }
}

/// An argument, to be shown by `{}`, `{:?}`, or as a field.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a, T: ?Sized>(pub &'a T);

/// An argument, and what shows it with its spec.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a, T: ?Sized>(pub &'a T, pub fmt::Arguments<'a>);

/// Kept by its type.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a, T: ?Sized>(&'a T);

impl<T: Stored + ?Sized> Kept for Typed<'_, T> {
    const IS_STORED: bool = true;

    #[inline]
    fn encoded_len(&self) -> usize {
        self.0.value().encoded_len()
    }

    #[inline]
    fn encode_stored<O: Out>(&self, out: &mut O) {
        self.0.value().encode(out);
    }

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.value().encode(out);
    }
}

/// An address.
#[derive(Clone, Copy, Debug)]
pub struct Address(u64);

impl Kept for Address {
    const IS_STORED: bool = true;

    #[inline]
    fn encoded_len(&self) -> usize {
        Value::Pointer(self.0).encoded_len()
    }

    #[inline]
    fn encode_stored<O: Out>(&self, out: &mut O) {
        Value::Pointer(self.0).encode(out);
    }

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        Value::Pointer(self.0).encode(out);
    }
}

/// Kept as its Display shows it.
#[derive(Clone, Copy, Debug)]
pub struct Displayed<'a, T: ?Sized>(&'a T);

impl<T: fmt::Display + ?Sized> Kept for Displayed<'_, T> {
    const IS_STORED: bool = false;

    fn encode(&self, out: &mut Vec<u8>) {
        push_text(out, format_args!("{}", self.0));
    }
}

/// Kept as its Debug shows it.
#[derive(Clone, Copy, Debug)]
pub struct Debugged<'a, T: ?Sized>(&'a T);

impl<T: fmt::Debug + ?Sized> Kept for Debugged<'_, T> {
    const IS_STORED: bool = false;

    fn encode(&self, out: &mut Vec<u8>) {
        push_text(out, format_args!("{:?}", self.0));
    }
}

/// Kept as these arguments show it: a value with its spec, or a whole message.
#[derive(Clone, Copy, Debug)]
pub struct Formatted<'a>(pub fmt::Arguments<'a>);

impl Kept for Formatted<'_> {
    const IS_STORED: bool = false;

    fn encode(&self, out: &mut Vec<u8>) {
        push_text(out, self.0);
    }
}

/// What has no form that could be shown; rustc refuses the call for it.
#[derive(Clone, Copy, Debug)]
pub struct Unshown;

impl Kept for Unshown {
    const IS_STORED: bool = true;

    fn encode(&self, _: &mut Vec<u8>) {}
}

/// Where a Display or Debug writes its text.
struct Text<'a> {
    out: &'a mut Vec<u8>,
}

impl fmt::Write for Text<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Appends text that is made on the way, as [`Value::Text`] is stored: tag, length, text.
fn push_text(out: &mut Vec<u8>, arguments: fmt::Arguments<'_>) {
    // Most texts are shorter than 128 bytes, whose length takes one byte.
    out.extend_from_slice(&[tag::TEXT, 0]);
    let start = out.len();
    if (Text { out }).write_fmt(arguments).is_err() {
        out.extend_from_slice(FAILED.as_bytes());
    }
    let len = out.len() - start;
    if let Ok(short) = u8::try_from(len)
        && short < 0x80
    {
        out[start - 1] = short;
        return;
    }
    let mut length = Vec::with_capacity(10);
    push_varint(&mut length, len as u64);
    out.splice(start - 1..start, length);
}

#[cfg(test)]
mod tests;
