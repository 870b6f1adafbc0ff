//! Payloads of the frames that are not entries: how a run started, what was dropped, lost, synced, removed, and the seal.
//!
//! All integers are little-endian; `format.md` has the byte tables. Each type decodes what it encodes and ignores bytes
//! behind it, so that a later version can add fields.

use crate::bytes::Fields;
pub use crate::seal::{IndexMark, IndexPoint, SEAL_DEFINITIONS_MAX, Seal, SealReason};

/// Why entries were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum DropReason {
    /// The ring of the logging thread was full.
    RingFull = 1,
    /// The disk was full and the policy was to drop.
    DiskFull = 2,
    /// The caller's own policy.
    Policy = 3,
    /// A reason that this version does not know.
    Unknown = 255,
}

impl DropReason {
    fn from_u8(number: u8) -> DropReason {
        match number {
            1 => DropReason::RingFull,
            2 => DropReason::DiskFull,
            3 => DropReason::Policy,
            _ => DropReason::Unknown,
        }
    }

    /// For people: `ring full`.
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::RingFull => "ring full",
            DropReason::DiskFull => "disk full",
            DropReason::Policy => "by policy",
            DropReason::Unknown => "unknown reason",
        }
    }
}

/// Entries refused by policy. The frame's seq is the first of `count` numbers that it uses up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropMarker {
    /// How many entries.
    pub count: u64,
    /// Nanoseconds since 1970 UTC, when the first was refused.
    pub time_ns: i64,
    /// `tseq` of the first, in the thread `tid`.
    pub tseq: u64,
    /// The logging thread.
    pub tid: u32,
    /// Why.
    pub reason: DropReason,
    /// Highest level among them, as a number; 0 if unknown.
    pub level: u8,
}

impl DropMarker {
    /// Appends the payload: `[count u64 | time_ns i64 | tseq u64 | tid u32 | reason u8 | level u8 | 0 u16]`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.extend_from_slice(&self.tseq.to_le_bytes());
        out.extend_from_slice(&self.tid.to_le_bytes());
        out.extend_from_slice(&[self.reason as u8, self.level, 0, 0]);
    }

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> Option<DropMarker> {
        let mut fields = Fields::new(payload);
        Some(DropMarker {
            count: fields.u64()?,
            time_ns: fields.i64()?,
            tseq: fields.u64()?,
            tid: fields.u32()?,
            reason: DropReason::from_u8(fields.u8()?),
            level: fields.u8()?,
        })
    }
}

/// Why entries are lost; the classes of promise 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum LossClass {
    /// Damage that a crash of the writer does not explain.
    Corruption = 1,
    /// The incomplete end that a crash of the writer explains.
    TornTail = 2,
    /// A segment file is not there.
    MissingSegment = 3,
    /// Writes that had not reached stable storage at a power cut.
    PowerCut = 4,
    /// A class that this version does not know.
    Unknown = 255,
}

impl LossClass {
    fn from_u8(number: u8) -> LossClass {
        match number {
            1 => LossClass::Corruption,
            2 => LossClass::TornTail,
            3 => LossClass::MissingSegment,
            4 => LossClass::PowerCut,
            _ => LossClass::Unknown,
        }
    }

    /// For people: `torn tail`.
    pub fn as_str(self) -> &'static str {
        match self {
            LossClass::Corruption => "corruption",
            LossClass::TornTail => "torn tail",
            LossClass::MissingSegment => "missing segment",
            LossClass::PowerCut => "power cut",
            LossClass::Unknown => "unknown class",
        }
    }
}

/// Entries that are lost, as `repair` declared. The frame's seq is the first of `count` numbers that it uses up.
///
/// A hole may be too small for the whole payload: with 8 bytes the class is unknown, with none the count is 0 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredLoss {
    /// How many entries; 0 where the frame only fills a hole.
    pub count: u64,
    /// Why they are lost.
    pub class: LossClass,
}

impl DeclaredLoss {
    /// The payload, `len` bytes long: `[count u64 | class u8 | zeros]`, or as much of it as `len` allows.
    pub fn encode(&self, len: usize) -> Vec<u8> {
        let mut payload = vec![0; len.max(9)];
        payload[..8].copy_from_slice(&self.count.to_le_bytes());
        payload[8] = self.class as u8;
        payload.truncate(len);
        payload
    }

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> DeclaredLoss {
        let mut fields = Fields::new(payload);
        let Some(count) = fields.u64() else { return DeclaredLoss { count: 0, class: LossClass::Unknown } };
        DeclaredLoss { count, class: fields.u8().map_or(LossClass::Unknown, LossClass::from_u8) }
    }
}

/// Everything up to `synced_upto` was on stable storage at `time_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncMark {
    /// The last sequence number known to be on stable storage.
    pub synced_upto: u64,
    /// Nanoseconds since 1970 UTC.
    pub time_ns: i64,
}

impl SyncMark {
    /// Appends the payload: `[synced_upto u64 | time_ns i64]`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.synced_upto.to_le_bytes());
        out.extend_from_slice(&self.time_ns.to_le_bytes());
    }

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> Option<SyncMark> {
        let mut fields = Fields::new(payload);
        Some(SyncMark { synced_upto: fields.u64()?, time_ns: fields.i64()? })
    }
}

/// Which rule of retention removed segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum RetentionRule {
    /// Too many segments.
    KeepSegments = 1,
    /// Too many bytes.
    KeepBytes = 2,
    /// Too old.
    KeepAge = 3,
    /// Too little free space on the file system.
    KeepFree = 4,
    /// The disk was full and the policy was to remove the oldest.
    DiskFull = 5,
    /// A rule that this version does not know.
    Unknown = 255,
}

impl RetentionRule {
    /// The rule with this number.
    pub fn from_u8(number: u8) -> RetentionRule {
        match number {
            1 => RetentionRule::KeepSegments,
            2 => RetentionRule::KeepBytes,
            3 => RetentionRule::KeepAge,
            4 => RetentionRule::KeepFree,
            5 => RetentionRule::DiskFull,
            _ => RetentionRule::Unknown,
        }
    }

    /// As the option is named: `keep-bytes`.
    pub fn as_str(self) -> &'static str {
        match self {
            RetentionRule::KeepSegments => "keep-segments",
            RetentionRule::KeepBytes => "keep-bytes",
            RetentionRule::KeepAge => "keep-age",
            RetentionRule::KeepFree => "keep-free",
            RetentionRule::DiskFull => "disk full",
            RetentionRule::Unknown => "unknown rule",
        }
    }
}

/// Retention removed everything before `first_seq_kept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionMark {
    /// First sequence number that is still there.
    pub first_seq_kept: u64,
    /// Nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// How many segments were removed this time.
    pub segments_removed: u64,
    /// By which rule.
    pub rule: RetentionRule,
}

impl RetentionMark {
    /// Appends the payload: `[first_seq_kept u64 | time_ns i64 | segments_removed u64 | rule u8 | zeros]`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first_seq_kept.to_le_bytes());
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.extend_from_slice(&self.segments_removed.to_le_bytes());
        out.extend_from_slice(&[self.rule as u8, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> Option<RetentionMark> {
        let mut fields = Fields::new(payload);
        Some(RetentionMark {
            first_seq_kept: fields.u64()?,
            time_ns: fields.i64()?,
            segments_removed: fields.u64()?,
            rule: RetentionRule::from_u8(fields.u8()?),
        })
    }
}

/// How the run before this one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum RunEnd {
    /// There was none.
    First = 0,
    /// It closed its log.
    Closed = 1,
    /// It ended without closing, on the same boot: killed, or crashed.
    Killed = 2,
    /// It ended without closing, on another boot: a power cut, maybe.
    OtherBoot = 3,
    /// Its end is missing or damaged.
    Damaged = 4,
    /// An end that this version does not know.
    Unknown = 255,
}

impl RunEnd {
    fn from_u8(number: u8) -> RunEnd {
        match number {
            0 => RunEnd::First,
            1 => RunEnd::Closed,
            2 => RunEnd::Killed,
            3 => RunEnd::OtherBoot,
            4 => RunEnd::Damaged,
            _ => RunEnd::Unknown,
        }
    }

    /// For people: `killed`.
    pub fn as_str(self) -> &'static str {
        match self {
            RunEnd::First => "first run",
            RunEnd::Closed => "closed",
            RunEnd::Killed => "ended without close",
            RunEnd::OtherBoot => "ended without close before a reboot",
            RunEnd::Damaged => "end missing or damaged",
            RunEnd::Unknown => "unknown end",
        }
    }
}

/// The start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// This run.
    pub run_id: u64,
    /// Nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// First number of the range that is void because numbers may have been seen and then lost; 0 if none.
    pub void_first: u64,
    /// Last number of that range; 0 if none.
    pub void_last: u64,
    /// Entries of the last run that were taken from its rings.
    pub entries_recovered: u64,
    /// Process that opened the log.
    pub pid: u32,
    /// How the last run ended.
    pub last_end: RunEnd,
    /// Whether this run keeps rings in the log's directory.
    pub has_rings: bool,
}

impl RunStart {
    /// Appends the payload: `[run_id u64 | time_ns i64 | void_first u64 | void_last u64 | entries_recovered u64 | pid u32 | last_end u8 | has_rings u8 | 0 u16]`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.run_id.to_le_bytes());
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.extend_from_slice(&self.void_first.to_le_bytes());
        out.extend_from_slice(&self.void_last.to_le_bytes());
        out.extend_from_slice(&self.entries_recovered.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&[self.last_end as u8, u8::from(self.has_rings), 0, 0]);
    }

    /// Reads the payload.
    pub fn decode(payload: &[u8]) -> Option<RunStart> {
        let mut fields = Fields::new(payload);
        Some(RunStart {
            run_id: fields.u64()?,
            time_ns: fields.i64()?,
            void_first: fields.u64()?,
            void_last: fields.u64()?,
            entries_recovered: fields.u64()?,
            pid: fields.u32()?,
            last_end: RunEnd::from_u8(fields.u8()?),
            has_rings: fields.u8()? != 0,
        })
    }
}

/// A segment that a rewritten segment stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacedSegment {
    /// Its id.
    pub segment_id: u64,
    /// Offset of the end of its last accepted frame.
    pub accepted_end: u64,
    /// Its last sequence number.
    pub last_seq: u64,
}

impl ReplacedSegment {
    /// Appends the payload of a frame that lists `segments`: 24 bytes each.
    pub fn encode_list(segments: &[ReplacedSegment], out: &mut Vec<u8>) {
        for segment in segments {
            for number in [segment.segment_id, segment.accepted_end, segment.last_seq] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// Reads such a payload.
    pub fn decode_list(payload: &[u8]) -> Vec<ReplacedSegment> {
        let mut fields = Fields::new(payload);
        let mut next = || {
            Some(ReplacedSegment { segment_id: fields.u64()?, accepted_end: fields.u64()?, last_seq: fields.u64()? })
        };
        std::iter::from_fn(&mut next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(encode: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out);
        out
    }

    #[test]
    fn each_payload_comes_back_and_is_refused_when_cut() {
        let marker = DropMarker { count: 3, time_ns: -1, tseq: 7, tid: 2, reason: DropReason::RingFull, level: 4 };
        let out = bytes(|out| marker.encode(out));
        assert_eq!(DropMarker::decode(&out), Some(marker));
        assert_eq!(DropMarker::decode(&out[..20]), None);

        let mark = SyncMark { synced_upto: 9, time_ns: 1 };
        let out = bytes(|out| mark.encode(out));
        assert_eq!(SyncMark::decode(&out), Some(mark));
        assert_eq!(SyncMark::decode(&out[..15]), None);

        let point = IndexPoint { offset: 1024, seq: 1, time_min_ns: -3, time_max_ns: 3 };
        let mark = IndexMark { previous_mark: 7, point };
        let out = bytes(|out| mark.encode(out));
        assert_eq!(IndexMark::decode(&out), Some(mark));

        let mark = RetentionMark { first_seq_kept: 5, time_ns: 2, segments_removed: 1, rule: RetentionRule::KeepAge };
        let out = bytes(|out| mark.encode(out));
        assert_eq!(RetentionMark::decode(&out), Some(mark));

        let start = RunStart {
            run_id: 1,
            time_ns: 2,
            void_first: 3,
            void_last: 4,
            entries_recovered: 5,
            pid: 6,
            last_end: RunEnd::OtherBoot,
            has_rings: true,
        };
        let out = bytes(|out| start.encode(out));
        assert_eq!(RunStart::decode(&out), Some(start));
    }

    #[test]
    fn a_declared_loss_fits_into_the_smallest_hole() {
        let loss = DeclaredLoss { count: 4, class: LossClass::Corruption };
        assert_eq!(DeclaredLoss::decode(&loss.encode(64)), loss);
        assert_eq!(DeclaredLoss::decode(&loss.encode(8)), DeclaredLoss { count: 4, class: LossClass::Unknown });
        assert_eq!(DeclaredLoss::decode(&loss.encode(0)).count, 0);
        // Less than a count is nothing, not a class.
        assert_eq!(DeclaredLoss::decode(&[1; 7]), DeclaredLoss { count: 0, class: LossClass::Unknown });
    }

    #[test]
    fn a_seal_comes_back_and_its_footer_tells_where_it_starts() {
        let point = IndexPoint { offset: 1024, seq: 1, time_min_ns: -3, time_max_ns: 3 };
        let seal = Seal {
            reason: SealReason::Rolled,
            entries: 10,
            body_bytes: 100,
            last_seq: 12,
            time_min_ns: -3,
            time_max_ns: 3,
            successor_id: 77,
            definitions: vec![1024, 2048],
            points: vec![point, IndexPoint { seq: 5, ..point }],
        };
        let out = bytes(|out| seal.encode(4096, out));
        assert_eq!(out.len(), seal.payload_len());
        assert_eq!(out.len() % 8, 0);
        assert_eq!(Seal::decode(&out).as_ref(), Some(&seal));
        assert_eq!(Seal::offset_in_footer(out.last_chunk().unwrap()), Some(4096));
        assert_eq!(Seal::decode(&out[..out.len() - 17]), None);
    }

    #[test]
    fn replaced_segments_come_back() {
        let list = [ReplacedSegment { segment_id: 1, accepted_end: 2, last_seq: 3 }; 2];
        let out = bytes(|out| ReplacedSegment::encode_list(&list, out));
        assert_eq!(ReplacedSegment::decode_list(&out), list);
    }
}
