//! Man pages and shell completions, made from the definition of the command line.
//!
//! Nothing in them depends on the day or the machine, so a test can hold the committed ones against them byte for byte.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;

/// Writes `logtool.1` and a page a command, `logtool-NAME.1`.
pub(crate) fn write_man(dir: &Path) -> anyhow::Result<()> {
    let mut logtool = Cli::command();
    logtool.build();
    let commands = logtool.get_subcommands().filter(|command| !command.is_hide_set());
    for command in std::iter::once(&logtool).chain(commands) {
        let page = man_page(command)?;
        let name = command.get_display_name().unwrap_or("logtool");
        write_file(&dir.join(format!("{name}.1")), &page)?;
    }
    Ok(())
}

/// Writes `logtool.bash`, `_logtool` (zsh) and `logtool.fish`.
pub(crate) fn write_completions(dir: &Path) -> anyhow::Result<()> {
    // The generators know nothing of hidden commands, so they are left out before.
    let full = Cli::command();
    let visible = full.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let logtool = visible.fold(without_commands(&full), Command::subcommand);
    for (shell, name) in [(Shell::Bash, "logtool.bash"), (Shell::Zsh, "_logtool"), (Shell::Fish, "logtool.fish")] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut logtool.clone(), "logtool", &mut script);
        write_file(&dir.join(name), &script)?;
    }
    Ok(())
}

/// The top command with its own options but no commands.
fn without_commands(command: &Command) -> Command {
    Command::new("logtool")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .args(command.get_arguments().cloned())
}

fn man_page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .title(command.get_display_name().unwrap_or("logtool").to_uppercase())
        .source(concat!("logtool ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(text) = command.get_after_long_help() {
        render_sections(&text.to_string(), &mut page)?;
    }
    Ok(page)
}

/// Makes sections of the text behind a command's long help: a line at the margin that ends with a colon is a heading,
/// what follows is shown as it stands.
fn render_sections(text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let mut is_open = false;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let heading = line.strip_suffix(':').filter(|line| !line.starts_with(' '));
        if let Some(heading) = heading {
            if is_open {
                writeln!(page, ".fi")?;
            }
            writeln!(page, ".SH {}\n.nf", heading.to_uppercase())?;
            is_open = true;
        } else {
            let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
            writeln!(page, "{}", line.replace('`', "\\(ga"))?;
        }
    }
    if is_open {
        writeln!(page, ".fi")?;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_behind_the_help_becomes_sections_shown_as_they_stand() {
        let mut page = Vec::new();
        render_sections("Examples:\n  One 'a-b':\n      logtool `x`\n\nExit status:\n  0  fine", &mut page).unwrap();
        let expected = ".SH EXAMPLES\n.nf\n  One \\(aqa\\-b\\(aq:\n      logtool \\(gax\\(ga\n.fi\n\
                        .SH EXIT STATUS\n.nf\n  0  fine\n.fi\n";
        assert_eq!(String::from_utf8(page).unwrap(), expected);
    }
}
