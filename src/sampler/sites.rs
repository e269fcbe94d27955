//! Sites: an account and a call stack, with their sums.

use crate::chance::Weight;
use crate::index::{Index, hash};
use crate::stacks::{Stacks, pair, parts};
use crate::sum::Sum;
use pyhost_os::growing::Growing;
use std::ops::Range;

/// An account and a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    number: u32,
    /// The account's number.
    pub account: u8,
}

/// Which allocations of a site are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Live now, or as the script left them.
    Live,
    /// Live when the total was highest.
    AtPeak,
    /// Allocated so far.
    Allocated,
}

#[derive(Clone, Copy)]
struct Sums {
    account: u8,
    stack: u32,
    live: Sum,
    /// Live bytes at peak number `peak`. If a later peak has come, the live sum has not changed since and is the one
    /// at the latest.
    at_peak: Sum,
    peak: u32,
    allocated: Sum,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    number: u32,
}

/// Words of a site; see [`Sites::words_of`].
pub const WORDS: usize = 11;

/// All sites.
pub struct Sites {
    sums: Growing<Sums>,
    index: Index<Entry>,
    /// How many peaks there were: each is a moment that is higher than all before it.
    peaks: u32,
    highest: i64,
    /// Live bytes of all samples that are part of the total.
    live: f64,
}

impl Sites {
    pub const fn new() -> Self {
        Sites {
            sums: Growing::new(),
            index: Index::new(),
            peaks: 0,
            highest: i64::MIN,
            live: 0.0,
        }
    }

    /// The number of a site. None if there is no memory for it.
    pub fn of(&mut self, account: u8, stack: u32) -> Option<u32> {
        let hash = hash(u64::from(account) << 32 | u64::from(stack)) | 1;
        let sums = &self.sums;
        let is_it = |entry: &Entry| {
            let site = &sums[entry.number as usize];
            site.account == account && site.stack == stack
        };
        if let Some(entry) = self.index.find(hash, |entry| entry.hash, is_it) {
            return Some(entry.number);
        }
        let number = u32::try_from(self.sums.len()).ok()?;
        let site = Sums {
            account,
            stack,
            live: Sum::NONE,
            at_peak: Sum::NONE,
            peak: self.peaks,
            allocated: Sum::NONE,
        };
        if !self.sums.push(site) {
            return None;
        }
        self.index
            .insert(Entry { hash, number }, |entry| entry.hash)?;
        Some(number)
    }

    /// A site that is about to change.
    fn changing(&mut self, site: u32) -> &mut Sums {
        let site = &mut self.sums[site as usize];
        if site.peak != self.peaks {
            site.at_peak = site.live;
            site.peak = self.peaks;
        }
        site
    }

    pub fn allocated(&mut self, site: u32, weight: Weight, is_in_total: bool) {
        if is_in_total {
            self.live += weight.bytes;
        }
        let site = self.changing(site);
        site.live += weight;
        site.allocated += weight;
    }

    /// `beside` is the account that is not part of the total.
    pub fn freed(&mut self, site: u32, weight: Weight, beside: u8) {
        let site = self.changing(site);
        site.live -= weight;
        if site.account != beside {
            self.live -= weight.bytes;
        }
    }

    /// Notes the total of live bytes after an allocation; without it, that of the samples counts.
    pub fn look_at_height(&mut self, total: Option<i64>) {
        let total = total.unwrap_or(self.live as i64);
        if total > self.highest {
            self.highest = total;
            self.peaks = self.peaks.wrapping_add(1);
        }
    }

    /// Makes this moment the highest.
    pub fn restart_peak(&mut self, total: Option<i64>) {
        self.highest = total.unwrap_or(self.live as i64);
        self.peaks = self.peaks.wrapping_add(1);
    }

    pub fn all(&self) -> impl Iterator<Item = Site> + '_ {
        let all = self.sums.iter().zip(0..);
        all.map(|(sums, number)| Site {
            number,
            account: sums.account,
        })
    }

    pub fn sum(&self, site: Site, view: View) -> Sum {
        let site = &self.sums[site.number as usize];
        match view {
            View::Live => site.live,
            View::AtPeak if site.peak == self.peaks => site.at_peak,
            View::AtPeak => site.live,
            View::Allocated => site.allocated,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sums.len()
    }

    /// How many peaks there were.
    pub fn peaks(&self) -> u32 {
        self.peaks
    }

    /// A site as words.
    pub fn words_of(&self, number: usize) -> [u64; WORDS] {
        let site = &self.sums[number];
        let [a, b, c] = site.live.words();
        let [d, e, f] = site.at_peak.words();
        let [g, h, i] = site.allocated.words();
        let name = pair(u32::from(site.account), site.stack);
        [name, u64::from(site.peak), a, b, c, d, e, f, g, h, i]
    }

    /// Adds what [`Self::words_of`] gave; false if it cannot be.
    pub fn push_words(&mut self, words: [u64; WORDS], stacks: &Stacks) -> bool {
        let [name, peak, a, b, c, d, e, f, g, h, i] = words;
        let (account, stack) = parts(name);
        let Ok(account) = u8::try_from(account) else {
            return false;
        };
        let site = Sums {
            account,
            stack,
            live: Sum::of_words([a, b, c]),
            at_peak: Sum::of_words([d, e, f]),
            peak: peak as u32,
            allocated: Sum::of_words([g, h, i]),
        };
        stacks.knows(stack) && self.sums.push(site)
    }

    /// All there is is from before that many peaks.
    pub fn set_peaks(&mut self, peaks: u32) {
        self.peaks = peaks;
    }

    pub fn stack(&self, site: Site) -> u32 {
        self.sums[site.number as usize].stack
    }

    /// The mappings of all tables.
    pub fn addresses(&self) -> [Range<usize>; 2] {
        [self.sums.addresses(), self.index.addresses()]
    }
}
