//! logtool: a log that survives its program.

pub mod block;
mod bytes;
pub mod clock;
pub mod control;
pub mod entry;
mod error;
pub mod finding;
pub mod format;
pub mod frame;
pub mod reader;
pub mod scan;
pub mod segment;
pub mod snapshot;
pub mod state;
pub mod storage;
pub mod storage_os;
pub mod value;
pub mod verdict;
pub mod walk;

pub use entry::{CallSite, Entry, Level};
pub use error::{Error, ErrorKind, Result};
pub use finding::{Fault, Finding, Loss, Note, NoteKind, SeqRange};
pub use reader::{LogReader, is_log_dir, snapshot_of};
pub use snapshot::Snapshot;
pub use walk::Item;
