//! Text of others, made fit for a terminal: command lines, names of marks, paths.
//!
//! Whatever a file says, a reader's terminal gets letters alone: no escape sequence, no line more,
//! nothing that turns the direction of writing or takes no room. Allocates.

#![deny(unsafe_code)]

/// Whether a character steers the terminal or hides: controls, separators of lines, marks of
/// direction, what takes no room.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// The text with a space for every character that steers a terminal or hides.
pub fn plain(text: &str) -> String {
    text.replace(is_hidden, " ")
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn only_letters_are_left() {
        assert_eq!(plain("a\u{1b}[31mb\nc\u{9b}2J\u{7f}"), "a [31mb c 2J ");
        assert_eq!(plain("x\u{202e}cod.exe\u{200b}"), "x cod.exe ");
        assert_eq!(
            plain("caf\u{e9} \u{1f40d} \u{65e5}"),
            "caf\u{e9} \u{1f40d} \u{65e5}"
        );
    }
}
