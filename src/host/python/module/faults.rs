//! `pyhost.fail`: a block of the script in which requests for memory fail.
//!
//! A heap type, one an interpreter; its instances are context managers. `__exit__` takes its arguments as a C array
//! (`METH_FASTCALL`), since a tuple for them would itself be a request that may fail, and the block would stay open.

use super::library;
use crate::bytes::Expected;
use crate::check::faults::{self, Handle, Spec};
use crate::cpython::functions::{Arguments, Attribute, Class, Method, Signature, Table, This};
use crate::cpython::objects::{Kind, Returned};
use crate::cpython::{attributes, class, freelists};
use std::{cell::Cell, ffi::CStr};

const DOC: &CStr = c"fail(spec=None)
--

A context manager: within its block requests for memory fail, in all threads.

spec is a rule as --fail takes it, such as 'obj=3' (the third request of obj from here on), 'every=5',
'numpy=above=64K'. Rules of blocks around it and of the command line hold as well; those that say
when=open hold in each block. Without spec the block has no rule of its own.

After the block, or within it, requests is how many requests its own rule counted, and injected how
many of them it let fail:

    for n in itertools.count(1):
        with pyhost.fail(f'mem+obj={n}') as fault:
            work()  # must raise MemoryError or give its result
        if not fault.injected:
            break  # work makes no more requests

The block itself catches nothing. Raises ValueError for a spec that is none, and RuntimeError where
the host was started without --fail: --fail when=open lets scripts use it.";

struct Fail {
    spec: Option<Spec>,
    /// If the block is open.
    open: Cell<Option<Handle>>,
    /// Requests that the rule counted, and those that it let fail, in the last block.
    ended: Cell<(u64, u64)>,
}

impl Fail {
    fn close(&self) {
        if let Some(handle) = self.open.take() {
            self.ended.set(faults::close(handle));
        }
    }

    fn seen(&self) -> (u64, u64) {
        let open = self.open.get().map(Handle::seen);
        open.unwrap_or_else(|| self.ended.get())
    }
}

impl Drop for Fail {
    fn drop(&mut self) {
        self.close();
    }
}

fn new<'a>(class: Class<'a, Fail>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<1> = Signature::new(c"|O:fail", [c"spec"]);
    let gil = class.gil();
    let [text] = arguments.parse(&SIGNATURE)?;
    let needs = "fail: the host was started without --fail; expected --fail when=open, or \
                PYHOST_FAIL=when=open";
    gil.ensure(faults::is_on(), Kind::Runtime, needs)?;
    let spec = match text.filter(|text| !text.is_none()) {
        None => None,
        Some(text) => match text.with_text(|text| parse(&String::from_utf8_lossy(text))) {
            Some(Ok(spec)) => spec.is_a_rule().then_some(spec),
            Some(Err(message)) => return Err(gil.raise(Kind::Value, &message)),
            None => return Err(gil.raise(Kind::Type, "fail: expected a str or None")),
        },
    };
    class.instance(Fail {
        spec,
        open: Cell::new(None),
        ended: Cell::new((0, 0)),
    })
}

fn parse(text: &str) -> Result<Spec, String> {
    let spec = text.parse::<Spec>();
    spec.map_err(|Expected(expected)| format!("fail: bad spec '{text}'; expected {expected}"))
}

fn enter(fail: This<'_, Fail>) -> Returned<'_> {
    let (gil, is_closed) = (fail.gil(), fail.open.get().is_none());
    gil.ensure(is_closed, Kind::Runtime, "fail: its block is open already")?;
    if !faults::is_counting() && gil.is_of_main_interpreter() {
        if std::env::var_os("PYHOST_SWEEP").is_some() {
            let number = library::attribute(gil, c"_serve_runs")?.call(&[])?;
            if !number.is_none() {
                faults::set_first(number.as_unsigned()?);
            }
        }
        // A freed tuple that is handed out again is no request.
        freelists::clear(gil);
    }
    // Nothing is allocated from here on: the first request is the block's own.
    fail.open.set(faults::open(fail.spec.as_ref()));
    let is_open = fail.open.get().is_some();
    gil.ensure(is_open, Kind::Runtime, "fail: too many blocks are open")?;
    Ok(fail.object().to_owned())
}

fn exit(fail: This<'_, Fail>) -> Returned<'_> {
    fail.close();
    Ok(fail.gil().none())
}

static ATTRIBUTES: Table<Attribute<Fail>, 2> = attributes! { Fail:
    c"requests", |fail| fail.gil().unsigned(fail.seen().0), c"How many requests its own rule counted.";
    c"injected", |fail| fail.gil().unsigned(fail.seen().1), c"How many requests its own rule let fail.";
};

static METHODS: Table<Method<Fail>, 2> = Table::new([
    Method::plain(c"__enter__", enter, c"Open the block."),
    Method::any(c"__exit__", exit, c"Close the block."),
]);

class! { c"pyhost.fail", DOC, new(new), methods(&METHODS), attributes(&ATTRIBUTES) }
