//! Text of others, made fit for a terminal: command lines, names of marks, paths.
//!
//! Whatever a file says, a reader's terminal gets letters alone: no escape sequence, no line more,
//! nothing that turns the direction of writing or takes no room.

#![deny(unsafe_code)]

use std::fmt::{self, Display, Write};

/// Whether a character steers the terminal or hides: controls, separators of lines, marks of
/// direction, what takes no room.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// A text that is shown with a space for every character that steers a terminal or hides.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a>(pub &'a str);

impl Display for Plain<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        PlainWriter(out).write_str(self.0)
    }
}

/// Passes a text on as [`Plain`] shows it.
pub struct PlainWriter<'a, W>(pub &'a mut W);

impl<W: Write> Write for PlainWriter<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut pieces = text.split(is_hidden);
        self.0.write_str(pieces.next().unwrap_or_default())?;
        pieces.try_for_each(|piece| {
            self.0.write_str(" ")?;
            self.0.write_str(piece)
        })
    }
}

/// The text as [`Plain`] shows it. Allocates.
pub fn plain(text: &str) -> String {
    Plain(text).to_string()
}

/// The text at the start of bytes. It ends at the first zero byte, or at the first byte that is not UTF-8.
pub fn leading_text(bytes: &[u8]) -> &str {
    whole_letters(bytes.split(|&byte| byte == 0).next().unwrap_or_default())
}

/// The text at the start of bytes, up to the first that is not UTF-8: of a text that is cut, its whole letters.
pub fn whole_letters(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn only_letters_are_left() {
        assert_eq!(plain("a\u{1b}[31mb\nc\u{9b}2J\u{7f}"), "a [31mb c 2J ");
        assert_eq!(plain("x\u{202e}cod.exe\u{200b}"), "x cod.exe ");
        let letters = "caf\u{e9} \u{1f40d} \u{65e5}";
        assert_eq!(plain(letters), letters);
    }
}
