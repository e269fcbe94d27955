//! Handlers for the signals that end a process: write the report, then let the signal do what it would have done.
//!
//! Installed after Python has initialised, so that `signal.getsignal` returns what it returns without
//! the host, and not if the signal is ignored. What was there before comes next: the default,
//! or faulthandler if `-X faulthandler` asked for it. A script that sets its own handler takes
//! the place of ours; one that asks for the default has ours: see [`dispositions`].
//!
//! SIGUSR2 asks for the report of the moment if there is a file for it. `python::dump` takes it,
//! until the script puts the signal back to its default; then the handler here does.

#![allow(unsafe_code)]

use super::dispositions::{self, FIRST};
use super::{damage::Filled, end_refused, finish};
use crate::check::stacks;
use crate::cpython::native_calls::{self, Of};
use crate::descriptor::notice;
use crate::errno::KeptErrno;
use crate::heap::call_site::native_stacks::MOST;
use crate::heap::guards::Fault;
use crate::heap::{checked_blocks, guards, sampling};
use crate::libc_exports::native::lookup;
use crate::limit::caps;
use crate::observe::{live, report::Ending};
use crate::process;
use derive_more::Display;
use libc::{
    SIGCHLD, SIGCONT, SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH, siginfo_t,
    ucontext_t,
};
use pyhost_os::signals::{FAULTS, STOPS, SignalSet, handler_stack, set_handler_stack, signal_name};
use pyhost_os::system_call::{Stack, call_on};
use pyhost_os::{calls, cell::Exclusive, mapping::Mapped};
use std::ffi::c_int;

/// The signals whose default is not to end the process, and SIGKILL.
const NOT_CAUGHT: [c_int; 9] = [
    SIGKILL, SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH,
];

/// The signals of an access to memory that cannot be.
pub const BY_ADDRESS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Every signal whose default is to end the process, but for SIGKILL.
pub fn fatal() -> impl Iterator<Item = c_int> {
    // Between SIGSYS and SIGRTMIN are those that libc keeps for itself.
    let all = (1..=libc::SIGSYS).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    all.filter(|signal| !NOT_CAUGHT.contains(signal))
}

/// Whether a signal is of what a thread does itself: it cannot go on.
fn is_of_thread(signal: c_int) -> bool {
    signal == libc::SIGABRT || FAULTS.contains(&signal)
}

/// The host's handler.
///
/// # Safety
/// The arguments of a handler, or null.
pub unsafe extern "C" fn handle(signal: c_int, info: *const siginfo_t, context: *const ucontext_t) {
    let _errno = KeptErrno::new();
    // SAFETY: the caller's duty.
    let (info, context) = unsafe { (info.as_ref(), context.as_ref()) };
    if signal == libc::SIGBUS && info.is_some_and(goes_on) || dispositions::gives_way(signal, info)
    {
        return;
    }
    let is_ignored = process::id() == FIRST && info.is_some_and(dispositions::was_sent);
    let is_request = signal == libc::SIGUSR2 && dispositions::is_default(signal);
    if STOPS.contains(&signal) {
        live::note_stop(info.is_some_and(is_own));
    }
    if !is_ignored && !is_of_thread(signal) && sampling::defers(signal) {
        return;
    }
    if !(is_ignored || is_request && dump()) {
        end_by(signal, info.zip(context));
    }
}

/// Whether this process has sent itself the signal.
fn is_own(info: &siginfo_t) -> bool {
    // SAFETY: a signal that was sent has the sender's id; of another the condition before is false.
    dispositions::was_sent(info) && unsafe { info.si_pid() } == process::id()
}

/// Whether a fault was at a file of the host's own, without which it goes on.
fn goes_on(info: &siginfo_t) -> bool {
    const BUS_ADRERR: c_int = 2; // the object has no such page
    // SAFETY: a fault has an address.
    info.si_code == BUS_ADRERR && live::goes_on_without_file(unsafe { info.si_addr() }.addr())
}

/// Writes the report of this moment; false if none was asked for.
fn dump() -> bool {
    let mut is_done = false;
    with_room(|| is_done = super::dump_from_handler());
    is_done
}

/// What is known of a fault.
#[derive(Display)]
enum Cause {
    Guarded(Fault),
    /// It was by bytes of the debug hooks.
    Filled(Filled),
    /// Of other memory, with this signal, at this address.
    #[display("{} at address {_1:#x}", signal_name(*_0))]
    Other(c_int, usize),
    #[display("{} at an address that is not known", signal_name(*_0))]
    Unknown(c_int),
    /// As unknown, while blocks have this alignment.
    #[display("{} at an address that is not known, as of code that needs malloc's alignment of 16: give --guard align=16, not align={_1}", signal_name(*_0))]
    Unaligned(c_int, usize),
}

/// What is known of a fault. A signal that a process has sent is no fault.
fn cause(signal: c_int, info: &siginfo_t, context: &ucontext_t) -> Option<Cause> {
    let (address, is_write) = access(info, context);
    if let Some(fault) = guards::fault_at(address, is_write) {
        return Some(Cause::Guarded(fault));
    }
    let unaligned = guards::alignment_below_mallocs().filter(|_| !is_page_fault(context));
    let unaligned = unaligned.map(|alignment| Cause::Unaligned(signal, alignment));
    if !checked_blocks::is_on() {
        return unaligned.filter(|_| !dispositions::was_sent(info));
    }
    let filled = filled(context).map(Cause::Filled);
    let other = match is_page_fault(context) {
        true => Cause::Other(signal, address),
        false => unaligned.unwrap_or(Cause::Unknown(signal)),
    };
    filled.or_else(|| (!dispositions::was_sent(info)).then_some(other))
}

/// Writes the report, then lets the signal take its course.
fn end_by(signal: c_int, fault: Option<(&siginfo_t, &ucontext_t)>) {
    let fault = fault.filter(|_| BY_ADDRESS.contains(&signal));
    let cause = fault.and_then(|(info, context)| cause(signal, info, context));
    // Here, since the walk must begin on the stack that the handler was called on.
    let mut found = [0; MOST];
    let count = match cause {
        Some(_) => native_calls::find(&mut found, Of::Interrupted),
        None => 0,
    };
    let is_abort = signal == libc::SIGABRT;
    let refused = is_abort.then(lookup::refused_by_libc).flatten();
    with_room(|| {
        if let Some(words) = refused {
            notice(format_args!(
                "{}: a library has called libc's own free or realloc with a block of pyhost's; it does not find the \
                 program's (docs/debug/tools.md). With --malloc off malloc is libc's",
                words.trim_end()
            ));
        }
        if let Some(cause) = &cause {
            let (made, freed) = match cause {
                Cause::Guarded(fault) => (fault.made, fault.freed.unwrap_or_default()),
                _ => Default::default(),
            };
            notice(format_args!("{cause}"));
            stacks::write_found(&found[..count], made.calls, freed.calls);
        }
        // A jemalloc that gets no map for itself uses null.
        let is_of_library = is_abort || fault.is_some();
        if is_of_library && let Some(refusal) = caps::aborts() {
            end_refused(&refusal);
        }
        finish(Ending::Signal(signal), true);
    });
    // Blocked until the handler returns; then what the script sees takes its course. A fault comes again by itself.
    dispositions::step_aside(signal);
    calls::raise(signal);
}

/// A register with bytes of the debug hooks, at a fault by an address that no memory can have, or by something else that is
/// forbidden. The processor does not say by what ("General Protection Exception" and "Stack Exception" in the manual of x86-64).
#[cfg(target_arch = "x86_64")]
fn filled(context: &ucontext_t) -> Option<Filled> {
    const STACK: i64 = 12; // by rbp or rsp; the system's signal is SIGBUS
    const GENERAL_PROTECTION: i64 = 13;
    let registers = &context.uc_mcontext.gregs;
    let is_so = [STACK, GENERAL_PROTECTION].contains(&registers[libc::REG_TRAPNO as usize]);
    let general = registers[libc::REG_R8 as usize..=libc::REG_RCX as usize].iter();
    is_so.then(|| Filled::among(general.map(|&register| register as usize)))?
}

#[cfg(not(target_arch = "x86_64"))]
fn filled(_context: &ucontext_t) -> Option<Filled> {
    Filled::among([]) // not known there
}

/// The address of the thread's last access that failed, and whether it was a write.
///
/// The processor's registers are asked, not `si_addr`: faulthandler, if a script has enabled it
/// after us, writes its traceback first and then raises the signal again, without an address.
#[cfg(target_arch = "x86_64")]
fn access(_info: &siginfo_t, context: &ucontext_t) -> (usize, Option<bool>) {
    // Bit 1 of a page fault's error code, which the system hands on.
    const WRITE: i64 = 1 << 1;
    let registers = &context.uc_mcontext.gregs;
    let is_write = registers[libc::REG_ERR as usize] & WRITE != 0;
    (registers[libc::REG_CR2 as usize] as usize, Some(is_write))
}

/// Whether the processor has told the address of a fault.
#[cfg(target_arch = "x86_64")]
fn is_page_fault(context: &ucontext_t) -> bool {
    const PAGE_FAULT: i64 = 14;
    context.uc_mcontext.gregs[libc::REG_TRAPNO as usize] == PAGE_FAULT
}

#[cfg(not(target_arch = "x86_64"))]
fn is_page_fault(_context: &ucontext_t) -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
fn access(info: &siginfo_t, context: &ucontext_t) -> (usize, Option<bool>) {
    // Of asm/sigcontext.h: records of several kinds lie at a multiple of 16 bytes behind the registers, in 4,096 bytes.
    const FIRST: usize = (size_of::<u64>() * 35).next_multiple_of(16);
    const END: usize = FIRST + 4096;
    const ESR_MAGIC: u32 = 0x4553_5201;
    // Of ESR_EL1 in the manual of the architecture: bits 26 to 31 are the class, 0x24 and 0x25 an access to data; WnR.
    const CLASS: u32 = 26;
    const ACCESS: u64 = 0x24;
    const WRITE: u64 = 1 << 6;
    const { assert!(size_of::<libc::mcontext_t>() >= END) };
    let machine = &raw const context.uc_mcontext;
    let mut at = FIRST;
    while at + 16 <= END {
        // SAFETY: within the structure, at a multiple of 8 bytes: a record's kind and size, and what ESR_MAGIC's has.
        let (kind, size, syndrome) = unsafe {
            let record = machine.byte_add(at);
            let head = record.cast::<[u32; 2]>().read();
            (head[0], head[1], record.cast::<u64>().add(1).read())
        };
        if kind == ESR_MAGIC && syndrome >> CLASS & !1 == ACCESS {
            let address = context.uc_mcontext.fault_address as usize;
            return (address, Some(syndrome & WRITE != 0));
        }
        if kind == 0 || size < 8 || size % 8 != 0 {
            break;
        }
        at += size as usize;
    }
    access_by_signal(info)
}

#[cfg(target_arch = "arm")]
fn access(info: &siginfo_t, context: &ucontext_t) -> (usize, Option<bool>) {
    // A page fault in the system's words; WnR of DFSR in the manual of the architecture.
    const PAGE_FAULT: libc::c_ulong = 14;
    const WRITE: libc::c_ulong = 1 << 11;
    let machine = &context.uc_mcontext;
    match machine.trap_no {
        PAGE_FAULT => (
            machine.fault_address as usize,
            Some(machine.error_code & WRITE != 0),
        ),
        _ => access_by_signal(info),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn access_by_signal(info: &siginfo_t) -> (usize, Option<bool>) {
    // SAFETY: a signal that was raised has no address but a process id in that place, which is
    // the address of no guarded block.
    (unsafe { info.si_addr() }.addr(), None)
}

/// Installs the handler of `signals`, with a stack of its own for the calling thread.
pub fn install(signals: impl Iterator<Item = c_int>) {
    give_stack();
    watch(signals);
}

/// Gives the main thread a stack for handlers.
fn give_stack() {
    let current = handler_stack();
    // faulthandler's own, if -X asked for it, is too small.
    let is_small = current.ss_flags & libc::SS_DISABLE != 0 || current.ss_size < STACK;
    if let Some(memory) = is_small.then(|| Mapped::private(STACK)).flatten() {
        set_handler_stack(memory.leak());
    }
}

/// Puts the handler in place for signals after which the thread's own stack has room.
pub fn watch(signals: impl Iterator<Item = c_int>) {
    // The one C function that Python has as the handler of every signal with a Python function: SIGINT's, if it has one.
    let python = dispositions::current(libc::SIGINT).map(|it| it.handler());
    let python = python.filter(|it| ![libc::SIG_DFL, libc::SIG_IGN].contains(it));
    dispositions::watch(signals, handle, |signal, found| {
        // A handler that `sitecustomize` set by `signal.signal` is the script's own.
        found.handler() != libc::SIG_IGN
            && is_of_thread(signal)
            && ![libc::SIGTRAP, libc::SIGSYS].contains(&signal) // faulthandler has the others
            && Some(found.handler()) != python
    });
}

/// Bytes of a signal stack that are enough for the handler, whose largest frames are two paths.
pub(super) const STACK: usize = 96 * 1024;

static MEMORY: Exclusive<Stack<STACK>> = Exclusive::new(Stack([0; STACK]));

/// Runs `work`, which must not unwind: on a stack of its own if the calling thread is on a small signal stack,
/// and no other thread has that stack. All signals are blocked there: a handler would begin at the
/// signal stack's top, over the frames that are to be returned to.
pub fn with_room(mut work: impl FnMut()) {
    let current = handler_stack();
    let is_small = current.ss_flags & libc::SS_ONSTACK != 0 && current.ss_size < STACK;
    let Some(mut memory) = is_small.then(|| MEMORY.try_hold()).flatten() else {
        return work();
    };
    let before = SignalSet::all().make_mask();
    call_on(&mut memory, &mut work);
    before.make_mask();
}
