//! Memory outside the heaps in which a pointer keeps a block from being lost: the writable data of
//! every loaded library, the thread-local data, the stack and the description of the calling thread.

use super::WORD;
use super::table::{self, Table, new_table};
use crate::heap::{self, region, thread_pointers};
use crate::process::loaded::{self, Segment};
use crate::process::maps::{self, PageMap};
use crate::{libc_exports::native::mapped, libc_exports::native::next::find, process::read_memory};
use pyhost_os::{calls, mapping::page_size};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{cell::UnsafeCell, sync::OnceLock};

pub type Range = std::ops::Range<usize>;

/// Where the stack ends that is searched: a place in the frame of the function that made it.
///
/// That must be a function of its own, which holds nothing else and is never inlined. In a frame that is
/// searched, what the check itself holds would keep every block from being lost, and so would what the
/// script has left there where a frame has room that nobody has written to since.
pub struct StackTop(UnsafeCell<usize>);

impl StackTop {
    /// In the caller's frame, which [`StackTop::keep`] at its end keeps on the stack.
    #[inline(always)]
    pub fn new() -> Self {
        StackTop(UnsafeCell::new(0))
    }

    /// The last use of it.
    #[inline(always)]
    pub fn keep(&self) {
        std::hint::black_box(self);
    }

    fn address(&self) -> usize {
        self.0.get().addr()
    }
}

/// Bytes of the stack below the caller that are cleared.
const CLEARED: usize = 128 << 10;

/// Clears the stack that the script has left behind, so that no address of a block is carried on from there.
#[inline(never)]
pub fn clear_unused_stack() {
    std::hint::black_box(&mut [0u8; CLEARED]);
}

pyhost_os::state! {
    /// The memory that the leak check searches for pointers.
    static STATE: SearchedMemory {
        /// Bytes of libc's description of a thread (`struct pthread`); 0 if they are not known.
        description: AtomicUsize = AtomicUsize::new(0),
        /// The same with the thread-local data below it; 0 if it is not known.
        with_data: AtomicUsize = AtomicUsize::new(0),
        /// A variable that is not searched.
        left_out: OnceLock<Range> = OnceLock::new(),
    }
}

/// Asks libc for the size of its description of a thread, which it has for debuggers (`libthread_db`).
pub fn learn_description() {
    let mut size = [0; 4];
    let variable = find(c"_thread_db_sizeof_pthread").addr();
    if variable != 0 && read_memory(variable, &mut size) == size.len() {
        let description = u32::from_ne_bytes(size) as usize;
        STATE.description.store(description, Relaxed);
    }
    STATE.with_data.store(loaded::static_thread_data(), Relaxed);
    loaded::clear_error();
}

/// libc's description of the thread of a thread pointer, with the thread-local data at fixed places below it on x86-64. The
/// table of the thread's thread-local data hangs on it, and the values of pthread_setspecific(3). The main thread's is in
/// memory of the loader's own.
fn description(pointer: usize) -> Option<Range> {
    const CONTROL_BLOCK: usize = 16; // aarch64: only its two words are behind the thread pointer (ELF TLS, variant 1)
    let size = STATE.description.load(Relaxed) & !7;
    (size != 0).then(|| match cfg!(target_arch = "x86_64") {
        true => pointer - (STATE.with_data.load(Relaxed) & !7).saturating_sub(size)..pointer + size,
        false => pointer - size..pointer + CONTROL_BLOCK,
    })
}

/// The descriptions of threads that have allocated, running or ended, as far as they are still there.
pub fn add_descriptions(ranges: &mut Table<Range>) {
    thread_pointers::each(|pointer| {
        if let Some(range) = description(pointer).filter(|_| is_thread_pointer(pointer)) {
            ranges.push(range);
        }
    });
}

/// Whether a description of a thread is there: its first word is its own address (x86-64 psABI, "Thread-Local Storage").
/// Other processors have no such mark: there it may be another's memory, but for the heaps' and the host's own.
fn is_thread_pointer(address: usize) -> bool {
    let mut word = [0; WORD];
    let read = read_memory(address, &mut word);
    let is_marked = !cfg!(target_arch = "x86_64") || usize::from_ne_bytes(word) == address;
    read == WORD && is_marked && !is_heap_or_own(address)
}

fn is_heap_or_own(address: usize) -> bool {
    let pointer = address as *mut u8;
    heap::is_in_page(pointer) || table::is_in_table(address) || heap::guards::owns(pointer)
}

/// Libraries have a few pieces each.
const MOST_RANGES: usize = 1 << 16;

/// Leaves a static variable out of the search, one that holds figures. What copies a value copies its unused bytes too, which may
/// be what a register or the stack has kept of a script's addresses. One variable.
pub fn leave_out<T>(variable: &'static T) {
    let start = (&raw const *variable).addr();
    let _ = STATE.left_out.set(start..start + size_of::<T>());
}

/// That variable, and the description of the region, which holds the region's address, in whole words and by address.
fn holes() -> [Range; 2] {
    let left_out = STATE.left_out.get().cloned();
    let mut holes = [region::description(), left_out.unwrap_or_default()];
    holes.sort_unstable_by_key(|hole| hole.start);
    holes.map(|hole| hole.start & !(WORD - 1)..hole.end.next_multiple_of(WORD))
}

/// Adds a library's writable data or thread-local data, but for the holes.
fn add(ranges: &mut Table<Range>, thread_data: usize, segment: &Segment) {
    let length = segment.addresses.len();
    let first = match segment.kind {
        libc::PT_LOAD if segment.is_writable => segment.addresses.start,
        libc::PT_TLS if thread_data != 0 => thread_data,
        _ => return,
    };
    let mut start = first.next_multiple_of(WORD);
    let end = (first + length) & !(WORD - 1);
    for hole in holes() {
        if start <= hole.start && hole.start < end {
            ranges.push(start..hole.start);
            start = hole.end;
        }
    }
    ranges.push(match start < end {
        true => start..end,
        // Less than a word has no words to search, but an address.
        false => first..first,
    });
}

/// The data of the libraries, their thread-local data, the stack from `top` on, and libc's description of the thread.
pub fn ranges(top: &StackTop) -> Option<Table<Range>> {
    let mut ranges = new_table(MOST_RANGES)?;
    loaded::each(|object| {
        for segment in object.segments() {
            add(&mut ranges, object.thread_data, &segment);
        }
    });
    if let Some(range) = description(heap::thread_number()) {
        ranges.push(range);
    }
    // The kernel puts these bytes above all that the main thread has on its stack.
    let bottom = calls::getauxval(libc::AT_RANDOM) as usize;
    let top = top.address();
    // On another thread's stack the distance is too large for a stack.
    if top < bottom && bottom - top < 64 << 20 {
        ranges.push(top.next_multiple_of(WORD)..bottom & !(WORD - 1));
    }
    Some(ranges)
}

/// The stacks of other threads, running or kept for the next ones, in which libc keeps pointers to
/// their thread-local data: anonymous memory behind a closed piece, as guarded stacks are, and no
/// page of a heap within. From glibc 2.42 and Linux 6.13 on a stack's guard is no piece of its own: see [`add_found`].
pub fn add_stacks(ranges: &mut Table<Range>, objects: &[Range]) {
    let mut is_behind_closed = false;
    let _ = maps::each_range(&mut [0; 16 << 10], |mapping| {
        let (start, end) = (mapping.start, mapping.end);
        let has_objects = || objects.iter().any(|it| it.start < end && start < it.end);
        let is_heap =
            || has_objects() || (start..end).step_by(heap::pages::SLICE).any(is_heap_or_own);
        let is_anonymous = mapping.private && !mapping.executable && mapping.name.is_empty();
        let is_data = mapping.readable && mapping.writable;
        if is_anonymous && is_data && !is_heap() {
            match is_behind_closed {
                true => _ = ranges.push(start..end),
                false => add_found(ranges, start, end),
            }
        }
        is_behind_closed = is_anonymous && !mapping.readable && !mapping.writable;
    });
}

/// Where a free-threaded Python has its objects, which are searched one by one.
pub fn objects() -> Option<Table<Range>> {
    let mut ranges = new_table(mapped::RANGES)?;
    mapped::each(|piece| {
        if mapped::LEFT_OUT(piece) {
            ranges.push(piece.start..piece.end);
        }
    });
    Some(ranges)
}

/// Adds what libraries have mapped by themselves: allocators of their own, and code that was compiled while the program ran,
/// keep addresses there.
pub fn add_mapped(ranges: &mut Table<Range>) {
    mapped::each(|piece| {
        if piece.writable {
            ranges.push(piece.start..piece.end);
        }
    });
}

/// Room for what [`add_mapped`], [`add_descriptions`] and [`add_stacks`] add.
pub const MOST_FAR: usize = mapped::RANGES + thread_pointers::MOST + MOST_RANGES;

/// Visits the words of memory that another thread may unmap or close at any moment, so the system reads them; of each page
/// that has been written to.
pub fn each_far_word(ranges: &[Range], mut visit: impl FnMut(usize)) {
    let mut buffer = [[0; 8]; 512];
    let mut pages = PageMap::open(&mut buffer);
    let (size, mut words) = (page_size() as usize, [0; READ]);
    for &Range { start, end } in ranges {
        if pages.is_none() && end - start > LARGEST {
            continue;
        }
        for page in (start..end).step_by(size) {
            let is_kept = |pages: &mut PageMap<'_>| pages.is_kept(page, end);
            if end - start > size && !pages.as_mut().is_none_or(is_kept) {
                continue;
            }
            for part in (page..end.min(page + size)).step_by(READ) {
                let wanted = READ.min(end - part);
                let read = read_memory(part, &mut words[..wanted]);
                let (words, _) = words[..read].as_chunks::<WORD>();
                words
                    .iter()
                    .for_each(|&word| visit(usize::from_ne_bytes(word)));
            }
        }
    }
}

/// Bytes that are read at a time: no page is smaller.
const READ: usize = 4096;

/// Largest mapping that is searched page by page. Stacks may lie side by side in one.
const LARGEST: usize = 4 << 30;

/// Adds the stacks of a mapping that are known by their threads' control blocks: the first and the third word of such a
/// block are its own address (x86-64 psABI, "Thread-Local Storage"; `tcbhead_t` of glibc). Only resident pages are read,
/// since a guard lies within the mapping. A stack is the run of resident pages that ends with the control block's.
#[cfg(target_arch = "x86_64")]
fn add_found(ranges: &mut Table<Range>, start: usize, end: usize) {
    const ALIGNMENT: usize = 64; // of a control block
    let mut buffer = [[0; 8]; 512];
    let Some(mut pages) = PageMap::open(&mut buffer).filter(|_| end - start <= LARGEST) else {
        return;
    };
    let size = page_size() as usize;
    let mut first = start;
    for page in (start..end).step_by(size) {
        if !pages.is_present(page, end) {
            first = page + size;
            continue;
        }
        let mut words = [0; READ];
        let read = read_memory(page, &mut words);
        let (words, _) = words[..read].as_chunks::<WORD>();
        let word = |place: usize| words.get(place).map(|&word| usize::from_ne_bytes(word));
        let mut places = (0..READ).step_by(ALIGNMENT);
        // The calling thread's is no stack: what lies below it may be the host's own.
        let is_block = |place: usize| {
            let [own, third] = [0, 16].map(|offset| word((place + offset) / WORD));
            let address = page + place;
            own == Some(address) && third == own && address != heap::thread_number()
        };
        if places.any(is_block) {
            ranges.push(first..page + size);
            first = page + size;
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn add_found(_ranges: &mut Table<Range>, _start: usize, _end: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_lies_between_the_ranges_of_its_segment() {
        static FIGURES: [u64; 4] = [0; 4];
        leave_out(&FIGURES);
        leave_out(&FIGURES);
        let start = FIGURES.as_ptr().addr();
        let end = start + size_of_val(&FIGURES);
        let mut ranges = new_table(10).unwrap();
        let segment = Segment {
            kind: libc::PT_LOAD,
            addresses: start - 64..end + 64,
            is_writable: true,
            file_end: start,
        };
        add(&mut ranges, 0, &segment);
        assert_eq!(*ranges, [start - 64..start, end..end + 64]);
    }
}
