//! The readers of loaded objects and their unwind tables, given any bytes: for a fuzz target.

use crate::machine::{RBP, RIP, RSP, Registers, Stack};
use crate::object::{Object, PAGE};
use crate::{MOST, step};

/// Walks by the tables of a loaded object. The first words of the bytes are the offsets of an address in it, of its
/// `.eh_frame_hdr` and of its dynamic section; the rest is the object. Nothing is read outside of it and of a small stack.
pub fn unwind(bytes: &[u8]) {
    let Some((head, image)) = bytes.split_first_chunk::<12>() else {
        return;
    };
    let words = [0, 4, 8].map(|at| [head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let [address, frames, dynamic] = words.map(|word| u32::from_ne_bytes(word) as usize);
    // Zeros behind it, so that its first page is there.
    let mut room = vec![0u64; image.len().max(PAGE).div_ceil(8)];
    let start = room.as_mut_ptr().addr();
    for (word, bytes) in room.iter_mut().zip(image.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
    let object = Object::of_image(start, start + frames, start + dynamic, room.len() * 8);
    if !object.is_within(start..start + room.len() * 8) {
        return;
    }
    let _ = (object.build_id(), object.symbol(start + address));
    let stack_words = (0..512).map(|word| (start + address + word % 7) as u64);
    let stack_words: Vec<u64> = stack_words.collect();
    let mut registers = Registers::of_caller();
    for register in [RBP, RSP] {
        registers.set(register, stack_words.as_ptr().addr() as u64);
    }
    registers.set(RIP, (start + address) as u64);
    let mut stack = Stack::around(stack_words.as_ptr().addr() as u64);
    step::make_rooms();
    for _ in 0..MOST {
        let place = registers.get(RIP).unwrap_or(0) as usize;
        step::callers(&object, place, &registers, &mut stack).map_or(break, |next| registers = next)
    }
}
