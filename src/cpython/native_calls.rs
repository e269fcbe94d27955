//! The native calls of the calling thread that count: of samples with `--lines native`, after those of Python, and of the
//! blocks of `--debug-hooks` and `--guard`. For callers inside an allocator, as [`frames`].
//!
//! The interpreter's own code and the host's are left out, wherever they are on the stack. The walk ends at the
//! interpreter's innermost loop, below which the calls of Python say the rest. The loop is known by an address within its
//! part of the stack (CPython 3.10 and newer), else by where its function begins: a compiler that moves rare code of
//! the loop into a function of its own hides the second, never the first.

use super::{frames, frames::Taker, threads, waiting};
use crate::heap::sampling::{Call, NativeCall, Step};
use pyhost_os::cell::Exclusive;
use pyhost_unwind::{MOST, Object, object_of, walk as walk_stack};
use std::{ops::Range, os::unix::ffi::OsStringExt, sync::OnceLock};

/// Longest path of a library that is kept.
const PATH: usize = 1024;
/// Longest build id that is kept, in bytes.
const BUILD_ID: usize = 32;

/// What the walks need to know, found at the start.
struct Known {
    /// Where the host's code is, and the interpreter's.
    left_out: [Range<usize>; 2],
    /// Where the function of the interpreter's loop begins.
    interpreter_loop: usize,
    /// An address in the stack of the host's own main function.
    main_frame: usize,
    /// The executable's path, which the linker does not have.
    executable: Vec<u8>,
}

/// Room for a sample's stack: too much for a small stack. By one thread at a time, under the lock of the samples.
struct Room {
    addresses: [usize; MOST],
    text: [u8; PATH + 1 + 2 * BUILD_ID],
}

pyhost_os::state! {
    /// Where the interpreter lies, and room for a walk.
    static STATE: NativeCalls {
        known: OnceLock<Known> = OnceLock::new(),
        room: Exclusive<Option<Room>> = Exclusive::new(None),
    }
}

/// Prepares the walks. Before Python starts; `main_frame` is an address in the stack of the function that runs Python, whose
/// callers are in no stack. A second call does nothing. The error is why there are none, the end of a line.
pub fn prepare(main_frame: usize) -> Result<(), &'static str> {
    if STATE.known.get().is_some() {
        return Ok(());
    }
    pyhost_unwind::start()?;
    let own = object_of(prepare as *const () as usize);
    let interpreter = object_of(frames::interpreter_function());
    let (Some(own), Some(interpreter)) = (own, interpreter) else {
        return Err("the linker does not know where the interpreter is");
    };
    let executable = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let _ = STATE.known.set(Known {
        left_out: [own.part(), interpreter.part()],
        interpreter_loop: frames::loop_function(),
        main_frame,
        executable: executable.into_os_string().into_vec(),
    });
    Ok(())
}

/// Makes the samples' stacks begin with native calls. Once, as of [`prepare`].
pub fn start(main_frame: usize) -> Result<(), &'static str> {
    prepare(main_frame)?;
    if let Some(mut room) = STATE.room.try_hold() {
        *room = Some(Room {
            addresses: [0; MOST],
            text: [0; PATH + 1 + 2 * BUILD_ID],
        });
    }
    Ok(())
}

/// Gives the calls of a sample to `take`, outermost first: those of Python, or of a thread that waits for the calling one; with the
/// native ones after [`start`]. None before Python has started.
pub fn calls(take: Taker<'_>) {
    if !threads::has_main() {
        return;
    }
    if !frames::calls(take) {
        waiting::calls(take);
    }
    if let Some(mut room) = STATE.room.try_hold()
        && let Some(room) = room.as_mut()
    {
        let count = find(&mut room.addresses, Of::Call);
        room.give(count, take);
    }
}

/// Whose calls are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Those of the caller.
    Call,
    /// Those of what a signal interrupted, whose handler is the caller.
    Interrupted,
}

/// Writes the addresses of the calls that count, innermost first, as far as there is room; how many they are.
pub fn find(addresses: &mut [usize], of: Of) -> usize {
    let Some(known) = STATE.known.get() else {
        return 0;
    };
    let loop_frame = frames::loop_frame();
    let (mut count, mut stack_start) = (0, 0);
    let is_whole = walk_stack(|call| {
        let stack = stack_start..call.stack_end;
        stack_start = call.stack_end;
        let is_loop = loop_frame.is_some_and(|address| stack.contains(&address))
            || call.function == known.interpreter_loop && call.function != 0;
        if is_loop || stack.contains(&known.main_frame) {
            return false;
        }
        if of == Of::Interrupted && call.is_from_signal {
            count = 0;
        } else if !known
            .left_out
            .iter()
            .any(|code| code.contains(&call.address))
            && let Some(place) = addresses.get_mut(count)
        {
            *place = call.address;
            count += 1;
        }
        // What a handler calls makes room for what it has interrupted.
        count < addresses.len() || of == Of::Interrupted
    });
    // A part would be a stack of its own.
    if is_whole { count } else { 0 }
}

/// A native call, as far as it is known in the process. Valid as long as its library is loaded.
pub struct Place {
    /// The address in the library's file.
    pub offset: usize,
    object: Object,
    address: usize,
    executable: &'static [u8],
}

impl Place {
    /// The path of the library.
    pub fn library(&self) -> &[u8] {
        match self.object.path() {
            [] => self.executable,
            path => path,
        }
    }

    /// The exported name of the function.
    pub fn name(&self) -> Option<&[u8]> {
        self.object.symbol(self.address)
    }

    /// The number that the linker of the library made of its content; empty if it has none.
    pub fn build_id(&self) -> &[u8] {
        self.object.build_id()
    }
}

/// The place of an address; `None` if no library is there, or [`prepare`] was not called.
pub fn place_of(address: usize) -> Option<Place> {
    let known = STATE.known.get()?;
    let object = object_of(address)?;
    Some(Place {
        offset: address.wrapping_sub(object.base),
        object,
        address,
        executable: &known.executable,
    })
}

impl Room {
    fn give(&mut self, count: usize, take: Taker<'_>) {
        for &address in self.addresses[..count].iter().rev() {
            let Some(place) = place_of(address) else {
                continue;
            };
            let name = || place.name().unwrap_or_default();
            take(Step::Whole(Call {
                file: library(&mut self.text, place.library(), place.build_id()),
                function: &[],
                line: 0,
                native: Some(NativeCall {
                    offset: place.offset as u64,
                    name: &name,
                }),
            }));
        }
    }
}

/// A library as [`NativeCall`] wants it.
fn library<'a>(text: &'a mut [u8], path: &[u8], build_id: &[u8]) -> &'a [u8] {
    let digit = |number: u8| b"0123456789abcdef"[usize::from(number)];
    let build_id = build_id.iter().take(BUILD_ID);
    let digits = build_id.flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    let letters = path.iter().take(PATH).copied().chain([0]).chain(digits);
    let mut length = 0;
    for (place, letter) in text.iter_mut().zip(letters) {
        *place = letter;
        length += 1;
    }
    &text[..length]
}
