//! The register of big blocks: every live block of a mebibyte and more, with the time and the line
//! of Python of its allocation.
//!
//! Such blocks are rare and always take the slow path, so the register is always on. A table in
//! static memory that is filled from its beginning; the thread that takes an entry writes it alone, and
//! its key last. Any thread, inside the gate; nothing is allocated.

#![allow(unsafe_code)]

use crate::ledger::Account;
use crate::source_line::SourceLine;
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// From this size on a block is big.
pub const BIG: usize = 1 << 20;

/// How many blocks the register holds; more are counted alone.
const ENTRIES: usize = 8192;

/// A big block, as it was registered.
#[derive(Clone, Copy, Debug)]
pub struct BigBlock {
    /// Its account.
    pub account: Account,
    /// Its usable bytes.
    pub bytes: u64,
    /// When it was made: seconds of the monotonic clock.
    pub made: f64,
    /// The line of Python that made it.
    pub source: SourceLine,
}

impl BigBlock {
    /// Seconds since it was made.
    pub fn age(&self) -> f64 {
        now() - self.made
    }
}

struct Entry {
    /// The block's key; 0 is free, 1 is being written.
    key: AtomicUsize,
    block: UnsafeCell<BigBlock>,
}

// SAFETY: `block` is written only by the thread that has set `key` to 1, and read by copies that
// are thrown away where `key` has changed meanwhile.
unsafe impl Sync for Entry {}

const BEING_WRITTEN: usize = 1;

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        key: AtomicUsize::new(0),
        block: UnsafeCell::new(BigBlock {
            account: Account::Raw,
            bytes: 0,
            made: 0.0,
            source: SourceLine::NONE,
        }),
    }
}; ENTRIES];

/// One past the highest entry that was ever taken.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Blocks for which there was no room.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Seconds of the monotonic clock, read cheaply.
pub fn now() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The key of a block's address. It is no pointer: the leak check searches static memory, and would take
/// every big block for one that is still in use.
fn key_of(address: usize) -> usize {
    !address
}

/// Enters a block by an address that is its own while it lives.
#[cold]
pub fn add(address: usize, account: Account, bytes: usize) {
    let key = key_of(address);
    let block = BigBlock {
        account,
        bytes: bytes as u64,
        made: now(),
        source: SourceLine::of_caller(),
    };
    for (index, entry) in TABLE.iter().enumerate() {
        let taken = entry.key.load(Relaxed) == 0
            && entry
                .key
                .compare_exchange(0, BEING_WRITTEN, Acquire, Relaxed)
                .is_ok();
        if taken {
            USED.fetch_max(index + 1, Relaxed);
            // SAFETY: the entry is this thread's until its key is stored.
            unsafe { *entry.block.get() = block };
            entry.key.store(key, Release);
            return;
        }
    }
    LEFT_OUT.fetch_add(1, Relaxed);
}

/// Takes out the block of `address`, if it is there.
#[cold]
pub fn remove(address: usize) {
    let key = key_of(address);
    for entry in &TABLE[..USED.load(Relaxed)] {
        if entry.key.load(Relaxed) == key {
            entry.key.store(0, Release);
            return;
        }
    }
}

/// Gives every block of the register to `take`, in no order.
pub fn each(mut take: impl FnMut(BigBlock)) {
    for entry in &TABLE[..USED.load(Relaxed)] {
        let key = entry.key.load(Acquire);
        if key > BEING_WRITTEN {
            // SAFETY: plain data; the copy counts only where the entry is still the same.
            let block = unsafe { std::ptr::read_volatile(entry.block.get()) };
            std::sync::atomic::fence(Acquire);
            if entry.key.load(Relaxed) == key {
                take(block);
            }
        }
    }
}

/// How many blocks [`BigBlocks`] names.
const NAMED: usize = 8;

/// The register at one moment.
#[derive(Clone, Copy, Debug)]
pub struct BigBlocks {
    /// How many blocks there were.
    pub blocks: u64,
    /// Their usable bytes.
    pub bytes: u64,
    /// The largest, largest first.
    pub largest: [Option<BigBlock>; NAMED],
    /// When it was: seconds of the monotonic clock.
    pub at: f64,
}

impl BigBlocks {
    /// None.
    pub const NONE: BigBlocks = BigBlocks {
        blocks: 0,
        bytes: 0,
        largest: [None; NAMED],
        at: 0.0,
    };

    /// Counts a block, and puts it where its size belongs; the smallest falls out.
    fn add(&mut self, block: BigBlock) {
        self.blocks += 1;
        self.bytes += block.bytes;
        let size = |block: &Option<BigBlock>| block.map_or(0, |block| block.bytes);
        let mut known = self.largest.iter();
        if let Some(place) = known.position(|known| size(known) < block.bytes) {
            self.largest[place..].rotate_right(1);
            self.largest[place] = Some(block);
        }
    }
}

/// The blocks of this moment. Any thread, also in a signal handler.
pub fn big_blocks() -> BigBlocks {
    let mut found = BigBlocks {
        at: now(),
        ..BigBlocks::NONE
    };
    each(|block| found.add(block));
    found
}

/// The `N` largest blocks of an account, largest first.
pub fn largest<const N: usize>(account: Account) -> [Option<BigBlock>; N] {
    let mut found = [None; N];
    each(|block| {
        let is_larger = |known: &Option<BigBlock>| known.is_none_or(|it| it.bytes < block.bytes);
        if block.account == account
            && let Some(place) = found.iter().position(is_larger)
        {
            found[place..].rotate_right(1);
            found[place] = Some(block);
        }
    });
    found
}

/// How many blocks the register had no room for so far.
pub fn left_out() -> u64 {
    LEFT_OUT.load(Relaxed)
}
