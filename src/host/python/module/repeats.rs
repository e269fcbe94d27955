//! The measuring of `pyhost.leaks()`: figures and size classes between the calls of a function. They are kept in memory of their
//! own, so that what is kept of one call is nothing that the next one has grown by.

use super::library::numbers;
use crate::cpython::functions::{Method, Module, Table, This};
use crate::cpython::objects::{Gil, Kind, Object, Returned};
use crate::heap::histogram::{Histogram, SizeClass, Taken};
use crate::ledger::{Account, LEDGER, REPORTED};
use crate::{heap::sampling, observe::lines, python::hooks::domains};
use pyhost_os::{calls, mapping::Mapped, mmap_vec::MmapVec, process};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most calls that are measured.
const MOST: u64 = 10_000;
/// Moments that are kept beside those: of the calls that follow if something grows.
const MORE: usize = 1_026;
/// Words that are kept of a moment: bytes and blocks of each account.
const WORDS: usize = 2 * REPORTED.len();

struct Repeats {
    /// The process and the thread that measure: of a forked child's it is none.
    owner: (i32, i32),
    count: usize,
    /// Moments that were kept: the one before the first call, those after each, and later ones.
    taken: usize,
    /// [`WORDS`] a moment.
    figures: Mapped<u64>,
    before: Taken,
    after: Taken,
    /// Whether lines are recorded for it alone.
    has_lines: bool,
}

static CURRENT: Mutex<Option<Repeats>> = Mutex::new(None);

/// Held for a moment only, by threads that have the GIL. Nothing is made of Python's meanwhile, or its garbage collector would
/// run code that may ask for it again.
fn current() -> MutexGuard<'static, Option<Repeats>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn caller() -> (i32, i32) {
    (process::id(), calls::gettid())
}

/// Whether a measurement goes on in this process.
fn is_on(current: &Option<Repeats>) -> bool {
    let is_here = |other: &Repeats| other.owner.0 == process::id();
    current.as_ref().is_some_and(is_here)
}

fn on(module: This<'_, Module>) -> Returned<'_> {
    module.gil().bool(is_on(&current()))
}

/// Prepares to measure so many calls; returns False while another measurement goes on.
fn begin<'a>(_: This<'a, Module>, count: &Object<'a>) -> Returned<'a> {
    let gil = count.gil();
    let count = count.as_unsigned()?;
    if !(1..=MOST).contains(&count) {
        let text = format!("leaks: expected a repeat from 1 to {MOST}");
        return Err(gil.raise(Kind::Value, &text));
    }
    let mut current = current();
    if is_on(&current) {
        return gil.bool(false);
    }
    let count = count as usize;
    let figures = Mapped::private((count + 1 + MORE) * WORDS);
    let (Some(figures), Some(before), Some(after)) =
        (figures, Histogram::taken(), Histogram::taken())
    else {
        return Err(gil.no_memory());
    };
    *current = Some(Repeats {
        owner: caller(),
        count,
        taken: 0,
        figures,
        before,
        after,
        has_lines: false,
    });
    gil.bool(true)
}

impl Repeats {
    fn take(&mut self) {
        if self.taken == 0 {
            self.before[0].take();
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
            self.after[0].take();
        }
    }

    fn grown(&self, account: Account) -> impl Iterator<Item = [u64; 3]> {
        let before = self.before[0].of(account).entries();
        let after = self.after[0].of(account).entries();
        after.iter().filter_map(|class| {
            let is_same = |known: &&SizeClass| known.block_bytes == class.block_bytes;
            let known = before.iter().find(is_same);
            let [blocks, bytes] = known.map_or([0; 2], |it| [it.live_blocks, it.live_bytes]);
            let bytes = class.live_bytes.saturating_sub(bytes);
            let grown = class.live_blocks > blocks;
            grown.then(|| [class.block_bytes, class.live_blocks - blocks, bytes])
        })
    }
}

/// Keeps the figures of this moment: before the first call, and after each.
fn take(module: This<'_, Module>) -> Returned<'_> {
    if let Some(repeats) = current().as_mut() {
        repeats.take();
    }
    Ok(module.gil().none())
}

/// `(account, ((bytes, blocks), ...))`, a pair a moment.
fn rows<'a>(gil: Gil<'a>, words: &[u64]) -> Returned<'a> {
    let rows = REPORTED.iter().enumerate().map(|(index, account)| {
        let pairs = words
            .chunks_exact(WORDS)
            .map(|moment| numbers(gil, [moment[2 * index], moment[2 * index + 1]]));
        let pairs = gil.tuple_of(words.len() / WORDS, pairs)?;
        gil.tuple([gil.text(account.name())?, pairs])
    });
    gil.tuple_of(REPORTED.len(), rows)
}

type Grown = (Account, [u64; 3]);

/// `(account, block_bytes, blocks, bytes)`: by how many live blocks, and bytes of these, each size class has grown.
fn classes<'a>(gil: Gil<'a>, grown: &[Grown]) -> Returned<'a> {
    let list = gil.list()?;
    for (account, numbers) in grown {
        let numbers = numbers.iter().map(|&number| gil.unsigned(number));
        let row = std::iter::once(gil.text(account.name())).chain(numbers);
        list.append(&*gil.tuple_of(4, row)?)?;
    }
    Ok(list)
}

/// The figures of each account, moment by moment, and the size classes that grew.
fn figures(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    let (mut words, mut grown) = (MmapVec::new(), MmapVec::<Grown>::new());
    let is_whole = current().as_ref().is_none_or(|repeats| {
        let of = |account| repeats.grown(account).map(move |class| (account, class));
        let mut all = Account::WITH_BLOCKS.into_iter().flat_map(of);
        words.extend(&repeats.figures[..repeats.taken * WORDS]) && all.all(|it| grown.push(it))
    });
    if !is_whole {
        return Err(gil.no_memory());
    }
    gil.tuple([rows(gil, &words)?, classes(gil, &grown)?])
}

/// Records each allocation with its line until the end; returns False if lines are recorded already.
fn lines(module: This<'_, Module>) -> Returned<'_> {
    let begins = !sampling::has_lines_on() && lines::begin(1);
    if begins {
        if let Some(repeats) = current().as_mut() {
            repeats.has_lines = true;
        }
        domains::follow_samples();
    }
    module.gil().bool(begins)
}

/// Ends the calling thread's measurement, if it has begun one, and forgets its lines.
fn end(module: This<'_, Module>) -> Returned<'_> {
    let ended = current().take_if(|it| it.owner == caller());
    if ended.is_some_and(|ended| ended.has_lines) {
        sampling::forget();
        domains::follow_samples();
    }
    Ok(module.gil().none())
}

pub static METHODS: Table<Method<Module>, 6> = Table::new([
    Method::plain(c"_repeats_on", on, c""),
    Method::one(c"_repeats_begin", begin, c""),
    Method::plain(c"_repeats_take", take, c""),
    Method::plain(c"_repeats_figures", figures, c""),
    Method::plain(c"_repeats_lines", lines, c""),
    Method::plain(c"_repeats_end", end, c""),
]);
