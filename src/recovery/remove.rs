//! How a ring file goes that has been accounted for, wherever it stands: see [`place`](crate::ring::place).

use std::io;

use crate::repair_apply::{copy_aside, set_aside};
use crate::ring::place::{Place, Target};
use crate::storage::{ReadAt, Storage};

/// Removes a ring file, and then what leads to it.
///
/// # Errors
/// What the system says; the same call goes on where this one has stopped.
pub(crate) fn remove_rings(storage: &dyn Storage, name: &str) -> io::Result<()> {
    if let Some(target) = Place::open_dead(storage, name)?.own_target(storage) {
        remove_target(target)?;
    }
    storage.remove(name)
}

/// Moves a ring file to quarantine. One that stands elsewhere may be on another file system: it is copied there.
///
/// # Errors
/// What the system says; the same call goes on where this one has stopped.
pub(crate) fn set_rings_aside(storage: &dyn Storage, name: &str) -> io::Result<()> {
    let place = Place::open_dead(storage, name)?;
    let Some(target) = place.own_target(storage) else { return set_aside(storage, name) };
    let file = target.dir.open(&target.name)?;
    copy_aside(storage, name, &*file, file.len()?)?;
    remove_target(target)?;
    storage.remove(name)?;
    storage.sync_dir()
}

fn remove_target(target: &Target) -> io::Result<()> {
    target.dir.remove(&target.name)?;
    target.dir.sync_dir()
}
