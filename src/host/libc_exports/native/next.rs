//! The malloc family behind the host's own: of a preloaded library, else of libc.
//!
//! Used for pointers that are not mimalloc's, and for everything under `--malloc off`. The functions are found once,
//! before anything needs them: by the loader ([`resolve`]), or in a static executable by the linker.

#![allow(unsafe_code)]

#[cfg(not(target_feature = "crt-static"))]
mod by_loader;
#[cfg(target_feature = "crt-static")]
use by_linker as found;
#[cfg(not(target_feature = "crt-static"))]
use by_loader as found;

/// The functions in a static executable, which has no loader: libc's by the names that the build gives them
/// (`link_c_library` in build.rs).
#[cfg(target_feature = "crt-static")]
mod by_linker {
    use super::{Lookup, Symbol};

    /// Declares functions, at the addresses that the linker writes.
    macro_rules! symbols {
        ($(#[$of:meta] { $($identifier:ident = $name:literal: $type:ty;)* })*) => {
            $($(#[$of] pub static $identifier: Symbol<$type> = {
                // SAFETY: only the address is used, as the type in the list.
                unsafe extern "C" {
                    #[link_name = concat!("__next_", $name)]
                    fn next();
                }
                Symbol::at(next as *const std::ffi::c_void)
            };)*)*
        };
    }
    pub(super) use symbols;

    /// A library that is not there has no names either.
    pub static DLSYM: Symbol<Lookup> = Symbol::at(std::ptr::null());

    /// The linker has found them.
    pub(super) fn find() {}
}

pub use found::DLSYM;

use super::no_block;
use super::{Mode, mode};
use crate::heap::{checked_requests, double_free, guards};
use crate::ledger::Account;
use pyhost_os::strings::Strings;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use std::{marker::PhantomData, mem::MaybeUninit, ptr::null_mut};

/// Calls a function of this module's list; gives `$otherwise` if it is missing.
macro_rules! call {
    ($symbol:ident($($argument:expr),*), $otherwise:expr) => {
        match $crate::libc_exports::native::next::$symbol.get() {
            Some(function) => function($($argument),*),
            None => $otherwise,
        }
    };
}
pub(crate) use call;

/// A function of type `F` that is found at run time. Assembly reads its address at the start.
#[repr(C)]
pub struct Symbol<F> {
    address: AtomicPtr<c_void>,
    #[cfg(not(target_feature = "crt-static"))]
    name: &'static std::ffi::CStr,
    function: PhantomData<F>,
}

impl<F: Copy> Symbol<F> {
    /// `F` is the type that C gives the function of this name.
    #[cfg(not(target_feature = "crt-static"))]
    pub const fn new(name: &'static std::ffi::CStr) -> Self {
        Symbol {
            address: AtomicPtr::new(null_mut()),
            name,
            function: PhantomData,
        }
    }

    /// `F` is the type of the function at the address.
    #[cfg(target_feature = "crt-static")]
    const fn at(address: *const c_void) -> Self {
        Symbol {
            address: AtomicPtr::new(address.cast_mut()),
            function: PhantomData,
        }
    }

    /// The address, or null if nothing behind the executable defines the symbol.
    fn address(&self) -> *mut c_void {
        self.address.load(Relaxed)
    }

    /// The function, or `None` if nothing behind the executable defines it.
    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address();
        // SAFETY: the address of a function of type `F`, as `new` says.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}

/// The first function of a thread.
pub type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
pub type Attributes = *const libc::pthread_attr_t;
type Action = libc::sigaction;
/// Where in a file, with 64 bits everywhere.
pub type Offset = i64;
type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, Offset) -> *mut c_void;
type Time = *const libc::timespec;
/// Sets a signal's handler.
pub type Setter = unsafe extern "C" fn(c_int, libc::sighandler_t) -> libc::sighandler_t;
type Spawn = unsafe extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    Strings<'_>,
    Strings<'_>,
) -> c_int;
/// A function that assembly jumps to.
type Jump = ();
pub type Free = unsafe extern "C" fn(*mut u8);
pub type Resize = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

found::symbols! {
    #[cfg(all())] {
        MALLOC = "malloc": extern "C" fn(usize) -> *mut u8;
        CALLOC = "calloc": extern "C" fn(usize, usize) -> *mut u8;
        REALLOC = "realloc": Resize;
        FREE = "free": Free;
        POSIX_MEMALIGN = "posix_memalign":
            extern "C" fn(&mut MaybeUninit<*mut u8>, usize, usize) -> c_int;
        ALIGNED_ALLOC = "aligned_alloc": extern "C" fn(usize, usize) -> *mut u8;
        MEMALIGN = "memalign": extern "C" fn(usize, usize) -> *mut u8;
        VALLOC = "valloc": extern "C" fn(usize) -> *mut u8;
        USABLE_SIZE = "malloc_usable_size": unsafe extern "C" fn(*mut u8) -> usize;
        MUNMAP = "munmap": unsafe extern "C" fn(*mut c_void, usize) -> c_int;
        MREMAP = "mremap":
            unsafe extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void;
        MPROTECT = "mprotect": unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;
        MADVISE = "madvise": unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;
        SBRK = "sbrk": unsafe extern "C" fn(isize) -> *mut c_void;
        PTHREAD_CREATE = "pthread_create":
            unsafe extern "C" fn(*mut libc::pthread_t, Attributes, Start, *mut c_void) -> c_int;
        POLL = "poll": unsafe extern "C" fn(*mut libc::pollfd, libc::nfds_t, c_int) -> c_int;
        PPOLL = "ppoll":
            unsafe extern "C" fn(*mut libc::pollfd, libc::nfds_t, Time, *const libc::sigset_t) -> c_int;
        EPOLL_WAIT = "epoll_wait":
            unsafe extern "C" fn(c_int, *mut libc::epoll_event, c_int, c_int) -> c_int;
        EPOLL_PWAIT = "epoll_pwait": unsafe extern "C" fn(
            c_int,
            *mut libc::epoll_event,
            c_int,
            c_int,
            *const libc::sigset_t,
        ) -> c_int;
        SELECT = "select": unsafe extern "C" fn(
            c_int,
            *mut libc::fd_set,
            *mut libc::fd_set,
            *mut libc::fd_set,
            *mut libc::timeval,
        ) -> c_int;
        CLOCK_NANOSLEEP = "clock_nanosleep":
            unsafe extern "C" fn(libc::clockid_t, c_int, Time, *mut libc::timespec) -> c_int;
        KILL = "kill": extern "C" fn(libc::pid_t, c_int) -> c_int;
        SIGACTION = "sigaction": unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
        SIGNAL = "signal": Setter;
        SYSV_SIGNAL = "__sysv_signal": Setter;
        QUICK_EXIT = "quick_exit": extern "C" fn(c_int);
        EXECVE = "execve": unsafe extern "C" fn(*const c_char, Strings<'_>, Strings<'_>) -> c_int;
        EXECVPE = "execvpe": unsafe extern "C" fn(*const c_char, Strings<'_>, Strings<'_>) -> c_int;
        FEXECVE = "fexecve": unsafe extern "C" fn(c_int, Strings<'_>, Strings<'_>) -> c_int;
        POSIX_SPAWN = "posix_spawn": Spawn;
        POSIX_SPAWNP = "posix_spawnp": Spawn;
        SYSTEM = "system": unsafe extern "C" fn(*const c_char) -> c_int;
        POPEN = "popen": unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void;
        FORK_ALONE = "_Fork": unsafe extern "C" fn() -> libc::pid_t;
        VFORK = "vfork": Jump;
        CLONE = "clone": Jump;
        SYSCALL = "syscall":
            unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
    }
    #[cfg(target_pointer_width = "64")] {
        MMAP = "mmap": Map;
    }
    #[cfg(target_pointer_width = "32")] {
        MMAP = "mmap64": Map;
    }
    #[cfg(not(target_feature = "crt-static"))] {
        SECURE_GETENV = "secure_getenv":
            unsafe extern "C" fn(*const c_char) -> *const c_char;
        DLOPEN = "dlopen": Jump;
        DLVSYM = "dlvsym":
            unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
    }
    #[cfg(target_env = "gnu")] {
        PVALLOC = "pvalloc": extern "C" fn(usize) -> *mut u8;
        LIBC_MALLOC = "__libc_malloc": extern "C" fn(usize) -> *mut u8;
        LIBC_CALLOC = "__libc_calloc": extern "C" fn(usize, usize) -> *mut u8;
        LIBC_REALLOC = "__libc_realloc": Resize;
        LIBC_FREE = "__libc_free": Free;
        LIBC_MEMALIGN = "__libc_memalign": extern "C" fn(usize, usize) -> *mut u8;
        LIBC_VALLOC = "__libc_valloc": extern "C" fn(usize) -> *mut u8;
        LIBC_PVALLOC = "__libc_pvalloc": extern "C" fn(usize) -> *mut u8;
        TRIM = "malloc_trim": extern "C" fn(usize) -> c_int;
        MALLINFO = "mallinfo": extern "C" fn() -> libc::mallinfo;
        MALLINFO2 = "mallinfo2": extern "C" fn() -> libc::mallinfo2;
        STATS = "malloc_stats": extern "C" fn();
        INFO = "malloc_info": unsafe extern "C" fn(c_int, *mut libc::FILE) -> c_int;
    }
    #[cfg(target_env = "musl")] {
        EXIT = "exit": extern "C" fn(c_int);
    }
}

/// Calls of the functions that free and resize behind the host's own, if not all calls are. A signal handler asks whose call
/// ended the process, so it is not a thread's own.
static PASSING_ON: AtomicUsize = AtomicUsize::new(0);

/// Finds the functions. Any number of times, before threads exist.
pub fn resolve() {
    if MALLOC.get().is_none() {
        found::find();
    }
}

/// The address of a function or variable of the process; null for none.
pub fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a string that ends with a zero byte.
    unsafe { call!(DLSYM(libc::RTLD_DEFAULT, name.as_ptr()), null_mut()) }
}

/// As [`find`], of the definition that follows the host.
#[cfg(not(target_feature = "crt-static"))]
fn find_next(name: &CStr) -> *mut c_void {
    // SAFETY: a string that ends with a zero byte; RTLD_NEXT counts from the caller, which is the host.
    unsafe { call!(DLSYM(libc::RTLD_NEXT, name.as_ptr()), null_mut()) }
}

/// Allocates from the allocator behind the host's own. Null on failure.
pub fn malloc(size: usize) -> *mut u8 {
    resolve();
    call!(MALLOC(size), null_mut())
}

/// Allocates zeroed bytes from the allocator behind the host's own. Null on failure.
pub fn calloc(size: usize) -> *mut u8 {
    resolve();
    call!(CALLOC(1, size), null_mut())
}

/// Frees a pointer that is not mimalloc's, for account `A`: a guarded block, or one of the
/// allocator behind the host's own.
///
/// # Safety
/// As `free(3)` of the allocator that made the pointer.
#[cold]
#[inline(never)] // or every caller's fast path would keep a register for it
pub unsafe fn free<const A: usize>(pointer: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe { free_by::<A>(&FREE, pointer) };
}

/// [`free`] by one of the functions behind the host's own.
pub unsafe fn free_by<const A: usize>(function: &Symbol<Free>, pointer: *mut u8) {
    if !guards::free(pointer, Account::ALL[A]) {
        // SAFETY: the caller's duties.
        pass_on(function, pointer, |free| unsafe { free(pointer) });
    }
}

/// Resizes a pointer that is not mimalloc's, with the allocator that made it.
///
/// # Safety
/// As `realloc(3)` of that allocator.
#[cold]
#[inline(never)]
pub unsafe fn realloc(pointer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's duties.
    unsafe { realloc_by(&REALLOC, pointer, size) }
}

/// [`realloc`] by one of the functions behind the host's own.
pub unsafe fn realloc_by(function: &Symbol<Resize>, pointer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's duties.
    let moved = pass_on(function, pointer, |resize| unsafe { resize(pointer, size) });
    moved.unwrap_or(null_mut())
}

/// Gives a block that is not mimalloc's to a function behind the host's own; `None` if it is missing.
fn pass_on<F: Copy, R>(real: &Symbol<F>, pointer: *mut u8, call: impl FnOnce(F) -> R) -> Option<R> {
    double_free::refuse_if_ours(pointer);
    if checked_requests::is_on() {
        no_block::refuse(pointer);
    }
    resolve();
    if mode() == Mode::Off {
        return real.get().map(call);
    }
    PASSING_ON.fetch_add(1, Relaxed);
    let result = real.get().map(call);
    PASSING_ON.fetch_sub(1, Relaxed);
    result
}

/// Whether the host gives a block to the allocator behind its own at this moment, in any thread; it may always, if it gives
/// all of them.
#[cfg(not(target_feature = "crt-static"))]
pub fn passes_on() -> bool {
    mode() == Mode::Off || PASSING_ON.load(Relaxed) > 0
}

/// Usable bytes of a pointer that is not mimalloc's; 0 if nobody can say.
///
/// # Safety
/// As `malloc_usable_size(3)` of the allocator that made the pointer.
pub unsafe fn usable_size(pointer: *mut u8) -> usize {
    resolve();
    // SAFETY: the caller's duties.
    unsafe { call!(USABLE_SIZE(pointer), 0) }
}

/// `kill(2)` behind the executable's own.
pub fn kill(pid: libc::pid_t, signal: c_int) -> c_int {
    resolve();
    call!(KILL(pid, signal), -1)
}

/// `sigaction(2)` behind the executable's own: what the kernel has.
pub unsafe fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    resolve();
    // SAFETY: the caller's duties.
    unsafe { call!(SIGACTION(signal, new, old), -1) }
}
