//! The process's own header and ledger: static memory whose pages hold nothing else, so that a file can be
//! mapped over them with any size of page.
//!
//! The record is always the end of that file. Before it are the bytes from the start of the header's page to
//! the header; with pages of 4 KiB there are no such bytes.

#![deny(unsafe_code)]

use crate::layout::{UNIT, Zeros};
use crate::{Ledger, header::Header};
use std::{ops::Range, sync::atomic::AtomicU64};

/// Bytes of a record: the header, then the ledger.
pub const SIZE: usize = size_of::<Header>() + size_of::<Ledger>();

/// The largest page of a machine that a file can be mapped on.
pub const LARGEST_PAGE: usize = 64 << 10;

/// Bytes that nobody uses: what a page may hold beside a whole number of units.
type Unused = [AtomicU64; (LARGEST_PAGE - UNIT) / 8];

/// The header and the ledger, with room for the rest of the first and of the last page.
#[repr(C)]
struct Own {
    _before: Unused,
    header: Header,
    ledger: Ledger,
    _after: Unused,
}

static OWN: Own = Own {
    _before: Zeros::ZEROS,
    header: Zeros::ZEROS,
    ledger: Zeros::ZEROS,
    _after: Zeros::ZEROS,
};

/// Makes the zeros that the process begins with its header and its ledger. Before the first ceiling and the first
/// slot, by the only thread, once.
pub fn open() {
    OWN.header.open();
    OWN.ledger.open();
}

pub const HEADER: &Header = &OWN.header;

pub const LEDGER: &Ledger = &OWN.ledger;

pub fn addresses() -> Range<usize> {
    let start = (&raw const OWN.header).addr();
    start..start + SIZE
}

/// The addresses of the pages of `page` bytes that hold the header and the ledger, and nothing else;
/// `None` if a page is larger than [`LARGEST_PAGE`].
pub fn pages(page: usize) -> Option<Range<usize>> {
    let own = addresses();
    let is_possible = page.is_power_of_two() && (UNIT..=LARGEST_PAGE).contains(&page);
    is_possible.then(|| own.start & !(page - 1)..own.end.next_multiple_of(page))
}

/// Where the ledger lies in the bytes of a record.
pub const LEDGER_AT: usize = size_of::<Header>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_the_record_hold_nothing_else_whatever_their_size() {
        let (first, last) = (&raw const OWN, (&raw const OWN).wrapping_add(1));
        for page in [4 << 10, 8 << 10, 16 << 10, 64 << 10] {
            let pages = pages(page).unwrap();
            assert!(first.addr() <= pages.start && pages.end <= last.addr());
            assert!(pages.start <= addresses().start && addresses().end <= pages.end);
            assert!(pages.start.is_multiple_of(page) && pages.end.is_multiple_of(page));
        }
        assert!(pages(128 << 10).is_none());
    }
}
