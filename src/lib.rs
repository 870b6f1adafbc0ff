//! logtool: a log that survives its program.

pub mod block;
mod bytes;
pub mod clock;
pub mod control;
pub mod entry;
mod error;
pub mod format;
pub mod frame;
pub mod scan;
pub mod segment;
pub mod storage;
pub mod storage_os;
pub mod value;

pub use entry::{CallSite, Entry, Level};
pub use error::{Error, ErrorKind, Result};
