//! Where a running writer tells its [`Metrics`]: a record in the first page of the ring file, which is there also when the writer
//! was killed.
//!
//! ```text
//! 2560..3072   crc u32 | count of the figures u16 | 0 u16 | told i64 | complete i64 | figures u64
//! ```
//! `told`: when this was written; `complete`: all that was logged before is in segments; both nanoseconds since 1970 UTC. Which
//! figure is which: [`Metrics::each_number`]; a later version may have more of them. The checksum is a CRC-32 of the run of all
//! behind it: what is half written, or anything else, is nothing. Whatever the numbers are, they are only shown.

use std::time::Duration;

use crate::bytes::Fields;
use crate::metrics::Metrics;
use crate::ring::file::{ANCHOR, SECOND_COPY, seeded_crc};

/// Where the record stands: one sector.
pub(crate) const FIGURES: usize = 2560;
const FIGURES_END: usize = SECOND_COPY + ANCHOR;

const CRC_BYTES: usize = 4;
const HEAD_BYTES: usize = CRC_BYTES + 2 + 2 + 8 + 8;
const COUNT_MAX: usize = (FIGURES_END - FIGURES - HEAD_BYTES) / 8;

const _: () = assert!(FIGURES >= SECOND_COPY + 68 && FIGURES_END - FIGURES == 512 && COUNT_MAX == 61);

/// What a writer tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// When, in nanoseconds since 1970 UTC.
    pub(crate) told_ns: i64,
    /// All that was logged before was then in segments.
    pub(crate) complete_ns: i64,
    /// The text of the last failure is not stored.
    pub(crate) metrics: Metrics,
}

impl Figures {
    /// The record.
    pub(crate) fn encode(&self, run_id: u64) -> Vec<u8> {
        let mut figures = Vec::with_capacity(FIGURES_END - FIGURES);
        self.metrics.clone().each_number(|figure| figures.extend_from_slice(&figure.to_le_bytes()));
        figures.truncate(COUNT_MAX * 8);
        let mut covered = ((figures.len() / 8) as u16).to_le_bytes().to_vec();
        covered.extend_from_slice(&[0; 2]);
        covered.extend_from_slice(&self.told_ns.to_le_bytes());
        covered.extend_from_slice(&self.complete_ns.to_le_bytes());
        covered.append(&mut figures);
        let mut out = seeded_crc(run_id, &covered).to_le_bytes().to_vec();
        out.append(&mut covered);
        out
    }

    /// Reads the record from the first page; figures that it does not have are 0.
    pub(crate) fn decode(page: &[u8], run_id: u64) -> Option<Figures> {
        let mut fields = Fields::new(page.get(FIGURES..FIGURES_END)?);
        let crc = fields.u32()?;
        let behind = fields.rest();
        let count = usize::from(fields.u16()?);
        let covered = behind.get(..HEAD_BYTES - CRC_BYTES + count * 8)?;
        if count == 0 || seeded_crc(run_id, covered) != crc {
            return None;
        }
        fields.u16()?;
        let (told_ns, complete_ns) = (fields.i64()?, fields.i64()?);
        let mut figures = Figures { told_ns, complete_ns, metrics: Metrics::default() };
        let mut left = count;
        figures.metrics.each_number(|figure| {
            *figure = if left > 0 { fields.u64().unwrap_or(0) } else { 0 };
            left = left.saturating_sub(1);
        });
        Some(figures)
    }

    /// The figures as of `now_ns`, while `ring_fill_bytes` wait in the rings.
    pub(crate) fn at(&self, now_ns: i64, ring_fill_bytes: u64) -> Metrics {
        let waited_ns = now_ns.saturating_sub(self.complete_ns).max(0) as u64;
        let oldest_unwritten = if ring_fill_bytes > 0 { Duration::from_nanos(waited_ns) } else { Duration::ZERO };
        let ring_fill_bytes_high = self.metrics.ring_fill_bytes_high.max(ring_fill_bytes);
        Metrics { ring_fill_bytes, ring_fill_bytes_high, oldest_unwritten, ..self.metrics.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::file::PAGE_BYTES;

    const RUN: u64 = 0x1234_5678_9abc_def0;

    /// Figures that all differ.
    fn sample() -> Figures {
        let (mut metrics, mut number) = (Metrics::default(), 0);
        metrics.each_number(|figure| {
            number += 1;
            *figure = number << 20;
        });
        Figures { told_ns: -5, complete_ns: i64::MAX, metrics }
    }

    fn page(record: &[u8]) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        page[FIGURES..FIGURES + record.len()].copy_from_slice(record);
        page
    }

    #[test]
    fn a_record_comes_back_and_is_nothing_with_any_bit_changed() {
        let record = sample().encode(RUN);
        let whole = page(&record);
        assert_eq!(Figures::decode(&whole, RUN), Some(sample()));
        assert_eq!(Figures::decode(&whole, RUN + 1), None);
        for bit in 0..record.len() * 8 {
            let mut changed = whole.clone();
            changed[FIGURES + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Figures::decode(&changed, RUN), None, "bit {bit}");
        }
        // A write that was seen half done.
        let other = page(&Figures { told_ns: 7, ..Figures::default() }.encode(RUN));
        for at in FIGURES + 1..FIGURES + record.len() - 1 {
            let torn = [&whole[..at], &other[at..]].concat();
            assert_eq!(Figures::decode(&torn, RUN).filter(|_| torn != whole && torn != other), None, "byte {at}");
        }
    }

    #[test]
    fn nothing_is_no_record_whatever_the_run() {
        for fill in [0, 0xff] {
            for run_id in [0, RUN, u64::MAX] {
                assert_eq!(Figures::decode(&[fill; PAGE_BYTES], run_id), None);
            }
        }
        assert_eq!(Figures::decode(&[0; 100], 0), None);
    }

    /// A record with these figures.
    fn with_figures(figures: &[u64]) -> Vec<u8> {
        let mut covered = (figures.len() as u16).to_le_bytes().to_vec();
        covered.resize(HEAD_BYTES - CRC_BYTES, 0);
        figures.iter().for_each(|figure| covered.extend_from_slice(&figure.to_le_bytes()));
        [&seeded_crc(RUN, &covered).to_le_bytes(), &covered[..]].concat()
    }

    #[test]
    fn records_of_other_versions_have_fewer_figures_or_more() {
        let expected = Metrics { entries: 8, bytes: 9, ..Metrics::default() };
        let fewer = Figures::decode(&page(&with_figures(&[8, 9])), RUN).unwrap();
        assert_eq!(fewer.metrics, expected);
        let more = [u64::MAX; COUNT_MAX];
        let metrics = Figures::decode(&page(&with_figures(&more)), RUN).unwrap().metrics;
        assert_eq!((metrics.segments_removed, metrics.ring_waits.longest.as_nanos()), (u64::MAX, u64::MAX.into()));
        let mut count = 0;
        Metrics::default().each_number(|_| count += 1);
        assert!(count <= COUNT_MAX);
        let listed = include_str!("../format.md").split_once("with times in nanoseconds: ").unwrap().1;
        let listed = listed.split_once("\n\n").unwrap().0.split([',', ';']);
        assert_eq!(listed.count(), count, "figures in format.md");
        // One that tells of more than there is room for.
        let mut record = with_figures(&more);
        record[4] += 1;
        assert_eq!(Figures::decode(&page(&record), RUN), None);
    }

    #[test]
    fn what_is_extreme_overflows_nothing() {
        for complete_ns in [i64::MIN, 0, i64::MAX] {
            for now_ns in [i64::MIN, 0, i64::MAX] {
                let figures = Figures { complete_ns, ..sample() };
                assert_eq!(figures.at(now_ns, 0).oldest_unwritten, Duration::ZERO);
                assert!(figures.at(now_ns, u64::MAX).oldest_unwritten <= Duration::from_nanos(i64::MAX as u64));
            }
        }
    }
}
