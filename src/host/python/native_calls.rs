//! The calls of a sample with `--lines-native`: those of Python, and the native ones between the allocation and the
//! interpreter's loop. For callers inside an allocator, as `place`.
//!
//! The interpreter's own code and the host's are left out, wherever they are on the stack. The walk ends at the
//! interpreter's innermost loop, below which the calls of Python say the rest. The loop is known by an address within its
//! part of the stack (CPython 3.10 and newer), else by where its function begins: a compiler that moves rare code of
//! the loop into a function of its own hides the second, never the first.

use super::place;
use crate::heap::sampling::{Call, NativeCall};
use pyhost_os::cell::Exclusive;
use pyhost_unwind::{MOST, Object, Walker, object_of};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

type Taker<'a> = &'a mut dyn FnMut(&Call<'_>);

/// Longest path of a library that is kept.
const PATH: usize = 1024;
/// Longest build id that is kept, in bytes.
const BUILD_ID: usize = 32;

/// What the walks need to know, found at the start.
struct Known {
    own: Object,
    interpreter: Object,
    /// Where the function of the interpreter's loop begins.
    interpreter_loop: usize,
    /// An address in the stack of the host's own main function.
    main_frame: usize,
    /// The executable's path, which the linker does not have.
    executable: Vec<u8>,
}

/// A call that is kept: its address and its library.
type Place = (usize, Object);

/// Room for a walk: too much for a small stack. By one thread at a time, under the lock of the samples.
struct Room {
    walker: Walker,
    places: [Option<Place>; MOST],
    text: [u8; PATH + 1 + 2 * BUILD_ID],
}

static KNOWN: OnceLock<Known> = OnceLock::new();
static ROOM: Exclusive<Option<Room>> = Exclusive::new(None);

/// Has the samples' stacks begin with native calls. Once, before Python starts; `main_frame` is an address in the stack
/// of the function that runs Python, whose callers are in no stack.
///
/// # Errors
/// The reason why they cannot, the end of a line.
pub fn start(main_frame: usize) -> Result<(), &'static str> {
    pyhost_unwind::start()?;
    let own = object_of(start as *const () as usize);
    let interpreter = object_of(place::interpreter_function());
    let (Some(own), Some(interpreter)) = (own, interpreter) else {
        return Err("the linker does not know where the interpreter is");
    };
    let executable = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let _ = KNOWN.set(Known {
        own,
        interpreter,
        interpreter_loop: place::loop_function(),
        main_frame,
        executable: executable.into_os_string().into_vec(),
    });
    if let Some(mut room) = ROOM.try_hold() {
        *room = Some(Room {
            walker: Walker::new(),
            places: [None; MOST],
            text: [0; PATH + 1 + 2 * BUILD_ID],
        });
    }
    Ok(())
}

/// The function that reads a sample's calls.
pub fn walk() -> fn(Taker<'_>) {
    match KNOWN.get() {
        Some(_) => calls,
        None => place::calls,
    }
}

/// Gives the calls to `take`, outermost first.
fn calls(take: Taker<'_>) {
    place::calls(take);
    if let Some(known) = KNOWN.get()
        && let Some(mut room) = ROOM.try_hold()
        && let Some(room) = room.as_mut()
    {
        let count = room.find(known);
        room.give(known, count, take);
    }
}

impl Room {
    /// Finds the calls that count, innermost first; how many they are.
    fn find(&mut self, known: &Known) -> usize {
        let loop_frame = place::loop_frame();
        let (mut count, mut stack_start) = (0, 0);
        let places = &mut self.places;
        self.walker.walk(|call| {
            let stack = stack_start..call.stack_end;
            stack_start = call.stack_end;
            let is_loop = loop_frame.is_some_and(|address| stack.contains(&address))
                || call.function == known.interpreter_loop && call.function != 0;
            if is_loop || stack.contains(&known.main_frame) {
                return false;
            }
            if ![known.own, known.interpreter].contains(&call.object) {
                places[count] = Some((call.address, call.object));
                count += 1;
            }
            count < MOST
        });
        count
    }

    fn give(&mut self, known: &Known, count: usize, take: Taker<'_>) {
        for (address, object) in self.places[..count].iter().rev().flatten() {
            let path = match object.path() {
                [] => &known.executable,
                path => path,
            };
            let name = || object.symbol(*address).unwrap_or_default();
            take(&Call {
                file: library(&mut self.text, path, object.build_id()),
                function: &[],
                line: 0,
                native: Some(NativeCall {
                    offset: address.wrapping_sub(object.base) as u64,
                    name: &name,
                }),
            });
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
