//! Rings in a shared file mapping: where an entry is from the moment its call returns until it stands in a segment.
//!
//! The page cache keeps the mapping when the process dies, so a reader or the next writer finds what had not been written
//! yet. [`file`] has the layout, [`level_area`] and [`figures_area`] parts of it, [`protocol`] what the two sides of a ring do, [`live`] makes the file, [`mapping`] maps it,
//! [`stamp`] has the clock.

#![allow(unsafe_code, reason = "rings are memory that two threads share by a protocol of their own")]

pub(crate) mod figures_area;
pub(crate) mod file;
pub(crate) mod fork;
pub(crate) mod level_area;
pub(crate) mod live;
pub(crate) mod mapping;
pub(crate) mod place;
pub(crate) mod primitives;
pub(crate) mod protocol;
pub(crate) mod record;
pub(crate) mod stamp;
#[cfg(test)]
mod tests;
pub(crate) mod waiting;

pub(crate) use primitives::{heavy_fence, lock, prepare_fences};
pub(crate) use protocol::{Consumer, Memory, Producer, Ring};
pub(crate) use waiting::Sleeper;
