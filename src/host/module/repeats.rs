//! The measuring of `pyhost.leaks()`: figures and size classes between the calls of a function. They are kept in memory of their
//! own, so that what is kept of one call is nothing that the next one has grown by.

use crate::heap::histogram::{ACCOUNTS_WITH_CLASSES, Histogram, Taken};
use crate::heap::sampling;
use crate::ledger::{Account, LEDGER, REPORTED};
use crate::lines;
use crate::python::domains;
use crate::python::functions::{Method, Module, This};
use crate::python::objects::{Gil, Kind, Object, Returned};
use pyhost_os::mapping::Mapped;
use pyhost_os::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most calls that are measured.
const MOST: u64 = 10_000;
/// Words that are kept of a moment: bytes and blocks of each account.
const WORDS: usize = 2 * REPORTED.len();

/// The figures of one measurement.
struct Repeats {
    /// The process that measures: of a forked child's it is none.
    process: i32,
    /// Calls that are to be measured.
    count: usize,
    /// Moments that were kept: the one before the first call, and those after each.
    taken: usize,
    /// [`WORDS`] a moment.
    figures: Mapped<u64>,
    before: Taken,
    after: Taken,
}

static CURRENT: Mutex<Option<Repeats>> = Mutex::new(None);

/// Held for a moment only, by threads that have the GIL and let nobody else run meanwhile.
fn current() -> MutexGuard<'static, Option<Repeats>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether it begins: not while another measurement goes on.
fn begin<'a>(_: This<'a, Module>, count: &Object<'a>) -> Returned<'a> {
    let gil = count.gil();
    let count = count.as_unsigned()?;
    if !(1..=MOST).contains(&count) {
        let text = format!("leaks: expected a repeat from 1 to {MOST}");
        return Err(gil.raise(Kind::Value, &text));
    }
    let mut current = current();
    if current
        .as_ref()
        .is_some_and(|other| other.process == process::id())
    {
        return gil.bool(false);
    }
    let count = count as usize;
    let figures = Mapped::private((count + 1) * WORDS);
    let (Some(figures), Some(before), Some(after)) =
        (figures, Histogram::taken(), Histogram::taken())
    else {
        return Err(gil.no_memory());
    };
    *current = Some(Repeats {
        process: process::id(),
        count,
        taken: 0,
        figures,
        before,
        after,
    });
    gil.bool(true)
}

impl Repeats {
    fn take(&mut self) {
        if self.taken == 0 {
            self.before.take();
        }
        let snapshot = LEDGER.snapshot();
        let place = self.taken * WORDS;
        if let Some(words) = self.figures.get_mut(place..place + WORDS) {
            for (pair, (_, figures)) in words.chunks_exact_mut(2).zip(snapshot.accounts()) {
                pair.copy_from_slice(&[figures.live_bytes, figures.live_blocks]);
            }
            self.taken += 1;
        }
        if self.taken == self.count + 1 {
            self.after.take();
        }
    }

    /// `(account, ((bytes, blocks), ...))`, a pair a moment.
    fn rows<'a>(&self, gil: Gil<'a>) -> Returned<'a> {
        let rows = REPORTED.iter().enumerate().map(|(index, account)| {
            let pairs = (0..self.taken).map(|moment| {
                let place = moment * WORDS + 2 * index;
                gil.tuple([
                    gil.unsigned(self.figures[place])?,
                    gil.unsigned(self.figures[place + 1])?,
                ])
            });
            gil.tuple([gil.text(account.name())?, gil.tuple_of(self.taken, pairs)?])
        });
        gil.tuple_of(REPORTED.len(), rows)
    }

    /// `(account, block_bytes, blocks, bytes)`: by how many live blocks, and bytes of these, each size class has grown.
    fn classes<'a>(&self, gil: Gil<'a>) -> Returned<'a> {
        let list = gil.list()?;
        for account in ACCOUNTS_WITH_CLASSES {
            for (class, blocks, bytes) in self.grown(account) {
                let row = [
                    gil.text(account.name())?,
                    gil.unsigned(class)?,
                    gil.unsigned(blocks)?,
                    gil.unsigned(bytes)?,
                ];
                list.append(&*gil.tuple(row)?)?;
            }
        }
        Ok(list)
    }

    fn grown(&self, account: Account) -> impl Iterator<Item = (u64, u64, u64)> {
        let before = self.before.of(account).entries();
        let after = self.after.of(account).entries();
        after.iter().filter_map(|class| {
            let earlier = before
                .iter()
                .find(|known| known.block_bytes == class.block_bytes);
            let (blocks, bytes) =
                earlier.map_or((0, 0), |known| (known.live_blocks, known.live_bytes));
            let blocks = class
                .live_blocks
                .checked_sub(blocks)
                .filter(|&blocks| blocks > 0)?;
            Some((
                class.block_bytes,
                blocks,
                class.live_bytes.saturating_sub(bytes),
            ))
        })
    }
}

fn take(module: This<'_, Module>) -> Returned<'_> {
    if let Some(repeats) = current().as_mut() {
        repeats.take();
    }
    Ok(module.gil().none())
}

fn end(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    let ended = current().take();
    match ended {
        Some(repeats) => gil.tuple([repeats.rows(gil)?, repeats.classes(gil)?]),
        None => Ok(gil.none()),
    }
}

/// Begins to record each allocation with its line, unless samples are taken already: whether it began.
fn lines_begin(module: This<'_, Module>) -> Returned<'_> {
    let begins = !sampling::is_on() && lines::begin(1);
    if begins {
        domains::follow_samples();
    }
    module.gil().bool(begins)
}

fn lines_end(module: This<'_, Module>) -> Returned<'_> {
    sampling::forget();
    domains::follow_samples();
    Ok(module.gil().none())
}

/// For the module's table.
pub const METHODS: [Method<Module>; 5] = [
    Method::one(
        c"_repeats_begin",
        begin,
        c"Prepare to measure so many calls; False while another thread does.",
    ),
    Method::plain(
        c"_repeats_take",
        take,
        c"Keep the figures of this moment: before the first call, and after each.",
    ),
    Method::plain(
        c"_repeats_end",
        end,
        c"The figures of each account, moment by moment, and the size classes that grew.",
    ),
    Method::plain(
        c"_lines_begin",
        lines_begin,
        c"Record each allocation with its line; False if lines are recorded already.",
    ),
    Method::plain(
        c"_lines_end",
        lines_end,
        c"Record no lines any more, and forget those that were.",
    ),
];
