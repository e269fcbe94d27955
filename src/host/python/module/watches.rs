//! The host's changes in Python beside its own module: `sys.getallocatedblocks`, and a function
//! that is called when the script has ended. In the main interpreter.

use crate::cpython::functions::{Method, Module, Original, Table, This, replace_builtin};
use crate::cpython::objects::{Gil, Returned, or_none};
use crate::ledger::{Account, LEDGER};
use crate::{check::faults, observe::exit_report};

fn allocated_blocks(module: This<'_, Module>) -> Returned<'_> {
    let blocks = LEDGER.snapshot().account(Account::Obj).live_blocks;
    module.gil().unsigned(blocks)
}

static ALLOCATED_BLOCKS: Original = Original::new();

/// Lets `sys.getallocatedblocks()` answer from the ledger, in every interpreter, since pymalloc
/// has no blocks to count.
pub fn answer_allocated_blocks(gil: Gil<'_>) {
    let by = Method::plain(c"", allocated_blocks, c"");
    if let Some(function) = gil.of_sys(c"getallocatedblocks") {
        replace_builtin(&function, by, &ALLOCATED_BLOCKS);
    }
}

fn script_ended(module: This<'_, Module>) -> Returned<'_> {
    faults::disable();
    exit_report::script_ended(module.gil());
    Ok(module.gil().none())
}

static SCRIPT_ENDED: Table<Method<Module>, 1> = Table::new([Method::plain(
    c"script_ended",
    script_ended,
    c"Take the script's last figures.",
)]);

/// Registers a function that takes the live figures when the script has ended and its own `atexit` functions have
/// run: registered first, called last.
pub fn watch_script_end(gil: Gil<'_>) {
    let register = || -> Returned<'_> {
        let register = gil.import(c"atexit")?.attribute(c"register")?;
        register.call(&[&*gil.function(&SCRIPT_ENDED)?])
    };
    or_none(register());
}
