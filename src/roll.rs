//! The roll: an explicit list of steps. One that fails keeps its place and is tried again by the next flush or tick.
//!
//! | step | what | if it fails |
//! |---|---|---|
//! | flush | write what is pending | the old segment stays active |
//! | create | plan retention; header of the new segment, synced, directory synced (both left to the thread that syncs, unless retention removes something); switch to it | its file is removed, the old segment stays active |
//! | seal | the seal behind the old segment's last frame | its data is synced all the same, the seal tried again later |
//! | trim | give back the space reserved | never mind |
//! | sync | old segment, here or by the thread that syncs | its unsynced end is written anew into the new segment |
//! | record | `writer.lock` | counted |
//! | remove | what retention no longer keeps | counted, tried again at the next roll or tick |
//!
//! The new segment is on disk before the seal that names it: so if the newest file of a log is deleted, the seal of the
//! one before tells. From the moment that the new segment's header is readable, nothing is appended to the old one: that
//! header says where the old one ends.

use std::io;
use std::sync::Arc;

use crate::active::{ActiveSegment, write_all};
use crate::control::SealReason;
use crate::error::{Error, ErrorKind, Result, is_no_space};
use crate::format::{HEADER_BYTES, SEGMENT_WITH_RINGS};
use crate::options::SyncPolicy;
use crate::retention::{OpenedSegment, RetentionPlan, take_maintenance_lock};
use crate::segment::{Predecessor, SegmentHeader};
use crate::storage::{Storage, StorageFile};
use crate::sync::UnsyncedSegment;
use crate::writer::Writer;

/// How often a seal is tried that fails for another reason than a full disk; then the segment stays unsealed, which costs
/// its index.
const SEAL_TRIES: u32 = 8;

/// Where a roll stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Flush,
    Create,
    Seal,
    Trim,
    Sync,
    Record,
    Remove,
}

/// A roll under way.
#[derive(Debug)]
pub(crate) struct Roll {
    step: Step,
    /// The segment before, once the writer has switched.
    old: Option<ActiveSegment>,
    successor_id: u64,
    plan: Option<RetentionPlan>,
    /// Why the seal is not there yet.
    seal_failure: Option<Error>,
    seal_tries: u32,
    /// All but the seal is done.
    only_seal: bool,
}

impl Writer {
    /// Begins a new segment; the old one is sealed.
    ///
    /// # Errors
    /// What the system says. Logging goes on, in the old segment or in the new one, and the steps that are missing are
    /// made up for later.
    pub fn roll(&mut self) -> Result<()> {
        self.check_open()?;
        self.collect_sync(!self.defers_syncs());
        self.heal()?;
        self.drive_roll()?;
        self.roll = Some(Roll {
            step: Step::Flush,
            old: None,
            successor_id: 0,
            plan: None,
            seal_failure: None,
            seal_tries: 0,
            only_seal: false,
        });
        self.drive_roll()
    }

    /// Goes on with the roll under way, if there is one.
    pub(crate) fn drive_roll(&mut self) -> Result<()> {
        while let Some(mut roll) = self.roll.take() {
            match self.roll_step(&mut roll) {
                Ok(true) => self.roll = Some(roll),
                Ok(false) => {}
                Err(error) => {
                    self.stats.roll_failures += 1;
                    // Before the switch there is nothing to keep: the next roll starts anew.
                    self.roll = roll.old.is_some().then_some(roll);
                    return Err(self.noted(error));
                }
            }
        }
        Ok(())
    }

    /// Makes one step. Returns whether there are more.
    fn roll_step(&mut self, roll: &mut Roll) -> Result<bool> {
        match roll.step {
            Step::Flush => {
                self.write_pending()?;
                roll.step = Step::Create;
            }
            Step::Create => {
                self.create_next(roll)?;
                roll.step = Step::Seal;
            }
            Step::Seal => {
                roll.seal_tries += 1;
                roll.seal_failure = self.seal_old(roll).err();
                if roll.only_seal && roll.seal_failure.is_some() && roll.seal_tries < SEAL_TRIES {
                    return roll.seal_failure.take().map_or(Ok(true), Err);
                }
                roll.step = Step::Trim;
            }
            Step::Trim => {
                if let Some(old) = &mut roll.old {
                    // Setting the length that it has gives back what is reserved behind it.
                    let _ = old.file.set_len(old.dirty_end);
                }
                roll.step = Step::Sync;
            }
            Step::Sync => {
                if roll.only_seal {
                    return Ok(false);
                }
                if let Some(old) = roll.old.take() {
                    roll.old = self.sync_old(old)?;
                }
                roll.step = Step::Record;
            }
            Step::Record => {
                self.write_state();
                roll.step = Step::Remove;
            }
            Step::Remove => {
                if let Some(plan) = roll.plan.take() {
                    let removed =
                        take_maintenance_lock(&*self.storage).and_then(|lock| self.remove_planned(&plan, lock));
                    if let Err(error) = removed {
                        self.stats.retention_failures += 1;
                        self.note(&error);
                    }
                }
                self.count_older_bytes();
                if roll.old.is_none() || roll.seal_failure.is_none() {
                    return Ok(false);
                }
                (roll.step, roll.only_seal) = (Step::Seal, true);
                return roll.seal_failure.take().map_or(Ok(true), Err);
            }
        }
        Ok(true)
    }

    /// Plans retention, makes the next segment, and switches to it.
    fn create_next(&mut self, roll: &mut Roll) -> Result<()> {
        let seal_bytes = self.active.seal_frame(SealReason::Rolled, 0).len() as u64;
        roll.plan =
            self.plan_for_roll(self.active.next_seq, seal_bytes + HEADER_BYTES as u64).unwrap_or_else(|error| {
                self.stats.retention_failures += 1;
                self.note(&error);
                None
            });
        let planned = roll.plan.as_ref().and_then(|plan| plan.first_seq_kept).unwrap_or(0);
        let before = Predecessor {
            segment_id: self.active.header.segment_id,
            last_seq: self.active.last_seq(),
            accepted_end: self.active.end,
        };
        let mut header = self.next_header(before, self.active.next_seq)?;
        header.first_seq_kept = header.first_seq_kept.max(planned);
        let next = self.create_segment(header)?;
        self.first_seq_kept = next.header.first_seq_kept;
        roll.successor_id = next.header.segment_id;
        self.batch.move_to(&next, &[]);
        roll.old = Some(self.switch_to(next));
        Ok(())
    }

    /// Makes `next` the active segment; gives back the one that was.
    pub(crate) fn switch_to(&mut self, next: ActiveSegment) -> ActiveSegment {
        self.stats.segments_created += 1;
        self.marked_seq = next.header.synced_upto;
        self.opened.insert(next.name.clone(), OpenedSegment::of(&next.header));
        std::mem::replace(&mut self.active, next)
    }

    /// The header of the segment after the active one.
    pub(crate) fn next_header(&self, before: Predecessor, first_seq: u64) -> Result<SegmentHeader> {
        let opened_ns = self.half_created.as_ref().map_or_else(|| (self.options.clock)(), |(_, opened_ns)| *opened_ns);
        let index = self.active.header.index + 1;
        Ok(SegmentHeader {
            flags: self.active.header.flags & SEGMENT_WITH_RINGS,
            segment_id: random_id()?,
            index,
            index_last: index,
            first_seq,
            opened_ns,
            synced_upto: self.synced_seq,
            first_seq_kept: self.first_seq_kept,
            predecessor: Some(before),
            ..self.active.header.clone()
        })
    }

    /// Makes the file of a segment, with its header, on stable storage.
    pub(crate) fn create_segment(&mut self, header: SegmentHeader) -> Result<ActiveSegment> {
        let half = self.half_created.take();
        let reuse = half.as_ref().is_some_and(|(name, _)| self.storage.remove(name).is_err());
        let sync = self.options.sync != SyncPolicy::Never && !self.defers_syncs();
        let stride = self.options.index_stride_bytes;
        match create_segment(&*self.storage, header.clone(), stride, sync, reuse) {
            Ok(segment) => {
                self.directory_unsynced |= !sync;
                Ok(segment)
            }
            Err(CreateError { error, left: None }) => Err(error),
            Err(CreateError { error, left: Some(left) }) if left.set_len(0).is_ok() => {
                self.half_created = Some((header.name().to_string(), header.opened_ns));
                Err(error)
            }
            Err(CreateError { error, left: Some(left) }) => {
                // A readable header may stand there and nothing takes it away: it must become true, so go on with it.
                self.note(&error);
                let (written, failed) = write_all(&*left, &header.encode(), 0);
                self.directory_unsynced = true;
                let name = header.name().to_string();
                match failed {
                    None if written == HEADER_BYTES => Ok(ActiveSegment::new(left, name, header, stride)),
                    _ => {
                        self.half_created = Some((name, header.opened_ns));
                        Err(error)
                    }
                }
            }
        }
    }

    /// Writes the seal of the segment before.
    fn seal_old(&mut self, roll: &mut Roll) -> Result<()> {
        let Some(old) = &mut roll.old else { return Ok(()) };
        let path = self.storage.path().join(&old.name);
        if !old.cut_dirty() {
            roll.seal_tries = SEAL_TRIES;
            let text = "cannot seal: what a failed write left behind its last frame can't be cut off";
            return Err(Error::new(ErrorKind::Io, text).at(path));
        }
        seal(old, SealReason::Rolled, roll.successor_id).map_err(|error| {
            if is_no_space(&error) {
                roll.seal_tries = 0;
            }
            Error::io("cannot seal", error).at(path)
        })
    }

    /// Syncs the segment before; if that fails, writes what it lacks anew into the active one, which has nothing yet.
    /// Gives it back unless it was replaced so.
    fn sync_old(&mut self, old: ActiveSegment) -> Result<Option<ActiveSegment>> {
        if self.options.sync == SyncPolicy::Never || self.defers_syncs() {
            self.unsynced_older.push(UnsyncedSegment::new(&old.name));
            return Ok(Some(old));
        }
        let Err(error) = self.stats.syncs.time(|| old.file.sync()) else {
            self.synced_seq = old.last_seq();
            return Ok(Some(old));
        };
        self.stats.sync_failures += 1;
        self.note(&Error::io("cannot sync", error).at(self.storage.path().join(&old.name)));
        self.poisoned_older = Some(old);
        self.heal()?;
        Ok(None)
    }

    /// Seals the active segment, trims and syncs it: the end of a run.
    pub(crate) fn seal_active(&mut self, reason: SealReason) -> Result<()> {
        let path = self.storage.path().join(&self.active.name);
        seal(&mut self.active, reason, 0).map_err(|error| self.noted(Error::io("cannot seal", error).at(&path)))?;
        let _ = self.active.file.set_len(self.active.dirty_end);
        if self.options.sync != SyncPolicy::Never {
            self.active.file.sync().map_err(|error| self.noted(Error::io("cannot sync the seal", error).at(&path)))?;
        }
        self.active.end = self.active.dirty_end;
        Ok(())
    }
}

/// Writes the seal of a segment at its end, which it leaves as it is: a seal may be written again.
pub(crate) fn seal(segment: &mut ActiveSegment, reason: SealReason, successor_id: u64) -> io::Result<()> {
    let frame = segment.seal_frame(reason, successor_id);
    let (done, error) = write_all(&*segment.file, &frame, segment.end);
    segment.dirty_end = segment.dirty_end.max(segment.end + done as u64);
    match error {
        None => Ok(()),
        Some(error) => {
            segment.cut_dirty();
            Err(error)
        }
    }
}

/// Why a segment could not be made, and its file if that could not be removed.
pub(crate) struct CreateError {
    pub(crate) error: Error,
    pub(crate) left: Option<Arc<dyn StorageFile>>,
}

/// Makes the file of a segment with its header; with `sync`, on stable storage; with `reuse`, in the place of an older try.
pub(crate) fn create_segment(
    storage: &dyn Storage,
    header: SegmentHeader,
    stride: u64,
    sync: bool,
    reuse: bool,
) -> std::result::Result<ActiveSegment, CreateError> {
    let name = header.name().to_string();
    let failed = |what: &str, error: io::Error| Error::io(what, error).at(storage.path().join(&name));
    let made = if reuse { storage.open_write(&name) } else { storage.create(&name) };
    let file = made.map_err(|error| CreateError { error: failed("cannot create the segment", error), left: None })?;
    let written = match write_all(&*file, &header.encode(), 0).1 {
        Some(error) => Err(failed("cannot write the segment's header", error)),
        None if sync => file
            .sync()
            .and_then(|()| storage.sync_dir())
            .map_err(|error| failed("cannot sync the segment's header", error)),
        None => Ok(()),
    };
    match written {
        Ok(()) => {
            let mut segment = ActiveSegment::new(file, name, header, stride);
            if !sync {
                segment.synced_end = 0;
            }
            Ok(segment)
        }
        Err(error) => {
            let left = storage.remove(&name).is_err().then_some(file);
            Err(CreateError { error, left })
        }
    }
}

/// A random number that is not 0.
pub(crate) fn random_id() -> Result<u64> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::io("cannot get random numbers for the segment's id", io::Error::other(error.to_string()))
    })?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
