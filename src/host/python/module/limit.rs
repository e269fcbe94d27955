//! `pyhost.limit`: a context manager that caps one block of code. A heap type, one an interpreter; written against the
//! C API so that no error can be raised between its opening and the block, or between the block and its end.

use super::arguments::{cap_scope, size};
use crate::cpython::functions::{Arguments, Class, Method, Signature, Table, This};
use crate::cpython::objects::{Kind, Returned};
use crate::{bytes::Bytes, cpython::class, heap, ledger::Scope, limit::caps};
use std::{cell::Cell, ffi::CStr};

const DOC: &CStr = c"limit(size, account=None)
--

Context manager that caps how much an account, or all together where account is None, may grow while
its block runs: process-wide, from what is live when the block is entered. All together count what
is resident of the maps that libraries make themselves, unless account is 'owned'.

size is a number of bytes or a str such as '64M'. A request past it raises MemoryError, of which
pyhost.last_refusal() tells which block it was. Limits nest, and the lowest holds; at its end the
block's limit is gone. At most 64 are open at a time: another raises RuntimeError. To handle the error inside the block Python gets up to an eighth of size, at
least 4 MiB, more, but never more than the cap.";

const ENTER_DOC: &CStr = c"__enter__($self, /)\n--\n\nOpen the limit.";
const EXIT_DOC: &CStr = c"__exit__($self, /, *exception)\n--\n\nClose the limit.";

struct Limiter {
    scope: Scope,
    with_maps: bool,
    bytes: u64,
    open: Cell<Option<usize>>,
}

impl Limiter {
    fn close(&self) {
        if let Some(number) = self.open.take() {
            caps::leave(number, heap::slot());
        }
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.close();
    }
}

fn new<'a>(class: Class<'a, Limiter>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<2> = Signature::new(c"O|O:limit", [c"size", c"account"]);
    let [asked, account] = arguments.parse(&SIGNATURE)?;
    let bytes = asked.map_or(Ok(0), |asked| size("limit", asked))?;
    let (scope, with_maps) = cap_scope("limit", account)?;
    class.instance(Limiter {
        scope,
        with_maps,
        bytes,
        open: Cell::new(None),
    })
}

fn enter(limiter: This<'_, Limiter>) -> Returned<'_> {
    let (gil, is_closed) = (limiter.gil(), limiter.open.get().is_none());
    let text = "limit: its block is running already; expected one limit for each block";
    gil.ensure(is_closed, Kind::Runtime, text)?;
    let limit = caps::CodeBlockLimit::here(limiter.bytes);
    let number = caps::enter(limiter.scope, limit, limiter.with_maps, heap::slot());
    let text = "limit: too many are open; expected at most 64 at a time";
    let number = number.map_err(|_| gil.raise(Kind::Runtime, text))?;
    limiter.open.set(Some(number));
    Ok(limiter.object().to_owned())
}

fn exit(limiter: This<'_, Limiter>) -> Returned<'_> {
    limiter.close();
    Ok(limiter.gil().none())
}

fn repr(limiter: This<'_, Limiter>) -> Returned<'_> {
    let state = limiter.open.get().map_or("", |_| ", open");
    let (bytes, scope) = (Bytes(limiter.bytes), limiter.scope.name());
    let text = format!("<pyhost.limit of {bytes} on {scope}{state}>");
    limiter.gil().text(&text)
}

static METHODS: Table<Method<Limiter>, 2> = Table::new([
    Method::plain(c"__enter__", enter, ENTER_DOC),
    Method::any(c"__exit__", exit, EXIT_DOC),
]);

class! { c"pyhost.limit", DOC, new(new), repr(repr), methods(&METHODS) }
