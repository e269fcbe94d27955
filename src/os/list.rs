//! Several values in one text, as variables hold what an option gives more than once. Both functions
//! allocate.

use crate::bytes::Expected;
use std::fmt::Display;
use std::str::FromStr;

/// Stands between two values. No value has it: a rule of `--fail` and a size of `--numpy-region` have
/// commas, an account has `=` and `+`.
const SEPARATOR: char = ';';

/// Reads the values.
///
/// # Errors
/// The first value that is wrong.
pub fn parse<T: FromStr<Err = Expected>>(text: &str) -> Result<Vec<T>, Expected> {
    text.split(SEPARATOR).map(str::parse).collect()
}

/// Writes the values, as [`parse`] reads them.
pub fn show<T: Display>(values: &[T]) -> String {
    let mut text = String::new();
    for value in values {
        if !text.is_empty() {
            text.push(SEPARATOR);
        }
        text += &value.to_string();
    }
    text
}
