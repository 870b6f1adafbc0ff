//! A dead log with its rings: what these hold is read as the segments that a recovery would make of it.

use std::sync::Arc;

use crate::error::Result;
use crate::finding::{Fault, Finding, Loss};
use crate::overlay::OverlayStorage;
use crate::recovery::{How, RingFate, has_dead_rings, recover};
use crate::snapshot::{LIVE_TRIES, SegmentInfo, Snapshot, UnopenedSegment};
use crate::state::read_state;
use crate::storage::Storage;
use crate::walk::Item;

/// The ring file of a run that has ended, as a snapshot found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingInfo {
    /// File name.
    pub name: String,
    /// The run; 0 where it is not known.
    pub run_id: u64,
    /// Entries that are read from it, or that a recovery that was stopped has taken from it.
    pub entries: u64,
    /// Name of the segment that these are read as, which is not in the directory; `None` where there is none.
    pub segment: Option<String>,
    /// A later run has accounted for all that it held.
    pub is_settled: bool,
    /// What is damaged. Where nothing tells what a stretch has cost, the loss is that of the log's end.
    pub damage: Vec<Finding>,
}

impl RingInfo {
    fn of(fate: RingFate) -> RingInfo {
        let finding =
            |offset: u64, len: u64, loss: Loss| Finding::new(Fault::Ring, loss, fate.class).at(&fate.name, offset, len);
        let unknown = Loss::UnknownAfter(0);
        let damage =
            fate.damage.iter().map(|stretch| finding(stretch.offset, stretch.len, stretch.cost.unwrap_or(unknown)));
        RingInfo {
            damage: damage.collect(),
            name: fate.name,
            run_id: fate.run_id,
            entries: fate.entries,
            segment: fate.segment,
            is_settled: fate.is_settled,
        }
    }
}

impl Snapshot {
    /// Takes a snapshot of the log in `storage`. What the rings of killed runs hold, and a writer that is just opening the log
    /// has not recovered yet, is read too.
    ///
    /// # Errors
    /// `NotALog` where there are neither segments nor `writer.lock`; `Io` where the directory can't be read.
    pub fn take(storage: Arc<dyn Storage>) -> Result<Snapshot> {
        for _ in 0..LIVE_TRIES {
            // Those that a writer recovers meanwhile may be gone before the segment that it makes of them is seen.
            let has_dead = has_dead_rings(&*storage).unwrap_or(false);
            let snapshot = Snapshot::take_as(Arc::clone(&storage), false)?;
            if !has_dead && (snapshot.is_live() || !snapshot.has_ring_files) {
                return Ok(snapshot);
            }
            if let Some(with_rings) = snapshot.with_rings(false)? {
                return Ok(with_rings);
            }
        }
        // A writer comes and goes faster than it can be looked at.
        Snapshot::take_as(storage, false)
    }

    /// As [`take`](Snapshot::take), by who holds the log's lock.
    pub(crate) fn take_locked_with_rings(storage: Arc<dyn Storage>) -> Result<Snapshot> {
        let snapshot = Snapshot::take_locked(storage)?;
        match snapshot.has_ring_files {
            true => Ok(snapshot.with_rings(true)?.unwrap_or(snapshot)),
            false => Ok(snapshot),
        }
    }

    /// The same log with what its rings hold; `None` if a writer has come meanwhile.
    fn with_rings(&self, is_ours: bool) -> Result<Option<Snapshot>> {
        let base = self.storage();
        let changed = |error| crate::Error::io("cannot read the log", error).at(base.path());
        let state = read_state(&**base).map_err(changed)?;
        let names = || -> Result<Vec<String>> {
            let mut names = base.names().map_err(changed)?;
            names.sort();
            Ok(names)
        };
        let names_before = names()?;
        let overlay = Arc::new(OverlayStorage::new(Arc::clone(base)));
        let shared: Arc<dyn Storage> = overlay.clone();
        let recovered = match recover(&shared, None, How::read(self.is_live())) {
            Ok(recovered) => recovered,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => {
                // What the rings hold is neither there nor lost; the segments can be read all the same.
                let mut without = self.clone();
                without.unopened.push(UnopenedSegment { name: "*.ring".to_owned(), index: u64::MAX - 1, error });
                return Ok(Some(without));
            }
        };
        // What was recovered follows from one state of the log; what comes behind it may have come since.
        if names()? != names_before {
            return Ok(None);
        }
        let mut snapshot = Snapshot::take_as(Arc::new(overlay.over_all()), is_ours)?;
        let is_same = snapshot.writer_pid == self.writer_pid
            && (self.is_live() || read_state(&**base).map_err(changed)? == state);
        snapshot.rings = recovered.rings.into_iter().map(RingInfo::of).collect();
        Ok(is_same.then_some(snapshot))
    }

    /// Reads rings as `taken`, a later snapshot of the same log, does.
    pub(crate) fn adopt_rings(&mut self, taken: &Snapshot) {
        self.storage = Arc::clone(&taken.storage);
        self.rings.clone_from(&taken.rings);
    }

    /// Whether the ring file of the run that `info` is of should be there and is not.
    pub(crate) fn lacks_rings_of(&self, info: &SegmentInfo) -> bool {
        info.has_rings() && self.rings.iter().all(|ring| ring.run_id != info.header.run_id)
    }

    /// What is damaged in rings whose entries end with number `last_seq`.
    pub(crate) fn ring_damage(&self, last_seq: u64) -> impl Iterator<Item = Item<'static>> {
        let rings = self.rings.iter().filter(|ring| !ring.is_settled);
        rings.flat_map(|ring| &ring.damage).map(move |finding| {
            let mut finding = finding.clone();
            if let Loss::UnknownAfter(seq) = &mut finding.loss {
                *seq = last_seq;
            }
            Item::Finding(finding)
        })
    }

    /// Whether a segment is in memory, as its entries are read from a ring.
    pub(crate) fn is_from_ring(&self, name: &str) -> bool {
        self.rings.iter().any(|ring| ring.segment.as_deref() == Some(name))
    }
}
