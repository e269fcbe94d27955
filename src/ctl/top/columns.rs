//! Tables that fit the terminal: of more columns than there is room for, the least wanted are left
//! out. Plain text with a tone a cell; who draws decides on colours.

/// How a cell is to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As the rest.
    #[default]
    Plain,
    /// A title.
    Title,
    /// Worth a look.
    Warning,
    /// At an end.
    Alarm,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its letters.
    pub text: String,
    /// How it looks.
    pub tone: Tone,
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        let tone = Tone::Plain;
        Part { text, tone }
    }
}

/// A line.
pub type Line = Vec<Part>;

/// A column of rows of `T`.
pub struct Column<T: ?Sized> {
    /// What stands above it.
    pub title: &'static str,
    /// Its letters.
    pub width: usize,
    /// Whether its cells begin at the left.
    pub left: bool,
    /// The highest ranks are left out first; 0 never.
    pub rank: u8,
    /// A row's cell.
    pub cell: fn(&T) -> Part,
}

/// Two columns have this many letters between them.
const GAP: usize = 1;

/// The columns that fit into `width` letters, in their order.
pub fn fitting<T: ?Sized>(columns: &[Column<T>], width: usize) -> Vec<&Column<T>> {
    let mut kept: Vec<&Column<T>> = columns.iter().collect();
    let needed = |kept: &[&Column<T>]| kept.iter().map(|column| column.width + GAP).sum::<usize>();
    while needed(&kept) > width.saturating_add(GAP) {
        let worst = kept.iter().map(|column| column.rank).max().unwrap_or(0);
        if worst == 0 {
            break;
        }
        kept.retain(|column| column.rank < worst);
    }
    kept
}

fn padded(text: &str, width: usize, left: bool) -> String {
    match left {
        true => format!("{text:<width$} "),
        false => format!("{text:>width$} "),
    }
}

/// The titles; the one of index `marked` among all is followed by a sign.
pub fn titles<T: ?Sized>(columns: &[&Column<T>], marked: Option<&str>) -> Line {
    let line = columns.iter().map(|column| {
        let title = match marked == Some(column.title) {
            true => format!("{}*", column.title),
            false => column.title.to_owned(),
        };
        Part {
            text: padded(&title, column.width, column.left),
            tone: Tone::Title,
        }
    });
    line.collect()
}

/// A row's cells.
pub fn cells<T: ?Sized>(columns: &[&Column<T>], row: &T) -> Line {
    let line = columns.iter().map(|column| {
        let cell = (column.cell)(row);
        Part {
            text: padded(&cell.text, column.width, column.left),
            tone: cell.tone,
        }
    });
    line.collect()
}

/// A line as text, without blanks at its end.
pub fn text(line: &Line) -> String {
    let text: String = line.iter().map(|part| part.text.as_str()).collect();
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(title: &'static str, width: usize, rank: u8) -> Column<str> {
        Column {
            title,
            width,
            left: false,
            rank,
            cell: |row| row.to_owned().into(),
        }
    }

    #[test]
    fn the_least_wanted_columns_are_left_out() {
        let columns = [column("A", 5, 0), column("B", 5, 2), column("C", 5, 1)];
        let titles_at = |width| text(&titles(&fitting(&columns, width), Some("C")));
        assert_eq!(titles_at(17), "    A     B    C*\n");
        assert_eq!(titles_at(16), "    A    C*\n");
        assert_eq!(titles_at(1), "    A\n");
        assert_eq!(text(&cells(&fitting(&columns, 11), "x")), "    x     x\n");
    }
}
