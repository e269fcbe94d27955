//! The options of small devices: the bounded heap.

use crate::heap::bound::Size;
use clap::Args;

/// The region that all heaps live in, and what backs it.
#[derive(Debug, Default, Args)]
pub struct DeviceOptions {
    /// Keep all heaps in one region
    #[arg(
        long,
        value_name = "SIZE",
        help = "\
Keep all heaps in one region of addresses, of which never more than SIZE
is committed, such as 24M; a request that does not fit fails. Makes
`small` the default of --profile"
    )]
    pub region: Option<Size>,

    /// Lock the region in memory
    #[arg(
        long,
        help = "\
Lock what is committed of the region in memory, as soon as it is touched"
    )]
    pub region_lock: bool,

    /// Ask for huge pages for the region
    #[arg(
        long,
        help = "\
Ask for transparent huge pages for the region, which then counts by
2 MiB"
    )]
    pub region_huge_pages: bool,
}
