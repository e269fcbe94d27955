//! Sees extension modules being loaded, by whatever route: `import`, C, a lazy loader, another finder.
//!
//! All loaders of extension modules end in `_imp.exec_dynamic` (`_imp.exec_builtin` if a module is
//! linked in). The entry of the method in `_imp`'s own table is changed, so that the function's
//! name, text and identity stay, in every interpreter. The cost is one look at the module's name
//! for each extension module.

use super::functions::{Method, Module, Original, This, replace_builtin};
use super::objects::{Gil, Object, Returned, or_none};
use super::threads::note_interpreter;
use std::sync::OnceLock;

/// The functions that are called with the full name of each extension module, with no exception set, in every interpreter.
#[derive(Clone, Copy)]
pub struct Watcher {
    /// It is about to be executed.
    pub begins: fn(Gil<'_>, &[u8]),
    /// It has been executed, and is here.
    pub loaded: fn(&[u8], &Object<'_>),
}

pyhost_os::state! {
    /// Who is called when an extension is loaded, and what was there before.
    static STATE: ExtensionWatch {
        watcher: OnceLock<Watcher> = OnceLock::new(),
        dynamic: Original = Original::new(),
        builtin: Original = Original::new(),
    }
}

fn exec_dynamic<'a>(imp: This<'a, Module>, module: &Object<'a>) -> Returned<'a> {
    exec(&STATE.dynamic, imp, module)
}

fn exec_builtin<'a>(imp: This<'a, Module>, module: &Object<'a>) -> Returned<'a> {
    exec(&STATE.builtin, imp, module)
}

fn exec<'a>(original: &Original, imp: This<'a, Module>, module: &Object<'a>) -> Returned<'a> {
    note_interpreter(imp.gil());
    let watcher = STATE.watcher.get();
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
pub fn watch(gil: Gil<'_>, watcher: Watcher) -> bool {
    let _ = STATE.watcher.set(watcher);
    let replace = || -> Returned<'_, bool> {
        let imp = gil.import(c"_imp")?;
        let dynamic = Method::one(c"", exec_dynamic, c"");
        let builtin = Method::one(c"", exec_builtin, c"");
        Ok(
            replace_builtin(&*imp.attribute(c"exec_dynamic")?, dynamic, &STATE.dynamic)
                && replace_builtin(&*imp.attribute(c"exec_builtin")?, builtin, &STATE.builtin),
        )
    };
    or_none(replace()).unwrap_or(false)
}
