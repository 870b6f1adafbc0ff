//! What a log call costs on its normal path: nothing is allocated, and nothing is asked of the system.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

use logtool::{Logger, RingOptions, WhenFull, debug, info};

use crate::harness::temp_dir;

/// A type without a stored form: its Display runs in the call.
struct Shown(u32);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{:08x}>", self.0)
    }
}

/// One call of each kind.
fn log_all(log: &Logger, number: u32) {
    let path = "/api/v1/resource";
    debug!(logger: log, "not logged {number}");
    info!(logger: log, "a text");
    info!(logger: log, user = number, took = Duration::from_millis(5); "GET {path} {:.3} {number:>8}", 0.5);
    info!(logger: log, "by its Display {}", Shown(number));
}

#[test]
fn a_call_allocates_nothing() {
    let dir = temp_dir();
    // More than is logged here: no call has to wait.
    let rings = RingOptions { ring_bytes: 4 << 20, when_full: WhenFull::Block, ..RingOptions::default() };
    let log = Logger::builder(dir.path()).rings(rings.clone()).open().unwrap();
    let other_dir = temp_dir();
    let other = Logger::builder(other_dir.path()).rings(rings).open().unwrap();
    // The first calls have rings made, sites defined, levels looked up, and a buffer.
    let _guard = log.set_for_category("call_path").unwrap();
    let log_both = |number| {
        [&log, &other].into_iter().for_each(|log| log_all(log, number));
        info!(category: "call_path", "to the logger of its category {number}");
    };
    log_both(0);
    let counted = allocation_counter::measure(|| {
        (1..2000).for_each(|number| {
            log_both(number);
        });
    });
    assert_eq!(counted.count_total, 0);
    assert!(log.close(Duration::from_secs(60)).unwrap().writer.entries >= 2000 * (3 + 1));
}

/// System calls of this thread so far, as the kernel counts those that read or write, and times it went to sleep by itself.
fn asked_of_the_system() -> (u64, u64) {
    let number = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].trim().parse::<u64>().unwrap()
    };
    // One read each, however long it is: what is counted includes them.
    let read = |name: &str| {
        let mut bytes = [0; 8192];
        let len = File::open(format!("/proc/thread-self/{name}")).unwrap().read(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let (io, status) = (read("io"), read("status"));
    let calls = number(&io, "syscr:") + number(&io, "syscw:");
    (calls, number(&status, "voluntary_ctxt_switches:"))
}

#[test]
fn a_call_neither_reads_nor_writes_nor_sleeps() {
    let dir = temp_dir();
    let log = Logger::builder(dir.path()).when_full(WhenFull::Block).open().unwrap();
    log_all(&log, 0);
    // On a busy machine a page fault may wait for the disk, which counts as sleeping: not in each round.
    let has_slept = (0..10).all(|_| {
        log.flush(Duration::from_secs(60)).unwrap();
        let before = asked_of_the_system();
        let own = asked_of_the_system().0 - before.0;
        // Far less than a ring holds: no call waits.
        (1..500).for_each(|number| log_all(&log, number));
        let after = asked_of_the_system();
        assert_eq!(after.0 - before.0, 2 * own);
        after.1 > before.1
    });
    assert!(!has_slept, "calls slept in each of 10 rounds");
}
