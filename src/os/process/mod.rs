//! Facts of the running process and its machine, from the kernel. But for the list of nodes and
//! the look for a limit in [`cgroup`] nothing here allocates, so that a signal handler may ask.

pub mod cgroup;
#[cfg(not(target_feature = "crt-static"))]
pub mod libc_itself;
pub mod limits;
pub mod loaded;
pub mod maps;
pub mod small_file;
pub mod symbol_file;

use crate::calls;

pub use crate::calls::{default_stack, name_thread, read_memory, set_variables, thread_name};
pub use crate::calls::{geteuid as user, getpid as id, kill as signal};
use crate::file::{self, Fd};
use crate::mapping::{FromZeros, page_size};
pub use crate::system_call::end_now;
use crate::{errno::errno, format::c_text_into};
use maps::Mapping;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of memory that the machine has.
pub fn physical_memory() -> u64 {
    u64::try_from(calls::sysconf(libc::_SC_PHYS_PAGES)).unwrap_or(0) * page_size()
}

/// The largest request that the kernel would grant a plain `malloc`: all memory and swap, by its default rule
/// (`vm.overcommit_memory` 0). `usize::MAX` under another rule, which the kernel applies to every request alike.
pub fn largest_grant() -> usize {
    let mut buffer = [0u8; 16];
    let rule = small_file::read_once(c"/proc/sys/vm/overcommit_memory", &mut buffer);
    if rule.is_some_and(|rule| !rule.starts_with(b"0")) {
        return usize::MAX;
    }
    let mut system = libc::sysinfo::zeroed();
    let result = calls::sysinfo(&mut system);
    let units = system.totalram.saturating_add(system.totalswap) as usize;
    match result {
        0 if units > 0 => units.saturating_mul(system.mem_unit.max(1) as usize),
        _ => usize::MAX,
    }
}

/// Bytes that the process may lock in memory, as text: the soft RLIMIT_MEMLOCK.
pub fn lockable() -> String {
    match limits::soft(libc::RLIMIT_MEMLOCK) {
        limits::NO_LIMIT => "none".to_owned(),
        bytes => format!("{bytes} bytes"),
    }
}

/// Whether the system's choice for transparent huge pages is `[never]`, to grant them to nobody, or `[always]`, to use them wherever
/// it can, asked or not. Allocates.
pub fn huge_pages_are(choice: &str) -> bool {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(choice))
}

/// Bytes of a transparent huge page, which follow from those of a page; `None` if the kernel does
/// not say (before Linux 4.20). Allocates.
pub fn huge_page_size() -> Option<u64> {
    let path = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The machine's memory nodes, by number; none if the kernel knows of none. Allocates.
pub fn numa_nodes() -> Vec<u32> {
    let path = "/sys/devices/system/node/has_memory";
    node_list(&std::fs::read_to_string(path).unwrap_or_default())
}

/// Reads a list such as `0-1,3` (`cpulist` format of bitmap_parselist).
fn node_list(text: &str) -> Vec<u32> {
    let mut nodes = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            nodes.extend(first..=last);
        }
    }
    nodes
}

/// Whether a program that was called by its name alone, and was found in the folder `own`, stands in `PATH` after another
/// folder: after that of the environment that was activated since. Allocates.
pub fn is_behind_in_path(called: &OsStr, own: &Path, other: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = || std::env::split_paths(&path).find(|folder| folder == own || folder == other);
    !called.as_bytes().contains(&b'/') && own != other && first().as_deref() == Some(other)
}

/// The fields of the text of `/proc/PID/stat` (proc(5)) from the third, the state, on: behind the name,
/// which stands in parentheses and may hold some itself.
pub fn stat_fields(stat: &[u8]) -> impl Iterator<Item = &[u8]> {
    let name_end = stat.iter().rposition(|&byte| byte == b')');
    let behind = stat.get(name_end.map_or(stat.len(), |end| end + 2)..);
    behind.unwrap_or_default().split(|&byte| byte == b' ')
}

/// Whether another thread of the process runs, waits for a processor, or for a page: the letters R and D
/// of `/proc/self/task/TID/stat` (proc(5)). If the system does not list them, whether there is another.
pub fn another_thread_runs() -> bool {
    let mut runs = false;
    let are_listed = each_other_thread(|thread| {
        let stat = std::fs::read(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        runs |= matches!(stat_fields(&stat).next(), Some(b"R" | b"D"));
    });
    runs || !are_listed && has_several_threads()
}

/// Whether the process has another thread, which unshare(2) refuses to part from: `EINVAL`. False if the system forbids
/// to ask. For the calling thread alone there is nothing to part from.
pub fn has_several_threads() -> bool {
    calls::unshare(libc::CLONE_THREAD) != 0 && errno() == libc::EINVAL
}

/// The system call that another thread of the process waits in, and its first argument; -1 if the thread runs, or waits for a
/// processor or a page. `None` if the system does not say. Allocates nothing.
pub fn system_call_of(thread: libc::pid_t) -> Option<(libc::c_long, usize)> {
    // `/proc/self/task/TID/syscall` (proc(5)).
    let (mut path, mut text) = ([0; 48], [0; 256]);
    let name = format_args!("/proc/self/task/{thread}/syscall");
    let path = c_text_into(&mut path, name);
    let text = str::from_utf8(small_file::read_once(path, &mut text)?).ok()?;
    let mut words = text.trim_end().split(' ');
    match words.next()? {
        "running" | "-1" => Some((-1, 0)),
        number => {
            let first = words.next()?.strip_prefix("0x")?;
            Some((number.parse().ok()?, usize::from_str_radix(first, 16).ok()?))
        }
    }
}

/// Visits the ids of the process's threads but the calling one; false if the system does not list them. Allocates
/// nothing.
pub fn each_other_thread(mut visit: impl FnMut(libc::pid_t)) -> bool {
    let Ok(folder) = Fd::open(c"/proc/self/task", libc::O_RDONLY | libc::O_DIRECTORY) else {
        return false;
    };
    file::each_name(&folder, |name| {
        let number = small_file::number(name);
        if let Some(thread) = number.filter(|&thread| thread != calls::gettid()) {
            visit(thread);
        }
    });
    true
}

/// Whether the calling thread is the process's first: in a forked child, the one that lives on.
pub fn is_first_thread() -> bool {
    calls::gettid() == calls::getpid()
}

/// The file of this program. If it was started by naming the loader (`ld.so pyhost`), `/proc/self/exe` is the
/// loader's: then the file that this function is mapped from.
pub fn executable() -> Option<PathBuf> {
    let started = std::fs::read_link("/proc/self/exe").ok()?;
    let name = started.file_name().unwrap_or_default().as_bytes();
    if !name.starts_with(b"ld-") && !name.starts_with(b"ld.") {
        return Some(started);
    }
    Some(own_file().unwrap_or(started))
}

/// The file that this code is mapped from: the program's, or that of a library in an interpreter.
fn own_file() -> Option<PathBuf> {
    let (own, mut found) = (own_file as *const () as usize, None);
    maps::each_range(&mut [0; 16 << 10], |mapping| {
        if (mapping.start..mapping.end).contains(&own) && mapping.name.starts_with(b"/") {
            found = Some(PathBuf::from(OsStr::from_bytes(mapping.name)));
        }
    })?;
    found
}

/// Whether a process that this one descends from has the host, too: its file, be it the program or a library in an
/// interpreter. False if the system does not say. Allocates.
pub fn has_ancestor_of_its_kind() -> bool {
    let own = own_file();
    let own = own.as_ref().map(|path| path.as_os_str().as_bytes());
    let has_own = |process: &str| {
        let mappings = std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let mut found = mappings.split(|&byte| byte == b'\n');
        found.any(|line| Mapping::parse(line).is_some_and(|mapping| Some(mapping.name) == own))
    };
    let mut ancestor = calls::getppid();
    // A process whose parent is not in this pid namespace has 0 for it.
    while ancestor > 0 {
        let process = ancestor.to_string();
        if has_own(&process) {
            return true;
        }
        let stat = std::fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent = stat_fields(&stat).nth(1);
        ancestor = parent.and_then(small_file::number).unwrap_or(0);
    }
    false
}

/// Waits for a child, whatever signals come meanwhile; its status as waitpid(2) has it, which takes `options`. Returns `None` if it is no
/// child.
pub fn wait_for(child: libc::pid_t, options: libc::c_int) -> Option<libc::c_int> {
    let mut status = 0;
    while calls::waitpid(child, Some(&mut status), options) < 0 {
        if errno() != libc::EINTR {
            return None;
        }
    }
    Some(status)
}

/// Whether the program was started with more rights than its caller has.
pub fn is_privileged_start() -> bool {
    calls::getauxval(libc::AT_SECURE) != 0
}

/// Another process, and whether it has ended.
pub struct Watched {
    id: libc::pid_t,
    /// Readable once it has ended (`pidfd_open(2)`, Linux 5.3); `None` if the system has none, or keeps it from a container.
    end: Option<Fd>,
}

impl Watched {
    /// The process that has this id now.
    pub fn of(id: libc::pid_t) -> Self {
        let end = Fd::of_process(id).ok();
        Watched { id, end }
    }

    /// Whether it has ended, waited for or not.
    pub fn has_ended(&self) -> bool {
        if self.end.is_some() {
            let mut polls = [file::awaited(self.as_raw_fd(), libc::POLLIN)];
            return file::wait(&mut polls, 0) == Ok(1);
        }
        let mut path = [0; 64];
        let path = c_text_into(&mut path, format_args!("/proc/{}/stat", self.id));
        let mut room = [0; 1024];
        let stat = small_file::read_once(path, &mut room).unwrap_or_default();
        let is_zombie = matches!(stat_fields(stat).next(), Some(b"Z" | b"X"));
        is_zombie || calls::kill(self.id, 0) != 0 && errno() == libc::ESRCH
    }
}

impl AsRawFd for Watched {
    /// A number to wait for its end with; -1 if the system gives none.
    fn as_raw_fd(&self) -> RawFd {
        self.end.as_ref().map_or(-1, Fd::as_raw_fd)
    }
}

/// Bytes of this process that are resident, and those of them that belong to files and shared memory; None if `/proc` is not
/// readable.
pub fn resident_and_shared() -> Option<(u64, u64)> {
    let mut room = [0; 256];
    let text = small_file::read_once(c"/proc/self/statm", &mut room)?;
    of_statm(text, page_size())
}

/// The same of the text of a `statm`.
pub fn of_statm(text: &[u8], page: u64) -> Option<(u64, u64)> {
    let bytes = |field| Some(pages_of_statm(text, field)? * page);
    Some((bytes(1)?, bytes(2)?))
}

fn pages_of_statm(text: &[u8], field: usize) -> Option<u64> {
    small_file::number(text.split(|&byte| byte == b' ').nth(field)?)
}

#[cfg(test)]
mod tests {
    use super::{node_list, own_file, system_call_of};

    #[test]
    fn what_a_thread_waits_in_is_known_by_number_and_first_argument() {
        let (give, take) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            give.send(crate::calls::gettid()).unwrap();
            ends.recv()
        });
        let thread = take.recv().unwrap();
        let first = system_call_of(thread);
        let is_futex =
            || matches!(system_call_of(thread), Some((libc::SYS_futex, address)) if address != 0);
        let patience = 2_000_000_000;
        let waits = crate::clock::wait_until(patience, 1_000_000, is_futex);
        end.send(()).unwrap();
        waiting.join().unwrap().unwrap();
        // A kernel without the file, or a sandbox that hides it.
        assert!(waits || first.is_none());
        assert_eq!(system_call_of(thread), None);
    }

    #[test]
    fn the_file_of_this_code_is_the_programs() {
        assert_eq!(own_file(), std::env::current_exe().ok());
    }

    #[test]
    fn a_list_of_nodes_has_numbers_and_ranges() {
        assert_eq!(node_list("0\n"), [0]);
        assert_eq!(node_list("0-1,3,8-9\n"), [0, 1, 3, 8, 9]);
        assert!(node_list("").is_empty());
    }
}
