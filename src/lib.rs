//! A log that survives its program, and can prove what is there.
//!
//! Each entry is framed with its length, two checksums and a sequence number, in segments that are rolled and never written
//! behind a torn end. So a reader can say for each number whether its entry is there, was dropped by policy, was removed by
//! retention, or is lost, and to what.
//!
//! ```
//! use logtool::{Item, LogReader, Options, Writer, clock};
//!
//! # let dir = std::env::temp_dir().join(format!("logtool-doc-{}", std::process::id()));
//! let mut writer = Writer::open(&dir, Options::new().roll_bytes(64 << 20))?;
//! writer.line(b"listening on 0.0.0.0:80", 0, clock::now_ns())?;
//! writer.flush()?; // from here on the line survives kill -9
//! writer.sync()?; // and from here on a power cut
//! writer.close()?;
//!
//! let mut reader = LogReader::open(&dir)?;
//! while let Some(item) = reader.next_item()? {
//!     match item {
//!         Item::Entry(entry) => println!("{} {}", entry.seq, String::from_utf8_lossy(entry.body)),
//!         Item::Finding(finding) => println!("lost: {finding:?}"),
//!         Item::Note(_) => {}
//!     }
//! }
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok::<(), logtool::Error>(())
//! ```
//!
//! # Logging from a program
//! ```
//! use logtool::{Category, Logger, debug_enabled, info};
//!
//! static NET: Category = Category::new("net.http");
//!
//! # let dir = std::env::temp_dir().join(format!("logtool-doc-calls-{}", std::process::id()));
//! let log = Logger::builder(&dir).levels_from_env("SHOP_LOG")?.open()?; // "info,net=trace"
//! let _guard = log.set_global()?;
//! let (addr, id) = ("0.0.0.0:80", 7);
//! info!("listening on {addr}");                              // text, and a field `addr`
//! info!(user = id; "request done");                          // a field that is not part of the text
//! info!(logger: log, category: NET, "GET {} {:>5.1}", "/a", 1.25);
//! if debug_enabled!(NET) { /* what only a debug entry needs */ }
//! # drop(_guard);
//! # log.close(std::time::Duration::from_secs(5))?;
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok::<(), logtool::Error>(())
//! ```
//!
//! ## What a log call takes
//! In front of the message, each with a comma behind it, in any order:
//! - `logger: E`: the [`Logger`] to log to, behind any pointer; without it the [global](Logger::set_global) one, or that of its
//!   [category](Logger::set_for_category), and nothing while there is none.
//! - `category: C`: a `static` [`Category`] or a string literal; without it the module.
//! - `every: N`: of the calls that its level lets through, the first and then each N-th one is logged (N is a constant).
//! - `name = value, ..;`, as the `log` crate writes them: fields that are not part of the text. `name` alone takes the variable
//!   of that name, `"any text" = value` another name. A value is kept by its type where it is a number, text, bytes, `bool`,
//!   `char`, `Duration`, `SystemTime` or an `Option` of these, otherwise as its Display shows it; as its Debug does with
//!   `name:? = value`.
//!
//! Then a format string and its arguments, all that `format!` takes. Names of arguments and captured variables become fields.
//!
//! A call that is not logged costs one load and one branch, and evaluates nothing but the logger. What is logged is not
//! formatted: numbers and texts are stored as they are and formatted by whoever reads them, byte for byte as `format!` would
//! have done; only values of other types are formatted in the call. A Display that logs has its entry first; one that panics
//! leaves none; where one returns an error, `format!` would panic, and here the text says so.
//!
//! Calls below a level can be left out of a program altogether by the features `max_level_LEVEL`, and `release_max_level_LEVEL`
//! for builds without debug assertions.
//!
//! # Where to look
//! - Logging: [`Logger`] and its [builder](LoggerBuilder), [`info!`] and its like, [`Levels`], [`Category`]. Watching: [`Metrics`].
//! - Writing by hand: [`Writer`], [`Options`]. Reading: [`LogReader`], [`Follower`]. Judging: [`verify()`], `repair`.
//! - Text forms of entries, also of one's own: [`render`].
//! - The format: [`mod@format`]. What a reader says besides entries: [`finding`]. How it decides: [`verdict`].
//! - All file access goes through [`storage`], so that tests can put a failing or crashing disk under it ([`storage_sim`]).
//!
//! # What is promised
//! An entry is accepted once its log call has returned, or of a `Writer` once `flush` has (with `sync`: once that has). On a
//! local file system:
//! 1. Accepted entries survive the end of the process, kill -9 included, each once, in order.
//! 2. Synced entries survive a power cut, as far as the disk keeps its word.
//! 3. Every missing number is reported with its range and its class; where nothing tells, as unknown, never as sound.
//! 4. Damage never makes a reader give an altered, invented, repeated or reordered entry, but for a chance of 2^-32 a frame,
//!    and not against somebody who forges frames.
//! 5. Repair removes no valid frame and no segment, and saves what it cuts.
//! 6. Readers open read-only, take no lock that a writer needs, and work on a live log.
//!
//! A `Writer` is synchronous: `flush` makes system calls on the calling thread. A [`Logger`] is not: a log call puts its entry
//! into a ring of its thread's own, in a shared file mapping, without a lock, a system call or an allocation. A thread of the
//! library's own, the backend, makes frames of what is in the rings, in the order in which it was logged, and writes them.
//!
//! Of 20,000 calls of one thread, counted by `strace -ff`, 63 system calls: those of the thread's start and end, 20 writes that
//! make its ring, and 23 of waits for room, as the backend is traced too, and slow.
//!
//! # At the end of the process
//! What is in the rings when the process ends, by whatever means, is in the page cache and so in the file `*.ring` beside the
//! segments (or where [`ring_dir`](LoggerBuilder::ring_dir) says): the next writer, `logtool repair` and all readers find it
//! there. No handler for fatal signals is needed, and there is none: it could only run on a broken process's stack, and what it
//! would save is safe already. A panic is logged like anything else, by a hook of the program's own. With
//! [`memory_rings`](LoggerBuilder::memory_rings) this promise is lost.
//!
//! A process made by fork has a copy of the rings that is not its own: log calls there are refused.

mod active;
mod ahead;
mod batch;
pub mod block;
mod builder;
mod bytes;
mod capture;
mod category;
mod check;
pub mod clean_copy;
pub mod clock;
pub mod control;
mod crc;
mod engine;
pub mod entry;
mod error;
pub mod escape;
pub mod finding;
mod floor;
pub mod follow;
pub mod format;
mod format_value;
pub mod frame;
mod global;
mod home;
pub mod json;
mod level_table;
mod levels;
mod links;
mod log;
mod logger;
mod macros;
pub mod metrics;
mod mirror;
mod open;
pub mod options;
mod overlay;
mod panics;
pub mod plain_copy;
#[doc(hidden)]
pub mod private;
pub mod reader;
mod record;
mod recovery;
pub mod render;
mod render_lines;
pub mod repair;
mod repair_apply;
mod repair_plan;
pub mod report;
mod rescue;
pub mod retention;
mod ring;
#[doc(hidden)]
pub mod ring_builder;
mod roll;
mod running_levels;
pub mod scan;
mod seal;
pub mod segment;
mod sim_disk;
mod site;
mod sites;
pub mod snapshot;
pub mod stat;
pub mod state;
mod stats;
pub mod storage;
pub mod storage_os;
pub mod storage_sim;
mod sync;
mod synchronous;
mod template;
mod thread;
mod told;
mod told_metrics;
pub mod value;
pub mod verdict;
pub mod verify;
pub mod walk;
pub mod writer;

pub use builder::LoggerBuilder;
pub use category::Category;
pub use entry::{CallSite, Entry, Level};
pub use error::{Error, ErrorKind, Result};
pub use finding::{Fault, Finding, Loss, Note, NoteKind, SeqRange};
pub use follow::{Cursor, Follower, Start, StopFd, Woken};
pub use global::GlobalGuard;
pub use levels::Levels;
pub use logger::{Logger, Refused};
pub use metrics::Metrics;
pub use options::{Clock, Compression, KeepFree, Options, Retention, RingOptions, SyncPolicy, WhenFull};
pub use panics::log_panics;
pub use reader::{LogReader, is_log_dir, snapshot_of};
pub use report::Report;
pub use running_levels::{RunningLevels, running_levels, set_running_levels};
pub use snapshot::{RingInfo, Snapshot};
pub use stat::LogStat;
pub use stats::{DropCounts, LoggerStats, RefusedCounts, Timing, WriterStats};
pub use told_metrics::{ToldMetrics, told_metrics};
pub use verify::{VerifyOptions, verify};
pub use walk::Item;
pub use writer::Writer;
