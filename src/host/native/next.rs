//! The malloc family behind the host's own: of a preloaded library, else of libc.
//!
//! Used for pointers that are not mimalloc's, and for everything under `--native off`. The
//! functions are found once, by [`resolve`], before anything needs them.

#![allow(unsafe_code)]

use crate::heap::{freed, guards};
use crate::ledger::Account;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function found at run time.
pub struct Symbol {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Symbol {
    const fn new(name: &'static CStr) -> Self {
        Symbol {
            name,
            address: AtomicPtr::new(null_mut()),
        }
    }

    /// The address, or null where nothing behind the executable defines the symbol.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        self.address.load(Relaxed)
    }

    fn resolve(&self) {
        self.address.store(find(self.name), Relaxed);
    }
}

macro_rules! symbols {
    ($($identifier:ident = $name:literal),* $(,)?) => {
        $(pub static $identifier: Symbol = Symbol::new($name);)*
        /// Finds every function of the list. Once, before `main` or at its start.
        fn resolve_all() {
            $($identifier.resolve();)*
        }
    };
}

symbols! {
    MALLOC = c"malloc",
    CALLOC = c"calloc",
    REALLOC = c"realloc",
    FREE = c"free",
    POSIX_MEMALIGN = c"posix_memalign",
    ALIGNED_ALLOC = c"aligned_alloc",
    MEMALIGN = c"memalign",
    VALLOC = c"valloc",
    PVALLOC = c"pvalloc",
    USABLE_SIZE = c"malloc_usable_size",
    TRIM = c"malloc_trim",
    MALLINFO = c"mallinfo",
    MALLINFO2 = c"mallinfo2",
    MMAP = c"mmap",
    MUNMAP = c"munmap",
    MREMAP = c"mremap",
    MPROTECT = c"mprotect",
    MADVISE = c"madvise",
    PTHREAD_CREATE = c"pthread_create",
    KILL = c"kill",
    SIGACTION = c"sigaction",
    SIGNAL = c"signal",
    SYSV_SIGNAL = c"__sysv_signal",
    QUICK_EXIT = c"quick_exit",
    EXECV = c"execv",
    EXECVE = c"execve",
    EXECVP = c"execvp",
    EXECVPE = c"execvpe",
    FEXECVE = c"fexecve",
    POSIX_SPAWN = c"posix_spawn",
    POSIX_SPAWNP = c"posix_spawnp",
    SYSTEM = c"system",
    POPEN = c"popen",
    FORK_ALONE = c"_Fork",
    CLONE = c"clone",
    SYSCALL = c"syscall",
}

/// libc's `dlsym`, behind the executable's own.
#[unsafe(no_mangle)]
pub static PYHOST_REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// libc's `vfork`, for the executable's own to jump to.
#[unsafe(no_mangle)]
pub static PYHOST_REAL_VFORK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// libc's `clone`, for the same.
#[unsafe(no_mangle)]
pub static PYHOST_REAL_CLONE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// libc's `syscall`, for the same.
#[unsafe(no_mangle)]
pub static PYHOST_REAL_SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Versions under which glibc has had `dlsym`, by architecture and age.
const DLSYM_VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// libc's `dlsym`.
///
/// # Safety
/// As `dlsym(3)`.
pub unsafe fn real_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let address = PYHOST_REAL_DLSYM.load(Relaxed);
    if address.is_null() {
        return null_mut();
    }
    // SAFETY: the address of `dlsym`, and the caller's duties.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(address)(handle, name) }
}

/// The definition of `name` that follows the executable in lookup order.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a string that ends in a zero byte; RTLD_NEXT counts from the caller, which is the
    // executable.
    unsafe { real_dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Where the object that `address` lies in is mapped; null for none.
pub fn object_of(address: *const c_void) -> *mut c_void {
    // SAFETY: the call fills the structure, and any address may be asked for.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        match libc::dladdr(address, &mut found) {
            0 => null_mut(),
            _ => found.dli_fbase,
        }
    }
}

/// Finds the functions. Any number of times, before threads exist.
pub fn resolve() {
    if !MALLOC.address().is_null() {
        return;
    }
    for version in DLSYM_VERSIONS {
        // SAFETY: strings that end in a zero byte. `dlvsym` is not exported by the executable.
        let address = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        if !address.is_null() {
            PYHOST_REAL_DLSYM.store(address, Relaxed);
            break;
        }
    }
    resolve_all();
    if object_of(USABLE_SIZE.address()) != object_of(MALLOC.address()) {
        // Another allocator's: it would read before the block whatever it takes for its own header.
        USABLE_SIZE.address.store(null_mut(), Relaxed);
    }
    PYHOST_REAL_VFORK.store(find(c"vfork"), Relaxed);
    PYHOST_REAL_CLONE.store(CLONE.address(), Relaxed);
    PYHOST_REAL_SYSCALL.store(SYSCALL.address(), Relaxed);
}

/// Calls a [`Symbol`] as a function of the given type, or gives `$otherwise` where it is missing.
macro_rules! call {
    ($symbol:expr, fn($($type:ty),*) -> $result:ty, ($($argument:expr),*), $otherwise:expr) => {{
        let address = $symbol.address();
        if address.is_null() {
            $otherwise
        } else {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> $result>(address)(
                $($argument),*
            )
        }
    }};
}
pub(crate) use call;

/// Allocates from the allocator behind the host's own. Null on failure.
pub fn malloc(size: usize) -> *mut u8 {
    resolve();
    // SAFETY: the symbol has this type.
    unsafe { call!(MALLOC, fn(usize) -> *mut u8, (size), null_mut()) }
}

/// Allocates zeroed bytes from the allocator behind the host's own. Null on failure.
pub fn calloc(size: usize) -> *mut u8 {
    resolve();
    // SAFETY: the symbol has this type.
    unsafe { call!(CALLOC, fn(usize, usize) -> *mut u8, (1, size), null_mut()) }
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
    // SAFETY: the caller's duties; the symbol has this type.
    unsafe { call!(FREE, fn(*mut u8) -> (), (pointer), ()) }
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
    // SAFETY: as in `free`.
    unsafe {
        call!(
            REALLOC,
            fn(*mut u8, usize) -> *mut u8,
            (pointer, size),
            null_mut()
        )
    }
}

/// Usable bytes of a pointer that is not mimalloc's; 0 where nobody can say.
///
/// # Safety
/// As `malloc_usable_size(3)` of the allocator that made the pointer.
pub unsafe fn usable_size(pointer: *mut u8) -> usize {
    resolve();
    // SAFETY: as in `free`.
    unsafe { call!(USABLE_SIZE, fn(*mut u8) -> usize, (pointer), 0) }
}

/// `kill(2)` behind the executable's own.
///
/// # Safety
/// As `kill(2)`.
pub unsafe fn kill(pid: libc::pid_t, signal: c_int) -> c_int {
    resolve();
    // SAFETY: the caller's duties; the symbol has this type.
    unsafe { call!(KILL, fn(libc::pid_t, c_int) -> c_int, (pid, signal), -1) }
}

/// `sigaction(2)` behind the executable's own: what the kernel has.
///
/// # Safety
/// As `sigaction(2)`.
pub unsafe fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    resolve();
    // SAFETY: the caller's duties; the symbol has this type.
    unsafe {
        call!(
            SIGACTION,
            fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int,
            (signal, new, old),
            -1
        )
    }
}
