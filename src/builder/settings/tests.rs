//! Each option by each way, what goes before what, and what is refused by name.

use super::*;
use crate::options::{Options, Retention, RingOptions};

/// All that a builder says, but for its directory and its functions.
fn said(builder: LoggerBuilder) -> String {
    fields(builder).into_iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

/// The fields that can be set by name, with their values. A new one does not compile here before it has its place.
fn fields(builder: LoggerBuilder) -> Vec<(&'static str, String)> {
    macro_rules! list {
        ($($field:ident),* $(,)?) => { vec![$((stringify!($field), format!("{:?}", $field))),*] };
    }
    let LoggerBuilder {
        dir: _,
        options,
        rings,
        is_synchronous,
        levels,
        sync_at,
        kept,
        stored,
        mirror_stderr,
        mirror_form: _,
        on_error: _,
        drop_wait,
        settings: _,
    } = builder.settled();
    let RingOptions { ring_bytes, rings_max, in_memory, ring_dir, when_full, clock } = rings;
    let mut all = list![
        is_synchronous,
        levels,
        sync_at,
        kept,
        stored,
        mirror_stderr,
        drop_wait,
        ring_bytes,
        rings_max,
        in_memory,
        ring_dir,
        when_full,
        clock,
    ];
    let Options {
        roll_bytes,
        roll_every,
        retention,
        compression,
        sync,
        sync_thread,
        batch_bytes,
        block_bytes,
        makes_room,
        preallocate_bytes,
        index_stride_bytes,
        mode,
        directory_mode,
        clock: _,
    } = options;
    let Retention { keep_segments, keep_bytes, keep_age, keep_free } = retention;
    all.extend(list![
        roll_bytes,
        roll_every,
        keep_segments,
        keep_bytes,
        keep_age,
        keep_free,
        compression,
        sync,
        sync_thread,
        batch_bytes,
        block_bytes,
        makes_room,
        preallocate_bytes,
        index_stride_bytes,
        mode,
        directory_mode,
    ]);
    all
}

fn builder() -> LoggerBuilder {
    LoggerBuilder::new(Path::new("/sim"))
}

fn levels(text: &str) -> Levels {
    text.parse().unwrap()
}

type Set = fn(LoggerBuilder) -> LoggerBuilder;

/// For each key values as a file has them, and what they mean.
const SAMPLES: &[(&str, &str, Set)] = &[
    ("levels", "'warn,net=trace'", |builder| builder.levels(&levels("warn,net=trace"))),
    ("sync_at", "'error,pay=info'", |builder| builder.sync_at(levels("error,pay=info"))),
    ("keep_under_pressure", "'info'", |builder| builder.keep_under_pressure(Level::Info)),
    ("store_from", "'debug,net=off'", |builder| builder.store_from(levels("debug,net=off"))),
    ("mirror_stderr", "'warn'", |builder| builder.mirror_stderr(Level::Warn)),
    ("drop_wait_ms", "70", |builder| builder.drop_wait(Duration::from_millis(70))),
    ("synchronous", "true", LoggerBuilder::synchronous),
    ("ring_bytes", "65_536", |builder| ring(builder, |rings| rings.ring_bytes = 65_536)),
    ("rings_max", "7", |builder| ring(builder, |rings| rings.rings_max = 7)),
    ("memory_rings", "true", LoggerBuilder::memory_rings),
    ("ring_dir", "'/dev/shm'", |builder| builder.ring_dir("/dev/shm")),
    ("when_full", "'block'", |builder| builder.when_full(WhenFull::Block)),
    ("when_full", "'drop'", |builder| builder.when_full(WhenFull::Drop)),
    ("when_full_wait_ms", "5", |builder| builder.when_full(WhenFull::Wait(Duration::from_millis(5)))),
    ("clock", "'system'", |builder| builder.clock(Clock::System)),
    ("clock", "'coarse'", |builder| builder.clock(Clock::Coarse)),
    ("roll_bytes", "0x1_0000", |builder| builder.roll_bytes(0x1_0000)),
    ("roll_every_s", "60", |builder| option(builder, |options| options.roll_every(Some(Duration::from_secs(60))))),
    ("roll_every_s", "'never'", |builder| option(builder, |options| options.roll_every(None))),
    ("keep_segments", "9", |builder| keep(builder, |kept| kept.keep_segments = Some(9))),
    ("keep_bytes", "10_000", |builder| builder.keep_bytes(10_000)),
    ("keep_age_s", "3600", |builder| keep(builder, |kept| kept.keep_age = Some(Duration::from_secs(3600)))),
    ("keep_free_bytes", "5000", |builder| keep(builder, |kept| kept.keep_free = Some(KeepFree::Bytes(5000)))),
    ("keep_free_percent", "12", |builder| keep(builder, |kept| kept.keep_free = Some(KeepFree::Percent(12)))),
    ("makes_room", "true", |builder| option(builder, |options| options.makes_room(true))),
    ("compression", "'zstd'", |builder| option(builder, |options| options.compression(Compression::Zstd(1)))),
    ("compression", "'zstd:5'", |builder| option(builder, |options| options.compression(Compression::Zstd(5)))),
    ("sync", "'never'", |builder| option(builder, |options| options.sync(SyncPolicy::Never))),
    ("sync", "'each_batch'", |builder| option(builder, |options| options.sync(SyncPolicy::EachBatch))),
    ("sync", "'each_entry'", |builder| option(builder, |options| options.sync(SyncPolicy::EachEntry))),
    ("sync_interval_ms", "250", |builder| builder.sync_interval(Duration::from_millis(250))),
    ("sync_thread", "false", |builder| option(builder, |options| options.sync_thread(false))),
    ("batch_bytes", "1000", |builder| option(builder, |options| options.batch_bytes(1000))),
    ("block_bytes", "8192", |builder| option(builder, |options| options.block_bytes(8192))),
    ("preallocate_bytes", "0", |builder| option(builder, |options| options.preallocate_bytes(0))),
    ("index_stride_bytes", "4096", |builder| option(builder, |options| options.index_stride_bytes(4096))),
    ("mode", "'0600'", |builder| option(builder, |options| options.mode(0o600))),
    ("directory_mode", "'700'", |builder| option(builder, |options| options.directory_mode(0o700))),
];

fn option(mut builder: LoggerBuilder, set: impl FnOnce(Options) -> Options) -> LoggerBuilder {
    builder.options = set(builder.options);
    builder
}

fn ring(mut builder: LoggerBuilder, set: impl FnOnce(&mut RingOptions)) -> LoggerBuilder {
    set(&mut builder.rings);
    builder
}

fn keep(mut builder: LoggerBuilder, set: impl FnOnce(&mut Retention)) -> LoggerBuilder {
    set(&mut builder.options.retention);
    builder
}

fn from_variables(builder: LoggerBuilder, variables: &[(&str, &str)]) -> Result<LoggerBuilder> {
    builder.options_from_variables("SHOP", variables.iter().map(|(name, value)| (name.into(), value.into())))
}

/// A value as an environment or a command line has it.
fn untyped(value: &str) -> String {
    match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(&hex.replace('_', ""), 16).unwrap().to_string(),
        None if value.starts_with('\'') => value.trim_matches('\'').to_owned(),
        None => value.replace('_', ""),
    }
}

#[test]
fn each_option_has_a_name_and_each_name_a_sample() {
    let mut named: Vec<_> = KEYS.iter().map(|key| key.field).collect();
    named.sort_unstable();
    named.dedup();
    let mut all: Vec<_> = fields(builder()).into_iter().map(|(name, _)| name).collect();
    all.sort_unstable();
    assert_eq!(named, all);
    for key in KEYS {
        assert!(SAMPLES.iter().any(|(name, ..)| *name == key.name), "{}", key.name);
    }
}

#[test]
fn each_option_is_set_by_a_variable_and_by_an_argument() {
    for &(name, value, set) in SAMPLES {
        let (value, expected) = (untyped(value), said(set(builder())));
        assert_ne!(expected, said(builder()), "{name} = {value} is the default: the test shows nothing");
        let variable = format!("SHOP_{}", name.to_uppercase());
        assert_eq!(said(from_variables(builder(), &[(&variable, &value)]).unwrap()), expected);
        assert_eq!(said(builder().options_from_args([format!("{name}={value}")]).unwrap()), expected);
    }
}

#[cfg(feature = "config")]
#[test]
fn each_option_is_set_by_a_file() {
    let read = |text: &str| {
        let mut builder = builder();
        builder.settings = file::read(text).unwrap().settings;
        said(builder)
    };
    for &(name, value, set) in SAMPLES {
        assert_eq!(read(&format!("# A line.\n{name} = {value}\n")), said(set(builder())), "{name}");
    }
    // The document's example is one, and sets every option.
    let source = include_str!("file.rs");
    let example: String = source.split("```").nth(1).unwrap().replace("    /// ", "").replace("    ///", "");
    let example = example.strip_prefix("toml\n").unwrap();
    read(example);
    for key in KEYS {
        assert!(example.contains(key.name), "{}", key.name);
    }
}

#[cfg(feature = "config")]
#[test]
fn a_line_of_a_file_that_is_wrong_is_named() {
    for (text, line, what) in [
        ("# one\nrol_bytes = 5\n", 2, "\"rol_bytes\" is no option; these are: levels, sync_at"),
        ("[log]\nroll_bytes = 5000", 1, "\"log\" is no option"),
        ("\n\nroll_bytes = '5000'", 3, "the value of roll_bytes is none: give a whole number"),
        ("roll_bytes = 5", 1, "roll_bytes is 5: give 4096 to"),
        ("ring_bytes = 5000", 1, "ring_bytes is 5000: give a power of two"),
        ("keep_bytes = -1", 1, "the value of keep_bytes is none: give a whole number, or all"),
        ("mode = 640", 1, "as \"0640\""),
        ("synchronous = 'true'", 1, "give true or false"),
        ("mirror_stderr = [1]", 1, "the value of mirror_stderr is none: give a text"),
        ("mode = '0640'\nsync = 'never'\nsync_interval_ms = 5", 3, "sync_interval_ms and sync set the same: give one"),
        ("mode = '0640'\nmode = '0640'", 2, "no TOML"),
        ("mode = '0640'\n= 5", 2, "no TOML"),
    ] {
        let error = file::read(text).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let message = error.to_string();
        assert!(message.starts_with(&format!("line {line}: ")) && message.contains(what), "{text}: {message}");
    }
    let missing = builder().options_from_file("/nowhere/shop.toml").map(|_| ()).unwrap_err();
    assert!(missing.is_not_found() && missing.to_string().starts_with("/nowhere/shop.toml: "), "{missing}");
}

#[test]
fn variables_and_arguments_that_are_wrong_are_named() {
    let error = |result: Result<LoggerBuilder>| result.map(|_| ()).unwrap_err().to_string();
    let of_variables = |variables: &[(&str, &str)]| error(from_variables(builder(), variables));
    for (name, value, what) in [
        ("SHOP_ROL_BYTES", "5", "\"rol_bytes\" is no option"),
        ("SHOP_WHEN_FULL", "wait", "give one of block, drop"),
        ("SHOP_LEVELS", "net=loud", "\"loud\" in \"net=loud\" is no level"),
        ("SHOP_DROP_WAIT_MS", "99999999999", "give at most 4294967295"),
        ("SHOP_KEEP_FREE_PERCENT", "100", "keep_free, in percent, is 100: give 1 to 99"),
        ("SHOP_COMPRESSION", "zstd:x", "give none, zstd or zstd:LEVEL"),
        ("SHOP_MIRROR_STDERR", "loud", "no level of this name"),
    ] {
        let text = of_variables(&[(name, value)]);
        assert!(text.starts_with(&format!("the environment variable {name}: ")) && text.contains(what), "{text}");
    }
    assert!(of_variables(&[("SHOP_SYNC", "never"), ("SHOP_SYNC_INTERVAL_MS", "5")]).contains("give one of them"));
    // Others are not ours, and an empty one is none.
    let others = [("SHOP", "info"), ("SHOPPER_MODE", "x"), ("PATH", "/bin"), ("SHOP_MODE", "")];
    assert_eq!(said(from_variables(builder(), &others).unwrap()), said(builder()));
    for (arg, what) in [
        ("mode", "give NAME=VALUE"),
        ("mod=0640", "\"mod\" is no option"),
        ("mode=rw", "octal digits"),
        ("mode=+777", "octal digits"),
    ] {
        let text = error(builder().options_from_args([arg]));
        assert!(text.starts_with(&format!("the option {arg:?}: ")) && text.contains(what), "{text}");
    }
    assert!(error(builder().options_from_args(["mode=0600", "mode=0640"])).contains("given twice"));
}

#[test]
fn a_command_line_goes_before_the_environment_and_that_before_the_program() {
    // In whatever order they are called.
    let layered = builder()
        .options_from_args(["roll_bytes=6000", "levels=net.http=off"])
        .and_then(|builder| from_variables(builder, &[("SHOP_ROLL_BYTES", "7000"), ("SHOP_BATCH_BYTES", "70")]))
        .and_then(|builder| from_variables(builder, &[("SHOP_LEVELS", "net.http=info,net=debug")]))
        .unwrap();
    #[cfg(feature = "config")]
    let layered = {
        let mut layered = layered;
        let text = "roll_bytes = 8000\nbatch_bytes = 80\nblock_bytes = 8000\nlevels = 'net=warn,db=warn'";
        layered.settings.extend(file::read(text).unwrap().settings);
        layered
    };
    let settled = layered.roll_bytes(9000).level(Level::Error).settled();
    assert_eq!((settled.options.roll_bytes, settled.options.batch_bytes), (6000, 70));
    let of = ["x", "net", "net.http"].map(|category| settled.levels.of(category));
    assert_eq!(of, [Some(Level::Error), Some(Level::Debug), None]);
    #[cfg(feature = "config")]
    assert_eq!((settled.options.block_bytes, settled.levels.of("db")), (8000, Some(Level::Warn)));
}
