//! `pyhostctl symbolize`: names the native calls in a text that a host wrote about a block. The host itself runs it, if it
//! can; on a machine without `pyhostctl` the text has libraries and offsets, and may be named later.

use crate::output::{Failure, print_bytes};
use crate::symbols::{Place, Symbols};
use clap::Args;
use pyhost_os::{clock::Utc, terminal_text::plain};
use std::io::Read;

/// Copies a text from standard input to standard output. A line such as
/// "release (/home/me/module.so+0x13f2, build id 3a7f)" becomes one with the source line, and one for each function that
/// was inlined there. A library must be the file that the host had loaded: it must have the build id of the line.
#[derive(Debug, Args)]
pub struct SymbolizeOptions {
    /// When the process started, such as 2026-01-31T12:00:00Z: a library without a build id must not have changed since
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub started: Option<Utc>,
}

fn moment(text: &str) -> Result<Utc, String> {
    Utc::of_text(text).ok_or_else(|| "expected a time such as 2026-01-31T12:00:00Z".to_owned())
}

pub fn run(options: &SymbolizeOptions) -> Result<(), Failure> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut text);
    read.map_err(|error| Failure(format!("standard input cannot be read ({error})")))?;
    print_bytes(&named(&text, options.started))
}

/// A line of the host's about a native call.
#[derive(Debug, PartialEq, Eq)]
struct NativeLine<'a> {
    indent: &'a str,
    /// The exported name, or `?`.
    function: &'a str,
    library: &'a str,
    offset: u64,
    build_id: &'a str,
}

impl<'a> NativeLine<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let line = str::from_utf8(line.strip_suffix(b"\n").unwrap_or(line)).ok()?;
        let words = line.trim_start_matches(' ');
        let indent = &line[..line.len() - words.len()];
        let (function, place) = words.strip_suffix(')')?.split_once(" (")?;
        let (library, place) = place.rsplit_once("+0x")?;
        let (offset, build_id) = place.split_once(", build id ").unwrap_or((place, ""));
        let is_one = !indent.is_empty() && library.starts_with('/') && !function.is_empty();
        Some(NativeLine {
            indent,
            function,
            library,
            offset: u64::from_str_radix(offset, 16).ok()?,
            build_id,
        })
        .filter(|_| is_one)
    }
}

/// The text with the names of the native calls that it has.
pub fn named(text: &[u8], started: Option<Utc>) -> Vec<u8> {
    let lines = || text.split_inclusive(|&byte| byte == b'\n');
    let calls: Vec<NativeLine<'_>> = lines().filter_map(NativeLine::parse).collect();
    let libraries = calls.iter().map(|call| (call.library, call.build_id));
    let mut symbols = Symbols::new(libraries, started);
    let named = lines().flat_map(|line| match NativeLine::parse(line) {
        Some(call) => {
            let places = symbols.of_call(call.library, call.function, call.offset);
            shown(&call, &places).into_bytes()
        }
        None => line.to_vec(),
    });
    named.collect()
}

/// A line for each function, the innermost first. Without a source line the build id stays: there may be one elsewhere.
fn shown(call: &NativeLine<'_>, places: &[Place]) -> String {
    let last = places.len().saturating_sub(1);
    let is_known = call.build_id.is_empty() || places.iter().any(|place| place.source.is_some());
    let build_id = match is_known {
        true => String::new(),
        false => format!(", build id {}", plain(call.build_id)),
    };
    let line = |(index, place): (usize, &Place)| {
        let function = plain(&place.function);
        let source = match &place.source {
            Some((file, line)) => format!(" at {}:{line}", plain(file)),
            None => String::new(),
        };
        let place = match index == last {
            true => format!("{}+{:#x}{build_id}", plain(call.library), call.offset),
            false => "inlined".to_owned(),
        };
        format!("{}{function}{source} ({place})\n", call.indent)
    };
    places.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_call_is_read_and_no_other() {
        let line = NativeLine {
            indent: "    ",
            function: "_ZN3foo3barEi",
            library: "/a (b)/c+0xd.so",
            offset: 0x13f2,
            build_id: "3a7f",
        };
        let text = b"    _ZN3foo3barEi (/a (b)/c+0xd.so+0x13f2, build id 3a7f)";
        assert_eq!(NativeLine::parse(text), Some(line));
        let without = NativeLine::parse(b"  ? (/x.so+0x10)").unwrap();
        assert_eq!((without.build_id, without.offset), ("", 16));
        for other in [
            "f (/x.so+0x10)",
            "  allocated in:",
            "  f at x.c:3 (/x.so+16)",
            "  f (x.so+0x10)",
            "  f (/x.so+0xg)",
            "  native  1 of 8192 bytes, allocated at program.py:12",
            "",
        ] {
            assert_eq!(NativeLine::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn all_else_is_copied_and_a_library_that_is_not_there_keeps_its_name() {
        let text = b"pyhost: \xff\n  allocated in:\n    _ZN3foo3barEi (/nowhere/x.so+0x10, build id 00)\nend";
        let expected =
            b"pyhost: \xff\n  allocated in:\n    foo::bar(int) (/nowhere/x.so+0x10, build id 00)\nend";
        assert_eq!(named(text, None), expected);
        // On another machine, that has the library, a name is not the end.
        assert_eq!(named(expected, None), expected);
    }
}
