//! Making a damaged log sound again: a plan of what to do, which can be shown, and then the doing.
//!
//! No valid frame is removed and no segment deleted. What is lost is declared where it was: a hole is written over by
//! declared-loss frames of its own length, a missing segment gets a placeholder that holds nothing but the declaration.
//! Whatever is overwritten, cut or set aside is saved in `quarantine/` and synced first. Each step can be killed at any
//! point: what it leaves is a log that the next repair goes on with. A log without damage has an empty plan.
//!
//! | finding | step |
//! |---|---|
//! | hole before the end that counts | [`Step::DeclareLoss`] over it |
//! | the segment ends before the end that its successor tells | the same, past the end of the file; then a [`Step::Seal`] |
//! | torn tail | [`Step::Cut`] |
//! | numbers lost at the end of the log, or after a missing or unreadable segment | [`Step::Placeholder`] |
//! | nothing tells how many are lost | the same, with so many numbers that none can be given twice |
//! | seal missing or untrue | [`Step::Seal`] |
//! | bytes behind a seal | [`Step::Cut`] |
//! | header, or a copy of it, damaged | [`Step::Header`] |
//! | padding altered | [`Step::ClearPadding`] |
//! | segment of another log, second copy of a segment | [`Step::SetAside`] |
//! | ring file of a killed run | [`Step::Recover`], before all others |
//! | ring file that is damaged | the same; then a [`Step::Placeholder`], where nothing tells what it has cost, and [`Step::SetAside`] |
//! | file name that tells another place than the header | [`Step::Rename`]; all other findings wait for the next round |

use std::fmt;
use std::sync::Arc;

use crate::control::{LossClass, SealReason};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{Fault, Finding, SeqRange};
use crate::recovery::{How, recover, refuse_out_of_reach};
use crate::repair_plan::Planner;
use crate::retention::take_maintenance_lock;
use crate::segment::SegmentHeader;
use crate::snapshot::Snapshot;
use crate::state::WriterState;
use crate::storage::Storage;
use crate::verify::VerifyOptions;

/// One step of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Append what the rings of a run hold that was killed, and remove them.
    Recover {
        /// Name of the ring file.
        segment: String,
        /// How many entries.
        entries: u64,
    },
    /// Write declared-loss frames over a stretch.
    DeclareLoss {
        /// File name.
        segment: String,
        /// The segment's id.
        segment_id: u64,
        /// Byte offset of the stretch.
        offset: u64,
        /// Its length.
        len: u64,
        /// The numbers lost; `None` if none is.
        seqs: Option<SeqRange>,
        /// The next number at that place.
        next_seq: u64,
        /// Class of the loss.
        class: LossClass,
    },
    /// Write a segment header, or one copy of it.
    Header {
        /// File name.
        segment: String,
        /// Where.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Write zeros behind a payload.
    ClearPadding {
        /// File name.
        segment: String,
        /// Where.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Write a seal as the segment's last frame, and cut what stands behind it.
    Seal {
        /// File name.
        segment: String,
        /// The segment's header.
        header: Box<SegmentHeader>,
        /// Where: the end of the frames that count.
        offset: u64,
        /// Last number used in the segment.
        last_seq: u64,
        /// What the seal says.
        reason: SealReason,
        /// Id of the segment that follows; 0 for none.
        successor_id: u64,
    },
    /// Cut the end of a segment.
    Cut {
        /// File name.
        segment: String,
        /// The length that it keeps.
        offset: u64,
    },
    /// Make a segment that declares a loss.
    Placeholder {
        /// File name.
        segment: String,
        /// Its header.
        header: Box<SegmentHeader>,
        /// The numbers lost; `None` if none is.
        seqs: Option<SeqRange>,
        /// Class of the loss.
        class: LossClass,
        /// The unreadable file whose place it takes, which goes to quarantine as it is.
        replaces: Option<String>,
    },
    /// Move a file to quarantine.
    SetAside {
        /// File name.
        segment: String,
    },
    /// Give a segment the name that its header tells; with a later time of opening where that name is taken.
    Rename {
        /// File name.
        segment: String,
        /// Its new name, which no file has.
        to: String,
    },
    /// Bring the record in `writer.lock` up to date with the placeholder at the end.
    Record {
        /// The record.
        state: WriterState,
    },
}

/// One step, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// What is wrong; `None` where the step follows from the one before.
    pub finding: Option<Finding>,
    /// What to do.
    pub step: Step,
}

/// What is to be done with a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps, in order.
    pub actions: Vec<Action>,
    /// What no step settles, with the reason.
    pub unsettled: Vec<(Finding, &'static str)>,
    /// There is more than one plan holds: make another one once this one is done.
    pub is_partial: bool,
}

/// What a repair has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The steps that were taken.
    pub actions: Vec<Action>,
    /// What remains.
    pub unsettled: Vec<(Finding, &'static str)>,
}

/// Rounds of planning and doing besides those for more damage than a plan holds. One does it; what the next ones would find
/// is what the first one laid open.
const ROUNDS: u32 = 4;

/// Plans the repair of the log in `snapshot`. Changes nothing.
///
/// # Errors
/// `Locked` for a log that is being written, `Version` where a part of it is of a later version, `Invalid` for a file by
/// itself, and where the rings of a killed run stand in a directory that is not there, `Io` where it can't be read.
pub fn plan(snapshot: &Snapshot, options: &VerifyOptions, progress: &(dyn Fn(u64) + Sync)) -> Result<Plan> {
    let mut plan = plan_as(snapshot, options, progress, false)?;
    let recoveries = snapshot.rings.iter().map(|ring| recovery_of(&ring.name, ring.entries));
    plan.actions.splice(0..0, recoveries);
    Ok(plan)
}

fn recovery_of(ring: &str, entries: u64) -> Action {
    Action { finding: None, step: Step::Recover { segment: ring.to_owned(), entries } }
}

fn plan_as(
    snapshot: &Snapshot,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64) + Sync),
    seals_all: bool,
) -> Result<Plan> {
    let path = snapshot.storage().path();
    if snapshot.is_single_file {
        let text = "a segment by itself can't be repaired: give the directory of its log";
        return Err(Error::new(ErrorKind::Invalid, text).at(path));
    }
    if let Some(pid) = snapshot.writer_pid {
        let holder = if pid == 0 { "a process".to_owned() } else { format!("process {pid}") };
        let text = format!("{holder} is writing this log: stop it first, then repair");
        return Err(Error::new(ErrorKind::Locked, text).at(path));
    }
    if let Some(unopened) = snapshot.unopened.first() {
        return Err(unopened.error.clone());
    }
    if let Some(later) = snapshot.unreadable.iter().find(|bad| matches!(bad.fault, Some(Fault::Version(_)))) {
        let text = "written in another version of the format: repair this log with the logtool of that version";
        return Err(Error::new(ErrorKind::Version, text).at(path.join(&later.name)));
    }
    refuse_out_of_reach(snapshot.storage(), None)?;
    let mut planner = Planner::new(snapshot, seals_all);
    crate::check::check(snapshot, options.thread_count(), progress, &mut |checked| planner.take(checked));
    planner.finish()
}

/// Repairs the log in `storage`. A log that is sound already is not touched.
///
/// # Errors
/// As [`plan`]; `Locked` also while another process rewrites segments of the log; and what the system says while writing:
/// repair again then, it goes on where it stopped.
pub fn repair(
    storage: &Arc<dyn Storage>,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Repaired> {
    repair_as(storage, options, progress, false)
}

/// As [`repair`]; with `seals_all`, every segment is sealed too.
pub(crate) fn repair_as(
    storage: &Arc<dyn Storage>,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64) + Sync),
    seals_all: bool,
) -> Result<Repaired> {
    let snapshot = Snapshot::take(Arc::clone(storage))?;
    let first = plan_as(&snapshot, options, progress, seals_all)?;
    let mut repaired = Repaired { actions: Vec::new(), unsettled: first.unsettled };
    if first.actions.is_empty() && snapshot.rings.is_empty() {
        return Ok(repaired);
    }
    drop(snapshot);
    let lock = crate::open::take_lock(storage.as_ref())?;
    let _maintenance = take_maintenance_lock(storage.as_ref())?;
    let recovered = recover(storage, Some(&*lock), How::repair())?;
    repaired.actions.extend(recovered.rings.iter().map(|ring| recovery_of(&ring.name, ring.entries)));
    recovered.remove(storage.as_ref(), false, true)?;
    let mut was_partial = false;
    for round in 0.. {
        let snapshot = Snapshot::take_locked_with_rings(Arc::clone(storage))?;
        let plan = plan_as(&snapshot, options, &|_| {}, seals_all)?;
        repaired.unsettled = plan.unsettled.clone();
        if plan.actions.is_empty() || (round >= ROUNDS && !was_partial) {
            break;
        }
        was_partial = plan.is_partial;
        crate::repair_apply::apply(storage.as_ref(), lock.as_ref(), &plan)?;
        repaired.actions.extend(plan.actions);
    }
    Ok(repaired)
}

impl Step {
    /// The file that it is about.
    pub fn segment(&self) -> &str {
        match self {
            Step::Recover { segment, .. }
            | Step::DeclareLoss { segment, .. }
            | Step::Header { segment, .. }
            | Step::ClearPadding { segment, .. }
            | Step::Seal { segment, .. }
            | Step::Cut { segment, .. }
            | Step::Placeholder { segment, .. }
            | Step::SetAside { segment }
            | Step::Rename { segment, .. } => segment,
            Step::Record { .. } => crate::state::LOCK_NAME,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let declared = |seqs: &Option<SeqRange>, class: &LossClass| match seqs {
            Some(seqs) => format!("{seqs} ({} lost, {})", seqs.count(), class.as_str()),
            None => "no entry lost".to_owned(),
        };
        match self {
            Step::Recover { entries: 0, .. } => f.write_str("it holds nothing that is not in a segment; remove it"),
            Step::Recover { entries: 1, .. } => f.write_str("append the entry that is only there, and remove it"),
            Step::Recover { entries, .. } => write!(f, "append {entries} entries that are only there, and remove it"),
            Step::DeclareLoss { len, seqs, class, .. } => {
                write!(f, "declare over {len} bytes: {}", declared(seqs, class))
            }
            Step::Header { bytes, .. } => write!(f, "write {} bytes of header anew", bytes.len()),
            Step::ClearPadding { len, .. } => write!(f, "clear {len} bytes between frames"),
            Step::Seal { .. } => f.write_str("seal it"),
            Step::Cut { offset, .. } => write!(f, "save what stands behind byte {offset}, and cut it"),
            Step::Placeholder { seqs, class, replaces: None, .. } => {
                write!(f, "make a segment that declares: {}", declared(seqs, class))
            }
            Step::Placeholder { seqs, class, .. } => {
                write!(f, "set it aside, and make a segment in its place that declares: {}", declared(seqs, class))
            }
            Step::SetAside { .. } => f.write_str("set it aside in quarantine"),
            Step::Rename { to, .. } => write!(f, "rename it to {to}"),
            Step::Record { .. } => f.write_str("record the new end"),
        }
    }
}
