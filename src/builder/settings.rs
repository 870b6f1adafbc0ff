//! Options by their names: from a file, the environment, a command line.
//!
//! ```text
//! program < file < environment < command line           the later goes before the earlier, in whatever order they are given
//! ```
//! A name that is no option, or a value that is none of its, is an error where it is read, which names the place. What holds is
//! put together when the log is opened.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::entry::Level;
use crate::error::{Error, ErrorKind, Result};
use crate::levels::Levels;
use crate::options::{Clock, Compression, KeepFree, SyncPolicy, WhenFull};

use super::LoggerBuilder;

#[cfg(feature = "config")]
mod file;
#[cfg(test)]
mod tests;

/// Where a setting comes from: a later one goes before an earlier one, and all before the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// Without the feature nothing reads one.
    #[cfg_attr(not(feature = "config"), allow(dead_code, reason = "made by the feature `config` only"))]
    File,
    Environment,
    CommandLine,
}

/// A value as it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "config"), allow(dead_code, reason = "typed ones come from files only"))]
enum Given {
    Number(u64),
    Flag(bool),
    Text(String),
    /// From where all is text.
    Untyped(String),
    /// What no option has: a date, a list, a number below 0.
    Other,
}

/// What is wrong with a value: what it should be.
type Wrong = String;

impl Given {
    fn number(&self) -> std::result::Result<u64, Wrong> {
        match self {
            Given::Number(number) => Some(*number),
            Given::Untyped(text) => text.parse().ok(),
            Given::Flag(_) | Given::Text(_) | Given::Other => None,
        }
        .ok_or_else(|| "give a whole number".to_owned())
    }

    /// A number, or the word that means that there is none.
    fn number_or(&self, none: &str) -> std::result::Result<Option<u64>, Wrong> {
        match self {
            Given::Text(text) | Given::Untyped(text) if text == none => Ok(None),
            _ => self.number().map(Some).map_err(|wrong| format!("{wrong}, or {none}")),
        }
    }

    fn duration(&self, unit: Duration) -> std::result::Result<Duration, Wrong> {
        let count = u32::try_from(self.number()?).map_err(|_| format!("give at most {}", u32::MAX))?;
        Ok(unit * count)
    }

    fn size(&self) -> std::result::Result<usize, Wrong> {
        usize::try_from(self.number()?).map_err(|_| "give less".to_owned())
    }

    fn flag(&self) -> std::result::Result<bool, Wrong> {
        match self {
            Given::Flag(flag) => Some(*flag),
            Given::Untyped(text) => text.parse().ok(),
            Given::Number(_) | Given::Text(_) | Given::Other => None,
        }
        .ok_or_else(|| "give true or false".to_owned())
    }

    fn text(&self) -> std::result::Result<&str, Wrong> {
        match self {
            Given::Text(text) | Given::Untyped(text) => Ok(text),
            Given::Number(_) | Given::Flag(_) | Given::Other => Err("give a text".to_owned()),
        }
    }

    /// One of some words.
    fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> std::result::Result<T, Wrong> {
        let found = self.text().ok().and_then(|text| words.iter().find(|(word, _)| *word == text));
        let all = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        found.map(|(_, value)| *value).ok_or_else(|| format!("give one of {}", all()))
    }

    fn levels(&self) -> std::result::Result<Levels, Wrong> {
        self.text()?.parse().map_err(|error: Error| error.message())
    }

    /// Permission bits in octal: as a number they would too easily be taken for decimal ones.
    fn mode(&self) -> std::result::Result<u32, Wrong> {
        let digits = self.text().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()).filter(|mode| *mode <= 0o777);
        mode.ok_or_else(|| "give permission bits as a text of octal digits, as \"0640\"".to_owned())
    }

    fn compression(&self) -> std::result::Result<Compression, Wrong> {
        let compression = match self.text()? {
            "none" => Some(Compression::None),
            "zstd" => Some(Compression::Zstd(1)),
            text => text.strip_prefix("zstd:").and_then(|level| level.parse().ok()).map(Compression::Zstd),
        };
        compression.ok_or_else(|| "give none, zstd or zstd:LEVEL".to_owned())
    }
}

/// An option that can be set by its name.
struct Key {
    name: &'static str,
    /// The field that it sets: of several keys of one, only one may be given at a place.
    field: &'static str,
    set: fn(&mut LoggerBuilder, &Given) -> std::result::Result<(), Wrong>,
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// `name, field: |builder, given| what is set = to what`, each value by a method of [`Given`] that may fail.
macro_rules! keys {
    ($($name:ident, $field:ident: |$builder:ident, $given:ident| $set:expr;)*) => {
        &[$(Key {
            name: stringify!($name),
            field: stringify!($field),
            set: |$builder, $given| {
                $set;
                Ok(())
            },
        }),*]
    };
}

/// All of them: what [`Options`](crate::Options), [`RingOptions`](crate::RingOptions) and the builder have, but for the functions.
const KEYS: &[Key] = keys! {
    levels, levels: |builder, given| builder.levels.overlay(&given.levels()?);
    sync_at, sync_at: |builder, given| builder.sync_at.overlay(&given.levels()?);
    keep_under_pressure, kept: |builder, given| builder.kept.overlay(&given.levels()?);
    store_from, stored: |builder, given| builder.stored.overlay(&given.levels()?);
    mirror_stderr, mirror_stderr: |builder, given| builder.mirror_stderr = level_or_off(given)?;
    drop_wait_ms, drop_wait: |builder, given| builder.drop_wait = given.duration(MILLISECOND)?;
    synchronous, is_synchronous: |builder, given| builder.is_synchronous = given.flag()?;
    ring_bytes, ring_bytes: |builder, given| builder.rings.ring_bytes = given.size()?;
    rings_max, rings_max: |builder, given| builder.rings.rings_max = given.size()?;
    memory_rings, in_memory: |builder, given| builder.rings.in_memory = given.flag()?;
    ring_dir, ring_dir: |builder, given| builder.rings.ring_dir = Some(given.text()?.into());
    when_full, when_full: |builder, given| {
        builder.rings.when_full = given.one_of(&[("block", WhenFull::Block), ("drop", WhenFull::Drop)])?
    };
    when_full_wait_ms, when_full: |builder, given| {
        builder.rings.when_full = WhenFull::Wait(given.duration(MILLISECOND)?)
    };
    clock, clock: |builder, given| {
        let clocks = [("tsc", Clock::Tsc), ("system", Clock::System), ("coarse", Clock::Coarse)];
        builder.rings.clock = given.one_of(&clocks)?
    };
    roll_bytes, roll_bytes: |builder, given| builder.options.roll_bytes = given.number()?;
    roll_every_s, roll_every: |builder, given| {
        builder.options.roll_every = given.number_or("never")?.map(Duration::from_secs)
    };
    keep_segments, keep_segments: |builder, given| {
        builder.options.retention.keep_segments = given.number_or("all")?
    };
    keep_bytes, keep_bytes: |builder, given| builder.options.retention.keep_bytes = given.number_or("all")?;
    keep_age_s, keep_age: |builder, given| {
        builder.options.retention.keep_age = given.number_or("all")?.map(Duration::from_secs)
    };
    keep_free_bytes, keep_free: |builder, given| {
        builder.options.retention.keep_free = given.number_or("none")?.map(KeepFree::Bytes)
    };
    keep_free_percent, keep_free: |builder, given| {
        let percent = u8::try_from(given.number()?).map_err(|_| "give 1 to 99".to_owned())?;
        builder.options.retention.keep_free = Some(KeepFree::Percent(percent))
    };
    makes_room, makes_room: |builder, given| builder.options.makes_room = given.flag()?;
    compression, compression: |builder, given| builder.options.compression = given.compression()?;
    sync, sync: |builder, given| {
        let words = [
            ("never", SyncPolicy::Never),
            ("each_batch", SyncPolicy::EachBatch),
            ("each_entry", SyncPolicy::EachEntry),
        ];
        builder.options.sync = given.one_of(&words)?
    };
    sync_interval_ms, sync: |builder, given| {
        builder.options.sync = SyncPolicy::Interval(given.duration(MILLISECOND)?)
    };
    sync_thread, sync_thread: |builder, given| builder.options.sync_thread = given.flag()?;
    batch_bytes, batch_bytes: |builder, given| builder.options.batch_bytes = given.size()?;
    block_bytes, block_bytes: |builder, given| builder.options.block_bytes = given.size()?;
    preallocate_bytes, preallocate_bytes: |builder, given| builder.options.preallocate_bytes = given.number()?;
    index_stride_bytes, index_stride_bytes: |builder, given| builder.options.index_stride_bytes = given.number()?;
    mode, mode: |builder, given| builder.options.mode = given.mode()?;
    directory_mode, directory_mode: |builder, given| builder.options.directory_mode = given.mode()?;
};

fn level_or_off(given: &Given) -> std::result::Result<Option<Level>, Wrong> {
    match given.text()? {
        "off" => Ok(None),
        text => text.parse().map(Some).map_err(|unknown: crate::entry::UnknownLevel| format!("{unknown}, or off")),
    }
}

/// One option of a place that may set several.
pub(super) struct Setting {
    layer: Layer,
    key: &'static Key,
    given: Given,
}

impl LoggerBuilder {
    /// Takes the options that environment variables set: `PREFIX_SYNC_INTERVAL_MS=200` for the option `sync_interval_ms`, and so
    /// on, with the names of [`options_from_file`](LoggerBuilder#method.options_from_file). They go before those of the program
    /// and of a file. A variable that is empty sets nothing. Take a prefix that only the logger has, such as `SHOP_LOG`, not
    /// `SHOP`, whose other variables are none of its options.
    ///
    /// # Errors
    /// `Invalid` if a variable whose name begins with `PREFIX_` names no option, or its value is none, naming what is wrong.
    pub fn options_from_env(self, prefix: &str) -> Result<LoggerBuilder> {
        self.options_from_variables(prefix, std::env::vars_os())
    }

    fn options_from_variables(
        mut self,
        prefix: &str,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<LoggerBuilder> {
        let start = format!("{prefix}_");
        let mut place = Place::new(Layer::Environment);
        for (name, value) in variables {
            let Some((name, rest)) = name.to_str().and_then(|name| Some((name, name.strip_prefix(&start)?))) else {
                continue;
            };
            let wrong =
                |what: String| Error::new(ErrorKind::Invalid, format!("the environment variable {name}: {what}"));
            let value = value.into_string().map_err(|_| wrong("is not UTF-8".to_owned()))?;
            if !value.is_empty() {
                place.set(&rest.to_ascii_lowercase(), Given::Untyped(value)).map_err(wrong)?;
            }
        }
        self.settings.append(&mut place.settings);
        Ok(self)
    }

    /// Takes options as the arguments of a command line set them, each `NAME=VALUE`, with the names of
    /// [`options_from_file`](LoggerBuilder#method.options_from_file): `sync_interval_ms=200`. They go before all others.
    ///
    /// # Errors
    /// `Invalid` if one names no option, or its value is none, naming what is wrong.
    pub fn options_from_args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Result<LoggerBuilder> {
        let mut place = Place::new(Layer::CommandLine);
        for arg in args {
            let arg = arg.as_ref();
            let wrong = |what: String| Error::new(ErrorKind::Invalid, format!("the option {arg:?}: {what}"));
            let (name, value) =
                arg.split_once('=').ok_or_else(|| wrong("give NAME=VALUE, as roll_bytes=67108864".to_owned()))?;
            place.set(name, Given::Untyped(value.to_owned())).map_err(wrong)?;
        }
        self.settings.append(&mut place.settings);
        Ok(self)
    }

    /// Takes the levels that the environment variable `name` sets, as [`Levels`] reads them: `info,net=trace`. They go before
    /// those of the program and of a file. A variable that is not set, or empty, sets nothing.
    ///
    /// # Errors
    /// `Invalid` if it does not say levels, naming what is wrong.
    pub fn levels_from_env(mut self, name: &str) -> Result<LoggerBuilder> {
        let Some(text) = std::env::var_os(name) else { return Ok(self) };
        let wrong = |what: String| Error::new(ErrorKind::Invalid, format!("the environment variable {name}: {what}"));
        let text = text.into_string().map_err(|_| wrong("is not UTF-8: give levels, as info,net=trace".to_owned()))?;
        let mut place = Place::new(Layer::Environment);
        place.set("levels", Given::Untyped(text)).map_err(wrong)?;
        self.settings.append(&mut place.settings);
        Ok(self)
    }

    /// The options as they hold: those of the program, with what was set by name.
    pub(super) fn settled(mut self) -> LoggerBuilder {
        let mut settings = std::mem::take(&mut self.settings);
        settings.sort_by_key(|setting| setting.layer);
        for Setting { key, given, .. } in &settings {
            // Each was tried when it was taken.
            let _ = (key.set)(&mut self, given);
        }
        self
    }
}

/// The settings of one file, environment or command line.
struct Place {
    layer: Layer,
    settings: Vec<Setting>,
}

impl Place {
    fn new(layer: Layer) -> Place {
        Place { layer, settings: Vec::new() }
    }

    /// Takes a setting, if there is such an option, and it can have this value.
    fn set(&mut self, name: &str, given: Given) -> std::result::Result<(), Wrong> {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
            return Err(format!("{name:?} is no option; these are: {}", names.join(", ")));
        };
        if let Some(other) = self.settings.iter().find(|setting| setting.key.field == key.field) {
            return Err(match other.key.name {
                other if other == name => format!("{name} is given twice"),
                other => format!("{name} and {other} set the same: give one of them"),
            });
        }
        // Tried by itself, so that an error is that of this one.
        let mut tried = LoggerBuilder::new(Path::new(""));
        (key.set)(&mut tried, &given).map_err(|wrong| format!("the value of {name} is none: {wrong}"))?;
        let bounds = tried.options.validate().and_then(|()| tried.rings.validate());
        bounds.map_err(|error| error.message())?;
        self.settings.push(Setting { layer: self.layer, key, given });
        Ok(())
    }
}
