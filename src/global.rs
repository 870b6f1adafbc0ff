//! What all log calls of the process share: the list of their sites, and the loggers that take calls without `logger:`.
//!
//! Each of these loggers takes the calls of the categories below a prefix; the global one is that of the empty prefix. A site
//! is registered at its first call, and then knows which of them takes it, and whether that logs it. Whatever changes this
//! (levels, the loggers) holds the list's lock, and tells each registered site anew.
//!
//! The list's lock is taken first, then that of a logger's levels. A handle of a logger is dropped under neither, since the last
//! one closes its log. Calls take no lock: they read the loggers as they were put there last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwapOption, Guard};

use crate::category::is_below;
use crate::error::{Error, ErrorKind, Result};
use crate::level_table::LevelTable;
use crate::levels::check_prefix;
use crate::logger::Logger;
use crate::site::Site;

static SITES: Mutex<Vec<&'static Site>> = Mutex::new(Vec::new());

/// Changed under the lock of the sites only.
static TARGETS: ArcSwapOption<Vec<Target>> = ArcSwapOption::const_empty();

/// Who takes the calls of some categories. Places in the list are never used again: a site may still mean one.
#[derive(Clone)]
struct Target {
    /// Categories below it are meant.
    prefix: String,
    /// `None` once it is given up.
    logger: Option<Logger>,
}

/// All registered sites. Whoever holds this may change what they know.
fn sites() -> MutexGuard<'static, Vec<&'static Site>> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The loggers as they are now.
#[inline]
fn targets() -> Guard<Option<Arc<Vec<Target>>>> {
    TARGETS.load()
}

fn list(targets: &Guard<Option<Arc<Vec<Target>>>>) -> &[Target] {
    targets.as_deref().map_or(&[], Vec::as_slice)
}

/// The global logger, if one is set.
pub(crate) fn global() -> Option<Logger> {
    list(&targets()).iter().find(|target| target.prefix.is_empty() && target.logger.is_some())?.logger.clone()
}

/// Gives the logger that takes the calls of a site to `take`; `None` if there is none.
#[inline]
pub(crate) fn with_target<R>(site: &Site, take: impl FnOnce(&Logger) -> R) -> Option<R> {
    let targets = targets();
    targets.as_deref()?.get(site.target())?.logger.as_ref().map(take)
}

/// Takes a site into the list, gives it its number, and tells it who takes its calls.
#[cold]
pub(crate) fn register(site: &'static Site) {
    let mut sites = sites();
    if site.number() == 0 {
        sites.push(site);
        site.set_number(u32::try_from(sites.len()).unwrap_or(u32::MAX));
    }
    tell(&[site], list(&targets()));
}

fn tell(sites: &[&'static Site], targets: &[Target]) {
    for site in sites {
        let category = site.category();
        let takes = |(_, target): &(usize, &Target)| target.logger.is_some() && is_below(&category, &target.prefix);
        let target = targets.iter().enumerate().filter(takes).max_by_key(|(_, target)| target.prefix.len());
        let is_on = target
            .and_then(|(_, target)| target.logger.as_ref())
            .is_some_and(|logger| logger.logs(site.level, &category));
        site.set_target(target.map_or(usize::MAX, |(place, _)| place), is_on);
    }
}

/// Makes a change to the levels of a logger; if calls without `logger:` go to it, each site knows of it when this returns.
pub(crate) fn change_levels(levels: &LevelTable, change: impl FnOnce() -> Result<()>) -> Result<()> {
    let sites = sites();
    change()?;
    let targets = targets();
    if list(&targets).iter().filter_map(|target| target.logger.as_ref()).any(|logger| logger.has_levels(levels)) {
        tell(&sites, list(&targets));
    }
    Ok(())
}

/// Makes `logger` the one that calls without `logger:` of the categories below `prefix` go to.
pub(crate) fn set(prefix: &str, logger: &Logger) -> Result<GlobalGuard> {
    let prefix = check_prefix(prefix)?;
    let sites = sites();
    let mut targets = list(&targets()).to_vec();
    if targets.iter().any(|target| target.prefix == prefix && target.logger.is_some()) {
        let text = if prefix.is_empty() {
            "a global logger is set already: set one only, at the start of the program, and keep its guard".to_owned()
        } else {
            format!("the category {prefix} has a logger of its own already: drop the guard of that first")
        };
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    targets.push(Target { prefix: prefix.into_owned(), logger: Some(logger.clone()) });
    let guard = GlobalGuard { logger: logger.clone(), place: targets.len() - 1 };
    tell(&sites, &targets);
    TARGETS.store(Some(Arc::new(targets)));
    Ok(guard)
}

/// Keeps a logger the global one, or that of a category. When it is dropped, calls without `logger:` no longer go to it, and
/// what they have logged is flushed, for as long as [`LoggerBuilder::drop_wait`](crate::LoggerBuilder::drop_wait) says.
#[must_use = "calls go to the logger for as long as this lives: bind it to a name, `let _guard = ..`"]
#[derive(Debug)]
pub struct GlobalGuard {
    logger: Logger,
    /// Its place among the targets.
    place: usize,
}

impl Drop for GlobalGuard {
    fn drop(&mut self) {
        let sites = sites();
        let mut targets = list(&targets()).to_vec();
        if let Some(target) = targets.get_mut(self.place) {
            target.logger = None;
        }
        tell(&sites, &targets);
        let before = TARGETS.swap(Some(Arc::new(targets)));
        drop(sites);
        drop(before);
        // Best effort: who needs to know calls flush or close.
        let _ = self.logger.flush(self.logger.drop_wait());
    }
}
