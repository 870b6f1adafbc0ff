//! The backend: the thread that takes entries out of the rings and writes them.
//!
//! ```text
//! pass      T = now; look at all rings; merge what is stamped at or before T; write; only then release the rings' room
//! between   answer requests; sync, roll, retain when it is time; sleep, unless much is waiting
//! ```
//! Whatever happened before in the program has the lower stamp, and is seen by a look after T if its call returned before an
//! entry was logged that is stamped at or before T: so causes come before their effects.
//!
//! A pass takes all that is there, so batches grow with what comes in; where little does the thread sleeps longer and longer.

mod closing;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crate::clock;
use crate::control::{DropMarker, DropReason};
use crate::error::{Error, ErrorKind, Result};
use crate::logger::Refused;
use crate::ring::mapping::MappedRing;
use crate::ring::record::{RecordHead, SHARED_TSEQ};
use crate::ring::stamp::Calibration;
use crate::ring::{Consumer, lock};
use crate::writer::Writer;

use super::figures::Rounds;
use super::level_requests::LevelRequests;
use super::sink::{Numbers, Sink};
use super::{LongEntry, Request, Shared};

/// What is to be done from time to time is done so often.
const TICK: Duration = Duration::from_secs(1);

/// How long the backend sleeps after a pass that found nothing, the first time, the second, and so on: an idle program costs
/// next to nothing, and an entry is in the file within 25 ms.
const NAPS: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_millis(4), Duration::from_millis(16), Duration::from_millis(20)];

/// A pass that took less than this is followed by a nap: more to write at once costs less.
const BUSY_BYTES: u64 = 64 << 10;

/// A ring as the backend sees it.
pub(super) struct Lane {
    pub(super) consumer: Consumer<MappedRing>,
    numbers: Numbers,
    /// Its owner had ended before the last look.
    is_released: bool,
}

pub(super) struct Backend {
    shared: Arc<Shared>,
    /// The common ring first.
    lanes: Vec<Lane>,
    /// The changes of the claims that the lanes know of.
    changes: u64,
    sink: Sink,
    /// Who waits for a sync, and for that of which sequence number.
    sync_waiters: Vec<(u64, Sender<Result<()>>)>,
    sync_failures: u64,
    /// Bytes of rings that made no sense, so far.
    damaged_bytes: u64,
    level_requests: LevelRequests,
    rounds: Rounds,
    next_tick: Instant,
    /// Passes in a row that found nothing.
    idle_passes: usize,
    troubles: u64,
}

impl Backend {
    pub(super) fn new(shared: Arc<Shared>, writer: Writer, calibration: Calibration) -> Backend {
        let sink = Sink::new(Arc::clone(&shared), writer, calibration);
        Backend {
            shared,
            lanes: Vec::new(),
            changes: 0,
            sink,
            sync_waiters: Vec::new(),
            sync_failures: 0,
            damaged_bytes: 0,
            level_requests: LevelRequests::default(),
            rounds: Rounds::new(),
            next_tick: Instant::now(),
            idle_passes: 0,
            troubles: 0,
        }
    }

    /// The thread. Whatever ends it, nobody is left waiting.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        self.sink.writer.wake_after_syncs(std::thread::current());
        let _ = shared.backend.set(std::thread::current().id());
        let worked = catch_unwind(AssertUnwindSafe(|| self.work()));
        // ORDERING: Release, pairs with the Acquire in `Gate::enter`.
        shared.closed.store(true, Release);
        let waiting = {
            let mut requests = lock(&shared.requests);
            requests.has_ended = true;
            std::mem::take(&mut requests.list)
        };
        drop(waiting);
        for ring in &lock(&shared.claims).all {
            ring.abandon();
            ring.room.wake();
        }
        if worked.is_err() {
            let text = "the thread of the log has panicked: what it had not written stays in the ring file";
            shared.tell(&Err(Error::new(ErrorKind::Io, text).at(&shared.path)));
        }
    }

    fn work(&mut self) {
        loop {
            // ORDERING: Relaxed; the list's lock orders what is in it.
            let requests = if self.shared.has_requests.swap(false, Relaxed) {
                std::mem::take(&mut lock(&self.shared.requests).list)
            } else {
                Vec::new()
            };
            let is_asked = !requests.is_empty();
            let (taken, result) = self.pass(is_asked);
            self.take_note(&result);
            for request in requests {
                if self.answer(request, &result) {
                    return;
                }
            }
            self.look_after_syncs();
            let now = Instant::now();
            let is_tick = now >= self.next_tick;
            if is_tick {
                self.tick();
            }
            self.rounds.tell(&self.shared, now, is_tick);
            if self.shared.is_orphaned.load(Relaxed) {
                // Nobody can log any more, nor ask for another try. What can't be written stays in the ring file.
                let _ = self.close();
                return;
            }
            self.nap(taken, result.is_err());
        }
    }

    /// Takes what is in the rings, writes it, and gives back their room. Returns how many bytes were taken.
    // A frame of its own: `benches/instructions.rs` counts what it does.
    #[inline(never)]
    fn pass(&mut self, everything: bool) -> (u64, Result<()>) {
        self.rounds.begin();
        let (taken, result) = self.take(everything);
        let result = match result {
            Ok(()) => self.flush_and_release(),
            Err(error) => {
                self.rounds.release(&mut self.lanes, false);
                Err(error)
            }
        };
        if result.is_ok() {
            self.rounds.complete();
            self.take_back_rings();
        }
        (taken, result)
    }

    /// Takes what is in the rings.
    fn take(&mut self, everything: bool) -> (u64, Result<()>) {
        self.learn_of_rings();
        for lane in &mut self.lanes {
            // Before the look: nothing comes after what that sees.
            lane.is_released = lane.consumer.ring().is_released();
        }
        let now = self.shared.clock.now_before_loads();
        let mut taken = 0;
        for lane in &mut self.lanes {
            lane.consumer.look();
            taken += lane.consumer.waiting_bytes();
        }
        let merged = self.merge(now, everything).and_then(|()| self.tell_of_refused());
        for lane in &self.lanes {
            taken -= lane.consumer.waiting_bytes();
        }
        (taken, merged)
    }

    /// Makes lanes of the rings that are new.
    fn learn_of_rings(&mut self) {
        // ORDERING: Acquire, pairs with the Release in `Shared::claim`.
        let changes = self.shared.changes.load(Acquire);
        if changes == self.changes {
            return;
        }
        self.changes = changes;
        let claims = lock(&self.shared.claims);
        for ring in claims.all.iter().skip(self.lanes.len()) {
            let is_common = self.lanes.is_empty();
            let last_tseq = if is_common { SHARED_TSEQ } else { 0 };
            self.lanes.push(Lane {
                consumer: Consumer::new(Arc::clone(ring)),
                numbers: Numbers { is_common, tid: 0, last_tseq },
                is_released: false,
            });
        }
    }

    /// Appends what the last look has found, in the order of the stamps: up to `now`, or everything.
    fn merge(&mut self, now: u64, everything: bool) -> Result<()> {
        // A stamp a second ahead is no reason to wait: the clock has been set, or a machine was moved.
        let far = now.saturating_add(self.sink.calibration.ticks_per_second());
        let may_take = |stamp: u64| everything || stamp <= now || stamp > far;
        let mut heads: Vec<(u64, usize)> = Vec::with_capacity(self.lanes.len());
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            heads.extend(lane.consumer.next_stamp().filter(|&stamp| may_take(stamp)).map(|stamp| (stamp, at)));
        }
        while let Some(first) = heads.iter().enumerate().min_by_key(|(_, head)| **head).map(|(first, _)| first) {
            let (_, at) = heads.swap_remove(first);
            // This one's entries come first up to there.
            let others = heads.iter().map(|(stamp, _)| *stamp).min();
            loop {
                self.take_one(at)?;
                if self.sink.writer.pending_bytes() >= self.sink.writer.options.batch_bytes {
                    self.flush_and_release()?;
                }
                match self.lanes[at].consumer.next_stamp().filter(|&stamp| may_take(stamp)) {
                    Some(stamp) if others.is_none_or(|others| stamp <= others) => {}
                    Some(stamp) => {
                        heads.push((stamp, at));
                        break;
                    }
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Appends the next entry of a lane.
    #[inline]
    fn take_one(&mut self, at: usize) -> Result<()> {
        let segment = self.sink.writer.active_index();
        let Lane { consumer, numbers, .. } = &mut self.lanes[at];
        let before = consumer.taken();
        let sink = &mut self.sink;
        let result = consumer.take(|head, body, ring| sink.append(numbers, head, body, ring));
        if self.sink.writer.active_index() != segment {
            // A roll has written all that was taken before.
            for (other, lane) in self.lanes.iter_mut().enumerate() {
                let upto = if other == at { before } else { lane.consumer.taken() };
                lane.consumer.release_upto(upto);
            }
        }
        result.unwrap_or(Ok(()))
    }

    /// Has the log tell of refused calls behind the last entries of their rings, and of those without a number.
    fn tell_of_refused(&mut self) -> Result<()> {
        for lane in &mut self.lanes {
            let (owner, tseq) = lane.consumer.refused();
            if tseq == 0 || !lane.consumer.is_drained() {
                continue;
            }
            if owner != lane.numbers.tid && !lane.numbers.is_common {
                self.sink.begin_thread(&mut lane.numbers, owner);
            }
            if tseq > lane.numbers.last_tseq {
                let level = lane.consumer.ring().take_refused_level();
                self.sink.mark_refused(&mut lane.numbers, owner, tseq, level)?;
            }
        }
        let count = self.shared.counters.unnumbered.swap(0, Relaxed);
        if count > 0 {
            let time_ns = clock::now_ns();
            let marker = DropMarker { count, time_ns, tseq: 0, tid: 0, reason: DropReason::RingFull, level: 0 };
            if let Err(error) = self.sink.writer.drop_entries(&marker) {
                self.shared.counters.unnumbered.fetch_add(count, Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes what was taken; it is then no longer needed in the rings.
    fn flush_and_release(&mut self) -> Result<()> {
        let flushed = self.sink.writer.flush().map(|_| ());
        self.rounds.release(&mut self.lanes, flushed.is_ok());
        flushed
    }

    /// Takes back the rings whose threads have ended, once all of them is written.
    fn take_back_rings(&mut self) {
        for lane in &mut self.lanes {
            let (_, refused_tseq) = lane.consumer.refused();
            if lane.is_released && lane.consumer.is_drained() && refused_tseq <= lane.numbers.last_tseq {
                self.sink.writer.forget_thread(lane.numbers.tid);
                lane.is_released = false;
                lock(&self.shared.claims).take_back(lane.consumer.ring());
                // ORDERING: Relaxed; who sees it late shares the common ring once more.
                self.shared.may_claim.store(true, Relaxed);
            }
        }
    }

    /// Takes note of what became of a pass, for calls that find their ring full, and for figures.
    fn take_note(&mut self, result: &Result<()>) {
        let trouble = result.as_ref().err().map_or(Refused::Full, Refused::of);
        self.shared.trouble.store(trouble as u8, Relaxed);
        self.shared.tell(result);
        let stats = self.sink.writer.stats();
        if result.is_err() {
            // Told now, not once more by the next tick.
            self.troubles = stats.troubles();
        }
        lock(&self.shared.noted).renew(stats, &mut self.rounds, &self.lanes, self.damaged_bytes);
    }

    /// Answers a request, behind a pass that took everything. Returns whether the log is closed now.
    fn answer(&mut self, request: Request, passed: &Result<()>) -> bool {
        let (answer, result) = match request {
            Request::Flush(answer) => (answer, passed.clone()),
            Request::Sync(answer) => match passed {
                Ok(()) => {
                    self.sync_waiters.push((self.sink.writer.flushed_seq(), answer));
                    return false;
                }
                Err(error) => (answer, Err(error.clone())),
            },
            Request::Entry(entry, answer) => (answer, self.append_long(&entry, passed)),
            Request::Close(answer) => {
                let result = self.close();
                let is_closed = result.is_ok();
                // Who asked may have gone, here and below.
                let _ = answer.send(result);
                return is_closed;
            }
        };
        let _ = answer.send(result);
        false
    }

    /// Appends an entry behind all that its thread has logged before, which was taken by the pass before this, if that has not
    /// failed. Where it fails, the numbers of one of the common ring are used up, so that the log tells of it.
    fn append_long(&mut self, entry: &LongEntry, passed: &Result<()>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        if let Some(tseq) = entry.tseq {
            passed.clone()?;
            return self.append_numbered(entry, tseq, false);
        }
        // It gets its number here, with nobody let in: whatever has a lower one is taken before it, so that none seems to be
        // missing.
        let mut common = lock(&shared.common);
        let parts = shared.parts(entry.body.len());
        let tseq = common.take_tseqs(parts);
        let result = passed.clone().and_then(|()| self.take(true).1);
        let result = result.and_then(|()| self.append_numbered(entry, tseq, true));
        if result.is_err() {
            common.refuse(0, entry.site.level as u8);
        }
        result
    }

    fn append_numbered(&mut self, entry: &LongEntry, tseq: u64, is_common: bool) -> Result<()> {
        let &LongEntry { stamp, tid, site, .. } = entry;
        let found = self
            .lanes
            .iter_mut()
            .find(|lane| lane.numbers.is_common == is_common && (is_common || lane.consumer.ring().tid() == tid));
        let head = RecordHead { stamp, tseq, tid, site: site.number() };
        let Some(lane) = found else {
            return Err(Error::new(ErrorKind::Closed, "the thread has given up its ring").at(&self.shared.path));
        };
        let Lane { consumer, numbers, .. } = lane;
        self.sink.append(numbers, &head, &entry.body, consumer.ring())?;
        self.flush_and_release()
    }

    /// Answers those whose entries are on stable storage, and sees to it that the others' get there.
    fn look_after_syncs(&mut self) {
        if self.sync_waiters.is_empty() {
            return;
        }
        let writer = &mut self.sink.writer;
        writer.collect_sync(false);
        let begun = writer.begin_sync();
        let (stats, synced_seq) = (writer.stats(), writer.synced_seq());
        let failed = match begun {
            Ok(()) if stats.sync_failures > self.sync_failures => {
                let text = stats.last_failure.unwrap_or_default();
                Err(Error::new(ErrorKind::Io, text).at(&self.shared.path))
            }
            begun => begun,
        };
        self.sync_failures = stats.sync_failures;
        self.sync_waiters.retain(|(seq, answer)| {
            let result = if *seq <= synced_seq { Ok(()) } else { failed.clone() };
            let is_answered = *seq <= synced_seq || result.is_err();
            if is_answered {
                // Who asked may have gone.
                let _ = answer.send(result);
            }
            !is_answered
        });
        // What has failed is no answer to who asks later.
        let _ = self.sink.writer.begin_sync();
    }

    /// The regular work.
    fn tick(&mut self) {
        self.next_tick = Instant::now() + TICK;
        self.sink.anchor = self.sink.calibration.renew();
        // What it is good for is seen only after a kill, and an older one does, too.
        let _ = lock(&self.shared.claims).set_anchor(&self.sink.anchor);
        self.level_requests.look(&self.shared);
        let result = self.sink.writer.tick(clock::now_ns());
        let stats = self.sink.writer.stats();
        let troubles = stats.troubles();
        let result = match stats.last_failure {
            Some(text) if result.is_ok() && troubles > self.troubles => {
                Err(Error::new(ErrorKind::Io, text).at(&self.shared.path))
            }
            _ => result,
        };
        self.troubles = troubles;
        let damaged_bytes = self.lanes.iter().map(|lane| lane.consumer.damaged_bytes()).sum();
        let result = if damaged_bytes > self.damaged_bytes {
            let text = "somebody else has written into the ring file: entries are lost, and counted as dropped";
            Err(Error::new(ErrorKind::Damaged, text).at(&self.shared.path))
        } else {
            result
        };
        self.damaged_bytes = damaged_bytes;
        self.shared.told_of_work.tell(&result, self.shared.on_error.as_ref());
    }

    /// Sleeps until there may be something to do.
    fn nap(&mut self, taken: u64, has_failed: bool) {
        if taken >= BUSY_BYTES && !has_failed {
            self.idle_passes = 0;
            return;
        }
        self.idle_passes = if taken > 0 { 0 } else { self.idle_passes + 1 };
        let nap = NAPS[self.idle_passes.min(NAPS.len() - 1)];
        let due = self.sink.writer.sync_due().map_or(self.next_tick, |due| due.min(self.next_tick));
        let limit = nap.min(due.saturating_duration_since(Instant::now()).max(NAPS[0]));
        let (shared, lanes) = (&self.shared, &self.lanes);
        shared.bell.sleep(limit, || {
            let half = |lane: &Lane| lane.consumer.ring().fill() > lane.consumer.ring().capacity() / 2;
            // ORDERING: Relaxed, here and in `fill`; ordered by the bell's fence.
            shared.has_requests.load(Relaxed) || (!has_failed && lanes.iter().any(half))
        });
    }
}
