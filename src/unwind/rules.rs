//! What the unwind tables say of an address, in one word: how the caller's registers are found. For code as compilers
//! make it, which addresses its stack by rsp or rbp. The other registers are not known to its callers: a walk that needs one
//! begins again by the tables alone.
//!
//! Entries are written and read without a lock. Racing writers leave an entry whose words do not belong together, which
//! nobody takes for one. An entry outlives its library: if `dlclose` makes room for another library at the same address,
//! the step is that of the former one. The walk then goes astray, but reads readable words of the stack alone.

use crate::machine::{RBP, RIP, RSP, Registers, Stack};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// From the stack pointer, or from rbp, to the end of the function's stack.
    pub is_by_rbp: bool,
    /// Bytes from there to that end: a multiple of 8.
    pub offset: u64,
    /// Where rbp was saved: bytes below the end, a multiple of 8; 0 if it was not.
    pub rbp: u64,
    /// From the function's first byte to the address.
    pub distance: u64,
}

const VALID: u64 = 1 << 63;
const BY_RBP: u64 = 1 << 62;
const OFFSET_SHIFT: u32 = 40;
const OFFSET_BITS: u32 = 22;
const RBP_SHIFT: u32 = 28;
const RBP_BITS: u32 = 12;
const DISTANCE_BITS: u32 = 28;

impl Rule {
    /// None if it does not fit into a word.
    fn word(self) -> Option<u64> {
        let (offset, rbp) = (self.offset / 8, self.rbp / 8);
        let fits = self.offset.is_multiple_of(8)
            && self.rbp.is_multiple_of(8)
            && offset >> OFFSET_BITS == 0
            && rbp >> RBP_BITS == 0
            && self.distance >> DISTANCE_BITS == 0;
        let base = if self.is_by_rbp { BY_RBP } else { 0 };
        fits.then_some(VALID | base | offset << OFFSET_SHIFT | rbp << RBP_SHIFT | self.distance)
    }

    #[inline]
    fn of_word(word: u64) -> Self {
        let part = |shift: u32, bits: u32| word >> shift & ((1 << bits) - 1);
        Rule {
            is_by_rbp: word & BY_RBP != 0,
            offset: 8 * part(OFFSET_SHIFT, OFFSET_BITS),
            rbp: 8 * part(RBP_SHIFT, RBP_BITS),
            distance: part(0, DISTANCE_BITS),
        }
    }

    /// The end of the function's stack. None if the register is not known.
    #[inline]
    pub fn stack_end(self, registers: &Registers) -> Option<u64> {
        let base = if self.is_by_rbp { RBP } else { RSP };
        Some(registers.get(base)?.wrapping_add(self.offset))
    }

    /// Makes the registers the caller's. False at the end of the stack.
    #[inline]
    pub fn step(self, registers: &mut Registers, stack_end: u64, stack: &mut Stack) -> bool {
        let Some(place) = stack.word(stack_end.wrapping_sub(8)) else {
            return false;
        };
        let rbp = match self.rbp {
            0 => registers.get(RBP),
            below => stack.word(stack_end.wrapping_sub(below)),
        };
        registers.forget_all();
        registers.set(RIP, place);
        registers.set(RSP, stack_end);
        if let Some(rbp) = rbp {
            registers.set(RBP, rbp);
        }
        true
    }
}

struct Entry {
    /// The address, combined with the word.
    check: AtomicU64,
    word: AtomicU64,
}

const ENTRY_BITS: u32 = 14;

static ENTRIES: [Entry; 1 << ENTRY_BITS] = [const {
    Entry {
        check: AtomicU64::new(0),
        word: AtomicU64::new(0),
    }
}; 1 << ENTRY_BITS];

#[inline]
fn entry_of(address: usize) -> &'static Entry {
    let mixed = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &ENTRIES[(mixed >> (64 - ENTRY_BITS)) as usize]
}

/// The rule of an address, if [`keep`] was called for it and no other has taken its place.
#[inline]
pub fn known(address: usize) -> Option<Rule> {
    let entry = entry_of(address);
    let word = entry.word.load(Relaxed);
    let is_it = word & VALID != 0 && entry.check.load(Relaxed) ^ word == address as u64;
    is_it.then(|| Rule::of_word(word))
}

/// Keeps the rule of an address, if it fits.
pub fn keep(address: usize, rule: Rule) {
    if let Some(word) = rule.word() {
        let entry = entry_of(address);
        entry.word.store(word, Relaxed);
        entry.check.store(address as u64 ^ word, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_kept_as_it_was_or_not_at_all() {
        let rule = Rule {
            is_by_rbp: true,
            offset: 16,
            rbp: 16,
            distance: 0x1234,
        };
        let most = Rule {
            is_by_rbp: false,
            offset: 8 * ((1 << OFFSET_BITS) - 1),
            rbp: 8 * ((1 << RBP_BITS) - 1),
            distance: (1 << DISTANCE_BITS) - 1,
        };
        for (address, rule) in [(0x7f00_1234_5678, rule), (1, most), (!0, most)] {
            assert_eq!(known(address), None);
            keep(address, rule);
            assert_eq!(known(address), Some(rule));
        }
        let offset = 8 << OFFSET_BITS;
        keep(7, Rule { offset, ..most });
        keep(7, Rule { offset: 12, ..most });
        assert_eq!(known(7), None);
    }
}
