//! What a reader shows of a log call is, byte for byte, what `format!` gives in the caller: all syntax, many specs, any values.

use std::collections::BTreeMap;
use std::fmt::{Binary, Debug, Display, LowerExp, LowerHex, Octal, UpperExp, UpperHex};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logtool::{Logger, info};
use proptest::prelude::*;

use crate::log_calls::Memory;

/// Logs each format string with its arguments, and compares with `format!` of the same.
macro_rules! assert_as_format {
    ($(($($arguments:tt)*))*) => {{
        let memory = Memory::new();
        $( info!(logger: memory.log, $($arguments)*); )*
        let expected = [$( format!($($arguments)*) ),*];
        let messages = memory.messages();
        assert_eq!(messages.len(), expected.len());
        for ((message, expected), source) in messages.iter().zip(&expected).zip([$( stringify!($($arguments)*) ),*]) {
            assert_eq!(message, expected, "{source}");
        }
    }};
}

#[derive(Debug, Clone, Default)]
#[allow(dead_code, reason = "its Debug shows the fields")]
struct Point {
    x: i32,
    name: Option<&'static str>,
}

impl Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("({})", self.x))
    }
}

#[test]
fn every_item_of_the_syntax_is_shown_as_format_shows_it() {
    let (id, path, width, precision, r#type) = (7u64, "/a", 8usize, 2usize, 'k');
    let point = Point { x: -3, name: Some("p") };
    let float = 1234.5678f64;
    assert_as_format! {
        ("plain")
        ("")
        ("{{}} {{{}}} }}", 1)
        ("{}", 1)
        ("{} {}", 1, "two")
        ("{1} {0} {1}", 1, "two")
        ("{} {1} {}", 1, "two")
        ("{x} {y} {x}", x = 1, y = 'c')
        ("{} {x}", 1, x = 2)
        ("{id} {path} {id:?}")
        ("{0} {id}", path)
        ("{type}")
        ("{id:5}|{path:5}|{id:<5}|{path:>5}|{id:^5}|{path:^6}|")
        ("{id:*<5}{path:#>5}{id:é^5}{path: ^6}")
        ("{:+} {:+} {:-}", 1, -1.5, 2)
        ("{:#x} {:#X} {:#b} {:#o} {:#?}", 255, 255, 5, 8, point)
        ("{:05} {:<05} {:+05} {:#06x}", 7, 7, 7, 7)
        ("{:1$} {:2$}", 1, 5, 6)
        ("{:width$} {:>width$.precision$}|{:.precision$}", id, path, float)
        ("{:w$.p$}", float, w = 10, p = 1)
        ("{:.*} {:.*}", 3, float, 1, path)
        ("{1:.*} {0}", 3, float)
        ("{float:.*}", 3)
        ("{:>1$.2$} {}", float, 12, 1)
        ("{:.3} {:.0} {:8.2}|", float, float, float)
        ("{:e} {:E} {:.2e} {:e}", float, float, float, 1500)
        ("{:x} {:X} {:o} {:b}", -1i8, -1i16, -1i32, 5u8)
        ("{:?} {:x?} {:X?} {:#x?}", 255u8, 255u8, 255u8, 255u8)
        ("{:?} {:x?} {:02X?} {:#?}", [1u8, 171], [1u8, 171], vec![1u8, 171], &[1u8][..])
        ("{:?} {:?} {:5?}|{:>5?}", path, 'x', true, 'y')
        ("{:p} {:#p} {:20p}|", &id, &id, &raw const id)
        ("{id } {:>5 } { }", 1, 2)
        ("{point} {point:>6} {point:?} {point:#?}")
        ("{:?} {:?} {:5?}", Some(1), None::<u8>, Some(2))
        ("{:?} {:?}", (), (1, "a"))
        ("{:?} {:.1?}", Duration::from_micros(1500), Duration::from_secs(2))
        ("{:#?}", BTreeMap::from([(1, "a")]))
        (r"raw \n {}", 1)
        (r#"raw "{}""#, 1)
        ("esc \n\t\u{1f980}\x41\\ {}", 1)
        ("two \
          lines {}", 1)
        ("{}", format_args!("{id} {}", 1))
        ("{} {:?} {}", String::from("s"), Box::new("b"), Arc::<str>::from("a"))
        ("{} {} {:?}", &&1, &mut 2, Rc::new([1u8]))
        ("{} {}", std::borrow::Cow::Borrowed("cow"), std::net::Ipv4Addr::LOCALHOST)
        ("{}", if id < 5 { 1 } else { 2 })
        ("{} {}", id < 5, Vec::<u8>::with_capacity(3).len())
        ("{} {}", id as f64 * 2.0, <u64 as Into<u128>>::into(id))
        ("{0:?} {0:x?} {0} {0:>4}", 10)
        ("{:}>5}", 1)
        ("{:>+8.2} {:<+#10x}|", 1.5, 10)
        ("{:12.3?}|{:+?}", 1.5f32, 2)
        ("{:0>4}:{:03}", 7, 8)
        ("trailing {}", 1,)
        (concat!("not a ", "literal {} {x}"), 1, x = 2)
        ("{a:>b$} {b}", a = 1, b = 4)
    }
    let (name, lambda) = (r#type, |x: i32| x + 1);
    assert_as_format! {
        ("{name} {}", lambda(1))
        ("{}", { let x = 5; x * 2 })
    }
}

/// A function that logs a value with each of these specs, and gives what `format!` makes of them.
macro_rules! logs_each {
    ($name:ident [$($generics:tt)*] ($log:ident, $v:ident: $type:ty, $w:ident, $p:ident) [$($spec:literal,)*]) => {
        fn $name $($generics)* ($log: &Logger, $v: $type, $w: usize, $p: usize) -> Vec<String> {
            // Not each list has a spec that takes them from outside.
            let _ = ($w, $p);
            let mut expected = Vec::new();
            $(
                info!(logger: $log, $spec);
                expected.push(format!($spec));
            )*
            expected
        }
    };
}

macro_rules! integers {
    ($($name:ident [$($generics:tt)*] $type:ty;)*) => { $( logs_each! { $name [$($generics)*] (log, v: $type, w, p) [
        "{v:#.1X}", "{v:#.8X}", "{v:>09.0x}", "{v:^9.1}", "{v:#.0o}", "{v:-^014.0}", "{v:014X?}",
        "{v:<+#09X}", "{v:14X?}", "{v:#>9x?}", "{v:^9?}", "{v:_<+23}", "{v:<#14.1x}", "{v:<.8x}",
        "{v:23.8X?}", "{v:.0X}", "{v:*<#14.3x?}", "{v:+14}", "{v:+w$.1X}", "{v:^14}", "{v:*^1?}",
        "{v: <#0X}", "{v:w$.0X?}", "{v:🦀>+#5.3E}", "{v:>+#.1X?}", "{v:>9}", "{v:w$.8E}", "{v:+14.3b}",
        "{v:+23}", "{v:🦀^+#?}", "{v:-w$.8e}", "{v:^#.3e}", "{v:#9.1X}", "{v:#1X}", "{v:<+23x}", "{v:>+w$E}",
        "{v: ^9x}", "{v:w$.3}", "{v:#0.1X}", "{v:*<0?}", "{v: >#o}", "{v:X}", "{v:+}", "{v:9.0}",
        "{v:<#014?}", "{v:^01.3}", "{v:^#1x}", "{v:^-#01.8}", "{v:🦀^-5.p$X?}", "{v:^05e}", "{v:*^23x?}",
        "{v:+#5e}", "{v:<01.p$}", "{v:<01.3b}", "{v:+0w$E}", "{v:é>1o}", "{v:+05e}", "{v:^#9.8e}", "{v:-<5}",
        "{v:_>-#14.1}",
    ] } )* };
}

macro_rules! floats {
    ($($name:ident [$($generics:tt)*] $type:ty;)*) => { $( logs_each! { $name [$($generics)*] (log, v: $type, w, p) [
        "{v:+#01}", "{v:#5}", "{v:🦀^14.p$E}", "{v:w$}", "{v:<-#w$}", "{v:+1e}", "{v:#23.8?}", "{v:<23.0E}",
        "{v:#}", "{v:14.8}", "{v:_>?}", "{v:+#9.3}", "{v:#.8}", "{v:*<#1.8?}", "{v:01.8}", "{v:014}",
        "{v:🦀^5.1?}", "{v:<}", "{v:0<+#w$E}", "{v:023.3}", "{v:->#23.p$E}", "{v:^#1?}", "{v:.0E}", "{v:9E}",
        "{v:#w$.3?}", "{v:w$.1E}", "{v:<9.p$}", "{v:^14}", "{v:🦀<5?}", "{v:^9.8?}", "{v:+#14.8e}",
        "{v:é>#9e}", "{v:🦀>.3e}", "{v:.p$e}", "{v:*<+#.p$}", "{v:0<9.0}", "{v:<23}", "{v}", "{v:-#014.3e}",
        "{v:05}", "{v:0^5?}", "{v:09.1?}", "{v:#w$e}", "{v:_^+#09}", "{v:23.0}", "{v:>014.1}", "{v:^+0.0E}",
        "{v:^.8e}", "{v:+0E}", "{v:+#5.8E}",
    ] } )* };
}

macro_rules! texts {
    ($($name:ident [$($generics:tt)*] $type:ty;)*) => { $( logs_each! { $name [$($generics)*] (log, v: $type, w, p) [
        "{v:_^#0w$.p$?}", "{v:>#1.1}", "{v:#5?}", "{v:#>+w$.3?}", "{v:+1.8}", "{v:^+#?}", "{v:14.0}",
        "{v:0.p$}", "{v:#>#.0?}", "{v:#0}", "{v:_>+23.p$?}", "{v:<+}", "{v:#0.3}", "{v:#023.1}", "{v:+#1?}",
        "{v:#^+?}", "{v:^+9.3}", "{v:🦀^-#.3}", "{v:+#9.p$}", "{v:1.1?}", "{v:+23.3}", "{v:+9}", "{v:#05?}",
        "{v:>+}", "{v:+.p$?}", "{v:+0.p$}", "{v:0^23.1?}", "{v: <05.3?}", "{v:#^#09}", "{v:^+9.8}",
        "{v:.0?}", "{v:#1?}", "{v:^0.8}", "{v:0<.3}", "{v:-}", "{v:+014}", "{v:23.1}", "{v:01}", "{v:>01?}",
        "{v:1}",
    ] } )* };
}

macro_rules! lists {
    ($($name:ident [$($generics:tt)*] $type:ty;)*) => { $( logs_each! { $name [$($generics)*] (log, v: $type, w, p) [
        "{v:é<#.1?}", "{v:>+#23x?}", "{v:#<#23X?}", "{v:^#05.0?}", "{v:>23X?}", "{v:<-01.8x?}", "{v:>0?}",
        "{v:9.1X?}", "{v:é>0?}", "{v:<23X?}", "{v:*>0?}", "{v:-<9x?}", "{v:_<14.p$?}", "{v:-^-.p$?}",
        "{v:?}", "{v:#X?}", "{v:9.p$x?}", "{v:<9.8X?}", "{v:🦀>.0?}", "{v:.8?}",
    ] } )* };
}

// The specs above were drawn at random, once. The generic functions know nothing of their type but its traits, so that all is
// formatted in the caller.
integers! {
    each_i8 [] i8;
    each_i64 [] i64;
    each_u32 [] u32;
    each_u128 [] u128;
    each_isize [] isize;
    each_integer [<T: Display + Debug + LowerHex + UpperHex + Octal + Binary + LowerExp + UpperExp>] T;
}
floats! {
    each_f32 [] f32;
    each_f64 [] f64;
    each_float [<T: Display + Debug + LowerExp + UpperExp>] T;
}
texts! {
    each_str [] &str;
    each_char [] char;
    each_bool [] bool;
    each_text [<T: Display + Debug>] T;
}
lists! {
    each_bytes [] &[u8];
    each_numbers [] &[u16];
    each_duration [] Duration;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn values_are_shown_as_format_shows_them(
        small in any::<i8>(),
        large in any::<i64>(),
        natural in any::<u32>(),
        wide in any::<u128>(),
        single in prop::num::f32::ANY,
        double in prop::num::f64::ANY,
        text in any::<String>(),
        character in any::<char>(),
        truth in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..6),
        nanoseconds in any::<u64>(),
        w in 0..30usize,
        p in 0..12usize,
    ) {
        let memory = Memory::new();
        let log = &memory.log;
        let numbers: Vec<u16> = bytes.iter().map(|&byte| u16::from(byte) * 257).collect();
        let expected = [
            each_i8(log, small, w, p),
            each_i64(log, large, w, p),
            each_u32(log, natural, w, p),
            each_u128(log, wide, w, p),
            each_isize(log, small as isize, w, p),
            each_integer(log, large, w, p),
            each_f32(log, single, w, p),
            each_f64(log, double, w, p),
            each_float(log, double, w, p),
            each_str(log, &text, w, p),
            each_char(log, character, w, p),
            each_bool(log, truth, w, p),
            each_text(log, &*text, w, p),
            each_bytes(log, &bytes, w, p),
            each_numbers(log, &numbers, w, p),
            each_duration(log, Duration::from_nanos(nanoseconds), w, p),
        ];
        let messages = memory.read();
        prop_assert_eq!(messages.len(), expected.iter().map(Vec::len).sum::<usize>());
        // What is known is kept by its type, and what is not as text.
        let kept = |at: usize| &messages[expected[..at].iter().map(Vec::len).sum::<usize>()].values;
        prop_assert!(kept(0).starts_with("[I8(") && kept(7).starts_with("[F64(") && kept(9).starts_with("[Str("));
        prop_assert!(kept(13).starts_with("[Bytes(") && kept(15).starts_with("[Duration("));
        prop_assert!([5, 8, 12, 14].into_iter().all(|at| kept(at).starts_with("[Text(")));
        for (read, expected) in messages.iter().zip(expected.iter().flatten()) {
            prop_assert_eq!(&read.message, expected, "{} of {}", read.template, read.values);
        }
    }
}
