//! A report as one line of JSON. Does not allocate; the writer may be a descriptor.

use crate::describe::Sink;
use std::fmt::{self, Display, Write};

/// Writes values as JSON. The writer remembers its own errors.
pub struct Json<'a, W: Write> {
    out: &'a mut W,
    /// Whether each open object or list already has a member, innermost in the lowest bit.
    has_member: u64,
    /// Whether each open one is a list.
    is_list: u64,
}

impl<'a, W: Write> Json<'a, W> {
    /// Opens the outermost object.
    pub fn new(out: &'a mut W) -> Self {
        let _ = out.write_char('{');
        Json {
            out,
            has_member: 0,
            is_list: 0,
        }
    }

    /// Closes the outermost object and the line.
    pub fn finish(self) {
        let _ = self.out.write_str("}\n");
    }

    fn key(&mut self, key: &str) {
        if self.has_member & 1 == 1 {
            let _ = self.out.write_char(',');
        }
        self.has_member |= 1;
        if self.is_list & 1 == 0 {
            self.string(key);
            let _ = self.out.write_char(':');
        }
    }

    pub fn shown(&mut self, key: &str, value: impl Display) {
        self.key(key);
        self.string(value);
    }

    fn string(&mut self, text: impl Display) {
        let _ = self.out.write_char('"');
        let _ = write!(Escaped(self.out), "{text}");
        let _ = self.out.write_char('"');
    }

    fn open(&mut self, key: &str, bracket: char, list: bool) {
        self.key(key);
        let _ = self.out.write_char(bracket);
        self.has_member <<= 1;
        self.is_list = self.is_list << 1 | u64::from(list);
    }
}

impl<W: Write> Sink for Json<'_, W> {
    fn begin(&mut self, key: &str) {
        self.open(key, '{', false);
    }

    fn begin_list(&mut self, key: &str) {
        self.open(key, '[', true);
    }

    fn end(&mut self) {
        let bracket = if self.is_list & 1 == 1 { ']' } else { '}' };
        let _ = self.out.write_char(bracket);
        self.has_member >>= 1;
        self.is_list >>= 1;
    }

    fn text(&mut self, key: &str, value: &str) {
        self.shown(key, value);
    }

    fn int(&mut self, key: &str, value: i64) {
        self.key(key);
        let _ = write!(self.out, "{value}");
    }

    fn fraction(&mut self, key: &str, value: f64) {
        self.key(key);
        let _ = write!(self.out, "{value:.6}");
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.key(key);
        let _ = write!(self.out, "{value}");
    }

    fn null(&mut self, key: &str) {
        self.key(key);
        let _ = self.out.write_str("null");
    }

    fn json(&mut self, key: &str, value: &str) {
        self.key(key);
        let _ = self.out.write_str(value);
    }
}

/// Writes the inside of a string.
struct Escaped<'a, W>(&'a mut W);

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| match letter {
            '"' | '\\' => write!(self.0, "\\{letter}"),
            '\n' => self.0.write_str("\\n"),
            '\t' => self.0.write_str("\\t"),
            control if control.is_control() => write!(self.0, "\\u{:04x}", control as u32),
            other => self.0.write_char(other),
        })
    }
}
