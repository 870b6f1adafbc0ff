//! One flipped bit in the rings that a kill has left: it costs at most the rest of one ring, and the log says so.
//!
//! `cargo test --release --test killtest -- --bitflip 500 --seed 1`

use std::path::{Path, PathBuf};

use logtool::VerifyOptions;

use crate::kill_check::read;
use crate::kill_child::Order;
use crate::kill_counts::{Counts, Random};
use crate::kill_entries::Filler;
use crate::kill_library::{Log, reopen, repair};

/// What the flips of a run have done.
#[derive(Debug, Default)]
pub(crate) struct Flips {
    pub(crate) counts: Counts,
    /// Flips that have cost entries.
    pub(crate) costly: u64,
    /// Entries that they have cost.
    pub(crate) cost: u64,
    /// Flips that the log tells of.
    pub(crate) told: u64,
}

/// Flips so many bits, each in the rings of a log of its own.
pub(crate) fn run(base: &Path, flips: u64, threads: usize, seed: u64) -> Flips {
    let (filler, mut total, mut random) = (Filler::new(false), Flips::default(), Random(seed));
    for number in 0..flips {
        let (dir, record) = (base.join(format!("flip-{seed}-{number}")), base.join(format!("record-flip-{seed}")));
        let (log_seed, retains, long, plain) = (random.next(), false, false, true);
        let mut log = Log::new(Order { dir, record, log_seed, round: 0, threads, retains, long, plain }, &filler);
        let plan = log.order.plan();
        let ran = log.run_child(&plan);
        match ran.and_then(|()| ring_file(log.dir()).ok_or_else(|| "the kill has left no ring file".to_owned())) {
            Err(what) => log.wrong(&what),
            Ok(ring) => {
                let bit = flip(&ring, &mut random);
                check(&mut log, &filler, &mut random, &mut total);
                if !log.counts.is_good() {
                    eprintln!("bit {bit} of {} was flipped; {plan:?}", ring.display());
                }
            }
        }
        total.counts.add(log.counts);
        if !total.counts.is_good() {
            eprintln!("failed at flip {number}: {:?}", log.order);
            break;
        }
        std::fs::remove_dir_all(log.dir()).unwrap();
    }
    total
}

fn ring_file(dir: &Path) -> Option<PathBuf> {
    let mut paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|extension| extension == "ring"))
}

/// Flips a bit, half of the time one of a byte that is not 0: most of a ring may be empty.
fn flip(ring: &Path, random: &mut Random) -> u64 {
    let mut bytes = std::fs::read(ring).unwrap();
    let len = bytes.len() as u64;
    let mut at = random.below(len);
    if random.once_in(2) {
        at = (0..len).map(|step| (at + step) % len).find(|&at| bytes[at as usize] != 0).unwrap_or(at);
    }
    let bit = random.below(8);
    bytes[at as usize] ^= 1 << bit;
    std::fs::write(ring, bytes).unwrap();
    at * 8 + bit
}

/// Reads the log as it lies there, then settled by a writer or by repair.
fn check(log: &mut Log<'_>, filler: &Filler, random: &mut Random, flips: &mut Flips) {
    let (missing, is_sound) = judge(log, filler, "as it lies there");
    flips.costly += u64::from(missing > 0);
    flips.cost += missing;
    flips.told += u64::from(!is_sound);
    let settled = if random.once_in(2) { reopen(log.dir()) } else { repair(log.dir()).map(|_| ()) };
    match settled {
        Ok(()) => {
            let (missing_then, _) = judge(log, filler, "settled");
            if missing_then != missing {
                log.wrong(&format!(
                    "{missing} entries were missing in the dead log, {missing_then} once it was settled"
                ));
            }
        }
        Err(error) => log.wrong(&format!("it could be neither opened nor repaired: {error}")),
    }
}

/// How many entries are missing, and whether the log is said to be sound.
fn judge(log: &mut Log<'_>, filler: &Filler, how: &str) -> (u64, bool) {
    let found = read(log.dir(), filler, false);
    let is_sound = logtool::snapshot_of(log.dir())
        .map(|snapshot| logtool::verify(&snapshot, &VerifyOptions { threads: 1 }, &|_| {}).is_sound(true));
    match (found, is_sound) {
        (Ok(found), Ok(is_sound)) => {
            let missing = found.tally.missing(&log.rounds);
            let mut counts = Counts { missing: 0, ..found.judge_damaged(&log.rounds) };
            let total = missing.iter().map(|missing| missing.count).sum();
            if missing.len() > 1 {
                eprintln!("{}, {how}: one bit has cost entries of several rings: {missing:?}", log.dir().display());
                counts.missing = total;
            }
            if total > 0 && is_sound {
                log.wrong(&format!("{how}: sound, they say, and there are missing: {missing:?}"));
            }
            log.counts.add(counts);
            (total, is_sound)
        }
        (Err(error), _) | (_, Err(error)) => {
            log.wrong(&format!("{how}: the log can't be read: {error}"));
            (0, false)
        }
    }
}
