//! The library's own files, over the primitives of loom.

#[path = "../../../src/ring/file.rs"]
pub(crate) mod file;
#[path = "primitives.rs"]
pub(crate) mod primitives;
#[path = "../../../src/ring/protocol.rs"]
pub(crate) mod protocol;
#[path = "../../../src/ring/record.rs"]
pub(crate) mod record;
#[path = "../../../src/ring/waiting.rs"]
pub(crate) mod waiting;
