//! The dossier of a shortage's first refusal: gathers it, keeps it for the report, and writes it to standard error.
//!
//! This runs inside the allocator, on any thread: the dossier is static memory, and nothing is allocated.

use super::dossier::{self, Dossier};
use super::lines;
use crate::descriptor::{Descriptor, format_into, notice};
use crate::heap::{big_blocks, largest_classes, region};
use crate::ledger::{Account, HEADER, LEDGER};
use crate::limit::caps::Refusal;
use crate::observe::timeline::brief;
use pyhost_os::cell::Latest;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many dossiers are written to standard error.
const MOST_WRITTEN: u32 = 10;

pyhost_os::state! {
    /// The dossiers so far.
    static STATE: Dossiers {
        latest: Latest<Dossier> = Latest::new(),
        written: AtomicU32 = AtomicU32::new(0),
    }
}

/// The dossier of the latest shortage. Any thread, also from a signal handler.
pub(super) fn latest() -> Option<Dossier> {
    STATE.latest.get()
}

/// Keeps and shows what surrounds the first refusal of a shortage. Called by the caps, inside the allocator.
#[cold]
pub fn first_refusal(refusal: &Refusal) {
    let dossier = Dossier {
        refusal: *refusal,
        snapshot: LEDGER.snapshot(),
        big_blocks: big_blocks::big_blocks(),
        classes: largest_classes::largest(),
    };
    STATE.latest.set(&dossier);
    let mut room = [0; 512];
    let text = format_into(&mut room, format_args!("{refusal}"));
    HEADER.set_refusal(std::str::from_utf8(text).unwrap_or_default());
    brief::write_refusal();
    write(&dossier);
}

fn write(dossier: &Dossier) {
    let number = STATE.written.fetch_add(1, Relaxed);
    if number < MOST_WRITTEN {
        let mut out = Descriptor::new(libc::STDERR_FILENO);
        let region = match dossier.refusal.account {
            Account::Numpy => region::bins(),
            _ => None,
        };
        let _ = dossier::dossier(dossier, region.as_ref(), &mut out);
        let _ = lines::lines_of_dossier(&mut out);
        out.flush();
    } else if number == MOST_WRITTEN {
        notice(format_args!(
            "further dossiers are left to pyhost.last_refusal() and the report"
        ));
    }
}
