//! The writer: gives entries their numbers, frames them, and hands them to the operating system in large writes.
//!
//! An append puts an entry into the batch; a flush writes the batch; a sync brings it to stable storage. A failure loses
//! nothing: what could not be written stays in the batch with its numbers and is tried again by the next call, and once a
//! full batch waits, appends are refused. What is not an answer to the caller's own call (a roll or a removal that failed)
//! is counted in [`WriterStats`] and tried again later.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::active::ActiveSegment;
use crate::batch::Batch;
use crate::control::{DropMarker, DropReason, SealReason};
use crate::entry::{CallSite, EntryHead};
use crate::error::{Error, ErrorKind, Result, is_no_space};
use crate::format::{ENTRY_HEAD_BYTES, FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED, FrameKind};
use crate::frame::frame_bytes;
use crate::options::{Options, SyncPolicy};
use crate::retention::OpenedSegments;
use crate::roll::Roll;
use crate::sites::Sites;
use crate::stats::WriterStats;
use crate::storage::{Storage, StorageFile};
use crate::sync::{Syncing, UnsyncedSegment};
use crate::value::Value;

/// A segment is given up for a new one after so many failed writes in a row that were not for lack of space.
const WRITE_FAILURES_MAX: u32 = 3;

/// The one writer of a log.
#[derive(Debug)]
pub struct Writer {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: Options,
    pub(crate) lock: Option<Arc<dyn StorageFile>>,
    /// Held on the run's ring file while the run lives.
    _ring_lock: Option<Arc<dyn StorageFile>>,
    pub(crate) run_id: u64,
    pub(crate) active: ActiveSegment,
    pub(crate) batch: Batch,
    pub(crate) roll: Option<Roll>,
    /// A roll by size failed: it is not tried again before the next flush.
    pub(crate) roll_blocked: bool,
    pub(crate) syncing: Syncing,
    pub(crate) synced_seq: u64,
    pub(crate) marked_seq: u64,
    /// The active segment's last sync failed: what it lacks must be written elsewhere.
    pub(crate) is_poisoned: bool,
    /// The same of the segment before, while the active one has nothing yet.
    pub(crate) poisoned_older: Option<ActiveSegment>,
    /// The active segment's file is no longer in the directory.
    pub(crate) is_homeless: bool,
    /// The directory has names that were not synced.
    pub(crate) directory_unsynced: bool,
    /// Older segments that were not synced to their end.
    pub(crate) unsynced_older: Vec<UnsyncedSegment>,
    pub(crate) first_seq_kept: u64,
    pub(crate) opened: OpenedSegments,
    pub(crate) older_bytes: u64,
    /// A segment whose creation failed and that could not be removed: name and opening time.
    pub(crate) half_created: Option<(String, i64)>,
    pub(crate) stats: WriterStats,
    pub(crate) is_closed: bool,
    pub(crate) write_failures_in_row: u32,
    pub(crate) sites: Sites,
    /// The last tseq given to each thread that leaves it to the writer.
    tseqs: HashMap<u32, u64>,
    line_tseq: u64,
    scratch: Vec<u8>,
}

/// What a writer starts from; made by its opening.
pub(crate) struct Start {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) options: Options,
    pub(crate) lock: Arc<dyn StorageFile>,
    pub(crate) ring_lock: Option<Arc<dyn StorageFile>>,
    pub(crate) run_id: u64,
    pub(crate) active: ActiveSegment,
    pub(crate) batch: Batch,
    pub(crate) synced_seq: u64,
    pub(crate) unsynced_older: Vec<UnsyncedSegment>,
    pub(crate) first_seq_kept: u64,
    pub(crate) opened: OpenedSegments,
    pub(crate) directory_unsynced: bool,
}

impl Writer {
    pub(crate) fn start(start: Start) -> Writer {
        Writer {
            storage: start.storage,
            options: start.options,
            lock: Some(start.lock),
            _ring_lock: start.ring_lock,
            run_id: start.run_id,
            active: start.active,
            batch: start.batch,
            roll: None,
            roll_blocked: false,
            syncing: Syncing::default(),
            synced_seq: start.synced_seq,
            marked_seq: start.synced_seq,
            is_poisoned: false,
            poisoned_older: None,
            is_homeless: false,
            directory_unsynced: start.directory_unsynced,
            unsynced_older: start.unsynced_older,
            first_seq_kept: start.first_seq_kept,
            opened: start.opened,
            older_bytes: 0,
            half_created: None,
            stats: WriterStats { segments_created: 1, ..WriterStats::default() },
            is_closed: false,
            write_failures_in_row: 0,
            sites: Sites::default(),
            tseqs: HashMap::new(),
            line_tseq: 0,
            scratch: Vec::new(),
        }
    }

    /// Appends a line of text, any bytes; returns its sequence number, or that of its last part if it was so long that it
    /// was cut. `flags`: [`FLAG_UNFINISHED`], and [`FLAG_MORE`] and [`FLAG_CONTINUED`] for a caller that cuts lines by
    /// itself. `time_ns`: nanoseconds since 1970 UTC.
    ///
    /// # Errors
    /// If a full batch waits and cannot be written, the line is refused. Under [`SyncPolicy::EachEntry`] an error may also
    /// mean that the line was taken but is not on stable storage yet: it was taken if [`next_seq`](Writer::next_seq) moved.
    #[inline]
    pub fn line(&mut self, line: &[u8], flags: u8, time_ns: i64) -> Result<u64> {
        self.make_room(line.len())?;
        let head = EntryHead { time_ns, tseq: self.line_tseq + 1, tid: 0, site: 0 };
        let (seq, parts) = self.push_parts(head, flags, line);
        self.line_tseq += parts;
        self.after_append()?;
        Ok(seq)
    }

    /// Appends an entry of typed arguments; `head.site` as [`define`](Writer::define) gave it. With `head.tseq` 0 the
    /// writer numbers the thread's entries itself.
    ///
    /// # Errors
    /// As [`line`](Writer::line); `Invalid` for a call site that was not defined.
    pub fn entry(&mut self, head: &EntryHead, values: &[Value<'_>]) -> Result<u64> {
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        values.iter().for_each(|value| value.encode(&mut body));
        let result = self.entry_encoded(head, 0, &body);
        self.scratch = body;
        result
    }

    /// Appends an entry whose body is already in its stored form: text for site 0, otherwise the arguments.
    ///
    /// # Errors
    /// As [`entry`](Writer::entry).
    #[inline]
    pub fn entry_encoded(&mut self, head: &EntryHead, flags: u8, body: &[u8]) -> Result<u64> {
        if head.site != 0 && self.sites.get(head.site).is_none() {
            let text = format!("call site {} was not defined: call define first", head.site);
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        self.make_room(body.len())?;
        // Taken apart and put together: a copy of the whole would wait for its parts, which have just been written.
        let &EntryHead { time_ns, tseq, tid, site } = head;
        let own = tseq == 0;
        let tseq = if own { self.tseqs.get(&tid).map_or(1, |last| last + 1) } else { tseq };
        let head = EntryHead { time_ns, tseq, tid, site };
        self.sites.push_missing(head.site, head.tid, self.active.header.index, &mut self.batch);
        let (seq, parts) = self.push_parts(head, flags, body);
        if own {
            self.tseqs.insert(head.tid, head.tseq + parts - 1);
        }
        self.after_append()?;
        Ok(seq)
    }

    /// The id of a call site, for [`EntryHead::site`]; the same definition has the same id. One that is longer than a frame
    /// (1 MiB) is not stored: its entries are shown with their raw arguments.
    pub fn define(&mut self, site: &CallSite) -> u32 {
        self.sites.define(site)
    }

    /// Names the thread `tid` of this run. A name that is longer than a frame (1 MiB) is not stored.
    pub fn name_thread(&mut self, tid: u32, name: &str) {
        self.sites.name_thread(tid, name);
    }

    /// Forgets the name of a thread that has ended.
    pub(crate) fn forget_thread(&mut self, tid: u32) {
        self.sites.forget_thread(tid);
    }

    /// Counts `marker.count` entries as refused by the caller's policy: they use up sequence numbers, and the log says so.
    /// Returns the first of these numbers.
    ///
    /// # Errors
    /// As [`line`](Writer::line).
    pub fn drop_entries(&mut self, marker: &DropMarker) -> Result<u64> {
        self.make_room(64)?;
        self.sites.push_missing(0, marker.tid, self.active.header.index, &mut self.batch);
        let first = self.push_marker(marker);
        self.after_append()?;
        Ok(first)
    }

    fn push_marker(&mut self, marker: &DropMarker) -> u64 {
        let mut payload = Vec::with_capacity(32);
        marker.encode(&mut payload);
        *self.stats.entries_dropped.of(marker.reason) += marker.count;
        self.batch.push_numbered(FrameKind::DropMarker, &payload, marker.count, self.synced_seq)
    }

    /// Gives up all entries that wait to be written; a drop marker takes their numbers. Returns how many they were.
    ///
    /// # Errors
    /// If the marker could not be written either; it then waits in their place.
    pub fn discard_pending(&mut self, reason: DropReason) -> Result<u64> {
        self.check_open()?;
        self.batch.close_block(self.synced_seq);
        let controls = self.batch.controls();
        for marker in self.batch.markers() {
            // It is counted again by the marker that stands for all.
            let counted = self.stats.entries_dropped.of(marker.reason);
            *counted = counted.saturating_sub(marker.count);
        }
        let (count, _, tally) = self.batch.discard(&self.active);
        for (kind, payload) in controls {
            self.batch.push_control(kind, &payload);
        }
        if count > 0 {
            let time_ns = if tally.entries > 0 { tally.time_min_ns } else { (self.options.clock)() };
            self.push_marker(&DropMarker { count, time_ns, tseq: 0, tid: 0, reason, level: 0 });
        }
        self.write_pending()?;
        Ok(count)
    }

    /// The sequence number that the next entry gets.
    pub fn next_seq(&self) -> u64 {
        self.batch.next_seq()
    }

    /// The log's id.
    pub fn log_id(&self) -> u64 {
        self.active.header.log_id
    }

    /// File name of the active segment.
    pub fn active_name(&self) -> &str {
        &self.active.name
    }

    /// Hands everything appended so far to the operating system: it then survives the end of the process. Returns the last
    /// sequence number handed over. Picks up what failed before.
    ///
    /// # Errors
    /// What the system says. What was not written is kept and tried again at the next call.
    pub fn flush(&mut self) -> Result<u64> {
        self.check_open()?;
        self.come_home()?;
        self.collect_sync(false);
        self.heal()?;
        self.roll_blocked = false;
        if self.roll.is_some() {
            // Its failure is counted; the entries need not wait for it.
            let _ = self.drive_roll();
        }
        if self.batch.pending_bytes() > 0 {
            self.push_sync_mark();
            self.write_pending()?;
        }
        match self.options.sync {
            SyncPolicy::EachBatch | SyncPolicy::EachEntry => self.sync_flushed()?,
            SyncPolicy::Interval(_) => self.sync_when_due()?,
            SyncPolicy::Never => {}
        }
        if self.outgrew_keep_bytes() {
            self.retain_or_note();
        }
        Ok(self.active.last_seq())
    }

    /// What is to be done from time to time: rolls by time, syncs by interval, retention by age and free space, and what
    /// failed before. Call it about once a second, also when nothing is logged, and at [`sync_due`](Writer::sync_due).
    ///
    /// # Errors
    /// What the system says; all of it is tried again at the next call.
    pub fn tick(&mut self, now_ns: i64) -> Result<()> {
        self.check_open()?;
        self.look_for_home();
        self.come_home()?;
        self.collect_sync(false);
        self.heal()?;
        self.roll_blocked = false;
        self.drive_roll()?;
        if let Some(period) = self.options.roll_every {
            let period_ns = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
            let is_later = now_ns.div_euclid(period_ns) > self.active.header.opened_ns.div_euclid(period_ns);
            if is_later && self.has_entries() {
                self.roll()?;
            }
        }
        self.sync_when_due()?;
        if self.may_need_retention(now_ns) {
            self.retain_now().inspect_err(|_| self.stats.retention_failures += 1).map_err(|error| self.noted(error))?;
        }
        Ok(())
    }

    /// Flushes, syncs (but under [`SyncPolicy::Never`]), seals the active segment, and ends the run. Further calls are
    /// refused.
    ///
    /// # Errors
    /// What the system says; the log is then still open, and another call tries again.
    pub fn close(&mut self) -> Result<WriterStats> {
        if self.is_closed {
            return Ok(self.stats());
        }
        self.flush()?;
        self.drive_roll()?;
        if self.options.sync != SyncPolicy::Never {
            self.sync_flushed()?;
        }
        self.seal_active(SealReason::Closed)?;
        self.is_closed = true;
        self.write_state();
        if let Some(lock) = self.lock.take().filter(|_| self.options.sync != SyncPolicy::Never) {
            // So that it says after a power cut, too, that this is the end. Without it the log's end is unknown, not lost.
            self.stats.state_failures += u64::from(lock.sync().is_err());
        }
        Ok(self.stats())
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed {
            Err(Error::new(ErrorKind::Closed, "the log was closed: open it again to write"))
        } else {
            Ok(())
        }
    }

    /// Whether the active segment has any entry, the pending ones included.
    pub(crate) fn has_entries(&self) -> bool {
        self.batch.next_seq() > self.active.header.first_seq
    }

    /// Makes sure that an entry with `body_bytes` may be appended.
    #[inline]
    fn make_room(&mut self, body_bytes: usize) -> Result<()> {
        self.check_open()?;
        if self.batch.pending_bytes() >= self.options.batch_bytes {
            self.flush()?;
        }
        let ahead = if self.batch.is_compressed() { 0 } else { frame_bytes(ENTRY_HEAD_BYTES + body_bytes) };
        let end = self.active.end + (self.batch.framed_bytes() + ahead) as u64;
        if end > self.options.roll_bytes && !self.roll_blocked && self.has_entries() {
            // The entry can still go into the old segment; the failure is counted.
            self.roll_blocked = self.roll_making_room().is_err();
        }
        Ok(())
    }

    /// Rolls. On a full disk, if the options say so, the oldest segments go until there is room for a new one: else the
    /// active one, which is never removed, would take all that is freed.
    fn roll_making_room(&mut self) -> Result<()> {
        loop {
            let rolled = self.roll();
            let is_full = rolled.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace);
            if !is_full || !self.options.makes_room || !self.remove_oldest()? {
                return rolled;
            }
        }
    }

    /// Appends an entry, in parts if it is long. Returns the last part's number, and how many they are.
    #[inline]
    fn push_parts(&mut self, head: EntryHead, flags: u8, body: &[u8]) -> (u64, u64) {
        let part_bytes = self.options.part_bytes();
        if body.len() <= part_bytes {
            return (self.push_part(&head, flags, body), 1);
        }
        self.push_long(head, flags, body, part_bytes)
    }

    #[inline]
    fn push_part(&mut self, head: &EntryHead, flags: u8, body: &[u8]) -> u64 {
        let site = self.sites.get(head.site);
        self.batch.push_entry(head, flags, body, site, self.options.block_bytes, self.synced_seq)
    }

    #[cold]
    fn push_long(&mut self, mut head: EntryHead, flags: u8, body: &[u8], part_bytes: usize) -> (u64, u64) {
        let count = body.len().div_ceil(part_bytes) as u64;
        let (mut seq, mut number) = (0, 0);
        for part in body.chunks(part_bytes) {
            number += 1;
            let mut part_flags = flags & !(FLAG_MORE | FLAG_UNFINISHED | FLAG_CONTINUED);
            part_flags |= if number < count { FLAG_MORE } else { flags & (FLAG_MORE | FLAG_UNFINISHED) };
            part_flags |= if number > 1 { FLAG_CONTINUED } else { flags & FLAG_CONTINUED };
            // The entry is taken as a whole: what cannot be written now waits, however much it is.
            if number > 1 && self.batch.pending_bytes() >= self.options.batch_bytes {
                let _ = self.write_pending();
                self.sites.push_missing(head.site, head.tid, self.active.header.index, &mut self.batch);
            }
            seq = self.push_part(&head, part_flags, part);
            head.tseq += 1;
        }
        (seq, count)
    }

    #[inline]
    fn after_append(&mut self) -> Result<()> {
        if self.options.sync == SyncPolicy::EachEntry { self.flush().map(|_| ()) } else { Ok(()) }
    }

    /// Writes the batch. On failure, what was not written stays in it.
    pub(crate) fn write_pending(&mut self) -> Result<()> {
        self.heal()?;
        self.batch.close_block(self.synced_seq);
        let (frames, stretch) = self.batch.frames();
        if frames.is_empty() {
            return Ok(());
        }
        self.active.allocate_for(frames.len(), self.options.preallocate_bytes, self.options.roll_bytes);
        let entries_before = self.active.tally.entries;
        let written = self.stats.writes.time(|| self.active.write(frames, stretch));
        self.batch.written(written.whole, &self.active);
        self.stats.bytes_written += written.whole as u64;
        self.stats.entries += self.active.tally.entries - entries_before;
        if written.whole > 0 {
            self.write_state();
        }
        if written.error.is_none()
            && let Some(mark) = self.active.index_mark()
        {
            self.batch.push_control(FrameKind::IndexMark, &mark);
        }
        let Some(error) = written.error else {
            self.write_failures_in_row = 0;
            return if self.active.dirty_end > self.active.end { self.leave_segment() } else { Ok(()) };
        };
        self.stats.write_failures += 1;
        let is_too_large = error.kind() == io::ErrorKind::FileTooLarge;
        if is_too_large && self.active.tally.entries > 0 {
            // The next file has room.
            self.leave_segment()?;
            return self.write_pending();
        }
        self.write_failures_in_row += u32::from(!is_no_space(&error) && !is_too_large);
        let error = Error::io("cannot write", error).at(self.storage.path().join(&self.active.name));
        let error = self.noted(error.at_byte(self.active.end));
        if self.write_failures_in_row >= WRITE_FAILURES_MAX {
            self.write_failures_in_row = 0;
            self.leave_segment()?;
            return self.write_pending();
        }
        Err(error)
    }

    fn retain_or_note(&mut self) {
        if let Err(error) = self.retain_now() {
            self.stats.retention_failures += 1;
            self.note(&error);
        }
        self.count_older_bytes();
    }

    /// Remembers a failure for [`WriterStats`].
    pub(crate) fn note(&mut self, error: &Error) {
        self.stats.last_failure = Some(error.to_string());
    }

    /// As [`note`](Writer::note), for an error that is returned too.
    pub(crate) fn noted(&mut self, error: Error) -> Error {
        self.note(&error);
        error
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Best effort: who needs to know calls close.
        let _ = self.close();
    }
}
