//! What a child does and how it ends: drawn from the seed, so that both it and its parent know, and a run can be repeated.

use std::path::{Path, PathBuf};
use std::time::Duration;

use logtool::{Clock, Compression, Level, Logger, LoggerBuilder, RingOptions, WhenFull};

use crate::kill_counts::Random;

/// How a child ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Killed so long after it began to open the log: within the recovery of the kill before.
    KilledOpening(Duration),
    /// Killed so long after it began to log.
    KilledLogging(Duration),
    /// Asked to close its log after this time, and killed so long after that.
    KilledClosing(Duration, Duration),
    /// It closes its log after this time.
    Closes(Duration),
}

/// What happens to the log between two children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The next child finds it as it is.
    Nothing,
    /// It is read as it is.
    Read,
    /// A logger is opened and closed.
    Reopen,
    /// It is repaired by the library.
    Repair,
    /// It is repaired by the command.
    RepairCommand,
    /// The command is killed so long after it was started to repair it.
    RepairKilled(Duration),
}

/// What is drawn for one child.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) threads: usize,
    pub(crate) pause: Option<Duration>,
    /// A thread that has logged this many is followed by another one.
    pub(crate) entries_per_thread: Option<u64>,
    /// After so many a thread waits for its end: what is logged must be read too.
    pub(crate) entries_max: u64,
    pub(crate) nests: bool,
    roll_bytes: u64,
    keep_bytes: Option<u64>,
    compression: Compression,
    rings: RingOptions,
    is_synchronous: bool,
    /// Its ring file stands in another directory.
    has_ring_dir: bool,
    pub(crate) end: End,
    pub(crate) after: After,
}

impl Plan {
    /// The plan of child number `round` of the log with this seed. `long`: entries may be longer than a frame.
    pub(crate) fn draw(log_seed: u64, round: u64, threads: usize, retains: bool) -> Plan {
        let mut random = Random(log_seed ^ round.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.next();
        let us = |random: &mut Random, most: u64| Duration::from_micros(random.below(most));
        // One size is rolled several times by a child, one now and then, one never.
        let (roll_bytes, entries_max) = match random.below(8) {
            0 => (2 << 20, 24_000),
            1..4 => (64 << 10, 4_000),
            4 => (16 << 10, 1_000),
            _ => (256 << 20, 4_000),
        };
        let end = match random.below(16) {
            0..4 => End::KilledOpening(us(&mut random, 1_500)),
            4 => End::Closes(us(&mut random, 4_000)),
            5 => End::KilledLogging(us(&mut random, 15_000)),
            6 => End::KilledClosing(us(&mut random, 2_000), us(&mut random, 2_000)),
            _ => End::KilledLogging(us(&mut random, 3_000)),
        };
        let after = match random.below(16) {
            0..5 => After::Nothing,
            5..9 => After::Read,
            9..12 => After::Reopen,
            12..14 => After::Repair,
            14 => After::RepairCommand,
            _ => After::RepairKilled(us(&mut random, 4_000)),
        };
        let rings = draw_rings(&mut random);
        // By the coarse clock nothing orders what one thread logs before another one.
        let may_take_turns = rings.clock != Clock::Coarse;
        Plan {
            threads,
            pause: random.once_in(4).then_some(Duration::from_micros(500)),
            entries_per_thread: (random.once_in(5) && may_take_turns).then_some(60),
            entries_max: entries_max / threads as u64,
            nests: random.once_in(4),
            roll_bytes,
            keep_bytes: (retains && random.once_in(2)).then_some(4 * roll_bytes.min(256 << 10)),
            compression: if random.once_in(6) { Compression::Zstd(1) } else { Compression::None },
            rings,
            is_synchronous: random.once_in(12),
            has_ring_dir: random.once_in(4),
            end,
            after,
        }
    }

    /// The same, with one ring a thread, and killed while it logs.
    pub(crate) fn made_plain(self) -> Plan {
        let (End::KilledOpening(delay) | End::KilledLogging(delay) | End::KilledClosing(delay, _) | End::Closes(delay)) =
            self.end;
        let RingOptions { ring_bytes, clock, .. } = self.rings;
        let rings = RingOptions { ring_bytes, clock, when_full: WhenFull::Block, ..RingOptions::default() };
        let (entries_per_thread, nests, is_synchronous, end) = (None, false, false, End::KilledLogging(delay));
        Plan { pause: None, entries_per_thread, nests, is_synchronous, has_ring_dir: false, rings, end, ..self }
    }

    /// The settings of its logger.
    pub(crate) fn builder(&self, dir: &Path) -> LoggerBuilder {
        let mut options = logtool::Options::new().compression(self.compression);
        options.retention.keep_bytes = self.keep_bytes;
        let builder = Logger::builder(dir).options(options).roll_bytes(self.roll_bytes).level(Level::Info);
        let mut rings = self.rings.clone();
        rings.ring_dir = self.has_ring_dir.then(|| ring_dir(dir));
        if self.is_synchronous { builder.synchronous() } else { builder.rings(rings) }
    }
}

/// Where the rings of the log in `dir` stand, if not there.
pub(crate) fn ring_dir(dir: &Path) -> PathBuf {
    dir.with_extension("rings")
}

/// The defaults, or small rings, fewer rings than threads, the other policies and clocks.
fn draw_rings(random: &mut Random) -> RingOptions {
    let default = RingOptions::default();
    RingOptions {
        ring_bytes: [default.ring_bytes, 64 << 10, 16 << 10, 4 << 10][random.below(4) as usize],
        rings_max: if random.once_in(4) { 1 + random.below(3) as usize } else { default.rings_max },
        when_full: match random.below(4) {
            0 => WhenFull::Block,
            1 => WhenFull::Drop,
            _ => default.when_full,
        },
        clock: match random.below(8) {
            0 => Clock::Coarse,
            1 => Clock::System,
            _ => Clock::Tsc,
        },
        ..default
    }
}
