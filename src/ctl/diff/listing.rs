//! The sampling error of a difference of two reports: of the samples, and of the stacks that one of them leaves out.

use crate::stacks::{Amount, Frame, Site, Stacks, View, error_bytes};
use std::collections::HashSet;

/// An account, a thread and its calls, as both reports may have them.
type Key<'a> = (&'a str, Option<&'a str>, Vec<&'a Frame>);

/// The stacks that a report lists of a view.
pub struct Listing<'a> {
    stacks: HashSet<Key<'a>>,
    /// The fewest bytes of a stack that it lists.
    least: i64,
}

impl<'a> Listing<'a> {
    pub fn new(stacks: &'a Stacks, view: View) -> Self {
        let sites = stacks.of_view(view).into_iter();
        let listed: Vec<&Site> = sites.filter(|site| site.is_listed).collect();
        let bytes = listed.iter().map(|site| site.amount(view).bytes);
        Listing {
            least: bytes.min().unwrap_or(0),
            stacks: listed.iter().map(|site| key(stacks, site)).collect(),
        }
    }

    /// Whether the report lists the stack of a site of `stacks`, which may be another report's.
    pub fn has(&self, stacks: &Stacks, site: &Site) -> bool {
        self.stacks.contains(&key(stacks, site))
    }

    /// The bytes that a sum of this report may lack, of `unlisted` stacks that only the other report lists. Each has fewer
    /// than the least that this one lists, and all together at most `left_out`, the bytes of stacks that it leaves out.
    pub fn may_lack(&self, unlisted: usize, left_out: i64) -> i64 {
        self.least.saturating_mul(unlisted as i64).min(left_out)
    }
}

fn key<'a>(stacks: &'a Stacks, site: &'a Site) -> Key<'a> {
    let calls = stacks.calls_of(site).collect();
    (&site.account, site.thread.as_deref(), calls)
}

/// The error of the difference of A and B, of which each may lack so many bytes.
pub fn error_of_change([a, b]: [Amount; 2], may_lack: [i64; 2], interval: i64) -> i64 {
    let lacks = may_lack[usize::from(a.bytes >= b.bytes)];
    error_bytes(a.square + b.square, interval).saturating_add(lacks)
}

/// The interval of a comparison: the larger one.
pub fn interval_of(a: &Stacks, b: &Stacks) -> i64 {
    a.interval.max(b.interval)
}
