//! Tests that run the built host. Every case is a process of its own, since allocators and
//! interpreter are process-global.

mod daemon;
mod environments;
mod host;

mod arrays;
mod balance;
mod caps;
mod checkers;
mod cli;
mod ctl;
mod debug_hooks;
mod devices;
mod documents;
mod domains;
mod endings;
mod exactness;
mod faults;
mod fleet;
mod forks;
mod frames;
mod guards;
mod leaks;
mod limits;
mod live;
mod mapped;
mod metrics;
mod native;
mod numpy;
mod outputs;
mod ownership;
mod page;
mod page_sizes;
mod peak;
mod profiles;
mod prometheus;
mod pytest_plugin;
mod report;
mod serve;
mod stubs;
mod threads;
mod timeline;
mod top;
mod track;
mod true_python;
mod venvs;
