//! The path of every request, inlined and slow: allocating, freeing, resizing, and booking.
//!
//! A small request takes the inlined path: pop a block from the thread's own page, book it in
//! the thread's own slot. Everything else (no free block, larger sizes, another thread's page, a
//! bound of the ledger) takes the slow path, inside the [gate](crate::gate).
//!
//! A freed block goes to the head of its page's list, and is the next that is given: mimalloc's own `free` puts it on a
//! second list, which is taken up when the first is used up, so that a program that allocates and frees walks through a
//! whole page of 64 KiB, a size class, while pymalloc stays on one line of the cache.
//!
//! The cost of the hooks in machine code (x86-64, release), for a small block of the calling thread: `malloc` 24
//! instructions, `calloc` 31 and a store or a `memset`, `free` 35, a `realloc` in place about 45. Of `malloc`, 9 are
//! the accounting: the cell's address, a load, an add, a compare with the bound, a store, a compare with the highest so
//! far, an increment; of `free` 8, and 10 find the page of a pointer that may belong to any thread. Nothing is locked;
//! the only calls are to the slow paths, as jumps.

pub mod allocate;
pub mod booking;
pub mod free;
pub mod own_page;
pub mod reallocate;
pub mod resize;
