//! Makes Python objects of the host's figures.

use crate::cpython::objects::{Gil, Owned, Returned};
use crate::observe::report::Sink;

/// Builds a dictionary from the described values. Once a call has failed, it only counts the levels.
pub struct Dictionary<'a> {
    gil: Gil<'a>,
    /// The open objects and lists.
    open: Vec<Option<Owned<'a>>>,
    failed: bool,
}

impl<'a> Dictionary<'a> {
    /// The facts of `describe`, as a new dictionary.
    pub fn build(gil: Gil<'a>, describe: impl FnOnce(&mut Self)) -> Returned<'a> {
        Self::build_in(gil.dictionary()?, describe)
    }

    pub fn list(gil: Gil<'a>, describe: impl FnOnce(&mut Self)) -> Returned<'a> {
        Self::build_in(gil.list()?, describe)
    }

    fn build_in(root: Owned<'a>, describe: impl FnOnce(&mut Self)) -> Returned<'a> {
        let mut dictionary = Dictionary {
            gil: root.gil(),
            open: vec![Some(root.to_owned())],
            failed: false,
        };
        describe(&mut dictionary);
        match dictionary.failed {
            true => Err(root.gil().raised()),
            false => Ok(root),
        }
    }

    fn add(&mut self, key: &str, value: &Returned<'a>) {
        let added = match (self.open.last(), value) {
            (Some(Some(parent)), Ok(value)) if parent.is_list() => parent.append(value),
            (Some(Some(parent)), Ok(value)) => {
                let name = self.gil.text(key);
                name.and_then(|name| parent.set_item(&name, value))
            }
            _ => Err(self.gil.raised()),
        };
        self.failed |= added.is_err();
    }

    fn open(&mut self, key: &str, container: Returned<'a>) {
        self.add(key, &container);
        self.open.push(container.ok());
    }
}

impl Sink for Dictionary<'_> {
    fn begin(&mut self, key: &str) {
        self.open(key, self.gil.dictionary());
    }

    fn begin_list(&mut self, key: &str) {
        self.open(key, self.gil.list());
    }

    fn end(&mut self) {
        self.open.pop();
    }

    fn text(&mut self, key: &str, value: &str) {
        self.add(key, &self.gil.text(value));
    }

    fn int(&mut self, key: &str, value: i64) {
        self.add(key, &self.gil.int(value));
    }

    fn fraction(&mut self, key: &str, value: f64) {
        self.add(key, &self.gil.float(value));
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.add(key, &self.gil.bool(value));
    }

    fn null(&mut self, key: &str) {
        self.add(key, &Ok(self.gil.none()));
    }
}
