//! Log calls, from the macro to what a reader shows: text, fields, levels, categories, evaluation.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use logtool::render::Renderer;
use logtool::storage_sim::SimStorage;
use logtool::{Category, ErrorKind, Item, Level, LogReader, Logger, LoggerBuilder, Snapshot};
use logtool::{debug, debug_enabled, error, fatal, info, info_enabled, trace, try_info, try_trace, warn};

/// A log on a disk in memory.
pub(crate) struct Memory {
    pub(crate) storage: SimStorage,
    pub(crate) log: Logger,
}

/// One entry as a reader gives it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) level: Level,
    pub(crate) category: String,
    pub(crate) message: String,
    pub(crate) fields: Vec<String>,
    pub(crate) template: String,
    pub(crate) values: String,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory::with(|builder| builder)
    }

    pub(crate) fn with(set: impl FnOnce(LoggerBuilder) -> LoggerBuilder) -> Memory {
        let storage = SimStorage::new();
        let log = set(Logger::builder("/sim").memory_rings().level(Level::Trace)).open_on(storage.shared()).unwrap();
        Memory { storage, log }
    }

    /// All entries that were logged so far.
    pub(crate) fn read(&self) -> Vec<Read> {
        match self.log.flush(Duration::from_secs(60)) {
            Err(error) if error.kind() != ErrorKind::Closed => panic!("{error}"),
            _ => {}
        }
        let mut reader = LogReader::new(Snapshot::take(self.storage.kill().shared()).unwrap());
        let (mut renderer, mut read) = (Renderer::new(), Vec::new());
        while let Some(item) = reader.next_item().unwrap() {
            let Item::Entry(entry) = item else { continue };
            let site = entry.site.unwrap();
            let mut message = String::new();
            renderer.push_message(&entry, &mut message);
            read.push(Read {
                level: site.level,
                category: site.category.clone(),
                message,
                fields: site.fields.clone(),
                template: site.template.clone(),
                values: format!("{:?}", entry.values().collect::<Vec<_>>()),
            });
        }
        read
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        self.read().into_iter().map(|read| read.message).collect()
    }
}

#[test]
fn each_level_has_its_macro_and_text_its_fields() {
    let memory = Memory::new();
    let (log, id, path) = (&memory.log, 7u32, "/a");
    trace!(logger: log, "t");
    debug!(logger: log, "d {}", 1);
    info!(logger: log, "GET {path} for {id}");
    warn!(logger: log, user = id, took = Duration::from_millis(5); "done {}", 2);
    error!(logger: log, category: "net.http", "e {x:?}", x = path);
    fatal!(logger: log, "f");
    let read = memory.read();
    let levels: Vec<Level> = read.iter().map(|read| read.level).collect();
    assert_eq!(levels, Level::ALL);
    let messages: Vec<&str> = read.iter().map(|read| read.message.as_str()).collect();
    assert_eq!(messages, ["t", "d 1", "GET /a for 7", "done 2 user=7 took=5ms", "e \"/a\"", "f"]);
    assert_eq!(read[2].fields, ["path", "id"]);
    assert_eq!(read[2].template, "GET {path} for {id}");
    assert_eq!(read[2].values, "[Str(\"/a\"), U32(7)]");
    assert_eq!(read[3].fields, ["", "user", "took"]);
    assert_eq!(read[3].values, "[I32(2), U32(7), Duration(0, 5000000)]");
    assert_eq!(read[0].category, "main.log_calls");
    assert_eq!(read[4].category, "net.http");
}

/// Counts how often it is shown.
struct Counts<'a>(&'a Cell<u32>);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.set(self.0.get() + 1);
        f.write_str("shown")
    }
}

#[test]
fn a_disabled_call_evaluates_nothing() {
    let memory = Memory::with(|builder| builder.level(Level::Info));
    let (evaluated, shown) = (Cell::new(0), Cell::new(0));
    let count = || {
        evaluated.set(evaluated.get() + 1);
        Counts(&shown)
    };
    let log = &memory.log;
    for _ in 0..3 {
        debug!(logger: log, field:% = count(); "{} {x}", count(), x = count());
        debug!(logger: log, concat!("{}", ""), count());
        assert_eq!(try_trace!(logger: log, "{}", count()), Ok(()));
    }
    assert_eq!((evaluated.get(), shown.get()), (0, 0));
    info!(logger: log, field:% = count(); "{} {0} {x}", count(), x = count());
    assert_eq!((evaluated.get(), shown.get()), (3, 3));
    assert_eq!(memory.messages(), ["shown shown shown field=shown"]);
}

#[test]
fn arguments_are_evaluated_once_from_left_to_right_in_the_caller() {
    fn logs(log: &Logger, order: &mut Vec<u32>) -> Result<u32, String> {
        let mut next = |number: u32| {
            order.push(number);
            if number < 4 { Ok(number) } else { Err(format!("{number} is too much")) }
        };
        info!(logger: log, a = next(1)?; "{} {x}", next(2)?, x = next(3)?);
        info!(logger: log, "{}", next(4)?);
        Ok(5)
    }
    let (memory, mut order) = (Memory::new(), Vec::new());
    assert_eq!(logs(&memory.log, &mut order), Err("4 is too much".to_owned()));
    assert_eq!(order, [1, 2, 3, 4]);
    assert_eq!(memory.messages(), ["2 3 a=1"]);
}

#[test]
fn values_may_be_moved_into_a_call() {
    let memory = Memory::new();
    let name = String::from("moved");
    info!(logger: memory.log, "{} {}", { name }, Box::new(5));
    assert_eq!(memory.messages(), ["moved 5"]);
}

#[test]
fn a_display_that_logs_comes_before_the_entry_it_belongs_to() {
    struct Logs<'a>(&'a Logger);
    impl fmt::Display for Logs<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            info!(logger: self.0, "inner {}", 1);
            f.write_str("logs")
        }
    }
    let memory = Memory::new();
    info!(logger: memory.log, "{} {} outer", 2, Logs(&memory.log));
    assert_eq!(memory.messages(), ["inner 1", "2 logs outer"]);
}

#[test]
fn a_display_that_panics_leaves_no_entry_and_the_logger_works() {
    struct Panics;
    impl fmt::Display for Panics {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half an ")?;
            panic!("in Display")
        }
    }
    let memory = Memory::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| info!(logger: memory.log, "{} {}", "before", Panics)));
    assert!(panicked.is_err());
    info!(logger: memory.log, "after");
    assert_eq!(memory.messages(), ["after"]);
}

#[test]
fn a_display_that_fails_says_so_where_format_would_panic() {
    struct Fails;
    impl fmt::Debug for Fails {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("so far ")?;
            Err(fmt::Error)
        }
    }
    let memory = Memory::new();
    info!(logger: memory.log, "[{:?}] [{:>3?}]", Fails, Fails);
    let failed = "so far <its Display or Debug failed>";
    assert_eq!(memory.messages(), [format!("[{failed}] [{failed}]")]);
}

#[test]
fn one_call_in_so_many_is_logged() {
    let memory = Memory::new();
    let (evaluated, log) = (Cell::new(0), &memory.log);
    for number in 0..25 {
        info!(logger: log, every: 10, "{number} {}", evaluated.replace(evaluated.get() + 1));
    }
    assert_eq!(memory.messages(), ["0 0", "10 1", "20 2"]);
}

static NET: Category = Category::new("net::http");

mod nested {
    pub(super) fn log(log: &logtool::Logger) {
        logtool::info!(logger: log, "from a module");
    }
}

#[test]
fn levels_hold_for_categories_by_prefix_while_running() {
    let memory = Memory::with(|builder| builder.level(Level::Warn));
    let log = &memory.log;
    let calls = || {
        info!(logger: log, category: NET, "static");
        info!(logger: log, category: "net", "literal");
        info!(logger: log, category: "network", "other");
        nested::log(log);
        (
            info_enabled!(logger: log, NET),
            debug_enabled!(logger: log, category: "net.http.pool"),
            info_enabled!(logger: log),
        )
    };
    assert_eq!(calls(), (false, false, false));
    log.set_level("net", Level::Info).unwrap();
    assert_eq!(calls(), (true, false, false));
    log.set_level("main.log_calls.nested", Level::Trace).unwrap();
    log.set_level("net", None).unwrap();
    log.set_level("net.http", Level::Debug).unwrap();
    assert_eq!(calls(), (true, true, false));
    log.set_level("", Level::Info).unwrap();
    assert_eq!(calls(), (true, true, true));
    assert!(log.set_level("no category", Level::Info).is_err());
    let read = memory.read();
    let shown: Vec<_> = read.iter().map(|read| format!("{} {}", read.category, read.message)).collect();
    let nested = "main.log_calls.nested from a module";
    assert_eq!(
        shown,
        ["net.http static", "net literal", "net.http static", nested, "net.http static", "network other", nested]
    );
}

#[test]
fn two_loggers_have_levels_of_their_own_at_the_same_call() {
    let (quiet, loud) = (Memory::with(|builder| builder.level(Level::Error)), Memory::new());
    for number in 0..3 {
        for log in [&quiet.log, &loud.log] {
            info!(logger: log, "{number}");
        }
    }
    assert_eq!((quiet.messages().len(), loud.messages().len()), (0, 3));
    quiet.log.set_level("main", Level::Info).unwrap();
    info!(logger: quiet.log, "now");
    assert_eq!(quiet.messages(), ["now"]);
}

#[test]
fn a_logger_may_be_behind_any_pointer_and_is_evaluated_once() {
    struct App {
        log: Arc<Logger>,
        asked: Cell<u32>,
    }
    impl App {
        fn log(&self) -> &Arc<Logger> {
            self.asked.set(self.asked.get() + 1);
            &self.log
        }
    }
    let memory = Memory::new();
    let app = App { log: Arc::new(memory.log.clone()), asked: Cell::new(0) };
    info!(logger: app.log(), "{} {}", 1, 2);
    info!(logger: Box::new(memory.log.clone()), "boxed");
    assert_eq!(app.asked.get(), 1);
    assert_eq!(memory.messages(), ["1 2", "boxed"]);
}

#[test]
fn entries_tell_their_thread() {
    let memory = Memory::new();
    let log = memory.log.clone();
    std::thread::Builder::new().name("worker-3".into()).spawn(move || info!(logger: log, "x")).unwrap().join().unwrap();
    memory.log.flush(Duration::from_secs(60)).unwrap();
    let mut reader = LogReader::new(Snapshot::take(memory.storage.kill().shared()).unwrap());
    let mut names = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            names.push(entry.thread.map(str::to_owned));
        }
    }
    assert_eq!(names, [Some("worker-3".to_owned())]);
}

#[test]
fn a_thread_may_log_while_it_ends() {
    struct LogsAtTheEnd(Logger);
    impl Drop for LogsAtTheEnd {
        fn drop(&mut self) {
            info!(logger: self.0, "ending {}", Value(7));
        }
    }
    struct Value(u8);
    impl fmt::Display for Value {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }
    thread_local! {
        static AT_THE_END: Cell<Option<LogsAtTheEnd>> = const { Cell::new(None) };
    }
    let memory = Memory::new();
    let log = memory.log.clone();
    // Set before the thread's buffer is, and so dropped behind it.
    let ends = move || {
        AT_THE_END.set(Some(LogsAtTheEnd(log.clone())));
        info!(logger: log, "running");
    };
    std::thread::spawn(ends).join().unwrap();
    assert_eq!(memory.messages(), ["running", "ending 7"]);
}

#[test]
fn a_call_may_have_many_arguments() {
    let memory = Memory::new();
    let a = 1u8;
    info!(
        logger: memory.log,
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {a} {a:?} {a:2}",
        a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a
    );
    assert_eq!(memory.messages(), [format!("{}1 1  1", "1 ".repeat(32))]);
}

#[test]
fn a_long_text_is_kept_whole() {
    let memory = Memory::new();
    let long = "x".repeat(300_000);
    info!(logger: memory.log, "{long} {:>3}", format_args!("{long}"));
    assert_eq!(memory.messages(), [format!("{long} {long}")]);
}

#[test]
fn a_call_gives_whether_it_was_accepted() {
    let memory = Memory::new();
    assert_eq!(try_info!(logger: memory.log, user = 1; "x"), Ok(()));
    memory.log.close(Duration::from_secs(10)).unwrap();
    assert_eq!(try_info!(logger: memory.log, "x"), Err(logtool::Refused::Closed));
    assert_eq!(memory.messages().len(), 1);
}
