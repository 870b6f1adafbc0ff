//! Signal handlers that log, in threads that log.
#![allow(unsafe_code, reason = "a signal handler is what is tested")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use logtool::{Logger, RingOptions, WhenFull, info};
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::harness::temp_dir;

static LOG: OnceLock<Logger> = OnceLock::new();
static CALLS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: i32) {
    if let Some(log) = LOG.get() {
        info!(logger: log, "in the handler");
    }
}

/// Threads with a ring of their own, and such that share one.
#[test]
fn a_handler_that_logs_does_not_wait_for_the_call_that_it_interrupts() {
    let dir = temp_dir();
    let rings = RingOptions { rings_max: 2, when_full: WhenFull::Drop, ..RingOptions::default() };
    let log = LOG.get_or_init(|| Logger::builder(dir.path()).rings(rings).open().unwrap());
    let action = SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler only logs, which is what it may do; the signal is nobody else's in this process.
    unsafe { sigaction(Signal::SIGUSR2, &action) }.unwrap();
    info!(logger: log, "this thread has a ring");
    let long = "x".repeat(600_000);
    let (threads, of_threads) = std::sync::mpsc::channel();
    for number in 0..3 {
        let (threads, long) = (threads.clone(), long.clone());
        std::thread::spawn(move || {
            // SAFETY: asks for a number only.
            threads.send(unsafe { libc::pthread_self() } as usize).unwrap();
            for call in 0.. {
                info!(logger: log, "call {call} of {number}");
                if call % 1000 == 0 {
                    info!(logger: log, "handed over {long}");
                }
                CALLS.fetch_add(1, SeqCst);
            }
        });
    }
    let threads: Vec<usize> = (0..3).map(|_| of_threads.recv().unwrap()).collect();
    let mut last = (0, Instant::now());
    for number in 0..6000 {
        // SAFETY: the threads live on until the process ends.
        unsafe { libc::pthread_kill(threads[number % 3] as libc::pthread_t, libc::SIGUSR2) };
        std::thread::sleep(Duration::from_micros(50));
        let calls = CALLS.load(SeqCst);
        if calls != last.0 {
            last = (calls, Instant::now());
        }
        assert!(last.1.elapsed() < Duration::from_secs(10), "no call has returned since signal {number}");
    }
    log.close(Duration::from_secs(60)).unwrap();
}
