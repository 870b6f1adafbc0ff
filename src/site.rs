//! Call sites of the log macros: one static each, which tells with one load whether its calls are logged.
//!
//! ```text
//! state    0 new -> registered at its first call -> off or on, set anew whenever levels or the global loggers change
//! target   which of the global loggers takes the calls, set with the state
//! verdict  for calls with `logger:`: [key of the logger's levels, 63 bits | on, 1 bit], good as long as the key is the same
//! ```
//! They only spare the work of asking the levels again, so all accesses are relaxed: a call that runs at the same time as a
//! change of levels may go by either.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::category::{Category, dotted};
use crate::entry::{CallSite, Level};

/// Not registered yet.
const NEW: u8 = 0;
/// Not logged by the global logger of its category.
const OFF: u8 = 1;
/// Logged by the global logger of its category.
const ON: u8 = 2;

/// Where the category of a call site comes from.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// A name: of the module, or as it was given.
    Name(&'static str),
    /// A static.
    Category(&'static Category),
}

/// A call of a log macro in the source.
#[derive(Debug)]
pub struct Site {
    pub(crate) level: Level,
    origin: Origin,
    file: &'static str,
    line: u32,
    template: &'static str,
    fields: &'static [&'static str],
    /// One in so many calls is logged.
    every: u32,
    /// How many calls of a sampled site were enabled.
    calls: AtomicU64,
    state: AtomicU8,
    verdict: AtomicU64,
    /// Counted from 1 on in the order of registration; 0 before that.
    number: AtomicU32,
    /// Which of the loggers for calls without `logger:` takes this one.
    target: AtomicUsize,
}

impl Site {
    /// A call site that is not registered yet.
    ///
    /// # Panics
    /// If `every` is 0: at compile time, since this is made for statics.
    pub const fn new(
        level: Level,
        origin: Origin,
        file: &'static str,
        line: u32,
        template: &'static str,
        fields: &'static [&'static str],
        every: u32,
    ) -> Site {
        assert!(every > 0, "`every` is 0: give 1 to log each call");
        Site {
            level,
            origin,
            file,
            line,
            template,
            fields,
            every,
            calls: AtomicU64::new(0),
            state: AtomicU8::new(NEW),
            verdict: AtomicU64::new(0),
            number: AtomicU32::new(0),
            target: AtomicUsize::new(usize::MAX),
        }
    }

    /// The category's name, with dots.
    pub(crate) fn category(&self) -> Cow<'static, str> {
        match self.origin {
            Origin::Name(name) => dotted(name),
            Origin::Category(category) => category.name(),
        }
    }

    /// The definition as the log stores it.
    pub(crate) fn definition(&self) -> CallSite {
        CallSite {
            level: self.level,
            category: self.category().into_owned(),
            file: self.file.to_owned(),
            line: self.line,
            template: self.template.to_owned(),
            fields: self.fields.iter().map(|&field| field.to_owned()).collect(),
        }
    }

    /// Whether the global logger logs this call.
    #[inline]
    pub fn is_enabled(&'static self) -> bool {
        match self.state.load(Relaxed) {
            OFF => false,
            ON => true,
            _ => self.register(),
        }
    }

    #[cold]
    #[inline(never)]
    fn register(&'static self) -> bool {
        crate::global::register(self);
        self.state.load(Relaxed) == ON
    }

    /// Whether it is this call's turn, where one in so many is logged: the first one's, and then each so-many-th one's.
    #[inline]
    pub fn takes_turn(&self) -> bool {
        self.calls.fetch_add(1, Relaxed).is_multiple_of(u64::from(self.every))
    }

    /// Takes note of which logger takes the calls, and whether that logs them.
    pub(crate) fn set_target(&self, target: usize, is_on: bool) {
        self.target.store(target, Relaxed);
        self.state.store(if is_on { ON } else { OFF }, Relaxed);
    }

    /// Which logger takes the calls; beyond all of them if none does.
    pub(crate) fn target(&self) -> usize {
        self.target.load(Relaxed)
    }

    /// What is known of the levels with this key, if anything.
    #[inline]
    pub(crate) fn verdict(&self, key: u64) -> Option<bool> {
        let verdict = self.verdict.load(Relaxed);
        (verdict >> 1 == key).then_some(verdict & 1 == 1)
    }

    /// Takes note of what the levels with this key say.
    pub(crate) fn set_verdict(&self, key: u64, is_on: bool) {
        self.verdict.store(key << 1 | u64::from(is_on), Relaxed);
    }

    /// Its number, 0 before it is registered.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Relaxed);
    }
}

/// The largest of the numbers whose feature is set; 0 if none is.
macro_rules! number_of_features {
    ($($feature:literal: $number:literal,)*) => {{
        let mut largest = 0;
        $( if cfg!(feature = $feature) && $number > largest { largest = $number; } )*
        largest
    }};
}

/// The least level that is compiled in, as features of this crate say: calls below it are no code. A build without debug
/// assertions has a setting of its own, which goes before the other, as in `log`; of several features the one that logs least
/// holds.
const COMPILED: usize = {
    let any = number_of_features! {
        "max_level_trace": 1,
        "max_level_debug": 2,
        "max_level_info": 3,
        "max_level_warn": 4,
        "max_level_error": 5,
        "max_level_fatal": 6,
        "max_level_off": 7,
    };
    let release = number_of_features! {
        "release_max_level_trace": 1,
        "release_max_level_debug": 2,
        "release_max_level_info": 3,
        "release_max_level_warn": 4,
        "release_max_level_error": 5,
        "release_max_level_fatal": 6,
        "release_max_level_off": 7,
    };
    if cfg!(debug_assertions) || release == 0 { any } else { release }
};

/// Whether calls of a level are compiled in, by the level's number.
pub const IS_COMPILED: [bool; 7] = {
    let mut is_compiled = [false; 7];
    let mut number = COMPILED;
    while number < is_compiled.len() {
        is_compiled[number] = true;
        number += 1;
    }
    is_compiled
};

#[cfg(test)]
mod tests {
    use super::*;

    static SITE: Site = Site::new(Level::Info, Origin::Name("shop::net"), "src/net.rs", 7, "{a} {}", &["", "a"], 3);

    #[test]
    fn a_definition_says_what_the_static_says() {
        let definition = SITE.definition();
        assert_eq!((definition.level, definition.line), (Level::Info, 7));
        assert_eq!((definition.category.as_str(), definition.file.as_str()), ("shop.net", "src/net.rs"));
        assert_eq!((definition.template.as_str(), definition.fields.join("|").as_str()), ("{a} {}", "|a"));
    }

    #[test]
    fn one_in_so_many_calls_has_its_turn() {
        let turns: Vec<bool> = (0..7).map(|_| SITE.takes_turn()).collect();
        assert_eq!(turns, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn a_verdict_is_good_for_its_key_only() {
        SITE.set_verdict(5, true);
        assert_eq!((SITE.verdict(5), SITE.verdict(6)), (Some(true), None));
        SITE.set_verdict(6, false);
        assert_eq!((SITE.verdict(5), SITE.verdict(6)), (None, Some(false)));
    }

    #[test]
    fn the_features_say_what_is_compiled_in() {
        let compiled = Level::ALL.map(|level| IS_COMPILED[level as usize]);
        let expected = if cfg!(feature = "max_level_warn") {
            [false, false, false, true, true, true]
        } else if cfg!(feature = "max_level_off") {
            [false; 6]
        } else {
            [true; 6]
        };
        assert_eq!(compiled, expected);
    }
}
