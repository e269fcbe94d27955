//! `pyhost.lines()`: which lines of Python allocated, as an object.

use super::library;
use crate::cpython::functions::{Method, Module, Table, This};
use crate::cpython::objects::{Gil, Object, Returned};
use crate::observe::{peak, report, resident_peak};
use pyhost_record::origin::{is_users, package};

const DOC: &core::ffi::CStr = c"lines()
--

Return which lines of Python allocated, as a Lines: `lines` of a JSON report; None without --lines.

d['at_peak'], d['at_account_peak'], d['at_resident_peak'], d['live'], d['allocated'] and d['grown'] (since the last mark()) are lists of
{'account', 'bytes', 'blocks', 'error_bytes', 'thread', 'stack'}, most bytes first; a stack is a list of {'file', 'line', 'function'}, innermost call first. d['live'] and
d['grown'] have 'age_seconds' too, and d['live'] has 'types', a list of {'type', 'bytes', 'blocks', 'error_bytes'}. Bytes are integers. May be
called from any thread.";

/// The `Lines` of a text in JSON that `render` gives; None if it gives none.
pub fn object<'a>(
    gil: Gil<'a>,
    render: impl FnOnce(&mut dyn FnMut(&str) -> Returned<'a>) -> Option<Returned<'a>>,
) -> Returned<'a> {
    // As text first: no Python object is made while the samples are held.
    let Some(text) = render(&mut |text| gil.text(text)) else {
        return Ok(gil.none());
    };
    let loads = gil.import(c"json")?.attribute(c"loads")?;
    let dictionary = loads.call(&[&*text?])?;
    library::attribute(gil, c"Lines")?.call(&[&*dictionary])
}

fn lines(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    if peak::has_begun() {
        resident_peak::look();
    }
    object(gil, |take| report::with_lines(gil, take))
}

/// Whether a file is of the user's own code, and the package that it is of, or None.
fn origin<'a>(_: This<'a, Module>, file: &Object<'a>) -> Returned<'a> {
    let gil = file.gil();
    let origin = file.with_text(|text| {
        let name = str::from_utf8(text).unwrap_or_default();
        let package = gil.maybe(package(name).map(|package| gil.text(package)))?;
        gil.tuple([gil.bool(is_users(name))?, package])
    });
    origin.unwrap_or_else(|| gil.tuple([gil.bool(is_users(""))?, gil.none()]))
}

pub static METHODS: Table<Method<Module>, 2> = Table::new([
    Method::plain(c"lines", lines, DOC),
    Method::one(c"_origin", origin, c""),
]);
