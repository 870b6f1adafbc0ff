//! The envelope of everything in a segment: `[header 24 | payload | zeros to a multiple of 8]`.
//!
//! ```text
//!  0  marker u8 | kind u8 | flags u8 | reserved u8 | payload_len u32
//!  8  seq u64
//! 16  payload_crc u32 | header_crc u32
//! ```
//! `header_crc` covers bytes 0..20 and is seeded by the segment's id and the frame's own offset, so that a frame of
//! another file, of another place, or inside a payload is never valid. `payload_crc` is XORed with the other half of the id.

use crate::crc::crc_of_header;
use crate::format::{FRAME_ALIGN, FRAME_HEADER_BYTES, FRAME_MARKER, FrameKind, PAYLOAD_BYTES_MAX};

/// The two halves of a segment id, as the checksums use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    header: u32,
    payload: u32,
}

impl Seed {
    /// The seed of the segment with this id.
    pub fn new(segment_id: u64) -> Seed {
        Seed { header: segment_id as u32, payload: (segment_id >> 32) as u32 }
    }

    /// The checksum of a payload: CRC-32 (IEEE) XOR the upper half of the segment id.
    #[inline]
    pub fn payload_crc(self, payload: &[u8]) -> u32 {
        crc32fast::hash(payload) ^ self.payload
    }

    /// The checksum of a frame header's first 20 bytes at `offset`: CRC-32 started with the lower half of the segment
    /// id, over the offset (u64, little-endian) and those bytes.
    #[inline]
    fn header_crc(self, offset: u64, header: &[u8; FRAME_HEADER_BYTES]) -> u32 {
        let mut covered = [0u8; 8 + 20];
        covered[..8].copy_from_slice(&offset.to_le_bytes());
        covered[8..].copy_from_slice(&header[..20]);
        crc_of_header(self.header, &covered)
    }
}

/// A frame header whose checksum held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Number of the kind; [`FrameKind::from_u8`] knows those of v1.
    pub kind: u8,
    /// Flags; their meaning depends on the kind.
    pub flags: u8,
    /// Bytes of payload behind the header.
    pub payload_len: u32,
    /// First sequence number that the frame uses, or the next one to be given where it uses none.
    pub seq: u64,
    /// Checksum that the payload must have.
    pub payload_crc: u32,
}

impl FrameHeader {
    /// Decodes the header at `offset` of a segment: `None` if the marker, the checksum or the length limit does not hold.
    #[inline]
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES], seed: Seed, offset: u64) -> Option<FrameHeader> {
        if bytes[0] != FRAME_MARKER {
            return None;
        }
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if u32_at(20) != seed.header_crc(offset, bytes) {
            return None;
        }
        let header = FrameHeader {
            kind: bytes[1],
            flags: bytes[2],
            payload_len: u32_at(4),
            seq: u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32,
            payload_crc: u32_at(16),
        };
        (header.payload_len as usize <= PAYLOAD_BYTES_MAX).then_some(header)
    }

    /// Whole length of the frame: header, payload and padding.
    #[inline]
    pub fn frame_bytes(&self) -> u64 {
        frame_bytes(self.payload_len as usize) as u64
    }
}

/// Length of a frame whose payload has `payload_len` bytes.
#[inline]
pub const fn frame_bytes(payload_len: usize) -> usize {
    FRAME_HEADER_BYTES + payload_len.next_multiple_of(FRAME_ALIGN)
}

/// Whether the bytes behind the payload are zeros, as they must be, in the frame that `bytes` begin with.
#[inline]
pub(crate) fn padding_is_zero(bytes: &[u8], payload_len: usize) -> bool {
    let end = frame_bytes(payload_len);
    let padding_bits = 8 * (end - FRAME_HEADER_BYTES - payload_len) as u32;
    // The padding is the upper part of the last word, little-endian; none at all shifts out the whole word.
    let last = bytes.get(..end).and_then(|frame| frame.last_chunk()).map(|word| u64::from_le_bytes(*word));
    last.is_some_and(|word| word.checked_shr(u64::BITS - padding_bits).unwrap_or(0) == 0)
}

/// Makes room for a frame header at the end of `out`; the payload is to be appended, then [`finish_frame`] called with
/// the position returned here.
#[inline]
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0u8; FRAME_HEADER_BYTES]);
    start
}

/// Pads the frame begun at `start` of `out` and writes its header. `offset` is where the frame will stand in its segment.
///
/// # Panics
/// If the payload is longer than [`PAYLOAD_BYTES_MAX`]: the caller cuts entries.
#[inline]
pub fn finish_frame(out: &mut Vec<u8>, start: usize, seed: Seed, offset: u64, kind: FrameKind, flags: u8, seq: u64) {
    let payload_start = start + FRAME_HEADER_BYTES;
    let payload_len = out.len() - payload_start;
    assert!(payload_len <= PAYLOAD_BYTES_MAX, "payload of {payload_len} bytes");
    let payload_crc = seed.payload_crc(&out[payload_start..]);
    // Of constant length, which is a store; the rest is cut off again.
    out.extend_from_slice(&[0; FRAME_ALIGN]);
    out.truncate(start + frame_bytes(payload_len));
    let mut header = [0u8; FRAME_HEADER_BYTES];
    header[0] = FRAME_MARKER;
    header[1] = kind as u8;
    header[2] = flags;
    header[4..8].copy_from_slice(&(payload_len as u32).to_le_bytes());
    header[8..16].copy_from_slice(&seq.to_le_bytes());
    header[16..20].copy_from_slice(&payload_crc.to_le_bytes());
    let header_crc = seed.header_crc(offset, &header);
    header[20..24].copy_from_slice(&header_crc.to_le_bytes());
    out[start..payload_start].copy_from_slice(&header);
}

/// Appends a whole frame to `out`. `offset` is where the frame will stand in its segment.
///
/// # Panics
/// If the payload is longer than [`PAYLOAD_BYTES_MAX`].
pub fn push_frame(out: &mut Vec<u8>, seed: Seed, offset: u64, kind: FrameKind, flags: u8, seq: u64, payload: &[u8]) {
    let start = begin_frame(out);
    out.extend_from_slice(payload);
    finish_frame(out, start, seed, offset, kind, flags, seq);
}

/// Frames anew, for another segment and offset, whole frames that this process framed itself: same kinds, flags,
/// sequence numbers and payloads. `from` is the offset at which `frames` started in the segment of seed `from_seed`.
///
/// Returns `None` if `frames` are not whole valid frames.
pub fn reframe(frames: &[u8], from_seed: Seed, from: u64, to_seed: Seed, to: u64) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(frames.len());
    let mut at = 0;
    while at < frames.len() {
        let header_bytes = frames.get(at..)?.first_chunk::<FRAME_HEADER_BYTES>()?;
        let header = FrameHeader::decode(header_bytes, from_seed, from + at as u64)?;
        let payload_start = at + FRAME_HEADER_BYTES;
        let payload = frames.get(payload_start..payload_start + header.payload_len as usize)?;
        if from_seed.payload_crc(payload) != header.payload_crc {
            return None;
        }
        let kind = FrameKind::from_u8(header.kind)?;
        let offset = to + out.len() as u64;
        push_frame(&mut out, to_seed, offset, kind, header.flags, header.seq, payload);
        at += header.frame_bytes() as usize;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed { header: 0x1234_5678, payload: 0x9abc_def0 };

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        push_frame(&mut out, SEED, 1024, FrameKind::Entry, 1, 7, b"hello frame");
        out
    }

    fn header_of(frame: &[u8], seed: Seed, offset: u64) -> Option<FrameHeader> {
        FrameHeader::decode(frame.first_chunk().unwrap(), seed, offset)
    }

    #[test]
    fn a_frame_decodes_to_what_was_written() {
        let frame = sample();
        assert_eq!(frame.len(), 24 + 16);
        let header = header_of(&frame, SEED, 1024).unwrap();
        assert_eq!((header.kind, header.flags, header.payload_len, header.seq), (1, 1, 11, 7));
        assert_eq!(SEED.payload_crc(&frame[24..35]), header.payload_crc);
    }

    #[test]
    fn each_flipped_header_bit_is_refused() {
        for bit in 0..24 * 8 {
            let mut frame = sample();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(header_of(&frame, SEED, 1024), None, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_is_valid_only_at_its_offset_in_its_segment() {
        let frame = sample();
        assert_eq!(header_of(&frame, SEED, 1032), None);
        assert_eq!(header_of(&frame, Seed { header: 1, ..SEED }, 1024), None);
        let header = header_of(&frame, SEED, 1024).unwrap();
        assert_ne!(Seed { payload: 1, ..SEED }.payload_crc(&frame[24..35]), header.payload_crc);
    }

    #[test]
    fn zeros_are_no_frame() {
        assert_eq!(FrameHeader::decode(&[0; 24], Seed::new(0), 0), None);
    }

    #[test]
    fn a_length_over_the_limit_is_refused_even_under_a_right_checksum() {
        let mut header = [0u8; FRAME_HEADER_BYTES];
        header[0] = FRAME_MARKER;
        header[4..8].copy_from_slice(&(PAYLOAD_BYTES_MAX as u32 + 1).to_le_bytes());
        let crc = SEED.header_crc(0, &header);
        header[20..24].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(FrameHeader::decode(&header, SEED, 0), None);
    }

    #[test]
    fn reframed_frames_are_valid_at_their_new_place_only() {
        let to_seed = Seed::new(99);
        let mut frames = sample();
        let next = 1024 + frames.len() as u64;
        push_frame(&mut frames, SEED, next, FrameKind::Entry, 0, 8, b"second");
        let moved = reframe(&frames, SEED, 1024, to_seed, 4096).unwrap();
        assert_eq!(moved.len(), frames.len());
        assert_eq!(header_of(&moved, to_seed, 4096).unwrap().seq, 7);
        assert_eq!(header_of(&moved[40..], to_seed, 4096 + 40).unwrap().seq, 8);
        assert_eq!(reframe(&frames[..frames.len() - 8], SEED, 1024, to_seed, 4096), None);
    }
}
