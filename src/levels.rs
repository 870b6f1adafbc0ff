//! Which level each category is logged from on, and the text form of that: `info,net=trace,db.pool=off`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::category::{dotted, is_below};
use crate::entry::Level;
use crate::error::{Error, ErrorKind, Result};

/// Number of the threshold that no level reaches.
pub(crate) const OFF: u8 = Level::Fatal as u8 + 1;

/// The number of the least level that is logged.
pub(crate) fn threshold(level: Option<Level>) -> u8 {
    level.map_or(OFF, |level| level as u8)
}

/// The least level that is logged, for all categories and for some; `None` logs nothing.
///
/// The longest prefix of a category that has a setting decides. As text: settings with commas between them, `LEVEL` for all
/// categories or `PREFIX=LEVEL`; levels in any case, and `off`. White space around the parts means nothing.
///
/// ```
/// use logtool::{Level, Levels};
///
/// let levels: Levels = "info, net=trace, net.tls=off".parse()?;
/// assert_eq!(levels.of("shop"), Some(Level::Info));
/// assert_eq!(levels.of("net.http"), Some(Level::Trace));
/// assert_eq!(levels.of("net.tls"), None);
/// # Ok::<(), logtool::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// For all categories without a setting, where that is set.
    all: Option<Option<Level>>,
    prefixes: Vec<(String, Option<Level>)>,
}

/// What is logged where nothing is set.
const DEFAULT: Option<Level> = Some(Level::Info);

impl Levels {
    /// Nothing set: all categories from `Info` on.
    pub fn new() -> Levels {
        Levels::default()
    }

    /// Sets the least level of all categories that lie below `prefix`; the empty prefix means all without a setting.
    ///
    /// # Errors
    /// `Invalid` if `prefix` is no name of a category.
    pub fn set(&mut self, prefix: &str, level: impl Into<Option<Level>>) -> Result<()> {
        let (prefix, level) = (check_prefix(prefix)?, level.into());
        if prefix.is_empty() {
            self.all = Some(level);
            return Ok(());
        }
        match self.prefixes.iter_mut().find(|(found, _)| *found == prefix) {
            Some((_, found)) => *found = level,
            None => self.prefixes.push((prefix.into_owned(), level)),
        }
        Ok(())
    }

    /// The least level that is logged of this category; `None` if nothing is.
    pub fn of(&self, category: &str) -> Option<Level> {
        let below = self.prefixes.iter().filter(|(prefix, _)| is_below(category, prefix));
        let longest = below.max_by_key(|(prefix, _)| prefix.len()).map(|(_, level)| *level);
        longest.or(self.all).unwrap_or(DEFAULT)
    }

    /// Takes over what is set in `other`.
    pub(crate) fn overlay(&mut self, other: &Levels) {
        self.all = other.all.or(self.all);
        for (prefix, level) in &other.prefixes {
            match self.prefixes.iter_mut().find(|(found, _)| found == prefix) {
                Some((_, found)) => *found = *level,
                None => self.prefixes.push((prefix.clone(), *level)),
            }
        }
    }

    /// How many categories have a setting of their own.
    pub(crate) fn settings(&self) -> usize {
        self.prefixes.len()
    }

    /// The same levels, with the default said where nothing is set for all categories.
    pub(crate) fn in_full(&self) -> Levels {
        self.or(DEFAULT)
    }

    /// The same levels, with `default` where nothing is set for all categories.
    pub(crate) fn or(&self, default: Option<Level>) -> Levels {
        Levels { all: self.all.or(Some(default)), prefixes: self.prefixes.clone() }
    }

    /// The least and the highest threshold of any category.
    pub(crate) fn thresholds(&self) -> (u8, u8) {
        let all = threshold(self.all.unwrap_or(DEFAULT));
        let prefixes = || self.prefixes.iter().map(|(_, level)| threshold(*level));
        (prefixes().fold(all, u8::min), prefixes().fold(all, u8::max))
    }
}

/// A prefix of categories with dots, if it is one; the empty one is.
pub(crate) fn check_prefix(prefix: &str) -> Result<Cow<'_, str>> {
    let prefix = dotted(prefix);
    let is_name = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ',' | '=');
    if prefix.is_empty() || prefix.split('.').all(|part| !part.is_empty() && part.chars().all(is_name)) {
        return Ok(prefix);
    }
    let text = format!("{prefix:?} is no category: give names with dots between them, as net.http");
    Err(Error::new(ErrorKind::Invalid, text))
}

/// That level for all categories.
impl From<Level> for Levels {
    fn from(level: Level) -> Levels {
        Levels { all: Some(Some(level)), prefixes: Vec::new() }
    }
}

/// What is set, as it can be parsed again: `info,net=trace,net.tls=off`.
impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all.iter().map(|level| ("", level));
        let prefixes = self.prefixes.iter().map(|(prefix, level)| (prefix.as_str(), level));
        for (number, (prefix, level)) in all.chain(prefixes).enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let equals = if prefix.is_empty() { "" } else { "=" };
            let level = level.map_or("off".to_owned(), |level| level.to_string().to_lowercase());
            write!(f, "{comma}{prefix}{equals}{level}")?;
        }
        Ok(())
    }
}

impl FromStr for Levels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Levels> {
        let mut levels = Levels::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (prefix, level) =
                part.rsplit_once('=').map_or(("", part), |(prefix, level)| (prefix.trim(), level.trim()));
            let level = if level.eq_ignore_ascii_case("off") {
                None
            } else {
                let unknown = || {
                    let what =
                        format!("{level:?} in {text:?} is no level: use trace, debug, info, warn, error, fatal or off");
                    Error::new(ErrorKind::Invalid, what)
                };
                Some(level.parse().map_err(|_| unknown())?)
            };
            if prefix.is_empty() && part.contains('=') {
                let what = format!("{part:?} in {text:?} has no category in front of its =");
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            levels.set(prefix, level)?;
        }
        Ok(levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let levels: Levels = "warn,net=debug,net.http.pool=off,shop::db=trace".parse().unwrap();
        for (category, level) in [
            ("main", Some(Level::Warn)),
            ("net", Some(Level::Debug)),
            ("net.http", Some(Level::Debug)),
            ("network", Some(Level::Warn)),
            ("net.http.pool.idle", None),
            ("shop.db", Some(Level::Trace)),
        ] {
            assert_eq!(levels.of(category), level, "{category}");
        }
        assert_eq!(levels.thresholds(), (Level::Trace as u8, OFF));
    }

    #[test]
    fn nothing_set_means_info() {
        assert_eq!(Levels::new().of("any"), Some(Level::Info));
        assert_eq!("".parse::<Levels>().unwrap(), Levels::new());
        assert_eq!(" , INFO , ".parse::<Levels>().unwrap().of("any"), Some(Level::Info));
        assert_eq!("off".parse::<Levels>().unwrap().thresholds(), (OFF, OFF));
    }

    #[test]
    fn the_text_says_what_is_set_and_is_read_back() {
        for text in ["", "warn", "net=trace", "off,net.http=trace,db=off"] {
            let levels: Levels = text.parse().unwrap();
            assert_eq!(levels.to_string(), text);
        }
        assert_eq!(" Info, shop::net=TRACE ,".parse::<Levels>().unwrap().to_string(), "info,shop.net=trace");
        assert_eq!("db=off".parse::<Levels>().unwrap().in_full().to_string(), "info,db=off");
    }

    #[test]
    fn what_is_set_later_holds() {
        let mut levels: Levels = "net=info,net=trace".parse().unwrap();
        assert_eq!(levels.of("net"), Some(Level::Trace));
        levels.set("net", None).unwrap();
        assert_eq!(levels.of("net"), None);
        levels.overlay(&"error,net=warn,db=debug".parse().unwrap());
        assert_eq!(
            (levels.of("x"), levels.of("net"), levels.of("db")),
            (Some(Level::Error), Some(Level::Warn), Some(Level::Debug))
        );
        levels.overlay(&"net.tls=off".parse().unwrap());
        assert_eq!((levels.of("x"), levels.of("net")), (Some(Level::Error), Some(Level::Warn)));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (text, wrong) in [
            ("info,net=loud", "\"loud\""),
            ("shout", "\"shout\""),
            ("=info", "\"=info\""),
            ("a..b=info", "\"a..b\""),
            ("a b=info", "\"a b\""),
        ] {
            let error = text.parse::<Levels>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }
}
