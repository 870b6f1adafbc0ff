//! The levels of a logger as they are now, and short cuts to what they say of a call.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::entry::Level;
use crate::error::Result;
use crate::floor::{Floor, KnownSites};
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
    /// What they say of call sites that are used with other loggers, too, besides what the sites know themselves.
    known: KnownSites,
    outlets: Outlets,
}

/// Where entries go that the levels let through. A call that would go nowhere is not logged at all.
pub(crate) struct Outlets {
    /// From where on the log stores them.
    pub(crate) stored: Arc<Floor>,
    /// From which level on a mirror shows them, if there is one.
    pub(crate) mirrored: Option<Level>,
}

impl LevelTable {
    pub(crate) fn new(levels: Levels, outlets: Outlets) -> LevelTable {
        let least = AtomicU8::new(levels.thresholds().0);
        let key = AtomicU64::new(next_key());
        LevelTable { levels: Mutex::new(levels), least, key, known: KnownSites::new(), outlets }
    }

    fn lock(&self) -> MutexGuard<'_, Levels> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The levels as they are now.
    pub(crate) fn levels(&self) -> Levels {
        self.lock().clone()
    }

    /// A number that changes with them.
    #[inline]
    pub(crate) fn key(&self) -> u64 {
        self.key.load(Relaxed)
    }

    /// Changes them; each call site knows of it when this returns.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Levels) -> Result<()>) -> Result<()> {
        global::change_levels(self, || {
            let mut levels = self.lock();
            change(&mut levels)?;
            self.least.store(levels.thresholds().0, Relaxed);
            self.key.store(next_key(), Relaxed);
            Ok(())
        })
    }

    /// Whether this level of this category is logged.
    pub(crate) fn logs(&self, level: Level, category: &str) -> bool {
        let Outlets { stored, mirrored } = &self.outlets;
        let goes_somewhere = stored.admits(level, category) || mirrored.is_some_and(|mirrored| level >= mirrored);
        goes_somewhere && level as u8 >= threshold(self.lock().of(category))
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
        if site.number() == 0 {
            global::register(site);
        }
        let is_on = self.known.get(site, key, || self.logs(site.level, &site.category()));
        site.set_verdict(key, is_on);
        is_on
    }
}

/// The next key; 0 is that of a site which has never asked.
fn next_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}
