//! Functions of libc that are sound with every argument: they use no memory of the process but what their references
//! lead to, and close nothing. The `libc` crate calls all functions unsafe. Each has a manual page of its name.

#![allow(unsafe_code, missing_docs)]

use libc::{c_char, c_int, c_long, c_uint, c_ulong, off_t, pid_t, sigset_t, timespec};
use std::ffi::CStr;
use std::marker::PhantomData;

/// A path, or another text that ends with a zero byte, as a call takes it.
#[repr(transparent)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        Text(text.as_ptr(), PhantomData)
    }
}

/// A resource that has a limit.
#[cfg(target_env = "gnu")]
pub type Resource = libc::__rlimit_resource_t;
#[cfg(target_env = "musl")]
pub type Resource = c_int;

// With numbers of 64 bits, of which musl has no others.
#[cfg(target_env = "musl")]
pub use libc::{rlimit as Limit, stat as Status};
#[cfg(target_env = "gnu")]
pub use libc::{rlimit64 as Limit, stat64 as Status};

// SAFETY: the functions have these types. During the call alone they read or fill what a reference leads to; an `Option`
// is a pointer that may be null.
unsafe extern "C" {
    pub safe fn atexit(function: extern "C" fn()) -> c_int;
    pub safe fn at_quick_exit(function: extern "C" fn()) -> c_int;
    pub safe fn chdir(path: Text<'_>) -> c_int;
    pub safe fn clock_gettime(clock: libc::clockid_t, time: &mut timespec) -> c_int;
    pub safe fn faccessat(folder: c_int, path: Text<'_>, mode: c_int, flags: c_int) -> c_int;
    pub safe fn fchmod(file: c_int, mode: libc::mode_t) -> c_int;
    pub safe fn flock(file: c_int, operation: c_int) -> c_int;
    #[cfg_attr(target_env = "gnu", link_name = "fstat64")]
    pub safe fn fstat(file: c_int, found: &mut Status) -> c_int;
    #[cfg_attr(target_env = "gnu", link_name = "fstatat64")]
    pub safe fn fstatat(folder: c_int, path: Text<'_>, found: &mut Status, flags: c_int) -> c_int;
    pub safe fn ftruncate(file: c_int, length: off_t) -> c_int;
    pub safe fn getauxval(kind: c_ulong) -> c_ulong;
    pub safe fn geteuid() -> libc::uid_t;
    pub safe fn getpid() -> pid_t;
    pub safe fn getppid() -> pid_t;
    #[cfg_attr(target_env = "gnu", link_name = "getrlimit64")]
    pub safe fn getrlimit(resource: Resource, limit: &mut Limit) -> c_int;
    pub safe fn getrusage(whose: c_int, usage: &mut libc::rusage) -> c_int;
    pub safe fn gettid() -> pid_t;
    pub safe fn isatty(file: c_int) -> c_int;
    pub safe fn kill(process: pid_t, signal: c_int) -> c_int;
    pub safe fn lseek(file: c_int, offset: off_t, whence: c_int) -> off_t;
    pub safe fn memfd_create(name: Text<'_>, flags: c_uint) -> c_int;
    pub safe fn mkdirat(folder: c_int, path: Text<'_>, mode: libc::mode_t) -> c_int;
    pub safe fn mkfifo(path: Text<'_>, mode: libc::mode_t) -> c_int;
    pub safe fn nanosleep(time: &timespec, rest: Option<&mut timespec>) -> c_int;
    #[cfg(target_env = "gnu")]
    pub safe fn on_exit(
        function: extern "C" fn(c_int, *mut libc::c_void),
        argument: *mut libc::c_void,
    ) -> c_int;
    pub safe fn pipe2(ends: &mut [c_int; 2], flags: c_int) -> c_int;
    pub safe fn pthread_atfork(
        before: Option<extern "C" fn()>,
        in_parent: Option<extern "C" fn()>,
        in_child: Option<extern "C" fn()>,
    ) -> c_int;
    pub safe fn pthread_sigmask(
        how: c_int,
        set: Option<&sigset_t>,
        before: Option<&mut sigset_t>,
    ) -> c_int;
    pub safe fn raise(signal: c_int) -> c_int;
    pub safe fn rename(from: Text<'_>, to: Text<'_>) -> c_int;
    pub safe fn renameat(folder: c_int, from: Text<'_>, other: c_int, to: Text<'_>) -> c_int;
    pub safe fn setpgid(process: pid_t, group: pid_t) -> c_int;
    pub safe fn sigaddset(set: &mut sigset_t, signal: c_int) -> c_int;
    pub safe fn sigdelset(set: &mut sigset_t, signal: c_int) -> c_int;
    pub safe fn sigemptyset(set: &mut sigset_t) -> c_int;
    pub safe fn sigfillset(set: &mut sigset_t) -> c_int;
    pub safe fn sigismember(set: &sigset_t, signal: c_int) -> c_int;
    pub safe fn signalfd(file: c_int, set: &sigset_t, flags: c_int) -> c_int;
    pub safe fn sigpending(set: &mut sigset_t) -> c_int;
    pub safe fn sigtimedwait(
        set: &sigset_t,
        info: Option<&mut libc::siginfo_t>,
        time: &timespec,
    ) -> c_int;
    pub safe fn socketpair(
        domain: c_int,
        kind: c_int,
        protocol: c_int,
        ends: &mut [c_int; 2],
    ) -> c_int;
    pub safe fn sysconf(name: c_int) -> c_long;
    pub safe fn sysinfo(system: &mut libc::sysinfo) -> c_int;
    pub safe fn unlink(path: Text<'_>) -> c_int;
    pub safe fn unlinkat(folder: c_int, path: Text<'_>, flags: c_int) -> c_int;
    pub safe fn unshare(what: c_int) -> c_int;
    pub safe fn waitpid(process: pid_t, status: Option<&mut c_int>, options: c_int) -> pid_t;
}
