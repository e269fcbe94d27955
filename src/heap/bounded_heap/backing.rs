//! The memory behind the region: `--region lock` and `--region huge-pages`. Called at the start of `main`,
//! while the process has one thread; memory that is committed later follows in [`grant`].

use super::{STATE, commits::SLICE, grant, locked, memory, size};
use crate::descriptor::errno;
use pyhost_os::errno::Errno;
use pyhost_os::mapping::{self, advise_huge_pages};
use std::sync::atomic::Ordering::Relaxed;

/// Why the region cannot be as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    NoRegion,
    /// It does not fit into the region's size.
    TooSmall,
    /// The system refuses, with this `errno`.
    System(i32),
}

/// Locks in memory what is committed, from now on as soon as it is touched.
///
/// # Errors
/// There is no region, or the system does not let all of it be locked.
pub fn lock() -> Result<(), RegionError> {
    let size = size().ok_or(RegionError::NoRegion)?;
    let mut guard = locked();
    let commits = guard.as_mut().ok_or(RegionError::NoRegion)?;
    commits.use_all(0..commits.slices());
    super::publish(commits);
    if !commits.has_room(0) {
        return Err(RegionError::TooSmall);
    }
    let whole = 0..(size as usize).div_ceil(SLICE).min(commits.slices());
    let (start, bytes) = memory(&whole);
    let refused = |Errno(error)| RegionError::System(error);
    // As much as can ever be committed, so that a later commit is not refused for this.
    mapping::lock(start.cast(), bytes, true).map_err(refused)?;
    let _ = mapping::lock(start.cast(), bytes, false);
    for run in commits.runs() {
        let (start, bytes) = memory(&run);
        mapping::lock(start.cast(), bytes, true).map_err(refused)?;
    }
    STATE.locked.store(true, Relaxed);
    Ok(())
}

/// In a forked child: it inherits no locks (mlock(2)).
pub fn forked() {
    STATE.locked.store(false, Relaxed);
}

/// Asks for huge pages beneath the region. What is committed counts by whole huge pages from here
/// on, since the kernel may back each of them in full.
///
/// # Errors
/// There is no region, what is committed does not fit by whole pages, or the system refuses.
pub fn use_huge_pages() -> Result<(), RegionError> {
    let mut guard = locked();
    let commits = guard.as_mut().ok_or(RegionError::NoRegion)?;
    let everything = 0..commits.slices();
    commits.use_all(everything.clone());
    if !commits.count_blocks(grant) {
        return Err(RegionError::TooSmall);
    }
    super::publish(commits);
    let (start, bytes) = memory(&everything);
    if !advise_huge_pages(start.cast(), bytes, true) {
        return Err(RegionError::System(errno()));
    }
    STATE.huge_pages.store(true, Relaxed);
    Ok(())
}
