//! Where a ring file stands: in its log's directory, or in another, which a pointer of the same name then tells.
//!
//! ```text
//! 0, 2048   twice: magic 8 | header of the ring file, as it stands there 68 | bytes u16, path of the ring file
//!                  | bytes u16, path of the log's directory | crc u32
//! ```
//! The checksum is a CRC-32 of all before it. Paths are absolute; the last part of the ring file's is made of the ids of log and
//! run, so that many logs may keep their rings in one directory.
//!
//! The pointer comes before the file, and goes after it: so none is ever left behind that nothing tells of. A pointer that
//! leads nowhere is that of a run that had not begun, or had ended, or whose rings are lost: the segments tell which. One in a
//! copy of the log leads to the rings too, but does not own them: whoever repairs the copy leaves them there. While the log
//! itself is written they are not the copy's at all: what they hold goes into segments that the copy lacks.
//!
//! Nothing is believed of a path: what it leads to counts only if it is a regular file whose header is of the same run.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::libc;

use crate::bytes::Fields;
use crate::ring::file::{FILE_HEADER_BYTES, FileHeader, PAGE_BYTES, SECOND_COPY, page_of, seeded_crc};
use crate::storage::{ReadAt, Storage, StorageFile};

/// First bytes of a pointer.
const MAGIC: [u8; 8] = *b"\x89RNGP\r\n\x1a";

/// Longest path, in bytes.
pub(crate) const PATH_BYTES_MAX: usize = (SECOND_COPY - 8 - FILE_HEADER_BYTES - 4) / 2 - 2;

/// What stands in the log's directory for a ring file that stands elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// That of the ring file.
    pub(crate) header: FileHeader,
    /// The ring file.
    pub(crate) path: PathBuf,
    /// The log's directory.
    pub(crate) home: PathBuf,
}

impl Pointer {
    /// For the ring file in the directory `dir` of the run that `header` tells, whose log is in `home`.
    ///
    /// # Errors
    /// `InvalidInput` where a path is too long.
    pub(crate) fn new(dir: &Path, home: &Path, header: FileHeader) -> io::Result<Pointer> {
        let pointer = Pointer { header, path: full_path(dir).join(file_name(&header)), home: full_path(home) };
        if [&pointer.path, &pointer.home].into_iter().any(|path| path.as_os_str().len() > PATH_BYTES_MAX) {
            let text = format!("its path is too long: more than {PATH_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(pointer)
    }

    /// The whole file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut copy = MAGIC.to_vec();
        copy.extend_from_slice(&self.header.encode());
        for path in [&self.path, &self.home].map(|path| path.as_os_str().as_bytes()) {
            copy.extend_from_slice(&(path.len() as u16).to_le_bytes());
            copy.extend_from_slice(path);
        }
        copy.extend_from_slice(&seeded_crc(0, &copy).to_le_bytes());
        page_of(&copy)
    }

    /// Reads the copy that holds.
    pub(crate) fn decode(page: &[u8]) -> Option<Pointer> {
        [0, SECOND_COPY].into_iter().find_map(|at| Pointer::decode_copy(page.get(at..at + SECOND_COPY)?))
    }

    fn decode_copy(copy: &[u8]) -> Option<Pointer> {
        let mut fields = Fields::new(copy);
        if fields.array::<8>()? != MAGIC {
            return None;
        }
        let header = fields.take(FILE_HEADER_BYTES)?;
        let mut path = || {
            let len = usize::from(fields.u16()?);
            fields.take(len).map(|path| PathBuf::from(OsStr::from_bytes(path)))
        };
        let (path, home) = (path()?, path()?);
        let covered = &copy[..copy.len() - fields.rest().len()];
        if fields.u32()? != seeded_crc(0, covered) {
            return None;
        }
        let header = FileHeader::decode_copy(header)?;
        let is_ours = path.is_absolute() && path.file_name() == Some(OsStr::new(&file_name(&header)));
        is_ours.then_some(Pointer { header, path, home })
    }

    /// The directory of the ring file.
    pub(crate) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The directory and the name of the ring file.
    pub(crate) fn target(&self, storage: &dyn Storage) -> io::Result<Target> {
        Ok(Target { dir: storage.elsewhere(self.dir())?, name: file_name(&self.header) })
    }
}

/// A path as it is compared: absolute, and without links where it can be looked up.
fn full_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Name of a ring file that stands elsewhere.
fn file_name(header: &FileHeader) -> String {
    format!("{:016x}-{:016x}.ring", header.log_id, header.run_id)
}

/// A file in another directory.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) dir: Arc<dyn Storage>,
    pub(crate) name: String,
}

/// Why a pointer leads to no rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// They are not there.
    Gone,
    /// Nor is their directory: it is not mounted, or not in this container.
    OutOfReach,
    /// Somebody writes them: they are those of the log that this one is a copy of.
    Held,
}

/// A ring file, wherever it stands.
#[derive(Debug)]
pub(crate) struct Place {
    /// The file; where a pointer leads nowhere, that.
    pub(crate) file: Arc<dyn StorageFile>,
    /// Its first page.
    pub(crate) page: Vec<u8>,
    /// Bytes in the log's directory.
    pub(crate) bytes_here: u64,
    /// What leads to it; `None` where it stands in the log's directory.
    pub(crate) pointer: Option<Pointer>,
    /// Why what the pointer should lead to can't be had.
    pub(crate) lost: Option<Lost>,
    /// What a pointer leads to: a ring file, or one that its run had only begun to make.
    target: Option<Target>,
}

impl Place {
    /// Finds what stands under the name of a ring file. Never waits, whatever stands there, or where a pointer leads.
    ///
    /// # Errors
    /// `NotFound` where nothing stands there, and what the system says.
    pub(crate) fn open(storage: &dyn Storage, name: &str) -> io::Result<Place> {
        let file = storage.open(name)?;
        let page = first_page(&*file)?;
        let bytes_here = file.len()?;
        let pointer = Pointer::decode(&page);
        let lost = pointer.as_ref().map(|_| Lost::Gone);
        let mut place = Place { file, page, bytes_here, pointer, lost, target: None };
        let Some(pointer) = &place.pointer else { return Ok(place) };
        let found = pointer.target(storage).and_then(|target| Ok((target.dir.open(&target.name)?, target)));
        let (file, target) = match found {
            Err(error) if leads_nowhere(&error) => {
                let is_in_reach = pointer.target(storage).is_ok_and(|target| target.dir.names().is_ok());
                place.lost = Some(if is_in_reach { Lost::Gone } else { Lost::OutOfReach });
                return Ok(place);
            }
            found => found?,
        };
        let page = first_page(&*file)?;
        let is_same = FileHeader::decode(&page)
            .is_some_and(|header| (header.log_id, header.run_id) == (pointer.header.log_id, pointer.header.run_id));
        if is_same {
            (place.file, place.page, place.lost) = (file, page, None);
            place.target = Some(target);
        } else if page.iter().all(|&byte| byte == 0) {
            place.target = Some(target);
        }
        Ok(place)
    }

    /// Whether `file` is but a pointer.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// As [`open`](Place::open), of a log that nobody writes: a file elsewhere that is locked all the same has a writer whose
    /// log this one is a copy of. It is lost for this one.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn open_dead(storage: &dyn Storage, name: &str) -> io::Result<Place> {
        let place = Place::open(storage, name)?;
        if place.pointer.is_none() || place.is_lost() || !place.file.is_locked()? {
            return Ok(place);
        }
        let file = storage.open(name)?;
        let page = first_page(&*file)?;
        Ok(Place { file, page, lost: Some(Lost::Held), target: None, ..place })
    }

    /// The ring file elsewhere that belongs to what stands here, and goes with it.
    pub(crate) fn own_target(&self, storage: &dyn Storage) -> Option<&Target> {
        let is_at_home = self.pointer.as_ref().is_some_and(|pointer| pointer.home == full_path(storage.path()));
        self.target.as_ref().filter(|_| is_at_home)
    }

    /// Opens the file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` where a pointer leads nowhere, and what the system says.
    pub(crate) fn open_write(&self, storage: &dyn Storage, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        match &self.target {
            _ if self.is_lost() => Err(io::ErrorKind::NotFound.into()),
            Some(target) => target.dir.open_write(&target.name),
            None => storage.open_write(name),
        }
    }
}

/// Whether nothing, or nothing that could be a ring file, is where a pointer leads.
fn leads_nowhere(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, NotADirectory, NotFound, Unsupported};
    matches!(error.kind(), NotFound | NotADirectory | InvalidInput | Unsupported)
        || matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO | libc::ENAMETOOLONG))
}

/// The first page of a ring file, or of what stands in its place; zeros behind its end.
pub(crate) fn first_page(file: &dyn StorageFile) -> io::Result<Vec<u8>> {
    let mut page = vec![0; PAGE_BYTES];
    file.read_full_at(&mut page, 0)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: FileHeader =
        FileHeader { pid: 7, log_id: 0x1234, run_id: 0xabcd, boot_id: [3; 16], index: 12, part_bytes: 1000 };

    fn pointer(dir: &str) -> Pointer {
        Pointer::new(Path::new(dir), Path::new("/var/no-such-log"), HEADER).unwrap()
    }

    #[test]
    fn a_pointer_comes_back_with_any_bit_changed() {
        let pointer = pointer("/no-such-dir");
        assert_eq!(pointer.path, Path::new("/no-such-dir/0000000000001234-000000000000abcd.ring"));
        let page = pointer.encode();
        assert_eq!(page.len(), PAGE_BYTES);
        let document = include_str!("../format.md");
        let rows =
            [("| +8 | 68 | as", FILE_HEADER_BYTES == 68), ("| 0 and 2048 | 8 | magic `89 52 4E 47", page[1] == 0x52)];
        assert!(rows.into_iter().all(|(row, is_so)| is_so && document.contains(row)));
        for bit in 0..PAGE_BYTES * 8 {
            let mut changed = page.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Pointer::decode(&changed), Some(pointer.clone()), "bit {bit}");
        }
        assert_eq!(FileHeader::decode(&page), None);
    }

    #[test]
    fn the_longest_paths_have_room_and_longer_ones_are_refused() {
        let dir = |bytes: usize| PathBuf::from("/".to_owned() + &"d".repeat(bytes - 1));
        let (longest, home) = (dir(PATH_BYTES_MAX - file_name(&HEADER).len() - 1), dir(PATH_BYTES_MAX));
        let pointer = Pointer::new(&longest, &home, HEADER).unwrap();
        assert_eq!(Pointer::decode(&pointer.encode()), Some(pointer));
        assert!(Pointer::new(&dir(PATH_BYTES_MAX), &home, HEADER).is_err());
        assert!(Pointer::new(&longest, &dir(PATH_BYTES_MAX + 1), HEADER).is_err());
    }

    #[test]
    fn a_path_that_no_writer_would_have_written_is_no_pointer() {
        let good = pointer("/x");
        let (name, other) = (file_name(&HEADER), file_name(&FileHeader { run_id: 1, ..HEADER }));
        for path in [&name, "/etc/passwd", &format!("/x/{other}"), "/", ""] {
            let bad = Pointer { path: path.into(), ..good.clone() };
            assert_eq!(Pointer::decode(&bad.encode()), None, "{path}");
        }
        for fill in [0, 0xff] {
            assert_eq!(Pointer::decode(&[fill; PAGE_BYTES]), None);
        }
    }
}
