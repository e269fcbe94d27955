//! The process's arguments where the system shows them (`/proc/self/cmdline`) and where libraries look for them: in the
//! bytes in front of the environment, which libraries that set a process's title overwrite.

use super::{small_file, stat_fields};
use crate::strings::Strings;
use std::ffi::{CStr, c_char, c_ulong};

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
                let text = stat_fields(text).nth(index)?.trim_ascii();
                *place = str::from_utf8(text).ok()?.parse().ok()?;
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
            libc::prctl(
                libc::PR_SET_MM,
                libc::PR_SET_MM_MAP,
                &raw const self,
                size,
                0,
            )
        };
        result == 0
    }
}

/// Takes `count` words after the first out of the process's arguments. The first then lies right in front of the others,
/// and these in front of the environment, as if the process had been started so. Does nothing if the words do not lie in a
/// row, or if the system refuses.
///
/// # Safety
/// These are the process's arguments, and nobody else has a reference to the array or to a word.
pub unsafe fn take_out(arguments: Strings<'_>, count: usize) {
    unsafe extern "C" {
        static mut program_invocation_name: *const c_char;
        static mut program_invocation_short_name: *const c_char;
    }
    let words = || {
        arguments
            .texts()
            .map(|word| word.to_bytes_with_nul().as_ptr_range())
    };
    let Some(first) = words().next().filter(|_| count > 0) else {
        return;
    };
    let is_in_a_row = words()
        .zip(words().skip(1))
        .all(|(word, next)| word.end == next.start);
    let (Some(last), Some(taken)) = (words().last(), words().nth(count)) else {
        return;
    };
    let total = words().count();
    let moved = taken.end.addr() - first.end.addr();
    let start = first.start.addr() + moved;
    // The call sets the heap's end, too, which another thread may move meanwhile.
    if !is_in_a_row
        || super::has_several_threads()
        || !Map::read().is_some_and(|map| map.show(start, last.end.addr()))
    {
        return;
    }
    // SAFETY: the words are one piece of memory, which the process may write to, and the array has more than `count` places;
    // both are the caller's. libc's two names are pointers into the first word, or to elsewhere.
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
pub fn replace(text: &CStr) {
    let bytes = text.to_bytes_with_nul();
    let Some(map) = Map::read() else { return };
    let start = map.places[ARG_START] as usize;
    if start + bytes.len() <= map.places[ARG_END] as usize && map.show(start, start + bytes.len()) {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(start);
        // SAFETY: the kernel has put the arguments there. Nothing of this process reads them any more.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}
