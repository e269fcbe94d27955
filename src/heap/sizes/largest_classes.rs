//! The size classes that live blocks take most: read off the heaps' pages, while other threads go
//! on. No page is collected, so that the blocks of a page that another thread is freeing may be a
//! few too many. Inside the allocator too: nothing is allocated, and the gate is not closed.

use crate::mimalloc::pages::{self, PageView};
use crate::{counts, host::host, ledger::Account};

/// The live blocks of one size in one account.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub account: Account,
    pub block_bytes: u64,
    pub blocks: u64,
}

impl Class {
    pub fn bytes(&self) -> u64 {
        self.block_bytes * self.blocks
    }
}

/// Sizes of blocks that are counted separately in an account. Blocks that share a page have 101 sizes; each larger one has a page
/// of its own.
const SIZES: usize = 128;

/// The classes whose live blocks take the most bytes, over all accounts, largest first.
pub fn largest<const N: usize>() -> [Option<Class>; N] {
    let mut largest = [None; N];
    for account in Account::WITH_BLOCKS {
        if !counts(account) {
            continue;
        }
        let mut sizes = [(0, 0); SIZES];
        let mut add = |size, used| {
            let mut places = sizes.iter_mut();
            if let Some(place) = places.find(|(known, _)| *known == size || *known == 0) {
                *place = (size, place.1 + used);
            }
        };
        pages::each_used(account, &mut add);
        if account == Account::Obj {
            let mut add = |page: &PageView| add(page.block_bytes, page.live_blocks);
            host().inspect(|host| (host.objects)(&mut add));
        }
        for (block_bytes, blocks) in sizes {
            let class = Class {
                account,
                block_bytes,
                blocks,
            };
            insert(&mut largest, class, Class::bytes);
        }
    }
    largest
}

/// Puts one of those with the most `bytes` where its own belong; the smallest falls out.
pub fn insert<T>(largest: &mut [Option<T>], one: T, bytes: impl Fn(&T) -> u64) {
    let own = bytes(&one);
    let is_smaller = |known: &Option<T>| known.as_ref().map_or(0, &bytes) < own;
    if let Some(place) = largest.iter().position(is_smaller) {
        largest[place..].rotate_right(1);
        largest[place] = Some(one);
    }
}
