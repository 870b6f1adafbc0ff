//! The memory of a ring: a mapping of its section of the file, or anonymous.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::{Advice, MmapOptions, MmapRaw};

use crate::ring::Memory;
use crate::ring::file::{OWNER, PAGE_BYTES, READ, REFUSED_LEVEL, REFUSED_TSEQ, WRITTEN};

/// A section with a ring in it: its header page, then the data.
#[derive(Debug)]
pub(crate) struct MappedRing {
    map: MmapRaw,
    capacity: usize,
}

impl MappedRing {
    /// Maps the section at `offset` of a file, which has `capacity` bytes of data.
    pub(crate) fn of_file(file: &File, offset: u64, capacity: usize) -> io::Result<MappedRing> {
        let map = MmapOptions::new().offset(offset).len(PAGE_BYTES + capacity).map_raw(file)?;
        // So that no log call is the first to touch a page. An older kernel can't: then some calls take a microsecond more.
        let _ = map.advise(Advice::PopulateWrite);
        Ok(MappedRing { map, capacity })
    }

    /// Memory of this process, which ends with it.
    pub(crate) fn anonymous(capacity: usize) -> io::Result<MappedRing> {
        let map = MmapRaw::from(MmapOptions::new().len(PAGE_BYTES + capacity).map_anon()?);
        Ok(MappedRing { map, capacity })
    }

    #[inline]
    fn word64(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= PAGE_BYTES);
        let place = self.map.as_mut_ptr().wrapping_add(at).cast::<u64>();
        // SAFETY: inside the page, which is mapped for as long as `self` lives; aligned, as mappings start at pages. This
        // process only uses the word as an atomic. Assumption: no other process writes the file.
        unsafe { AtomicU64::from_ptr(place) }
    }

    fn word32(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at + 4 <= PAGE_BYTES);
        let place = self.map.as_mut_ptr().wrapping_add(at).cast::<u32>();
        // SAFETY: as in `word64`.
        unsafe { AtomicU32::from_ptr(place) }
    }

    /// Writes the owner's record, as [`encode_owner`](super::file::encode_owner) gives it.
    pub(crate) fn write_owner(&self, record: &[u8]) {
        let len = record.len().min(OWNER[1] - OWNER[0]);
        for at in OWNER {
            let place = self.map.as_mut_ptr().wrapping_add(at);
            // SAFETY: inside the page; only who hands out the ring writes there, under a lock, and nobody in this process
            // reads it.
            unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), place, len) };
        }
    }

    #[inline]
    fn data(&self, place: usize, len: usize) -> *mut u8 {
        assert!(place <= self.capacity && len <= self.capacity - place, "outside of the ring");
        self.map.as_mut_ptr().wrapping_add(PAGE_BYTES + place)
    }
}

impl Memory for MappedRing {
    #[inline]
    fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    fn written(&self) -> &AtomicU64 {
        self.word64(WRITTEN)
    }

    #[inline]
    fn read(&self) -> [&AtomicU64; 2] {
        READ.map(|at| self.word64(at))
    }

    fn refused_tseq(&self) -> [&AtomicU64; 3] {
        REFUSED_TSEQ.map(|at| self.word64(at))
    }

    fn refused_level(&self) -> &AtomicU32 {
        self.word32(REFUSED_LEVEL)
    }

    #[inline]
    unsafe fn fill<R>(&self, place: usize, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: `data` has checked the bounds; the caller vouches that nobody else uses these bytes now.
        fill(unsafe { std::slice::from_raw_parts_mut(self.data(place, len), len) })
    }

    #[inline]
    unsafe fn view<R>(&self, place: usize, len: usize, view: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: `data` has checked the bounds; the caller vouches that nobody writes these bytes now.
        view(unsafe { std::slice::from_raw_parts(self.data(place, len), len) })
    }
}
