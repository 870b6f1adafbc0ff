//! Where a follower stands, and the file that keeps it over restarts.
//!
//! The file is one line of text, `logtool-cursor 1 log 7f3a91c20d55e8b1 seq 8412906`. It is replaced as a whole, so that
//! a reader finds the old line or the new one, whenever the machine stops.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// A place in a log: everything up to a number has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The log.
    pub log_id: u64,
    /// Last number that was given or accounted for; 0 before the first.
    pub seq: u64,
}

/// Longest cursor file that is looked at, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "logtool-cursor 1 log {:016x} seq {}", self.log_id, self.seq)
    }
}

impl Cursor {
    /// Reads what [`Display`](fmt::Display) writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Cursor> {
        let rest = text.trim_end().strip_prefix("logtool-cursor 1 log ")?;
        let (log, seq) = rest.split_once(" seq ")?;
        let digits = log.len() == 16 && !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
        let log_id = u64::from_str_radix(log, 16).ok().filter(|_| digits)?;
        Some(Cursor { log_id, seq: seq.parse().ok()? })
    }

    /// Reads a cursor file; `None` if there is none.
    ///
    /// # Errors
    /// `Invalid` for a file that holds something else; `Io` where it can't be read.
    pub fn load(path: &Path) -> Result<Option<Cursor>> {
        let wrong = || Error::new(ErrorKind::Invalid, "no cursor file of logtool: name another, or remove it").at(path);
        let failed = |error| Error::io("cannot open the cursor file", error).at(path);
        match fs::metadata(path) {
            // Opening a pipe would wait for somebody to write to it.
            Ok(metadata) if !metadata.is_file() => return Err(wrong()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            looked_at => looked_at.map_err(failed)?,
        };
        let file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        let read = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| Error::io("cannot read the cursor file", error).at(path))?;
        let cursor = std::str::from_utf8(&bytes).ok().and_then(Cursor::parse);
        cursor.map(Some).ok_or_else(wrong)
    }

    /// Makes sure that a cursor file can be written at `path`, before anything is given that it is to tell of.
    ///
    /// # Errors
    /// `Io` and `NoSpace`.
    pub fn check_path(path: &Path) -> Result<()> {
        let beside = beside(path);
        let tried = write_synced(&beside, "\n").and_then(|()| fs::remove_file(&beside));
        tried.map_err(|error| Error::io("cannot write the cursor file", error).at(path))
    }

    /// Replaces the cursor file: written beside, synced, renamed.
    ///
    /// # Errors
    /// `Io` and `NoSpace`; the file then holds what it held before.
    pub fn store(&self, path: &Path) -> Result<()> {
        let beside = beside(path);
        let written = write_synced(&beside, &format!("{self}\n")).and_then(|()| fs::rename(&beside, path));
        written.map_err(|error| {
            // What is left of it is in nobody's way.
            let _ = fs::remove_file(&beside);
            Error::io("cannot write the cursor file", error).at(path)
        })
    }
}

/// `path` with an ending of its own: in the same directory, so that it can be renamed.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_and_nothing_else_is_one() {
        let cursor = Cursor { log_id: 0x7f3a, seq: u64::MAX };
        assert_eq!(Cursor::parse(&format!("{cursor}\n")), Some(cursor));
        for text in ["", "logtool-cursor 1 log 7f3a seq 1", "logtool-cursor 2 log 0000000000007f3a seq 1", "x"] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
        assert_eq!(Cursor::parse("logtool-cursor 1 log 0000000000007f3a seq -1"), None);
    }
}
