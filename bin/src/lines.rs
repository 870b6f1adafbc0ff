//! Cuts a stream of bytes into lines, in bounded memory, so that the parts put together are the same bytes again.

use logtool::format::{ENTRY_BODY_BYTES_MAX, FLAG_CONTINUED, FLAG_MORE, FLAG_UNFINISHED};

/// Longest part that is held back to wait for more of its line.
const PART_BYTES_MAX: usize = ENTRY_BODY_BYTES_MAX;

/// The lines of a stream. What waits for its newline is kept here.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The start of a line, or of a later part of one.
    partial: Vec<u8>,
    /// Whether a part of the line under way has been given already.
    is_continued: bool,
}

impl Lines {
    /// Gives each line that `chunk` ends, without its newline and with the entry flags that belong to it.
    ///
    /// # Errors
    /// What `give` says; it is then not to be used again.
    pub(crate) fn feed<E>(&mut self, chunk: &[u8], mut give: impl FnMut(&[u8], u8) -> Result<(), E>) -> Result<(), E> {
        let mut rest = chunk;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let line = &rest[..at];
            rest = &rest[at + 1..];
            if self.partial.is_empty() && !self.is_continued && line.len() <= PART_BYTES_MAX {
                give(line, 0)?;
                continue;
            }
            self.hold(line, &mut give)?;
            let flags = self.continued_flag();
            give(&self.partial, flags)?;
            self.partial.clear();
            self.is_continued = false;
        }
        self.hold(rest, &mut give)
    }

    /// Whether a line waits for its newline.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Gives what waits, marked as unfinished; what comes behind it is an entry of its own.
    ///
    /// # Errors
    /// What `give` says.
    pub(crate) fn give_unfinished<E>(&mut self, mut give: impl FnMut(&[u8], u8) -> Result<(), E>) -> Result<(), E> {
        if self.is_waiting() {
            let flags = self.continued_flag() | FLAG_UNFINISHED;
            give(&self.partial, flags)?;
            self.partial.clear();
            self.is_continued = false;
        }
        Ok(())
    }

    fn continued_flag(&self) -> u8 {
        if self.is_continued { FLAG_CONTINUED } else { 0 }
    }

    /// Keeps `bytes` behind what waits. At least one byte is kept back from a line that is too long, so that its last part
    /// can be told from a whole line.
    fn hold<E>(&mut self, mut bytes: &[u8], give: &mut impl FnMut(&[u8], u8) -> Result<(), E>) -> Result<(), E> {
        while self.partial.len() + bytes.len() > PART_BYTES_MAX {
            let (now, later) = bytes.split_at(PART_BYTES_MAX - self.partial.len());
            self.partial.extend_from_slice(now);
            bytes = later;
            let flags = self.continued_flag() | FLAG_MORE;
            give(&self.partial, flags)?;
            self.partial.clear();
            self.is_continued = true;
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `input` in chunks of `size` bytes; the entries, and the bytes that they stand for.
    fn entries(input: &[u8], size: usize) -> (Vec<(usize, u8)>, Vec<u8>) {
        let (mut lines, mut entries, mut bytes) = (Lines::default(), Vec::new(), Vec::new());
        let mut give = |part: &[u8], flags: u8| -> Result<(), ()> {
            entries.push((part.len(), flags));
            bytes.extend_from_slice(part);
            if flags & (FLAG_MORE | FLAG_UNFINISHED) == 0 {
                bytes.push(b'\n');
            }
            Ok(())
        };
        input.chunks(size).for_each(|chunk| lines.feed(chunk, &mut give).unwrap());
        lines.give_unfinished(&mut give).unwrap();
        (entries, bytes)
    }

    #[test]
    fn any_bytes_in_any_chunks_come_back_exactly() {
        let inputs: [&[u8]; 6] = [b"", b"\n", b"a\r\nb\n\n\nc", b"\0\xff\n\xfe", b"no newline", b"one\n"];
        for input in inputs {
            for size in 1..8 {
                assert_eq!(entries(input, size).1, input, "{input:?} by {size}");
            }
        }
    }

    #[test]
    fn only_a_line_without_its_newline_is_unfinished() {
        assert_eq!(entries(b"ab\nc", 2).0, [(2, 0), (1, FLAG_UNFINISHED)]);
        assert_eq!(entries(b"ab\n", 2).0, [(2, 0)]);
    }

    #[test]
    fn a_line_over_the_limit_is_cut_into_flagged_parts() {
        for extra in [0, 1, 5, PART_BYTES_MAX] {
            let mut input = vec![b'x'; PART_BYTES_MAX + extra];
            input.extend_from_slice(b"\nnext\n");
            for size in [4096, 1 << 20, input.len()] {
                let (entries, bytes) = entries(&input, size);
                assert_eq!(bytes, input);
                let last = entries.len() - 2;
                assert_eq!(entries[last + 1], (4, 0));
                assert_eq!(entries[last].1, if extra == 0 { 0 } else { FLAG_CONTINUED });
                assert!(entries[..last].iter().all(|(_, flags)| flags & FLAG_MORE != 0));
                assert!(entries.iter().all(|&(len, _)| len <= PART_BYTES_MAX));
            }
        }
    }
}
