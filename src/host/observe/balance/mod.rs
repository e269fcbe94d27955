//! The balance sheet: the resident size of this moment, explained row by row.
//!
//! `/proc/self/smaps` says what is resident of each mapping. A mapping with one owner counts for that row as it is. One
//! that the heaps share with others is looked at by memory pages (`/proc/self/pagemap`): each run of them belongs to a
//! page of some heap, to an arena's description, to what is known by its address, or to nobody. What is resident of a
//! heap's page is split in proportion: live blocks to blocks that the page has made. Every byte counts once, so the
//! rows and the remainder sum up to the resident size.
//!
//! [`take`] runs on any thread outside the allocator and outside signal handlers. It closes the heap's gate, so that no
//! page of a heap comes or goes; it allocates nothing meanwhile, and before only for the chunks of a `bfc` region.

mod claims;
mod libraries;
mod objects;
mod quick;
mod rows;
mod scratch;

pub use libraries::Libraries;
pub use quick::{QuickBalance, quick};
pub use rows::{Balance, LIBRARIES, Library, ROWS, Row};

use crate::cpython::IS_FREE_THREADED;
use crate::heap::pages::{self, Arena, PageView, SLICE, SUBMAP_SPAN};
use crate::heap::{self, guards, internal_blocks, pool, region, sampling};
use crate::ledger::{Account, LEDGER};
use crate::process::maps::{self, Mapping, PageMap};
use crate::{heap::gate::Closed, libc_exports::native::mapped};
use arrayvec::ArrayVec;
use claims::Unclaimed;
use pyhost_os::{file::read_link, mapping::page_size, mmap_vec::Array};
use scratch::{Extent, Owner, Parts, Scratch, add};
use std::ops::Range;

/// Arenas of mimalloc at most (`MI_MAX_ARENAS`).
const ARENAS: usize = 160;

/// Whose a run of addresses is.
#[derive(Clone, Copy, Debug)]
enum Part {
    Row(Row),
    Account(Account),
    Library(usize),
    Page(PageView),
    Nobody,
}

/// The balance of this moment; `None` if the kernel does not say which pages are resident.
pub fn take() -> Option<Balance> {
    let page = page_size() as usize;
    let mut scratch = Scratch::new()?;
    let own = scratch.addresses();
    let mut parts = scratch.parts();
    let extents = &mut parts.extents;
    let executable = objects::add_loaded(extents, page);
    objects::add_signal_stack(extents, page);
    let tables = [own].into_iter().chain(guards::table());
    let tables = tables.chain(mapped::memory());
    for table in tables.chain(region::tables().into_iter().flatten()) {
        add(extents, table, Owner::Row(Row::HostTables), page);
    }
    if let Some((map, chunks)) = region::map() {
        let chunks = chunks.unwrap_or_default();
        match chunks.len() < extents.room() / 2 {
            true => objects::add_chunks(extents, &chunks, page),
            false => {
                let start = chunks.first().map_or(0, |chunk| chunk.address);
                let end = start + map.statistics.reserved_bytes as usize;
                add(extents, start..end, Owner::Account(Account::Numpy), page);
            }
        }
    }
    sampling::each_mapping(|table| add(extents, table, Owner::Row(Row::HostTables), page));
    let mut libraries = Libraries::look();
    libraries.add_to(extents);
    let default_stack = crate::process::default_stack();
    heap::alone(|closed| {
        look(
            closed,
            parts,
            executable,
            default_stack,
            libraries.all,
            page,
        )
    })
}

fn look(
    closed: &Closed,
    mut parts: Parts<'_>,
    executable: Range<usize>,
    default_stack: (usize, usize),
    libraries: [Library; LIBRARIES],
    page: usize,
) -> Option<Balance> {
    let row = Owner::Row(Row::HeapOwn);
    pages::each_part_of_map(|part| add(&mut parts.extents, part, row, page));
    let mut arenas = ArrayVec::<Arena, ARENAS>::new();
    pages::each_arena(|arena| {
        let _ = arenas.try_push(arena);
    });
    pages::each_thread(closed, |thread| parts.threads.extend([thread]));
    let extents = &mut *parts.extents;
    extents.sort_unstable_by_key(|extent| extent.start);
    let mut own_path = [0; libc::PATH_MAX as usize];
    let own_path = read_link(c"/proc/self/exe", &mut own_path).unwrap_or_default();
    let mut sheet = Sheet {
        closed,
        extents,
        arenas: &arenas,
        threads: &parts.threads,
        executable,
        own_path,
        default_stack,
        page,
        latest: None,
        guard: 0..0,
        pagemap: PageMap::open(parts.entries),
        balance: Balance::of(libraries),
        is_whole: true,
        unclaimed: parts.unclaimed,
        data: parts.data,
    };
    maps::each(parts.text, |mapping| sheet.add(mapping))?;
    let claimed = claims::claimed(&mut sheet.unclaimed, &sheet.data, parts.text, page);
    sheet.balance.add(Row::LibraryMaps, claimed);
    limit_accounts(closed, &mut sheet.balance);
    crate::resident::note(sheet.balance.resident);
    sheet.is_whole.then_some(sheet.balance)
}

/// Leaves each account what is live of it at most: what the heaps hold beyond that is mimalloc's own, kept, or slack.
fn limit_accounts(closed: &Closed, balance: &mut Balance) {
    let mut own = 0;
    internal_blocks::each(closed, |bytes, _| own += bytes);
    let mut kept = 0;
    pool::each_kept(closed, |page| kept += page.block_bytes);
    for (account, figures) in LEDGER.snapshot().accounts() {
        let beyond = match account {
            Account::Native => (Row::HeapOwn, own),
            Account::Numpy => (Row::HeapKept, kept),
            Account::Mapped => (Row::LibraryMaps, u64::MAX),
            Account::Obj if IS_FREE_THREADED => (Row::PythonArena, u64::MAX),
            _ => (Row::HeapSlack, 0),
        };
        balance.limit(account, figures.live_bytes, beyond);
    }
}

struct Sheet<'a> {
    closed: &'a Closed,
    /// Sorted, without overlaps.
    extents: &'a [Extent],
    arenas: &'a [Arena],
    threads: &'a [usize],
    executable: Range<usize>,
    own_path: &'a [u8],
    /// Bytes of a stack with its guard, and of the guard.
    default_stack: (usize, usize),
    page: usize,
    /// The heap's page that was found last: a later mapping may hold the rest of it.
    latest: Option<PageView>,
    /// The closed memory right before, if there is any.
    guard: Range<usize>,
    pagemap: Option<PageMap<'a>>,
    balance: Balance,
    /// Nothing was asked in vain.
    is_whole: bool,
    /// Memory without a known owner.
    unclaimed: Array<'a, Unclaimed>,
    /// Libraries' writable data, which may point there.
    data: Array<'a, Range<usize>>,
}

impl Sheet<'_> {
    fn add(&mut self, mapping: &Mapping<'_>) {
        self.balance.resident += mapping.resident;
        // Where all memory may run, a heap's may be written, too.
        let is_nameless = mapping.name.is_empty() || mapping.name.starts_with(b"[anon:");
        let is_anonymous = is_nameless && (mapping.writable || !mapping.executable);
        if mapping.resident > 0 {
            match is_anonymous {
                true => {
                    let before = self.balance.explained();
                    let nobodys = self.add_anonymous(mapping);
                    let rest = (mapping.resident + before).saturating_sub(self.balance.explained());
                    claims::note(&mut self.unclaimed, nobodys, rest);
                }
                false => {
                    let row = self.row_of_named(mapping);
                    self.balance.add(row, mapping.resident);
                    if mapping.writable && is_library(row) {
                        self.data.push(mapping.start..mapping.end);
                    }
                }
            }
        }
        self.guard = match is_anonymous && !mapping.readable && !mapping.writable {
            true => mapping.start..mapping.end,
            false => 0..0,
        };
    }

    fn row_of_named(&self, mapping: &Mapping<'_>) -> Row {
        match mapping.name {
            b"[heap]" => Row::Brk,
            b"[stack]" => Row::MainStack,
            name if name.is_empty() || name.starts_with(b"[anon:") => Row::JitCode,
            name if name.starts_with(b"[anon_shmem") => Row::Shared,
            name if name.starts_with(b"[") => Row::Kernel,
            name if name == self.own_path => Row::Executable,
            // The file of `--live`, which is mapped over the ledger.
            _ if self.executable.contains(&mapping.start) => Row::HostTables,
            name => rows::row_of(name),
        }
    }

    /// Adds a mapping without a name; where the first part of it begins that nobody owns.
    fn add_anonymous(&mut self, mapping: &Mapping<'_>) -> usize {
        let stack_end = self.stack_end(mapping);
        let (part, end) = self.part_at(mapping.start, mapping.end, stack_end);
        if end >= mapping.end {
            self.note_data(part, mapping.start..end);
            book(&mut self.balance, part, mapping.resident);
            return mapping.start;
        }
        let mut nobodys = mapping.end;
        let (mut own, mut own_bytes) = (Balance::EMPTY, 0);
        let (mut shared, mut shared_bytes) = (Balance::EMPTY, 0);
        let mut address = mapping.start;
        while address < mapping.end {
            let (part, end) = self.part_at(address, mapping.end, stack_end);
            self.note_data(part, address..end);
            if matches!(part, Part::Nobody) {
                nobodys = nobodys.min(address);
            }
            let Some(pagemap) = &mut self.pagemap else {
                self.is_whole = false;
                return nobodys;
            };
            let present = pagemap.count(address, end);
            let bytes = |pages: u64| pages * self.page as u64;
            own_bytes += bytes(present.own);
            shared_bytes += bytes(present.shared);
            book(&mut own, part, bytes(present.own));
            book(&mut shared, part, bytes(present.shared));
            address = end;
        }
        // Of the pages that are not the process's alone some may be pages of zeroes, which are not
        // resident: it is not known which.
        let of_own = mapping.resident.min(own_bytes);
        let of_shared = (mapping.resident - of_own).min(shared_bytes);
        self.balance.add_part(&own, of_own, own_bytes);
        self.balance.add_part(&shared, of_shared, shared_bytes);
        nobodys
    }

    /// Notes the zeroed data of a library.
    fn note_data(&mut self, part: Part, addresses: Range<usize>) {
        if let Part::Row(row) = part
            && is_library(row)
        {
            self.data.push(addresses);
        }
    }

    /// The end of the stack at the start of a mapping; the mapping's start if it begins with no stack.
    ///
    /// A thread's pointer is at the upper end of its stack, in its last page. A thread that mimalloc does not know
    /// has never allocated; its stack follows closed memory, and has the default size.
    fn stack_end(&self, mapping: &Mapping<'_>) -> usize {
        let inside = |thread: &&usize| (mapping.start..mapping.end).contains(*thread);
        if let Some(&thread) = self.threads.iter().filter(inside).max() {
            let end = (thread + self.page) & !(self.page - 1);
            return end.min(mapping.end);
        }
        let (stack, guard) = self.default_stack;
        let usable = stack.saturating_sub(guard);
        let has_guard = self.guard.end == mapping.start && self.guard.len() == guard;
        let is_stack = has_guard && mapping.end - mapping.start >= usable;
        mapping.start + if is_stack { usable } else { 0 }
    }

    /// Whose the memory at `address` is, and up to where, at most `end`.
    fn part_at(&mut self, address: usize, end: usize, stack_end: usize) -> (Part, usize) {
        let mut end = end;
        let next = self.extents.partition_point(|it| it.end <= address);
        if let Some(extent) = self.extents.get(next) {
            if extent.start <= address {
                let part = match extent.row {
                    Owner::Row(row) => Part::Row(row),
                    Owner::Account(account) => Part::Account(account),
                    Owner::Library(library) => Part::Library(library),
                };
                return (part, end.min(extent.end));
            }
            end = end.min(extent.start);
        }
        if let Some(page) = self.page_at(address) {
            return self.part_of_page(page, address, end);
        }
        let slice_end = (address | (SLICE - 1)) + 1;
        for arena in self.arenas {
            if address < arena.start {
                end = end.min(arena.start);
            } else if address < arena.own_end {
                return (Part::Row(Row::HeapOwn), end.min(arena.own_end));
            } else if address < arena.end {
                let row = match pages::is_description(address) {
                    true => Row::HeapOwn,
                    false => Row::HeapKept,
                };
                return (Part::Row(row), end.min(slice_end).min(arena.end));
            }
        }
        if let Some((account, slot_end)) = guards::part_at(address) {
            let part = account.map_or(Part::Nobody, Part::Account);
            return (part, end.min(slot_end));
        }
        if address < stack_end {
            return (Part::Row(Row::ThreadStacks), end.min(stack_end));
        }
        let next = match pages::none_around(address) {
            true => (address | (SUBMAP_SPAN - 1)) + 1,
            false => slice_end,
        };
        (Part::Nobody, end.min(next))
    }

    /// The part of a heap's page that contains `address`: its description, its blocks, or the rest, if it
    /// has no blocks yet. The rest may still hold data that was freed before the page began.
    fn part_of_page(&self, page: PageView, address: usize, end: usize) -> (Part, usize) {
        let blocks = page.blocks.0 & !(self.page - 1);
        let made = page.blocks.1.next_multiple_of(self.page);
        if page.live_blocks == 0 {
            (Part::Page(page), end.min(page.addresses.1))
        } else if address < blocks {
            (Part::Row(Row::HeapOwn), end.min(blocks))
        } else if address < made {
            (Part::Page(page), end.min(made).min(page.addresses.1))
        } else {
            (Part::Row(Row::HeapSlack), end.min(page.addresses.1))
        }
    }

    fn page_at(&mut self, address: usize) -> Option<PageView> {
        let holds = |page: &PageView| (page.addresses.0..page.addresses.1).contains(&address);
        if !self.latest.as_ref().is_some_and(holds) {
            self.latest = Some(pages::beginning_at(self.closed, address)?);
        }
        self.latest.filter(holds)
    }
}

fn is_library(row: Row) -> bool {
    matches!(row, Row::Libpython | Row::Extensions | Row::Libraries)
}

/// Adds what is resident of a part to a balance.
fn book(balance: &mut Balance, part: Part, bytes: u64) {
    match part {
        Part::Row(row) => balance.add(row, bytes),
        Part::Account(account) => balance.add_account(account, bytes),
        Part::Library(library) => balance.add_library(library, bytes),
        Part::Page(page) if page.live_blocks == 0 => balance.add(Row::HeapKept, bytes),
        Part::Page(page) => {
            // Of the last memory page a part may lie behind the blocks.
            let of_blocks = bytes.min(page.capacity_bytes());
            let live = u128::from(of_blocks) * u128::from(page.live_blocks)
                / u128::from(page.capacity_blocks.max(1));
            match page.account {
                Account::Native if !heap::counts_native() => {
                    balance.add(Row::Uncounted, live as u64);
                }
                account => balance.add_account(account, live as u64),
            }
            balance.add(Row::HeapSlack, bytes - live as u64);
        }
        Part::Nobody => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_heap_is_split_by_its_live_blocks() {
        let mut page = PageView {
            account: Account::Obj,
            addresses: (0, SLICE),
            blocks: (0, 6144),
            block_bytes: 2048,
            live_blocks: 1,
            capacity_blocks: 3,
            reserved_blocks: 1024,
        };
        let mut balance = Balance::EMPTY;
        balance.resident = 4096 * 2;
        book(&mut balance, Part::Page(page), 4096);
        page.live_blocks = 0;
        book(&mut balance, Part::Page(page), 4096);
        let rows = balance.rows().map(|(name, _, bytes)| (name, bytes));
        assert!(rows.eq([("obj", 1365), ("heap_slack", 2731), ("heap_kept", 4096)]));
        assert_eq!(balance.remainder(), 0);
    }
}
