//! What holds for every command: help, usage errors, exit codes, generated pages.

use std::fs;
use std::path::Path;

use crate::harness::{assert_current, logtool, on_terminal, repository, temp_dir};

const COMMANDS: [&str; 9] = ["write", "cat", "tail", "verify", "repair", "decompress", "stat", "level", "tour"];

#[test]
fn help_is_short_with_h_and_has_examples_with_help() {
    for command in COMMANDS {
        let short = logtool().args([command, "-h"]).run().expect_code(0);
        let long = logtool().args([command, "--help"]).run().expect_code(0);
        assert!(short.text().contains("Usage: logtool"), "{command} -h");
        assert!(!short.text().contains("Examples:"), "{command} -h");
        assert!(long.text().contains("Examples:"), "{command} --help");
        assert!(long.text().contains("Exit status:"), "{command} --help");
        assert_eq!(short.stderr + &long.stderr, "", "{command}");
    }
    let top = logtool().arg("-h").run().expect_code(0).text();
    for command in COMMANDS {
        assert!(top.contains(&format!("\n  {command} ")), "{command} in {top}");
    }
    assert!(!top.contains("generate"), "the hidden command shows in {top}");
}

#[test]
fn misuse_exits_2_and_says_why_on_stderr() {
    for (args, reason) in [
        (&[][..], "Usage: logtool"),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        (&["cat"], "required"),
        (&["cat", "--frobnicate", "log"], "unexpected argument '--frobnicate'"),
        (&["cat", "--json", "--format", "raw", "log"], "cannot be used with"),
        (&["cat", "-i", "log"], "--grep <REGEX>"),
        (&["cat", "--since", "soon", "log"], "no time"),
        (&["cat", "--seq", "9..5", "log"], "lower number first"),
        (&["cat", "--where", "status", "log"], "no comparison"),
        (&["cat", "-g", "(", "log"], "unclosed group"),
        (&["tail", "-n", "ten", "log"], "+K"),
        (&["write", "--sync", "always", "log"], "never, each, batch"),
        (&["write", "--roll-bytes", "5X", "log"], "`X` is no unit"),
        (&["write", "--mode", "rw", "log"], "octal"),
        (&["write", "--keep-segments", "0", "log"], "0"),
        (&["verify", "-q", "--json", "log"], "cannot be used with"),
        (&["decompress", "--frames", "log"], "--output <FILE>"),
        (&["repair", "--dry-run", "-o", "new", "log"], "cannot be used with"),
        (&["level", "log", "net=loud"], "use trace, debug, info, warn, error, fatal or off"),
        (&["level", "log", "info", "a..b=info"], "give names with dots between them"),
    ] {
        let outcome = logtool().args(args).run().expect_code(2);
        assert_eq!(outcome.text(), "", "{args:?}");
        assert!(outcome.stderr.contains(reason), "{args:?}: {}", outcome.stderr);
    }
}

#[test]
fn usage_errors_begin_with_our_name_and_escape_what_was_typed() {
    let outcome = logtool().args(["cat", "--\x07bell\x1b[31m\u{202e}"]).run().expect_code(2);
    assert!(outcome.stderr.starts_with("logtool: unexpected argument"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("bell\\u{202e}"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains(['\x07', '\x1b', '\u{202e}']), "{}", outcome.stderr);
}

#[test]
fn a_closed_stdout_is_no_error() {
    let mut child = logtool().arg("--help").spawn();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_zone_that_is_none_is_no_panic() {
    for zone in ["Nowhere/Land", "", ":", "../../etc/passwd", "UTC+99", "\u{1b}[31m", "/dev/zero"] {
        let outcome = logtool().env("TZ", zone).args(["cat", "--since", "yesterday", "/nowhere"]).run().expect_code(2);
        assert!(!outcome.stderr.contains("panicked"), "TZ={zone:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains('\x1b'), "TZ={zone:?}: {}", outcome.stderr);
    }
}

#[test]
fn on_a_terminal_colour_is_on_unless_told_otherwise() {
    let bold = "\x1b[1mlogtool:\x1b[0m";
    let stderr_of = |env: &[(&str, &str)], flag: &str| {
        let mut run = on_terminal(&["cat", flag, "/nowhere"]).env("TERM", "xterm").env("NO_COLOR", "");
        for (name, value) in env {
            run = run.env(name, value);
        }
        run.run().expect_code(2).text()
    };
    assert!(stderr_of(&[], "--color=auto").contains(bold));
    assert!(!stderr_of(&[("NO_COLOR", "1")], "--color=auto").contains(bold));
    assert!(!stderr_of(&[("TERM", "dumb")], "--color=auto").contains(bold));
    assert!(!stderr_of(&[], "--color=never").contains(bold));
    assert!(stderr_of(&[("NO_COLOR", "1")], "--color=always").contains(bold));
}

#[test]
fn man_pages_are_current() {
    compare_generated("man", "1");
}

#[test]
fn completions_are_current() {
    compare_generated("completions", "");
}

/// Makes the pages anew and holds the committed ones against them, in both directions.
fn compare_generated(what: &str, extension: &str) {
    let dir = temp_dir();
    logtool().args(["generate", what]).arg(dir.path()).run().expect_code(0);
    let committed = repository().join(what);
    let names = file_names(dir.path());
    assert!(!names.is_empty());
    for name in &names {
        let generated = fs::read(dir.path().join(name)).unwrap();
        assert!(name.ends_with(extension), "{name}");
        assert_current(&committed.join(name), &generated);
    }
    assert_eq!(file_names(&committed), names, "files in {what}/ that are not generated");
}

fn file_names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
