//! The range of guarded blocks: its slots, and a record of each.
//!
//! A slot of class `k` is `2^k` pages for a block and one that stays closed. The records lie
//! outside, in memory of their own that reads as zeros ([`NEW`]) until it is used. A record's state
//! changes by compare and exchange, and only the thread that has set [`TAKEN`] changes the rest.

use crate::call_site::CallSiteCell;
use crate::ledger::Account;
use crate::mimalloc::ffi::{IS_64_BIT, SMALL_SIZE_MAX};
use derive_more::Display;
use pyhost_os::mapping::{Mapped, Mapping};
use pyhost_os::zeros_are_valid;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::{ops::Range, sync::OnceLock};

/// The range; set once.
pub static RANGE: OnceLock<GuardRange> = OnceLock::new();

/// Never used.
pub const NEW: u32 = 0;
/// A block is being made or freed here.
pub const TAKEN: u32 = 1;
/// Holds a live block.
pub const LIVE: u32 = 2;
/// Held a block, and is closed.
pub const FREED: u32 = 3;
/// Could not be closed; not used again.
pub const STUCK: u32 = 4;

/// Classes: blocks of up to 2^18 pages, 1 GiB if a page has 4 KiB. If addresses have 32 bits, of up to 16 MiB.
const CLASSES: usize = if IS_64_BIT { 19 } else { 13 };
/// Slots of a class, at most; eight times as many of one whose pages are closed by marks.
const SLOTS: usize = 32768;
/// Slots of up to 2^8 pages are closed by marks in the page tables, if the system has them. Larger ones would take too many.
const MARKED_CLASSES: usize = 9;
/// Slots that are looked at for a free one: if all of a class are taken, a request does not walk over them.
const MOST_TRIES: usize = 64;
/// Bytes of a class, at most; what exceeds the pages of one slot alone.
const CLASS_BYTES: usize = (if IS_64_BIT { 1024 } else { 4 }) << 22;

/// The record of a slot. Displays as its block, with the bytes that the program has asked for.
#[derive(Display)]
#[display(
    "a guarded block of {} bytes of the account {}{}",
    self.asked(),
    self.account().name(),
    self.made.get().after("allocated at")
)]
#[repr(C, align(64))]
pub struct Record {
    pub state: AtomicU32,
    pub account: AtomicU32,
    /// Bytes that were asked for.
    pub size: AtomicUsize,
    pub start: AtomicUsize,
    /// Bytes of the pages that were opened, which is what is booked.
    pub mapped: AtomicUsize,
    /// Counts guarded blocks.
    pub number: AtomicU64,
    pub made: CallSiteCell,
    pub freed: CallSiteCell,
}

const _: () = assert!(size_of::<Record>() == 64);

zeros_are_valid!(Record: state, account, size, start, mapped, number, made, freed);

impl Record {
    /// The block's first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.load(Relaxed) as *mut u8
    }

    /// Its bytes, with those of CPython's debug hooks.
    pub fn size(&self) -> usize {
        self.size.load(Relaxed)
    }

    /// The program's own bytes.
    pub fn asked(&self) -> usize {
        self.size().saturating_sub(self.hooks().1)
    }

    /// Bytes that are booked.
    pub fn charged(&self) -> usize {
        self.mapped.load(Relaxed)
    }

    /// The account that the block is booked to.
    pub fn account(&self) -> Account {
        Account::at(self.account.load(Relaxed) as usize)
    }
}

struct Class {
    /// Bytes from the range's start to the first slot, and from one to the next. No address: the leak check would take it
    /// for a pointer to the block that fills the slot.
    first: usize,
    stride: usize,
    slots: usize,
    records: usize,
    /// The slots' pages are closed by marks, and not by the borders of mappings.
    is_marked: bool,
    /// Slots taken so far, modulo nothing.
    cursor: AtomicUsize,
}

/// Memory or mappings that live blocks of some classes take.
#[derive(Default)]
struct Room {
    used: AtomicUsize,
    most: usize,
}

impl Room {
    /// Takes so much if no more than `most` is taken then.
    fn take(&self, amount: usize, most: usize) -> bool {
        let had = self.used.fetch_add(amount, Relaxed);
        let fits = had + amount <= most;
        if !fits {
            self.give_back(amount);
        }
        fits
    }

    fn give_back(&self, amount: usize) {
        self.used.fetch_sub(amount, Relaxed);
    }
}

/// The range, its records and its classes.
pub struct GuardRange {
    memory: Mapping,
    page: usize,
    records: &'static [Record],
    classes: [Class; CLASSES],
    /// Guarded blocks that are live.
    pub live: AtomicUsize,
    /// Blocks whose pages are the borders of mappings: the system has so many a process, and an open block divides one.
    areas: Room,
    /// Bytes of the pages of other blocks.
    memory_of_marked: Room,
}

/// Why a block finds no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// Too many are live.
    Crowded,
    /// No slot is for such a size or alignment.
    Unfit,
}

/// A slot of the range.
pub struct Slot {
    pub record: &'static Record,
    /// Address behind the pages of the block, where the closed page begins.
    pub end: usize,
}

impl GuardRange {
    /// Reserves the range: address space alone, of which a block takes what it needs, and small ones no more than `memory` bytes.
    pub fn reserve(memory: usize) -> Option<Self> {
        let page = pyhost_os::mapping::page_size() as usize;
        let has_marks = has_marks(page);
        // A limit on address space may leave room for less.
        (0..4).find_map(|halvings| {
            Self::reserve_part(page, has_marks.then_some(memory), halvings * 2)
        })
    }

    fn reserve_part(page: usize, marked_memory: Option<usize>, halvings: u32) -> Option<Self> {
        let is_marked = |class: usize| class < MARKED_CLASSES && marked_memory.is_some();
        let count = |class: usize| {
            let memory = marked_memory.filter(|_| is_marked(class));
            let most = memory.map_or(SLOTS, |memory| (8 * SLOTS).min(memory / (page << class)));
            let slots = most.min(CLASS_BYTES / (page << class));
            (slots >> halvings).max(1)
        };
        let stride = |class: usize| (page << class) + page;
        let length: usize = (0..CLASSES).map(|class| count(class) * stride(class)).sum();
        let records: usize = (0..CLASSES).map(count).sum();
        // One closed page in front of the first block.
        let range = Mapping::reserve_at(0, length + page, false)?;
        let records = Mapped::reserve(records)?.leak();
        let (mut first, mut record) = (page, 0);
        let classes = std::array::from_fn(|class| {
            let made = Class {
                first,
                stride: stride(class),
                slots: count(class),
                records: record,
                is_marked: is_marked(class),
                cursor: AtomicUsize::new(0),
            };
            first += made.slots * made.stride;
            record += made.slots;
            made
        });
        Some(GuardRange {
            memory: range,
            page,
            records,
            classes,
            live: AtomicUsize::new(0),
            areas: Room {
                most: most_areas() * 2 / 5,
                ..Room::default()
            },
            memory_of_marked: Room {
                most: marked_memory.unwrap_or(0),
                ..Room::default()
            },
        })
    }

    fn start(&self) -> usize {
        self.memory.addresses().start
    }

    /// The offsets of so many bytes in front of an address.
    fn in_front_of(&self, end: usize, bytes: usize) -> Range<usize> {
        let end = end - self.start();
        end - bytes..end
    }

    /// Whether an address lies in the range.
    pub fn holds(&self, address: usize) -> bool {
        self.memory.addresses().contains(&address)
    }

    /// Addresses of the records.
    pub fn table(&self) -> Range<usize> {
        let records = self.records.as_ptr_range();
        records.start.addr()..records.end.addr()
    }

    fn record(&self, class: &Class, index: usize) -> &'static Record {
        &self.records[class.records + index]
    }

    /// The slot that an address lies in, the closed page behind it included; None in front of the first.
    pub fn slot_at(&self, address: usize) -> Option<Slot> {
        if !self.holds(address) {
            return None;
        }
        let class = self.class_at(address)?;
        let index = (address - self.start() - class.first) / class.stride;
        Some(Slot {
            record: self.record(class, index),
            end: self.end_of(class, index),
        })
    }

    /// The last class that begins at an address or before it.
    fn class_at(&self, address: usize) -> Option<&Class> {
        let offset = address.checked_sub(self.start())?;
        self.classes.iter().rfind(|class| class.first <= offset)
    }

    /// Address behind the pages of a slot's block.
    fn end_of(&self, class: &Class, index: usize) -> usize {
        self.start() + class.first + (index + 1) * class.stride - self.page
    }

    /// Opens a slot for `size` bytes and notes size, start and mapped bytes; the record, as
    /// [`TAKEN`], and the end of the slot's pages. A block of [`SMALL_SIZE_MAX`] and less leaves half of the mappings to others.
    pub fn take(&self, size: usize, alignment: usize) -> Result<(&'static Record, usize), Miss> {
        let room = size.max(1).checked_next_multiple_of(alignment);
        let room = room.filter(|_| alignment <= self.page).ok_or(Miss::Unfit)?;
        let mapped = room.checked_next_multiple_of(self.page);
        let mapped = mapped.ok_or(Miss::Unfit)?;
        let pages = (mapped / self.page).checked_next_power_of_two();
        let class = pages.and_then(|pages| self.classes.get(pages.trailing_zeros() as usize));
        let class = class.ok_or(Miss::Unfit)?;
        let (limit, amount) = self.room_of(class, mapped);
        let is_halved = size <= SMALL_SIZE_MAX && !class.is_marked;
        if !limit.take(amount, limit.most / if is_halved { 2 } else { 1 }) {
            return Err(Miss::Crowded);
        }
        let opened = self.find(class).and_then(|(record, index, is_new)| {
            let end = self.end_of(class, index);
            let is_open = self.open(class, end, mapped, is_new);
            if !is_open {
                record
                    .state
                    .store(if is_new { NEW } else { FREED }, Release);
            }
            is_open.then_some((record, end))
        });
        let Some((record, end)) = opened else {
            limit.give_back(amount);
            return Err(Miss::Crowded); // of mappings, all others' included
        };
        self.live.fetch_add(1, Relaxed);
        record.size.store(size, Relaxed);
        record.start.store(end - room, Relaxed);
        record.mapped.store(mapped, Relaxed);
        Ok((record, end))
    }

    /// What limits the live blocks of a class, and what one of `mapped` bytes takes of it.
    fn room_of(&self, class: &Class, mapped: usize) -> (&Room, usize) {
        match class.is_marked {
            true => (&self.memory_of_marked, mapped),
            false => (&self.areas, 1),
        }
    }

    /// Makes the last `mapped` bytes of a slot readable and writable. False if the system refuses.
    fn open(&self, class: &Class, end: usize, mapped: usize, is_new: bool) -> bool {
        let block = self.in_front_of(end, mapped);
        if !class.is_marked {
            return self.memory.open(block);
        }
        let whole = self.in_front_of(end + self.page, class.stride);
        if is_new && !(self.memory.open(whole.clone()) && self.memory.close_by_marks(whole.clone()))
        {
            self.memory.close(whole);
            return false;
        }
        self.memory.open_marked(block)
    }

    /// Takes the next slot of a class that is free, if one of the next few is; whether it is used for the first time.
    fn find(&self, class: &Class) -> Option<(&'static Record, usize, bool)> {
        for _ in 0..class.slots.min(MOST_TRIES) {
            let index = class.cursor.fetch_add(1, Relaxed) % class.slots;
            let record = self.record(class, index);
            let state = record.state.load(Relaxed);
            let take = || (record.state).compare_exchange(state, TAKEN, AcqRel, Relaxed);
            if (state == NEW || state == FREED) && take().is_ok() {
                return Some((record, index, state == NEW));
            }
        }
        None
    }

    /// Closes the pages of a block that ends at `end`, and gives their memory back. The state of the record from here on.
    pub fn close(&self, end: usize, mapped: usize) -> u32 {
        self.live.fetch_sub(1, Relaxed);
        let block = self.in_front_of(end, mapped);
        let Some(class) = self.class_at(end) else {
            return STUCK;
        };
        let (limit, amount) = self.room_of(class, mapped);
        limit.give_back(amount);
        if class.is_marked && self.memory.close_by_marks(block.clone()) {
            return FREED;
        }
        // Pages that someone has locked take no marks.
        match self.memory.close(block) {
            false => STUCK,
            true if class.is_marked => NEW,
            true => FREED,
        }
    }

    /// Address behind the slot that an address lies in, the closed page included; of the range if it lies in none.
    pub fn behind_slot(&self, address: usize) -> usize {
        match self.slot_at(address) {
            Some(slot) => slot.end + self.page,
            None => self.memory.addresses().end,
        }
    }

    /// Calls `visitor` for each slot with a live block.
    pub fn each_live(&self, visitor: impl FnMut(&'static Record)) {
        let all = self.classes.iter().flat_map(|class| {
            let used = class.cursor.load(Relaxed).min(class.slots);
            (0..used).map(|index| self.record(class, index))
        });
        all.filter(|record| record.state.load(Acquire) == LIVE)
            .for_each(visitor);
    }

    /// The record whose block is nearest to an address in the range.
    pub fn nearest(&self, address: usize) -> Option<&'static Record> {
        let own = self.slot_at(address);
        let next = own.as_ref().map_or(self.start(), |slot| slot.end) + self.page;
        let stride = self.class_at(address).map(|class| class.stride);
        let before = stride.and_then(|stride| self.slot_at(address.checked_sub(stride)?));
        let around = [own, before, self.slot_at(next)].into_iter().flatten();
        let is_used = |record: &&Record| [LIVE, FREED].contains(&record.state.load(Acquire));
        let used = around.map(|slot| slot.record).filter(is_used);
        used.min_by_key(|record| record.distance(address))
    }
}

impl Record {
    /// How far an address lies outside the block; 0 inside.
    pub fn distance(&self, address: usize) -> usize {
        let start = self.start().addr();
        let end = start + self.size();
        match address {
            _ if address < start => start - address,
            _ if address >= end => address - end + 1,
            _ => 0,
        }
    }
}

/// Whether the system closes pages by marks: tried on a page.
fn has_marks(page: usize) -> bool {
    let tried = Mapping::reserve_at(0, page, false);
    tried.is_some_and(|tried| {
        tried.open(0..page) && tried.close_by_marks(0..page) && tried.open_marked(0..page)
    })
}

/// How many areas the system maps a process (`vm.max_map_count`).
fn most_areas() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let number = text.ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(65530)
}
