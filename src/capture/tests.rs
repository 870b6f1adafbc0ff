//! What arguments of many types are kept as.
#![allow(clippy::needless_borrow, reason = "the references are written as the expansion of a call has them")]

use super::keep::*;
use super::*;
use crate::value::Values;

fn stored(kept: &impl Kept) -> Vec<u8> {
    let mut out = Vec::new();
    kept.encode(&mut out);
    out
}

/// What is kept, shown by its Debug.
fn shown(kept: impl Kept) -> String {
    format!("{:?}", Values::new(&stored(&kept)).collect::<Vec<_>>())
}

#[test]
fn values_are_kept_by_their_type() {
    let (number, text) = (7u16, String::from("x"));
    assert_eq!(shown((&&&Plain(&number)).show()), "[U16(7)]");
    assert_eq!(shown((&&&Plain(&&&number)).inspect()), "[U16(7)]");
    assert_eq!(shown((&&&Plain(&text)).show()), "[Str(\"x\")]");
    assert_eq!(shown((&&&Plain("x")).inspect()), "[Str(\"x\")]");
    assert_eq!(shown((&&&Plain(&Arc::<str>::from("x"))).show()), "[Str(\"x\")]");
    assert_eq!(shown((&&&Plain(&Box::new(1.5f32))).show()), "[F32(1.5)]");
    assert_eq!(shown((&&&Plain(&[1u8, 2])).inspect()), "[Bytes([1, 2])]");
    assert_eq!(shown((&&&Plain(&Duration::from_millis(1500))).inspect()), "[Duration(1, 500000000)]");
}

#[test]
fn what_has_no_stored_form_is_kept_as_text() {
    let address = std::net::Ipv4Addr::LOCALHOST;
    assert_eq!(shown((&&&Plain(&address)).show()), "[Text(\"127.0.0.1\")]");
    assert_eq!(shown((&&&Plain(&Some(1))).inspect()), "[Text(\"Some(1)\")]");
    assert_eq!(shown((&&&Plain(&[1i32])).inspect()), "[Text(\"[1]\")]");
    assert_eq!(shown((&&&Spec(&address, format_args!("{address:>12}"))).show()), "[Text(\"   127.0.0.1\")]");
    assert_eq!(shown((&&&Spec(&7u8, format_args!("{address:>12}"))).show()), "[U8(7)]");
}

#[test]
fn a_generic_type_is_kept_by_what_is_known_of_it() {
    fn display<T: fmt::Display>(value: T) -> String {
        shown((&&&Plain(&value)).show())
    }
    assert_eq!(display(7), "[Text(\"7\")]");
}

#[test]
fn fields_keep_more_types_than_messages() {
    assert_eq!(shown((&&&Plain(&Some(7u8))).field()), "[U8(7)]");
    assert_eq!(shown((&&&Plain(&None::<&str>)).field()), "[None]");
    assert_eq!(shown((&&&Plain(&Duration::from_secs(2))).field()), "[Duration(2, 0)]");
    assert_eq!(shown((&&&Plain(&(UNIX_EPOCH + Duration::from_nanos(5)))).field()), "[Time(5)]");
    assert_eq!(shown((&&&Plain(&(UNIX_EPOCH - Duration::from_nanos(5)))).field()), "[Time(-5)]");
    assert_eq!(shown((&&&Plain(&std::net::Ipv4Addr::LOCALHOST)).field()), "[Text(\"127.0.0.1\")]");
}

#[test]
fn addresses_are_kept_of_references_and_pointers() {
    let (number, none) = (5u8, format_args!(""));
    let expected = Address(&raw const number as usize as u64).0;
    assert_eq!((&&&Spec(&&number, none)).address().0, expected);
    assert_eq!((&&&Spec(&&raw const number, none)).address().0, expected);
    let boxed = Box::new(5u8);
    assert_eq!(shown((&&&Spec(&boxed, format_args!("{boxed:p}"))).address()), format!("[Text(\"{boxed:p}\")]"));
}

#[test]
fn text_of_any_length_has_its_length_in_front() {
    for len in [0, 1, 127, 128, 129, 16_383, 16_384, 100_000] {
        let text = "x".repeat(len);
        let mut expected = Vec::new();
        Value::Text(&text).encode(&mut expected);
        assert_eq!(stored(&Formatted(format_args!("{text}"))), expected, "{len} bytes");
    }
}

#[test]
fn a_display_that_fails_is_told_behind_what_it_wrote() {
    struct Fails;
    impl fmt::Display for Fails {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("so far")?;
            Err(fmt::Error)
        }
    }
    assert_eq!(shown((&&&Plain(&Fails)).show()), format!("[Text(\"so far{FAILED}\")]"));
}
