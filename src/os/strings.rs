//! Arguments and environment as the loader and `execve(2)` have them, and those of this process where the system shows them
//! (`/proc/self/cmdline`) and where libraries look for them: in the bytes in front of the environment, which libraries that
//! set a process's title overwrite. Nothing here allocates or locks.

#![allow(unsafe_code)]

use crate::process::{has_several_threads, small_file, stat_fields};
use std::ffi::{CStr, c_char, c_ulong};
use std::marker::PhantomData;

/// A text with its zero byte as C has it.
pub const fn c_text(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("one zero byte, at the end"),
    }
}

/// An array of strings that ends with null, or null for none. Nobody else changes it meanwhile. A function that the
/// loader calls takes its arrays as this type.
#[repr(transparent)]
pub struct Strings<'a>(*mut *const c_char, PhantomData<&'a CStr>);

impl<'a> Strings<'a> {
    /// The array at an address.
    ///
    /// # Safety
    /// Null, or an array of strings that ends with null and that nobody else changes for the length of `'a`.
    pub unsafe fn at(array: *const *const c_char) -> Self {
        Strings(array.cast_mut(), PhantomData)
    }

    /// The environment of this process.
    ///
    /// # Safety
    /// Nobody sets a variable while the value is used.
    pub unsafe fn environment() -> Self {
        unsafe extern "C" {
            static mut environ: *const *const c_char;
        }
        // SAFETY: the caller's promise; libc keeps such an array there.
        unsafe { Strings::at(environ) }
    }

    /// The arguments of this process: the kernel puts their number, them and a null in front of the environment.
    ///
    /// # Safety
    /// This is the environment that the process was started with, as the kernel made it.
    pub unsafe fn arguments(&self) -> Self {
        // SAFETY: the caller's promise. No argument has an address as low as their number.
        unsafe {
            let mut first = self.0.sub(1);
            let mut count = 0;
            while (*first.sub(1)).addr() != count {
                first = first.sub(1);
                count += 1;
            }
            Strings(first, PhantomData)
        }
    }

    pub fn as_ptr(&self) -> *const *const c_char {
        self.0
    }

    /// The value of the first entry of an environment that begins with `name`, which ends with `=`.
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find_map(|entry| entry.strip_prefix(name))
    }

    /// The strings, without the bytes that end them.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.texts().map(CStr::to_bytes)
    }

    pub fn texts(&self) -> impl Iterator<Item = &'a CStr> + Clone {
        let mut next = self.0;
        std::iter::from_fn(move || {
            // SAFETY: the array and its strings, as the type says; the end is not passed.
            unsafe {
                if next.is_null() || (*next).is_null() {
                    return None;
                }
                let text = CStr::from_ptr(*next);
                next = next.add(1);
                Some(text)
            }
        })
    }

    /// Takes the strings out that `keep` is false for.
    pub fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let (mut from, mut to) = (self.0, self.0);
        // SAFETY: as in `iter`; no more strings are kept than there were.
        unsafe {
            while !from.is_null() && !(*from).is_null() {
                if keep(CStr::from_ptr(*from).to_bytes()) {
                    *to = *from;
                    to = to.add(1);
                }
                from = from.add(1);
            }
            if let Some(end) = to.as_mut() {
                *end = std::ptr::null();
            }
        }
    }

    /// Takes the first part out of the list, parted by colons or spaces, that `name` has in an environment; the
    /// whole entry if nothing is left. `name` ends with `=`.
    ///
    /// # Safety
    /// The entry's text is memory that may be written to, and nobody has a reference to it.
    pub unsafe fn take_first_of_list(&mut self, name: &[u8]) {
        let mut entry = self.0;
        // SAFETY: the array and its strings, as the type says. The text is written through the array's own pointer, when
        // the references made of it here have ended; it gets shorter.
        unsafe {
            while !entry.is_null() && !(*entry).is_null() {
                let text = CStr::from_ptr(*entry).to_bytes_with_nul();
                if let Some(list) = text.strip_prefix(name) {
                    let is_end = |&byte: &u8| matches!(byte, b':' | b' ');
                    let first = list.iter().position(is_end);
                    let left = first.map_or(0, |first| list.len() - first - 1);
                    if left <= 1 {
                        let address = *entry;
                        return self.retain(|text| text.as_ptr() != address.cast());
                    }
                    let place = (*entry).cast_mut().add(name.len());
                    let from = place.add(list.len() - left);
                    return std::ptr::copy(from, place, left);
                }
                entry = entry.add(1);
            }
        }
    }
}

/// Where the parts of the process's memory lie: `struct prctl_mm_map` of `linux/prctl.h`.
#[repr(C)]
struct Map {
    /// `start_code`, `end_code`, `start_data`, `end_data`, `start_brk`, `brk`, `start_stack`, `arg_start`, `arg_end`,
    /// `env_start`, `env_end`.
    places: [u64; 11],
    auxv: usize,
    auxv_size: u32,
    exe_fd: u32,
}

const BRK: usize = 5;
const ARG_START: usize = 7;
const ARG_END: usize = 8;

impl Map {
    /// What the system has. Returns `None` if it does not say.
    fn read() -> Option<Map> {
        // The fields of proc(5), in the structure's order; the end of the heap is none of them.
        const FIELDS: [usize; 11] = [26, 27, 45, 46, 47, 0, 28, 48, 49, 50, 51];
        let mut room = [0; 1024];
        let text = small_file::read_once(c"/proc/self/stat", &mut room)?;
        let mut places = [0; 11];
        for (place, field) in places.iter_mut().zip(FIELDS) {
            if let Some(index) = field.checked_sub(3) {
                *place = small_file::number(stat_fields(text).nth(index)?)?;
            }
        }
        // SAFETY: the call asks for the end of the heap alone, since no heap ends at 0.
        places[BRK] = unsafe { libc::syscall(libc::SYS_brk, 0) } as u64;
        Some(Map {
            places,
            auxv: 0,
            auxv_size: 0,
            exe_fd: u32::MAX,
        })
    }

    /// Makes the system show the bytes from `start` to `end` as the arguments. Returns false if it refuses, as a kernel
    /// without `CONFIG_CHECKPOINT_RESTORE` does.
    fn show(mut self, start: usize, end: usize) -> bool {
        self.places[ARG_START] = start as u64;
        self.places[ARG_END] = end as u64;
        let size = size_of::<Map>() as c_ulong;
        // SAFETY: the structure and its size. But for the arguments it says what is so already, and none of it is memory
        // that the call touches.
        let result = unsafe {
            let map = &raw const self;
            libc::prctl(libc::PR_SET_MM, libc::PR_SET_MM_MAP, map, size, 0)
        };
        result == 0
    }
}

/// The arguments of this process. Nobody else has a reference to the array or to a word.
pub struct ProcessArguments<'a>(Strings<'a>);

impl<'a> ProcessArguments<'a> {
    /// Takes `main`'s.
    ///
    /// # Safety
    /// They are the arguments that the kernel made, and nobody uses a reference to the array or to a word any more.
    pub unsafe fn of_main(arguments: Strings<'a>) -> Self {
        ProcessArguments(arguments)
    }

    pub fn strings(&self) -> Strings<'_> {
        // SAFETY: as in `self`, which is borrowed.
        unsafe { Strings::at(self.0.as_ptr()) }
    }
}

/// Takes `count` words after the first out of the process's arguments. The first then lies right in front of the others,
/// and these in front of the environment, as if the process had been started so. Does nothing if the words do not lie in a
/// row, or if the system refuses.
pub fn take_out(ProcessArguments(arguments): ProcessArguments<'_>, count: usize) {
    unsafe extern "C" {
        static mut program_invocation_name: *const c_char;
        static mut program_invocation_short_name: *const c_char;
    }
    let place = |word: &CStr| word.to_bytes_with_nul().as_ptr_range();
    let words = || arguments.texts().map(place);
    let Some(first) = words().next().filter(|_| count > 0) else {
        return;
    };
    let mut pairs = words().zip(words().skip(1));
    let is_in_a_row = pairs.all(|(word, next)| word.end == next.start);
    let (Some(last), Some(taken)) = (words().last(), words().nth(count)) else {
        return;
    };
    let total = words().count();
    let moved = taken.end.addr() - first.end.addr();
    let start = first.start.addr() + moved;
    // The call sets the heap's end, too, which another thread may move meanwhile.
    if !is_in_a_row
        || has_several_threads()
        || !Map::read().is_some_and(|map| map.show(start, last.end.addr()))
    {
        return;
    }
    // SAFETY: the words are one piece of memory, which the process may write to, and the array has more than `count` places;
    // both are `arguments`' alone. libc's two names are pointers into the first word, or to elsewhere.
    unsafe {
        let length = first.end.addr() - first.start.addr();
        let word = first.start.cast_mut();
        std::ptr::copy(word, word.add(moved), length);
        for name in [
            &raw mut program_invocation_name,
            &raw mut program_invocation_short_name,
        ] {
            if first.contains(&(*name).cast()) {
                *name = (*name).add(moved);
            }
        }
        let array = arguments.as_ptr().cast_mut();
        array.write(word.add(moved).cast());
        for index in 1..total - count + 1 {
            *array.add(index) = *array.add(index + count);
        }
    }
}

/// Makes the system show a text as the only argument of this process, which is a copy of another one and has one thread. Does
/// nothing if the text is longer than the arguments, or if the system refuses.
pub fn replace_arguments(text: &CStr) {
    let bytes = text.to_bytes_with_nul();
    let Some(map) = Map::read() else { return };
    let start = map.places[ARG_START] as usize;
    if start + bytes.len() <= map.places[ARG_END] as usize && map.show(start, start + bytes.len()) {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(start);
        // SAFETY: the kernel has put the arguments there. Nothing of this process reads them any more.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_taken_out_where_they_are() {
        let entries = [c"MIMALLOC_VERBOSE=1", c"HOME=/", c"M", c"MIMALLO=1", c"M"];
        let mut array: Vec<*const c_char> = entries.iter().map(|entry| entry.as_ptr()).collect();
        array.push(std::ptr::null());
        let mut strings = Strings(array.as_mut_ptr(), PhantomData);
        strings.retain(|text| text.len() > 1 && !text.starts_with(b"MIMALLOC_"));
        let left: Vec<&[u8]> = strings.iter().collect();
        assert_eq!(left, [b"HOME=/".as_slice(), b"MIMALLO=1"]);
        let mut none = Strings(std::ptr::null_mut(), PhantomData);
        none.retain(|_| true);
        assert_eq!(none.iter().count(), 0);
    }

    #[test]
    fn the_arguments_lie_in_front_of_the_environment() {
        for words in [&[][..], &[c"pyhost"], &[c"pyhost", c"-c", c"pass"]] {
            let texts = words.iter().map(|word| word.as_ptr());
            let number = std::ptr::without_provenance(words.len());
            let mut stack: Vec<*const c_char> = std::iter::once(number).chain(texts).collect();
            stack.extend([std::ptr::null(), c"HOME=/".as_ptr(), std::ptr::null()]);
            // SAFETY: what the kernel puts on the stack of a process.
            let found = unsafe {
                let environment = Strings::at(stack.as_ptr().add(words.len() + 2));
                assert_eq!(environment.iter().collect::<Vec<_>>(), [b"HOME=/"]);
                environment.arguments()
            };
            assert!(found.texts().eq(words.iter().copied()));
        }
    }

    #[test]
    fn a_list_loses_its_first_part_and_an_empty_one_its_place() {
        for (list, left) in [
            (c"LIST=a:b c", Some(c"LIST=b c")),
            (c"LIST=a b", Some(c"LIST=b")),
            (c"LIST=a:", None),
            (c"LIST=a", None),
            (c"NONE=a", Some(c"NONE=a")),
        ] {
            let mut text = list.to_bytes_with_nul().to_vec();
            let [first, last] = [c"X=1", c"LISTEN=2"].map(CStr::as_ptr);
            let mut array = [first, text.as_mut_ptr().cast(), last, std::ptr::null()];
            let mut strings = Strings(array.as_mut_ptr(), PhantomData);
            // SAFETY: the text is this test's own.
            unsafe { strings.take_first_of_list(b"LIST=") };
            let left = [Some(c"X=1"), left, Some(c"LISTEN=2")].into_iter();
            assert!(strings.texts().eq(left.flatten()), "{list:?}");
            assert_eq!(strings.value(b"X="), Some(&b"1"[..]));
        }
    }
}
