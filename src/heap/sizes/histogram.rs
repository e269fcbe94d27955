//! The live blocks of each account by size class, and what the pages of each class hold.
//!
//! A walk over all pages ([`crate::mimalloc::pages`]) on demand, with the gate closed; blocks that were
//! guarded count as a page each. From any thread, but not inside the allocator and not in a signal
//! handler: it waits for the threads that are in a slow path. Nothing is allocated.

use crate::checks::{checked_blocks, guards};
use crate::host::host;
use crate::ledger::{ACCOUNTS, Account};
use crate::mimalloc::pages::{self, PageView};
use crate::{alone, counts, mimalloc::internal_blocks, tensorflow::pool};
use pyhost_os::{mapping::Mapped, zeros_are_valid};

/// Classes of an account at most: mimalloc has 101 sizes of blocks that share a page, and those that
/// have one to themselves are put together by [`class_of_single`], 4 classes a doubling.
const MOST: usize = 101 + 4 * 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeClass {
    /// Usable bytes of a block; of the largest in the class, if blocks have a page each.
    pub block_bytes: u64,
    pub live_blocks: u64,
    /// Their usable bytes.
    pub live_bytes: u64,
    /// Bytes of all blocks, live or free, that the pages of the class have made.
    pub capacity_bytes: u64,
}

/// The classes of one account, by ascending size.
pub struct Classes {
    entries: [SizeClass; MOST],
    length: usize,
}

impl Classes {
    const EMPTY: Classes = Classes {
        entries: [SizeClass {
            block_bytes: 0,
            live_blocks: 0,
            live_bytes: 0,
            capacity_bytes: 0,
        }; MOST],
        length: 0,
    };

    /// Those that have any page.
    pub fn entries(&self) -> &[SizeClass] {
        &self.entries[..self.length]
    }

    /// The part of the pages' blocks that is not live, from 0 to 1; 0 for an empty heap.
    pub fn fragmentation(&self) -> f64 {
        let sum = |bytes: fn(&SizeClass) -> u64| self.entries().iter().map(bytes).sum::<u64>();
        match sum(|class| class.capacity_bytes) {
            0 => 0.0,
            capacity => 1.0 - sum(|class| class.live_bytes) as f64 / capacity as f64,
        }
    }

    fn place_of(&self, block_bytes: u64) -> Result<usize, usize> {
        (self.entries()).binary_search_by_key(&block_bytes, |known| known.block_bytes)
    }

    fn add(&mut self, class: SizeClass) {
        let place = match self.place_of(class.block_bytes) {
            Ok(place) => place,
            Err(place) if self.length < MOST => {
                self.entries[place..=self.length].rotate_right(1);
                self.length += 1;
                self.entries[place] = SizeClass {
                    block_bytes: class.block_bytes,
                    ..SizeClass::default()
                };
                place
            }
            // There are not so many: see `MOST`.
            Err(place) => place.min(MOST - 1),
        };
        let known = &mut self.entries[place];
        known.live_blocks += class.live_blocks;
        known.live_bytes += class.live_bytes;
        known.capacity_bytes += class.capacity_bytes;
    }

    /// Takes a block of `bytes` out of the live ones of a class, and `capacity_bytes` out of what the class holds.
    fn remove(&mut self, block_bytes: u64, bytes: u64, capacity_bytes: u64) {
        if let Ok(place) = self.place_of(block_bytes) {
            let known = &mut self.entries[place];
            known.live_blocks = known.live_blocks.saturating_sub(1);
            known.live_bytes = known.live_bytes.saturating_sub(bytes);
            known.capacity_bytes = known.capacity_bytes.saturating_sub(capacity_bytes);
        }
    }
}

/// One histogram, in a mapping that goes with it.
pub type Taken = Mapped<Histogram>;

/// The classes of every account.
pub struct Histogram {
    accounts: [Classes; ACCOUNTS],
}

impl Histogram {
    /// No classes yet.
    pub const EMPTY: Self = Histogram {
        accounts: [const { Classes::EMPTY }; ACCOUNTS],
    };

    /// The classes of this moment, in a mapping of their own: a thread's stack may be too small, and a
    /// block of `native` would be among what is counted. None if there is no memory.
    pub fn taken() -> Option<Taken> {
        let mut taken: Taken = Mapped::private(1)?;
        taken[0].take();
        Some(taken)
    }

    pub fn of(&self, account: Account) -> &Classes {
        &self.accounts[account as usize]
    }

    /// Takes the classes of this moment, in place of those of before.
    pub fn take(&mut self) {
        alone(|closed| {
            for classes in &mut self.accounts {
                classes.length = 0;
            }
            let mut add = |page: &PageView| {
                let block_bytes = class_of(page.block_bytes, page.reserved_blocks == 1);
                if !counts(page.account) {
                    return; // as the ledger
                }
                self.accounts[page.account as usize].add(SizeClass {
                    block_bytes,
                    live_blocks: page.live_blocks,
                    live_bytes: page.live_bytes(),
                    capacity_bytes: page.capacity_bytes(),
                });
            };
            pages::each(closed, &mut add);
            host().inspect(|host| (host.objects)(&mut add));
            if counts(Account::Native) {
                let native = &mut self.accounts[Account::Native as usize];
                internal_blocks::each(closed, |bytes, is_single| {
                    native.remove(class_of(bytes, is_single), bytes, bytes)
                });
            }
            let mut is_free = |page: &PageView| {
                let class = class_of(page.block_bytes, page.reserved_blocks == 1);
                self.accounts[page.account as usize].remove(class, page.block_bytes, 0);
            };
            pool::each_kept(closed, &mut is_free);
            checked_blocks::each_waiting(closed, &mut is_free);
            guards::visit(|block| {
                let bytes = block.charged() as u64;
                self.accounts[block.account() as usize].add(SizeClass {
                    block_bytes: class_of_single(bytes),
                    live_blocks: 1,
                    live_bytes: bytes,
                    capacity_bytes: bytes,
                });
            });
        });
    }
}

zeros_are_valid!(SizeClass: block_bytes, live_blocks, live_bytes, capacity_bytes);
zeros_are_valid!(Classes: entries, length);
zeros_are_valid!(Histogram: accounts);

fn class_of(bytes: u64, is_single: bool) -> u64 {
    match is_single {
        true => class_of_single(bytes),
        false => bytes,
    }
}

/// The class of a block with a page to itself: the next of 4 sizes a doubling.
fn class_of_single(bytes: u64) -> u64 {
    let doubling = bytes.max(4).ilog2();
    bytes.next_multiple_of(1 << (doubling - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_blocks_have_four_classes_a_doubling() {
        for (bytes, class) in [
            (4096, 4096),
            (4097, 5120),
            (5120, 5120),
            (8191, 8192),
            (700_000, 786_432),
            (1 << 30, 1 << 30),
            ((1 << 30) + 1, 5 << 28),
        ] {
            assert_eq!(class_of_single(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn classes_are_ascending_and_sum_up() {
        let mut classes = Classes::EMPTY;
        for (block_bytes, live_blocks) in [(64, 3), (16, 1), (64, 2), (32, 0)] {
            classes.add(SizeClass {
                block_bytes,
                live_blocks,
                live_bytes: live_blocks * block_bytes,
                capacity_bytes: 10 * block_bytes,
            });
        }
        let sizes: Vec<u64> = classes.entries().iter().map(|c| c.block_bytes).collect();
        assert_eq!(sizes, [16, 32, 64]);
        assert_eq!(classes.entries()[2].live_blocks, 5);
        assert_eq!(classes.entries()[2].capacity_bytes, 1280);
        let fragmentation = classes.fragmentation();
        assert!((fragmentation - (1.0 - 336.0 / 1760.0)).abs() < 1e-9);
        assert_eq!(Classes::EMPTY.fragmentation(), 0.0);
    }
}
