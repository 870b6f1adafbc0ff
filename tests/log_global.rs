//! The global logger, its levels, and what a logger takes from the environment or shows on standard error.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use logtool::render::{Render, Renderer};
use logtool::{
    Category, Compression, Entry, ErrorKind, Item, Level, Levels, LogReader, Logger, Options, debug, debug_enabled,
    error, info, info_enabled, trace, try_info, try_warn, warn, warn_enabled,
};

use crate::harness::{Outcome, Run, temp_dir};
use crate::log_calls::Memory;

/// There is one global logger a process: tests that set it take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

static DB: Category = Category::new("shop.db");

#[test]
fn without_a_global_logger_calls_do_nothing() {
    let _turn = turn();
    let evaluated = Cell::new(0);
    let call = || {
        warn!("{}", evaluated.replace(1));
        (try_warn!("{}", evaluated.replace(1)), warn_enabled!())
    };
    assert_eq!(call(), (Ok(()), false));
    assert_eq!(evaluated.get(), 0);
    let memory = Memory::new();
    let guard = memory.log.set_global().unwrap();
    assert_eq!(call(), (Ok(()), true));
    drop(guard);
    assert!(Logger::global().is_none());
    evaluated.set(0);
    assert_eq!(call(), (Ok(()), false));
    assert_eq!((evaluated.get(), memory.messages().len()), (0, 2));
}

#[test]
fn a_second_global_logger_is_an_error_until_the_first_one_is_gone() {
    let _turn = turn();
    let (first, second) = (Memory::new(), Memory::new());
    let guard = first.log.set_global().unwrap();
    let error = second.log.set_global().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let call = |number: u32| info!("{number}");
    call(1);
    drop(guard);
    call(2);
    let _guard = second.log.set_global().unwrap();
    call(3);
    assert_eq!((first.messages(), second.messages()), (vec!["1".to_owned()], vec!["3".to_owned()]));
}

#[test]
fn levels_of_the_global_logger_change_at_every_call_that_was_made_before() {
    let _turn = turn();
    let memory = Memory::with(|builder| builder.level(Level::Info));
    let _guard = memory.log.set_global().unwrap();
    let call = || {
        debug!("here");
        debug!(category: DB, "there");
        (debug_enabled!(), debug_enabled!(DB))
    };
    assert_eq!(call(), (false, false));
    memory.log.set_level("shop", Level::Debug).unwrap();
    assert_eq!(call(), (false, true));
    memory.log.set_level("shop.db", None).unwrap();
    memory.log.set_level("main", Level::Trace).unwrap();
    assert_eq!(call(), (true, false));
    assert_eq!(memory.messages(), ["there", "here"]);
}

#[test]
fn a_category_may_have_a_logger_of_its_own() {
    let _turn = turn();
    let (all, audit, db) = (Memory::new(), Memory::with(|builder| builder.level(Level::Warn)), Memory::new());
    let call = |number: u32| {
        info!("all {number}");
        info!(category: "audit.login", "audit {number}");
        warn!(category: "audit", "audit! {number}");
        info!(category: DB, "db {number}");
        info!(category: "auditors", "other {number}");
    };
    let audit_guard = audit.log.set_for_category("audit").unwrap();
    call(1);
    assert_eq!((all.messages().len(), audit.messages()), (0, vec!["audit! 1".to_owned()]));
    let _guard = all.log.set_global().unwrap();
    let _db_guard = db.log.set_for_category("shop::db").unwrap();
    let error = all.log.set_for_category("shop.db").unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("shop.db"), "{error}");
    assert!(all.log.set_for_category("no category").is_err());
    call(2);
    audit.log.set_level("audit.login", Level::Info).unwrap();
    call(3);
    drop(audit_guard);
    call(4);
    assert_eq!(audit.messages(), ["audit! 1", "audit! 2", "audit 3", "audit! 3"]);
    assert_eq!(db.messages(), ["db 2", "db 3", "db 4"]);
    assert_eq!(all.messages(), ["all 2", "other 2", "all 3", "other 3", "all 4", "audit 4", "audit! 4", "other 4"]);
}

#[test]
fn threads_see_the_global_logger_and_their_entries_are_all_there() {
    let _turn = turn();
    let memory = Memory::new();
    let guard = memory.log.set_global().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (0..50).for_each(|number| try_info!("{thread} {number}").unwrap()));
        }
    });
    drop(guard);
    let messages = memory.messages();
    for thread in 0..4 {
        let front = format!("{thread} ");
        let numbers: Vec<&str> = messages.iter().filter_map(|message| message.strip_prefix(&front)).collect();
        assert_eq!(numbers, (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}

/// Runs this test again in a process of its own, with `levels` in its environment; `None` if this is that process.
fn in_child(test: &str, levels: &str) -> Option<Outcome> {
    if std::env::var_os("LOGTOOL_TEST_LEVELS").is_some() {
        return None;
    }
    let binary = std::env::current_exe().unwrap();
    let run = Run::new(binary).args(["--exact", "--nocapture", &format!("log_global::{test}")]);
    Some(run.env("LOGTOOL_TEST_LEVELS", levels).run().expect_code(0))
}

#[test]
fn levels_of_the_environment_go_before_those_of_the_program() {
    if in_child("levels_of_the_environment_go_before_those_of_the_program", "warn, shop.db=debug").is_some() {
        return;
    }
    let memory = Memory::with(|builder| builder.levels_from_env("LOGTOOL_TEST_LEVELS").unwrap().level(Level::Trace));
    let of = |category: &str| memory.log.levels().of(category);
    assert_eq!((of("shop"), of("shop.db")), (Some(Level::Warn), Some(Level::Debug)));
}

#[test]
fn options_of_a_file_and_of_the_environment_go_before_those_of_the_program() {
    const NAME: &str = "options_of_a_file_and_of_the_environment_go_before_those_of_the_program";
    // The variable is `LOGTOOL_TEST_LEVELS`: the option `levels` of this prefix.
    if in_child(NAME, "shop.db=debug").is_some() {
        return;
    }
    let dir = temp_dir();
    let file = dir.path().join("options.toml");
    std::fs::write(&file, "levels = 'warn,shop.db=error,net=trace'\nroll_bytes = 4096\nsync = 'never'\n").unwrap();
    let builder = Logger::builder(dir.path().join("log")).options_from_env("LOGTOOL_TEST").unwrap();
    let log = builder.options_from_file(&file).unwrap().level(Level::Trace).roll_bytes(1 << 20).open().unwrap();
    assert_eq!(log.levels().to_string(), "warn,shop.db=debug,net=trace");
    (0..200).for_each(|number| debug!(logger: log, category: DB, "{number} {}", "x".repeat(50)));
    let stats = log.close(std::time::Duration::from_secs(30)).unwrap();
    assert_eq!(stats.writer.entries, 200);
    let segments = std::fs::read_dir(dir.path().join("log"))
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".flog"));
    assert!(segments.count() > 3, "rolled by the file's bytes");
}

#[test]
fn an_environment_that_says_no_levels_is_an_error_that_names_it() {
    let builder = Logger::builder("/sim").levels_from_env("LOGTOOL_TEST_IS_NOT_SET").unwrap();
    let error = builder.levels_from_env("PATH").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("PATH"), "{error}");
}

#[test]
fn serious_entries_are_shown_on_standard_error_where_asked_for() {
    if let Some(outcome) = in_child("serious_entries_are_shown_on_standard_error_where_asked_for", "info") {
        let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains(" shop.db ")).collect();
        assert_eq!(lines.len(), 1, "{}", outcome.stderr);
        assert!(lines[0].contains(" WARN shop.db ") && lines[0].ends_with(" half\\nfull n=1"), "{}", lines[0]);
        return;
    }
    let memory = Memory::with(|builder| builder.mirror_stderr(Level::Warn));
    info!(logger: memory.log, category: DB, "not shown");
    warn!(logger: memory.log, category: DB, n = 1; "half\nfull");
    assert_eq!(memory.messages().len(), 2);
}

/// The level and the category, in a form that nobody else has.
struct Marked;

impl Render for Marked {
    fn render(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let site = entry.site.unwrap();
        out.extend_from_slice(format!("MARKED \u{1b}[1m{}\u{1b}[0m {}", site.level, site.category).as_bytes());
    }
}

#[test]
fn a_program_shows_entries_in_a_form_of_its_own() {
    if let Some(outcome) = in_child("a_program_shows_entries_in_a_form_of_its_own", "info") {
        let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("MARKED")).collect();
        assert_eq!(lines, ["MARKED \u{1b}[1mWARN\u{1b}[0m shop.db"], "{}", outcome.stderr);
        return;
    }
    let memory = Memory::with(|builder| builder.mirror_stderr(Level::Warn).mirror_render(Marked));
    info!(logger: memory.log, category: DB, "not shown");
    warn!(logger: memory.log, category: DB, "shown");
    assert_eq!(memory.messages().len(), 2);
}

#[test]
fn what_is_below_the_floor_of_what_is_stored_is_only_shown() {
    if let Some(outcome) = in_child("what_is_below_the_floor_of_what_is_stored_is_only_shown", "info") {
        let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains(" shop.db ")).collect();
        assert_eq!(lines.len(), 2, "{}", outcome.stderr);
        assert!(lines[0].ends_with(" only shown") && lines[1].ends_with(" both"), "{}", outcome.stderr);
        return;
    }
    let stored: Levels = "debug,shop=error".parse().unwrap();
    let memory = Memory::with(|builder| builder.level(Level::Trace).mirror_stderr(Level::Warn).store_from(stored));
    assert_eq!(try_info!(logger: memory.log, category: DB, "neither: it is not logged"), Ok(()));
    assert!(!info_enabled!(logger: memory.log, DB) && warn_enabled!(logger: memory.log, DB));
    assert_eq!(try_warn!(logger: memory.log, category: DB, "only shown"), Ok(()));
    error!(logger: memory.log, category: DB, "both");
    debug!(logger: memory.log, category: "net", "only stored");
    trace!(logger: memory.log, category: "net", "neither");
    assert_eq!(memory.messages(), ["both", "only stored"]);
    assert_eq!(memory.log.stats().refused, 0);
}

#[test]
fn a_log_in_a_directory_is_read_by_the_command() {
    let dir = temp_dir();
    let log = Logger::builder(dir.path()).open().unwrap();
    info!(logger: log, category: DB, user = 7; "GET {path}", path = "/a");
    log.close(std::time::Duration::from_secs(30)).unwrap();
    let text = crate::harness::logtool().arg("cat").arg(dir.path()).run().expect_code(0).text();
    assert!(text.contains(" INFO shop.db ") && text.ends_with(" GET /a user=7\n"), "{text}");
    let json = crate::harness::logtool().args(["cat", "--json"]).arg(dir.path()).run().expect_code(0).text();
    assert!(json.contains("\"user\":{\"type\":\"i32\",\"value\":7}"), "{json}");
}

#[test]
fn an_entry_longer_than_a_frame_is_shown_whole_by_the_command() {
    let dir = temp_dir();
    for compression in [Compression::None, Compression::Zstd(1)] {
        let dir = dir.path().join(format!("{compression:?}"));
        let log = Logger::builder(&dir).options(Options::new().compression(compression)).open().unwrap();
        let long: String = (0..300_000).map(|number| format!("{number:07} ")).collect();
        info!(logger: log, category: DB, user = 7; "{long}{}", "|");
        info!(logger: log, category: DB, "next");
        log.close(std::time::Duration::from_secs(30)).unwrap();
        let text = crate::harness::logtool().arg("cat").arg(&dir).run().expect_code(0).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with(&format!(" {long}| user=7")) && lines[1].ends_with(" next"));
        crate::harness::logtool().arg("verify").arg(&dir).run().expect_code(0);
    }
}

#[test]
fn a_panic_is_logged_and_the_hook_before_has_its_turn() {
    const CHILD: &str = "LOGTOOL_TEST_PANICS_IN";
    if let Some(dir) = std::env::var_os(CHILD) {
        // The second process: it has hooks of its own.
        std::panic::set_hook(Box::new(|_| eprintln!("the hook before")));
        logtool::log_panics();
        let log = Logger::builder(dir).open().unwrap();
        let _guard = log.set_global().unwrap();
        let panicked = std::thread::Builder::new().name("worker".into()).spawn(|| panic!("out of {}", "luck")).unwrap();
        assert!(panicked.join().is_err());
        std::process::abort();
    }
    let dir = temp_dir();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "log_global::a_panic_is_logged_and_the_hook_before_has_its_turn", "--nocapture"])
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("the hook before"), "{output:?}");
    let mut reader = LogReader::open(dir.path()).unwrap();
    let (mut renderer, mut messages) = (Renderer::new(), Vec::new());
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            let mut message = String::new();
            renderer.push_message(&entry, &mut message);
            messages.push((entry.level(), message));
        }
    }
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].0, Some(Level::Error));
    assert!(messages[0].1.starts_with("thread worker panicked at ") && messages[0].1.ends_with(": out of luck"));
}
