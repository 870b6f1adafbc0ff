//! A ring file that a dead run has left: what its headers say, its definitions, and its rings.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::entry::CallSite;
use crate::finding::Loss;
use crate::format::PAYLOAD_BYTES_MAX;
use crate::recovery::ring::DeadRing;
use crate::ring::file::{
    Anchor, FileHeader, NAME_BYTES, NAMES_MAX, PAGE_BYTES, SECTIONS, SectionHeader, SectionKind, decode_names,
    definitions, index_of_name,
};
use crate::ring::place::{Lost, Place};
use crate::ring::record::RECORD_HEAD_BYTES;
use crate::storage::{ReadAt, Storage, StorageFile};

/// Rings that are read of one file.
const RINGS_MAX: usize = 4096;

/// Bytes of the windows of all rings of a file, and of one.
const WINDOWS_BYTES: usize = 16 << 20;
const WINDOW_BYTES_MIN: usize = 4 << 10;
const WINDOW_BYTES_MAX: usize = 64 << 10;

/// Most bytes of definitions that are read of one file.
const DEFINITIONS_BYTES_MAX: u64 = 16 << 20;

/// A stretch of a ring file that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// First byte.
    pub(crate) offset: u64,
    /// How many bytes.
    pub(crate) len: u64,
    /// What it has cost, where the entries around it tell: nothing, where it was accounted for before.
    pub(crate) cost: Option<Loss>,
}

/// A file with a ring file's name.
#[derive(Clone, Debug)]
pub(super) struct RingFile {
    pub(super) name: String,
    /// Index of the run's first segment, as the name tells it.
    pub(super) index: u64,
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) bytes: u64,
    /// Of these, bytes in the log's directory: those of a pointer, where the file stands elsewhere.
    pub(super) bytes_here: u64,
    /// Why it can't be had where it should stand: `file` is then the pointer.
    pub(super) lost: Option<Lost>,
    /// The directory of one that stands elsewhere.
    pub(super) dir: Option<PathBuf>,
    /// `None` where neither copy holds.
    pub(super) header: Option<FileHeader>,
    first_page: Vec<u8>,
}

impl RingFile {
    /// All of them in a directory, by index.
    pub(super) fn all(storage: &dyn Storage) -> io::Result<Vec<RingFile>> {
        let mut files = Vec::new();
        for entry in storage.list()?.into_iter().filter(|entry| entry.is_file) {
            let Some(index) = index_of_name(&entry.name) else { continue };
            let place = match Place::open_dead(storage, &entry.name) {
                // Its writer has removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            let Place { file, page: first_page, bytes_here, pointer, lost, .. } = place;
            let (name, bytes) = (entry.name, file.len()?);
            let dir = pointer.as_ref().map(|pointer| pointer.dir().to_owned());
            let header = match lost {
                Some(_) => pointer.map(|pointer| pointer.header),
                None => FileHeader::decode(&first_page),
            };
            files.push(RingFile { name, index, file, bytes, bytes_here, lost, dir, header, first_page });
        }
        files.sort_by_key(|file| file.index);
        Ok(files)
    }

    /// Whether it holds nothing at all: its run was stopped before it had made it.
    pub(super) fn is_blank(&self) -> io::Result<bool> {
        is_zero(&*self.file, 0, self.bytes)
    }
}

fn is_zero(file: &dyn StorageFile, from: u64, to: u64) -> io::Result<bool> {
    let mut buffer = vec![0; WINDOW_BYTES_MAX];
    let mut at = from;
    while at < to {
        let wanted = usize::try_from(to - at).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read_full_at(&mut buffer[..wanted], at)?;
        if count == 0 {
            break;
        }
        if buffer[..count].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at += count as u64;
    }
    Ok(true)
}

/// The content of a ring file.
#[derive(Debug)]
pub(super) struct DeadFile {
    pub(super) header: FileHeader,
    pub(super) anchor: Option<Anchor>,
    /// Payloads of call-site frames, by number.
    pub(super) definitions: HashMap<u32, Vec<u8>>,
    definition_bytes_left: u64,
    /// Names of threads that have no ring.
    pub(super) names: HashMap<u32, String>,
    pub(super) rings: Vec<DeadRing>,
    /// Bytes of all rings.
    pub(super) ring_bytes: u64,
    /// What is damaged outside of the rings' data.
    pub(super) damage: Vec<Stretch>,
}

/// A section, and where its header stands.
struct Section {
    header: SectionHeader,
    page: Vec<u8>,
    at: u64,
}

impl DeadFile {
    /// Reads a file whose header is `header`, be it its own or known from elsewhere. One that is lost holds nothing.
    pub(super) fn read(file: &RingFile, header: FileHeader) -> io::Result<DeadFile> {
        let run_id = header.run_id;
        let mut read = DeadFile {
            header,
            anchor: None,
            definitions: HashMap::new(),
            definition_bytes_left: DEFINITIONS_BYTES_MAX,
            names: HashMap::new(),
            rings: Vec::new(),
            ring_bytes: 0,
            damage: Vec::new(),
        };
        if file.lost.is_some() {
            // A pointer has its paths where a ring file tells of itself.
            return Ok(read);
        }
        read.anchor = Anchor::decode(&file.first_page, run_id);
        if file.header.is_none() {
            read.damaged(0, PAGE_BYTES as u64);
        }
        let sections = read.sections(file)?;
        let ring_count = sections.iter().filter(|section| section.header.kind.is_ring()).count();
        let window_bytes = (WINDOWS_BYTES / ring_count.max(1)).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        for section in &sections {
            let data_at = section.at + PAGE_BYTES as u64;
            match section.header.kind {
                SectionKind::Definitions => {
                    read.add_definitions(file, data_at, section.header.bytes)?;
                    continue;
                }
                // One section holds all that a writer keeps.
                SectionKind::Names if read.names.len() >= NAMES_MAX => continue,
                SectionKind::Names => {
                    let mut data = vec![0; (section.header.bytes as usize).min(NAMES_MAX * NAME_BYTES)];
                    let len = file.file.read_full_at(&mut data, data_at)?;
                    let room = NAMES_MAX - read.names.len();
                    read.names.extend(decode_names(&data[..len], run_id).take(room));
                    continue;
                }
                SectionKind::Ring | SectionKind::SharedRing => {}
            }
            let ring = DeadRing::open(&file.file, run_id, &section.page, &section.header, data_at, window_bytes)?;
            read.rings.push(ring);
            read.ring_bytes = read.ring_bytes.saturating_add(section.header.bytes);
        }
        Ok(read)
    }

    /// The sections that can be told. Behind one whose header is lost, the next is looked for page by page.
    fn sections(&mut self, file: &RingFile) -> io::Result<Vec<Section>> {
        let mut sections: Vec<Section> = Vec::new();
        let (mut at, mut lost_at) = (PAGE_BYTES as u64, None);
        while at < file.bytes && sections.len() < RINGS_MAX {
            let mut page = vec![0; PAGE_BYTES];
            file.file.read_full_at(&mut page, at)?;
            let next = at + PAGE_BYTES as u64;
            match SectionHeader::decode(&page, self.header.run_id) {
                Some(header) if !header.kind.is_ring() || header.bytes >= RECORD_HEAD_BYTES as u64 => {
                    if let Some(lost_at) = lost_at.take() {
                        self.damaged_unless_blank(file, lost_at, at)?;
                    }
                    sections.push(Section { header, page, at });
                    at = next.saturating_add(header.bytes);
                }
                _ => {
                    lost_at.get_or_insert(at);
                    at = next;
                }
            }
        }
        match lost_at {
            _ if sections.len() == RINGS_MAX && at < file.bytes => self.damaged(at, file.bytes - at),
            Some(lost_at) => self.damaged_unless_blank(file, lost_at, file.bytes)?,
            // The last section, or the file itself, was cut.
            None if at > file.bytes => self.damaged(file.bytes, at - file.bytes),
            None => {}
        }
        let told = SECTIONS.map(|at| file.first_page[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word)));
        // Of two that differ the lower one is older or altered, and so may be the higher one.
        let count = told[0].min(told[1]) as usize;
        if count > sections.len() && self.damage.is_empty() {
            self.damaged(file.bytes, 0);
        }
        Ok(sections)
    }

    /// A stretch without a section is damage, unless nothing was ever written there: a section that was only begun.
    fn damaged_unless_blank(&mut self, file: &RingFile, from: u64, to: u64) -> io::Result<()> {
        if !is_zero(&*file.file, from, to)? {
            self.damaged(from, to - from);
        }
        Ok(())
    }

    fn damaged(&mut self, offset: u64, len: u64) {
        self.damage.push(Stretch { offset, len, cost: None });
    }

    fn add_definitions(&mut self, file: &RingFile, at: u64, bytes: u64) -> io::Result<()> {
        let len = bytes.min(file.bytes.saturating_sub(at)).min(self.definition_bytes_left);
        self.definition_bytes_left -= len;
        let mut data = vec![0; len as usize];
        file.file.read_full_at(&mut data, at)?;
        for payload in definitions(&data, self.header.run_id) {
            if payload.len() <= PAYLOAD_BYTES_MAX
                && let Some((number, _)) = CallSite::decode(payload)
            {
                self.definitions.entry(number).or_insert_with(|| payload.to_vec());
            }
        }
        Ok(())
    }

    /// All that is damaged: of the file, then of each ring.
    pub(super) fn all_damage(&self) -> Vec<Stretch> {
        self.damage.iter().chain(self.rings.iter().flat_map(|ring| &ring.damage)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::file::{encode_name, page_of};
    use crate::storage_sim::SimStorage;

    const HEADER: FileHeader =
        FileHeader { pid: 7, log_id: 1, run_id: 0xabcd, boot_id: [3; 16], index: 1, part_bytes: 1000 };

    #[test]
    fn of_many_sections_of_names_no_more_are_kept_than_a_writer_keeps() {
        let mut bytes = page_of(&HEADER.encode());
        for number in 0..5 {
            let header = SectionHeader { kind: SectionKind::Names, number, bytes: (300 * NAME_BYTES) as u64 };
            bytes.extend_from_slice(&page_of(&header.encode(HEADER.run_id)));
            for place in 0..300 {
                let mut name = encode_name(1 + number * 300 + place, "worker", HEADER.run_id);
                name.resize(NAME_BYTES, 0);
                bytes.extend_from_slice(&name);
            }
        }
        let disk = SimStorage::new();
        disk.put("00000001.ring", &bytes);
        let files = RingFile::all(&disk).unwrap();
        let read = DeadFile::read(&files[0], HEADER).unwrap();
        assert_eq!((read.names.len(), read.damage.len()), (NAMES_MAX, 0));
        assert!(read.names.contains_key(&1) && read.names.contains_key(&301));
    }
}
