//! `pyhostctl`: reads what hosts leave in a directory of `--live`, and their reports.

use std::process::ExitCode;

fn main() -> ExitCode {
    pyhost_ctl::main()
}
