//! What is known of the process, and who is shown it: reports, live files, lines, timelines.

pub mod balance;
pub mod controller;
pub mod endings;
pub mod lines;
pub mod live;
pub mod peak;
pub mod report;
pub mod timeline;
