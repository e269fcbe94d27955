//! Puts the bounded heap in the state that was asked for, at the start of `main`.
//!
//! The region itself is there already (`options/early.rs`). Once, while the process has one
//! thread.

use crate::bytes::{Bytes, Exact};
use crate::errno::Errno;
use crate::error::{BAD_OPTION, Error, Result};
use crate::heap::bounded_heap::{self, RegionError};
use crate::libc_exports::native::{Mode, checkers};
use crate::options::Options;
use crate::process;

// A region that is too small is a bad option.
const _: () = assert!(bounded_heap::TOO_SMALL == BAD_OPTION);

/// Backs and locks the region as asked. An error if the system does not grant it, or a tool is at work that takes `malloc` away.
pub fn start(options: &Options, native: Mode) -> Result<()> {
    if options.region.is_none() {
        return Ok(());
    }
    if native == Mode::Off {
        let tool = checkers::at_work().unwrap_or("a checker");
        return Err(Error::option(format!(
            "--region: {tool} is at work, to which malloc is left; expected --malloc count or a \
             run without it"
        )));
    }
    if options.given.region_huge_pages == Some(true) {
        use_huge_pages()?;
    }
    if options.given.region_lock == Some(true) {
        bounded_heap::lock().map_err(cannot_lock)?;
    }
    Ok(())
}

fn use_huge_pages() -> Result<()> {
    if process::huge_pages_are("[never]") {
        return Err(Error::option(
            "--region huge-pages: the system grants none; expected 'madvise' or 'always' in \
             /sys/kernel/mm/transparent_hugepage/enabled",
        ));
    }
    if let Some(size) = process::huge_page_size().filter(|&size| size != bounded_heap::HUGE_PAGE) {
        return Err(Error::option(format!(
            "--region huge-pages: a huge page of this machine has {}, and a region is counted by 2 MiB; \
             expected a kernel with pages of 4 KiB",
            Bytes(size)
        )));
    }
    bounded_heap::use_huge_pages().map_err(|refusal| {
        Error::option(match refusal {
            RegionError::TooSmall => {
                "--region huge-pages: the region is too small to be counted by 2 MiB; expected a larger \
                 --region"
                    .to_owned()
            }
            RegionError::System(error) => {
                format!(
                    "--region huge-pages: the system refuses them ({}); expected one that grants them",
                    Errno(error)
                )
            }
            RegionError::NoRegion => "--region huge-pages: there is no region; expected --region".to_owned(),
        })
    })
}

fn cannot_lock(refusal: RegionError) -> Error {
    let size = bounded_heap::size().unwrap_or(0);
    Error::option(match refusal {
        RegionError::System(error) => format!(
            "--region lock: the system does not let {} be locked ({}; the limit is {}); expected a larger \
             RLIMIT_MEMLOCK (ulimit -l) or a smaller --region",
            Exact(size),
            Errno(error),
            process::lockable()
        ),
        _ => "--region lock: there is no region; expected --region".to_owned(),
    })
}
