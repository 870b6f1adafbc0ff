//! The storage seam over the operating system's files.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, fallocate, fcntl};
use nix::libc;

use crate::ring::fork::{keep_in_children, let_go_in_children};
use crate::storage::{ReadAt, Space, Storage, StorageEntry, StorageFile};

/// A directory of the operating system.
#[derive(Clone, Debug)]
pub struct OsStorage {
    dir: PathBuf,
    mode: u32,
}

impl OsStorage {
    /// The directory `dir`, which need not exist yet; new files get `mode` (as in `0o640`).
    pub fn new(dir: impl Into<PathBuf>, mode: u32) -> OsStorage {
        OsStorage { dir: dir.into(), mode }
    }

    fn open_with(&self, name: &str, options: &mut OpenOptions) -> io::Result<Arc<dyn StorageFile>> {
        open_regular(&self.dir.join(name), options).map(|file| Arc::new(OsFile::new(file)) as Arc<dyn StorageFile>)
    }
}

/// Opens what must be a regular file, without waiting for a FIFO's other end or taking a terminal.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Before it is opened: that alone may do something to a device.
    if let Ok(metadata) = std::fs::metadata(path) {
        refuse_irregular(metadata.file_type())?;
    }
    let file = options.custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits()).open(path)?;
    refuse_irregular(file.metadata()?.file_type())?;
    Ok(file)
}

fn refuse_irregular(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        "no regular file"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

/// A file of the operating system.
#[derive(Debug)]
pub struct OsFile {
    file: File,
    /// The process that holds the lock through this file; 0 if none does.
    locked_by: AtomicU32,
}

impl OsFile {
    fn new(file: File) -> OsFile {
        OsFile { file, locked_by: AtomicU32::new(0) }
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `InvalidInput` for what is no regular file, and what the system says.
    pub fn open(path: &Path) -> io::Result<OsFile> {
        open_regular(path, OpenOptions::new().read(true)).map(OsFile::new)
    }
}

impl ReadAt for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl StorageFile for OsFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        match fallocate(&self.file, flags, offset as libc::off_t, len as libc::off_t) {
            Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn try_lock(&self) -> io::Result<bool> {
        let request = whole_file(libc::F_WRLCK);
        match fcntl(&self.file, FcntlArg::F_OFD_SETLK(&request)) {
            Ok(_) => {
                // ORDERING: Relaxed; read when the file is dropped, which nothing else overlaps.
                self.locked_by.store(std::process::id(), Ordering::Relaxed);
                let_go_in_children(self.file.as_raw_fd());
                Ok(true)
            }
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn is_locked(&self) -> io::Result<bool> {
        let mut request = whole_file(libc::F_RDLCK);
        fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut request))?;
        Ok(request.l_type != libc::F_UNLCK as libc::c_short)
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

impl Drop for OsFile {
    /// Gives the lock back by name: closing alone keeps it while a child that was just forked has not called exec yet. In
    /// a forked child the lock is the parent's and stays.
    fn drop(&mut self) {
        // ORDERING: Relaxed; see `try_lock`.
        if self.locked_by.load(Ordering::Relaxed) == std::process::id() {
            keep_in_children(self.file.as_raw_fd());
            let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK)));
        }
    }
}

/// A lock over the whole file.
fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

impl Storage for OsStorage {
    fn path(&self) -> &Path {
        &self.dir
    }

    fn list(&self) -> io::Result<Vec<StorageEntry>> {
        list(&self.dir)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn list_quarantine(&self) -> io::Result<Vec<StorageEntry>> {
        match list(&self.dir.join("quarantine")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed,
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let owner = std::fs::metadata(&self.dir)?;
        if let Some((folder, _)) = name.split_once('/') {
            let made = std::fs::DirBuilder::new().mode(0o750).create(self.dir.join(folder));
            match made {
                Ok(()) => give_to(&File::open(self.dir.join(folder))?, &owner),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(self.mode);
        let file = options.open(self.dir.join(name))?;
        give_to(&file, &owner);
        Ok(Arc::new(OsFile::new(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.open_with(name, OpenOptions::new().read(true))
    }

    fn open_write(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.open_with(name, OpenOptions::new().read(true).write(true))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.dir.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn sync_dir(&self) -> io::Result<()> {
        match File::open(self.dir.join("quarantine")) {
            Ok(folder) => folder.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        File::open(&self.dir)?.sync_all()
    }

    fn space(&self) -> io::Result<Space> {
        let stat = nix::sys::statvfs::statvfs(&self.dir)?;
        let unit = stat.fragment_size() as u64;
        Ok(Space { free: stat.blocks_available() as u64 * unit, total: stat.blocks() as u64 * unit })
    }

    fn elsewhere(&self, dir: &Path) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(OsStorage::new(dir, self.mode)))
    }

    fn unfit_for_rings(&self) -> io::Result<Option<String>> {
        let found = nix::sys::statfs::statfs(&self.dir)?.filesystem_type();
        Ok(why_unfit_for_rings(found.0 as u32))
    }

    fn boot_id(&self) -> [u8; 16] {
        boot_id()
    }
}

/// Gives a new file to the owner of its directory, so that what root makes does not lock the service out. A process that
/// may not do that makes files that are its own, as it would anywhere.
fn give_to(file: &File, owner: &std::fs::Metadata) {
    let own = file.metadata().is_ok_and(|made| (made.uid(), made.gid()) == (owner.uid(), owner.gid()));
    if !own {
        let _ = fchown(file, Some(owner.uid()), Some(owner.gid()));
    }
}

fn list(dir: &Path) -> io::Result<Vec<StorageEntry>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        match std::fs::metadata(entry.path()) {
            Ok(metadata) => names.push(StorageEntry { name, bytes: metadata.len(), is_file: metadata.is_file() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => names.push(StorageEntry { name, bytes: 0, is_file: false }),
        }
    }
    names.sort();
    Ok(names)
}

/// File systems that can't keep rings, by the number that statfs tells (linux/magic.h, and what each tells of itself): other
/// machines, or the server, may not see what is in a mapping here, or see it late.
const WITHOUT_MAPPINGS: [(u32, &str); 11] = [
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x786f_4256, "a shared folder of VirtualBox"),
];

/// The same of those that write each page to a new place: on a full disk a write into a mapping ends the process by SIGBUS,
/// though the file has its blocks.
const WITHOUT_PROMISE: [(u32, &str); 3] = [(0x9123_683e, "btrfs"), (0x2fc1_2fc1, "ZFS"), (0xca45_1a4e, "bcachefs")];

/// Why a file system can't keep rings. An overlay is as good as what it writes to, which nothing tells: it is let be.
fn why_unfit_for_rings(magic: u32) -> Option<String> {
    let name_in = |list: &[(u32, &'static str)]| list.iter().find(|(of, _)| *of == magic).map(|(_, name)| *name);
    match (name_in(&WITHOUT_MAPPINGS), name_in(&WITHOUT_PROMISE)) {
        (Some(name), _) => Some(format!("{name} does not promise that a mapped file is what it seems to be")),
        (None, Some(name)) => Some(format!("{name} does not promise that a mapped file has room on a full disk")),
        (None, None) => None,
    }
}

/// The id that the kernel gave this boot; zeros where it tells none.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_system_that_cannot_keep_rings_says_why_and_the_others_are_let_be() {
        for (magic, name) in WITHOUT_MAPPINGS.into_iter().chain(WITHOUT_PROMISE) {
            assert!(why_unfit_for_rings(magic).unwrap().starts_with(name), "{name}");
        }
        // ext4, XFS, tmpfs, overlay, f2fs.
        for magic in [0xef53, 0x5846_5342, 0x0102_1994, 0x794c_7630, 0xf2f5_2010] {
            assert_eq!(why_unfit_for_rings(magic), None, "{magic:x}");
        }
        // What this very system tells is asked of the right place.
        assert_eq!(OsStorage::new("/proc", 0).unfit_for_rings().unwrap(), None);
        assert!(OsStorage::new("/no-such-dir", 0).unfit_for_rings().is_err());
    }
}
