//! A walk over the live blocks of a heap: the oracle that the ledger is checked against.

use crate::checks::{checked_blocks, guards};
use crate::mimalloc::heaps::{self, HEAPS};
use crate::mimalloc::live_blocks::{self, LiveBlock};
use crate::{alone, ledger::Account};
use std::sync::atomic::Ordering::Acquire;

/// The findings of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkedHeap {
    /// Live blocks.
    pub blocks: u64,
    /// Their usable bytes.
    pub bytes: u64,
}

/// Counts the live blocks of an account's heap, from mimalloc's own pages and free lists, and its
/// guarded blocks; None for an account without a heap of its own.
///
/// The gate is closed meanwhile, so that a thread that is just ending does not give its pages up
/// while they are visited. Right only while no other thread allocates or frees in this heap.
pub fn walk(account: Account) -> Option<WalkedHeap> {
    let heap = HEAPS.own[account as usize].load(Acquire);
    if heap.is_null() || account == Account::Native {
        return None;
    }
    let mut found = WalkedHeap::default();
    alone(|closed| {
        for heap in heaps::all_of(account) {
            let mut count = |block: LiveBlock<'_>| {
                // Free blocks that a heap keeps are booked to no account.
                if checked_blocks::asked(&block).is_some() {
                    found.blocks += 1;
                    found.bytes += block.size as u64;
                }
            };
            live_blocks::visit(closed, heap, &mut count, &mut |_| {});
        }
        guards::visit(|block| {
            if block.account() == account {
                found.blocks += 1;
                found.bytes += block.charged() as u64;
            }
        });
    });
    Some(found)
}
