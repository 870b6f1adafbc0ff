//! A least level for each category, that log calls ask about their own: which are synced, kept, stored.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::entry::Level;
use crate::levels::{Levels, threshold};
use crate::site::Site;

/// Call sites whose knowledge is allocated at once, when the first of them asks.
const CHUNK_SITES: usize = 1024;

/// Call sites with a number above this many chunks are looked up each time.
const CHUNKS: usize = 1024;

type Chunk = Box<[AtomicU64]>;

/// What is known of call sites, by number, so that their categories need not be looked up again: `[key, 62 bits | 1 | on, 1 bit]`,
/// or 0.
pub(crate) struct KnownSites(Box<[OnceLock<Chunk>]>);

impl KnownSites {
    pub(crate) fn new() -> KnownSites {
        KnownSites((0..CHUNKS).map(|_| OnceLock::new()).collect())
    }

    /// What is known of a registered site under `key`, or what `find` says, which is then known.
    pub(crate) fn get(&self, site: &Site, key: u64, find: impl FnOnce() -> bool) -> bool {
        let number = site.number() as usize;
        let Some(chunk) = self.0.get(number / CHUNK_SITES).filter(|_| number > 0) else { return find() };
        let chunk = chunk.get_or_init(|| (0..CHUNK_SITES).map(|_| AtomicU64::new(0)).collect());
        let (place, word) = (&chunk[number % CHUNK_SITES], key << 2 | 2);
        // ORDERING: Relaxed, here and below; the word stands for itself.
        let found = place.load(Relaxed);
        if found & !1 == word {
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

    #[test]
    fn what_is_known_of_a_site_is_not_forgotten_for_another_one() {
        static SITES: [Site; 2] = [
            Site::new(Level::Info, Origin::Name("floor::a"), "a.rs", 1, "", &[], 1),
            Site::new(Level::Info, Origin::Name("floor::b"), "a.rs", 2, "", &[], 1),
        ];
        SITES[0].set_number(5);
        SITES[1].set_number(5 + CHUNK_SITES as u32);
        let (known, asked) = (KnownSites::new(), std::cell::Cell::new(0));
        let ask = |site, key, is_on| known.get(site, key, || (asked.set(asked.get() + 1), is_on).1);
        for _ in 0..3 {
            assert_eq!((ask(&SITES[0], 0, true), ask(&SITES[1], 0, false)), (true, false));
        }
        assert_eq!(asked.get(), 2);
        assert!(!ask(&SITES[0], 1, false));
        assert_eq!(asked.get(), 3);
    }
}
