//! CRC-32 (IEEE) of the few bytes of a frame header: the same value as crc32fast's, which is made for long inputs and takes
//! the last bytes of a short one singly.
//!
//! The method is slicing (Kounavis and Berry, "A Systematic Approach to Building High Performance Software-Based CRC
//! Generators", 2005), with as many tables as there are bytes in a step.

/// Bytes covered by the checksum of a frame header: its offset, and what stands before the checksum.
const COVERED_BYTES: usize = 8 + 20;

/// Bytes of the first step; the second takes the rest.
const STEP_BYTES: usize = 16;

const POLYNOMIAL: u32 = 0xedb8_8320;

/// `TABLES[n][byte]`: what a byte does to the checksum once `n` zero bytes have followed it.
static TABLES: [[u32; 256]; STEP_BYTES] = tables();

const fn tables() -> [[u32; 256]; STEP_BYTES] {
    let mut tables = [[0; 256]; STEP_BYTES];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut after = 1;
    while after < STEP_BYTES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[after - 1][byte];
            tables[after][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// The checksum of `covered` that continues `initial`, the checksum of what comes before.
#[inline]
pub(crate) fn crc_of_header(initial: u32, covered: &[u8; COVERED_BYTES]) -> u32 {
    let (first, rest) = covered.split_at(STEP_BYTES);
    !step(step(!initial, first), rest)
}

/// Takes 4 to 16 bytes in one step: the lookups do not wait for each other.
#[inline(always)]
fn step(crc: u32, bytes: &[u8]) -> u32 {
    let crc = crc.to_le_bytes();
    let mut next = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let byte = if at < crc.len() { byte ^ crc[at] } else { byte };
        next ^= TABLES[bytes.len() - 1 - at][usize::from(byte)];
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_checksum_that_crc32fast_makes() {
        let mut x = 1u64;
        for _ in 0..1000 {
            let mut covered = [0; COVERED_BYTES];
            for byte in &mut covered {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (x >> 56) as u8;
            }
            let initial = (x >> 20) as u32;
            let mut hasher = crc32fast::Hasher::new_with_initial(initial);
            hasher.update(&covered);
            assert_eq!(crc_of_header(initial, &covered), hasher.finalize());
        }
    }
}
