//! The names of native calls, from the files of the libraries: functions from their symbol tables, and source lines if
//! there is debug information, in the library itself or where Debian and GNU keep it apart.
//!
//! A file that was replaced since would give wrong names. So it must have the build id that the host read in memory; a library
//! without one must not have changed since the process started. A report may be forged: a path may name anything, so
//! only regular files are opened.

use addr2line::Loader;
use object::{Object, read::ReadCache};
use pyhost_os::clock::Utc;
use pyhost_record::open_regular;
use std::{collections::HashMap, os::unix::fs::MetadataExt};

/// A call of a function, by its source if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub function: String,
    pub source: Option<(String, u32)>,
}

/// Finds names; each library is opened once.
#[derive(Default)]
pub struct Symbols {
    /// The build id of each library; None if a path had several libraries.
    build_ids: HashMap<String, Option<String>>,
    started: Option<Utc>,
    loaders: HashMap<String, Option<Loader>>,
    known: HashMap<(String, u64), Vec<Place>>,
}

impl Symbols {
    /// For the calls of a process that started at a moment, and its libraries: the path and the build id of each, which may be
    /// empty.
    pub fn new<'a>(
        libraries: impl Iterator<Item = (&'a str, &'a str)>,
        started: Option<Utc>,
    ) -> Self {
        let mut build_ids = HashMap::new();
        for (file, id) in libraries {
            let known = build_ids
                .entry(file.to_owned())
                .or_insert(Some(id.to_owned()));
            if known.as_deref() != Some(id) {
                *known = None;
            }
        }
        Symbols {
            build_ids,
            started,
            ..Symbols::default()
        }
    }

    /// The functions at an offset in a library, the innermost first: several if some are inlined. At least one: the host's
    /// name of it if the file says nothing.
    pub fn of_call(&mut self, library: &str, function: &str, offset: u64) -> Vec<Place> {
        let key = (library.to_owned(), offset);
        if let Some(places) = self.known.get(&key) {
            return places.clone();
        }
        let found = self.loader(library).map(|loader| places(loader, offset));
        let mut places = found.unwrap_or_default();
        if places.is_empty() {
            places.push(Place {
                function: demangled(function),
                source: None,
            });
        }
        self.known.insert(key, places.clone());
        places
    }

    fn loader(&mut self, path: &str) -> Option<&Loader> {
        if !self.loaders.contains_key(path) {
            let build_id = self.build_ids.get(path).cloned().flatten();
            let is_same = build_id.is_some_and(|id| is_same(path, &id, self.started));
            let loader = is_same.then(|| Loader::new(path).ok()).flatten();
            self.loaders.insert(path.to_owned(), loader);
        }
        self.loaders.get(path)?.as_ref()
    }
}

/// Whether the file is still the library that was loaded.
fn is_same(path: &str, build_id: &str, started: Option<Utc>) -> bool {
    let is_absolute = path.starts_with('/');
    let Some(file) = is_absolute.then(|| open_regular(path.as_ref())).flatten() else {
        return false;
    };
    if build_id.is_empty() {
        let changed = file.metadata().ok().map(|found| found.ctime());
        let changed = changed.and_then(|seconds| u64::try_from(seconds).ok());
        let before = |Utc(moment): Utc| changed.is_some_and(|it| it < moment / 1_000_000_000);
        return started.is_some_and(before);
    }
    let cache = ReadCache::new(file);
    let Ok(object) = object::File::parse(&cache) else {
        return false;
    };
    let digits = |id: &[u8]| -> String { id.iter().map(|byte| format!("{byte:02x}")).collect() };
    matches!(object.build_id(), Ok(Some(id)) if digits(id) == build_id)
}

fn places(loader: &Loader, offset: u64) -> Vec<Place> {
    let symbol = || loader.find_symbol(offset).map(demangled);
    let mut places = Vec::new();
    if let Ok(mut frames) = loader.find_frames(offset) {
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref();
            let name = name.and_then(|name| name.raw_name().ok());
            let Some(function) = name.map(|name| demangled(&name)).or_else(symbol) else {
                continue;
            };
            let location = frame.location;
            let source = location.and_then(|at| Some((at.file?.to_owned(), at.line.unwrap_or(0))));
            places.push(Place { function, source });
        }
    }
    if places.is_empty()
        && let Some(function) = symbol()
    {
        places.push(Place {
            function,
            source: None,
        });
    }
    places
}

/// A name as it is in the source, of Rust or C++. The demangler would take a function of C whose name is `f` for the type
/// `float`.
fn demangled(name: &str) -> String {
    if !name.starts_with("_Z") && !name.starts_with("_R") {
        return name.to_owned();
    }
    addr2line::demangle_auto(name.into(), None).into_owned()
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn names_of_cpp_and_rust_are_those_of_the_source_and_names_of_c_stay() {
        assert_eq!(demangled("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(demangled("_RNvC6_123foo3bar"), "123foo::bar");
        for name in ["f", "i", "inner", "PyList_New", "_start", ""] {
            assert_eq!(demangled(name), name);
        }
    }
}
