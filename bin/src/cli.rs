//! The command line: every command with its options and help. Man pages and completions are made from this.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use logtool::Levels;

use crate::duration::Period;
use crate::examples;
use crate::filter::{FilterArgs, FormArgs};
use crate::size::{ByteSize, FreeSpace};
use crate::terminal::ColorWhen;
use crate::values::{Compression, FileMode, OnFull, SyncPolicy, TailStart};

/// Write, follow, verify, repair and read logs that survive a crash
///
/// A log is a directory of segments. Each entry has a length, checksums and a sequence number, so logtool can prove
/// what is there and name exactly what is missing. PATH is such a directory or one of its segment files.
#[derive(Debug, Parser)]
#[command(name = "logtool", version, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = examples::SHORT, after_long_help = examples::LOGTOOL)]
pub(crate) struct Cli {
    /// When to use colour
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorWhen::Auto, global = true, hide_possible_values = true)]
    #[arg(help = "When to use colour: auto, always, never")]
    pub(crate) color: ColorWhen,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, in the order in which people meet them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Write(WriteArgs),
    Cat(CatArgs),
    Tail(TailArgs),
    Verify(VerifyArgs),
    Repair(RepairArgs),
    Decompress(DecompressArgs),
    Stat(StatArgs),
    Level(LevelArgs),
    Tour(TourArgs),
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// Write standard input into a log, one entry a line
///
/// Any bytes are kept exactly, whatever the length of the line. What was read is in the log before the next read. A
/// line without its newline waits for it one second, or until the input ends, and is then written and marked as
/// unfinished.
///
/// SIGTERM and SIGINT: what the pipe holds is written, the log is closed, exit status 0. SIGHUP: a new segment begins.
#[derive(Args, Debug)]
#[command(after_long_help = examples::WRITE)]
pub(crate) struct WriteArgs {
    /// Begin a new segment before one grows above SIZE
    ///
    /// SIZE is a number of bytes, or has a unit: K, M, G, T or KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB
    /// are powers of 1000. It is at least 4096; only a single line may take a segment above it.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub(crate) roll_bytes: ByteSize,

    /// Begin a new segment each DUR, counted from 1970 UTC; 24h: at midnight UTC
    ///
    /// DUR is one or more numbers with a unit: ms, s, m, h, d, w; as in 30s or 1d12h.
    #[arg(long, value_name = "DUR", default_value = "24h")]
    pub(crate) roll_every: Period,

    /// Keep at most N segments, the one that is written included; the oldest are removed
    ///
    /// Of all these rules the strictest holds. None removes the segment that is written.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Retention")]
    pub(crate) keep_segments: Option<u64>,

    /// Keep at most SIZE in all, quarantine and rings included
    #[arg(long, value_name = "SIZE", help_heading = "Retention")]
    pub(crate) keep_bytes: Option<ByteSize>,

    /// Remove segments whose newest entry is older than DUR
    #[arg(long, value_name = "DUR", help_heading = "Retention")]
    pub(crate) keep_age: Option<Period>,

    /// Remove the oldest segments while less than SIZE, or so many percent, of the file system are free
    #[arg(long, value_name = "SIZE|%", help_heading = "Retention")]
    pub(crate) keep_free: Option<FreeSpace>,

    /// Compress: none, zstd or zstd:LEVEL with a level from 1 (fast) to 19 (small)
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub(crate) compress: Compression,

    /// Bring entries to stable storage: never, each, batch, or at most DUR after they were written
    ///
    /// Entries survive a killed program and a killed logtool at once in any case; this is about power cuts. `batch` is
    /// once for each read of the input.
    #[arg(long, value_name = "WHEN", default_value = "1s")]
    pub(crate) sync: SyncPolicy,

    /// When the disk is full, also at the start
    ///
    /// It is said on standard error once a minute. The newest segment is never removed.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnFull::Block)]
    pub(crate) on_full: OnFull,

    /// Permission bits of new files, in octal; the umask takes from them
    #[arg(long, value_name = "MODE", default_value = "0640")]
    pub(crate) mode: FileMode,

    /// Copy each line to standard output after it was written to the log
    ///
    /// On a terminal, control characters, marks that change the direction of text and bytes that are no UTF-8 are shown
    /// as escapes; in a pipe or a file the copy is exact to the byte.
    #[arg(long)]
    pub(crate) tee: bool,

    /// Directory of the log; made if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

/// Print the entries of logs
///
/// Several logs are merged by time and each line names its log, but for the raw form. Where a log is damaged, everything
/// readable is printed, the findings go to standard error, and the exit status is 1.
#[derive(Args, Debug)]
#[command(after_long_help = examples::CAT)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) logs: LogArgs,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    #[command(flatten)]
    pub(crate) form: FormArgs,
}

/// Print the last entries of logs, and follow them
///
/// Following goes by sequence number, over rolls, retention and restarts of the writer: nothing is shown twice, and what
/// was removed before it could be shown is told as a gap. With -f a directory that does not exist yet is waited for, and
/// tail ends by a signal, when nobody reads standard output any more, or behind the last number of --seq. Followed are
/// logs: -f and --cursor-file refuse a single segment file, as the log goes on in the next one.
#[derive(Args, Debug)]
#[command(after_long_help = examples::TAIL)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(crate) logs: LogArgs,

    /// Print the last N entries; with +K, begin with the K-th
    #[arg(short = 'n', long, value_name = "N|+K", default_value = "10")]
    pub(crate) lines: TailStart,

    /// Go on as the log grows; -F is the same
    #[arg(short = 'f', long, short_alias = 'F')]
    pub(crate) follow: bool,

    /// Begin where the cursor in FILE stands, and keep it up to date
    ///
    /// FILE names the last entry that was shown. It is replaced atomically: stopped by a signal and started again, tail
    /// repeats and skips nothing; after SIGKILL at most the last batch comes again. Where FILE does not exist yet, -n
    /// says where to begin. It keeps the place in one log: several PATHs are refused.
    #[arg(long, value_name = "FILE")]
    pub(crate) cursor_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    #[command(flatten)]
    pub(crate) form: FormArgs,
}

/// Check every checksum, link and number of logs
///
/// Says for each log what is there and names exactly what is missing or altered. What is as it should be, such as
/// segments removed by retention, is a note and leaves the exit status at 0. A log may be verified while it is written.
#[derive(Args, Debug)]
#[command(after_long_help = examples::VERIFY)]
pub(crate) struct VerifyArgs {
    /// Report in JSON, one object a log
    #[arg(long)]
    pub(crate) json: bool,

    /// Print no report; the exit status tells, and standard error what could not be read
    #[arg(short = 'q', long, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Count losses that an earlier repair has declared as findings too
    #[arg(long)]
    pub(crate) strict: bool,

    /// Show times in UTC instead of the local zone
    #[arg(long)]
    pub(crate) utc: bool,

    #[command(flatten)]
    pub(crate) logs: LogArgs,
}

/// Make a damaged log sound again, with its losses declared
///
/// What a killed program has left in its rings is appended first. No valid frame is removed and no segment deleted. What
/// is cut is saved in quarantine/ and synced first. What is lost is declared in the log: the alarm stops, the fact stays.
/// A second run changes nothing. A log that is being written is refused. The exit status is that of the log as it is then; with --dry-run it is 1 where there is something to repair.
#[derive(Args, Debug)]
#[command(after_long_help = examples::REPAIR)]
pub(crate) struct RepairArgs {
    /// Print the plan and change nothing
    #[arg(long, conflicts_with = "output")]
    pub(crate) dry_run: bool,

    /// Exit with status 1 also where all losses are declared
    #[arg(long)]
    pub(crate) strict: bool,

    /// Leave the log as it is and write a clean copy, with its losses declared, into the new directory
    #[arg(short = 'o', long, value_name = "NEWDIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,

    /// Show times in UTC instead of the local zone
    #[arg(long)]
    pub(crate) utc: bool,

    /// Directory of the log
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
}

/// Give back what was written
///
/// Of logs made by `logtool write` come the very bytes that went in; of structured entries their text, with times in
/// UTC, the same on every machine. Only a terminal is not given what could steer it: there it is shown as escapes. Where a
/// log is damaged, everything readable comes out, the findings go to standard error, and the exit status is 1.
#[derive(Args, Debug)]
#[command(after_long_help = examples::DECOMPRESS)]
pub(crate) struct DecompressArgs {
    /// Write into FILE instead of standard output; with --frames, into the new directory
    ///
    /// FILE is written beside, as .FILE.PID.part, and then renamed: it is there whole or not at all. What a killed run
    /// has left beside it the next one removes.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write uncompressed segments, which `logtool verify` can check, instead of text; of one PATH
    #[arg(long, requires = "output")]
    pub(crate) frames: bool,

    /// Replace FILE if it exists
    #[arg(short = 'f', long, requires = "output", conflicts_with = "frames")]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) logs: LogArgs,
}

/// Show the segments of logs: state, times, sequence numbers, sizes
///
/// With --prometheus, figures for a monitoring system instead: of the log as it stands there, and, where a program writes it
/// through the library's rings, those that the program tells of itself each second. They are there also when it was killed:
/// logtool_writer_up is then 0, and logtool_figures_age_seconds tells how old they are.
#[derive(Args, Debug)]
#[command(after_long_help = examples::STAT)]
pub(crate) struct StatArgs {
    /// In JSON, one object a log
    #[arg(long)]
    pub(crate) json: bool,

    /// In the text form of Prometheus, all logs together
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,

    /// Show times in UTC instead of the local zone
    #[arg(long)]
    pub(crate) utc: bool,

    #[command(flatten)]
    pub(crate) logs: LogArgs,
}

/// Show and change which levels a running program logs
///
/// DIR is a log that a program writes through the library now. The levels that are in force are printed, as they can be given
/// back to this command or to the program's environment. What is given here is set first; what it does not name stays as it is.
/// A running program takes it over within a second; it holds until the program ends.
#[derive(Args, Debug)]
#[command(after_long_help = examples::LEVEL)]
pub(crate) struct LevelArgs {
    /// Directory of the log
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,

    /// LEVEL for all categories, or CATEGORY=LEVEL for one and those below it; several with commas or spaces between them
    ///
    /// LEVEL is trace, debug, info, warn, error, fatal or off. A category need not have logged yet.
    #[arg(value_name = "SPEC")]
    pub(crate) levels: Vec<Levels>,
}

/// Show on this disk what logtool is for
///
/// A child process writes a log and is killed in the middle; the log is verified, repaired, damaged by one byte, the
/// damage found, and the text taken out again. Each step shows the command that a person would type.
#[derive(Args, Debug)]
#[command(after_long_help = examples::TOUR)]
pub(crate) struct TourArgs {
    /// Empty directory to work in, made if it does not exist; by default a temporary one that is removed at the end
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// Be the child process that writes and is killed
    #[arg(long, hide = true, requires = "dir")]
    pub(crate) child: bool,
}

/// The logs to read.
#[derive(Args, Debug)]
pub(crate) struct LogArgs {
    /// Take all logs below a directory; without it, a directory that is no log itself is refused
    #[arg(short = 'r', long)]
    pub(crate) recursive: bool,

    /// Log directories or segment files
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
}

/// Write the man pages or the shell completions into DIR.
#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// What to write
    #[arg(value_enum)]
    pub(crate) what: GenerateWhat,

    /// An existing directory
    pub(crate) dir: PathBuf,
}

/// What is made from the definition of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GenerateWhat {
    /// Man pages: one for logtool and one a command
    Man,
    /// Completions for bash, zsh and fish
    Completions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples_and_exit_statuses_in_its_long_help() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name().to_string();
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{name}");
            assert!(help.contains(&format!("logtool {name}")), "{name}");
            assert!(help.contains("Exit status:"), "{name}");
        }
    }

    #[test]
    fn options_arrive_typed() {
        let line = "logtool write --roll-bytes 64k --keep-free 10% --compress zstd:3 --sync batch log";
        let Command::Write(args) = Cli::parse_from(line.split(' ')).command else {
            panic!("not write");
        };
        assert_eq!(args.roll_bytes, ByteSize(64 << 10));
        assert_eq!(args.keep_free, Some(FreeSpace::Percent(10)));
        assert_eq!(args.compress, Compression::Zstd { level: 3 });
        assert_eq!(args.sync, SyncPolicy::Batch);
        assert_eq!(args.mode, FileMode(0o640));
        let line = "logtool tail -n +5 -F --json --seq 7.. a b --color never";
        let cli = Cli::parse_from(line.split(' '));
        assert_eq!(cli.color, ColorWhen::Never);
        let Command::Tail(args) = cli.command else {
            panic!("not tail");
        };
        assert!(args.follow);
        assert_eq!(args.lines, TailStart::From(5));
        assert_eq!(args.form.form(), crate::filter::Form::Json);
        assert_eq!(args.logs.paths, [PathBuf::from("a"), PathBuf::from("b")]);
    }
}
