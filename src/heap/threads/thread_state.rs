//! The heap's data of a thread: a theap for each account, and the ledger slot.
//!
//! Both start as stand-ins that send every request to the slow path, which is where a thread is
//! set up; `crate::threads::thread_exit` takes them away.

#![allow(unsafe_code)]

use crate::ledger::{ACCOUNTS, Account, LEDGER, Slot, UNCLAIMED};
use crate::mimalloc::ffi::{self, Theap};
use crate::{threads::thread_names::Named, threads::thread_pointers};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The calling thread's state. Plain cells without a destructor: the compiler addresses them
/// through the thread pointer, and they may be used at any moment of a thread's life.
#[repr(C)]
pub struct ThreadState {
    /// What the inlined paths allocate from: the thread's theaps, or stand-ins while it counts its bytes for samples.
    pub theaps: [Cell<*mut Theap>; ACCOUNTS],
    pub slot: Cell<&'static Slot>,
    /// How deep the thread is in what counts as before the mark; see [`crate::leak_mark`].
    pub before: Cell<u32>,
    /// The thread's theaps; stand-ins for those that it has not needed yet.
    own: [Cell<*mut Theap>; ACCOUNTS],
    /// Bytes to the thread's next sample; see `crate::sampling`.
    pub left: Cell<i64>,
    /// The thread's destructors have run: no slot may be claimed, no theap kept.
    pub ending: Cell<bool>,
    /// The number of the samples for which the thread counts the bytes that it allocates; 0 while it does not count.
    generation: Cell<u32>,
    pub named: Cell<Named>,
}

const EMPTY: *mut Theap = (&raw const ffi::_mi_theap_empty).cast_mut();

#[cfg(not(feature = "preloaded"))]
thread_local! {
    static STATE: ThreadState = const {
        ThreadState {
            theaps: [const { Cell::new(EMPTY) }; ACCOUNTS],
            slot: Cell::new(&UNCLAIMED),
            before: Cell::new(0),
            own: [const { Cell::new(EMPTY) }; ACCOUNTS],
            left: Cell::new(0),
            ending: Cell::new(false),
            generation: Cell::new(0),
            named: Cell::new(Named::NOT),
        }
    };
}

/// The key whose destructor yields the slot of a thread; `u32::MAX` before [`crate::threads::thread_exit::watch`].
pub static SLOT_KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// The calling thread's state, for the length of the thread.
#[cfg(not(feature = "preloaded"))]
#[inline(always)]
pub fn state() -> &'static ThreadState {
    // SAFETY: the state has no destructor, so it lives as long as its thread, and `Cell` keeps
    // the reference from being sent to another one.
    STATE.with(|state| unsafe { &*(state as *const ThreadState) })
}

/// The same in a library, where the compiler would call a function of the loader at every use. The library is loaded
/// at the program's start, so its data of a thread lie at a constant distance from the thread pointer (initial-exec
/// in "ELF Handling For Thread-Local Storage").
#[cfg(feature = "preloaded")]
mod initial_exec {
    use super::{ThreadState, ffi};
    use crate::ledger::{ACCOUNTS, UNCLAIMED};

    // The fields of `ThreadState`, in its order.
    const _: () = assert!(size_of::<ThreadState>() == (2 * ACCOUNTS + 5) * 8);
    const _: () = assert!(std::mem::offset_of!(ThreadState, own) == (ACCOUNTS + 2) * 8);
    std::arch::global_asm!(
        ".pushsection .tdata.pyhost_thread_state, \"awT\", @progbits",
        ".hidden PYHOST_THREAD_STATE",
        ".globl PYHOST_THREAD_STATE",
        ".type PYHOST_THREAD_STATE, @tls_object",
        ".size PYHOST_THREAD_STATE, (2 * {accounts} + 5) * 8",
        ".p2align 3",
        "PYHOST_THREAD_STATE:",
        ".rept {accounts}",
        ".quad {empty}",
        ".endr",
        ".quad {unclaimed}",
        ".quad 0",
        ".rept {accounts}",
        ".quad {empty}",
        ".endr",
        ".quad 0",
        ".quad 0",
        ".quad 0",
        ".popsection",
        accounts = const ACCOUNTS,
        empty = sym ffi::_mi_theap_empty,
        unclaimed = sym UNCLAIMED,
    );

    #[inline(always)]
    pub fn state() -> &'static ThreadState {
        let address: *const ThreadState;
        // SAFETY: the thread pointer and the distance of the data from it (x86-64 and AArch64 ABIs). As in the other
        // form, the state lives as long as its thread.
        unsafe {
            // Apart from `thread_id`, which the caller often has already.
            #[cfg(target_arch = "x86_64")]
            {
                let mut place = super::thread_id();
                std::arch::asm!(
                    "add {0}, qword ptr [rip + PYHOST_THREAD_STATE@GOTTPOFF]",
                    inout(reg) place,
                    options(nostack, readonly, pure),
                );
                address = std::ptr::with_exposed_provenance(place);
            }
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!(
                "mrs {0}, tpidr_el0",
                "adrp {1}, :gottprel:PYHOST_THREAD_STATE",
                "ldr {1}, [{1}, :gottprel_lo12:PYHOST_THREAD_STATE]",
                "add {0}, {0}, {1}",
                out(reg) address,
                out(reg) _,
                options(nostack, preserves_flags, readonly, pure),
            );
            &*address
        }
    }
}

#[cfg(feature = "preloaded")]
pub use initial_exec::state;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
compile_error!("the thread pointer is read on x86-64, aarch64 and arm");
#[cfg(all(feature = "preloaded", target_arch = "arm"))]
compile_error!("the library that is preloaded is for 64 bits");

/// A number that is the calling thread's own while it lives: its thread pointer, as mimalloc stores it in its pages.
#[inline(always)]
pub fn thread_id() -> usize {
    let pointer: usize;
    // SAFETY: reads a register, or the first word of the thread control block, which is its own address (x86-64 ABI)
    // and never changes: no memory, as far as the compiler is concerned.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, nomem, pure));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem, pure));
        #[cfg(target_arch = "arm")]
        std::arch::asm!("mrc p15, 0, {}, c13, c0, 3", out(reg) pointer, options(nostack, preserves_flags, nomem, pure));
    }
    pointer
}

impl ThreadState {
    /// The thread's slot, claimed if need be.
    #[inline]
    pub fn slot(&self) -> &'static Slot {
        let slot = self.slot.get();
        if std::ptr::eq(slot, &UNCLAIMED) {
            self.claim()
        } else {
            slot
        }
    }

    #[cold]
    fn claim(&self) -> &'static Slot {
        if self.ending.get() {
            return LEDGER.overflow();
        }
        crate::begin();
        thread_pointers::note(thread_id());
        let slot = LEDGER.claim();
        self.slot.set(slot);
        let key = SLOT_KEY.load(Relaxed);
        if key != u32::MAX && !LEDGER.is_overflow(slot) {
            // SAFETY: the key is valid for the life of the process. The call may allocate, which
            // finds the slot already set.
            unsafe { libc::pthread_setspecific(key, (slot as *const Slot).cast()) };
        }
        slot
    }

    /// The thread's theap of `account`; null if the heap cannot make one. Inside the gate.
    #[inline]
    pub fn theap(&self, account: Account) -> *mut Theap {
        let cached = &self.own[account as usize];
        if cached.get() != EMPTY {
            return cached.get();
        }
        let theap = crate::new_theap(account);
        if !theap.is_null() && !self.ending.get() {
            cached.set(theap);
            if !self.is_sampling() {
                self.theaps[account as usize].set(theap);
            }
        }
        theap
    }

    /// The thread's theap of `account`, or a stand-in, whose pages are all empty.
    pub fn known_theap(&self, account: Account) -> *mut Theap {
        self.own[account as usize].get()
    }

    /// Whether the thread counts the bytes that it allocates: each of its requests takes the slow path then.
    pub fn is_sampling(&self) -> bool {
        self.generation.get() != 0
    }

    /// The number of the samples that the thread counts for; 0 if it does not count.
    pub fn generation(&self) -> u32 {
        self.generation.get()
    }

    /// Begins to count for the samples of that number, or with 0 ends to count.
    pub fn set_generation(&self, generation: u32) {
        self.generation.set(generation);
        for (shown, own) in self.theaps.iter().zip(&self.own) {
            shown.set(if generation != 0 { EMPTY } else { own.get() });
        }
    }

    /// Whether what the thread allocates counts as older than the mark.
    pub fn is_before(&self) -> bool {
        self.before.get() > 0
    }

    /// Makes the thread's next requests look for their heaps again.
    pub fn forget_theaps(&self) {
        for theap in self.theaps.iter().chain(&self.own) {
            theap.set(EMPTY);
        }
    }
}
