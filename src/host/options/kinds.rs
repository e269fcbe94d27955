//! The kinds of values that options have: how each is read, and how it is written for children.

use crate::observe::report::Format;
use crate::{bytes::Expected, check::leaks::Scope, libc_exports::native::Mode};
pub use pyhost_os::named::Named;
use pyhost_os::{named, semicolon_list};
use pyhost_record::directory::Setting;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::{fmt::Display, marker::PhantomData, str::FromStr};

/// Stands between the parts of a value.
pub const COMMA: u8 = b',';
/// Stands in a variable between the values of an option that may be repeated.
pub const SEMICOLON: u8 = b';';

pub trait Kind {
    type Value;
    /// Whether it may be given several times.
    const IS_LIST: bool = false;

    /// Reads a value.
    ///
    /// # Errors
    /// The text is wrong: the reason, which follows the option's or the variable's name.
    fn read(text: &OsStr) -> Result<Self::Value, String>;

    /// Writes the texts that a child process reads as the value.
    fn show(value: &Self::Value) -> Vec<OsString>;

    fn names() -> String {
        String::new()
    }

    /// Reads a value into the place of one or, for lists, adds it to those before.
    fn add(value: &mut Option<Self::Value>, text: &OsStr) -> Result<(), String> {
        *value = Some(Self::read(text)?);
        Ok(())
    }
}

pub struct List<K>(PhantomData<K>);

impl<K: Kind> Kind for List<K> {
    type Value = Vec<K::Value>;
    const IS_LIST: bool = true;

    fn read(text: &OsStr) -> Result<Vec<K::Value>, String> {
        Ok(vec![K::read(text)?])
    }

    fn show(values: &Vec<K::Value>) -> Vec<OsString> {
        values.iter().flat_map(K::show).collect()
    }

    fn add(values: &mut Option<Vec<K::Value>>, text: &OsStr) -> Result<(), String> {
        values.get_or_insert_default().extend(Self::read(text)?);
        Ok(())
    }
}

/// The reason why a value is wrong.
fn bad_value(text: &OsStr, expected: &str) -> String {
    let text = text.to_string_lossy();
    match text.is_empty() {
        true => format!("expected a value, {expected}"),
        false => format!("bad value '{text}'; expected {expected}"),
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

    fn show(value: &bool) -> Vec<OsString> {
        vec![u8::from(*value).to_string().into()]
    }
}

pub struct Choice<T>(PhantomData<T>);

impl<T: Named + PartialEq> Kind for Choice<T> {
    type Value = T;

    fn read(text: &OsStr) -> Result<T, String> {
        let found = text.to_str().and_then(T::of_name);
        found.ok_or_else(|| bad_value(text, &format!("one of {}", Self::names())))
    }

    fn show(value: &T) -> Vec<OsString> {
        let found = T::NAMES.iter().filter(|(_, known)| known == value);
        found.map(|(name, _)| name.into()).collect()
    }

    fn names() -> String {
        let names: Vec<&str> = T::NAMES.iter().map(|(name, _)| *name).collect();
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

/// The choices of `--debug-hooks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugHooks {
    Off,
    /// The hooks, and checked blocks beneath them.
    Pads,
    /// Guard pages, too.
    Guard,
}

named!(values of Mode: "count" Count, "plain" Plain, "off" Off);
named!(values of Scope: "python" Python, "native" Native, "off" Off);
named!(values of Format: "text" Text, "json" Json, "html" Html, "openmetrics" OpenMetrics, "off" Off);
named!(values of DebugHooks: "0" Off, "1" Pads, "guard" Guard);
named!(values of Help: "all" All, "short" Short);

/// A text whose type says what it should be.
pub struct Text<T>(PhantomData<T>);

impl<T: FromStr<Err = Expected> + Display> Kind for Text<T> {
    type Value = T;

    fn read(text: &OsStr) -> Result<T, String> {
        let parsed = text.to_string_lossy().parse();
        parsed.map_err(|Expected(expected)| bad_value(text, expected))
    }

    fn show(value: &T) -> Vec<OsString> {
        vec![value.to_string().into()]
    }
}

/// A number whose type says which it can be.
pub struct Number<T>(PhantomData<T>);

impl<T: FromStr + Display> Kind for Number<T> {
    type Value = T;

    fn read(text: &OsStr) -> Result<T, String> {
        let of_a_byte = match size_of::<T>() {
            1 => " from 0 to 255",
            _ => "",
        };
        let parsed = text.to_string_lossy().parse();
        parsed.map_err(|_| bad_value(text, &format!("a number{of_a_byte}")))
    }

    fn show(value: &T) -> Vec<OsString> {
        vec![value.to_string().into()]
    }
}

pub enum Command {}

impl Kind for Command {
    type Value = OsString;

    fn read(text: &OsStr) -> Result<OsString, String> {
        match text.is_empty() {
            true => Err(bad_value(text, "a command of the shell")),
            false => Ok(text.to_owned()),
        }
    }

    fn show(value: &OsString) -> Vec<OsString> {
        vec![value.clone()]
    }
}

/// A path that is the whole value of an option. It is made absolute: a child process may run in another directory.
pub enum Path {}

impl Kind for Path {
    type Value = OsString;

    fn read(text: &OsStr) -> Result<OsString, String> {
        match std::path::absolute(text) {
            Ok(path) => Ok(path.into_os_string()),
            Err(_) if text.is_empty() => Err(bad_value(text, "a path")),
            Err(error) => Err(format!(
                "the working directory of '{}' cannot be found ({error})",
                text.to_string_lossy()
            )),
        }
    }

    fn show(value: &OsString) -> Vec<OsString> {
        vec![value.clone()]
    }
}

/// A path beside other parts: a comma of its own is written twice.
pub enum PathPart {}

impl Kind for PathPart {
    type Value = OsString;

    fn read(text: &OsStr) -> Result<OsString, String> {
        let expected = || bad_value(text, "a path, in which a comma is written twice");
        let path = semicolon_list::read(text.as_bytes(), COMMA).ok_or_else(expected)?;
        Path::read(OsStr::from_bytes(&path))
    }

    fn show(value: &OsString) -> Vec<OsString> {
        let path = semicolon_list::written(value.as_bytes(), COMMA);
        vec![OsString::from_vec(path)]
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

    fn show(value: &Setting) -> Vec<OsString> {
        vec![value.show()]
    }
}
