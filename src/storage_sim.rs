//! A disk in memory, for tests: it fails where it is told to, fills up, and crashes into any state that a real one may be
//! in afterwards.
//!
//! Each file has two images. The live one is what reads show. The durable one is what a sync has brought to the disk; writes
//! since then are kept one by one, and a power cut ([`SimStorage::power_cut`]) lets a choice of them through: none, all, a
//! prefix, all but one, some with a sector torn, or their length with zeros for content. Names are durable once the directory
//! is synced; those that are not may come or go one by one. A sync that fails loses what it should have synced, as Linux
//! does: it can still be read, but no later sync brings it to the disk. After [`SimStorage::kill`] the live image is there,
//! as after SIGKILL.
//!
//! Everything follows from the calls and the seed. A thread that panics while it holds the disk does not stop the others.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use crate::sim_disk::{Call, Fault};
use crate::sim_disk::{Change, Disk, Inode, Rule};
use crate::storage::{ReadAt, Space, Storage, StorageEntry, StorageFile};

/// A log directory on a disk in memory. Files in another one have their whole path for a name, as in `/rings/a`.
#[derive(Clone, Debug)]
pub struct SimStorage {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    /// Whether it is such another one.
    is_elsewhere: bool,
}

impl Default for SimStorage {
    fn default() -> SimStorage {
        SimStorage::new()
    }
}

impl SimStorage {
    /// An empty disk without faults or limit.
    pub fn new() -> SimStorage {
        SimStorage::with(Disk { boot: 1, ..Disk::default() })
    }

    fn with(disk: Disk) -> SimStorage {
        SimStorage { disk: Arc::new(Mutex::new(disk)), path: PathBuf::from("/sim"), is_elsewhere: false }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a file on the disk.
    fn key(&self, name: &str) -> String {
        if self.is_elsewhere { self.path.join(name).to_string_lossy().into_owned() } else { name.to_owned() }
    }

    /// The storage as the library takes it.
    pub fn shared(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    /// Calls made so far.
    pub fn calls(&self) -> u64 {
        self.disk().calls
    }

    /// Calls of one kind made so far.
    pub fn calls_of(&self, call: Call) -> u64 {
        self.disk().counts.get(&call).copied().unwrap_or(0)
    }

    /// All calls so far, with the name of the file.
    pub fn log(&self) -> Vec<(Call, String)> {
        self.disk().log.clone()
    }

    /// From now on, lets `skip` calls (of this kind, or of any) through and has the next `times` fail.
    pub fn fail(&self, call: Option<Call>, skip: u64, times: u64, fault: Fault) {
        self.disk().rules.push(Rule { call, skip, times, fault });
    }

    /// Forgets all faults.
    pub fn heal(&self) {
        self.disk().rules.clear();
    }

    /// After `calls` calls in all, every call does nothing and fails, as if the process had died.
    pub fn stop_after(&self, calls: u64) {
        self.disk().stop_after = Some(calls);
    }

    /// Limits the bytes of all files together; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk().capacity = bytes;
    }

    /// Bytes of all files together.
    pub fn used(&self) -> u64 {
        self.disk().used()
    }

    /// The live content of a file.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk();
        disk.names.get(name).and_then(|number| disk.inodes.get(number)).map(|inode| inode.live.clone())
    }

    /// Puts a file there, durably, as something else than the library would.
    pub fn put(&self, name: &str, content: &[u8]) {
        let mut disk = self.disk();
        let number = disk.next_inode;
        disk.next_inode += 1;
        let (live, durable) = (content.to_vec(), content.to_vec());
        disk.inodes.insert(number, Inode { live, durable, ..Inode::default() });
        disk.names.insert(name.to_owned(), number);
        disk.durable_names.insert(name.to_owned(), number);
    }

    /// Takes a file away, durably.
    pub fn delete(&self, name: &str) {
        let mut disk = self.disk();
        disk.names.remove(name);
        disk.durable_names.remove(name);
    }

    /// The disk as the next process finds it after this one was killed: everything handed over is there, no lock is held,
    /// the boot is the same. This storage is left as it is.
    pub fn kill(&self) -> SimStorage {
        let mut disk = self.disk().clone();
        disk.inodes.values_mut().for_each(|inode| inode.is_locked = false);
        disk.forget_faults();
        SimStorage::with(disk)
    }

    /// The disk after a power cut, in one of the states that it may be in, chosen by `seed`: 0 keeps nothing that was not
    /// synced, 1 everything. This storage is left as it is.
    pub fn power_cut(&self, seed: u64) -> SimStorage {
        let mut disk = self.disk().clone();
        disk.cut_power(seed);
        SimStorage::with(disk)
    }

    fn file(&self, number: u64, name: &str, is_writable: bool) -> Arc<dyn StorageFile> {
        Arc::new(SimFile {
            disk: Arc::clone(&self.disk),
            number,
            name: name.to_owned(),
            is_writable,
            holds_lock: Mutex::new(false),
        })
    }
}

impl Storage for SimStorage {
    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> io::Result<Vec<StorageEntry>> {
        let mut disk = self.disk();
        disk.begin(Call::List, "")?;
        let folder = if self.is_elsewhere { self.key("") } else { String::new() };
        let inside = disk.names.iter().filter_map(|(name, number)| Some((name.strip_prefix(&folder)?, number)));
        let mut entries: Vec<StorageEntry> = inside
            .filter(|(name, _)| !name.contains('/'))
            .map(|(name, number)| StorageEntry { name: name.to_owned(), bytes: disk.len_of(*number), is_file: true })
            .collect();
        if !self.is_elsewhere && disk.names.keys().any(|name| name.starts_with("quarantine/")) {
            entries.push(StorageEntry { name: "quarantine".into(), bytes: 0, is_file: false });
        }
        entries.sort();
        Ok(entries)
    }

    fn list_quarantine(&self) -> io::Result<Vec<StorageEntry>> {
        let mut disk = self.disk();
        disk.begin(Call::List, "quarantine")?;
        let inside = disk.names.iter().filter_map(|(name, number)| Some((name.strip_prefix("quarantine/")?, *number)));
        Ok(inside
            .map(|(name, number)| StorageEntry { name: name.to_owned(), bytes: disk.len_of(number), is_file: true })
            .collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let name = &self.key(name);
        let mut disk = self.disk();
        disk.begin(Call::Create, name)?;
        if disk.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = disk.next_inode;
        disk.next_inode += 1;
        disk.inodes.insert(number, Inode::default());
        disk.names.insert(name.to_owned(), number);
        drop(disk);
        Ok(self.file(number, name, true))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let name = &self.key(name);
        let mut disk = self.disk();
        disk.begin(Call::Open, name)?;
        let number = disk.number_of(name)?;
        drop(disk);
        Ok(self.file(number, name, false))
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let name = &self.key(name);
        let mut disk = self.disk();
        disk.begin(Call::Open, name)?;
        let number = disk.number_of(name)?;
        drop(disk);
        Ok(self.file(number, name, true))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let name = &self.key(name);
        let mut disk = self.disk();
        disk.begin(Call::Remove, name)?;
        disk.number_of(name)?;
        disk.names.remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (&self.key(from), &self.key(to));
        let mut disk = self.disk();
        disk.begin(Call::Rename, from)?;
        let number = disk.number_of(from)?;
        disk.names.remove(from);
        disk.names.insert(to.clone(), number);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.begin(Call::SyncDir, "")?;
        disk.durable_names = disk.names.clone();
        Ok(())
    }

    fn space(&self) -> io::Result<Space> {
        let disk = self.disk();
        let total = disk.capacity.unwrap_or(1 << 40);
        Ok(Space { free: total.saturating_sub(disk.used()), total })
    }

    fn elsewhere(&self, dir: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(SimStorage { disk: Arc::clone(&self.disk), path: dir.to_owned(), is_elsewhere: true }))
    }

    fn boot_id(&self) -> [u8; 16] {
        u128::from(self.disk().boot).to_be_bytes()
    }
}

/// An open file of a [`SimStorage`].
#[derive(Debug)]
struct SimFile {
    disk: Arc<Mutex<Disk>>,
    number: u64,
    name: String,
    is_writable: bool,
    holds_lock: Mutex<bool>,
}

impl SimFile {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, call: Call) -> io::Result<(MutexGuard<'_, Disk>, Option<Fault>)> {
        let mut disk = self.disk();
        if call != Call::Read && !self.is_writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let fault = disk.begin(call, &self.name)?;
        Ok((disk, fault))
    }
}

impl ReadAt for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (mut disk, _) = self.begin(Call::Read)?;
        disk.inode(self.number)?.live.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk().len_of(self.number))
    }
}

impl StorageFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (mut disk, fault) = self.begin(Call::Write)?;
        let room = disk.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(disk.used()));
        let inode = disk.inode(self.number)?;
        let most = (inode.live.len() as u64).saturating_add(room).saturating_sub(offset);
        let mut count = bytes.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(Fault::Short(len) | Fault::ShortThen(len, _)) = fault {
            count = count.min(len);
        }
        if count > 0 {
            let change = Change::Write { offset: offset as usize, bytes: bytes[..count].to_vec() };
            change.apply(&mut inode.live);
            inode.changes.push(change);
        }
        match fault {
            Some(Fault::ShortThen(_, kind)) => {
                // The bytes count as written; the call after this one fails.
                disk.rules.insert(0, Rule { call: Some(Call::Write), skip: 0, times: 1, fault: Fault::Error(kind) });
                Ok(count)
            }
            _ => Ok(count),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut disk, _) = self.begin(Call::SetLen)?;
        let inode = disk.inode(self.number)?;
        let change = Change::SetLen(len as usize);
        change.apply(&mut inode.live);
        inode.changes.push(change);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let begun = self.begin(Call::Sync).map(drop);
        let mut disk = self.disk();
        if disk.stop_after.is_some_and(|limit| disk.calls >= limit) && begun.is_err() {
            return begun;
        }
        let inode = disk.inode(self.number)?;
        let changes = std::mem::take(&mut inode.changes);
        if begun.is_ok() {
            changes.iter().for_each(|change| change.apply(&mut inode.durable));
        }
        begun
    }

    fn allocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        self.begin(Call::Allocate).map(drop)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut disk = self.disk();
        let inode = disk.inode(self.number)?;
        if inode.is_locked {
            return Ok(false);
        }
        inode.is_locked = true;
        *self.holds_lock.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(true)
    }

    fn is_locked(&self) -> io::Result<bool> {
        let own = *self.holds_lock.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.disk().inode(self.number)?.is_locked && !own)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if *self.holds_lock.lock().unwrap_or_else(PoisonError::into_inner)
            && let Ok(inode) = self.disk().inode(self.number)
        {
            inode.is_locked = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_chooses_of_the_rest() {
        let sim = SimStorage::new();
        let file = sim.create("a").unwrap();
        file.write_at(b"synced", 0).unwrap();
        file.sync().unwrap();
        sim.sync_dir().unwrap();
        file.write_at(b"1", 6).unwrap();
        file.write_at(b"2", 7).unwrap();
        sim.create("b").unwrap();
        assert_eq!(sim.power_cut(0).content("a").unwrap(), b"synced");
        assert_eq!(sim.power_cut(0).content("b"), None);
        assert_eq!(sim.power_cut(1).content("a").unwrap(), b"synced12");
        assert_eq!(sim.kill().content("a").unwrap(), b"synced12");
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let after = sim.power_cut(seed);
            assert_eq!(after.content("a"), sim.power_cut(seed).content("a"), "seed {seed}");
            seen.insert((after.content("a").unwrap(), after.content("b").is_some()));
        }
        let contents = [&b"synced"[..], b"synced1", b"synced12", b"synced\x002", b"synced\0\0"];
        for content in contents {
            assert!(seen.iter().any(|(found, _)| found == content), "{content:?} in {seen:?}");
        }
        assert!(seen.iter().any(|(_, with_b)| *with_b) && seen.iter().any(|(_, with_b)| !*with_b));
    }

    #[test]
    fn a_failed_sync_loses_what_no_later_sync_brings_back() {
        let sim = SimStorage::new();
        let file = sim.create("a").unwrap();
        sim.sync_dir().unwrap();
        file.write_at(b"lost", 0).unwrap();
        sim.fail(Some(Call::Sync), 0, 1, Fault::Error(io::ErrorKind::Other));
        assert!(file.sync().is_err());
        assert_eq!(sim.content("a").unwrap(), b"lost");
        file.write_at(b"kept", 4).unwrap();
        file.sync().unwrap();
        assert_eq!(sim.power_cut(1).content("a").unwrap(), b"\0\0\0\0kept");
    }

    #[test]
    fn faults_hit_the_calls_that_they_name() {
        let sim = SimStorage::new();
        let file = sim.create("a").unwrap();
        sim.fail(Some(Call::Write), 1, 1, Fault::Short(2));
        assert_eq!(file.write_at(b"abcd", 0).unwrap(), 4);
        assert_eq!(file.write_at(b"abcd", 4).unwrap(), 2);
        assert_eq!(file.write_at(b"abcd", 6).unwrap(), 4);
        sim.set_capacity(Some(12));
        assert_eq!(file.write_at(b"xyz", 10).unwrap(), 2);
        assert_eq!(file.write_at(b"z", 12).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.write_at(b"over", 0).unwrap(), 4);
        sim.stop_after(sim.calls());
        assert!(file.write_at(b"x", 0).is_err() && sim.list().is_err());
        assert_eq!(sim.content("a").unwrap().len(), 12);
    }

    #[test]
    fn a_lock_has_one_holder_until_it_is_closed() {
        let sim = SimStorage::new();
        let (first, second) = (sim.create("lock").unwrap(), sim.open_write("lock").unwrap());
        assert!(first.try_lock().unwrap() && !second.try_lock().unwrap());
        assert!(second.is_locked().unwrap());
        drop(first);
        assert!(!second.is_locked().unwrap() && second.try_lock().unwrap());
    }
}
