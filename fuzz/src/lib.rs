//! What the fuzz targets check, as plain functions of bytes: an input that breaks a promise makes them panic.
//!
//! `targets/` hands each of them to libFuzzer; `corpus.rs` runs them over files.

use std::sync::atomic::{AtomicBool, Ordering};

pub mod codecs;
pub mod input;
pub mod log;
pub mod memory;
pub mod repair;
pub mod ring;
pub mod script;
pub mod segment;

/// Set: checks print what they are given, for who looks into a finding.
pub static SHOW: AtomicBool = AtomicBool::new(false);

/// Prints a line if [`SHOW`] is set.
pub fn show(line: impl FnOnce() -> String) {
    if SHOW.load(Ordering::Relaxed) {
        println!("{}", line());
    }
}

/// A check of one input.
pub type Check = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: &[(&str, Check)] = &[
    ("header", codecs::header),
    ("frame", codecs::frame),
    ("block", codecs::block),
    ("payloads", codecs::payloads),
    ("names", codecs::names),
    ("segment", segment::segment),
    ("log", log::log),
    ("repair", repair::repair_log),
    ("ring", ring::ring),
];
