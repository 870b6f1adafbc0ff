//! The `logtool` command.
fn main() {}
