//! Collapsed stacks, as Brendan Gregg's scripts read them: a line a stack, its frames from the outermost in, and its
//! bytes; and a flame graph made of them, a picture that a browser shows.

use super::MADE_BY;
use crate::stacks::{Stacks, View};
use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{self, Direction, Options, TextTruncateDirection};
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

/// The picture of a view, with the outermost frames at the top.
pub fn picture(stacks: &Stacks, view: View) -> Result<Vec<u8>, String> {
    let text = self::text(stacks, view);
    if text.is_empty() {
        return Err(format!("has no bytes to draw in lines.{}", view.name()));
    }
    let mut options = Options::default();
    options.title = format!("{}: {} ({})", stacks.command, view.title(), view.name());
    // By these notes a later conversion knows that it may take the file's place.
    options.notes = MADE_BY.to_owned();
    options.count_name = "bytes".to_owned();
    options.direction = Direction::Inverted;
    // The function comes first in a frame's text.
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.colors = Palette::Basic(BasicPalette::Mem);
    // Colours by name and not by chance: the same report gives the same picture.
    options.deterministic = true;
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, text.lines(), &mut picture)
        .map_err(|error| format!("cannot be drawn ({error})"))?;
    Ok(picture)
}
