//! What is known of the process, and who is shown it: reports, live files, lines, timelines.

pub mod at_exhausted;
pub mod balance;
pub mod exit_report;
pub mod lines;
pub mod live;
pub mod peak;
pub mod pyhostctl_process;
pub mod report;
pub mod resident_peak;
pub mod timeline;
