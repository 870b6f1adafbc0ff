//! The layout of a ring file, `NNNNNNNN.ring`: the rings of one run, named by the index of the run's first segment.
//!
//! ```text
//! [file header 4096] [section] [section] ..          section: [section header 4096 | data]
//!
//! file header     0, 2048   twice: magic 8 | version u16 | 0 u16 | pid u32 | log_id u64 | run_id u64 | boot_id 16
//!                           | index u64 | part_bytes u64 | crc u32
//!              1024, 3072   twice: clock anchor: stamp u64 | time_ns i64 | ns per tick, 32.32 fixed point, u64 | crc u32
//!              1536, 3584   sections in the file u32, twice: raised once a section is whole; 0 where it is not kept
//!              2560         how the log stands: see `figures_area`
//!              3104, 3592   levels that are asked for, levels in force: see `level_area`
//! section header  0, 2048   twice: run_id u64 | bytes u64 | number u32 | kind u32 | crc u32
//!                 128       written u64             these are of rings only, and change while the run lives:
//!                 192, 256  read u64, twice
//!                 320, 384, 448   refused tseq u64, three times
//!                 328       refused level u8, four times
//!                 512, 1024 owner, twice: crc u32 | tid u32 | name bytes u16 | name
//! ```
//! A ring's data is a ring of `bytes` bytes, a power of two, of [records](crate::ring::record).
//!
//! The data of a names section is a row of owners, of 128 bytes each, of the threads that share a ring.
//!
//! The data of a definitions section is a row of `crc u32 | len u32 | call site` records, each a multiple of 8 bytes long,
//! with the call site as [`CallSite::encode`](crate::CallSite::encode) gives it; the first that does not hold ends it.

use crate::bytes::Fields;

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"\x89RING\r\n\x1a";
const VERSION: u16 = 1;

/// Bytes of each header: a page, so that data starts at one.
pub(crate) const PAGE_BYTES: usize = 4096;
/// The second copy of a header stands here; in another sector than the first.
pub(crate) const SECOND_COPY: usize = 2048;
/// Where the clock anchor stands, from each copy of the file header.
pub(crate) const ANCHOR: usize = 1024;
/// How many sections the file has, so that one that was cut off is missed. Twice, as nothing else tells.
pub(crate) const SECTIONS: [usize; 2] = [1536, 3584];
/// End of what is published: a position.
pub(crate) const WRITTEN: usize = 128;
/// Start of what is not in a segment yet: a position. Twice, as nothing tells whether one of them is right.
pub(crate) const READ: [usize; 2] = [192, 256];
/// The last tseq that a refused call has used up; 0 for none. Three times, as it is stored while others may look: what two say
/// holds.
pub(crate) const REFUSED_TSEQ: [usize; 3] = [320, 384, 448];
/// Highest level of the refused calls that no marker tells of yet, in each of four bytes.
pub(crate) const REFUSED_LEVEL: usize = 328;
/// The thread that owns the ring, twice.
pub(crate) const OWNER: [usize; 2] = [512, 1024];

/// Definitions start at multiples of this.
const DEFINITION_ALIGN: usize = 8;
/// Longest name of an owner that is kept.
const OWNER_NAME_BYTES_MAX: usize = 255;
/// Bytes for the name of a thread without a ring, with what stands before it.
pub(crate) const NAME_BYTES: usize = 128;
/// Names of threads without a ring that are kept: more than such threads are at work at a time.
pub(crate) const NAMES_MAX: usize = 512;
/// What stands before a name.
const NAME_HEAD_BYTES: usize = 4 + 4 + 2;

/// What the file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) pid: u32,
    pub(crate) log_id: u64,
    pub(crate) run_id: u64,
    pub(crate) boot_id: [u8; 16],
    /// Index of the run's first segment.
    pub(crate) index: u64,
    /// A body longer than this is several parts, with a tseq each.
    pub(crate) part_bytes: u64,
}

/// Bytes of a copy of the file header.
pub(super) const FILE_HEADER_BYTES: usize = 8 + 2 + 2 + 4 + 8 + 8 + 16 + 8 + 8 + 4;
const SECTION_HEADER_BYTES: usize = 8 + 8 + 4 + 4 + 4;
const ANCHOR_BYTES: usize = 8 + 8 + 8 + 4;

/// Appends the checksum of all so far.
fn seal(bytes: &mut Vec<u8>, seed: u64) {
    let crc = seeded_crc(seed, bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
}

/// The fields before the checksum at the end of `bytes`, if that holds.
fn unseal(bytes: &[u8], seed: u64) -> Option<Fields<'_>> {
    let (covered, crc) = bytes.split_last_chunk::<4>()?;
    (seeded_crc(seed, covered) == u32::from_le_bytes(*crc)).then(|| Fields::new(covered))
}

pub(super) fn seeded_crc(seed: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed as u32 ^ (seed >> 32) as u32);
    hasher.update(bytes);
    hasher.finalize()
}

/// Puts `bytes` in both places of a page.
pub(crate) fn put_twice(page: &mut [u8], places: [usize; 2], bytes: &[u8]) {
    places.into_iter().for_each(|at| page[at..at + bytes.len()].copy_from_slice(bytes));
}

/// A page that starts with `copy`, as its second half does.
pub(crate) fn page_of(copy: &[u8]) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    put_twice(&mut page, [0, SECOND_COPY], copy);
    page
}

impl FileHeader {
    /// One copy.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.log_id.to_le_bytes());
        out.extend_from_slice(&self.run_id.to_le_bytes());
        out.extend_from_slice(&self.boot_id);
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.part_bytes.to_le_bytes());
        seal(&mut out, 0);
        out
    }

    /// Reads the copy that holds from the first page.
    pub(crate) fn decode(page: &[u8]) -> Option<FileHeader> {
        [0, SECOND_COPY].into_iter().find_map(|at| FileHeader::decode_copy(page.get(at..at + FILE_HEADER_BYTES)?))
    }

    /// Reads one copy.
    pub(super) fn decode_copy(copy: &[u8]) -> Option<FileHeader> {
        let mut fields = unseal(copy, 0)?;
        if fields.array::<8>()? != MAGIC || fields.u16()? != VERSION {
            return None;
        }
        fields.u16()?;
        Some(FileHeader {
            pid: fields.u32()?,
            log_id: fields.u64()?,
            run_id: fields.u64()?,
            boot_id: fields.array()?,
            index: fields.u64()?,
            part_bytes: fields.u64().filter(|&bytes| bytes > 0)?,
        })
    }
}

/// A moment by the stamps' clock and by the system's, and how the first runs: what turns stamps into times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) stamp: u64,
    pub(crate) time_ns: i64,
    /// Nanoseconds per tick of the stamps, times 2^32.
    pub(crate) ns_per_tick: u64,
}

impl Anchor {
    /// One copy.
    pub(crate) fn encode(&self, run_id: u64) -> Vec<u8> {
        let mut out = self.stamp.to_le_bytes().to_vec();
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.extend_from_slice(&self.ns_per_tick.to_le_bytes());
        seal(&mut out, run_id);
        out
    }

    /// Reads the later one of the copies in the first page that hold.
    pub(crate) fn decode(page: &[u8], run_id: u64) -> Option<Anchor> {
        let copy = |at: usize| {
            let mut fields = unseal(page.get(at..at + ANCHOR_BYTES)?, run_id)?;
            Some(Anchor { stamp: fields.u64()?, time_ns: fields.i64()?, ns_per_tick: fields.u64()? })
        };
        [ANCHOR, SECOND_COPY + ANCHOR].into_iter().filter_map(copy).max_by_key(|anchor| anchor.stamp)
    }

    /// The time of a stamp, in nanoseconds since 1970 UTC.
    #[inline]
    pub(crate) fn time_ns(&self, stamp: u64) -> i64 {
        let ticks = stamp.wrapping_sub(self.stamp) as i64;
        let ns = (i128::from(ticks) * i128::from(self.ns_per_tick)) >> 32;
        self.time_ns.saturating_add(i64::try_from(ns).unwrap_or(0))
    }
}

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SectionKind {
    /// Call sites.
    Definitions = 1,
    /// The ring of one thread at a time.
    Ring = 2,
    /// The ring that all threads share.
    SharedRing = 3,
    /// Names of threads in the shared ring.
    Names = 4,
}

impl SectionKind {
    pub(crate) fn is_ring(self) -> bool {
        matches!(self, SectionKind::Ring | SectionKind::SharedRing)
    }
}

/// What a section says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectionHeader {
    pub(crate) kind: SectionKind,
    /// Counted from 0 on.
    pub(crate) number: u32,
    /// Bytes of data.
    pub(crate) bytes: u64,
}

impl SectionHeader {
    /// One copy.
    pub(crate) fn encode(&self, run_id: u64) -> Vec<u8> {
        let mut out = run_id.to_le_bytes().to_vec();
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&(self.kind as u32).to_le_bytes());
        seal(&mut out, run_id);
        out
    }

    /// Reads the copy that holds from the section's first page.
    pub(crate) fn decode(page: &[u8], run_id: u64) -> Option<SectionHeader> {
        [0, SECOND_COPY].into_iter().find_map(|at| {
            let mut fields = unseal(page.get(at..at + SECTION_HEADER_BYTES)?, run_id)?;
            if fields.u64()? != run_id {
                return None;
            }
            let (bytes, number) = (fields.u64()?, fields.u32()?);
            let kind = match fields.u32()? {
                1 => SectionKind::Definitions,
                2 => SectionKind::Ring,
                3 => SectionKind::SharedRing,
                4 => SectionKind::Names,
                _ => return None,
            };
            let fits = !kind.is_ring() || bytes.is_power_of_two();
            fits.then_some(SectionHeader { kind, number, bytes })
        })
    }
}

/// The owner of a ring, as it stands at [`OWNER`] in the section's page. A longer name is cut.
pub(crate) fn encode_owner(tid: u32, name: &str, run_id: u64) -> Vec<u8> {
    encode_thread(tid, name, OWNER_NAME_BYTES_MAX, run_id)
}

/// A thread without a ring, as it stands in a section of names. A longer name is cut.
pub(crate) fn encode_name(tid: u32, name: &str, run_id: u64) -> Vec<u8> {
    encode_thread(tid, name, NAME_BYTES - NAME_HEAD_BYTES, run_id)
}

fn encode_thread(tid: u32, name: &str, name_bytes_max: usize, run_id: u64) -> Vec<u8> {
    let name = &name.as_bytes()[..name.len().min(name_bytes_max)];
    let mut covered = tid.to_le_bytes().to_vec();
    covered.extend_from_slice(&(name.len() as u16).to_le_bytes());
    covered.extend_from_slice(name);
    let mut out = seeded_crc(run_id, &covered).to_le_bytes().to_vec();
    out.extend_from_slice(&covered);
    out
}

/// Reads the owner from the section's page: tid and name.
pub(crate) fn decode_owner(page: &[u8], run_id: u64) -> Option<(u32, String)> {
    OWNER.into_iter().find_map(|at| decode_thread(page.get(at..)?, run_id))
}

/// Reads the last tseq that a refused call has used up from the section's page. `None` where no two of its copies agree.
pub(crate) fn refused_tseq(page: &[u8]) -> Option<u64> {
    let copy = |at: usize| page.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word));
    let [first, second, third] = REFUSED_TSEQ.map(copy);
    if first == second || first == third { first } else { second.filter(|_| second == third) }
}

/// A level as it stands at [`REFUSED_LEVEL`]: of two the higher one is the higher number.
#[inline]
pub(crate) fn refused_level_word(level: u8) -> u32 {
    u32::from(level) * 0x0101_0101
}

/// The level in such a word, as most of its bytes have it; 0 where they don't agree.
pub(crate) fn level_of_word(word: u32) -> u8 {
    let bytes = word.to_le_bytes();
    bytes.into_iter().find(|byte| bytes.iter().filter(|other| *other == byte).count() > 2).unwrap_or(0)
}

/// Reads the threads of a section of names, in its order.
pub(crate) fn decode_names(data: &[u8], run_id: u64) -> impl Iterator<Item = (u32, String)> {
    data.chunks(NAME_BYTES).filter_map(move |place| decode_thread(place, run_id)).filter(|(tid, _)| *tid > 0)
}

fn decode_thread(bytes: &[u8], run_id: u64) -> Option<(u32, String)> {
    let mut fields = Fields::new(bytes);
    let crc = fields.u32()?;
    let covered = fields.rest();
    let tid = fields.u32()?;
    let len = usize::from(fields.u16()?);
    let name = fields.take(len)?;
    let holds = seeded_crc(run_id, &covered[..4 + 2 + len]) == crc;
    holds.then(|| (tid, String::from_utf8_lossy(name).into_owned()))
}

/// Appends a record of a definitions section.
pub(crate) fn push_definition(out: &mut Vec<u8>, payload: &[u8], run_id: u64) {
    out.extend_from_slice(&seeded_crc(run_id, payload).to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(DEFINITION_ALIGN), 0);
}

/// The payloads of the definitions in a section's data, up to the first that does not hold.
pub(crate) fn definitions(data: &[u8], run_id: u64) -> Vec<&[u8]> {
    let mut fields = Fields::new(data);
    let mut next = || {
        let (crc, len) = (fields.u32()?, fields.u32()? as usize);
        // The end is zeros, and the checksum of nothing is 0.
        let payload = fields.take(len).filter(|payload| !payload.is_empty() && seeded_crc(run_id, payload) == crc)?;
        fields.take(len.next_multiple_of(DEFINITION_ALIGN) - len)?;
        Some(payload)
    };
    std::iter::from_fn(&mut next).collect()
}

/// File name of the rings of the run whose first segment has this index.
pub(crate) fn ring_name(index: u64) -> String {
    format!("{index:08}.ring")
}

/// The index in the name of a ring file; `None` for other names.
pub(crate) fn index_of_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".ring")?;
    let is_ours = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&index| is_ours && ring_name(index) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 0x1234_5678_9abc_def0;

    fn header() -> FileHeader {
        FileHeader { pid: 7, log_id: 1, run_id: RUN, boot_id: [3; 16], index: 12, part_bytes: 1000 }
    }

    fn page(copy: &[u8], places: [usize; 2]) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        put_twice(&mut page, places, copy);
        page
    }

    #[test]
    fn headers_come_back_with_either_copy_damaged() {
        let section = SectionHeader { kind: SectionKind::Ring, number: 3, bytes: 1 << 20 };
        let anchor = Anchor { stamp: 5, time_ns: -6, ns_per_tick: 7 };
        let file_page = page_of(&header().encode());
        let section_page = page_of(&section.encode(RUN));
        let anchor_page = page(&anchor.encode(RUN), [ANCHOR, SECOND_COPY + ANCHOR]);
        assert_eq!(header().encode().len(), FILE_HEADER_BYTES);
        assert_eq!(section.encode(RUN).len(), SECTION_HEADER_BYTES);
        assert_eq!(anchor.encode(RUN).len(), ANCHOR_BYTES);
        for bit in 0..PAGE_BYTES * 8 {
            let flipped = |page: &[u8]| {
                let mut page = page.to_vec();
                page[bit / 8] ^= 1 << (bit % 8);
                page
            };
            assert_eq!(FileHeader::decode(&flipped(&file_page)), Some(header()));
            assert_eq!(SectionHeader::decode(&flipped(&section_page), RUN), Some(section));
            assert_eq!(Anchor::decode(&flipped(&anchor_page), RUN), Some(anchor));
        }
        assert_eq!(SectionHeader::decode(&section_page, RUN + 1), None);
        assert_eq!(SectionHeader::decode(&vec![0; PAGE_BYTES], 0), None);
    }

    #[test]
    fn stamps_become_times_on_either_side_of_the_anchor() {
        let anchor = Anchor { stamp: 1000, time_ns: 50, ns_per_tick: 1 << 31 };
        assert_eq!((anchor.time_ns(1000), anchor.time_ns(1010), anchor.time_ns(990)), (50, 55, 45));
    }

    #[test]
    fn owners_and_definitions_come_back_and_names_are_ours_only() {
        let mut page = vec![0; PAGE_BYTES];
        assert_eq!(decode_owner(&page, RUN), None);
        let owner = encode_owner(9, &"ü".repeat(200), RUN);
        page[OWNER[1]..OWNER[1] + owner.len()].copy_from_slice(&owner);
        assert_eq!(decode_owner(&page, RUN).map(|(tid, name)| (tid, name.chars().count())), Some((9, 128)));

        let mut data = Vec::new();
        push_definition(&mut data, b"first", RUN);
        push_definition(&mut data, b"second one", RUN);
        data.resize(256, 0);
        assert_eq!(definitions(&data, RUN), [&b"first"[..], b"second one"]);
        data[8] ^= 1;
        assert_eq!(definitions(&data, RUN).len(), 0);

        assert_eq!(index_of_name(&ring_name(7)), Some(7));
        assert_eq!(index_of_name("123456789.ring"), Some(123_456_789));
        for other in ["7.ring", "0000000x.ring", "00000007.flog", "000000007.ring"] {
            assert_eq!(index_of_name(other), None, "{other}");
        }
    }
}
