//! The registers of a call on x86-64, by the numbers that DWARF gives them.

#![allow(unsafe_code)]

use std::arch::asm;

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
