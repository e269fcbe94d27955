//! `pyhost.budget`: a context manager and decorator that bounds the live bytes of a unit of work. A heap type; its begin and end are written
//! against the C API so that no error of the unit can be raised in them.

use super::{arguments::size, library};
use crate::cpython::functions::{
    Arguments, Attribute, Class, Method, Module, Signature, Table, This,
};
use crate::cpython::objects::{Kind, Object, Raised, Returned};
use crate::cpython::{self, attributes, class, objects::or_none};
use crate::heap::sampling::{self, UnitFigures};
use crate::limit::budgets::{BUDGETS, Budget};
use crate::{bytes::Bytes, cpython::contexts::take_error_back, heap, python::hooks::domains};
use std::{cell::Cell, ffi::CStr, sync::atomic::Ordering::Relaxed};

const DOC: &CStr = c"budget(size, *, name=None)
--

Context manager and decorator that bounds what a unit of work may have:

    with pyhost.budget('64M', name='GET /report') as b:
        work()

A unit is what runs in the block: tasks, callbacks, threads and executors that begin in it too, until the block ends. Its
bytes are those of the live blocks that it allocated. Another unit may free them. A request past size raises MemoryError in the unit, and nowhere
else; pyhost.last_refusal() has its name. To handle the error the unit gets up to an eighth of size, at least 1 MiB, more. Budgets nest, and
any number may be open.

live_bytes and peak_bytes are estimates by samples, exact for blocks of 256 KiB and more; error_bytes is the standard error of live_bytes.
As a decorator of a function, a coroutine function or a generator each call is a unit.";

const ENTER_DOC: &CStr = c"__enter__($self, /)\n--\n\nBegin the unit.";
const EXIT_DOC: &CStr = c"__exit__($self, /, *exception)\n--\n\nEnd the unit.";

/// Samples of a full budget, and the bounds of their interval.
const SAMPLES: u64 = 2048;
const INTERVALS: (u64, u64) = (16 << 10, 256 << 10);

/// Tries of a call that the unit's own error may reach.
const TRIES: usize = 8;

fn new<'a>(class: Class<'a, Budget>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<2> = Signature::new(c"O|$O:budget", [c"size", c"name"]);
    let [asked, name] = arguments.parse(&SIGNATURE)?;
    let bytes = asked.map_or(Ok(0), |asked| size("budget", asked))?;
    let name = name.filter(|name| !name.is_none());
    let text = |name: &Object<'a>| name.with_text(|text| String::from_utf8_lossy(text).into());
    let error = || class.gil().raise(Kind::Type, "budget: name must be a str");
    let name = name.map(|name| text(name).ok_or_else(error)).transpose()?;
    class.instance(Budget {
        bytes,
        name,
        number: Cell::new(0),
        before: Cell::new(None),
        is_open: Cell::new(false),
    })
}

fn begin<'a>(budget: This<'a, Budget>) -> Result<(), Raised<'a>> {
    let gil = budget.gil();
    let interval = (budget.bytes / SAMPLES).clamp(INTERVALS.0, INTERVALS.1);
    let reason = if cpython::IS_FREE_THREADED {
        "this Python has no GIL"
    } else if !gil.is_of_main_interpreter() {
        "this is a sub-interpreter; expected the main one"
    } else if !heap::has_heaps() {
        "malloc is left to another allocator"
    } else if !sampling::begin_units(interval) {
        "the script has ended"
    } else {
        domains::follow_samples();
        BUDGETS.variable.begin(c"pyhost.budget", budget.object())?;
        if !BUDGETS.is_carried.swap(true, Relaxed) {
            library::attribute(gil, c"_carry")?.call(&[])?;
        }
        return Ok(());
    };
    Err(gil.raise(Kind::Runtime, &format!("budget: {reason}")))
}

fn enter(budget: This<'_, Budget>) -> Returned<'_> {
    let gil = budget.gil();
    let text = "budget: its block is running already; expected one budget for each block";
    gil.ensure(!budget.is_open.get(), Kind::Runtime, text)?;
    begin(budget)?;
    let before = BUDGETS.variable.get(gil);
    if budget.number.get() == 0 {
        let around = BUDGETS.variable.look(|unit| unit.number.get()).unwrap_or(0);
        let name = budget.name.as_deref().unwrap_or_default();
        let number = sampling::with_units(|units| units.add(around, budget.bytes, name));
        let number = number.flatten().ok_or_else(|| gil.no_memory())?;
        budget.number.set(number);
    }
    BUDGETS.variable.set(budget.object())?;
    budget.before.set(before.map(|before| before.keep()));
    budget.is_open.set(true);
    sampling::with_units(|units| units.set_open(budget.number.get(), true));
    Ok(budget.object().to_owned())
}

/// Ends the unit, in the context in which it began or in another one.
fn exit(budget: This<'_, Budget>) -> Returned<'_> {
    let gil = budget.gil();
    if budget.is_open.replace(false) {
        sampling::with_units(|units| units.set_open(budget.number.get(), false));
        take_error_back(); // it would come outside of the block
        let before = budget.before.take().map(|before| before.release(gil));
        let current = BUDGETS.variable.get(gil);
        let is_current = current.is_some_and(|it| it.is(budget.object()));
        let before = before.unwrap_or_else(|| gil.none());
        // By now a refusal is that of a budget around this one.
        for _ in 0..TRIES {
            if !is_current || or_none(BUDGETS.variable.set(&before)).is_some() {
                break;
            }
        }
    }
    Ok(gil.none())
}

fn call<'a>(budget: This<'a, Budget>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<1> = Signature::new(c"O:budget", [c""]);
    let gil = budget.gil();
    let [function] = arguments.parse(&SIGNATURE)?;
    let refused = || gil.raise(Kind::Type, "budget: expected a function to decorate");
    let function = function.filter(|it| it.is_callable()).ok_or_else(refused)?;
    let (bytes, name) = (gil.unsigned(budget.bytes)?, name(budget)?);
    library::attribute(gil, c"_budgeted")?.call(&[function, &bytes, &name])
}

fn name(budget: This<'_, Budget>) -> Returned<'_> {
    let gil = budget.gil();
    let name = budget.name.as_deref();
    gil.maybe(name.map(|name| gil.text(name)))
}

fn figure(budget: This<'_, Budget>, figure: fn(&UnitFigures) -> u64) -> Returned<'_> {
    let figures = sampling::with_units(|units| units.figures(budget.number.get()));
    let figure = figures.flatten().as_ref().map_or(0, figure);
    budget.gil().unsigned(figure)
}

fn repr(budget: This<'_, Budget>) -> Returned<'_> {
    let state = if budget.is_open.get() { ", open" } else { "" };
    let name = budget.name.as_deref().unwrap_or_default();
    let space = if name.is_empty() { "" } else { " " };
    let bytes = Bytes(budget.bytes);
    let text = format!("<pyhost.budget of {bytes}{space}{name}{state}>");
    budget.gil().text(&text)
}

fn current(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    Ok(BUDGETS.variable.get(gil).unwrap_or_else(|| gil.none()))
}

/// Makes a budget, or None, the calling thread's own; returns the former.
fn switch<'a>(module: This<'a, Module>, budget: &Object<'a>) -> Returned<'a> {
    let former = current(module)?;
    if !former.is(budget) {
        take_error_back();
        BUDGETS.variable.set(budget)?;
    }
    Ok(former)
}

pub static METHODS: Table<Method<Module>, 2> = Table::new([
    Method::plain(c"_current_budget", current, c""),
    Method::one(c"_switch_budget", switch, c""),
]);

static TYPE_METHODS: Table<Method<Budget>, 2> = Table::new([
    Method::plain(c"__enter__", enter, ENTER_DOC),
    Method::any(c"__exit__", exit, EXIT_DOC),
]);

static ATTRIBUTES: Table<Attribute<Budget>, 6> = attributes! { Budget:
    c"name", name, c"The name that it was given, or None.";
    c"size_bytes", |budget| budget.gil().unsigned(budget.bytes), c"The bytes that the unit may have.";
    c"live_bytes", |budget| figure(budget, |unit| unit.live),
        c"The live bytes of the unit, with those of the budgets in it.";
    c"peak_bytes", |budget| figure(budget, |unit| unit.peak), c"The most of them so far.";
    c"error_bytes", |budget| figure(budget, UnitFigures::error), c"The standard error of live_bytes.";
    c"refused", |budget| figure(budget, |unit| unit.refused.into()),
        c"How many errors the budget has caused.";
};

class! { c"pyhost.budget", DOC,
    new(new), call(call), repr(repr), methods(&TYPE_METHODS), attributes(&ATTRIBUTES)
}
