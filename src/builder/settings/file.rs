//! Options from a TOML file.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::error::{Error, ErrorKind, Result};

use super::{Given, Layer, LoggerBuilder, Place};

impl LoggerBuilder {
    /// Takes the options that a TOML file sets. They go before those of the program, in whatever order they are given. Each has
    /// the name of its field in [`Options`](crate::Options) and [`RingOptions`](crate::RingOptions) or of its method here, with
    /// its unit behind it:
    ///
    /// ```toml
    /// levels = "info,net=trace"            # these four add to what the program says
    /// sync_at = "error,shop.pay=info"
    /// keep_under_pressure = "info"
    /// store_from = "debug"
    /// mirror_stderr = "warn"               # or "off"
    /// drop_wait_ms = 2000
    /// synchronous = false
    ///
    /// ring_bytes = 1_048_576
    /// rings_max = 64
    /// memory_rings = false
    /// ring_dir = "/dev/shm"
    /// when_full_wait_ms = 10               # or: when_full = "block", "drop"
    /// clock = "tsc"                        # "system", "coarse"
    ///
    /// roll_bytes = 268_435_456
    /// roll_every_s = 86_400                # or "never"
    /// keep_segments = 100                  # this and the next two: or "all"
    /// keep_bytes = 6_442_450_944
    /// keep_age_s = 1_209_600
    /// keep_free_percent = 10               # or: keep_free_bytes = 1_000_000, "none"
    /// makes_room = false
    /// compression = "none"                 # "zstd", "zstd:3"
    /// sync_interval_ms = 1000              # or: sync = "never", "each_batch", "each_entry"
    /// sync_thread = true
    /// batch_bytes = 262_144
    /// block_bytes = 262_144
    /// preallocate_bytes = 4_194_304
    /// index_stride_bytes = 262_144
    /// mode = "0640"
    /// directory_mode = "0750"
    /// ```
    ///
    /// With the feature `config`.
    ///
    /// # Errors
    /// `Invalid` if the file is no TOML, names what is no option, or a value is none, naming the line; and what the system says.
    pub fn options_from_file(mut self, path: impl AsRef<Path>) -> Result<LoggerBuilder> {
        let path = path.as_ref();
        let text =
            std::fs::read_to_string(path).map_err(|error| Error::io("cannot read the options", error).at(path))?;
        self.settings.extend(read(&text).map_err(|error| error.at(path))?.settings);
        Ok(self)
    }
}

pub(super) fn read(text: &str) -> Result<Place> {
    let wrong = |at: usize, what: &str| {
        let line = text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1;
        Error::new(ErrorKind::Invalid, format!("line {line}: {what}"))
    };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(at, &format!("no TOML: {}", error.message()))
    })?;
    // In the order in which they stand there, so that of two that set the same the second one is told of.
    let mut options: Vec<_> = table.get_ref().iter().collect();
    options.sort_by_key(|(name, _)| name.span().start);
    let mut place = Place::new(Layer::File);
    for (name, value) in options {
        let given = match value.get_ref() {
            DeValue::Integer(number) => {
                u64::from_str_radix(number.as_str(), number.radix()).map_or(Given::Other, Given::Number)
            }
            DeValue::Boolean(flag) => Given::Flag(*flag),
            DeValue::String(text) => Given::Text(text.to_string()),
            _ => Given::Other,
        };
        place.set(name.get_ref(), given).map_err(|what| wrong(name.span().start, &what))?;
    }
    Ok(place)
}
