//! Forced failures: requests for memory that fail because `--fail` asked for it (PEP 445's use
//! case "inject memory allocation failures").
//!
//! Without `--fail` nothing of this is installed: the plain hooks serve. With it, wrapper tables lie over the domains,
//! the arenas and NumPy's handler, and the malloc family asks too; each asks [`fails`] before it lets a request
//! through. `malloc`, `calloc` and `realloc` are requests, `free` never is.
//!
//! [`enable`] comes after initialisation and [`disable`] before finalisation: CPython does not survive a failure of MEM
//! or RAW while it starts. The script opens rules of its own by `pyhost.fail(...)`, through [`open`] and [`close`].
//!
//! [`fails`] runs in any thread, with or without a GIL, beneath everything: it does not allocate,
//! wait, format or panic. All state is atomic; safe Rust but for the log's descriptors.

mod log;
mod rules;
mod spec;
pub mod tables;

pub use rules::{Handle, close, disable, fails, is_counting, open, set_first};
pub use spec::Spec;

use crate::ledger::Account;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{path::PathBuf, sync::OnceLock};

/// How many rules the command line may give.
pub const MAX_RULES: usize = 8;

/// The options for forced failures.
#[derive(Clone, Debug, Default)]
pub struct FaultSettings {
    /// The rules; empty if `--fail` is not given.
    pub rules: Vec<Spec>,
    /// The file with a line for each injected failure, as an absolute path.
    pub log: Option<PathBuf>,
    /// Whether the log starts empty; else it is appended to.
    pub fresh_log: bool,
}

pyhost_os::state! {
    /// The rules of the command line.
    static STATE: Faults {
        /// Whether wrappers are installed in this process.
        on: AtomicBool = AtomicBool::new(false),
        texts: OnceLock<Vec<String>> = OnceLock::new(),
    }
}

pub fn is_on() -> bool {
    STATE.on.load(Relaxed)
}

/// Lays down the rules of the command line, which do not hold yet. Once, before the tables are installed.
/// `when_enabled` is called when the rules begin to hold,
/// with `true`, and when they end to: what serves malloc asks [`fails`] only in between.
pub fn start(settings: &FaultSettings, when_enabled: fn(bool)) {
    if settings.rules.is_empty() {
        return;
    }
    if let Some(path) = &settings.log {
        log::start(path, settings.fresh_log);
    }
    let texts = settings.rules.iter().filter(|rule| rule.is_a_rule());
    let texts = texts.inspect(|rule| rules::add(rule)).map(Spec::to_string);
    let _ = STATE.texts.set(texts.collect());
    rules::call_when_enabled(when_enabled);
    STATE.on.store(true, Relaxed);
}

/// Lets the rules hold. After initialisation, before the script.
pub fn enable() {
    if is_on() {
        rules::enable();
    }
}

/// Each rule of the command line as it is written, the requests that it counted, and how many it let fail; None without
/// `--fail`. Also from a signal handler.
pub fn figures() -> Option<impl Iterator<Item = (&'static str, (u64, u64))>> {
    let texts = STATE.texts.get()?.iter().enumerate();
    Some(texts.map(|(index, text)| (text.as_str(), rules::seen(index))))
}

/// Whether the request of `size` bytes of `account` shall fail; counts and logs the failure if so.
#[inline]
pub fn fails_of<const A: usize>(size: usize) -> bool {
    rules::is_enabled() && fails(Account::ALL[A], size)
}
