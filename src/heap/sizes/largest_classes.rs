//! The size classes that live blocks take most: read off the heaps' pages, while other threads go
//! on. No page is collected, so that the blocks of a page that another thread is freeing may be a
//! few too many. Inside the allocator too: nothing is allocated, and the gate is not closed.

#![allow(unsafe_code)]

use crate::counts_native;
use crate::ledger::Account;
use crate::mimalloc::ffi::{self, Heap, HeapArea};
use crate::mimalloc::heaps;
use std::ffi::c_void;

/// The live blocks of one size in one account.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The account.
    pub account: Account,
    /// The usable bytes of each block.
    pub block_bytes: u64,
    /// How many there are.
    pub blocks: u64,
}

impl Class {
    /// The bytes of all its blocks.
    pub fn bytes(&self) -> u64 {
        self.block_bytes * self.blocks
    }
}

/// Distinct sizes of an account that are told apart; mimalloc has 73 bins, and larger blocks a page
/// each.
const SIZES: usize = 96;

struct Found {
    sizes: [(u64, u64); SIZES],
}

unsafe extern "C" fn add_page(
    _heap: *const Heap,
    area: *const HeapArea,
    _block: *mut c_void,
    _size: usize,
    arg: *mut c_void,
) -> bool {
    // SAFETY: mimalloc passes a structure of its own; `arg` is the one that `largest` passed.
    let (area, found) = unsafe { (&*area, &mut *arg.cast::<Found>()) };
    let (size, used) = (area.block_size as u64, area.used as u64);
    if size > 0 && used > 0 {
        let place = found
            .sizes
            .iter_mut()
            .find(|(known, _)| *known == size || *known == 0);
        if let Some(place) = place {
            *place = (size, place.1 + used);
        }
    }
    true
}

/// The classes whose live blocks take the most bytes, over all accounts, largest first.
pub fn largest<const N: usize>() -> [Option<Class>; N] {
    let mut largest = [None; N];
    for account in [
        Account::Raw,
        Account::Mem,
        Account::Obj,
        Account::Numpy,
        Account::Native,
    ] {
        if account == Account::Native && !counts_native() {
            continue;
        }
        let mut found = Found {
            sizes: [(0, 0); SIZES],
        };
        let own = |heap: &*mut Heap| account == Account::Native || !heap.is_null();
        for heap in heaps::all_of(account).filter(own) {
            // SAFETY: a heap that is never deleted, or null for the main heap; without a visit of
            // blocks only fields of pages are read, which are in memory that stays.
            unsafe { ffi::mi_heap_visit_blocks(heap, false, add_page, (&raw mut found).cast()) };
        }
        for (block_bytes, blocks) in found.sizes {
            let class = Class {
                account,
                block_bytes,
                blocks,
            };
            insert(&mut largest, class);
        }
    }
    largest
}

/// Puts a class where its bytes belong; the smallest falls out.
fn insert(largest: &mut [Option<Class>], class: Class) {
    let bytes = |class: &Option<Class>| class.map_or(0, |class| class.bytes());
    if let Some(place) = largest
        .iter()
        .position(|known| bytes(known) < class.bytes())
    {
        largest[place..].rotate_right(1);
        largest[place] = Some(class);
    }
}
