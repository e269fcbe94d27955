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
    let mut out = Vec::new();
    let mut stack = Vec::new();
    for line in lines() {
        match NativeLine::parse(line) {
            Some(call) => {
                let places = symbols.of_call(call.library, call.function, call.offset);
                stack.extend(shown(&call, &places));
            }
            None => {
                fold(&mut stack, &mut out);
                out.extend(line);
            }
        }
    }
    fold(&mut stack, &mut out);
    out
}

/// Namespaces of language runtimes and of binding generators: what a user did not write.
const RUNTIMES: &str =
    "std:: __gnu_cxx:: core:: alloc:: pyo3:: pyo3_ffi:: pybind11:: nanobind:: __Pyx_";

/// Whether a function is a runtime's. A template of C++'s begins with the type that it returns, a method of a trait of Rust's
/// with a type in brackets.
fn is_of_runtime(function: &str) -> bool {
    let mut depth = 0;
    let is_gap = |letter| {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        letter == ' ' && depth == 0
    };
    let name = function.split('(').next().unwrap_or_default();
    let name = name.split(is_gap).last().unwrap_or_default();
    let name = match name.strip_prefix('<') {
        Some(name) => name.split(" as ").nth(1).unwrap_or(name),
        None => name,
    };
    let mut runtimes = RUNTIMES.split(' ');
    runtimes.any(|runtime| name.starts_with(runtime))
}

/// Writes a stack. Two calls of runtimes and more are one line, unless there are no others; `>` marks the first call below them,
/// which is the user's.
fn fold(stack: &mut Vec<(String, bool)>, out: &mut Vec<u8>) {
    let has_user = stack.iter().any(|(_, is_runtime)| !is_runtime);
    let mut is_marked = false;
    for group in stack.chunk_by(|left, right| left.1 && right.1) {
        let (first, is_runtime) = &group[0];
        let indent = &first[..first.len() - first.trim_start_matches(' ').len()];
        if *is_runtime && has_user && group.len() > 1 {
            let count = group.len();
            out.extend(format!("{indent}... {count} calls of runtimes\n").bytes());
            continue;
        }
        for (line, _) in group {
            let is_first = !is_runtime && !is_marked && stack[0].1;
            is_marked |= is_first;
            match line.strip_prefix("    ").filter(|_| is_first) {
                Some(rest) => out.extend(format!("  > {rest}").bytes()),
                None => out.extend(line.bytes()),
            }
        }
    }
    stack.clear();
}

/// A line for each function, the innermost first. Without a source line the build id stays: there may be one elsewhere.
fn shown(call: &NativeLine<'_>, places: &[Place]) -> Vec<(String, bool)> {
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
        let end = match index == last {
            true => format!("{}+{:#x}{build_id}", plain(call.library), call.offset),
            false => "inlined".to_owned(),
        };
        let text = format!("{}{function}{source} ({end})\n", call.indent);
        (text, is_of_runtime(&place.function))
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
        let others = "f (/x.so+0x10)|  allocated in:|  f at x.c:3 (/x.so+16)|  f (x.so+0x10)|  f (/x.so+0xg)|\
            |  native  1 of 8192 bytes, allocated at program.py:12";
        for other in others.split('|') {
            assert_eq!(NativeLine::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn calls_of_runtimes_are_folded_and_the_users_first_is_marked() {
        let runtimes = "std::vector<int>::vector(unsigned long)|void std::__make_heap<int*>(int*)|\
            <alloc::vec::Vec<T> as core::ops::drop::Drop>::drop|__Pyx_PyObject_Call";
        let users = "user::make(std::string)|stdlib_user|std::string user::Map<int, std::string>::text(int)|\
            <alloc::vec::Vec<u8> as mine::Encode>::encode";
        for (functions, are_runtimes) in [(runtimes, true), (users, false)] {
            for function in functions.split('|') {
                assert_eq!(is_of_runtime(function), are_runtimes, "{function}");
            }
        }
        let line = |name: &str, is_runtime| (format!("    {name}\n"), is_runtime);
        let folded = |stack: &[(String, bool)]| {
            let mut out = Vec::new();
            fold(&mut stack.to_vec(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let mut stack = vec![line("std::a", true), line("std::b", true)];
        assert_eq!(folded(&stack), "    std::a\n    std::b\n");
        let rest = [("mine", false), ("pyo3::c", true), ("main", false)];
        stack.extend(rest.map(|(name, is_runtime)| line(name, is_runtime)));
        let expected = "    ... 2 calls of runtimes\n  > mine\n    pyo3::c\n    main\n";
        assert_eq!(folded(&stack), expected);
        assert_eq!(folded(&stack[2..]), "    mine\n    pyo3::c\n    main\n");
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
