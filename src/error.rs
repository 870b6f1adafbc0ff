//! The library's one error: a kind to match on, and a text that says what, where and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for code that must decide; never match on the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused: the source says why.
    Io,
    /// No space, no quota, or the file size limit: the same call may succeed once there is room.
    NoSpace,
    /// The path holds nothing that this library wrote.
    NotALog,
    /// Written by a version of the format that this library does not know.
    Version,
    /// Another process (or another part of this one) writes this log.
    Locked,
    /// The file is damaged so far that it could not be used at all.
    Damaged,
    /// The caller asked for something that cannot be.
    Invalid,
    /// The writer was closed, or has failed for good.
    Closed,
    /// It took longer than the caller would wait; it goes on in the background.
    TimedOut,
}

/// An error with its kind, and the path and the byte offset where they are known.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    source: Option<Arc<io::Error>>,
}

impl Error {
    /// An error of `kind` whose text says what is wrong and what to do about it.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into(), path: None, offset: None, source: None }))
    }

    /// An error of the operating system while doing `what` ("cannot read", "cannot create").
    pub fn io(what: impl Into<String>, source: io::Error) -> Error {
        let kind = if is_no_space(&source) { ErrorKind::NoSpace } else { ErrorKind::Io };
        let mut error = Error::new(kind, what);
        error.0.source = Some(Arc::new(source));
        error
    }

    /// The same error, told of `path`. The first path told stays.
    #[must_use]
    pub fn at(mut self, path: impl AsRef<Path>) -> Error {
        self.0.path.get_or_insert_with(|| path.as_ref().to_owned());
        self
    }

    /// The same error, told of a byte offset in its file.
    #[must_use]
    pub fn at_byte(mut self, offset: u64) -> Error {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file or directory concerned.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Whether the system said that there is no such file.
    pub fn is_not_found(&self) -> bool {
        let source = std::error::Error::source(self).and_then(|source| source.downcast_ref::<io::Error>());
        source.is_some_and(|source| source.kind() == io::ErrorKind::NotFound)
    }

    /// The byte offset in that file.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The text without the path: what is wrong, where in the file, what to do, and the system's words.
    pub fn message(&self) -> String {
        let mut text = self.0.message.clone();
        if let Some(offset) = self.0.offset {
            text.push_str(&format!(" (byte {offset})"));
        }
        if let Some(source) = &self.0.source {
            text.push_str(&format!(": {source}"));
        }
        text
    }
}

/// Whether the system said that there is no room: disk full, or quota used up. A file that reached its size limit is none
/// of that: another file has room.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", path.display())?;
        }
        f.write_str(&self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_path_byte_and_system_words() {
        let error = Error::io("cannot read", io::Error::other("broken wire")).at("/a/b").at_byte(7);
        assert_eq!(error.to_string(), "/a/b: cannot read (byte 7): broken wire");
        assert_eq!(error.kind(), ErrorKind::Io);
    }

    #[test]
    fn full_disk_has_a_kind_of_its_own() {
        let error = Error::io("cannot write", io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(error.kind(), ErrorKind::NoSpace);
    }
}
