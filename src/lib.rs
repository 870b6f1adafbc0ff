//! logtool: a log that survives its program.

mod active;
mod batch;
pub mod block;
mod bytes;
pub mod clock;
pub mod control;
pub mod entry;
mod error;
pub mod finding;
pub mod format;
pub mod frame;
mod open;
pub mod options;
pub mod reader;
mod rescue;
pub mod retention;
mod roll;
pub mod scan;
pub mod segment;
pub mod snapshot;
pub mod state;
pub mod storage;
pub mod storage_os;
mod sync;
pub mod value;
pub mod verdict;
pub mod walk;
pub mod writer;

pub use entry::{CallSite, Entry, Level};
pub use error::{Error, ErrorKind, Result};
pub use finding::{Fault, Finding, Loss, Note, NoteKind, SeqRange};
pub use options::{Compression, KeepFree, Options, Retention, SyncPolicy};
pub use reader::{LogReader, is_log_dir, snapshot_of};
pub use snapshot::Snapshot;
pub use walk::Item;
pub use writer::{Writer, WriterStats};
