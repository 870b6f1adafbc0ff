//! Rings in a shared file mapping: where an entry is from the moment its call returns until it stands in a segment.
//!
//! The page cache keeps the mapping when the process dies, so a reader or the next writer finds what had not been written
//! yet. [`file`] has the layout.

pub(crate) mod file;
