//! The stacks of a process that runs: of all its samples, while a report has the largest only; and their change.

use super::{
    Age, Amount, DEEPEST, Frame, Gathering, LEFT_OUT, OUTSIDE, Site, Stacks, View, error, named,
};
use crate::model::whole;
use pyhost_ledger::Account;
use pyhost_record::{metrics::Pid, threads::thread_name};
use pyhost_sampler::{self as sampler, FrameView, Samples, Sum};
use std::{cmp::Reverse, collections::HashMap};

/// The most calls of all stacks together. The stacks with the fewest bytes beyond that are one site for each account.
const MOST_CALLS: usize = 1_000_000;

impl Stacks {
    pub fn of_samples(command: &str, samples: &Samples) -> Result<Self, String> {
        let mut gathering = Gathering {
            by_thread: true,
            ..Gathering::default()
        };
        gathering.take(samples, None, &mut 0)?;
        Ok(gathering.into_stacks(command, samples.interval, samples.counts()))
    }

    /// Of the processes of a tree, at least one: what is live in each, of a forked child beyond what was live at the fork, so that
    /// each block counts once. The names of threads begin with their process.
    pub fn of_tree(command: &str, tree: &[(Pid, Samples)]) -> Result<Self, String> {
        let mut gathering = Gathering {
            by_thread: true,
            ..Gathering::default()
        };
        let (mut calls, mut counts, mut interval) = (0, (0, 0), 0);
        for (process, samples) in tree {
            gathering.take(samples, Some(process), &mut calls)?;
            let (taken, dropped) = samples.own_counts();
            counts = (counts.0 + taken, counts.1 + dropped);
            interval = interval.max(samples.interval);
        }
        Ok(gathering.into_stacks(command, interval, counts))
    }

    /// The change since `before`, an earlier moment of the same process: what shrank is below zero. Sites without a change
    /// are left out.
    pub fn since(mut self, before: &Stacks) -> Self {
        let numbers: HashMap<&Frame, usize> = self.frames.iter().zip(0..).collect();
        let own = |site: &Site| -> Option<Vec<usize>> {
            let frames = site.stack.iter().map(|number| &before.frames[*number]);
            frames.map(|frame| numbers.get(frame).copied()).collect()
        };
        // Calls and sites only become more, so that all of the earlier moment are there later.
        let earlier: HashMap<(&str, Option<&str>, Vec<usize>), &Site> = before
            .sites
            .iter()
            .filter_map(|site| Some(((&*site.account, site.thread.as_deref(), own(site)?), site)))
            .collect();
        for site in &mut self.sites {
            let stack = std::mem::take(&mut site.stack);
            let key = (&*site.account, site.thread.as_deref(), stack);
            if let Some(earlier) = earlier.get(&key) {
                for (amount, earlier) in site.amounts.iter_mut().zip(&earlier.amounts) {
                    // Neither is below zero.
                    amount.bytes -= earlier.bytes;
                    amount.blocks -= earlier.blocks;
                    amount.square += earlier.square;
                }
            }
            site.stack = key.2;
        }
        let is_change = |amount: &Amount| (amount.bytes, amount.blocks) != (0, 0);
        self.sites.retain(|site| site.amounts.iter().any(is_change));
        self.samples -= before.samples;
        self.dropped -= before.dropped;
        self
    }
}

impl Gathering {
    /// Adds the samples of a process; of one of a tree only what is live of its own.
    fn take(
        &mut self,
        samples: &Samples,
        of_tree: Option<&Pid>,
        calls: &mut usize,
    ) -> Result<(), String> {
        let most_bytes = |site| {
            let bytes = |view| samples.sum(site, view).bytes();
            (bytes(sampler::View::Live), bytes(sampler::View::Allocated))
        };
        let mut found: Vec<sampler::Site> = samples.sites().collect();
        found.sort_by_cached_key(|site| Reverse(most_bytes(*site)));
        let mut known = HashMap::new();
        for site in found {
            let Some(account) = Account::ALL.get(usize::from(site.account)) else {
                continue; // of a damaged file
            };
            let is_listed = *calls < MOST_CALLS;
            let frame_of = |call: FrameView| {
                *known.entry(call.number).or_insert_with(|| {
                    let unnamed = call.native.filter(|_| call.function.is_empty());
                    let offset = unnamed.map(|native| format!("+{:#x}", native.offset));
                    let function = offset.as_deref().unwrap_or(call.function);
                    self.frame(Frame::call(function, call.file, call.line.into()))
                })
            };
            let mut stack: Vec<usize> = match is_listed {
                true => samples.calls(site).take(DEEPEST).map(frame_of).collect(),
                false => vec![self.frame(Frame::label(LEFT_OUT))],
            };
            if stack.is_empty() {
                stack.push(self.frame(Frame::label(OUTSIDE)));
            }
            *calls += stack.len();
            let thread = is_listed.then(|| {
                let name = thread_name(samples, site);
                of_tree.map_or_else(|| name.to_string(), |process| format!("{process} {name}"))
            });
            let place = self.site(account.name(), thread.as_deref(), stack);
            if of_tree.is_some() {
                let mut own = amount(samples, samples.own(site));
                own.age = Age::new(own.bytes, samples.age_seconds(site));
                self.add(place, own, View::Live)?;
                continue;
            }
            for view in View::ALL {
                let sum = samples.sum(site, view.of_samples());
                self.add(place, amount(samples, sum), view)?;
            }
        }
        Ok(())
    }

    fn into_stacks(self, command: &str, interval: u64, (taken, dropped): (u64, u64)) -> Stacks {
        let (frames, sites) = self.finish();
        Stacks {
            command: named(command),
            started: None,
            seconds: None,
            interval: whole(interval),
            samples: whole(taken),
            dropped: whole(dropped),
            frames,
            sites,
        }
    }
}

/// The amount of a sum; nothing if it is not above zero, as in a report.
fn amount(samples: &Samples, sum: Sum) -> Amount {
    let interval = samples.interval;
    let square = error::square(sum.error_bytes(interval), whole(interval));
    match sum.bytes() {
        bytes @ 1.. => Amount::new(bytes, sum.blocks(), square),
        _ => Amount::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_sampler::{Added, Allocation, Call, Weight};

    /// Adds a block of exactly these bytes at a stack that is as deep. Its innermost line is `line`; the callers are the
    /// same for all.
    fn add(samples: &mut Samples, address: usize, bytes: usize, line: u32, deep: usize) {
        let lines = (0..deep as u32).map(|caller| if caller == 0 { line } else { caller * 10_000 });
        let calls = lines.map(|line| Call::of("/job.py", "work", line));
        let calls: Vec<Call> = calls.collect();
        let block = Allocation::of(address, Account::Obj as u8, Weight::new(bytes, bytes, 1));
        assert_eq!(samples.add_at(block, &calls), Added::New);
    }

    fn total(stacks: &Stacks, view: View) -> (i64, i64) {
        let amounts = stacks.sites.iter().map(|site| site.amount(view));
        amounts.fold((0, 0), |(bytes, blocks), amount| {
            (bytes + amount.bytes, blocks + amount.blocks)
        })
    }

    #[test]
    fn all_samples_are_there_and_the_smallest_stacks_are_one_beyond_the_bound() {
        let mut samples = Samples::new(1, 99);
        let count = 1200;
        for number in 0..count {
            let (address, line) = (16 + 16 * number, number as u32 + 1);
            add(&mut samples, address, 10_000 - number, line, 1000);
        }
        samples.remove(16);
        let stacks = Stacks::of_samples("job.py", &samples).unwrap();
        let sum: i64 = (0..count as i64).map(|number| 10_000 - number).sum();
        assert_eq!(total(&stacks, View::Allocated), (sum, 1200));
        assert_eq!(total(&stacks, View::Live), (sum - 10_000, 1199));
        let (listed, rest): (Vec<&Site>, Vec<&Site>) =
            stacks.sites.iter().partition(|site| site.is_listed);
        assert_eq!((listed.len(), rest.len()), (MOST_CALLS / 1000, 1));
        let calls: usize = listed.iter().map(|site| site.stack.len()).sum();
        assert_eq!(calls, MOST_CALLS);
        // The stack that has no live bytes any more comes last.
        assert_eq!(rest[0].amount(View::Allocated).blocks, 200);
        let live = listed.iter().map(|site| site.amount(View::Live).bytes);
        assert_eq!(live.min(), Some(9000));
    }

    #[test]
    fn the_change_has_what_came_and_went() {
        let mut samples = Samples::new(1, 99);
        add(&mut samples, 16, 100, 1, 3);
        add(&mut samples, 32, 200, 2, 3);
        add(&mut samples, 48, 300, 3, 3);
        let before = Stacks::of_samples("job.py", &samples).unwrap();
        samples.remove(16);
        add(&mut samples, 64, 50, 2, 3);
        add(&mut samples, 80, 70, 4, 1);
        add(&mut samples, 96, 0, 0, 0);
        let change = Stacks::of_samples("job.py", &samples).unwrap();
        let change = change.since(&before);
        let mut found: Vec<(String, i64, i64, i64)> = change
            .sites
            .iter()
            .map(|site| {
                let (live, all) = (site.amount(View::Live), site.amount(View::Allocated));
                let call = change.frames[site.stack[0]].to_string();
                (call, live.bytes, live.blocks, all.bytes)
            })
            .collect();
        found.sort();
        let line = |line: u32| format!("work (/job.py:{line})");
        let [first, second] = [(line(1), -100, -1, 0), (line(2), 50, 1, 50)];
        assert_eq!(found, [first, second, (line(4), 70, 1, 70)]);
        assert_eq!(change.samples, 3);
    }
}
