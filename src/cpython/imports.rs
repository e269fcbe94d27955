//! Sees the imports of modules, and extension modules being loaded: calls back when one begins and when it has ended.
//!
//! Every import of a module that is not there yet goes by `importlib._bootstrap._find_and_load`,
//! also the ones of C code, which look the function up in the module each time. A function of the
//! host's takes its place. Main interpreter alone.
//!
//! Extension modules are seen by whatever route they come: `import`, C, a lazy loader, another finder. All their loaders end in
//! `_imp.exec_dynamic` (`_imp.exec_builtin` if a module is linked in). The entry of the method in `_imp`'s own table is
//! changed, so that the function's name, text and identity stay, in every interpreter. The cost is one look at the module's
//! name for each extension module.

use super::functions::{Arguments, Method, Module, Original, Table, This, replace_builtin};
use super::objects::{Gil, Kept, Object, Returned, or_none};
use super::threads::note_interpreter;
use std::sync::OnceLock;

/// The functions that are called around each import, nested ones too, in the importing thread.
#[derive(Clone, Copy)]
pub struct Watcher {
    /// An import begins.
    pub begin: fn(Gil<'_>),
    /// It has ended, also with an error.
    pub end: fn(Gil<'_>),
}

/// The functions that are called with the full name of each extension module, with no exception set, in every interpreter.
#[derive(Clone, Copy)]
pub struct ExtensionWatcher {
    /// It is about to be executed.
    pub begins: fn(Gil<'_>, &[u8]),
    /// It has been executed, and is here.
    pub loaded: fn(&[u8], &Object<'_>),
}

pyhost_os::state! {
    /// Who is called, and what was there before.
    static STATE: ImportWatch {
        watcher: OnceLock<Watcher> = OnceLock::new(),
        /// CPython's own function.
        original: OnceLock<Kept> = OnceLock::new(),
        extensions: OnceLock<ExtensionWatcher> = OnceLock::new(),
        dynamic: Original = Original::new(),
        builtin: Original = Original::new(),
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

/// Registers `watcher`. Once, after initialisation. False if this Python has no such function.
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

fn exec<'a>(original: &Original, imp: This<'a, Module>, module: &Object<'a>) -> Returned<'a> {
    note_interpreter(imp.gil());
    let watcher = STATE.extensions.get();
    if let Some(watcher) = watcher {
        with_name(module, |name| (watcher.begins)(imp.gil(), name));
    }
    let result = original.call(imp, module)?;
    if let Some(watcher) = watcher {
        with_name(module, |name| (watcher.loaded)(name, module));
    }
    Ok(result)
}

/// Gives the full name of a module to `take`. No exception is set, before and after.
fn with_name(module: &Object<'_>, take: impl FnOnce(&[u8])) {
    if let Some(name) = or_none(module.module_name()) {
        name.with_text(take);
    }
}

/// Calls `watcher` for each extension module that is loaded from here on. Once, after
/// initialisation. False if `_imp` is not as expected.
pub fn watch_extensions(gil: Gil<'_>, watcher: ExtensionWatcher) -> bool {
    let _ = STATE.extensions.set(watcher);
    let replace = || -> Returned<'_, bool> {
        let imp = gil.import(c"_imp")?;
        let dynamic = Method::one(c"", |imp, module| exec(&STATE.dynamic, imp, module), c"");
        let builtin = Method::one(c"", |imp, module| exec(&STATE.builtin, imp, module), c"");
        Ok(
            replace_builtin(&*imp.attribute(c"exec_dynamic")?, dynamic, &STATE.dynamic)
                && replace_builtin(&*imp.attribute(c"exec_builtin")?, builtin, &STATE.builtin),
        )
    };
    or_none(replace()).unwrap_or(false)
}
