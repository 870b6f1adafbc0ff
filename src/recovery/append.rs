//! The segment that a recovery makes: written under a name that no reader takes for a segment, and renamed once it is whole.
//!
//! It follows from what the rings and the log hold, and from nothing else: whoever recovers, and however often, makes the
//! same bytes.

use std::collections::HashSet;
use std::io;

use crate::active::{ActiveSegment, write_whole};
use crate::batch::Batch;
use crate::control::{DeclaredLoss, DropMarker, LossClass, RunStart, SealReason};
use crate::entry::{EntryHead, encode_thread};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::SeqRange;
use crate::format::{FrameKind, HEADER_BYTES};
use crate::frame::push_frame;
use crate::open::SEQ_MAX;
use crate::options::{Compression, Options};
use crate::roll::seal;
use crate::segment::SegmentHeader;
use crate::storage::Storage;

/// Where the segment is written before it gets its name.
pub(crate) const RECOVERY_NAME: &str = "recovery.tmp";

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 256 << 10;

/// Payload of a declared loss.
const LOSS_BYTES: usize = 16;

/// A segment that is being made.
#[derive(Debug)]
pub(super) struct Append<'a> {
    storage: &'a dyn Storage,
    segment: ActiveSegment,
    batch: Batch,
    start: RunStart,
    sites: HashSet<u32>,
    threads: HashSet<u32>,
}

impl<'a> Append<'a> {
    /// Begins the segment with `header`; `start` is its first frame, but for the number of entries.
    pub(super) fn create(storage: &'a dyn Storage, header: SegmentHeader, start: RunStart) -> Result<Append<'a>> {
        let failed = |error| {
            Error::io("cannot write what is recovered from rings", error).at(storage.path().join(RECOVERY_NAME))
        };
        remove_unfinished(storage).map_err(failed)?;
        let file = storage.create(RECOVERY_NAME).map_err(failed)?;
        write_whole(&*file, &header.encode(), 0).map_err(failed)?;
        let name = header.name().to_string();
        let segment = ActiveSegment::new(file, name, header, Options::default().index_stride_bytes);
        let batch = Batch::new(&segment, Compression::None).map_err(failed)?;
        let mut append = Append { storage, segment, batch, start, sites: HashSet::new(), threads: HashSet::new() };
        let mut payload = Vec::new();
        append.start.encode(&mut payload);
        append.batch.push_control(FrameKind::RunStart, &payload);
        Ok(append)
    }

    /// Whether the thread's name was given.
    pub(super) fn knows_thread(&self, tid: u32) -> bool {
        self.threads.contains(&tid)
    }

    /// Names a thread.
    pub(super) fn name_thread(&mut self, tid: u32, name: Option<&str>) {
        self.threads.insert(tid);
        if let Some(name) = name {
            let mut payload = Vec::new();
            encode_thread(tid, name, &mut payload);
            self.batch.push_control(FrameKind::Thread, &payload);
        }
    }

    /// Defines a call site, unless that was done before.
    pub(super) fn define(&mut self, number: u32, definition: Option<&Vec<u8>>) {
        if number > 0
            && self.sites.insert(number)
            && let Some(payload) = definition
        {
            self.batch.push_control(FrameKind::CallSite, payload);
        }
    }

    /// Adds an entry, or a part of one.
    pub(super) fn entry(&mut self, head: &EntryHead, flags: u8, body: &[u8]) -> Result<()> {
        self.check_room(1)?;
        self.batch.push_entry(head, flags, body, None, 0, 0);
        self.start.entries_recovered += 1;
        self.write_if(WRITE_BYTES)
    }

    /// Adds a drop marker.
    pub(super) fn dropped(&mut self, marker: &DropMarker) -> Result<()> {
        self.check_room(marker.count)?;
        let mut payload = Vec::new();
        marker.encode(&mut payload);
        self.batch.push_numbered(FrameKind::DropMarker, &payload, marker.count, 0);
        Ok(())
    }

    /// Declares entries lost; returns the numbers that stand for them.
    pub(super) fn lost(&mut self, count: u64, class: LossClass) -> Result<SeqRange> {
        self.check_room(count)?;
        let payload = DeclaredLoss { count, class }.encode(LOSS_BYTES);
        let first = self.batch.push_numbered(FrameKind::DeclaredLoss, &payload, count, 0);
        Ok(SeqRange { first, last: first + count - 1 })
    }

    fn check_room(&self, count: u64) -> Result<()> {
        if count <= SEQ_MAX.saturating_sub(self.batch.next_seq()) {
            return Ok(());
        }
        let text = "the rings claim so many entries that there is no room for their numbers: start a new log";
        Err(Error::new(ErrorKind::Damaged, text).at(self.storage.path()))
    }

    fn write_if(&mut self, bytes: usize) -> Result<()> {
        if self.batch.pending_bytes() < bytes {
            return Ok(());
        }
        let (frames, stretch) = self.batch.frames();
        let written = self.segment.write(frames, stretch);
        if let Some(error) = written.error {
            return Err(self.failed(error));
        }
        self.batch.written(written.whole, &self.segment);
        if let Some(mark) = self.segment.index_mark() {
            self.batch.push_control(FrameKind::IndexMark, &mark);
        }
        Ok(())
    }

    /// Completes the segment and gives it its name. Returns it, and how many entries it has.
    pub(super) fn finish(mut self, is_synced: bool) -> Result<(ActiveSegment, u64)> {
        self.write_if(1)?;
        self.write_if(1)?;
        let finished = self.finish_file(is_synced);
        finished.map_err(|error| self.failed(error))?;
        Ok((self.segment, self.start.entries_recovered))
    }

    fn finish_file(&mut self, is_synced: bool) -> io::Result<()> {
        // The first frame again, now that the number of entries is known.
        let (mut payload, mut frame) = (Vec::new(), Vec::new());
        self.start.encode(&mut payload);
        let (seed, at, seq) = (self.segment.seed, HEADER_BYTES as u64, self.segment.header.first_seq);
        push_frame(&mut frame, seed, at, FrameKind::RunStart, 0, seq, &payload);
        write_whole(&*self.segment.file, &frame, at)?;
        seal(&mut self.segment, SealReason::Recovered, 0)?;
        if is_synced {
            self.segment.file.sync()?;
        }
        self.storage.rename(RECOVERY_NAME, &self.segment.name)?;
        if is_synced { self.storage.sync_dir() } else { Ok(()) }
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io("cannot write what is recovered from rings", error).at(self.storage.path().join(RECOVERY_NAME))
    }
}

/// Removes what a recovery has left that was stopped.
pub(crate) fn remove_unfinished(storage: &dyn Storage) -> io::Result<()> {
    match storage.remove(RECOVERY_NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
