//! The samples of maps, which follow what becomes of a map: each range of the table knows its sample, and a sample stands
//! for the bytes of its ranges that count.
//!
//! A sample is taken out before the call that may give its addresses to another thread, and put back behind it with what is
//! left. The samples have a lock of their own, which must not be waited for under that of the table.

use super::{lock::with_table, table::Table};
use crate::heap::sampling::{self, Taken};
use crate::ledger::Account;
use pyhost_os::mmap_vec::MmapVec;
use std::{ops::Range, ptr::without_provenance_mut as at};

/// A sample of which a part may change.
#[derive(Clone, Copy)]
struct Part {
    /// Its name: the first address that counts.
    sample: usize,
    taken: Option<Taken>,
    before: usize,
    /// The first address after the change, and the bytes.
    after: (usize, usize),
}

/// The samples in the addresses that a call changes.
pub struct Followed(MmapVec<Part>);

impl Followed {
    /// Takes the samples out that have a part in one of the places. Without memory for them they stay as they are.
    pub fn within(places: [Range<usize>; 2]) -> Self {
        let mut parts: MmapVec<Part> = MmapVec::new();
        if sampling::has_lines_on() {
            with_table(|table| {
                for place in places {
                    table.each_sample(place.start, place.end, |sample| {
                        if parts.iter().all(|part| part.sample != sample) {
                            let after = table.extent_of(sample);
                            parts.push(Part {
                                sample,
                                taken: None,
                                before: after.1,
                                after,
                            });
                        }
                    });
                }
            });
        }
        for part in parts.iter_mut() {
            part.taken = sampling::take_out(Account::Mapped, at(part.sample));
        }
        Followed(parts)
    }

    /// Looks what is left of them.
    pub fn look(&mut self, table: &mut Table<'_>) {
        for part in self.0.iter_mut() {
            part.after = table.extent_of(part.sample);
            if part.after.0 != part.sample {
                table.rename_sample(0, usize::MAX, part.sample, part.after.0);
            }
        }
    }

    /// Puts the samples back, which stand for what is left; what a map has grown by is drawn for.
    pub fn put_back(self) {
        for part in self.0.iter().filter(|part| part.after.1 > 0) {
            let (first, bytes) = part.after;
            sampling::resized(Account::Mapped, at(first), part.taken, part.before, bytes);
        }
    }
}

/// Draws for `bytes` that have come to count in a place. No sample begins where the place does.
pub fn begin(place: Range<usize>, bytes: usize) {
    if sampling::has_lines_on() && sampling::booked(Account::Mapped, at(place.start), bytes) {
        with_table(|table| table.rename_sample(place.start, place.end, 0, place.start));
    }
}
