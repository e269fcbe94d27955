//! `--timeline`, `--stats-brief`: a small process that samples the accounts and the resident size.

mod settings;

pub use settings::{Interval, Settings};
