//! `logtool tail -f`: what comes out while the log is written, rolled, removed, and while the command is stopped.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use logtool::{Options, Retention, Writer};
use nix::sys::signal::Signal;

use crate::harness::{logtool, signal, temp_dir, wait};
use crate::write::SmallDisk;
use crate::writer_basic::options;

const PATIENCE: Duration = Duration::from_secs(20);

/// A `logtool tail -f` at work.
struct Tail {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Tail {
    fn start(args: &[&str], dirs: &[&Path]) -> Tail {
        let mut child = logtool().arg("tail").args(args).args(dirs).spawn();
        let (lines, errors) = (read_lines(child.stdout.take().unwrap()), read_lines(child.stderr.take().unwrap()));
        Tail { child, lines, errors }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    fn signal(&self, number: Signal) {
        signal(&self.child, number);
    }

    /// Waits for the end; returns signal or exit code (as `Err`), and what had not been read yet.
    #[track_caller]
    fn end(mut self) -> (Result<i32, i32>, Vec<String>, Vec<String>) {
        use std::os::unix::process::ExitStatusExt;
        let status = wait(&mut self.child, PATIENCE).expect("it ends");
        let ended = status.signal().ok_or_else(|| status.code().unwrap());
        (ended, self.lines.iter().collect(), self.errors.iter().collect())
    }

    /// Lets it come to the end of what is there, then ends it by SIGTERM. Returns all lines not read yet.
    #[track_caller]
    fn finish_at(self, last: &str) -> (Vec<String>, Vec<String>) {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line| line != last) {
            lines.push(self.line());
        }
        self.signal(Signal::SIGTERM);
        let (ended, more, errors) = self.end();
        assert_eq!(ended, Ok(Signal::SIGTERM as i32), "{errors:?}");
        lines.extend(more);
        (lines, errors)
    }
}

fn read_lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            if sender.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn text(seq: u64) -> String {
    format!("line {seq} of a log that is followed while it is written")
}

fn numbered(seqs: std::ops::RangeInclusive<u64>) -> Vec<String> {
    seqs.map(text).collect()
}

fn write_upto(writer: &mut Writer, last: u64, flush_every: u64) {
    while writer.next_seq() <= last {
        let seq = writer.next_seq();
        writer.line(text(seq).as_bytes(), 0, seq as i64).unwrap();
        if seq.is_multiple_of(flush_every) || seq == last {
            writer.flush().unwrap();
        }
    }
}

/// Rolls each 1000 lines or so.
fn rolls_by_1000_lines() -> Options {
    options().roll_bytes(104 * 1000)
}

/// coreutils tail (its FIXME on `-F`): stopped for more rolls than one, whole files were skipped. hpcloud/tail#127.
#[test]
fn a_follower_stopped_over_twenty_rolls_gives_every_line_once() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), rolls_by_1000_lines()).unwrap();
    write_upto(&mut writer, 1, 1);
    let tail = Tail::start(&["-f", "-n", "+1"], &[dir.path()]);
    let mut got = vec![tail.line()];
    // As fast as it goes: about 100,000 lines a second, a write each 10.
    for round in 1..=2 {
        write_upto(&mut writer, round * 25_000 - 24_000, 10);
        tail.signal(Signal::SIGSTOP);
        write_upto(&mut writer, round * 25_000, 10);
        tail.signal(Signal::SIGCONT);
    }
    assert!(writer.stats().segments_created > 45, "{:?}", writer.stats());
    let (lines, errors) = tail.finish_at(&text(50_000));
    got.extend(lines);
    assert!(got == numbered(1..=50_000), "{} lines", got.len());
    assert_eq!(errors, Vec::<String>::new());
}

/// systemd#36247, systemd#474: retention removes what is being read. The gap is told, with its range, on standard error and
/// as an object in JSON, and what was not removed comes.
#[test]
fn what_retention_removed_while_the_follower_was_stopped_is_told_as_a_gap() {
    let dir = temp_dir();
    let keep = Retention { keep_segments: Some(3), ..Retention::default() };
    let mut writer = Writer::open(dir.path(), rolls_by_1000_lines().retention(keep)).unwrap();
    write_upto(&mut writer, 10, 1);
    let tails =
        [Tail::start(&["-f", "-n", "+1"], &[dir.path()]), Tail::start(&["-f", "--json", "-n", "+1"], &[dir.path()])];
    let shown = |tail: &Tail, last: u64| while !tail.line().contains(&text(last)) {};
    tails.iter().for_each(|tail| shown(tail, 10));
    // What is written now comes from the segment that is held open.
    write_upto(&mut writer, 11, 1);
    tails.iter().for_each(|tail| shown(tail, 11));
    tails.iter().for_each(|tail| tail.signal(Signal::SIGSTOP));
    write_upto(&mut writer, 25_000, 100);
    tails.iter().for_each(|tail| tail.signal(Signal::SIGCONT));
    let [plain, json] = tails;
    let (lines, errors) = plain.finish_at(&text(25_000));
    let [gap] = &errors[..] else { panic!("{errors:?}") };
    let range = gap.split("seq ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let (from, to) =
        range.split_once("..").map(|(from, to)| (from.parse::<u64>().unwrap(), to.parse::<u64>().unwrap())).unwrap();
    assert!(gap.contains("removed by retention") && from > 900 && to > 20_000, "{gap}");
    let expected: Vec<String> = numbered(12..=from - 1).into_iter().chain(numbered(to + 1..=25_000)).collect();
    assert!(lines == expected, "{range}");
    let mut objects = Vec::new();
    while objects.last().is_none_or(|line: &String| !line.contains(&text(25_000))) {
        objects.push(json.line());
    }
    json.signal(Signal::SIGINT);
    let (ended, _, errors) = json.end();
    assert_eq!((ended, errors.len()), (Ok(Signal::SIGINT as i32), 1), "{errors:?}");
    let object = objects.iter().find(|line| line.contains("retention")).expect("the gap in JSON");
    assert!(object.contains(&format!("\"first\":{from},\"last\":{to}")), "{object}");
}

/// systemd#26746, systemd#30288: the cursor was not kept while following; an entry was skipped behind it. With filters on.
#[test]
fn stopped_by_signals_and_started_again_nothing_is_repeated_or_skipped() {
    let (dir, state) = (temp_dir(), temp_dir());
    let cursor = state.path().join("cursor");
    let args = ["-f", "-n", "+1", "-g", "[05] of a log", "--cursor-file", cursor.to_str().unwrap()];
    let mut writer = Writer::open(dir.path(), rolls_by_1000_lines()).unwrap();
    let mut got = Vec::new();
    for round in 1..=8u64 {
        write_upto(&mut writer, round * 1500 - 900, 7);
        let tail = Tail::start(&args, &[dir.path()]);
        write_upto(&mut writer, round * 1500 - 3, 7);
        if round % 2 == 0 {
            // In the middle of its work, wherever that is.
            tail.signal(if round % 4 == 0 { Signal::SIGTERM } else { Signal::SIGINT });
            let (ended, lines, errors) = tail.end();
            assert!(ended.is_ok() && errors.is_empty(), "{ended:?} {errors:?}");
            got.extend(lines);
        } else {
            let (lines, errors) = tail.finish_at(&text((round * 1500 - 3) / 5 * 5));
            assert_eq!(errors, Vec::<String>::new());
            got.extend(lines);
            // Hidden lines are behind the cursor too.
            let text = std::fs::read_to_string(&cursor).unwrap();
            assert!(text.ends_with(&format!(" seq {}\n", round * 1500 - 3)), "{text}");
        }
    }
    let last = writer.next_seq() - 1;
    let rest = logtool().arg("tail").args(&args[1..]).arg(dir.path()).run().expect_code(0);
    got.extend(rest.text().lines().map(str::to_owned));
    let expected: Vec<String> = (1..=last).filter(|seq| seq % 5 == 0).map(text).collect();
    assert!(got == expected, "{} of {}", got.len(), expected.len());
}

#[test]
fn killed_by_sigkill_at_most_the_last_batch_comes_again() {
    let (dir, state) = (temp_dir(), temp_dir());
    let cursor = state.path().join("cursor");
    let args = ["-f", "-n", "+1", "--cursor-file", cursor.to_str().unwrap()];
    let mut writer = Writer::open(dir.path(), rolls_by_1000_lines()).unwrap();
    let mut seen = 0;
    for round in 1..=6u64 {
        let tail = Tail::start(&args, &[dir.path()]);
        write_upto(&mut writer, round * 8000, 11);
        std::thread::sleep(Duration::from_millis(round * 5));
        tail.signal(Signal::SIGKILL);
        let (_, lines, _) = tail.end();
        // A line may be cut by the kill.
        let number = |line: &String| line.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
        let seqs: Vec<u64> = lines.iter().filter(|line| line.ends_with("written")).filter_map(number).collect();
        let Some(&first) = seqs.first() else { continue };
        assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1));
        assert!(first <= seen + 1, "skipped from {seen} to {first}");
        assert!(seen < first + 4096, "more than a batch again: {seen} {first}");
        seen = *seqs.last().unwrap();
    }
    assert!(seen > 0);
}

#[test]
fn a_cursor_of_another_log_or_a_file_that_is_none_is_refused() {
    let (one, two, state) = (temp_dir(), temp_dir(), temp_dir());
    let cursor = state.path().join("cursor");
    let file = ["--cursor-file", cursor.to_str().unwrap()];
    [one.path(), two.path()].iter().for_each(|dir| write_upto(&mut Writer::open(dir, options()).unwrap(), 3, 1));
    let outcome = logtool().args(["tail", "-n", "1"]).args(file).arg(one.path()).run().expect_code(0);
    assert_eq!(outcome.text(), text(3) + "\n");
    let outcome = logtool().arg("tail").args(file).arg(one.path()).run().expect_code(0);
    assert_eq!((outcome.text().as_str(), outcome.stderr.as_str()), ("", ""));
    for follow in [&["tail"][..], &["tail", "-f"]] {
        let outcome = logtool().args(follow).args(file).arg(two.path()).run().expect_code(2);
        assert!(outcome.stdout.is_empty() && outcome.stderr.contains("the cursor is of log"), "{}", outcome.stderr);
    }
    let outcome = logtool().arg("tail").args(file).args([one.path(), two.path()]).run().expect_code(2);
    assert!(outcome.stderr.contains("one PATH"), "{}", outcome.stderr);
    std::fs::write(&cursor, "my notes\n").unwrap();
    let outcome = logtool().arg("tail").args(file).arg(one.path()).run().expect_code(2);
    assert!(outcome.stderr.contains("no cursor file of logtool"), "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(&cursor).unwrap(), "my notes\n");
}

#[test]
fn it_ends_at_once_when_standard_output_closes_though_nothing_is_written() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    write_upto(&mut writer, 3, 1);
    let mut child = logtool().args(["tail", "-f"]).arg(dir.path()).spawn();
    let mut stdout = child.stdout.take().unwrap();
    let mut start = [0; 10];
    stdout.read_exact(&mut start).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    drop(stdout);
    let closed = Instant::now();
    let status = wait(&mut child, PATIENCE).unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(closed.elapsed() < Duration::from_millis(500), "{:?}", closed.elapsed());
}

#[test]
fn several_logs_are_followed_with_their_names_and_waited_for() {
    let above = temp_dir();
    let (shop, pay) = (above.path().join("shop"), above.path().join("deep/pay"));
    let mut writer = Writer::open(&shop, options()).unwrap();
    write_upto(&mut writer, 2, 1);
    let tail = Tail::start(&["-F"], &[&shop, &pay]);
    assert_eq!([tail.line(), tail.line()], [1, 2].map(|seq| format!("shop: {}", text(seq))));
    let mut late = Writer::open(&pay, options()).unwrap();
    write_upto(&mut late, 1, 1);
    assert_eq!(tail.line(), format!("pay: {}", text(1)));
    write_upto(&mut writer, 3, 1);
    assert_eq!(tail.line(), format!("shop: {}", text(3)));
    tail.signal(Signal::SIGTERM);
    let (ended, lines, errors) = tail.end();
    assert_eq!((ended, lines.len(), errors.len()), (Ok(15), 0, 0), "{errors:?}");
}

#[test]
fn an_unfinished_line_goes_on_in_the_same_line() {
    use logtool::format::{FLAG_CONTINUED, FLAG_UNFINISHED};
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    let mut child = logtool().args(["tail", "-f"]).arg(dir.path()).spawn();
    let mut stdout = child.stdout.take().unwrap();
    let mut expect = |expected: &str| {
        let mut bytes = vec![0; expected.len()];
        stdout.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    };
    writer.line(b"pass", FLAG_UNFINISHED, 1).unwrap();
    writer.flush().unwrap();
    expect("pass");
    writer.line(b"word: ", FLAG_UNFINISHED | FLAG_CONTINUED, 2).unwrap();
    writer.flush().unwrap();
    expect("word: ");
    writer.line(b"", FLAG_CONTINUED, 3).unwrap();
    writer.line(b"next", 0, 3).unwrap();
    writer.flush().unwrap();
    expect("\nnext\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_log_whose_writer_is_gone_is_shown_and_followed_when_the_next_one_comes() {
    let dir = temp_dir();
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    write_upto(&mut writer, 3, 1);
    writer.close().unwrap();
    drop(writer);
    let tail = Tail::start(&["-f"], &[dir.path()]);
    (1..=3).for_each(|seq| assert_eq!(tail.line(), text(seq)));
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    write_upto(&mut writer, 5, 1);
    (4..=5).for_each(|seq| assert_eq!(tail.line(), text(seq)));
    assert_eq!(tail.lines.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
    tail.signal(Signal::SIGTERM);
    assert_eq!(tail.end(), (Ok(15), Vec::new(), Vec::new()));
}

/// A writer killed at any time and started again, each time at another place of its work, with small rolls.
#[test]
fn a_writer_killed_and_started_again_is_followed_without_a_gap_or_a_repeat() {
    let dir = temp_dir();
    let log = dir.path().join("log");
    let tail = Tail::start(&["-f", "-n", "+1"], &[&log]);
    let mut echoed = Vec::new();
    for round in 0..12 {
        let mut child = logtool().args(["write", "--tee", "--roll-bytes", "16KiB"]).arg(&log).spawn();
        let mut stdin = child.stdin.take().unwrap();
        let echo = read_lines(child.stdout.take().unwrap());
        let feeder = std::thread::spawn(move || {
            for number in 0..200_000 {
                // Until the pipe breaks.
                if stdin.write_all(format!("round {round} line {number}\n").as_bytes()).is_err() {
                    return;
                }
            }
        });
        // At least the first lines; then some time within the next rolls.
        echoed.push(echo.recv_timeout(PATIENCE).unwrap());
        std::thread::sleep(Duration::from_micros(round * 1500));
        child.kill().unwrap();
        child.wait().unwrap();
        feeder.join().unwrap();
        // The last line may be cut by the kill.
        echoed.extend(echo.iter().filter(|line| line.starts_with(&format!("round {round} line "))));
        echoed.pop();
    }
    let (lines, errors) = {
        let mut writer = Writer::open(&log, options()).unwrap();
        writer.line(b"the end", 0, 1).unwrap();
        writer.flush().unwrap();
        tail.finish_at("the end")
    };
    // Each round is there from its first line on, without a hole; more may be there than was echoed.
    let mut next = (0, 0);
    let parse = |line: &String| {
        let mut words = line.split(' ');
        let mut number =
            |word| words.next().filter(|found| *found == word).and(words.next()).and_then(|word| word.parse().ok());
        Some((number("round")?, number("line")?))
    };
    for line in &lines[..lines.len() - 1] {
        let (round, number): (u64, u64) = parse(line).unwrap_or_else(|| panic!("half a line: {line}"));
        assert!((round, number) == next || (round > next.0 && number == 0), "{line}, expected {next:?}");
        next = (round, number + 1);
    }
    let shown: std::collections::HashSet<&String> = lines.iter().collect();
    assert!(echoed.len() > 12 && echoed.iter().all(|line| shown.contains(line)));
    assert!(errors.iter().all(|error| !error.contains("LOST") && !error.contains("UNKNOWN")), "{errors:?}");
}

/// systemd#3968: no new lines after the disk was full and had room again.
#[test]
fn new_lines_come_after_the_disk_was_full() {
    let Some(disk) = SmallDisk::new(1 << 20) else { return };
    let (ballast, log) = (disk.0.path().join("ballast"), disk.0.path().join("log"));
    std::fs::write(&ballast, vec![1u8; 700_000]).unwrap();
    let tail = Tail::start(&["-f", "-n", "+1"], &[&log]);
    let mut child = logtool().args(["write", "--roll-bytes", "50KiB"]).arg(&log).spawn();
    let mut stdin = child.stdin.take().unwrap();
    let errors = read_lines(child.stderr.take().unwrap());
    let feeder = std::thread::spawn(move || {
        (1..=5000).for_each(|seq| stdin.write_all(format!("{}\n", text(seq)).as_bytes()).unwrap());
    });
    while !errors.recv_timeout(PATIENCE).unwrap().contains("waiting for space") {}
    let mut lines = Vec::new();
    while let Ok(line) = tail.lines.recv_timeout(Duration::from_millis(300)) {
        lines.push(line);
    }
    assert!(!lines.is_empty() && lines.len() < 5000, "{}", lines.len());
    std::fs::remove_file(&ballast).unwrap();
    feeder.join().unwrap();
    assert!(wait(&mut child, PATIENCE).unwrap().success());
    let (rest, errors) = tail.finish_at(&text(5000));
    lines.extend(rest);
    assert!(lines == numbered(1..=5000), "{}", lines.len());
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn one_segment_is_refused_before_anything_is_shown_with_the_command_that_follows_its_log() {
    let top = temp_dir();
    let log = top.path().join("my log");
    crate::sample::write_lines(&log, options(), [&b"line"[..]]);
    let segment = crate::sample::segments(&log)[0].clone();
    let alone = top.path().join("alone.flog");
    std::fs::copy(&segment, &alone).unwrap();
    let name = segment.file_name().unwrap();
    std::fs::write(top.path().join("text"), "text\n").unwrap();
    let follow = |args: &[&str], dir: &Path, path: &Path| {
        let outcome = logtool().current_dir(dir).arg("tail").args(args).arg(path).run().expect_code(2);
        assert_eq!(outcome.text(), "", "{args:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        outcome.stderr
    };
    let by_path = follow(&["-f"], top.path(), &Path::new("my log").join(name));
    assert!(by_path.ends_with("give the log: logtool tail -f 'my log'\n"), "{by_path}");
    let by_name = follow(&["--cursor-file", "at"], &log, Path::new(name));
    assert!(by_name.ends_with("give the log: logtool tail --cursor-file at .\n"), "{by_name}");
    let copied = follow(&["-f"], Path::new("/"), &alone);
    assert!(copied.ends_with(&format!("print it: logtool tail {}\n", alone.display())), "{copied}");
    let text = follow(&["-f"], top.path(), Path::new("text"));
    assert!(text.contains("is text, no logtool log"), "{text}");
}

#[test]
fn a_cursor_file_for_several_logs_is_refused() {
    let top = temp_dir();
    for name in ["a", "b"] {
        crate::sample::write_lines(&top.path().join(name), options(), [&b"line"[..]]);
    }
    for args in [&["a", "b"][..], &["-f", "a", "b"], &["-f", "to-come", "a"], &["-r", "."]] {
        let run = logtool().current_dir(top.path()).args(["tail", "--cursor-file", "at"]).args(args);
        let refused = run.run().expect_code(2);
        assert_eq!(refused.text(), "", "{args:?}");
        assert!(
            refused.stderr.contains("--cursor-file keeps the place in one log: give one PATH"),
            "{}",
            refused.stderr
        );
        assert!(!top.path().join("at").exists(), "{args:?}");
    }
    let same_twice = logtool().current_dir(top.path()).args(["tail", "--cursor-file", "at", "a", "a"]).run();
    assert_eq!(same_twice.expect_code(0).text(), "line\n");
}

/// What could not be kept is told before a line is out, not after all of them.
#[test]
fn a_cursor_file_that_cannot_be_written_or_is_a_pipe_is_refused_before_anything_is_shown() {
    let dir = temp_dir();
    let log = dir.path().join("log");
    logtool().args(["write", "--keep-segments", "9"]).arg(&log).stdin("one\n").run().expect_code(0);
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (file, says) in
        [("/nonexistent/cursor", "cannot write the cursor file"), (pipe.to_str().unwrap(), "no cursor file")]
    {
        let refused = logtool().args(["tail", "--cursor-file", file]).arg(&log).run().expect_code(2);
        assert!(refused.text().is_empty() && refused.stderr.contains(says), "{}", refused.stderr);
    }
}
