//! The module's functions about caps: setting and asking for them, and what is known of refusals and of big blocks.

use super::arguments::{cap_scope, scope, size};
use super::dictionary::Dictionary;
use crate::cpython::functions::{Arguments, Method, Module, Signature, Table, This};
use crate::cpython::objects::{Kind, Object, Returned};
use crate::heap::{self, big_blocks};
use crate::limit::caps::{self, LimitError, cap_errors};
use crate::{bytes::Bytes, ledger::Scope, observe::report};
use std::ffi::CStr;

const SET_DOC: &CStr = c"set_cap(size, account=None, *, soft=False)
--

Cap the live bytes of an account from here on, or of all together where account is None, and with
them what is resident of the maps that libraries make themselves; 'owned' caps all together without
the maps, and takes the place of the other.

size is a number of bytes, a str such as '64M', or None for no cap. With soft=True the soft cap is
set, past which memory is relieved and nothing fails. Holds for the process, not for its children.
Raises ValueError where the account has more live, or needs more than is left for its reserve.";

const GET_DOC: &CStr = c"get_cap(account=None, *, soft=False)
--

Return the cap in bytes of an account, or of all together where account is None or 'owned'; None
without one.";

const HEADROOM_DOC: &CStr = c"headroom(account=None)
--

Return the size of the largest single request that is granted now, the reserve not counted: under
the lowest of all caps and open limits, or of one account's and the total's. None without any.

Blocks take more than was asked for, so the size is one that the heap does not round up: one that is
an eighth and 192 KiB larger may be refused. Other threads may take of it before the request.";

const LAST_DOC: &CStr = c"last_refusal()
--

Return the last request that a cap refused as a dictionary; None where there was none.

scope is whose cap it was ('total' or an account), account who was asked, size_bytes how much,
cap_bytes and live_bytes the cap and what was live, maps_bytes what maps of libraries had of it; how is 'null' where CPython, NumPy or a library
made an error of it, 'raised' where the host raised MemoryError; limit tells of the block of code
where it was one of pyhost.limit(), budget of the unit where it was one of pyhost.budget(); traceback is a list, innermost line first.";

const BLOCKS_DOC: &CStr = c"big_blocks()
--

Return every live block of a mebibyte and more, largest first, as a list of dictionaries: account,
size_bytes, age_seconds, and file and line of its allocation (None where no Python code ran). At
most 8192 are known; the report tells how many more there were.";

const PRESSURE_DOC: &CStr = c"on_pressure(function, /)
--

Have function() called when a soft cap is passed, once a shortage, in the main thread, after garbage
was collected. Returns function, so that it may be used as a decorator. What it raises is written
to sys.unraisablehook.";

fn is_true<'a>(soft: Option<&Object<'a>>) -> Returned<'a, bool> {
    soft.map_or(Ok(false), Object::truth)
}

fn set_cap<'a>(_: This<'a, Module>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<3> =
        Signature::new(c"O|O$O:set_cap", [c"size", c"account", c"soft"]);
    let gil = arguments.gil();
    let [asked, account, soft] = arguments.parse(&SIGNATURE)?;
    let soft = is_true(soft)?;
    let (scope, with_maps) = cap_scope("set_cap", account)?;
    let asked = asked.filter(|asked| !asked.is_none());
    let bytes = asked.map(|asked| size("set_cap", asked)).transpose()?;
    if soft {
        caps::set_soft(scope, bytes);
        return Ok(gil.none());
    }
    let Err(error) = caps::set(scope, bytes, with_maps, heap::slot()) else {
        return Ok(gil.none());
    };
    let (kind, text) = match error {
        LimitError::Low { live, least } => {
            let (name, live, least) = (scope.name(), Bytes(live), Bytes(least));
            let expected = format!("expected at least {least}, with the reserve");
            (Kind::Value, format!("{name} has {live} live; {expected}"))
        }
        LimitError::High(most) => {
            let most = Bytes(most);
            let expected = format!("expected at most {most}, which this build is limited to");
            (Kind::Value, expected)
        }
        LimitError::Full => (Kind::Runtime, "too many limits".to_owned()),
    };
    Err(gil.raise(kind, &format!("set_cap: {text}")))
}

fn get_cap<'a>(_: This<'a, Module>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<2> = Signature::new(c"|O$O:get_cap", [c"account", c"soft"]);
    let gil = arguments.gil();
    let [account, soft] = arguments.parse(&SIGNATURE)?;
    let soft = is_true(soft)?;
    let (scope, _) = cap_scope("get_cap", account)?;
    let bytes = match soft {
        true => caps::soft(scope),
        false => caps::get(scope),
    };
    gil.maybe(bytes.map(|bytes| gil.unsigned(bytes)))
}

fn headroom<'a>(_: This<'a, Module>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<1> = Signature::new(c"|O:headroom", [c"account"]);
    let gil = arguments.gil();
    let [account] = arguments.parse(&SIGNATURE)?;
    let of = scope("headroom", account)?;
    let all = of == Scope::Total;
    let is_asked = |&scope: &Scope| all || scope == of || scope == Scope::Total;
    let headroom = |scope| caps::headroom(scope, heap::slot());
    let least = Scope::all().filter(is_asked).filter_map(headroom).min();
    gil.maybe(least.map(|least| gil.unsigned(heap::largest_within(least))))
}

fn last_refusal(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    let describe = |refusal| Dictionary::build(gil, |to| report::describe_refusal(&refusal, to));
    gil.maybe(caps::last().map(describe))
}

fn big_blocks(module: This<'_, Module>) -> Returned<'_> {
    let mut blocks = Vec::new();
    big_blocks::each(|block| blocks.push(block));
    blocks.sort_by_key(|block| std::cmp::Reverse(block.bytes));
    Dictionary::list(module.gil(), |list| {
        for block in &blocks {
            report::describe_block(block, list);
        }
    })
}

fn on_pressure<'a>(module: This<'a, Module>, function: &Object<'a>) -> Returned<'a> {
    let (gil, text) = (module.gil(), "on_pressure: expected a function to call");
    gil.ensure(function.is_callable(), Kind::Type, text)?;
    cap_errors::add_relief(function)?;
    Ok(function.to_owned())
}

pub static METHODS: Table<Method<Module>, 6> = Table::new([
    Method::named(c"set_cap", set_cap, SET_DOC),
    Method::named(c"get_cap", get_cap, GET_DOC),
    Method::named(c"headroom", headroom, HEADROOM_DOC),
    Method::plain(c"last_refusal", last_refusal, LAST_DOC),
    Method::plain(c"big_blocks", big_blocks, BLOCKS_DOC),
    Method::one(c"on_pressure", on_pressure, PRESSURE_DOC),
]);
