//! The state of the view: the last moment, the order, the selected host; and the effect of keys.

use super::keys::Key;
use super::sample::{Moment, SampledHost};
use pyhost_record::directory::Identity;
use ratatui::widgets::TableState;
use std::cmp::Ordering;

/// A column that the hosts can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Live bytes.
    Live,
    /// The highest live bytes.
    Peak,
    /// Resident bytes.
    Resident,
    /// How much of a cap is used.
    Used,
    /// Allocations a second.
    Allocations,
    /// Growth a second.
    Growth,
    /// Requests that a cap refused.
    Refused,
    /// Time since the start.
    Time,
    /// Process id.
    Pid,
}

impl Sort {
    /// All, with the titles of their columns.
    const ALL: [(Sort, &str); 9] = [
        (Sort::Live, "LIVE"),
        (Sort::Peak, "PEAK"),
        (Sort::Resident, "RESIDENT"),
        (Sort::Used, "USED"),
        (Sort::Allocations, "ALLOC/S"),
        (Sort::Growth, "GROWTH/S"),
        (Sort::Refused, "REFUSED"),
        (Sort::Time, "TIME"),
        (Sort::Pid, "PID"),
    ];

    /// The title of its column.
    pub fn title(self) -> &'static str {
        Sort::ALL[self as usize].1
    }

    fn next(self) -> Self {
        Sort::ALL[(self as usize + 1) % Sort::ALL.len()].0
    }

    /// The value to sort by; an unknown value is the least.
    fn value(self, host: &SampledHost) -> f64 {
        let snapshot = &host.record.snapshot;
        let rates = || host.total_rates();
        match self {
            Sort::Live => snapshot.total_live_bytes as f64,
            Sort::Peak => snapshot.total_peak_bytes as f64,
            Sort::Resident => host.resident.map_or(-1.0, |bytes| bytes as f64),
            Sort::Used => host.fullest().map_or(-1.0, |used| used.percent() as f64),
            Sort::Allocations => rates().map_or(-1.0, |rates| rates.allocations),
            Sort::Growth => rates().map_or(f64::MIN, |rates| rates.growth),
            Sort::Refused => snapshot.refused() as f64,
            Sort::Time => host.seconds as f64,
            Sort::Pid => host.identity.pid.into(),
        }
    }
}

/// The effect of a key on the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    On,
    /// Draw everything anew.
    Redraw,
    /// End.
    Leave,
}

/// The state of the view.
pub struct View {
    /// The process that is watched, where it is one.
    pub watched: Option<i32>,
    /// The hosts, in the order in which they are shown.
    pub hosts: Vec<SampledHost>,
    /// How the watched process ended.
    pub ended: Option<String>,
    /// How many moments were taken.
    pub number: u64,
    /// The column by which the hosts are sorted.
    pub sort: Sort,
    /// The smallest first.
    pub rising: bool,
    /// Nothing new is looked at.
    pub paused: bool,
    /// The help on the keys is shown.
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
            hosts: Vec::new(),
            ended: None,
            number: 0,
            sort: Sort::Live,
            rising: false,
            paused: false,
            help: false,
            list: TableState::new(),
            selected: None,
        }
    }

    /// Whether there is something to look at.
    pub fn looks(&self) -> bool {
        !self.paused && self.ended.is_none()
    }

    /// Shows a moment. Where the selected host is gone, the one in its place is selected.
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
        let (sort, rising) = (self.sort, self.rising);
        self.hosts.sort_by(|a, b| {
            let order = sort.value(a).total_cmp(&sort.value(b));
            let order = if rising { order } else { order.reverse() };
            order.then_with(|| -> Ordering { a.identity.pid.cmp(&b.identity.pid) })
        });
    }

    fn place_of_selected(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.hosts
            .iter()
            .position(|host| host.identity == *selected)
    }

    /// The index of the selected host.
    pub fn selected(&self) -> Option<usize> {
        let first = (!self.hosts.is_empty()).then_some(0);
        self.place_of_selected().or(first)
    }

    fn select(&mut self, place: usize) {
        self.selected = self.hosts.get(place).map(|host| host.identity.clone());
    }

    /// Does what a key asks for.
    pub fn press(&mut self, key: Key) -> Step {
        let place = self.selected().unwrap_or(0);
        let last = self.hosts.len().saturating_sub(1);
        match key {
            Key::Leave | Key::Letter('?') if self.help => self.help = false,
            Key::Leave | Key::Letter('q') => return Step::Leave,
            Key::Redraw => return Step::Redraw,
            Key::Letter('?' | 'h') => self.help = true,
            Key::Letter('p' | ' ') => self.paused = !self.paused,
            Key::Letter('s') => {
                self.sort = self.sort.next();
                self.order();
            }
            Key::Letter('r') => {
                self.rising = !self.rising;
                self.order();
            }
            Key::Up | Key::Letter('k') => self.select(place.saturating_sub(1)),
            Key::Down | Key::Letter('j') => self.select((place + 1).min(last)),
            Key::First => self.select(0),
            Key::Last => self.select(last),
            Key::Letter(_) => {}
        }
        Step::On
    }
}
