//! The settings of a logger, and its opening.

mod settings;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Engine, Floors};
use crate::entry::Level;
use crate::error::{Error, Result};
use crate::floor::Floor;
use crate::level_table::{LevelTable, Outlets};
use crate::levels::Levels;
use crate::log::Log;
use crate::logger::{Logger, OnError};
use crate::mirror::{Form, Mirror};
use crate::open::make_directory;
use crate::options::{Clock, Options, RingOptions, SyncPolicy, WhenFull};
use crate::recovery::refuse_out_of_reach;
use crate::render::Render;
use crate::storage::Storage;
use crate::synchronous::Synchronous;
use crate::writer::Writer;

use settings::Setting;

/// How long a logger that is dropped waits for its log to be closed, unless
/// [`drop_wait`](LoggerBuilder::drop_wait) says otherwise: enough for a sync on a slow disk, and a program that ends does not
/// seem to hang.
const DROP_WAIT: Duration = Duration::from_secs(2);

/// Settings of a [`Logger`].
///
/// What the methods of its options set is what the program says; of several calls for one option the last holds. Options may be set
/// by name, too: a file goes before the program, the environment before that, a command line before all
/// ([`options_from_args`](LoggerBuilder::options_from_args)), in whatever order they are called.
#[must_use = "settings do nothing before `open`"]
pub struct LoggerBuilder {
    dir: PathBuf,
    options: Options,
    rings: RingOptions,
    is_synchronous: bool,
    levels: Levels,
    sync_at: Levels,
    kept: Levels,
    stored: Levels,
    mirror_stderr: Option<Level>,
    mirror_form: Option<Form>,
    on_error: Option<OnError>,
    drop_wait: Duration,
    /// What was set by name; it goes before the rest.
    settings: Vec<Setting>,
}

impl LoggerBuilder {
    pub(crate) fn new(dir: &Path) -> LoggerBuilder {
        LoggerBuilder {
            dir: dir.to_owned(),
            options: Options::default(),
            rings: RingOptions::default(),
            is_synchronous: false,
            levels: Levels::new(),
            sync_at: Levels::new(),
            kept: Levels::new(),
            stored: Levels::new(),
            mirror_stderr: None,
            mirror_form: None,
            on_error: None,
            drop_wait: DROP_WAIT,
            settings: Vec::new(),
        }
    }

    /// Takes all options of the writer; the methods below that set one of them go by what comes last.
    pub fn options(mut self, options: Options) -> LoggerBuilder {
        self.options = options;
        self
    }

    /// The least level that is logged of all categories without a setting; `None` for nothing. Default `Info`.
    pub fn level(mut self, level: impl Into<Option<Level>>) -> LoggerBuilder {
        // The empty prefix is always one.
        let _ = self.levels.set("", level);
        self
    }

    /// Takes the levels of all categories that `levels` sets.
    pub fn levels(mut self, levels: &Levels) -> LoggerBuilder {
        self.levels.overlay(levels);
        self
    }

    /// Sets [`Options::roll_bytes`].
    pub fn roll_bytes(mut self, bytes: u64) -> LoggerBuilder {
        self.options.roll_bytes = bytes;
        self
    }

    /// Sets [`Retention::keep_bytes`](crate::Retention::keep_bytes).
    pub fn keep_bytes(mut self, bytes: u64) -> LoggerBuilder {
        self.options.retention.keep_bytes = Some(bytes);
        self
    }

    /// What was logged is synced at most this long after it. Default: 1 s.
    pub fn sync_interval(mut self, interval: Duration) -> LoggerBuilder {
        self.options.sync = SyncPolicy::Interval(interval);
        self
    }

    /// Calls of this level and above return after the sync that covers them: what they log survives a power cut. A [`Level`]
    /// is for all categories, [`Levels`] are for some; what comes later adds to what came before. Default: none.
    ///
    /// ```
    /// use logtool::{Level, Levels, Logger};
    ///
    /// let payments: Levels = "shop.pay=info,shop.pay.probe=off".parse()?;
    /// let builder = Logger::builder("/var/log/shop").sync_at(Level::Error).sync_at(payments);
    /// # drop(builder);
    /// # Ok::<(), logtool::Error>(())
    /// ```
    pub fn sync_at(mut self, levels: impl Into<Levels>) -> LoggerBuilder {
        self.sync_at.overlay(&levels.into());
        self
    }

    /// Calls of this level and above are kept as long as [`when_full`](LoggerBuilder::when_full) says; those below give way:
    /// while more than half of their thread's ring waits to be written they are dropped at once, and counted as those that find
    /// no room. So the other half is there for what matters. For all categories or some, as
    /// [`sync_at`](LoggerBuilder::sync_at). Default: all are kept. A synchronous logger has no rings, and keeps all.
    pub fn keep_under_pressure(mut self, levels: impl Into<Levels>) -> LoggerBuilder {
        self.kept.overlay(&levels.into());
        self
    }

    /// The log stores entries of this level and above; those below are only shown, if
    /// [`mirror_stderr`](LoggerBuilder::mirror_stderr) shows them: for what helps who watches, and nobody later. They have no
    /// number, and nothing is dropped. What is neither stored nor shown is not logged, whatever its
    /// [`level`](LoggerBuilder::level). For all categories or some, as [`sync_at`](LoggerBuilder::sync_at). Default: all are
    /// stored.
    pub fn store_from(mut self, levels: impl Into<Levels>) -> LoggerBuilder {
        self.stored.overlay(&levels.into());
        self
    }

    /// Shows entries of this level and above on standard error too, one line each, control characters escaped. A terminal or
    /// a pipe that is not read from stops the calls that log them. Default: none.
    pub fn mirror_stderr(mut self, level: Level) -> LoggerBuilder {
        self.mirror_stderr = Some(level);
        self
    }

    /// How [`mirror_stderr`](LoggerBuilder::mirror_stderr) shows entries: what `form` makes of each is written as it is, with a
    /// newline behind it. It works one entry at a time, in the calls that log them; what it logs itself is not shown, and its
    /// panics are caught. Default: [`UtcLines`](crate::render::UtcLines), with control characters escaped.
    pub fn mirror_render(mut self, form: impl Render + Send + 'static) -> LoggerBuilder {
        self.mirror_form = Some(Box::new(form));
        self
    }

    /// Is called with what goes wrong: at the first failure of a call, and again when it fails for another reason or fails
    /// after it has worked; the same for the work in the background. It runs on the thread that met the failure, with nothing
    /// locked, and may log, but neither flush nor close. Its panics are caught.
    pub fn on_error(mut self, tell: impl Fn(&Error) + Send + Sync + 'static) -> LoggerBuilder {
        self.on_error = Some(Arc::new(tell));
        self
    }

    /// How long the logger waits for its log to be closed when its last handle is dropped, and to be flushed when it is no
    /// longer the global one. Default: 2 s.
    pub fn drop_wait(mut self, wait: Duration) -> LoggerBuilder {
        self.drop_wait = wait;
        self
    }

    /// What a call does whose thread's ring is full. Default: it waits for up to 10 ms; then the entry is dropped and counted.
    pub fn when_full(mut self, when_full: WhenFull) -> LoggerBuilder {
        self.rings.when_full = when_full;
        self
    }

    /// Takes all options of the rings; the methods that set one of them go by what comes last.
    pub fn rings(mut self, options: RingOptions) -> LoggerBuilder {
        self.rings = options;
        self
    }

    /// Sets [`RingOptions::ring_dir`]; [`open`](LoggerBuilder::open) makes the directory if it is not there, unless a run that was
    /// killed since the machine was started has its rings in one that is not there.
    pub fn ring_dir(mut self, dir: impl Into<PathBuf>) -> LoggerBuilder {
        self.rings.ring_dir = Some(dir.into());
        self
    }

    /// Keeps the rings in the memory of the process: a `kill -9` then loses what was not written yet, some milliseconds. For
    /// file systems that can't keep rings.
    pub fn memory_rings(mut self) -> LoggerBuilder {
        self.rings.in_memory = true;
        self
    }

    /// What stamps the entries. Default: the processor's time stamp counter.
    pub fn clock(mut self, clock: Clock) -> LoggerBuilder {
        self.rings.clock = clock;
        self
    }

    /// Has each call write its entry to the operating system before it returns, with neither rings nor a backend: some
    /// microseconds a call.
    pub fn synchronous(mut self) -> LoggerBuilder {
        self.is_synchronous = true;
        self
    }

    /// Opens the log to write, and makes it if it is not there.
    ///
    /// # Errors
    /// As [`Writer::open`]; `Io` too where no rings can be made.
    pub fn open(self) -> Result<Logger> {
        let builder = self.settled();
        let storage = make_directory(&builder.dir, &builder.options)?;
        if let Some(ring_dir) =
            builder.rings.ring_dir.as_ref().filter(|_| !builder.is_synchronous && !builder.rings.in_memory)
        {
            // To make it would hide that the one with the last run's rings is not there. After a reboot it may have gone for good.
            refuse_out_of_reach(&storage, Some(storage.boot_id()))?;
            make_directory(ring_dir, &builder.options)?;
        }
        builder.open_on(storage)
    }

    /// As [`open`](LoggerBuilder::open), over any storage; the directory is only a name for error texts. One whose files are not
    /// the system's can't have rings: [`memory_rings`](LoggerBuilder::memory_rings) or
    /// [`synchronous`](LoggerBuilder::synchronous).
    ///
    /// # Errors
    /// As there.
    pub fn open_on(self, storage: Arc<dyn Storage>) -> Result<Logger> {
        let this = self.settled();
        let stored = Arc::new(Floor::new(&this.stored, Some(Level::Trace)));
        let outlets = Outlets { stored: Arc::clone(&stored), mirrored: this.mirror_stderr };
        let levels = Arc::new(LevelTable::new(this.levels, outlets));
        let sync_at = Floor::new(&this.sync_at, None);
        let log = if this.is_synchronous {
            let writer = Writer::open_on(storage, this.options)?;
            Log::Synchronous(Synchronous::start(writer, this.dir, sync_at, this.on_error)?)
        } else {
            let floors = Floors { sync_at, kept: Floor::new(&this.kept, Some(Level::Trace)) };
            let level_table = Arc::clone(&levels);
            Log::Engine(Engine::open(storage, this.options, &this.rings, level_table, floors, this.on_error)?)
        };
        let mirror = this.mirror_stderr.map(|level| Mirror::stderr(level, stored, this.mirror_form));
        Ok(Logger::start(levels, log, mirror, this.drop_wait))
    }
}

impl fmt::Debug for LoggerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggerBuilder").field("dir", &self.dir).field("options", &self.options).finish_non_exhaustive()
    }
}
