//! The parts of the module that are Python: sources that the executable holds, run when one of their
//! names is first asked for (PEP 562), so that a host that needs none of them pays nothing.
//!
//! Each source is run in a dictionary of its own, once an interpreter, with the name of the module
//! that shows its objects; what it defines is then put into that module. No file, no path and no
//! import system has a part in it, so it works with `-I` and `-S`, in sub-interpreters and in
//! zipapps. Tracebacks find the lines by the loader that the dictionary names (`linecache`).

use super::NAME;
use super::arguments::{parsed, shown};
use crate::cpython::functions::{self, Definition, Execute, Method, Module, Table, This};
use crate::cpython::objects::{Gil, Kind, Object, Raised, Returned};
use crate::ledger::{LEDGER, REPORTED};
use crate::{bytes::Bytes, resident::resident};
use pyhost_os::strings::c_text;
use std::ffi::CStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source, with a zero at its end.
struct Part {
    /// As tracebacks show it: not in `<>`, which linecache passes over.
    file: &'static CStr,
    source: &'static str,
    module: &'static CStr,
    /// The names that it defines for others; those that begin with `_` are for the rest of the module.
    names: &'static [&'static CStr],
}

/// The part in a file of `library`: its module and its names.
macro_rules! part {
    ($file:literal of $module:ident: $($name:ident)*) => {
        Part {
            file: c_text(concat!("<pyhost>/", $file, "\0")),
            source: concat!(include_str!(concat!("library/", $file)), "\0"),
            module: $module,
            names: &[$(c_text(concat!(stringify!($name), "\0"))),*],
        }
    };
}

static PARTS: [Part; 14] = [
    part!("snapshots.py" of NAME: snapshot Snapshot Figures Diff DiffRow _Accounts _Frozen _at _signed _table),
    part!("tracking.py" of NAME: TrackedAccount _accounts _code _decorated _head _rows _show _wrap),
    part!("lines.py" of NAME: Lines _where),
    part!("profile.py" of NAME: profile LineProfile _profile_named),
    part!("display.py" of NAME: _html_of_track _html_of_lines _html_of_profile _bundle _page),
    part!("expected.py" of NAME: expect_freed check_expected Expected Kept _holder),
    part!("leaks.py" of NAME: leaks Leaks),
    part!("budget.py" of NAME: _budgeted _carry),
    part!("run.py" of NAME: run Verdict),
    part!("sweep.py" of NAME: _serve_runs),
    part!("middleware.py" of NAME: _Budget),
    part!("wsgi.py" of WSGI: Budget),
    part!("asgi.py" of ASGI: Budget),
    part!("notebook.py" of NAME: load_ipython_extension unload_ipython_extension),
];

static PLUGIN: Part = part!("pytest_plugin.py" of PLUGIN_NAME:);

const WSGI: &CStr = c"pyhost.wsgi";
const ASGI: &CStr = c"pyhost.asgi";
const PLUGIN_NAME: &CStr = c"pyhost_pytest";

/// Gives a source to `linecache`; kept in the dictionary in which the source is run.
const LOADER: &CStr = c"class _Source:
    def __init__(self, text):
        self.text = text
    def get_source(self, name):
        return self.text
__loader__ = _Source(__loader__)
del _Source
";

fn run<'a>(gil: Gil<'a>, part: &Part) -> Returned<'a> {
    let source = CStr::from_bytes_with_nul(part.source.as_bytes()).unwrap_or_default();
    let text = &part.source[..source.count_bytes()];
    let globals = gil.dictionary()?;
    globals.set(c"__builtins__", &*gil.builtins()?)?;
    globals.set(c"__name__", &*gil.text(&part.module.to_string_lossy())?)?;
    globals.set(c"__loader__", &*gil.text(text)?)?;
    gil.execute(LOADER, c"<pyhost>", &globals)?;
    gil.execute(source, part.file, &globals)?;
    Ok(globals)
}

/// Runs the part that defines `name` and puts what it defines into `module`, if another thread
/// has not done so meanwhile: its objects stay then. Returns the named one.
fn load<'a>(module: &Object<'a>, part: &Part, name: &CStr) -> Returned<'a> {
    let globals = run(module.gil(), part)?;
    let missing_name = |name: &CStr| missing(module, &name.to_string_lossy());
    let dictionary = module.module_dictionary()?;
    if dictionary.item(part.names[0]).is_none() {
        for name in part.names {
            let value = globals.item(name);
            dictionary.set(name, &*value.ok_or_else(|| missing_name(name))?)?;
        }
    }
    dictionary.item(name).ok_or_else(|| missing_name(name))
}

fn missing<'a>(module: &Object<'a>, name: &str) -> Raised<'a> {
    let of = module
        .module_name()
        .map_or_else(|_| String::new(), |it| shown(&it));
    let text = format!("module '{of}' has no attribute '{name}'");
    module.gil().raise(Kind::Attribute, &text)
}

/// An attribute of the module `pyhost`, as the script would get it.
pub fn attribute<'a>(gil: Gil<'a>, name: &CStr) -> Returned<'a> {
    gil.import(NAME)?.attribute(name)
}

/// Each part of a module, with each of its names.
fn parts<'a>(
    module: This<'a, Module>,
) -> Returned<'a, impl Iterator<Item = (&'static Part, &'static CStr)>> {
    let module = module.object().module_name()?;
    let parts = PARTS.iter().filter(move |it| is(&module, it.module));
    Ok(parts.flat_map(|part| part.names.iter().map(move |name| (part, *name))))
}

fn is(text: &Object<'_>, known: &CStr) -> bool {
    text.with_text(|text| text == known.to_bytes()) == Some(true)
}

fn get<'a>(module: This<'a, Module>, name: &Object<'a>) -> Returned<'a> {
    match parts(module)?.find(|(_, known)| is(name, known)) {
        Some((part, name)) => load(module.object(), part, name),
        None => Err(missing(module.object(), &shown(name))),
    }
}

fn names(module: This<'_, Module>) -> Returned<'_> {
    let names = module.object().module_dictionary()?.keys()?;
    for (_, name) in parts(module)?.filter(|(_, name)| name.to_bytes()[0] != b'_') {
        let text = module.gil().text(&name.to_string_lossy())?;
        if !names.contains(&text)? {
            names.append(&text)?;
        }
    }
    Ok(names)
}

/// `(time, ((name, figures), ...), (live, peak), (resident, peak))`: what a snapshot is made of, in
/// the order of its fields, taken at once and before anything is allocated for it.
fn moment(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    let snapshot = LEDGER.snapshot();
    let resident = resident();
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let rows = snapshot.accounts().map(|(account, figures)| {
        let name = gil.text(account.name())?;
        let figures = [
            figures.live_bytes,
            figures.peak_bytes,
            figures.live_blocks,
            figures.total_blocks,
            figures.refused,
            figures.failed,
        ];
        gil.tuple([name, numbers(gil, figures)?])
    });
    gil.tuple([
        gil.float(time.map_or(0.0, |time| time.as_secs_f64()))?,
        gil.tuple_of(REPORTED.len(), rows)?,
        numbers(gil, [snapshot.total_live_bytes, snapshot.total_peak_bytes])?,
        numbers(gil, [resident.now.unwrap_or(0), resident.peak])?,
    ])
}

pub fn numbers<const N: usize>(gil: Gil<'_>, numbers: [u64; N]) -> Returned<'_> {
    gil.tuple_of(N, numbers.into_iter().map(|number| gil.unsigned(number)))
}

/// A number of bytes as people read it.
fn text<'a>(_: This<'a, Module>, bytes: &Object<'a>) -> Returned<'a> {
    bytes.gil().text(&Bytes(bytes.as_unsigned()?).to_string())
}

/// The bytes that a text such as '64M' means; None for another text.
fn size<'a>(_: This<'a, Module>, size: &Object<'a>) -> Returned<'a> {
    let gil = size.gil();
    gil.maybe(parsed(size).map(|bytes| gil.unsigned(bytes)))
}

const GET_DOC: &CStr = c"Run the part of the module that defines the name.";
const GET: Method<Module> = Method::one(c"__getattr__", get, GET_DOC);
const NAMES_DOC: &CStr = c"The names of the module, those of parts that were not run too.";
const NAMES: Method<Module> = Method::plain(c"__dir__", names, NAMES_DOC);

/// The functions of a module within the module.
static WITHIN: Table<Method<Module>, 2> = Table::new([GET, NAMES]);

/// Makes `import pyhost.wsgi` work, which looks into `sys.modules` once `pyhost` is filled: before 3.11 the import system finds no
/// built-in module within another one.
pub fn add<'a>(module: &'a Object<'a>) -> Returned<'a, ()> {
    for name in [WSGI, ASGI] {
        let within = module.gil().module(name, &WITHIN)?;
        module.set_attribute(&name[c"pyhost.".count_bytes()..], &within)?;
    }
    Ok(())
}

pub static METHODS: Table<Method<Module>, 5> = Table::new([
    GET,
    NAMES,
    Method::plain(c"_moment", moment, c""),
    Method::one(c"_text", text, c""),
    Method::one(c"_size", size, c""),
]);

fn fill_plugin<'a>(module: &'a Object<'a>) -> Returned<'a, ()> {
    let globals = run(module.gil(), &PLUGIN)?;
    // Name, loader and specification stay the import system's.
    let dictionary = module.module_dictionary()?;
    if let Some(doc) = globals.item(c"__doc__") {
        dictionary.set(c"__doc__", &doc)?;
    }
    dictionary.merge(&globals)
}

static FILL_PLUGIN: Execute = Execute::new(fill_plugin);
static PLUGIN_MODULE: Definition = Definition::new(PLUGIN_NAME, c"", &FILL_PLUGIN);

/// Makes `import pyhost_pytest` work. Before initialisation.
pub fn register() {
    functions::register(PLUGIN_NAME, || &PLUGIN_MODULE);
}
