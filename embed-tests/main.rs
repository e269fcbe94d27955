//! Tests that run the built host. Every case is a process of its own, since allocators and
//! interpreter are process-global.

mod daemon;
mod environments;
mod host;

mod caps;
mod checkers;
mod cli;
mod debug_hooks;
mod devices;
mod domains;
mod endings;
mod exactness;
mod faults;
mod forks;
mod guards;
mod leaks;
mod live;
mod metrics;
mod native;
mod numpy;
mod ownership;
mod profiles;
mod prometheus;
mod report;
mod serve;
mod threads;
mod timeline;
mod true_python;
mod venvs;
