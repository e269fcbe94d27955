//! The options of forced failures.

use crate::faults::Spec;
use clap::Args;
use std::ffi::OsString;

/// Which requests for memory fail, and where that is logged.
#[derive(Debug, Default, Args)]
pub struct FaultOptions {
    /// Let requests for memory fail
    #[arg(
        long,
        value_name = "[ACCOUNT=]SPEC",
        help = "\
Let requests for memory fail while the script runs; may be given more
than once. ACCOUNT is raw, mem, obj, arena, numpy, native, mapped, or several
with + between them [default: all]; SPEC is some of these, with commas
  N              the Nth request
  every=N        each Nth
  p=P[,seed=N]   each with probability P
  above=SIZE     counts only those above SIZE
  when=open      counts only while pyhost.fail() is open; alone: lets
                 the script use pyhost.fail(SPEC)
  sweep[=FIRST[:END[:STEP]]]
                 runs the program again and again, N = 1, 2, ..., until
                 it passes, and prints on stdout how each run ended"
    )]
    pub fail: Vec<Spec>,

    /// Log each injected failure here
    #[arg(
        long,
        value_name = "PATH",
        help = "\
Write one line for each injected failure to this file: process, number
of the request, account, size, and the lines of Python it came from"
    )]
    pub fail_log: Option<OsString>,

    /// How long a run of a sweep may take
    #[arg(
        long,
        value_name = "SECONDS",
        help = "\
A run of a sweep that takes longer hangs, and is ended [default: 60]"
    )]
    pub fail_timeout: Option<u64>,
}
