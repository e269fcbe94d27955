//! The C library's own functions, past every library that is preloaded.
//!
//! A preloaded library takes the place of libc's functions in the host, too, while libc's malloc calls libc's own. The host's
//! allocator would call them: libfaketime's `clock_gettime` allocates at its first call, libuid_wrapper's `syscall` takes a
//! lock that the thread may hold already. [`bind_own_calls`] makes this object's calls lead to libc itself. The calls of
//! other objects stay as they are.
//!
//! Nothing here calls a function of another object, not even `strlen`: until the calls are bound, each one may be a preloaded
//! library's.

#![allow(unsafe_code)]

use super::loaded;
use crate::{mapping::page_size, system_call::silent_system_call};
#[cfg(target_pointer_width = "32")]
use libc::{Elf32_Ehdr as Header, Elf32_Phdr as ProgramHeader, Elf32_Sym as Symbol};
#[cfg(target_pointer_width = "64")]
use libc::{Elf64_Ehdr as Header, Elf64_Phdr as ProgramHeader, Elf64_Sym as Symbol};
use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;
use std::ptr::{null, null_mut, with_exposed_provenance, with_exposed_provenance_mut};

/// The files of glibc, in the order in which a function is looked up. From 2.34 on the first has nearly all. With musl each is the
/// loader, whatever its name.
const FILES: [&CStr; 4] = [
    c"libc.so.6",
    c"libm.so.6",
    c"libpthread.so.0",
    c"libdl.so.2",
];

// Entries of a dynamic section, as `elf.h` has them without "DT_".
const PLTRELSZ: usize = 2;
const STRTAB: usize = 5;
const SYMTAB: usize = 6;
const JMPREL: usize = 23;
const GNU_HASH: usize = 0x6fff_fef5;
const VERSYM: usize = 0x6fff_fff0;
#[cfg(target_pointer_width = "64")]
const RELOCATIONS: [usize; 2] = [7, 8]; // RELA, RELASZ
#[cfg(target_pointer_width = "32")]
const RELOCATIONS: [usize; 2] = [17, 18]; // REL, RELSZ

/// The relocations that fill a slot with the address of a function: `GLOB_DAT` and `JUMP_SLOT`.
#[cfg(target_arch = "x86_64")]
const SLOTS: Range<usize> = 6..8;
#[cfg(target_arch = "aarch64")]
const SLOTS: Range<usize> = 1025..1027;
#[cfg(target_arch = "arm")]
const SLOTS: Range<usize> = 21..23;

const OBJECT: u8 = 1; // STT_OBJECT
const FUNCTION: u8 = 2; // STT_FUNC
const CHOSEN_FUNCTION: u8 = 10; // STT_GNU_IFUNC: a call chooses the function that suits the processor

#[repr(C)]
struct Entry {
    tag: usize,
    value: usize,
}

#[repr(C)]
struct Relocation {
    slot: usize,
    info: usize,
    #[cfg(target_pointer_width = "64")]
    addend: isize,
}

/// The linker's list of objects, `struct link_map` of `link.h`.
#[repr(C)]
struct Link {
    base: usize,
    name: *const c_char,
    dynamic: *const Entry,
    next: *const Link,
}

/// `struct r_debug` of `link.h`.
#[repr(C)]
struct Objects {
    version: i32,
    first: *const Link,
    /// A breakpoint, the list's state, and where the loader lies.
    rest: [usize; 3],
}

unsafe extern "C" {
    /// The loader's own.
    #[cfg(target_env = "gnu")]
    static _r_debug: Objects;
    #[cfg(target_env = "musl")]
    static _dl_debug_addr: *const Objects;
    // This object's, from the linker.
    static __ehdr_start: Header;
    static _DYNAMIC: [Entry; 0];
}

/// The tables of an object that is loaded for good.
#[derive(Clone, Copy)]
struct Object {
    base: usize,
    symbols: *const Symbol,
    names: *const c_char,
    hashes: *const u32,
    versions: *const u16,
}

/// The value of an entry of a dynamic section; 0 if it has none.
///
/// # Safety
/// A dynamic section.
unsafe fn value(dynamic: *const Entry, tag: usize) -> usize {
    let mut entry = dynamic;
    // SAFETY: an entry with the tag 0 ends the section.
    unsafe {
        while (*entry).tag != 0 {
            if (*entry).tag == tag {
                return (*entry).value;
            }
            entry = entry.add(1);
        }
    }
    0
}

/// As [`value`], of an address: musl's loader leaves it as it is in the file.
///
/// # Safety
/// As there.
unsafe fn table(base: usize, dynamic: *const Entry, tag: usize) -> usize {
    // SAFETY: the caller's promise.
    let address = unsafe { value(dynamic, tag) };
    let is_offset = cfg!(target_env = "musl") && address != 0;
    address.wrapping_add(if is_offset { base } else { 0 })
}

/// A path behind its last slash.
///
/// # Safety
/// `path` is a text.
unsafe fn file_name(path: *const c_char) -> *const c_char {
    let (mut last, mut end) = (path, path);
    // SAFETY: up to the zero byte.
    unsafe {
        while *end != 0 {
            end = end.add(1);
            if *end.sub(1) == b'/' as c_char {
                last = end;
            }
        }
    }
    last
}

impl Object {
    /// # Safety
    /// A dynamic section that the loader has read.
    unsafe fn of(base: usize, dynamic: *const Entry) -> Self {
        // SAFETY: the caller's promise.
        let part = |tag| unsafe { table(base, dynamic, tag) };
        Object {
            base,
            symbols: with_exposed_provenance(part(SYMTAB)),
            names: with_exposed_provenance(part(STRTAB)),
            hashes: with_exposed_provenance(part(GNU_HASH)),
            versions: with_exposed_provenance(part(VERSYM)),
        }
    }

    /// A symbol that the object defines, in its default version if there is one.
    ///
    /// # Safety
    /// `name` is a text.
    unsafe fn symbol(&self, name: *const c_char) -> *const Symbol {
        let mut found = null();
        // SAFETY: the table of hashes is as the linker makes it: four numbers, a filter of words, the chains' first symbols,
        // and a hash for each symbol from `first` on, whose lowest bit ends a chain.
        unsafe {
            let (mut hash, mut letter) = (5381u32, name);
            while *letter != 0 {
                hash = hash.wrapping_mul(33).wrapping_add(u32::from(*letter as u8));
                letter = letter.add(1);
            }
            let [chains, first, words] = [0, 1, 2].map(|it| *self.hashes.add(it));
            let starts = self
                .hashes
                .add(4 + words as usize * (size_of::<usize>() / 4));
            let mut index = *starts.add((hash % chains) as usize);
            if index < first {
                return null();
            }
            loop {
                let own = *starts.add((chains + index - first) as usize);
                let symbol = self.symbols.add(index as usize);
                if own | 1 == hash | 1
                    && (*symbol).st_shndx != 0
                    && are_equal(self.names.add((*symbol).st_name as usize), name)
                {
                    found = symbol;
                    // The highest bit is that of a version that only old programs get.
                    if self.versions.is_null() || *self.versions.add(index as usize) >> 15 == 0 {
                        break;
                    }
                }
                if own & 1 == 1 {
                    break;
                }
                index += 1;
            }
        }
        found
    }
}

/// # Safety
/// Both are texts.
unsafe fn are_equal(mut left: *const c_char, mut right: *const c_char) -> bool {
    // SAFETY: up to the first zero byte.
    unsafe {
        while *left == *right && *left != 0 {
            (left, right) = (left.add(1), right.add(1));
        }
        *left == *right
    }
}

/// The address of a function or a variable of the C library's; null if it has none of that name.
///
/// # Safety
/// `name` is a text.
unsafe fn address(libraries: &[Option<Object>], name: *const c_char) -> *mut c_void {
    for object in libraries.iter().flatten() {
        // SAFETY: the caller's promise.
        let Some(symbol) = (unsafe { object.symbol(name).as_ref() }) else {
            continue;
        };
        let address =
            with_exposed_provenance_mut(object.base.wrapping_add(symbol.st_value as usize));
        match symbol.st_info & 0xf {
            OBJECT | FUNCTION => return address,
            // SAFETY: libc is relocated, so its function that chooses can be called as the loader does.
            CHOSEN_FUNCTION => return unsafe { chosen(libraries, address) },
            _ => {}
        }
    }
    null_mut()
}

/// What a function chooses, from what the loader tells it of the processor.
///
/// # Safety
/// A function for that, of libc's.
unsafe fn chosen(libraries: &[Option<Object>], choose: *mut c_void) -> *mut c_void {
    type Choose = unsafe extern "C" fn(usize, &[usize; 3]) -> *mut c_void;
    /// `_IFUNC_ARG_HWCAP` of `sys/ifunc.h`: there is a second argument.
    const HAS_MORE: u64 = 1 << 62;
    let [first, second] = [libc::AT_HWCAP, libc::AT_HWCAP2].map(|kind| fact(libraries, kind));
    // SAFETY: the function has this type; x86-64's takes no arguments, and 32-bit ARM's the first alone.
    unsafe {
        let choose: Choose = std::mem::transmute(choose);
        let size = size_of::<[usize; 3]>();
        choose(first | HAS_MORE as usize, &[size, first, second])
    }
}

/// What the kernel told the process at its start, by getauxval(3).
fn fact(libraries: &[Option<Object>], kind: libc::c_ulong) -> usize {
    type Ask = extern "C" fn(libc::c_ulong) -> libc::c_ulong;
    // SAFETY: libc's function has this type.
    let ask = unsafe {
        let ask = address(libraries, c"getauxval".as_ptr());
        std::mem::transmute::<*mut c_void, Option<Ask>>(ask)
    };
    ask.map_or(0, |ask| ask(kind) as usize)
}

/// Finds files that are loaded for good. Fills in place: more than a few words would be moved by libc's `memcpy`.
fn look_for(libraries: &mut [Option<Object>], files: &[&CStr]) {
    // SAFETY: the list only grows before other threads exist.
    unsafe {
        #[cfg(target_env = "gnu")]
        let objects = &_r_debug;
        #[cfg(target_env = "musl")]
        let objects = &*_dl_debug_addr;
        let mut link = objects.first;
        while !link.is_null() {
            let is_loader = cfg!(target_env = "musl") && (*link).base == objects.rest[2];
            let name = file_name((*link).name);
            for (place, file) in libraries.iter_mut().zip(files) {
                if place.is_none() && (is_loader || are_equal(name, file.as_ptr())) {
                    let object = Object::of((*link).base, (*link).dynamic);
                    *place = (!object.hashes.is_null()).then_some(object);
                }
            }
            link = (*link).next;
        }
    }
}

/// Finds functions and variables of the C library's own, all by one look at the objects; null for a name that it has not.
pub fn finder() -> impl Fn(&CStr) -> *mut c_void {
    let mut libraries = [None; FILES.len()];
    look_for(&mut libraries, &FILES);
    // SAFETY: a text.
    move |name| unsafe { address(&libraries, name.as_ptr()) }
}

/// One of them.
pub fn find(name: &CStr) -> *mut c_void {
    finder()(name)
}

/// The address of an exported function: of the first object that has it, this one left out. Null if no object has it. Takes the
/// linker's lock.
pub fn find_beside(name: &CStr) -> *mut c_void {
    let mut found: *mut c_void = null_mut();
    loaded::each(|object| {
        let dynamic = object.segments().find(|it| it.kind == libc::PT_DYNAMIC);
        if let Some(dynamic) = dynamic.filter(|_| found.is_null())
            && !object.holds((&raw const __ehdr_start).addr())
        {
            let dynamic = with_exposed_provenance(dynamic.addresses.start);
            // SAFETY: the section of an object that is loaded. The kernel's own is not relocated.
            unsafe {
                let it = Object::of(object.base, dynamic);
                if object.holds(it.hashes.addr()) {
                    found = address(&[Some(it)], name.as_ptr());
                }
            }
        }
    });
    found
}

/// Gives an exported function of this object its right name, in the table of names: of the letter at `changed` one less, and
/// of the next one 33 more, which has the same hash. What is loaded from then on finds it. False if it cannot be done. Before
/// other threads exist.
pub fn rename_export(name: &[u8], changed: usize) -> bool {
    let mut text = [0; 64];
    let Some(place) = text[..63].get_mut(..name.len()) else {
        return false;
    };
    place.copy_from_slice(name);
    // SAFETY: this object's own tables, a page of which is made writable for the moment.
    unsafe {
        let base = own_base();
        let own = Object::of(base, (&raw const _DYNAMIC).cast());
        let Some(symbol) = own.symbol(text.as_ptr().cast()).as_ref() else {
            return false;
        };
        let letter = own.names.add(symbol.st_name as usize + changed);
        let letter = letter.cast_mut().cast::<u8>();
        let page = page_size() as usize;
        let start = letter.addr() - letter.addr() % page;
        let is_code = own_headers().any(|it| {
            let place = letter
                .addr()
                .wrapping_sub(base.wrapping_add(it.p_vaddr as usize));
            it.p_flags & libc::PF_X != 0 && place < it.p_memsz as usize
        });
        let usual = libc::PROT_READ | if is_code { libc::PROT_EXEC } else { 0 };
        let protect = |access: i32| {
            let range = [start, letter.addr() + 2 - start, access as usize];
            silent_system_call(libc::SYS_mprotect, range) == 0
        };
        if !protect(usual | libc::PROT_WRITE) {
            return false;
        }
        letter.write_volatile(letter.read_volatile() - 1);
        letter
            .add(1)
            .write_volatile(letter.add(1).read_volatile() + 33);
        protect(usual)
    }
}

/// What is added to an address in this object's file.
fn own_base() -> usize {
    let header = &raw const __ehdr_start;
    // SAFETY: the linker's.
    match unsafe { (*header).e_type } {
        libc::ET_EXEC => 0,
        _ => header.addr(),
    }
}

fn own_headers() -> impl Iterator<Item = &'static ProgramHeader> {
    let header = &raw const __ehdr_start;
    // SAFETY: the linker's, with so many behind it.
    unsafe {
        let first = header.byte_add((*header).e_phoff as usize);
        (0..usize::from((*header).e_phnum)).map(move |at| &*first.cast::<ProgramHeader>().add(at))
    }
}

/// Makes the calls of the object that this code is in lead to libc itself. Once, before other threads exist.
pub fn bind_own_calls() {
    let mut libraries = [None; FILES.len()];
    look_for(&mut libraries, &FILES);
    let page = fact(&libraries, libc::AT_PAGESZ);
    #[cfg(debug_assertions)]
    let mut stand_in = [None];
    #[cfg(debug_assertions)]
    look_for(&mut stand_in, &[crate::system_call::stand_in::FILE]);
    #[cfg(debug_assertions)]
    if stand_in[0].is_some() {
        // SAFETY: the library's function has this type.
        unsafe {
            crate::system_call::stand_in::set(address(&stand_in, c"kernel_call".as_ptr()));
        }
    }
    // SAFETY: this object's own tables, as the linker makes and the loader relocates them. Each slot that is written is one
    // for the address of a function, and gets that of libc's function of the same name.
    unsafe {
        let dynamic = (&raw const _DYNAMIC).cast();
        let base = own_base();
        let own = Object::of(base, dynamic);
        let mut sealed = own_headers()
            .filter(|it| it.p_type == libc::PT_GNU_RELRO)
            .map(|it| {
                let start = base.wrapping_add(it.p_vaddr as usize);
                let end = start.wrapping_add(it.p_memsz as usize);
                [start, end].map(|it| it - it % page)
            });
        let sealed = sealed.next();
        let protect = |access: i32| match sealed {
            Some([start, end]) => {
                silent_system_call(libc::SYS_mprotect, [start, end - start, access as usize]) == 0
            }
            None => true,
        };
        let mut is_open = false;
        let [table, size] = RELOCATIONS;
        for [table, size] in [[table, size], [JMPREL, PLTRELSZ]] {
            let first = with_exposed_provenance::<Relocation>(self::table(base, dynamic, table));
            for index in 0..value(dynamic, size) / size_of::<Relocation>() {
                let relocation = &*first.add(index);
                let (symbol, kind) = match usize::BITS {
                    64 => (relocation.info >> 32, relocation.info & 0xffff_ffff),
                    _ => (relocation.info >> 8, relocation.info & 0xff),
                };
                let symbol = &*own.symbols.add(symbol);
                let is_call = SLOTS.contains(&kind) && symbol.st_shndx == 0;
                if !is_call || symbol.st_info & 0xf != FUNCTION {
                    continue;
                }
                let name = own.names.add(symbol.st_name as usize);
                let found = address(&libraries, name);
                #[cfg(debug_assertions)]
                let found = match address(&stand_in, name) {
                    other if other.is_null() => found,
                    other => other,
                };
                let slot =
                    with_exposed_provenance_mut::<*mut c_void>(base.wrapping_add(relocation.slot));
                if found.is_null() || slot.read_volatile() == found {
                    continue;
                }
                // A system that seals the slots for good keeps them.
                if !is_open && !protect(libc::PROT_READ | libc::PROT_WRITE) {
                    return;
                }
                is_open = true;
                slot.write_volatile(found);
            }
        }
        if is_open {
            protect(libc::PROT_READ);
        }
    }
}
