//! The integration tests of library and command: one binary, a module a subject.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should say so and stop")]

mod call_path;
mod cat;
mod cli_basics;
mod damage;
mod damage_frames;
mod decompress;
mod faulty_storage;
mod follow;
mod follow_ends;
mod fork;
mod format_document;
mod harness;
mod hostile;
mod hostile_seals;
mod json;
mod kill_counts;
mod kill_faults;
mod kill_tally;
mod level_cli;
mod log_calls;
mod log_formats;
mod log_global;
mod log_hygiene;
mod odd_logs;
mod recovery;
mod retention_full_disk;
mod ring_dir;
mod ring_full_disk;
mod rings;
mod rings_cli;
mod rings_damage;
mod rings_stopped;
mod sample;
mod stat;
mod tail;
mod tail_follow;
mod tidy;
mod tour;

mod verify_cli;
mod write;
mod writer_basic;
mod writer_faults;
mod writer_open;
mod writer_retention;
