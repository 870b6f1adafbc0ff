//! What lies on a disk in memory, what its next calls are to do, and what a power cut leaves of it.

use std::collections::BTreeMap;
use std::io;

/// Sizes of what a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// A call that changes or reads the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// [`Storage::list`](crate::storage::Storage::list) and [`Storage::list_quarantine`](crate::storage::Storage::list_quarantine).
    List,
    /// [`Storage::create`](crate::storage::Storage::create).
    Create,
    /// [`Storage::open`](crate::storage::Storage::open) and [`Storage::open_write`](crate::storage::Storage::open_write).
    Open,
    /// [`Storage::remove`](crate::storage::Storage::remove).
    Remove,
    /// [`Storage::rename`](crate::storage::Storage::rename).
    Rename,
    /// [`Storage::sync_dir`](crate::storage::Storage::sync_dir).
    SyncDir,
    /// [`ReadAt::read_at`](crate::storage::ReadAt::read_at).
    Read,
    /// [`StorageFile::write_at`](crate::storage::StorageFile::write_at).
    Write,
    /// [`StorageFile::set_len`](crate::storage::StorageFile::set_len).
    SetLen,
    /// [`StorageFile::sync`](crate::storage::StorageFile::sync).
    Sync,
    /// [`StorageFile::allocate`](crate::storage::StorageFile::allocate).
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
pub(crate) struct Rule {
    pub(crate) call: Option<Call>,
    /// Calls (of that kind) that are let through before.
    pub(crate) skip: u64,
    /// Calls that then fail; `u64::MAX` for all.
    pub(crate) times: u64,
    pub(crate) fault: Fault,
}

/// What a file has gone through since it was last synced.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Change {
    pub(crate) fn apply(&self, image: &mut Vec<u8>) {
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
pub(crate) struct Inode {
    pub(crate) live: Vec<u8>,
    pub(crate) durable: Vec<u8>,
    pub(crate) changes: Vec<Change>,
    pub(crate) is_locked: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) inodes: BTreeMap<u64, Inode>,
    pub(crate) next_inode: u64,
    pub(crate) names: BTreeMap<String, u64>,
    pub(crate) durable_names: BTreeMap<String, u64>,
    pub(crate) calls: u64,
    pub(crate) counts: BTreeMap<Call, u64>,
    pub(crate) rules: Vec<Rule>,
    /// Calls after this many do nothing and fail: the process is dead.
    pub(crate) stop_after: Option<u64>,
    pub(crate) capacity: Option<u64>,
    pub(crate) boot: u64,
    pub(crate) log: Vec<(Call, String)>,
}

impl Disk {
    pub(crate) fn used(&self) -> u64 {
        self.names.values().filter_map(|inode| self.inodes.get(inode)).map(|inode| inode.live.len() as u64).sum()
    }

    /// Counts a call; an error if it is to fail, or how it is to be cut short.
    pub(crate) fn begin(&mut self, call: Call, name: &str) -> io::Result<Option<Fault>> {
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

    pub(crate) fn inode(&mut self, number: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn number_of(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk {
    /// Takes the power away: of what was not synced, `seed` chooses what is there afterwards.
    pub(crate) fn cut_power(&mut self, seed: u64) {
        let mut choice = Choice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed));
        let fixed = match seed {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let names: Vec<String> = self.names.keys().chain(self.durable_names.keys()).cloned().collect();
        for name in names {
            let (live, durable) = (self.names.get(&name).copied(), self.durable_names.get(&name).copied());
            if live != durable && fixed.unwrap_or_else(|| choice.coin()) {
                match live {
                    Some(number) => self.durable_names.insert(name, number),
                    None => self.durable_names.remove(&name),
                };
            }
        }
        for inode in self.inodes.values_mut() {
            let changes = std::mem::take(&mut inode.changes);
            match fixed {
                Some(false) => {}
                Some(true) => changes.iter().for_each(|change| change.apply(&mut inode.durable)),
                None => choice.let_through(&changes, &mut inode.durable),
            }
            inode.live.clone_from(&inode.durable);
            inode.is_locked = false;
        }
        self.names.clone_from(&self.durable_names);
        let named: Vec<u64> = self.names.values().copied().collect();
        self.inodes.retain(|number, _| named.contains(number));
        self.boot += 1;
        self.forget_faults();
    }

    pub(crate) fn forget_faults(&mut self) {
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

impl Disk {
    pub(crate) fn len_of(&self, number: u64) -> u64 {
        self.inodes.get(&number).map_or(0, |inode| inode.live.len() as u64)
    }
}
