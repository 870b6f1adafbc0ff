//! What a walk through a segment adds up.

use crate::control::RetentionMark;
use crate::seal::Seal;

/// What a walk has learned of its segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Entries given.
    pub entries: u64,
    /// Bytes of their bodies, with one for each line's end.
    pub text_bytes: u64,
    /// Last number that is accounted for: given, dropped, declared or told as lost.
    pub last_seq: u64,
    /// First number that an entry had.
    pub first_entry_seq: Option<u64>,
    /// Earliest and latest time of an entry, nanoseconds since 1970 UTC.
    pub times_ns: Option<(i64, i64)>,
    /// Highest number that this segment says was on stable storage.
    pub synced_upto: u64,
    /// The seal, if there is one.
    pub seal: Option<Seal>,
    /// Where the frames that count end: before the seal.
    pub accepted_end: u64,
    /// The newest retention mark.
    pub retention: Option<RetentionMark>,
    /// Frames of unknown kinds.
    pub unknown_frames: u64,
    /// Whether the last entry of the segment goes on in the next one.
    pub has_more: bool,
}
