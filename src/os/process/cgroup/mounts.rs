//! Where the groups of this process lie in the file system. Allocates; at start only.
//!
//! `/proc/self/cgroup` names a group by its path in the hierarchy as the reader's cgroup namespace shows it,
//! `/proc/self/mountinfo` (proc(5)) says which part of a hierarchy is mounted where; the folder is what the two
//! together give. Both may hold `..` if a process or a mount lies outside the namespace's root (cgroup_namespaces(7)).

use super::Version;
use std::path::{Component, Path, PathBuf};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

/// A group that this process belongs to, as far as a mount shows it and its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub version: Version,
    /// Where the hierarchy is mounted: the highest ancestor that can be seen.
    top: PathBuf,
    /// The group's own folder, `top` or below it. It need not exist: a group can be removed from
    /// outside the namespace's view.
    folder: PathBuf,
}

impl Group {
    /// The group's folder, its parent's, and so on up to the mount's.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        let all = self.folder.ancestors();
        all.take_while(|folder| folder.starts_with(&self.top))
    }
}

/// The groups whose memory controller may bind this process, of every mount that shows one.
pub fn groups(root: &Path) -> Vec<Group> {
    // Paths need not be UTF-8, and the kernel escapes nothing but white space.
    let read = |name: &str| fs::read(root.join("proc/self").join(name)).unwrap_or_default();
    let (membership, mountinfo) = (read("cgroup"), read("mountinfo"));
    let mut found: Vec<Group> = Vec::new();
    for mount in mountinfo.split(|&byte| byte == b'\n').filter_map(mount) {
        let folder = path_in(&membership, mount.version)
            .and_then(|path| below(&mount.hierarchy_root, &path));
        let Some(folder) = folder else { continue };
        let top = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
        let group = Group {
            version: mount.version,
            // `join("")` would leave a slash at the end.
            folder: top.join(folder).components().collect(),
            top,
        };
        if !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

struct Mount {
    version: Version,
    /// The group that the mount shows at its point.
    hierarchy_root: PathBuf,
    point: PathBuf,
}

/// Reads a line of mountinfo: `36 35 0:31 ROOT POINT OPTIONS [TAG:VALUE ...] - TYPE SOURCE SUPER`;
/// None for other file systems, for controllers other than memory, and for what is no such line.
fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = 6 + fields.get(6..)?.iter().position(|&field| field == b"-")?;
    let [kind, _, super_options] = *fields.get(separator + 1..)? else {
        return None;
    };
    let mut controllers = super_options.split(|&byte| byte == b',');
    let version = match kind {
        b"cgroup2" => Version::V2,
        b"cgroup" if controllers.any(|name| name == b"memory") => Version::V1,
        _ => return None,
    };
    Some(Mount {
        version,
        hierarchy_root: unescaped(fields[3]),
        point: unescaped(fields[4]),
    })
}

/// Undoes the kernel's `\040` for space, tab, newline and backslash.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut parts = field.split(|&byte| byte == b'\\');
    let mut plain = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let digits = part.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(escaped.unwrap_or(b'\\'));
        plain.extend(&part[escaped.map_or(0, |_| 3)..]);
    }
    PathBuf::from(OsStr::from_bytes(&plain))
}

/// The process's path in the hierarchy, from the lines `ID:CONTROLLERS:PATH` of
/// `/proc/self/cgroup`; version 2's line is `0::PATH`.
fn path_in(membership: &[u8], version: Version) -> Option<PathBuf> {
    membership.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match version {
            Version::V1 => controllers
                .split(|&byte| byte == b',')
                .any(|name| name == b"memory"),
            Version::V2 => id == b"0" && controllers.is_empty(),
        };
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        (is_it && path.starts_with(b"/")).then(|| PathBuf::from(OsStr::from_bytes(path)))
    })
}

/// The relative path from the group that a mount shows to the process's group; empty if the
/// first is an ancestor by names that cannot be known; None if it is no ancestor.
fn below(hierarchy_root: &Path, path: &Path) -> Option<PathBuf> {
    let (root_ups, root_names) = climbed(hierarchy_root)?;
    let (path_ups, path_names) = climbed(path)?;
    if root_ups > path_ups && root_names.as_os_str().is_empty() {
        return Some(PathBuf::new());
    }
    if root_ups != path_ups {
        return None;
    }
    path_names.strip_prefix(&root_names).ok().map(Into::into)
}

/// Splits `/../../a/b` into 2 and `a/b`; None for a `..` after a name, which the kernel never writes.
fn climbed(path: &Path) -> Option<(usize, PathBuf)> {
    let mut ups = 0;
    let mut names = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if names.as_os_str().is_empty() => ups += 1,
            Component::ParentDir => return None,
            Component::Normal(name) => names.push(name),
            _ => {}
        }
    }
    Some((ups, names))
}
