//! One module a command; each has `run(args, ui)`, which returns the command's status.

mod cat;
mod decompress;
mod generate;
mod level;
mod repair;
mod stat;
mod stat_prometheus;
mod tail;
mod tour;
mod verify;
mod write;

use crate::cli::Command;
use crate::terminal::{Status, Ui};

/// Runs the command that was asked for. An error means that it could not do its job (exit code 2).
pub(crate) fn run(command: &Command, ui: &Ui) -> anyhow::Result<Status> {
    match command {
        Command::Write(args) => write::run(args, ui),
        Command::Cat(args) => cat::run(args, ui),
        Command::Tail(args) => tail::run(args, ui),
        Command::Verify(args) => verify::run(args, ui),
        Command::Repair(args) => repair::run(args, ui),
        Command::Decompress(args) => decompress::run(args, ui),
        Command::Stat(args) => stat::run(args, ui),
        Command::Level(args) => level::run(args, ui),
        Command::Tour(args) => tour::run(args, ui),
        Command::Generate(args) => generate::run(args),
    }
}
