//! Log calls in places that are hard on macros: names shadowed, crate renamed, async code, macros of the caller.

use std::future::{Future, ready};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use logtool::{Logger, info, info_enabled, try_info};

use crate::log_calls::Memory;

/// Nothing here has the name that the expansion could count on.
mod shadowed {
    #![no_implicit_prelude]
    #![allow(dead_code, non_snake_case, unused_macros, reason = "the names are there to be in the way")]

    extern crate logtool as renamed;

    mod core {}
    mod std {}
    mod logtool {}
    struct Option;
    struct Result;
    struct Site;
    struct Level;
    fn Some() {}
    fn None() {}
    fn Ok() {}
    fn Err() {}
    fn drop() {}
    macro_rules! format_args {
        ($($any:tt)*) => {
            compile_error!("not this one")
        };
    }
    macro_rules! module_path {
        () => {
            compile_error!("nor this")
        };
    }

    static SITE: renamed::Category = renamed::Category::new("shadowed.site");
    static LOGTOOL_CALL_SITE: u8 = 1;

    pub(super) fn log(logger: &renamed::Logger) -> bool {
        let (site, a0, f0, text, out) = (1, "two", 'c', 4.5, [6u8, 7]);
        renamed::info!(logger: logger, category: SITE, f0 = site, text; "{site} {a0:>5} {} {text:>6} {out:?}", f0);
        renamed::info!(logger: logger, every: 1, "{} {:?}", LOGTOOL_CALL_SITE, (a0, f0));
        let accepted = renamed::try_info!(logger: logger, "{text} {}", out[0]);
        renamed::info_enabled!(logger: logger, SITE) && accepted.is_ok()
    }
}

#[test]
fn no_name_of_the_caller_is_in_the_way() {
    let memory = Memory::new();
    assert!(shadowed::log(&memory.log));
    let read = memory.read();
    assert_eq!(read[0].category, "shadowed.site");
    assert_eq!(memory.messages(), ["1   two c    4.5 [6, 7] f0=1 text=4.5", "1 (\"two\", 'c')", "4.5 6"]);
}

/// Drives a future that never waits.
fn finish<F: Future + Send>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn arguments_may_await_and_the_future_stays_send() {
    async fn logs(log: &Logger) -> Result<u32, String> {
        info!(logger: log, user = ready(1).await; "{} {x:>3}", ready(2).await, x = ready(ready(3).await).await);
        info!(logger: log, concat!("{}", " made"), ready(4).await);
        info!(logger: log, "{}", Rc::new(5));
        ready(()).await;
        info!(logger: ready(log).await, "{}", async { Err::<u32, _>("stop".to_owned()) }.await?);
        Ok(0)
    }
    let memory = Memory::new();
    assert_eq!(finish(logs(&memory.log)), Err("stop".to_owned()));
    assert_eq!(memory.messages(), ["2   3 user=1", "4 made", "5"]);
}

macro_rules! mine {
    ($log:expr, $category:literal, $text:literal $(, $argument:expr)*) => {
        info!(logger: $log, category: $category, $text $(, $argument)*)
    };
}

macro_rules! passes_on {
    ($($any:tt)*) => { info!($($any)*) };
}

macro_rules! own_variable {
    ($log:expr, $value:expr) => {{
        let inner = $value;
        info!(logger: $log, twice = 2 * $value; "{inner} {} {}", $value * 2, [$value * 3][0]);
    }};
}

struct Pair {
    a: u8,
}

macro_rules! types_and_paths {
    ($log:expr, $type:ty, $path:path, $pattern:pat) => {
        info!(
            logger: $log,
            "{} {} {} {}",
            <$type>::default().len(),
            Vec::<$type>::new().len(),
            $path { a: 5 }.a,
            matches!(3, $pattern)
        )
    };
}

#[test]
fn macros_of_the_caller_may_pass_on_their_arguments() {
    let memory = Memory::new();
    let (log, inner) = (&memory.log, 30);
    mine!(log, "mine", "{} {:>3} {inner}", 1 + 1, 5);
    passes_on!(logger: log, user = inner; "{x}", x = Vec::<(u8, u8)>::new().len());
    own_variable!(log, 1 + 2);
    types_and_paths!(log, Vec<u8>, self::Pair, 1 | 3);
    let read = memory.read();
    assert_eq!(read[0].category, "mine");
    assert_eq!(read[0].template, "{} {:>3} {inner}");
    assert_eq!(memory.messages(), ["2   5 30", "0 user=30", "3 6 9 twice=6", "0 0 5 true"]);
}

#[test]
fn a_call_is_an_expression_wherever_one_may_stand() {
    let memory = Memory::new();
    let log = &memory.log;
    let choose = |number: u32| match number {
        0 => info!(logger: log, "zero"),
        1 => info!(logger: log, "one"),
        _ => (),
    };
    (0..3).for_each(choose);
    let results = [try_info!(logger: log, "a"), try_info!(logger: log, "b")];
    assert!(results.iter().all(Result::is_ok) && info_enabled!(logger: log));
    let both = info_enabled!(logger: log) && try_info!(logger: log, "c").is_ok();
    assert!(both);
    assert_eq!(memory.messages(), ["zero", "one", "a", "b", "c"]);
}

#[test]
fn generic_functions_log_by_the_traits_of_their_types() {
    fn log<T: std::fmt::Debug + ?Sized>(log: &Logger, value: &T) {
        info!(logger: log, value:?; "{value:?} {value:#?}");
    }
    let memory = Memory::new();
    log(&memory.log, "text");
    log(&memory.log, &[1u8][..]);
    assert_eq!(memory.messages(), ["\"text\" \"text\" value=\"\\\"text\\\"\"", "[1] [\n    1,\n] value=[1]"]);
}

#[test]
#[allow(unreachable_code, reason = "an argument that never has a value is one of them")]
fn arguments_may_be_of_unusual_types() {
    #[repr(C, packed)]
    struct Packed {
        _first: u8,
        number: u32,
    }
    fn shows(log: &Logger, any: impl std::fmt::Display, object: &dyn std::fmt::Display) {
        info!(logger: log, "{any} {object} {}", object);
    }
    const LIMIT: usize = 3;
    let memory = Memory::new();
    let log = &memory.log;
    let (text, packed, boxed) = ("abc", Packed { _first: 1, number: 2 }, Box::<str>::from("boxed"));
    info!(logger: log, text = *text; "{} {} {boxed} {}", text, { packed.number }, &text[1..]);
    info!(logger: log, "{LIMIT} {:LIMIT$} {:.LIMIT$}|{:?}", 1, 2.0, std::marker::PhantomData::<u8>);
    shows(log, 7, &'c');
    let never = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        info!(logger: log, "{}", unreachable!("evaluated"));
    }));
    assert!(never.is_err());
    let phantom = format!("{:?}", std::marker::PhantomData::<u8>);
    assert_eq!(memory.messages(), ["abc 2 boxed bc text=abc".into(), format!("3   1 2.000|{phantom}"), "7 c c".into()]);
}
