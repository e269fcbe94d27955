//! Checked blocks (`--debug-hooks`): pads on both sides, fills, and a quarantine of freed blocks.
//!
//! A checked block comes from a heap of its account's checked blocks, so that `free` recognises it by the comparison that
//! it makes in any case, and nothing is paid for without the option. It begins with a [`Record`]; pads lie between the
//! record and the bytes of the caller, and behind these up to the block's end. A freed block keeps its record and waits in
//! the [`quarantine`]. So a second `free`, or a write to it, is found.
//!
//! The ledger books the whole block, until it is freed: blocks in the quarantine belong to no account.
//!
//! Called from any thread, inside the [`gate`] if the heap is touched. Nothing is locked or allocated. What is wrong ends
//! the process with one line, as libc does.

mod damage;
mod quarantine;
mod record;

pub use damage::{Damage, each_damaged};
pub use quarantine::each as each_waiting;

use crate::call_site::{CallSite, CallsNumber, native_stacks};
use crate::checks::double_free::{refuse, refuse_block};
use crate::checks::families::Family;
use crate::checks::fill_bytes::{DEAD, FRESH};
use crate::checks::out_of_bounds::{HOOK, HOOKS, OutOfBounds};
use crate::hot::allocate::{allocate_aligned, book_new};
use crate::hot::booking::{admits, failed, release_block};
use crate::mimalloc::ffi::{self, Page, Theap};
use crate::mimalloc::gate::{self, Closed};
use crate::mimalloc::heaps::{HEAPS, is_checked, is_marked};
use crate::mimalloc::live_blocks::{self, LiveBlock};
use crate::threads::thread_state::{ThreadState, state, thread_id};
use crate::{bounded_heap, known_theap_of, make_theap, sampling, system_memory::retention};
use crate::{checks::guards, descriptor::notice, ledger::Account, mimalloc::pages::live_page};
use record::{Record, State};
use std::fmt::{Arguments, Display};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{ptr::null_mut, sync::atomic::AtomicBool};

/// Blocks of a greater alignment are served without pads: mimalloc finds the page of an address near its start alone.
const MOST_ALIGNMENT: usize = 1 << 16;

/// Whether blocks are checked.
static ON: AtomicBool = AtomicBool::new(false);

/// Makes the heaps. Once, while the process has one thread, after [`crate::start`]; false if mimalloc gives no heap.
pub fn start() -> bool {
    for account in Account::WITH_BLOCKS {
        let heap = ffi::mi_heap_new();
        if heap.is_null() {
            return false;
        }
        HEAPS.checked[account as usize].store(heap, Release);
    }
    if !quarantine::start() {
        return false;
    }
    ON.store(true, Release);
    true
}

/// Whether blocks are checked: those that were allocated since [`start`]. CPython's debug hooks lie over those of its domains.
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// The page of checked blocks in which a pointer lies.
///
/// # Safety
/// As for [`live_page`].
unsafe fn checked_page<'a>(pointer: *mut u8) -> Option<&'a Page> {
    // SAFETY: the caller's duty.
    unsafe { live_page(pointer) }.filter(|page| has(page))
}

/// Whether `page` has checked blocks.
#[inline]
pub(crate) fn has(page: &Page) -> bool {
    is_on() && is_checked(page.heap)
}

/// The calling thread's theap in the heap of an account's checked blocks; null if there is no memory for it.
fn theap_of(state: &ThreadState, account: Account) -> *mut Theap {
    let heaps = match state.is_before() && is_marked(account) {
        true => &HEAPS.checked_before,
        false => &HEAPS.checked,
    };
    let heap = heaps[account as usize].load(Acquire);
    if heap.is_null() {
        return null_mut();
    }
    if let Some(theap) = known_theap_of(heap) {
        return theap;
    }
    if !bounded_heap::has_room_for_a_thread() {
        return null_mut();
    }
    make_theap(heap)
}

/// Allocates a checked block, or a guarded one; null on failure. `alignment` is a power of two.
#[cold]
pub fn allocate(account: Account, size: usize, alignment: usize, zero: bool) -> *mut u8 {
    sampling::look_if_asked(account);
    // Of other accounts guarded blocks are made in front of the hooks and of NumPy's pads.
    if matches!(account, Account::Native)
        && let Some(block) = guards::allocate_if_wanted(account, size, alignment)
    {
        if !zero && !block.is_null() {
            // SAFETY: a block that nobody else has yet.
            unsafe { record::fill(block, size, FRESH) };
        }
        return block;
    }
    if alignment > MOST_ALIGNMENT {
        let block = allocate_aligned(account, size, alignment);
        if zero && !block.is_null() {
            // SAFETY: a block of so many bytes that nobody else has.
            unsafe { block.write_bytes(0, size) };
        }
        return block;
    }
    let state = state();
    let slot = state.slot();
    let inside = gate::enter(slot, thread_id());
    if !admits(slot, account, size) {
        return null_mut();
    }
    let theap = theap_of(state, account);
    let whole = record::whole(size, alignment).filter(|_| !theap.is_null());
    let mut usable = 0;
    // SAFETY: a theap of the calling thread, inside the gate, and the block that it gave.
    unsafe {
        let mut given = || {
            whole.map_or(null_mut(), |whole| {
                ffi::_mi_theap_malloc_zero(theap, whole, zero, &mut usable).cast::<u8>()
            })
        };
        let mut block = given();
        if block.is_null() && whole.is_some() {
            quarantine::shrink_to(0, &inside);
            ffi::mi_theap_collect(theap, true);
            block = given();
        }
        if block.is_null() {
            failed(account, size);
            return block;
        }
        let block = book_new(account, block, usable, size);
        if block.is_null() {
            return block;
        }
        let pointer = Record::lay(block, usable, account, size, alignment);
        // CPython's debug hooks fill the blocks of its domains.
        if !zero && matches!(account, Account::Native) {
            record::fill(pointer, size, FRESH);
        }
        if sampling::is_on() {
            sampling::booked_inside(account, pointer, usable, &inside);
        }
        pointer
    }
}

/// The live block that `pointer` was given out for. Ends the process, with a line that begins with `function`, if it is
/// none, or if its pads are damaged.
///
/// # Safety
/// `pointer` lies in `page`, which has checked blocks.
unsafe fn live<'a>(
    page: &Page,
    pointer: *mut u8,
    caller: Account,
    function: &str,
) -> (&'a Record, *mut u8) {
    let block = page.start_of(pointer);
    // SAFETY: the start of a block of the page, all of which is readable.
    let record = unsafe { Record::at(block) };
    match record.state() {
        State::Live => {}
        State::Freed | State::Gone => refuse_freed(record, pointer, function),
        State::Unknown => {
            // SAFETY: as above.
            unsafe { refuse_culprit(page, block, function) };
            refuse(format_args!(
                "{function}: invalid pointer {pointer:p}: the record of its block was written over: bytes before the start \
                 of a block of the account {}, overwritten",
                page.account().name()
            ))
        }
    }
    let start = record.start();
    if start != pointer {
        refuse_inside(record, pointer, caller, function);
    }
    if record.family() != Family::Malloc {
        refuse_family(record, pointer, function);
    }
    if let Some(damage) = record.damage(page.block_size) {
        let what = format_args!("{function}: {damage} {record}, overwritten");
        refuse_of(record, what);
    }
    (record, block)
}

/// Ends the process with a line about the block in front of one whose record was written over, if that is damaged behind its end.
///
/// # Safety
/// A block of the page, which has checked blocks.
#[cold]
unsafe fn refuse_culprit(page: &Page, block: *mut u8, function: &str) {
    let before = block.wrapping_sub(page.block_size);
    if before < page.page_start {
        return;
    }
    // SAFETY: a block of the page, all of which is readable.
    let record = unsafe { Record::at(before) };
    if record.state() == State::Live
        && let Some(damage @ OutOfBounds::Past(_)) = record.damage(page.block_size)
    {
        refuse_of(
            record,
            format_args!(
                "{function}: at least {damage} {record}, overwritten, and so the record of the next block"
            ),
        );
    }
}

/// Ends the process with a line about a block, and the native calls behind it.
#[cold]
fn refuse_of(record: &Record, what: Arguments<'_>) -> ! {
    refuse_block(what, record.made(), record.freed())
}

fn refuse_pointer(record: &Record, pointer: *mut u8, function: &str, what: Arguments<'_>) -> ! {
    refuse_of(
        record,
        format_args!("{function}: invalid pointer {pointer:p}: {what}"),
    )
}

/// Ends the process for a pointer to or into a block that was freed before.
#[cold]
fn refuse_freed(record: &Record, pointer: *mut u8, function: &str) -> ! {
    let what = format_args!("{record}, freed before{}", record.freed_at());
    refuse_pointer(record, pointer, function, what);
}

/// Ends the process for a block of another family.
#[cold]
fn refuse_family(record: &Record, pointer: *mut u8, function: &str) -> ! {
    let what = format_args!("{record}, made by {}", record.family().other());
    refuse_pointer(record, pointer, function, what);
}

/// The live checked block that `pointer` was given out for.
///
/// # Safety
/// As for [`look_at_pythons`].
unsafe fn live_at<'a>(pointer: *mut u8) -> Option<&'a Record> {
    // SAFETY: as in `look_at_pythons`.
    let record = unsafe { checked_page(pointer).map(|page| Record::at(page.start_of(pointer))) };
    record.filter(|it| it.state() == State::Live && it.start() == pointer)
}

/// The native calls that allocated the live block whose bytes begin at `start`; 0 for none.
///
/// # Safety
/// As for [`look_at_pythons`].
pub unsafe fn calls_of(start: *mut u8) -> CallsNumber {
    let guarded = guards::live_at(start.addr()).map(|block| block.made.get());
    // SAFETY: the caller's duties.
    let made = guarded.or_else(|| unsafe { live_at(start) }.map(Record::made));
    made.map_or(0, |made| made.calls)
}

/// Notes the family of a block that was just made by malloc's functions. Does nothing if it is not checked.
///
/// # Safety
/// As for [`look_at_pythons`].
pub unsafe fn set_family(pointer: *mut u8, family: Family) {
    if let Some(block) = guards::live_at(pointer.addr()) {
        block.set_family(family);
    // SAFETY: the caller's duties.
    } else if let Some(record) = unsafe { live_at(pointer) } {
        record.set_family(family);
    }
}

/// Ends the process, with a line, if `pointer`, which an operator delete of the family got, is a block of another family. Else
/// makes it one of malloc's, which `free` takes.
///
/// # Safety
/// As for [`look_at_pythons`].
pub unsafe fn begin_delete(pointer: *mut u8, family: Family) {
    if let Some(block) = guards::live_at(pointer.addr()) {
        block.refuse_if_of_another(family, pointer, family.destroyer());
        block.set_family(Family::Malloc);
    // SAFETY: the caller's duties.
    } else if let Some(record) = unsafe { live_at(pointer) } {
        if record.family() != family {
            refuse_family(record, pointer, family.destroyer());
        }
        record.set_family(Family::Malloc);
    }
}

/// Ends the process for a pointer into a live block.
#[cold]
fn refuse_inside(record: &Record, pointer: *mut u8, caller: Account, function: &str) -> ! {
    let offset = pointer.addr().wrapping_sub(record.start().addr()) as isize;
    let is_pythons = record.is_of_domain();
    if is_pythons && offset == HOOK as isize && caller == Account::Native {
        refuse_family(record, pointer, function);
    }
    // The caller's own block begins behind the head of CPython's hooks.
    let offset = offset - if is_pythons { HOOK as isize } else { 0 };
    let what = format_args!("{offset} bytes into {record}");
    refuse_pointer(record, pointer, function, what);
}

/// Frees a checked block, which the hook of `caller` was given: into the quarantine.
///
/// # Safety
/// `pointer` lies in `page`, which has checked blocks. The GIL is held if `caller` is an account of the GIL.
#[cold]
pub(crate) unsafe fn free(page: &Page, pointer: *mut u8, caller: Account) {
    let inside = gate::enter(state().slot(), thread_id());
    // SAFETY: the caller's duties; a live block of the page from here on.
    unsafe {
        let (record, block) = live(page, pointer, caller, "free()");
        let account = record.account();
        if !record.begin_free() {
            refuse_freed(record, pointer, "free()");
        }
        if sampling::is_on() {
            sampling::unbooked_inside(account, pointer, &inside);
        }
        release_block(account, block, page.block_size, caller);
        record::fill(pointer, record.size(), DEAD);
    }
    let block = Waiting(page.start_of(pointer));
    quarantine::add(block, page.block_size, &inside);
}

/// A block in the quarantine, which has been freed: nobody else uses it or gives it back. Of this module and [`quarantine`].
struct Waiting(*mut u8);

/// Gives a block of the quarantine back to its heap; its bytes. Ends the process if it was written to since it was freed.
fn give_back(Waiting(block): Waiting, inside: &gate::Inside<'_>) -> usize {
    // SAFETY: as its type says. The page stays while the block is not given back.
    unsafe {
        let Some(page) = live_page(block) else {
            return 0;
        };
        let bytes = page.block_size;
        let record = Record::at(block);
        if let Some(damage) = record.damage_after_free(page.block_size) {
            let (made, freed) = damage.call_sites();
            refuse_block(format_args!("{damage}"), made, freed);
        }
        let emptied = page.emptied_by_a_free();
        if emptied.bytes > 0 {
            crate::checks::double_free::remember_emptied(page);
        }
        record.end_free();
        ffi::mi_free(block.cast());
        retention::came_free(emptied, inside);
        bytes
    }
}

/// Ends the process, with a line, if `pointer`, which `realloc` of `caller` got, lies in a page of checked blocks and is none of a
/// live block.
///
/// # Safety
/// As for [`crate::hot::reallocate::reallocate`].
pub(crate) unsafe fn look_before_realloc(pointer: *mut u8, caller: Account) {
    // SAFETY: the caller's duties.
    unsafe {
        if let Some(page) = checked_page(pointer) {
            let _inside = gate::enter(state().slot(), thread_id());
            live(page, pointer, caller, "realloc()");
        }
    }
}

/// Ends the process, with a line, if `pointer`, which `function` of the domain `caller` got behind CPython's debug hooks, is
/// none that they can look at: it was freed before, leads into a block, or is another family's. Else does nothing.
///
/// # Safety
/// Any number that a program passes to `free`.
pub unsafe fn look_at_pythons(pointer: *mut u8, caller: Account, function: &str) {
    if pointer.is_null() {
        return;
    }
    if guards::owns(pointer) {
        return guards::refuse_if_wrong(pointer, caller, function);
    }
    // SAFETY: the page of a block that lives or waits in the quarantine stays. That of another one may go meanwhile: the
    // program's bug, which would end it otherwise.
    let Some(page) = (unsafe { checked_page(pointer) }) else {
        return;
    };
    let _inside = gate::enter(state().slot(), thread_id());
    // SAFETY: as above.
    let record = unsafe { Record::at(page.start_of(pointer)) };
    match record.state() {
        State::Freed | State::Gone => refuse_freed(record, pointer, function),
        State::Live if !record.is_of_domain() => refuse_family(record, pointer, function),
        State::Live if record.start().wrapping_add(HOOK) != pointer => {
            refuse_inside(record, pointer, caller, function)
        }
        State::Live => {
            let (account, made) = (record.account(), record.made());
            let outside = record.damage_of_hooks(true);
            say_before_hooks(record, outside, account, made, caller, function);
        }
        State::Unknown => {}
    }
}

/// Names a live block that CPython's debug hooks are about to end the process for: they know neither its line nor its calls.
fn say_before_hooks(
    block: &impl Display,
    outside: Option<OutOfBounds>,
    account: Account,
    made: CallSite,
    caller: Account,
    function: &str,
) {
    if let Some(outside) = outside {
        notice(format_args!("{function}: {outside} {block}, overwritten"));
    } else if account != caller {
        notice(format_args!(
            "{function}: {block}, made by a function of another family"
        ));
    } else {
        return;
    }
    native_stacks::report(made.calls, 0);
}

/// The bytes that a program has asked for of a live block, if `pointer` leads behind the head that CPython's debug hooks have laid
/// into it.
///
/// # Safety
/// As for [`look_at_pythons`].
pub unsafe fn bytes_behind_hooks(pointer: *mut u8) -> Option<usize> {
    let start = pointer.wrapping_sub(HOOK);
    // SAFETY: as in `look_at_pythons`.
    unsafe {
        let record = checked_page(pointer).map(|page| Record::at(page.start_of(pointer)));
        let (first, size) = record.and_then(Record::live_bytes)?;
        (first == start).then(|| size.saturating_sub(HOOKS))
    }
}

/// Ends the process, with a line, if `pointer` leads to or into a block that was freed before. Else does nothing.
///
/// # Safety
/// As for [`look_at_pythons`].
pub unsafe fn refuse_if_freed(pointer: *mut u8, function: &str) {
    // SAFETY: as in `look_at_pythons`.
    unsafe {
        if let Some(page) = checked_page(pointer) {
            let record = Record::at(page.start_of(pointer));
            if matches!(record.state(), State::Freed | State::Gone) {
                refuse_freed(record, pointer, function);
            }
        }
    }
}

/// The bytes that were asked for of a checked block.
///
/// # Safety
/// `pointer` was given out for a live block of `page`, which has checked blocks.
pub(crate) unsafe fn size(page: &Page, pointer: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe { Record::at(page.start_of(pointer)) }.size()
}

/// The allocation of the checked block whose bytes begin at `start`; `None` for any other.
pub(crate) fn call_site_of(closed: &Closed, start: usize) -> Option<CallSite> {
    let record = Record::of(&live_blocks::holding(closed, start)?)?;
    (record.start().addr() == start).then(|| record.made())
}

/// The start and the number of the program's bytes of a block of any heap; `None` for a checked one that waits in the
/// quarantine.
pub(crate) fn asked(block: &LiveBlock<'_>) -> Option<(*mut u8, usize)> {
    Record::of(block).map_or(Some((block.start, block.size)), Record::live_bytes)
}
