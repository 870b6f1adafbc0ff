//! What all log calls of the process share: the list of their sites, and the global logger.
//!
//! A site is registered at its first call, and then knows whether the global logger logs it. Whatever changes that (levels,
//! the global logger) holds the list's lock, and tells each registered site anew. The list's lock is taken first, then that of
//! the global logger, then that of its levels; a handle of a logger is dropped under none of them, since the last one closes
//! its log.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::logger::Logger;
use crate::site::Site;

static SITES: Mutex<Vec<&'static Site>> = Mutex::new(Vec::new());

static GLOBAL: RwLock<Option<Logger>> = RwLock::new(None);

/// All registered sites. Whoever holds this may change what they know.
fn sites() -> MutexGuard<'static, Vec<&'static Site>> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn locked_global() -> RwLockReadGuard<'static, Option<Logger>> {
    GLOBAL.read().unwrap_or_else(PoisonError::into_inner)
}

/// The global logger, if one is set.
pub(crate) fn global() -> Option<Logger> {
    locked_global().clone()
}

/// Takes a site into the list, gives it its number, and tells it whether it is on.
#[cold]
pub(crate) fn register(site: &'static Site) {
    let mut sites = sites();
    if site.number() == 0 {
        sites.push(site);
        site.set_number(u32::try_from(sites.len()).unwrap_or(u32::MAX));
    }
    tell(site, locked_global().as_ref());
}

fn tell(site: &Site, global: Option<&Logger>) {
    site.set_on(global.is_some_and(|logger| logger.logs(site.level, &site.category())));
}

/// Makes a change to the levels of `logger`; if it is the global one, each site knows of it when this returns.
pub(crate) fn change_levels(logger: &Logger, change: impl FnOnce() -> Result<()>) -> Result<()> {
    let sites = sites();
    change()?;
    if locked_global().as_ref().is_some_and(|global| global.is(logger)) {
        sites.iter().for_each(|site| tell(site, Some(logger)));
    }
    Ok(())
}

/// Makes `logger` the one that calls without `logger:` log to.
pub(crate) fn set(logger: &Logger) -> Result<GlobalGuard> {
    let sites = sites();
    let mut global = GLOBAL.write().unwrap_or_else(PoisonError::into_inner);
    if global.is_some() {
        let text = "a global logger is set already: set one only, at the start of the program, and keep its guard";
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    *global = Some(logger.clone());
    drop(global);
    sites.iter().for_each(|site| tell(site, Some(logger)));
    Ok(GlobalGuard { logger: logger.clone() })
}

/// Keeps a logger the global one. When it is dropped, calls without `logger:` do nothing any more, and what they have logged
/// is flushed, for as long as [`LoggerBuilder::drop_wait`](crate::LoggerBuilder::drop_wait) says.
#[must_use = "the logger is the global one for as long as this lives: bind it to a name, `let _guard = ..`"]
#[derive(Debug)]
pub struct GlobalGuard {
    logger: Logger,
}

impl Drop for GlobalGuard {
    fn drop(&mut self) {
        let sites = sites();
        let taken = GLOBAL.write().unwrap_or_else(PoisonError::into_inner).take();
        sites.iter().for_each(|site| tell(site, None));
        // The last handle closes its log, which may log in turn.
        drop(sites);
        drop(taken);
        // Best effort: who needs to know calls flush or close.
        let _ = self.logger.flush(self.logger.drop_wait());
    }
}
