//! Collapsed stacks, as Brendan Gregg's scripts read them: a line a stack, its frames from the outermost in, and its
//! bytes.

use crate::stacks::{Stacks, View};
use std::fmt::Write;

/// A line for each site of the view: the account, the frames, the bytes.
pub fn text(stacks: &Stacks, view: View) -> String {
    let mut text = String::new();
    for site in stacks.of_view(view) {
        // Readers take a line that begins with this sign for a comment.
        text += &frame(&site.account).replace('#', "?");
        for call in stacks.frames_of(site) {
            text.push(';');
            text += &frame(&call.to_string());
        }
        let _ = writeln!(text, " {}", site.amount(view).bytes);
    }
    text
}

/// A frame without the sign that ends frames. Line ends are replaced already: see [`crate::stacks::named`].
fn frame(text: &str) -> String {
    text.replace(';', ":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::tests::{assert_has, sample};

    #[test]
    fn a_line_begins_with_the_account_and_ends_with_the_innermost_call() {
        let text = text(&sample(), View::AtPeak);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "obj;<module> (/job.py:9);load (/job.py:3) 1000");
        assert_eq!(lines[1], "raw;outside of Python code 400");
    }

    #[test]
    fn names_neither_end_a_frame_nor_a_line() {
        let text = text(&sample(), View::Allocated);
        assert_has(&text, &["obj;a:b  [31m (dir/a:b .py:1) 70\n"]);
    }
}
