//! What the command shows, made safe for a terminal: text of several lines and paths.

use std::borrow::Cow;
use std::path::Path;

pub(crate) use logtool::escape::{escape, is_unsafe};

/// As [`escape`], for text of several lines that are our own: newlines stay.
pub(crate) fn escape_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| escape(line.as_bytes())).collect();
    lines.join("\n")
}

/// A path as it may be shown in a message.
pub(crate) fn escape_path(path: &Path) -> Cow<'_, str> {
    escape(path.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_stay_between_lines() {
        assert_eq!(escape_lines("one\x07\ntwo\n"), "one\\x07\ntwo\n");
    }
}
