//! The options of caps, as clap reads them.

use crate::caps::{Rule, Share};
use clap::Args;

/// Caps.
#[derive(Debug, Default, Args)]
pub struct CapOptions {
    /// Cap live bytes
    #[arg(
        long,
        value_name = "[ACCOUNT=]SIZE",
        help = "\
Cap live bytes, of one account or of all together; may be repeated. At
the cap the script gets MemoryError, which it can catch. SIZE: 64M, 25%
(of the cgroup's limit, else of the machine), or auto (what the cgroup
allows, less what the accounts do not see)"
    )]
    pub cap: Vec<Rule>,

    /// Relieve memory from here on
    #[arg(
        long,
        value_name = "[ACCOUNT=]SIZE",
        help = "\
From so many live bytes on collect garbage, give kept memory back, call
what pyhost.on_pressure() registered, and warn, once; may be repeated"
    )]
    pub soft_cap: Vec<Rule>,

    /// Divide the caps
    #[arg(
        long,
        value_name = "N",
        help = "\
Divide the caps among N workers: each process has an Nth of them"
    )]
    pub cap_share: Option<Share>,
}
