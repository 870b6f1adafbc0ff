//! The blocks of a segment decoded on a thread of its own, ahead of the walk that gives their rows.
//!
//! It only saves time: the walk checks each frame itself, and decodes what it does not get from here.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use crate::block::{BlockFault, BlockHeader, BlockReader};
use crate::format::FrameKind;
use crate::frame::FrameHeader;
use crate::scan::{Found, FrameScan};
use crate::storage::StorageFile;

/// Blocks that may wait for the walk. Each takes at most [`BLOCK_RAW_BYTES_MAX`](crate::format::BLOCK_RAW_BYTES_MAX).
const WAITING_MAX: usize = 2;

/// A block that has been decoded.
struct Decoded {
    offset: u64,
    frame: FrameHeader,
    block: BlockReader,
    header: Result<BlockHeader, BlockFault>,
}

/// The blocks of one segment, in order.
pub(crate) struct DecodeAhead {
    decoded: Receiver<Decoded>,
    used: Sender<BlockReader>,
    next: Option<Decoded>,
}

impl std::fmt::Debug for DecodeAhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecodeAhead").field("next", &self.next.as_ref().map(|next| next.offset)).finish()
    }
}

impl DecodeAhead {
    /// Starts a thread that decodes the blocks that `scan` comes to. It ends with the scan, or when this is dropped; `None`
    /// if the system gives no thread.
    pub(crate) fn start(scan: FrameScan<Arc<dyn StorageFile>>) -> Option<DecodeAhead> {
        let (outbox, decoded) = sync_channel(WAITING_MAX);
        let (used, inbox) = channel();
        let thread = std::thread::Builder::new().name("logtool-decode".into());
        thread.spawn(move || decode_all(scan, &outbox, &inbox)).ok()?;
        Some(DecodeAhead { decoded, used, next: None })
    }

    /// Puts the rows of the block frame at `offset` into `block`; `None` if they are not to be had here.
    pub(crate) fn take(
        &mut self,
        offset: u64,
        frame: &FrameHeader,
        block: &mut BlockReader,
    ) -> Option<Result<BlockHeader, BlockFault>> {
        loop {
            let next = self.next.take().or_else(|| self.decoded.recv().ok())?;
            if next.offset > offset {
                self.next = Some(next);
                return None;
            }
            let is_wanted = next.offset == offset && next.frame == *frame;
            let unused = if is_wanted { std::mem::replace(block, next.block) } else { next.block };
            // The thread may have ended.
            let _ = self.used.send(unused);
            if is_wanted {
                return Some(next.header);
            }
        }
    }
}

fn decode_all(mut scan: FrameScan<Arc<dyn StorageFile>>, outbox: &SyncSender<Decoded>, used: &Receiver<BlockReader>) {
    // A segment that can't be read ends it: the walk comes to the same place, and tells.
    while let Ok(Some(found)) = scan.next_found() {
        let Found::Frame { offset, header: frame, .. } = found else { continue };
        if frame.kind != FrameKind::Block as u8 {
            continue;
        }
        let mut block = used.try_recv().unwrap_or_default();
        let header = block.decode(scan.payload());
        if outbox.send(Decoded { offset, frame, block, header }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::HEADER_BYTES;
    use crate::options::{Compression, Options};
    use crate::storage::Storage;
    use crate::storage_sim::SimStorage;
    use crate::{Item, LogReader, Snapshot, Writer};

    fn log() -> SimStorage {
        let storage = SimStorage::new();
        let options = Options::new().compression(Compression::Zstd(1)).block_bytes(4096);
        let mut writer = Writer::open_on(storage.shared(), options).unwrap();
        for number in 0..2000 {
            writer.line(format!("line {number}").as_bytes(), 0, number).unwrap();
        }
        writer.close().unwrap();
        storage
    }

    /// What a reader gives, as text.
    fn read(storage: &SimStorage, ahead: bool) -> Vec<String> {
        let mut reader = LogReader::new(Snapshot::take(storage.shared()).unwrap());
        if ahead {
            reader.decode_ahead();
        }
        let mut all = Vec::new();
        while let Some(item) = reader.next_item().unwrap() {
            all.push(match item {
                Item::Entry(entry) => format!("{} {}", entry.seq, String::from_utf8_lossy(entry.body)),
                Item::Finding(finding) => format!("{finding:?}"),
                Item::Note(note) => format!("{note:?}"),
            });
        }
        all
    }

    #[test]
    fn a_log_decoded_ahead_gives_what_it_gives_otherwise_whatever_is_damaged() {
        let storage = log();
        let name = storage.list().unwrap().into_iter().find(|entry| entry.name.ends_with(".flog")).unwrap().name;
        let sound = storage.content(&name).unwrap();
        assert!(read(&storage, true).len() >= 2000);
        for at in (HEADER_BYTES..sound.len()).step_by(37) {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x10;
            storage.put(&name, &damaged);
            assert_eq!(read(&storage, true), read(&storage, false), "byte {at}");
        }
    }

    #[test]
    fn the_thread_decodes_each_block_once_and_the_walk_takes_it() {
        let storage = log();
        let snapshot = Snapshot::take(storage.shared()).unwrap();
        let mut ahead = DecodeAhead::start(snapshot.scan(0).unwrap()).unwrap();
        let (mut scan, mut block, mut taken) = (snapshot.scan(0).unwrap(), BlockReader::default(), 0);
        while let Some(found) = scan.next_found().unwrap() {
            if let Found::Frame { offset, header, .. } = found
                && header.kind == FrameKind::Block as u8
            {
                let decoded = ahead.take(offset, &header, &mut block).unwrap();
                assert_eq!(decoded, BlockReader::default().decode(scan.payload()));
                assert_eq!(block.rows().count() as u64, decoded.unwrap().count);
                taken += 1;
            }
        }
        assert!(taken > 5, "{taken}");
        assert!(
            ahead
                .take(0, &FrameHeader { kind: 0, flags: 0, payload_len: 0, seq: 0, payload_crc: 0 }, &mut block)
                .is_none()
        );
    }
}
