//! Examples and exit statuses: the end of each command's long help, and sections of its man page.
//!
//! A line that begins at the margin and ends with a colon is a heading.

/// What the exit codes of the reading commands mean.
macro_rules! exit_status {
    () => {
        "\n\nExit status:
  0  sound: nothing is wrong (notes are allowed)
  1  findings: something in a log is lost, altered or unexplained
  2  the job could not be done, or not all of it"
    };
}

pub(crate) const SHORT: &str = "`logtool COMMAND -h` explains a command in short, `--help` with examples.";

pub(crate) const LOGTOOL: &str = concat!(
    "Examples:
  Keep what a program prints, in segments of 64 MiB, at most 2 GiB in all:
      my-server 2>&1 | logtool write --roll-bytes 64M --keep-bytes 2G /var/log/my-server
  Follow it:
      logtool tail -f /var/log/my-server
  After a crash, find out what the log is worth:
      logtool verify /var/log/my-server",
    exit_status!(),
    "

Environment:
  NO_COLOR  if set and not empty, no colour unless --color always
  TERM      if `dumb`, likewise
  TZ        the local time zone"
);

pub(crate) const WRITE: &str = "Examples:
  Instead of `| multilog`, `| s6-log` or `| rotatelogs`:
      my-server 2>&1 | logtool write --keep-bytes 10G /var/log/my-server
  Compressed, a new segment each hour, kept for two weeks:
      my-server | logtool write --compress zstd --roll-every 1h --keep-age 14d app-log
  Nothing is passed on that a power cut could take back:
      producer | logtool write --sync batch --tee app-log | consumer

Exit status:
  0  the input ended, or SIGTERM or SIGINT came, and all of it is in the log
  1  the input ended; some of it was dropped and counted (--on-full drop)
  2  the log, the input or the echo (--tee) could not be opened, read or written";

pub(crate) const CAT: &str = concat!(
    "Examples:
  The last ten minutes, with their times:
      logtool cat --since '10m ago' --timestamps app-log
  What two services did at 3 pm yesterday, merged:
      logtool cat --since 'yesterday 15:00' --until 'yesterday 15:05' shop-log pay-log
  Failed requests that took over a second, as JSON:
      logtool cat --where 'status>=500' --where 'latency_ms>1000' --json app-log
  What stands around a place that verify has named:
      logtool cat --seq 4402110..4402125 app-log",
    exit_status!()
);

pub(crate) const TAIL: &str = concat!(
    "Examples:
  The last 10 entries:
      logtool tail app-log
  Follow, only lines that contain `error` in any case:
      logtool tail -f -i -g error app-log
  Ship entries, each once, also over restarts of the shipper:
      logtool tail -f -n +1 --cursor-file ship.cursor --json app-log | ship
  All entries from the fifth on:
      logtool tail -n +5 app-log",
    exit_status!()
);

pub(crate) const VERIFY: &str = concat!(
    "Examples:
  After a crash:
      logtool verify app-log
  From a monitor, each night:
      logtool verify -q /var/log/my-server || mail -s 'log damaged' admin </dev/null
  Every log of the machine, for a script:
      logtool verify -r --json /var/log",
    exit_status!()
);

pub(crate) const REPAIR: &str = concat!(
    "Examples:
  See what would be done:
      logtool repair --dry-run app-log
  Do it, and check:
      logtool repair app-log && logtool verify app-log
  Leave the evidence alone and work on a clean copy:
      logtool repair --output app-log.clean app-log",
    exit_status!()
);

pub(crate) const DECOMPRESS: &str = concat!(
    "Examples:
  The lines that went in:
      logtool decompress app-log | grep -c POST
  Into a file, which is there whole or not at all:
      logtool decompress -o app.txt app-log
  As uncompressed segments:
      logtool decompress --frames -o app-log.plain app-log",
    exit_status!()
);

pub(crate) const STAT: &str = "Examples:
  Which file covers 3 pm, and how well does it compress:
      logtool stat app-log
  The largest logs of the machine:
      logtool stat -r --json /var/log
  For node_exporter's textfile collector, each minute:
      logtool stat --prometheus /var/log/shop > shop.tmp && mv shop.tmp /var/lib/node_exporter/shop.prom

Exit status:
  0  all logs are shown; whether they are sound, verify tells
  2  one of them could not be read";

pub(crate) const LEVEL: &str = "Examples:
  What a program logs now:
      logtool level /var/log/shop
  See each step of one part of it, and nothing of another:
      logtool level /var/log/shop net.http=trace metrics=off
  Back to usual:
      logtool level /var/log/shop net.http=info,metrics=info

Exit status:
  0  the levels are as printed
  2  they could not be asked or changed: no program writes the log, it keeps no ring file, or it did not answer within 3 s";

pub(crate) const TOUR: &str = "Examples:
  In a temporary directory:
      logtool tour
  On the disk that matters, keeping the log to look at:
      logtool tour /var/log/tour

Exit status:
  0  every step did what it promises
  2  one did not, or could not be done";
