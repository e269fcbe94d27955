//! The kinds of values that options have: how each is read, and how it is written for children.

use crate::allocator::Allocator;
use crate::bytes::Expected;
use crate::check::leaks::Scope;
use crate::error::Error;
use crate::heap::placement::HugePages;
use crate::heap::retention::Retention;
use crate::libc_exports::native::Mode;
use crate::list;
use crate::observe::report::Format;
use crate::python::numpy::ArrayAllocator;
use pyhost_record::directory::Setting;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStringExt;
use std::str::FromStr;

/// A kind of value.
pub trait Kind {
    /// The value.
    type Value;
    /// Whether an option may be given several times.
    const IS_LIST: bool = false;

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

    /// The names that a value is one of.
    fn names() -> String {
        String::new()
    }

    /// Reads a value into the place of one or, for lists, adds it to those before.
    ///
    /// # Errors
    /// As [`Kind::read`].
    fn add(value: &mut Option<Self::Value>, text: &OsStr) -> Result<(), String> {
        *value = Some(Self::read(text)?);
        Ok(())
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
    format!(
        "bad value '{}'; expected {expected}",
        text.to_string_lossy()
    )
}

/// Yes, or `1`; `0` is no.
pub enum Flag {}

impl Kind for Flag {
    type Value = bool;

    fn read(text: &OsStr) -> Result<bool, String> {
        match text.as_encoded_bytes() {
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
        let expected = || format!("one of {}", Self::names());
        match found {
            Some((_, value)) => Ok(*value),
            None if text.is_empty() => Err(format!("expected a value, {}", expected())),
            None => Err(bad_value(text, &expected())),
        }
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

/// The launcher's option, which it takes out of the command line where it comes first. Every value is wrong here.
pub struct Leading;

impl Kind for Leading {
    type Value = Infallible;

    fn read(_: &OsStr) -> Result<Infallible, String> {
        Err("expected before all other options, and only with the command of a wheel".to_owned())
    }

    fn show(value: &Infallible, _: &str) -> Result<OsString, Error> {
        match *value {}
    }
}

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

/// Several texts: an option that may be given several times, a variable with separators.
pub struct List<T>(PhantomData<T>);

impl<T: FromStr<Err = Expected> + Display> Kind for List<T> {
    type Value = Vec<T>;
    const IS_LIST: bool = true;

    fn read(text: &OsStr) -> Result<Vec<T>, String> {
        let parsed = list::parse(&text.to_string_lossy());
        parsed.map_err(|Expected(expected)| bad_value(text, expected))
    }

    fn show(value: &Vec<T>, _: &str) -> Result<OsString, Error> {
        Ok(list::show(value).into())
    }

    fn add(value: &mut Option<Vec<T>>, text: &OsStr) -> Result<(), String> {
        value.get_or_insert_default().extend(Self::read(text)?);
        Ok(())
    }
}

/// A whole number.
pub struct Number<T>(PhantomData<T>);

/// The whole numbers that options have.
pub trait Whole: FromStr + Display {
    /// The values that are allowed, for an error line.
    const EXPECTED: &'static str = "a number";
}

impl Whole for u8 {
    const EXPECTED: &'static str = "a number from 0 to 255";
}
impl Whole for i32 {}
impl Whole for u32 {}

impl<T: Whole> Kind for Number<T> {
    type Value = T;

    fn read(text: &OsStr) -> Result<T, String> {
        let parsed = text.to_string_lossy().parse();
        parsed.map_err(|_| bad_value(text, T::EXPECTED))
    }

    fn show(value: &T, _: &str) -> Result<OsString, Error> {
        Ok(value.to_string().into())
    }
}

/// A path.
pub enum Path {}

impl Kind for Path {
    type Value = OsString;

    fn read(text: &OsStr) -> Result<OsString, String> {
        Ok(text.to_owned()) // an empty one is refused where it is made absolute
    }

    fn show(value: &OsString, option: &str) -> Result<OsString, Error> {
        absolute(option, value).map(OsString::from_vec)
    }
}

/// Where the ledger is shared: `on`, `off`, a directory or a file.
pub enum Live {}

impl Kind for Live {
    type Value = Setting;

    fn read(text: &OsStr) -> Result<Setting, String> {
        Setting::of(text)
            .ok_or_else(|| "expected on, off, a directory or file:PATH after '='".to_owned())
    }

    fn show(value: &Setting, _: &str) -> Result<OsString, Error> {
        Ok(value.show())
    }
}
