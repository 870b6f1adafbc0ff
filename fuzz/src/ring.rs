//! The check of a killed run's rings: readers, the next writer and repair agree on what they held, and nothing else is given.

use std::collections::BTreeSet;
use std::sync::Arc;

use logtool::entry::EntryHead;
use logtool::reader::LogReader;
use logtool::repair::repair;
use logtool::ring_builder::{self, RingFileBuilder};
use logtool::snapshot::Snapshot;
use logtool::storage::Storage;
use logtool::verify::{VerifyOptions, verify};
use logtool::{ErrorKind, Item, Options, SyncPolicy, Writer};

use crate::input::Input;
use crate::memory::MemoryStorage;

const ONE_THREAD: VerifyOptions = VerifyOptions { threads: 1 };

/// An entry as it is compared: thread, thread seq, body.
type Logged = (u32, u64, Vec<u8>);

fn options() -> Options {
    Options::new().sync(SyncPolicy::Never).roll_bytes(4096).clock(|| 1_796_040_000_000_000_000)
}

/// A log whose writer was killed.
struct Killed {
    storage: Arc<MemoryStorage>,
    ring_name: String,
    accepted: Vec<Logged>,
    /// Thread seqs, positions and times are what a writer would have left.
    is_honest: bool,
}

/// Makes one as a script tells it.
fn build(input: &mut Input<'_>) -> Killed {
    let live = MemoryStorage::new();
    let (mut writer, mut file) = ring_builder::open(live.clone(), options()).unwrap();
    let ring_bytes = 1usize << (6 + input.u8() % 8);
    let ring_count = 1 + u32::from(input.u8() % 4);
    for tid in 1..=ring_count {
        file.add_ring(ring_bytes, tid, "thread");
    }
    let mut is_honest = true;
    if input.bool() {
        let part_bytes = input.number();
        file.set_part_bytes(part_bytes);
        // Else an entry has several thread seqs, which is not so here.
        is_honest = part_bytes >= ring_bytes as u64;
    }
    let mut next = vec![1u64; ring_count as usize + 1];
    let (mut accepted, mut pending): (Vec<Logged>, Vec<Logged>) = (Vec::new(), Vec::new());
    let mut stamp = 1_796_040_000_000_000_000u64;
    for _ in 0..input.u8() {
        if input.is_empty() {
            break;
        }
        let tid = 1 + u32::from(input.u8()) % ring_count;
        let ring = tid as usize - 1;
        match input.u8() % 8 {
            0..=3 => {
                let mut body = input.string();
                body.truncate(ring_bytes - 32);
                let (written, read) = file.ring(ring).positions();
                // A ring that is full takes no more, and a skip may take as much as the entry.
                if written - read[0] + 2 * (body.len() as u64 + 40) <= ring_bytes as u64 {
                    stamp += u64::from(input.u8());
                    file.ring(ring).push(stamp, next[tid as usize], 0, &body);
                    accepted.push((tid, next[tid as usize], body.clone()));
                    pending.push((tid, next[tid as usize], body));
                    next[tid as usize] += 1;
                }
            }
            4 => {
                next[tid as usize] += 1;
                file.ring(ring).refuse(next[tid as usize] - 1, input.u8());
            }
            5 | 6 => {
                let count = usize::from(input.u8()).min(pending.len());
                for (tid, tseq, body) in pending.drain(..count) {
                    let head = EntryHead { time_ns: stamp as i64, tseq, tid, site: 0 };
                    writer.entry_encoded(&head, 0, &body).unwrap();
                }
                writer.flush().unwrap();
                if pending.is_empty() && input.bool() {
                    (0..ring_count as usize).for_each(|ring| file.ring(ring).drain());
                }
            }
            _ => {
                is_honest = false;
                if dishonest(input, &mut file, ring, ring_bytes) {
                    break;
                }
            }
        }
    }
    let storage = MemoryStorage::new();
    live.content().into_iter().for_each(|(name, bytes)| storage.put(&name, bytes, false));
    storage.put(&file.name(), file.encode(), false);
    Killed { storage, ring_name: file.name(), accepted, is_honest }
}

/// What no writer does. Returns whether nothing may follow.
fn dishonest(input: &mut Input<'_>, file: &mut RingFileBuilder, ring: usize, ring_bytes: usize) -> bool {
    let mut body = input.string();
    body.truncate(ring_bytes - 32);
    let choice = input.u8() % 4;
    match choice {
        0 => file.ring(ring).push_of(input.u8().into(), input.number(), input.number(), input.number() as u32, &body),
        1 => file.ring(ring).set_positions(input.number() & !7, [input.number(), input.number()]),
        2 => file.ring(ring).refuse(input.number(), input.u8()),
        _ => file.remove_anchor(),
    }
    choice == 1
}

fn read(storage: &Arc<dyn Storage>) -> Vec<(u64, Logged)> {
    let mut reader = LogReader::new(Snapshot::take(Arc::clone(storage)).unwrap());
    let mut read = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Entry(entry) = item {
            read.push((entry.seq, (entry.head.tid, entry.head.tseq, entry.body.to_vec())));
        }
    }
    assert!(read.is_sorted_by(|one, next| one.0 < next.0), "numbers go up");
    read
}

fn copy_of(storage: &MemoryStorage) -> Arc<MemoryStorage> {
    let copy = MemoryStorage::new();
    storage.content().into_iter().for_each(|(name, bytes)| copy.put(&name, bytes, false));
    copy
}

/// Recovers the rings of a run as a script tells it, maybe damaged.
pub fn ring(data: &[u8]) {
    let mut input = Input::new(data);
    let log = build(&mut input);
    let mut is_damaged = false;
    let mut bytes = log.storage.content()[&log.ring_name].clone();
    if input.bool() {
        // One stretch, shorter than from one copy of anything to the other.
        let at = input.u64() as usize % bytes.len();
        let altered = input.bytes(32);
        for (byte, change) in bytes[at..].iter_mut().zip(altered) {
            *byte ^= change;
            is_damaged |= *change != 0;
        }
    } else if input.bool() {
        bytes.truncate(input.u64() as usize % bytes.len());
        is_damaged = true;
    }
    log.storage.put(&log.ring_name, bytes, false);
    let storage: Arc<dyn Storage> = log.storage.clone();
    let before = log.storage.content();
    let given = read(&storage);
    let report = verify(&Snapshot::take(storage.clone()).unwrap(), &ONE_THREAD, &|_| {});
    crate::show(|| format!("{given:?} {report:?}"));
    assert!(log.storage.content() == before, "readers change nothing");
    if log.is_honest {
        let keys: BTreeSet<&Logged> = given.iter().map(|(_, logged)| logged).collect();
        assert_eq!(keys.len(), given.len(), "none twice");
        let bodies = |tid: u32, logged: &mut dyn Iterator<Item = &Logged>| -> Vec<u8> {
            logged.filter(|(of, ..)| *of == tid).flat_map(|(_, _, body)| body.clone()).collect()
        };
        if !is_damaged {
            assert!(report.is_sound(true), "{:?}", report.findings);
            for tid in 1..5 {
                let given = bodies(tid, &mut given.iter().map(|(_, logged)| logged));
                assert_eq!(given, bodies(tid, &mut log.accepted.iter()), "all of thread {tid}");
            }
        } else if given.len() < log.accepted.len() {
            assert!(!report.is_sound(false), "what is missing is reported");
        }
    }
    let opened = copy_of(&log.storage);
    match Writer::open_on(opened.clone(), options()) {
        Ok(writer) => {
            let killed: Arc<dyn Storage> = copy_of(&opened);
            drop(writer);
            assert_eq!(read(&killed), given, "the next writer recovers what readers give");
            assert!(!opened.content().contains_key(&log.ring_name), "and removes the ring file");
        }
        // Numbers end.
        Err(error) => assert!(!log.is_honest && error.kind() == ErrorKind::Damaged, "{error}"),
    }
    match repair(&storage, &ONE_THREAD, &|_| {}) {
        Ok(repaired) => {
            assert_eq!(read(&storage), given, "so does repair");
            let report = verify(&Snapshot::take(storage.clone()).unwrap(), &ONE_THREAD, &|_| {});
            assert!(report.is_sound(false), "{:?} {repaired:?}", report.findings);
            let left = log.storage.content();
            repair(&storage, &ONE_THREAD, &|_| {}).unwrap();
            assert!(log.storage.content() == left, "a second repair changes nothing");
        }
        Err(error) => assert!(!log.is_honest && error.kind() == ErrorKind::Damaged, "{error}"),
    }
}
