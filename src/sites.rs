//! The call sites and thread names that a run has given, and which segment has them already.

use std::collections::HashMap;
use std::sync::Arc;

use crate::batch::Batch;
use crate::entry::{CallSite, encode_thread};
use crate::format::{FrameKind, PAYLOAD_BYTES_MAX};

/// A call site, and the index of the last segment that has its definition.
#[derive(Debug)]
struct Site {
    definition: Arc<CallSite>,
    defined_in: u64,
}

/// A thread's name, and the index of the last segment that has it.
#[derive(Debug)]
struct Thread {
    name: String,
    defined_in: u64,
}

/// What entries refer to. Ids count from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    sites: Vec<Site>,
    ids: HashMap<Arc<CallSite>, u32>,
    threads: HashMap<u32, Thread>,
    /// The site, thread and segment of the last entry, which has all that it needs: most entries are like the one before.
    last: (u32, u32, u64),
}

impl Sites {
    /// The id of a call site; the same definition has the same id.
    pub(crate) fn define(&mut self, site: &CallSite) -> u32 {
        if let Some(&id) = self.ids.get(site) {
            return id;
        }
        let definition = Arc::new(site.clone());
        self.sites.push(Site { definition: Arc::clone(&definition), defined_in: 0 });
        let id = u32::try_from(self.sites.len()).unwrap_or(u32::MAX);
        self.ids.insert(definition, id);
        id
    }

    /// Names a thread, anew where it has another name.
    pub(crate) fn name_thread(&mut self, tid: u32, name: &str) {
        if self.threads.get(&tid).is_some_and(|known| known.name == name) {
            return;
        }
        self.threads.insert(tid, Thread { name: name.to_owned(), defined_in: 0 });
        self.last = (0, 0, 0);
    }

    /// Forgets a thread that has ended: all its entries were pushed.
    pub(crate) fn forget_thread(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// The call site with this id; none for 0.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&CallSite> {
        let number = (id as usize).checked_sub(1)?;
        self.sites.get(number).map(|site| &*site.definition)
    }

    /// Puts the definitions that an entry needs before it, where the segment `index` does not have them yet.
    #[inline]
    pub(crate) fn push_missing(&mut self, id: u32, tid: u32, index: u64, batch: &mut Batch) {
        if self.last != (id, tid, index) {
            self.push_missing_of_other(id, tid, index, batch);
        }
    }

    fn push_missing_of_other(&mut self, id: u32, tid: u32, index: u64, batch: &mut Batch) {
        self.last = (id, tid, index);
        if id > 0
            && let Some(site) = self.sites.get_mut(id as usize - 1)
            && site.defined_in != index
        {
            site.defined_in = index;
            if let Some(payload) = site_payload(id, &site.definition) {
                batch.push_control(FrameKind::CallSite, &payload);
            }
        }
        if !self.threads.is_empty()
            && let Some(thread) = self.threads.get_mut(&tid)
            && thread.defined_in != index
        {
            thread.defined_in = index;
            if let Some(payload) = thread_payload(tid, &thread.name) {
                batch.push_control(FrameKind::Thread, &payload);
            }
        }
    }

    /// The definitions that the segment `index` has: kind and payload.
    pub(crate) fn of_segment(&self, index: u64) -> Vec<(FrameKind, Vec<u8>)> {
        let sites = self.sites.iter().zip(1u32..).filter(|(site, _)| site.defined_in == index);
        let threads = self.threads.iter().filter(|(_, thread)| thread.defined_in == index);
        sites
            .filter_map(|(site, id)| Some((FrameKind::CallSite, site_payload(id, &site.definition)?)))
            .chain(threads.filter_map(|(&tid, thread)| Some((FrameKind::Thread, thread_payload(tid, &thread.name)?))))
            .collect()
    }

    /// Takes note that the segment `to` has the definitions of the segments `from`.
    pub(crate) fn moved(&mut self, from: &[u64], to: u64) {
        self.last = (0, 0, 0);
        let sites = self.sites.iter_mut().map(|site| &mut site.defined_in);
        let threads = self.threads.values_mut().map(|thread| &mut thread.defined_in);
        sites.chain(threads).filter(|index| from.contains(index)).for_each(|index| *index = to);
    }
}

/// `None` for a definition that is longer than a frame: its entries are then shown with their raw arguments.
fn site_payload(id: u32, site: &CallSite) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    site.encode(id, &mut payload);
    Some(payload).filter(|payload| payload.len() <= PAYLOAD_BYTES_MAX)
}

/// `None` for a name that is longer than a frame.
fn thread_payload(tid: u32, name: &str) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    encode_thread(tid, name, &mut payload);
    Some(payload).filter(|payload| payload.len() <= PAYLOAD_BYTES_MAX)
}
