//! Blocks of `native` that are freed a second time, or in their middle, are found here. mimalloc would
//! take them, and give overlapping blocks out later; glibc ends such a process, and so does the host.
//!
//! A freed block of `native` carries a mark in its second eight bytes (the first word is mimalloc's link): the
//! constant `KEY` and the block's own address. Giving a block out takes the mark off, so a
//! block with a mark is free. Every block of `native` has at least 16 bytes for it.
//!
//! A page that has become empty is given back, and with it the marks of its blocks: the last of such pages
//! are kept in mind, with the size of their blocks.

use crate::call_site::{CallSite, native_stacks};
use crate::ledger::{ACCOUNTS, Account};
use crate::mimalloc::ffi::{self, Page};
use crate::{descriptor::notice, mimalloc::pages};
use pyhost_os::mapping::is_mapped;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Sizes up to which a division is spared: those of the direct table, by steps of 16.
const STEP_SHIFT: usize = 4;
const FACTORS: [u64; (ffi::SMALL_SIZE_MAX >> STEP_SHIFT) + 1] = {
    let mut factors = [0; (ffi::SMALL_SIZE_MAX >> STEP_SHIFT) + 1];
    let mut index = 1;
    while index < factors.len() {
        factors[index] = u64::MAX / ((index as u64) << STEP_SHIFT) + 1;
        index += 1;
    }
    factors
};

/// Whether `pointer` is the start of a block, by the page's size of blocks. Of pages with aligned blocks
/// that says nothing.
///
/// The product with `2^64 / size`, rounded up, is below that factor for multiples of the size alone, as
/// long as both have 32 bits (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019).
#[inline(always)]
pub fn is_start(page: &Page, pointer: *mut u8) -> bool {
    let offset = pointer.addr().wrapping_sub(page.page_start.addr());
    let size = page.block_size;
    match FACTORS.get(size >> STEP_SHIFT) {
        Some(&factor) => (offset as u64).wrapping_mul(factor) <= factor.wrapping_sub(1),
        None => offset == 0 || offset.is_multiple_of(size),
    }
}

/// A page that became empty. Its address is kept as a complement: the leak check searches static memory
/// for pointers, and the page may hold other blocks by then.
struct Emptied {
    /// The complement of the first address, so that the leak check sees no pointer.
    start: AtomicUsize,
    /// Bytes of all its blocks together; 0 while the entry is written.
    length: AtomicUsize,
    /// Bytes of one, and the account in the lowest [`ACCOUNT_BITS`].
    block: AtomicUsize,
}

const KEPT: usize = 64;
const ACCOUNT_BITS: u32 = ACCOUNTS.next_power_of_two().trailing_zeros();

pyhost_os::state! {
    /// The marks of freed blocks.
    static STATE: DoubleFree {
        emptied: [Emptied; KEPT] = [const {
            Emptied {
                start: AtomicUsize::new(0),
                length: AtomicUsize::new(0),
                block: AtomicUsize::new(0),
            }
        }; KEPT],
        next: AtomicUsize = AtomicUsize::new(0),
        /// Between these slices all of them lie, those that are no longer kept as well.
        lowest: AtomicUsize = AtomicUsize::new(usize::MAX),
        highest: AtomicUsize = AtomicUsize::new(0),
    }
}

impl Emptied {
    fn start(&self) -> usize {
        !self.start.load(Relaxed)
    }

    fn account(&self) -> Account {
        Account::at(self.block.load(Relaxed) % (1 << ACCOUNT_BITS))
    }

    fn holds(&self, address: usize) -> bool {
        address.wrapping_sub(self.start()) < self.length.load(Relaxed)
    }
}

/// Keeps a page in mind whose last live block is being freed.
pub fn remember_emptied(page: &Page) {
    let place = &STATE.emptied[STATE.next.fetch_add(1, Relaxed) % KEPT];
    let (start, length) = (page.page_start.addr(), page.bytes());
    let account = page.account() as usize;
    place.length.store(0, Relaxed);
    let block = page.block_size << ACCOUNT_BITS | account;
    place.block.store(block, Relaxed);
    place.start.store(!start, Relaxed);
    place.length.store(length, Relaxed);
    STATE.lowest.fetch_min(start >> ffi::SLICE_SHIFT, Relaxed);
    let highest = (start + length) >> ffi::SLICE_SHIFT;
    STATE.highest.fetch_max(highest, Relaxed);
}

/// Ends the process if `pointer`, which lies in no page now, lay in one: the block is freed twice. What
/// lies outside mimalloc's arenas may have become another allocator's since, unless nothing is mapped there.
#[cold]
pub fn refuse_if_ours(pointer: *mut u8) {
    let address = pointer.addr();
    let slices = STATE.lowest.load(Relaxed)..=STATE.highest.load(Relaxed);
    if !slices.contains(&(address >> ffi::SLICE_SHIFT)) {
        return;
    }
    let mut is_in_arena = false;
    pages::each_arena(|arena| is_in_arena |= (arena.start..arena.end).contains(&address));
    let newest = STATE.next.load(Relaxed);
    let mut newest_first = (1..=KEPT).map(|back| &STATE.emptied[newest.wrapping_sub(back) % KEPT]);
    match newest_first.find(|page| page.holds(address)) {
        Some(page) if is_in_arena || !is_mapped(address) => refuse_twice(
            pointer,
            page.block.load(Relaxed) >> ACCOUNT_BITS,
            page.account(),
        ),
        None if is_in_arena => refuse(format_args!(
            "free(): invalid pointer {pointer:p}: no block is there; it may have been freed before"
        )),
        _ => {}
    }
}

/// Ends the process for a block that is freed twice.
#[cold]
pub fn refuse_twice(pointer: *mut u8, bytes: usize, account: Account) -> ! {
    refuse(format_args!(
        "free(): invalid pointer {pointer:p}: a block of {bytes} bytes of the account {}, freed before",
        account.name()
    ))
}

/// Ends the process as libc does for a pointer that nobody allocated.
#[cold]
pub fn refuse(what: std::fmt::Arguments<'_>) -> ! {
    refuse_block(what, CallSite::default(), CallSite::default())
}

/// [`refuse`], with the native calls of this free, and those that allocated and freed the block.
#[cold]
pub fn refuse_block(what: std::fmt::Arguments<'_>, made: CallSite, freed: CallSite) -> ! {
    notice(what);
    native_stacks::report(made.calls, freed.calls);
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_tells_multiples_of_every_small_size() {
        for size in (16..=ffi::SMALL_SIZE_MAX as u64).step_by(16) {
            let factor = FACTORS[size as usize >> STEP_SHIFT];
            for offset in 0..1 << 16 {
                let is_multiple = u64::wrapping_mul(offset, factor) < factor;
                assert_eq!(is_multiple, offset % size == 0, "{offset} {size}");
            }
        }
    }
}
