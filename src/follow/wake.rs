//! When a follower looks again: woken by inotify, and by the clock in any case.
//!
//! Events are hints and nothing more: what a follower gives depends on the directory listing and the files alone. So a lost
//! event, an overflown queue or a system without inotify costs time, never an entry.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::statfs;

use crate::state::LOCK_NAME;

/// Between two looks without events: short right after the last item, then doubling up to the longest.
const POLL_MIN: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(250);

/// The same where events tell of each change, so that the clock is only the net below them.
const EVENTS_MIN: Duration = Duration::from_secs(1);
const EVENTS_MAX: Duration = Duration::from_secs(8);

/// Polling lists the directory at most this often; a segment's end is seen in the segment itself.
const LIST_EVERY: Duration = Duration::from_millis(100);

/// What happens in the directory. Changes of its files' contents are left out: the one that matters has its own watch.
const DIR_EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// What a look should go into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hints {
    /// The segment that is read may have changed.
    pub(super) data: bool,
    /// Names may have come or gone.
    pub(super) names: bool,
    /// The writer may be gone.
    pub(super) writer: bool,
}

impl Hints {
    const ALL: Hints = Hints { data: true, names: true, writer: true };
}

/// The watches of one follower, and its clock.
#[derive(Debug)]
pub(super) struct Wake {
    dir: PathBuf,
    inotify: Option<Inotify>,
    /// The watch on the directory, or on the nearest one above it that exists.
    dir_watch: Option<WatchDescriptor>,
    watches_above: bool,
    file_watch: Option<WatchDescriptor>,
    /// Whether events can't tell all: none at all, or a file system that other machines write to.
    polls: bool,
    pause: Duration,
    look_at: Instant,
    listed_at: Option<Instant>,
    pub(super) hints: Hints,
}

impl Wake {
    /// Watches for the log directory `dir`, which need not exist; `events` asks for inotify where it can be had.
    pub(super) fn new(dir: &Path, events: bool) -> Wake {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        // Refused where a user has too many instances: polling does as well.
        let inotify = if events { Inotify::init(flags).ok() } else { None };
        Wake {
            dir: dir.to_owned(),
            polls: inotify.is_none(),
            inotify,
            dir_watch: None,
            watches_above: false,
            file_watch: None,
            pause: POLL_MIN,
            look_at: Instant::now(),
            listed_at: None,
            hints: Hints::ALL,
        }
    }

    /// Sees to it that the directory is watched, or the nearest one above it that exists. To be called before each listing:
    /// what comes after the watch wakes, what came before it is in the listing.
    pub(super) fn watch_dir(&mut self) {
        self.listed_at = Some(Instant::now());
        let Some(inotify) = &self.inotify else { return };
        if self.dir_watch.is_some() && !self.watches_above {
            return;
        }
        let absolute = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        let above = absolute.ancestors().enumerate();
        let watch = above.map(|(level, dir)| (level, inotify.add_watch(dir, DIR_EVENTS)));
        // A path that is no directory, or none at all, is looked for one level up.
        let watch = watch.filter_map(|(level, watch)| watch.ok().map(|watch| (level, watch))).next();
        let old = self.dir_watch.take();
        if let Some((level, watch)) = watch {
            (self.dir_watch, self.watches_above) = (Some(watch), level > 0);
            if level == 0 {
                self.polls = has_other_writers(&self.dir);
            }
        } else {
            self.polls = true;
        }
        if let Some(old) = old.filter(|old| Some(*old) != self.dir_watch) {
            // It may be gone by itself.
            let _ = inotify.rm_watch(old);
        }
    }

    /// Forgets the watch on the directory, which is gone or another one now.
    pub(super) fn forget_dir(&mut self) {
        if let (Some(inotify), Some(old)) = (&self.inotify, self.dir_watch.take()) {
            let _ = inotify.rm_watch(old);
        }
    }

    /// Watches the segment `name` instead of the one before.
    pub(super) fn watch_file(&mut self, name: &str) {
        let Some(inotify) = &self.inotify else { return };
        let old = self.file_watch.take();
        match inotify.add_watch(&self.dir.join(name), AddWatchFlags::IN_MODIFY) {
            Ok(watch) => self.file_watch = Some(watch),
            // It was removed: nobody writes to it any more.
            Err(Errno::ENOENT) => {}
            Err(_) => self.polls = true,
        }
        if let Some(old) = old.filter(|old| Some(*old) != self.file_watch) {
            let _ = inotify.rm_watch(old);
        }
    }

    /// The descriptor to wait on.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// When to look again whatever happens.
    pub(super) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// There is nothing more for now: sets the time of the next look. `progress` says whether there was something, `soon`
    /// whether something is on its way that no event will tell of.
    pub(super) fn settle(&mut self, progress: bool, soon: bool) {
        let (min, max) = if self.polls || soon { (POLL_MIN, POLL_MAX) } else { (EVENTS_MIN, EVENTS_MAX) };
        if progress || self.pause > max {
            self.pause = min;
        }
        self.pause = self.pause.clamp(min, max);
        self.look_at = Instant::now() + self.pause;
    }

    /// The time of the next look may have come.
    pub(super) fn tick(&mut self, now: Instant) {
        if now < self.look_at {
            return;
        }
        self.pause *= 2;
        self.hints.data = true;
        let listing_due = self.listed_at.is_none_or(|listed| now - listed >= LIST_EVERY);
        if !self.polls || listing_due {
            self.hints = Hints::ALL;
        }
    }

    /// Takes the events that have come.
    pub(super) fn collect(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let events = match inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EAGAIN | Errno::EINTR) => return,
            Err(_) => {
                (self.inotify, self.polls, self.hints) = (None, true, Hints::ALL);
                return;
            }
        };
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                self.hints = Hints::ALL;
            } else if Some(event.wd) == self.dir_watch {
                let gone = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_IGNORED;
                if event.mask.intersects(gone) {
                    self.dir_watch = None;
                    self.hints = Hints::ALL;
                } else if event.mask.contains(AddWatchFlags::IN_CLOSE_WRITE) {
                    self.hints.writer |= event.name.as_deref().is_some_and(|name| name == LOCK_NAME);
                } else {
                    self.hints.names = true;
                }
            } else if Some(event.wd) == self.file_watch {
                self.hints.data = true;
            }
        }
    }
}

/// Whether files there may be written without this kernel being told: network and user-space file systems.
fn has_other_writers(dir: &Path) -> bool {
    const FUSE: u32 = 0x6573_5546;
    const CIFS: u32 = 0xff53_4d42;
    const SMB2: u32 = 0xfe53_4d42;
    const V9FS: u32 = 0x0102_1997;
    const CEPH: u32 = 0x00c3_6400;
    const NFS: u32 = 0x6969;
    let Ok(stat) = statfs::statfs(dir) else { return true };
    // Some architectures have it signed and longer; the numbers have 32 bits.
    [FUSE, CIFS, SMB2, V9FS, CEPH, NFS].contains(&(stat.filesystem_type().0 as u32))
}
