//! The clean end of a segment, and the index that stands in it.

use crate::bytes::Fields;
use crate::format::{INDEX_POINTS_MAX, SEAL_FOOTER};

/// A place in a segment where a reader can start: a frame boundary, and what the stretch from there on holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexPoint {
    /// Byte offset of a frame.
    pub offset: u64,
    /// First sequence number at or behind that frame.
    pub seq: u64,
    /// Earliest time in the stretch up to the next point, nanoseconds since 1970 UTC.
    pub time_min_ns: i64,
    /// Latest time in the stretch.
    pub time_max_ns: i64,
}

impl IndexPoint {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&self.time_min_ns.to_le_bytes());
        out.extend_from_slice(&self.time_max_ns.to_le_bytes());
    }

    fn decode(fields: &mut Fields<'_>) -> Option<IndexPoint> {
        Some(IndexPoint {
            offset: fields.u64()?,
            seq: fields.u64()?,
            time_min_ns: fields.i64()?,
            time_max_ns: fields.i64()?,
        })
    }
}

/// A point of the index that stands in the segment itself, behind the stretch that it describes, so that a reader can skip
/// in a segment that is not sealed: from the last mark back to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexMark {
    /// Offset of the index mark before this one; 0 for the first.
    pub previous_mark: u64,
    /// The stretch, which ends where this mark's frame starts.
    pub point: IndexPoint,
}

impl IndexMark {
    /// Appends the payload: `[previous_mark u64 | offset u64 | seq u64 | time_min_ns i64 | time_max_ns i64]`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.previous_mark.to_le_bytes());
        self.point.encode(out);
    }

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> Option<IndexMark> {
        let mut fields = Fields::new(payload);
        Some(IndexMark { previous_mark: fields.u64()?, point: IndexPoint::decode(&mut fields)? })
    }
}

/// Why a segment was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum SealReason {
    /// The writer closed the log: no segment follows in this run.
    Closed = 1,
    /// The writer rolled: the segment `successor_id` follows.
    Rolled = 2,
    /// `repair` or a rewrite made this segment.
    Repaired = 3,
    /// It holds what the rings of a dead run still held.
    Recovered = 4,
}

/// The clean end of a segment: its last frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Why it was sealed.
    pub reason: SealReason,
    /// Entries in this segment.
    pub entries: u64,
    /// Bytes of those entries' bodies.
    pub body_bytes: u64,
    /// Last sequence number used in this segment, or the one before its first.
    pub last_seq: u64,
    /// Earliest time of an entry; `i64::MAX` without entries.
    pub time_min_ns: i64,
    /// Latest time of an entry; `i64::MIN` without entries.
    pub time_max_ns: i64,
    /// Id of the segment that follows; 0 for none.
    pub successor_id: u64,
    /// Offsets of the frames that hold definitions or the dictionary.
    pub definitions: Vec<u64>,
    /// Where to start reading.
    pub points: Vec<IndexPoint>,
}

/// Seals list at most this many definitions, so that the payload keeps its limit; with more the list is left empty and a
/// reader looks for definitions by itself.
pub const SEAL_DEFINITIONS_MAX: usize = 65_536;

const SEAL_FIXED_BYTES: usize = 8 * 7 + 1 + 7 + 4 + 4;
const POINT_BYTES: usize = 8 * 4;
const FOOTER_BYTES: usize = 8 + SEAL_FOOTER.len();

const _: () = assert!(
    SEAL_FIXED_BYTES + POINT_BYTES * INDEX_POINTS_MAX + 8 * SEAL_DEFINITIONS_MAX + FOOTER_BYTES
        <= crate::format::PAYLOAD_BYTES_MAX
);

impl Seal {
    /// Length of the payload.
    pub fn payload_len(&self) -> usize {
        SEAL_FIXED_BYTES + POINT_BYTES * self.points.len() + 8 * self.definitions.len() + FOOTER_BYTES
    }

    /// Appends the payload of a seal frame that stands at `offset`; its last bytes, the footer, are then the segment's last.
    pub fn encode(&self, offset: u64, out: &mut Vec<u8>) {
        for number in [self.entries, self.body_bytes, self.last_seq] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.time_min_ns.to_le_bytes());
        out.extend_from_slice(&self.time_max_ns.to_le_bytes());
        out.extend_from_slice(&self.successor_id.to_le_bytes());
        out.extend_from_slice(&[self.reason as u8, 0, 0, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&(self.definitions.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.points.len() as u32).to_le_bytes());
        self.definitions.iter().for_each(|offset| out.extend_from_slice(&offset.to_le_bytes()));
        self.points.iter().for_each(|point| point.encode(out));
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&SEAL_FOOTER);
    }

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> Option<Seal> {
        let mut fields = Fields::new(payload);
        let (entries, body_bytes, last_seq) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (time_min_ns, time_max_ns, successor_id) = (fields.i64()?, fields.i64()?, fields.u64()?);
        let reason = match fields.array::<8>()?[0] {
            1 => SealReason::Closed,
            2 => SealReason::Rolled,
            4 => SealReason::Recovered,
            _ => SealReason::Repaired,
        };
        fields.u64()?;
        let (definition_count, point_count) = (fields.u32()? as usize, fields.u32()? as usize);
        if fields.rest().len() < 8 * definition_count + POINT_BYTES * point_count {
            return None;
        }
        let definitions = (0..definition_count).map(|_| fields.u64()).collect::<Option<Vec<_>>>()?;
        let points = (0..point_count).map(|_| IndexPoint::decode(&mut fields)).collect::<Option<Vec<_>>>()?;
        Some(Seal {
            reason,
            entries,
            body_bytes,
            last_seq,
            time_min_ns,
            time_max_ns,
            successor_id,
            definitions,
            points,
        })
    }

    /// Offset of the seal frame, told by the last 16 bytes of a sealed segment.
    pub fn offset_in_footer(last: &[u8; 16]) -> Option<u64> {
        let mut fields = Fields::new(last);
        let offset = fields.u64()?;
        (fields.rest() == SEAL_FOOTER).then_some(offset)
    }
}
