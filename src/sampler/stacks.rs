//! Call stacks, each kept once: a tree of calls, whose nodes know their caller.
//!
//! Texts are compared by content, never by address: a code object, or the string of its name, may be gone and another
//! have its address.

use crate::Walk;
use crate::index::{Index, hash};
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
    pub fn of(file: &'a str, function: &'a str, line: u32) -> Self {
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
    /// All of it.
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
    /// The code's file.
    pub file: &'a str,
    /// The function's name.
    pub function: &'a str,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// Set for a call of a library's code: its file is the library's, its function may be empty.
    pub native: Option<NativeView<'a>>,
}

/// The place of a native call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeView<'a> {
    /// The address of the call's instruction in the library's file.
    pub offset: u64,
    /// The library's build id in hexadecimal; empty if it has none.
    pub build_id: &'a str,
}

/// An entry of an index: the number of an item, by the hash of its content.
#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    number: u32,
}

#[derive(Clone, Copy)]
struct Frame {
    file: u32,
    function: u32,
    /// The line, or [`NATIVE`] and the offset in the library.
    place: u64,
}

/// The bit of a native call's place.
const NATIVE: u64 = 1 << 63;

/// A call and its callers.
#[derive(Clone, Copy)]
struct Node {
    caller: u32,
    frame: u32,
}

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
const OTHERS: Call<'_> = Call {
    file: b"<other stacks>",
    function: b"other stacks",
    line: 0,
    native: None,
};

/// The number of the stack without a call.
pub const EMPTY: u32 = u32::MAX;

/// A call that was read before: the frame of a [`Step::Numbered`].
#[derive(Clone, Copy)]
struct Known {
    number: u64,
    frame: u32,
}

/// Calls that are remembered, each at the place that its number says: 16 KiB, all of which is touched soon.
const KNOWN: usize = 1 << 10;

/// All stacks.
pub struct Stacks {
    letters: MmapVec<u8>,
    /// Where each text lies in the letters.
    texts: MmapVec<(u32, u32)>,
    frames: MmapVec<Frame>,
    nodes: MmapVec<Node>,
    of_texts: Index<Entry>,
    of_frames: Index<Entry>,
    of_nodes: Index<Entry>,
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

/// Enters a new item, whose number is `number`, if it could be pushed.
fn enter(index: &mut Index<Entry>, hash: u64, number: usize, pushed: bool) -> Option<u32> {
    let number = u32::try_from(number).ok().filter(|_| pushed)?;
    index.insert(Entry { hash, number }, |entry| entry.hash)?;
    Some(number)
}

impl Stacks {
    pub const fn new() -> Self {
        Stacks {
            letters: MmapVec::new(),
            texts: MmapVec::new(),
            frames: MmapVec::new(),
            nodes: MmapVec::new(),
            of_texts: Index::new(),
            of_frames: Index::new(),
            of_nodes: Index::new(),
            known: MmapVec::new(),
        }
    }

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
            let nothing = Known {
                number: 0,
                frame: 0,
            };
            self.known = MmapVec::filled(KNOWN, nothing).unwrap_or_default();
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
        let hash = mixed(&[u64::from(caller), u64::from(frame)]);
        let nodes = &self.nodes;
        let is_it = |entry: &Entry| {
            let node = nodes[entry.number as usize];
            node.caller == caller && node.frame == frame
        };
        let known = self.of_nodes.find(hash, |entry| entry.hash, is_it);
        known.map(|entry| entry.number).or_else(|| {
            let number = self.nodes.len();
            let pushed = number < most && self.nodes.push(Node { caller, frame });
            enter(&mut self.of_nodes, hash, number, pushed)
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
        let hash = mixed(&[
            u64::from(file),
            u64::from(known_function.unwrap_or(0)),
            place,
        ]);
        let frames = &self.frames;
        let is_it = |entry: &Entry| {
            let frame = frames[entry.number as usize];
            (frame.file, frame.place) == (file, place)
                && known_function.is_none_or(|function| frame.function == function)
        };
        let known = self.of_frames.find(hash, |entry| entry.hash, is_it);
        if let Some(entry) = known {
            return Some(entry.number);
        }
        let function = match (known_function, call.native) {
            (Some(function), _) => function,
            (None, native) => self.text(native.map_or(&[], |native| (native.name)()))?,
        };
        let number = self.frames.len();
        let frame = Frame {
            file,
            function,
            place,
        };
        let pushed = number < most && self.frames.push(frame);
        enter(&mut self.of_frames, hash, number, pushed)
    }

    /// The number of a text. None if there is no room or no memory for it.
    pub fn text(&mut self, text: &[u8]) -> Option<u32> {
        self.text_within(text, LETTERS)
    }

    fn text_within(&mut self, text: &[u8], letters: usize) -> Option<u32> {
        let hash = hash_of_text(text);
        let is_it = |entry: &Entry| self.bytes(entry.number) == text;
        let known = self.of_texts.find(hash, |entry| entry.hash, is_it);
        known.map(|entry| entry.number).or_else(|| {
            let start = u32::try_from(self.letters.len()).ok()?;
            let has_room = self.letters.len() + text.len() <= letters;
            let kept = has_room && self.letters.extend(text);
            let number = self.texts.len();
            let pushed = kept && self.texts.push((start, text.len() as u32));
            enter(&mut self.of_texts, hash, number, pushed)
        })
    }

    /// The letters of a text.
    pub fn bytes(&self, text: u32) -> &[u8] {
        let (start, length) = self.texts[text as usize];
        &self.letters[start as usize..][..length as usize]
    }

    /// A text.
    pub fn text_at(&self, text: u32) -> &str {
        str::from_utf8(self.bytes(text)).unwrap_or("?")
    }

    fn view(&self, number: u32) -> FrameView<'_> {
        let frame = self.frames[number as usize];
        let file = self.text_at(frame.file);
        let is_native = frame.place & NATIVE != 0;
        let library = is_native.then(|| file.split_once('\0').unwrap_or((file, "")));
        FrameView {
            number,
            file: library.map_or(file, |(path, _)| path),
            function: self.text_at(frame.function),
            line: library.map_or(frame.place as u32, |_| 0),
            native: library.map(|(_, build_id)| NativeView {
                offset: frame.place & !NATIVE,
                build_id,
            }),
        }
    }

    /// The calls of a stack, innermost first.
    pub fn calls(&self, stack: u32) -> impl Iterator<Item = FrameView<'_>> {
        let known = |node: u32| (node != EMPTY).then_some(node);
        let caller = move |&node: &u32| known(self.nodes[node as usize].caller);
        std::iter::successors(known(stack), caller)
            .map(|node| self.view(self.nodes[node as usize].frame))
    }

    /// All different calls.
    pub fn all_frames(&self) -> impl Iterator<Item = FrameView<'_>> {
        (0..self.frames.len() as u32).map(|number| self.view(number))
    }

    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// How many letters, texts, calls and nodes there are.
    pub fn counts(&self) -> [usize; 4] {
        [
            self.letters.len(),
            self.texts.len(),
            self.frames.len(),
            self.nodes.len(),
        ]
    }

    /// Eight letters, from the one of number `8 * word` on.
    pub fn letters_of(&self, word: usize) -> u64 {
        let mut eight = [0; 8];
        for (letter, kept) in eight.iter_mut().zip(&self.letters[8 * word..]) {
            *letter = *kept;
        }
        u64::from_ne_bytes(eight)
    }

    /// A text as a word.
    pub fn text_of(&self, number: usize) -> u64 {
        let (start, length) = self.texts[number];
        pair(start, length)
    }

    /// A call as two words.
    pub fn frame_of(&self, number: usize) -> [u64; 2] {
        let frame = self.frames[number];
        [pair(frame.file, frame.function), frame.place]
    }

    /// A node as a word.
    pub fn node_of(&self, number: usize) -> u64 {
        let node = self.nodes[number];
        pair(node.caller, node.frame)
    }

    /// Adds a letter that [`Self::letters_of`] gave.
    pub fn push_letter(&mut self, letter: u8) -> bool {
        self.letters.push(letter)
    }

    /// Adds what [`Self::text_of`] gave; false if it cannot be.
    pub fn push_text(&mut self, word: u64) -> bool {
        let (start, length) = parts(word);
        let end = start as usize + length as usize;
        end <= self.letters.len() && self.texts.push((start, length))
    }

    /// Adds what [`Self::frame_of`] gave; false if it cannot be.
    pub fn push_frame(&mut self, [texts, place]: [u64; 2]) -> bool {
        let (file, function) = parts(texts);
        let known = |text| (text as usize) < self.texts.len();
        let frame = Frame {
            file,
            function,
            place,
        };
        known(file) && known(function) && self.frames.push(frame)
    }

    /// Adds what [`Self::node_of`] gave; false if it cannot be. A caller is older, so that each stack ends.
    pub fn push_node(&mut self, word: u64) -> bool {
        let (caller, frame) = parts(word);
        let is_known = self.knows(caller) && (frame as usize) < self.frames.len();
        is_known && self.nodes.push(Node { caller, frame })
    }

    /// Whether there is a stack of that number.
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
            of_texts: Index::new(),
            of_frames: Index::new(),
            of_nodes: Index::new(),
            known: MmapVec::new(),
        })
    }

    /// The mappings of all tables.
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
