//! Draws what the state says into a frame of any size: the list with the selected host's accounts
//! below it, one watched process, or the keys.
//!
//! Colours are left out where `NO_COLOR` is set; titles, the selected line and alarms differ without
//! them too.

use super::columns::{Line, Tone};
use super::state::State;
use super::tables;
use pyhost_os::plain::plain;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Lines of the list that stay when the accounts take the rest.
const LEAST_LIST: usize = 4;
/// Lines of a terminal that has one for the keys.
const LEAST_WITH_FOOT: usize = 6;
const FOOT: &str = "q quit  up/down select  s sort  r reverse  p pause  ? help";

/// Draws; `place` says how often is looked where.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, place: &str) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut lines = vec![(head(state, place), false)];
    let foot = usize::from(height >= LEAST_WITH_FOOT);
    let body = height.saturating_sub(1 + foot);
    if state.help {
        lines.extend(tables::help().into_iter().map(|line| (line, false)));
    } else if state.watched.is_some() {
        let watched = tables::watched(state, width);
        lines.extend(watched.into_iter().map(|line| (line, false)));
    } else {
        lines.extend(list(state, width, body));
    }
    for (row, (line, selected)) in lines.iter().enumerate().take(height - foot) {
        write(frame, area, row, line, *selected, colours);
    }
    if foot > 0 {
        let foot = Span::styled(FOOT, Style::new().add_modifier(Modifier::DIM));
        frame
            .buffer_mut()
            .set_span(area.x, area.bottom() - 1, &foot, area.width);
    }
}

fn head(state: &State, place: &str) -> Line {
    let paused = if state.paused { "PAUSED  " } else { "" };
    let what = match (state.watched, state.hosts.len()) {
        (Some(_), _) => "pyhostctl top".to_owned(),
        (None, 1) => format!("1 host  by {}", state.sort.title().to_lowercase()),
        (None, hosts) => format!("{hosts} hosts  by {}", state.sort.title().to_lowercase()),
    };
    let order = match (state.watched, state.rising) {
        (None, true) => ", least first",
        _ => "",
    };
    let text = format!("{paused}{what}{order}  #{}  {}", state.number, plain(place));
    let tone = Tone::Title;
    vec![super::columns::Part { text, tone }]
}

/// The list, scrolled to the selected host, and below it that host's accounts.
fn list(state: &mut State, width: usize, room: usize) -> Vec<(Line, bool)> {
    let mut table = tables::hosts(state, width).into_iter();
    let titles = table.next().unwrap_or_default();
    let selected = state.selected();
    let details = match selected.and_then(|place| state.hosts.get(place)) {
        Some(host) => {
            let mut details = vec![vec![super::columns::Part {
                text: format!(
                    "process {}: {}",
                    host.identity.pid,
                    host.record.card().command()
                ),
                tone: Tone::Title,
            }]];
            details.extend(tables::accounts(host, width));
            details
        }
        None => vec![Line::from([String::from("no host runs here").into()])],
    };
    // Titles and an empty line are between them.
    let room = room.saturating_sub(2);
    let wanted = state.hosts.len();
    let least = LEAST_LIST.min(room).max(1);
    let length = wanted.min(room.saturating_sub(details.len()).max(least));
    let place = selected.unwrap_or(0);
    state.top = state.top.min(wanted.saturating_sub(length));
    state.top = state
        .top
        .clamp((place + 1).saturating_sub(length.max(1)), place);
    let mut lines = vec![(titles, false)];
    let rows = table.enumerate().skip(state.top).take(length);
    lines.extend(rows.map(|(row, line)| (line, selected == Some(row))));
    lines.push((Line::new(), false));
    lines.extend(details.into_iter().map(|line| (line, false)));
    lines
}

fn write(
    frame: &mut Frame<'_>,
    area: Rect,
    row: usize,
    line: &Line,
    selected: bool,
    colours: bool,
) {
    let y = area.y + row as u16;
    let mut x = area.x;
    for part in line {
        let left = area.right().saturating_sub(x);
        let span = Span::styled(part.text.as_str(), style(part.tone, colours));
        (x, _) = frame.buffer_mut().set_span(x, y, &span, left);
    }
    if selected {
        let whole = Rect::new(area.x, y, area.width, 1);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        frame.buffer_mut().set_style(whole, reversed);
    }
}

fn style(tone: Tone, colours: bool) -> Style {
    let coloured = |colour: Color| match colours {
        true => Style::new().fg(colour),
        false => Style::new(),
    };
    match tone {
        Tone::Plain => Style::new(),
        Tone::Title => Style::new().add_modifier(Modifier::BOLD),
        Tone::Warning => coloured(Color::Yellow),
        Tone::Alarm => coloured(Color::Red).add_modifier(Modifier::BOLD),
    }
}
