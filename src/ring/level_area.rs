//! Where levels pass between a running writer and `logtool level`: two records in the first page of the ring file.
//!
//! ```text
//! asked      3104..3584   written by whoever wants other levels, read by the backend each second
//! in force   3592..4096   written by the backend: the levels that hold, and which request it has answered last
//!
//! each       crc u32 | bytes of the text u16 | flags u16 | request id u64 | text
//! ```
//! The text is that of [`Levels`](crate::Levels). The checksum is a CRC-32 of the run of all behind it: what is half written, or
//! of another run, or anything else, is nothing. An id is a random number, so that several who ask at once know whose turn it
//! was; 0 is nobody's.

use crate::bytes::Fields;
use crate::ring::file::{ANCHOR, PAGE_BYTES, SECOND_COPY, SECTIONS, seeded_crc};

/// Where a request stands.
pub(crate) const ASKED: usize = 3104;
/// Behind it.
const ASKED_END: usize = SECTIONS[1];
/// Where the levels in force stand.
pub(crate) const IN_FORCE: usize = SECTIONS[1] + 8;

const HEAD_BYTES: usize = 4 + 2 + 2 + 8;

/// Longest text of a request, in bytes.
pub(crate) const ASKED_TEXT_BYTES_MAX: usize = ASKED_END - ASKED - HEAD_BYTES;
/// Longest text of the levels in force.
const IN_FORCE_TEXT_BYTES_MAX: usize = PAGE_BYTES - IN_FORCE - HEAD_BYTES;

const _: () =
    assert!(ASKED >= SECOND_COPY + ANCHOR + 28 && ASKED_TEXT_BYTES_MAX == 464 && IN_FORCE_TEXT_BYTES_MAX == 488);

/// There are more settings than the text has room for.
const FLAG_CUT: u16 = 1;
/// The writer could not read the request.
const FLAG_REFUSED: u16 = 2;

/// One of the two records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelRecord {
    /// Of the request.
    pub(crate) id: u64,
    /// As [`Levels`](crate::Levels) reads it.
    pub(crate) text: String,
    /// There are more settings than these.
    pub(crate) is_cut: bool,
    /// The writer could not read the request, and has changed nothing.
    pub(crate) is_refused: bool,
}

impl LevelRecord {
    /// What a writer tells: cut behind the last setting for which there is room.
    pub(crate) fn in_force(id: u64, mut text: String, is_refused: bool) -> LevelRecord {
        let is_cut = text.len() > IN_FORCE_TEXT_BYTES_MAX;
        if is_cut {
            let end = text.bytes().take(IN_FORCE_TEXT_BYTES_MAX + 1).rposition(|byte| byte == b',');
            text.truncate(end.unwrap_or(0));
        }
        LevelRecord { id, text, is_cut, is_refused }
    }

    /// The record; its text is no longer than there is room.
    pub(crate) fn encode(&self, run_id: u64) -> Vec<u8> {
        let flags = if self.is_cut { FLAG_CUT } else { 0 } | if self.is_refused { FLAG_REFUSED } else { 0 };
        let mut covered = (self.text.len() as u16).to_le_bytes().to_vec();
        covered.extend_from_slice(&flags.to_le_bytes());
        covered.extend_from_slice(&self.id.to_le_bytes());
        covered.extend_from_slice(self.text.as_bytes());
        let mut out = seeded_crc(run_id, &covered).to_le_bytes().to_vec();
        out.extend_from_slice(&covered);
        out
    }

    /// Reads what is asked for from the first page.
    pub(crate) fn asked_in(page: &[u8], run_id: u64) -> Option<LevelRecord> {
        LevelRecord::decode(page.get(ASKED..ASKED_END)?, run_id)
    }

    /// Reads what is in force from the first page.
    pub(crate) fn in_force_in(page: &[u8], run_id: u64) -> Option<LevelRecord> {
        LevelRecord::decode(page.get(IN_FORCE..PAGE_BYTES)?, run_id)
    }

    fn decode(area: &[u8], run_id: u64) -> Option<LevelRecord> {
        let mut fields = Fields::new(area);
        let crc = fields.u32()?;
        let behind = fields.rest();
        let len = usize::from(fields.u16()?);
        let (flags, id) = (fields.u16()?, fields.u64()?);
        let text = fields.take(len)?;
        if seeded_crc(run_id, &behind[..HEAD_BYTES - 4 + len]) != crc || id == 0 && len == 0 {
            return None;
        }
        let text = str::from_utf8(text).ok()?.to_owned();
        Some(LevelRecord { id, text, is_cut: flags & FLAG_CUT != 0, is_refused: flags & FLAG_REFUSED != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 0x1234_5678_9abc_def0;

    fn page(at: usize, record: &LevelRecord) -> Vec<u8> {
        let (mut page, bytes) = (vec![0; PAGE_BYTES], record.encode(RUN));
        page[at..at + bytes.len()].copy_from_slice(&bytes);
        page
    }

    #[test]
    fn a_record_comes_back_and_is_nothing_with_any_bit_changed() {
        let asked = LevelRecord { id: 77, text: "info,net=trace".to_owned(), ..LevelRecord::default() };
        let whole = page(ASKED, &asked);
        assert_eq!(LevelRecord::asked_in(&whole, RUN), Some(asked.clone()));
        assert_eq!(LevelRecord::in_force_in(&whole, RUN), None);
        assert_eq!(LevelRecord::asked_in(&whole, RUN + 1), None);
        for bit in 0..asked.encode(RUN).len() * 8 {
            let mut changed = whole.clone();
            changed[ASKED + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LevelRecord::asked_in(&changed, RUN), None, "bit {bit}");
        }
    }

    #[test]
    fn nothing_is_no_record_whatever_the_run() {
        for fill in [0, 0xff] {
            for run_id in [0, RUN, u64::MAX] {
                assert_eq!(LevelRecord::asked_in(&[fill; PAGE_BYTES], run_id), None);
                assert_eq!(LevelRecord::in_force_in(&[fill; PAGE_BYTES], run_id), None);
            }
        }
    }

    #[test]
    fn more_levels_than_there_is_room_for_are_cut_between_two() {
        let text = (0..100).map(|number| format!("net{number}=trace,")).collect::<String>() + "last=off";
        let record = LevelRecord::in_force(5, text.clone(), false);
        assert!(record.is_cut && record.text.len() <= IN_FORCE_TEXT_BYTES_MAX);
        assert!(text.starts_with(&record.text) && record.text.ends_with("=trace"), "{}", record.text);
        assert_eq!(LevelRecord::in_force_in(&page(IN_FORCE, &record), RUN), Some(record));
        let exact = format!("{}=off", "n".repeat(IN_FORCE_TEXT_BYTES_MAX - 4));
        assert_eq!(LevelRecord::in_force(5, exact.clone(), true).text, exact);
    }
}
