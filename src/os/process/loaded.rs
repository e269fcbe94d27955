//! The objects that the dynamic linker has loaded. Nothing here allocates, but the linker's lock is taken.

#![allow(unsafe_code)]

#[cfg(target_pointer_width = "32")]
use libc::Elf32_Phdr as ProgramHeader;
#[cfg(target_pointer_width = "64")]
use libc::Elf64_Phdr as ProgramHeader;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;

/// A loaded object.
pub struct LoadedObject<'a> {
    /// The path of its file; empty for the executable.
    pub path: &'a [u8],
    /// Its thread-local data in the calling thread; 0 for none.
    pub thread_data: usize,
    /// What is added to an address in its file.
    pub base: usize,
    headers: &'a [ProgramHeader],
}

/// A part of an object.
pub struct Segment {
    /// Such as `PT_LOAD`.
    pub kind: u32,
    /// Whether the object may write there.
    pub is_writable: bool,
    /// Where it is loaded.
    pub addresses: Range<usize>,
    /// Where the part ends that is in the file: zeros follow.
    pub file_end: usize,
}

impl LoadedObject<'_> {
    /// Whether an address lies in it.
    pub fn holds(&self, address: usize) -> bool {
        let mut loaded = self.segments().filter(|it| it.kind == libc::PT_LOAD);
        loaded.any(|segment| segment.addresses.contains(&address))
    }

    /// Its parts.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        self.headers.iter().map(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            Segment {
                kind: header.p_type,
                is_writable: header.p_flags & libc::PF_W != 0,
                addresses: start..start.wrapping_add(header.p_memsz as usize),
                file_end: start.wrapping_add(header.p_filesz as usize),
            }
        })
    }
}

/// Calls back for each object, the executable first. With the linker's lock.
pub fn each<F: FnMut(&LoadedObject<'_>)>(mut visit: F) {
    unsafe extern "C" fn call<F: FnMut(&LoadedObject<'_>)>(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker passes a description with a text and a table of so many headers, which live as long as
        // it has its lock, and what is passed below.
        let (object, visit) = unsafe {
            let (object, visit) = (&*object, &mut *visit.cast::<F>());
            let path = match object.dlpi_name.is_null() {
                true => c"",
                false => CStr::from_ptr(object.dlpi_name),
            };
            let count = usize::from(object.dlpi_phnum);
            let described = LoadedObject {
                path: path.to_bytes(),
                thread_data: object.dlpi_tls_data.addr(),
                base: object.dlpi_addr as usize,
                headers: std::slice::from_raw_parts(object.dlpi_phdr, count),
            };
            (described, visit)
        };
        visit(&object);
        0
    }
    // SAFETY: the function has the type that is called, and gets what it casts to.
    unsafe { libc::dl_iterate_phdr(Some(call::<F>), (&raw mut visit).cast()) };
}

/// Whether two addresses lie in the same object; false if one lies in none. `dladdr` would also look for the symbols, in
/// a walk through all names that the object exports. Not before the constructors of preloaded libraries, some of which
/// have a `dl_iterate_phdr` of their own.
pub fn is_same(left: usize, right: usize) -> bool {
    let mut same = false;
    each(|object| same |= object.holds(left) && object.holds(right));
    same
}

/// Makes glibc load what a thread's early end needs, while there is memory: CPython up to 3.13 ends daemon
/// threads by `pthread_exit` while it finalises, and glibc, which loads its unwinder at the first one,
/// aborts if that fails. `backtrace(3)` loads the same, once. musl ends a thread without an unwinder.
pub fn load_unwinder() {
    #[cfg(target_env = "gnu")]
    // SAFETY: room for one address, which is the length that the call gets.
    unsafe {
        libc::backtrace(&mut std::ptr::null_mut(), 1)
    };
}

/// Bytes of a thread's description with the thread-local data below it, on x86-64; 0 if libc does not say. [`LoadedObject::thread_data`]
/// is 0 for a library that was loaded late and uses a fixed place there (`DF_STATIC_TLS`), such as libgomp.
pub fn static_thread_data() -> usize {
    let (mut size, mut alignment) = (0, 0);
    // SAFETY: glibc's function, which sanitizers call too, writes these two sizes; `None` is null.
    unsafe {
        let ask = libc::dlsym(libc::RTLD_DEFAULT, c"_dl_get_tls_static_info".as_ptr());
        let ask: Option<extern "C" fn(&mut usize, &mut usize)> = std::mem::transmute(ask);
        ask.inspect(|ask| ask(&mut size, &mut alignment));
    }
    size
}

/// Clears what `dlerror(3)` would report to this thread: lookups of the host's that found nothing. A
/// program that asks before its own first `dlopen` expects null. At the end of the host's own lookups.
pub fn clear_error() {
    // SAFETY: the text that it returns is not read.
    unsafe { libc::dlerror() };
}
