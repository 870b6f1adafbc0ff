//! `corpus [--show] TARGET FILE_OR_DIR...`: runs a target's check over files, without a fuzzer, and says what the hungriest cost.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[cfg(feature = "heap")]
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|arg| arg == "--show").is_some() {
        logtool_fuzz::SHOW.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    let name = args.next().unwrap_or_default();
    let target = logtool_fuzz::TARGETS.iter().find(|(target, _)| name == *target);
    let Some((name, check)) = target else {
        let names: Vec<&str> = logtool_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: corpus [--show] TARGET FILE_OR_DIR...; targets: {}", names.join(" "));
        std::process::exit(2);
    };
    let mut files = Vec::new();
    args.for_each(|path| collect(Path::new(&path), &mut files));
    let (mut slowest, mut hungriest) = (Duration::ZERO, 0);
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        let started = Instant::now();
        hungriest = hungriest.max(heap_of(|| check(&bytes)));
        slowest = slowest.max(started.elapsed());
    }
    println!("{name}: {} files, slowest {slowest:?}, most heap {} KiB", files.len(), hungriest >> 10);
}

/// Bytes of heap in use at the peak of `work`, beyond those before it; 0 where nobody counts.
#[cfg(feature = "heap")]
fn heap_of(work: impl FnOnce()) -> usize {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    work();
    HEAP.peak_usage().saturating_sub(before)
}

#[cfg(not(feature = "heap"))]
fn heap_of(work: impl FnOnce()) -> usize {
    work();
    0
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        return files.push(path.to_owned());
    }
    let mut names: Vec<PathBuf> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().for_each(|path| collect(path, files));
}
