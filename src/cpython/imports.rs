//! Sees the imports of modules: calls back when one begins and when it has ended.
//!
//! Every import of a module that is not there yet goes by `importlib._bootstrap._find_and_load`,
//! also the ones of C code, which look the function up in the module each time. A function of the
//! host's takes its place. Main interpreter alone.

use super::functions::{Arguments, Method, Module, Table, This};
use super::objects::{Gil, Kept, Returned, or_none};
use std::sync::OnceLock;

/// The functions that are called around each import, nested ones too, in the importing thread.
#[derive(Clone, Copy)]
pub struct Watcher {
    /// An import begins.
    pub begin: fn(Gil<'_>),
    /// It has ended, also with an error.
    pub end: fn(Gil<'_>),
}

pyhost_os::state! {
    /// Who is called at an import, and what was there before.
    static STATE: ImportWatch {
        watcher: OnceLock<Watcher> = OnceLock::new(),
        /// CPython's own function.
        original: OnceLock<Kept> = OnceLock::new(),
    }
}

fn find_and_load<'a>(this: This<'a, Module>, arguments: Arguments<'a>) -> Returned<'a> {
    let gil = this.gil();
    let original = STATE.original.get().expect("set before this function is");
    let watcher = STATE.watcher.get();
    if let Some(watcher) = watcher {
        (watcher.begin)(gil);
    }
    let result = arguments.pass_to(original.get(gil));
    if let Some(watcher) = watcher {
        (watcher.end)(gil);
    }
    result
}

static FIND_AND_LOAD: Table<Method<Module>, 1> =
    Table::new([Method::named(c"_find_and_load", find_and_load, c"")]);

/// Registers `watcher`. Once, after initialisation. False if this Python has no
/// such function.
pub fn watch(gil: Gil<'_>, watcher: Watcher) -> bool {
    let replace = || -> Returned<'_, ()> {
        let bootstrap = gil.import(c"_frozen_importlib")?;
        let original = bootstrap.attribute(c"_find_and_load")?;
        let function = gil.function(&FIND_AND_LOAD)?;
        let _ = STATE.original.set(original.keep());
        let _ = STATE.watcher.set(watcher);
        bootstrap.set_attribute(c"_find_and_load", &function)
    };
    or_none(replace()).is_some()
}
