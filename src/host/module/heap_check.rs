//! `pyhost.check_heap()`.

use crate::heap::checked;
use crate::python::functions::{Method, Module, This};
use crate::python::objects::{Kind, Returned};
use crate::python::several_gils;
use std::ffi::CStr;

const DOC: &CStr = c"check_heap()
--

Look at every block of --debug-hooks, and return a list with a line for each that was written to outside of its bytes, or
after it was freed. An empty list is the usual answer. At most 100 lines.

Raises RuntimeError without --debug-hooks.";

/// Lines that are given at most.
const MOST: usize = 100;

/// A line in memory of its own.
struct Line {
    text: [u8; 512],
    length: usize,
}

impl Line {
    fn of(damage: &checked::Damage<'_>) -> Self {
        let mut text = [0; 512];
        let length = crate::descriptor::format_into(&mut text, format_args!("{damage}")).len();
        Line { text, length }
    }
}

fn check_heap<'a>(this: This<'a, Module>) -> Returned<'a> {
    let gil = this.gil();
    if !checked::is_on() {
        let text = "check_heap: expected --debug-hooks, over allocators on mimalloc";
        return Err(gil.raise(Kind::Runtime, text));
    }
    // With room for all, since nothing may be allocated while the heaps are looked at.
    let mut lines = Vec::with_capacity(MOST);
    checked::each_damaged(!several_gils(), |damage| {
        if lines.len() < MOST {
            lines.push(Line::of(damage));
        }
    });
    let texts = lines
        .iter()
        .map(|line| String::from_utf8_lossy(&line.text[..line.length]));
    let list = gil.list()?;
    for text in texts {
        list.append(&*gil.text(&text)?)?;
    }
    Ok(list)
}

/// The module's functions for the heap.
pub const METHODS: [Method<Module>; 1] = [Method::plain(c"check_heap", check_heap, DOC)];
