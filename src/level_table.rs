//! The levels of a logger as they are now, and short cuts to what they say of a call.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::entry::Level;
use crate::error::Result;
use crate::global;
use crate::levels::{Levels, threshold};
use crate::site::Site;

/// What the levels say, and short cuts to that.
pub(crate) struct LevelTable {
    levels: Mutex<Levels>,
    /// The least threshold of any category.
    least: AtomicU8,
    /// A number that no other state of any logger's levels has.
    key: AtomicU64,
    /// What they say of call sites that are used with other loggers, too: `[number of the site, 31 bits | key, lower 32 bits |
    /// on, 1 bit]`, at the number modulo the length.
    known: Box<[AtomicU64]>,
}

/// Call sites whose levels a logger knows besides what the sites know themselves.
const KNOWN_SITES: usize = 1024;

impl LevelTable {
    pub(crate) fn new(levels: Levels) -> LevelTable {
        let least = AtomicU8::new(levels.least_threshold());
        let known = (0..KNOWN_SITES).map(|_| AtomicU64::new(0)).collect();
        LevelTable { levels: Mutex::new(levels), least, key: AtomicU64::new(next_key()), known }
    }

    fn lock(&self) -> MutexGuard<'_, Levels> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The levels as they are now.
    pub(crate) fn levels(&self) -> Levels {
        self.lock().clone()
    }

    /// A number that changes with them.
    pub(crate) fn key(&self) -> u64 {
        self.key.load(Relaxed)
    }

    /// Changes them; each call site knows of it when this returns.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Levels) -> Result<()>) -> Result<()> {
        global::change_levels(self, || {
            let mut levels = self.lock();
            change(&mut levels)?;
            self.least.store(levels.least_threshold(), Relaxed);
            self.key.store(next_key(), Relaxed);
            Ok(())
        })
    }

    /// Whether this level of this category is logged.
    pub(crate) fn logs(&self, level: Level, category: &str) -> bool {
        level as u8 >= threshold(self.lock().of(category))
    }

    /// Whether a call of this site is logged, which may be used with other loggers too.
    #[inline]
    pub(crate) fn enables(&self, site: &'static Site) -> bool {
        if site.level as u8 >= self.least.load(Relaxed) {
            let key = self.key();
            return site.verdict(key).unwrap_or_else(|| self.ask(site, key));
        }
        false
    }

    /// Another logger has used this site last, or the levels have changed.
    #[cold]
    #[inline(never)]
    fn ask(&self, site: &'static Site, key: u64) -> bool {
        let (known, place, word) = self.known(site, key);
        let is_on = known.unwrap_or_else(|| {
            let is_on = self.logs(site.level, &site.category());
            place.store(word | u64::from(is_on), Relaxed);
            is_on
        });
        site.set_verdict(key, is_on);
        is_on
    }

    /// What is known of a site under these levels, if anything; and where to put it down.
    fn known(&self, site: &Site, key: u64) -> (Option<bool>, &AtomicU64, u64) {
        let number = u64::from(site.number());
        let place = &self.known[number as usize % KNOWN_SITES];
        let word = number << 33 | (key & u64::from(u32::MAX)) << 1;
        let found = place.load(Relaxed);
        ((number > 0 && found & !1 == word).then_some(found & 1 == 1), place, word)
    }
}

/// The next key; 0 is that of a site which has never asked.
fn next_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}
