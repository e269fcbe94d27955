//! A group's limit and the bytes that count against it right now, read without allocating.
//!
//! Any thread may read, from inside an allocation or a signal handler too: one `fstat`, one or two
//! `pread`s into the stack, no lock of the process's, `errno` as it was. What is counted is what
//! the kernel cannot take back when the limit is reached. Page cache and reclaimable slab are left
//! out, which `memory.current` and `memory.usage_in_bytes` hold.
//!
//! Version 1 has its kernel memory as one number, `memory.kmem.usage_in_bytes`, most of which
//! may be reclaimable (seen on 6.18: 166 MB after a walk over 117,000 files). So it counts up to
//! what the charged memory and the threads explain: see [`kernel_bound`].

use super::{GroupLimit, OF_ALL, Version, limit_in, limit_of_all};
use crate::errno::KeptErrno;
use crate::file::{Fd, identity};
use crate::process::small_file::{kilobytes, number, open, read, read_once};
use std::ffi::{CString, c_int};
use std::fmt;
#[cfg(test)]
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::{os::unix::ffi::OsStrExt, path::Path};

/// The bytes read of a file: its interesting numbers are in the first half.
const FILE_BYTES: usize = 4096;
/// The watch keeps its descriptors above those that scripts get and expect.
const FIRST_DESCRIPTOR: c_int = 900;

/// Bytes that the kernel charges and cannot take back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Anonymous memory: heaps, stacks, private maps that were written.
    pub anonymous: u64,
    /// Shared memory: `MAP_SHARED | MAP_ANONYMOUS`, `memfd`, tmpfs.
    pub shared: u64,
    /// The kernel's own: stacks, page tables, slab that cannot be reclaimed, sockets' buffers.
    pub kernel: u64,
}

impl Charged {
    /// All together.
    pub fn total(self) -> u64 {
        self.anonymous
            .saturating_add(self.shared)
            .saturating_add(self.kernel)
    }
}

/// The files of one limiting group. Stays open for the life of the process; a forked child may use its copy.
pub struct Watch {
    found: GroupLimit,
    statistics: File,
    kernel: Option<File>,
    limits: Vec<Option<File>>,
    /// The limit when it was read last, and whose it is, as an index of [`Watch::names`].
    limit: AtomicU64,
    name: AtomicUsize,
}

/// Displays as the limit of the last [`Watch::limit`] does.
impl fmt::Display for Watch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.names().nth(self.name.load(Relaxed)).unwrap_or(OF_ALL);
        self.found.write(out, self.limit.load(Relaxed), name)
    }
}

impl Watch {
    /// Opens the group that a limit was found in; `None` if its files do not say what is charged. Allocates.
    pub fn open(found: &GroupLimit) -> Option<Watch> {
        let open = |name: &str| File::open(&found.folder.join(name));
        let limits = found.version.limits().iter().map(|name| open(name));
        let watch = Watch {
            found: found.clone(),
            statistics: open("memory.stat")?,
            kernel: open("memory.kmem.usage_in_bytes").filter(|_| found.version == Version::V1),
            limits: limits.collect(),
            limit: AtomicU64::new(found.bytes),
            name: AtomicUsize::new(0),
        };
        watch.limit();
        watch.charged().map(|_| watch)
    }

    /// What [`Watch::limit`] has read last.
    pub fn last_limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// What may set the limit.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.found.version.limits().iter().copied()
    }

    /// Reads the group's limit, which may have changed: bytes, 2^60 if it has none; the last one if no file tells it. Neither allocates
    /// nor locks.
    pub fn limit(&self) -> u64 {
        let _errno = KeptErrno::new();
        let mut buffer = [0; FILE_BYTES];
        let mut lowest: Option<(u64, usize)> = None;
        let mut add = |limit: Option<u64>, index| {
            let found = limit.map(|bytes| (bytes, index));
            lowest = lowest.into_iter().chain(found).min();
        };
        for (index, file) in self.limits.iter().enumerate() {
            let text = file.as_ref().and_then(|file| file.read(&mut buffer));
            add(text.and_then(limit_in), index);
        }
        // Version 2 has no such line, and takes long to write the others.
        if self.found.version == Version::V1 {
            let statistics = self.statistics.read(&mut buffer);
            add(statistics.and_then(limit_of_all), self.limits.len());
        }
        if let Some((bytes, index)) = lowest {
            self.limit.store(bytes, Relaxed);
            self.name.store(index, Relaxed);
        }
        self.limit.load(Relaxed)
    }

    /// The number that the watch reads.
    #[cfg(test)]
    pub fn descriptor(&self) -> c_int {
        self.statistics.descriptor.as_ref().unwrap().as_raw_fd()
    }

    /// The bytes that the group and those below it are charged now; None if the file cannot be read or
    /// is not what it should be. Neither allocates nor locks.
    pub fn charged(&self) -> Option<Charged> {
        let _errno = KeptErrno::new();
        let mut buffer = [0; FILE_BYTES];
        let text = self.statistics.read(&mut buffer)?;
        match self.found.version {
            Version::V2 => charged_v2(text),
            Version::V1 => {
                let mut charged = charged_v1(text)?;
                let mut buffer = [0; 32];
                let usage = self.kernel.as_ref().and_then(|file| {
                    let line = file.read(&mut buffer)?;
                    number(line.strip_suffix(b"\n")?)
                });
                charged.kernel = usage.map_or(0, |usage| part_of_kernel(usage, charged, threads));
                Some(charged)
            }
        }
    }
}

/// The bytes of this process alone, whatever its group: anonymous memory, shared memory, page tables;
/// `None` if `/proc` does not have the figure. Neither allocates nor locks.
pub fn own() -> Option<Charged> {
    let _errno = KeptErrno::new();
    let mut buffer = [0; FILE_BYTES];
    own_in(read_once(c"/proc/self/status", &mut buffer)?)
}

fn own_in(status: &[u8]) -> Option<Charged> {
    let value = |name: &[u8]| lines(status).find_map(|line| line.strip_prefix(name));
    let bytes = |name: &[u8]| kilobytes(value(name)?);
    Some(Charged {
        anonymous: bytes(b"RssAnon:")?,
        shared: bytes(b"RssShmem:")?,
        kernel: bytes(b"VmPTE:").unwrap_or(0),
    })
}

fn threads() -> u64 {
    let mut buffer = [0; FILE_BYTES];
    let status = read_once(c"/proc/self/status", &mut buffer);
    let line = status.and_then(|text| lines(text).find_map(|line| line.strip_prefix(b"Threads:")));
    line.and_then(number).unwrap_or(1)
}

fn charged_v2(text: &[u8]) -> Option<Charged> {
    let get = |name: &[u8]| field(text, name);
    let sum = |names: &[&[u8]]| {
        let known = names.iter().filter_map(|name| get(name));
        known.fold(0, u64::saturating_add)
    };
    // `kernel` (5.18 on) holds what has no line of its own, and reclaimable slab.
    let kernel = match get(b"kernel") {
        Some(all) => all.saturating_sub(get(b"slab_reclaimable").unwrap_or(0)),
        None => sum(&[
            b"kernel_stack",
            b"pagetables",
            b"percpu",
            b"vmalloc",
            b"slab_unreclaimable",
        ]),
    };
    Some(Charged {
        anonymous: get(b"anon")?,
        shared: get(b"shmem").unwrap_or(0),
        kernel: kernel.saturating_add(get(b"sock").unwrap_or(0)),
    })
}

/// All but `kernel`. If the kernel does not list shared memory (before 4.12), the lists of
/// pages that need swap to be reclaimed hold it beside anonymous memory.
fn charged_v1(text: &[u8]) -> Option<Charged> {
    let get = |name: &[u8]| field(text, name);
    let anonymous = get(b"total_rss")?;
    let shared = match get(b"total_shmem") {
        Some(shared) => shared,
        None => {
            let (active, inactive) = (get(b"total_active_anon"), get(b"total_inactive_anon"));
            let swappable = active.unwrap_or(0).saturating_add(inactive.unwrap_or(0));
            swappable.saturating_sub(anonymous)
        }
    };
    Some(Charged {
        anonymous,
        shared,
        kernel: 0,
    })
}

/// Version 1's kernel memory, of which page tables and threads are taken for what cannot be
/// reclaimed. Counts the threads only if that decides.
fn part_of_kernel(usage: u64, charged: Charged, threads: fn() -> u64) -> u64 {
    if usage <= kernel_bound(charged, 1) {
        return usage;
    }
    usage.min(kernel_bound(charged, threads()))
}

/// Two entries of a page table for each page, 32 KiB a thread (seen on 6.18: 27), and 1 MiB.
fn kernel_bound(charged: Charged, threads: u64) -> u64 {
    let pages = charged.anonymous.saturating_add(charged.shared) / 256;
    (1u64 << 20)
        .saturating_add(pages)
        .saturating_add(threads.saturating_mul(32 << 10))
}

/// The number of a line `NAME NUMBER`; None if there is no such whole line.
pub fn field(text: &[u8], name: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| number(line.strip_prefix(name)?.strip_prefix(b" ")?))
}

/// The lines that end: a last one without its newline may have lost digits.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    text[..whole].split(|&byte| byte == b'\n')
}

/// A file that is read again and again, by a descriptor that the script may close behind it.
struct File {
    /// Taken out when it is dropped.
    descriptor: Option<Fd>,
    /// Device and inode: another file under the same number is never read.
    identity: (u64, u64),
    path: CString,
}

impl File {
    fn open(path: &Path) -> Option<File> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let descriptor = open(&path)?.moved_up(FIRST_DESCRIPTOR);
        let identity = identity(&descriptor)?;
        Some(File {
            descriptor: Some(descriptor),
            identity,
            path,
        })
    }

    /// Whether the number is still open for the file.
    fn is_of(&self, file: &Fd) -> bool {
        identity(file) == Some(self.identity)
    }

    /// The file's first bytes; opened anew if the script has closed the descriptor.
    fn read<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        if let Some(file) = self.descriptor.as_ref().filter(|&file| self.is_of(file)) {
            return read(file, buffer);
        }
        read_once(&self.path, buffer)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(file) = self.descriptor.take()
            && !self.is_of(&file)
        {
            file.leak(); // the script's
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_testing::Random;

    const MIB: u64 = 1 << 20;

    const V2: &[u8] = b"anon 1000\nfile 999999\nkernel 700\nkernel_stack 10\npagetables 20\n\
        sec_pagetables 0\npercpu 30\nsock 5\nvmalloc 0\nshmem 40\nanon_thp 500\n\
        slab_reclaimable 600\nslab_unreclaimable 50\nslab 650\n";

    #[test]
    fn what_counts_is_read_from_the_file_of_each_kernel() {
        type Read = fn(&[u8]) -> Option<Charged>;
        for (read, text, found) in [
            // Anonymous, shared and unreclaimable kernel memory.
            (charged_v2 as Read, V2, [1000, 40, 105]),
            // Kernels that give no sum of kernel memory give its parts.
            (
                charged_v2,
                b"anon 1000\nkernel_stack 10\npercpu 30\nsock 5\nslab_reclaimable 600\nslab_unreclaimable 50\n",
                [1000, 0, 95],
            ),
            // Of version 1 the totals count, and not the group's own.
            (
                charged_v1,
                b"rss 1\nshmem 2\ntotal_cache 9\ntotal_rss 300\ntotal_rss_huge 200\ntotal_shmem 40\ntotal_active_anon 5\n",
                [300, 40, 0],
            ),
            // Where it does not tell shared memory, its page lists do.
            (
                charged_v1,
                b"total_rss 300\ntotal_inactive_anon 250\ntotal_active_anon 100\n",
                [300, 50, 0],
            ),
            (
                own_in,
                b"Name:\tRssAnon: 7 kB\nVmPTE:\t 8 kB\nRssAnon:\t 112 kB\nRssFile:\t 1640 kB\nRssShmem:\t 4 kB\n",
                [112 << 10, 4 << 10, 8 << 10],
            ),
        ] {
            let charged = read(text).map(|it| [it.anonymous, it.shared, it.kernel]);
            assert_eq!(charged, Some(found), "{}", text.escape_ascii());
        }
        assert_eq!(charged_v2(V2).map(Charged::total), Some(1145));
        let real = own().expect("/proc/self/status tells it");
        assert!(real.anonymous > 0 && real.anonymous < 1 << 40);
        assert!(threads() >= 1);
    }

    #[test]
    fn version_1s_kernel_memory_counts_as_far_as_pages_and_threads_explain_it() {
        let charged = Charged {
            anonymous: 256 * MIB,
            ..Charged::default()
        };
        let never = || -> u64 { unreachable!("threads are counted in vain") };
        assert_eq!(part_of_kernel(2 * MIB, charged, never), 2 * MIB);
        assert_eq!(part_of_kernel(160 * MIB, charged, || 64), 4 * MIB);
        assert_eq!(part_of_kernel(u64::MAX, charged, || u64::MAX), u64::MAX);
    }

    #[test]
    fn what_is_no_number_or_was_cut_off_is_none() {
        assert_eq!(field(b"anon 1000\nshmem 4", b"shmem"), None);
        assert_eq!(field(b"anon_thp 1\nanon 2\n", b"anon"), Some(2));
        let texts = b"|\n|anon\n|anon 1000|anon \n|anon -1\n|anon 1 2\n|anon 18446744073709551616\n|anon 1\0\n|\xff\xfe\n\n\n";
        for text in texts.split(|&byte| byte == b'|') {
            assert_eq!(field(text, b"anon"), None, "{text:?}");
            assert_eq!(charged_v2(text), None, "{text:?}");
            assert_eq!(charged_v1(text), None, "{text:?}");
            assert_eq!(own_in(text), None, "{text:?}");
        }
    }

    /// Every prefix, and random edits of the bytes: never a panic, and a prefix never gives a
    /// number that the whole does not have.
    #[test]
    fn torn_and_scrambled_files_give_true_numbers_or_none() {
        for end in 0..V2.len() {
            if let Some(found) = charged_v2(&V2[..end]) {
                assert_eq!(found.anonymous, 1000);
                assert!(found.shared == 40 || found.shared == 0);
            }
        }
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut random = |limit| random.below(limit);
        for _ in 0..20_000 {
            let mut text = V2.to_vec();
            for _ in 0..=random(8) {
                let at = random(text.len());
                match random(3) {
                    0 => text[at] = random(256) as u8,
                    1 => drop(text.remove(at)),
                    _ => text.insert(at, b"0 \n9"[random(4)]),
                }
            }
            for read in [charged_v1, charged_v2, own_in] {
                read(&text).map(Charged::total);
            }
        }
    }
}
