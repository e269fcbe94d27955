//! Memory from the kernel, past every heap: zeroed, aligned to a page, unmapped when dropped.

#![allow(unsafe_code)]

use crate::errno::{Errno, KeptErrno, done};
use crate::{calls, system_call::silent_system_call};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
use std::{
    ffi::{c_int, c_void},
    marker::PhantomData,
    mem::MaybeUninit,
    os::fd::AsRawFd,
    slice,
};

pub fn page_size() -> u64 {
    calls::sysconf(libc::_SC_PAGESIZE) as u64
}

/// Anonymous memory, readable and writable unless reserved without access.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// All of it is readable and writable, as long as it lives.
    is_open: bool,
}

// SAFETY: the memory belongs to the process, not to a thread; the value is its only owner.
unsafe impl Send for Mapping {}
// SAFETY: a shared `Mapping` gives addresses only. Whoever reads or writes there does so for reasons of its own, which must
// hold against the mapping's owner, who may unmap it, and whoever has it shared, who may close parts of it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of this process alone. Returns `None` if the kernel refuses, as it does for 0 bytes.
    pub fn private(bytes: usize) -> Option<Mapping> {
        Mapping::map(bytes, libc::MAP_PRIVATE)
    }

    /// As [`Mapping::private`], for much more than will be used: untouched pages are not charged,
    /// except if vm.overcommit_memory is 2.
    pub fn reserve(bytes: usize) -> Option<Mapping> {
        Mapping::map(bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE)
    }

    /// Memory that children of `fork` share.
    pub fn shared(bytes: usize) -> Option<Mapping> {
        Mapping::map(bytes, libc::MAP_SHARED)
    }

    #[cfg(not(miri))]
    fn map(bytes: usize, kind: i32) -> Option<Mapping> {
        Mapping::anonymous(0, bytes, true, kind)
    }

    /// As [`Mapping::reserve`], without access if so wanted, and at the address `wish` if nothing else is there.
    #[cfg(not(miri))]
    pub fn reserve_at(wish: usize, bytes: usize, is_open: bool) -> Option<Mapping> {
        let kind = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        Mapping::anonymous(wish, bytes, is_open, kind)
    }

    #[cfg(not(miri))]
    fn anonymous(wish: usize, bytes: usize, is_open: bool, kind: i32) -> Option<Mapping> {
        let access = match is_open {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_NONE,
        };
        let wish = std::ptr::without_provenance_mut(wish);
        // SAFETY: without MAP_FIXED the kernel picks addresses that nothing uses.
        let start = unsafe { libc::mmap(wish, bytes, access, kind | libc::MAP_ANONYMOUS, -1, 0) };
        Mapping::made(start, bytes, is_open)
    }

    /// What mmap(2) has made; `None` if it has failed.
    #[cfg(not(miri))]
    fn made(start: *mut c_void, bytes: usize, is_open: bool) -> Option<Mapping> {
        let made = Some(start).filter(|&start| start != libc::MAP_FAILED);
        Some(Mapping {
            start: NonNull::new(made?.cast())?,
            bytes,
            is_open,
        })
    }

    /// The address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn addresses(&self) -> Range<usize> {
        let start = self.start.addr().get();
        start..start + self.bytes
    }

    /// Keeps the memory mapped for as long as the process lives.
    pub fn leak(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// The first address of a part; `None` if it does not lie within the mapping.
    fn part(&self, range: &Range<usize>) -> Option<*mut u8> {
        let is_within = range.start <= range.end && range.end <= self.bytes;
        is_within.then(|| self.start.as_ptr().wrapping_add(range.start))
    }

    /// Fills a part of a mapping that is open with zeros.
    pub fn clear(&mut self, range: Range<usize>) {
        if let Some(start) = self.part(&range).filter(|_| self.is_open) {
            // SAFETY: bytes of this mapping, which is borrowed mutably.
            unsafe { start.write_bytes(0, range.len()) };
        }
    }

    /// Gives whole pages back to the kernel: they read as zeros afterwards. Returns false if the kernel
    /// refuses: `EINVAL` for pages that someone locked (mlockall(2)).
    #[cfg(not(miri))]
    pub fn give_back(&mut self, range: Range<usize>) -> bool {
        self.part(&range).is_some_and(|start| {
            // SAFETY: bytes of this mapping, which is borrowed mutably.
            unsafe { libc::madvise(start.cast(), range.len(), libc::MADV_DONTNEED) == 0 }
        })
    }

    /// Makes whole pages of a mapping without access readable and writable. Returns false if the kernel refuses.
    pub fn open(&self, range: Range<usize>) -> bool {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        self.part(&range).is_some_and(|start| {
            // SAFETY: pages of this mapping, which keep their contents.
            unsafe { libc::mprotect(start.cast(), range.len(), access) == 0 }
        })
    }

    /// Puts fresh pages without access in the place of those that [`Mapping::open`] has opened: the system merges them with
    /// the closed ones beside them. Returns false if the kernel refuses.
    pub fn close(&self, range: Range<usize>) -> bool {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let part = self.part(&range).filter(|_| !self.is_open);
        part.is_some_and(|start| {
            let start = start.cast();
            // SAFETY: pages of this mapping.
            unsafe { libc::mmap(start, range.len(), libc::PROT_NONE, flags, -1, 0) == start }
        })
    }

    /// As [`Mapping::close`], by marks in the page tables (madvise(2), `MADV_GUARD_INSTALL` of Linux 6.13), which divide no
    /// mapping. Once [`Mapping::open`] was called for the pages. Returns false if the kernel refuses.
    pub fn close_by_marks(&self, range: Range<usize>) -> bool {
        self.advise(&range, 102)
    }

    /// Takes the marks of [`Mapping::close_by_marks`] away. Returns false if the kernel refuses.
    pub fn open_marked(&self, range: Range<usize>) -> bool {
        self.advise(&range, 103)
    }

    fn advise(&self, range: &Range<usize>, advice: c_int) -> bool {
        let part = self.part(range).filter(|_| !self.is_open);
        // SAFETY: pages of this mapping, whose contents nobody counts on while they are closed.
        part.is_some_and(|start| unsafe { libc::madvise(start.cast(), range.len(), advice) == 0 })
    }
}

/// Puts empty pages of the process's own in the place of whole pages, by a system call alone. Returns false if the kernel
/// refuses. They are as mimalloc's, for which no room is set aside.
///
/// # Safety
/// Nobody else may own the pages, and zeros are valid for whoever does.
#[cfg(not(miri))]
pub unsafe fn empty(start: usize, bytes: usize) -> bool {
    #[cfg(target_pointer_width = "64")]
    const CALL: libc::c_long = libc::SYS_mmap;
    #[cfg(target_pointer_width = "32")]
    const CALL: libc::c_long = libc::SYS_mmap2;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller's duties.
    let result = unsafe { libc::syscall(CALL, start, bytes, access, flags, -1, 0) };
    result as usize == start
}

/// Whether anything is mapped at an address. Leaves `errno`.
pub fn is_mapped(address: usize) -> bool {
    let _errno = KeptErrno::new();
    let page = page_size() as usize;
    let start = std::ptr::without_provenance_mut(address & !(page - 1));
    let mut residency = 0u8;
    // SAFETY: the call writes a byte for the page, or fails with ENOMEM.
    unsafe { libc::mincore(start, page, &mut residency) == 0 }
}

/// Bytes of whole pages that are resident, by mincore(2). Those around addresses that are not mapped count as if they were not
/// resident; gVisor counts all. Leaves `errno`.
pub fn resident_bytes(addresses: Range<usize>) -> u64 {
    let _errno = KeptErrno::new();
    let page = page_size() as usize;
    let mut residency = [0u8; 4096];
    let mut pages = 0;
    for start in addresses.clone().step_by(page * residency.len()) {
        let length = (addresses.end - start).min(page * residency.len());
        let place = std::ptr::without_provenance_mut(start);
        // SAFETY: the call writes a byte for each page, or fails.
        if unsafe { libc::mincore(place, length, residency.as_mut_ptr()) } == 0 {
            let seen = &residency[..length.div_ceil(page)];
            pages += seen.iter().filter(|&&byte| byte & 1 == 1).count();
        }
    }
    (pages * page) as u64
}

pub fn whole_pages(start: *mut u8, size: usize) -> (*mut u8, usize) {
    let page = page_size() as usize;
    let first = start.wrapping_add(start.align_offset(page));
    let rest = size.saturating_sub(first.addr() - start.addr());
    (first, rest - rest % page)
}

/// Asks the kernel for huge pages, or for none, beneath whole pages of memory. Returns false if it refuses.
pub fn advise_huge_pages(start: *mut u8, bytes: usize, are_wanted: bool) -> bool {
    let advice = match are_wanted {
        true => libc::MADV_HUGEPAGE,
        false => libc::MADV_NOHUGEPAGE,
    };
    // SAFETY: advice; contents and access stay, whatever is mapped there.
    unsafe { libc::madvise(start.cast(), bytes, advice) == 0 }
}

/// Refuses huge pages beneath whole pages of memory by a system call instead of libc's function. It writes no memory, not even
/// `errno`. Kernels without huge pages give an error, which changes nothing.
pub fn refuse_huge_pages_directly(start: *mut u8, bytes: usize) {
    let advice = libc::MADV_NOHUGEPAGE as usize;
    // SAFETY: advice; contents and access stay, whatever is mapped there.
    unsafe { silent_system_call(libc::SYS_madvise, [start.addr(), bytes, advice]) };
}

/// Most nodes that a kernel can have (`MAX_NUMNODES` of 64-bit Linux).
pub const MAX_NODES: u32 = 1024;

/// `MPOL_PREFERRED` of `linux/mempolicy.h`: if the node is full, others serve.
const MPOL_PREFERRED: usize = 1;

/// Asks for whole pages of memory from `node` first (mbind(2)). Returns false if the system refuses.
pub fn prefer_node(start: *mut u8, size: usize, node: u32) -> bool {
    let mut nodes = [0u64; MAX_NODES as usize / 64];
    let Some(word) = nodes.get_mut(node as usize / 64) else {
        return false;
    };
    *word = 1 << (node % 64);
    // SAFETY: a policy; contents and access stay, whatever is mapped there. The mask has the said length; the kernel
    // takes one bit less than it is told.
    unsafe {
        let mask = nodes.as_ptr().expose_provenance();
        let bits = MAX_NODES as usize + 1;
        let arguments = [start.addr(), size, MPOL_PREFERRED, mask, bits];
        silent_system_call(libc::SYS_mbind, arguments) == 0
    }
}

/// Locks whole pages of memory, each as soon as it is touched, or unlocks them (mlock2(2)).
pub fn lock(start: *mut u8, bytes: usize, is_wanted: bool) -> Result<(), Errno> {
    // SAFETY: contents and access stay, whatever is mapped there.
    done(unsafe {
        match is_wanted {
            true => libc::mlock2(start.cast(), bytes, libc::MLOCK_ONFAULT),
            false => libc::munlock(start.cast(), bytes),
        }
    })
}

/// Gives the whole pages of a piece of memory back to the system, after which they read as zeros. Returns which of its bytes
/// these are, or `None` if the system does not take them.
///
/// # Safety
/// `size` bytes at `start` are the caller's own, private anonymous memory.
pub unsafe fn give_pages_back(start: *mut u8, size: usize) -> Option<Range<usize>> {
    let (first, whole) = whole_pages(start, size);
    // SAFETY: the caller's duty.
    let result = unsafe { libc::madvise(first.cast(), whole, libc::MADV_DONTNEED) };
    let first = (first.addr() - start.addr()).min(size);
    (result == 0).then_some(first..first + whole)
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the bytes that were mapped; borrows of them have ended with this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Stands in for the kernel under Miri, which knows neither `MAP_NORESERVE` nor madvise(2): Rust's allocator.
#[cfg(miri)]
mod stand_in {
    use super::{Mapping, NonNull, Range};
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    /// More than the tests take; a larger request is refused, as by a kernel without address space.
    const MOST: usize = 1 << 32;

    fn layout(bytes: usize) -> Option<Layout> {
        let fits = (1..=MOST).contains(&bytes);
        Layout::from_size_align(bytes, 4096).ok().filter(|_| fits)
    }

    impl Mapping {
        pub(super) fn map(bytes: usize, _kind: i32) -> Option<Mapping> {
            // SAFETY: the layout is not empty.
            let start = NonNull::new(unsafe { alloc_zeroed(layout(bytes)?) })?;
            Some(Mapping {
                start,
                bytes,
                is_open: true,
            })
        }

        /// See the kernel's.
        pub fn give_back(&mut self, range: Range<usize>) -> bool {
            self.clear(range);
            true
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            let layout = layout(self.bytes).expect("it was mapped");
            // SAFETY: exactly what `map` allocated.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// A type for which memory full of zeros is a valid value.
///
/// # Safety
/// It must be, and the type must not need to be dropped.
pub unsafe trait FromZeros: Sized {
    fn zeroed() -> Self {
        // SAFETY: a valid value, as every implementation promises.
        unsafe { std::mem::zeroed() }
    }
}

/// Implements [`FromZeros`] for a structure, of which it names all fields. Does not compile if one of them does not implement
/// it, or if the structure is to be dropped.
#[macro_export]
macro_rules! zeros_are_valid {
    ($type:ident: $($field:tt),*) => {
        const _: fn($type) = |value| {
            fn check<T: $crate::mapping::FromZeros>(_: T) {}
            let $type { $($field: _),* } = &value;
            $(check(value.$field);)*
            const { assert!(!std::mem::needs_drop::<$type>()) };
        };
        // SAFETY: zeros are valid for every field, and nothing is dropped, or the lines above would not compile.
        unsafe impl $crate::mapping::FromZeros for $type {}
    };
}

macro_rules! from_zeros {
    ($($type:ty),* $(,)?) => {
        $(
            // SAFETY: numbers, and pointers that may be null.
            unsafe impl FromZeros for $type {}
        )*
    };
}

from_zeros! {
    bool, u8, u16, u32, u64, usize, i32, i64, AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicUsize, AtomicU64, calls::Status, libc::sigset_t, libc::sigaction, libc::stack_t, libc::msghdr,
    libc::sysinfo, libc::rusage, libc::timespec, calls::Limit, libc::flock,
}

#[cfg(target_env = "gnu")]
from_zeros!(libc::mallinfo, libc::mallinfo2);

// SAFETY: as its elements.
unsafe impl<T: FromZeros, const N: usize> FromZeros for [T; N] {}

// SAFETY: every pattern of bits is a value, and nothing is dropped.
unsafe impl<T> FromZeros for MaybeUninit<T> {}

/// The least page of any machine, and so the least alignment of a mapping.
const LEAST_PAGE: usize = 4096;

/// A list of values in a mapping of its own, zeroed at first.
#[derive(Debug)]
pub struct Mapped<T> {
    mapping: Mapping,
    length: usize,
    values: PhantomData<T>,
}

impl<T: FromZeros> Mapped<T> {
    /// Takes all bytes of a mapping. Returns `None` if there is none.
    fn of(mapping: Option<Mapping>, length: usize) -> Option<Mapped<T>> {
        const { assert!(align_of::<T>() <= LEAST_PAGE && size_of::<T>() > 0) };
        Some(Mapped {
            mapping: mapping?,
            length,
            values: PhantomData,
        })
    }

    /// A list of `length` values, at least one, in memory of this process alone. Returns `None` if the kernel refuses.
    pub fn private(length: usize) -> Option<Mapped<T>> {
        let mapping = Mapping::private(length.checked_mul(size_of::<T>())?);
        Mapped::of(mapping, length)
    }

    /// As [`Mapped::private`], for many more than will be used: see [`Mapping::reserve`].
    pub fn reserve(length: usize) -> Option<Mapped<T>> {
        let mapping = Mapping::reserve(length.checked_mul(size_of::<T>())?);
        Mapped::of(mapping, length)
    }

    pub fn addresses(&self) -> Range<usize> {
        self.mapping.addresses()
    }

    pub fn leak(self) -> &'static mut [T] {
        let length = self.length;
        // SAFETY: as in `deref_mut`; the memory is never unmapped, and this was its only owner.
        unsafe { slice::from_raw_parts_mut(self.mapping.leak().cast().as_ptr(), length) }
    }
}

/// A list of values that other processes may change, zeroed at first: nobody has it to itself, so nobody gets a `&mut`.
pub struct Shared<T>(Mapped<T>);

impl<T: FromZeros + Sync> Shared<T> {
    /// A list of `length` values, at least one, in memory that children of `fork` share. Returns `None` if the kernel
    /// refuses.
    pub fn new(length: usize) -> Option<Self> {
        let mapping = Mapping::shared(length.checked_mul(size_of::<T>())?);
        Mapped::of(mapping, length).map(Shared)
    }

    pub fn addresses(&self) -> Range<usize> {
        self.0.addresses()
    }

    pub fn leak(self) -> &'static [T] {
        let length = self.0.length;
        // SAFETY: as in `Mapped::leak`; the reference is a shared one.
        unsafe { slice::from_raw_parts(self.0.mapping.leak().cast().as_ptr(), length) }
    }
}

impl<T: FromZeros> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(not(miri))]
impl Shared<AtomicU64> {
    /// `length` words, at least one, of a new file, which is made that long first: a page that has no room on the disk
    /// would be a SIGBUS later. Who else maps the file sees what is stored.
    pub fn of_file(file: &impl AsRawFd, length: usize) -> Result<Self, Errno> {
        let bytes = length.checked_mul(8).ok_or(Errno(libc::ENOMEM))?;
        let (file, access) = (file.as_raw_fd(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: plain calls; without MAP_FIXED the kernel picks addresses that nothing uses. Atomics may be changed by
        // others.
        let start = unsafe {
            match libc::posix_fallocate(file, 0, bytes as libc::off_t) {
                0 => {}
                error => return Err(Errno(error)),
            }
            libc::mmap(null_mut(), bytes, access, libc::MAP_SHARED, file, 0)
        };
        Mapped::of(Mapping::made(start, bytes, true), length)
            .map(Shared)
            .ok_or_else(Errno::last)
    }
}

impl<T: FromZeros> Deref for Mapped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has room for `length` values from an address that is aligned for them;
        // zeros are valid ones, and so is whatever was stored since.
        unsafe { slice::from_raw_parts(self.mapping.start.cast().as_ptr(), self.length) }
    }
}

impl<T: FromZeros> DerefMut for Mapped<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.mapping.start.cast().as_ptr(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(miri))]
    fn what_is_resident_is_what_was_touched_and_is_still_there() {
        let page = page_size() as usize;
        // More than one question's worth, of which a part was never touched.
        let mut mapping = Mapping::reserve(10_000 * page).unwrap();
        assert!(advise_huge_pages(
            mapping.start().as_ptr(),
            mapping.bytes(),
            false
        ));
        assert_eq!(resident_bytes(mapping.addresses()), 0);
        mapping.clear(0..page);
        mapping.clear(4095 * page..4097 * page);
        mapping.clear(9_990 * page..10_000 * page);
        assert_eq!(resident_bytes(mapping.addresses()), 13 * page as u64);
        assert!(mapping.give_back(9_990 * page..9_995 * page));
        assert_eq!(resident_bytes(mapping.addresses()), 8 * page as u64);
        let gone = mapping.addresses();
        drop(mapping);
        assert_eq!(resident_bytes(gone), 0);
    }

    #[test]
    fn what_the_kernel_refuses_is_none() {
        assert!(Mapping::private(0).is_none());
        assert!(Mapping::reserve(usize::MAX / 2).is_none());
        assert!(Mapped::<u64>::private(usize::MAX).is_none());
    }
}
