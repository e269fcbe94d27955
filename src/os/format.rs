//! Text without allocation, in a buffer of the caller's, cut if that is full.

use std::{ffi::CStr, fmt, io::Write};

/// The bytes of a text.
pub fn format_into<'a>(buffer: &'a mut [u8], text: fmt::Arguments<'_>) -> &'a [u8] {
    let mut rest = &mut *buffer;
    let _ = rest.write_fmt(text);
    let left = rest.len();
    &buffer[..buffer.len() - left]
}

/// The text, of which a letter that is cut is left out.
pub fn text_into<'a>(buffer: &'a mut [u8], text: fmt::Arguments<'_>) -> &'a str {
    let bytes = format_into(buffer, text);
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// The text as C has it.
pub fn c_text_into<'a>(buffer: &'a mut [u8], text: fmt::Arguments<'_>) -> &'a CStr {
    let most = buffer.len() - 1;
    let length = format_into(&mut buffer[..most], text).len();
    buffer[length] = 0;
    CStr::from_bytes_until_nul(buffer).unwrap_or_default()
}
