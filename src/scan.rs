//! Frame by frame through one segment: which frames are valid, and where none is.
//!
//! Everything that reads segments goes through [`FrameScan`], so that no two commands can disagree. The algorithm, from
//! the end of the segment header on, with `end` the length of the file when the scan began:
//! 1. At `offset`, read a frame header. If its checksum holds, its frame ends at or before `end`, and the checksum of its
//!    payload holds, it is valid: give it, go on behind it.
//! 2. If only the payload is wrong, the frame is damaged as a whole and its length is known: go on behind it.
//! 3. Otherwise look for the next valid frame: at steps of 8 bytes, header and payload checksum as in 1, and a sequence
//!    number that is not below one already seen. A frame found so whose header holds but whose payload doesn't is passed
//!    over by its length, so that each byte is looked at a bounded number of times.
//! 4. If there is no later valid frame, everything from `offset` on is the tail.

use crate::control::Seal;
use crate::error::{Error, Result};
use crate::format::{FRAME_ALIGN, FRAME_HEADER_BYTES, FRAME_MARKER, FrameKind, HEADER_BYTES};
use crate::frame::{FrameHeader, Seed, padding_is_zero};
use crate::storage::ReadAt;

/// Bytes read at a time: fits the second-level cache together with what is made of it; larger reads measured no faster.
const READ_BYTES: usize = 128 << 10;

/// One step of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A valid frame; its payload is [`FrameScan::payload`] until the next step.
    Frame {
        /// Where it starts.
        offset: u64,
        /// Its header.
        header: FrameHeader,
        /// Whether the bytes behind the payload are zeros, as they must be.
        padding_ok: bool,
    },
    /// Bytes that are no valid frame, with a valid frame behind them.
    Hole(Hole),
    /// Bytes up to the end that are no valid frame.
    Tail {
        /// What is wrong at its start.
        hole: Hole,
        /// Offset from which on there are only zeros up to the end; the end if the last byte is not zero.
        zeros_from: u64,
    },
}

/// Bytes that are no valid frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Where they start.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// The header at their start, if its checksum holds.
    pub header: Option<FrameHeader>,
    /// Whether the frame that this header tells would fit before the end of the segment.
    pub fits: bool,
}

/// A scan of one segment's frames. Memory: one buffer of at most a frame's limit.
#[derive(Debug)]
pub struct FrameScan<R> {
    source: R,
    seed: Seed,
    offset: u64,
    end: u64,
    seq_min: u64,
    seq_max: u64,
    buffer: Vec<u8>,
    /// Offset in the segment of the buffer's first byte.
    buffer_offset: u64,
    /// The payload of the frame given last, as offset and length in the segment.
    payload: (u64, usize),
    /// What the last search found, so that no stretch is searched twice.
    searched: Option<Search>,
    read_bytes: usize,
}

/// The result of a search for the next valid frame.
#[derive(Clone, Copy, Debug)]
struct Search {
    from: u64,
    /// The valid frame found, or the end.
    to: u64,
    last_nonzero_end: u64,
}

/// What stands at one place.
enum Probe {
    Valid(FrameHeader),
    BadPayload(FrameHeader),
    TooLong(FrameHeader),
    NoHeader,
}

impl<R: ReadAt> FrameScan<R> {
    /// A scan from `offset` (a multiple of 8, a frame's start) up to `end`, of the segment with this id. A frame's
    /// sequence number must be at least `seq_min`.
    pub fn new(source: R, segment_id: u64, offset: u64, end: u64, seq_min: u64) -> FrameScan<R> {
        FrameScan {
            source,
            seed: Seed::new(segment_id),
            offset,
            end,
            seq_min,
            seq_max: u64::MAX,
            buffer: Vec::new(),
            buffer_offset: 0,
            payload: (0, 0),
            searched: None,
            read_bytes: READ_BYTES,
        }
    }

    /// The same scan, reading only `bytes` at a time: for single frames here and there.
    #[must_use]
    pub fn reading(mut self, bytes: usize) -> FrameScan<R> {
        self.read_bytes = bytes;
        self
    }

    /// The same scan, from the frame at `offset` on, whose sequence number is at least `seq_min`.
    #[must_use]
    pub fn restarted(mut self, offset: u64, seq_min: u64) -> FrameScan<R> {
        (self.offset, self.seq_min, self.searched) = (offset, seq_min, None);
        self
    }

    /// Where the next step starts: behind what was given last.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the scan ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Moves the end, for a segment that has grown, and goes on at `offset`: behind the last frame given, or at the start
    /// of a tail that was not complete yet.
    pub fn set_end(&mut self, end: u64, offset: u64) {
        (self.end, self.offset) = (end, offset);
        self.searched = None;
        // What was read may have been incomplete, or cut back and written anew.
        self.buffer.clear();
    }

    /// The file.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// Payload of the frame given last; empty after anything else.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let (offset, len) = self.payload;
        let start = (offset.wrapping_sub(self.buffer_offset)) as usize;
        self.buffer.get(start..start + len).unwrap_or(&[])
    }

    /// The next step; `None` at the end.
    ///
    /// # Errors
    /// Only where the file could not be read.
    #[inline]
    pub fn next_found(&mut self) -> Result<Option<Found>> {
        self.payload = (0, 0);
        if self.offset >= self.end {
            return Ok(None);
        }
        let offset = self.offset;
        let probe = self.probe(offset)?;
        if offset >= self.end {
            // Somebody has shortened the file since the end was taken.
            return Ok(None);
        }
        match probe {
            Probe::Valid(header) if header.seq >= self.seq_min => {
                let payload_len = header.payload_len as usize;
                self.payload = (offset + FRAME_HEADER_BYTES as u64, payload_len);
                self.offset = offset + header.frame_bytes();
                self.seq_min = header.seq;
                let padding_ok = padding_is_zero(self.fill(offset, header.frame_bytes() as usize)?, payload_len);
                Ok(Some(Found::Frame { offset, header, padding_ok }))
            }
            Probe::Valid(header) | Probe::BadPayload(header) => {
                self.hole(offset, offset + header.frame_bytes(), Some(header), true).map(Some)
            }
            Probe::TooLong(header) => self.hole(offset, offset + FRAME_ALIGN as u64, Some(header), false).map(Some),
            Probe::NoHeader => self.hole(offset, offset + FRAME_ALIGN as u64, None, false).map(Some),
        }
    }

    /// The frame where the scan stands, if it is valid and was read already: what [`next_found`](FrameScan::next_found)
    /// gives for nearly all frames, with less to hand over. Otherwise `None`, and the scan stays there. Gives the frame's
    /// offset, its header, and whether its padding is as it must be.
    #[inline]
    pub fn next_buffered(&mut self) -> Option<(u64, FrameHeader, bool)> {
        let offset = self.offset;
        let bytes = self.buffer.get(usize::try_from(offset.checked_sub(self.buffer_offset)?).ok()?..)?;
        let header = FrameHeader::decode(bytes.first_chunk()?, self.seed, offset)?;
        let (frame_bytes, payload_len) = (header.frame_bytes(), header.payload_len as usize);
        let frame = bytes.get(..frame_bytes as usize)?;
        let payload = frame.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload_len)?;
        if header.seq < self.seq_min || self.seed.payload_crc(payload) != header.payload_crc {
            return None;
        }
        let padding_ok = padding_is_zero(frame, payload_len);
        self.payload = (offset + FRAME_HEADER_BYTES as u64, payload_len);
        self.offset = offset + frame_bytes;
        self.seq_min = header.seq;
        Some((offset, header, padding_ok))
    }

    /// The frame at the place where the scan stands, if it is valid; otherwise nothing is searched and the scan stays there.
    ///
    /// # Errors
    /// Only where the file could not be read.
    pub fn next_at_start(&mut self) -> Result<Option<FrameHeader>> {
        self.payload = (0, 0);
        let offset = self.offset;
        if offset >= self.end {
            return Ok(None);
        }
        let Probe::Valid(header) = self.probe(offset)? else { return Ok(None) };
        self.payload = (offset + FRAME_HEADER_BYTES as u64, header.payload_len as usize);
        self.offset = offset + header.frame_bytes();
        Ok(Some(header))
    }

    /// The first valid frame at or behind `offset`, or the end: where a reader may start that knows only a rough place.
    ///
    /// # Errors
    /// Only where the file could not be read.
    pub fn seek_frame(&mut self, offset: u64) -> Result<u64> {
        let aligned = offset.next_multiple_of(FRAME_ALIGN as u64).min(self.end);
        self.offset = self.search(aligned)?.to;
        Ok(self.offset)
    }

    /// The hole from `offset` up to the next valid frame, which is not before `from`.
    fn hole(&mut self, offset: u64, from: u64, header: Option<FrameHeader>, fits: bool) -> Result<Found> {
        let search = self.search(from.min(self.end))?;
        if search.to == self.end {
            // The search began behind the first bytes: zeros count as such only behind them too.
            let zeros_from = self.zeros_from(offset, search)?;
            self.offset = self.end;
            return Ok(Found::Tail { hole: Hole { offset, len: self.end - offset, header, fits }, zeros_from });
        }
        // With a sound header the frame's own length is the damage, so that each damaged frame is told by itself.
        let to = if header.is_some() && fits { from } else { search.to };
        self.offset = to;
        Ok(Found::Hole(Hole { offset, len: to - offset, header, fits }))
    }

    fn zeros_from(&mut self, offset: u64, search: Search) -> Result<u64> {
        if search.last_nonzero_end > search.from {
            return Ok(search.last_nonzero_end);
        }
        // Nothing but zeros behind the damaged frame: look into the frame itself, from its end on.
        let mut end = search.from.min(self.end);
        while end > offset {
            let start = offset.max(end.saturating_sub(READ_BYTES as u64));
            self.fill(start, (end - start) as usize)?;
            let at = (start - self.buffer_offset) as usize;
            let bytes = self.buffer.get(at..).unwrap_or(&[]);
            let bytes = &bytes[..bytes.len().min((end - start) as usize)];
            if let Some(last) = bytes.iter().rposition(|&byte| byte != 0) {
                return Ok(start + last as u64 + 1);
            }
            end = start;
        }
        Ok(offset)
    }

    /// What stands at `offset`.
    #[inline]
    fn probe(&mut self, offset: u64) -> Result<Probe> {
        let seed = self.seed;
        let bytes = self.fill(offset, FRAME_HEADER_BYTES)?.first_chunk::<FRAME_HEADER_BYTES>();
        let Some(header) = bytes.and_then(|bytes| FrameHeader::decode(bytes, seed, offset)) else {
            return Ok(Probe::NoHeader);
        };
        let frame_bytes = header.frame_bytes();
        if self.end - offset < frame_bytes {
            return Ok(Probe::TooLong(header));
        }
        let frame = self.fill(offset, frame_bytes as usize)?;
        let payload = frame.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.payload_len as usize);
        Ok(match payload {
            Some(payload) if seed.payload_crc(payload) == header.payload_crc => Probe::Valid(header),
            Some(_) => Probe::BadPayload(header),
            None => Probe::TooLong(header),
        })
    }

    /// The first valid frame at or behind `from`.
    fn search(&mut self, from: u64) -> Result<Search> {
        if let Some(known) = self.searched
            && known.from <= from
            && from <= known.to
        {
            return Ok(known);
        }
        let mut last_nonzero_end = from;
        let mut at = from;
        while at < self.end {
            let window = self.fill(at, FRAME_HEADER_BYTES)?;
            let mut step = 0;
            let mut candidate = None;
            for word in window.chunks(FRAME_ALIGN) {
                if word.iter().any(|&byte| byte != 0) {
                    let used = word.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                    last_nonzero_end = at + (step + used) as u64;
                    if word[0] == FRAME_MARKER {
                        candidate = Some(at + step as u64);
                        break;
                    }
                }
                step += word.len();
            }
            let Some(place) = candidate else {
                at += step as u64;
                continue;
            };
            at = match self.probe(place)? {
                Probe::Valid(header) if header.seq >= self.seq_min && header.seq <= self.seq_max => {
                    let found = Search { from, to: place, last_nonzero_end };
                    self.searched = Some(found);
                    return Ok(found);
                }
                Probe::Valid(header) | Probe::BadPayload(header) => {
                    // Its bytes are not looked at again: the last of them counts as not zero.
                    last_nonzero_end = place + header.frame_bytes();
                    last_nonzero_end
                }
                Probe::TooLong(_) | Probe::NoHeader => place + FRAME_ALIGN as u64,
            };
        }
        let found = Search { from, to: self.end, last_nonzero_end: last_nonzero_end.min(self.end) };
        self.searched = Some(found);
        Ok(found)
    }

    /// The buffer from `offset` on, with at least `want` bytes where the segment has them.
    #[inline]
    fn fill(&mut self, offset: u64, want: usize) -> Result<&[u8]> {
        let want = (want as u64).min(self.end.saturating_sub(offset)) as usize;
        let buffered_end = self.buffer_offset + self.buffer.len() as u64;
        if offset < self.buffer_offset || offset + want as u64 > buffered_end || self.buffer.is_empty() {
            self.read(offset, want)?;
        }
        Ok(self.buffer.get((offset - self.buffer_offset) as usize..).unwrap_or(&[]))
    }

    #[cold]
    fn read(&mut self, offset: u64, want: usize) -> Result<()> {
        let len = (want.max(self.read_bytes) as u64).min(self.end.saturating_sub(offset)) as usize;
        self.buffer.resize(len, 0);
        self.buffer_offset = offset;
        let read = self.source.read_full_at(&mut self.buffer, offset);
        match read {
            Ok(count) => {
                self.buffer.truncate(count);
                if count < len {
                    // Somebody has shortened the file since the end was taken: it ends here.
                    self.end = offset + count as u64;
                }
                Ok(())
            }
            Err(error) => {
                self.buffer.clear();
                Err(Error::io("cannot read", error).at_byte(offset))
            }
        }
    }
}

/// The seal at the end of a segment with this id and `len` bytes, and where its frame starts; `None` if there is none.
///
/// # Errors
/// Only where the file could not be read.
pub fn read_seal<R: ReadAt>(source: R, segment_id: u64, len: u64) -> Result<Option<(u64, Seal)>> {
    let mut footer = [0u8; 16];
    let read =
        source.read_full_at(&mut footer, len.saturating_sub(16)).map_err(|error| Error::io("cannot read", error))?;
    let told = Seal::offset_in_footer(&footer).filter(|_| read == footer.len());
    let is_place =
        |offset: &u64| (HEADER_BYTES as u64..len).contains(offset) && offset.is_multiple_of(FRAME_ALIGN as u64);
    let Some(offset) = told.filter(is_place) else { return Ok(None) };
    let mut scan = FrameScan::new(source, segment_id, offset, len, 0);
    Ok(match scan.next_found()? {
        Some(Found::Frame { offset: found, header, .. })
            if found == offset && header.kind == FrameKind::Seal as u8 && scan.offset() == len =>
        {
            // A seal that contradicts its own frame is not to be believed: the segment is read instead.
            let seal = Seal::decode(scan.payload()).filter(|seal| seal.last_seq.wrapping_add(1) == header.seq);
            seal.map(|seal| (offset, seal))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
