//! Units of work that have a budget: which of them allocated the live sampled blocks.
//!
//! A block belongs to the unit that allocated it until it is freed. A unit's live bytes are the weights of its samples, with those of the
//! units within it. Its entry lasts as long as something refers to it: the owner of its number, a unit within
//! it, or a live sample.
//!
//! As [`crate::Samples`] this is plain data behind the caller's lock, in memory of the system alone.

use crate::index::{Index, Keyed};
use crate::{hidden, sum::Weight};
use arrayvec::ArrayString;
use pyhost_os::{mmap_vec::MmapVec, terminal_text::whole_letters};
use std::{iter::successors, ops::Range};

/// The number of a unit; 0 stands for no unit.
pub type UnitNumber = u32;

/// The longest name that is kept, in bytes.
const NAME: usize = 64;

/// The live bytes of a unit, its budget and its errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnitFigures {
    pub number: UnitNumber,
    /// The bytes that it may have.
    pub budget: u64,
    /// Estimated live bytes.
    pub live: u64,
    /// The most of them so far.
    pub peak: u64,
    /// The square of the standard error of the live bytes.
    pub variance: u64,
    /// Its errors so far.
    pub refused: u32,
    /// Safe points at which its error could not be raised, since the last error.
    pub missed: u8,
    /// It has an error, and some room for handling it.
    pub has_error: bool,
    /// Its next block has the error of a shortage of the whole process, with this number; 0 for none.
    pub pays: u64,
    /// Cut if it is too long.
    pub name: ArrayString<NAME>,
}

impl UnitFigures {
    /// The standard error of the live bytes.
    pub fn error(&self) -> u64 {
        self.variance.isqrt()
    }

    /// Bytes above the budget in which its error is handled.
    pub fn room(&self) -> u64 {
        (self.budget / 8).max(1 << 20)
    }

    /// Live bytes up to which requests are met.
    pub fn ceiling(&self) -> u64 {
        match self.has_error {
            true => self.budget.saturating_add(self.room()),
            false => self.budget,
        }
    }
}

#[derive(Clone, Copy)]
struct Unit {
    figures: UnitFigures,
    parent: UnitNumber,
    /// 0 if the entry is free.
    references: u32,
    /// Which of the entry's units it is.
    generation: u32,
    is_open: bool,
}

/// A live sampled block of a unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnitSample {
    address: u64,
    bytes: u64,
    variance: u64,
    unit: UnitNumber,
    generation: u32,
}

impl Keyed for UnitSample {
    fn key(&self) -> u64 {
        self.address
    }
}

/// All units of a process, and their samples.
#[derive(Default)]
pub struct Units {
    units: MmapVec<Unit>,
    samples: Index<UnitSample>,
    /// The first free entry, whose parent is the next one.
    free: UnitNumber,
    /// The unit that was to pay last.
    payer: UnitNumber,
}

impl Units {
    fn at(&mut self, number: UnitNumber) -> Option<&mut Unit> {
        self.units.get_mut((number as usize).wrapping_sub(1))
    }

    /// Makes a unit within another one, or within none; it is closed. None without memory for it. The caller owns its number until
    /// [`Self::release`].
    pub fn add(&mut self, parent: UnitNumber, budget: u64, name: &str) -> Option<UnitNumber> {
        let parent = self.open_one(parent);
        let name = whole_letters(&name.as_bytes()[..name.len().min(NAME)]);
        let figures = UnitFigures {
            budget,
            name: ArrayString::from(name).unwrap_or_default(),
            ..UnitFigures::default()
        };
        let unit = Unit {
            figures,
            parent,
            references: 1,
            generation: 0,
            is_open: false,
        };
        let mut number = self.free;
        if let Some(free) = self.at(number) {
            let generation = free.generation + 1;
            let next = std::mem::replace(free, Unit { generation, ..unit }).parent;
            self.free = next;
        } else if self.units.push(unit) {
            number = self.units.len() as UnitNumber;
        } else {
            return None;
        }
        self.at(number)?.figures.number = number;
        if let Some(parent) = self.at(parent) {
            parent.references += 1;
        }
        Some(number)
    }

    /// A unit's block begins, or ends.
    pub fn set_open(&mut self, number: UnitNumber, is_open: bool) {
        if let Some(unit) = self.at(number) {
            unit.is_open = is_open;
        }
        self.forgive(number);
    }

    /// The unit that was to pay has no error: it ends, or the shortage is over.
    pub fn forgive(&mut self, number: UnitNumber) {
        if let Some(unit) = self.at(number) {
            unit.figures.pays = 0;
        }
    }

    /// Has the error of a shortage go to the unit that has the most live bytes of those whose block runs, if that is not this one nor around it,
    /// and has twice as much; whether it does.
    pub fn let_another_pay(&mut self, number: UnitNumber, shortage: u64) -> bool {
        let is_another = |units: &Self, other: UnitNumber| {
            let mut around = units.outward(number);
            around.all(|unit| unit.figures.number != other)
        };
        // The one that was found last has not had it yet: there may be thousands of units.
        let last = self.figures(self.payer);
        if last.is_some_and(|last| last.pays == shortage && is_another(self, last.number)) {
            return true;
        }
        let own = self.figures(number).map_or(0, |unit| unit.live);
        let is_open = |unit: &&Unit| unit.references > 0 && unit.is_open;
        let open = self.units.iter().filter(is_open).map(|unit| unit.figures);
        let most = open.max_by_key(|unit| unit.live);
        let Some(most) = most.filter(|most| most.live / 2 > own && is_another(self, most.number))
        else {
            return false;
        };
        self.payer = most.number;
        if let Some(unit) = self.at(most.number) {
            unit.figures.pays = shortage;
        }
        true
    }

    pub fn release(&mut self, mut number: UnitNumber) {
        let mut free = self.free;
        while let Some(unit) = self.at(number) {
            unit.references -= 1;
            if unit.references > 0 {
                return;
            }
            let parent = std::mem::replace(&mut unit.parent, free);
            free = number;
            self.free = free;
            number = parent;
        }
    }

    /// A unit and those around it, innermost first.
    fn outward(&self, number: UnitNumber) -> impl Iterator<Item = &Unit> {
        let unit = |number: UnitNumber| self.units.get((number as usize).wrapping_sub(1));
        successors(unit(number), move |inner| unit(inner.parent))
    }

    /// Changes the figures of a unit and of those around it.
    fn change(&mut self, mut number: UnitNumber, change: impl Fn(&mut UnitFigures)) {
        while let Some(unit) = self.at(number) {
            change(&mut unit.figures);
            number = unit.parent;
        }
    }

    /// The innermost unit whose block still runs: this one, or one around it. 0 if there is none.
    pub fn open_one(&self, number: UnitNumber) -> UnitNumber {
        let open = self.outward(number).find(|unit| unit.is_open);
        open.map_or(0, |unit| unit.figures.number)
    }

    /// The unit or one around it, innermost first, whose budget has no room for `bytes` more.
    pub fn exhausted(&self, number: UnitNumber, bytes: u64) -> Option<UnitFigures> {
        let mut all = self.outward(number).map(|unit| unit.figures);
        all.find(|it| it.pays != 0 || it.live.saturating_add(bytes) > it.ceiling())
    }

    /// The unit has its error, or its error could not be raised.
    pub fn note_error(&mut self, number: UnitNumber, is_raised: bool) {
        if let Some(Unit { figures, .. }) = self.at(number) {
            if is_raised && figures.pays != 0 {
                figures.pays = 0;
            } else {
                figures.has_error |= is_raised;
            }
            figures.refused += u32::from(is_raised);
            figures.missed = match is_raised {
                true => 0,
                false => figures.missed.saturating_add(1),
            };
        }
    }

    pub fn figures(&self, number: UnitNumber) -> Option<UnitFigures> {
        self.outward(number).next().map(|unit| unit.figures)
    }

    /// Adds a sample of the open one of a unit. Returns whether it replaces one at the same address, whose end was not seen; `None` if there is no
    /// memory for it, or no such unit.
    pub fn allocated(
        &mut self,
        number: UnitNumber,
        address: usize,
        weight: Weight,
    ) -> Option<bool> {
        let number = self.open_one(number);
        let generation = self.at(number).map_or(0, |unit| unit.generation);
        let sample = UnitSample {
            address: hidden(address),
            bytes: weight.bytes.round() as u64,
            variance: weight.variance.round() as u64,
            unit: number,
            generation,
        };
        self.put(address, sample)
    }

    fn put(&mut self, address: usize, sample: UnitSample) -> Option<bool> {
        let is_replaced = self.take_out(address).is_some();
        let is_it = |unit: &&mut Unit| unit.references > 0 && unit.generation == sample.generation;
        self.at(sample.unit).filter(is_it)?;
        self.samples.insert(sample)?;
        self.at(sample.unit)?.references += 1;
        self.change(sample.unit, |figures| {
            figures.live += sample.bytes;
            figures.variance += sample.variance;
            figures.peak = figures.peak.max(figures.live);
        });
        Some(is_replaced)
    }

    /// Takes out the sample at `address`, which is freed, or may come back by [`Self::put_back`].
    pub fn take_out(&mut self, address: usize) -> Option<UnitSample> {
        let sample = self.samples.remove(hidden(address))?;
        self.change(sample.unit, |figures| {
            figures.live -= sample.bytes;
            figures.variance -= sample.variance;
            if figures.live < figures.budget / 8 * 7 {
                (figures.has_error, figures.missed) = (false, 0);
            }
        });
        self.release(sample.unit);
        Some(sample)
    }

    /// Puts back a sample that was taken out, maybe at another address: `share` of its bytes are still there, and it has grown by
    /// `growth`. None if the unit is gone.
    pub fn put_back(
        &mut self,
        address: usize,
        taken: UnitSample,
        share: f64,
        growth: Weight,
    ) -> Option<bool> {
        let part = |whole: u64, share: f64, growth: f64| (whole as f64 * share + growth).round();
        let sample = UnitSample {
            address: hidden(address),
            bytes: part(taken.bytes, share, growth.bytes) as u64,
            variance: part(taken.variance, share * share, growth.variance) as u64,
            ..taken
        };
        self.put(address, sample)
    }

    /// The mappings of the tables; some are empty.
    pub fn addresses(&self) -> [Range<usize>; 2] {
        [self.units.addresses(), self.samples.addresses()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::whole;
    use pyhost_testing::Random;
    use std::collections::HashMap;

    #[test]
    fn sums_of_units_are_those_of_a_naive_oracle() {
        const STEPS: usize = if cfg!(miri) { 300 } else { 3000 };
        let mut units = Units::default();
        let mut random = Random(7);
        let mut draw = |below: usize| random.below(below);
        // The parent of each unit, and the unit and bytes of each block.
        let mut parents: HashMap<UnitNumber, UnitNumber> = HashMap::new();
        let mut blocks: HashMap<usize, (UnitNumber, usize)> = HashMap::new();
        for _ in 0..STEPS {
            let known: Vec<UnitNumber> = parents.keys().copied().collect();
            match draw(5) {
                0 if known.len() < 40 => {
                    let parent = known.get(draw(50)).copied().unwrap_or(0);
                    let number = units.add(parent, 1 << 40, "unit").unwrap();
                    units.set_open(number, true);
                    assert_eq!(parents.insert(number, parent), None);
                }
                1 | 2 if !known.is_empty() => {
                    let (unit, address, bytes) =
                        (known[draw(known.len())], draw(300) + 1, draw(5000));
                    let is_replaced = units.allocated(unit, address, whole(bytes));
                    let former = blocks.insert(address, (unit, bytes));
                    assert_eq!(is_replaced, Some(former.is_some()));
                }
                _ => {
                    let address = draw(300) + 1;
                    let taken = units.take_out(address);
                    assert_eq!(taken.is_some(), blocks.contains_key(&address));
                    match taken.filter(|_| draw(2) == 0) {
                        None => _ = blocks.remove(&address),
                        Some(taken) => {
                            let is_replaced =
                                units.put_back(address, taken, 1.0, Weight::default());
                            assert_eq!(is_replaced, Some(false));
                        }
                    }
                }
            }
            for &unit in parents.keys() {
                let is_within = |mut inner: UnitNumber| loop {
                    match inner {
                        0 => break false,
                        _ if inner == unit => break true,
                        _ => inner = parents[&inner],
                    }
                };
                let of = blocks.values().filter(|(owner, _)| is_within(*owner));
                let live: usize = of.map(|(_, bytes)| bytes).sum();
                assert_eq!(units.figures(unit).unwrap().live, live as u64);
            }
        }
        // An entry is free once nothing refers to it, and then it is used again.
        parents.keys().for_each(|unit| units.release(*unit));
        blocks
            .keys()
            .for_each(|address| assert!(units.take_out(*address).is_some()));
        let count = units.units.len();
        assert!((0..count).all(|_| units.add(0, 1, "").is_some()));
        assert_eq!((units.free, units.units.len()), (0, count));
    }

    #[test]
    fn a_request_meets_the_lowest_budget_around_it() {
        let mut units = Units::default();
        let outer = units.add(0, 10 << 20, "outer").unwrap();
        units.set_open(outer, true);
        let inner = units.add(outer, 100 << 20, "inner").unwrap();
        // Its block does not run: what its tasks allocate is the outer one's.
        assert_eq!(units.open_one(inner), outer);
        units.set_open(inner, true);
        assert_eq!(units.open_one(inner), inner);
        units.allocated(inner, 64, whole(9 << 20)).unwrap();
        assert!(units.exhausted(inner, 1 << 20).is_none());
        let exhausted = units.exhausted(inner, (1 << 20) + 1).unwrap();
        let found = (exhausted.number, exhausted.name.as_str());
        assert_eq!(found, (outer, "outer"));
        // Room for the error, once, until much of it is freed.
        units.note_error(outer, true);
        assert!(units.exhausted(inner, 2 << 20).is_none());
        assert!(units.exhausted(inner, (5 << 20) / 2).is_some());
        assert!(units.take_out(64).is_some());
        assert!(units.exhausted(inner, 11 << 20).is_some());
        assert_eq!(units.figures(outer).unwrap().refused, 1);
        let long = units.add(0, 1, &"ä".repeat(40)).unwrap();
        assert_eq!(*units.figures(long).unwrap().name, "ä".repeat(32));
    }
}
