//! Doing what a plan says: the writing half of `repair`.
//!
//! Each step saves what it is going to change, syncs that with its directory, and only then changes it. Nothing that was
//! saved is ever overwritten. Names in `quarantine/`: `SEGMENT.at-OFFSET-LENGTH` for a stretch, the segment's own name for
//! a whole file, with `.2` and so on where the name is taken by something else.

use std::io;
use std::sync::Arc;

use crate::active::{ActiveSegment, Stretch, write_whole};
use crate::control::{DeclaredLoss, LossClass, SealReason};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::SeqRange;
use crate::format::{FRAME_HEADER_BYTES, FrameKind, PAYLOAD_BYTES_MAX};
use crate::frame::{Seed, frame_bytes, push_frame};
use crate::options::Options;
use crate::record::write_record;
use crate::recovery::set_rings_aside;
use crate::repair::{Plan, Step};
use crate::repair_plan::{PLACEHOLDER_LOSS_BYTES, placeholder_seal};
use crate::ring::file::index_of_name;
use crate::segment::SegmentHeader;
use crate::storage::{ReadAt, Storage, StorageFile};

/// A file under this name is not whole; the next repair removes it.
const UNFINISHED_NAME: &str = "repair.tmp";

/// The same in quarantine.
const UNFINISHED_SAVE: &str = "quarantine/repair.tmp";

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// How many names are tried for one thing in quarantine.
const NAMES_MAX: usize = 10_000;

/// Does what `plan` says with the log in `storage`, whose lock is held through `lock`.
pub(crate) fn apply(storage: &dyn Storage, lock: &dyn StorageFile, plan: &Plan) -> Result<()> {
    let repair = Repair { storage, lock };
    for action in &plan.actions {
        repair.step(&action.step).map_err(|failure| match failure {
            Failure::Io(error) => Error::io("cannot repair; run repair again once this is put right", error)
                .at(storage.path().join(action.step.segment())),
            Failure::Other(error) => error,
        })?;
    }
    Ok(())
}

enum Failure {
    Io(io::Error),
    Other(Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

struct Repair<'a> {
    storage: &'a dyn Storage,
    lock: &'a dyn StorageFile,
}

impl Repair<'_> {
    fn step(&self, step: &Step) -> std::result::Result<(), Failure> {
        match step {
            // Done before anything is planned.
            Step::Recover { .. } => {}
            Step::DeclareLoss { segment, segment_id, offset, len, seqs, next_seq, class } => {
                self.save(segment, *offset, *len)?;
                let file = self.storage.open_write(segment)?;
                let frames = LossFrames::new(*segment_id, *offset, *len, *seqs, *next_seq, *class);
                frames.write_to(file.as_ref())?;
                file.sync()?;
            }
            Step::Header { segment, offset, bytes } => {
                self.save(segment, *offset, bytes.len() as u64)?;
                self.overwrite(segment, *offset, bytes)?;
            }
            Step::ClearPadding { segment, offset, len } => {
                self.save(segment, *offset, *len)?;
                self.overwrite(segment, *offset, &vec![0; *len as usize])?;
            }
            Step::Seal { segment, header, offset, last_seq, reason, successor_id } => {
                self.seal(segment, header, *offset, *last_seq, *reason, *successor_id)?;
            }
            Step::Cut { segment, offset } => {
                let file = self.storage.open_write(segment)?;
                self.save(segment, *offset, file.len()?.saturating_sub(*offset))?;
                file.set_len(*offset)?;
                file.sync()?;
            }
            Step::Placeholder { segment, header, seqs, class, replaces } => {
                self.placeholder(segment, header, *seqs, *class, replaces.as_deref())?;
            }
            Step::SetAside { segment } if index_of_name(segment).is_some() => set_rings_aside(self.storage, segment)?,
            Step::SetAside { segment } => set_aside(self.storage, segment)?,
            Step::Rename { segment, to } => self.rename_to_free(segment, to)?,
            Step::Record { state } => {
                write_record(self.lock, state)?;
                self.lock.sync()?;
            }
        }
        Ok(())
    }

    fn overwrite(&self, segment: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.storage.open_write(segment)?;
        write_whole(file.as_ref(), bytes, offset)?;
        file.sync()
    }

    /// Saves a stretch of a segment in quarantine, as far as the file has it.
    fn save(&self, segment: &str, offset: u64, len: u64) -> io::Result<()> {
        let file = self.storage.open(segment)?;
        let len = len.min(file.len()?.saturating_sub(offset));
        if len == 0 {
            return Ok(());
        }
        for number in 1..NAMES_MAX {
            let name = numbered(&format!("quarantine/{segment}.at-{offset}-{len}"), number);
            match self.storage.open(&name) {
                Ok(saved) if is_same(file.as_ref(), offset, len, saved.as_ref())? => {
                    // A run before may have been stopped between the write and the sync.
                    self.storage.open_write(&name)?.sync()?;
                    return self.storage.sync_dir();
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let saved = copy_to_new(self.storage, UNFINISHED_SAVE, file.as_ref(), offset, len)
                        .and_then(|()| self.storage.rename(UNFINISHED_SAVE, &name));
                    or_discard(self.storage, UNFINISHED_SAVE, saved)?;
                    return self.storage.sync_dir();
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("quarantine holds too many saves of this place: move them elsewhere"))
    }

    /// Writes the seal of a segment whose frames up to `offset` are all valid.
    fn seal(
        &self,
        segment: &str,
        header: &SegmentHeader,
        offset: u64,
        last_seq: u64,
        reason: SealReason,
        successor_id: u64,
    ) -> std::result::Result<(), Failure> {
        let file = self.storage.open_write(segment)?;
        let mut walked = ActiveSegment::new(
            Arc::clone(&file),
            segment.to_owned(),
            header.clone(),
            Options::default().index_stride_bytes,
        );
        let mut window = COPY_BYTES;
        let mut buffer = Vec::new();
        while walked.end < offset {
            buffer.resize(window.min((offset - walked.end) as usize), 0);
            let count = file.read_full_at(&mut buffer, walked.end)?;
            let stretch = Stretch::of(&buffer[..count], walked.seed, walked.end, walked.next_seq);
            if stretch.bytes > 0 {
                walked.take_in(&stretch);
            } else if window <= FRAME_HEADER_BYTES + PAYLOAD_BYTES_MAX {
                window *= 2;
            } else {
                // Changed since it was looked at, or a frame of an unknown kind: another round tells.
                let text = "cannot be sealed: not all its frames are whole; run repair again";
                let path = self.storage.path().join(segment);
                return Err(Failure::Other(Error::new(ErrorKind::Damaged, text).at(path).at_byte(walked.end)));
            }
        }
        walked.next_seq = walked.next_seq.max(last_seq.saturating_add(1));
        let frame = walked.seal_frame(reason, successor_id);
        self.save(segment, offset, file.len()?.saturating_sub(offset))?;
        write_whole(file.as_ref(), &frame, offset)?;
        file.set_len(offset + frame.len() as u64)?;
        file.sync()?;
        Ok(())
    }

    fn placeholder(
        &self,
        segment: &str,
        header: &SegmentHeader,
        seqs: Option<SeqRange>,
        class: LossClass,
        replaces: Option<&str>,
    ) -> io::Result<()> {
        let mut bytes = header.encode().to_vec();
        let seed = Seed::new(header.segment_id);
        let mut next_seq = header.first_seq;
        if let Some(seqs) = seqs {
            let payload = DeclaredLoss { count: seqs.count(), class }.encode(PLACEHOLDER_LOSS_BYTES);
            let offset = bytes.len() as u64;
            push_frame(&mut bytes, seed, offset, FrameKind::DeclaredLoss, 0, seqs.first, &payload);
            next_seq = seqs.last.saturating_add(1);
        }
        let offset = bytes.len() as u64;
        let mut payload = Vec::new();
        placeholder_seal(next_seq.saturating_sub(1)).encode(offset, &mut payload);
        push_frame(&mut bytes, seed, offset, FrameKind::Seal, 0, next_seq, &payload);
        remove_unfinished(self.storage, UNFINISHED_NAME)?;
        let file = self.storage.create(UNFINISHED_NAME)?;
        write_whole(file.as_ref(), &bytes, 0)?;
        file.sync()?;
        if let Some(old) = replaces {
            set_aside(self.storage, old)?;
        }
        self.rename_to_free(UNFINISHED_NAME, segment)
    }

    /// Renames a file, but over no other one.
    fn rename_to_free(&self, from: &str, to: &str) -> io::Result<()> {
        match self.storage.open(to) {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{to} is in the way"))),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        self.storage.rename(from, to)?;
        self.storage.sync_dir()
    }
}

fn copy_to_new(storage: &dyn Storage, name: &str, from: &dyn StorageFile, offset: u64, len: u64) -> io::Result<()> {
    remove_unfinished(storage, name)?;
    let to = storage.create(name)?;
    let mut buffer = vec![0u8; COPY_BYTES];
    let mut done = 0;
    while done < len {
        let part = (len - done).min(COPY_BYTES as u64) as usize;
        let count = from.read_full_at(&mut buffer[..part], offset + done)?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        write_whole(to.as_ref(), &buffer[..count], done)?;
        done += count as u64;
    }
    to.sync()
}

/// Removes a file that could not be finished: on a full disk it would take the last room.
fn or_discard(storage: &dyn Storage, name: &str, finished: io::Result<()>) -> io::Result<()> {
    if finished.is_err() {
        // What can't be removed either is overwritten by the next try.
        let _ = storage.remove(name);
    }
    finished
}

fn remove_unfinished(storage: &dyn Storage, name: &str) -> io::Result<()> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Moves a whole file to quarantine.
pub(crate) fn set_aside(storage: &dyn Storage, segment: &str) -> io::Result<()> {
    storage.rename(segment, &free_in_quarantine(storage, segment)?)?;
    storage.sync_dir()
}

/// Copies a file, of `len` bytes, to quarantine as if it had this name in the log's directory.
pub(crate) fn copy_aside(storage: &dyn Storage, name: &str, file: &dyn StorageFile, len: u64) -> io::Result<()> {
    let saved = copy_to_new(storage, UNFINISHED_SAVE, file, 0, len)
        .and_then(|()| storage.rename(UNFINISHED_SAVE, &free_in_quarantine(storage, name)?));
    or_discard(storage, UNFINISHED_SAVE, saved)?;
    storage.sync_dir()
}

/// An empty file in quarantine, for what has this name in the log's directory.
fn free_in_quarantine(storage: &dyn Storage, segment: &str) -> io::Result<String> {
    for number in 1..NAMES_MAX {
        let name = numbered(&format!("quarantine/{segment}"), number);
        let is_free = match storage.create(&name) {
            Ok(_) => true,
            // Empty: taken by a run that was stopped before it moved the file there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => storage.open(&name)?.len()? == 0,
            Err(error) => return Err(error),
        };
        if is_free {
            return Ok(name);
        }
    }
    Err(io::Error::other("quarantine holds too many files of this name: move them elsewhere"))
}

/// `name`, `name.2`, `name.3`...
fn numbered(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}.{number}") }
}

/// Whether `saved` is the stretch of `file`.
fn is_same(file: &dyn StorageFile, offset: u64, len: u64, saved: &dyn StorageFile) -> io::Result<bool> {
    if saved.len()? != len {
        return Ok(false);
    }
    let (mut one, mut other) = (vec![0u8; COPY_BYTES], vec![0u8; COPY_BYTES]);
    let mut done = 0;
    while done < len {
        let part = (len - done).min(COPY_BYTES as u64) as usize;
        let count = file.read_full_at(&mut one[..part], offset + done)?;
        if count == 0 || saved.read_full_at(&mut other[..count], done)? != count || one[..count] != other[..count] {
            return Ok(false);
        }
        done += count as u64;
    }
    Ok(true)
}

/// Declared-loss frames that fill a stretch: the first declares all numbers, the others only fill.
struct LossFrames {
    seed: Seed,
    offset: u64,
    left: u64,
    seq: u64,
    count: u64,
    class: LossClass,
}

impl LossFrames {
    fn new(
        segment_id: u64,
        offset: u64,
        len: u64,
        seqs: Option<SeqRange>,
        next_seq: u64,
        class: LossClass,
    ) -> LossFrames {
        let (seq, count) = seqs.map_or((next_seq, 0), |seqs| (seqs.first, seqs.count()));
        LossFrames { seed: Seed::new(segment_id), offset, left: len, seq, count, class }
    }

    /// The next frame, and where it stands.
    fn next_frame(&mut self) -> Option<(u64, Vec<u8>)> {
        let longest = frame_bytes(PAYLOAD_BYTES_MAX) as u64;
        let mut len = self.left.min(longest);
        // The rest must hold a frame too.
        if (1..FRAME_HEADER_BYTES as u64).contains(&(self.left - len)) {
            len -= FRAME_HEADER_BYTES as u64;
        }
        let payload_len = (len as usize).checked_sub(FRAME_HEADER_BYTES)?;
        let payload = DeclaredLoss { count: self.count, class: self.class }.encode(payload_len);
        let mut frame = Vec::with_capacity(len as usize);
        push_frame(&mut frame, self.seed, self.offset, FrameKind::DeclaredLoss, 0, self.seq, &payload);
        let place = self.offset;
        (self.seq, self.count) = (self.seq.saturating_add(self.count), 0);
        (self.offset, self.left) = (self.offset + len, self.left - len);
        Some((place, frame))
    }

    fn write_to(mut self, file: &dyn StorageFile) -> io::Result<()> {
        while self.left > 0 {
            let Some((place, frame)) = self.next_frame() else {
                return Err(io::Error::other("the stretch is too short for a frame"));
            };
            write_whole(file, &frame, place)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_stretch_of_whole_words_is_filled_exactly() {
        let longest = frame_bytes(PAYLOAD_BYTES_MAX) as u64;
        let near = [longest - 8, longest, longest + 8, longest + 16, longest + 24, 2 * longest + 8];
        for len in (32..400).step_by(8).chain(near) {
            let seqs = SeqRange::new(5, 9);
            let mut frames = LossFrames::new(7, 1024, len, seqs, 5, LossClass::Corruption);
            let (mut end, mut counts) = (1024, Vec::new());
            while let Some((place, frame)) = frames.next_frame() {
                assert_eq!(place, end, "{len}");
                let (header, payload) = crate::active::whole_frame(&frame, Seed::new(7), place).unwrap();
                counts.push((header.seq, DeclaredLoss::decode(payload).count));
                end += frame.len() as u64;
            }
            assert_eq!(end, 1024 + len, "{len}");
            assert_eq!(counts[0], (5, 5), "{len}");
            assert!(counts[1..].iter().all(|&next| next == (10, 0)), "{len}");
        }
    }
}
