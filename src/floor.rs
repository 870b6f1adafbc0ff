//! A least level for each category, that log calls ask about their own: which are synced, kept, stored.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::entry::Level;
use crate::levels::{Levels, threshold};
use crate::site::Site;

/// Call sites of which something is known at a time.
const KNOWN_SITES: usize = 1024;

/// What is known of call sites, so that their categories need not be looked up again: `[number of the site, 31 bits | key, lower
/// 32 bits | on, 1 bit]`, at the number modulo the length. All of it may be forgotten at any time.
pub(crate) struct KnownSites(Box<[AtomicU64]>);

impl KnownSites {
    pub(crate) fn new() -> KnownSites {
        KnownSites((0..KNOWN_SITES).map(|_| AtomicU64::new(0)).collect())
    }

    /// What is known of a registered site under `key`, or what `find` says, which is then known.
    pub(crate) fn get(&self, site: &Site, key: u64, find: impl FnOnce() -> bool) -> bool {
        let number = u64::from(site.number());
        let place = &self.0[number as usize % self.0.len()];
        let word = number << 33 | (key & u64::from(u32::MAX)) << 1;
        // ORDERING: Relaxed, here and below; the word stands for itself.
        let found = place.load(Relaxed);
        if number > 0 && found & !1 == word {
            return found & 1 == 1;
        }
        let is_on = find();
        place.store(word | u64::from(is_on), Relaxed);
        is_on
    }
}

/// A least level for each category, which does not change.
pub(crate) struct Floor {
    levels: Levels,
    /// Below this number no category's level is.
    pub(crate) least: u8,
    /// From this number on each category's level is.
    most: u8,
    /// `None` where the categories make no difference.
    known: Option<KnownSites>,
}

impl Floor {
    /// What `levels` say, and `default` for all categories without a setting.
    pub(crate) fn new(levels: &Levels, default: Option<Level>) -> Floor {
        let levels = levels.or(default);
        let (least, most) = levels.thresholds();
        Floor { levels, least, most, known: (least != most).then(KnownSites::new) }
    }

    /// Whether a level of a category is at its floor or above.
    pub(crate) fn admits(&self, level: Level, category: &str) -> bool {
        level as u8 >= threshold(self.levels.of(category))
    }

    /// Whether every call is, whatever its site.
    pub(crate) fn admits_all(&self) -> bool {
        self.most <= Level::Trace as u8
    }

    /// Whether a call of this site is.
    pub(crate) fn admits_site(&self, site: &Site) -> bool {
        match &self.known {
            _ if site.level as u8 >= self.most => true,
            Some(known) if site.level as u8 >= self.least => {
                known.get(site, 0, || self.admits(site.level, &site.category()))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::OFF;
    use crate::site::Origin;

    static NET: Site = Site::new(Level::Info, Origin::Name("floor::net::http"), "a.rs", 1, "", &[], 1);
    static DB: Site = Site::new(Level::Info, Origin::Name("floor::db"), "a.rs", 2, "", &[], 1);
    static FATAL: Site = Site::new(Level::Fatal, Origin::Name("floor::db"), "a.rs", 3, "", &[], 1);

    fn admitted(text: &str, default: Option<Level>) -> [bool; 3] {
        let floor = Floor::new(&text.parse().unwrap(), default);
        let ask = || [&NET, &DB, &FATAL].map(|site| floor.admits_site(site));
        let first = ask();
        assert_eq!(ask(), first, "what is known is what was found");
        first
    }

    #[test]
    fn the_category_decides_and_where_none_is_set_the_default() {
        assert_eq!(admitted("", None), [false, false, false]);
        assert_eq!(admitted("", Some(Level::Trace)), [true, true, true]);
        assert_eq!(Floor::new(&Levels::new(), None).least, OFF);
        // Before the sites are registered, and after that.
        for _ in 0..2 {
            assert_eq!(admitted("error", None), [false, false, true]);
            assert_eq!(admitted("error,floor.net=debug", None), [true, false, true]);
            assert_eq!(admitted("floor.net=warn", Some(Level::Trace)), [false, true, true]);
            assert_eq!(admitted("trace,floor.db=off", None), [true, false, false]);
            [&NET, &DB, &FATAL].into_iter().for_each(crate::global::register);
        }
    }
}
