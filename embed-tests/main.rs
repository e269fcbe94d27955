//! Tests that run the built host. Every case is a process of its own, since allocators and
//! interpreter are process-global.

// What the tests share, and tests of the tests and the documents.
#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/documents.rs"]
mod documents;
#[path = "support/environments.rs"]
mod environments;
#[path = "support/host.rs"]
mod host;
#[path = "support/protobuf.rs"]
mod protobuf;
#[path = "support/skipping.rs"]
mod skipping;
#[path = "support/texts.rs"]
mod texts;

// What is known of a process, and who is shown it.
#[path = "observe/balance.rs"]
mod balance;
#[path = "observe/endings.rs"]
mod endings;
#[path = "observe/exactness.rs"]
mod exactness;
#[path = "observe/lines.rs"]
mod lines;
#[path = "observe/lines_facts.rs"]
mod lines_facts;
#[path = "observe/lines_hazards.rs"]
mod lines_hazards;
#[path = "observe/lines_live.rs"]
mod lines_live;
#[path = "observe/lines_native.rs"]
mod lines_native;
#[path = "observe/lines_waiting.rs"]
mod lines_waiting;
#[path = "observe/live.rs"]
mod live;
#[path = "observe/mapped.rs"]
mod mapped;
#[path = "observe/metrics.rs"]
mod metrics;
#[path = "observe/notebook.rs"]
mod notebook;
#[path = "observe/outputs.rs"]
mod outputs;
#[path = "observe/page.rs"]
mod page;
#[path = "observe/page_lines.rs"]
mod page_lines;
#[path = "observe/peak.rs"]
mod peak;
#[path = "observe/profile_lines.rs"]
mod profile_lines;
#[path = "observe/report.rs"]
mod report;
#[path = "observe/timeline.rs"]
mod timeline;
#[path = "observe/track.rs"]
mod track;

// The commands of pyhostctl.
#[path = "pyhostctl/compare.rs"]
mod compare;
#[path = "pyhostctl/convert.rs"]
mod convert;
#[path = "pyhostctl/ctl.rs"]
mod ctl;
#[path = "pyhostctl/fleet.rs"]
mod fleet;
#[path = "pyhostctl/heap_profiles.rs"]
mod heap_profiles;
#[path = "pyhostctl/lines_ctl.rs"]
mod lines_ctl;
#[path = "pyhostctl/prometheus.rs"]
mod prometheus;
#[path = "pyhostctl/serve.rs"]
mod serve;
#[path = "pyhostctl/sweep.rs"]
mod sweep;
#[path = "pyhostctl/top.rs"]
mod top;
#[path = "pyhostctl/trees.rs"]
mod trees;

// Caps, regions, and what the system limits.
#[path = "limit/arrays.rs"]
mod arrays;
#[path = "limit/at_exhausted.rs"]
mod at_exhausted;
#[path = "limit/budgets.rs"]
mod budgets;
#[path = "limit/caps.rs"]
mod caps;
#[path = "limit/limits.rs"]
mod limits;
#[path = "limit/recycling.rs"]
mod recycling;
#[path = "limit/region.rs"]
mod region;
#[path = "limit/retention.rs"]
mod retention;
#[path = "limit/snippets.rs"]
mod snippets;
#[path = "limit/tree.rs"]
mod tree;
#[path = "limit/waits.rs"]
mod waits;

// Heap bugs, leaks and failed requests.
#[path = "check/checkers.rs"]
mod checkers;
#[path = "check/debug_hooks.rs"]
mod debug_hooks;
#[path = "check/expected.rs"]
mod expected;
#[path = "check/families.rs"]
mod families;
#[path = "check/faults.rs"]
mod faults;
#[path = "check/guards.rs"]
mod guards;
#[path = "check/leaks.rs"]
mod leaks;
#[path = "check/native_stacks.rs"]
mod native_stacks;
#[path = "check/ownership.rs"]
mod ownership;
#[path = "check/probes.rs"]
mod probes;
#[path = "check/pytest_forked.rs"]
mod pytest_forked;
#[path = "check/pytest_plugin.rs"]
mod pytest_plugin;
#[path = "check/repeats.rs"]
mod repeats;
#[path = "check/workflow.rs"]
mod workflow;

// A true python: start, allocators, frames, libraries.
#[path = "python/cli.rs"]
mod cli;
#[path = "python/domains.rs"]
mod domains;
#[path = "python/forks.rs"]
mod forks;
#[path = "python/frames.rs"]
mod frames;
#[path = "python/free_threaded.rs"]
mod free_threaded;
#[path = "python/native.rs"]
mod native;
#[path = "python/newest.rs"]
mod newest;
#[path = "python/numpy.rs"]
mod numpy;
#[path = "python/page_sizes.rs"]
mod page_sizes;
#[path = "python/stubs.rs"]
mod stubs;
#[path = "python/threads.rs"]
mod threads;
#[path = "python/tools.rs"]
mod tools;
#[path = "python/true_python.rs"]
mod true_python;
#[path = "python/venvs.rs"]
mod venvs;
