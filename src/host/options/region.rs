//! The options of the bounded heap, and what they cannot go with.

use super::table::Given;
use super::{Options, baked};
use crate::allocator::Allocator;
use crate::error::Error;
use crate::heap::bound::Size;
use crate::heap::retention::Retention;
use crate::libc_exports::native::Mode;
use crate::python::numpy::ArrayAllocator;

/// `--region`, `--region-lock` and `--region-huge-pages`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionSettings {
    /// The region's size in bytes.
    pub size: Option<u64>,
    /// Whether it is locked in memory.
    pub lock: bool,
    /// Whether huge pages are asked for.
    pub huge_pages: bool,
}

/// Reads the options; where they are silent, the variables; then the build's values.
///
/// # Errors
/// A size above the one that was baked in.
pub fn settings(cli: &Given, variables: &Given) -> Result<RegionSettings, Error> {
    let (name, asked) = match cli.region {
        Some(Size(size)) => ("--region", Some(size)),
        None => ("PYHOST_REGION", variables.region.map(|Size(size)| size)),
    };
    Ok(RegionSettings {
        size: baked::lower(name, asked, baked::region())?,
        lock: cli
            .region_lock
            .or(variables.region_lock)
            .unwrap_or_default(),
        huge_pages: (cli.region_huge_pages)
            .or(variables.region_huge_pages)
            .unwrap_or_default(),
    })
}

/// The choice: with a region or a cap, `small` unless another is asked for, since what is kept of
/// freed memory would be resident beside what is live.
///
/// # Errors
/// One that keeps more than the one that was baked in.
pub fn retain(cli: &Given, variables: &Given, bounded: bool) -> Result<Retention, Error> {
    let (name, asked) = match cli.retain {
        Some(choice) => ("--retain", Some(choice)),
        None => ("PYHOST_RETAIN", variables.retain),
    };
    let held = baked::lower_retain(name, asked, baked::retain())?;
    Ok(match held {
        None if bounded => Retention::Small,
        // Baked in, and not for a region.
        Some(Retention::Speed) if bounded && asked.is_none() => Retention::Small,
        held => held.unwrap_or_default(),
    })
}

/// Refuses what does not go with a region, or without one.
pub fn check(options: &Options) -> Result<(), Error> {
    let refuse = |text: &str| Err(Error::option(text));
    if options.region.size.is_none() {
        return match (options.region.lock, options.region.huge_pages) {
            (true, _) => {
                refuse("--region-lock: there is no region to lock; expected --region SIZE")
            }
            (_, true) => {
                refuse("--region-huge-pages: there is no region to back; expected --region SIZE")
            }
            _ => Ok(()),
        };
    }
    if cfg!(Py_GIL_DISABLED) {
        return refuse(
            "--region: a free-threaded Python keeps OBJ on its own mimalloc; expected a Python \
             with a GIL",
        );
    }
    if options.malloc == Some(Mode::Off) {
        return refuse(
            "--region: nothing is in it with --malloc off; expected --malloc count or plain",
        );
    }
    if options.allocator == Some(Allocator::System) {
        return refuse(
            "--region: nothing is in it with --allocator system; expected --allocator mimalloc \
             or pymalloc",
        );
    }
    if options.retain == Retention::Speed {
        return refuse(
            "--retain speed: reserves memory outside of the region; expected balanced or small",
        );
    }
    match options.numpy.allocator {
        Some(ArrayAllocator::Bfc) => refuse(
            "--numpy-allocator bfc: has a region of its own outside of --region; expected \
             mimalloc or pool",
        ),
        Some(ArrayAllocator::System) => refuse(
            "--numpy-allocator system: takes array data from outside of --region; expected \
             mimalloc or pool",
        ),
        _ => Ok(()),
    }
}
