//! The metrics of a log as they are seen from outside: what its writer puts into the ring file, be it alive or dead. What
//! `logtool stat --prometheus` shows.
//!
//! Reading takes no lock and changes nothing; a record that is read while it is written does not hold, and is read again.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::clock;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::ring::figures_area::Figures;
use crate::ring::file::{FileHeader, PAGE_BYTES, READ, SectionHeader, SectionKind, WRITTEN, index_of_name};
use crate::ring::place::Place;
use crate::state::writer_pid;
use crate::storage::{Storage, StorageFile};
use crate::storage_os::OsStorage;

/// How often a record is read that does not hold.
const TRIES: usize = 5;

/// Sections of a ring file that are looked at.
const SECTIONS_MAX: usize = 4096;

/// What a writer has told of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToldMetrics {
    /// The figures; what waits in the rings, and how long, is as of now. Without the text of the last failure.
    pub metrics: Metrics,
    /// How old they are: a writer that works tells them each second.
    pub age: Duration,
    /// Whether the writer lives. Else its rings wait for the next writer, or for `repair`.
    pub is_live: bool,
}

/// What the writer of the log in `dir` told of itself last; `None` where it keeps no ring file, as a log that is closed, or one that
/// is written synchronously, with memory rings, or by `logtool write`.
///
/// # Errors
/// What the system says while reading.
pub fn told_metrics(dir: &Path) -> Result<Option<ToldMetrics>> {
    told_in(&OsStorage::new(dir, 0)).map_err(|error| Error::io("cannot read the metrics", error).at(dir))
}

fn told_in(storage: &OsStorage) -> io::Result<Option<ToldMetrics>> {
    let has_writer = writer_pid(storage)?.is_some();
    let mut names: Vec<String> = storage.names()?.into_iter().filter(|name| index_of_name(name).is_some()).collect();
    names.sort_by_key(|name| index_of_name(name));
    for name in names.iter().rev() {
        let place = match Place::open(storage, name) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => continue,
            opened => opened?,
        };
        let Some(header) = FileHeader::decode(&place.page) else { continue };
        let is_live = place.file.is_locked()?;
        // Rings of a dead run beside a living writer are about to be recovered.
        if is_live != has_writer {
            continue;
        }
        if let Some(figures) = figures(&*place.file, header.run_id)? {
            let now_ns = clock::now_ns();
            let age_ns = now_ns.saturating_sub(figures.told_ns).max(0) as u64;
            let metrics = figures.at(now_ns, ring_fill(&*place.file, header.run_id)?);
            return Ok(Some(ToldMetrics { metrics, age: Duration::from_nanos(age_ns), is_live }));
        }
    }
    Ok(None)
}

fn figures(file: &dyn StorageFile, run_id: u64) -> io::Result<Option<Figures>> {
    for _ in 0..TRIES {
        let mut page = [0; PAGE_BYTES];
        file.read_full_at(&mut page, 0)?;
        if let Some(figures) = Figures::decode(&page, run_id) {
            return Ok(Some(figures));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

/// Bytes that wait in the rings of a file, as far as its sections can be told.
fn ring_fill(file: &dyn StorageFile, run_id: u64) -> io::Result<u64> {
    let (mut at, mut fill) = (PAGE_BYTES as u64, 0u64);
    for _ in 0..SECTIONS_MAX {
        let mut page = [0; PAGE_BYTES];
        file.read_full_at(&mut page, at)?;
        let Some(section) = SectionHeader::decode(&page, run_id) else { break };
        if section.kind != SectionKind::Definitions {
            let word = |at: usize| page[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            let read = READ.map(word);
            fill = fill.saturating_add(word(WRITTEN).saturating_sub(read[0].min(read[1])).min(section.bytes));
        }
        at = at.saturating_add(PAGE_BYTES as u64).saturating_add(section.bytes);
    }
    Ok(fill)
}
