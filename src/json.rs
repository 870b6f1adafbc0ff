//! The JSON that the command line writes, specified here so that programs can read it.
//!
#![doc = include_str!("json.md")]

/// The version in each object's `v`.
pub const VERSION: u32 = 1;
