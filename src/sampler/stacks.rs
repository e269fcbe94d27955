//! Call stacks, each kept once: a tree of calls, whose nodes know their caller.
//!
//! Texts are compared by content, never by address: a code object, or the string of its name, may be gone and another
//! have its address.

use crate::Walk;
use crate::index::{Index, Numbered, hash};
use pyhost_os::mmap_vec::MmapVec;
use std::ops::Range;

/// The file of calls that are the host's own.
pub const HOSTS_FILE: &str = "<pyhost>";

/// A call as it is read off a thread.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The code's file, in UTF-8; of a native call what [`NativeCall`] says.
    pub file: &'a [u8],
    /// The function's name, in UTF-8; empty for a native call.
    pub function: &'a [u8],
    /// The line, from 1 on; 0 if it is not known.
    pub line: u32,
    /// Set for a call of a library's code.
    pub native: Option<NativeCall<'a>>,
}

impl<'a> Call<'a> {
    /// A call of Python.
    pub const fn of(file: &'a str, function: &'a str, line: u32) -> Self {
        Call {
            file: file.as_bytes(),
            function: function.as_bytes(),
            line,
            native: None,
        }
    }
}

/// A call of a stack that is walked.
#[derive(Clone, Copy)]
pub enum Step<'a> {
    Whole(Call<'a>),
    /// Calls with the same number, which is not 0, are equal: the second gives the call to its argument, and is asked the
    /// first time. The texts and the line of a call are cold in the caches, and few calls of a sample are new.
    Numbered(u64, &'a Ask<'a>),
}

/// Gives a call to its argument, once.
pub type Ask<'a> = dyn Fn(&mut dyn FnMut(&Call<'_>)) + 'a;

/// A call of a library's code. The file of the [`Call`] is the library's path, a zero byte, and its build id in
/// hexadecimal: a path alone may have named two libraries.
#[derive(Clone, Copy)]
pub struct NativeCall<'a> {
    /// The address of the call's instruction in the library's file.
    pub offset: u64,
    /// Finds the function's name; empty if it is not known. Asked once for each place.
    pub name: &'a dyn Fn() -> &'a [u8],
}

/// A call of a kept stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameView<'a> {
    /// Equal for equal calls.
    pub number: u32,
    pub file: &'a str,
    pub function: &'a str,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// Set for a call of a library's code: its file is the library's, its function may be empty.
    pub native: Option<NativeView<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeView<'a> {
    /// The address of the call's instruction in the library's file.
    pub offset: u64,
    /// The library's build id in hexadecimal; empty if it has none.
    pub build_id: &'a str,
}

/// The bit of a native call's place.
const NATIVE: u64 = 1 << 63;

// A recursion with many branches has a new stack for every sample. So the tables have bounds, far above what programs need
// that end: with `--lines=1` the start of a notebook's kernel has half a million nodes.
/// Bytes of texts.
const LETTERS: usize = 8 << 20;
/// Different calls.
const FRAMES: usize = 1 << 18;
/// Different calls with their callers.
const NODES: usize = 1 << 21;
/// Nodes above the bound for stacks that are cut to their innermost call: one for each call.
const CUT_NODES: usize = FRAMES + 1;
/// The outermost call of a stack that is cut.
const OTHERS: Call<'_> = Call::of("<other stacks>", "other stacks", 0);

/// The number of the stack without a call.
pub const EMPTY: u32 = u32::MAX;

/// A call that was read before: the frame of a [`Step::Numbered`].
#[derive(Clone, Copy, Default)]
struct Known {
    number: u64,
    frame: u32,
}

/// Calls that are remembered, each at the place that its number says: 16 KiB, all of which is touched soon.
const KNOWN: usize = 1 << 10;

/// All stacks. The tables are of words, as others read them.
#[derive(Default)]
pub struct Stacks {
    pub letters: MmapVec<u8>,
    /// For each text where it lies in the letters, and its length.
    pub texts: MmapVec<u64>,
    /// For each call the texts of its file and its function; and its line, or [`NATIVE`] and the offset in the library.
    pub frames: MmapVec<[u64; 2]>,
    /// For each node its caller and its call.
    pub nodes: MmapVec<u64>,
    of_texts: Index<Numbered>,
    of_frames: Index<Numbered>,
    of_nodes: Index<Numbered>,
    /// Empty until the first one, and without memory.
    known: MmapVec<Known>,
}

/// Two numbers in a word.
pub fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

/// The numbers of a [`pair`].
pub fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// A hash that is not 0.
fn mixed(numbers: &[u64]) -> u64 {
    let mix = |mixed: u64, &number: &u64| hash(mixed.rotate_left(5) ^ number);
    numbers.iter().fold(1, mix) | 1
}

fn hash_of_text(text: &[u8]) -> u64 {
    let mut mixed = text.len() as u64 | 1 << 63;
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        mixed =
            (mixed.rotate_left(5) ^ u64::from_ne_bytes(*word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    let last = rest
        .iter()
        .fold(0, |word, &byte| word << 8 | u64::from(byte));
    hash(mixed ^ last) | 1
}

impl Stacks {
    /// The number of a stack; of one that has no room, that of its innermost call within [`OTHERS`]. None if there is no
    /// memory for it.
    pub fn intern(&mut self, walk: &mut Walk<'_>) -> Option<u32> {
        let mut node = Some(EMPTY);
        let mut innermost = None;
        walk(&mut |step| {
            innermost = self.frame_of_step(step);
            let frame = innermost;
            node = node.and_then(|caller| self.node(caller, frame?, NODES));
        });
        node.or_else(|| {
            let others = self.others()?;
            let cut = innermost.and_then(|frame| self.node(others, frame, NODES + CUT_NODES));
            cut.or(Some(others))
        })
    }

    fn frame_of_step(&mut self, step: Step<'_>) -> Option<u32> {
        let (number, read) = match step {
            Step::Whole(call) => return self.frame(&call, FRAMES),
            Step::Numbered(number, read) => (number, read),
        };
        if self.known.is_empty() {
            self.known = MmapVec::filled(KNOWN, Known::default()).unwrap_or_default();
        }
        let place = number as usize % KNOWN;
        if let Some(known) = self.known.get(place)
            && known.number == number
        {
            return Some(known.frame);
        }
        let mut frame = None;
        read(&mut |call| frame = self.frame(call, FRAMES));
        if let (Some(frame), Some(known)) = (frame, self.known.get_mut(place)) {
            *known = Known { number, frame };
        }
        frame
    }

    /// The stack of those that have no room.
    pub fn others(&mut self) -> Option<u32> {
        let frame = self.frame(&OTHERS, FRAMES + 1)?;
        self.node(EMPTY, frame, NODES + CUT_NODES)
    }

    fn node(&mut self, caller: u32, frame: u32, most: usize) -> Option<u32> {
        let node = pair(caller, frame);
        let hash = mixed(&[node]);
        let known = self
            .of_nodes
            .number(hash, |number| self.nodes[number] == node);
        known.or_else(|| {
            let number = self.nodes.len();
            let is_kept = number < most && self.nodes.push(node);
            is_kept.then(|| self.of_nodes.enter(hash, number))?
        })
    }

    fn frame(&mut self, call: &Call<'_>, most: usize) -> Option<u32> {
        let letters = if most > FRAMES { LETTERS + 64 } else { LETTERS };
        let file = self.text_within(call.file, letters)?;
        // The function of a native call follows from its place.
        let (known_function, place) = match call.native {
            Some(native) => (None, native.offset | NATIVE),
            None => (
                Some(self.text_within(call.function, letters)?),
                u64::from(call.line),
            ),
        };
        let hash = mixed(&[file.into(), known_function.unwrap_or(0).into(), place]);
        let is_it = |number: usize| {
            let [texts, of_frame] = self.frames[number];
            let is_function = |function| texts == pair(file, function);
            of_frame == place && known_function.map_or(parts(texts).0 == file, is_function)
        };
        let known = self.of_frames.number(hash, is_it);
        if known.is_some() {
            return known;
        }
        let function = match (known_function, call.native) {
            (Some(function), _) => function,
            (None, native) => self.text(native.map_or(&[], |native| (native.name)()))?,
        };
        let number = self.frames.len();
        let is_kept = number < most && self.frames.push([pair(file, function), place]);
        is_kept.then(|| self.of_frames.enter(hash, number))?
    }

    /// The number of a text. None if there is no room or no memory for it.
    pub fn text(&mut self, text: &[u8]) -> Option<u32> {
        self.text_within(text, LETTERS)
    }

    fn text_within(&mut self, text: &[u8], letters: usize) -> Option<u32> {
        let hash = hash_of_text(text);
        let is_it = |number| self.bytes(number as u32) == text;
        self.of_texts.number(hash, is_it).or_else(|| {
            let start = u32::try_from(self.letters.len()).ok()?;
            let place = pair(start, text.len() as u32);
            let has_room = self.letters.len() + text.len() <= letters;
            let number = self.texts.len();
            let is_kept = has_room && self.letters.extend(text) && self.texts.push(place);
            is_kept.then(|| self.of_texts.enter(hash, number))?
        })
    }

    pub fn bytes(&self, text: u32) -> &[u8] {
        let (start, length) = parts(self.texts[text as usize]);
        &self.letters[start as usize..][..length as usize]
    }

    pub fn text_at(&self, text: u32) -> &str {
        str::from_utf8(self.bytes(text)).unwrap_or("?")
    }

    fn view(&self, number: u32) -> FrameView<'_> {
        let [texts, place] = self.frames[number as usize];
        let (file, function) = parts(texts);
        let file = self.text_at(file);
        let is_native = place & NATIVE != 0;
        let library = is_native.then(|| file.split_once('\0').unwrap_or((file, "")));
        FrameView {
            number,
            file: library.map_or(file, |(path, _)| path),
            function: self.text_at(function),
            line: library.map_or(place as u32, |_| 0),
            native: library.map(|(_, build_id)| NativeView {
                offset: place & !NATIVE,
                build_id,
            }),
        }
    }

    /// The calls of a stack, innermost first.
    pub fn calls(&self, stack: u32) -> impl Iterator<Item = FrameView<'_>> {
        let known = |node: u32| (node != EMPTY).then_some(node);
        let caller = move |&node: &u32| known(parts(self.nodes[node as usize]).0);
        std::iter::successors(known(stack), caller)
            .map(|node| self.view(parts(self.nodes[node as usize]).1))
    }

    /// All different calls.
    pub fn all_frames(&self) -> impl Iterator<Item = FrameView<'_>> {
        (0..self.frames.len() as u32).map(|number| self.view(number))
    }

    /// Takes over the tables of another process, which may say anything; false if they cannot be those of stacks. A caller is
    /// older, so that each stack ends.
    pub fn fill(
        &mut self,
        mut letters: impl Iterator<Item = u8>,
        texts: &[u64],
        frames: &[[u64; 2]],
        nodes: &[u64],
    ) -> bool {
        let are_read = letters.all(|letter| self.letters.push(letter));
        let is_text = |&word: &u64| {
            let (start, length) = parts(word);
            start as usize + length as usize <= self.letters.len()
        };
        let has_texts = |frame: &[u64; 2]| {
            let (file, function) = parts(frame[0]);
            (file.max(function) as usize) < texts.len()
        };
        are_read
            && texts.iter().all(is_text)
            && self.texts.extend(texts)
            && frames.iter().all(has_texts)
            && self.frames.extend(frames)
            && nodes.iter().all(|&node| {
                let (caller, frame) = parts(node);
                self.knows(caller) && (frame as usize) < frames.len() && self.nodes.push(node)
            })
    }

    pub fn knows(&self, stack: u32) -> bool {
        stack == EMPTY || (stack as usize) < self.nodes.len()
    }

    /// A copy to be read and no more. None if there is no memory for it.
    pub fn copied(&self) -> Option<Self> {
        Some(Stacks {
            letters: self.letters.copied()?,
            texts: self.texts.copied()?,
            frames: self.frames.copied()?,
            nodes: self.nodes.copied()?,
            ..Stacks::default()
        })
    }

    pub fn addresses(&self) -> [Range<usize>; 8] {
        [
            self.letters.addresses(),
            self.texts.addresses(),
            self.frames.addresses(),
            self.nodes.addresses(),
            self.of_texts.addresses(),
            self.of_frames.addresses(),
            self.of_nodes.addresses(),
            self.known.addresses(),
        ]
    }
}
