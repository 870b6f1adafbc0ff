//! The storage seam: all file I/O of the library goes through these traits, so that tests can put a disk under it that
//! fails, fills up, or crashes.
//!
//! A [`Storage`] is one log directory. Names are relative to it; `quarantine/NAME` is the only form with a folder.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes that can be read at any place.
pub trait ReadAt {
    /// Reads into `buffer` from byte `offset` on; returns how much, 0 at the end. May read less than asked for.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Length in bytes, now.
    ///
    /// # Errors
    /// What the system says.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are no bytes, now.
    ///
    /// # Errors
    /// As [`len`](ReadAt::len).
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Reads until `buffer` is full or the end is reached; returns how much.
    ///
    /// # Errors
    /// What the system says, but for an interrupted call, which is made again.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// An open file of a log.
pub trait StorageFile: ReadAt + Send + Sync + fmt::Debug {
    /// Writes at byte `offset`, which may be past the end; returns how much, which may be less than asked for.
    ///
    /// # Errors
    /// What the system says.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes the file `len` bytes long.
    ///
    /// # Errors
    /// What the system says.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Brings content and length to stable storage (fdatasync).
    ///
    /// # Errors
    /// What the system says; the unsynced content may then be lost although it can still be read.
    fn sync(&self) -> io::Result<()>;

    /// Reserves space for `len` bytes from `offset` on, without changing the length of the file. File systems that can't
    /// are no error.
    ///
    /// # Errors
    /// No space.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Takes an exclusive lock on the file, held until it is closed. Returns whether it was free.
    ///
    /// # Errors
    /// What the system says.
    fn try_lock(&self) -> io::Result<bool>;

    /// Whether somebody else holds the lock. Takes none.
    ///
    /// # Errors
    /// What the system says.
    fn is_locked(&self) -> io::Result<bool>;

    /// The file of the operating system, if it is one: only such a file can be mapped.
    fn as_file(&self) -> Option<&File> {
        None
    }
}

/// One name in a log directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorageEntry {
    /// File name.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether it is a regular file.
    pub is_file: bool,
}

/// Room on a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What this user may still write.
    pub free: u64,
    /// Size of the file system.
    pub total: u64,
}

/// One log directory.
pub trait Storage: Send + Sync + fmt::Debug {
    /// The directory, for messages.
    fn path(&self) -> &Path;

    /// All names in the directory, sorted.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<StorageEntry>>;

    /// All names in the directory, in no order, without a look at each file.
    ///
    /// # Errors
    /// What the system says.
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.list()?.into_iter().map(|entry| entry.name).collect())
    }

    /// All names in `quarantine/`, sorted; none if there is no such folder.
    ///
    /// # Errors
    /// What the system says.
    fn list_quarantine(&self) -> io::Result<Vec<StorageEntry>>;

    /// Makes a new file, open for reading and writing; makes the folder `quarantine` where the name needs it.
    ///
    /// # Errors
    /// `AlreadyExists`, and what the system says.
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens a file for reading. Never waits, whatever stands there.
    ///
    /// # Errors
    /// `InvalidInput` for what is no regular file, and what the system says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// As [`open`](Storage::open).
    fn open_write(&self, name: &str) -> io::Result<Arc<dyn StorageFile>>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name, in place of what has it.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Brings the names of the directory, and of `quarantine/`, to stable storage.
    ///
    /// # Errors
    /// What the system says.
    fn sync_dir(&self) -> io::Result<()>;

    /// Room on the file system.
    ///
    /// # Errors
    /// What the system says.
    fn space(&self) -> io::Result<Space>;

    /// Another directory of the same system, which need not exist: where the rings may stand.
    ///
    /// # Errors
    /// `Unsupported` for a storage that has none.
    fn elsewhere(&self, dir: &Path) -> io::Result<Arc<dyn Storage>> {
        let _ = dir;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Why the file system can't keep rings; `None` if it can.
    ///
    /// # Errors
    /// What the system says.
    fn unfit_for_rings(&self) -> io::Result<Option<String>> {
        Ok(None)
    }

    /// The boot of this machine, so that a reboot can be told from a kill.
    fn boot_id(&self) -> [u8; 16];
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_slice().read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(Vec::len(self) as u64)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }
}
