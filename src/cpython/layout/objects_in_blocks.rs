//! Which Python object a block holds, read off the block itself after Python was finalised.
//!
//! Layout after `object.h`, `pycore_gc.h` and `pycore_object.h` of CPython 3.9 to 3.15: a container
//! has two words of the collector's in front, and from 3.11 on, if its type has a managed
//! dictionary or weak references, two more before those. A free-threaded Python has no words of the collector's.

use super::{KEEPS_IMMORTALS, PRE_HEADER, WORD};
use crate::IS_FREE_THREADED;
use pyhost_os::process::read_memory;
use pyo3::ffi::{self, PyTypeObject};
use std::mem::offset_of;

const HAVE_GC: u64 = 1 << 14;
/// `sizeof(PyGC_Head)`, and of a managed dictionary and weak references.
const HEAD: usize = 2 * WORD;
/// Bytes of a type's name that are kept.
pub const NAME: usize = 40;

/// Memory as the reader of blocks sees it.
pub trait Memory {
    /// Whether `length` bytes at `address`, a multiple of a word, can be read.
    fn holds(&self, address: usize, length: usize) -> bool;
    /// The word at `address`.
    fn word(&self, address: usize) -> Option<usize>;
}

/// An object in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its address.
    pub address: usize,
    /// Its type's address.
    pub kind: usize,
    /// Whether the collector's links lie in front of it.
    pub has_links: bool,
}

impl Object {
    /// The collector's links of the object, at which no reference points.
    pub fn links(&self) -> Option<usize> {
        self.has_links.then(|| self.address - HEAD)
    }
}

/// A type.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    flags: u64,
    /// Bytes of its smallest object.
    pub size: usize,
}

/// The type at an address. None if there is none.
pub fn kind_at(memory: &impl Memory, address: usize) -> Option<Kind> {
    if !memory.holds(address, size_of::<PyTypeObject>()) {
        return None;
    }
    let of = |object: usize| memory.word(object.wrapping_add(offset_of!(ffi::PyObject, ob_type)));
    let mut kinds = std::iter::successors(of(address), |&kind| of(kind)).take(4);
    let is_type = kinds.any(|kind| kind == (&raw const ffi::PyType_Type).addr());
    is_type.then_some(Kind {
        flags: memory.word(address + offset_of!(PyTypeObject, tp_flags))? as u64,
        size: memory.word(address + offset_of!(PyTypeObject, tp_basicsize))?,
    })
}

/// The object in a block of OBJ that starts at `start` and holds `size` bytes; None if it holds none.
pub fn object_in(memory: &impl Memory, start: usize, size: usize) -> Option<Object> {
    let word = |address| memory.word(address);
    object_with(start, size, word, |address| kind_at(memory, address))
}

/// Bytes at the start of a block that decide it.
pub const LONGEST: usize = 2 * HEAD + size_of::<ffi::PyObject>();

/// The same by functions for the words of the block and for the types.
pub fn object_with(
    start: usize,
    size: usize,
    word: impl Fn(usize) -> Option<usize>,
    mut kind_at: impl FnMut(usize) -> Option<Kind>,
) -> Option<Object> {
    [0, HEAD, 2 * HEAD].into_iter().find_map(|front| {
        if size < front + size_of::<ffi::PyObject>() {
            return None;
        }
        let address = start + front;
        let kind = word(address + offset_of!(ffi::PyObject, ob_type))?;
        let Kind { flags, .. } = kind_at(kind)?;
        let has_links = flags & HAVE_GC != 0 && !IS_FREE_THREADED;
        let parts = [has_links, flags & PRE_HEADER != 0].map(usize::from);
        (front == HEAD * parts.iter().sum::<usize>()).then_some(Object {
            address,
            kind,
            has_links,
        })
    })
}

/// Whether CPython keeps an object for ever: an immortal one (PEP 683), an interned string, or, without a GIL, one that was put aside
/// (`gc.freeze`), whose deferred references nobody counts any more.
pub fn is_kept(memory: &impl Memory, object: &Object) -> bool {
    /// Of `PyASCIIObject`, behind length and hash.
    const STATE: usize = size_of::<ffi::PyObject>() + 2 * WORD;
    /// `interned`, the lowest bits.
    const INTERNED: usize = 0b11;
    let word = |address| memory.word(address).unwrap_or(0);
    let references = word(object.address);
    let is_immortal = match WORD {
        8 if IS_FREE_THREADED => {
            // `ob_gc_bits` with `_PyGC_BITS_FROZEN`, and `ob_ref_local`.
            let state = word(object.address + WORD) as u64;
            state & 8 << 24 != 0 || state >> 32 == u64::from(u32::MAX)
        }
        8 => (references as i32) < 0,
        // `_Py_IMMORTAL_REFCNT`, and what 3.14 begins with, is more.
        _ => references >= 0x3fff_ffff,
    };
    let is_string = object.kind == (&raw const ffi::PyUnicode_Type).addr();
    let is_interned = || is_string && word(object.address + STATE) & INTERNED != 0;
    KEEPS_IMMORTALS && (is_immortal || is_interned())
}

/// Whether an object of a free-threaded Python has no reference: it waits in a free list, which CPython fills until its very end.
pub fn is_free(memory: &impl Memory, address: usize) -> bool {
    /// `ob_ref_shared` of no reference, `_Py_REF_MERGED`.
    const NONE: usize = 3;
    let word = |place| memory.word(address + place * WORD);
    let has_none = |state| state as u64 >> 32 == 0 && word(2) == Some(NONE);
    IS_FREE_THREADED && word(0) == Some(0) && word(1).is_some_and(has_none)
}

/// Whether a block of MEM holds what a free-threaded Python frees later (`struct _mem_work_chunk` of `obmalloc.c`): two links, how
/// many of its blocks were freed and how many there are, and two words for each. That of the thread that finalises is lost.
pub fn is_freed_later(memory: &impl Memory, address: usize, size: usize) -> bool {
    const MOST: usize = 254;
    const BYTES: usize = (2 * MOST + 4) * WORD;
    let word = |place| memory.word(address + place * WORD);
    let fits = |all| (1..=MOST).contains(&all) && word(2) <= Some(all);
    IS_FREE_THREADED && (BYTES..2 * BYTES).contains(&size) && word(3).is_some_and(fits)
}

/// The name of a type that [`object_in`] found, cut if it is long; empty if it is no text.
pub fn type_name(memory: &impl Memory, kind: usize) -> [u8; NAME] {
    let mut name = [0; NAME];
    let place = kind + offset_of!(PyTypeObject, tp_name);
    let Some(text) = memory.word(place) else {
        return name;
    };
    // Constant data of a library, or a block.
    let read = read_memory(text, &mut name[..NAME - 1]);
    let is_text = |byte: &u8| byte.is_ascii_graphic() || !byte.is_ascii();
    let length = name.iter().take_while(|byte| is_text(byte)).count();
    let ends = name[length] == 0 || length == NAME - 1;
    match read > 0 && ends {
        true => name[length..].fill(0),
        false => name.fill(0),
    }
    name
}

/// Whether a block holds a `traceback_t` (`Modules/_tracemalloc.c`): a hash, the number of frames,
/// their number before the limit, and a word and four bytes for each frame.
pub fn looks_like_traceback(memory: &impl Memory, address: usize, size: usize) -> bool {
    const HEAD: usize = WORD + 4;
    const FRAME: usize = WORD + 4;
    if size < HEAD + FRAME {
        return false;
    }
    let [a, b, c, d, ..] = memory.word(address + WORD).unwrap_or(0).to_ne_bytes();
    let (frames, all) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
    let needed = HEAD + FRAME * usize::from(frames);
    frames > 0 && all >= frames && needed <= size && size < needed + needed / 2 + 16
}
