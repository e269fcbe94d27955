//! The register of big blocks: every live block of a mebibyte and more, with the time and the line
//! of Python of its allocation.
//!
//! Such blocks are rare and always take the slow path, so the register is always on. A table in
//! static memory that is filled from its beginning; the thread that takes an entry writes its key last, and a
//! reader leaves out what is changed meanwhile. Any thread, inside the gate; nothing is allocated.

use crate::{call_site::source_line::SourceLine, ledger::Account, sizes::largest_classes::insert};
use pyhost_os::{cell::Exclusive, clock::monotonic_coarse};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// From this size on a block is big.
pub const BIG: usize = 1 << 20;

/// How many blocks the register holds; more are counted alone.
const ENTRIES: usize = 8192;

#[derive(Clone, Copy, Debug)]
pub struct BigBlock {
    pub account: Account,
    /// Its usable bytes.
    pub bytes: u64,
    /// When it was made: seconds of the monotonic clock.
    pub made: f64,
    pub source: SourceLine,
}

impl BigBlock {
    /// All zeros, so that a table of them takes no room in the file.
    const NONE: BigBlock = BigBlock {
        account: Account::ALL[0],
        bytes: 0,
        made: 0.0,
        source: SourceLine::NONE,
    };

    /// Seconds since it was made.
    pub fn age(&self) -> f64 {
        now() - self.made
    }
}

struct Entry {
    /// The block's key, while the block may be read; 0 is free, 1 is being written.
    key: AtomicUsize,
    block: Exclusive<BigBlock>,
}

const BEING_WRITTEN: usize = 1;

pyhost_os::state! {
    static STATE: BigBlockTable {
        table: [Entry; ENTRIES] = [const {
            Entry {
                key: AtomicUsize::new(0),
                block: Exclusive::new(BigBlock::NONE),
            }
        }; ENTRIES],
        /// One past the highest entry that was ever taken.
        used: AtomicUsize = AtomicUsize::new(0),
        /// Blocks for which there was no room.
        left_out: AtomicU64 = AtomicU64::new(0),
    }
}

/// Seconds of the monotonic clock, read cheaply.
pub fn now() -> f64 {
    monotonic_coarse() as f64 / 1e9
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
    for (index, entry) in STATE.table.iter().enumerate() {
        let take = || (entry.key).compare_exchange(0, BEING_WRITTEN, Acquire, Relaxed);
        if entry.key.load(Relaxed) == 0 && take().is_ok() {
            STATE.used.fetch_max(index + 1, Relaxed);
            if let Some(mut place) = entry.block.hold() {
                *place = block;
                return entry.key.store(key, Release);
            }
            // Whoever reads it is a thread of the process that this one was forked from: the next one will do.
            entry.key.store(0, Relaxed);
        }
    }
    STATE.left_out.fetch_add(1, Relaxed);
}

fn entry_of(address: usize) -> Option<&'static Entry> {
    let key = key_of(address);
    let mut used = STATE.table[..STATE.used.load(Relaxed)].iter();
    used.find(|entry| entry.key.load(Relaxed) == key)
}

#[cold]
pub fn remove(address: usize) {
    if let Some(entry) = entry_of(address) {
        entry.key.store(0, Release);
    }
}

/// Notes that the block of `address` has `bytes` now; whether it is there.
#[cold]
pub fn resized(address: usize, bytes: usize) -> bool {
    let entry = entry_of(address);
    if let Some(mut block) = entry.and_then(|entry| entry.block.hold()) {
        block.bytes = bytes as u64;
    }
    entry.is_some()
}

/// Gives every block of the register to `take`, in no order.
pub fn each(mut take: impl FnMut(BigBlock)) {
    for entry in &STATE.table[..STATE.used.load(Relaxed)] {
        let key = entry.key.load(Acquire);
        if key > BEING_WRITTEN {
            let block = entry.block.hold().map(|block| *block);
            if let Some(block) = block.filter(|_| entry.key.load(Acquire) == key) {
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

/// The blocks of this moment. Any thread, also in a signal handler.
pub fn big_blocks() -> BigBlocks {
    let mut found = BigBlocks {
        blocks: 0,
        bytes: 0,
        largest: [None; NAMED],
        at: now(),
    };
    each(|block| {
        found.blocks += 1;
        found.bytes += block.bytes;
        insert(&mut found.largest, block, |block| block.bytes);
    });
    found
}

/// The `N` largest blocks of an account, largest first.
pub fn largest<const N: usize>(account: Account) -> [Option<BigBlock>; N] {
    let mut found = [None; N];
    each(|block| {
        if block.account == account {
            insert(&mut found, block, |block| block.bytes);
        }
    });
    found
}

/// How many blocks the register had no room for so far.
pub fn left_out() -> u64 {
    STATE.left_out.load(Relaxed)
}
