//! The option of guard pages, as clap reads it.

use crate::heap::guards::Settings;
use clap::Args;

/// Guard pages.
#[derive(Debug, Default, Args)]
pub struct GuardOptions {
    /// Put a page that cannot be touched behind sampled blocks
    #[arg(
        long,
        value_name = "SPEC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "every=8",
        help = "\
Put a page that cannot be touched behind sampled blocks, so that a write
past the end dies at once, with the account and the size in one line
  min=SIZE  blocks of this size and more, 1K at the least [default: 4K]
  every=N   one of N of them [default: 8]; joined by a comma
  all       every block of more than 1K
  off       none"
    )]
    pub guard: Option<Settings>,
}
