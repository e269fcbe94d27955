//! The exit statuses that are the host's own.

use crate::check::leaks::DEFAULT_STATUS;
use crate::error::{BAD_OPTION, CANNOT_START, CAP_EXHAUSTED};

/// Each status, and when a process ends with it.
pub const STATUSES: [(i32, &str); 4] = [
    (CANNOT_START, "the host cannot start; nothing was run"),
    (
        BAD_OPTION,
        "an option or a variable is wrong; nothing was run",
    ),
    (
        DEFAULT_STATUS as i32,
        "--leak-check found a leak, and the script's status was 0",
    ),
    (CAP_EXHAUSTED, "the script has used up the reserve of a cap"),
];
