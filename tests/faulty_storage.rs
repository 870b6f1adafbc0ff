//! A directory of the system whose file system fails as a test says: rings need files that can be mapped, which the disk in
//! memory has none of.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use logtool::storage::{ReadAt, Space, Storage, StorageEntry, StorageFile};
use logtool::storage_os::OsStorage;

/// What the file system does.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// It says of itself, but not of another one, that it can't keep rings.
    pub(crate) is_unfit: AtomicBool,
    /// Whether its files count as full at `bytes_max`.
    pub(crate) is_full: AtomicBool,
    /// Bytes of all files of the directory together, from which on none grows.
    pub(crate) bytes_max: AtomicU64,
}

/// A directory on it.
#[derive(Debug)]
pub(crate) struct Faulty {
    os: OsStorage,
    faults: Arc<Faults>,
}

impl Faulty {
    pub(crate) fn over(dir: &Path) -> (Arc<dyn Storage>, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        (Arc::new(Faulty { os: OsStorage::new(dir, 0o640), faults: Arc::clone(&faults) }), faults)
    }

    fn wrap(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(FaultyFile { file, os: self.os.clone(), faults: Arc::clone(&self.faults) })
    }
}

/// From now on no file grows over what there is now and `room` bytes.
pub(crate) fn fill(dir: &Path, faults: &Faults, room: u64) {
    let bytes: u64 = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    faults.bytes_max.store(bytes + room, Ordering::Relaxed);
    faults.is_full.store(true, Ordering::Relaxed);
}

impl Storage for Faulty {
    fn unfit_for_rings(&self) -> io::Result<Option<String>> {
        let is_unfit = self.faults.is_unfit.load(Ordering::Relaxed);
        Ok(is_unfit.then(|| "a file system of this test promises nothing".to_owned()))
    }

    fn elsewhere(&self, dir: &Path) -> io::Result<Arc<dyn Storage>> {
        self.os.elsewhere(dir)
    }

    fn path(&self) -> &Path {
        self.os.path()
    }

    fn list(&self) -> io::Result<Vec<StorageEntry>> {
        self.os.list()
    }

    fn list_quarantine(&self) -> io::Result<Vec<StorageEntry>> {
        self.os.list_quarantine()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.os.create(name).map(|file| self.wrap(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.os.open(name)
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.os.open_write(name).map(|file| self.wrap(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.os.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.os.rename(from, to)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.os.sync_dir()
    }

    fn space(&self) -> io::Result<Space> {
        self.os.space()
    }

    fn boot_id(&self) -> [u8; 16] {
        self.os.boot_id()
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn StorageFile>,
    os: OsStorage,
    faults: Arc<Faults>,
}

impl ReadAt for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl StorageFile for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let grows = (offset + bytes.len() as u64).saturating_sub(self.file.len()?);
        if grows > 0 && self.faults.is_full.load(Ordering::Relaxed) {
            let used: u64 = self.os.list()?.iter().map(|entry| entry.bytes).sum();
            if used + grows > self.faults.bytes_max.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn is_locked(&self) -> io::Result<bool> {
        self.file.is_locked()
    }

    fn as_file(&self) -> Option<&File> {
        self.file.as_file()
    }
}
