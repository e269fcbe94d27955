//! Text without allocation.

use std::fmt::{self, Write};

/// Formats into a buffer of the caller's, cut if it is full.
pub fn format_into<'a>(buffer: &'a mut [u8], text: fmt::Arguments<'_>) -> &'a [u8] {
    struct Cursor<'a>(&'a mut [u8], usize);
    impl Write for Cursor<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let count = text.len().min(self.0.len() - self.1);
            self.0[self.1..self.1 + count].copy_from_slice(&text.as_bytes()[..count]);
            self.1 += count;
            Ok(())
        }
    }
    let mut cursor = Cursor(buffer, 0);
    let _ = cursor.write_fmt(text);
    let length = cursor.1;
    &buffer[..length]
}
