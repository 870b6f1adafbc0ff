//! Where the backend's entries go: numbered, with the ids of the writer, behind markers of those that were refused.

use std::sync::Arc;

use crate::clock;
use crate::control::{DropMarker, DropReason};
use crate::entry::EntryHead;
use crate::error::Result;
use crate::ring::file::Anchor;
use crate::ring::lock;
use crate::ring::record::RecordHead;
use crate::ring::stamp::Calibration;
use crate::writer::Writer;

use super::{LiveRing, Shared};

/// How far the numbers of a ring's entries were accounted for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// Of the ring that threads share.
    pub(super) is_common: bool,
    /// The thread, of the last entry where several share the ring; 0 for none yet.
    pub(super) tid: u32,
    /// The last tseq that is in the log, as an entry or as one that was refused.
    pub(super) last_tseq: u64,
}

impl Numbers {
    /// Takes note whose numbers come next.
    pub(super) fn set_tid(&mut self, tid: u32) {
        if self.tid != tid {
            self.tid = tid;
            self.last_tseq = if self.is_common { self.last_tseq } else { 0 };
        }
    }
}

/// Where entries go.
pub(super) struct Sink {
    shared: Arc<Shared>,
    pub(super) writer: Writer,
    pub(super) calibration: Calibration,
    pub(super) anchor: Anchor,
    /// What the writer calls each site, by the site's number; 0 if it does not know it yet.
    ids: Vec<u32>,
}

impl Sink {
    pub(super) fn new(shared: Arc<Shared>, writer: Writer, calibration: Calibration) -> Sink {
        let anchor = *calibration.anchor();
        Sink { shared, writer, calibration, anchor, ids: Vec::new() }
    }

    /// Appends an entry, behind a marker of those before it that were refused. After an error it was not taken.
    #[inline]
    pub(super) fn append(
        &mut self,
        numbers: &mut Numbers,
        head: &RecordHead,
        body: &[u8],
        ring: &LiveRing,
    ) -> Result<()> {
        if numbers.tid != head.tid {
            self.begin_thread(numbers, head.tid);
        }
        if head.tseq > numbers.last_tseq + 1 {
            // Of the threads that share a ring nobody knows whose calls they were.
            let tid = if numbers.is_common { 0 } else { head.tid };
            self.mark_refused(numbers, tid, head.tseq - 1, ring.take_refused_level())?;
        }
        let time_ns = self.anchor.time_ns(head.stamp);
        let known = self.ids.get(head.site as usize).copied().unwrap_or(0);
        let site = if known == 0 { self.learn(head.site) } else { known };
        let entry = EntryHead { time_ns, tseq: head.tseq, tid: head.tid, site };
        self.writer.entry_encoded(&entry, 0, body)?;
        numbers.last_tseq = head.tseq + self.shared.parts(body.len()) - 1;
        Ok(())
    }

    #[cold]
    pub(super) fn begin_thread(&mut self, numbers: &mut Numbers, tid: u32) {
        numbers.set_tid(tid);
        let mut claims = lock(&self.shared.claims);
        claims.names.take_forgotten().into_iter().for_each(|tid| self.writer.forget_thread(tid));
        if let Some(name) = claims.names.get(tid) {
            self.writer.name_thread(tid, name);
        }
    }

    #[cold]
    fn learn(&mut self, number: u32) -> u32 {
        let Some(site) = lock(&self.shared.claims).site(number) else { return 0 };
        let id = self.writer.define(&site.definition());
        let at = number as usize;
        if self.ids.len() <= at {
            self.ids.resize(at + 1, 0);
        }
        self.ids[at] = id;
        id
    }

    /// Has the log tell of the calls up to the tseq `last` that were refused.
    #[cold]
    pub(super) fn mark_refused(&mut self, numbers: &mut Numbers, tid: u32, last: u64, level: u8) -> Result<()> {
        let marker = DropMarker {
            count: last - numbers.last_tseq,
            time_ns: clock::now_ns(),
            tseq: numbers.last_tseq + 1,
            tid,
            reason: DropReason::RingFull,
            level,
        };
        self.writer.drop_entries(&marker)?;
        numbers.last_tseq = last;
        Ok(())
    }
}
