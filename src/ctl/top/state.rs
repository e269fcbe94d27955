//! The state of the view: the last moment, the order, the selected host; and the effect of keys.

use super::sample::{Moment, SampledHost};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pyhost_ledger::Scope;
use pyhost_record::directory::Identity;
use ratatui::widgets::TableState;
use std::cmp::Ordering;

/// The title of a column that the hosts can be sorted by, and its value; an unknown value is the least.
type Sort = (&'static str, fn(&SampledHost) -> Option<f64>);

const SORTS: [Sort; 10] = [
    ("LIVE", |host| Some(host.total().live_bytes as f64)),
    ("PEAK", |host| Some(host.total().peak_bytes as f64)),
    ("RESIDENT", |host| Some(host.usage.resident? as f64)),
    ("RES PEAK", |host| Some(host.usage.peak_resident? as f64)),
    ("USED", |host| Some(host.fullest()?.percent() as f64)),
    ("ALLOC/S", |host| {
        Some(host.rates(Scope::Total)?.allocations)
    }),
    ("GROWTH/S", |host| Some(host.rates(Scope::Total)?.growth)),
    ("REFUSED", |host| Some(host.total().refused as f64)),
    ("TIME", |host| Some(host.seconds as f64)),
    ("PID", |host| Some(host.entry.identity.pid.into())),
];

/// The effect of a key on the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    On,
    Redraw,
    Leave,
}

#[derive(Default)]
pub struct View {
    pub watched: Option<i32>,
    /// The hosts, in the order in which they are shown.
    pub hosts: Vec<SampledHost>,
    pub ended: Option<String>,
    /// How many moments were taken.
    pub number: u64,
    /// The index in [`SORTS`].
    sort: usize,
    /// The smallest first.
    pub rising: bool,
    pub paused: bool,
    pub help: bool,
    /// The list's selected line and the first that is shown.
    pub list: TableState,
    /// The host that was selected; None as long as nobody has: then the first of the list is.
    selected: Option<Identity>,
}

impl View {
    /// Nothing was looked at yet.
    pub fn new(watched: Option<i32>) -> Self {
        View {
            watched,
            ..View::default()
        }
    }

    /// The title of the column by which the hosts are sorted.
    pub fn sorted_by(&self) -> &'static str {
        SORTS[self.sort].0
    }

    pub fn looks(&self) -> bool {
        !self.paused && self.ended.is_none()
    }

    /// Shows a moment. If the selected host is gone, the one in its place is selected.
    pub fn take(&mut self, moment: Moment) {
        let place = self.selected();
        self.hosts = moment.hosts;
        self.ended = moment.ended;
        self.number += 1;
        self.order();
        if self.selected.is_some() && self.place_of_selected().is_none() {
            let last = self.hosts.len().saturating_sub(1);
            self.select(place.unwrap_or(0).min(last));
        }
    }

    fn order(&mut self) {
        let ((_, value), rising) = (SORTS[self.sort], self.rising);
        self.hosts.sort_by(|a, b| {
            let [one, other] = [a, b].map(|host| value(host).unwrap_or(f64::MIN));
            let order = one.total_cmp(&other);
            let order = if rising { order } else { order.reverse() };
            order.then_with(|| -> Ordering { a.entry.identity.pid.cmp(&b.entry.identity.pid) })
        });
    }

    fn place_of_selected(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.hosts
            .iter()
            .position(|host| host.entry.identity == *selected)
    }

    pub fn selected(&self) -> Option<usize> {
        let first = (!self.hosts.is_empty()).then_some(0);
        self.place_of_selected().or(first)
    }

    fn select(&mut self, place: usize) {
        let host = self.hosts.get(place);
        self.selected = host.map(|host| host.entry.identity.clone());
    }

    pub fn press(&mut self, key: impl Into<KeyEvent>) -> Step {
        let key: KeyEvent = key.into();
        let (code, modifiers) = (key.code, key.modifiers);
        let place = self.selected().unwrap_or(0);
        let last = self.hosts.len().saturating_sub(1);
        let has_control = modifiers == KeyModifiers::CONTROL;
        let leaves = code == KeyCode::Esc || code == KeyCode::Char('c') && has_control;
        match code {
            _ if leaves && !self.help => return Step::Leave,
            _ if leaves => self.help = false,
            KeyCode::Char('l') if has_control => return Step::Redraw,
            KeyCode::Char(_) if !(modifiers - KeyModifiers::SHIFT).is_empty() => {}
            KeyCode::Char('q') => return Step::Leave,
            KeyCode::Char('?') => self.help = !self.help,
            KeyCode::Char('h') => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => {
                self.sort = (self.sort + 1) % SORTS.len();
                self.order();
            }
            KeyCode::Char('r') => {
                self.rising = !self.rising;
                self.order();
            }
            KeyCode::Up | KeyCode::Char('k') => self.select(place.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select((place + 1).min(last)),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(last),
            _ => {}
        }
        Step::On
    }
}
