//! Builds segments from scripts: frames with right checksums over sense and nonsense, then damage.
//!
//! Frames are put together here from the words of `format.md`, not by the library, so that its own framing is checked too.

use logtool::block::BlockBuilder;
use logtool::control::{
    DeclaredLoss, DropMarker, DropReason, IndexMark, IndexPoint, LossClass, RetentionMark, RetentionRule, RunEnd,
    RunStart, Seal, SealReason, SyncMark,
};
use logtool::entry::{CallSite, EntryHead, Level, encode_thread};
use logtool::format::{FRAME_HEADER_BYTES, FRAME_MARKER, FrameKind, HEADER_BYTES};
use logtool::segment::{Predecessor, SegmentHeader};
use logtool::value::Value;
use logtool::walk::{Ending, Item, SegmentWalk};

use crate::input::Input;

/// No segment that a script builds grows longer than about this.
pub const SEGMENT_BYTES_MAX: usize = 256 << 10;

/// Checksum of a frame header at `offset`, by the words of the format.
pub fn header_crc(id: u64, offset: u64, header: &[u8; FRAME_HEADER_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(id as u32);
    hasher.update(&offset.to_le_bytes());
    hasher.update(&header[..20]);
    hasher.finalize()
}

/// Checksum of a payload, by the words of the format.
pub fn payload_crc(id: u64, payload: &[u8]) -> u32 {
    crc32fast::hash(payload) ^ (id >> 32) as u32
}

/// Appends an unsigned LEB128 integer.
pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a frame header with a right checksum over these fields.
pub fn push_header(out: &mut Vec<u8>, id: u64, kind: u8, flags: u8, len: u32, seq: u64, payload_crc: u32) {
    let offset = out.len() as u64;
    let mut header = [0u8; FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(&[FRAME_MARKER, kind, flags, 0]);
    header[4..8].copy_from_slice(&len.to_le_bytes());
    header[8..16].copy_from_slice(&seq.to_le_bytes());
    header[16..20].copy_from_slice(&payload_crc.to_le_bytes());
    let crc = header_crc(id, offset, &header);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&header);
}

/// Appends a whole valid frame of any kind to a segment.
pub fn push_frame(out: &mut Vec<u8>, id: u64, kind: u8, flags: u8, seq: u64, payload: &[u8]) {
    push_header(out, id, kind, flags, payload.len() as u32, seq, payload_crc(id, payload));
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(8), 0);
}

/// The payload of a block that the library may never have written: any header, any rows, but a right checksum of them.
pub fn block_by_hand(input: &mut Input<'_>) -> Vec<u8> {
    let (choice, mut raw, mut rows) = (input.u8(), Vec::new(), 0u64);
    for _ in 0..input.u8() % 8 {
        let body = input.string();
        let len = match input.u8() {
            0..=220 => 24 + body.len() as u64,
            _ => input.number(),
        };
        push_varint(&mut raw, len);
        raw.push(input.u8());
        EntryHead { time_ns: input.number() as i64, tseq: rows, tid: 0, site: 0 }.encode(&mut raw);
        raw.extend_from_slice(&body);
        rows += 1;
    }
    if choice & 1 != 0 {
        raw.extend_from_slice(&input.string());
    }
    let mut body = raw.clone();
    let codec = match choice >> 1 & 3 {
        0 => 0,
        1 | 2 => {
            let level = if choice & 8 != 0 { 1 } else { -3 };
            body = zstd::bulk::compress(&raw, level).unwrap();
            1
        }
        _ => input.u8(),
    };
    if choice & 16 != 0 && !body.is_empty() {
        let at = usize::from(input.u16()) % body.len();
        body[at] ^= 1 << (input.u8() & 7);
    }
    if choice & 32 != 0 {
        let len = usize::from(input.u16()) % (body.len() + 1);
        body.truncate(len);
    }
    let pick = |input: &mut Input<'_>, right: u64| if input.u8() < 200 { right } else { input.number() };
    let crc = pick(input, u64::from(crc32fast::hash(&raw))) as u32;
    let (count, raw_len) = (pick(input, rows), pick(input, raw.len() as u64));
    let mut out = vec![codec, input.u8(), input.u8(), input.u8()];
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&input.number().to_le_bytes());
    for number in [count, raw_len, input.number(), input.number()] {
        push_varint(&mut out, number);
    }
    out.extend_from_slice(&body);
    out
}

/// A header for the segment that a script builds: mostly sense.
pub fn header(input: &mut Input<'_>) -> SegmentHeader {
    let first_seq = input.number();
    SegmentHeader {
        flags: input.u8() & 3,
        log_id: 1,
        run_id: 2,
        segment_id: 0x0123_4567_89ab_cdef,
        boot_id: [7; 16],
        index: 1,
        index_last: 1,
        generation: 0,
        pid: 1,
        first_seq,
        opened_ns: 0,
        synced_upto: 0,
        first_seq_kept: 1,
        predecessor: None,
    }
}

/// The frames of a segment under construction.
struct Builder {
    bytes: Vec<u8>,
    id: u64,
    /// The next number, as long as the script tells the truth.
    seq: u64,
    /// Whether the numbers of the frames are what a writer would give.
    is_honest: bool,
    last_mark: u64,
    definitions: Vec<u64>,
    points: Vec<IndexPoint>,
}

impl Builder {
    /// Uses up numbers.
    fn count(&mut self, count: u64) {
        self.is_honest &= self.seq.checked_add(count).is_some();
        self.seq = self.seq.wrapping_add(count);
    }

    fn push(&mut self, kind: FrameKind, flags: u8, payload: &[u8]) {
        push_frame(&mut self.bytes, self.id, kind as u8, flags, self.seq, payload);
    }

    fn push_encoded(&mut self, kind: FrameKind, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut payload = Vec::new();
        encode(&mut payload);
        self.push(kind, 0, &payload);
    }
}

/// A segment as a script tells it.
pub struct Segment {
    /// The file.
    pub bytes: Vec<u8>,
    /// The last number used before any damage, if the script was honest about them.
    pub last_seq: u64,
    /// Whether it was.
    pub is_honest: bool,
    /// End of the last frame before a seal, before any damage.
    pub accepted_end: u64,
}

/// The segment with this header, as the script tells; then damage, as the script tells.
pub fn segment(input: &mut Input<'_>, header: &SegmentHeader) -> Segment {
    let mut builder = Builder {
        bytes: header.encode().to_vec(),
        id: header.segment_id,
        seq: header.first_seq,
        is_honest: true,
        last_mark: 0,
        definitions: Vec::new(),
        points: Vec::new(),
    };
    let (mut is_sealed, mut accepted_end) = (false, HEADER_BYTES as u64);
    while !input.is_empty() && builder.bytes.len() < SEGMENT_BYTES_MAX {
        let operation = input.u8();
        if operation == 255 {
            break;
        }
        // No writer goes on behind its own seal.
        builder.is_honest &= !is_sealed;
        is_sealed = operation % 26 == 14;
        accepted_end = builder.bytes.len() as u64;
        step(&mut builder, operation, input);
        if !is_sealed {
            accepted_end = builder.bytes.len() as u64;
        }
    }
    let (last_seq, is_honest, mut bytes) = (builder.seq.wrapping_sub(1), builder.is_honest, builder.bytes);
    for _ in 0..input.u8() % 8 {
        damage(&mut bytes, input);
    }
    Segment { bytes, last_seq, is_honest, accepted_end }
}

fn step(builder: &mut Builder, operation: u8, input: &mut Input<'_>) {
    let offset = builder.bytes.len() as u64;
    match operation % 26 {
        0..=3 => {
            let site = if operation & 32 != 0 { u32::from(input.u8() & 3) } else { 0 };
            let head = EntryHead { time_ns: input.number() as i64, tseq: builder.seq, tid: 1, site };
            let (flags, body) = (input.u8(), input.string());
            let mut payload = Vec::new();
            head.encode(&mut payload);
            if site == 0 {
                payload.extend_from_slice(&body)
            } else {
                Value::Bytes(&body).encode(&mut payload)
            }
            builder.push(FrameKind::Entry, flags, &payload);
            builder.count(1);
        }
        4 | 5 => {
            let mut block = BlockBuilder::new(1).unwrap();
            let count = 1 + u64::from(input.u8() % 16);
            for number in 0..count {
                let mut payload = Vec::new();
                let head = EntryHead { time_ns: input.number() as i64, tseq: number, tid: 1, site: 0 };
                head.encode(&mut payload);
                payload.extend_from_slice(&input.string());
                block.push(0, head.time_ns, None, &[&payload]);
            }
            let lag = input.number();
            builder.push_encoded(FrameKind::Block, |out| block.finish(lag, out));
            builder.count(count);
        }
        6 => {
            let payload = block_by_hand(input);
            builder.push(FrameKind::Block, 0, &payload);
            builder.is_honest = false;
            builder.count(u64::from(input.u8() & 7));
        }
        7 => {
            let text = String::from_utf8_lossy(&input.string()).into_owned();
            let site = CallSite {
                level: Level::ALL[usize::from(input.u8()) % 6],
                category: text.clone(),
                file: String::new(),
                line: 1,
                template: "{}".into(),
                fields: vec![text; usize::from(input.u8() & 3)],
            };
            builder.definitions.push(offset);
            builder.push_encoded(FrameKind::CallSite, |out| site.encode(u32::from(input.u8() & 3), out));
        }
        8 => {
            let name = String::from_utf8_lossy(&input.string()).into_owned();
            builder.definitions.push(offset);
            builder.push_encoded(FrameKind::Thread, |out| encode_thread(u32::from(input.u8() & 3), &name, out));
        }
        9 => {
            let count = input.number();
            let (reason, tid) = (DropReason::RingFull, u32::from(input.u8() & 3));
            let marker = DropMarker { count, time_ns: 1, tseq: 1, tid, reason, level: input.u8() };
            builder.push_encoded(FrameKind::DropMarker, |out| marker.encode(out));
            builder.count(count);
        }
        10 => {
            let loss = DeclaredLoss { count: input.number(), class: LossClass::Corruption };
            let payload = loss.encode(usize::from(input.u8() & 31));
            builder.push(FrameKind::DeclaredLoss, 0, &payload);
            builder.count(DeclaredLoss::decode(&payload).count);
        }
        11 => {
            let mark = SyncMark { synced_upto: input.number(), time_ns: 1 };
            builder.is_honest &= mark.synced_upto < builder.seq;
            builder.push_encoded(FrameKind::SyncMark, |out| mark.encode(out));
        }
        12 => {
            let mark = RetentionMark {
                first_seq_kept: input.number(),
                time_ns: 1,
                segments_removed: 1,
                rule: RetentionRule::KeepBytes,
            };
            builder.is_honest &= mark.first_seq_kept <= 1;
            builder.push_encoded(FrameKind::RetentionMark, |out| mark.encode(out));
        }
        13 => {
            let start = RunStart {
                run_id: 2,
                time_ns: 1,
                void_first: input.number(),
                void_last: input.number(),
                entries_recovered: 0,
                pid: 1,
                last_end: RunEnd::Killed,
                has_rings: input.bool(),
            };
            builder.push_encoded(FrameKind::RunStart, |out| start.encode(out));
        }
        14 => push_seal(builder, input),
        15 => {
            let previous_mark = if input.u8() < 200 { builder.last_mark } else { input.number() };
            let point = point(builder, input);
            builder.last_mark = offset;
            builder.points.push(IndexPoint { offset, ..point });
            builder.push_encoded(FrameKind::IndexMark, |out| IndexMark { previous_mark, point }.encode(out));
        }
        16 | 17 => {
            // Any kind, known or not, over any payload.
            let (kind, flags, payload) = (input.u8() & 15, input.u8(), input.string());
            builder.is_honest &= ![1, 2, 5, 6, 7, 8, 10].contains(&kind);
            push_frame(&mut builder.bytes, builder.id, kind, flags, builder.seq, &payload);
        }
        18 => {
            // A header that holds, and a length or a payload that does not: it hides what starts within that length.
            builder.is_honest = false;
            let (len, body) = (input.number() as u32, input.string());
            push_header(&mut builder.bytes, builder.id, 1, 0, len, builder.seq, input.u64() as u32);
            builder.bytes.extend_from_slice(&body);
            builder.bytes.resize(builder.bytes.len().next_multiple_of(8), 0);
        }
        19 => {
            let bytes = input.string();
            builder.bytes.extend_from_slice(&bytes);
            if operation & 32 != 0 {
                builder.bytes.resize(builder.bytes.len().next_multiple_of(8), 0);
            }
        }
        20 => {
            let len = builder.bytes.len() + usize::from(input.u16() & 8191);
            builder.bytes.resize(len, 0);
        }
        21 => {
            // A frame that stood elsewhere.
            let from = usize::from(input.u16()) % builder.bytes.len() & !7;
            let to = (from + usize::from(input.u8()) * 8).min(builder.bytes.len());
            builder.bytes.extend_from_within(from..to);
        }
        22 => builder.count(input.number()),
        23 => {
            builder.seq = builder.seq.wrapping_sub(input.number());
            builder.is_honest = false;
        }
        24 => {
            if let Some(last) = builder.bytes.last_mut() {
                *last ^= input.u8();
            }
        }
        _ => {
            // A segment within a payload.
            let inner = builder.bytes[HEADER_BYTES..].to_vec();
            let mut payload = vec![0; 24];
            payload.extend_from_slice(&inner[..inner.len().min(4096)]);
            builder.push(FrameKind::Entry, 0, &payload);
            builder.count(1);
        }
    }
}

fn point(builder: &Builder, input: &mut Input<'_>) -> IndexPoint {
    let offset = match input.u8() {
        0..=200 => builder.last_mark.max(HEADER_BYTES as u64),
        _ => input.number(),
    };
    let (time_min_ns, time_max_ns) = (input.number() as i64, input.number() as i64);
    IndexPoint { offset, seq: builder.seq, time_min_ns, time_max_ns }
}

fn push_seal(builder: &mut Builder, input: &mut Input<'_>) {
    let honest = input.u8() < 160;
    let mut seal = Seal {
        reason: [SealReason::Closed, SealReason::Rolled, SealReason::Repaired][usize::from(input.u8()) % 3],
        entries: input.number(),
        body_bytes: input.number(),
        last_seq: builder.seq.wrapping_sub(1),
        time_min_ns: i64::MIN,
        time_max_ns: i64::MAX,
        successor_id: 2,
        definitions: builder.definitions.clone(),
        points: builder.points.clone(),
    };
    let mut offset = builder.bytes.len() as u64;
    if !honest {
        seal.last_seq = input.number();
        (seal.time_min_ns, seal.time_max_ns) = (input.number() as i64, input.number() as i64);
        for _ in 0..input.u8() & 7 {
            seal.definitions.push(input.number());
            let point = point(builder, input);
            seal.points.push(point);
        }
        if input.u8() > 200 {
            offset = input.number();
        }
    }
    builder.push_encoded(FrameKind::Seal, |out| seal.encode(offset, out));
}

/// Damages a segment behind its header, now and then the header too.
fn damage(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    let start = if input.u8() < 220 { HEADER_BYTES.min(bytes.len()) } else { 0 };
    let span = bytes.len() - start;
    if span == 0 {
        return;
    }
    let at = start + (input.u64() as u32 as usize) % span;
    match input.u8() % 4 {
        0 | 1 => bytes[at] ^= 1 << (input.u8() & 7),
        2 => bytes.truncate(at),
        _ => {
            let end = (at + usize::from(input.u16())).min(bytes.len());
            bytes[at..end].fill(0);
        }
    }
}

/// A payload as call site and as thread, in a segment whose entries refer to them.
pub fn check_definitions(payload: &[u8]) {
    let header = header(&mut Input::new(&[1]));
    let mut bytes = header.encode().to_vec();
    let id = header.segment_id;
    let first = |payload: &[u8]| payload.first_chunk::<4>().map_or(1, |bytes| u32::from_le_bytes(*bytes));
    push_frame(&mut bytes, id, FrameKind::CallSite as u8, 0, 1, payload);
    push_frame(&mut bytes, id, FrameKind::Thread as u8, 0, 1, payload);
    let mut entry = Vec::new();
    EntryHead { time_ns: 1, tseq: 1, tid: first(payload), site: first(payload).max(1) }.encode(&mut entry);
    Value::Str("argument").encode(&mut entry);
    push_frame(&mut bytes, id, FrameKind::Entry as u8, 0, 1, &entry);
    let end = bytes.len() as u64;
    let link = Predecessor { segment_id: id, last_seq: 1, accepted_end: end };
    let ending = Ending::Followed { link, wants_seal: false };
    let mut walk = SegmentWalk::new(bytes, "memory", &header, end, ending);
    let mut entries = 0;
    while let Some(item) = walk.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            entries += 1;
            assert_eq!(entry.values().collect::<Vec<_>>(), [Value::Str("argument")]);
            let Some(site) = entry.site else { continue };
            let (mut again, mut third) = (Vec::new(), Vec::new());
            site.encode(entry.head.site, &mut again);
            assert!(again.len() <= payload.len(), "a definition is no longer than what it was read from");
            site.encode(entry.head.site, &mut third);
            assert_eq!(again, third);
        }
    }
    assert_eq!(entries, 1);
}
