//! A repaired copy of a log, with the log itself left as it is.

use std::io;
use std::sync::Arc;

use crate::active::write_whole;
use crate::error::{Error, ErrorKind, Result};
use crate::repair::{Repaired, plan, repair_as};
use crate::ring::file::index_of_name;
use crate::ring::place::Place;
use crate::snapshot::Snapshot;
use crate::state::LOCK_NAME;
use crate::storage::{ReadAt, Storage};
use crate::verify::VerifyOptions;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Copies the log in `from` into the empty directory `to` and repairs the copy: same log id, same numbers, every loss
/// declared, every segment sealed. Segments of other logs are left out. A copy that fails leaves nothing in `to`. `progress` is
/// told of bytes copied.
///
/// # Errors
/// As [`plan`]; `Invalid` where `to` is not empty; and what the system says.
pub fn clean_copy(
    from: &Arc<dyn Storage>,
    to: &Arc<dyn Storage>,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Repaired> {
    let snapshot = Snapshot::take(Arc::clone(from))?;
    plan(&snapshot, options, &|_| {})?;
    let held = to.list().map_err(|error| Error::io("cannot list", error).at(to.path()))?;
    if !held.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "not empty: name a new directory for the copy").at(to.path()));
    }
    let copied = copy_and_repair(&snapshot, to, options, progress);
    if copied.is_err() {
        remove_all(to.as_ref());
    }
    copied
}

/// Removes what a copy that failed has left in a directory that was empty, so that it can be tried again. What can't be
/// removed stays.
pub(crate) fn remove_all(storage: &dyn Storage) {
    let quarantined = storage.list_quarantine().into_iter().flatten().map(|entry| format!("quarantine/{}", entry.name));
    let names = storage.list().into_iter().flatten().map(|entry| entry.name);
    quarantined.chain(names).for_each(|name| drop(storage.remove(&name)));
}

fn copy_and_repair(
    snapshot: &Snapshot,
    to: &Arc<dyn Storage>,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Repaired> {
    let from = snapshot.storage();
    // What is only in rings is recovered in the copy.
    let segments = snapshot.segments.iter().filter(|segment| !snapshot.is_from_ring(&segment.name));
    let segments = segments.map(|segment| segment.name.as_str());
    let unreadable = snapshot.unreadable.iter().map(|bad| bad.name.as_str());
    let rings = snapshot.rings.iter().map(|ring| ring.name.as_str());
    for name in segments.chain(unreadable).chain(rings) {
        copy(from.as_ref(), to.as_ref(), name, progress)?;
    }
    if snapshot.state.is_some() {
        copy(from.as_ref(), to.as_ref(), LOCK_NAME, progress)?;
    }
    to.sync_dir().map_err(|error| Error::io("cannot sync", error).at(to.path()))?;
    let repaired = repair_as(to, options, &|_| {}, true)?;
    // What was cut off the copy stands in the log.
    let failed = |error| Error::io("cannot clear quarantine", error).at(to.path());
    for entry in to.list_quarantine().map_err(failed)? {
        to.remove(&format!("quarantine/{}", entry.name)).map_err(failed)?;
    }
    Ok(repaired)
}

fn copy(from: &dyn Storage, to: &dyn Storage, name: &str, progress: &(dyn Fn(u64) + Sync)) -> Result<()> {
    // Rings that stand elsewhere are copied, too: the copy is whole by itself.
    let opened = match index_of_name(name) {
        Some(_) => Place::open_dead(from, name).map(|place| place.file),
        None => from.open(name),
    };
    let source = opened.map_err(|error| Error::io("cannot open", error).at(from.path().join(name)))?;
    let written = || -> io::Result<()> {
        let target = to.create(name)?;
        let mut buffer = vec![0u8; COPY_BYTES];
        let mut done = 0;
        loop {
            let count = source.read_full_at(&mut buffer, done)?;
            if count == 0 {
                return target.sync();
            }
            write_whole(target.as_ref(), &buffer[..count], done)?;
            done += count as u64;
            progress(count as u64);
        }
    };
    written().map_err(|error| Error::io("cannot copy", error).at(to.path().join(name)))
}
