//! The ring file of a running writer: it is made at the log's opening and grows by a section when a thread first logs.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::active::write_whole;
use crate::ring::figures_area::{FIGURES, Figures};
use crate::ring::file::{
    ANCHOR, Anchor, FileHeader, NAME_BYTES, NAMES_MAX, PAGE_BYTES, SECOND_COPY, SECTIONS, SectionHeader, SectionKind,
    encode_name, page_of, push_definition, ring_name,
};
use crate::ring::level_area::{IN_FORCE, LevelRecord};
use crate::ring::mapping::MappedRing;
use crate::ring::place::{Pointer, Target};
use crate::storage::{Storage, StorageFile};

/// Data of a section of definitions: some hundred call sites. One is always in reserve, for sites that log for the first time on
/// a full disk; once that is used up, too, their calls are written by the backend, with the definition, into the segment.
const DEFINITIONS_BYTES: usize = 64 << 10;

/// Where definitions go next.
#[derive(Clone, Copy, Debug)]
struct DefinitionsEnd {
    offset: u64,
    room: usize,
}

/// Rings, and the file that they stand in, if any.
#[derive(Debug)]
pub(crate) struct Rings {
    /// `None` for rings in memory.
    file: Option<RingFile>,
    run_id: u64,
    sections: u32,
}

#[derive(Debug)]
struct RingFile {
    file: Arc<dyn StorageFile>,
    /// What goes at the end, in this order: the file, and the pointer to it where it stands elsewhere.
    places: Vec<Target>,
    /// End of the last whole section.
    end: u64,
    definitions: DefinitionsEnd,
    /// A section that has none yet.
    reserve: Option<DefinitionsEnd>,
    /// Where the names of threads without a ring start, once there is one, and how many were put there.
    names: Option<u64>,
    names_put: usize,
    /// Which copy of the anchor comes next.
    anchor_copy: usize,
}

impl Rings {
    /// Rings that end with the process.
    pub(crate) fn in_memory(run_id: u64) -> Rings {
        Rings { file: None, run_id, sections: 0 }
    }

    /// Makes the ring file of a run, with a first section for definitions: in the directory `dir`, or in the log's.
    pub(crate) fn create(storage: &Arc<dyn Storage>, dir: Option<&Path>, header: &FileHeader) -> io::Result<Rings> {
        let here = Target { dir: Arc::clone(storage), name: ring_name(header.index) };
        let (places, file) = match dir {
            None => {
                let file = here.dir.create(&here.name)?;
                (vec![here], file)
            }
            Some(dir) => {
                let pointer = Pointer::new(dir, storage.path(), *header)?;
                let there = pointer.target(&**storage)?;
                let (file, leads_there) = (here.dir.create(&here.name)?, pointer.encode());
                let pointed = write_whole(&*file, &leads_there, 0).and_then(|()| file.sync());
                match pointed.and_then(|()| there.dir.create(&there.name)) {
                    Ok(file) => (vec![there, here], file),
                    Err(error) => {
                        let _ = here.dir.remove(&here.name);
                        return Err(error);
                    }
                }
            }
        };
        if file.as_file().is_none() {
            places.iter().for_each(|place| drop(place.dir.remove(&place.name)));
            return Err(io::Error::new(io::ErrorKind::Unsupported, "its files can't be mapped"));
        }
        let definitions = DefinitionsEnd { offset: 0, room: 0 };
        let file = RingFile {
            file,
            places,
            end: PAGE_BYTES as u64,
            definitions,
            reserve: None,
            names: None,
            names_put: 0,
            anchor_copy: 0,
        };
        let mut rings = Rings { file: Some(file), run_id: header.run_id, sections: 0 };
        let begun = rings.file.as_ref().map_or(Ok(()), |file| write_whole(&*file.file, &page_of(&header.encode()), 0));
        match begun.and_then(|()| rings.make_room(0)).and_then(|()| rings.refill_reserve()) {
            Ok(()) => Ok(rings),
            Err(error) => {
                // What could not be made counts.
                let _ = rings.remove();
                Err(error)
            }
        }
    }

    /// Adds a section; returns where it starts.
    fn add_section(&mut self, kind: SectionKind, bytes: usize) -> io::Result<u64> {
        let header = SectionHeader { kind, number: self.sections, bytes: bytes as u64 };
        let page = page_of(&header.encode(self.run_id));
        let Some(file) = &mut self.file else { return Ok(0) };
        let start = file.end;
        let data = write_zeros(&*file.file, start + PAGE_BYTES as u64, bytes);
        // The header comes last: without it there is no section.
        if let Err(error) = data.and_then(|()| write_whole(&*file.file, &page, start)) {
            let _ = file.file.set_len(start);
            return Err(error);
        }
        file.end = start + (PAGE_BYTES + bytes) as u64;
        self.sections += 1;
        for at in SECTIONS {
            // It only tells that one is missing: without it the section is there all the same.
            let _ = write_whole(&*file.file, &self.sections.to_le_bytes(), at as u64);
        }
        Ok(start)
    }

    fn add_definitions(&mut self, bytes: usize) -> io::Result<DefinitionsEnd> {
        let start = self.add_section(SectionKind::Definitions, bytes)?;
        Ok(DefinitionsEnd { offset: start + PAGE_BYTES as u64, room: bytes })
    }

    /// Goes on in a section that has room for so many bytes: in the reserve, or a new one.
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        let reserve = self.file.as_mut().and_then(|file| file.reserve.take_if(|reserve| reserve.room >= bytes));
        let next = match reserve {
            Some(reserve) => reserve,
            None => self.add_definitions(bytes.max(1).next_multiple_of(DEFINITIONS_BYTES))?,
        };
        if let Some(file) = &mut self.file {
            file.definitions = next;
        }
        Ok(())
    }

    fn refill_reserve(&mut self) -> io::Result<()> {
        if self.file.as_ref().is_some_and(|file| file.reserve.is_none()) {
            let reserve = self.add_definitions(DEFINITIONS_BYTES)?;
            self.file.iter_mut().for_each(|file| file.reserve = Some(reserve));
        }
        Ok(())
    }

    /// Adds a ring.
    pub(crate) fn add_ring(&mut self, kind: SectionKind, capacity: usize) -> io::Result<MappedRing> {
        let start = self.add_section(kind, capacity)?;
        match &self.file {
            None => MappedRing::anonymous(capacity),
            Some(file) => match file.file.as_file() {
                Some(mapped) => MappedRing::of_file(mapped, start, capacity),
                None => Err(io::Error::from(io::ErrorKind::Unsupported)),
            },
        }
    }

    /// Adds the definition of a call site: it stands there when this returns.
    pub(crate) fn define(&mut self, payload: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        let mut record = Vec::with_capacity(payload.len() + 16);
        push_definition(&mut record, payload, self.run_id);
        if self.file.as_ref().is_some_and(|file| file.definitions.room < record.len()) {
            self.make_room(record.len())?;
        }
        // Without one the next definition tries again, or does without.
        let _ = self.refill_reserve();
        let Some(file) = &mut self.file else { return Ok(()) };
        write_whole(&*file.file, &record, file.definitions.offset)?;
        file.definitions.offset += record.len() as u64;
        file.definitions.room -= record.len();
        Ok(())
    }

    /// Puts down the name of a thread without a ring, in the place of the oldest where there are many.
    pub(crate) fn name_thread(&mut self, tid: u32, name: &str) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let start = match file.names {
            Some(start) => start,
            None => self.add_section(SectionKind::Names, NAMES_MAX * NAME_BYTES)? + PAGE_BYTES as u64,
        };
        let Some(file) = &mut self.file else { return Ok(()) };
        file.names = Some(start);
        let at = start + (file.names_put % NAMES_MAX * NAME_BYTES) as u64;
        file.names_put += 1;
        write_whole(&*file.file, &encode_name(tid, name, self.run_id), at)
    }

    /// Puts down how stamps become times, for whoever finds the file after the process's death.
    pub(crate) fn set_anchor(&mut self, anchor: &Anchor) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let at = [ANCHOR, SECOND_COPY + ANCHOR][file.anchor_copy];
        file.anchor_copy = 1 - file.anchor_copy;
        write_whole(&*file.file, &anchor.encode(self.run_id), at as u64)
    }

    /// What stands where levels are asked for, and where those in force are told.
    pub(crate) fn level_records(&self) -> [Option<LevelRecord>; 2] {
        let mut page = [0; PAGE_BYTES];
        // What can't be read is zeros, which is nothing, and looked for again.
        let _ = self.file.as_ref().map(|file| file.file.read_full_at(&mut page, 0));
        [LevelRecord::asked_in(&page, self.run_id), LevelRecord::in_force_in(&page, self.run_id)]
    }

    /// Puts down the levels in force, for whoever asks.
    pub(crate) fn tell_levels(&self, record: &LevelRecord) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        write_whole(&*file.file, &record.encode(self.run_id), IN_FORCE as u64)
    }

    /// Puts down how the log stands, for whoever asks.
    pub(crate) fn tell_figures(&self, figures: &Figures) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        write_whole(&*file.file, &figures.encode(self.run_id), FIGURES as u64)
    }

    /// Removes the file: all that was in it stands in segments.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        for place in &file.places {
            match place.dir.remove(&place.name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            place.dir.sync_dir()?;
        }
        self.file = None;
        Ok(())
    }
}

fn write_zeros(file: &dyn StorageFile, offset: u64, bytes: usize) -> io::Result<()> {
    let zeros = vec![0; bytes.min(64 << 10)];
    let mut done = 0;
    while done < bytes {
        let len = zeros.len().min(bytes - done);
        write_whole(file, &zeros[..len], offset + done as u64)?;
        done += len;
    }
    Ok(())
}
