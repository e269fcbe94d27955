//! Files of `src` as they are, over loom's atomics and threads: see [`beneath`].

#![allow(dead_code, unused_imports)]

#[macro_use]
extern crate beneath as std;
extern crate beneath as pyhost_os;

pub use beneath::system_call::membarrier;
pub use beneath::thread::{spawn, yield_now};
pub use beneath::{loom, model, model_to, quiet};
pub use gate::register;
pub use std::sync::atomic::AtomicU64;

#[path = "../src/os/cell.rs"]
pub mod cell;

/// Cells are taken in a forked child.
mod forks {
    pub use pyhost_os::forks::Child;
}

#[path = "../src/ledger/account.rs"]
mod account;
#[path = "../src/ledger/booking.rs"]
mod booking;
#[path = "../src/ledger/caps.rs"]
mod caps;
#[path = "../src/ledger/ceiling.rs"]
mod ceiling;
#[path = "../src/ledger/layout.rs"]
mod layout;
#[path = "../src/ledger/mapped.rs"]
mod mapped;
#[path = "../src/ledger/segment.rs"]
mod segment;
#[path = "../src/ledger/shared.rs"]
mod shared;
#[path = "../src/ledger/slot.rs"]
mod slot;
#[path = "../src/ledger/snapshot.rs"]
mod snapshot;

pub use account::{ACCOUNTS, Account, REPORTED};
pub use booking::Gils;
pub use ceiling::{Reach, Scope};
pub use shared::Ledger;
pub use slot::Slot;

/// Noting a peak asks the kernel, which is no part of a model.
mod resident {
    pub(crate) fn keep() {}
}

#[path = "../src/heap/mimalloc/gate.rs"]
pub mod gate;

#[path = "../src/host/limit/caps/shares.rs"]
pub mod shares;

/// The process's ledger.
pub mod ledger {
    use crate::layout::Zeros;
    pub use crate::{Account, Ledger, Slot, quiet};

    static OWN: Ledger = Ledger::ZEROS;
    pub const LEDGER: &Ledger = &OWN;

    /// Opens it, for threads that use the first `slots` slots, the overflow slot, and these accounts.
    pub fn open(slots: usize, accounts: &[Account]) {
        LEDGER.open();
        LEDGER.slots[slots..].iter().for_each(quiet);
        for account in Account::ALL.iter().filter(|it| !accounts.contains(it)) {
            quiet(&LEDGER.accounts[*account as usize]);
            LEDGER.slots().for_each(|slot| quiet(slot.cell(*account)));
        }
    }
}
