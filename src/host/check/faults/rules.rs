//! The rules in force, and the decision whether a request fails. Atomics alone: any thread may ask
//! at any moment, and a signal handler may read the figures.
//!
//! A rule counts each request that it is about, and decides by the count alone; so the same
//! sequence of requests has the same failures.

use super::log;
use super::spec::{Choice, Spec};
use crate::ledger::{Account, LEDGER};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

/// Rules of the command line and of the script together: a bit each.
const RULES: usize = 32;

const NTH: u8 = 0;
const EVERY: u8 = 1;
const CHANCE: u8 = 2;

struct Rule {
    accounts: AtomicU32,
    choice: AtomicU8,
    least_size: AtomicU64,
    /// N of Nth and every; of a chance the draws below which it fails.
    number: AtomicU64,
    seed: AtomicU64,
    requests: AtomicU64,
    injected: AtomicU64,
}

pyhost_os::state! {
    /// The rules of `--fail`, of which any thread may count one.
    static STATE: FaultRules {
        table: [Rule; RULES] = [const { Rule::new() }; RULES],
        /// A bit for each rule whose place is taken.
        taken: AtomicU32 = AtomicU32::new(0),
        /// A bit for each rule that counts.
        active: AtomicU32 = AtomicU32::new(0),
        /// A bit for each rule that counts only while `pyhost.fail` is open.
        when_open: AtomicU32 = AtomicU32::new(0),
        /// How many `pyhost.fail` are open.
        open: AtomicU32 = AtomicU32::new(0),
        enabled: AtomicBool = AtomicBool::new(false),
        when_enabled: OnceLock<fn(bool)> = OnceLock::new(),
    }
}

/// Whether a request may fail at this moment.
#[inline]
pub fn is_enabled() -> bool {
    STATE.enabled.load(Relaxed)
}

/// Puts `spec` into a free place; `None` if no place is free.
fn lay(spec: &Spec) -> Option<usize> {
    let with_lowest_free = |taken: u32| Some(taken | taken.checked_add(1)?);
    let taken = (STATE.taken).fetch_update(AcqRel, Relaxed, with_lowest_free);
    let taken = taken.ok()?;
    let index = taken.trailing_ones() as usize;
    STATE.table[index].set(spec);
    Some(index)
}

/// Adds a rule of the command line, to hold from [`enable`] on. Their places are 0, 1, ...
pub(super) fn add(spec: &Spec) {
    if let Some(index) = lay(spec) {
        let of = match spec.when_open {
            true => &STATE.when_open,
            false => &STATE.active,
        };
        of.fetch_or(1 << index, Release);
    }
}

/// Registers `function`, called with `true` when rules begin to hold, and with `false` when they end to. Once.
pub(super) fn call_when_enabled(function: fn(bool)) {
    let _ = STATE.when_enabled.set(function);
}

/// Whether a rule counts.
pub fn is_counting() -> bool {
    STATE.active.load(Relaxed) != 0
}

/// Changes the number of the first rule, which has counted nothing yet.
pub fn set_first(number: u64) {
    STATE.table[0].number.store(number, Relaxed);
}

fn report_enabled(is_enabled: bool) {
    if let Some(function) = STATE.when_enabled.get() {
        function(is_enabled);
    }
}

/// Lets the rules hold.
pub(super) fn enable() {
    STATE.enabled.store(true, Release);
    report_enabled(true);
}

/// No request fails from here on. Any thread; more than once does nothing.
pub fn disable() {
    if STATE.enabled.swap(false, AcqRel) {
        report_enabled(false);
    }
}

/// Requests and injected failures of the rule at `index`.
pub(super) fn seen(index: usize) -> (u64, u64) {
    let rule = &STATE.table[index];
    (rule.requests.load(Relaxed), rule.injected.load(Relaxed))
}

/// An open `pyhost.fail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(Option<usize>);

impl Handle {
    /// Requests and injected failures of its rule so far; (0, 0) if it has none.
    pub fn seen(self) -> (u64, u64) {
        self.0.map_or((0, 0), seen)
    }
}

/// Opens a block with a rule of its own, or with none, and with the rules that wait for one. None if too many are open.
pub fn open(spec: Option<&Spec>) -> Option<Handle> {
    let index = match spec {
        Some(spec) => Some(lay(spec)?),
        None => None,
    };
    let mut begin = index.map_or(0, |index| 1 << index);
    if STATE.open.fetch_add(1, AcqRel) == 0 {
        begin |= STATE.when_open.load(Relaxed);
    }
    STATE.active.fetch_or(begin, Release);
    Some(Handle(index))
}

/// Closes what [`open`] opened, once; the requests and the injected failures of its rule.
pub fn close(handle: Handle) -> (u64, u64) {
    let own = handle.0.map_or(0, |index| 1 << index);
    let mut end = own;
    if STATE.open.fetch_sub(1, AcqRel) == 1 {
        end |= STATE.when_open.load(Relaxed);
    }
    STATE.active.fetch_and(!end, AcqRel);
    let seen = handle.seen();
    STATE.taken.fetch_and(!own, Release);
    seen
}

/// A draw of 64 bits by its number: the finaliser of splitmix64, which is a bijection that mixes all bits.
fn draw(seed: u64, count: u64) -> u64 {
    let mut bits = seed
        .wrapping_mul(0xd134_2543_de82_ef95)
        .wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Rule {
    const fn new() -> Self {
        Rule {
            accounts: AtomicU32::new(0),
            choice: AtomicU8::new(0),
            least_size: AtomicU64::new(0),
            number: AtomicU64::new(0),
            seed: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            injected: AtomicU64::new(0),
        }
    }

    /// Becomes the rule of `spec`, which has seen nothing yet.
    fn set(&self, spec: &Spec) {
        let (choice, number, seed) = match spec.choice {
            Choice::All | Choice::Nothing => (EVERY, 1, 0),
            Choice::Nth(number) => (NTH, number, 0),
            Choice::Every(number) => (EVERY, number, 0),
            // A float of 1.0 times 2^64 saturates: each draw but one is below it.
            Choice::Chance(chance, seed) => (CHANCE, (chance * 2f64.powi(64)) as u64, seed),
        };
        self.accounts.store(spec.accounts, Relaxed);
        self.choice.store(choice, Relaxed);
        self.least_size.store(spec.least_size(), Relaxed);
        self.number.store(number, Relaxed);
        self.seed.store(seed, Relaxed);
        self.requests.store(0, Relaxed);
        self.injected.store(0, Relaxed);
    }

    /// Counts a request; its number if it fails.
    fn decide(&self, account: Account, size: u64) -> Option<u64> {
        if self.accounts.load(Relaxed) & (1 << account as usize) == 0
            || size < self.least_size.load(Relaxed)
        {
            return None;
        }
        let count = self.requests.fetch_add(1, Relaxed) + 1;
        let number = self.number.load(Relaxed);
        let fails = match self.choice.load(Relaxed) {
            NTH => count == number,
            EVERY => count.is_multiple_of(number.max(1)),
            _ => draw(self.seed.load(Relaxed), count) < number,
        };
        fails.then(|| {
            self.injected.fetch_add(1, Relaxed);
            count
        })
    }
}

/// Whether the request of `size` bytes of `account` shall fail; counts and logs the failure if so.
#[cold]
#[inline(never)]
pub fn fails(account: Account, size: usize) -> bool {
    if !is_enabled() {
        return false;
    }
    let mut failed = None;
    let mut bits = STATE.active.load(Acquire);
    while bits != 0 {
        let index = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        // Each rule counts, also if another one lets the request fail.
        if let Some(number) = STATE.table[index].decide(account, size as u64) {
            failed = failed.or(Some(number));
        }
    }
    if let Some(number) = failed {
        LEDGER.count_injection(account);
        log::write_failure(number, account, size);
    }
    failed.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(text: &str, requests: u64) -> Vec<u64> {
        let rule = Rule::new();
        rule.set(&text.parse().unwrap());
        let decide = |_| rule.decide(Account::Obj, 100);
        (0..requests).filter_map(decide).collect()
    }

    #[test]
    fn a_rule_decides_by_its_count() {
        assert_eq!(failing("3", 10), [3]);
        assert_eq!(failing("every=4", 10), [4, 8]);
        assert_eq!(failing("above=64,every=4", 10), [4, 8]);
        assert!(failing("above=100,every=4", 10).is_empty());
        assert_eq!(failing("above=99", 3), [1, 2, 3]);
        assert!(failing("mem=1", 10).is_empty());
        assert_eq!(failing("p=1", 5), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_chance_is_met_and_its_seed_decides() {
        let failures = failing("p=0.01,seed=7", 100_000);
        assert!((900..1100).contains(&failures.len()), "{}", failures.len());
        assert_eq!(failures, failing("p=0.01,seed=7", 100_000));
        assert_ne!(failures, failing("p=0.01,seed=8", 100_000));
        let without = failing("p=0.01", 100_000);
        assert_ne!(without, failing("p=0.01,seed=1", 100_000));
    }
}
