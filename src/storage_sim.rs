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

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::storage::{ReadAt, Space, Storage, StorageEntry, StorageFile};

/// Sizes of what a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// A call that changes or reads the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// [`Storage::list`] and [`Storage::list_quarantine`].
    List,
    /// [`Storage::create`].
    Create,
    /// [`Storage::open`] and [`Storage::open_write`].
    Open,
    /// [`Storage::remove`].
    Remove,
    /// [`Storage::rename`].
    Rename,
    /// [`Storage::sync_dir`].
    SyncDir,
    /// [`ReadAt::read_at`].
    Read,
    /// [`StorageFile::write_at`].
    Write,
    /// [`StorageFile::set_len`].
    SetLen,
    /// [`StorageFile::sync`].
    Sync,
    /// [`StorageFile::allocate`].
    Allocate,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// With this error; nothing is done.
    Error(io::ErrorKind),
    /// A write writes only so many bytes and says so (0: it accepts nothing).
    Short(usize),
    /// A write writes so many bytes and then fails: the next call would have told.
    ShortThen(usize, io::ErrorKind),
}

/// Which calls a fault hits.
#[derive(Clone, Copy, Debug)]
struct Rule {
    call: Option<Call>,
    /// Calls (of that kind) that are let through before.
    skip: u64,
    /// Calls that then fail; `u64::MAX` for all.
    times: u64,
    fault: Fault,
}

/// What a file has gone through since it was last synced.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                image.resize(image.len().max(end), 0);
                image[*offset..end].copy_from_slice(bytes);
            }
            Change::SetLen(len) => image.resize(*len, 0),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    changes: Vec<Change>,
    is_locked: bool,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    calls: u64,
    counts: BTreeMap<Call, u64>,
    rules: Vec<Rule>,
    /// Calls after this many do nothing and fail: the process is dead.
    stop_after: Option<u64>,
    capacity: Option<u64>,
    boot: u64,
    log: Vec<(Call, String)>,
}

impl Disk {
    fn used(&self) -> u64 {
        self.names.values().filter_map(|inode| self.inodes.get(inode)).map(|inode| inode.live.len() as u64).sum()
    }

    /// Counts a call; an error if it is to fail, or how it is to be cut short.
    fn begin(&mut self, call: Call, name: &str) -> io::Result<Option<Fault>> {
        if self.stop_after.is_some_and(|limit| self.calls >= limit) {
            return Err(io::Error::other("the process is dead"));
        }
        self.calls += 1;
        *self.counts.entry(call).or_default() += 1;
        self.log.push((call, name.to_owned()));
        let mut hit = None;
        for rule in self.rules.iter_mut().filter(|rule| rule.call.is_none_or(|of| of == call)) {
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if rule.times > 0 && hit.is_none() {
                rule.times = rule.times.saturating_sub(u64::from(rule.times != u64::MAX));
                hit = Some(rule.fault);
            }
        }
        match hit {
            Some(Fault::Error(kind)) => Err(kind.into()),
            other => Ok(other),
        }
    }

    fn inode(&mut self, number: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn number_of(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A log directory on a disk in memory.
#[derive(Clone, Debug)]
pub struct SimStorage {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
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
        SimStorage { disk: Arc::new(Mutex::new(disk)), path: PathBuf::from("/sim") }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut choice = Choice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed));
        let fixed = match seed {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let names: Vec<String> = disk.names.keys().chain(disk.durable_names.keys()).cloned().collect();
        for name in names {
            let (live, durable) = (disk.names.get(&name).copied(), disk.durable_names.get(&name).copied());
            if live != durable && fixed.unwrap_or_else(|| choice.coin()) {
                match live {
                    Some(number) => disk.durable_names.insert(name, number),
                    None => disk.durable_names.remove(&name),
                };
            }
        }
        for inode in disk.inodes.values_mut() {
            let changes = std::mem::take(&mut inode.changes);
            match fixed {
                Some(false) => {}
                Some(true) => changes.iter().for_each(|change| change.apply(&mut inode.durable)),
                None => choice.let_through(&changes, &mut inode.durable),
            }
            inode.live.clone_from(&inode.durable);
            inode.is_locked = false;
        }
        disk.names.clone_from(&disk.durable_names);
        let named: Vec<u64> = disk.names.values().copied().collect();
        disk.inodes.retain(|number, _| named.contains(number));
        disk.boot += 1;
        disk.forget_faults();
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

impl Disk {
    fn forget_faults(&mut self) {
        self.rules.clear();
        self.stop_after = None;
        (self.calls, self.counts) = (0, BTreeMap::new());
        self.log.clear();
    }
}

/// Choices that follow from a seed (splitmix64).
struct Choice(u64);

impl Choice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// A number below `limit`; 0 if there is none.
    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit.max(1)
    }

    /// Applies some of the changes that were not synced.
    fn let_through(&mut self, changes: &[Change], image: &mut Vec<u8>) {
        match self.below(7) {
            0 => {}
            1 => changes.iter().for_each(|change| change.apply(image)),
            2 => {
                let count = self.below(changes.len() + 1);
                changes[..count].iter().for_each(|change| change.apply(image));
            }
            3 => {
                let lost = self.below(changes.len());
                let kept = changes.iter().enumerate().filter(|(number, _)| *number != lost);
                kept.for_each(|(_, change)| change.apply(image));
            }
            4 => changes.iter().filter(|_| self.coin()).for_each(|change| change.apply(image)),
            5 => {
                let count = self.below(changes.len());
                changes[..count].iter().for_each(|change| change.apply(image));
                if let Some(Change::Write { offset, bytes }) = changes.get(count) {
                    let sectors = self.below(bytes.len() / SECTOR_BYTES + 1);
                    let kept = bytes[..sectors * SECTOR_BYTES].to_vec();
                    Change::Write { offset: *offset, bytes: kept }.apply(image);
                }
            }
            _ => {
                let kept = self.below(changes.len() + 1);
                changes[..kept].iter().for_each(|change| change.apply(image));
                // The length of the rest arrived, its content did not.
                let len = changes[kept..].iter().fold(image.len(), |len, change| match change {
                    Change::Write { offset, bytes } => len.max(offset + bytes.len()),
                    Change::SetLen(len) => *len,
                });
                image.resize(len, 0);
            }
        }
    }
}

impl Storage for SimStorage {
    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> io::Result<Vec<StorageEntry>> {
        let mut disk = self.disk();
        disk.begin(Call::List, "")?;
        let mut entries: Vec<StorageEntry> = disk
            .names
            .iter()
            .filter(|(name, _)| !name.contains('/'))
            .map(|(name, number)| StorageEntry { name: name.clone(), bytes: disk.len_of(*number), is_file: true })
            .collect();
        if disk.names.keys().any(|name| name.starts_with("quarantine/")) {
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
        let mut disk = self.disk();
        disk.begin(Call::Open, name)?;
        let number = disk.number_of(name)?;
        drop(disk);
        Ok(self.file(number, name, false))
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let mut disk = self.disk();
        disk.begin(Call::Open, name)?;
        let number = disk.number_of(name)?;
        drop(disk);
        Ok(self.file(number, name, true))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.begin(Call::Remove, name)?;
        disk.number_of(name)?;
        disk.names.remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.begin(Call::Rename, from)?;
        let number = disk.number_of(from)?;
        disk.names.remove(from);
        disk.names.insert(to.to_owned(), number);
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

    fn boot_id(&self) -> [u8; 16] {
        u128::from(self.disk().boot).to_be_bytes()
    }
}

impl Disk {
    fn len_of(&self, number: u64) -> u64 {
        self.inodes.get(&number).map_or(0, |inode| inode.live.len() as u64)
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
