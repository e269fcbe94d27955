//! The registers of the process's other threads: one that waits in the system may have a pointer there alone.
//!
//! A thread cannot read those of the others of its process, so a copy of the process does, by ptrace(2): it stops each for a
//! moment. If the system forbids that, or a debugger has the threads already, their registers are not searched.

use super::memory::Range;
use super::table::{Table, new_table};
use crate::observe::pyhostctl_process;
use crate::process::{self, small_file};
use pyhost_os::calls::{Tracee, allow_tracer, waitpid};
use pyhost_os::{clock::wait_until, mapping::Shared, signals::SignalSet, system_call::run_in_copy};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Threads that are looked at.
const MOST: usize = 4096;

/// Room for the general registers of a thread (`NT_PRSTATUS` of ptrace(2)), in bytes.
const ROOM: usize = 512;

/// How long the copy may take, in nanoseconds.
const PATIENCE: u64 = 5_000_000_000;

/// How long a thread may take to stop: one that sleeps without being interruptible does not.
const OF_THREAD: u64 = 50_000_000;

/// Nanoseconds between two looks.
const PAUSE: u64 = 1_000_000;

/// Adds the registers of the other threads. The copy makes a table of pages like this one's, so it takes longer with more memory.
pub fn add(ranges: &mut Table<Range>) {
    let Some(mut threads) = new_table(MOST) else {
        return;
    };
    process::each_other_thread(|thread| {
        threads.push(thread);
    });
    if threads.is_empty() {
        return;
    }
    let Some(memory) = Shared::<AtomicU64>::new((1 + threads.len()) * ROOM / 8) else {
        return;
    };
    let memory = memory.leak();
    let (may_begin, room) = (&memory[0], &memory[ROOM / 8..]);
    // No handler of the script's runs in the copy.
    let mask = SignalSet::all().block();
    let copy = run_in_copy(0, || {
        wait_until(PATIENCE, PAUSE, || may_begin.load(Acquire) != 0);
        for (&thread, room) in threads.iter().zip(room.chunks(ROOM / 8)) {
            read(&Tracee(thread), room);
        }
    });
    let Some(copy) = copy else {
        mask.make_mask();
        return;
    };
    if is_asked_for() {
        allow_tracer(copy);
    }
    may_begin.store(1, Release);
    pyhostctl_process::wait(copy, PATIENCE);
    mask.make_mask();
    let addresses = room.as_ptr_range();
    ranges.push(addresses.start.addr()..addresses.end.addr());
}

/// Whether a process must name another one that is to trace it: the scope 1 of the security module Yama.
fn is_asked_for() -> bool {
    let mut buffer = [0; 4];
    small_file::read_once(c"/proc/sys/kernel/yama/ptrace_scope", &mut buffer)
        .is_some_and(|scope| scope.starts_with(b"1"))
}

/// Reads the registers of a thread of the process that this one is a copy of.
fn read(thread: &Tracee, room: &[AtomicU64]) {
    if !thread.seize() {
        return;
    }
    let mut status = 0;
    let stopped = || waitpid(thread.0, Some(&mut status), libc::__WALL | libc::WNOHANG) == thread.0;
    if !(thread.interrupt() && wait_until(OF_THREAD, PAUSE, stopped)) {
        return; // as the copy ends, the system lets it go
    }
    thread.read_registers(room);
    // A signal that has stopped it first is still to come.
    let is_own = status >> 16 == libc::PTRACE_EVENT_STOP;
    thread.detach(if is_own { 0 } else { libc::WSTOPSIG(status) });
}
