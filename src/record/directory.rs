//! The directory of `--live`: what its files are called, and whether the process of one still runs.
//!
//! A file's name holds the boot, the pid namespace, the process id and the start time, since containers share
//! directories and process ids come again. Within a pid namespace `/proc` shows whether the process runs; from another
//! one the lock shows it that a host in a container holds on its file.
//!
//! May allocate; while the process has one thread, or in `pyhostctl`.

pub use crate::archive::{ARCHIVE, DRAFT_SUFFIX, LINES_SUFFIX, SUFFIX};
use crate::{Record, archive, was_killed};
use derive_more::Display;
use pyhost_os::file::{self, Fd};
use pyhost_os::process::{small_file, stat_fields, user};
use pyhost_os::{clock, errno::Errno};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The folder, inside the directory, of what `pyhostctl diff --keep` keeps.
pub const BASELINES: &str = "baselines";
/// How the names of baselines end.
const REPORT: &str = ".json";

/// Inode of the machine's first pid namespace (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The value of `--live` or of its variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The ledger is kept in no file.
    Off,
    /// In a file of the default directory.
    On,
    /// In a file of this directory: an absolute path.
    At(PathBuf),
    /// In this file: an absolute path, in which `%p` stands for the process id.
    File(PathBuf),
}

/// Begins a value that names a file.
const FILE: &[u8] = b"file:";

impl Setting {
    /// Reads a value: `on` or `1`, `off` or `0`, a directory, or `file:` and a path. Returns `None` if a path is
    /// empty or there is no working directory to find it from.
    pub fn of(value: &OsStr) -> Option<Self> {
        let absolute = |path: &OsStr| std::path::absolute(path).ok();
        if let Some(path) = value.as_bytes().strip_prefix(FILE) {
            return absolute(OsStr::from_bytes(path)).map(Setting::File);
        }
        match value.as_bytes() {
            b"on" | b"1" => Some(Setting::On),
            b"off" | b"0" => Some(Setting::Off),
            _ => absolute(value).map(Setting::At),
        }
    }

    /// The directory that is meant, or else the default one.
    pub fn directory(&self) -> PathBuf {
        match self {
            Setting::At(path) => path.clone(),
            Setting::On | Setting::Off | Setting::File(_) => default_directory(),
        }
    }

    /// The value that is read as this one in any working directory.
    pub fn show(&self) -> OsString {
        match self {
            Setting::Off => "off".into(),
            Setting::File(path) => OsString::from_vec([FILE, path.as_os_str().as_bytes()].concat()),
            Setting::On | Setting::At(_) => self.directory().into_os_string(),
        }
    }
}

/// The identity of a process on this machine, also after its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The boot's id, without dashes.
    pub boot: String,
    pub pid_namespace: u64,
    /// Its process id there.
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`: clock ticks from the boot to its start.
    pub start_ticks: u64,
}

/// The id of this boot, without dashes; empty if the kernel does not provide it.
pub fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().replace('-', "")
}

/// Inode of the caller's pid namespace; 0 if the kernel does not provide it.
pub fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Whether a process of this namespace holds a lock on its file.
pub fn locks(pid_namespace: u64) -> bool {
    pid_namespace != FIRST_NAMESPACE
}

/// Field 22 of the text of `/proc/PID/stat`: clock ticks from the boot to the start.
pub fn start_ticks(stat: &[u8]) -> Option<u64> {
    small_file::number(stat_fields(stat).nth(22 - 3)?)
}

/// Whether the text of `/proc/PID/stat` is of a process that has ended and that its parent has not
/// asked about. One whose first thread has ended while others go on looks alike but for their count.
fn is_zombie(stat: &[u8]) -> bool {
    let mut fields = stat_fields(stat);
    let state = fields.next();
    // The third was taken: the twentieth.
    let threads = fields.nth(20 - 4);
    matches!(state, Some(b"Z" | b"X")) && matches!(threads, None | Some(b"0" | b"1"))
}

/// The start of the process in clock ticks that the text of `/proc/PID/stat` is of. Returns `None` if it has ended.
pub fn start_if_it_runs(stat: &[u8]) -> Option<u64> {
    start_ticks(stat).filter(|_| !is_zombie(stat))
}

/// The start of a process in clock ticks, by its id in the caller's namespace. Returns `None` if no such process runs.
pub fn started(pid: i32) -> Option<u64> {
    start_if_it_runs(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

impl Identity {
    /// The caller's.
    pub fn own() -> Self {
        let pid = std::process::id() as i32;
        Identity {
            boot: boot(),
            pid_namespace: pid_namespace(),
            pid,
            start_ticks: started(pid).unwrap_or(0),
        }
    }

    pub fn file_name(&self) -> String {
        let (boot, namespace) = (&self.boot, self.pid_namespace);
        let (pid, ticks) = (self.pid, self.start_ticks);
        format!("{boot}-{namespace}-{pid}-{ticks}{SUFFIX}")
    }

    /// The process of a file's name; None where it is no such name.
    pub fn of_file_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(SUFFIX)?.split('-');
        let identity = Identity {
            boot: parts.next()?.to_owned(),
            pid_namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            start_ticks: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(identity)
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub path: PathBuf,
    /// Whose it is, by its name.
    pub identity: Identity,
}

impl Entry {
    /// Whether the file's process still runs. A container cannot see the processes of the machine's first pid
    /// namespace, so there such a process counts as running. A host outside the container can see whether it runs.
    pub fn is_alive(&self, here: &Here) -> bool {
        let identity = &self.identity;
        match here.sees(identity) {
            true => started(identity.pid) == Some(identity.start_ticks),
            false if identity.boot != here.boot => false,
            false => identity.pid_namespace == FIRST_NAMESPACE || is_locked(&self.path),
        }
    }
}

/// Facts that all processes visible to the caller share.
#[derive(Clone, Debug)]
pub struct Here {
    boot: String,
    pid_namespace: u64,
}

impl Here {
    /// The caller's boot and pid namespace.
    pub fn find() -> Self {
        Here {
            boot: boot(),
            pid_namespace: pid_namespace(),
        }
    }

    /// Whether `/proc` shows the process of that identity: it is of this boot and pid namespace.
    pub fn sees(&self, identity: &Identity) -> bool {
        identity.boot == self.boot && identity.pid_namespace == self.pid_namespace
    }
}

/// Whether a process holds the lock of a file (`flock`); a file that cannot be opened is taken for locked.
fn is_locked(path: &Path) -> bool {
    // What this locks, closing it unlocks.
    !crate::open(path).is_ok_and(|file| file::lock(&file, libc::LOCK_SH).is_ok())
}

/// The directory where none is named: below `XDG_RUNTIME_DIR`, else in `/dev/shm`. In memory, both.
pub fn default_directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => Path::new(&runtime).join("pyhost"),
        None => PathBuf::from(format!("/dev/shm/pyhost-{}", user())),
    }
}

/// The default directories of all users: those that are there, or may be.
pub fn default_directories() -> Vec<PathBuf> {
    let inside = |folder| fs::read_dir(folder).into_iter().flatten().flatten();
    let runtime = inside("/run/user").map(|it| it.path().join("pyhost"));
    let is_ones = |name: &OsStr| {
        let user = name.as_bytes().strip_prefix(b"pyhost-");
        user.is_some_and(|user| user.iter().all(u8::is_ascii_digit))
    };
    let memory = inside("/dev/shm").filter(|it| is_ones(&it.file_name()));
    let all = runtime.chain(memory.map(|it| it.path()));
    let is_absent = |path: &PathBuf| {
        path.metadata()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    all.filter(|path| !is_absent(path)).collect()
}

/// Why a directory cannot hold the files of `--live`. Displays as the end of a line that begins with its name.
#[derive(Debug, Display)]
pub enum Unfit {
    /// A resource is missing: the system's reason.
    #[display("{_0} ({_1})")]
    System(&'static str, io::Error),
    /// It is not one that only its user can write to.
    Wrong(String),
}

/// Makes the directory where it is not there, for its user alone, opens it, and makes sure that nobody else can write
/// there.
pub fn prepare(directory: &Path) -> Result<Fd, Unfit> {
    if let Err(error) = fs::DirBuilder::new().mode(0o700).create(directory) {
        match error.kind() {
            io::ErrorKind::AlreadyExists => {}
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                return Err(Unfit::Wrong(format!("cannot be made ({error})")));
            }
            _ => return Err(Unfit::System("cannot be made", error)),
        }
    }
    let folder = open(directory)?;
    let found = file::status(&folder).map_err(unreadable)?;
    if found.st_uid != user() {
        return Err(Unfit::Wrong(format!("belongs to user {}", found.st_uid)));
    }
    if found.st_mode & 0o022 != 0 {
        return Err(Unfit::Wrong("can be written by others".to_owned()));
    }
    Ok(folder)
}

fn unreadable(Errno(error): Errno) -> Unfit {
    Unfit::System("cannot be read", io::Error::from_raw_os_error(error))
}

/// Opens a directory, to work in that one whatever its path leads to later. In the place of a directory of everybody's
/// another user may have put a link: one is followed if it is the caller's own, or root's.
pub fn open(directory: &Path) -> Result<Fd, Unfit> {
    // A separator at the end would follow a link.
    let path: PathBuf = directory.components().collect();
    let path = name_of(path.as_os_str());
    match Fd::folder_in(&libc::AT_FDCWD, &path) {
        Err(Errno(libc::ELOOP | libc::ENOTDIR)) => {}
        opened => return opened.map_err(unreadable),
    }
    let found = file::status_of(&path, libc::AT_SYMLINK_NOFOLLOW).map_err(unreadable)?;
    let is_link = found.st_mode & libc::S_IFMT == libc::S_IFLNK;
    if is_link && ![0, user()].contains(&found.st_uid) {
        return Err(Unfit::Wrong(format!("is a link of user {}", found.st_uid)));
    }
    let opened = Fd::open(&path, libc::O_RDONLY | libc::O_DIRECTORY);
    opened.map_err(|error| match error {
        Errno(libc::ENOTDIR) => Unfit::Wrong("is no directory".to_owned()),
        error => unreadable(error),
    })
}

/// A name as a call takes it; none has a zero byte.
fn name_of(name: impl AsRef<OsStr>) -> CString {
    CString::new(name.as_ref().as_bytes()).unwrap_or_default()
}

/// The files of a directory whose names are those of processes.
pub fn entries(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for found in fs::read_dir(folder)? {
        let name: OsString = found?.file_name();
        if let Some(identity) = name.to_str().and_then(Identity::of_file_name) {
            let path = folder.join(&name);
            entries.push(Entry { path, identity });
        }
    }
    Ok(entries)
}

/// Puts the files of processes that run no more out of the way: of those that were killed into the
/// archive, where the caller is the first to come; of those that ended by themselves, nothing
/// stays. Returns the killed. `folder` is the directory, open.
pub fn tidy(directory: &Path, folder: &Fd) -> Vec<Record> {
    let here = Here::find();
    let mut killed = Vec::new();
    for entry in entries(directory).unwrap_or_default() {
        if entry.is_alive(&here) {
            continue;
        }
        match Record::read(&entry.path) {
            Ok(record) if was_killed(record.header()) => {
                if archive::put(folder, entry.identity.file_name().as_bytes()) {
                    killed.push(record);
                }
            }
            // Nothing that anybody could read later.
            _ => {
                let name = entry.identity.file_name();
                let lines = lines_beside(Path::new(&name));
                for name in [Path::new(&name), &lines, &draft_beside(Path::new(&name))] {
                    file::unlink_in(folder, &name_of(name));
                }
            }
        }
    }
    forget_lost_samples(folder);
    if !killed.is_empty() {
        archive::trim(folder);
    }
    forget_baselines(folder);
    killed
}

pub fn baseline(directory: &Path, identity: &Identity) -> PathBuf {
    let name = identity.file_name();
    let stem = name.strip_suffix(SUFFIX).unwrap_or(&name);
    directory.join(BASELINES).join(format!("{stem}{REPORT}"))
}

/// Removes the baselines of processes whose files are in neither the open directory nor the archive.
pub fn forget_baselines(folder: &Fd) {
    let Ok(baselines) = Fd::folder_in(folder, c"baselines") else {
        return;
    };
    let archive = Fd::folder_in(folder, c"killed").ok();
    file::each_name(&baselines, |name| {
        let stem = str::from_utf8(name).ok();
        let stem = stem.and_then(|name| name.split_once(REPORT));
        let file = stem.map(|(stem, _)| format!("{stem}{SUFFIX}"));
        let Some(file) = file.filter(|file| Identity::of_file_name(file).is_some()) else {
            return;
        };
        let is_there = has(folder, &file) || archive.as_ref().is_some_and(|it| has(it, &file));
        if !is_there {
            file::unlink_in(&baselines, &name_of(OsStr::from_bytes(name)));
        }
    });
}

fn has(folder: &Fd, name: &str) -> bool {
    file::status_in(folder, &name_of(name), libc::AT_SYMLINK_NOFOLLOW).is_ok()
}

/// Removes the files of samples without a process's file beside them: their process was killed while it ended, or while it
/// made a larger file. They must be older than a minute: another caller may be about to move them into the archive.
fn forget_lost_samples(folder: &Fd) {
    const LEAST_SECONDS: i128 = 60;
    file::rewind(folder);
    file::each_name(folder, |whole| {
        let name = str::from_utf8(whole).unwrap_or_default();
        let name = name.strip_suffix(DRAFT_SUFFIX).unwrap_or(name);
        let Some(stem) = name.strip_suffix(LINES_SUFFIX) else {
            return;
        };
        let file = format!("{stem}{SUFFIX}");
        let is_ours = Identity::of_file_name(&file).is_some();
        let whole = name_of(OsStr::from_bytes(whole));
        let found = file::status_in(folder, &whole, libc::AT_SYMLINK_NOFOLLOW);
        let age =
            found.map(|found| i128::from(clock::now() / 1_000_000_000) - found.st_mtime as i128);
        if is_ours && age.is_ok_and(|age| age >= LEAST_SECONDS) && !has(folder, &file) {
            file::unlink_in(folder, &whole);
        }
    });
}

/// The file with the samples of lines of the process that has the file `path`.
pub fn lines_beside(path: &Path) -> PathBuf {
    path.with_extension(&LINES_SUFFIX[1..])
}

/// The larger file of samples that the process of the file `path` was making when it was killed.
fn draft_beside(path: &Path) -> PathBuf {
    path.with_extension("lines.new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_samples_without_a_process_are_removed_once_they_are_old() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        let name = "0d3b7c521f5e4b8c9a550b8d1a2c3e4f-4026531836-4711-99.live";
        let process = directory.join(name);
        let paths = [lines_beside(&process), draft_beside(&process)];
        let others = directory.join(format!("notes{LINES_SUFFIX}"));
        let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        let make = |path: &Path| {
            let file = fs::File::create(path).unwrap();
            file.set_modified(hour_ago).unwrap();
        };
        let are_there = || paths.iter().map(|path| path.exists()).collect::<Vec<_>>();
        paths.iter().for_each(|path| make(path));
        [&others, &process].iter().for_each(|path| make(path));
        forget_lost_samples(&open(directory).unwrap());
        assert_eq!(are_there(), [true, true], "the process is there");
        fs::remove_file(&process).unwrap();
        fs::write(&paths[0], "new").unwrap();
        tidy(directory, &open(directory).unwrap());
        assert_eq!(are_there(), [true, false], "one is new");
        make(&paths[0]);
        tidy(directory, &open(directory).unwrap());
        assert_eq!(are_there(), [false, false]);
        assert!(others.exists(), "it has no process's name");
    }

    #[test]
    fn a_name_tells_whose_file_it_is() {
        let own = Identity::own();
        assert_eq!(Identity::of_file_name(&own.file_name()), Some(own.clone()));
        assert_eq!(own.boot.len(), 32);
        for name in " .live a-1-2.live a-1-2-3-4.live a-x-2-3.live a-1-2-3".split(' ') {
            assert_eq!(Identity::of_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_start_time_follows_any_name() {
        let stat = b"7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2";
        assert_eq!(start_ticks(stat), Some(98765));
        assert_eq!(start_ticks(b"7"), None);
        assert!(is_zombie(b"7 (a) Z) Z 1 7"));
        let own = Identity::own();
        assert_eq!(started(own.pid), Some(own.start_ticks));
    }

    #[test]
    fn a_process_that_nobody_waited_for_has_ended() {
        let stat = |state, threads| {
            format!("7 (Z Z) {state} 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 98765")
        };
        assert!(is_zombie(stat('Z', 1).as_bytes()));
        assert!(!is_zombie(stat('Z', 2).as_bytes()));
        assert!(!is_zombie(stat('S', 1).as_bytes()));
        assert!(!is_zombie(b"7"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        while started(pid).is_some() {
            std::thread::yield_now();
        }
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        child.wait().unwrap();
    }

    #[test]
    fn a_baseline_goes_with_its_process() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        fs::create_dir_all(folder.join(BASELINES)).unwrap();
        fs::create_dir_all(folder.join(ARCHIVE)).unwrap();
        let of = |pid| Identity::of_file_name(&format!("b-1-{pid}-2.live")).unwrap();
        for pid in 1..=3 {
            fs::write(baseline(folder, &of(pid)), "").unwrap();
        }
        fs::write(folder.join(BASELINES).join("note.json"), "").unwrap();
        fs::write(folder.join(of(1).file_name()), "").unwrap();
        fs::write(folder.join(ARCHIVE).join(of(2).file_name()), "").unwrap();
        forget_baselines(&open(folder).unwrap());
        let left = |pid| baseline(folder, &of(pid)).exists();
        assert_eq!([left(1), left(2), left(3)], [true, true, false]);
        assert!(folder.join(BASELINES).join("note.json").exists());
    }

    #[test]
    fn a_link_of_another_user_is_no_directory() {
        let folder = tempfile::tempdir().unwrap();
        let [behind, link, file] = ["behind", "link", "file"].map(|it| folder.path().join(it));
        fs::create_dir(&behind).unwrap();
        std::os::unix::fs::symlink(&behind, &link).unwrap();
        assert!(prepare(&link).is_ok(), "the caller's own");
        let why = |path: &Path| prepare(path).err().map(|why| why.to_string());
        if std::os::unix::fs::lchown(&link, Some(65534), None).is_ok() {
            for path in [link.clone(), link.join("")] {
                assert_eq!(why(&path).as_deref(), Some("is a link of user 65534"));
            }
        }
        fs::write(&file, "").unwrap();
        assert_eq!(why(&file).as_deref(), Some("is no directory"));
    }
}
