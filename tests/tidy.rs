//! Reads the source of the project and enforces its style. Each rule has a sample that trips it.
//!
//! The idea is tigerbeetle's `src/tidy.zig`.

use std::fs;
use std::path::Path;

use crate::harness::repository;

/// A file should stay within about 500 lines; longer than this it is two files.
const LINES_MAX: usize = 500;

/// Where `unsafe` may stand: rings and mappings, and the C interface.
const UNSAFE_ALLOWED: [&str; 10] = [
    "src/ring/fork.rs",
    "src/ring/mapping.rs",
    "src/ring/primitives.rs",
    "src/ring/protocol.rs",
    "src/ring/stamp.rs",
    "src/capi.rs",
    "tests/fork.rs",
    "tests/kill_record.rs",
    "tests/signals.rs",
    "tests/models/src/models.rs",
];

/// A source file: its path from the repository's root, and its text.
struct Source {
    path: String,
    text: String,
}

/// A rule: what is wrong, and whether a file is so. Patterns are put together from halves, or this file would trip.
struct Rule {
    wrong: &'static str,
    trips: fn(&Source) -> bool,
}

const RULES: [Rule; 8] = [
    Rule {
        wrong: "far longer than 500 lines: split it by subject",
        trips: |source| source.text.lines().count() > LINES_MAX,
    },
    Rule {
        wrong: "a name that says nothing, or mod.rs: name the file by what it holds",
        trips: |source| {
            let name = source.path.rsplit('/').next().unwrap_or_default();
            ["mod.rs", "util.rs", "utils.rs", "helpers.rs", "misc.rs", "common.rs"].contains(&name)
        },
    },
    Rule {
        wrong: "does not begin with a `//!` sentence that says what it holds",
        trips: |source| {
            let first = source.text.lines().next().unwrap_or_default();
            !first.starts_with("//! ") || first.len() < "//! ".len() + 10
        },
    },
    Rule {
        wrong: "unfinished or left over: todo, unimplemented or dbg",
        trips: |source| {
            let macros = [concat!("todo", "!"), concat!("unimplemented", "!"), concat!("dbg", "!")];
            code_lines(source).any(|line| macros.iter().any(|name| line.contains(name)))
        },
    },
    Rule {
        wrong: "unsafe code outside of rings, mappings and the C interface",
        trips: |source| {
            let word = concat!("un", "safe");
            let forms = [format!("{word} {{"), format!("{word} fn"), format!("{word} impl"), format!("{word} extern")];
            !UNSAFE_ALLOWED.contains(&source.path.as_str())
                && code_lines(source).any(|line| forms.iter().any(|form| line.contains(form)))
        },
    },
    Rule {
        wrong: "the library prints",
        trips: |source| {
            source.path.starts_with("src/")
                && code_lines(source)
                    .any(|line| [concat!("println", "!"), concat!("print", "!")].iter().any(|name| line.contains(name)))
        },
    },
    Rule {
        wrong: "white space at the end of a line, or no newline at the end of the file",
        trips: |source| source.text.lines().any(|line| line.ends_with([' ', '\t'])) || !source.text.ends_with('\n'),
    },
    Rule { wrong: "a tab where the house uses spaces", trips: |source| source.text.contains('\t') },
];

/// The lines of a file without those that are comments.
fn code_lines(source: &Source) -> impl Iterator<Item = &str> {
    source.text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn every_source_file_keeps_the_style() {
    let mut sources = Vec::new();
    for dir in ["src", "bin", "macros", "tests", "benches", "examples", "fuzz"] {
        collect(&repository(), &repository().join(dir), &mut sources);
    }
    assert!(sources.iter().any(|source| source.path == "bin/src/main.rs"));
    let mut faults = Vec::new();
    for source in &sources {
        for rule in RULES.iter().filter(|rule| (rule.trips)(source)) {
            faults.push(format!("{}: {}", source.path, rule.wrong));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_rule_is_tripped_by_its_sample_and_by_no_other() {
    let long = "//! Long enough to be a sentence.\n".repeat(LINES_MAX + 1);
    let with = |line: &str| format!("//! Says what it holds.\n{line}\n");
    let samples = [
        ("src/long.rs", long),
        ("src/frame/mod.rs", with("")),
        ("src/frame.rs", "use std::fs;\n".to_string()),
        ("bin/src/cat.rs", with(concat!("    todo", "!()"))),
        ("bin/src/cat.rs", with(concat!("    un", "safe { work() }"))),
        ("src/scan.rs", with(concat!("    eprintln", "!(\"x\");"))),
        ("src/scan.rs", with("let a = 1; ")),
        ("src/scan.rs", with("\u{9}let a = 1;")),
    ];
    assert_eq!(samples.len(), RULES.len());
    for (position, (path, text)) in samples.into_iter().enumerate() {
        let source = Source { path: path.to_string(), text };
        let tripped: Vec<usize> = (0..RULES.len()).filter(|rule| (RULES[*rule].trips)(&source)).collect();
        assert_eq!(tripped, [position], "sample for: {}", RULES[position].wrong);
    }
}

#[test]
fn what_the_rules_allow_passes() {
    for (path, line) in [
        ("src/ring/mapping.rs", concat!("    un", "safe { work() }")),
        ("src/scan.rs", concat!("    // never println", "!(..) here")),
        ("tests/scan.rs", concat!("    println", "!(\"figure\");")),
        ("bin/src/cat.rs", concat!("#![forbid(un", "safe_code)]")),
    ] {
        let source = Source { path: path.to_string(), text: format!("//! Says what it holds.\n{line}\n") };
        assert!(RULES.iter().all(|rule| !(rule.trips)(&source)), "{path}: {line}");
    }
}

/// Reads all Rust files below `dir`; a directory that is not there has none.
fn collect(root: &Path, dir: &Path, sources: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            collect(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(Source {
                path: path.strip_prefix(root).unwrap().to_str().unwrap().to_string(),
                text: fs::read_to_string(&path).unwrap(),
            });
        }
    }
}
