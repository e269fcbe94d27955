//! The one region of array data of `--numpy bfc`, behind a lock.

#![allow(unsafe_code)]

use crate::ledger::{Account, LEDGER};
use crate::threads::thread_state::{state, thread_id};
use crate::{NUMPY, arrays::placement, host::host, mimalloc::gate, system_memory::retention};
use crate::{book, book_resized, may_book, release};
use pyhost_os::mmap_vec::MmapVec;
use pyhost_tensorflow::bfc::{Bfc, ChunkView, Map, Statistics};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::{ops::Range, ptr::null_mut};

pyhost_os::state! {
    /// The region, and when to look for what it can give back.
    static REGION: ArrayDataRegion {
        bfc: Mutex<Option<Bfc>> = Mutex::new(None),
        /// A line says that it has no room.
        is_reported: AtomicBool = AtomicBool::new(false),
        /// Milliseconds, by [`retention::now`], when to look for memory that stayed free; never without a region.
        next_look: AtomicI64 = AtomicI64::new(i64::MAX),
    }
}

/// Runs `work` on the region, inside the gate; None before [`reserve`]. `work` must not allocate.
fn locked<T>(work: impl FnOnce(&mut Bfc) -> T) -> Option<T> {
    let _inside = gate::enter(state().slot(), thread_id());
    let mut guard = REGION.bfc.lock().unwrap_or_else(PoisonError::into_inner);
    guard.as_mut().map(work)
}

/// Reserves the region: `initial` bytes in use, growing to `maximum`. False where the system gives
/// no such address space.
pub fn reserve(initial: usize, maximum: usize) -> bool {
    let mut region = Bfc::reserve(initial, maximum);
    let reserved = region.is_some();
    if let Some(region) = &mut region {
        if retention::delay() == 0 {
            region.gives_back_at_once = true;
        }
        REGION.next_look.store(0, Relaxed);
        let (start, size) = region.memory();
        placement::place_region(start, size);
    }
    *REGION.bfc.lock().unwrap_or_else(PoisonError::into_inner) = region;
    reserved
}

/// Allocates `size` bytes, zeroed where `zero`, booked to `numpy`. Null on failure.
pub fn allocate(size: usize, zero: bool) -> *mut u8 {
    if !may_book::<NUMPY>(size) {
        return null_mut();
    }
    let taken = locked(|region| {
        let pointer = region.allocate(size, zero)?.as_ptr();
        Some((pointer, region.usable(pointer).unwrap_or(0)))
    });
    let Some(Some((pointer, usable))) = taken else {
        fail(size);
        return null_mut();
    };
    if !book::<NUMPY>(pointer, usable) {
        let _ = locked(|region| region.free(pointer));
        return null_mut();
    }
    placement::place_in_region(pointer, usable);
    pointer
}

/// Counts a request that the region could not meet, and tells of the first.
#[cold]
fn fail(size: usize) {
    LEDGER.count_failure(Account::Numpy);
    if let (Some(host), false) = (host(), REGION.is_reported.swap(true, Relaxed))
        && let Some(map) = locked(|region| region.map())
    {
        (host.bfc_is_full)(&map, size);
    }
}

/// Where the region's own description lies, which holds its address.
pub fn description() -> Range<usize> {
    let start = (&raw const REGION).addr();
    start..start + size_of_val(&REGION)
}

/// Start and usable bytes of each live block of the region. Returns `None` if the kernel has no memory for them.
pub fn live_chunks() -> Option<MmapVec<(usize, usize)>> {
    let mut live = MmapVec::new();
    let add =
        |chunk: ChunkView| chunk.allocation.is_none() || live.push((chunk.address, chunk.size));
    let has_room = locked(|region| region.chunks().all(add)).unwrap_or(true);
    has_room.then_some(live)
}

/// The addresses of the region's own tables; `None` without a region.
pub fn tables() -> Option<[Range<usize>; 2]> {
    locked(|region| region.tables())
}

/// Frees a block of the region; null, or what is none of its live blocks, is left alone.
pub fn free(pointer: *mut u8) {
    if pointer.is_null() {
        return;
    }
    let freed = locked(|region| {
        let freed = region.free(pointer);
        if is_look_due() {
            give_back_idle(region);
        }
        freed
    });
    if let Some(Some(usable)) = freed {
        release::<NUMPY>(pointer, usable);
    }
}

fn is_look_due() -> bool {
    let due = REGION.next_look.load(Relaxed);
    due != i64::MAX && retention::now() >= due
}

/// Gives memory back that was free for as long as `--retain` says.
#[cold]
fn give_back_idle(region: &mut Bfc) {
    /// Milliseconds between two looks at least, also if freed memory is given back at once.
    const LEAST: i64 = 500;
    let delay = retention::delay();
    let next_look = retention::now() + delay.max(LEAST);
    REGION.next_look.store(next_look, Relaxed);
    if delay >= 0 {
        region.give_back_idle(false);
    }
}

/// Gives memory back that is due, for a program which goes on without array data. Inside the gate.
pub(crate) fn give_back_what_is_due() {
    // Where this thread has the lock, beneath a signal handler, the next look will do.
    if is_look_due()
        && let Ok(mut region) = REGION.bfc.try_lock()
        && let Some(region) = region.as_mut()
    {
        give_back_idle(region);
    }
}

/// Resizes a block of the region, in place where it can be; null where there is no room, and the
/// old block still lives. Null allocates.
///
/// # Safety
/// `pointer` is null or a live block of the region, which nobody else uses.
pub unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        return allocate(size, false);
    }
    if !may_book::<NUMPY>(size) {
        return null_mut();
    }
    let resized = locked(|region| {
        let resized = region.reallocate_in_place(pointer, size);
        (resized, region.usable(pointer).unwrap_or(0))
    });
    match resized {
        Some((Some((before, after)), _)) => {
            release::<NUMPY>(pointer, before);
            book_resized::<NUMPY>(pointer, after);
            pointer
        }
        Some((None, usable)) => {
            let moved = allocate(size, false);
            if !moved.is_null() {
                // SAFETY: both blocks are live and at least that long.
                unsafe { std::ptr::copy_nonoverlapping(pointer, moved, usable.min(size)) };
                free(pointer);
            }
            moved
        }
        None => null_mut(),
    }
}

/// The region's sums; None without one, and where another thread, or this one beneath a signal handler, has the lock.
pub fn statistics() -> Option<Statistics> {
    REGION.bfc.try_lock().ok()?.as_ref().map(Bfc::statistics)
}

/// The sums of the region and of its bins, without its chunks; None without a region, and where
/// its lock is taken. Does not allocate.
pub fn bins() -> Option<Map> {
    REGION.bfc.try_lock().ok()?.as_ref().map(Bfc::map)
}

/// The region at this moment, and its chunks by ascending address, unless the kernel has no memory for these; None
/// without a region. Not from a signal handler.
pub fn map() -> Option<(Map, Option<MmapVec<ChunkView>>)> {
    locked(|region| {
        let mut chunks = MmapVec::new();
        let has_room = region.chunks().all(|chunk| chunks.push(chunk));
        (region.map(), has_room.then_some(chunks))
    })
}
