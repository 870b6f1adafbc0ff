//! The options of a benchmark's command line.

use std::str::FromStr;

use anyhow::Context;

/// Options with a value and options without, as they were given.
#[derive(Debug, Default)]
pub(crate) struct Args {
    given: Vec<(String, String)>,
}

impl Args {
    /// Reads the command line: `with_value` are the options that are followed by a value.
    ///
    /// # Errors
    /// For an option that is in neither list.
    pub(crate) fn parse(with_value: &[&str], alone: &[&str]) -> anyhow::Result<Args> {
        let mut args = std::env::args().skip(1);
        let mut given = Vec::new();
        while let Some(arg) = args.next() {
            if with_value.contains(&arg.as_str()) {
                let value = args.next().with_context(|| format!("{arg}: give a value"))?;
                given.push((arg, value));
            } else if alone.contains(&arg.as_str()) {
                given.push((arg, String::new()));
            } else if arg != "--bench" {
                // cargo gives `--bench`.
                anyhow::bail!("{arg}: unknown; there are {} VALUE, {}", with_value.join(" VALUE, "), alone.join(", "));
            }
        }
        Ok(Args { given })
    }

    /// Whether the option was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// Its value as it stands.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Its value, or another one.
    ///
    /// # Errors
    /// If it is no such value.
    pub(crate) fn value<T: FromStr>(&self, name: &str, otherwise: T) -> anyhow::Result<T> {
        let Some(text) = self.text(name) else { return Ok(otherwise) };
        text.parse().ok().with_context(|| format!("{name} {text}: not a value for it"))
    }

    /// Its values, which commas separate, or other ones.
    ///
    /// # Errors
    /// If one of them is no such value.
    pub(crate) fn list<T: FromStr + Clone>(&self, name: &str, otherwise: &[T]) -> anyhow::Result<Vec<T>> {
        let Some(text) = self.text(name) else { return Ok(otherwise.to_vec()) };
        let wrong = || format!("{name} {text}: give values with commas between");
        text.split(',').map(|one| one.parse().ok().with_context(wrong)).collect()
    }
}
