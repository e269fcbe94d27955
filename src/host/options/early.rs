//! The options that must be known before anything is allocated: `--region`; `--malloc`, since what
//! is booked before it is known stays booked; and `--leak-check`, since heaps never move.
//!
//! [`read`] runs before the constructors of all libraries: see [`crate::early`]. It reads as [`super::read`] will, and
//! has the region reserved. What it takes for the region's size is checked against what `super::read` finds: see
//! [`check`]. It allocates nothing and says nothing.

use super::reader::{Given, is_python_name, parts_of};
use super::{baked, table::row_of};
use crate::bytes::{self, Exact};
use crate::error::{Error, Result};
use crate::heap;
use crate::libc_exports::native::{self, Mode};
use pyhost_os::strings::Strings;

/// Runs before every constructor; allocates nothing.
pub fn read<'a>(words: impl Iterator<Item = &'a [u8]> + Clone, mut environment: Strings<'a>) {
    if crate::process::is_privileged_start() {
        environment.retain(|entry| !is_mimallocs(entry));
    }
    let parts = |option| given(option, words.clone(), environment.iter());
    let mut leak_check = parts("--leak-check").peekable();
    if leak_check.peek().is_some() && main_value(leak_check) != Some(b"off") {
        heap::leak_check_addresses::start();
    }
    let size = region_size(parts("--region"));
    if let Some(size) = size.filter(|&size| size >= heap::bounded_heap::LEAST) {
        heap::reserve_region(size);
    }
    match main_value(parts("--malloc")) {
        Some(b"plain") => native::set_mode(Mode::Plain),
        Some(b"off") => native::set_mode(Mode::Off),
        _ => {} // the default, or a value that will be refused
    }
}

/// Whether an entry of the environment is one of mimalloc's variables: it reads them itself, at its first request, and
/// a program with more rights than its caller must not obey them.
pub fn is_mimallocs(entry: &[u8]) -> bool {
    const PREFIX: &[u8] = b"MIMALLOC_";
    // mimalloc takes them in any case of letters.
    entry
        .get(..PREFIX.len())
        .is_some_and(|name| name.eq_ignore_ascii_case(PREFIX))
}

/// The parts that the arguments, else the environment, give an option.
fn given<'a>(
    option: &str,
    mut arguments: impl Iterator<Item = &'a [u8]> + Clone,
    mut environment: impl Iterator<Item = &'a [u8]>,
) -> impl Iterator<Item = Given<'a>> {
    let as_python = arguments.next().is_some_and(is_python_name);
    let own = arguments.take(if as_python { 0 } else { usize::MAX });
    let row = row_of(option.as_bytes());
    let is_trusted = !crate::process::is_privileged_start();
    let variable = row.filter(|_| is_trusted).and_then(|row| {
        let value = |entry: &'a [u8]| {
            entry
                .strip_prefix(row.variable.as_bytes())?
                .strip_prefix(b"=")
        };
        environment.find_map(value)
    });
    row.into_iter()
        .flat_map(move |row| parts_of(row, own.clone(), variable))
}

/// The value without a key.
fn main_value<'a>(mut given: impl Iterator<Item = Given<'a>>) -> Option<&'a [u8]> {
    given.find(|given| given.part.key.is_empty())?.text
}

/// The size of the region that was asked for, else the build's.
fn region_size<'a>(given: impl Iterator<Item = Given<'a>>) -> Option<u64> {
    match main_value(given) {
        Some(size) => std::str::from_utf8(size).ok().and_then(bytes::parse),
        None => baked::region(),
    }
}

/// Checks that the region is the one that was asked for: the system may have given no such range of addresses, or something
/// was allocated before it could.
pub fn check(wanted: Option<u64>) -> Result<()> {
    match (wanted, heap::bounded_heap::size()) {
        (wanted, found) if wanted == found => Ok(()),
        (Some(size), _) => Err(Error::option(format!(
            "--region: the system reserves no addresses for {}, eight times as many as it has bytes, before all \
             else is allocated; expected a size that it can reserve (see ulimit -v)",
            Exact(size)
        ))),
        (None, _) => Err(Error::start("a region was reserved without --region")),
    }
}
