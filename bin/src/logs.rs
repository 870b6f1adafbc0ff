//! Which logs the PATHs of a command line mean, and what each is called in the output.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use logtool::{Error, ErrorKind};

use crate::cli::LogArgs;
use crate::escape::{escape, escape_path};
use crate::terminal::Ui;

/// How deep `-r` looks below a directory.
const DEPTH_MAX: usize = 32;

/// A log, or a segment file by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What its lines are marked with where there are several; escaped.
    pub(crate) name: String,
}

/// The logs that `args` mean. A path that cannot be looked at is told of, and the rest is taken.
///
/// # Errors
/// Where a directory holds several logs and `-r` was not given.
pub(crate) fn find(args: &LogArgs, ui: &Ui) -> anyhow::Result<Vec<Log>> {
    find_or_await(args, false, ui)
}

/// As [`find`]; where `awaits`, a path that does not exist, or an empty directory, is a log that is still to come.
///
/// # Errors
/// As [`find`].
pub(crate) fn find_or_await(args: &LogArgs, awaits: bool, ui: &Ui) -> anyhow::Result<Vec<Log>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in &args.paths {
        match logs_at(path, args.recursive, awaits) {
            Ok(found) => found.into_iter().for_each(|path| {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }),
            Err(error) if error.downcast_ref::<Refused>().is_some() => return Err(error),
            Err(error) => ui.failed(&error),
        }
    }
    Ok(name(paths))
}

/// The logs at one path.
fn logs_at(path: &Path, recursive: bool, awaits: bool) -> anyhow::Result<Vec<PathBuf>> {
    if awaits && is_to_come(path) {
        return Ok(vec![path.to_owned()]);
    }
    let metadata = fs::metadata(path).map_err(|error| Error::io("cannot open", error).at(path))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    if logtool::is_log_dir(path) && !recursive {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    collect(path, if recursive { DEPTH_MAX } else { 1 }, &mut found)
        .map_err(|error| Error::io("cannot list", error).at(path))?;
    found.sort();
    if recursive && !found.is_empty() {
        return Ok(found);
    }
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotALog, "no logtool log: it holds no segment").at(path).into());
    }
    Err(Refused).with_context(|| {
        let names: Vec<_> = found.iter().map(|log| escape_path(log)).collect();
        format!(
            "{}: no log itself, but it holds {}; give one of them, or take all with -r",
            escape_path(path),
            names.join(", ")
        )
    })
}

/// Whether nothing stands at `path`, or an empty directory.
pub(crate) fn is_to_come(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut names) => names.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// A command line that cannot be meant.
#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nothing was read")
    }
}

impl std::error::Error for Refused {}

/// All logs in `dir` and up to `depth` directories below it. Symbolic links to directories are not followed.
fn collect(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if logtool::is_log_dir(dir) {
        // What lies within a log is its own.
        found.push(dir.to_owned());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A directory that may not be listed holds no log that could be read.
            let _ = collect(&entry.path(), depth - 1, found);
        }
    }
    Ok(())
}

/// Names the logs: by the last part of their path where that tells them apart, else by the path.
fn name(paths: Vec<PathBuf>) -> Vec<Log> {
    let last = |path: &PathBuf| path.file_name().map(|name| escape(name.as_encoded_bytes()).into_owned());
    let names: Vec<Option<String>> = paths.iter().map(last).collect();
    let is_unique = |name: &Option<String>| name.is_some() && names.iter().filter(|other| *other == name).count() == 1;
    let short = names.iter().all(is_unique);
    let named = |(path, name): (PathBuf, &Option<String>)| {
        let name = name.clone().filter(|_| short).unwrap_or_else(|| escape_path(&path).into_owned());
        Log { path, name }
    };
    paths.into_iter().zip(&names).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> Vec<String> {
        name(paths.iter().map(PathBuf::from).collect()).into_iter().map(|log| log.name).collect()
    }

    #[test]
    fn logs_are_named_by_the_last_part_that_tells_them_apart() {
        assert_eq!(names(&["/var/log/shop", "pay/"]), ["shop", "pay"]);
        assert_eq!(names(&["/a/log", "/b/log"]), ["/a/log", "/b/log"]);
        assert_eq!(names(&["..", "x"]), ["..", "x"]);
        assert_eq!(names(&["a\n\x1b[2J"]), ["a\\n\\x1b[2J"]);
    }
}
