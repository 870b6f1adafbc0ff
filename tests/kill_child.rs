//! The child of the kill test: opens the log, logs from its threads, and notes each call that has returned.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use logtool::Refused;

use crate::kill_entries::{Caller, Filler};
use crate::kill_plan::Plan;
use crate::kill_record::{Record, Stage};

/// A child whose parent is gone ends after this time.
const LIFE_MAX: Duration = Duration::from_secs(60);

/// What a child is told by its parent.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) dir: PathBuf,
    pub(crate) record: PathBuf,
    pub(crate) log_seed: u64,
    pub(crate) round: u64,
    pub(crate) threads: usize,
    /// Whether the log has a retention now and then.
    pub(crate) retains: bool,
    /// Whether entries may be longer than a frame.
    pub(crate) long: bool,
    /// Whether each thread logs to one ring and is killed while it does.
    pub(crate) plain: bool,
}

impl Order {
    /// The words of the command line behind `--child`.
    pub(crate) fn to_args(&self) -> Vec<std::ffi::OsString> {
        let Order { dir, record, log_seed, round, threads, retains, long, plain } = self;
        let numbers = [*log_seed, *round, *threads as u64, u64::from(*retains), u64::from(*long), u64::from(*plain)];
        let paths = [dir.clone().into_os_string(), record.clone().into_os_string()];
        paths.into_iter().chain(numbers.map(|number| number.to_string().into())).collect()
    }

    /// Reads them.
    pub(crate) fn from_args(args: &[String]) -> Order {
        let [dir, record, numbers @ ..] = args else { panic!("two paths and six numbers are needed: {args:?}") };
        let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
        let [log_seed, round, threads, retains, long, plain] = numbers[..] else {
            panic!("six numbers are needed: {args:?}")
        };
        let (threads, retains, long, plain) = (threads as usize, retains != 0, long != 0, plain != 0);
        Order { dir: dir.into(), record: record.into(), log_seed, round, threads, retains, long, plain }
    }

    pub(crate) fn plan(&self) -> Plan {
        let plan = Plan::draw(self.log_seed, self.round, self.threads, self.retains);
        if self.plain { plan.made_plain() } else { plan }
    }
}

/// Runs the child until it is killed, or asked to close.
pub(crate) fn run(order: &Order) -> ExitCode {
    let (plan, record) = (order.plan(), Record::map(&order.record));
    let filler = Filler::new(order.long);
    record.set_stage(Stage::Opening);
    let log = match plan.builder(&order.dir).open() {
        Ok(log) => log,
        Err(error) => {
            eprintln!("the child could not open its log: {error}");
            return ExitCode::from(3);
        }
    };
    record.set_stage(Stage::Open);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..plan.threads {
            let (log, record, filler) = (&log, &record, &filler);
            let Order { round, long, .. } = *order;
            let caller = Caller { log, record, filler, round, thread, long, nests: plan.nests };
            let plan = &plan;
            scope.spawn(move || match plan.entries_per_thread {
                None => log_on(&caller, plan, u64::MAX, started),
                Some(count) => {
                    while goes_on(&caller, started) {
                        let logs = || log_on(&caller, plan, count, started);
                        std::thread::scope(|scope| scope.spawn(logs).join().unwrap());
                    }
                }
            });
        }
    });
    match log.close(Duration::from_secs(30)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the child could not close its log: {error}");
            ExitCode::from(5)
        }
    }
}

fn goes_on(caller: &Caller<'_>, started: Instant) -> bool {
    !caller.record.is_to_close() && started.elapsed() < LIFE_MAX
}

/// Logs `count` entries, or until the end.
fn log_on(caller: &Caller<'_>, plan: &Plan, count: u64, started: Instant) {
    for _ in 0..count {
        if !goes_on(caller, started) {
            return;
        }
        if caller.record.accepted(caller.thread) >= plan.entries_max {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        match caller.log_next() {
            Ok(()) => {}
            Err(Refused::Closed) => return,
            Err(_) => std::thread::yield_now(),
        }
        if let Some(pause) = plan.pause {
            std::thread::sleep(pause);
        }
    }
}
