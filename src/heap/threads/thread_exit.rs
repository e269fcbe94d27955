//! The ends of threads: what becomes of a thread's theaps and of its slot.
//!
//! A thread's end is the destructor of mimalloc's own pthread key, which the host replaces by one of its own: it
//! forgets the theaps before mimalloc takes them away, and yields the slot. Releases that come later still, from other
//! destructors and from libc, take the slow path with the overflow slot.

#![allow(unsafe_code)]

use crate::bounded_heap;
use crate::ledger::{LEDGER, UNCLAIMED};
use crate::mimalloc::{ffi, gate, internal_blocks};
use crate::threads::thread_state::{SLOT_KEY, state, thread_id};
use std::{ffi::c_void, sync::atomic::Ordering::Relaxed};

/// Ends a thread's part of mimalloc; the destructor of mimalloc's key.
unsafe extern "C" fn end_theaps(theap: *mut c_void) {
    let state = state();
    state.ending.set(true);
    let _inside = gate::enter(state.slot(), thread_id());
    state.forget_theaps();
    internal_blocks::thread_ends();
    // SAFETY: the value of mimalloc's key is the thread's theap in the main heap, and this is
    // the one place that ends it.
    unsafe { ffi::_mi_thread_done(theap.cast()) };
}

/// Gives the thread's slot back; the destructor of the slot key.
unsafe extern "C" fn end_slot(_slot: *mut c_void) {
    let state = state();
    bounded_heap::thread_ends();
    state.ending.set(true);
    let slot = state.slot.replace(LEDGER.overflow());
    if !std::ptr::eq(slot, &UNCLAIMED) {
        LEDGER.yield_slot(slot);
    }
}

/// Puts the host's destructor in place of mimalloc's. Once, while the process has one thread.
pub fn take_over_mimallocs() {
    let mut key = 0;
    // SAFETY: plain pthread calls. mimalloc created its key in a constructor of the executable
    // and stores each thread's theap under the number found in `_mi_heap_default_key`; the
    // process has one thread, so nobody reads that number meanwhile.
    unsafe {
        if libc::pthread_key_create(&mut key, Some(end_theaps)) == 0 {
            libc::pthread_key_delete(ffi::_mi_heap_default_key);
            ffi::_mi_heap_default_key = key;
            libc::pthread_setspecific(key, ffi::mi_theap_get_default().cast());
        }
    }
}

/// Makes each thread give its slot back at its end. Once, while the process has one thread.
pub fn watch() {
    let mut key = 0;
    // SAFETY: a plain pthread call with a function of the executable, which never goes away.
    if unsafe { libc::pthread_key_create(&mut key, Some(end_slot)) } == 0 {
        SLOT_KEY.store(key, Relaxed);
    }
}
