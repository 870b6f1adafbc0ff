//! A directory as it would be with a few files more: those are in memory, the directory is only read.
//!
//! It is what a reader recovers rings on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::storage::{ReadAt, Space, Storage, StorageEntry, StorageFile};

/// Bytes in memory at most: beyond that it is as a full disk.
const MEMORY_BYTES_MAX: usize = 1 << 30;

type Files = BTreeMap<String, Arc<MemoryFile>>;

/// A directory that is only read, under files in memory. Locks are free, and syncs do nothing.
#[derive(Debug)]
pub(crate) struct OverlayStorage {
    base: Arc<dyn Storage>,
    files: Mutex<Files>,
    /// Files of the directory that count as removed.
    removed: Mutex<BTreeSet<String>>,
}

impl OverlayStorage {
    pub(crate) fn new(base: Arc<dyn Storage>) -> OverlayStorage {
        OverlayStorage { base, files: Mutex::default(), removed: Mutex::default() }
    }

    /// The same files over the directory as it is, with nothing removed.
    pub(crate) fn over_all(&self) -> OverlayStorage {
        OverlayStorage { files: Mutex::new(self.files().clone()), ..OverlayStorage::new(Arc::clone(&self.base)) }
    }

    fn is_in_base(&self, name: &str) -> bool {
        !self.removed.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory_file(&self, name: &str) -> Option<Arc<dyn StorageFile>> {
        self.files().get(name).map(|file| Arc::clone(file) as Arc<dyn StorageFile>)
    }
}

impl Storage for OverlayStorage {
    fn path(&self) -> &Path {
        self.base.path()
    }

    fn list(&self) -> io::Result<Vec<StorageEntry>> {
        let mut entries = self.base.list()?;
        let files = self.files();
        entries.retain(|entry| !files.contains_key(&entry.name) && self.is_in_base(&entry.name));
        entries.extend(files.iter().map(|(name, file)| StorageEntry {
            name: name.clone(),
            bytes: file.bytes().len() as u64,
            is_file: true,
        }));
        entries.sort();
        Ok(entries)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.base.names()?;
        let files = self.files();
        names.retain(|name| !files.contains_key(name) && self.is_in_base(name));
        names.extend(files.keys().cloned());
        Ok(names)
    }

    fn list_quarantine(&self) -> io::Result<Vec<StorageEntry>> {
        self.base.list_quarantine()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let mut files = self.files();
        if files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(MemoryFile::default());
        files.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        match self.memory_file(name) {
            Some(file) => Ok(file),
            None if self.is_in_base(name) => self.base.open(name),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.memory_file(name).ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }

    /// Removes a file in memory. One of the directory stays, and is no longer seen here.
    fn remove(&self, name: &str) -> io::Result<()> {
        if self.files().remove(name).is_none() {
            self.open(name)?;
            self.removed.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or(io::ErrorKind::PermissionDenied)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn space(&self) -> io::Result<Space> {
        self.base.space()
    }

    fn elsewhere(&self, dir: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(OverlayStorage::new(self.base.elsewhere(dir)?)))
    }

    fn boot_id(&self) -> [u8; 16] {
        self.base.boot_id()
    }
}

/// A file in memory.
#[derive(Debug, Default)]
struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
}

impl MemoryFile {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.bytes().read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }
}

impl StorageFile for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut content = self.bytes();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = from.saturating_add(bytes.len());
        if end > MEMORY_BYTES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if end > content.len() {
            content.resize(end, 0);
        }
        content[from..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).ok().filter(|&len| len <= MEMORY_BYTES_MAX).ok_or(io::ErrorKind::StorageFull)?;
        self.bytes().resize(len, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn is_locked(&self) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage_sim::SimStorage;

    #[test]
    fn files_in_memory_stand_over_a_directory_that_is_not_changed() {
        let sim = SimStorage::new();
        sim.put("a", b"base");
        let overlay = OverlayStorage::new(sim.shared());
        let file = overlay.create("tmp").unwrap();
        file.write_at(b"new", 2).unwrap();
        overlay.rename("tmp", "b").unwrap();
        assert_eq!(overlay.names().unwrap(), ["a", "b"]);
        let listed = overlay.list().unwrap();
        assert_eq!((listed[1].name.as_str(), listed[1].bytes), ("b", 5));
        let later = overlay.over_all();
        overlay.remove("b").unwrap();
        let mut bytes = [9; 8];
        assert_eq!(later.open("b").unwrap().read_full_at(&mut bytes, 0).unwrap(), 5);
        assert_eq!(&bytes[..5], b"\0\0new");
        assert!(overlay.open_write("a").is_err() && overlay.rename("a", "c").is_err());
        overlay.remove("a").unwrap();
        assert!(overlay.open("a").is_err() && overlay.remove("a").is_err() && overlay.names().unwrap().is_empty());
        assert_eq!(later.open("a").unwrap().len().unwrap(), 4);
        assert_eq!(sim.kill().names().unwrap(), ["a"]);
        assert_eq!(file.set_len(1 << 40).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
