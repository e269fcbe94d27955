//! The malloc family behind the host's own: of a preloaded library, else of libc.
//!
//! Used for pointers that are not mimalloc's, and for everything under `--native off`. The
//! functions are found once, by [`resolve`], before anything needs them.

#![allow(unsafe_code)]

use super::mode::{self, Mode, mode};
use crate::heap::{freed, guards};
use crate::ledger::Account;
use pyhost_os::strings::Strings;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Calls a function of this module's list; gives `$otherwise` if it is missing.
macro_rules! call {
    ($symbol:ident($($argument:expr),*), $otherwise:expr) => {
        match $crate::native::next::$symbol.get() {
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
    name: &'static CStr,
    function: PhantomData<F>,
}

impl<F: Copy> Symbol<F> {
    /// `F` is the type that C gives the function of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Symbol {
            address: AtomicPtr::new(null_mut()),
            name,
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

    /// Finds the definition that follows the host in lookup order. After [`resolve`], which does so for all below.
    pub fn resolve(&self) {
        // SAFETY: RTLD_NEXT counts from the caller, which is the host.
        let address = unsafe { call!(DLSYM(libc::RTLD_NEXT, self.name.as_ptr()), null_mut()) };
        self.address.store(address, Relaxed);
    }
}

macro_rules! symbols {
    ($($(#[$condition:meta])? $identifier:ident = $name:literal: $type:ty;)*) => {
        $($(#[$condition])? pub static $identifier: Symbol<$type> = Symbol::new($name);)*
        /// Finds every function of the list. Once, before `main` or at its start.
        fn resolve_all() {
            $($(#[$condition])? $identifier.resolve();)*
        }
    };
}

/// The first function of a thread.
pub type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
/// The attributes of a new thread.
pub type Attributes = *const libc::pthread_attr_t;
type Action = libc::sigaction;
/// Where in a file, with 64 bits everywhere.
pub type Offset = i64;
type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, Offset) -> *mut c_void;
/// A moment, or a span of time.
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

symbols! {
    MALLOC = c"malloc": extern "C" fn(usize) -> *mut u8;
    CALLOC = c"calloc": extern "C" fn(usize, usize) -> *mut u8;
    REALLOC = c"realloc": unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
    FREE = c"free": unsafe extern "C" fn(*mut u8);
    POSIX_MEMALIGN = c"posix_memalign":
        extern "C" fn(&mut MaybeUninit<*mut u8>, usize, usize) -> c_int;
    ALIGNED_ALLOC = c"aligned_alloc": extern "C" fn(usize, usize) -> *mut u8;
    MEMALIGN = c"memalign": extern "C" fn(usize, usize) -> *mut u8;
    VALLOC = c"valloc": extern "C" fn(usize) -> *mut u8;
    PVALLOC = c"pvalloc": extern "C" fn(usize) -> *mut u8;
    USABLE_SIZE = c"malloc_usable_size": unsafe extern "C" fn(*mut u8) -> usize;
    TRIM = c"malloc_trim": extern "C" fn(usize) -> c_int;
    MALLINFO = c"mallinfo": extern "C" fn() -> libc::mallinfo;
    MALLINFO2 = c"mallinfo2": extern "C" fn() -> libc::mallinfo2;
    #[cfg(target_pointer_width = "64")]
    MMAP = c"mmap": Map;
    #[cfg(target_pointer_width = "32")]
    MMAP = c"mmap64": Map;
    MUNMAP = c"munmap": unsafe extern "C" fn(*mut c_void, usize) -> c_int;
    MREMAP = c"mremap":
        unsafe extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void;
    MPROTECT = c"mprotect": unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;
    MADVISE = c"madvise": unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;
    PTHREAD_CREATE = c"pthread_create":
        unsafe extern "C" fn(*mut libc::pthread_t, Attributes, Start, *mut c_void) -> c_int;
    POLL = c"poll": unsafe extern "C" fn(*mut libc::pollfd, libc::nfds_t, c_int) -> c_int;
    PPOLL = c"ppoll":
        unsafe extern "C" fn(*mut libc::pollfd, libc::nfds_t, Time, *const libc::sigset_t) -> c_int;
    EPOLL_WAIT = c"epoll_wait":
        unsafe extern "C" fn(c_int, *mut libc::epoll_event, c_int, c_int) -> c_int;
    EPOLL_PWAIT = c"epoll_pwait": unsafe extern "C" fn(
        c_int,
        *mut libc::epoll_event,
        c_int,
        c_int,
        *const libc::sigset_t,
    ) -> c_int;
    SELECT = c"select": unsafe extern "C" fn(
        c_int,
        *mut libc::fd_set,
        *mut libc::fd_set,
        *mut libc::fd_set,
        *mut libc::timeval,
    ) -> c_int;
    CLOCK_NANOSLEEP = c"clock_nanosleep":
        unsafe extern "C" fn(libc::clockid_t, c_int, Time, *mut libc::timespec) -> c_int;
    KILL = c"kill": extern "C" fn(libc::pid_t, c_int) -> c_int;
    SIGACTION = c"sigaction": unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
    SIGNAL = c"signal": Setter;
    SYSV_SIGNAL = c"__sysv_signal": Setter;
    QUICK_EXIT = c"quick_exit": extern "C" fn(c_int);
    EXECVE = c"execve": unsafe extern "C" fn(*const c_char, Strings<'_>, Strings<'_>) -> c_int;
    EXECVPE = c"execvpe": unsafe extern "C" fn(*const c_char, Strings<'_>, Strings<'_>) -> c_int;
    FEXECVE = c"fexecve": unsafe extern "C" fn(c_int, Strings<'_>, Strings<'_>) -> c_int;
    POSIX_SPAWN = c"posix_spawn": Spawn;
    POSIX_SPAWNP = c"posix_spawnp": Spawn;
    SYSTEM = c"system": unsafe extern "C" fn(*const c_char) -> c_int;
    POPEN = c"popen": unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void;
    FORK_ALONE = c"_Fork": unsafe extern "C" fn() -> libc::pid_t;
    VFORK = c"vfork": Jump;
    CLONE = c"clone": Jump;
    SYSCALL = c"syscall":
        unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
}

/// libc's `dlsym`, behind the executable's own.
pub static DLSYM: Symbol<unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void> =
    Symbol::new(c"dlsym");

/// Versions under which glibc has had `dlsym`, by architecture and age.
const DLSYM_VERSIONS: [&CStr; 4] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17", c"GLIBC_2.4"];

/// Whether two functions are of one library. Here no function but the loader's own may be called: a preloaded sanitizer,
/// which is not ready yet, has a `dl_iterate_phdr` of its own. `dladdr` looks at all names of a library, so it is not
/// asked about functions so close together that no library begins between them, as those of libc.
fn are_of_one_library(left: *mut c_void, right: *mut c_void) -> bool {
    const CLOSE: usize = 64 << 10;
    let object_of = |address| {
        // SAFETY: the call fills the structure, and any address may be asked for.
        unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            match libc::dladdr(address, &mut found) {
                0 => null_mut(),
                _ => found.dli_fbase,
            }
        }
    };
    left.addr().abs_diff(right.addr()) < CLOSE || object_of(left) == object_of(right)
}

/// Finds the functions. Any number of times, before threads exist.
pub fn resolve() {
    if MALLOC.get().is_some() {
        return;
    }
    // A look-up of glibc before 2.34 allocates, as every one that fails does. It may not be the first request of the
    // heaps: the region is not reserved yet. Until libc's own malloc is found it gets null, which it can do with.
    let chosen = mode();
    mode::set(Mode::Off);
    for version in DLSYM_VERSIONS {
        let (name, version) = (DLSYM.name.as_ptr(), version.as_ptr());
        // SAFETY: strings that end in a zero byte. `dlvsym` is not exported by the executable.
        let address = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version) };
        if !address.is_null() {
            DLSYM.address.store(address, Relaxed);
            break;
        }
    }
    resolve_all();
    mode::set(chosen);
    if !are_of_one_library(USABLE_SIZE.address(), MALLOC.address()) {
        // Another allocator's: it would read before the block whatever it takes for its own header.
        USABLE_SIZE.address.store(null_mut(), Relaxed);
    }
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
    if guards::free(pointer, Account::ALL[A]) {
        return;
    }
    freed::refuse_if_ours(pointer);
    resolve();
    // SAFETY: the caller's duties.
    unsafe { call!(FREE(pointer), ()) }
}

/// Resizes a pointer that is not mimalloc's, with the allocator that made it.
///
/// # Safety
/// As `realloc(3)` of that allocator.
#[cold]
#[inline(never)]
pub unsafe fn realloc(pointer: *mut u8, size: usize) -> *mut u8 {
    freed::refuse_if_ours(pointer);
    resolve();
    // SAFETY: the caller's duties.
    unsafe { call!(REALLOC(pointer, size), null_mut()) }
}

/// Usable bytes of a pointer that is not mimalloc's; 0 where nobody can say.
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
///
/// # Safety
/// As `sigaction(2)`.
pub unsafe fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    resolve();
    // SAFETY: the caller's duties.
    unsafe { call!(SIGACTION(signal, new, old), -1) }
}
