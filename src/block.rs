//! Blocks: a batch of entries in one frame, compressed as a whole.
//!
//! ```text
//! block payload  [codec u8 | levels u8 | categories u16 | content_crc u32 | time_min_ns i64
//!                 | count | raw_len | time_max_ns - time_min_ns | synced_lag   (four LEB128) | body]
//! body, raw      rows: [length of the entry's payload LEB128 | flags u8 | entry payload]
//! ```
//! Row `i` has sequence number `frame.seq + i`. `content_crc` is the CRC-32 of the raw body; the frame's own checksum
//! covers the stored one, so that it can be checked without decompressing.

use crate::bytes::{Fields, push_varint};
use crate::entry::CallSite;
use crate::format::{BLOCK_RAW_BYTES_MAX, ENTRY_HEAD_BYTES, ZSTD_WINDOW_LOG_MAX};

/// How the body of a block is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Stored = 0,
    /// One zstd frame over the rows.
    ZstdRows = 1,
}

/// What stands in front of a block's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Number of the codec; [`Codec`] has those of this version.
    pub codec: u8,
    /// Bit `1 << level` for each level present; 0 if none of the entries has a level.
    pub levels: u8,
    /// [`category_bits`] of all entries; 0 if none has a category.
    pub categories: u16,
    /// CRC-32 of the raw body.
    pub content_crc: u32,
    /// Earliest time of an entry, nanoseconds since 1970 UTC.
    pub time_min_ns: i64,
    /// Latest time of an entry.
    pub time_max_ns: i64,
    /// Number of entries, at least 1.
    pub count: u64,
    /// Length of the raw body in bytes.
    pub raw_len: usize,
    /// How many sequence numbers before the block's first the last synced one was.
    pub synced_lag: u64,
}

/// Why a block whose frame is whole could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockFault {
    /// Its header makes no sense.
    Header,
    /// It holds or claims more than [`BLOCK_RAW_BYTES_MAX`].
    TooLarge,
    /// A codec of a later version.
    UnknownCodec(u8),
    /// zstd refused the body.
    Decompress,
    /// The body does not have the checksum or the rows that the header tells.
    Content,
}

impl BlockHeader {
    /// Splits a block's payload into header and stored body.
    ///
    /// # Errors
    /// [`BlockFault::Header`] and [`BlockFault::TooLarge`].
    pub fn decode(payload: &[u8]) -> Result<(BlockHeader, &[u8]), BlockFault> {
        let mut fields = Fields::new(payload);
        let mut read = || {
            let (codec, levels, categories) = (fields.u8()?, fields.u8()?, fields.u16()?);
            let (content_crc, time_min_ns) = (fields.u32()?, fields.i64()?);
            let (count, raw_len, span) = (fields.varint()?, fields.varint()?, fields.varint()?);
            let synced_lag = fields.varint()?;
            let raw_len = usize::try_from(raw_len).ok()?;
            let time_max_ns = time_min_ns.checked_add_unsigned(span)?;
            Some(BlockHeader {
                codec,
                levels,
                categories,
                content_crc,
                time_min_ns,
                time_max_ns,
                count,
                raw_len,
                synced_lag,
            })
        };
        let header = read().ok_or(BlockFault::Header)?;
        if header.raw_len > BLOCK_RAW_BYTES_MAX {
            return Err(BlockFault::TooLarge);
        }
        let least = header.count.saturating_mul(1 + 1 + ENTRY_HEAD_BYTES as u64);
        if header.count == 0 || least > header.raw_len as u64 {
            return Err(BlockFault::Header);
        }
        Ok((header, fields.rest()))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.codec, self.levels]);
        out.extend_from_slice(&self.categories.to_le_bytes());
        out.extend_from_slice(&self.content_crc.to_le_bytes());
        out.extend_from_slice(&self.time_min_ns.to_le_bytes());
        push_varint(out, self.count);
        push_varint(out, self.raw_len as u64);
        push_varint(out, self.time_max_ns.wrapping_sub(self.time_min_ns) as u64);
        push_varint(out, self.synced_lag);
    }
}

/// The bits that a category and its parents set in a block's header, so that a reader can skip blocks without them.
pub fn category_bits(category: &str) -> u16 {
    let prefixes = category.match_indices('.').map(|(at, _)| &category[..at]);
    let bit = |name: &str| 1u16 << (crc32fast::hash(name.as_bytes()) % 16);
    if category.is_empty() { 0 } else { prefixes.chain([category]).map(bit).fold(0, |bits, bit| bits | bit) }
}

/// Collects entries for one block. Its buffers are kept from block to block.
pub struct BlockBuilder {
    raw: Vec<u8>,
    count: u64,
    levels: u8,
    categories: u16,
    time_min_ns: i64,
    time_max_ns: i64,
    compressor: zstd::bulk::Compressor<'static>,
}

impl std::fmt::Debug for BlockBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockBuilder").field("count", &self.count).field("raw_len", &self.raw.len()).finish()
    }
}

impl BlockBuilder {
    /// A builder that compresses with zstd at `level`.
    ///
    /// # Errors
    /// What zstd says of its parameters.
    pub fn new(level: i32) -> std::io::Result<BlockBuilder> {
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        compressor.set_parameter(zstd::zstd_safe::CParameter::WindowLog(ZSTD_WINDOW_LOG_MAX))?;
        compressor.set_parameter(zstd::zstd_safe::CParameter::ContentSizeFlag(false))?;
        Ok(BlockBuilder {
            raw: Vec::new(),
            count: 0,
            levels: 0,
            categories: 0,
            time_min_ns: i64::MAX,
            time_max_ns: i64::MIN,
            compressor,
        })
    }

    /// Adds an entry: its flags, the time it was logged, its call site and the parts of its payload.
    pub fn push(&mut self, flags: u8, time_ns: i64, site: Option<&CallSite>, payload: &[&[u8]]) {
        push_varint(&mut self.raw, payload.iter().map(|part| part.len() as u64).sum());
        self.raw.push(flags);
        payload.iter().for_each(|part| self.raw.extend_from_slice(part));
        self.count += 1;
        if let Some(site) = site {
            self.levels |= 1 << site.level as u8;
            self.categories |= category_bits(&site.category);
        }
        self.time_min_ns = self.time_min_ns.min(time_ns);
        self.time_max_ns = self.time_max_ns.max(time_ns);
    }

    /// Entries collected so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Raw bytes collected so far.
    pub fn raw_len(&self) -> usize {
        self.raw.len()
    }

    /// Appends the payload of a block frame with all entries collected, and starts anew. `synced_lag` as in [`BlockHeader`].
    /// The body is stored as it is where zstd would not make it smaller.
    pub fn finish(&mut self, synced_lag: u64, out: &mut Vec<u8>) {
        let mut header = BlockHeader {
            codec: Codec::ZstdRows as u8,
            levels: self.levels,
            categories: self.categories,
            content_crc: crc32fast::hash(&self.raw),
            time_min_ns: self.time_min_ns,
            time_max_ns: self.time_max_ns,
            count: self.count,
            raw_len: self.raw.len(),
            synced_lag,
        };
        let start = out.len();
        header.encode(out);
        let body = out.len();
        out.resize(body + zstd::zstd_safe::compress_bound(self.raw.len()), 0);
        match self.compressor.compress_to_buffer(&self.raw, &mut out[body..]) {
            Ok(len) if len < self.raw.len() => out.truncate(body + len),
            _ => {
                out.truncate(start);
                header.codec = Codec::Stored as u8;
                header.encode(out);
                out.extend_from_slice(&self.raw);
            }
        }
        self.raw.clear();
        (self.count, self.levels, self.categories) = (0, 0, 0);
        (self.time_min_ns, self.time_max_ns) = (i64::MAX, i64::MIN);
    }
}

/// Decompresses blocks; its buffer is kept from block to block and never grows over [`BLOCK_RAW_BYTES_MAX`].
#[derive(Default)]
pub struct BlockReader {
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
    raw: Vec<u8>,
}

impl std::fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockReader").field("raw_len", &self.raw.len()).finish()
    }
}

impl BlockReader {
    /// Decodes a block's payload; the rows are then in [`rows`](BlockReader::rows).
    ///
    /// # Errors
    /// Why the block cannot be read; none of its rows are then given.
    pub fn decode(&mut self, payload: &[u8]) -> Result<BlockHeader, BlockFault> {
        self.raw.clear();
        let (header, body) = BlockHeader::decode(payload)?;
        let decoded = self.decode_body(&header, body);
        if decoded.is_err() {
            self.raw.clear();
        }
        decoded.map(|()| header)
    }

    fn decode_body(&mut self, header: &BlockHeader, body: &[u8]) -> Result<(), BlockFault> {
        if header.codec == Codec::Stored as u8 {
            self.raw.extend_from_slice(body);
        } else if header.codec == Codec::ZstdRows as u8 {
            self.raw.resize(header.raw_len, 0);
            let decompressor = match &mut self.decompressor {
                Some(decompressor) => decompressor,
                none => none.insert(zstd::bulk::Decompressor::new().map_err(|_| BlockFault::Decompress)?),
            };
            let len = decompressor.decompress_to_buffer(body, &mut self.raw[..]);
            self.raw.truncate(len.map_err(|_| BlockFault::Decompress)?);
        } else {
            return Err(BlockFault::UnknownCodec(header.codec));
        }
        if self.raw.len() != header.raw_len || crc32fast::hash(&self.raw) != header.content_crc {
            return Err(BlockFault::Content);
        }
        let mut rows = self.rows();
        let count = rows.by_ref().count() as u64;
        if count != header.count || !rows.fields.is_empty() { Err(BlockFault::Content) } else { Ok(()) }
    }

    /// The rows of the block decoded last.
    pub fn rows(&self) -> Rows<'_> {
        Rows { fields: Fields::new(&self.raw) }
    }

    /// The row that starts at byte `at` of the raw body, and where the next one starts.
    #[inline]
    pub(crate) fn row_at(&self, at: usize) -> Option<(Row<'_>, usize)> {
        let rest = self.raw.get(at..)?;
        let mut rows = Rows { fields: Fields::new(rest) };
        let row = rows.next()?;
        Some((row, at + rest.len() - rows.fields.rest().len()))
    }
}

/// An entry within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The entry's flags.
    pub flags: u8,
    /// The entry's payload, at least [`ENTRY_HEAD_BYTES`] long.
    pub payload: &'a [u8],
}

/// The rows of a raw body, one after another; ends early where the bytes are not rows.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    fields: Fields<'a>,
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    #[inline]
    fn next(&mut self) -> Option<Row<'a>> {
        if self.fields.is_empty() {
            return None;
        }
        let mut fields = self.fields.clone();
        let len = usize::try_from(fields.varint()?).ok().filter(|&len| len >= ENTRY_HEAD_BYTES)?;
        let flags = fields.u8()?;
        let payload = fields.take(len)?;
        self.fields = fields;
        Some(Row { flags, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryHead;

    fn payload(number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        EntryHead { time_ns: number as i64, tseq: number, tid: 0, site: 0 }.encode(&mut out);
        out.extend_from_slice(format!("line {number} of a log that repeats itself").as_bytes());
        out
    }

    fn block(count: u64) -> Vec<u8> {
        let (mut builder, mut out) = (BlockBuilder::new(1).unwrap(), Vec::new());
        (0..count).for_each(|number| builder.push(0, number as i64, None, &[&payload(number)]));
        builder.finish(3, &mut out);
        out
    }

    #[test]
    fn rows_come_back_compressed_and_stored() {
        for count in [1, 2, 1000] {
            let (mut reader, stored) = (BlockReader::default(), block(count));
            let header = reader.decode(&stored).unwrap();
            assert_eq!((header.count, header.synced_lag), (count, 3));
            assert_eq!((header.time_min_ns, header.time_max_ns), (0, count as i64 - 1));
            for (number, row) in reader.rows().enumerate() {
                assert_eq!(row.payload, payload(number as u64));
            }
            assert!(count < 1000 || header.codec == Codec::ZstdRows as u8);
        }
    }

    #[test]
    fn a_builder_starts_anew_after_each_block() {
        let (mut builder, mut reader) = (BlockBuilder::new(1).unwrap(), BlockReader::default());
        for number in 0..3u64 {
            let mut out = Vec::new();
            builder.push(number as u8, number as i64, None, &[&payload(number)]);
            builder.finish(0, &mut out);
            let header = reader.decode(&out).unwrap();
            assert_eq!((header.count, header.time_min_ns), (1, number as i64));
            assert_eq!(reader.rows().next().unwrap().flags, number as u8);
        }
    }

    #[test]
    fn a_header_that_claims_too_much_is_refused_before_any_allocation() {
        let claim = |count: u64, raw_len: u64| {
            let mut out = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            [count, raw_len, 0, 0].iter().for_each(|&number| push_varint(&mut out, number));
            BlockReader::default().decode(&out)
        };
        assert_eq!(claim(1, BLOCK_RAW_BYTES_MAX as u64 + 1), Err(BlockFault::TooLarge));
        assert_eq!(claim(1, u64::MAX), Err(BlockFault::TooLarge));
        assert_eq!(claim(0, 100), Err(BlockFault::Header));
        assert_eq!(claim(u64::MAX, 100), Err(BlockFault::Header));
        assert_eq!(claim(1, 100), Err(BlockFault::Content));
    }

    #[test]
    fn a_body_larger_than_its_claim_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0u8; 64 << 20], 1).unwrap();
        let mut out = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        [1, 4096, 0, 0].iter().for_each(|&number| push_varint(&mut out, number));
        out.extend_from_slice(&bomb);
        assert_eq!(BlockReader::default().decode(&out), Err(BlockFault::Decompress));
    }

    #[test]
    fn changed_content_is_refused_and_leaves_no_rows() {
        let (mut reader, good) = (BlockReader::default(), block(100));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if reader.decode(&bad).is_err() {
                assert_eq!(reader.rows().count(), 0);
            } else {
                reader.rows().enumerate().for_each(|(number, row)| assert_eq!(row.payload, payload(number as u64)));
            }
        }
    }

    #[test]
    fn a_category_sets_the_bits_of_its_parents() {
        let (child, parent) = (category_bits("net.http"), category_bits("net"));
        assert_eq!(child & parent, parent);
        assert_eq!(category_bits(""), 0);
    }
}
