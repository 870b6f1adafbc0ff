//! A directory that goes away under the writer, and comes back.
//!
//! The file stays open, so nothing is lost while the process lives; but what is written to it can be read by nobody. So
//! once that is noticed, flushes are refused, and as soon as the directory is there again the whole segment is put back
//! under its name: the same bytes, so every frame stays valid.

use std::io;
use std::path::Path;

use crate::active::write_whole;
use crate::error::{Error, Result};
use crate::open::take_lock;
use crate::rescue::RESCUE_NAME;
use crate::state::writer_pid;
use crate::writer::Writer;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

impl Writer {
    /// Whether the active segment can be reached under its name: at least as long as what was written to it.
    fn is_home(&self) -> bool {
        match self.storage.open(&self.active.name).and_then(|file| file.len()) {
            Ok(len) => len >= self.active.end,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Notices that the file is gone.
    pub(crate) fn look_for_home(&mut self) {
        self.is_homeless = self.is_homeless || !self.is_home();
    }

    /// Puts the active segment back if its directory has gone and come back.
    pub(crate) fn come_home(&mut self) -> Result<()> {
        if !self.is_homeless {
            return Ok(());
        }
        if !self.is_home() {
            self.collect_sync(true);
            self.put_back_all().map_err(|error| self.noted(error))?;
            self.stats.segments_rescued += 1;
            self.write_state();
        }
        self.is_homeless = false;
        Ok(())
    }

    fn put_back_all(&mut self) -> Result<()> {
        let gone = |what: &str, error: io::Error, path: &Path| Error::io(what, error).at(path);
        let dir = self.storage.path().to_path_buf();
        self.storage
            .list()
            .map_err(|error| gone("the log's directory is gone; what is logged waits until it is back", error, &dir))?;
        self.take_lock_again()?;
        self.put_back().map_err(|error| {
            let _ = self.storage.remove(RESCUE_NAME);
            let what = "the segment being written is gone from its directory and cannot be put back";
            gone(what, error, &dir.join(&self.active.name))
        })
    }

    /// The lock file may have gone with the directory.
    fn take_lock_again(&mut self) -> Result<()> {
        let holder = writer_pid(&*self.storage)
            .map_err(|error| Error::io("cannot read the lock", error).at(self.storage.path()))?;
        if holder == Some(std::process::id()) {
            return Ok(());
        }
        self.lock = Some(take_lock(&*self.storage)?);
        Ok(())
    }

    fn put_back(&mut self) -> io::Result<()> {
        match self.storage.remove(RESCUE_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.storage.create(RESCUE_NAME)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut offset = 0;
        while offset < self.active.end {
            let len = (self.active.end - offset).min(COPY_BYTES as u64) as usize;
            let read = self.active.file.read_full_at(&mut buffer[..len], offset)?;
            if read < len {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was cut short"));
            }
            write_whole(&*file, &buffer[..len], offset)?;
            offset += len as u64;
        }
        file.sync()?;
        self.storage.rename(RESCUE_NAME, &self.active.name)?;
        self.storage.sync_dir()?;
        self.active.file = file;
        (self.active.dirty_end, self.active.allocated) = (self.active.end, self.active.end);
        Ok(())
    }
}
