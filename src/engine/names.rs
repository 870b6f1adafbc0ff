//! Names of the threads that log: of those that have a ring, and of so many others that logged last.

use std::collections::{HashMap, VecDeque};

use crate::ring::file::NAMES_MAX;

/// What threads are called.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_tid: HashMap<u32, Name>,
    /// Threads that have logged into the common ring, or have given up their own: as many as the ring file has room for, the
    /// first to be forgotten first.
    others: VecDeque<u32>,
    /// Threads that nobody asks for any more.
    forgotten: Vec<u32>,
}

#[derive(Debug)]
struct Name {
    text: String,
    has_ring: bool,
    /// It is one of the others.
    is_other: bool,
    /// The ring file has it among those of the common ring, or had no room.
    is_stored: bool,
}

impl Names {
    pub(super) fn get(&self, tid: u32) -> Option<&str> {
        self.by_tid.get(&tid).map(|name| name.text.as_str())
    }

    /// The thread has got a ring, which stores its name.
    pub(super) fn give_ring(&mut self, tid: u32, text: &str) {
        if !text.is_empty() {
            self.name(tid, text).has_ring = true;
        }
    }

    /// The thread has given up its ring. It may log once more, into the common one.
    pub(super) fn take_ring(&mut self, tid: u32) {
        if let Some(name) = self.by_tid.get_mut(&tid) {
            name.has_ring = false;
            self.add_other(tid);
        }
    }

    /// Whether the ring file must be told of the thread before an entry of it is in the common ring.
    pub(super) fn is_to_be_stored(&self, tid: u32) -> bool {
        self.by_tid.get(&tid).is_none_or(|name| !name.is_stored)
    }

    /// The ring file was told.
    pub(super) fn set_stored(&mut self, tid: u32, text: &str) {
        self.name(tid, text).is_stored = true;
        self.add_other(tid);
    }

    /// The threads whose names were dropped since this was asked last.
    pub(super) fn take_forgotten(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.forgotten)
    }

    fn name(&mut self, tid: u32, text: &str) -> &mut Name {
        let new = || Name { text: text.to_owned(), has_ring: false, is_other: false, is_stored: false };
        self.by_tid.entry(tid).or_insert_with(new)
    }

    fn add_other(&mut self, tid: u32) {
        match self.by_tid.get_mut(&tid) {
            Some(name) if !name.is_other => name.is_other = true,
            _ => return,
        }
        self.others.push_back(tid);
        if self.others.len() > NAMES_MAX
            && let Some(oldest) = self.others.pop_front()
        {
            self.drop_other(oldest);
        }
    }

    fn drop_other(&mut self, tid: u32) {
        let Some(name) = self.by_tid.get_mut(&tid) else { return };
        (name.is_other, name.is_stored) = (false, false);
        if !name.has_ring {
            self.by_tid.remove(&tid);
            self.forgotten.push(tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_names_are_kept_as_the_ring_file_has_room_for_and_those_of_rings() {
        let mut names = Names::default();
        names.give_ring(1, "owner");
        names.give_ring(2, "");
        names.set_stored(1, "owner");
        let last = NAMES_MAX as u32 + 10;
        (10..last).for_each(|tid| names.set_stored(tid, "other"));
        assert_eq!((names.get(1), names.get(2), names.get(10)), (Some("owner"), None, Some("other")));
        assert!(names.is_to_be_stored(1) && names.is_to_be_stored(2) && !names.is_to_be_stored(10));
        assert_eq!(names.take_forgotten(), []);
        names.set_stored(last, "one more");
        assert_eq!(names.take_forgotten(), [10]);
        assert_eq!(names.get(10), None);
        names.take_ring(1);
        assert_eq!(names.take_forgotten(), [11]);
        assert_eq!((names.get(1), names.get(11)), (Some("owner"), None));
        assert_eq!(names.by_tid.len(), NAMES_MAX);
    }
}
