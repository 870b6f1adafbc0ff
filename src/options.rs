//! Every tunable of the writer, with its unit, its bounds, its default, and the reason for it.

use std::path::PathBuf;
use std::time::Duration;

use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BLOCK_RAW_BYTES_MAX, ENTRY_BODY_BYTES_MAX, ENTRY_HEAD_BYTES, HEADER_BYTES, PAYLOAD_BYTES_MAX};

/// When what was written is brought to stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Only when [`sync`](crate::Writer::sync) is called.
    Never,
    /// At most this long after it was flushed, or once that is 32 MiB, on a thread of its own, so that logging never waits for
    /// it. Somebody must call [`tick`](crate::Writer::tick) when it is [due](crate::Writer::sync_due) and nothing else is
    /// logged.
    Interval(Duration),
    /// Before each flush returns.
    EachBatch,
    /// Before each call that appends an entry returns.
    EachEntry,
}

/// Whether entries are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Each entry is a frame of its own.
    None,
    /// The entries of a flush are one block, compressed with zstd at this level (1 to 19; above 3 little is gained on logs).
    Zstd(i32),
}

/// How much of the file system is to stay free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFree {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of its size, 1 to 99.
    Percent(u8),
}

/// Which old segments are removed, the oldest first and never the active one. A rule that is `None` keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Keep at most so many segments, the active one included; at least 1.
    pub keep_segments: Option<u64>,
    /// Keep at most so many bytes: segments, rings and quarantine together.
    pub keep_bytes: Option<u64>,
    /// Keep what was logged within this time.
    pub keep_age: Option<Duration>,
    /// Keep so much of the file system free.
    pub keep_free: Option<KeepFree>,
}

impl Retention {
    /// Whether no rule is set.
    pub fn is_none(&self) -> bool {
        *self == Retention::default()
    }
}

/// What stamps the entries of a [`Logger`](crate::Logger): their order across threads, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The processor's time stamp counter, where the kernel itself goes by it (some 10 ns a reading); otherwise as `System`.
    #[default]
    Tsc,
    /// The system's clock (some 25 ns).
    System,
    /// The system's clock as of the kernel's last tick, up to 10 ms ago (some 5 ns): the order of entries of different
    /// threads is lost within a tick.
    Coarse,
}

/// What a log call does where its thread's ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Waits until there is room.
    Block,
    /// Waits so long at most; then the entry is dropped and counted.
    Wait(Duration),
    /// Drops the entry and counts it.
    Drop,
}

/// How the rings of a [`Logger`](crate::Logger) work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Bytes of each thread's ring, a power of two from 4 KiB to 256 MiB. Default 1 MiB: some 4,000 entries of 200 bytes,
    /// which is what comes at full speed while the backend waits for the disk for half a millisecond.
    pub ring_bytes: usize,
    /// How many threads have a ring of their own at a time, 1 to 4096; those beyond share one. Default 64.
    pub rings_max: usize,
    /// Whether the rings are in the memory of the process only: a `kill -9` then loses what was not written yet, some
    /// milliseconds. For file systems that can't map files. Default: no.
    pub in_memory: bool,
    /// The directory of the ring file, where that is not to be the log's: for a log on a file system that can't keep rings, one
    /// that can, such as a tmpfs (whose files end with the machine's run, as the rings then do) or a local disk. Many logs may
    /// share it. Readers, the next writer and `repair` find it as long as it is there under the same path. While the directory of
    /// a killed run's rings is not there (not mounted yet, or not in this container), the log is neither opened to write nor
    /// repaired: an error says what to mount, or what to remove to give these entries up. Only after a reboot a logger makes
    /// its own `ring_dir` anew, as that of a tmpfs is gone, and the log tells of a power cut; what is mounted late must be there
    /// before. Default: none.
    pub ring_dir: Option<PathBuf>,
    /// Default: wait for up to 10 ms, which outlasts what a busy machine makes a thread wait; then drop.
    pub when_full: WhenFull,
    /// Default: the TSC.
    pub clock: Clock,
}

impl Default for RingOptions {
    fn default() -> RingOptions {
        RingOptions {
            ring_bytes: 1 << 20,
            rings_max: 64,
            in_memory: false,
            ring_dir: None,
            when_full: WhenFull::Wait(Duration::from_millis(10)),
            clock: Clock::Tsc,
        }
    }
}

/// Least [`RingOptions::ring_bytes`].
pub const RING_BYTES_MIN: usize = 4 << 10;
/// Largest [`RingOptions::ring_bytes`].
pub const RING_BYTES_MAX: usize = 256 << 20;
/// Largest [`RingOptions::rings_max`].
pub const RINGS_MAX: usize = 4096;

impl RingOptions {
    /// Checks each value against its bounds.
    ///
    /// # Errors
    /// `Invalid`, naming the value and its bounds.
    pub fn validate(&self) -> Result<()> {
        within("ring_bytes", self.ring_bytes as u64, RING_BYTES_MIN as u64, RING_BYTES_MAX as u64)?;
        within("rings_max", self.rings_max as u64, 1, RINGS_MAX as u64)?;
        if self.ring_bytes.is_power_of_two() {
            return Ok(());
        }
        let text = format!("ring_bytes is {}: give a power of two", self.ring_bytes);
        Err(Error::new(ErrorKind::Invalid, text))
    }
}

/// How a [`Writer`](crate::Writer) works. Each field has a method of its name that sets it.
#[derive(Clone, Debug)]
pub struct Options {
    /// A segment is rolled before it grows over this many bytes on disk (a single entry may exceed it).
    /// From 4096 to 2^40; default 256 MiB: verified in well under a second, and few files even in large logs.
    pub roll_bytes: u64,
    /// A segment is rolled when its entries are of another period, counted from 1970 UTC, than the time.
    /// At least one second; default 24 hours; `None` for never.
    pub roll_every: Option<Duration>,
    /// Which old segments are removed. Default: none.
    pub retention: Retention,
    /// Default: none.
    pub compression: Compression,
    /// Default: each second, on a thread of its own.
    pub sync: SyncPolicy,
    /// Whether [`SyncPolicy::Interval`] uses a thread; without one the writer waits for each sync. Default: yes.
    pub sync_thread: bool,
    /// Pending bytes at which an append hands all to the operating system. From 1 to 64 MiB; default 256 KiB, which still
    /// fits into the cache of one core: with 64 KiB the same entries took a third more processor time, with 512 KiB no less.
    pub batch_bytes: usize,
    /// Raw bytes at which a compressed block is closed. From 4 KiB to 1 MiB less 4 KiB, so that content that does not
    /// compress still fits into a frame; default 256 KiB: one flipped bit costs at most that much.
    pub block_bytes: usize,
    /// Whether a log has its oldest segments removed on a full disk until a new one fits, when it is opened and when it grows
    /// out of the active one; otherwise opening is an error, and the active one grows on. The newest is never removed.
    /// Default: no.
    pub makes_room: bool,
    /// How much disk space is reserved ahead of the end of the active segment, in bytes; 0 for none. A quarter of the segment
    /// where that is more, up to 32 MiB. Default 4 MiB: fewer extents, cheaper writes (a tenth of the throughput at full speed),
    /// and the last entries before a full disk still find room.
    pub preallocate_bytes: u64,
    /// Distance of the points of a segment's index, in bytes. At least 4096; default 256 KiB: what a reader then has to
    /// read beyond what it looks for takes under a millisecond.
    pub index_stride_bytes: u64,
    /// Permissions of new files. Default 0o640.
    pub mode: u32,
    /// Permissions of a directory made for the log. Default 0o750.
    pub directory_mode: u32,
    /// Tells the time for everything but entries, which bring theirs: nanoseconds since 1970 UTC. Default: the system's
    /// clock; tests bring their own.
    pub clock: fn() -> i64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            roll_bytes: 256 << 20,
            roll_every: Some(Duration::from_secs(24 * 60 * 60)),
            retention: Retention::default(),
            compression: Compression::None,
            sync: SyncPolicy::Interval(Duration::from_secs(1)),
            sync_thread: true,
            batch_bytes: 256 << 10,
            block_bytes: 256 << 10,
            makes_room: false,
            preallocate_bytes: 4 << 20,
            index_stride_bytes: 256 << 10,
            mode: 0o640,
            directory_mode: 0o750,
            clock: clock::now_ns,
        }
    }
}

/// Least [`Options::roll_bytes`].
pub const ROLL_BYTES_MIN: u64 = 4096;
/// Largest [`Options::roll_bytes`].
pub const ROLL_BYTES_MAX: u64 = 1 << 40;
/// Largest [`Options::batch_bytes`].
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Least [`Options::block_bytes`].
pub const BLOCK_BYTES_MIN: usize = 4 << 10;
/// Largest [`Options::block_bytes`].
pub const BLOCK_BYTES_MAX: usize = PAYLOAD_BYTES_MAX - (4 << 10);
/// Least [`Options::index_stride_bytes`].
pub const INDEX_STRIDE_BYTES_MIN: u64 = 4096;

const _: () = assert!(BLOCK_BYTES_MAX < BLOCK_RAW_BYTES_MAX && ROLL_BYTES_MIN > HEADER_BYTES as u64);

macro_rules! setters {
    ($($name:ident: $type:ty),* $(,)?) => {
        impl Options {
            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](Options::", stringify!($name), ").")]
                #[must_use]
                pub fn $name(mut self, $name: $type) -> Options {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

setters! {
    roll_bytes: u64,
    roll_every: Option<Duration>,
    retention: Retention,
    compression: Compression,
    sync: SyncPolicy,
    sync_thread: bool,
    batch_bytes: usize,
    block_bytes: usize,
    makes_room: bool,
    preallocate_bytes: u64,
    index_stride_bytes: u64,
    mode: u32,
    directory_mode: u32,
    clock: fn() -> i64,
}

impl Options {
    /// The defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Longest body of one part: a longer entry is cut.
    pub(crate) fn part_bytes(&self) -> usize {
        match self.compression {
            Compression::None => ENTRY_BODY_BYTES_MAX,
            Compression::Zstd(_) => self.block_bytes - 2 * ENTRY_HEAD_BYTES,
        }
    }

    /// Checks each value against its bounds.
    ///
    /// # Errors
    /// `Invalid`, naming the value and its bounds.
    pub fn validate(&self) -> Result<()> {
        within("roll_bytes", self.roll_bytes, ROLL_BYTES_MIN, ROLL_BYTES_MAX)?;
        within("batch_bytes", self.batch_bytes as u64, 1, BATCH_BYTES_MAX as u64)?;
        within("block_bytes", self.block_bytes as u64, BLOCK_BYTES_MIN as u64, BLOCK_BYTES_MAX as u64)?;
        within("preallocate_bytes", self.preallocate_bytes, 0, ROLL_BYTES_MAX)?;
        within("index_stride_bytes", self.index_stride_bytes, INDEX_STRIDE_BYTES_MIN, ROLL_BYTES_MAX)?;
        if let Some(period) = self.roll_every {
            within("roll_every, in seconds,", period.as_secs(), 1, 100 * 366 * 24 * 60 * 60)?;
        }
        if let SyncPolicy::Interval(interval) = self.sync {
            let ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
            within("the sync interval, in milliseconds,", ms, 1, 24 * 60 * 60 * 1000)?;
        }
        if let Compression::Zstd(level) = self.compression {
            within("the zstd level", u64::try_from(level).unwrap_or(0), 1, 19)?;
        }
        let Retention { keep_segments, keep_bytes, keep_age, keep_free } = self.retention;
        within("keep_segments", keep_segments.unwrap_or(1), 1, u64::MAX)?;
        within("keep_bytes", keep_bytes.unwrap_or(1), 1, u64::MAX)?;
        within("keep_age, in seconds,", keep_age.map_or(1, |age| age.as_secs()), 1, 200 * 366 * 24 * 60 * 60)?;
        if let Some(KeepFree::Percent(percent)) = keep_free {
            within("keep_free, in percent,", u64::from(percent), 1, 99)?;
        }
        Ok(())
    }
}

fn within(what: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = if most == u64::MAX {
        format!("{what} is {value}: give at least {least}")
    } else {
        format!("{what} is {value}: give {least} to {most}")
    };
    Err(Error::new(ErrorKind::Invalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert!(Options::default().validate().is_ok());
    }

    #[test]
    fn each_value_out_of_bounds_is_refused_by_name() {
        let base = Options::new;
        let refused = [
            ("roll_bytes", base().roll_bytes(100)),
            ("roll_every", base().roll_every(Some(Duration::from_millis(10)))),
            ("batch_bytes", base().batch_bytes(0)),
            ("block_bytes", base().block_bytes(PAYLOAD_BYTES_MAX)),
            ("index_stride_bytes", base().index_stride_bytes(1)),
            ("zstd level", base().compression(Compression::Zstd(0))),
            ("zstd level", base().compression(Compression::Zstd(-5))),
            ("sync interval", base().sync(SyncPolicy::Interval(Duration::ZERO))),
            ("keep_segments", base().retention(Retention { keep_segments: Some(0), ..Retention::default() })),
            ("keep_bytes", base().retention(Retention { keep_bytes: Some(0), ..Retention::default() })),
            ("keep_age", base().retention(Retention { keep_age: Some(Duration::ZERO), ..Retention::default() })),
            (
                "keep_free",
                base().retention(Retention { keep_free: Some(KeepFree::Percent(100)), ..Retention::default() }),
            ),
        ];
        for (name, options) in refused {
            let error = options.validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
