//! Sizes of pymalloc's blocks, by their pool, for hooks that leave OBJ to pymalloc.
//!
//! pymalloc (`Objects/obmalloc.c`) carves its arenas into aligned pools; each starts with a
//! header that holds the size class of its blocks. Which addresses lie in arenas is known since
//! the arena allocator is hooked: a bit for each unit of 4 KiB, in two levels, in memory from `mmap`.

#![allow(unsafe_code)]

use crate::heap::ADDRESS_BITS;
use crate::layout::{CLASS_STEP, POOL_SIZE, SIZE_INDEX_OFFSET};
use pyhost_os::errno::KeptErrno;
use pyhost_os::mapping::{Mapped, advise_huge_pages};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::{ptr::null_mut, sync::atomic::Ordering::AcqRel};

/// The unit of the bitmap: the least pool, whatever the size of a page. Arenas are made of whole ones.
const UNIT_SHIFT: usize = 12;
/// A leaf covers 8 GiB of addresses in 256 KiB, of which touched pages alone are resident; if addresses have 32 bits,
/// 256 MiB in 8 KiB. Large leaves keep the first level small: it is static memory, which RLIMIT_AS and RLIMIT_DATA count in
/// every process. No arena is as large as a leaf covers.
const LEAF_SHIFT: usize = if ADDRESS_BITS > 32 { 33 } else { 28 };
const LEAF_WORDS: usize = 1 << (LEAF_SHIFT - UNIT_SHIFT - 6);
const LEAVES: usize = 1 << (ADDRESS_BITS - LEAF_SHIFT);

type Leaf = [AtomicU64; LEAF_WORDS];

static ROOT: [AtomicPtr<Leaf>; LEAVES] = [const { AtomicPtr::new(null_mut()) }; LEAVES];

fn leaf_of(address: usize) -> Option<&'static Leaf> {
    let leaf = ROOT.get(address >> LEAF_SHIFT)?.load(Acquire);
    // SAFETY: null, or a mapping that is never removed.
    unsafe { leaf.as_ref() }
}

/// The word of its leaf that a unit has its bit in, and the bit.
#[inline]
fn place_of(unit: usize) -> (usize, u64) {
    let index = unit & ((1 << (LEAF_SHIFT - UNIT_SHIFT)) - 1);
    (index / 64, 1 << (index % 64))
}

/// Whether an address lies in an arena.
#[inline]
fn is_inside(address: usize) -> bool {
    let (word, bit) = place_of(address >> UNIT_SHIFT);
    leaf_of(address).is_some_and(|leaf| leaf[word].load(Relaxed) & bit != 0)
}

/// Makes the leaf that covers `address`. False without memory.
fn ensure_leaf(address: usize) -> bool {
    let Some(entry) = ROOT.get(address >> LEAF_SHIFT) else {
        return false;
    };
    if !entry.load(Acquire).is_null() {
        return true;
    }
    let Some(leaf) = Mapped::<AtomicU64>::private(LEAF_WORDS) else {
        return false;
    };
    let _errno = KeptErrno::new();
    let start: *mut Leaf = leaf.as_ptr().cast_mut().cast();
    advise_huge_pages(start.cast(), size_of::<Leaf>(), false);
    let exchanged = entry.compare_exchange(null_mut(), start, AcqRel, Relaxed);
    if exchanged.is_ok() {
        leaf.leak();
    }
    true
}

fn mark(start: usize, size: usize, inside: bool) {
    for unit in (start >> UNIT_SHIFT)..=((start + size - 1) >> UNIT_SHIFT) {
        let Some(leaf) = leaf_of(unit << UNIT_SHIFT) else {
            continue;
        };
        let (word, bit) = place_of(unit);
        if inside {
            leaf[word].fetch_or(bit, Relaxed);
        } else {
            leaf[word].fetch_and(!bit, Relaxed);
        }
    }
}

/// Remembers an arena. False if that takes memory that is not to be had.
pub fn add_arena(start: usize, size: usize) -> bool {
    if size == 0 || !ensure_leaf(start) || !ensure_leaf(start + size - 1) {
        return false;
    }
    mark(start, size, true);
    true
}

/// Forgets an arena.
pub fn remove_arena(start: usize, size: usize) {
    if size > 0 {
        mark(start, size, false);
    }
}

/// Bytes of the pymalloc block at `address`; None for an address outside the arenas.
///
/// # Safety
/// `address` is a live block of OBJ; the GIL is held.
pub unsafe fn block_size(address: usize) -> Option<usize> {
    if !is_inside(address) {
        return None;
    }
    let pool = address & !(POOL_SIZE - 1);
    // SAFETY: a live block of OBJ inside an arena lies in a pool, which starts at that address.
    let class = unsafe { *((pool + SIZE_INDEX_OFFSET) as *const u32) };
    Some((class as usize + 1) * CLASS_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_across_two_leaves_is_known_until_it_is_removed() {
        let (size, half) = (1 << 20, 1 << 19);
        let start = (3 << LEAF_SHIFT) - half;
        let inside = [start, start + half - 1, start + half, start + size - 1];
        assert!(add_arena(start, size));
        assert_eq!(inside.map(is_inside), [true; 4]);
        assert_eq!([start - 1, start + size].map(is_inside), [false; 2]);
        remove_arena(start, size);
        assert_eq!(inside.map(is_inside), [false; 4]);
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn an_arena_past_all_addresses_is_refused() {
        assert!(!add_arena(1 << ADDRESS_BITS, 1 << 20));
        assert!(!is_inside(1 << ADDRESS_BITS));
    }
}
