//! `logtool level` and the programs whose levels it changes: what is asked for holds, and whatever is asked, and whenever, the
//! log stays what it is.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logtool::ring_builder;
use logtool::storage::Storage;
use logtool::storage_os::OsStorage;
use logtool::{
    Category, Item, Level, LogReader, Logger, LoggerBuilder, Options, info, running_levels, set_running_levels, trace,
    trace_enabled,
};

use crate::harness::{Run, logtool, temp_dir};

static NET: Category = Category::new("level_cli.net");

const LONG: Duration = Duration::from_secs(30);

/// Where requests and the levels in force stand in the ring file.
const AREAS: [std::ops::Range<u64>; 2] = [3104..3584, 3592..4096];

fn open(dir: &Path, set: impl FnOnce(LoggerBuilder) -> LoggerBuilder) -> Logger {
    set(Logger::builder(dir)).open().unwrap()
}

fn level(dir: &Path, args: &[&str]) -> Run {
    logtool().arg("level").arg(dir).args(args)
}

fn ring_file(dir: &Path) -> fs::File {
    fs::OpenOptions::new().read(true).write(true).open(dir.join("00000001.ring")).unwrap()
}

fn count(dir: &Path) -> usize {
    let mut reader = LogReader::open(dir).unwrap();
    let mut entries = 0;
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Entry(_) => entries += 1,
            Item::Finding(finding) => panic!("{finding:?}"),
            Item::Note(_) => {}
        }
    }
    entries
}

#[test]
fn what_is_asked_for_holds_and_is_shown() {
    let dir = temp_dir();
    let log = open(dir.path(), |builder| builder.level(Level::Warn));
    assert_eq!(level(dir.path(), &[]).run().expect_code(0).text(), "warn\n");
    trace!(logger: log, category: NET, "not logged");
    let outcome = level(dir.path(), &["level_cli.net=trace,later=debug", "off"]).run().expect_code(0);
    assert_eq!(outcome.text(), "off,level_cli.net=trace,later=debug\n");
    assert!(outcome.stderr.contains(&format!("applied by process {}", std::process::id())), "{}", outcome.stderr);
    assert!(trace_enabled!(logger: log, category: NET));
    trace!(logger: log, category: NET, "logged");
    info!(logger: log, "not logged");
    // A category that has not logged before.
    info!(logger: log, category: "later.one", "logged");
    // The program's own changes are shown, too.
    log.set_level("later", Level::Fatal).unwrap();
    let start = Instant::now();
    while running_levels(dir.path(), LONG).unwrap().levels.of("later") != Some(Level::Fatal) {
        assert!(start.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(20));
    }
    log.close(LONG).unwrap();
    assert_eq!(count(dir.path()), 2);
}

#[test]
fn calls_without_a_logger_know_of_it() {
    let dir = temp_dir();
    let log = open(dir.path(), |builder| builder);
    let _guard = log.set_for_category("level_cli.own").unwrap();
    let call = || trace!(category: "level_cli.own.part", "now and then");
    call();
    level(dir.path(), &["level_cli.own=trace"]).run().expect_code(0);
    call();
    level(dir.path(), &["level_cli.own=off"]).run().expect_code(0);
    call();
    log.close(LONG).unwrap();
    assert_eq!(count(dir.path()), 1);
}

#[test]
fn several_who_ask_at_once_all_have_their_way() {
    let dir = temp_dir();
    let log = open(dir.path(), |builder| builder);
    std::thread::scope(|scope| {
        for number in 0..5 {
            let path = dir.path();
            scope.spawn(move || {
                let levels = format!("c{number}=trace").parse().unwrap();
                set_running_levels(path, &levels, LONG).unwrap();
            });
        }
    });
    for number in 0..5 {
        assert_eq!(log.levels().of(&format!("c{number}")), Some(Level::Trace), "{}", log.levels());
    }
}

#[test]
fn what_can_not_be_asked_says_why() {
    let dir = temp_dir();
    let path = dir.path();
    let fails = |reason: &str| {
        for args in [&[][..], &["net=trace"]] {
            let outcome = level(path, args).run().expect_code(2);
            assert!(outcome.stderr.contains(reason) && outcome.text().is_empty(), "{}", outcome.stderr);
        }
    };
    let outcome = level(&path.join("none"), &[]).run().expect_code(2);
    assert!(outcome.stderr.contains("No such file"), "{}", outcome.stderr);
    fails("no logtool log");
    open(path, |builder| builder).close(LONG).unwrap();
    fails("nobody writes this log now");
    for set in [LoggerBuilder::memory_rings, LoggerBuilder::synchronous] {
        let log = open(path, set);
        fails(&format!("process {} writes this log without a ring file", std::process::id()));
        log.close(LONG).unwrap();
    }
    let _log = open(path, |builder| builder);
    let outcome = level(path, &[&format!("{}=trace", "n".repeat(464))]).run().expect_code(2);
    assert!(outcome.stderr.contains("give at most 464 at a time"), "{}", outcome.stderr);
    let outcome = level(path, &[","]).run().expect_code(2);
    assert!(outcome.stderr.contains("no level is given"), "{}", outcome.stderr);
}

#[test]
fn who_may_not_write_the_log_may_not_change_its_levels() {
    let dir = temp_dir();
    let log = open(dir.path(), |builder| builder);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for file in fs::read_dir(dir.path()).unwrap() {
        fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o444)).unwrap();
    }
    let run = |args: &[&str]| {
        if nix::unistd::geteuid().is_root() {
            let user = ["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_logtool"), "level"];
            Run::new("setpriv").args(user).arg(dir.path()).args(args).run()
        } else {
            level(dir.path(), args).run()
        }
    };
    assert_eq!(run(&[]).expect_code(0).text(), "info\n");
    let outcome = run(&["trace"]).expect_code(2);
    assert!(outcome.stderr.contains("only who may write the log may change its levels"), "{}", outcome.stderr);
    assert_eq!(log.levels().of("any"), Some(Level::Info));
}

#[test]
fn a_writer_that_does_not_answer_is_told_of_and_never_sees_the_request() {
    let dir = temp_dir();
    let storage = Arc::new(OsStorage::new(dir.path(), 0o640));
    let (_writer, file) = ring_builder::open(Arc::clone(&storage) as Arc<dyn Storage>, Options::new()).unwrap();
    let bytes = file.encode();
    fs::write(dir.path().join(file.name()), &bytes).unwrap();
    let locked = storage.open_write(&file.name()).unwrap();
    assert!(locked.try_lock().unwrap());
    let outcome = level(dir.path(), &["trace"]).run().expect_code(2);
    assert!(outcome.stderr.contains("not answered within 3s"), "{}", outcome.stderr);
    assert!(fs::read(dir.path().join(file.name())).unwrap() == bytes);
    drop(locked);
}

#[test]
fn whatever_stands_there_the_writer_stays_sound() {
    let dir = temp_dir();
    let log = open(dir.path(), |builder| builder);
    running_levels(dir.path(), LONG).unwrap();
    let file = ring_file(dir.path());
    let mut x = 42u64;
    for round in 0..40 {
        for area in AREAS {
            let bytes: Vec<u8> = area
                .clone()
                .map(|_| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if round % 4 == 0 { 0xff } else { (x >> 56) as u8 }
                })
                .collect();
            file.write_all_at(&bytes, area.start).unwrap();
        }
        info!(logger: log, "entry {round}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(log.levels().to_string(), "");
    // The levels in force are told anew, and a request works as ever.
    assert_eq!(level(dir.path(), &[]).run().expect_code(0).text(), "info\n");
    level(dir.path(), &["warn"]).run().expect_code(0);
    info!(logger: log, "not logged");
    let copy = temp_dir();
    log.flush(LONG).unwrap();
    for name in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()) {
        fs::copy(dir.path().join(&name), copy.path().join(&name)).unwrap();
    }
    log.close(LONG).unwrap();
    assert_eq!((count(dir.path()), count(copy.path())), (40, 40));
}

#[test]
fn settings_that_a_program_can_not_take_are_refused_and_the_next_question_is_answered() {
    let dir = temp_dir();
    let many = (0..1020).map(|number| format!("c{number}=info")).collect::<Vec<_>>().join(",");
    let log = open(dir.path(), |builder| builder.levels(&many.parse().unwrap()));
    let refused = set_running_levels(dir.path(), &"a=off,b=off,c=off,d=off,e=off".parse().unwrap(), LONG).unwrap_err();
    assert_eq!(refused.kind(), logtool::ErrorKind::Invalid);
    assert!(refused.to_string().contains("did not take these levels"), "{refused}");
    assert_eq!(log.levels().to_string(), many);
    assert!(running_levels(dir.path(), LONG).unwrap().is_cut);
    set_running_levels(dir.path(), &"c7=off".parse().unwrap(), LONG).unwrap();
    assert_eq!(log.levels().to_string(), many.replace("c7=info", "c7=off"));
}
