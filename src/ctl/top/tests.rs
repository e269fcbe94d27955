//! Draws hosts, also such whose files say anything, into terminals of any size; keys and their effect.

use super::sample::{Moment, SampledHost};
use super::state::View;
use super::{columns::ViewPart, draw::draw as draw_frame, tables};
use crate::{find, process::Usage};
use crossterm::event::KeyCode;
use pyhost_record::directory::{Entry, Identity};
use pyhost_record::{Record, blank, metrics::Pid};
use ratatui::{Terminal, backend::TestBackend};
use std::path::PathBuf;

fn host(record: Record, pid: i32) -> SampledHost {
    let identity = Identity::of_file_name(&format!("b-1-{pid}-2.live")).unwrap();
    SampledHost::at_once(find::FoundHost {
        name: Pid::of(&identity),
        entry: Entry {
            path: PathBuf::new(),
            identity,
        },
        record,
        usage: Usage::default(),
    })
}

/// The lines of a terminal of that size, with the state drawn.
fn drawn(state: &mut View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let place = "every 1 s  /run/pyhost\u{1b}[2J";
    terminal
        .draw(|frame| draw_frame(frame, state, place))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(move |x| buffer[(x, y)].symbol()).collect();
    (0..height).map(row).collect()
}

/// Draws a host in all forms; nothing but letters comes out.
pub fn draw(record: Record, alive: bool, width: u16) {
    let watched = (!alive).then_some(7);
    let mut state = View::new(watched);
    let ended = watched.map(|_| "was killed".to_owned());
    let hosts = vec![host(record, 7)];
    state.take(Moment { hosts, ended });
    let parts = match watched {
        None => vec![tables::hosts(&state, u16::MAX)],
        Some(_) => tables::watched(&state, u16::MAX),
    };
    let text: String = parts.into_iter().map(ViewPart::text).collect();
    let lines = text.lines().map(str::to_owned);
    for line in lines.chain(drawn(&mut state, width, 12)) {
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}

/// A host for each process id. They have booked nothing.
fn state_of(pids: &[i32]) -> View {
    let mut state = View::new(None);
    state.take(moment_of(pids));
    state
}

fn moment_of(pids: &[i32]) -> Moment {
    let record = || Record::of_bytes(&blank()).unwrap();
    let hosts = pids.iter().map(|&pid| host(record(), pid)).collect();
    Moment { hosts, ended: None }
}

#[test]
fn every_size_of_terminal_is_drawn() {
    for width in [1, 7, 20, 40, 79, 80, 132, 300] {
        for height in [1, 2, 3, 5, 10, 24, 60] {
            for count in [0, 1, 50] {
                let all: Vec<i32> = (1..=count).collect();
                let mut state = state_of(&all);
                for key in [KeyCode::End, KeyCode::Char('?'), KeyCode::Char('p')] {
                    let lines = drawn(&mut state, width, height);
                    assert_eq!(lines.len(), usize::from(height));
                    state.press(key);
                }
            }
        }
    }
}

#[test]
fn the_selected_host_stays_selected_and_in_sight() {
    let all: Vec<i32> = (1..=50).collect();
    let mut state = state_of(&all);
    let shown = |state: &mut View, pid: i32| {
        let lines = drawn(state, 80, 20);
        let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
        has(&format!("process {pid}:")) && has(&format!("{pid:>8} "))
    };
    assert!(shown(&mut state, 1));
    state.press(KeyCode::End);
    assert!(shown(&mut state, 50));
    state.press(KeyCode::Up);
    // Others end and start; the selected one stays.
    state.take(moment_of(&[49, 70, 71]));
    assert!(shown(&mut state, 49));
    // It ends: the one in its place is selected.
    state.take(moment_of(&[70, 71]));
    assert!(shown(&mut state, 70));
    state.take(moment_of(&[]));
    assert_eq!(state.selected(), None);
    state.take(moment_of(&[9]));
    assert_eq!(state.selected(), Some(0));
}
