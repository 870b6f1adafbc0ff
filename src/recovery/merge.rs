//! The rings of a dead run as one stream: what no segment has yet, in the order of its time stamps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use crate::control::{DropMarker, DropReason, LossClass};
use crate::entry::EntryHead;
use crate::error::{Error, Result};
use crate::finding::Loss;
use crate::format::{ENTRY_BODY_BYTES_MAX, FLAG_CONTINUED, FLAG_MORE, VOID_SEQS};
use crate::recovery::append::Append;
use crate::recovery::file::{DeadFile, Stretch};
use crate::recovery::known::Known;
use crate::ring::file::SectionKind;
use crate::ring::record::{RecordHead, SHARED_TSEQ};

/// Least bytes of a part, whatever the file says: else a long entry could be made very many.
const PART_BYTES_MIN: u64 = 64;

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum New {
    /// The entry that a ring stands at, whose last known tseq is given where it is known.
    Entry { ring: usize, head: RecordHead, known: Option<u64> },
    /// Calls refused behind the last entry of a ring, from this tseq on.
    Refused { ring: usize, tid: u32, first: u64, count: u64 },
}

fn unread(error: io::Error) -> Error {
    Error::io("cannot read the rings", error)
}

/// All rings of a file, merged.
#[derive(Debug)]
pub(super) struct Merge<'a> {
    file: DeadFile,
    known: Known<'a>,
    class: LossClass,
    /// Rings that stand at an entry, by its stamp and by their number.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    stands_at: Vec<Option<RecordHead>>,
    /// Of each ring, the thread of the last entry, and how much damage stands before that.
    passed: Vec<(Option<u32>, usize)>,
    /// Rings whose refused calls have been looked at.
    ended: usize,
    new: Option<New>,
    /// When the last entry was logged.
    time_ns: i64,
    part_bytes: usize,
}

impl<'a> Merge<'a> {
    pub(super) fn new(file: DeadFile, known: Known<'a>, class: LossClass) -> io::Result<Merge<'a>> {
        let count = file.rings.len();
        let part_bytes = file.header.part_bytes.clamp(PART_BYTES_MIN, ENTRY_BODY_BYTES_MAX as u64) as usize;
        let time_ns = known.newest_ns.unwrap_or(0);
        let (heads, stands_at) = (BinaryHeap::with_capacity(count), vec![None; count]);
        let passed = file.rings.iter().map(|ring| (None, ring.damage.len())).collect();
        let mut merge =
            Merge { file, known, class, heads, stands_at, passed, ended: 0, new: None, time_ns, part_bytes };
        (0..count).try_for_each(|ring| merge.advance(ring))?;
        Ok(merge)
    }

    /// What the segments hold, with what has been appended since.
    pub(super) fn known(&self) -> &Known<'a> {
        &self.known
    }

    /// What is damaged, as far as has been looked.
    pub(super) fn damage(&self) -> Vec<Stretch> {
        self.file.all_damage()
    }

    /// Goes through all of it, to see what is damaged.
    pub(super) fn look_through(&mut self) -> io::Result<()> {
        while let Some(Reverse((_, ring))) = self.heads.pop() {
            self.file.rings[ring].pass();
            self.advance(ring)?;
        }
        Ok(())
    }

    fn advance(&mut self, ring: usize) -> io::Result<()> {
        self.stands_at[ring] = self.file.rings[ring].peek()?;
        if let Some(head) = self.stands_at[ring] {
            self.heads.push(Reverse((head.stamp, ring)));
        }
        Ok(())
    }

    /// Goes on to what no segment has; returns when it was logged, or `None` at the end.
    pub(super) fn next_new(&mut self) -> Result<Option<i64>> {
        while let Some(Reverse((_, ring))) = self.heads.pop() {
            let Some(head) = self.stands_at[ring] else { continue };
            let known = match self.may_follow_refused(ring, &head) {
                true => self.known.last_of_all(head.tid, head.tseq)?,
                false => self.known.last(head.tid, head.tseq),
            };
            let last = self.last_tseq(ring, &head);
            if known.is_none_or(|known| last > known) {
                // Where no anchor tells the time, the last one known stands for it.
                self.time_ns = self.file.anchor.map_or(self.time_ns, |anchor| anchor.time_ns(head.stamp));
                self.new = Some(New::Entry { ring, head, known });
                return Ok(Some(self.time_ns));
            }
            self.settle_damage(ring, &head, Loss::Nothing);
            self.file.rings[ring].pass();
            self.advance(ring).map_err(unread)?;
        }
        while self.ended < self.file.rings.len() {
            let ring = self.ended;
            self.ended += 1;
            if let Some((tid, first, count)) = self.refused_at_end(ring)? {
                self.new = Some(New::Refused { ring, tid, first, count });
                return Ok(Some(self.time_ns));
            }
        }
        Ok(None)
    }

    /// The last tseq of the entry that a ring stands at: it may have several parts.
    fn last_tseq(&self, ring: usize, head: &RecordHead) -> u64 {
        let parts = self.file.rings[ring].body_len().div_ceil(self.part_bytes).max(1);
        head.tseq.saturating_add(parts as u64 - 1)
    }

    /// Whether the call right before the entry that a ring stands at may have been refused. If it was not, it is in a segment,
    /// behind the marker of all that were before.
    fn may_follow_refused(&self, ring: usize, head: &RecordHead) -> bool {
        let (refused, own) = (self.file.rings[ring].refused_tseq & !SHARED_TSEQ, head.tseq & !SHARED_TSEQ);
        own > 1 && refused >= own - 1
    }

    /// Calls that were refused after the last entry of a ring. Of one that is damaged nothing tells whether they were.
    fn refused_at_end(&mut self, number: usize) -> Result<Option<(u32, u64, u64)>> {
        let ring = &self.file.rings[number];
        let (tid, shared) = match (ring.kind, &ring.owner) {
            (SectionKind::SharedRing, _) => (0, SHARED_TSEQ),
            (_, Some((tid, _))) => (*tid, 0),
            (_, None) => return Ok(None),
        };
        let refused = ring.refused_tseq | shared;
        if ring.refused_tseq == 0 || !ring.damage.is_empty() {
            return Ok(None);
        }
        let last = self.known.last_of_all(tid, refused)?.unwrap_or(refused);
        let count = refused.saturating_sub(last);
        // A last one of a hostile file has none behind it.
        Ok((1..=VOID_SEQS).contains(&count).then(|| (tid, last + 1, count)))
    }

    /// Appends what [`next_new`](Merge::next_new) went to.
    pub(super) fn append_to(&mut self, append: &mut Append<'_>) -> Result<()> {
        match self.new.take() {
            Some(New::Entry { ring, head, known }) => self.append_entry(append, ring, head, known),
            Some(New::Refused { ring, tid, first, count }) => {
                let level = self.file.rings[ring].refused_level;
                self.append_refused(append, tid, first, count, level)
            }
            None => Ok(()),
        }
    }

    fn append_refused(&mut self, append: &mut Append<'_>, tid: u32, first: u64, count: u64, level: u8) -> Result<()> {
        self.name_thread(append, tid);
        let reason = DropReason::RingFull;
        append.dropped(&DropMarker { count, time_ns: self.time_ns, tseq: first, tid, reason, level })?;
        self.known.raise(tid, first + (count - 1));
        Ok(())
    }

    fn append_entry(
        &mut self,
        append: &mut Append<'_>,
        ring: usize,
        head: RecordHead,
        known: Option<u64>,
    ) -> Result<()> {
        let stood_in = &mut self.file.rings[ring];
        let (level, is_harmed) = (stood_in.refused_level, !stood_in.damage.is_empty());
        let body = stood_in.take_body().map_err(unread)?;
        let jump = known.map_or(0, |known| head.tseq.saturating_sub(known.saturating_add(1)));
        let mut cost = Loss::Nothing;
        // No thread has refused so many calls: a claim that makes no sense is passed over.
        let known_jump = known.filter(|_| (1..=VOID_SEQS).contains(&jump));
        if known_jump.is_some() && is_harmed {
            // Refused or lost: nothing tells.
            cost = Loss::Seqs(append.lost(jump, self.class)?);
        } else if let Some(known) = known_jump {
            // Nobody knows whose calls the shared ring has refused.
            let tid = if head.tseq & SHARED_TSEQ != 0 { 0 } else { head.tid };
            self.append_refused(append, tid, known + 1, jump, level)?;
        }
        self.settle_damage(ring, &head, cost);
        self.name_thread(append, head.tid);
        append.define(head.site, self.file.definitions.get(&head.site));
        let count = body.len().div_ceil(self.part_bytes).max(1);
        for number in 0..count {
            let tseq = head.tseq.saturating_add(number as u64);
            if known.is_some_and(|known| tseq <= known) {
                continue;
            }
            let from = number * self.part_bytes;
            let part = &body[from..body.len().min(from + self.part_bytes)];
            let more = if number + 1 < count { FLAG_MORE } else { 0 };
            let continued = if number > 0 { FLAG_CONTINUED } else { 0 };
            let entry = EntryHead { time_ns: self.time_ns, tseq, tid: head.tid, site: head.site };
            append.entry(&entry, more | continued, part)?;
            self.known.raise(head.tid, tseq);
        }
        self.advance(ring).map_err(unread)
    }

    /// A ring stands at an entry: what damage right before that has cost is known if the entry before the damage is of the
    /// same thread, or of the ring that all share. Then all between was.
    fn settle_damage(&mut self, ring: usize, head: &RecordHead, cost: Loss) {
        let damage = &mut self.file.rings[ring].damage;
        let (tid_before, seen) = std::mem::replace(&mut self.passed[ring], (Some(head.tid), damage.len()));
        let is_known = tid_before == Some(head.tid) || (tid_before.is_some() && head.tseq & SHARED_TSEQ != 0);
        for (stretch, is_last) in
            damage[seen..].iter_mut().rev().zip(std::iter::once(true).chain(std::iter::repeat(false)))
        {
            stretch.cost = is_known.then_some(if is_last { cost } else { Loss::Nothing });
        }
    }

    fn name_thread(&self, append: &mut Append<'_>, tid: u32) {
        if tid == 0 || append.knows_thread(tid) {
            return;
        }
        let owners = self.file.rings.iter().filter_map(|ring| ring.owner.as_ref());
        let own =
            owners.filter(|(owner, _)| *owner == tid).map(|(_, name)| name.as_str()).find(|name| !name.is_empty());
        let own = own.or(self.file.names.get(&tid).map(String::as_str));
        append.name_thread(tid, own.or(self.known.name(tid)));
    }
}
