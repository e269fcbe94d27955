//! The stacks of a report, checked: one site for each account and stack, and where it matters for each thread, with its
//! amount in every view.
//!
//! The report may be forged: no amount is negative, but in `grown` that of a stack that shrank, and no sum of a view
//! overflows. A report lists the stacks with the most bytes, and the sums of all; the difference is a site of its own, so
//! that a view keeps its total.

mod error;
mod frames;
mod process;
#[cfg(any(test, fuzzing))]
pub mod tests;

pub use error::{error_bytes, missed};
pub use frames::{Age, Amount, Frame, View, named};

use crate::model::{Report, SampledLines, StackRow};
use crate::{summary, symbols::Symbols};
use indexmap::{IndexMap, IndexSet};
use pyhost_ledger::Account;
use pyhost_os::{clock::Utc, terminal_text::plain};
use pyhost_record::output::format::NO_CALLS;
use std::collections::HashMap;

/// The stack of memory that no Python code asked for.
const OUTSIDE: &str = NO_CALLS[0];
/// The stack of memory whose stacks the report does not list.
const LEFT_OUT: &str = NO_CALLS[1];
/// The deepest stack that is read: four times what a host records.
const DEEPEST: usize = 4000;
/// The most types of a row: four times what a host lists.
const MOST_TYPES: usize = 32;

/// The stacks of a report, and the facts that formats show.
#[derive(Debug)]
pub struct Stacks {
    pub command: String,
    pub started: Option<Utc>,
    /// How long it ran, in seconds.
    pub seconds: Option<f64>,
    /// The mean distance of two samples, in bytes.
    pub interval: i64,
    pub samples: i64,
    pub dropped: i64,
    pub frames: Vec<Frame>,
    pub sites: Vec<Site>,
}

/// The memory of one account that one stack allocated.
#[derive(Debug)]
pub struct Site {
    pub account: String,
    /// The thread; None if the sites are not kept apart by thread, and if the report does not have it.
    pub thread: Option<String>,
    /// The numbers of its frames, the innermost first; at least one.
    pub stack: Vec<usize>,
    /// Whether the report lists the stack; else it is the rest of the account.
    pub is_listed: bool,
    /// The types that the live objects have, with their part of the live amount.
    pub types: Vec<(String, Amount)>,
    amounts: Amounts,
}

impl Site {
    pub fn amount(&self, view: View) -> Amount {
        self.amounts[view as usize]
    }
}

/// Whether an account is part of the total. One of another version is.
pub fn is_in_total(account: &str) -> bool {
    let known = Account::ALL.iter().find(|known| known.name() == account);
    known.is_none_or(|account| account.is_in_total())
}

impl View {
    /// That no line has bytes in it, and why.
    pub fn nothing(self) -> &'static str {
        match self {
            View::Grown => {
                "no line has grown since a mark; expected a script that calls pyhost.mark()"
            }
            _ => "no line has bytes",
        }
    }

    /// Whether the view's total has an account: `mapped`, which others than the host map, only if it has what is resident.
    pub fn has(self, account: &str) -> bool {
        self == View::AtResidentPeak || is_in_total(account)
    }
}

impl Stacks {
    /// What is part of each view's total.
    pub fn in_total(mut self) -> Self {
        for site in &mut self.sites {
            for view in View::ALL {
                if !view.has(&site.account) {
                    site.amounts[view as usize] = Amount::default();
                }
            }
        }
        let is_empty = |site: &Site| site.amounts.iter().all(|it| it.bytes == 0);
        self.sites.retain(|site| !is_empty(site));
        self
    }

    /// Puts the views of a report together: a site for each account and stack.
    /// The error is the end of a line that begins with the report's name.
    pub fn of_report(report: &Report) -> Result<Self, String> {
        Stacks::gathered(report, false)
    }

    /// The same with a site for each account, stack and thread.
    pub fn by_thread(report: &Report) -> Result<Self, String> {
        Stacks::gathered(report, true)
    }

    fn gathered(report: &Report, by_thread: bool) -> Result<Self, String> {
        let lines = report.lines.as_ref().ok_or_else(|| {
            let missing = report.lines_missing.as_deref().map(plain);
            missing.map_or_else(
                || "has no sampled lines; expected a report of `pyhost --lines`".to_owned(),
                |why| format!("has no sampled lines: {why}"),
            )
        })?;
        let process = &report.process;
        let started = process.started.as_deref().and_then(Utc::of_text);
        let libraries = lines.libraries.iter().map(|library| {
            let build_id = library.build_id.as_deref();
            (library.file.as_str(), build_id.unwrap_or_default())
        });
        let mut gathering = Gathering {
            symbols: Symbols::new(libraries, started),
            by_thread,
            ..Gathering::default()
        };
        for view in View::ALL {
            gathering.add_view(lines, view)?;
        }
        let (frames, sites) = gathering.finish();
        let command = match &process.command {
            Some(command) => named(command),
            None => named(&summary::command(report)),
        };
        Ok(Stacks {
            command,
            started,
            seconds: process.wall_seconds,
            interval: lines.interval_bytes.max(0),
            samples: lines.samples,
            dropped: lines.dropped,
            frames,
            sites,
        })
    }

    /// The sites that have bytes in a view, most first; those that shrank are left out.
    pub fn of_view(&self, view: View) -> Vec<&Site> {
        let mut sites = self.changed_in(view);
        sites.retain(|site| site.amount(view).bytes > 0);
        sites
    }

    /// The sites that have bytes in a view, or that shrank, most first.
    pub fn changed_in(&self, view: View) -> Vec<&Site> {
        let has_bytes = |site: &&Site| site.amount(view).bytes != 0;
        let mut sites: Vec<&Site> = self.sites.iter().filter(has_bytes).collect();
        sites.sort_by_key(|site| std::cmp::Reverse(site.amount(view).bytes));
        sites
    }

    /// The frames of a site, the outermost first.
    pub fn frames_of(&self, site: &Site) -> impl Iterator<Item = &Frame> {
        site.stack.iter().rev().map(|number| &self.frames[*number])
    }

    /// The calls of a site, the innermost first; none if no call was read, or the report does not list the stack.
    pub fn calls_of(&self, site: &Site) -> impl Iterator<Item = &Frame> {
        let frames = site.stack.iter().map(|number| &self.frames[*number]);
        frames.filter(|frame| frame.place.is_some())
    }

    pub fn error_bytes(&self, amount: Amount) -> i64 {
        error_bytes(amount.square, self.interval)
    }
}

type Amounts = [Amount; View::ALL.len()];

/// An account, a thread, and the numbers of the frames.
type Key = (String, Option<String>, Vec<usize>);

/// Sites by account and stack, while they are gathered.
#[derive(Default)]
struct Gathering {
    symbols: Symbols,
    by_thread: bool,
    frames: IndexSet<Frame>,
    /// The amount of each view, and the types.
    sites: IndexMap<Key, (Amounts, Vec<(String, Amount)>)>,
    /// The sum of each view. Below zero or not, an amount counts as much, so that no sum of a part of the amounts overflows.
    totals: Amounts,
}

impl Gathering {
    fn add_view(&mut self, lines: &SampledLines, view: View) -> Result<(), String> {
        let name = view.name();
        let rows = rows(lines, view);
        for row in rows {
            if row.stack.len() > DEEPEST {
                return Err(format!(
                    "has a stack of more than {DEEPEST} calls in lines.{name}"
                ));
            }
            let mut amount = checked([row.bytes, row.blocks, row.error_bytes], lines, view)?;
            amount.age = Age::new(row.bytes, row.age_seconds);
            let thread = row.thread.as_deref().filter(|_| self.by_thread);
            let frames = self.frames_of_row(row);
            let site = self.site(&row.account, thread, frames);
            self.add(site, amount, view)?;
            if view == View::Live {
                self.add_types(site, row, lines)?;
            }
        }
        let listed = listed(rows, lines.interval_bytes);
        for (account, sum) in lines.sums.get(name).into_iter().flatten() {
            let sum = checked([sum.bytes, sum.blocks, sum.error_bytes], lines, view)?;
            let listed = listed.get(account.as_str()).copied().unwrap_or_default();
            if let Some(rest) = listed.left_out(sum, view) {
                let stack = vec![self.frame(Frame::label(LEFT_OUT))];
                let site = self.site(account, None, stack);
                self.add(site, rest, view)?;
            }
        }
        Ok(())
    }

    fn frame(&mut self, frame: Frame) -> usize {
        self.frames.insert_full(frame).0
    }

    fn site(&mut self, account: &str, thread: Option<&str>, stack: Vec<usize>) -> usize {
        let key = (named(account), thread.map(named), stack);
        let entry = self.sites.entry(key);
        let site = entry.index();
        entry.or_default();
        site
    }

    /// Adds the types of a row, which have no more bytes than it has.
    fn add_types(
        &mut self,
        site: usize,
        row: &StackRow,
        lines: &SampledLines,
    ) -> Result<(), String> {
        if row.types.len() > MOST_TYPES {
            return Err(format!(
                "has more than {MOST_TYPES} types of a row in lines.live"
            ));
        }
        let mut left = row.bytes;
        for row in &row.types {
            let amount = checked([row.bytes, row.blocks, row.error_bytes], lines, View::Live)?;
            left = left.saturating_sub(row.bytes);
            // The host rounds each to whole bytes.
            if left < -(MOST_TYPES as i64) {
                return Err("has types with more bytes than their row in lines.live".to_owned());
            }
            let (name, types) = (named(&row.name), &mut self.sites[site].1);
            match types.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum = sum.plus(amount).unwrap_or(*sum),
                None => types.push((name, amount)),
            }
        }
        Ok(())
    }

    /// The numbers of a row's frames, the innermost first.
    fn frames_of_row(&mut self, row: &StackRow) -> Vec<usize> {
        if row.stack.is_empty() {
            return vec![self.frame(Frame::label(OUTSIDE))];
        }
        let mut frames = Vec::new();
        for call in &row.stack {
            match call.offset {
                Some(offset) => {
                    let places = self
                        .symbols
                        .of_call(&call.file, &call.function, offset as u64);
                    let native = |place| self.frame(Frame::native(place, &call.file));
                    frames.extend(places.iter().map(native));
                }
                None => frames.push(self.frame(Frame::call(&call.function, &call.file, call.line))),
            }
        }
        frames
    }

    fn add(&mut self, site: usize, amount: Amount, view: View) -> Result<(), String> {
        let total = self.totals[view as usize].plus(amount.magnitude());
        let total = total.ok_or_else(|| format!("has too large a sum in lines.{}", view.name()))?;
        self.totals[view as usize] = total;
        let place = &mut self.sites[site].0[view as usize];
        // It is at most the total of the view, which fits.
        *place = place.plus(amount).unwrap_or(total);
        Ok(())
    }

    fn finish(self) -> (Vec<Frame>, Vec<Site>) {
        let frames: Vec<Frame> = self.frames.into_iter().collect();
        let left_out = Frame::label(LEFT_OUT);
        let sites = self.sites.into_iter();
        let sites = sites.map(|((account, thread, stack), (amounts, types))| Site {
            account,
            thread,
            is_listed: frames[stack[0]] != left_out,
            stack,
            types,
            amounts,
        });
        let sites = sites.collect();
        (frames, sites)
    }
}

fn rows(lines: &SampledLines, view: View) -> &[StackRow] {
    match view {
        View::AtPeak => &lines.at_peak,
        View::AtAccountPeak => &lines.at_account_peak,
        View::AtResidentPeak => &lines.at_resident_peak,
        View::Live => &lines.live,
        View::Allocated => &lines.allocated,
        View::Grown => &lines.grown,
    }
}

/// The amount of these bytes, blocks and bytes of error.
fn checked(numbers: [i64; 3], lines: &SampledLines, view: View) -> Result<Amount, String> {
    let [bytes, blocks, error] = numbers;
    // A stack may have shrunk; the least number has no opposite.
    let least = match view {
        View::Grown => -i64::MAX,
        _ => 0,
    };
    if bytes < least || blocks < least || error < 0 {
        return Err(format!("has a number below zero in lines.{}", view.name()));
    }
    let square = error::square(error, lines.interval_bytes);
    Ok(Amount::new(bytes, blocks, square))
}

/// The amount that the rows of an account have, and how many they are.
#[derive(Clone, Copy, Default)]
struct Listed {
    amount: Amount,
    rows: i64,
}

impl Listed {
    /// The part of the account's sum that the rows do not have; None if they have all.
    fn left_out(self, sum: Amount, view: View) -> Option<Amount> {
        // In `grown` either may be below zero, and so may the difference.
        let bytes = sum.bytes.saturating_sub(self.amount.bytes);
        let blocks = sum.blocks.saturating_sub(self.amount.blocks);
        // The host rounds the sum and every row to whole bytes: so much may differ without a stack left out.
        let rounding = (self.rows + 1) / 2;
        let is_left_out = match view {
            View::Grown => bytes.unsigned_abs() > rounding as u64,
            _ => bytes > rounding,
        };
        let blocks = match bytes < 0 {
            true => blocks.min(0),
            false => blocks.max(0),
        };
        let square = (sum.square - self.amount.square).max(0.0);
        is_left_out.then(|| Amount::new(bytes, blocks, square))
    }
}

/// The rows by account. Their numbers are checked: the sum of any of them fits.
fn listed(rows: &[StackRow], interval: i64) -> HashMap<&str, Listed> {
    let mut found: HashMap<&str, Listed> = HashMap::new();
    for row in rows {
        let listed = found.entry(&row.account).or_default();
        listed.amount.bytes += row.bytes;
        listed.amount.blocks += row.blocks;
        listed.amount.square += error::square(row.error_bytes, interval);
        listed.rows += 1;
    }
    found
}
