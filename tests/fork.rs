//! A process that forks: the log stays its own, and its children neither write it nor keep it locked when it dies.
#![allow(unsafe_code, reason = "a fork is what is tested")]

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use logtool::{Item, LogReader, Logger, Refused, try_info};
use nix::libc;

use crate::harness::temp_dir;

const CHILD: &str = "LOGTOOL_TEST_FORKS_IN";

#[test]
fn a_child_that_lives_on_neither_writes_the_log_nor_keeps_it_locked() {
    if let Some(dir) = std::env::var_os(CHILD) {
        fork_and_die(std::path::Path::new(&dir));
    }
    let dir = temp_dir();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fork::a_child_that_lives_on_neither_writes_the_log_nor_keeps_it_locked", "--nocapture"])
        .env(CHILD, dir.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(parent.wait().unwrap().signal(), Some(libc::SIGKILL));
    let child: i32 = std::fs::read_to_string(dir.path().join("child")).unwrap().parse().unwrap();
    let lives = || std::path::Path::new(&format!("/proc/{child}")).exists();
    assert!(lives());
    let log = Logger::builder(dir.path().join("log")).open();
    assert!(lives());
    // SAFETY: takes numbers only; the process is the one that was forked for this test.
    unsafe { libc::kill(child, libc::SIGKILL) };
    log.unwrap().close(Duration::from_secs(60)).unwrap();
    let mut reader = LogReader::open(&dir.path().join("log")).unwrap();
    let mut entries = 0;
    while let Some(item) = reader.next_item().unwrap() {
        assert!(!matches!(item, Item::Finding(_)), "{item:?}");
        entries += u64::from(matches!(item, Item::Entry(_)));
    }
    assert_eq!(entries, 1);
}

/// Logs, forks, and is killed; the child stays, and writes down what became of its own call.
fn fork_and_die(dir: &std::path::Path) -> ! {
    let log = Logger::builder(dir.join("log")).open().unwrap();
    try_info!(logger: log, "by the parent").unwrap();
    // SAFETY: the child calls what may be called after a fork: the log call is refused before it takes a lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = try_info!(logger: log, "by the child") == Err(Refused::Closed);
        if refused {
            std::thread::sleep(Duration::from_secs(120));
        }
        // Where it was let write it is gone, and is missed.
        std::process::abort();
    }
    std::thread::sleep(Duration::from_millis(100));
    std::fs::write(dir.join("child"), child.to_string()).unwrap();
    // SAFETY: takes numbers only.
    unsafe { libc::kill(std::process::id() as i32, libc::SIGKILL) };
    unreachable!("it was killed")
}
