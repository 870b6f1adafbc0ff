//! kill -9 against the library: every log call that returned is in the log, once, whole and in its thread's order.
//!
//! A child logs from several threads through the macros and is killed, at a random moment or while it recovers what the kill
//! before left. Then its log is opened by another one, repaired, or read as it lies there, and held against the words that
//! the child shared with its parent. Some children close their log instead.
//!
//! `cargo test --release --test killtest -- --library --threads 4 --kills 2500 --seed 1`

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use logtool::repair::Repaired;
use logtool::storage::Storage;
use logtool::storage_os::OsStorage;
use logtool::{Logger, VerifyOptions};

use crate::kill_check::{State, read, verifies};
use crate::kill_child::Order;
use crate::kill_counts::{Counts, Random};
use crate::kill_entries::Filler;
use crate::kill_plan::{After, End, Plan, ring_dir};
use crate::kill_record::{Record, Stage};
use crate::kill_tally::{Round, STREAMS_MAX};

/// Most children that one log goes through: it is read whole after many of them.
const ROUNDS_PER_LOG: u64 = 12;

/// Whatever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// One log on its way through its kills.
pub(crate) struct Log<'a> {
    pub(crate) order: Order,
    record: Record,
    filler: &'a Filler,
    pub(crate) rounds: Vec<Round>,
    pub(crate) counts: Counts,
}

/// `kills` kills, log after log, in directories below `base`. Ends with the first log of which something is wrong.
pub(crate) fn run(base: &Path, kills: u64, threads: usize, seed: u64) -> Counts {
    let (filler, mut total) = (Filler::new(true), Counts::default());
    let mut random = Random(seed);
    let record_path = base.join(format!("record-{threads}-{seed}"));
    for number in 0.. {
        if total.kills >= kills {
            break;
        }
        let dir = base.join(format!("log-{threads}-{seed}-{number}"));
        let (log_seed, retains, long) = (random.next(), random.once_in(3), random.once_in(4));
        let record = record_path.clone();
        let order = Order { dir, record, log_seed, round: 0, threads, retains, long, plain: false };
        let mut log = Log::new(order, &filler);
        while log.counts.is_good() && log.order.round < ROUNDS_PER_LOG && total.kills + log.counts.kills < kills {
            log.round();
        }
        if log.counts.is_good() {
            log.settle(After::Reopen);
            log.check_ring_dir();
        }
        total.add(log.counts);
        if !log.counts.is_good() {
            eprintln!("failed in child {} of log {number}: {:?}", log.order.round, log.order);
            break;
        }
        std::fs::remove_dir_all(&log.order.dir).unwrap();
        let _ = std::fs::remove_dir(ring_dir(&log.order.dir));
    }
    total
}

impl<'a> Log<'a> {
    pub(crate) fn new(order: Order, filler: &'a Filler) -> Log<'a> {
        let record = Record::map(&order.record);
        Log { order, record, filler, rounds: Vec::new(), counts: Counts::default() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.order.dir
    }

    /// One child, and what becomes of the log behind it.
    fn round(&mut self) {
        let plan = self.order.plan();
        match self.run_child(&plan) {
            Ok(()) if matches!(plan.end, End::Closes(_)) => self.check(State::Settled),
            Ok(()) => self.settle(plan.after),
            Err(what) => self.wrong(&what),
        }
        if !self.counts.is_good() {
            eprintln!("{plan:?}");
        }
        self.order.round += 1;
    }

    /// Starts a child, has it end as the plan says, and keeps what it has said of itself.
    pub(crate) fn run_child(&mut self, plan: &Plan) -> Result<(), String> {
        self.record.clear();
        let mut child = self.spawn();
        let result = self.end(&mut child, plan);
        self.note(plan.end);
        result
    }

    fn spawn(&self) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("--child").args(self.order.to_args()).stdin(Stdio::null());
        command.spawn().unwrap()
    }

    /// Waits for the moment of the plan, and has the child end.
    fn end(&self, child: &mut Child, plan: &Plan) -> Result<(), String> {
        let (stage, delay) = match plan.end {
            End::KilledOpening(delay) => (Stage::Opening, delay),
            End::KilledLogging(delay) | End::KilledClosing(delay, _) | End::Closes(delay) => (Stage::Open, delay),
        };
        let reached = wait(child, || self.record.has_reached(stage));
        std::thread::sleep(delay);
        if reached.is_ok() && matches!(plan.end, End::Closes(_)) {
            self.record.ask_to_close();
            let ended = wait(child, || false);
            drop(child.kill());
            child.wait().unwrap();
            return match ended {
                Err(Some(0)) => Ok(()),
                ended => Err(format!("the child did not close its log: {ended:?}")),
            };
        }
        let mut may_end = false;
        if let End::KilledClosing(_, delay) = plan.end {
            self.record.ask_to_close();
            std::thread::sleep(delay);
            may_end = true;
        }
        drop(child.kill());
        let status = child.wait().unwrap();
        match reached {
            Ok(()) if status.signal() == Some(9) || (may_end && status.success()) => Ok(()),
            reached => Err(format!("the child ended too early or hangs: {reached:?}, {status}")),
        }
    }

    fn note(&mut self, end: End) {
        let was_killed = !matches!(end, End::Closes(_));
        let of = |word: fn(&Record, usize) -> u64| {
            std::array::from_fn::<u64, STREAMS_MAX, _>(|stream| word(&self.record, stream))
        };
        let round = Round { accepted: of(Record::accepted), refused: of(Record::refused), was_killed };
        self.counts.returned += round.accepted.iter().sum::<u64>();
        self.counts.kills += u64::from(was_killed);
        self.rounds.push(round);
    }

    /// Does to the log what is to be done, and checks it.
    fn settle(&mut self, after: After) {
        if !logtool::is_log_dir(self.dir()) {
            // Killed before the log was made.
            if self.counts.returned > 0 {
                self.wrong("entries were accepted and there is no log");
            }
            return;
        }
        match after {
            After::Nothing => {}
            After::Read => {
                let before = files(self.dir());
                self.check(State::Dead);
                if files(self.dir()) != before {
                    self.wrong("a reader has changed the log");
                }
            }
            After::Reopen => match reopen(self.dir()) {
                Ok(()) => self.check(State::Settled),
                Err(error) => self.wrong(&format!("the log could not be opened and closed again: {error}")),
            },
            After::Repair => match repair(self.dir()) {
                Ok(repaired) if repaired.unsettled.is_empty() => self.check(State::Settled),
                Ok(repaired) => self.wrong(&format!("repair left {:?}", repaired.unsettled)),
                Err(error) => self.wrong(&format!("repair: {error}")),
            },
            After::RepairCommand => {
                let output = self.repair_command().output().unwrap();
                if output.status.success() {
                    self.check(State::Settled);
                } else {
                    self.wrong(&format!("logtool repair: {output:?}"));
                }
            }
            After::RepairKilled(delay) => {
                let mut child = self.repair_command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(delay);
                drop(child.kill());
                child.wait().unwrap();
                // What it leaves is as good as what it found.
                self.check(State::Dead);
            }
        }
    }

    fn repair_command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_logtool"));
        command.arg("repair").arg(self.dir());
        command
    }

    fn check(&mut self, state: State) {
        match read(self.dir(), self.filler, self.order.long) {
            Ok(found) => self.counts.add(found.judge(self.dir(), &self.rounds, state)),
            Err(error) => self.wrong(&format!("the log can't be read: {error}")),
        }
        self.counts.unsound += u64::from(!verifies(self.dir(), state));
    }

    /// The log is closed: no ring file is left where some of its runs have kept theirs.
    fn check_ring_dir(&mut self) {
        let left = std::fs::read_dir(ring_dir(self.dir())).map_or(0, Iterator::count);
        if left > 0 {
            self.wrong(&format!("{left} ring files are left in the other directory"));
        }
    }

    pub(crate) fn wrong(&mut self, what: &str) {
        eprintln!("{}: {what}", self.dir().display());
        self.counts.unsound += 1;
    }
}

/// Opens the log and closes it.
pub(crate) fn reopen(dir: &Path) -> logtool::Result<()> {
    Logger::builder(dir).open()?.close(PATIENCE).map(|_| ())
}

pub(crate) fn repair(dir: &Path) -> logtool::Result<Repaired> {
    let storage: Arc<dyn Storage> = Arc::new(OsStorage::new(dir, 0o640));
    logtool::repair::repair(&storage, &VerifyOptions { threads: 1 }, &|_| {})
}

/// Waits until something holds; an error if the child ends before, with its code if it has one, or hangs.
fn wait(child: &mut Child, holds: impl Fn() -> bool) -> Result<(), Option<i32>> {
    let started = Instant::now();
    for look in 0u64.. {
        if holds() {
            return Ok(());
        }
        // That asks the system.
        if look.is_multiple_of(8)
            && let Some(status) = child.try_wait().unwrap()
        {
            return Err(status.code());
        }
        if started.elapsed() > PATIENCE {
            return Err(None);
        }
        std::thread::sleep(Duration::from_micros(30));
    }
    Err(None)
}

/// Names, lengths and times of all files.
fn files(dir: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let of = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        (entry.path(), metadata.len(), metadata.modified().unwrap())
    };
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(of).collect();
    files.sort();
    files
}
