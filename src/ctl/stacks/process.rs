//! The stacks of a process that runs: of all its samples, while a report has the largest only; and their change.

use super::{Amount, Frame, LEFT_OUT, Numbering, OUTSIDE, Site, Stacks, View, error, named};
use pyhost_ledger::Account;
use pyhost_sampler::{self as sampler, Samples};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The most calls of all stacks together. The stacks with the fewest bytes beyond that are one site for each account.
const MOST_CALLS: usize = 1_000_000;
/// The deepest stack that a host records, and its first call.
const DEEPEST: usize = 1001;

impl Stacks {
    /// The stacks of a process's samples.
    ///
    /// # Errors
    /// A sum does not fit, as in a damaged file.
    pub fn of_samples(command: &str, samples: &Samples) -> Result<Self, String> {
        let most_bytes = |site| {
            let bytes = |view| samples.sum(site, view).bytes();
            (bytes(sampler::View::Live), bytes(sampler::View::Allocated))
        };
        let mut found: Vec<sampler::Site> = samples.sites().collect();
        found.sort_by_cached_key(|site| Reverse(most_bytes(*site)));
        let mut frames = Numbering::default();
        let outside = frames.number(Frame::label(OUTSIDE));
        let left_out = frames.number(Frame::label(LEFT_OUT));
        let mut known = HashMap::new();
        let mut keys = Numbering::default();
        let mut amounts: Vec<[Amount; View::ALL.len()]> = Vec::new();
        let mut totals = [Amount::default(); View::ALL.len()];
        let mut calls = 0;
        for site in found {
            let Some(account) = Account::ALL.get(usize::from(site.account)) else {
                continue; // of a damaged file
            };
            let mut stack: Vec<usize> = match calls < MOST_CALLS {
                false => vec![left_out],
                true => samples
                    .calls(site)
                    .take(DEEPEST)
                    .map(|call| {
                        *known.entry(call.number).or_insert_with(|| {
                            frames.number(Frame::call(call.function, call.file, call.line.into()))
                        })
                    })
                    .collect(),
            };
            if stack.is_empty() {
                stack.push(outside);
            }
            calls += stack.len();
            let place = keys.number((account.name(), stack));
            if place == amounts.len() {
                amounts.push([Amount::default(); View::ALL.len()]);
            }
            for (number, view) in View::ALL.into_iter().enumerate() {
                let more = amount(samples, site, view);
                let total = totals[number].plus(more);
                totals[number] =
                    total.ok_or_else(|| format!("has too large a sum in lines.{}", view.name()))?;
                // It is at most the total, which fits.
                amounts[place][number] = amounts[place][number].plus(more).unwrap_or_default();
            }
        }
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let (taken, dropped) = samples.counts();
        let keys = keys.into_values().into_iter();
        let sites = keys.zip(amounts).map(|((account, stack), amounts)| Site {
            account: account.to_owned(),
            is_listed: stack[0] != left_out,
            stack,
            amounts,
        });
        Ok(Stacks {
            command: named(command),
            started: None,
            seconds: None,
            interval: whole(samples.interval()),
            samples: whole(taken),
            dropped: whole(dropped),
            sites: sites.collect(),
            frames: frames.into_values(),
        })
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
        let earlier: HashMap<(&str, Vec<usize>), &Site> = before
            .sites
            .iter()
            .filter_map(|site| Some(((site.account.as_str(), own(site)?), site)))
            .collect();
        for site in &mut self.sites {
            let key = (site.account.as_str(), std::mem::take(&mut site.stack));
            if let Some(earlier) = earlier.get(&key) {
                for (amount, earlier) in site.amounts.iter_mut().zip(&earlier.amounts) {
                    // Neither is below zero.
                    amount.bytes -= earlier.bytes;
                    amount.blocks -= earlier.blocks;
                    amount.square += earlier.square;
                }
            }
            site.stack = key.1;
        }
        let is_change = |amount: &Amount| (amount.bytes, amount.blocks) != (0, 0);
        self.sites.retain(|site| site.amounts.iter().any(is_change));
        self.samples -= before.samples;
        self.dropped -= before.dropped;
        self
    }
}

/// The amount of a view; nothing where it is not above zero, as in a report.
fn amount(samples: &Samples, site: sampler::Site, view: View) -> Amount {
    let sum = samples.sum(site, view.of_samples());
    match sum.bytes() {
        bytes @ 1.. => Amount {
            bytes,
            blocks: sum.blocks(),
            square: error::square(
                sum.error_bytes(samples.interval()),
                i64::try_from(samples.interval()).unwrap_or(i64::MAX),
            ),
        },
        _ => Amount::default(),
    }
}
