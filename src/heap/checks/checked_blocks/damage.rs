//! A look at all checked blocks, and at the guarded ones: the pads of those that live, and the fills of those in the quarantine.

use super::is_on;
use super::record::{Record, State, Written};
use crate::checks::out_of_bounds::OutOfBounds;
use crate::mimalloc::live_blocks::{self, LiveBlock};
use crate::{alone, call_site::CallSite, checks::guards, ledger::Account, mimalloc::heaps};
use derive_more::Display;

/// A block that was written to where or when nobody may.
#[derive(Display)]
pub enum Damage<'a> {
    /// Outside of the caller's bytes, of a live block.
    #[display("{_0} {_1}, overwritten")]
    OutOfBounds(OutOfBounds, &'a Record),
    /// Outside of the bytes of a live guarded block.
    #[display("{_0} {_1}, overwritten")]
    Guarded(OutOfBounds, &'a guards::Record),
    /// After it was freed.
    Freed(Written<'a>),
    /// In the host's own record before the bytes of a block.
    #[display("bytes before the start of a block of the account {} at {:p}, overwritten", _0.name(), *_1)]
    Record(Account, *const u8),
}

impl Damage<'_> {
    /// The block's allocation and its free; none if they are not known, or it lives.
    pub fn call_sites(&self) -> (CallSite, CallSite) {
        match self {
            Damage::OutOfBounds(_, record) => (record.made(), CallSite::default()),
            Damage::Guarded(_, block) => (block.made.get(), CallSite::default()),
            Damage::Freed(written) => written.call_sites(),
            Damage::Record(..) => Default::default(),
        }
    }
}

/// Calls `visit` for each damaged block. The gate is closed meanwhile, and `visit` may not allocate. The pads of CPython's debug
/// hooks are looked at only `with_hooks`: while no thread can be laying them, so with the only GIL, or after Python's end. No
/// other thread is allocating or freeing in the heaps of checked blocks, which take the slow paths.
pub fn each_damaged(with_hooks: bool, mut visit: impl FnMut(&Damage<'_>)) {
    if !is_on() && !guards::are_on() {
        return;
    }
    alone(|closed| {
        guards::each_overwritten(|block, outside| {
            visit(&Damage::Guarded(outside, block));
        });
        for account in Account::WITH_BLOCKS {
            for heap in heaps::others(account).filter(|&heap| heaps::is_checked(heap)) {
                let mut look = |block: LiveBlock<'_>| {
                    let Some(record) = Record::of(&block) else {
                        return;
                    };
                    match record.state() {
                        State::Live => {
                            let with_hooks = with_hooks && account != Account::Raw;
                            let of_hooks = || with_hooks.then(|| record.damage_of_hooks(false));
                            let outside = record.damage(block.size);
                            if let Some(outside) = outside.or_else(|| of_hooks().flatten()) {
                                visit(&Damage::OutOfBounds(outside, record));
                            }
                        }
                        State::Freed => {
                            if let Some(written) = record.damage_after_free(block.size) {
                                visit(&Damage::Freed(written));
                            }
                        }
                        // Records are laid, and blocks given back, inside the gate.
                        State::Unknown if block.is_sure => {
                            visit(&Damage::Record(account, block.start));
                        }
                        State::Gone | State::Unknown => {}
                    }
                };
                live_blocks::visit(closed, heap, &mut look, &mut |_| {});
            }
        }
    });
}
