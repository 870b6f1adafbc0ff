//! The constants of format v1, and nothing else; what they mean is specified here.
//!
#![doc = include_str!("format.md")]

/// First bytes of a segment: a non-ASCII byte, a name, CR LF (a text-mode copy shows at once), and DOS end-of-file.
pub const MAGIC: [u8; 8] = [0x89, b'F', b'L', b'O', b'G', b'\r', b'\n', 0x1a];

/// Version of the format that this library writes, and the only one it reads.
pub const VERSION: u16 = 1;

/// One copy of the segment header, a disk sector.
pub const HEADER_COPY_BYTES: usize = 512;

/// The segment header stands twice; the first frame starts behind it.
pub const HEADER_BYTES: usize = 2 * HEADER_COPY_BYTES;

/// Frame header: marker, kind, flags, reserved, payload length, seq, payload checksum, header checksum.
pub const FRAME_HEADER_BYTES: usize = 1 + 1 + 1 + 1 + 4 + 8 + 4 + 4;

/// Frames start at multiples of this; the payload is followed by zeros up to the next one.
pub const FRAME_ALIGN: usize = 8;

/// First byte of each frame: not zero, not ASCII, not a UTF-8 lead byte.
pub const FRAME_MARKER: u8 = 0xf7;

/// Longest payload of a frame. Longer entries are cut into parts.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Most bytes that a block may hold once decompressed.
pub const BLOCK_RAW_BYTES_MAX: usize = 4 << 20;

/// Largest zstd window that a reader accepts, as a power of two.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 22;

/// What an entry's payload starts with: time, tseq, tid, call site.
pub const ENTRY_HEAD_BYTES: usize = 8 + 8 + 4 + 4;

/// Longest body (text or arguments) of one entry.
pub const ENTRY_BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX - ENTRY_HEAD_BYTES;

/// Entry flag: the entry goes on in the next sequence number.
pub const FLAG_MORE: u8 = 1;
/// Entry flag: this entry continues the one before.
pub const FLAG_CONTINUED: u8 = 2;
/// Entry flag: the line had no newline when it was written.
pub const FLAG_UNFINISHED: u8 = 4;

/// Segment flag: written by a rewrite of sealed segments; takes the place of those it lists.
pub const SEGMENT_REWRITTEN: u8 = 1;
/// Segment flag: made by `repair` to stand where a segment is missing; holds only declared losses.
pub const SEGMENT_PLACEHOLDER: u8 = 2;
/// Segment flag: the one before it was left after trouble with the disk, and may lack its seal.
pub const SEGMENT_AFTER_TROUBLE: u8 = 4;
/// Segment flag: holds what the rings of a dead run still held; its run start says how many entries.
pub const SEGMENT_RECOVERED: u8 = 8;
/// Segment flag: its run keeps rings in the log's directory, so that more may have been accepted than the segments hold.
pub const SEGMENT_WITH_RINGS: u8 = 16;

/// How far sequence numbers jump where some may have been seen and then lost.
pub const VOID_SEQS: u64 = 1 << 32;

/// Last eight bytes of a sealed segment.
pub const SEAL_FOOTER: [u8; 8] = *b"\xf7sealed\n";

/// Most points of the index in a seal.
pub const INDEX_POINTS_MAX: usize = 8192;

const _: () = assert!(FRAME_HEADER_BYTES == 24 && FRAME_HEADER_BYTES.is_multiple_of(FRAME_ALIGN));
const _: () = assert!(HEADER_BYTES.is_multiple_of(FRAME_ALIGN) && PAYLOAD_BYTES_MAX.is_multiple_of(FRAME_ALIGN));

/// What a frame holds. Unknown kinds are skipped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FrameKind {
    /// One entry; uses one sequence number.
    Entry = 1,
    /// A batch of entries, maybe compressed; uses one sequence number an entry.
    Block = 2,
    /// A call-site definition.
    CallSite = 3,
    /// A compression dictionary of this segment.
    Dictionary = 4,
    /// Entries refused by policy; uses the sequence numbers it stands for.
    DropMarker = 5,
    /// Entries lost, written by `repair`; uses the sequence numbers it stands for.
    DeclaredLoss = 6,
    /// A sequence number known to be on stable storage.
    SyncMark = 7,
    /// The first sequence number that retention has kept.
    RetentionMark = 8,
    /// The start of a run: how the last one ended.
    RunStart = 9,
    /// The clean end of a segment.
    Seal = 10,
    /// The segments that a rewritten segment stands for.
    Replaced = 11,
    /// The name of a thread.
    Thread = 12,
    /// A point of the index, while the segment is not sealed.
    IndexMark = 13,
}

impl FrameKind {
    /// All kinds of format v1.
    pub const ALL: [FrameKind; 13] = [
        FrameKind::Entry,
        FrameKind::Block,
        FrameKind::CallSite,
        FrameKind::Dictionary,
        FrameKind::DropMarker,
        FrameKind::DeclaredLoss,
        FrameKind::SyncMark,
        FrameKind::RetentionMark,
        FrameKind::RunStart,
        FrameKind::Seal,
        FrameKind::Replaced,
        FrameKind::Thread,
        FrameKind::IndexMark,
    ];

    /// The kind with this number, if v1 has one.
    #[inline]
    pub fn from_u8(number: u8) -> Option<FrameKind> {
        FrameKind::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_number() {
        for kind in FrameKind::ALL {
            assert_eq!(FrameKind::from_u8(kind as u8), Some(kind));
        }
        assert_eq!(FrameKind::from_u8(0), None);
        assert_eq!(FrameKind::from_u8(14), None);
    }
}
