//! The file `writer.lock`: who writes the log, and evidence of the newest entry that it accepted.
//!
//! ```text
//! bytes 0..32    "pid 4121" and spaces, the last byte a newline
//! bytes 32..243  log, run, segment (16 hex digits each), boot (32), newest, upto, kept (20 decimal digits each), open or
//!                closed, and a CRC-32 of the line up to the space before "crc", in 8 hex digits; a newline
//! ```
//! The record is written after the data that it speaks of, so on one boot the data is never behind it; but what retention
//! keeps it tells before the first file goes. It is overwritten in place, by one write within one sector: so it can be
//! written on a full disk, where a retention mark cannot. Anything that does not decode is no evidence; it is never an
//! error. The lock on the file tells whether the writer lives, the text never.

use std::io;
use std::sync::Arc;

use nix::libc;

use crate::storage::{ReadAt, Storage, StorageFile};

/// Name of the file.
pub const LOCK_NAME: &str = "writer.lock";

/// Bytes of the line that names the process.
pub const PID_BYTES: usize = 32;

/// Bytes of the record's line.
const LINE_BYTES: usize = 211;

// A sector is written whole or not at all.
const _: () = assert!(PID_BYTES + LINE_BYTES <= 512);

/// What a log's last writer recorded of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterState {
    /// The log.
    pub log_id: u64,
    /// The run that wrote the record.
    pub run_id: u64,
    /// The boot that it ran in.
    pub boot_id: [u8; 16],
    /// The newest sequence number handed to the operating system; 0 for none.
    pub newest_seq: u64,
    /// The segment that was active.
    pub segment_id: u64,
    /// End of the last whole frame in that segment, its seal included: a byte offset.
    pub upto: u64,
    /// First number that retention has kept, or is about to keep; 1 if it has removed nothing. True on whatever boot it is
    /// read: segments before it that are still there are read all the same.
    pub first_seq_kept: u64,
    /// Whether the run closed the log.
    pub is_closed: bool,
}

impl WriterState {
    /// The line, with its newline.
    pub fn encode(&self) -> String {
        let WriterState { log_id, run_id, boot_id, newest_seq, segment_id, upto, first_seq_kept, is_closed } = self;
        let mut line = String::with_capacity(LINE_BYTES);
        push_digits::<16, 16>(&mut line, "log ", *log_id);
        push_digits::<16, 16>(&mut line, " run ", *run_id);
        let boot = u128::from_be_bytes(*boot_id);
        push_digits::<16, 16>(&mut line, " boot ", (boot >> 64) as u64);
        push_digits::<16, 16>(&mut line, "", boot as u64);
        push_digits::<10, 20>(&mut line, " newest ", *newest_seq);
        push_digits::<16, 16>(&mut line, " segment ", *segment_id);
        push_digits::<10, 20>(&mut line, " upto ", *upto);
        push_digits::<10, 20>(&mut line, " kept ", *first_seq_kept);
        line.push_str(if *is_closed { " state closed" } else { " state open  " });
        let crc = crc32fast::hash(line.as_bytes());
        push_digits::<16, 8>(&mut line, " crc ", crc.into());
        line.push('\n');
        line
    }

    /// Reads the line; `None` for anything that [`encode`](WriterState::encode) did not write.
    pub fn decode(line: &str) -> Option<WriterState> {
        let (covered, crc) = line.strip_suffix('\n').unwrap_or(line).rsplit_once(" crc ")?;
        if crc != format!("{:08x}", crc32fast::hash(covered.as_bytes())) {
            return None;
        }
        let mut words = covered.split(' ');
        let mut field = |name: &str| words.next().filter(|word| *word == name).and_then(|_| words.next());
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(WriterState {
            log_id: hex(field("log")?)?,
            run_id: hex(field("run")?)?,
            boot_id: u128::from_str_radix(field("boot")?, 16).ok()?.to_be_bytes(),
            newest_seq: field("newest")?.parse().ok()?,
            segment_id: hex(field("segment")?)?,
            upto: field("upto")?.parse().ok()?,
            first_seq_kept: field("kept")?.parse().ok()?,
            is_closed: match field("state")? {
                "closed" => true,
                "open" => false,
                _ => return None,
            },
        })
    }
}

/// Appends a word and a number in so many digits. The record is written with each flush, and `format!` takes several times
/// as long.
fn push_digits<const RADIX: u64, const WIDTH: usize>(line: &mut String, word: &str, mut value: u64) {
    let mut digits = [0; WIDTH];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value % RADIX) as usize];
        value /= RADIX;
    }
    line.push_str(word);
    line.push_str(str::from_utf8(&digits).unwrap_or_default());
}

/// The line that names the process, [`PID_BYTES`] long.
pub(crate) fn encode_pid(pid: u32) -> String {
    format!("{:<width$}\n", format!("pid {pid}"), width = PID_BYTES - 1)
}

fn decode_pid(line: &str) -> Option<u32> {
    line.strip_prefix("pid ")?.trim_end().parse().ok()
}

/// The file, for reading; `None` where there is none, or something that is no file and so no evidence.
fn open_lock(storage: &dyn Storage) -> io::Result<Option<Arc<dyn StorageFile>>> {
    match storage.open(LOCK_NAME) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => Ok(None),
        // A link to itself; a socket.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The text of the file, as far as it is text; `None` if there is no such file.
fn read_text(storage: &dyn Storage) -> io::Result<Option<String>> {
    let Some(file) = open_lock(storage)? else { return Ok(None) };
    let mut bytes = [0u8; 512];
    let len = file.read_full_at(&mut bytes, 0)?;
    Ok(Some(String::from_utf8_lossy(&bytes[..len]).into_owned()))
}

/// What the last writer of a log recorded; `None` if there is no record that holds.
///
/// # Errors
/// What the system says while reading.
pub fn read_state(storage: &dyn Storage) -> io::Result<Option<WriterState>> {
    for _ in 0..2 {
        let Some(text) = read_text(storage)? else { return Ok(None) };
        if let Some(state) =
            text.get(PID_BYTES..).and_then(|rest| rest.split_inclusive('\n').next()).and_then(WriterState::decode)
        {
            return Ok(Some(state));
        }
    }
    Ok(None)
}

/// The process that holds the log's lock now; `None` if nobody does.
///
/// # Errors
/// What the system says while reading.
pub fn writer_pid(storage: &dyn Storage) -> io::Result<Option<u32>> {
    let Some(file) = open_lock(storage)? else { return Ok(None) };
    if !file.is_locked()? {
        return Ok(None);
    }
    // The holder writes its pid right after it has got the lock.
    let mut line = [0u8; PID_BYTES];
    let len = file.read_full_at(&mut line, 0)?;
    Ok(Some(decode_pid(&String::from_utf8_lossy(&line[..len])).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> WriterState {
        WriterState {
            log_id: 0x7f3a_91c2,
            run_id: 2,
            boot_id: [9; 16],
            newest_seq: u64::MAX,
            segment_id: u64::MAX,
            upto: 1024,
            first_seq_kept: 77,
            is_closed: false,
        }
    }

    #[test]
    fn a_record_comes_back_and_has_one_width() {
        let closed = WriterState { is_closed: true, newest_seq: 0, ..sample() };
        assert_eq!(WriterState::decode(&sample().encode()), Some(sample()));
        assert_eq!(WriterState::decode(&closed.encode()), Some(closed));
        assert_eq!(closed.encode().len(), sample().encode().len());
        assert_eq!(sample().encode().len(), LINE_BYTES);
    }

    #[test]
    fn the_line_is_the_one_that_the_format_tells() {
        let line = "log 000000007f3a91c2 run 0000000000000002 boot 09090909090909090909090909090909 \
                    newest 18446744073709551615 segment ffffffffffffffff upto 00000000000000001024 \
                    kept 00000000000000000077 state open   crc ";
        let crc = crc32fast::hash(&line.as_bytes()[..line.len() - 5]);
        assert_eq!(sample().encode(), format!("{line}{crc:08x}\n"));
    }

    #[test]
    fn each_changed_byte_makes_it_no_evidence() {
        let line = sample().encode().into_bytes();
        for at in 0..line.len() - 1 {
            for flip in [1, 0x10, 0x20, 0x40] {
                let mut changed = line.clone();
                changed[at] ^= flip;
                let text = String::from_utf8_lossy(&changed).into_owned();
                assert_eq!(WriterState::decode(&text), None, "byte {at}");
            }
        }
    }

    #[test]
    fn the_pid_line_has_its_width() {
        for pid in [1, 4121, u32::MAX] {
            let line = encode_pid(pid);
            assert_eq!(line.len(), PID_BYTES);
            assert_eq!(decode_pid(&line), Some(pid));
        }
    }
}
