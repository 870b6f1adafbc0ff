//! The frames that wait to be written: built in place, at the offset where they will stand.
//!
//! With compression, entries are rows of a block until the block is closed; frames that use no sequence number may be put
//! before it meanwhile, which also puts a definition before the block that needs it.

use std::io;

use crate::active::{ActiveSegment, Stretch, Tally, whole_frame};
use crate::block::BlockBuilder;
use crate::control::DropMarker;
use crate::entry::{CallSite, EntryHead};
use crate::format::{ENTRY_HEAD_BYTES, FRAME_ALIGN, FRAME_HEADER_BYTES, FrameKind};
use crate::frame::{Seed, begin_frame, finish_frame, frame_bytes, push_frame};
use crate::options::Compression;

/// Frames to be written next to the active segment.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    seed: Seed,
    /// Where the first of them will stand.
    offset: u64,
    tally: Tally,
    definitions: Vec<u64>,
    /// First sequence number not framed yet: that of the open block's first row.
    framed_seq: u64,
    /// Next sequence number to be given.
    next_seq: u64,
    block: Option<BlockBuilder>,
    /// The only row of a block, while it has just one.
    single: Vec<u8>,
    single_flags: u8,
}

impl Batch {
    /// An empty batch for the end of `segment`.
    pub(crate) fn new(segment: &ActiveSegment, compression: Compression) -> io::Result<Batch> {
        let block = match compression {
            Compression::None => None,
            Compression::Zstd(level) => Some(BlockBuilder::new(level)?),
        };
        Ok(Batch {
            bytes: Vec::new(),
            seed: segment.seed,
            offset: segment.end,
            tally: Tally::EMPTY,
            definitions: Vec::new(),
            framed_seq: segment.next_seq,
            next_seq: segment.next_seq,
            block,
            single: Vec::new(),
            single_flags: 0,
        })
    }

    /// Next sequence number to be given.
    #[inline]
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Bytes that wait: frames, and the raw rows of the open block.
    #[inline]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bytes.len() + self.block.as_ref().map_or(0, BlockBuilder::raw_len)
    }

    /// Time of the earliest entry that waits; `None` for none.
    pub(crate) fn oldest_ns(&self) -> Option<i64> {
        (self.tally.entries > 0).then_some(self.tally.time_min_ns)
    }

    /// Bytes of closed frames.
    #[inline]
    pub(crate) fn framed_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether entries are collected into blocks.
    #[inline]
    pub(crate) fn is_compressed(&self) -> bool {
        self.block.is_some()
    }

    /// Adds an entry, or a part of one; returns its sequence number. A block that would grow over `block_bytes` is closed first.
    #[inline]
    pub(crate) fn push_entry(
        &mut self,
        head: &EntryHead,
        flags: u8,
        body: &[u8],
        site: Option<&CallSite>,
        block_bytes: usize,
        synced_seq: u64,
    ) -> u64 {
        if self.block.is_some() {
            self.push_row(head, flags, body, site, block_bytes, synced_seq);
        } else {
            self.push_plain(head, flags, body);
        }
        self.tally.add(head.time_ns, body.len());
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    #[inline]
    fn push_plain(&mut self, head: &EntryHead, flags: u8, body: &[u8]) {
        let offset = self.offset + self.bytes.len() as u64;
        let start = self.bytes.len();
        let mut heads = [0; FRAME_HEADER_BYTES + ENTRY_HEAD_BYTES];
        if let Some(entry_head) = heads.last_chunk_mut() {
            head.encode_to(entry_head);
        }
        self.bytes.reserve(heads.len() + body.len() + FRAME_ALIGN);
        self.bytes.extend_from_slice(&heads);
        self.bytes.extend_from_slice(body);
        finish_frame(&mut self.bytes, start, self.seed, offset, FrameKind::Entry, flags, self.framed_seq);
        self.framed_seq += 1;
    }

    fn push_row(
        &mut self,
        head: &EntryHead,
        flags: u8,
        body: &[u8],
        site: Option<&CallSite>,
        block_bytes: usize,
        synced_seq: u64,
    ) {
        let row_bytes = ENTRY_HEAD_BYTES + body.len() + 8;
        if self.block.as_ref().is_some_and(|block| block.count() > 0 && block.raw_len() + row_bytes > block_bytes) {
            self.close_block(synced_seq);
        }
        let Some(block) = &mut self.block else { return };
        if block.count() == 0 {
            self.single.clear();
            head.encode(&mut self.single);
            self.single.extend_from_slice(body);
            self.single_flags = flags;
            block.push(flags, head.time_ns, site, &[&self.single]);
        } else {
            let mut stored = [0u8; ENTRY_HEAD_BYTES];
            head.encode_to(&mut stored);
            block.push(flags, head.time_ns, site, &[&stored, body]);
        }
    }

    /// Frames the rows of the open block. One single entry that a block would not make smaller becomes a frame of its own.
    pub(crate) fn close_block(&mut self, synced_seq: u64) {
        let Some(block) = &mut self.block else { return };
        let count = block.count();
        if count == 0 {
            return;
        }
        let offset = self.offset + self.bytes.len() as u64;
        let start = begin_frame(&mut self.bytes);
        block.finish((self.framed_seq - 1).saturating_sub(synced_seq), &mut self.bytes);
        let payload_len = self.bytes.len() - start - FRAME_HEADER_BYTES;
        if count == 1 && frame_bytes(self.single.len()) <= frame_bytes(payload_len) {
            self.bytes.truncate(start + FRAME_HEADER_BYTES);
            self.bytes.extend_from_slice(&self.single);
            let (seed, flags) = (self.seed, self.single_flags);
            finish_frame(&mut self.bytes, start, seed, offset, FrameKind::Entry, flags, self.framed_seq);
        } else {
            finish_frame(&mut self.bytes, start, self.seed, offset, FrameKind::Block, 0, self.framed_seq);
        }
        self.framed_seq += count;
    }

    /// Adds a frame that uses no sequence number.
    pub(crate) fn push_control(&mut self, kind: FrameKind, payload: &[u8]) {
        let offset = self.offset + self.bytes.len() as u64;
        if matches!(kind, FrameKind::CallSite | FrameKind::Thread | FrameKind::Dictionary) {
            self.definitions.push(offset);
        }
        push_frame(&mut self.bytes, self.seed, offset, kind, 0, self.framed_seq, payload);
    }

    /// Adds a frame that uses up `count` sequence numbers; returns the first.
    pub(crate) fn push_numbered(&mut self, kind: FrameKind, payload: &[u8], count: u64, synced_seq: u64) -> u64 {
        self.close_block(synced_seq);
        let offset = self.offset + self.bytes.len() as u64;
        push_frame(&mut self.bytes, self.seed, offset, kind, 0, self.framed_seq, payload);
        let first = self.framed_seq;
        self.framed_seq += count;
        self.next_seq = self.framed_seq;
        first
    }

    /// The frames, and what they hold. The block has been closed.
    pub(crate) fn frames(&self) -> (&[u8], Stretch) {
        let stretch = Stretch {
            tally: self.tally,
            definitions: self.definitions.clone(),
            next_seq: self.framed_seq,
            bytes: self.bytes.len(),
        };
        (&self.bytes, stretch)
    }

    /// Forgets the first `bytes`, which are whole frames that `segment` now holds.
    pub(crate) fn written(&mut self, bytes: usize, segment: &ActiveSegment) {
        self.offset = segment.end;
        if bytes == self.bytes.len() {
            self.bytes.clear();
            self.tally = Tally::EMPTY;
            self.definitions.clear();
        } else {
            self.bytes.drain(..bytes);
            self.count_anew(segment.next_seq);
        }
    }

    fn count_anew(&mut self, next_seq: u64) {
        let stretch = Stretch::of(&self.bytes, self.seed, self.offset, next_seq);
        self.tally = stretch.tally;
        self.definitions = stretch.definitions;
    }

    /// Frames all anew for the end of `segment`, with `definitions` (kind and payload) before it. The block has been closed.
    pub(crate) fn move_to(&mut self, segment: &ActiveSegment, definitions: &[(FrameKind, Vec<u8>)]) {
        let frames = std::mem::take(&mut self.bytes);
        let (from_seed, from) = (self.seed, self.offset);
        (self.seed, self.offset) = (segment.seed, segment.end);
        if !frames.is_empty() {
            for (kind, payload) in definitions {
                let offset = self.offset + self.bytes.len() as u64;
                push_frame(&mut self.bytes, self.seed, offset, *kind, 0, segment.next_seq, payload);
            }
            let mut at = 0;
            while let Some((header, payload)) = whole_frame(&frames[at..], from_seed, from + at as u64) {
                let kind = FrameKind::from_u8(header.kind).filter(|kind| *kind != FrameKind::IndexMark);
                if let Some(kind) = kind {
                    let offset = self.offset + self.bytes.len() as u64;
                    push_frame(&mut self.bytes, self.seed, offset, kind, header.flags, header.seq, payload);
                }
                at += header.frame_bytes() as usize;
            }
        }
        self.count_anew(segment.next_seq);
    }

    /// The frames that wait and use no sequence number: kind and payload. The block has been closed.
    pub(crate) fn controls(&self) -> Vec<(FrameKind, Vec<u8>)> {
        let kept = |(kind, payload): (Option<FrameKind>, &[u8])| match kind {
            Some(FrameKind::Entry | FrameKind::Block | FrameKind::DropMarker | FrameKind::DeclaredLoss) | None => None,
            // It speaks of its own offset.
            Some(FrameKind::IndexMark) => None,
            Some(kind) => Some((kind, payload.to_vec())),
        };
        self.waiting().filter_map(kept).collect()
    }

    /// The drop markers that wait. The block has been closed.
    pub(crate) fn markers(&self) -> impl Iterator<Item = DropMarker> {
        let markers = self.waiting().filter(|(kind, _)| *kind == Some(FrameKind::DropMarker));
        markers.filter_map(|(_, payload)| DropMarker::decode(payload))
    }

    /// Kind and payload of the frames that wait.
    fn waiting(&self) -> impl Iterator<Item = (Option<FrameKind>, &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (header, payload) = whole_frame(&self.bytes[at..], self.seed, self.offset + at as u64)?;
            at += header.frame_bytes() as usize;
            Some((FrameKind::from_u8(header.kind), payload))
        })
    }

    /// Drops all that waits; returns how many entries, the first one's number, and their times. The numbers are given again.
    pub(crate) fn discard(&mut self, segment: &ActiveSegment) -> (u64, u64, Tally) {
        let (first, tally) = (segment.next_seq, self.tally);
        let count = self.next_seq - first;
        self.bytes.clear();
        self.tally = Tally::EMPTY;
        self.definitions.clear();
        (self.framed_seq, self.next_seq) = (first, first);
        self.offset = segment.end;
        (count, first, tally)
    }
}
