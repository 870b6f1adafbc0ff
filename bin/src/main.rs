//! The `logtool` command: reads the command line, runs one command, and turns what happened into an exit code.

mod behind;
mod classify;
mod cli;
mod commands;
mod decimal;
mod duration;
mod escape;
mod examples;
mod filter;
mod follow;
mod json;
mod lines;
mod logfmt;
mod logs;
mod merge;
mod pages;
mod print;
mod progress;
mod report_json;
mod report_text;
mod select;
mod signals;
mod size;
mod source;
mod stop;
mod terminal;
mod time;
mod timestamp;
mod told;
mod values;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::terminal::Ui;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return terminal::report_usage(&error),
    };
    let ui = Ui::new(cli.color);
    match commands::run(&cli.command, &ui) {
        Ok(status) => ui.raise(status),
        // Nobody reads any more: that is how `| head` ends, and no fault.
        Err(error) if terminal::is_closed_pipe(&error) => {}
        Err(error) => ui.failed(&error),
    }
    ui.status().into()
}
