//! A loaded object, the executable or a library, as far as it can be read without the dynamic linker's lock.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::OnceLock;

/// `struct dl_find_object` of dlfcn.h.
#[repr(C)]
struct Found {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: *const LinkMap,
    frame_header: usize,
    reserved: [u64; 7],
}

/// The public part of `struct link_map` of link.h.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
}

/// `Elf64_Dyn`: a tag and a value.
type Dynamic = [u64; 2];

type Find = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;
static FIND: OnceLock<Find> = OnceLock::new();

pub const PAGE: usize = 4096;

/// Finds the linker's function, without which no object is found: glibc has it from 2.35 on. False without it.
pub fn learn() -> bool {
    #[cfg(target_env = "gnu")]
    let found = pyhost_os::process::libc_itself::find(c"_dl_find_object");
    #[cfg(target_env = "musl")]
    let found: *mut c_void = std::ptr::null_mut();
    if !found.is_null() {
        // SAFETY: the function of that name has this type (dlfcn.h).
        let _ = FIND.set(unsafe { std::mem::transmute::<*mut c_void, Find>(found) });
    }
    FIND.get().is_some()
}

/// A loaded object. It is valid while the calling thread runs in it, or while nobody unloads it.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    map: *const LinkMap,
    /// What is added to an address in its file.
    pub base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
    /// Where its file's first page is loaded; 0 if that is not known.
    header: usize,
    /// Where `.eh_frame_hdr` is loaded; 0 for none.
    frame_header: usize,
    /// The part of it that the address lies in, without a gap.
    part: (usize, usize),
}

// SAFETY: the pointers are read under the duties of the object's user, whichever thread that is.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.map, other.map)
    }
}

/// The object that an address lies in.
pub fn object_of(address: usize) -> Option<Object> {
    let found = find(address)?;
    // SAFETY: an entry of the linker's list, which lives as long as the object.
    let map = unsafe { found.link_map.as_ref() }?;
    let is_same = |it: &Found| std::ptr::eq(it.link_map, map);
    // Between the parts of an object may be a gap: then the linker gives the part alone, and the first is at the base.
    let header = match is_header(found.map_start) {
        true => found.map_start,
        false => find(map.base)
            .filter(is_same)
            .map(|it| it.map_start)
            .filter(|&start| is_header(start))
            .unwrap_or(0),
    };
    Some(Object {
        map,
        base: map.base,
        name: map.name,
        dynamic: map.dynamic,
        header,
        frame_header: found.frame_header,
        part: (found.map_start, found.map_end),
    })
}

fn find(address: usize) -> Option<Found> {
    let find = FIND.get()?;
    let mut found = MaybeUninit::uninit();
    // SAFETY: the function takes no lock, and writes the structure if it returns 0.
    unsafe { (find(address as *mut c_void, found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
}

/// Whether a file's first page is loaded there: at the start of a part of an object.
fn is_header(start: usize) -> bool {
    // SAFETY: the start of a part that is loaded, and that code runs in or the linker reads.
    unsafe { *(start as *const [u8; 4]) == *b"\x7fELF" }
}

#[cfg(fuzzing)]
impl Object {
    /// An object in memory that nothing has loaded.
    pub fn of_image(start: usize, frame_header: usize, dynamic: usize, length: usize) -> Self {
        Object {
            map: std::ptr::null(),
            base: start,
            name: std::ptr::null(),
            dynamic: std::ptr::without_provenance(dynamic),
            header: start,
            frame_header,
            part: (start, start + length),
        }
    }

    /// Whether all its parts are in these addresses, as the linker has seen to.
    pub fn is_within(&self, room: Range<usize>) -> bool {
        self.segments()
            .all(|it| room.start <= it.start && it.end <= room.end)
    }
}

impl Object {
    /// The addresses around the one that it was found by that are its own without a gap: all of its code.
    pub fn part(&self) -> Range<usize> {
        self.part.0..self.part.1
    }

    /// The path of its file, as the linker knows it; empty for the executable.
    pub fn path(&self) -> &[u8] {
        if self.name.is_null() {
            return &[];
        }
        // SAFETY: a text that lives as long as the object.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// Its program headers. None if they are not in the first page: some tools move them.
    fn headers(&self) -> Option<&[libc::Elf64_Phdr]> {
        let size = size_of::<libc::Elf64_Phdr>();
        if self.header == 0 {
            return None;
        }
        // SAFETY: the first page of the file, which is loaded and readable.
        unsafe {
            let header = &*(self.header as *const libc::Elf64_Ehdr);
            let (at, count) = (header.e_phoff as usize, usize::from(header.e_phnum));
            let is_there = usize::from(header.e_phentsize) == size
                && at % 8 == 0
                && at.checked_add(count * size)? <= PAGE;
            is_there.then(|| std::slice::from_raw_parts((self.header + at) as *const _, count))
        }
    }

    /// The readable parts of the object.
    fn segments(&self) -> impl Iterator<Item = Range<usize>> {
        let headers = self.headers().unwrap_or_default().iter();
        let loaded =
            headers.filter(|it| it.p_type == libc::PT_LOAD && it.p_flags & libc::PF_R != 0);
        loaded.filter_map(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            Some(start..start.checked_add(header.p_memsz as usize)?)
        })
    }

    /// The bytes from an address to the end of their part of the object.
    pub fn bytes_from(&self, address: usize) -> Option<&[u8]> {
        let range = self.segments().find(|range| range.contains(&address))?;
        // SAFETY: a part that is loaded and may be read. It may have been made unreadable since (`mprotect`), as the
        // loader does to no part that unwind tables or names are in.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, range.end - address) })
    }

    /// Where the table of its unwind entries is.
    pub fn frame_header(&self) -> Option<usize> {
        (self.frame_header != 0).then_some(self.frame_header)
    }

    /// The number that the linker of the file made of its content; empty if it has none.
    pub fn build_id(&self) -> &[u8] {
        const NT_GNU_BUILD_ID: u32 = 3;
        let headers = self.headers().unwrap_or_default().iter();
        for header in headers.filter(|it| it.p_type == libc::PT_NOTE) {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            let notes = self.bytes_from(start).unwrap_or_default();
            let mut rest = notes.get(..header.p_filesz as usize).unwrap_or_default();
            while let Some(words) = rest.first_chunk::<12>() {
                let number = |at: usize| {
                    let bytes = words.get(at..at + 4).and_then(|it| it.try_into().ok());
                    bytes.map_or(0, u32::from_ne_bytes) as usize
                };
                let (name, content, kind) = (number(0), number(4), number(8) as u32);
                let begin = 12 + name.next_multiple_of(4);
                let found = rest.get(begin..).and_then(|it| it.get(..content));
                if kind == NT_GNU_BUILD_ID
                    && rest.get(12..16) == Some(b"GNU\0")
                    && let Some(found) = found
                {
                    return found;
                }
                rest = rest
                    .get(begin + content.next_multiple_of(4)..)
                    .unwrap_or_default();
            }
        }
        &[]
    }

    /// The name of the exported symbol that an address is in; None if it is in a function that is not exported.
    pub fn symbol(&self, address: usize) -> Option<&[u8]> {
        let tables = self.tables()?;
        let wanted = address.wrapping_sub(self.base) as u64;
        let size = size_of::<libc::Elf64_Sym>();
        let bytes = self.bytes_from(tables.symbols)?;
        for index in 0..self.symbol_count(tables.hash)? {
            let entry = bytes.get(index * size..(index + 1) * size)?;
            // SAFETY: as many bytes, of a plain structure.
            let symbol: libc::Elf64_Sym =
                unsafe { entry.as_ptr().cast::<libc::Elf64_Sym>().read_unaligned() };
            let is_function = matches!(symbol.st_info & 15, 2 | 10); // STT_FUNC, STT_GNU_IFUNC
            let is_inside = wanted.wrapping_sub(symbol.st_value) < symbol.st_size;
            if is_function && is_inside && symbol.st_shndx != 0 {
                let text = self.bytes_from(tables.texts.checked_add(symbol.st_name as usize)?)?;
                return text.split(|&byte| byte == 0).next();
            }
        }
        None
    }

    fn tables(&self) -> Option<Tables> {
        const DT_NULL: i64 = 0;
        const DT_STRTAB: i64 = 5;
        const DT_SYMTAB: i64 = 6;
        const DT_GNU_HASH: i64 = 0x6fff_fef5;
        /// Entries that are looked at.
        const MOST: usize = 200;
        let (mut symbols, mut texts, mut hash) = (0, 0, 0);
        let size = size_of::<Dynamic>();
        let bytes = self.bytes_from(self.dynamic.addr())?;
        for entry in bytes.chunks_exact(size).take(MOST) {
            let (tag, value) = entry.split_at_checked(8)?;
            let tag = i64::from_ne_bytes(tag.try_into().ok()?);
            let value = usize::from_ne_bytes(value.try_into().ok()?);
            // The linker adds the base to most of these, but not in objects whose entries are read-only.
            let value = match self.segments().any(|range| range.contains(&value)) {
                true => value,
                false => value.wrapping_add(self.base),
            };
            match tag {
                DT_NULL => break,
                DT_SYMTAB => symbols = value,
                DT_STRTAB => texts = value,
                DT_GNU_HASH => hash = value,
                _ => {}
            }
        }
        (symbols != 0 && texts != 0 && hash != 0).then_some(Tables {
            symbols,
            texts,
            hash,
        })
    }

    /// How many symbols there are, from the table of hashes: nothing else says it.
    fn symbol_count(&self, hash: usize) -> Option<usize> {
        let bytes = self.bytes_from(hash)?;
        let word = |index: usize| -> Option<usize> {
            let bytes = bytes.get(4 * index..)?.first_chunk()?;
            Some(u32::from_ne_bytes(*bytes) as usize)
        };
        let (buckets, first, filter) = (word(0)?, word(1)?, word(2)?);
        let start = 4 + 2 * filter;
        let mut last = 0;
        for bucket in 0..buckets.min(MOST_SYMBOLS) {
            last = last.max(word(start + bucket)?);
        }
        if last < first {
            return Some(first);
        }
        // The last symbol of a chain has the lowest bit set.
        let mut index = last;
        while index < MOST_SYMBOLS && word(start + buckets + index - first)? & 1 == 0 {
            index += 1;
        }
        Some((index + 1).min(MOST_SYMBOLS))
    }
}

/// Symbols that are looked through, so that a huge library delays nobody for long.
const MOST_SYMBOLS: usize = 100_000;

/// Where the symbols, their names, and the table of hashes are.
struct Tables {
    symbols: usize,
    texts: usize,
    hash: usize,
}
