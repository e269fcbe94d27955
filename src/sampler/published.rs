//! The samples in memory that other processes can read, while the process runs and after a kill: a copy of all but the
//! addresses, kept up to date with each sample.
//!
//! The copy is words. The first of them say what it is and how much of it there is; behind them is a section for each
//! table. While the writer changes it its sequence number is odd. A reader takes a copy between two equal even numbers
//! if it can; after a kill the number may stay odd. So the reader trusts nothing: each number is checked.

use crate::{Samples, Time, sites};
use pyhost_os::mapping::Shared;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// Makes memory of so many words that others can read, has it filled, and then puts it in the place of the former. None
/// if the system refuses: then nobody finds the former either.
pub type Renew = fn(words: usize, fill: &mut dyn FnMut(&[AtomicU64])) -> Option<Shared<AtomicU64>>;

/// First word; its last letter is the version.
const MAGIC: u64 = u64::from_le_bytes(*b"pyhline3");

// The words of the header.
const SEQUENCE: usize = 1;
const INTERVAL: usize = 2;
const BESIDE: usize = 3;
const TAKEN: usize = 4;
const DROPPED: usize = 5;
/// 1 once the samples have ended.
const IS_OVER: usize = 6;
/// Which of the process's samples they are.
const GENERATION: usize = 7;
/// For each section, where it starts and how many items it has.
const SECTIONS: usize = 8;
/// The numbers of the latest moments.
const MOMENTS: usize = 24;
/// When the samples began, and the latest moment, in nanoseconds of `CLOCK_MONOTONIC`.
const TIME: usize = 48;
/// Samples taken, and dropped, before the fork.
const BEFORE_FORK: usize = 50;
const HEADER: usize = 64;

/// Letters, texts, calls, nodes, sites, names of threads.
const KINDS: usize = 6;

/// Room for items at the start.
const FIRST: Counts = match cfg!(miri) {
    true => Counts([512, 16, 32, 64, 16, 2]),
    false => Counts([32 << 10, 1 << 10, 2 << 10, 4 << 10, 1 << 10, 128]),
};

/// How many items of each section there are, or fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts([usize; KINDS]);

impl Counts {
    fn of(samples: &Samples) -> Self {
        let stacks = &samples.stacks;
        Counts([
            stacks.letters.len(),
            stacks.texts.len(),
            stacks.frames.len(),
            stacks.nodes.len(),
            samples.sites.length(),
            samples.threads.names.len(),
        ])
    }

    /// Room for twice as many, or for half as many more once that would be much of a small file system.
    fn doubled(self) -> Self {
        const MUCH: usize = 1 << 15;
        let mut room = FIRST;
        for (room, count) in room.0.iter_mut().zip(self.0) {
            let more = if count > MUCH { count / 2 } else { count };
            *room = (*room).max(count + more);
        }
        room
    }

    /// Words of each section.
    fn words(self) -> [usize; KINDS] {
        let [letters, texts, frames, nodes, sites, threads] = self.0;
        let (letters, frames) = (letters.div_ceil(8), 2 * frames);
        [letters, texts, frames, nodes, sites::WORDS * sites, threads]
    }

    /// Where each section starts.
    fn starts(self) -> [usize; KINDS] {
        let mut next = HEADER;
        self.words().map(|words| {
            next += words;
            next - words
        })
    }

    fn total(self) -> usize {
        HEADER + self.words().iter().sum::<usize>()
    }

    fn fit(self, room: Counts) -> bool {
        let mut pairs = self.0.into_iter().zip(room.0);
        pairs.all(|(count, room)| count <= room)
    }
}

/// When memory is asked for again that the system has refused. A refusal may take as long as the memory would have taken, so
/// the pauses grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// The moment, in nanoseconds.
    at: u64,
    pause: u64,
}

impl Retry {
    /// The first pause, and the longest.
    const SHORTEST: u64 = 1_000_000_000;
    const LONGEST: u64 = 64 * Retry::SHORTEST;

    /// Nothing was refused.
    pub const NOW: Retry = Retry { at: 0, pause: 0 };

    /// Whether the moment has come.
    pub fn is_due(self, now: u64) -> bool {
        now >= self.at
    }

    /// What follows the outcome of a request.
    pub fn after(self, is_met: bool, now: u64) -> Self {
        if is_met {
            return Retry::NOW;
        }
        let pause = (2 * self.pause).clamp(Retry::SHORTEST, Retry::LONGEST);
        Retry {
            at: now.saturating_add(pause),
            pause,
        }
    }
}

/// The writer's side.
pub struct Published {
    pub(super) words: Shared<AtomicU64>,
    room: Counts,
    kept: Counts,
}

impl Published {
    /// Makes the first copy, or a larger one.
    pub fn renewed(samples: &Samples, renew: Renew) -> Option<Self> {
        let counts = Counts::of(samples);
        let room = counts.doubled();
        let nothing = Counts([0; KINDS]);
        let words = renew(room.total(), &mut |words| {
            let starts = room.starts();
            words[0].store(MAGIC, Relaxed);
            words[INTERVAL].store(samples.interval, Relaxed);
            words[BESIDE].store(u64::from(samples.beside), Relaxed);
            words[GENERATION].store(samples.generation, Relaxed);
            for (kind, start) in starts.into_iter().enumerate() {
                words[SECTIONS + 2 * kind].store(start as u64, Relaxed);
            }
            write(words, starts, samples, nothing, counts, None);
        })?;
        Some(Published {
            words,
            room,
            kept: counts,
        })
    }

    /// Writes what is new, and a site that has changed; false if there is no room.
    pub fn update(&mut self, samples: &Samples, changed: Option<u32>) -> bool {
        let counts = Counts::of(samples);
        if !counts.fit(self.room) {
            return false;
        }
        let starts = self.room.starts();
        write(&self.words, starts, samples, self.kept, counts, changed);
        self.kept = counts;
        true
    }
}

/// Writes the items from `from` on, and a site that was there before.
fn write(
    words: &[AtomicU64],
    starts: [usize; KINDS],
    samples: &Samples,
    from: Counts,
    counts: Counts,
    changed: Option<u32>,
) {
    let (stacks, sites) = (&samples.stacks, &samples.sites);
    let sequence = words[SEQUENCE].load(Relaxed);
    words[SEQUENCE].store(sequence | 1, Relaxed);
    fence(Release);
    let put = |kind: usize, at: usize, values: &[u64]| {
        for (word, value) in words[starts[kind] + at..].iter().zip(values) {
            word.store(*value, Relaxed);
        }
    };
    let [letters, .., new_sites, _] = from.0;
    // The last letters may be those of a word that was begun.
    for (word, letters) in (letters / 8..).zip(stacks.letters[letters / 8 * 8..].chunks(8)) {
        let mut eight = [0; 8];
        eight[..letters.len()].copy_from_slice(letters);
        put(0, word, &[u64::from_ne_bytes(eight)]);
    }
    let before = from.words();
    for (kind, table) in [
        (1, &stacks.texts[..]),
        (2, stacks.frames.as_flattened()),
        (3, &stacks.nodes),
        (5, &samples.threads.names),
    ] {
        put(kind, before[kind], &table[before[kind]..]);
    }
    let changed = changed.map(|site| site as usize);
    let changed = changed.filter(|&site| site < new_sites);
    for site in changed.into_iter().chain(new_sites..counts.0[4]) {
        put(4, sites::WORDS * site, &sites.words_of(site));
    }
    for (kind, count) in counts.0.into_iter().enumerate() {
        words[SECTIONS + 2 * kind + 1].store(count as u64, Relaxed);
    }
    words[TAKEN].store(samples.taken, Relaxed);
    words[DROPPED].store(samples.dropped, Relaxed);
    words[IS_OVER].store(u64::from(samples.is_over), Relaxed);
    words[TIME].store(samples.time.start, Relaxed);
    words[TIME + 1].store(samples.time.now, Relaxed);
    words[BEFORE_FORK].store(samples.before_fork.0, Relaxed);
    words[BEFORE_FORK + 1].store(samples.before_fork.1, Relaxed);
    for (word, number) in words[MOMENTS..TIME].iter().zip(sites.moments()) {
        word.store(number, Relaxed);
    }
    words[SEQUENCE].store((sequence | 1) + 1, Release);
}

/// Whether the words were not being changed when they were read: the sequence number of a second look is the same.
pub fn is_whole(words: &[u64], again: &[u64]) -> bool {
    let sequence = |words: &[u64]| words.get(SEQUENCE).copied();
    sequence(words).is_some_and(|number| number % 2 == 0) && sequence(words) == sequence(again)
}

/// The samples that the words hold, to be read and no more. None if they are not what a host of this version wrote.
pub fn read(words: &[u64]) -> Option<Samples> {
    if *words.first()? != MAGIC || words.len() < HEADER {
        return None;
    }
    let number = |place: usize| usize::try_from(words[place]).ok();
    let mut samples = Samples::new(words[INTERVAL].max(1), words[BESIDE] as u8);
    (samples.taken, samples.dropped) = (words[TAKEN], words[DROPPED].min(words[TAKEN]));
    samples.before_fork = (words[BEFORE_FORK], words[BEFORE_FORK + 1]);
    samples.is_over = words[IS_OVER] != 0;
    samples.generation = words[GENERATION];
    samples.time = Time {
        start: words[TIME],
        now: words[TIME + 1],
    };
    let section = |kind: usize| -> Option<(usize, &[u64])> {
        let count = number(SECTIONS + 2 * kind + 1)?;
        let bound = Counts([words.len() * 8; KINDS]);
        let mut counts = [0; KINDS];
        counts[kind] = count;
        let rest = words.get(number(SECTIONS + 2 * kind)?..)?;
        let length = Counts(counts).fit(bound).then(|| Counts(counts).words())?[kind];
        Some((count, rest.get(..length)?))
    };
    let (letters, words_of) = section(0)?;
    let bytes = words_of.iter().flat_map(|word| word.to_ne_bytes());
    let [texts, frames, nodes, of_sites, names] = [1, 2, 3, 4, 5].map(section);
    let frames = frames?.1.as_chunks().0;
    let are_stacks = (samples.stacks).fill(bytes.take(letters), texts?.1, frames, nodes?.1);
    let (sites, stacks) = (&mut samples.sites, &samples.stacks);
    sites.set_moments(&words[MOMENTS..TIME]);
    let mut of_sites = of_sites?.1.as_chunks().0.iter();
    let is_read = are_stacks
        && of_sites.all(|site| sites.push_words(*site, stacks))
        && samples.threads.fill(names?.1, stacks);
    is_read.then_some(samples)
}
