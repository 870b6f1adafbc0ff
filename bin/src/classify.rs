//! Says what a file is that is no logtool log, and what to do with it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Bytes of the beginning that are looked at.
const LOOK_BYTES: u64 = 4096;

/// One line on what stands at `path`, to follow the path in a message, as in `is text, no logtool log; read it as it is`.
///
/// # Errors
/// Where it cannot be looked at. Pipes and devices are told by their kind, never opened.
pub(crate) fn what_is(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return what_directory(path);
    }
    let special = [
        (kind.is_fifo(), "a named pipe"),
        (kind.is_socket(), "a socket"),
        (kind.is_char_device() || kind.is_block_device(), "a device"),
    ];
    if let Some((_, name)) = special.into_iter().find(|(is_it, _)| *is_it) {
        return Ok(format!("is {name}, no logtool log; give the directory of a log or one of its segment files"));
    }
    let mut start = Vec::new();
    File::open(path)?.take(LOOK_BYTES).read_to_end(&mut start)?;
    Ok(what_bytes(&start).to_string())
}

fn what_directory(path: &Path) -> io::Result<String> {
    Ok(match fs::read_dir(path)?.next() {
        None => "is an empty directory, no logtool log; `logtool write` makes a log in it",
        Some(_) => "is a directory without a logtool log; a log has files named NNNNNNNN-TIME.flog, and -r looks below",
    }
    .to_string())
}

/// What a file is that begins like this.
fn what_bytes(start: &[u8]) -> &'static str {
    const SIGNATURES: [(&[u8], &str); 9] = [
        (b"\x1f\x8b", "is gzip, no logtool log; read it with zcat"),
        (b"\x28\xb5\x2f\xfd", "is zstd, no logtool log; read it with zstdcat"),
        (b"\xfd7zXZ\0", "is xz, no logtool log; read it with xzcat"),
        (b"\x04\x22\x4d\x18", "is lz4, no logtool log; read it with lz4cat"),
        (b"BZh", "is bzip2, no logtool log; read it with bzcat"),
        (b"PK\x03\x04", "is a zip archive, no logtool log; read it with unzip -p"),
        (b"\x7fELF", "is a program or library (ELF), no logtool log; give a log to read"),
        (b"LPKSHHRH", "is a systemd journal, no logtool log; read it with journalctl --file"),
        (b"SQLite format 3\0", "is an SQLite database, no logtool log; read it with sqlite3"),
    ];
    if start.is_empty() {
        return "is empty, no logtool log; nothing to read";
    }
    if let Some((_, text)) = SIGNATURES.iter().find(|(magic, _)| start.starts_with(magic)) {
        return text;
    }
    if start.iter().all(|byte| *byte == 0) {
        return "begins with nothing but zeros, no logtool log; perhaps preallocated, or lost in a power cut";
    }
    if is_text(start) {
        return "is text, no logtool log; read it as it is, or log it: logtool write DIR <FILE";
    }
    "is binary data of an unknown kind, no logtool log; give the directory of a log or one of its segment files"
}

/// True for what people would call text: no NUL, few control characters, mostly valid UTF-8.
fn is_text(start: &[u8]) -> bool {
    let odd_control = |byte: &u8| matches!(byte, 1..=8 | 14..=26 | 28..=31 | 127);
    let controls = start.iter().filter(|byte| odd_control(byte)).count();
    let invalid: usize = start.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    // Latin-1 text has some invalid bytes, and the look may end within a character.
    !start.contains(&0) && controls * 50 <= start.len() && invalid * 8 <= start.len() + 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_beginning() {
        for (bytes, word) in [
            (&b""[..], "empty"),
            (b"\x1f\x8b\x08rest", "gzip"),
            (b"\x28\xb5\x2f\xfdrest", "zstd"),
            (b"\xfd7zXZ\0rest", "xz"),
            (b"\x04\x22\x4d\x18rest", "lz4"),
            (b"BZh9rest", "bzip2"),
            (b"\x7fELF\x02\x01", "ELF"),
            (b"2026-11-30 12:00:00 started\n", "text"),
            ("Grüße an alle\n".as_bytes(), "text"),
            (b"Gr\xfc\xdfe in Latin-1, which has few such bytes\n", "text"),
            (b"\x1b[32mINFO\x1b[0m coloured log\n", "text"),
            (b"x", "text"),
            (&[0; 600], "zeros"),
            (b"a\0b\0c\0", "binary"),
            (&[0x93, 0xf1, 0x02, 0x88, 0xfe, 0xc0, 0x9d, 0x81, 0xaa, 0xbb], "binary"),
        ] {
            let text = what_bytes(bytes);
            assert!(text.contains(word), "{bytes:?} gave {text:?}");
        }
    }

    #[test]
    fn directories_and_special_files_are_told_without_being_opened() {
        let dir = tempfile::tempdir().unwrap();
        let what = |path: &Path| what_is(path).unwrap();
        assert!(what(dir.path()).starts_with("is an empty directory"));
        let file = dir.path().join("a.txt");
        fs::write(&file, "text\n").unwrap();
        assert!(what(&file).starts_with("is text"));
        assert!(what(dir.path()).starts_with("is a directory without"));
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(what(&pipe).starts_with("is a named pipe"));
        assert!(what(Path::new("/dev/null")).starts_with("is a device"));
        assert!(what_is(&dir.path().join("missing")).is_err());
    }
}
