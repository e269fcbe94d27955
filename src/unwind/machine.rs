//! The registers of a call on x86-64, by the numbers that DWARF gives them, and the words of the calling thread's stack.
//!
//! A page is asked for before its first word is read.
//!
//! `rt_sigprocmask` with a way of changing the mask that does not exist changes nothing: the kernel reads the mask first, and
//! answers EFAULT if it cannot, else EINVAL. Unlike `process_vm_readv` every sandbox allows it; `mincore` does not know
//! whether a page may be read.
//!
//! A page near the stack pointer is asked for once: it was readable, and is above live calls of the thread now. It may be
//! gone only if another stack was there before, and a broken table leads beyond the end of this one.

#![allow(unsafe_code)]

use pyhost_os::system_call::is_readable;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{arch::asm, ops::Range};

pub const RBX: usize = 3;
pub const RBP: usize = 6;
pub const RSP: usize = 7;
pub const R12: usize = 12;
/// The address of the instruction, or of the one behind a call.
pub const RIP: usize = 16;
pub const COUNT: usize = 17;

/// The registers of a call, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    values: [u64; COUNT],
    known: u32,
}

impl Registers {
    /// Those that a function keeps for its caller, of the function that this is inlined into.
    #[inline(always)]
    pub fn of_caller() -> Self {
        let mut kept = [0u64; 8];
        // SAFETY: copies registers. They are what the unwind tables say of this very instruction: nothing is pushed in
        // between.
        unsafe {
            asm!(
                "mov [{kept}], rbx",
                "mov [{kept} + 8], rbp",
                "mov [{kept} + 16], rsp",
                "mov [{kept} + 24], r12",
                "mov [{kept} + 32], r13",
                "mov [{kept} + 40], r14",
                "mov [{kept} + 48], r15",
                "lea {place}, [rip]",
                "mov [{kept} + 56], {place}",
                kept = in(reg) kept.as_mut_ptr(),
                place = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
        let numbers = [RBX, RBP, RSP, R12, R12 + 1, R12 + 2, R12 + 3, RIP];
        let mut registers = Registers {
            values: [0; COUNT],
            known: 0,
        };
        for (number, value) in numbers.into_iter().zip(kept) {
            registers.set(number, value);
        }
        registers
    }

    #[inline]
    pub fn get(&self, number: usize) -> Option<u64> {
        let is_known = number < COUNT && self.known & 1 << number != 0;
        is_known.then(|| self.values[number])
    }

    #[inline]
    pub fn set(&mut self, number: usize, value: u64) {
        if number < COUNT {
            self.values[number] = value;
            self.known |= 1 << number;
        }
    }

    #[inline]
    pub fn forget_all(&mut self) {
        self.known = 0;
    }

    pub fn forget(&mut self, number: usize) {
        if number < COUNT {
            self.known &= !(1 << number);
        }
    }
}

const PAGE: usize = 4096;

/// Pages above the stack pointer that are asked for once.
const NEAR: usize = 64;

/// Pages that were readable when they were asked for, each by its complement: the leak check would take an address for a
/// pointer to the block in which such a stack was.
static ASKED: [AtomicUsize; 1024] = [const { AtomicUsize::new(0) }; 1024];

/// Memory of which some pages are known to be readable.
pub struct Stack {
    known: Range<usize>,
    /// The page of the stack pointer at the begin.
    start: usize,
}

impl Stack {
    /// The page that the stack pointer of a call that runs is in is readable.
    pub fn around(stack_pointer: u64) -> Self {
        let page = stack_pointer as usize & !(PAGE - 1);
        Stack {
            known: page..page + PAGE,
            start: page,
        }
    }

    /// The word at an address. None if it is not aligned, or in no readable page.
    #[inline]
    pub fn word(&mut self, address: u64) -> Option<u64> {
        let address = usize::try_from(address).ok().filter(|it| it % 8 == 0)?;
        if !self.known.contains(&address) && !self.learn(address & !(PAGE - 1)) {
            return None;
        }
        // SAFETY: aligned, in a page that may be read. Of a stack the page stays, since the thread's own calls are in it.
        Some(unsafe { (address as *const u64).read_volatile() })
    }

    /// Asks for a page; false if it may not be read.
    fn learn(&mut self, page: usize) -> bool {
        let asked = &ASKED[page / PAGE % ASKED.len()];
        let is_near = page.wrapping_sub(self.start) < NEAR * PAGE;
        if !is_near || asked.load(Relaxed) != !page {
            if !is_readable(page) {
                return false;
            }
            asked.store(!page, Relaxed);
        }
        match page == self.known.end {
            true => self.known.end += PAGE,
            false => self.known = page..page + PAGE,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn a_word_is_read_only_where_its_page_may_be_read() {
        let room = [1u64, 2];
        let at = |word: &u64| std::ptr::from_ref(word).addr() as u64;
        let mut stack = Stack::around(at(&room[0]));
        assert_eq!(stack.word(at(&room[1])), Some(2));
        assert_eq!(stack.word(at(&room[1]) + 4), None, "not aligned");
        assert_eq!(stack.word(8), None);
        assert_eq!(stack.word(u64::MAX - 7), None);
        // SAFETY: a new map, which stays.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(null_mut(), 3 * PAGE, libc::PROT_READ, flags, -1, 0)
        };
        // SAFETY: the middle page of the map.
        unsafe { libc::mprotect(map.byte_add(PAGE), PAGE, libc::PROT_NONE) };
        let start = map.addr() as u64;
        assert_eq!(stack.word(start + 4088), Some(0));
        assert_eq!(stack.word(start + 4096), None, "a guard page");
        assert_eq!(stack.word(start + 8192), Some(0));
    }

    #[test]
    fn a_page_that_was_asked_for_is_no_pointer_to_it() {
        let pages = vec![0u64; 3 * PAGE / 8];
        let start = pages.as_ptr().addr();
        let mut stack = Stack::around(start as u64);
        let page = (start + PAGE) & !(PAGE - 1);
        assert_eq!(stack.word(page as u64), Some(0));
        let asked = ASKED[page / PAGE % ASKED.len()].load(Relaxed);
        assert_eq!(asked, !page);
        assert!(!(start..start + 3 * PAGE).contains(&asked));
    }
}
