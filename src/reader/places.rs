//! Places in a log where a reader can start: by number, from the end back, and what a segment's index tells.

use std::sync::Arc;

use crate::control::{IndexMark, IndexPoint, Seal};
use crate::entry::Definitions;
use crate::error::Result;
use crate::format::{FRAME_ALIGN, FrameKind, HEADER_BYTES, INDEX_POINTS_MAX};
use crate::reader::LogReader;
use crate::scan::{Found, FrameScan, read_seal};
use crate::snapshot::Snapshot;
use crate::storage::StorageFile;

/// How far from its end an unsealed segment is searched for its last index mark: marks stand at most that far apart.
const MARK_SEARCH_BYTES: u64 = 4 << 20;

/// Most index marks that are followed back: the writer makes them rarer long before.
const MARKS_MAX: usize = 8 * INDEX_POINTS_MAX;

/// Bytes read at a time where single frames are looked at.
const LOOK_BYTES: usize = 4 << 10;

/// A place in a log where a reader can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the segment in the snapshot.
    pub segment: usize,
    /// Byte offset of a frame.
    pub offset: u64,
    /// Number of that frame: entries behind it have this number or a later one.
    pub seq: u64,
}

impl LogReader {
    /// The seal of segment number `at`, if it has one, and where a reader can start in it.
    ///
    /// # Errors
    /// Where the segment can't be read.
    pub fn index(&self, at: usize) -> Result<(Option<Seal>, Vec<IndexPoint>)> {
        match self.snapshot.seal(at)? {
            Some((_, seal)) => {
                let points = seal.points.clone();
                Ok((Some(seal), points))
            }
            None => Ok((None, self.snapshot.marked_points(at)?)),
        }
    }

    /// Where to start so that the entry with number `seq` is given, or the first behind it.
    ///
    /// # Errors
    /// Where the segment can't be read.
    pub fn position_of_seq(&self, seq: u64) -> Result<Position> {
        let segments = &self.snapshot.segments;
        let at = segments.iter().rposition(|segment| (1..=seq).contains(&segment.header.first_seq)).unwrap_or(0);
        let Some(info) = segments.get(at) else { return Ok(Position { segment: 0, offset: 0, seq: 0 }) };
        let (_, points) = self.index(at)?;
        let point = points.iter().rfind(|point| point.seq <= seq);
        Ok(match point {
            Some(point) if self.snapshot.is_frame(at, point)? => {
                Position { segment: at, offset: point.offset, seq: point.seq }
            }
            _ => Position { segment: at, offset: HEADER_BYTES as u64, seq: info.header.first_seq },
        })
    }

    /// Where to start so that about `bytes` bytes of frames come behind it; the start of the log if it has fewer.
    ///
    /// # Errors
    /// Where a segment can't be read.
    pub fn position_back(&self, bytes: u64) -> Result<Position> {
        let mut left = bytes;
        for at in (0..self.snapshot.segments.len()).rev() {
            let info = &self.snapshot.segments[at];
            let end = self.snapshot.seal(at)?.map_or(info.bytes, |(offset, _)| offset);
            let start = HEADER_BYTES as u64;
            let held = end.saturating_sub(start);
            if held < left && at > 0 {
                left -= held;
                continue;
            }
            let first = Position { segment: at, offset: start, seq: info.header.first_seq };
            if held <= left {
                return Ok(first);
            }
            let mut scan = self.snapshot.scan(at)?;
            scan.seek_frame(end - left)?;
            return Ok(match scan.next_found()? {
                Some(Found::Frame { offset, header, .. }) => Position { segment: at, offset, seq: header.seq },
                // No frame so near the end: a damaged end is walked as a whole.
                _ => first,
            });
        }
        Ok(Position { segment: 0, offset: HEADER_BYTES as u64, seq: 0 })
    }
}

impl Snapshot {
    /// A scan of all frames of segment number `at`.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn scan(&self, at: usize) -> Result<FrameScan<Arc<dyn StorageFile>>> {
        let info = &self.segments[at];
        Ok(FrameScan::new(self.open(at)?, info.header.segment_id, HEADER_BYTES as u64, info.bytes, 0))
    }

    /// The seal of segment number `at` and its offset; `None` if there is none at the end of the file.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn seal(&self, at: usize) -> Result<Option<(u64, Seal)>> {
        let info = &self.segments[at];
        let read = read_seal(self.open(at)?, info.header.segment_id, info.bytes);
        read.map_err(|error| error.at(self.storage().path().join(&info.name)))
    }

    /// Whether the frame that the index names is there: an index that is wrong only costs the time that it would save.
    pub(super) fn is_frame(&self, at: usize, point: &IndexPoint) -> Result<bool> {
        if !is_frame_place(point.offset) {
            return Ok(false);
        }
        let mut scan = self.scan(at)?.reading(LOOK_BYTES).restarted(point.offset, 0);
        Ok(scan.next_at_start()?.is_some_and(|header| header.seq == point.seq))
    }

    /// All definitions in segment number `at`, wherever they stand.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn definitions(&self, at: usize) -> Result<Definitions> {
        let mut definitions = Definitions::default();
        let mut take = |header: u8, payload: &[u8]| {
            if header == FrameKind::CallSite as u8 {
                definitions.add_site(payload);
            } else if header == FrameKind::Thread as u8 {
                definitions.add_thread(payload);
            }
        };
        let listed = self.seal(at)?.map(|(_, seal)| seal.definitions);
        // A list out of order would be one that lies: each place is looked at once.
        let listed = listed.filter(|listed| !listed.is_empty() && listed.is_sorted_by(|one, next| one < next));
        let mut scan = self.scan(at)?;
        if let Some(listed) = listed {
            scan = scan.reading(LOOK_BYTES);
            for offset in listed.into_iter().filter(|&offset| is_frame_place(offset)) {
                scan = scan.restarted(offset, 0);
                if let Some(header) = scan.next_at_start()? {
                    take(header.kind, scan.payload());
                }
            }
            return Ok(definitions);
        }
        while let Some(found) = scan.next_found()? {
            if let Found::Frame { header, .. } = found {
                take(header.kind, scan.payload());
            }
        }
        Ok(definitions)
    }

    /// Where a reader can start in segment number `at`, as its index marks tell: from the last one back to the first.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn marked_points(&self, at: usize) -> Result<Vec<IndexPoint>> {
        let info = &self.segments[at];
        let mut scan = self.scan(at)?;
        scan.seek_frame(info.bytes.saturating_sub(MARK_SEARCH_BYTES).max(HEADER_BYTES as u64))?;
        let mut last = None;
        while let Some(found) = scan.next_found()? {
            if let Found::Frame { offset, header, .. } = found
                && header.kind == FrameKind::IndexMark as u8
                && let Some(mark) = IndexMark::decode(scan.payload())
            {
                last = Some((offset, header.seq, mark));
            }
        }
        let Some((offset, seq, mark)) = last else { return Ok(Vec::new()) };
        // The stretch behind the last mark has no bounds yet.
        let open = IndexPoint { offset, seq, time_min_ns: i64::MIN, time_max_ns: i64::MAX };
        let mut points = vec![open, mark.point];
        let (mut mark_at, mut previous) = (offset, mark.previous_mark);
        scan = scan.reading(LOOK_BYTES);
        // Offsets only ever go down, so that a chain that lies comes to an end.
        while previous != 0 {
            let is_earlier = previous < mark_at && is_frame_place(previous) && points.len() < MARKS_MAX;
            scan = scan.restarted(previous, 0);
            let header = if is_earlier { scan.next_at_start()? } else { None };
            let is_mark = header.is_some_and(|header| header.kind == FrameKind::IndexMark as u8);
            let Some(mark) = IndexMark::decode(scan.payload()).filter(|_| is_mark) else {
                // A damaged mark: without it nothing before is known, and the whole segment is read.
                return Ok(Vec::new());
            };
            points.push(mark.point);
            (mark_at, previous) = (previous, mark.previous_mark);
        }
        points.reverse();
        let in_order = points.is_sorted_by(|one, next| one.offset < next.offset && one.seq <= next.seq);
        Ok(if in_order { points } else { Vec::new() })
    }
}

/// Whether a frame may start at this offset of a segment.
fn is_frame_place(offset: u64) -> bool {
    offset >= HEADER_BYTES as u64 && offset.is_multiple_of(FRAME_ALIGN as u64)
}
