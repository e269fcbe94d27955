//! Where and on what pages the memory of arrays lies: advice on huge pages, and a NUMA node.
//!
//! Applied to each run of memory that the `numpy` heap takes into use. The advice stays with the
//! addresses; if another heap uses them later it does no harm, since it is a preference.

pub use pyhost_os::mapping::MAX_NODES;
use pyhost_os::mapping::{advise_huge_pages, prefer_node, whole_pages};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// How array data uses transparent huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Asked for arrays of 4 MiB and more, as NumPy does.
    #[default]
    Auto,
    /// Asked for all array memory.
    Always,
    /// Refused for all array memory.
    Never,
}

pyhost_os::named!(HugePages: "auto" Auto, "always" Always, "never" Never);

/// From this size on NumPy asks for huge pages (`indicate_hugepages` of its `alloc.c`).
const NUMPY_HUGE_PAGES: usize = 1 << 22;

/// A size that no memory reaches: no advice.
const NO_ADVICE: usize = usize::MAX;

pyhost_os::state! {
    /// Where array data is placed.
    static STATE: ArrayPlacement {
        /// Whether huge pages are wanted or refused, and the least bytes of memory that get this advice.
        are_wanted: AtomicBool = AtomicBool::new(true),
        advised_from: AtomicUsize = AtomicUsize::new(NO_ADVICE),
        /// The preferred node; `u32::MAX` for none.
        node: AtomicU32 = AtomicU32::new(u32::MAX),
    }
}

/// Chooses the advice. `numpys_own` tells whether NumPy itself would ask (`auto` follows it).
pub fn set_huge_pages(choice: HugePages, numpys_own: bool) {
    let from = match choice {
        HugePages::Auto if numpys_own => NUMPY_HUGE_PAGES,
        HugePages::Auto => NO_ADVICE,
        HugePages::Always | HugePages::Never => 0,
    };
    STATE.are_wanted.store(choice != HugePages::Never, Relaxed);
    STATE.advised_from.store(from, Relaxed);
}

/// Chooses the preferred node of all array memory.
pub fn set_node(node: u32) {
    STATE.node.store(node, Relaxed);
}

/// Applies what was chosen to a run of memory that is taken into use. What the system refuses is left.
pub fn place(start: *mut u8, size: usize) {
    let advise = size >= STATE.advised_from.load(Relaxed);
    let node = STATE.node.load(Relaxed);
    if !advise && node == u32::MAX {
        return;
    }
    let (start, size) = whole_pages(start, size);
    if advise {
        advise_on(start, size);
    }
    if node != u32::MAX && size > 0 {
        prefer_node(start, size, node);
    }
}

/// Applies what holds for all array memory to a region that arrays of every size will share.
pub fn place_region(start: *mut u8, size: usize) {
    if STATE.advised_from.load(Relaxed) == 0 || STATE.node.load(Relaxed) != u32::MAX {
        place(start, size);
    }
}

/// Applies what depends on an array's size to one array of such a region.
pub fn place_in_region(start: *mut u8, size: usize) {
    let from = STATE.advised_from.load(Relaxed);
    if from != 0 && size >= from {
        let (start, size) = whole_pages(start, size);
        advise_on(start, size);
    }
}

fn advise_on(start: *mut u8, size: usize) {
    advise_huge_pages(start, size, STATE.are_wanted.load(Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_os::mapping::Mapping;

    #[test]
    fn a_run_of_memory_prefers_its_node() {
        const SIZE: usize = 1 << 16;
        let memory = Mapping::private(SIZE).unwrap();
        let start = memory.start().as_ptr();
        if !prefer_node(start, SIZE, 0) {
            let error = std::io::Error::last_os_error().raw_os_error();
            assert!(
                matches!(error, Some(libc::ENOSYS | libc::EPERM)),
                "only a kernel without NUMA, or a sandbox, refuses node 0: {error:?}"
            );
        } else {
            let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap_or_default();
            let wanted = format!("{:x} prefer", start.addr());
            assert!(maps.contains(&wanted), "{wanted} in {maps}");
            assert!(!prefer_node(start, SIZE, MAX_NODES - 1), "no such node");
        }
    }
}
