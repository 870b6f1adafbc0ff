//! Ring files made by hand: what a run leaves that is killed with entries in its rings. For tests.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::entry::CallSite;
use crate::error::Result;
use crate::options::Options;
use crate::ring::file::{
    ANCHOR, Anchor, FileHeader, OWNER, PAGE_BYTES, READ, REFUSED_LEVEL, REFUSED_TSEQ, SECOND_COPY, SECTIONS,
    SectionHeader, SectionKind, WRITTEN, encode_owner, page_of, push_definition, put_twice, refused_level_word,
    ring_name,
};
use crate::ring::place::Pointer;
use crate::ring::record::{
    RECORD_BODY_BYTES_MAX, RECORD_HEAD_BYTES, RecordHead, SHARED_TSEQ, finish_record, record_bytes, write_skip,
};
use crate::segment::SegmentHeader;
use crate::storage::Storage;
use crate::writer::Writer;

/// Opens a log as a run that keeps rings, and gives the start of its ring file, which nobody has made yet.
///
/// # Errors
/// As [`Writer::open_on`].
pub fn open(storage: Arc<dyn Storage>, options: Options) -> Result<(Writer, RingFileBuilder)> {
    let mut first = None;
    let writer = Writer::open_with_rings(storage, options, |header| {
        first = Some(header.clone());
        Ok(())
    })?;
    let header = first.unwrap_or_else(|| writer.active.header.clone());
    Ok((writer, RingFileBuilder::new(&header)))
}

/// A ring file.
#[derive(Clone, Debug)]
pub struct RingFileBuilder {
    header: FileHeader,
    anchor: Option<Anchor>,
    definitions: Vec<u8>,
    rings: Vec<RingBuilder>,
}

impl RingFileBuilder {
    /// The rings of the run whose first segment has this header; stamps are nanoseconds since 1970.
    pub fn new(first: &SegmentHeader) -> RingFileBuilder {
        let SegmentHeader { pid, log_id, run_id, boot_id, index, .. } = *first;
        let part_bytes = crate::format::ENTRY_BODY_BYTES_MAX as u64;
        RingFileBuilder {
            header: FileHeader { pid, log_id, run_id, boot_id, index, part_bytes },
            anchor: Some(Anchor { stamp: 0, time_ns: 0, ns_per_tick: 1 << 32 }),
            definitions: Vec::new(),
            rings: Vec::new(),
        }
    }

    /// The name of the file.
    pub fn name(&self) -> String {
        ring_name(self.header.index)
    }

    /// The same rings as those of another log.
    #[must_use]
    pub fn of_log(mut self, log_id: u64) -> RingFileBuilder {
        self.header.log_id = log_id;
        self
    }

    /// What stands in the log's directory `home` if the file stands in `dir`, and the path of the file there.
    ///
    /// # Errors
    /// `InvalidInput` where a path is too long.
    pub fn pointer(&self, dir: &Path, home: &Path) -> io::Result<(Vec<u8>, PathBuf)> {
        let pointer = Pointer::new(dir, home, self.header)?;
        Ok((pointer.encode(), pointer.path))
    }

    /// Sets how long a part is.
    pub fn set_part_bytes(&mut self, bytes: u64) {
        self.header.part_bytes = bytes;
    }

    /// Takes the clock anchor away.
    pub fn remove_anchor(&mut self) {
        self.anchor = None;
    }

    /// Defines a call site.
    pub fn define(&mut self, number: u32, site: &CallSite) {
        let mut payload = Vec::new();
        site.encode(number, &mut payload);
        push_definition(&mut self.definitions, &payload, self.header.run_id);
    }

    /// Adds a ring of `bytes` bytes, a power of two, for a thread; for thread 0 it is the shared one. Returns its number.
    pub fn add_ring(&mut self, bytes: usize, tid: u32, name: &str) -> usize {
        self.rings.push(RingBuilder {
            run_id: self.header.run_id,
            tid,
            name: name.to_owned(),
            data: vec![0; bytes],
            written: 0,
            read: [0; 2],
            refused: (0, 0),
        });
        self.rings.len() - 1
    }

    /// The ring with this number.
    pub fn ring(&mut self, number: usize) -> &mut RingBuilder {
        &mut self.rings[number]
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let run_id = self.header.run_id;
        let mut first = page_of(&self.header.encode());
        if let Some(anchor) = self.anchor {
            put_twice(&mut first, [ANCHOR, SECOND_COPY + ANCHOR], &anchor.encode(run_id));
        }
        put_twice(&mut first, SECTIONS, &(self.rings.len() as u32 + 1).to_le_bytes());
        let mut out = first;
        let mut definitions = self.definitions.clone();
        definitions.resize(definitions.len().next_multiple_of(PAGE_BYTES).max(PAGE_BYTES), 0);
        let bytes = definitions.len() as u64;
        let header = SectionHeader { kind: SectionKind::Definitions, number: 0, bytes };
        out.extend_from_slice(&page_of(&header.encode(run_id)));
        out.extend_from_slice(&definitions);
        for (ring, number) in self.rings.iter().zip(1..) {
            out.extend_from_slice(&ring.page(number));
            out.extend_from_slice(&ring.data);
        }
        out
    }
}

/// One ring.
#[derive(Clone, Debug)]
pub struct RingBuilder {
    run_id: u64,
    tid: u32,
    name: String,
    data: Vec<u8>,
    written: u64,
    read: [u64; 2],
    refused: (u64, u8),
}

impl RingBuilder {
    /// Adds an entry of the ring's thread.
    ///
    /// # Panics
    /// If it is longer than the ring.
    pub fn push(&mut self, stamp: u64, tseq: u64, site: u32, body: &[u8]) {
        let (tid, shared) = (self.tid, if self.tid == 0 { SHARED_TSEQ } else { 0 });
        self.push_of(tid, stamp, tseq | shared, site, body);
    }

    /// Adds an entry with any thread and thread seq.
    ///
    /// # Panics
    /// If it is longer than the ring.
    pub fn push_of(&mut self, tid: u32, stamp: u64, tseq: u64, site: u32, body: &[u8]) {
        let (bytes, whole) = (self.data.len(), record_bytes(body.len()));
        assert!(whole <= bytes && body.len() <= RECORD_BODY_BYTES_MAX, "the entry is longer than the ring");
        let mut place = self.written as usize % bytes;
        if whole > bytes - place {
            write_skip(&mut self.data[place..], self.run_id, self.written);
            self.written += (bytes - place) as u64;
            place = 0;
        }
        let record = &mut self.data[place..place + whole];
        record[RECORD_HEAD_BYTES..][..body.len()].copy_from_slice(body);
        finish_record(record, body.len(), &RecordHead { stamp, tseq, tid, site }, self.run_id, self.written);
        self.written += whole as u64;
    }

    /// Everything so far is in a segment.
    pub fn drain(&mut self) {
        self.read = [self.written; 2];
    }

    /// Where the ring ends, and starts to be read: positions.
    pub fn positions(&self) -> (u64, [u64; 2]) {
        (self.written, self.read)
    }

    /// Sets these.
    pub fn set_positions(&mut self, written: u64, read: [u64; 2]) {
        (self.written, self.read) = (written, read);
    }

    /// Calls up to this tseq were refused.
    pub fn refuse(&mut self, tseq: u64, level: u8) {
        self.refused = (tseq, level);
    }

    fn page(&self, number: u32) -> Vec<u8> {
        let kind = if self.tid == 0 { SectionKind::SharedRing } else { SectionKind::Ring };
        let header = SectionHeader { kind, number, bytes: self.data.len() as u64 };
        let mut page = page_of(&header.encode(self.run_id));
        let owner = encode_owner(self.tid, &self.name, self.run_id);
        put_twice(&mut page, OWNER, &owner);
        for (at, word) in [(WRITTEN, self.written), (READ[0], self.read[0]), (READ[1], self.read[1])] {
            page[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        REFUSED_TSEQ.into_iter().for_each(|at| page[at..at + 8].copy_from_slice(&self.refused.0.to_le_bytes()));
        page[REFUSED_LEVEL..REFUSED_LEVEL + 4].copy_from_slice(&refused_level_word(self.refused.1).to_le_bytes());
        page
    }
}

#[cfg(test)]
mod tests {
    use crate::ring::file::PAGE_BYTES;
    use crate::ring::record::{RECORD_ALIGN, RECORD_BODY_BYTES_MAX, RECORD_HEAD_BYTES};

    #[test]
    fn the_format_document_tells_the_constants_of_ring_files() {
        let document = include_str!("format.md");
        for (name, value) in [
            ("RING_PAGE_BYTES", PAGE_BYTES),
            ("RING_RECORD_HEAD_BYTES", RECORD_HEAD_BYTES),
            ("RING_RECORD_ALIGN", RECORD_ALIGN),
            ("RING_RECORD_BODY_BYTES_MAX", RECORD_BODY_BYTES_MAX),
        ] {
            assert!(document.contains(&format!("| `{name}` | {value} |")), "{name} is {value}");
        }
        let places = [
            ("0 and 2048 | 8 | magic", super::SECOND_COPY == 2048),
            ("1024 and 3072 | 8, 8, 8 | clock anchor", super::ANCHOR == 1024),
            ("1536 and 3584 | 4 | how many sections", super::SECTIONS == [1536, 3584]),
            ("| 2560 | 4 | how the log stands", crate::ring::figures_area::FIGURES == 2560),
            ("| 128 | 8 | written", super::WRITTEN == 128),
            ("| 192 and 256 | 8 | read", super::READ == [192, 256]),
            ("| 320, 384 and 448 | 8 | last tseq", super::REFUSED_TSEQ == [320, 384, 448]),
            ("| 328 | 1, 1, 1, 1 | highest level", super::REFUSED_LEVEL == 328),
            ("| 512 and 1024 | 4, 4, 2, n | the thread", super::OWNER == [512, 1024]),
        ];
        for (row, is_so) in places {
            assert!(is_so && document.contains(row), "{row}");
        }
    }
}
