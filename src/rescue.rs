//! Leaving a segment that the disk no longer takes.
//!
//! After a failed fsync the kernel may have marked the unsynced pages clean: they can still be read, but no later sync
//! brings them to the disk. So what was written since the last good sync is read back, checked, and written anew into
//! another segment, with the same numbers; that segment's header says that the old one ends at its last good sync. It is
//! made under a name that no reader takes for a segment and renamed once it is whole, so that a kill at any point leaves
//! either all in the old segment or all in the new one.
//! Source of the problem: Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020.

use std::io;

use crate::active::{ActiveSegment, Stretch, seqs_used, whole_frame, write_whole};
use crate::control::{DeclaredLoss, LossClass};
use crate::error::{Error, Result};
use crate::format::{FRAME_ALIGN, FRAME_HEADER_BYTES, FrameKind, HEADER_BYTES, SEGMENT_AFTER_TROUBLE};
use crate::frame::{FrameHeader, push_frame};
use crate::options::SyncPolicy;
use crate::segment::{Predecessor, SegmentHeader};
use crate::storage::StorageFile;
use crate::sync::UnsyncedSegment;
use crate::writer::Writer;

/// Where a segment is written anew before it gets its name.
pub(crate) const RESCUE_NAME: &str = "rescue.tmp";

/// Bytes read back at a time; more only for a longer frame.
const READ_BYTES: usize = 1 << 20;

/// What a disk reads at least at once; where a read fails, the page is taken as zeros.
const PAGE_BYTES: usize = 4096;

impl Writer {
    /// Writes anew what a failed sync has left in doubt, if there is such a thing.
    pub(crate) fn heal(&mut self) -> Result<()> {
        if let Some(old) = self.poisoned_older.take() {
            // The new segment has no frames yet: it is replaced as a whole, and keeps the id that the old one's seal names.
            let header = self.active.header.clone();
            return self.replace(&old, header).inspect_err(|_| self.poisoned_older = Some(old));
        }
        if !self.is_poisoned {
            return Ok(());
        }
        let header = self.next_header(Predecessor { segment_id: 0, last_seq: 0, accepted_end: 0 }, 1)?;
        let old = self.active.clone();
        self.replace(&old, header)?;
        self.is_poisoned = false;
        Ok(())
    }

    /// Makes a segment with `header` (its place in the chain is filled in) from what `old` holds unsynced, and makes it the
    /// active one.
    fn replace(&mut self, old: &ActiveSegment, header: SegmentHeader) -> Result<()> {
        self.batch.close_block(self.synced_seq);
        let header = SegmentHeader {
            flags: header.flags | SEGMENT_AFTER_TROUBLE,
            first_seq: old.synced_next_seq,
            synced_upto: self.synced_seq,
            predecessor: Some(Predecessor {
                segment_id: old.header.segment_id,
                last_seq: old.synced_next_seq - 1,
                accepted_end: old.synced_end.max(HEADER_BYTES as u64),
            }),
            ..header
        };
        let path = self.storage.path().join(RESCUE_NAME);
        let definitions = self.sites.of_segment(old.header.index);
        let made = self.rescue(old, header, &definitions).inspect_err(|_| {
            let _ = self.storage.remove(RESCUE_NAME);
        });
        let next =
            made.map_err(|error| self.noted(Error::io("cannot write the unsynced entries anew", error).at(path)))?;
        self.directory_unsynced |= self.storage.sync_dir().is_err();
        let to = next.header.index;
        self.sites.moved(&[old.header.index, self.active.header.index], to);
        let definitions = self.sites.of_segment(to);
        self.batch.move_to(&next, &definitions);
        if self.unsynced_older.is_empty() {
            self.synced_seq = next.last_seq();
        }
        self.stats.segments_rescued += 1;
        self.switch_to(next);
        self.write_state();
        // The header of the new segment hides what is cut here, should this fail.
        let _ = old.file.set_len(old.synced_end.max(HEADER_BYTES as u64));
        Ok(())
    }

    fn rescue(
        &self,
        old: &ActiveSegment,
        header: SegmentHeader,
        definitions: &[(FrameKind, Vec<u8>)],
    ) -> io::Result<ActiveSegment> {
        match self.storage.remove(RESCUE_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.storage.create(RESCUE_NAME)?;
        write_whole(&*file, &header.encode(), 0)?;
        let name = header.name().to_string();
        let mut next = ActiveSegment::new(file, name, header, self.options.index_stride_bytes);
        let mut frames = Vec::new();
        for (kind, payload) in definitions {
            push_next(&mut frames, &next, *kind, 0, next.next_seq, payload);
        }
        let mut source =
            Salvage { segment: old, at: old.synced_end.max(HEADER_BYTES as u64), window: Vec::new(), window_at: 0 };
        let mut next_seq = next.next_seq;
        while let Some((frame, payload)) = source.next_frame() {
            if frame.seq > next_seq {
                push_loss(&mut frames, &next, next_seq, frame.seq - next_seq);
            }
            // An index mark speaks of its own offset, which is another one here.
            if let Some(kind) = FrameKind::from_u8(frame.kind).filter(|kind| *kind != FrameKind::IndexMark) {
                push_next(&mut frames, &next, kind, frame.flags, frame.seq, &payload);
                next_seq = frame.seq + seqs_used(kind, &payload);
            }
            if frames.len() >= READ_BYTES {
                write_frames(&mut next, &mut frames)?;
            }
        }
        if old.next_seq > next_seq {
            push_loss(&mut frames, &next, next_seq, old.next_seq - next_seq);
        }
        write_frames(&mut next, &mut frames)?;
        next.file.sync()?;
        self.storage.rename(RESCUE_NAME, &next.name)?;
        next.synced_end = next.end;
        next.synced_next_seq = next.next_seq;
        Ok(next)
    }

    /// Leaves the active segment for a new one: its file takes no more writes, or has an end that can't be cut. What is
    /// pending goes with it.
    pub(crate) fn leave_segment(&mut self) -> Result<()> {
        self.batch.close_block(self.synced_seq);
        self.collect_sync(true);
        if self.options.sync == SyncPolicy::Never {
            self.unsynced_older.push(UnsyncedSegment::new(&self.active.name));
        } else {
            self.sync_flushed()?;
        }
        let before = Predecessor {
            segment_id: self.active.header.segment_id,
            last_seq: self.active.last_seq(),
            accepted_end: self.active.end,
        };
        let mut header = self.next_header(before, self.active.next_seq)?;
        header.flags |= SEGMENT_AFTER_TROUBLE;
        let next = self.create_segment(header).map_err(|error| self.noted(error))?;
        let from = self.active.header.index;
        let definitions = self.sites.of_segment(from);
        if self.batch.framed_bytes() > 0 {
            self.sites.moved(&[from], next.header.index);
        }
        self.batch.move_to(&next, &definitions);
        self.stats.segments_rescued += 1;
        self.switch_to(next);
        self.write_state();
        Ok(())
    }
}

/// Frames read back from a segment whose sync failed.
struct Salvage<'a> {
    segment: &'a ActiveSegment,
    at: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Salvage<'_> {
    /// The next frame that can be read and is whole.
    fn next_frame(&mut self) -> Option<(FrameHeader, Vec<u8>)> {
        let segment = self.segment;
        while self.at + FRAME_HEADER_BYTES as u64 <= segment.end {
            let at = self.at;
            let header_bytes = self.bytes(at, FRAME_HEADER_BYTES).first_chunk::<FRAME_HEADER_BYTES>().copied()?;
            if let Some(header) = FrameHeader::decode(&header_bytes, segment.seed, at)
                && at + header.frame_bytes() <= segment.end
                && let Some((header, payload)) =
                    whole_frame(self.bytes(at, header.frame_bytes() as usize), segment.seed, at)
            {
                let payload = payload.to_vec();
                self.at += header.frame_bytes();
                return Some((header, payload));
            }
            self.at += FRAME_ALIGN as u64;
        }
        None
    }

    fn bytes(&mut self, at: u64, len: usize) -> &[u8] {
        let window_end = self.window_at + self.window.len() as u64;
        if at < self.window_at || at + len as u64 > window_end {
            let wanted = (len.max(READ_BYTES) as u64).min(self.segment.end - at) as usize;
            self.window.clear();
            self.window.resize(wanted, 0);
            self.window_at = at;
            read_salvage(&*self.segment.file, &mut self.window, at);
        }
        &self.window[(at - self.window_at) as usize..]
    }
}

/// Reads what can be read; pages that can't are zeros.
fn read_salvage(file: &dyn StorageFile, buffer: &mut [u8], offset: u64) {
    if file.read_full_at(buffer, offset).is_ok() {
        return;
    }
    for (number, page) in buffer.chunks_mut(PAGE_BYTES).enumerate() {
        if file.read_full_at(page, offset + (number * PAGE_BYTES) as u64).is_err() {
            page.fill(0);
        }
    }
}

/// Frames one more frame behind `frames`, which will stand at the end of `segment`.
fn push_next(frames: &mut Vec<u8>, segment: &ActiveSegment, kind: FrameKind, flags: u8, seq: u64, payload: &[u8]) {
    let offset = segment.end + frames.len() as u64;
    push_frame(frames, segment.seed, offset, kind, flags, seq, payload);
}

fn push_loss(frames: &mut Vec<u8>, segment: &ActiveSegment, seq: u64, count: u64) {
    let payload = DeclaredLoss { count, class: LossClass::Corruption }.encode(16);
    push_next(frames, segment, FrameKind::DeclaredLoss, 0, seq, &payload);
}

fn write_frames(segment: &mut ActiveSegment, frames: &mut Vec<u8>) -> io::Result<()> {
    let stretch = Stretch::of(frames, segment.seed, segment.end, segment.next_seq);
    let written = segment.write(frames, stretch);
    frames.clear();
    written.error.map_or(Ok(()), Err)
}
