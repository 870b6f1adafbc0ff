//! Which thread has which ring, and which call sites the ring file defines. Asked when a thread or a site is new.

use std::io;
use std::sync::Arc;

use crate::format::PAYLOAD_BYTES_MAX;
use crate::options::RingOptions;
use crate::ring::figures_area::Figures;
use crate::ring::file::{Anchor, SectionKind, encode_owner};
use crate::ring::level_area::LevelRecord;
use crate::ring::live::Rings;
use crate::ring::mapping::MappedRing;
use crate::ring::record::SHARED_TSEQ;
use crate::ring::{Producer, Ring};
use crate::site::Site;

use super::LiveRing;
use super::names::Names;

/// All rings of a log, and who has them.
pub(super) struct Claims {
    rings: Rings,
    run_id: u64,
    ring_bytes: usize,
    rings_max: usize,
    /// The common one first.
    pub(super) all: Vec<Arc<LiveRing>>,
    /// Drained, and nobody's.
    free: Vec<Arc<LiveRing>>,
    /// The sites that have logged, by their number, and whether the ring file defines them.
    sites: Vec<Option<(&'static Site, bool)>>,
    /// What threads are called.
    pub(super) names: Names,
}

impl Claims {
    /// No claims yet. Also the producer of the ring that threads without one share.
    pub(super) fn new(
        mut rings: Rings,
        run_id: u64,
        options: &RingOptions,
    ) -> io::Result<(Claims, Producer<MappedRing>)> {
        let memory = match rings.add_ring(SectionKind::SharedRing, options.ring_bytes) {
            Ok(memory) => memory,
            Err(error) => {
                // Nothing is in it.
                let _ = rings.remove();
                return Err(error);
            }
        };
        let common = Arc::new(Ring::new(memory, run_id));
        let producer = Producer::new(Arc::clone(&common), 0, SHARED_TSEQ);
        let claims = Claims {
            rings,
            run_id,
            ring_bytes: options.ring_bytes,
            rings_max: options.rings_max,
            all: vec![common],
            free: Vec::new(),
            sites: Vec::new(),
            names: Names::default(),
        };
        Ok((claims, producer))
    }

    /// Gives the thread a ring of its own; `None` if there is none to be had now.
    pub(super) fn claim(&mut self, tid: u32) -> Option<Producer<MappedRing>> {
        let ring = match self.free.pop() {
            Some(ring) => ring,
            // Without room on the disk the thread shares the common one.
            None if self.all.len() <= self.rings_max => {
                let memory = self.rings.add_ring(SectionKind::Ring, self.ring_bytes).ok()?;
                let ring = Arc::new(Ring::new(memory, self.run_id));
                self.all.push(Arc::clone(&ring));
                ring
            }
            None => return None,
        };
        let name = std::thread::current().name().map(str::to_owned).unwrap_or_default();
        // Before it is said whose ring this is: what was refused to its last owner was not refused to this one.
        let producer = Producer::new(Arc::clone(&ring), tid, 0);
        ring.memory().write_owner(&encode_owner(tid, &name, self.run_id));
        self.names.give_ring(tid, &name);
        Some(producer)
    }

    /// Whether [`claim`](Claims::claim) may have one.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty() || self.all.len() <= self.rings_max
    }

    /// Takes back a ring that its thread has given up, and that is drained.
    pub(super) fn take_back(&mut self, ring: &Arc<LiveRing>) {
        self.names.take_ring(ring.tid());
        ring.set_taken_back();
        self.free.push(Arc::clone(ring));
    }

    /// Puts the name of this thread into the ring file, before any of its entries is in the common ring.
    pub(super) fn name_sharer(&mut self, tid: u32) {
        if self.names.is_to_be_stored(tid)
            && let Some(name) = std::thread::current().name()
        {
            // Without room for it only those miss it who read the common ring after a kill.
            let _ = self.rings.name_thread(tid, name);
            self.names.set_stored(tid, name);
        }
    }

    /// Puts the definition of a registered site into the ring file, before any of its entries is in a ring.
    pub(super) fn define(&mut self, site: &'static Site) -> io::Result<()> {
        if self.is_defined(site) {
            return Ok(());
        }
        let mut payload = Vec::new();
        site.definition().encode(site.number(), &mut payload);
        // One that is longer than a frame could not be stored in a segment either.
        if payload.len() <= PAYLOAD_BYTES_MAX {
            self.rings.define(&payload)?;
        }
        *self.slot(site) = Some((site, true));
        Ok(())
    }

    /// Takes note of a site whose entries go into segments without having been in a ring.
    pub(super) fn know(&mut self, site: &'static Site) {
        self.slot(site).get_or_insert((site, false));
    }

    fn slot(&mut self, site: &'static Site) -> &mut Option<(&'static Site, bool)> {
        let number = site.number() as usize;
        if self.sites.len() <= number {
            self.sites.resize(number + 1, None);
        }
        &mut self.sites[number]
    }

    /// Whether the ring file defines the site.
    pub(super) fn is_defined(&self, site: &'static Site) -> bool {
        matches!(self.sites.get(site.number() as usize), Some(Some((_, true))))
    }

    /// The site with this number, if it has logged.
    pub(super) fn site(&self, number: u32) -> Option<&'static Site> {
        self.sites.get(number as usize).copied().flatten().map(|(site, _)| site)
    }

    pub(super) fn set_anchor(&mut self, anchor: &Anchor) -> io::Result<()> {
        self.rings.set_anchor(anchor)
    }

    /// The levels that somebody asks for through the ring file, and those that it tells to be in force.
    pub(super) fn level_records(&self) -> [Option<LevelRecord>; 2] {
        self.rings.level_records()
    }

    /// Puts the levels in force into the ring file.
    pub(super) fn tell_levels(&self, record: &LevelRecord) -> io::Result<()> {
        self.rings.tell_levels(record)
    }

    /// Puts figures into the ring file.
    pub(super) fn tell_figures(&self, figures: &Figures) -> io::Result<()> {
        self.rings.tell_figures(figures)
    }

    /// Removes the ring file.
    pub(super) fn remove_rings(&mut self) -> io::Result<()> {
        self.rings.remove()
    }
}
