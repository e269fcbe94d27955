//! A loaded object, the executable or a library, as far as it can be read without the dynamic linker's lock.

#![allow(unsafe_code)]

use object::elf::{self, Dyn64, FileHeader64, ProgramHeader64, Sym64};
use object::read::elf::{Dyn, FileHeader, GnuHashTable, NoteIterator, ProgramHeader, Sym};
use object::{LittleEndian, pod::slice_from_bytes};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::{mem::MaybeUninit, ops::Range, sync::OnceLock};

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
    dynamic: *const c_void,
}

type Header = FileHeader64<LittleEndian>;

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
    dynamic: *const c_void,
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

    /// Its program headers; none if they are not in the first page: some tools move them.
    fn headers(&self) -> &[ProgramHeader64<LittleEndian>] {
        if self.header == 0 {
            return &[];
        }
        // SAFETY: the first page of the file, which is loaded and readable.
        let page = unsafe { std::slice::from_raw_parts(self.header as *const u8, PAGE) };
        let header = Header::parse(page);
        let headers = header.and_then(|header| header.program_headers(LittleEndian, page));
        headers.unwrap_or_default()
    }

    /// Where a part of the file is loaded.
    fn start_of(&self, header: &ProgramHeader64<LittleEndian>) -> usize {
        self.base
            .wrapping_add(header.p_vaddr(LittleEndian) as usize)
    }

    fn segments(&self) -> impl Iterator<Item = Range<usize>> {
        let loaded = self.headers().iter().filter(|it| {
            it.p_type(LittleEndian) == elf::PT_LOAD && it.p_flags(LittleEndian).contains(elf::PF_R)
        });
        loaded.filter_map(|header| {
            let start = self.start_of(header);
            Some(start..start.checked_add(header.p_memsz(LittleEndian) as usize)?)
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
        let headers = self.headers().iter();
        for header in headers.filter(|it| it.p_type(LittleEndian) == elf::PT_NOTE) {
            let notes = self.bytes_from(self.start_of(header)).unwrap_or_default();
            let notes = notes.get(..header.p_filesz(LittleEndian) as usize);
            let align = header.p_align(LittleEndian);
            let notes = NoteIterator::<Header>::new(LittleEndian, align, notes.unwrap_or_default());
            let Ok(mut notes) = notes else { continue };
            while let Ok(Some(note)) = notes.next() {
                let kind = note.n_type(LittleEndian);
                if note.name() == elf::ELF_NOTE_GNU && kind == elf::NT_GNU_BUILD_ID {
                    return note.desc();
                }
            }
        }
        &[]
    }

    /// The name of the exported symbol that an address is in; None if it is in a function that is not exported.
    pub fn symbol(&self, address: usize) -> Option<&[u8]> {
        let [symbols, texts, hash] = self.tables()?;
        let wanted = address.wrapping_sub(self.base) as u64;
        // Nothing but the table of hashes says how many there are.
        let hash = GnuHashTable::<Header>::parse(LittleEndian, self.bytes_from(hash)?).ok()?;
        let count = hash.symbol_table_length(LittleEndian)?.min(MOST_SYMBOLS);
        let symbols: (&[Sym64<_>], _) =
            slice_from_bytes(self.bytes_from(symbols)?, count as usize).ok()?;
        let found = symbols.0.iter().find(|symbol| {
            let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
            let distance = wanted.wrapping_sub(symbol.st_value(LittleEndian));
            let is_inside = distance < symbol.st_size(LittleEndian);
            is_function && is_inside && !symbol.is_undefined(LittleEndian)
        })?;
        let text = self.bytes_from(texts.checked_add(found.st_name(LittleEndian) as usize)?)?;
        text.split(|&byte| byte == 0).next()
    }

    /// Where the symbols, their names, and the table of hashes are.
    fn tables(&self) -> Option<[usize; 3]> {
        /// Entries that are looked at.
        const MOST: usize = 200;
        const WANTED: [elf::DynamicTag; 3] = [elf::DT_SYMTAB, elf::DT_STRTAB, elf::DT_GNU_HASH];
        let bytes = self.bytes_from(self.dynamic.addr())?;
        let count = MOST.min(bytes.len() / size_of::<Dyn64<LittleEndian>>());
        let entries: (&[Dyn64<_>], _) = slice_from_bytes(bytes, count).ok()?;
        let is_entry = |entry: &&Dyn64<LittleEndian>| entry.tag(LittleEndian) != elf::DT_NULL;
        let mut places = [0; 3];
        for entry in entries.0.iter().take_while(is_entry) {
            let value = entry.val(LittleEndian) as usize;
            // The linker adds the base to most of these, but not in objects whose entries are read-only.
            let is_added = self.segments().any(|range| range.contains(&value));
            let value = value.wrapping_add(if is_added { 0 } else { self.base });
            let tag = entry.tag(LittleEndian);
            if let Some(index) = WANTED.iter().position(|wanted| *wanted == tag) {
                places[index] = value;
            }
        }
        (!places.contains(&0)).then_some(places)
    }
}

/// Symbols that are looked through, so that a huge library delays nobody for long.
const MOST_SYMBOLS: u32 = 100_000;
