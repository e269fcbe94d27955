//! Tables that fit the terminal: columns of high rank are left out when the width is too small.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Position, Rect, Size};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table, Widget};

/// A column of rows of `T`.
pub struct Column<T: ?Sized> {
    pub title: &'static str,
    pub width: u16,
    pub left: bool,
    /// Columns of the highest rank are left out first; rank 0 stays.
    pub rank: u8,
    pub cell: fn(&T) -> Span<'static>,
}

/// A column whose cells end at the right.
pub const fn right<T: ?Sized>(
    title: &'static str,
    width: u16,
    rank: u8,
    cell: fn(&T) -> Span<'static>,
) -> Column<T> {
    Column {
        title,
        width,
        left: false,
        rank,
        cell,
    }
}

/// A column whose cells begin at the left. It is never left out.
pub const fn left<T: ?Sized>(
    title: &'static str,
    width: u16,
    cell: fn(&T) -> Span<'static>,
) -> Column<T> {
    Column {
        left: true,
        ..right(title, width, 0, cell)
    }
}

/// Letters between two columns.
const GAP: u16 = 1;
/// The width of the longest command line: 83 letters, each at most two cells wide.
const LONGEST: u16 = 166;

pub enum ViewPart {
    Lines(Vec<Line<'static>>),
    /// A table, and its size with the titles.
    Table(Box<Table<'static>>, Size),
}

pub const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);

/// The columns that fit into `width` letters, in their order.
fn fitting<T: ?Sized>(columns: &[Column<T>], width: u16) -> Vec<&Column<T>> {
    let mut kept: Vec<&Column<T>> = columns.iter().collect();
    let needed = |kept: &[&Column<T>]| kept.iter().map(|column| column.width + GAP).sum::<u16>();
    while needed(&kept) > width.saturating_add(GAP) {
        let worst = kept.iter().map(|column| column.rank).max().unwrap_or(0);
        if worst == 0 {
            break;
        }
        kept.retain(|column| column.rank < worst);
    }
    kept
}

/// A table of `rows` in `width` letters; `sorted` is the title that gets an asterisk. The last column
/// takes the rest of the width if its cells begin at the left.
pub fn table<'a, T: ?Sized + 'a>(
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = &'a T>,
    sorted: Option<&str>,
    width: u16,
) -> ViewPart {
    let columns = fitting(columns, width);
    let last = columns.len().saturating_sub(1);
    let mut left = width;
    let widths = columns.iter().enumerate().map(|(place, column)| {
        let width = match place == last && column.left {
            true => left.min(LONGEST),
            // A figure that is cut at its start would be another one.
            false if place > 0 && column.width > left => 0,
            false => column.width.min(left),
        };
        left = left.saturating_sub(width + GAP);
        width
    });
    let widths: Vec<u16> = widths.collect();
    let aligned = |column: &Column<T>, cell: Span<'static>| {
        Line::from(cell).alignment(match column.left {
            true => Alignment::Left,
            false => Alignment::Right,
        })
    };
    let titles = columns.iter().map(|column| {
        let is_sorted = sorted == Some(column.title);
        let sign = if is_sorted { "*" } else { "" };
        aligned(column, format!("{}{sign}", column.title).into())
    });
    let titles = Row::new(titles.collect::<Vec<_>>()).style(TITLE);
    let rows = rows.into_iter().map(|row| {
        let cells = columns
            .iter()
            .map(|column| aligned(column, (column.cell)(row)));
        Row::new(cells.collect::<Vec<_>>())
    });
    let rows: Vec<Row<'static>> = rows.collect();
    let size = Size {
        width: widths.iter().map(|width| width + GAP).sum(),
        height: rows.len().saturating_add(1).min(u16::MAX.into()) as u16,
    };
    let table = Table::new(rows, widths)
        .header(titles)
        .column_spacing(GAP)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    ViewPart::Table(Box::new(table), size)
}

impl ViewPart {
    pub fn height(&self) -> u16 {
        match self {
            ViewPart::Lines(lines) => lines.len().min(u16::MAX.into()) as u16,
            ViewPart::Table(_, size) => size.height,
        }
    }

    /// Its text without colours, and without blanks at the ends of lines.
    pub fn text(self) -> String {
        let lines: Vec<String> = match self {
            ViewPart::Lines(lines) => lines.iter().map(Line::to_string).collect(),
            ViewPart::Table(table, size) => {
                let mut buffer = Buffer::empty(Rect::from((Position::ORIGIN, size)));
                (*table).render(buffer.area, &mut buffer);
                (0..size.height)
                    .map(|line| text_of(&buffer, line))
                    .collect()
            }
        };
        let lines = lines.iter().map(|line| line.trim_end());
        lines.flat_map(|line| [line, "\n"]).collect()
    }
}

/// The letters of a line. A letter that is two cells wide has an empty cell behind it.
fn text_of(buffer: &Buffer, line: u16) -> String {
    let (mut text, mut column) = (String::new(), 0);
    while column < buffer.area.width {
        let symbol = buffer[(column, line)].symbol();
        text.push_str(symbol);
        column += Span::raw(symbol).width().max(1) as u16;
    }
    text
}

impl Widget for ViewPart {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        match self {
            ViewPart::Lines(lines) => {
                for (line, row) in lines.into_iter().zip(area.rows()) {
                    line.render(row, buffer);
                }
            }
            ViewPart::Table(table, _) => Widget::render(*table, area, buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(row: &str) -> Span<'static> {
        row.to_owned().into()
    }

    #[test]
    fn the_least_wanted_columns_are_left_out() {
        let columns = [("A", 0), ("B", 2), ("C", 1)];
        let columns = columns.map(|(title, rank)| right(title, 5, rank, cell));
        let text_at = |width| table(&columns, ["x"], Some("C"), width).text();
        assert_eq!(text_at(17), "    A     B    C*\n    x     x     x\n");
        assert_eq!(text_at(16), "    A    C*\n    x     x\n");
        assert_eq!(text_at(10), "    A\n    x\n");
        assert_eq!(text_at(5), "    A\n    x\n");
        assert_eq!(text_at(3), "  A\n  x\n");
        let columns = ["A", "B"].map(|title| right(title, 5, 0, cell));
        let text = table(&columns, ["12345"], None, 10).text();
        assert_eq!(text, "    A\n12345\n");
    }

    #[test]
    fn the_last_column_takes_the_rest_and_wide_letters_two_cells() {
        let columns = [right("A", 5, 0, cell), left("B", 5, cell)];
        let text = table(&columns, ["\u{65e5}\u{672c}"], None, 16).text();
        assert_eq!(text, "    A B\n \u{65e5}\u{672c} \u{65e5}\u{672c}\n");
    }
}
