//! The levels of a running program, asked and changed from outside: what `logtool level` does.
//!
//! ```text
//! asker     write the request into the ring file; look until the answer names it; write it again if another took its place
//! backend   each second: a request that is new? set the levels, write those in force with the request's id
//! ```
//! The ring file is written in two places that hold nothing else, each with a checksum: whatever an asker writes, and whenever it
//! is stopped, the entries stay what they are. No lock is taken.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::active::write_whole;
use crate::error::{Error, ErrorKind, Result};
use crate::levels::Levels;
use crate::reader::is_log_dir;
use crate::ring::file::{FileHeader, index_of_name};
use crate::ring::level_area::{ASKED, ASKED_TEXT_BYTES_MAX, LevelRecord};
use crate::ring::place::{Place, first_page};
use crate::roll::random_id;
use crate::state::writer_pid;
use crate::storage::{Storage, StorageFile};
use crate::storage_os::OsStorage;

/// How often an asker looks for the answer.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Levels that are in force in a running program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningLevels {
    /// The process that writes the log.
    pub pid: u32,
    /// Its levels, as of the last second.
    pub levels: Levels,
    /// It has more settings than the ring file has room for; these are the first of them.
    pub is_cut: bool,
}

/// The levels that are in force in the program that writes the log in `dir`. `wait`: how long to wait for one that has only just
/// begun.
///
/// # Errors
/// `NotALog`; `Closed` if nobody writes it; `Invalid` if its writer keeps no ring file; `TimedOut`; and what the system says.
pub fn running_levels(dir: &Path, wait: Duration) -> Result<RunningLevels> {
    Asked::open(dir, For::Reading)?.wait_for(wait, |_| Ok(true))
}

/// Has the program that writes the log in `dir` set `levels`, and waits until it has. What they do not set stays as it is;
/// categories that have not logged yet are as good as others.
///
/// # Errors
/// As [`running_levels`]; `Invalid` if `levels` sets nothing, or more than a request can hold; `TimedOut` if it does not answer
/// within `wait`: a running program does within a second.
pub fn set_running_levels(dir: &Path, levels: &Levels, wait: Duration) -> Result<RunningLevels> {
    let record = LevelRecord { id: random_id()?, text: levels.to_string(), ..LevelRecord::default() };
    let len = record.text.len();
    if !(1..=ASKED_TEXT_BYTES_MAX).contains(&len) {
        let text = match len {
            0 => "no level is given: give LEVEL or CATEGORY=LEVEL, as net=trace".to_owned(),
            _ => format!("these levels are {len} bytes of text: give at most {ASKED_TEXT_BYTES_MAX} at a time"),
        };
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    let asked = Asked::open(dir, For::Asking)?;
    asked.ask(&record)?;
    let answered = asked.wait_for(wait, |in_force| {
        if in_force.id == record.id {
            return if in_force.is_refused { Err(asked.refused()) } else { Ok(true) };
        }
        // Another request has taken the place of this one, and was answered: now it is this one's turn.
        if asked.request()?.is_none_or(|request| request.id == in_force.id) {
            asked.ask(&record)?;
        }
        Ok(false)
    });
    if answered.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut) {
        asked.withdraw(&record)?;
    }
    answered
}

/// What an [`Asked`] is opened for.
#[derive(Clone, Copy)]
enum For {
    Reading,
    Asking,
}

/// The ring file of the run that goes on, and that run; a run that has ended does not lock its file.
fn live_ring_file(storage: &OsStorage) -> io::Result<Option<(String, Place, u64)>> {
    for name in storage.names()?.into_iter().filter(|name| index_of_name(name).is_some()) {
        let place = match Place::open(storage, &name) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => continue,
            opened => opened?,
        };
        if place.file.is_locked()?
            && let Some(header) = FileHeader::decode(&place.page)
        {
            return Ok(Some((name, place, header.run_id)));
        }
    }
    Ok(None)
}

/// The ring file of a running writer.
struct Asked {
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    run_id: u64,
    storage: OsStorage,
    pid: u32,
}

impl Asked {
    fn open(dir: &Path, for_what: For) -> Result<Asked> {
        std::fs::metadata(dir).map_err(|error| Error::io("cannot open", error).at(dir))?;
        let failed = |kind, text: String| Err(Error::new(kind, text).at(dir));
        if !is_log_dir(dir) {
            return failed(ErrorKind::NotALog, "no logtool log: name the directory that a program logs to".to_owned());
        }
        let storage = OsStorage::new(dir, 0);
        let cannot_read = |error| Error::io("cannot read", error).at(dir);
        let Some(pid) = writer_pid(&storage).map_err(cannot_read)? else {
            let text = "nobody writes this log now: levels are those of a running program";
            return failed(ErrorKind::Closed, text.to_owned());
        };
        let Some((name, place, run_id)) = live_ring_file(&storage).map_err(cannot_read)? else {
            let text = format!(
                "process {pid} writes this log without a ring file (`logtool write`, memory rings, or a synchronous logger): \
                 only the program itself can change its levels"
            );
            return failed(ErrorKind::Invalid, text);
        };
        let path = dir.join(&name);
        let opened = match for_what {
            For::Reading => Ok(place.file),
            For::Asking => place.open_write(&storage, &name).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => Error::io("only who may write the log may change its levels", error),
                _ => Error::io("cannot open to write", error),
            }),
        };
        let file = opened.map_err(|error| error.at(&path))?;
        Ok(Asked { file, path, run_id, storage, pid })
    }

    fn page(&self) -> Result<Vec<u8>> {
        first_page(&*self.file).map_err(|error| Error::io("cannot read", error).at(&self.path))
    }

    /// What is asked for now.
    fn request(&self) -> Result<Option<LevelRecord>> {
        Ok(LevelRecord::asked_in(&self.page()?, self.run_id))
    }

    fn ask(&self, record: &LevelRecord) -> Result<()> {
        self.write(&record.encode(self.run_id))
    }

    /// The request was answered, and not granted.
    fn refused(&self) -> Error {
        let text = format!(
            "process {} did not take these levels: it has as many settings as it can have, or is of another version",
            self.pid
        );
        Error::new(ErrorKind::Invalid, text).at(self.storage.path())
    }

    /// Takes the request back, if it still stands there.
    fn withdraw(&self, record: &LevelRecord) -> Result<()> {
        match self.request()? {
            Some(request) if request.id == record.id => self.write(&vec![0; record.encode(self.run_id).len()]),
            _ => Ok(()),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        write_whole(&*self.file, bytes, ASKED as u64)
            .map_err(|error| Error::io("cannot write the request", error).at(&self.path))
    }

    /// Waits until the levels in force are those that `is_it` wants.
    fn wait_for(&self, wait: Duration, mut is_it: impl FnMut(&LevelRecord) -> Result<bool>) -> Result<RunningLevels> {
        let start = Instant::now();
        loop {
            if let Some(in_force) = LevelRecord::in_force_in(&self.page()?, self.run_id)
                && is_it(&in_force)?
            {
                return self.answer(&in_force);
            }
            if start.elapsed() >= wait {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let is_gone = writer_pid(&self.storage).is_ok_and(|pid| pid != Some(self.pid));
        let (kind, text) = if is_gone {
            (ErrorKind::Closed, format!("process {} has ended meanwhile", self.pid))
        } else {
            let text = format!(
                "not answered within {wait:?}: process {} is stopped, waits for its disk, or is of a version that does not answer",
                self.pid
            );
            (ErrorKind::TimedOut, text)
        };
        Err(Error::new(kind, text).at(self.storage.path()))
    }

    fn answer(&self, in_force: &LevelRecord) -> Result<RunningLevels> {
        let Ok(levels) = in_force.text.parse() else {
            let text = format!("process {} is of another version, whose levels are written otherwise", self.pid);
            return Err(Error::new(ErrorKind::Version, text).at(self.storage.path()));
        };
        Ok(RunningLevels { pid: self.pid, levels, is_cut: in_force.is_cut })
    }
}
