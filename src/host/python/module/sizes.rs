//! The module's functions about size classes and the resident size.

use super::{arguments, dictionary::Dictionary};
use crate::cpython::functions::{Arguments, Method, Module, Signature, Table, This};
use crate::cpython::objects::Returned;
use crate::heap::histogram::Histogram;
use crate::observe::report::{self, Sink};
use crate::{ledger::Account, observe::balance};
use std::ffi::CStr;

const HISTOGRAM_DOC: &CStr = c"size_histogram(account=None)
--

Return the live blocks of an account by size class, as a list of dictionaries, smallest first.

block_bytes is the size of the class's blocks (from 512 KiB on that of the largest that it may have),
live_blocks and live_bytes are what is allocated and not freed, capacity_bytes what the pages of the
class hold, free blocks included. account is 'raw', 'mem', 'obj', 'numpy' or 'native'; with None a
dictionary of lists by account is returned. Walks the heaps; may be called from any thread.";

const FRAGMENTATION_DOC: &CStr = c"fragmentation(account=None)
--

Return the part of what an account's pages hold that is not live, from 0.0 to 1.0.

account is as for size_histogram(); with None a dictionary by account is returned.";

const BALANCE_DOC: &CStr = c"balance_sheet()
--

Return what is resident in memory at this moment, explained row by row, as a dictionary.

d['resident_bytes'] is the sum; d['rows'] is a list of dictionaries with name, kind ('account', 'heap',
'file', 'stack' or 'anonymous') and resident_bytes; d['remainder_bytes'] is what no row explains.
Returns None where the kernel does not tell what is resident.";

/// The account of an `account` argument; None for all. ValueError for another.
fn account<'a>(function: &str, arguments: Arguments<'a>) -> Returned<'a, Option<Account>> {
    const SIGNATURE: Signature<1> = Signature::new(c"|O", [c"account"]);
    let [name] = arguments.parse(&SIGNATURE)?;
    let name = name.filter(|name| !name.is_none());
    name.map(|name| arguments::account(function, "None or ", name))
        .transpose()
}

fn size_histogram<'a>(_: This<'a, Module>, arguments: Arguments<'a>) -> Returned<'a> {
    let gil = arguments.gil();
    let account = account("size_histogram", arguments)?;
    let histogram = Histogram::taken().ok_or_else(|| gil.no_memory())?;
    match account {
        Some(account) => Dictionary::list(gil, |list| {
            report::describe_classes(histogram[0].of(account), list);
        }),
        None => Dictionary::build(gil, |dictionary| {
            report::describe_histogram(&histogram[0], dictionary);
        }),
    }
}

fn fragmentation<'a>(_: This<'a, Module>, arguments: Arguments<'a>) -> Returned<'a> {
    let gil = arguments.gil();
    let account = account("fragmentation", arguments)?;
    let histogram = Histogram::taken().ok_or_else(|| gil.no_memory())?;
    match account {
        Some(account) => gil.float(histogram[0].of(account).fragmentation()),
        None => Dictionary::build(gil, |dictionary| {
            for account in Account::WITH_BLOCKS {
                let figure = histogram[0].of(account).fragmentation();
                dictionary.fraction(account.name(), figure);
            }
        }),
    }
}

fn balance_sheet(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    let describe = |balance| Dictionary::build(gil, |to| report::describe_balance(&balance, to));
    gil.maybe(balance::take().map(describe))
}

pub static METHODS: Table<Method<Module>, 3> = Table::new([
    Method::named(c"size_histogram", size_histogram, HISTOGRAM_DOC),
    Method::named(c"fragmentation", fragmentation, FRAGMENTATION_DOC),
    Method::plain(c"balance_sheet", balance_sheet, BALANCE_DOC),
]);
