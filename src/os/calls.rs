//! Functions of libc that are sound with every argument: they use no memory of the process but what their references
//! lead to, and close nothing. The `libc` crate calls all functions unsafe. Each has a manual page of its name. Behind them,
//! calls that are sound in one form.

#![allow(unsafe_code)]

use libc::{c_char, c_int, c_long, c_uint, c_ulong, off_t, pid_t, sigset_t, timespec};
use std::{cell::Cell, ffi::CStr, marker::PhantomData, sync::atomic::AtomicU64};

/// A path, or another text that ends with a zero byte, as a call takes it.
#[repr(transparent)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        Text(text.as_ptr(), PhantomData)
    }
}

/// A stack for the handlers of signals, which nobody else uses.
#[repr(transparent)]
pub struct HandlerStack(libc::stack_t);

impl From<&'static mut [u8]> for HandlerStack {
    fn from(memory: &'static mut [u8]) -> Self {
        HandlerStack(libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len(),
        })
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
    /// The calling thread's `errno`, which it has until its end. A cell cannot be sent to another thread.
    pub safe fn __errno_location() -> &'static Cell<c_int>;
    pub safe fn atexit(function: extern "C" fn()) -> c_int;
    pub safe fn at_quick_exit(function: extern "C" fn()) -> c_int;
    pub safe fn chdir(path: Text<'_>) -> c_int;
    pub safe fn clock_gettime(clock: libc::clockid_t, time: &mut timespec) -> c_int;
    pub safe fn exit(status: c_int) -> !;
    pub safe fn faccessat(folder: c_int, path: Text<'_>, mode: c_int, flags: c_int) -> c_int;
    pub safe fn fflush(stream: Option<&mut libc::FILE>) -> c_int;
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
    pub safe fn sigaltstack(
        new: Option<&HandlerStack>,
        before: Option<&mut libc::stack_t>,
    ) -> c_int;
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

/// Gives the calling thread a name, of which the kernel keeps 15 bytes.
pub fn name_thread(name: &CStr) {
    // SAFETY: the kernel reads a text that ends with a zero byte (PR_SET_NAME of prctl(2)).
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// The size that libc gives a thread's stack, its guard included, and that of the guard.
pub fn default_stack() -> (usize, usize) {
    unsafe extern "C" {
        /// Of glibc and musl; not in the `libc` crate.
        fn pthread_getattr_default_np(attributes: *mut libc::pthread_attr_t) -> libc::c_int;
    }
    // SAFETY: fills a structure of ours, which is then asked and given up.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let (mut stack, mut guard) = (0, 0);
        if pthread_getattr_default_np(&mut attributes) == 0 {
            libc::pthread_attr_getstacksize(&attributes, &mut stack);
            libc::pthread_attr_getguardsize(&attributes, &mut guard);
            libc::pthread_attr_destroy(&mut attributes);
        }
        (stack, guard)
    }
}

/// The calling thread's name, as the kernel has it: up to 15 bytes, and a zero.
pub fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the kernel writes 16 bytes at most (PR_GET_NAME of prctl(2)).
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Lets a process trace this one, which the scope 1 of the security module Yama asks for (PR_SET_PTRACER of prctl(2)).
pub fn allow_tracer(process: pid_t) {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, process, 0, 0, 0) };
}

/// A thread of another process that this one traces. Each request is ptrace(2)'s of its name; false if the system refuses.
pub struct Tracee(pub pid_t);

impl Tracee {
    pub fn seize(&self) -> bool {
        self.request(libc::PTRACE_SEIZE as c_long, 0, 0)
    }

    pub fn interrupt(&self) -> bool {
        self.request(libc::PTRACE_INTERRUPT as c_long, 0, 0)
    }

    pub fn detach(&self, signal: c_int) -> bool {
        self.request(libc::PTRACE_DETACH as c_long, 0, signal as usize)
    }

    /// The general registers, as many as there is room for.
    pub fn read_registers(&self, room: &[AtomicU64]) -> bool {
        let mut vector = libc::iovec {
            iov_base: room.as_ptr().cast_mut().cast(),
            iov_len: size_of_val(room),
        };
        let vector = (&raw mut vector).expose_provenance();
        let general = libc::NT_PRSTATUS.into();
        self.request(libc::PTRACE_GETREGSET as c_long, general, vector)
    }

    fn request(&self, operation: c_long, number: c_long, data: usize) -> bool {
        let thread = c_long::from(self.0);
        // SAFETY: registers go to the room of the vector, which is as long as it says; the other requests take numbers.
        unsafe { libc::syscall(libc::SYS_ptrace, operation, thread, number, data) == 0 }
    }
}

/// Reads memory of this process by the system, which refuses what is not there. Returns how many bytes it has read.
pub fn read_memory(address: usize, to: &mut [u8]) -> usize {
    let iovec = |start: *mut u8| libc::iovec {
        iov_base: start.cast(),
        iov_len: to.len(),
    };
    let (from, to) = (iovec(address as *mut u8), iovec(to.as_ptr().cast_mut()));
    // SAFETY: the call writes to `to` alone, which the caller has lent.
    let read = unsafe { libc::process_vm_readv(getpid(), &to, 1, &from, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}

/// Sets a limit of a process and reads the one of before, as prlimit(2), by the system call: the host exports the function.
pub fn exchange_limits(
    process: pid_t,
    resource: Resource,
    new: Option<&Cell<Limit>>,
    old: Option<&Cell<Limit>>,
) -> c_int {
    // SAFETY: the system reads the one and writes the other, if they are given; an `Option` is a pointer that may be null.
    unsafe { libc::syscall(libc::SYS_prlimit64, process, resource, new, old) as c_int }
}

/// Sets variables of the environment. While the process has one thread.
pub fn set_variables(variables: &[(String, std::ffi::OsString)]) {
    for (name, value) in variables {
        // SAFETY: no other thread reads the environment, as the caller promises.
        unsafe { std::env::set_var(name, value) };
    }
}
