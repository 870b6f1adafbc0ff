//! The log call: from its arguments into the ring of its thread.
//!
//! ```text
//! forked?  which ring?  site defined?  | gate: closed?  half full?  room?  stamp, encode, checksum, publish | synced?
//! ```
//! Each question is one load or two; what is to be done where the answer is unusual stands in functions of its own.
//!
//! A thread's rings are borrowed from its thread-local place for the time of a call. A call that finds them borrowed (a signal
//! handler that logs) or gone (a thread that ends), or whose thread can have no ring, uses the common one, under a lock.

use std::cell::{Cell, RefCell};
use std::sync::TryLockError;
use std::sync::atomic::Ordering::Relaxed;

use crate::bytes::Place;
use crate::capture::KeptList;
use crate::entry::Level;
use crate::logger::Refused;
use crate::ring::mapping::MappedRing;
use crate::ring::{Producer, lock};
use crate::site::Site;
use crate::thread::{give_back_buffer, take_buffer, thread_id};

use super::{LongEntry, Request, SHARED_LOOK_EVERY, Shared, Step};

thread_local! {
    /// The rings of this thread, borrowed for as long as a call is at work with them.
    static RINGS: RefCell<Vec<OwnRing>> = const { RefCell::new(Vec::new()) };
    /// A call is at work of a thread that has ended so far that its rings are gone.
    static IS_ENDING_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// The ring of this thread in one log.
struct OwnRing {
    /// Which log's.
    key: u64,
    producer: Producer<MappedRing>,
    /// The sites that the ring file defines, as far as this thread knows: a bit each, by number.
    known: Vec<u64>,
}

impl OwnRing {
    #[inline]
    fn knows(&self, number: u32) -> bool {
        let word = self.known.get(number as usize / 64).copied().unwrap_or(0);
        word >> (number % 64) & 1 == 1
    }

    #[cold]
    fn learn(&mut self, number: u32) {
        let at = number as usize / 64;
        if self.known.len() <= at {
            self.known.resize(at + 1, 0);
        }
        self.known[at] |= 1 << (number % 64);
    }
}

impl Drop for OwnRing {
    fn drop(&mut self) {
        self.producer.ring().release();
    }
}

type Outcome = std::result::Result<(), Refused>;

impl Shared {
    #[inline]
    pub(super) fn append<L: KeptList>(&self, site: &'static Site, kept: &L) -> Outcome {
        if L::ARE_STORED {
            let encode = |out: &mut [u8]| {
                let mut place = Place::new(out);
                kept.encode_all_stored(&mut place);
                place.is_filled()
            };
            match self.push(site, kept.encoded_len_of_all(), encode) {
                Some(outcome) => outcome,
                None => self.append_by_buffer(site, kept),
            }
        } else {
            self.append_by_buffer(site, kept)
        }
    }

    /// Encodes first: a Display may log, panic, or write more than fits, and no ring is touched meanwhile.
    fn append_by_buffer<L: KeptList>(&self, site: &'static Site, kept: &L) -> Outcome {
        let mut body = take_buffer();
        kept.encode_all(&mut body);
        let outcome = self.append_encoded(site, &body);
        give_back_buffer(body);
        outcome
    }

    pub(super) fn append_encoded(&self, site: &'static Site, body: &[u8]) -> Outcome {
        let copy = |out: &mut [u8]| {
            out.copy_from_slice(body);
            true
        };
        match self.push(site, body.len(), copy) {
            Some(outcome) => outcome,
            None => self.append_long(site, body),
        }
    }

    /// Puts an entry into a ring. `None` if it is too long for that, or the ring file has no room for the site's definition, or
    /// `encode` gave up; then nothing was done.
    #[inline]
    fn push(&self, site: &'static Site, body_len: usize, encode: impl Fn(&mut [u8]) -> bool) -> Option<Outcome> {
        if self.fork.is_forked() {
            return Some(Err(Refused::Closed));
        }
        let outcome = self.at_work(|own| match own {
            Some(own) => self.push_own(own, site, body_len, &encode),
            None => self.push_common(site, body_len, &encode),
        });
        match outcome {
            Some(outcome) => Some(self.synced(site, outcome?)),
            None => Some(self.push_in_handler(site, body_len, &encode)),
        }
    }

    /// Waits for the sync of an entry that was accepted, if its level is one of those whose calls do.
    #[inline]
    fn synced(&self, site: &Site, outcome: Outcome) -> Outcome {
        if site.level as u8 >= self.floors.sync_at.least && outcome.is_ok() {
            return self.synced_if_asked(site);
        }
        outcome
    }

    #[cold]
    fn synced_if_asked(&self, site: &Site) -> Outcome {
        if self.floors.sync_at.admits_site(site) { self.ask_and_wait(Request::Sync) } else { Ok(()) }
    }

    #[inline]
    fn push_own(
        &self,
        own: &mut OwnRing,
        site: &'static Site,
        body_len: usize,
        encode: impl Fn(&mut [u8]) -> bool,
    ) -> Option<Outcome> {
        if !own.knows(site.number()) && !self.define(own, site) {
            return None;
        }
        let producer = &mut own.producer;
        if body_len > producer.ring().body_bytes_max() {
            return None;
        }
        if !producer.ring().gate.enter(&self.closed) {
            return Some(Err(Refused::Closed));
        }
        let parts = self.parts(body_len);
        if producer.seems_half_full()
            && let Err(refused) = self.press_on(producer, site)
        {
            self.refuse(producer, parts, site.level, refused);
            producer.ring().gate.leave();
            return Some(Err(refused));
        }
        if !producer.has_room(body_len)
            && let Err(refused) = self.wait_for_room(producer, body_len)
        {
            if refused != Refused::Closed {
                self.refuse(producer, parts, site.level, refused);
            }
            producer.ring().gate.leave();
            return Some(Err(refused));
        }
        let is_pushed = producer.push(site.number(), body_len, parts, || self.clock.now(), encode);
        producer.ring().gate.leave();
        is_pushed.then_some(Ok(()))
    }

    /// Where more than half of the ring waits: wakes the backend, and refuses a call that is to give way then.
    #[cold]
    fn press_on(&self, producer: &mut Producer<MappedRing>, site: &Site) -> Outcome {
        if !producer.is_half_full() {
            return Ok(());
        }
        self.bell.wake();
        if self.floors.kept.admits_all() {
            producer.look_later();
            return Ok(());
        }
        if self.floors.kept.admits_site(site) { Ok(()) } else { Err(self.refusal()) }
    }

    #[cold]
    fn refuse(&self, producer: &mut Producer<MappedRing>, parts: u64, level: Level, why: Refused) {
        producer.refuse(parts, level as u8);
        self.counters.refused.count(why);
    }

    /// Sees to it that the ring file defines the site. Returns whether it does.
    #[cold]
    fn define(&self, own: &mut OwnRing, site: &'static Site) -> bool {
        let is_defined = self.define_in_file(site);
        if is_defined {
            own.learn(site.number());
        }
        is_defined
    }

    fn define_in_file(&self, site: &'static Site) -> bool {
        if site.number() == 0 {
            crate::global::register(site);
        }
        lock(&self.claims).define(site).is_ok()
    }

    /// Has `work` log, with this thread's ring if it has one that could be used now. `None` in a signal handler that has come
    /// upon a call of its own thread.
    #[inline]
    fn at_work<R>(&self, work: impl FnOnce(Option<&mut OwnRing>) -> R) -> Option<R> {
        let mut work = Some(work);
        let done = RINGS.try_with(|rings| {
            let mut list = rings.try_borrow_mut().ok()?;
            let own = match list.iter().position(|own| own.key == self.key) {
                Some(at) => Some(&mut list[at]),
                None => self.claim(&mut list),
            };
            work.take().map(|work| work(own))
        });
        match (done, work) {
            // The thread ends: its rings are gone.
            (Err(_), Some(work)) => IS_ENDING_AT_WORK.with(|is_at_work| {
                let result = (!is_at_work.replace(true)).then(|| work(None));
                if result.is_some() {
                    is_at_work.set(false);
                }
                result
            }),
            (done, _) => done.ok().flatten(),
        }
    }

    #[cold]
    fn claim<'a>(&self, list: &'a mut Vec<OwnRing>) -> Option<&'a mut OwnRing> {
        // ORDERING: Relaxed; who looks too early shares the common ring once more.
        if !self.may_claim.load(Relaxed) || self.closed.load(Relaxed) {
            return None;
        }
        let mut claims = lock(&self.claims);
        let producer = claims.claim(thread_id());
        self.may_claim.store(claims.has_free(), Relaxed);
        drop(claims);
        // ORDERING: Release, pairs with the Acquire in the backend, which then finds the ring in the claims.
        self.changes.fetch_add(1, std::sync::atomic::Ordering::Release);
        // Rings of logs that are closed are of no use any more; they are unmapped when the last one lets go.
        list.retain(|own| !own.producer.ring().is_abandoned());
        list.push(OwnRing { key: self.key, producer: producer?, known: Vec::new() });
        list.last_mut()
    }

    /// The way of those that have no ring of their own.
    #[cold]
    fn push_common(&self, site: &'static Site, body_len: usize, encode: impl Fn(&mut [u8]) -> bool) -> Option<Outcome> {
        self.name_sharer();
        if !self.define_in_file(site) {
            return None;
        }
        let parts = self.parts(body_len);
        let try_push = || {
            let mut common = lock(&self.common);
            if body_len > common.ring().body_bytes_max() {
                return Some(None);
            }
            if self.closed.load(Relaxed) {
                return Some(Some(Err(Refused::Closed)));
            }
            common.set_tid(thread_id());
            if let Err(refused) = self.press_on(&mut common, site) {
                self.refuse(&mut common, parts, site.level, refused);
                return Some(Some(Err(refused)));
            }
            common.has_room(body_len).then(|| {
                let is_pushed = common.push(site.number(), body_len, parts, || self.clock.now(), &encode);
                is_pushed.then_some(Ok(()))
            })
        };
        let mut outcome = try_push();
        if outcome.is_none() {
            let waited = self.wait_until(|step| {
                match step {
                    Step::Yield => std::thread::yield_now(),
                    Step::Sleep(limit) => std::thread::sleep(limit.min(SHARED_LOOK_EVERY)),
                }
                outcome = try_push();
                outcome.is_some()
            });
            if let Err(refused) = waited {
                if refused != Refused::Closed {
                    self.refuse(&mut lock(&self.common), parts, site.level, refused);
                }
                return Some(Err(refused));
            }
        }
        outcome.unwrap_or(Some(Err(Refused::Full)))
    }

    /// Sees to it that the name of this thread is known where it has no ring that tells it. Of one that ends it may be too late
    /// to ask.
    fn name_sharer(&self) {
        if RINGS.try_with(|_| ()).is_ok() {
            lock(&self.claims).name_sharer(thread_id());
        }
    }

    /// In a signal handler that has come upon a call of its own thread: nothing may be waited for.
    #[cold]
    fn push_in_handler(&self, site: &'static Site, body_len: usize, encode: impl Fn(&mut [u8]) -> bool) -> Outcome {
        let is_defined = match self.claims.try_lock() {
            Ok(claims) => claims.is_defined(site),
            Err(_) => false,
        };
        let mut common = match self.common.try_lock() {
            Ok(common) => Some(common),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(common) = &mut common
            && is_defined
            && !self.closed.load(Relaxed)
            && body_len <= common.ring().body_bytes_max()
            && common.has_room(body_len)
        {
            common.set_tid(thread_id());
            if common.push(site.number(), body_len, self.parts(body_len), || self.clock.now(), encode) {
                return Ok(());
            }
        }
        self.refuse_in_handler()
    }

    fn refuse_in_handler(&self) -> Outcome {
        self.counters.unnumbered.fetch_add(1, Relaxed);
        self.counters.refused.count(Refused::Full);
        Err(Refused::Full)
    }

    /// An entry that no ring could hold, or whose site the ring file can't define: it is in the segment when this returns, and
    /// the definition before it.
    #[cold]
    fn append_long(&self, site: &'static Site, body: &[u8]) -> Outcome {
        match self.at_work(|own| self.append_long_by(own, site, body)) {
            Some(outcome) => self.synced(site, outcome),
            None => self.refuse_in_handler(),
        }
    }

    fn append_long_by(&self, own: Option<&mut OwnRing>, site: &'static Site, body: &[u8]) -> Outcome {
        let parts = self.parts(body.len());
        let mut own = own.map(|own| &mut own.producer);
        let tseq = own.as_mut().map(|own| own.take_tseqs(parts));
        if tseq.is_none() {
            self.name_sharer();
        }
        let entry = LongEntry { site, stamp: self.clock.now(), tid: thread_id(), tseq, body: body.to_vec() };
        lock(&self.claims).know(site);
        let outcome = self.ask_and_wait(|answer| Request::Entry(entry, answer));
        if let Err(refused) = outcome {
            match own {
                // Its numbers are used up.
                Some(own) => self.refuse(own, 0, site.level, refused),
                // The backend asks nobody.
                None if self.is_backend() => self.refuse(&mut lock(&self.common), parts, site.level, refused),
                // The backend has seen to its numbers.
                None => self.counters.refused.count(refused),
            }
        }
        outcome
    }
}
