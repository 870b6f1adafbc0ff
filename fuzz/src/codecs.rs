//! Checks of everything that is decoded by itself: headers, frames, blocks, payloads, names.

use logtool::block::{BlockBuilder, BlockReader};
use logtool::clock::UtcTime;
use logtool::control::{DeclaredLoss, DropMarker, IndexMark, ReplacedSegment, RetentionMark, RunStart, Seal, SyncMark};
use logtool::entry::{EntryHead, Level};
use logtool::format::{
    BLOCK_RAW_BYTES_MAX, ENTRY_HEAD_BYTES, FRAME_HEADER_BYTES, FRAME_MARKER, FrameKind, HEADER_COPY_BYTES, MAGIC,
    PAYLOAD_BYTES_MAX,
};
use logtool::frame::{FrameHeader, Seed, frame_bytes, push_frame, reframe};
use logtool::segment::{HeaderFault, SegmentHeader, SegmentName};
use logtool::state::{LOCK_NAME, WriterState, read_state, writer_pid};
use logtool::value::{Value, Values};

use crate::input::Input;
use crate::memory::MemoryStorage;
use crate::script;

/// Segment headers: raw, or with a right magic and checksum over any fields.
pub fn header(data: &[u8]) {
    let mut input = Input::new(data);
    let mode = input.u8();
    let mut copy = [0u8; HEADER_COPY_BYTES];
    let given = input.bytes(HEADER_COPY_BYTES);
    copy[..given.len()].copy_from_slice(given);
    if mode & 1 != 0 {
        copy[..8].copy_from_slice(&MAGIC);
    }
    if mode & 2 != 0 {
        copy[8..10].copy_from_slice(&1u16.to_le_bytes());
    }
    if mode & 4 != 0 {
        let crc = crc32fast::hash(&copy[..HEADER_COPY_BYTES - 4]);
        copy[HEADER_COPY_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }
    match SegmentHeader::decode(&copy) {
        Ok(header) => {
            let both = header.encode();
            assert_eq!(SegmentHeader::decode(both.first_chunk().unwrap()).as_ref(), Ok(&header));
            assert_eq!(SegmentHeader::decode(both.last_chunk().unwrap()).as_ref(), Ok(&header));
            let name = header.name();
            assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
            assert_eq!(copy[508..], crc32fast::hash(&copy[..508]).to_le_bytes());
        }
        Err(HeaderFault::Magic) => assert_ne!(copy[..8], MAGIC),
        Err(HeaderFault::Checksum) => assert_ne!(mode & 7, 7),
        Err(HeaderFault::Version(version)) => assert_ne!(version, 1),
    }
}

/// Frame headers, and frames framed anew for another place.
pub fn frame(data: &[u8]) {
    let mut input = Input::new(data);
    let (id, offset, to) = (input.u64(), input.number() >> 4, input.number() >> 4);
    let seed = Seed::new(id);
    if input.bool() {
        let mut bytes = [0u8; FRAME_HEADER_BYTES];
        let given = input.bytes(FRAME_HEADER_BYTES);
        bytes[..given.len()].copy_from_slice(given);
        if input.bool() {
            bytes[0] = FRAME_MARKER;
            let crc = script::header_crc(id, offset, &bytes);
            bytes[20..].copy_from_slice(&crc.to_le_bytes());
        }
        if let Some(header) = FrameHeader::decode(&bytes, seed, offset) {
            assert_eq!(script::header_crc(id, offset, &bytes).to_le_bytes(), bytes[20..]);
            assert!(header.payload_len as usize <= PAYLOAD_BYTES_MAX);
            assert!(header.frame_bytes() % 8 == 0 && header.frame_bytes() >= u64::from(header.payload_len) + 24);
            assert_eq!(FrameHeader::decode(&bytes, seed, offset ^ 8), None);
        }
        return;
    }
    let (mut frames, mut starts) = (Vec::new(), Vec::new());
    while !input.is_empty() && starts.len() < 64 {
        let kind = FrameKind::ALL[usize::from(input.u8()) % FrameKind::ALL.len()];
        let (flags, seq, payload) = (input.u8(), input.number(), input.string());
        starts.push((frames.len(), kind, flags, seq, payload.clone()));
        let at = offset + frames.len() as u64;
        push_frame(&mut frames, seed, at, kind, flags, seq, &payload);
    }
    let to_id = id.rotate_left(17) ^ to;
    let to_seed = Seed::new(to_id);
    let moved = reframe(&frames, seed, offset, to_seed, to).unwrap();
    assert_eq!(moved.len(), frames.len());
    for (start, kind, flags, seq, payload) in &starts {
        let header = FrameHeader::decode(moved[*start..].first_chunk().unwrap(), to_seed, to + *start as u64).unwrap();
        assert_eq!((header.kind, header.flags, header.seq), (*kind as u8, *flags, *seq));
        let stored = &moved[start + FRAME_HEADER_BYTES..][..header.payload_len as usize];
        assert_eq!(stored, payload);
        assert_eq!(to_seed.payload_crc(stored), header.payload_crc);
        assert_eq!(header.frame_bytes() as usize, frame_bytes(payload.len()));
    }
    assert_eq!(reframe(&moved, to_seed, to, seed, offset).as_ref(), Some(&frames));
    // One changed byte that a checksum covers, and nothing is framed anew as if it were whole.
    if let Some((start, _, _, _, payload)) = starts.last() {
        let covered = FRAME_HEADER_BYTES + payload.len();
        frames[start + usize::from(data[0]) % covered] ^= 0x10;
        assert_eq!(reframe(&frames, seed, offset, to_seed, to), None);
    }
}

/// Blocks: raw, made by hand with right checksums over nonsense, and made by the library.
pub fn block(data: &[u8]) {
    let mut input = Input::new(data);
    let mut reader = BlockReader::default();
    match input.u8() % 3 {
        0 => check_block(&mut reader, input.rest()),
        1 => {
            // Several with one reader: nothing of one may show in the next.
            while !input.is_empty() {
                let payload = script::block_by_hand(&mut input);
                check_block(&mut reader, &payload);
            }
        }
        _ => {
            let mut builder = BlockBuilder::new(1).unwrap();
            while !input.is_empty() {
                let mut entries = Vec::new();
                let count = 1 + usize::from(input.u8());
                for _ in 0..count {
                    if input.is_empty() && !entries.is_empty() {
                        break;
                    }
                    let mut payload = Vec::new();
                    let head = EntryHead { time_ns: input.number() as i64, tseq: input.u64(), tid: 0, site: 0 };
                    head.encode(&mut payload);
                    payload.extend_from_slice(&input.string());
                    let flags = input.u8();
                    builder.push(flags, head.time_ns, None, &[&payload[..24], &payload[24..]]);
                    entries.push((flags, head.time_ns, payload));
                }
                let (raw_len, lag, mut out) = (builder.raw_len(), input.number(), Vec::new());
                assert_eq!(builder.count(), entries.len() as u64);
                builder.finish(lag, &mut out);
                if raw_len > BLOCK_RAW_BYTES_MAX {
                    continue;
                }
                let header = reader.decode(&out).unwrap();
                assert_eq!((header.count, header.raw_len), (entries.len() as u64, raw_len));
                assert_eq!(header.synced_lag, lag);
                assert_eq!(Some(header.time_min_ns), entries.iter().map(|entry| entry.1).min());
                assert_eq!(Some(header.time_max_ns), entries.iter().map(|entry| entry.1).max());
                assert!(out.len() <= raw_len + 64);
                let rows: Vec<(u8, &[u8])> = reader.rows().map(|row| (row.flags, row.payload)).collect();
                let written: Vec<(u8, &[u8])> = entries.iter().map(|entry| (entry.0, &entry.2[..])).collect();
                assert_eq!(rows, written);
            }
        }
    }
}

fn check_block(reader: &mut BlockReader, payload: &[u8]) {
    let first = reader.decode(payload);
    match &first {
        Ok(header) => {
            let sizes: Vec<usize> = reader.rows().map(|row| row.payload.len()).collect();
            assert_eq!(sizes.len() as u64, header.count);
            assert!(sizes.iter().all(|&size| size >= ENTRY_HEAD_BYTES));
            assert!(sizes.iter().sum::<usize>() + 2 * sizes.len() <= header.raw_len);
            assert!(header.raw_len <= BLOCK_RAW_BYTES_MAX && header.time_min_ns <= header.time_max_ns);
        }
        Err(_) => assert_eq!(reader.rows().count(), 0),
    }
    assert_eq!(reader.decode(payload), first);
    assert_eq!(BlockReader::default().decode(payload), first);
}

/// Payloads of all kinds but blocks: what decodes comes back when it is encoded and decoded again.
pub fn payloads(data: &[u8]) {
    let mut input = Input::new(data);
    let (which, mut again) = (input.u8(), Vec::new());
    let payload = input.rest();
    match which % 12 {
        0 => {
            if let Some(decoded) = DropMarker::decode(payload) {
                decoded.encode(&mut again);
                assert_eq!(DropMarker::decode(&again), Some(decoded));
                assert!(!decoded.reason.as_str().is_empty());
            }
        }
        1 => {
            let decoded = DeclaredLoss::decode(payload);
            assert_eq!(DeclaredLoss::decode(&decoded.encode(payload.len())), decoded);
            assert!(!decoded.class.as_str().is_empty());
        }
        2 => {
            if let Some(decoded) = SyncMark::decode(payload) {
                decoded.encode(&mut again);
                assert_eq!(SyncMark::decode(&again), Some(decoded));
            }
        }
        3 => {
            if let Some(decoded) = RetentionMark::decode(payload) {
                decoded.encode(&mut again);
                assert_eq!(RetentionMark::decode(&again), Some(decoded));
                assert!(!decoded.rule.as_str().is_empty());
            }
        }
        4 => {
            if let Some(decoded) = RunStart::decode(payload) {
                decoded.encode(&mut again);
                assert_eq!(RunStart::decode(&again), Some(decoded));
                assert!(!decoded.last_end.as_str().is_empty());
            }
        }
        5 => {
            if let Some(decoded) = IndexMark::decode(payload) {
                decoded.encode(&mut again);
                assert_eq!(IndexMark::decode(&again), Some(decoded));
            }
        }
        6 => {
            if let Some(decoded) = Seal::decode(payload) {
                decoded.encode(1024, &mut again);
                assert_eq!(again.len(), decoded.payload_len());
                assert_eq!(Seal::decode(&again), Some(decoded));
                assert_eq!(Seal::offset_in_footer(again.last_chunk().unwrap()), Some(1024));
            }
        }
        7 => {
            let list = ReplacedSegment::decode_list(payload);
            ReplacedSegment::encode_list(&list, &mut again);
            assert_eq!(again, payload[..payload.len() / 24 * 24]);
        }
        8 | 9 => {
            let values: Vec<Value<'_>> = Values::new(payload).collect();
            values.iter().for_each(|value| value.encode(&mut again));
            let mut third = Vec::new();
            Values::new(&again).for_each(|value| value.encode(&mut third));
            assert_eq!(again, third);
            assert!(values.len() <= payload.len());
        }
        10 => {
            if let Some((head, body)) = EntryHead::decode(payload) {
                head.encode(&mut again);
                again.extend_from_slice(body);
                assert_eq!(again, payload);
            }
        }
        _ => script::check_definitions(payload),
    }
}

/// Names of segments, the record in `writer.lock`, words.
pub fn names(data: &[u8]) {
    let mut input = Input::new(data);
    let which = input.u8();
    let bytes = input.rest();
    let text = String::from_utf8_lossy(bytes);
    match which % 4 {
        0 => {
            let text = if which & 4 != 0 { format!("{text}.flog") } else { text.into_owned() };
            if let Some(name) = SegmentName::parse(&text) {
                assert_eq!(name.to_string(), text, "a segment's name has one form");
                assert_eq!(SegmentName::parse(&name.to_string()), Some(name));
                assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)));
            }
        }
        1 => {
            let crc = crc32fast::hash(text.as_bytes());
            let line = if which & 4 != 0 { format!("{text} crc {crc:08x}\n") } else { text.into_owned() };
            if let Some(state) = WriterState::decode(&line) {
                assert_eq!(WriterState::decode(&state.encode()), Some(state));
            }
        }
        2 => {
            let storage = MemoryStorage::new();
            storage.put(LOCK_NAME, bytes.to_vec(), which & 4 != 0);
            let state = read_state(storage.as_ref()).unwrap();
            assert_eq!(read_state(storage.as_ref()).unwrap(), state);
            assert_eq!(writer_pid(storage.as_ref()).unwrap().is_some(), which & 4 != 0);
        }
        _ => {
            if let Ok(level) = text.parse::<Level>() {
                assert_eq!(level.as_str(), text.to_ascii_uppercase());
            }
            let mut numbers = Input::new(bytes);
            let time = UtcTime::from_ns(numbers.u64() as i64);
            assert!((1..=12).contains(&time.month) && (1..=31).contains(&time.day));
            assert!(time.hour < 24 && time.minute < 60 && time.second < 60 && time.nanosecond < 1_000_000_000);
            assert_eq!(time.compact().len(), 16);
        }
    }
}
