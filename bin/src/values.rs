//! Values of single options: file mode, compression, sync policy, what to do on a full disk, where `tail` starts.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::duration::Period;

/// Permission bits of new files, given in octal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileMode(pub(crate) u32);

impl FromStr for FileMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let octal = !digits.is_empty() && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
        match u32::from_str_radix(digits, 8) {
            Ok(mode) if octal && mode <= 0o777 => Ok(Self(mode)),
            _ => Err("give the permission bits in octal, 0 to 0777, as in 0640".to_string()),
        }
    }
}

/// How new segments are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Plain frames.
    None,
    /// Blocks compressed by zstd.
    Zstd {
        /// 1 (fast) to 19 (small).
        level: i32,
    },
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = match text {
            "none" => return Ok(Self::None),
            // Higher levels gain nothing on logs and cost speed.
            "zstd" => return Ok(Self::Zstd { level: 1 }),
            _ => text.strip_prefix("zstd:").ok_or("use none, zstd or zstd:LEVEL")?,
        };
        match level.parse() {
            Ok(level @ 1..=19) => Ok(Self::Zstd { level }),
            _ => Err("the level of zstd must be from 1 (fast) to 19 (small)".to_string()),
        }
    }
}

/// When what was written is brought to stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncPolicy {
    /// Left to the kernel.
    Never,
    /// After each entry.
    Each,
    /// After each batch, that is each read of the input.
    Batch,
    /// At most so long after the write.
    Every(Duration),
}

impl FromStr for SyncPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            "each" => Ok(Self::Each),
            "batch" => Ok(Self::Batch),
            _ => match text.parse() {
                Ok(Period(Duration::ZERO)) => Err("an interval of 0 is none: use each or batch".to_string()),
                Ok(Period(interval)) => Ok(Self::Every(interval)),
                Err(error) => Err(format!("use never, each, batch or an interval ({error})")),
            },
        }
    }
}

/// What `write` does when the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFull {
    /// Wait until there is room; the program in front of the pipe waits too.
    Block,
    /// Refuse entries and count them in the log.
    Drop,
    /// Remove the oldest segments.
    RemoveOldest,
}

/// Where the output of `tail` starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailStart {
    /// With the last so many entries (`-n 10`).
    Last(u64),
    /// With the entry of this place, counted from 1 at the beginning (`-n +K`).
    From(u64),
}

impl FromStr for TailStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, from) = match text.strip_prefix('+') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let all_digits = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        match digits.parse() {
            // tail(1) takes +0 as +1.
            Ok(number) if all_digits && from => Ok(Self::From(std::cmp::max(number, 1))),
            Ok(number) if all_digits => Ok(Self::Last(number)),
            _ => Err("use N for the last N entries, +K to start with the K-th".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_modes_are_octal_permission_bits() {
        assert_eq!("0640".parse(), Ok(FileMode(0o640)));
        assert_eq!("600".parse(), Ok(FileMode(0o600)));
        assert_eq!("0o644".parse(), Ok(FileMode(0o644)));
        for text in ["", "0o", "648", "01000", "rw-r-----", "+640", "-1"] {
            assert!(text.parse::<FileMode>().is_err(), "{text:?} passed");
        }
    }

    #[test]
    fn compression_is_none_or_zstd_with_an_optional_level() {
        assert_eq!("none".parse(), Ok(Compression::None));
        assert_eq!("zstd".parse(), Ok(Compression::Zstd { level: 1 }));
        assert_eq!("zstd:19".parse(), Ok(Compression::Zstd { level: 19 }));
        for text in ["", "gzip", "zstd:", "zstd:0", "zstd:20", "zstd3", "ZSTD"] {
            assert!(text.parse::<Compression>().is_err(), "{text:?} passed");
        }
    }

    #[test]
    fn sync_is_a_word_or_an_interval() {
        assert_eq!("never".parse(), Ok(SyncPolicy::Never));
        assert_eq!("each".parse(), Ok(SyncPolicy::Each));
        assert_eq!("batch".parse(), Ok(SyncPolicy::Batch));
        let half_second = SyncPolicy::Every(Duration::from_millis(500));
        assert_eq!("500ms".parse(), Ok(half_second));
        let zero = "0s".parse::<SyncPolicy>().unwrap_err();
        assert!(zero.contains("use each or batch"), "{zero}");
        let word = "always".parse::<SyncPolicy>().unwrap_err();
        assert!(word.contains("never, each, batch"), "{word}");
    }

    #[test]
    fn tail_starts_from_the_end_or_with_a_plus_from_the_beginning() {
        assert_eq!("10".parse(), Ok(TailStart::Last(10)));
        assert_eq!("0".parse(), Ok(TailStart::Last(0)));
        assert_eq!("+5".parse(), Ok(TailStart::From(5)));
        assert_eq!("+0".parse(), Ok(TailStart::From(1)));
        for text in ["", "+", "-5", "++5", "ten", "99999999999999999999"] {
            assert!(text.parse::<TailStart>().is_err(), "{text:?} passed");
        }
    }
}
