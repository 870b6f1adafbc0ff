//! A log directory in memory, as fast as a fuzzer needs it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use logtool::storage::{ReadAt, Space, Storage, StorageEntry, StorageFile};

/// Bytes that a file may have: what headers that lie claim must not fill the memory.
const DISK_BYTES: usize = 8 << 20;

/// A file. Counts what is read of it.
#[derive(Debug, Default)]
pub struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    locked: bool,
    read_bytes: AtomicU64,
}

/// A directory of such files.
#[derive(Debug, Default)]
pub struct MemoryStorage {
    files: Mutex<BTreeMap<String, Arc<MemoryFile>>>,
}

impl MemoryStorage {
    /// An empty directory.
    pub fn new() -> Arc<MemoryStorage> {
        Arc::default()
    }

    /// Puts a file there; `locked`: another process holds its lock.
    pub fn put(&self, name: &str, bytes: Vec<u8>, locked: bool) {
        let file = MemoryFile { bytes: Mutex::new(bytes), locked, read_bytes: AtomicU64::new(0) };
        self.files.lock().unwrap().insert(name.to_owned(), Arc::new(file));
    }

    /// All files with their content.
    pub fn content(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.files.lock().unwrap();
        files.iter().map(|(name, file)| (name.clone(), file.bytes.lock().unwrap().clone())).collect()
    }

    /// Bytes read so far, of all files that are still there.
    pub fn read_bytes(&self) -> u64 {
        self.files.lock().unwrap().values().map(|file| file.read_bytes.load(Ordering::Relaxed)).sum()
    }

    fn find(&self, name: &str) -> io::Result<Arc<MemoryFile>> {
        self.files.lock().unwrap().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl ReadAt for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.bytes.lock().unwrap().read_at(buffer, offset)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
}

impl StorageFile for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut content = self.bytes.lock().unwrap();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        if start.saturating_add(bytes.len()) > DISK_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let len = content.len().max(start + bytes.len());
        content.resize(len, 0);
        content[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > DISK_BYTES as u64 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(!self.locked)
    }

    fn is_locked(&self) -> io::Result<bool> {
        Ok(self.locked)
    }
}

impl Storage for MemoryStorage {
    fn path(&self) -> &Path {
        Path::new("/memory")
    }

    fn list(&self) -> io::Result<Vec<StorageEntry>> {
        let files = self.files.lock().unwrap();
        let names = files.iter().filter(|(name, _)| !name.contains('/'));
        names.map(|(name, file)| Ok(StorageEntry { name: name.clone(), bytes: file.len()?, is_file: true })).collect()
    }

    fn list_quarantine(&self) -> io::Result<Vec<StorageEntry>> {
        let files = self.files.lock().unwrap();
        let names = files.iter().filter_map(|(name, file)| Some((name.strip_prefix("quarantine/")?, file)));
        names.map(|(name, file)| Ok(StorageEntry { name: name.into(), bytes: file.len()?, is_file: true })).collect()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        if self.find(name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.put(name, Vec::new(), false);
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.find(name).map(|file| file as Arc<dyn StorageFile>)
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.open(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().unwrap().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { free: 1 << 30, total: 1 << 30 })
    }

    fn boot_id(&self) -> [u8; 16] {
        [7; 16]
    }
}
