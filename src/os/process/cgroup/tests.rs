//! Trees in a temporary folder that look like systems: which limit is found, and where.

use super::watch::Charged;
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

    fn limit(&self) -> Option<GroupLimit> {
        limit_below(self.0.path())
    }

    /// The limit's bytes and where it was found.
    fn found(&self) -> String {
        self.limit().map_or("none".to_owned(), |limit| {
            let shown = limit
                .to_string()
                .replace(self.0.path().to_str().unwrap(), "");
            let (_, place) = shown.split_once('(').unwrap();
            format!("{} {}", limit.bytes, place.trim_end_matches(')'))
        })
    }
}

/// Systems, one a line: the process's groups, the mounts, the files of the groups with their text, and the limit.
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
4:memory:/docker/abc/in | part | memory/LIMIT=8192, memory/in/LIMIT=9000 | 8192 LIMIT of /memory
4:memory:/docker/abcd | part | memory/LIMIT=8192 | none
";

/// The lowest limit on the way up holds, of equal ones the nearest. Version 1 inherits limits where the hierarchy is used, and
/// tells of those above the visible root. Of a hybrid system the hierarchy with the controller counts. A container sees its
/// own group at the mount: of a namespace of its own, or as the part of the system's that the mount shows.
#[test]
fn the_limit_of_each_system_is_found() {
    let part = V1_MOUNT.replace(" / ", " /docker/abc ");
    let unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let other = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
    let names = SYSTEMS.replace("LIMIT", "memory.limit_in_bytes");
    let names = names.replace("ABOVE", "hierarchical_memory_limit");
    for system in names.replace("NONE", "9223372036854771712").lines() {
        let [membership, mounts, files, limit] = system.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{system}");
        };
        let text = |text: &str| text.replace(';', "\n") + "\n";
        let mounts = match mounts {
            "1" => V1_MOUNT.to_owned(),
            "2" => V2_MOUNT.to_owned(),
            "part" => part.clone(),
            "hybrid" => [unified, other, V1_MOUNT].concat(),
            _ => String::new(),
        };
        let tree = Tree::new(&text(membership), &mounts);
        for (path, content) in files.split(", ").filter_map(|file| file.split_once('=')) {
            tree.group(path, &text(content));
        }
        let found = tree.found().replace("/sys/fs/cgroup", "/");
        assert_eq!(found.replace("//", "/"), limit, "{system}");
    }
    assert_eq!(limit_below(Path::new("/nonexistent")), None);
}

#[test]
fn paths_that_leave_the_namespace_are_followed_as_far_as_they_are_known() {
    let mount = |root: &str| V2_MOUNT.replace(" / ", &format!(" {root} "));
    for (root, path, found) in [
        ("/../..", "/../../x", Some("x/")),
        ("/../y", "/../y/x", Some("x/")),
        ("/../..", "/", Some("")),
        ("/..", "/x", Some("")),
        ("/", "/..", None),
        ("/", "/../x", None),
        ("/../y", "/x", None),
        ("/", "/x/../y", None),
    ] {
        let tree = Tree::new(&format!("0::{path}\n"), &mount(root));
        if let Some(folder) = found {
            tree.group(&format!("{folder}memory.max"), "4096\n");
        } else {
            tree.group("x/memory.max", "4096\n")
                .group("memory.current", "1\n");
        }
        let bytes = tree.limit().map(|limit| limit.bytes);
        assert_eq!(bytes, found.map(|_| 4096), "{root} {path}");
    }
}

#[test]
fn mount_points_with_escaped_letters_are_found() {
    let tree = Tree::new(
        "0::/a\n",
        "31 23 0:28 / /my\\040groups\\134 rw - cgroup2 c rw\n",
    );
    tree.file("my groups\\/a/memory.max", "4096\n");
    assert_eq!(tree.found(), "4096 memory.max of /my groups\\/a");
}

#[test]
fn garbage_gives_no_limit() {
    for mountinfo in [
        "\n\n",
        "1 2 3\n",
        "31 23 0:28 / /sys/fs/cgroup rw -\n",
        "31 23 0:28 / /sys/fs/cgroup rw - cgroup2\n",
        "- - - - - - - cgroup2 - -\n",
        "31 23 0:28 \\ \\9 rw - cgroup2 c rw\n",
    ] {
        let tree = Tree::new("0::/a\n", mountinfo);
        assert_eq!(tree.found(), "none", "{mountinfo}");
    }
    for membership in [
        "0::\n",
        "0:/a\n",
        ":::\n",
        "0::a\n",
        "\0\n",
        "4:memory:/a\n",
    ] {
        let tree = Tree::new(membership, V2_MOUNT);
        tree.group("a/memory.max", "4096\n");
        assert_eq!(tree.found(), "none", "{membership}");
    }
    for text in [
        "",
        "-1\n",
        "max",
        "4096 1\n",
        "99999999999999999999\n",
        "4k\n",
    ] {
        let tree = Tree::new("0::/a\n", V2_MOUNT);
        tree.group("a/memory.max", text);
        assert_eq!(tree.found(), "none", "{text}");
    }
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

#[test]
fn version_1s_watch_adds_kernel_memory() {
    let tree = Tree::new("4:memory:/a\n", V1_MOUNT);
    tree.group("memory/a/memory.limit_in_bytes", "4096\n")
        .group("memory/a/memory.stat", "total_rss 100\ntotal_shmem 20\n")
        .group("memory/a/memory.kmem.usage_in_bytes", "3000\n");
    let watch = Watch::open(&tree.limit().unwrap()).unwrap();
    let expected = Charged {
        anonymous: 100,
        shared: 20,
        kernel: 3000,
    };
    assert_eq!(watch.charged(), Some(expected));
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

/// Without a limit there is nothing to see; `embed-tests/cgroup_limit/run.py` makes one.
#[test]
fn the_limit_of_this_system_can_be_watched() {
    let Some(limit) = limit() else { return };
    let watch = Watch::open(&limit).expect("the group tells what is charged");
    let before = watch.charged().unwrap();
    let block = vec![1u8; 16 << 20];
    let after = watch.charged().unwrap();
    assert!(
        after.total() >= own().unwrap().anonymous / 2,
        "{limit}: {after:?}"
    );
    assert!(
        after.anonymous + (2 << 20) >= before.anonymous + block.len() as u64,
        "{limit}: from {before:?} to {after:?}"
    );
}
