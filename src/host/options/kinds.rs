//! The kinds of values that options have: how each is read, and how it is written for children.

use crate::allocator::Allocator;
use crate::bytes::Expected;
use crate::check::leaks::Scope;
use crate::error::Error;
use crate::heap::placement::HugePages;
use crate::heap::retention::Retention;
use crate::libc_exports::native::Mode;
use crate::observe::report::Format;
use crate::python::numpy::ArrayAllocator;
use pyhost_os::list;
use pyhost_record::directory::Setting;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::marker::PhantomData;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::str::FromStr;

/// Stands between the parts of a value.
pub const COMMA: u8 = b',';
/// Stands in a variable between the values of an option that may be repeated.
pub const SEMICOLON: u8 = b';';

/// A kind of value.
pub trait Kind {
    /// The value.
    type Value;

    /// Reads a value.
    ///
    /// # Errors
    /// The text is wrong: the reason, which follows the option's or the variable's name.
    fn read(text: &OsStr) -> Result<Self::Value, String>;

    /// Writes a value so that a child process, which may run in another directory, reads the same.
    ///
    /// # Errors
    /// A path of `option` that cannot be made absolute.
    fn show(value: &Self::Value, option: &str) -> Result<OsString, Error>;

    /// The names that a value is one of; empty for other values.
    fn names() -> String {
        String::new()
    }
}

/// A part of an option: a value, or a list of values.
pub trait Field {
    /// The value or the list.
    type Value;
    /// Whether it may be given several times.
    const IS_LIST: bool;

    /// Reads a value into its place or into the list.
    ///
    /// # Errors
    /// As [`Kind::read`].
    fn add(value: &mut Option<Self::Value>, text: &OsStr) -> Result<(), String>;

    /// Writes the values.
    ///
    /// # Errors
    /// As [`Kind::show`].
    fn show(value: &Self::Value, option: &str) -> Result<Vec<OsString>, Error>;

    /// The names that a value is one of; empty for other values.
    fn names() -> String;
}

impl<K: Kind> Field for K {
    type Value = K::Value;
    const IS_LIST: bool = false;

    fn add(value: &mut Option<K::Value>, text: &OsStr) -> Result<(), String> {
        *value = Some(K::read(text)?);
        Ok(())
    }

    fn show(value: &K::Value, option: &str) -> Result<Vec<OsString>, Error> {
        Ok(vec![K::show(value, option)?])
    }

    fn names() -> String {
        K::names()
    }
}

/// Several values of a kind.
pub struct List<K>(PhantomData<K>);

impl<K: Kind> Field for List<K> {
    type Value = Vec<K::Value>;
    const IS_LIST: bool = true;

    fn add(values: &mut Option<Vec<K::Value>>, text: &OsStr) -> Result<(), String> {
        values.get_or_insert_default().push(K::read(text)?);
        Ok(())
    }

    fn show(values: &Vec<K::Value>, option: &str) -> Result<Vec<OsString>, Error> {
        values.iter().map(|value| K::show(value, option)).collect()
    }

    fn names() -> String {
        K::names()
    }
}

/// The absolute form of a path.
///
/// # Errors
/// It is empty, or there is no working directory.
pub fn absolute(option: &str, path: &OsStr) -> Result<Vec<u8>, Error> {
    if path.is_empty() {
        return Err(Error::option(format!("{option}: expected a value, a path")));
    }
    let absolute = std::path::absolute(path).map_err(|error| {
        Error::option(format!(
            "{option}: the working directory of '{}' cannot be found ({error})",
            path.to_string_lossy()
        ))
    })?;
    Ok(absolute.into_os_string().into_vec())
}

/// The reason why a value is wrong.
fn bad_value(text: &OsStr, expected: &str) -> String {
    match text.is_empty() {
        true => format!("expected a value, {expected}"),
        false => format!(
            "bad value '{}'; expected {expected}",
            text.to_string_lossy()
        ),
    }
}

/// Yes, or `1`; `0` is no.
pub enum Flag {}

impl Kind for Flag {
    type Value = bool;

    fn read(text: &OsStr) -> Result<bool, String> {
        match text.as_bytes() {
            b"0" => Ok(false),
            b"1" => Ok(true),
            _ => Err(bad_value(text, "one of 1, 0")),
        }
    }

    fn show(value: &bool, _: &str) -> Result<OsString, Error> {
        Ok(if *value { "1" } else { "0" }.into())
    }
}

/// One of several names.
pub struct Choice<T>(PhantomData<T>);

/// A type whose values have names.
pub trait Named: Copy + 'static {
    /// The values, each with its name.
    const ALL: &'static [(&'static str, Self)];
}

impl<T: Named + PartialEq> Kind for Choice<T> {
    type Value = T;

    fn read(text: &OsStr) -> Result<T, String> {
        let found = T::ALL.iter().find(|(name, _)| text == *name);
        let expected = || format!("one of {}", <Self as Kind>::names());
        found.map_or_else(
            || Err(bad_value(text, &expected())),
            |(_, value)| Ok(*value),
        )
    }

    fn show(value: &T, _: &str) -> Result<OsString, Error> {
        let found = T::ALL.iter().find(|(_, known)| known == value);
        Ok(found.map(|(name, _)| name.into()).unwrap_or_default())
    }

    fn names() -> String {
        let names: Vec<&str> = T::ALL.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

/// Which options `--help` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// All, with a line each.
    Short,
    /// All, with their values.
    All,
}

macro_rules! named {
    ($type:ident: $($name:literal $value:ident),*) => {
        impl Named for $type {
            const ALL: &'static [(&'static str, Self)] = &[$(($name, $type::$value)),*];
        }
    };
}

named!(Allocator: "mimalloc" Mimalloc, "pymalloc" Pymalloc, "system" System);
named!(Mode: "count" Count, "plain" Plain, "off" Off);
named!(Retention: "balanced" Balanced, "speed" Speed, "small" Small);
named!(ArrayAllocator: "mimalloc" Mimalloc, "pool" Pool, "bfc" Bfc, "system" System);
named!(HugePages: "auto" Auto, "always" Always, "never" Never);
named!(Scope: "python" Python, "native" Native, "off" Off);
named!(Format: "text" Text, "json" Json, "html" Html, "openmetrics" OpenMetrics, "off" Off);
named!(Help: "all" All, "short" Short);

/// A text whose type says what it should be.
pub struct Text<T>(PhantomData<T>);

impl<T: FromStr<Err = Expected> + Display> Kind for Text<T> {
    type Value = T;

    fn read(text: &OsStr) -> Result<T, String> {
        let parsed = text.to_string_lossy().parse();
        parsed.map_err(|Expected(expected)| bad_value(text, expected))
    }

    fn show(value: &T, _: &str) -> Result<OsString, Error> {
        Ok(value.to_string().into())
    }
}

/// A whole number.
pub struct Number<T>(PhantomData<T>);

impl<T: FromStr + Display> Kind for Number<T> {
    type Value = T;

    fn read(text: &OsStr) -> Result<T, String> {
        let parsed = text.to_string_lossy().parse();
        let expected = match size_of::<T>() {
            1 => "a number from 0 to 255",
            _ => "a number",
        };
        parsed.map_err(|_| bad_value(text, expected))
    }

    fn show(value: &T, _: &str) -> Result<OsString, Error> {
        Ok(value.to_string().into())
    }
}

/// A path that is the whole value of an option.
pub enum Path {}

impl Kind for Path {
    type Value = OsString;

    fn read(text: &OsStr) -> Result<OsString, String> {
        match text.is_empty() {
            true => Err(bad_value(text, "a path")),
            false => Ok(text.to_owned()),
        }
    }

    fn show(value: &OsString, option: &str) -> Result<OsString, Error> {
        absolute(option, value).map(OsString::from_vec)
    }
}

/// A path beside other parts: a comma of its own is written twice.
pub enum PathPart {}

impl Kind for PathPart {
    type Value = OsString;

    fn read(text: &OsStr) -> Result<OsString, String> {
        let expected = || bad_value(text, "a path, in which a comma is written twice");
        let path = list::read(text.as_bytes(), COMMA).ok_or_else(expected)?;
        <Path as Kind>::read(OsStr::from_bytes(&path))
    }

    fn show(value: &OsString, option: &str) -> Result<OsString, Error> {
        let path = absolute(option, value)?;
        Ok(OsString::from_vec(list::written(&path, COMMA)))
    }
}

/// Where the ledger is shared: `on`, `off`, a directory or a file.
pub enum Live {}

impl Kind for Live {
    type Value = Setting;

    fn read(text: &OsStr) -> Result<Setting, String> {
        let expected = "expected on, off, a directory or file:PATH after '='";
        Setting::of(text).ok_or_else(|| expected.to_owned())
    }

    fn show(value: &Setting, _: &str) -> Result<OsString, Error> {
        Ok(value.show())
    }
}
