//! What the benchmarks of the library share: messages, producers, our logger as they all open it, figures, bars.

#![allow(dead_code, reason = "each benchmark uses its part")]

pub(crate) mod args;
pub(crate) mod bars;
pub(crate) mod exit;
pub(crate) mod histogram;
pub(crate) mod messages;
pub(crate) mod ours;
pub(crate) mod process;
pub(crate) mod producers;
