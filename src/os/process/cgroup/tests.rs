//! Trees in a temporary folder that look like systems: which limit is found, and where.

use super::*;
use std::os::fd::AsRawFd;
use tempfile::TempDir;

const V2_MOUNT: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
const V1_MOUNT: &str =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";

/// A folder that looks like `/`.
struct Tree(TempDir);

impl Tree {
    fn new(membership: &str, mountinfo: &str) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.file("proc/self/cgroup", membership);
        tree.file("proc/self/mountinfo", mountinfo);
        tree
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Tree {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Writes a file of a control group.
    fn group(&self, path: &str, text: &str) -> &Tree {
        self.file(&format!("sys/fs/cgroup/{path}"), text)
    }

    /// A text as it would be if the folder were `/`.
    fn shown(&self, text: impl ToString) -> String {
        let folder = self.0.path().to_str().unwrap();
        text.to_string().replace(folder, "")
    }

    fn limit(&self) -> Option<GroupLimit> {
        group_below(self.0.path()).filter(|limit| limit.bytes < UNLIMITED)
    }

    /// The limit's bytes and where it was found.
    fn found(&self) -> String {
        self.limit().map_or("none".to_owned(), |limit| {
            let shown = self.shown(&limit);
            let (_, place) = shown.split_once('(').unwrap();
            format!("{} {}", limit.bytes, place.trim_end_matches(')'))
        })
    }
}

/// Systems, one a line: the process's groups, the mounts, the files of the groups with their text, and the limit. A `;` ends
/// a line of a file, and TORN is before one that has no end.
const SYSTEMS: &str = "\
0::/a/b/c | 2 | a/b/c/memory.max=max, a/b/memory.max=3000, a/memory.max=2000, a/other/memory.max=1 | 2000 memory.max of /a
0::/a/b/c | 2 | a/b/c/memory.high=1500, a/b/memory.max=3000, a/memory.max=2000 | 1500 memory.high of /a/b/c
0::/a/b | 2 | a/b/memory.max=2000, a/memory.max=2000 | 2000 memory.max of /a/b
0::/a/gone (deleted) | 2 | a/memory.max=4096 | 4096 memory.max of /a
0::/a | 2 | none | none
0::/a | 2 | a/memory.max=max, a/memory.high=max | none
4:memory:/a | 1 | memory/a/LIMIT=NONE, memory/a/memory.stat=ABOVE 9223372036854710272 | none
none | none | none | none
5:cpu:/x;4:hugetlb,memory:/a/b;0::/ | 1 | memory/a/b/LIMIT=5000, memory/a/b/memory.stat=total_rss 1;ABOVE 4000, \
    memory/a/LIMIT=4000, memory/a/memory.use_hierarchy=1 | 4000 LIMIT of /memory/a
4:memory:/a/b | 1 | memory/a/b/LIMIT=5000, memory/a/b/memory.stat=total_rss 1, \
    memory/a/LIMIT=4000, memory/a/memory.use_hierarchy=0 | 5000 LIMIT of /memory/a/b
4:memory:/ | 1 | memory/LIMIT=NONE, memory/memory.stat=total_rss 1;ABOVE 7000 | 7000 ABOVE in memory.stat of /memory
4:memory:/a;3:cpuset:/b;0::/u | hybrid | memory/a/LIMIT=6000, cpuset/b/LIMIT=1, unified/u/cgroup.procs= | 6000 LIMIT of /memory/a
0::/ | 2 | memory.max=4096 | 4096 memory.max of /
4:memory:/docker/abc/in | 1 below /docker/abc | memory/LIMIT=8192, memory/in/LIMIT=9000 | 8192 LIMIT of /memory
4:memory:/docker/abcd | 1 below /docker/abc | memory/LIMIT=8192 | none
0::/../../x | 2 below /../.. | x/memory.max=4096 | 4096 memory.max of /x
0::/../y/x | 2 below /../y | x/memory.max=4096 | 4096 memory.max of /x
0::/ | 2 below /../.. | memory.max=4096 | 4096 memory.max of /
0::/x | 2 below /.. | memory.max=4096 | 4096 memory.max of /
0::/.. | 2 below / | x/memory.max=4096, memory.current=1 | none
0::/../x | 2 below / | x/memory.max=4096, memory.current=1 | none
0::/x | 2 below /../y | x/memory.max=4096, memory.current=1 | none
0::/x/../y | 2 below / | x/memory.max=4096, memory.current=1 | none
0:: | 2 | a/memory.max=4096 | none
0:/a | 2 | a/memory.max=4096 | none
::: | 2 | a/memory.max=4096 | none
0::a | 2 | a/memory.max=4096 | none
\0 | 2 | a/memory.max=4096 | none
4:memory:/a | 2 | a/memory.max=4096 | none
TORN | 2 | a/memory.max=4096 | none
0::/a | ; | a/memory.max=4096 | none
0::/a | 1 2 3 | a/memory.max=4096 | none
0::/a | 31 23 0:28 / /sys/fs/cgroup rw - | a/memory.max=4096 | none
0::/a | 31 23 0:28 / /sys/fs/cgroup rw - cgroup2 | a/memory.max=4096 | none
0::/a | - - - - - - - cgroup2 - - | a/memory.max=4096 | none
0::/a | 31 23 0:28 \\ \\9 rw - cgroup2 c rw | a/memory.max=4096 | none
0::/a | 31 23 0:28 / /sys/fs/cgroup/my\\040groups\\134 rw - cgroup2 c rw | my groups\\/a/memory.max=4096 | 4096 memory.max of /my groups\\/a
0::/a | 2 | a/memory.max=TORN | none
0::/a | 2 | a/memory.max=TORNmax | none
0::/a | 2 | a/memory.max=-1 | none
0::/a | 2 | a/memory.max=4096 1 | none
0::/a | 2 | a/memory.max=99999999999999999999 | none
0::/a | 2 | a/memory.max=4k | none
";

/// The lowest limit on the way up holds, of equal ones the nearest. Version 1 inherits limits where the hierarchy is used, and
/// tells of those above the visible root. Of a hybrid system the hierarchy with the controller counts. A container sees its
/// own group at the mount: of a namespace of its own, or as the part of the system's that the mount shows. Paths that leave
/// the namespace are followed as far as they are known. Letters of a mount's path may be escaped. Garbage gives no limit.
#[test]
fn the_limit_of_each_system_is_found() {
    let unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let other = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
    let names = SYSTEMS.replace("LIMIT", "memory.limit_in_bytes");
    let names = names.replace("ABOVE", "hierarchical_memory_limit");
    for system in names.replace("NONE", "9223372036854771712").lines() {
        let [membership, mounts, files, limit] = system.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{system}");
        };
        let text = |text: &str| match text.strip_prefix("TORN") {
            Some(torn) => torn.to_owned(),
            None => text.replace(';', "\n") + "\n",
        };
        let (version, root) = mounts.split_once(" below ").unwrap_or((mounts, "/"));
        let below_root = |mount: &str| mount.replace(" / ", &format!(" {root} "));
        let mounts = match version {
            "1" => below_root(V1_MOUNT),
            "2" => below_root(V2_MOUNT),
            "hybrid" => [unified, other, V1_MOUNT].concat(),
            garbage => text(garbage),
        };
        let tree = Tree::new(&text(membership), &mounts);
        for (path, content) in files.split(", ").filter_map(|file| file.split_once('=')) {
            tree.group(path, &text(content));
        }
        let found = tree.found().replace("/sys/fs/cgroup", "/");
        assert_eq!(found.replace("//", "/"), limit, "{system}");
    }
    assert_eq!(group_below(Path::new("/nonexistent")), None);
}

#[test]
fn a_watch_reads_the_limiting_group_again_and_again() {
    let tree = Tree::new("0::/a/b\n", V2_MOUNT);
    let statistics = "a/memory.stat";
    tree.group("a/memory.max", "4096\n")
        .group("a/b/memory.stat", "anon 1\n");
    let limit = tree.limit().unwrap();
    assert!(Watch::open(&limit).is_none());
    tree.group(statistics, "anon \n");
    assert!(Watch::open(&limit).is_none());
    tree.group(statistics, "anon 100\n");
    let watch = Watch::open(&limit).unwrap();
    assert_eq!(watch.charged().unwrap().total(), 100);
    tree.group(statistics, "anon 200\nshmem 11\n");
    assert_eq!(watch.charged().unwrap().total(), 211);
    tree.group(statistics, "");
    assert_eq!(watch.charged(), None);
}

/// As `docker update` and a pod's resize do it.
#[test]
fn a_watch_follows_the_groups_limit() {
    let tree = Tree::new("0::/a\n", V2_MOUNT);
    tree.group("a/memory.max", "max\n")
        .group("a/memory.high", "max\n")
        .group("a/memory.stat", "anon 100\n");
    let watch = Watch::open(&group_below(tree.0.path()).unwrap()).unwrap();
    assert_eq!(watch.limit(), UNLIMITED);
    for (max, high, bytes, shown) in [
        ("4096\n", "max\n", 4096, "4.0 KiB (memory.max"),
        ("4096\n", "2048\n", 2048, "2.0 KiB (memory.high"),
        ("", "max\n", UNLIMITED, "1024.0 PiB (memory.high"),
    ] {
        tree.group("a/memory.max", max).group("a/memory.high", high);
        assert_eq!(watch.limit(), bytes);
        let whole = format!("{shown} of /sys/fs/cgroup/a)");
        assert_eq!(tree.shown(&watch), whole);
    }
    let tree = Tree::new("4:memory:/a\n", V1_MOUNT);
    tree.group("memory/a/memory.limit_in_bytes", "4096\n")
        .group(
            "memory/a/memory.stat",
            "hierarchical_memory_limit 4096\ntotal_rss 100\n",
        );
    let watch = Watch::open(&tree.limit().unwrap()).unwrap();
    let above = "hierarchical_memory_limit 1024\ntotal_rss 100\n";
    tree.group("memory/a/memory.stat", above);
    assert_eq!(watch.limit(), 1024);
}

#[test]
fn version_1s_watch_adds_kernel_memory() {
    let tree = Tree::new("4:memory:/a\n", V1_MOUNT);
    tree.group("memory/a/memory.limit_in_bytes", "4096\n")
        .group("memory/a/memory.stat", "total_rss 100\ntotal_shmem 20\n")
        .group("memory/a/memory.kmem.usage_in_bytes", "3000\n");
    let watch = Watch::open(&tree.limit().unwrap()).unwrap();
    let found = watch.charged().unwrap();
    let parts = (found.anonymous, found.shared, found.kernel);
    assert_eq!(parts, (100, 20, 3000));
    tree.group("memory/a/memory.kmem.usage_in_bytes", "30");
    assert_eq!(watch.charged().unwrap().kernel, 0);
}

/// A script may close every descriptor, and another file then gets the number.
#[test]
fn a_watch_reads_no_other_file_under_its_number() {
    let tree = Tree::new("0::/a\n", V2_MOUNT);
    tree.group("a/memory.max", "4096\n")
        .group("a/memory.stat", "anon 100\n")
        .file("impostor", "anon 999\n");
    let watch = Watch::open(&tree.limit().unwrap()).unwrap();
    let other = fs::File::open(tree.0.path().join("impostor")).unwrap();
    // SAFETY: the watch's number is open, and becomes another file's, as in a script that closes all numbers.
    #[allow(unsafe_code)]
    let made = unsafe { libc::dup2(other.as_raw_fd(), watch.descriptor()) };
    assert_eq!(made, watch.descriptor());
    assert_eq!(watch.charged().unwrap().anonymous, 100);
    // Nor is that it failed seen in the errno that the script finds.
    fs::remove_file(tree.0.path().join("sys/fs/cgroup/a/memory.stat")).unwrap();
    fs::metadata(tree.0.path().join("impostor/below")).unwrap_err();
    let errno = || std::io::Error::last_os_error().raw_os_error();
    assert_eq!(errno(), Some(libc::ENOTDIR));
    assert_eq!(watch.charged(), None);
    assert_eq!(errno(), Some(libc::ENOTDIR));
}
