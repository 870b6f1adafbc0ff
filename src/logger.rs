//! The logger that the log macros write to: levels by category, hand-over to the log, deadlines.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::builder::LoggerBuilder;
use crate::capture::KeptList;
use crate::entry::Level;
use crate::error::{Error, ErrorKind, Result};
use crate::global::{self, GlobalGuard};
use crate::level_table::LevelTable;
use crate::levels::Levels;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::mirror::Mirror;
use crate::site::Site;
use crate::stats::LoggerStats;

/// A log that the macros write to: [`info!`](crate::info) and the like. Clones are handles of the same log.
///
/// A call puts its entry into its thread's ring; once it has returned the entry survives the end of the process. It is in the
/// file within some 25 ms. What happened before in the program stands before in the file, whatever threads logged it. What one
/// thread logs is in the log in its order.
///
/// ```
/// use logtool::{Level, Logger, debug, info, try_error};
/// use std::time::Duration;
///
/// # let dir = std::env::temp_dir().join(format!("logtool-doc-logger-{}", std::process::id()));
/// let log = Logger::builder(&dir).level(Level::Info).levels_from_env("SHOP_LOG")?.open()?;
/// let _guard = log.set_global()?;
/// let (id, path) = (7, "/a");
/// info!("GET {path} for {id}");              // text, and fields `path` and `id`
/// info!(user = id; "request done");          // a field that is not part of the text
/// debug!("{}", format!("{path:?}"));         // below the level: evaluates nothing
/// log.set_level("shop.db", Level::Trace)?;   // by prefix, while running
/// if let Err(refused) = try_error!("card declined") {
///     eprintln!("not logged: {refused}");
/// }
/// println!("{}", log.close(Duration::from_secs(5))?);
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), logtool::Error>(())
/// ```
#[derive(Clone)]
pub struct Logger(Arc<Inner>);

/// Takes an error of the log, see [`LoggerBuilder::on_error`].
pub(crate) type OnError = Arc<dyn Fn(&Error) + Send + Sync>;

struct Inner {
    levels: Arc<LevelTable>,
    log: Log,
    mirror: Option<Mirror>,
    drop_wait: Duration,
}

/// Why an entry was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Refused {
    /// The logger was closed, or belongs to the process that this one was forked from.
    Closed,
    /// The thread's ring was full for as long as [`WhenFull`](crate::WhenFull) says.
    Full,
    /// The disk has no room. Of a synchronous logger the entry may still be written once there is some, unless the process
    /// ends before.
    NoSpace,
    /// The system failed to write. Of a synchronous logger the entry may still be written later, unless the process ends
    /// before.
    Io,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Closed => "the logger was closed",
            Refused::Full => "the log did not keep up",
            Refused::NoSpace => "no space left for the log",
            Refused::Io => "the log could not be written",
        })
    }
}

impl std::error::Error for Refused {}

impl Refused {
    pub(crate) fn of(error: &Error) -> Refused {
        match error.kind() {
            ErrorKind::Closed => Refused::Closed,
            ErrorKind::NoSpace => Refused::NoSpace,
            _ => Refused::Io,
        }
    }

    pub(crate) fn from_u8(number: u8) -> Refused {
        [Refused::Full, Refused::NoSpace, Refused::Io]
            .into_iter()
            .find(|&kind| kind as u8 == number)
            .unwrap_or(Refused::Full)
    }
}

/// What a call gives that logged nothing because it need not.
pub const ACCEPTED: std::result::Result<(), Refused> = Ok(());

impl Logger {
    /// Settings of a logger for the log in `dir`, which is made if it is not there.
    pub fn builder(dir: impl AsRef<Path>) -> LoggerBuilder {
        LoggerBuilder::new(dir.as_ref())
    }

    pub(crate) fn start(levels: Arc<LevelTable>, log: Log, mirror: Option<Mirror>, drop_wait: Duration) -> Logger {
        Logger(Arc::new(Inner { levels, log, mirror, drop_wait }))
    }

    /// Makes this the logger of all calls without `logger:`, until the guard is dropped. Before that they do nothing.
    ///
    /// # Errors
    /// `Invalid` if there is a global logger already.
    pub fn set_global(&self) -> Result<GlobalGuard> {
        global::set("", self)
    }

    /// Makes this the logger of the calls without `logger:` of all categories below `prefix`, whatever the global logger is,
    /// until the guard is dropped. Of several prefixes the longest holds. Its levels are its own.
    ///
    /// # Errors
    /// `Invalid` if `prefix` has a logger already, or is no name of a category.
    pub fn set_for_category(&self, prefix: &str) -> Result<GlobalGuard> {
        global::set(prefix, self)
    }

    /// The global logger, if one is set.
    pub fn global() -> Option<Logger> {
        global::global()
    }

    /// Sets the least level that is logged of all categories below `prefix`, from now on; `None` for nothing. The empty
    /// prefix means all categories that have no setting of their own.
    ///
    /// # Errors
    /// `Invalid` if `prefix` is no name of a category.
    pub fn set_level(&self, prefix: &str, level: impl Into<Option<Level>>) -> Result<()> {
        let level = level.into();
        self.0.levels.change(|levels| levels.set(prefix, level))
    }

    /// The levels as they are set now.
    pub fn levels(&self) -> Levels {
        self.0.levels.levels()
    }

    /// Has all that was logged before written to the segments, where other processes see it.
    ///
    /// # Errors
    /// `TimedOut` if `wait` is over first: it goes on in the background. `Closed` after [`close`](Logger::close). Otherwise
    /// what the system says; all is kept and tried again.
    pub fn flush(&self, wait: Duration) -> Result<()> {
        self.0.log.flush(wait)
    }

    /// Brings all that was logged to stable storage: it then survives a power cut.
    ///
    /// # Errors
    /// As [`flush`](Logger::flush).
    pub fn sync(&self, wait: Duration) -> Result<()> {
        self.0.log.sync(wait)
    }

    /// Flushes, syncs and seals the log, and ends it for all handles. Returns what was done, also if it was closed before.
    ///
    /// # Errors
    /// As [`flush`](Logger::flush); the log is then still open, and another call tries again.
    pub fn close(&self, wait: Duration) -> Result<LoggerStats> {
        self.0.log.close(wait)
    }

    /// What was done, and what went wrong.
    pub fn stats(&self) -> LoggerStats {
        self.0.log.stats()
    }

    /// Figures for whoever watches the log: what was done, how long it took, what waits, what went wrong.
    /// [`Metrics::to_prometheus`] gives their text form; `logtool stat --prometheus` shows them from outside.
    pub fn metrics(&self) -> Metrics {
        self.0.log.metrics()
    }

    #[cfg(test)]
    pub(crate) fn log_for_tests(&self) -> &Log {
        &self.0.log
    }

    pub(crate) fn drop_wait(&self) -> Duration {
        self.0.drop_wait
    }

    /// Whether these are its levels.
    pub(crate) fn has_levels(&self, levels: &LevelTable) -> bool {
        std::ptr::eq(&*self.0.levels, levels)
    }

    /// Whether this level of this category is logged.
    pub(crate) fn logs(&self, level: Level, category: &str) -> bool {
        self.0.levels.logs(level, category)
    }

    /// Hands an entry to the log.
    #[inline]
    fn hand_over<L: KeptList>(&self, site: &'static Site, kept: &L) -> std::result::Result<(), Refused> {
        self.0.log.take(site, kept, self.0.mirror.as_ref())
    }
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger").field("dir", &self.0.log.path()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Best effort: who needs to know calls close.
        let _ = self.log.close(self.drop_wait);
    }
}

impl Site {
    /// Whether this logger logs this call.
    #[inline]
    pub fn is_enabled_in(&'static self, logger: &Logger) -> bool {
        logger.0.levels.enables(self)
    }

    /// Logs to the global logger of its category.
    #[inline(never)]
    pub fn log<L: KeptList>(&'static self, kept: &L) {
        // Who needs to know calls `try_info!` and the like; failures are counted.
        let _ = self.try_log(kept);
    }

    /// Logs to the global logger of its category, and tells whether that took it.
    ///
    /// # Errors
    /// Why it did not.
    #[inline(never)]
    pub fn try_log<L: KeptList>(&'static self, kept: &L) -> std::result::Result<(), Refused> {
        global::with_target(self, |logger| logger.hand_over(self, kept)).unwrap_or(ACCEPTED)
    }

    /// Logs to this logger.
    #[inline(never)]
    pub fn log_to<L: KeptList>(&'static self, logger: &Logger, kept: &L) {
        // As in `log`.
        let _ = logger.hand_over(self, kept);
    }

    /// Logs to this logger, and tells whether it took it.
    ///
    /// # Errors
    /// Why it did not.
    #[inline(never)]
    pub fn try_log_to<L: KeptList>(&'static self, logger: &Logger, kept: &L) -> std::result::Result<(), Refused> {
        logger.hand_over(self, kept)
    }
}

const _: () = {
    const fn is_shared<T: Send + Sync + Clone + 'static>() {}
    is_shared::<Logger>();
};
