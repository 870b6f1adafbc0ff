//! The records in a ring: entries that no segment has yet.
//!
//! Positions count on for ever; a record at position `p` stands at
//! `p mod bytes`, is a multiple of 16 bytes long, and never wraps: a skip fills the end.
//!
//! ```text
//! record   checksum u32 | len u24, flags u8 | stamp u64 | tseq u64 | tid u32 | site u32 | body | zeros to 16
//! skip     checksum u32 | len u24, flags u8 | 0 u64           `len` is then the skip's whole length
//! ```
//! A record's checksum is the lower half of rapidhash v3 (nano, with the secrets of seed 0) over all of it, of a skip over
//! these 16 bytes, with the record's seed in the place of the checksum: a number made of the run and the position, so that
//! nothing of an earlier round or of another file is valid.
//!
//! A record is valid if 1. it starts at a multiple of 16; 2. its length fits into the ring; 3. its checksum holds. One that
//! is whole but not published yet is valid too: its call has not returned.

use crate::bytes::Fields;

/// Bytes of a record before its body.
pub(crate) const RECORD_HEAD_BYTES: usize = 4 + 4 + 8 + 8 + 4 + 4;
/// Records start at multiples of this: what the checksum takes at a time.
pub(crate) const RECORD_ALIGN: usize = 16;
/// Longest body of a record: with its head, and the skip that it may need, within the 24 bits of a length.
pub(crate) const RECORD_BODY_BYTES_MAX: usize = (1 << 24) - 1024;
/// Record flag: fills the end of the ring.
pub(crate) const FLAG_SKIP: u8 = 0x80;
/// Set in the tseq of entries in the shared ring, which are counted over all threads of the run.
pub(crate) const SHARED_TSEQ: u64 = 1 << 63;

/// What stands before the body of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) stamp: u64,
    pub(crate) tseq: u64,
    pub(crate) tid: u32,
    /// Number of the call site's definition; 0 for text.
    pub(crate) site: u32,
}

/// Length of a record with so long a body.
#[inline]
pub(crate) const fn record_bytes(body_len: usize) -> usize {
    (RECORD_HEAD_BYTES + body_len).next_multiple_of(RECORD_ALIGN)
}

/// The checksum of a record that has its seed in the place of it. Source: Nicolas De Carlo, rapidhash.
#[inline]
fn record_checksum(bytes: &[u8]) -> u32 {
    const SECRETS: rapidhash::v3::RapidSecrets = rapidhash::v3::RapidSecrets::seed(0);
    rapidhash::v3::rapidhash_v3_nano_inline::<true, false>(bytes, &SECRETS) as u32
}

/// What stands in the place of the checksum of the record at `position` while that is made.
#[inline]
fn record_seed(run_id: u64, position: u64) -> u32 {
    let units = position / RECORD_ALIGN as u64;
    (run_id as u32) ^ (run_id >> 32) as u32 ^ units as u32 ^ (units >> 32) as u32
}

/// Makes room for a record with a body of `body_len` bytes in `bytes`: its place, behind which the rest is zeros.
#[inline]
pub(crate) fn body_of(bytes: &mut [u8], body_len: usize) -> &mut [u8] {
    if let Some(padding) = bytes.last_chunk_mut::<RECORD_ALIGN>() {
        *padding = [0; RECORD_ALIGN];
    }
    &mut bytes[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + body_len]
}

/// Completes the record in `bytes`, whose body was written to where [`body_of`] says.
#[inline]
pub(crate) fn finish_record(bytes: &mut [u8], body_len: usize, head: &RecordHead, run_id: u64, position: u64) {
    // In whole words: the checksum reads them at once, and would have to wait for smaller pieces to be put together.
    let words = [
        u64::from(record_seed(run_id, position)) | (body_len as u64) << 32,
        head.stamp,
        head.tseq,
        u64::from(head.tid) | u64::from(head.site) << 32,
    ];
    for (place, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let checksum = record_checksum(bytes);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Fills `bytes`, the end of a ring, with a skip.
#[inline]
pub(crate) fn write_skip(bytes: &mut [u8], run_id: u64, position: u64) {
    let mut first = [0; RECORD_ALIGN];
    first[..4].copy_from_slice(&record_seed(run_id, position).to_le_bytes());
    first[4..8].copy_from_slice(&(bytes.len() as u32 | u32::from(FLAG_SKIP) << 24).to_le_bytes());
    let checksum = record_checksum(&first);
    first[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes[..RECORD_ALIGN].copy_from_slice(&first);
}

/// What stands at a position of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// An entry.
    Entry {
        /// What stands before the body.
        head: RecordHead,
        /// The body.
        body: &'a [u8],
    },
    /// Nothing up to the end of the ring.
    Skip,
}

impl<'a> Record<'a> {
    /// Takes apart the record at the start of `bytes`, which reach to the end of the ring: the record and its length.
    /// `None` if the length does not fit. The checksum is not looked at.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let word = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
        let (len, flags) = ((word & 0x00ff_ffff) as usize, (word >> 24) as u8);
        if flags == FLAG_SKIP {
            return (len == bytes.len()).then_some((Record::Skip, len));
        }
        let head: &[u8; RECORD_HEAD_BYTES] = bytes.first_chunk()?;
        let whole = record_bytes(len);
        if flags != 0 || whole > bytes.len() {
            return None;
        }
        let mut fields = Fields::new(&head[8..]);
        let head = RecordHead { stamp: fields.u64()?, tseq: fields.u64()?, tid: fields.u32()?, site: fields.u32()? };
        Some((Record::Entry { head, body: &bytes[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + len] }, whole))
    }

    /// How many bytes must be at hand to [`check`](Record::check) the record that starts with `bytes`, in a ring that goes on
    /// for `room` bytes; `None` if it does not fit.
    pub(crate) fn span(bytes: &[u8], room: usize) -> Option<usize> {
        let word = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
        let (len, flags) = ((word & 0x00ff_ffff) as usize, (word >> 24) as u8);
        let span = if flags == FLAG_SKIP { len } else { record_bytes(len) };
        let fits = if flags == FLAG_SKIP { span == room } else { flags == 0 && span <= room };
        fits.then_some(span)
    }

    /// As [`parse`](Record::parse), of bytes that may be damaged: `None` unless the record at `position` is valid.
    pub(crate) fn check(bytes: &'a [u8], run_id: u64, position: u64) -> Option<(Record<'a>, usize)> {
        let (record, whole) = Record::parse(bytes)?;
        let covered = if record == Record::Skip { RECORD_ALIGN } else { whole };
        let mut copy = bytes.get(..covered)?.to_vec();
        let checksum = copy.first_chunk::<4>().map(|checksum| u32::from_le_bytes(*checksum))?;
        copy[..4].copy_from_slice(&record_seed(run_id, position).to_le_bytes());
        (record_checksum(&copy) == checksum).then_some((record, whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 0x1234_5678_9abc_def0;

    #[test]
    fn a_record_is_valid_at_its_position_of_its_run_only() {
        let head = RecordHead { stamp: 1, tseq: 2, tid: 3, site: 4 };
        let mut ring = vec![0xaa; 96];
        body_of(&mut ring[..record_bytes(5)], 5).copy_from_slice(b"hello");
        finish_record(&mut ring[..record_bytes(5)], 5, &head, RUN, 4096);
        let entry = (Record::Entry { head, body: b"hello" }, 48);
        assert_eq!(Record::check(&ring, RUN, 4096), Some(entry));
        assert_eq!(Record::check(&ring, RUN, 4096 + (1 << 20)), None);
        assert_eq!(Record::check(&ring, RUN + 1, 4096), None);
        for bit in 0..48 * 8 {
            let mut flipped = ring.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::check(&flipped, RUN, 4096), None, "bit {bit}");
        }
        write_skip(&mut ring[48..], RUN, 4144);
        assert_eq!(Record::check(&ring[48..], RUN, 4144), Some((Record::Skip, 48)));
        assert_eq!(Record::check(&[0; 64], 0, 0), None);
    }
}
