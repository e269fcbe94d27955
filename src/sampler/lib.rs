//! Which lines allocated: a Poisson sample of the allocated bytes, by call stack, account and thread.
//!
//! A point falls on each allocated byte with the same small probability, so that the distance between two points
//! is exponential with a mean of *interval* bytes ([`Chance::distance`]). An allocation of S bytes with at least one point
//! is a *sample*: that happens with p = 1 - exp(-S / interval), so the sample stands for S / p bytes and 1 / p
//! blocks. The sum of these weights over any set of allocations has the set's bytes as its mean, whatever their sizes.
//!
//! A [`Samples`] is plain data: the caller holds a lock. It takes memory from the system alone, and its tables grow
//! by doubling. If the system has none, the sample is dropped and counted.
//!
//! [`Samples`] sums by *site*: one account, one call stack and one thread. A site has a sum of what is live and of when it
//! came, one of what was allocated so far, and one for each kind of moment: live when the total was highest, when its account was, and at the last mark.
//! A moment costs no copy of all sites: a site that is about to change notes its live sum if one has come since it last did.

mod ages;
mod chance;
mod index;
pub mod published;
mod sites;
#[cfg(test)]
mod span_tests;
mod spans;
mod stacks;
mod sum;
#[cfg(test)]
mod tests;
mod threads;
mod types;
mod units;

pub use ages::Time;
pub use chance::Chance;
pub use sites::View;
pub use spans::SpanView;
pub use stacks::{Call, FrameView, HOSTS_FILE, NativeCall, NativeView, Step};
pub use sum::{AtMoment, Heights, Site, Sum, Weight};
pub use threads::{NAMES as THREAD_NAMES, Thread};
pub use types::Kinds;
pub use units::{UnitFigures, UnitNumber, UnitSample, Units};

use index::{Index, Keyed};
use published::{Published, Renew, Retry};
use sites::{ACCOUNTS, Key, SITES, Sites};
use stacks::Stacks;
use std::ops::Range;
use threads::Threads;
use types::Types;

/// Gives each call of a stack to a function, outermost first.
pub type Walk<'a> = dyn FnMut(&mut dyn FnMut(Step<'_>)) + 'a;

/// Gives calls, which are innermost first, from the outermost on.
fn inward(calls: &[Call<'_>]) -> impl FnMut(&mut dyn FnMut(Step<'_>)) {
    move |take| calls.iter().rev().for_each(|call| take(Step::Whole(*call)))
}

#[derive(Clone, Copy, Debug, Default)]
struct Live {
    /// Its address, as [`hidden`] writes it; 0 if the entry is free.
    address: u64,
    site: u32,
    /// The tick at which it came.
    birth: u32,
    weight: Weight,
}

impl Keyed for Live {
    fn key(&self) -> u64 {
        self.address
    }
}

/// A block that is a sample.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    pub address: usize,
    pub account: u8,
    /// The thread's number, as [`Samples::thread`] gave it.
    pub thread: u8,
    /// When it came, in nanoseconds of `CLOCK_MONOTONIC`.
    pub moment: u64,
    /// The bytes and blocks that it stands for.
    pub weight: Weight,
}

impl Allocation {
    /// A block of the first thread, at the start.
    pub fn of(address: usize, account: u8, weight: Weight) -> Self {
        Allocation {
            address,
            account,
            thread: threads::MAIN,
            moment: 0,
            weight,
        }
    }
}

/// The outcome of [`Samples::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The sample is dropped, for want of memory, or comes after the end.
    Not,
    /// The block is a sample.
    New,
    /// It is one, in place of one at the same address whose end was not seen.
    Replaced,
}

impl Added {
    /// Whether another sample was replaced; None without memory.
    fn of(is_replaced: Option<bool>) -> Self {
        is_replaced.map_or(Added::Not, |is_replaced| match is_replaced {
            true => Added::Replaced,
            false => Added::New,
        })
    }
}

/// A sample that was taken out, because its block may go or move.
#[derive(Clone, Copy, Debug)]
pub struct TakenOut(Live);

impl TakenOut {
    /// The bytes and blocks that it stands for.
    pub fn weight(&self) -> Weight {
        self.0.weight
    }
}

/// An address as it is stored: the leak check searches memory for pointers.
fn hidden(address: usize) -> u64 {
    !(address as u64)
}

#[derive(Default)]
pub struct Samples {
    /// The mean distance between two points, in bytes.
    pub interval: u64,
    /// The account that is not part of the total.
    beside: u8,
    pub time: Time,
    stacks: Stacks,
    threads: Threads,
    sites: Sites,
    live: Index<Live>,
    types: Types,
    taken: u64,
    dropped: u64,
    /// The same at the fork, in a forked child.
    before_fork: (u64, u64),
    /// Whether they have ended.
    pub is_over: bool,
    /// Which of the process's samples these are: from 1 on, another one for each start. See [`Self::is_continued_by`].
    pub generation: u64,
    published: Option<Published>,
    renew: Option<Renew>,
    retry: Retry,
}

impl Samples {
    /// No samples yet, of one every `interval` bytes in the mean. The account `beside` is not part of the total.
    pub fn new(interval: u64, beside: u8) -> Self {
        Samples {
            interval,
            beside,
            ..Samples::default()
        }
    }

    /// Keeps the samples, from now on, in memory that others can read as well. False if there is no such memory yet: it is
    /// asked for again from time to time, as samples come.
    pub fn publish_by(&mut self, renew: Renew) -> bool {
        self.renew = Some(renew);
        self.retry = Retry::NOW;
        self.publish(None);
        self.published.is_some()
    }

    /// In a forked child: the copy is the parent's. The next change makes one of its own.
    pub fn forked(&mut self) {
        self.sites.forked();
        self.before_fork = self.counts();
        self.published = None;
        self.retry = Retry::NOW;
    }

    /// Copies what is new, and a site that has changed. If the copy cannot grow it goes, since a part of the samples would
    /// pass for all of them.
    fn publish(&mut self, changed: Option<u32>) {
        let Some(renew) = self.renew else { return };
        if let Some(mut published) = self.published.take()
            && published.update(self, changed)
        {
            self.published = Some(published);
            return;
        }
        // The former copy is unmapped here: its memory is free for the larger one.
        if self.retry.is_due(self.time.now) {
            self.published = Published::renewed(self, renew);
            self.retry = self.retry.after(self.published.is_some(), self.time.now);
        }
    }

    /// Whether `later` are these samples as they went on, not ones that were begun anew. A process that has become another
    /// host counts its starts anew, but began at another time.
    pub fn is_continued_by(&self, later: &Self) -> bool {
        (self.generation, self.time.start, self.interval)
            == (later.generation, later.time.start, later.interval)
            && self.taken <= later.taken
    }

    /// The samples begin at `moment`, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn begin_at(&mut self, moment: u64) {
        self.time = Time {
            start: moment,
            now: moment,
        };
    }

    pub fn thread(&mut self, thread: Thread<'_>) -> u8 {
        self.threads.intern(thread, &mut self.stacks)
    }

    /// Adds a sample, which was allocated at the calls that `walk` gives, outermost first. `heights` are the live bytes with
    /// this block; None if the samples' own sums are exact.
    pub fn add(
        &mut self,
        allocation: Allocation,
        walk: &mut Walk<'_>,
        heights: Option<Heights>,
    ) -> Added {
        if self.is_over {
            return Added::Not;
        }
        self.taken += 1;
        self.look_at_clock(allocation.moment);
        let added = self.try_add(allocation, walk);
        if added.is_none() {
            self.dropped += 1;
        }
        self.sites.look_at_height(allocation.account, heights);
        self.publish(added.map(|(site, _)| site));
        Added::of(added.map(|(_, is_replaced)| is_replaced))
    }

    /// [`Self::add`] of a block whose calls are known, innermost first, as the tests of readers do.
    pub fn add_at(&mut self, block: Allocation, calls: &[Call<'_>]) -> Added {
        self.add(block, &mut inward(calls), None)
    }

    /// Returns the site, and whether another sample is replaced; None without memory.
    fn try_add(&mut self, allocation: Allocation, walk: &mut Walk<'_>) -> Option<(u32, bool)> {
        let (account, weight) = (allocation.account, allocation.weight);
        let key = Key {
            account,
            thread: allocation.thread,
            stack: self.stacks.intern(walk)?,
        };
        let site = self.sites.of(key, SITES);
        let site = site.or_else(|| {
            let others = Key {
                thread: threads::OTHERS,
                stack: self.stacks.others()?,
                ..key
            };
            self.sites.of(others, SITES + ACCOUNTS)
        })?;
        let block = Live {
            site,
            birth: self.time.tick(allocation.moment),
            ..Live::default()
        };
        let is_replaced = self.enter(allocation.address, block, Weight::default(), weight)?;
        Some((site, is_replaced))
    }

    /// Enters a live block at an address: `kept` of it was there before, `growth` is allocated now. Returns whether another sample
    /// is replaced; None without memory.
    fn enter(&mut self, address: usize, block: Live, kept: Weight, growth: Weight) -> Option<bool> {
        let is_replaced = self.remove(address);
        self.live.insert(Live {
            address: hidden(address),
            weight: kept + growth,
            ..block
        })?;
        let Live { site, birth, .. } = block;
        self.sites.grown(site, kept, growth, birth, self.beside);
        Some(is_replaced)
    }

    /// Takes out the block at `address`, which is freed; false if it is no sample.
    pub fn remove(&mut self, address: usize) -> bool {
        self.take_out(address).is_some()
    }

    /// [`Self::remove`], for [`Self::put_back`].
    pub fn take_out(&mut self, address: usize) -> Option<TakenOut> {
        if self.is_over {
            return None;
        }
        let found = self.live.remove(hidden(address))?;
        self.sites
            .freed(found.site, found.weight, found.birth, self.beside);
        self.publish(Some(found.site));
        Some(TakenOut(found))
    }

    /// Puts a sample back, maybe at another address: the block is still there. `share` of its bytes are, and it has grown by
    /// `growth`, which counts as allocated by the same site. As for [`Self::add`].
    pub fn put_back(
        &mut self,
        address: usize,
        TakenOut(taken): TakenOut,
        share: f64,
        growth: Weight,
    ) -> Added {
        if self.is_over {
            return Added::Not;
        }
        let kept = taken.weight.scaled(share);
        let added = self.enter(address, taken, kept, growth);
        match added {
            None => self.dropped += 1,
            Some(_) => self.publish(Some(taken.site)),
        }
        Added::of(added)
    }

    pub fn count_dropped(&mut self) {
        if !self.is_over {
            self.taken += 1;
            self.dropped += 1;
            self.publish(None);
        }
    }

    /// Keeps all as it is at `moment`: what comes later is not counted.
    pub fn end(&mut self, moment: u64) {
        self.look_at_clock(moment);
        self.is_over = true;
        // Nothing comes later that would try again.
        self.retry = Retry::NOW;
        self.publish(None);
    }

    /// Ages are those at `moment`, if nothing later was seen and the samples go on.
    pub fn look_at_clock(&mut self, moment: u64) {
        if !self.is_over {
            self.time.now = self.time.now.max(moment);
        }
    }

    /// Makes this moment the highest, of the total and of each account. `heights` gives the live bytes for an account;
    /// None if the samples' own sums are exact.
    pub fn restart_peaks(&mut self, heights: impl Fn(u8) -> Option<Heights>) {
        if !self.is_over {
            self.sites.restart_peaks(heights);
            self.publish(None);
        }
    }

    /// The resident size is at its highest: [`View::AtResidentPeak`] is of this moment.
    pub fn begin_resident_peak(&mut self) {
        if !self.is_over {
            self.sites.begin_resident_peak();
            self.publish(None);
        }
    }

    /// Of the sample at `address`, as far as it is of `account`, `bytes` are resident at the moment that [`Self::begin_resident_peak`] began, beside
    /// those that were added before.
    pub fn add_resident(&mut self, account: u8, address: usize, bytes: u64) {
        let found = self.live.find(hidden(address), |_| true);
        if let Some(Live { site, weight, .. }) = found
            && self.sites.account(site) == account
            && !self.is_over
        {
            let share = bytes as f64 * weight.blocks.max(1.0) / weight.bytes;
            self.sites.add_resident(site, weight.scaled(share));
            self.publish(Some(site));
        }
    }

    /// Later growth is compared with this moment.
    pub fn mark(&mut self) {
        if !self.is_over {
            self.sites.mark();
            self.publish(None);
        }
    }

    /// Begins to note which sites grow in a block of code: a span with a number of its own. Its highest moment is that of
    /// the total, or of `account`. `heights` are the live bytes; None if the samples' own sums are exact.
    pub fn begin_span(&mut self, number: u64, account: Option<u8>, heights: Option<Heights>) {
        if !self.is_over {
            self.sites.begin_span(number, account, heights);
        }
    }

    /// Keeps the sums of a span as they are now, if samples were taken up to now.
    pub fn end_span(&mut self, number: u64) {
        match self.is_over {
            true => self.sites.spans.forget(number),
            false => self.sites.end_span(number),
        }
    }

    /// Gives the memory of a span back.
    pub fn forget_span(&mut self, number: u64) {
        self.sites.spans.forget(number);
    }

    /// The sites of a view of a span, with their sums, in no order. None if the samples did not begin before the span, or
    /// there was no memory for it.
    pub fn span_sums(
        &self,
        number: u64,
        view: SpanView,
    ) -> Option<impl Iterator<Item = (Site, Sum)>> {
        let now = |site| self.sites.moment_of(site);
        let sums = self.sites.spans.sums(number, view, now)?;
        Some(sums.map(|(site, sum)| (site, self.raised(sum))))
    }

    /// A copy to be read and no more, without the blocks: a reader needs the lock for no longer than that takes. None if there
    /// is no memory for it.
    pub fn copied(&self) -> Option<Self> {
        Some(Samples {
            stacks: self.stacks.copied()?,
            threads: self.threads.copied()?,
            sites: self.sites.copied()?,
            types: self.types.copied()?,
            live: Index::default(),
            published: None,
            renew: None,
            ..*self
        })
    }

    /// Samples so far, and how many of them could not be kept.
    pub fn counts(&self) -> (u64, u64) {
        (self.taken, self.dropped)
    }

    /// The same, in a forked child since the fork.
    pub fn own_counts(&self) -> (u64, u64) {
        let (taken, dropped) = self.before_fork;
        (
            self.taken.saturating_sub(taken),
            self.dropped.saturating_sub(dropped),
        )
    }

    /// The views that there are: growth is one once there was a mark.
    pub fn views(&self) -> impl Iterator<Item = View> {
        View::ALL.into_iter().filter(|view| self.sites.has(*view))
    }

    pub fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        self.sites.all()
    }

    /// Finds the types of the live blocks of an account, which hold objects. Not after the end: such a block may be free.
    pub fn look_at_types(&mut self, account: u8, kinds: &mut dyn Kinds) {
        if self.is_over {
            return;
        }
        let mut types = Types::default();
        for live in self.live.all() {
            let is_wanted = self.sites.account(live.site) == account;
            let bytes = live.weight.bytes / live.weight.blocks;
            let address = hidden(live.address as usize) as usize;
            if is_wanted
                && let Some(kind) = kinds.kind_of(address, bytes.round() as usize)
                && !types.add(live.site, kind, live.weight)
            {
                break;
            }
        }
        self.types = types.named(kinds, &mut self.stacks);
    }

    /// Forgets the types that [`Self::look_at_types`] has found, unless they are those of the end.
    pub fn forget_types(&mut self) {
        if !self.is_over {
            self.types = Types::default();
        }
    }

    /// The types of the live objects of a site, those with the most bytes first.
    pub fn types(&self, site: Site) -> impl Iterator<Item = (&str, Sum)> {
        let types = self.types.of(site.number, &self.stacks);
        types.map(|(name, sum)| (name, self.raised(sum)))
    }

    /// The sum of a view of a site. A moment's sums are raised by the share of samples that was dropped.
    pub fn sum(&self, site: Site, view: View) -> Sum {
        self.raised(self.sites.sum(site, view))
    }

    /// What is live of a site now; in a forked child less what was live at the fork.
    pub fn own(&self, site: Site) -> Sum {
        self.raised(self.sites.own(site))
    }

    /// What is live of a site now, and what was allocated.
    pub fn now(&self, site: Site) -> AtMoment {
        AtMoment {
            live: self.sum(site, View::Live),
            allocated: self.sum(site, View::Allocated),
        }
    }

    fn raised(&self, sum: Sum) -> Sum {
        match self.dropped {
            0 => sum,
            dropped => sum.times(self.taken as f64 / (self.taken - dropped).max(1) as f64),
        }
    }

    /// The mean age of the live bytes of a site in seconds, at the last look at the clock. None if it has none.
    pub fn age_seconds(&self, site: Site) -> Option<f64> {
        self.sites.births(site).age_seconds(self.time)
    }

    pub fn thread_of(&self, site: Site) -> Thread<'_> {
        let number = self.sites.key(site).thread;
        self.threads.view(number, &self.stacks)
    }

    pub fn all_frames(&self) -> impl Iterator<Item = FrameView<'_>> {
        self.stacks.all_frames()
    }

    /// How many different calls there are: [`FrameView::number`] is below that.
    pub fn frames(&self) -> usize {
        self.stacks.frames.len()
    }

    /// The calls of a site, innermost first: native ones, then those of Python; none if no Python code ran and no
    /// native call was read.
    pub fn calls(&self, site: Site) -> impl Iterator<Item = FrameView<'_>> {
        self.stacks.calls(self.sites.key(site).stack)
    }

    /// The mappings of all tables; some are empty.
    pub fn addresses(&self) -> impl Iterator<Item = Range<usize>> {
        let stacks = self.stacks.addresses().into_iter();
        let all = stacks.chain(self.sites.addresses());
        let published = self.published.as_ref().map(|it| it.words.addresses());
        all.chain([
            self.live.addresses(),
            self.threads.names.addresses(),
            self.types.addresses(),
        ])
        .chain(published)
    }
}
