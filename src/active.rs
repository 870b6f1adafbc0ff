//! The segment being written: its file, how far it is whole, and what its seal will say.

use std::io;
use std::sync::Arc;

use crate::block::{BlockHeader, BlockReader};
use crate::control::{DeclaredLoss, DropMarker, IndexMark, IndexPoint, SEAL_DEFINITIONS_MAX, Seal, SealReason};
use crate::entry::EntryHead;
use crate::format::{FRAME_HEADER_BYTES, FrameKind, HEADER_BYTES, INDEX_POINTS_MAX};
use crate::frame::{FrameHeader, Seed, push_frame};
use crate::segment::SegmentHeader;
use crate::storage::StorageFile;

/// How often a write may accept nothing, or be interrupted, before it counts as failed.
const WRITE_TRIES: u32 = 16;

/// Space reserved at once for a large segment, unless the options say more.
const ALLOCATION_BYTES_MAX: u64 = 32 << 20;

/// What a stretch of frames holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) entries: u64,
    pub(crate) body_bytes: u64,
    pub(crate) time_min_ns: i64,
    pub(crate) time_max_ns: i64,
}

impl Tally {
    pub(crate) const EMPTY: Tally = Tally { entries: 0, body_bytes: 0, time_min_ns: i64::MAX, time_max_ns: i64::MIN };

    #[inline]
    pub(crate) fn add(&mut self, time_ns: i64, body_bytes: usize) {
        self.entries += 1;
        self.body_bytes += body_bytes as u64;
        self.time_min_ns = self.time_min_ns.min(time_ns);
        self.time_max_ns = self.time_max_ns.max(time_ns);
    }

    pub(crate) fn absorb(&mut self, other: &Tally) {
        self.entries += other.entries;
        self.body_bytes += other.body_bytes;
        self.time_min_ns = self.time_min_ns.min(other.time_min_ns);
        self.time_max_ns = self.time_max_ns.max(other.time_max_ns);
    }
}

/// Whole frames of one segment, looked through.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) tally: Tally,
    /// Offsets of the frames that hold definitions.
    pub(crate) definitions: Vec<u64>,
    /// First sequence number behind the stretch.
    pub(crate) next_seq: u64,
    /// Bytes of the whole frames.
    pub(crate) bytes: usize,
}

impl Stretch {
    /// Looks through the whole valid frames at the start of `frames`, whose first stands at `offset`; stops at anything
    /// else. `next_seq` is the first number that they may use.
    pub(crate) fn of(frames: &[u8], seed: Seed, offset: u64, next_seq: u64) -> Stretch {
        let mut stretch = Stretch { tally: Tally::EMPTY, definitions: Vec::new(), next_seq, bytes: 0 };
        let mut blocks = BlockReader::default();
        while let Some((header, payload)) = whole_frame(&frames[stretch.bytes..], seed, offset + stretch.bytes as u64) {
            let kind = FrameKind::from_u8(header.kind);
            let used = kind.map_or(0, |kind| seqs_used(kind, payload));
            match kind {
                Some(FrameKind::Entry) => stretch.add_entry(payload),
                Some(FrameKind::Block) if blocks.decode(payload).is_ok() => {
                    blocks.rows().for_each(|row| stretch.add_entry(row.payload));
                }
                Some(FrameKind::CallSite | FrameKind::Thread | FrameKind::Dictionary) => {
                    stretch.definitions.push(offset + stretch.bytes as u64);
                }
                _ => {}
            }
            stretch.next_seq = header.seq.saturating_add(used).max(stretch.next_seq);
            stretch.bytes += header.frame_bytes() as usize;
        }
        stretch
    }

    fn add_entry(&mut self, payload: &[u8]) {
        if let Some((head, body)) = EntryHead::decode(payload) {
            self.tally.add(head.time_ns, body.len());
        }
    }
}

/// How many sequence numbers a frame of this kind with this payload uses up.
pub(crate) fn seqs_used(kind: FrameKind, payload: &[u8]) -> u64 {
    match kind {
        FrameKind::Entry => 1,
        FrameKind::Block => BlockHeader::decode(payload).map_or(0, |(header, _)| header.count),
        FrameKind::DropMarker => DropMarker::decode(payload).map_or(0, |marker| marker.count),
        FrameKind::DeclaredLoss => DeclaredLoss::decode(payload).count,
        _ => 0,
    }
}

/// The frame at the start of `bytes`, if it is whole and its checksums hold at `offset`.
pub(crate) fn whole_frame(bytes: &[u8], seed: Seed, offset: u64) -> Option<(FrameHeader, &[u8])> {
    let header = FrameHeader::decode(bytes.first_chunk::<FRAME_HEADER_BYTES>()?, seed, offset)?;
    bytes.get(..header.frame_bytes() as usize)?;
    let payload = bytes.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.payload_len as usize)?;
    (seed.payload_crc(payload) == header.payload_crc).then_some((header, payload))
}

/// The points of a segment's index, thinned out as the segment grows.
#[derive(Clone, Debug)]
struct Index {
    stride: u64,
    points: Vec<IndexPoint>,
    /// The last point has got its index mark: its stretch is complete.
    is_marked: bool,
}

impl Index {
    /// Takes note of a stretch of frames from `offset` on, with `seq` the first number at or behind it.
    fn add(&mut self, offset: u64, seq: u64, tally: &Tally) {
        let last = self.points.last().map(|point| point.offset);
        if self.is_marked || last.is_none_or(|last| offset - last >= self.stride) {
            self.is_marked = false;
            if self.points.len() == INDEX_POINTS_MAX {
                self.thin_out();
            }
            self.points.push(IndexPoint { offset, seq, time_min_ns: i64::MAX, time_max_ns: i64::MIN });
        }
        if let Some(point) = self.points.last_mut() {
            point.time_min_ns = point.time_min_ns.min(tally.time_min_ns);
            point.time_max_ns = point.time_max_ns.max(tally.time_max_ns);
        }
    }

    /// Makes one point of each two.
    fn thin_out(&mut self) {
        self.stride *= 2;
        let pairs = self.points.chunks(2).map(|pair| IndexPoint {
            time_min_ns: pair.iter().map(|point| point.time_min_ns).min().unwrap_or(i64::MAX),
            time_max_ns: pair.iter().map(|point| point.time_max_ns).max().unwrap_or(i64::MIN),
            ..pair[0]
        });
        self.points = pairs.collect();
    }
}

/// A segment that this writer created.
#[derive(Clone, Debug)]
pub(crate) struct ActiveSegment {
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) name: String,
    pub(crate) header: SegmentHeader,
    pub(crate) seed: Seed,
    /// End of the last whole frame handed to the operating system.
    pub(crate) end: u64,
    /// The file may hold bytes up to here; more than `end` after a write that failed halfway.
    pub(crate) dirty_end: u64,
    /// Everything before is on stable storage, with the sequence numbers before `synced_next_seq`.
    pub(crate) synced_end: u64,
    pub(crate) synced_next_seq: u64,
    /// First sequence number behind what was handed to the operating system.
    pub(crate) next_seq: u64,
    /// End of the space reserved.
    pub(crate) allocated: u64,
    pub(crate) tally: Tally,
    definitions: Vec<u64>,
    index: Index,
    /// Offset of the last index mark; 0 for none.
    last_mark: u64,
}

/// Up to where space is to be reserved for a segment that ends at `end` and has it up to `from`, so that there is some up to
/// `wanted`; `None` if there is.
fn reserved_upto(end: u64, from: u64, wanted: u64, step: u64, limit: u64) -> Option<u64> {
    if step == 0 || wanted <= from {
        return None;
    }
    // The system's part of a write is cheaper where it finds much reserved at once.
    let step = step.max((end / 4).min(ALLOCATION_BYTES_MAX));
    Some((from + (wanted - from).next_multiple_of(step)).min(limit).max(wanted))
}

/// What became of a write.
#[derive(Debug)]
pub(crate) struct Written {
    /// Bytes of the whole frames that are now in the file.
    pub(crate) whole: usize,
    /// Why it is not all.
    pub(crate) error: Option<io::Error>,
}

impl ActiveSegment {
    /// A segment whose header has just been written to `file`.
    pub(crate) fn new(file: Arc<dyn StorageFile>, name: String, header: SegmentHeader, stride: u64) -> ActiveSegment {
        let first_seq = header.first_seq;
        ActiveSegment {
            file,
            name,
            seed: Seed::new(header.segment_id),
            end: HEADER_BYTES as u64,
            dirty_end: HEADER_BYTES as u64,
            synced_end: HEADER_BYTES as u64,
            synced_next_seq: first_seq,
            next_seq: first_seq,
            allocated: 0,
            tally: Tally::EMPTY,
            definitions: Vec::new(),
            index: Index { stride, points: Vec::new(), is_marked: false },
            last_mark: 0,
            header,
        }
    }

    /// Last sequence number handed to the operating system, or the one before the segment's first.
    pub(crate) fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// Whether everything handed to the operating system is known to be on stable storage.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced_end == self.end
    }

    /// Bytes that are not known to be on stable storage.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.end.saturating_sub(self.synced_end)
    }

    /// Writes frames that were framed for the end of this segment. `stretch` is what they hold. On failure the whole
    /// frames that got through count, the rest is cut off as far as the disk lets us.
    pub(crate) fn write(&mut self, frames: &[u8], stretch: Stretch) -> Written {
        let (done, error) = write_all(&*self.file, frames, self.end);
        self.dirty_end = self.dirty_end.max(self.end + done as u64);
        let taken =
            if error.is_none() { stretch } else { Stretch::of(&frames[..done], self.seed, self.end, self.next_seq) };
        let whole = taken.bytes;
        if whole > 0 {
            self.take_in(&taken);
        }
        self.cut_dirty();
        Written { whole, error }
    }

    /// Counts a stretch that stands at the end as part of the segment.
    pub(crate) fn take_in(&mut self, taken: &Stretch) {
        self.index.add(self.end, self.next_seq, &taken.tally);
        self.tally.absorb(&taken.tally);
        if self.definitions.len() < SEAL_DEFINITIONS_MAX + 1 {
            self.definitions.extend(&taken.definitions);
        }
        self.next_seq = taken.next_seq;
        self.end += taken.bytes as u64;
    }

    /// Cuts off what stands behind the last whole frame. Returns whether nothing stands there now.
    pub(crate) fn cut_dirty(&mut self) -> bool {
        if self.dirty_end > self.end && self.file.set_len(self.end).is_ok() {
            self.dirty_end = self.end;
            self.allocated = self.end;
        }
        self.dirty_end <= self.end
    }

    /// The payload of an index mark to stand at the end, if a stretch is long enough for one.
    pub(crate) fn index_mark(&mut self) -> Option<Vec<u8>> {
        let point = self.index.points.last().copied().filter(|_| !self.index.is_marked)?;
        if self.end - point.offset < self.index.stride {
            return None;
        }
        let mut payload = Vec::new();
        IndexMark { previous_mark: self.last_mark, point }.encode(&mut payload);
        self.index.is_marked = true;
        self.last_mark = self.end;
        Some(payload)
    }

    /// Reserves space ahead of the end, so that `bytes` more fit: `step` at a time, and more where the segment is large, but
    /// not past `limit`. A disk that has none says so when written to.
    pub(crate) fn allocate_for(&mut self, bytes: usize, step: u64, limit: u64) {
        let from = self.allocated.max(self.end);
        if let Some(upto) = reserved_upto(self.end, from, self.end + bytes as u64, step, limit) {
            let _ = self.file.allocate(from, upto - from);
            self.allocated = upto;
        }
    }

    /// The frame that seals this segment at its end.
    pub(crate) fn seal_frame(&self, reason: SealReason, successor_id: u64) -> Vec<u8> {
        let definitions =
            if self.definitions.len() > SEAL_DEFINITIONS_MAX { Vec::new() } else { self.definitions.clone() };
        let seal = Seal {
            reason,
            entries: self.tally.entries,
            body_bytes: self.tally.body_bytes,
            last_seq: self.last_seq(),
            time_min_ns: self.tally.time_min_ns,
            time_max_ns: self.tally.time_max_ns,
            successor_id,
            definitions,
            points: self.index.points.clone(),
        };
        let (mut payload, mut frame) = (Vec::with_capacity(seal.payload_len()), Vec::new());
        seal.encode(self.end, &mut payload);
        push_frame(&mut frame, self.seed, self.end, FrameKind::Seal, 0, self.next_seq, &payload);
        frame
    }
}

/// Writes all of `bytes` at `offset`; returns how much got through, and the error that ended it. A call that accepts
/// nothing or is interrupted is made again, [`WRITE_TRIES`] times in a row.
pub(crate) fn write_all(file: &dyn StorageFile, bytes: &[u8], offset: u64) -> (usize, Option<io::Error>) {
    let (mut done, mut tries) = (0, 0);
    while done < bytes.len() {
        let error = match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => io::Error::new(io::ErrorKind::WriteZero, "the file accepts no bytes"),
            Ok(count) => {
                done = bytes.len().min(done + count);
                tries = 0;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => error,
            Err(error) => return (done, Some(error)),
        };
        tries += 1;
        if tries == WRITE_TRIES {
            return (done, Some(error));
        }
    }
    (done, None)
}

/// As [`write_all`], for who starts anew where not all of it got through.
pub(crate) fn write_whole(file: &dyn StorageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_all(file, bytes, offset).1.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_keeps_its_limit_and_covers_all() {
        let mut index = Index { stride: 8, points: Vec::new(), is_marked: false };
        let count = INDEX_POINTS_MAX as u64 * 5;
        for number in 0..count {
            let time = number as i64;
            index.add(1024 + number * 8, number + 1, &Tally { time_min_ns: time, time_max_ns: time, ..Tally::EMPTY });
        }
        assert!(index.points.len() <= INDEX_POINTS_MAX && index.points.len() > INDEX_POINTS_MAX / 4);
        assert_eq!((index.points[0].offset, index.points[0].seq), (1024, 1));
        for pair in index.points.windows(2) {
            assert!(pair[0].offset < pair[1].offset);
            assert_eq!(pair[0].time_max_ns + 1, pair[1].time_min_ns);
            assert_eq!(pair[1].seq, (pair[1].offset - 1024) / 8 + 1);
        }
    }

    #[test]
    fn more_is_reserved_for_a_large_segment_but_not_past_its_limit() {
        const MIB: u64 = 1 << 20;
        let upto = |end: u64, from: u64| reserved_upto(end * MIB, from * MIB, end * MIB + 9, 4 * MIB, 256 * MIB);
        assert_eq!(upto(0, 0), Some(4 * MIB));
        assert_eq!(upto(8, 9), None);
        assert_eq!(upto(64, 64), Some(80 * MIB));
        assert_eq!(upto(200, 200), Some(232 * MIB));
        assert_eq!(upto(250, 250), Some(256 * MIB));
        // An entry that is larger than a segment should be.
        assert_eq!(upto(256, 256), Some(256 * MIB + 9));
    }
}
