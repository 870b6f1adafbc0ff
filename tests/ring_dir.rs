//! Ring files that stand in another directory than their log: read, recovered and removed as those beside it are, lost without
//! being called sound where they are not there any more, and never taken for what they are not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use logtool::clean_copy::clean_copy;
use logtool::control::LossClass;
use logtool::ring_builder::{self, RingFileBuilder};
use logtool::storage::Storage;
use logtool::storage_os::OsStorage;
use logtool::storage_sim::SimStorage;
use logtool::{ErrorKind, Fault, Logger, Loss, Report, Snapshot, Writer, info, repair, verify};

use crate::faulty_storage::Faulty;
use crate::harness::{logtool, temp_dir};
use crate::rings::{ONE_THREAD, Run, assert_all, entries, options, ring_files, verified};

const DIR: &str = "/rings";

/// As the run leaves it that is killed with its rings in another directory; and the path of its ring file.
fn kill(run: &Run) -> (SimStorage, String) {
    let disk = run.disk.kill();
    let (pointer, path) = run.file.pointer(Path::new(DIR), Path::new("/sim")).unwrap();
    let path = path.to_str().unwrap().to_owned();
    disk.put(&run.file.name(), &pointer);
    disk.put(&path, &run.file.encode());
    (disk, path)
}

fn elsewhere(disk: &SimStorage) -> Vec<String> {
    disk.elsewhere(Path::new(DIR)).unwrap().names().unwrap()
}

#[track_caller]
fn assert_nothing_left(disk: &SimStorage) {
    assert_eq!((ring_files(disk), elsewhere(disk)), (vec![], vec![]));
}

pub(crate) fn unknown_after(report: &Report) -> Vec<u64> {
    let unknown = report.findings.iter().filter_map(|finding| match finding.loss {
        Loss::UnknownAfter(seq) => Some(seq),
        _ => None,
    });
    unknown.collect()
}

#[test]
fn rings_elsewhere_are_read_recovered_and_repaired() {
    let run = Run::usual(SimStorage::new());
    let beside = run.kill();
    let (disk, _) = kill(&run);
    let read = entries(&disk);
    assert_all(&read, &run.accepted);
    assert_eq!(read, entries(&beside));
    assert!(verified(&disk).is_sound(true));

    let opened = disk.kill();
    drop(Writer::open_on(opened.shared(), options()).unwrap());
    assert_nothing_left(&opened);
    assert_eq!(entries(&opened), read);

    let repaired = disk.kill();
    repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap();
    assert_nothing_left(&repaired);
    assert_eq!(entries(&repaired), read);
    assert!(repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap().actions.is_empty());
}

#[test]
fn a_recovery_of_rings_elsewhere_stopped_at_any_call_is_gone_on_with() {
    let (disk, _) = kill(&Run::usual(SimStorage::new()));
    let all = entries(&disk);
    let open = |disk: &SimStorage| drop(Writer::open_on(disk.shared(), options()));
    let mend = |disk: &SimStorage| drop(repair::repair(&disk.shared(), &ONE_THREAD, &|_| {}));
    for work in [&open as &dyn Fn(&SimStorage), &mend] {
        let done = disk.kill();
        work(&done);
        for calls in 0..done.calls() {
            let stopped = disk.kill();
            stopped.stop_after(calls);
            work(&stopped);
            let next = stopped.kill();
            assert_eq!(entries(&next), all, "read after {calls} calls");
            let report = verified(&next);
            assert!(report.is_sound(true), "{calls} calls: {:#?}", report.findings);
            open(&next);
            assert_eq!(entries(&next), all, "opened after {calls} calls");
            assert_nothing_left(&next);
            assert!(verified(&next).is_sound(true));
        }
    }
}

#[test]
fn rings_that_are_not_there_any_more_leave_the_end_unknown() {
    let (disk, path) = kill(&Run::usual(SimStorage::new()));
    disk.delete(&path);
    let report = verified(&disk);
    assert_eq!(unknown_after(&report), [20], "{:#?}", report.findings);
    assert_eq!(entries(&disk).len(), 20);

    let opened = disk.kill();
    let writer = Writer::open_on(opened.shared(), options()).unwrap();
    assert!(writer.next_seq() > 1 << 32);
    drop(writer);
    assert!(!verified(&opened).is_sound(false));
    assert_eq!(ring_files(&opened), Vec::<String>::new());
    assert_eq!(opened.content("quarantine/00000001.ring"), disk.content("00000001.ring"));

    let repaired = disk.kill();
    repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap();
    assert!(verified(&repaired).is_sound(false) && !verified(&repaired).is_sound(true));
    assert_eq!(ring_files(&repaired), Vec::<String>::new());
    assert!(repair::repair(&repaired.shared(), &ONE_THREAD, &|_| {}).unwrap().actions.is_empty());
}

#[test]
fn rings_that_a_reboot_has_taken_are_a_power_cut_as_the_log_tells_it() {
    let run = Run::usual(SimStorage::new());
    let (disk, path) = kill(&run);
    disk.delete(&path);
    let (rebooted, beside) = (disk.power_cut(1), run.kill().power_cut(1));
    beside.delete("00000001.ring");
    for disk in [&rebooted, &beside] {
        let report = verified(disk);
        assert!(unknown_after(&report).contains(&20), "{:#?}", report.findings);
        assert!(report.findings.iter().all(|finding| finding.class == LossClass::PowerCut));
        let writer = Writer::open_on(disk.shared(), options()).unwrap();
        assert!(writer.next_seq() > 1 << 32, "what came after the last entry is void");
        drop(writer);
        assert!(verified(disk).is_sound(false));
        assert_eq!(ring_files(disk), Vec::<String>::new());
    }
}

#[test]
fn damaged_rings_elsewhere_go_to_the_quarantine_of_their_log() {
    let (disk, path) = kill(&Run::usual(SimStorage::new()));
    let mut damaged = disk.content(&path).unwrap();
    let last = damaged.iter().rposition(|&byte| byte != 0).unwrap();
    damaged[last] ^= 1;
    disk.put(&path, &damaged);
    assert!(!verified(&disk).is_sound(false));
    for mends in [false, true] {
        let work = |disk: &SimStorage| match mends {
            true => drop(repair::repair(&disk.shared(), &ONE_THREAD, &|_| {})),
            false => drop(Writer::open_on(disk.shared(), options())),
        };
        let done = disk.kill();
        work(&done);
        assert_nothing_left(&done);
        assert!(done.content("quarantine/00000001.ring").unwrap() == damaged);
        for calls in 0..done.calls() {
            let stopped = disk.kill();
            stopped.stop_after(calls);
            work(&stopped);
            let next = stopped.kill();
            let saved = |name: &str| next.content(name).is_some_and(|content| content == damaged);
            assert!(saved(&path) || saved("quarantine/00000001.ring"), "{calls} calls");
            work(&next);
            let report = verified(&next);
            assert!(report.is_sound(false) == mends, "{calls} calls: {:#?}", report.findings);
            assert_nothing_left(&next);
        }
    }
}

#[test]
fn damaged_rings_elsewhere_that_the_disk_has_no_room_for_stay_and_take_none() {
    let (disk, path) = kill(&Run::usual(SimStorage::new()));
    let mut damaged = disk.content(&path).unwrap();
    let last = damaged.iter().rposition(|&byte| byte != 0).unwrap();
    damaged[last] ^= 1;
    disk.put(&path, &damaged);
    let room = damaged.len() as u64 / 2;
    for mends in [false, true] {
        let disk = disk.kill();
        for _ in 0..2 {
            disk.set_capacity(Some(disk.used() + room));
            if mends {
                repair::repair(&disk.shared(), &ONE_THREAD, &|_| {}).unwrap_err();
            } else {
                drop(Writer::open_on(disk.shared(), options()).unwrap());
            }
            assert_eq!(disk.content("quarantine/repair.tmp"), None);
            assert!(disk.content(&path).unwrap() == damaged);
        }
        disk.set_capacity(None);
        drop(Writer::open_on(disk.shared(), options()).unwrap());
        assert!(disk.content("quarantine/00000001.ring").unwrap() == damaged);
        assert_nothing_left(&disk);
    }
}

#[test]
fn a_pointer_without_its_rings_is_nothing_where_these_were_not_needed() {
    // Closed, and killed between the removals.
    let mut run = Run::new(SimStorage::new(), 2);
    (0..6).for_each(|number| run.log(number % 2 + 1));
    run.write(0, 6, true);
    run.writer.close().unwrap();
    let (closed, path) = kill(&run);
    closed.delete(&path);
    // Killed before the first segment was there: with nothing of the rings, with a file that is empty, or blank.
    let begun = |content: Option<&[u8]>| {
        let first = SimStorage::new();
        drop(Writer::open_on(first.shared(), options()).unwrap());
        let run = Run::new(first.kill(), 1);
        let (disk, path) = kill(&run);
        let segment = disk.names().unwrap().into_iter().find(|name| name.starts_with("00000002-")).unwrap();
        disk.delete(&segment);
        // Its record came later.
        disk.put("writer.lock", &first.content("writer.lock").unwrap());
        match content {
            Some(content) => disk.put(&path, content),
            None => disk.delete(&path),
        }
        disk
    };
    for disk in [closed, begun(None), begun(Some(b"")), begun(Some(&[0; 9000]))] {
        let report = verified(&disk);
        assert!(report.is_sound(true), "{:#?}", report.findings);
        let next_seq = entries(&disk).len() as u64 + 1;
        let writer = Writer::open_on(disk.shared(), options()).unwrap();
        assert_eq!(writer.next_seq(), next_seq);
        drop(writer);
        assert_nothing_left(&disk);
        assert!(verified(&disk).is_sound(true));
    }
}

/// The log of a killed run in a directory of the system, with the rings in another.
pub(crate) struct Killed {
    pub(crate) log: tempfile::TempDir,
    pub(crate) rings: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

pub(crate) fn killed() -> Killed {
    let (live, rings) = (temp_dir(), temp_dir());
    let (mut writer, mut file) = ring_builder::open(storage(live.path()), options()).unwrap();
    file.add_ring(4096, 1, "worker-1");
    (1..=3).for_each(|tseq| file.ring(0).push(tseq, tseq, 0, format!("entry {tseq}").as_bytes()));
    writer.flush().unwrap();
    let log = copy_of(live.path());
    let path = stand_elsewhere(&file, log.path(), rings.path());
    fs::write(&path, file.encode()).unwrap();
    Killed { log, rings, path }
}

pub(crate) fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = temp_dir();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn stand_elsewhere(file: &RingFileBuilder, log: &Path, rings: &Path) -> PathBuf {
    let (pointer, path) = file.pointer(rings, log).unwrap();
    fs::write(log.join(file.name()), pointer).unwrap();
    path
}

pub(crate) fn storage(dir: &Path) -> Arc<dyn Storage> {
    Arc::new(OsStorage::new(dir, 0o640))
}

pub(crate) fn report(dir: &Path) -> Report {
    verify(&Snapshot::take(storage(dir)).unwrap(), &ONE_THREAD, &|_| {})
}

fn count(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

#[test]
fn a_copy_reads_the_rings_and_leaves_them_to_their_log() {
    let Killed { log, rings, path } = killed();
    let (copy, clean) = (copy_of(log.path()), temp_dir());
    let before = fs::read(&path).unwrap();
    logtool().arg("repair").arg(copy.path()).run().expect_code(0);
    assert_eq!(logtool().arg("cat").arg(copy.path()).run().expect_code(0).text(), "entry 1\nentry 2\nentry 3\n");
    assert!(!copy.path().join("00000001.ring").exists());
    clean_copy(&storage(log.path()), &storage(clean.path()), &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!((report(clean.path()).entries, report(clean.path()).is_sound(true)), (3, true));
    assert!(fs::read(&path).unwrap() == before, "a copy's repair has harmed the rings of the log");
    logtool().arg("repair").arg(log.path()).run().expect_code(0);
    assert_eq!((report(log.path()).entries, count(rings.path())), (3, 0));
}

#[test]
fn a_pointer_to_something_else_is_not_followed() {
    let Killed { log, rings, path } = killed();
    let good = fs::read(&path).unwrap();
    let other = killed();
    let lays: [&dyn Fn(&Path); 6] = [
        &|path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRUSR).unwrap(),
        &|path| symlink("/dev/zero", path).unwrap(),
        &|path| symlink(path, path).unwrap(),
        &|path| fs::create_dir(path).unwrap(),
        &|path| symlink(&other.path, path).unwrap(),
        &|path| fs::write(path, b"somebody's own").unwrap(),
    ];
    fs::remove_file(&path).unwrap();
    for lay in lays {
        lay(&path);
        let seen = report(log.path());
        assert_eq!((unknown_after(&seen), seen.entries), (vec![0], 0), "{:#?}", seen.findings);
        assert!(seen.findings.iter().any(|finding| finding.fault == Fault::Ring));
        let copy = temp_dir();
        clean_copy(&storage(log.path()), &storage(copy.path()), &ONE_THREAD, &|_| {}).unwrap();
        assert_eq!(count(rings.path()), 1, "what was there is still there");
        let is_dir = fs::symlink_metadata(&path).unwrap().is_dir();
        if is_dir {
            fs::remove_dir(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        };
    }
    assert!(other.path.exists());
    fs::write(&path, good).unwrap();
    assert_eq!(report(log.path()).entries, 3);
    // A repair takes the pointer to quarantine, and what it does not own stays.
    fs::write(&path, b"somebody's own").unwrap();
    repair::repair(&storage(log.path()), &ONE_THREAD, &|_| {}).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"somebody's own");
    assert!(log.path().join("quarantine/00000001.ring").exists());
}

#[test]
fn two_logs_share_a_directory_for_their_rings() {
    let (one, other, rings) = (temp_dir(), temp_dir(), temp_dir());
    let place = rings.path().join("made");
    let open = |dir: &tempfile::TempDir| Logger::builder(dir.path()).ring_dir(&place).open().unwrap();
    let (first, second) = (open(&one), open(&other));
    info!(logger: first, "first");
    info!(logger: second, "second");
    assert_eq!(count(&place), 2);
    for dir in [&one, &other] {
        assert!(dir.path().join("00000001.ring").exists());
        let levels = logtool().arg("level").arg(dir.path()).run().expect_code(0).text();
        assert!(levels.contains("info"), "{levels}");
        logtool().arg("level").arg(dir.path()).arg("trace").run().expect_code(0);
    }
    first.close(Duration::from_secs(10)).unwrap();
    assert_eq!(count(&place), 1);
    second.close(Duration::from_secs(10)).unwrap();
    assert_eq!(count(&place), 0);
    for dir in [&one, &other] {
        assert!(!dir.path().join("00000001.ring").exists());
        assert!(report(dir.path()).is_sound(true));
    }
}

#[test]
fn a_file_system_that_cannot_keep_rings_is_refused_with_both_ways_out() {
    let (dir, rings) = (temp_dir(), temp_dir());
    let unfit = || {
        let (storage, faults) = Faulty::over(dir.path());
        faults.is_unfit.store(true, Ordering::Relaxed);
        storage
    };
    let builder = || Logger::builder(dir.path());
    let error = builder().open_on(unfit()).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Invalid, Some(dir.path())));
    let text = error.to_string();
    for part in ["a file system of this test promises nothing", "`.ring_dir(path)`", "`.memory_rings()`"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(count(dir.path()), 0, "nothing is made");
    for (number, builder) in [builder().ring_dir(rings.path()), builder().memory_rings()].into_iter().enumerate() {
        let log = builder.open_on(unfit()).unwrap();
        info!(logger: log, "logged");
        log.close(Duration::from_secs(10)).unwrap();
        assert_eq!(report(dir.path()).entries, number as u64 + 1);
    }
    let missing = builder().ring_dir(rings.path().join("missing")).open_on(unfit()).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
}
