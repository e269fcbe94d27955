//! Sites: an account, a call stack and a thread, with their sums.

use crate::index::{Index, Numbered, hash};
use crate::stacks::{Stacks, pair, parts};
use crate::sum::{AtMoment, Heights, Highest, Site, Sum, Weight};
use crate::{ages::Births, spans::Spans};
use pyhost_os::mmap_vec::MmapVec;
use std::ops::Range;

/// The parts that make a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub account: u8,
    pub thread: u8,
    pub stack: u32,
}

impl Key {
    fn word(self) -> u64 {
        let numbers = u32::from(self.account) | u32::from(self.thread) << 8;
        pair(numbers, self.stack)
    }

    /// The inverse of [`Self::word`].
    fn of_word(word: u64) -> Option<Self> {
        let (numbers, stack) = parts(word);
        let [account, thread, 0, 0] = numbers.to_le_bytes() else {
            return None;
        };
        Some(Key {
            account,
            thread,
            stack,
        })
    }
}

/// Which allocations of a site are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Live now, or as the script left them.
    Live,
    /// Live when the total was highest.
    AtPeak,
    /// Live when the site's account was highest.
    AtAccountPeak,
    /// Live when the resident size was highest, as far as [`super::Samples::add_resident`] does not say otherwise.
    AtResidentPeak,
    Allocated,
    /// Live now, less what was live at the last mark, or at the start.
    Grown,
}

// In a report's order.
pyhost_os::named!(all View: "at_peak" AtPeak, "at_account_peak" AtAccountPeak,
    "at_resident_peak" AtResidentPeak, "live" Live, "allocated" Allocated, "grown" Grown);

/// A kind of moment that live sums are kept of.
#[derive(Clone, Copy)]
enum Moment {
    Peak,
    AccountPeak,
    ResidentPeak,
    Mark,
    Fork,
}

const MOMENTS: [Moment; 5] = {
    use Moment::{AccountPeak, Fork, Mark, Peak, ResidentPeak};
    [Peak, AccountPeak, ResidentPeak, Mark, Fork]
};

/// The moments since which growth is told. The last ones of all.
const MARKS: [Moment; 2] = [Moment::Mark, Moment::Fork];

/// A live sum at a moment.
#[derive(Clone, Copy)]
struct Noted {
    sum: Sum,
    /// The number of the moment. If a later one has come, the live sum has not changed since and is the one at the
    /// latest.
    number: u32,
}

#[derive(Clone, Copy)]
struct Sums {
    key: Key,
    now: AtMoment,
    births: Births,
    /// Bytes that were allocated by each of [`MARKS`].
    marked: [Sum; MARKS.len()],
    noted: [Noted; MOMENTS.len()],
}

/// Words of a site; see [`Sites::words_of`].
pub const WORDS: usize = 36;
/// Where the numbers of a site's moments are, behind its key and its sums.
const NUMBERS: usize = 1 + 3 * (4 + MOMENTS.len());

/// Sites that are kept; see the bounds of `stacks`. Above them there is one more for each account.
pub const SITES: usize = 1 << 18;

/// Accounts that there may be.
pub const ACCOUNTS: usize = 16;

/// Where an account's figures are.
fn place(account: u8) -> usize {
    usize::from(account) % ACCOUNTS
}

#[derive(Default)]
pub struct Sites {
    sums: MmapVec<Sums>,
    index: Index<Numbered>,
    peak: Highest,
    account_peaks: [Highest; ACCOUNTS],
    resident_peaks: u32,
    marks: u32,
    forks: u32,
    /// Live bytes of all samples that are part of the total, and of each account.
    live: f64,
    account_live: [f64; ACCOUNTS],
    pub spans: Spans,
}

impl Sites {
    /// The number of a site. None if there are `most` others, or no memory for it.
    pub fn of(&mut self, key: Key, most: usize) -> Option<u32> {
        let hash = hash(key.word()) | 1;
        let sums = &self.sums;
        let known = self.index.number(hash, |number| sums[number].key == key);
        if known.is_some() {
            return known;
        }
        let number = self.sums.len();
        if number >= most {
            return None;
        }
        let site = Sums {
            key,
            now: AtMoment::default(),
            births: Births::default(),
            marked: [Sum::default(); MARKS.len()],
            noted: MOMENTS.map(|moment| Noted {
                sum: Sum::default(),
                number: self.number_of(moment, key.account),
            }),
        };
        let is_kept = self.sums.push(site);
        is_kept.then(|| self.index.enter(hash, number))?
    }

    /// The number of the latest moment of a kind.
    fn number_of(&self, moment: Moment, account: u8) -> u32 {
        match moment {
            Moment::Peak => self.peak.times,
            Moment::AccountPeak => self.account_peaks[place(account)].times,
            Moment::ResidentPeak => self.resident_peaks,
            Moment::Mark => self.marks,
            Moment::Fork => self.forks,
        }
    }

    /// A site that is about to change.
    fn changing(&mut self, number: u32) -> &mut Sums {
        let account = self.account(number);
        let (site, now) = (Site { number, account }, self.moment_of(number));
        self.spans.changing(site, now);
        let numbers = MOMENTS.map(|moment| self.number_of(moment, account));
        let site = &mut self.sums[number as usize];
        for (marked, moment) in site.marked.iter_mut().zip(MARKS) {
            if site.noted[moment as usize].number != numbers[moment as usize] {
                *marked = site.now.allocated;
            }
        }
        for (noted, number) in site.noted.iter_mut().zip(numbers) {
            if noted.number != number {
                *noted = Noted {
                    sum: site.now.live,
                    number,
                };
            }
        }
        site
    }

    fn count(&mut self, account: u8, bytes: f64, is_in_total: bool) {
        self.account_live[place(account)] += bytes;
        if is_in_total {
            self.live += bytes;
        }
    }

    /// `beside` is the account that is not part of the total.
    pub fn freed(&mut self, site: u32, weight: Weight, birth: u32, beside: u8) {
        let site = self.changing(site);
        site.now.live -= weight;
        site.births.remove(weight.bytes, birth);
        let account = site.key.account;
        self.count(account, -weight.bytes, account != beside);
    }

    /// A block is live, of which `growth` is allocated now, and `kept` was taken off by [`Self::freed`] before.
    pub fn grown(&mut self, site: u32, kept: Weight, growth: Weight, birth: u32, beside: u8) {
        let all = kept + growth;
        let site = self.changing(site);
        site.now.live += all;
        site.now.allocated += growth;
        site.births.add(all.bytes, birth);
        let account = site.key.account;
        self.count(account, all.bytes, account != beside);
    }

    /// Notes how high the live bytes are after an allocation to `account`; without it, those of the samples count.
    pub fn look_at_height(&mut self, account: u8, heights: Option<Heights>) {
        let heights = heights.unwrap_or_else(|| self.own_heights(account));
        self.peak.look(heights.total);
        self.account_peaks[place(account)].look(heights.account);
        self.spans.look_at_height(account, heights);
    }

    fn own_heights(&self, account: u8) -> Heights {
        Heights {
            total: self.live as i64,
            account: self.account_live[place(account)] as i64,
        }
    }

    /// Makes this moment the highest, of the total and of each account. `height` gives how high an account is.
    pub fn restart_peaks(&mut self, height: impl Fn(u8) -> Option<Heights>) {
        for account in 0..ACCOUNTS as u8 {
            let heights = height(account).unwrap_or_else(|| self.own_heights(account));
            self.account_peaks[place(account)].begin(heights.account);
            if account == 0 {
                self.peak.begin(heights.total);
            }
        }
    }

    /// The resident size is at its highest.
    pub fn begin_resident_peak(&mut self) {
        self.resident_peaks = self.resident_peaks.wrapping_add(1);
    }

    /// Of a site counts what is resident, at the highest resident size: `weight`, and what was added before since that moment.
    pub fn add_resident(&mut self, site: u32, weight: Weight) {
        let number = self.resident_peaks;
        let noted = &mut self.sums[site as usize].noted[Moment::ResidentPeak as usize];
        if noted.number != number {
            let sum = Sum::default();
            *noted = Noted { sum, number };
        }
        noted.sum += weight;
    }

    pub fn mark(&mut self) {
        self.marks = self.marks.wrapping_add(1);
    }

    /// In a forked child: what is live now came from its parent.
    pub fn forked(&mut self) {
        self.forks = self.forks.wrapping_add(1);
    }

    pub fn moment_of(&self, site: u32) -> AtMoment {
        self.sums[site as usize].now
    }

    /// Begins a span of the total, or of an account.
    pub fn begin_span(&mut self, number: u64, account: Option<u8>, heights: Option<Heights>) {
        let heights = heights.unwrap_or_else(|| self.own_heights(account.unwrap_or_default()));
        let height = match account {
            Some(_) => heights.account,
            None => heights.total,
        };
        self.spans.begin(number, account, height);
    }

    pub fn end_span(&mut self, number: u64) {
        let mut spans = std::mem::take(&mut self.spans);
        spans.end(number, |site| self.moment_of(site));
        self.spans = spans;
    }

    pub fn all(&self) -> impl Iterator<Item = Site> + '_ {
        let all = self.sums.iter().zip(0..);
        all.map(|(sums, number)| Site {
            number,
            account: sums.key.account,
        })
    }

    /// What was live at the latest moment of a kind.
    fn at(&self, site: Site, moment: Moment) -> Sum {
        let site = &self.sums[site.number as usize];
        let noted = &site.noted[moment as usize];
        match noted.number == self.number_of(moment, site.key.account) {
            true => noted.sum,
            false => site.now.live,
        }
    }

    /// Live now, less what was live at the latest moment of a kind of [`MARKS`].
    fn since(&self, found: Site, moment: Moment) -> Sum {
        let site = &self.sums[found.number as usize];
        let number = self.number_of(moment, site.key.account);
        let allocated = match site.noted[moment as usize].number == number {
            true => site.marked[moment as usize - MARKS[0] as usize],
            false => site.now.allocated,
        };
        site.now.grown_since(AtMoment {
            live: self.at(found, moment),
            allocated,
        })
    }

    /// Live now, in a forked child less what was live at the fork.
    pub fn own(&self, site: Site) -> Sum {
        match self.forks {
            0 => self.sum(site, View::Live),
            _ => self.since(site, Moment::Fork),
        }
    }

    pub fn sum(&self, site: Site, view: View) -> Sum {
        let now = self.sums[site.number as usize].now;
        match view {
            View::Live => now.live,
            View::AtPeak => self.at(site, Moment::Peak),
            View::AtAccountPeak => self.at(site, Moment::AccountPeak),
            View::AtResidentPeak => self.at(site, Moment::ResidentPeak),
            View::Allocated => now.allocated,
            View::Grown => self.since(site, Moment::Mark),
        }
    }

    pub fn length(&self) -> usize {
        self.sums.len()
    }

    pub fn has(&self, view: View) -> bool {
        match view {
            View::AtResidentPeak => self.resident_peaks > 0,
            View::Grown => self.marks > 0,
            _ => true,
        }
    }

    /// The numbers of the latest moments: the peak, the resident peak, the mark, the fork, each account's peak.
    pub fn moments(&self) -> [u64; 4 + ACCOUNTS] {
        let mut numbers = [0; 4 + ACCOUNTS];
        numbers[0] = u64::from(self.peak.times);
        numbers[1] = u64::from(self.resident_peaks);
        numbers[2] = u64::from(self.marks);
        numbers[3] = u64::from(self.forks);
        for (number, peak) in numbers[4..].iter_mut().zip(self.account_peaks) {
            *number = u64::from(peak.times);
        }
        numbers
    }

    /// Takes over what [`Self::moments`] gave.
    pub fn set_moments(&mut self, numbers: &[u64]) {
        let mut numbers = numbers.iter().map(|&number| number as u32);
        let mut next = || numbers.next().unwrap_or_default();
        (self.peak.times, self.resident_peaks) = (next(), next());
        (self.marks, self.forks) = (next(), next());
        for peak in &mut self.account_peaks {
            peak.times = next();
        }
    }

    pub fn words_of(&self, number: usize) -> [u64; WORDS] {
        let site = &self.sums[number];
        let mut words = [0; WORDS];
        words[0] = site.key.word();
        let sums = [site.now.live, site.now.allocated];
        let sums = sums.into_iter().chain(site.marked);
        let noted = site.noted.map(|noted| noted.sum);
        let all = sums.chain(noted).flat_map(|sum| sum.words());
        let numbers = site.noted.map(|noted| u64::from(noted.number));
        let rest = numbers.into_iter().chain(site.births.words());
        for (word, value) in words[1..].iter_mut().zip(all.chain(rest)) {
            *word = value;
        }
        words
    }

    /// Adds what [`Self::words_of`] gave; false if it cannot be.
    pub fn push_words(&mut self, words: [u64; WORDS], stacks: &Stacks) -> bool {
        let Some(key) = Key::of_word(words[0]) else {
            return false;
        };
        let [.., bytes, low, high] = words;
        let sum = |index: usize| {
            let place = 1 + 3 * index;
            Sum::of_words([words[place], words[place + 1], words[place + 2]])
        };
        let site = Sums {
            key,
            now: AtMoment {
                live: sum(0),
                allocated: sum(1),
            },
            births: Births::of_words([bytes, low, high]),
            marked: [sum(2), sum(3)],
            noted: MOMENTS.map(|moment| Noted {
                sum: sum(4 + moment as usize),
                number: words[NUMBERS + moment as usize] as u32,
            }),
        };
        stacks.knows(key.stack) && self.sums.push(site)
    }

    pub fn account(&self, site: u32) -> u8 {
        self.sums[site as usize].key.account
    }

    /// A copy to be read and no more. None if there is no memory for it.
    pub fn copied(&self) -> Option<Self> {
        Some(Sites {
            sums: self.sums.copied()?,
            index: Index::default(),
            spans: Spans::default(),
            ..*self
        })
    }

    pub fn key(&self, site: Site) -> Key {
        self.sums[site.number as usize].key
    }

    pub fn births(&self, site: Site) -> Births {
        self.sums[site.number as usize].births
    }

    pub fn addresses(&self) -> impl Iterator<Item = Range<usize>> {
        let own = [self.sums.addresses(), self.index.addresses()];
        own.into_iter().chain(self.spans.addresses())
    }
}
