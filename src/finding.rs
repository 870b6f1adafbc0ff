//! What a reader says about a log besides its entries: findings (something is wrong) and notes (as it should be).
//!
//! Damage is data: nothing here is an error of the program that reads.

use std::fmt;

use crate::block::BlockFault;
use crate::control::{DropMarker, LossClass, RetentionRule, RunEnd};
use crate::segment::HeaderFault;

/// Sequence numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeqRange {
    /// The first.
    pub first: u64,
    /// The last, not below the first.
    pub last: u64,
}

impl SeqRange {
    /// The range, unless it is empty.
    pub fn new(first: u64, last: u64) -> Option<SeqRange> {
        (first <= last).then_some(SeqRange { first, last })
    }

    /// The numbers behind `seq`, up to `last`, unless there are none.
    pub fn behind(seq: u64, last: u64) -> Option<SeqRange> {
        seq.checked_add(1).and_then(|first| SeqRange::new(first, last))
    }

    /// How many numbers.
    pub fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

impl fmt::Display for SeqRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "seq {}", self.first)
        } else {
            write!(f, "seq {}..{}", self.first, self.last)
        }
    }
}

/// A stretch of a segment file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Name of the file within the log's directory.
    pub segment: String,
    /// First byte.
    pub offset: u64,
    /// How many bytes; 0 where something is missing.
    pub len: u64,
}

/// Which entries a finding costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// None.
    Nothing,
    /// Exactly these numbers.
    Seqs(SeqRange),
    /// Whatever came after this number: nothing that survived tells.
    UnknownAfter(u64),
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// No valid frame header where one must be.
    FrameHeader,
    /// The payload of a frame does not have its checksum.
    FramePayload,
    /// A frame whose checksums hold has content that makes no sense.
    FrameContent,
    /// A block whose frame is whole can't be decoded.
    Block(BlockFault),
    /// Bytes between frames are not zero; no entry is touched.
    Padding,
    /// One of the two copies of the segment header (0 or 1) is damaged; the other one serves.
    HeaderCopy(u8),
    /// Both copies are damaged; the segment's id is known from the segment behind it.
    SegmentHeader(HeaderFault),
    /// Both copies are damaged, and nothing else tells the segment's id: none of its frames can be read.
    Unreadable(HeaderFault),
    /// Written by another version of the format.
    Version(u16),
    /// An incomplete end, as a crash of the writer leaves it, that no later segment accounts for.
    TornTail,
    /// The segment ends before the place that its successor, or the writer's record, tells.
    ShortSegment,
    /// The seal that must be there is missing or damaged.
    Seal,
    /// Bytes behind the seal.
    StrayBytes,
    /// A segment file is missing.
    MissingSegment,
    /// The newest segment file is missing.
    MissingNewest,
    /// The log was not closed and nothing tells whether this is its end.
    NoEvidence,
    /// Numbers are missing between sound frames.
    Gap,
    /// A frame repeats numbers, or comes out of order; it is not given.
    Order,
    /// A segment of another log; it is not read.
    Foreign,
    /// A second copy of a segment; it is not read.
    Duplicate,
    /// The name of the file tells another place in the log than its header, which counts; it is read.
    Misnamed,
    /// Something that has a segment's name but is no regular file; it is not read.
    NotAFile,
    /// A ring file of a run that was killed is damaged; entries that were only there may be lost.
    Ring,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::FrameHeader => "frame header checksum",
            Fault::FramePayload => "payload checksum",
            Fault::FrameContent => "frame content makes no sense",
            Fault::Block(BlockFault::Header) => "block header makes no sense",
            Fault::Block(BlockFault::TooLarge) => "block larger than the limit",
            Fault::Block(BlockFault::UnknownCodec(codec)) => {
                return write!(f, "block codec {codec} is not known to this version");
            }
            Fault::Block(BlockFault::Decompress) => "block does not decompress",
            Fault::Block(BlockFault::Content) => "block content checksum",
            Fault::Padding => "bytes between frames altered",
            Fault::HeaderCopy(0) => "first copy of the segment header damaged, the second serves",
            Fault::HeaderCopy(_) => "second copy of the segment header damaged, the first serves",
            Fault::SegmentHeader(_) => "segment header damaged, read with the id that the next segment tells",
            Fault::Unreadable(HeaderFault::Magic) => "segment header not there, nothing in it can be read",
            Fault::Unreadable(_) => "segment header damaged, nothing in it can be read",
            Fault::Version(version) => {
                return write!(f, "written in format version {version}, this logtool reads version 1");
            }
            Fault::TornTail => "torn tail",
            Fault::ShortSegment => "segment ends too early",
            Fault::Seal => "seal missing or damaged",
            Fault::StrayBytes => "bytes behind the seal",
            Fault::MissingSegment => "segment missing",
            Fault::MissingNewest => "newest segment missing",
            Fault::NoEvidence => "nothing tells whether this is the end",
            Fault::Gap => "numbers missing between sound frames",
            Fault::Order => "frame repeated or out of order",
            Fault::Foreign => "segment of another log",
            Fault::Duplicate => "second copy of a segment",
            Fault::Misnamed => "file name and segment header disagree about the place in the log",
            Fault::NotAFile => "not a regular file",
            Fault::Ring => "ring of a killed run damaged",
        })
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub fault: Fault,
    /// Where, if it is at a place.
    pub place: Option<Place>,
    /// Which entries it costs.
    pub loss: Loss,
    /// Class of the loss.
    pub class: LossClass,
    /// The next number at that place; 0 where the place is not within a segment's frames.
    pub next_seq: u64,
    /// Time of the last entry before it in its segment, nanoseconds since 1970 UTC.
    pub time_before_ns: Option<i64>,
    /// Time of the next entry behind it in its segment, where one follows at once.
    pub time_after_ns: Option<i64>,
}

impl Finding {
    /// A finding of `fault` that costs `loss`, at no place.
    pub fn new(fault: Fault, loss: Loss, class: LossClass) -> Finding {
        Finding { fault, place: None, loss, class, next_seq: 0, time_before_ns: None, time_after_ns: None }
    }

    /// The same finding, at a place.
    #[must_use]
    pub fn at(mut self, segment: &str, offset: u64, len: u64) -> Finding {
        self.place = Some(Place { segment: segment.to_owned(), offset, len });
        self
    }
}

/// Something that a reader should know and that is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What.
    pub kind: NoteKind,
    /// Where, if it is at a place.
    pub place: Option<Place>,
}

/// What a note tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteKind {
    /// Retention has removed these numbers.
    Retention {
        /// The numbers.
        seqs: SeqRange,
        /// The rule, where a mark tells it.
        rule: Option<RetentionRule>,
    },
    /// Entries refused by policy.
    Dropped {
        /// The numbers that stand for them.
        seqs: SeqRange,
        /// All about it.
        marker: DropMarker,
        /// Name of the logging thread.
        thread: Option<String>,
    },
    /// A loss that `repair` has declared.
    DeclaredLoss {
        /// The numbers.
        seqs: SeqRange,
        /// Its class.
        class: LossClass,
    },
    /// Numbers that a run has left out: they may have been seen before a power cut, and lost.
    Void {
        /// The numbers.
        seqs: SeqRange,
    },
    /// Bytes behind the end that the next segment accounts for: a torn tail of the run before.
    AccountedTail,
    /// A run that ended without closing its log; nothing that it accepted is missing.
    EndedWithoutClose,
    /// These entries were read from the rings of a run that had ended without closing its log.
    Recovered {
        /// How many.
        entries: u64,
    },
    /// A new run, and how the one before it ended.
    Run {
        /// The end of the run before.
        last_end: RunEnd,
    },
    /// A segment file without a header: a crash while it was being made; it never held an entry.
    Unborn,
    /// Another log stands in the directory that is followed; it is followed from its first entry on.
    OtherLog {
        /// Its id.
        log_id: u64,
    },
    /// Frames of kinds that this version does not know.
    UnknownFrames {
        /// How many.
        count: u64,
    },
}

impl NoteKind {
    /// The numbers that it accounts for.
    pub fn seqs(&self) -> Option<SeqRange> {
        match self {
            NoteKind::Retention { seqs, .. }
            | NoteKind::Dropped { seqs, .. }
            | NoteKind::DeclaredLoss { seqs, .. }
            | NoteKind::Void { seqs } => Some(*seqs),
            NoteKind::AccountedTail
            | NoteKind::EndedWithoutClose
            | NoteKind::Recovered { .. }
            | NoteKind::Run { .. }
            | NoteKind::Unborn
            | NoteKind::OtherLog { .. }
            | NoteKind::UnknownFrames { .. } => None,
        }
    }
}
