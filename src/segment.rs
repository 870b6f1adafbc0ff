//! One file of a log: its name and its header.
//!
//! The header stands twice, 512 bytes each with a checksum of its own, so that neither a flipped bit nor a lost sector
//! costs the segment.

use std::fmt;
use std::io;

use crate::bytes::Fields;
use crate::clock::UtcTime;
use crate::format::{HEADER_BYTES, HEADER_COPY_BYTES, MAGIC, VERSION};
use crate::storage::ReadAt;

/// What a segment says of itself and of the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// [`SEGMENT_REWRITTEN`](crate::format::SEGMENT_REWRITTEN), [`SEGMENT_PLACEHOLDER`](crate::format::SEGMENT_PLACEHOLDER).
    pub flags: u8,
    /// The log that it belongs to.
    pub log_id: u64,
    /// The run that wrote it.
    pub run_id: u64,
    /// Its own id, random; seeds all checksums of its frames.
    pub segment_id: u64,
    /// The boot of the machine that it was opened in.
    pub boot_id: [u8; 16],
    /// Its number in the log, from 1 on.
    pub index: u64,
    /// Last index that it stands for; `index` but for rewritten segments.
    pub index_last: u64,
    /// How often it was rewritten.
    pub generation: u32,
    /// The writing process.
    pub pid: u32,
    /// First sequence number that it may hold.
    pub first_seq: u64,
    /// When it was opened, nanoseconds since 1970 UTC.
    pub opened_ns: i64,
    /// Last sequence number known to be on stable storage when it was opened.
    pub synced_upto: u64,
    /// First sequence number that retention has kept so far; 1 if it has removed nothing.
    pub first_seq_kept: u64,
    /// The segment before it.
    pub predecessor: Option<Predecessor>,
}

/// What a segment's header says of the segment before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// Its id, never 0.
    pub segment_id: u64,
    /// The last sequence number that it holds.
    pub last_seq: u64,
    /// Offset of the end of its last frame that counts; behind it there is nothing but a seal, or a torn tail.
    pub accepted_end: u64,
}

/// Why a copy of a segment header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderFault {
    /// The magic is not there: not a segment, or its start is damaged.
    Magic,
    /// The checksum does not hold.
    Checksum,
    /// The checksum holds, but the version is another one.
    Version(u16),
}

impl SegmentHeader {
    /// Both copies, [`HEADER_BYTES`] long.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut fields = Vec::with_capacity(HEADER_COPY_BYTES);
        fields.extend_from_slice(&MAGIC);
        fields.extend_from_slice(&VERSION.to_le_bytes());
        fields.extend_from_slice(&(HEADER_COPY_BYTES as u16).to_le_bytes());
        fields.extend_from_slice(&[self.flags, 0, 0, 0]);
        for number in [self.log_id, self.run_id, self.segment_id] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        fields.extend_from_slice(&self.boot_id);
        for number in [self.index, self.index_last] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        fields.extend_from_slice(&self.generation.to_le_bytes());
        fields.extend_from_slice(&self.pid.to_le_bytes());
        fields.extend_from_slice(&self.first_seq.to_le_bytes());
        fields.extend_from_slice(&self.opened_ns.to_le_bytes());
        for number in [self.synced_upto, self.first_seq_kept] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        let before = self.predecessor.unwrap_or(Predecessor { segment_id: 0, last_seq: 0, accepted_end: 0 });
        for number in [before.segment_id, before.last_seq, before.accepted_end] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        let mut copy = [0u8; HEADER_COPY_BYTES];
        copy[..fields.len()].copy_from_slice(&fields);
        let crc = crc32fast::hash(&copy[..HEADER_COPY_BYTES - 4]);
        copy[HEADER_COPY_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        let mut both = [0u8; HEADER_BYTES];
        both[..HEADER_COPY_BYTES].copy_from_slice(&copy);
        both[HEADER_COPY_BYTES..].copy_from_slice(&copy);
        both
    }

    /// Reads the header of a segment, from its second copy where the first does not hold.
    ///
    /// # Errors
    /// The outer: what the system says while reading. The inner: what is wrong with the first copy, where neither holds.
    pub fn read(source: &(impl ReadAt + ?Sized)) -> io::Result<Result<SegmentHeader, HeaderFault>> {
        let mut both = [0u8; HEADER_BYTES];
        let len = source.read_full_at(&mut both, 0)?;
        let (first, second) = both[..len].split_at(len.min(HEADER_COPY_BYTES));
        let decoded = first.first_chunk().map_or(Err(HeaderFault::Magic), SegmentHeader::decode);
        Ok(match second.first_chunk().map(SegmentHeader::decode) {
            Some(Ok(header)) if decoded.is_err() => Ok(header),
            _ => decoded,
        })
    }

    /// Reads one copy.
    ///
    /// # Errors
    /// Which of its conditions does not hold.
    pub fn decode(copy: &[u8; HEADER_COPY_BYTES]) -> Result<SegmentHeader, HeaderFault> {
        if copy[..8] != MAGIC {
            return Err(HeaderFault::Magic);
        }
        let (covered, crc) = copy.split_at(HEADER_COPY_BYTES - 4);
        if crc != crc32fast::hash(covered).to_le_bytes() {
            return Err(HeaderFault::Checksum);
        }
        let mut fields = Fields::new(&covered[8..]);
        let version = fields.u16().unwrap_or(0);
        if version != VERSION {
            return Err(HeaderFault::Version(version));
        }
        SegmentHeader::decode_fields(&mut fields).ok_or(HeaderFault::Checksum)
    }

    fn decode_fields(fields: &mut Fields<'_>) -> Option<SegmentHeader> {
        fields.u16()?;
        let [flags, ..] = fields.array::<4>()?;
        let (log_id, run_id, segment_id) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let boot_id = fields.array()?;
        let (index, index_last) = (fields.u64()?, fields.u64()?);
        let (generation, pid) = (fields.u32()?, fields.u32()?);
        let (first_seq, opened_ns) = (fields.u64()?, fields.i64()?);
        let (synced_upto, first_seq_kept) = (fields.u64()?, fields.u64()?);
        let before = Predecessor { segment_id: fields.u64()?, last_seq: fields.u64()?, accepted_end: fields.u64()? };
        Some(SegmentHeader {
            flags,
            log_id,
            run_id,
            segment_id,
            boot_id,
            index,
            index_last,
            generation,
            pid,
            first_seq,
            opened_ns,
            synced_upto,
            first_seq_kept,
            predecessor: (before.segment_id != 0).then_some(before),
        })
    }

    /// Whether `repair` made this segment to stand where one is missing.
    pub fn is_placeholder(&self) -> bool {
        self.flags & crate::format::SEGMENT_PLACEHOLDER != 0
    }

    /// The name that a segment with this header has.
    pub fn name(&self) -> SegmentName {
        if self.generation > 0 {
            SegmentName::Rewritten { first: self.index, last: self.index_last, generation: self.generation }
        } else {
            SegmentName::Original { index: self.index, opened: UtcTime::from_ns(self.opened_ns).compact() }
        }
    }
}

/// The name of a segment file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentName {
    /// `00000001-20261130T120000Z.flog`
    Original {
        /// Number of the segment in its log.
        index: u64,
        /// The time it was opened, as in the name.
        opened: String,
    },
    /// `00000001-00000007-g2.flog`
    Rewritten {
        /// First segment that it stands for.
        first: u64,
        /// Last segment that it stands for.
        last: u64,
        /// How often it was rewritten.
        generation: u32,
    },
}

impl SegmentName {
    /// Extension of segment files, with its dot.
    pub const EXTENSION: &'static str = ".flog";

    /// Reads a file name; `None` if no segment has such a name. Each name has one form, the one that is written.
    pub fn parse(name: &str) -> Option<SegmentName> {
        SegmentName::parse_loosely(name).filter(|parsed| parsed.to_string() == name)
    }

    fn parse_loosely(name: &str) -> Option<SegmentName> {
        let stem = name.strip_suffix(SegmentName::EXTENSION)?;
        let (first, rest) = stem.split_once('-')?;
        let index = parse_index(first)?;
        if let Some((last, generation)) = rest.split_once("-g") {
            return Some(SegmentName::Rewritten {
                first: index,
                last: parse_index(last)?,
                generation: generation.parse().ok()?,
            });
        }
        let shape = rest.len() == 16
            && rest.bytes().enumerate().all(|(at, byte)| match at {
                8 => byte == b'T',
                15 => byte == b'Z',
                _ => byte.is_ascii_digit(),
            });
        shape.then(|| SegmentName::Original { index, opened: rest.to_owned() })
    }

    /// The first index that the segment stands for: names sort by it.
    pub fn index(&self) -> u64 {
        match self {
            SegmentName::Original { index, .. } => *index,
            SegmentName::Rewritten { first, .. } => *first,
        }
    }

    /// The last index that the segment stands for.
    pub fn index_last(&self) -> u64 {
        match self {
            SegmentName::Original { index, .. } => *index,
            SegmentName::Rewritten { last, .. } => *last,
        }
    }
}

/// At least eight digits, so that names sort.
fn parse_index(text: &str) -> Option<u64> {
    let digits = text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentName::Original { index, opened } => write!(f, "{index:08}-{opened}{}", SegmentName::EXTENSION),
            SegmentName::Rewritten { first, last, generation } => {
                write!(f, "{first:08}-{last:08}-g{generation}{}", SegmentName::EXTENSION)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SegmentHeader {
        SegmentHeader {
            flags: 0,
            log_id: 1,
            run_id: 2,
            segment_id: 3,
            boot_id: [4; 16],
            index: 5,
            index_last: 5,
            generation: 0,
            pid: 6,
            first_seq: 7,
            opened_ns: 1_796_040_000_000_000_000,
            synced_upto: 8,
            first_seq_kept: 1,
            predecessor: Some(Predecessor { segment_id: 9, last_seq: 6, accepted_end: 10 }),
        }
    }

    #[test]
    fn both_copies_decode_to_the_header() {
        let bytes = sample().encode();
        assert_eq!(SegmentHeader::decode(bytes.first_chunk().unwrap()), Ok(sample()));
        assert_eq!(SegmentHeader::decode(bytes.last_chunk().unwrap()), Ok(sample()));
        let first = SegmentHeader { predecessor: None, ..sample() };
        assert_eq!(SegmentHeader::decode(first.encode().first_chunk().unwrap()), Ok(first));
    }

    #[test]
    fn each_flipped_bit_is_refused() {
        for bit in 0..HEADER_COPY_BYTES * 8 {
            let mut copy: [u8; HEADER_COPY_BYTES] = *sample().encode().first_chunk().unwrap();
            copy[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&copy).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_future_version_is_named() {
        let mut copy: [u8; HEADER_COPY_BYTES] = *sample().encode().first_chunk().unwrap();
        copy[8] = 2;
        let crc = crc32fast::hash(&copy[..HEADER_COPY_BYTES - 4]);
        copy[HEADER_COPY_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&copy), Err(HeaderFault::Version(2)));
    }

    #[test]
    fn names_come_back() {
        let original = "00000005-20261130T120000Z.flog";
        assert_eq!(sample().name().to_string(), original);
        assert_eq!(SegmentName::parse(original), Some(sample().name()));
        let rewritten = SegmentHeader { index_last: 9, generation: 2, ..sample() }.name();
        assert_eq!(rewritten.to_string(), "00000005-00000009-g2.flog");
        assert_eq!(SegmentName::parse("00000005-00000009-g2.flog"), Some(rewritten));
        for other in [
            "00000005-00000009-g+2.flog",
            "000000005-20261130T120000Z.flog",
            "1-20261130T120000Z.flog",
            "00000005.flog",
            "00000005-x.flog",
            "00000002.ring",
            "a.txt",
        ] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }
}
