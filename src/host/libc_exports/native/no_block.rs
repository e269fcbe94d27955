//! Pointers that are given to `free` and lead to no block of any allocator's, where blocks are checked.

use crate::cpython::native_calls;
use crate::heap::{double_free, thread_number};
use crate::process::{loaded, maps};
use pyhost_os::terminal_text::Plain;

/// Room for a line of the list of mappings.
const ROOM: usize = 16 << 10;

/// Ends the process, with a line and its calls, if `pointer` leads to static data, to a stack, or to a map of a file.
#[cold]
pub fn refuse(pointer: *mut u8) {
    let address = pointer.addr();
    let mut is_in_library = false;
    loaded::each(|object| is_in_library |= object.holds(address));
    if is_in_library {
        let place = native_calls::place_of(address);
        let path = shown(
            place
                .as_ref()
                .map_or(&b"a library"[..], |place| place.library()),
        );
        refuse_part(pointer, format_args!("the code or static data of {path}"));
    }
    let mut room = [0; ROOM];
    // libc's description of a thread is above its stack. The system may merge the map with others, which are above that.
    let (here, top) = (room.as_ptr().addr(), thread_number());
    let _ = maps::each_range(&mut room, |mapping| {
        let holds = |address| (mapping.start..mapping.end).contains(&address);
        match mapping.name {
            _ if !holds(address) => {}
            b"[stack]" => refuse_part(pointer, format_args!("the stack of the first thread")),
            _ if holds(here) && holds(top) && address < top => {
                refuse_part(pointer, format_args!("the stack of this thread"))
            }
            name @ [b'/', ..] => refuse_part(pointer, format_args!("a map of {}", shown(name))),
            _ => {}
        }
    });
}

fn refuse_part(pointer: *mut u8, part: std::fmt::Arguments<'_>) -> ! {
    double_free::refuse(format_args!(
        "free(): invalid pointer {pointer:p}: no block, but {part}"
    ))
}

fn shown(path: &[u8]) -> Plain<'_> {
    Plain(str::from_utf8(path).unwrap_or("?"))
}
