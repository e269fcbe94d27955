//! Trees in a temporary folder that look like systems: which limit is found, and where.

use super::watch::Charged;
use super::*;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const NONE_V1: &str = "9223372036854771712\n";
const V2_MOUNT: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
const V1_MOUNT: &str =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";

/// A folder that looks like `/`; removed when it goes.
struct Tree(PathBuf);

impl Tree {
    fn new(membership: &str, mountinfo: &str) -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let tree = Tree(std::env::temp_dir().join(format!("pyhost-cgroup-{name}")));
        tree.file("proc/self/cgroup", membership);
        tree.file("proc/self/mountinfo", mountinfo);
        tree
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Tree {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Writes a file of a control group.
    fn group(&self, path: &str, text: &str) -> &Tree {
        self.file(&format!("sys/fs/cgroup/{path}"), text)
    }

    /// The limit's bytes and where it was found.
    fn found(&self) -> Option<(u64, String)> {
        let limit = limit_below(&self.0)?;
        let shown = limit.to_string();
        let prefix = format!(" of {}/", self.0.display());
        let (_, place) = shown.split_once('(').unwrap();
        Some((
            limit.bytes,
            place.trim_end_matches(')').replace(&prefix, " of /"),
        ))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn at(bytes: u64, place: &str) -> Option<(u64, String)> {
    Some((bytes, place.to_owned()))
}

#[test]
fn the_lowest_limit_on_the_way_up_holds() {
    let tree = Tree::new("0::/a/b/c\n", V2_MOUNT);
    tree.group("a/b/c/memory.max", "max\n")
        .group("a/b/memory.max", "3000\n")
        .group("a/memory.max", "2000\n")
        .group("a/other/memory.max", "1\n");
    assert_eq!(tree.found(), at(2000, "memory.max of /sys/fs/cgroup/a"));
    tree.group("a/b/c/memory.high", "1500\n");
    assert_eq!(
        tree.found(),
        at(1500, "memory.high of /sys/fs/cgroup/a/b/c")
    );
}

#[test]
fn no_limit_is_none() {
    let tree = Tree::new("0::/a\n", V2_MOUNT);
    assert_eq!(tree.found(), None);
    tree.group("a/memory.max", "max\n")
        .group("a/memory.high", "max\n");
    assert_eq!(tree.found(), None);

    let tree = Tree::new("4:memory:/a\n", V1_MOUNT);
    tree.group("memory/a/memory.limit_in_bytes", NONE_V1).group(
        "memory/a/memory.stat",
        "hierarchical_memory_limit 9223372036854710272\n",
    );
    assert_eq!(tree.found(), None);
    assert_eq!(Tree::new("", "").found(), None);
    assert_eq!(limit_below(Path::new("/nonexistent")), None);
}

#[test]
fn of_equal_limits_the_nearest_groups_is_told() {
    let tree = Tree::new("0::/a/b\n", V2_MOUNT);
    tree.group("a/b/memory.max", "2000\n")
        .group("a/memory.max", "2000\n");
    assert_eq!(tree.found(), at(2000, "memory.max of /sys/fs/cgroup/a/b"));
}

#[test]
fn version_1_inherits_limits_only_where_the_hierarchy_is_used() {
    let tree = Tree::new("5:cpu:/x\n4:hugetlb,memory:/a/b\n0::/\n", V1_MOUNT);
    tree.group("memory/a/b/memory.limit_in_bytes", "5000\n")
        .group(
            "memory/a/b/memory.stat",
            "total_rss 1\nhierarchical_memory_limit 4000\n",
        )
        .group("memory/a/memory.limit_in_bytes", "4000\n")
        .group("memory/a/memory.use_hierarchy", "1\n");
    let name = "memory.limit_in_bytes";
    assert_eq!(
        tree.found(),
        at(4000, &format!("{name} of /sys/fs/cgroup/memory/a"))
    );
    tree.group("memory/a/memory.use_hierarchy", "0\n")
        .group("memory/a/b/memory.stat", "total_rss 1\n");
    assert_eq!(
        tree.found(),
        at(5000, &format!("{name} of /sys/fs/cgroup/memory/a/b"))
    );
}

#[test]
fn version_1_tells_of_limits_above_the_visible_root() {
    let tree = Tree::new("4:memory:/\n", V1_MOUNT);
    tree.group("memory/memory.limit_in_bytes", NONE_V1).group(
        "memory/memory.stat",
        "total_rss 1\nhierarchical_memory_limit 7000\n",
    );
    let place = "hierarchical_memory_limit in memory.stat of /sys/fs/cgroup/memory";
    assert_eq!(tree.found(), at(7000, place));
}

#[test]
fn of_a_hybrid_system_the_hierarchy_with_the_controller_counts() {
    let unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let other = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
    let tree = Tree::new(
        "4:memory:/a\n3:cpuset:/b\n0::/u\n",
        &[unified, other, V1_MOUNT].concat(),
    );
    tree.group("memory/a/memory.limit_in_bytes", "6000\n")
        .group("cpuset/b/memory.limit_in_bytes", "1\n")
        .group("unified/u/cgroup.procs", "");
    let place = "memory.limit_in_bytes of /sys/fs/cgroup/memory/a";
    assert_eq!(tree.found(), at(6000, place));
}

#[test]
fn a_container_sees_its_own_group_at_the_mount() {
    // A private cgroup namespace.
    let tree = Tree::new("0::/\n", V2_MOUNT);
    tree.group("memory.max", "4096\n");
    assert_eq!(tree.found(), at(4096, "memory.max of /sys/fs/cgroup"));
    // The host's namespace, of which the mount shows the container's part.
    let part = V1_MOUNT.replace(" / ", " /docker/abc ");
    let tree = Tree::new("4:memory:/docker/abc/in\n", &part);
    tree.group("memory/memory.limit_in_bytes", "8192\n")
        .group("memory/in/memory.limit_in_bytes", "9000\n");
    let place = "memory.limit_in_bytes of /sys/fs/cgroup/memory";
    assert_eq!(tree.found(), at(8192, place));
    // A mount that shows somebody else's part.
    let tree = Tree::new("4:memory:/docker/abcd\n", &part);
    tree.group("memory/memory.limit_in_bytes", "8192\n");
    assert_eq!(tree.found(), None);
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
        assert_eq!(
            tree.found().map(|(bytes, _)| bytes),
            found.map(|_| 4096),
            "{root} {path}"
        );
    }
}

#[test]
fn a_group_that_is_gone_leaves_its_ancestors_limits() {
    let tree = Tree::new("0::/a/gone (deleted)\n", V2_MOUNT);
    tree.group("a/memory.max", "4096\n");
    assert_eq!(tree.found(), at(4096, "memory.max of /sys/fs/cgroup/a"));
}

#[test]
fn mount_points_with_escaped_letters_are_found() {
    let tree = Tree::new(
        "0::/a\n",
        "31 23 0:28 / /my\\040groups\\134 rw - cgroup2 c rw\n",
    );
    tree.file("my groups\\/a/memory.max", "4096\n");
    assert_eq!(tree.found(), at(4096, "memory.max of /my groups\\/a"));
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
        assert_eq!(Tree::new("0::/a\n", mountinfo).found(), None, "{mountinfo}");
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
        assert_eq!(tree.found(), None, "{membership}");
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
        assert_eq!(tree.found(), None, "{text}");
    }
}

#[test]
fn a_watch_reads_the_limiting_group_again_and_again() {
    let tree = Tree::new("0::/a/b\n", V2_MOUNT);
    let statistics = "a/memory.stat";
    tree.group("a/memory.max", "4096\n")
        .group("a/b/memory.stat", "anon 1\n");
    let limit = limit_below(&tree.0).unwrap();
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
    let watch = Watch::open(&limit_below(&tree.0).unwrap()).unwrap();
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
    let watch = Watch::open(&limit_below(&tree.0).unwrap()).unwrap();
    let other = fs::File::open(tree.0.join("impostor")).unwrap();
    // SAFETY: the watch's number is open, and becomes another file's, as in a script that closes all numbers.
    #[allow(unsafe_code)]
    let made = unsafe { libc::dup2(other.as_raw_fd(), watch.descriptor()) };
    assert_eq!(made, watch.descriptor());
    assert_eq!(watch.charged().unwrap().anonymous, 100);
    // Nor is that it failed seen in the errno that the script finds.
    fs::remove_file(tree.0.join("sys/fs/cgroup/a/memory.stat")).unwrap();
    fs::metadata(tree.0.join("impostor/below")).unwrap_err();
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
