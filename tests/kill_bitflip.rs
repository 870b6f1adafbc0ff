//! One flipped bit in the rings that a kill has left: it costs at most the rest of one ring, and the log says so.
//!
//! `cargo test --release --test killtest -- --bitflip 500 --seed 1`

use std::path::{Path, PathBuf};

use logtool::VerifyOptions;

use crate::kill_check::{Found, read};
use crate::kill_child::Order;
use crate::kill_counts::{Counts, Random};
use crate::kill_entries::Filler;
use crate::kill_library::{Log, reopen, repair};

/// Flips so many bits, each in the rings of a log of its own. `None` if a kill leaves no rings.
pub(crate) fn run(base: &Path, flips: u64, threads: usize, seed: u64) -> Option<Counts> {
    let (filler, mut total, mut random) = (Filler::new(false), Counts::default(), Random(seed));
    for number in 0..flips {
        let (dir, record) = (base.join(format!("flip-{seed}-{number}")), base.join(format!("record-flip-{seed}")));
        let (log_seed, retains, long, plain) = (random.next(), false, false, true);
        let mut log = Log::new(Order { dir, record, log_seed, round: 0, threads, retains, long, plain }, &filler);
        let plan = log.order.plan();
        if let Err(what) = log.run_child(&plan) {
            log.wrong(&what);
        } else {
            let ring = ring_file(log.dir())?;
            let bit = flip(&ring, &mut random);
            check(&mut log, &filler, &mut random);
            if !log.counts.is_good() {
                eprintln!("bit {bit} of {} was flipped; {plan:?}", ring.display());
            }
        }
        total.add(log.counts);
        if !total.is_good() {
            eprintln!("failed at flip {number}: {:?}", log.order);
            break;
        }
        std::fs::remove_dir_all(log.dir()).unwrap();
    }
    Some(total)
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
fn check(log: &mut Log<'_>, filler: &Filler, random: &mut Random) {
    judge(log, filler, "as it lies there");
    let settled = if random.once_in(2) { reopen(log.dir()) } else { repair(log.dir()).map(|_| ()) };
    match settled {
        Ok(()) => judge(log, filler, "settled"),
        Err(error) => log.wrong(&format!("it could be neither opened nor repaired: {error}")),
    }
}

fn judge(log: &mut Log<'_>, filler: &Filler, how: &str) {
    let found = read(log.dir(), filler, false);
    let is_sound = logtool::snapshot_of(log.dir())
        .map(|snapshot| logtool::verify(&snapshot, &VerifyOptions { threads: 1 }, &|_| {}).is_sound(true));
    match (found, is_sound) {
        (Ok(found), Ok(is_sound)) => log.counts.add(cost(log.dir(), &found, log, is_sound, how)),
        (Err(error), _) | (_, Err(error)) => log.wrong(&format!("{how}: the log can't be read: {error}")),
    }
}

/// What the flip has cost beyond what it may.
fn cost(dir: &Path, found: &Found, log: &Log<'_>, is_sound: bool, how: &str) -> Counts {
    let missing = found.tally.missing(&log.rounds);
    let mut counts = Counts { missing: 0, ..found.judge_damaged(&log.rounds) };
    if missing.len() > 1 {
        eprintln!("{}, {how}: one bit has cost entries of several rings: {missing:?}", dir.display());
        counts.missing = missing.iter().map(|missing| missing.count).sum();
    }
    if !missing.is_empty() && is_sound {
        eprintln!("{}, {how}: sound, they say, and there are missing: {missing:?}", dir.display());
        counts.unsound += 1;
    }
    counts
}
