//! What the start of a segment file is: header, first frame, or nothing that was more than begun.

use std::io;

use crate::control::RunStart;
use crate::format::{FrameKind, HEADER_BYTES, HEADER_COPY_BYTES};
use crate::scan::FrameScan;
use crate::segment::{HeaderFault, SegmentHeader};
use crate::storage::StorageFile;

/// What the start of a file is.
pub(super) enum Start {
    Header { header: SegmentHeader, copy_fault: Option<u8>, run_start: Option<RunStart> },
    Begun,
    Bad(HeaderFault),
}

/// Whether any frame in the file is valid in the segment with this id.
pub(super) fn holds_frames_of(file: &dyn StorageFile, segment_id: u64, bytes: u64) -> io::Result<bool> {
    let mut scan = FrameScan::new(file, segment_id, HEADER_BYTES as u64, bytes, 0);
    Ok(scan.seek_frame(HEADER_BYTES as u64).map_err(io::Error::other)? < bytes)
}

/// Reads header and first frame.
pub(super) fn read_start(file: &dyn StorageFile, bytes: u64) -> io::Result<Start> {
    let mut start = [0u8; HEADER_BYTES];
    file.read_full_at(&mut start, 0)?;
    let copies = [start.first_chunk::<HEADER_COPY_BYTES>(), start.last_chunk::<HEADER_COPY_BYTES>()];
    let [first, second] = copies.map(|copy| copy.map_or(Err(HeaderFault::Magic), SegmentHeader::decode));
    let (header, copy_fault) = match (first, second) {
        (Ok(header), Ok(_)) => (header, None),
        (Ok(header), Err(_)) => (header, Some(1)),
        (Err(_), Ok(header)) => (header, Some(0)),
        (Err(first), Err(second)) => {
            let begun = bytes < HEADER_BYTES as u64 || is_all_zeros(file, bytes)?;
            let fault = if first == HeaderFault::Magic { second } else { first };
            return Ok(if begun { Start::Begun } else { Start::Bad(fault) });
        }
    };
    let (_, run_start) = read_first(file, header.segment_id, bytes)?;
    Ok(Start::Header { header, copy_fault, run_start })
}

/// Reads the first frame: its number, 0 if it is damaged, and what it holds if it is a run's start.
pub(crate) fn read_first(file: &dyn StorageFile, segment_id: u64, bytes: u64) -> io::Result<(u64, Option<RunStart>)> {
    let start = HEADER_BYTES as u64;
    let mut scan = FrameScan::new(file, segment_id, start, bytes, 0);
    Ok(match scan.next_at_start().map_err(io::Error::other)? {
        Some(header) if header.kind == FrameKind::RunStart as u8 => (header.seq, RunStart::decode(scan.payload())),
        Some(header) => (header.seq, None),
        None => (0, None),
    })
}

fn is_all_zeros(file: &dyn StorageFile, bytes: u64) -> io::Result<bool> {
    let mut buffer = vec![0u8; 64 << 10];
    let mut at = 0;
    while at < bytes {
        let len = file.read_full_at(&mut buffer, at)?;
        if len == 0 || buffer[..len].iter().any(|&byte| byte != 0) {
            return Ok(len == 0);
        }
        at += len as u64;
    }
    Ok(true)
}
