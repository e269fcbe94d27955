//! `pyhost.check_heap()`.

use crate::check::stacks::{self, Text};
use crate::cpython::functions::{Method, Module, Table, This};
use crate::cpython::objects::{Kind, Returned};
use crate::{cpython::several_gils, descriptor::in_memory_of, heap::checked_blocks};
use pyhost_os::file::{self, Fd};
use pyhost_os::{errno::Errno, mmap_vec::MmapVec};
use std::{ffi::CStr, fmt::Write, os::fd::AsRawFd};

const DOC: &CStr = c"check_heap()
--

Look at every block of --debug-hooks, and return a list with a text for each that was written to outside of its bytes, or
after it was freed: a line, and below it the C calls that freed and allocated the block. An empty list is the usual answer.
At most 100 blocks.

Raises RuntimeError without --debug-hooks.";

/// Blocks that are given at most.
const MOST: usize = 100;

fn check_heap<'a>(this: This<'a, Module>) -> Returned<'a> {
    let gil = this.gil();
    let text = "check_heap: expected --debug-hooks, over allocators on mimalloc";
    gil.ensure(checked_blocks::is_on(), Kind::Runtime, text)?;
    // Nothing may be allocated while the heaps are looked at.
    let file = in_memory_of(c"pyhost-lines", stacks::ROOM).map_err(|error| {
        let advice = match error {
            Errno(libc::EFBIG) => "; raise the limit of file sizes (ulimit -f) to 16 MiB or more",
            _ => "",
        };
        let text = format!("check_heap: cannot make a file in memory: {error}{advice}");
        gil.raise(Kind::Runtime, &text)
    })?;
    let mut out = None;
    let mut count = 0;
    checked_blocks::each_damaged(!several_gils(), |damage| {
        count += 1;
        if count <= MOST {
            let out = out.get_or_insert_with(|| Text::begin(file.as_raw_fd()));
            let (made, freed) = damage.call_sites();
            let _ = writeln!(out, "{damage}");
            let _ = stacks::write_origins(out, made.calls, freed.calls);
        }
    });
    if let Some(out) = out {
        out.finish();
    }
    let list = gil.list()?;
    let text = text_of(&file).ok_or_else(|| gil.no_memory())?;
    for text in entries(&String::from_utf8_lossy(&text)) {
        list.append(&*gil.text(&text)?)?;
    }
    Ok(list)
}

/// What was written to a file. Returns `None` if the kernel has no memory for it.
fn text_of(file: &Fd) -> Option<MmapVec<u8>> {
    let mut bytes = MmapVec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = file::read_at(file, &mut buffer, bytes.len() as u64) {
        if !bytes.extend(&buffer[..count]) {
            return None;
        }
    }
    Some(bytes)
}

/// The parts of a text that begin with a line that is not indented, without the line's end.
fn entries(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in text.lines() {
        match entries.last_mut().filter(|_| line.starts_with(' ')) {
            Some(entry) => entry.extend(["\n", line]),
            None => entries.push(line.to_owned()),
        }
    }
    entries
}

pub static METHODS: Table<Method<Module>, 1> =
    Table::new([Method::plain(c"check_heap", check_heap, DOC)]);

#[cfg(test)]
mod tests {
    use super::entries;

    #[test]
    fn an_entry_is_a_line_and_what_is_indented_below_it() {
        let found = entries("a\n  b:\n    c\nd\ne\n  f\n");
        assert_eq!(found, ["a\n  b:\n    c", "d", "e\n  f"]);
        assert!(entries("").is_empty());
    }
}
