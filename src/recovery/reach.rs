//! Rings in a directory that is not there: not mounted yet, or not in this container. What they hold is not lost, so nothing is
//! done to the log that would cut what leads to them.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::recovery::file::RingFile;
use crate::recovery::known::Known;
use crate::recovery::{files_of_log, has_segment, is_settled, segments_of};
use crate::ring::place::Lost;
use crate::storage::Storage;

/// Stops where the log needs rings of a directory that is not there; with `boot_id`, those of runs under that boot.
///
/// # Errors
/// `Invalid`, with what to do about it; and what the system says.
pub(crate) fn refuse_out_of_reach(storage: &Arc<dyn Storage>, boot_id: Option<[u8; 16]>) -> Result<()> {
    refuse(storage, &files_of_log(storage, false)?.0, boot_id)
}

/// The same of these ring files.
pub(super) fn refuse(storage: &Arc<dyn Storage>, files: &[RingFile], boot_id: Option<[u8; 16]>) -> Result<()> {
    for file in files.iter().filter(|file| file.lost == Some(Lost::OutOfReach)) {
        let (Some(header), Some(dir)) = (file.header, &file.dir) else { continue };
        if boot_id.is_some_and(|boot_id| boot_id != header.boot_id) {
            continue;
        }
        let snapshot = segments_of(storage)?;
        if !has_segment(&snapshot, file.index) || is_settled(&snapshot, header.run_id, file.index) {
            continue;
        }
        let known = Known::of(&snapshot, header.run_id, file.index, 0)?;
        if known.is_closed || known.has_recovered {
            continue;
        }
        let text = format!(
            "the last entries of a killed run are in {}, which is not there: mount it (in a container, at the same path), or \
             remove {} to give these entries up",
            dir.display(),
            file.name
        );
        return Err(Error::new(ErrorKind::Invalid, text).at(storage.path().join(&file.name)));
    }
    Ok(())
}
