//! Draws the state into a frame of any size: the list with the selected host's accounts below it, one
//! watched process, or the keys.
//!
//! Colours are left out if `NO_COLOR` is set; titles, the selected line and alarms differ without them too.

use super::columns::{TITLE, ViewPart};
use super::{state::View, tables};
use pyhost_os::terminal_text::plain;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::{Frame, text::Line};

/// Lines of the list that stay when the accounts take the rest.
const LEAST_LIST: u16 = 4;
/// Lines of the smallest terminal that shows the keys below.
const LEAST_WITH_FOOT: u16 = 6;
const FOOT: &str = "q quit  up/down select  s sort  r reverse  p pause  ? help";

/// Draws the state; `place` names the interval and the directory.
pub fn draw(frame: &mut Frame<'_>, state: &mut View, place: &str) {
    let area = frame.area();
    let foot = u16::from(area.height >= LEAST_WITH_FOOT);
    let [head, body, foot] = Layout::vertical([Length(1), Fill(1), Length(foot)]).areas(area);
    frame.render_widget(title(state, place), head);
    if state.help {
        draw_below(frame, body, [tables::help()]);
    } else if state.watched.is_some() {
        draw_below(frame, body, tables::watched(state, area.width));
    } else {
        draw_list(frame, body, state);
    }
    let dim = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Line::styled(FOOT, dim), foot);
    if !crate::output::may_have_colours() {
        for cell in &mut frame.buffer_mut().content {
            cell.fg = Color::Reset;
        }
    }
}

fn title(state: &View, place: &str) -> Line<'static> {
    let paused = if state.paused { "PAUSED  " } else { "" };
    let what = match (state.watched, state.hosts.len()) {
        (Some(_), _) => "pyhostctl top".to_owned(),
        (None, 1) => format!("1 host  by {}", state.sorted_by().to_lowercase()),
        (None, hosts) => format!("{hosts} hosts  by {}", state.sorted_by().to_lowercase()),
    };
    let order = match (state.watched, state.rising) {
        (None, true) => ", least first",
        _ => "",
    };
    let text = format!("{paused}{what}{order}  #{}  {}", state.number, plain(place));
    Line::styled(text, TITLE)
}

/// Draws the parts one below the other, as far as they fit.
fn draw_below(frame: &mut Frame<'_>, mut area: Rect, parts: impl IntoIterator<Item = ViewPart>) {
    for part in parts {
        let [mine, rest] = Layout::vertical([Length(part.height()), Fill(1)]).areas(area);
        frame.render_widget(part, mine);
        area = rest;
    }
}

/// Draws the list, scrolled to the selected host, and below it that host's accounts.
fn draw_list(frame: &mut Frame<'_>, area: Rect, state: &mut View) {
    let selected = state.selected();
    let mut details = vec![ViewPart::Lines(vec![Line::default()])];
    match selected.and_then(|place| state.hosts.get(place)) {
        Some(host) => {
            let command = host.record.header().command();
            let text = format!("process {}: {command}", host.entry.identity.pid);
            details.push(ViewPart::Lines(vec![Line::styled(text, TITLE)]));
            details.extend(tables::accounts(host, area.width));
        }
        None => details.push(ViewPart::Lines(vec![Line::raw("no host runs here")])),
    }
    // The titles, and the empty line below the list.
    let room = area.height.saturating_sub(2);
    let least = LEAST_LIST.min(room).max(1);
    let taken = details.iter().skip(1).map(ViewPart::height).sum();
    let hosts = state.hosts.len().min(u16::MAX.into()) as u16;
    let length = hosts.min(room.saturating_sub(taken).max(least));
    let list = Length((1 + length).min(area.height));
    let [list, below] = Layout::vertical([list, Fill(1)]).areas(area);
    if let ViewPart::Table(table, _) = tables::hosts(state, area.width) {
        state.list.select(selected);
        // No line stays empty while there are hosts above it.
        let offset = state.list.offset_mut();
        *offset = (*offset).min((hosts - length).into());
        frame.render_stateful_widget(*table, list, &mut state.list);
    }
    draw_below(frame, below, details);
}
