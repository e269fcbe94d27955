//! A look at all checked blocks: the pads of the live ones, and the fills of those in the quarantine.

#![allow(unsafe_code)]

use super::super::blocks::{self, LiveBlock};
use super::super::{alone, heaps};
use super::record::{Described, Outside, Record, State, Written};
use super::{ACCOUNTS, is_on};
use std::fmt;

/// A block that was written to where or when nobody may.
pub enum Damage<'a> {
    /// Outside of the caller's bytes, of a live block.
    Outside(Outside, Described<'a>),
    /// After it was freed.
    Freed(Written<'a>),
}

impl fmt::Display for Damage<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Outside(outside, block) => write!(out, "{outside} {block}, overwritten"),
            Damage::Freed(written) => write!(out, "{written}"),
        }
    }
}

/// Calls `visit` for each damaged block. The gate is closed meanwhile, and `visit` may not allocate.
///
/// # Safety
/// No other thread is allocating or freeing by the inlined paths in the heaps of checked blocks: none does, since these
/// blocks take the slow paths.
pub fn each_damaged(mut visit: impl FnMut(&Damage<'_>)) {
    if !is_on() {
        return;
    }
    alone(|closed| {
        for account in ACCOUNTS {
            for heap in heaps::checked(account) {
                let mut look = |block: LiveBlock| {
                    // SAFETY: a block of a heap of checked blocks, whose page stays while the gate is closed.
                    let record = unsafe { Record::at(block.start) };
                    match record.state() {
                        State::Live => {
                            let outside = record.damage(block.size);
                            if let Some(outside) = outside.or_else(|| record.damage_of_hooks()) {
                                visit(&Damage::Outside(outside, record.described()));
                            }
                        }
                        State::Freed => {
                            if let Some(written) = record.damage_after_free(block.size) {
                                visit(&Damage::Freed(written));
                            }
                        }
                        // A thread that is just allocating or freeing is not in its slow path; else the record was
                        // written over, which is found when the block is freed.
                        State::Gone | State::Unknown => {}
                    }
                };
                // SAFETY: the gate is closed, and these heaps are used by slow paths alone.
                unsafe { blocks::visit(closed, heap, &mut look, &mut |_| {}) };
            }
        }
    });
}
