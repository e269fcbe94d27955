//! `pyhostctl top`: the running hosts, or one of them, in the terminal, updated at an interval.
//!
//! One thread reads the hosts ([`sample`]), draws the [`state`] ([`draw`]), and waits for keys, signals or the next
//! moment ([`terminal`]). [`tables`] makes the tables; [`columns`] fits them to the
//! width. [`list`] prints the hosts once. Without a terminal it prints one table, as with `--once`.

pub mod columns;
mod draw;
mod sample;
mod state;
pub mod tables;
mod terminal;
#[cfg(any(test, fuzzing))]
pub mod tests;

use crate::find::{self, Directories, FoundHost};
use crate::output::{Failure, print};
use clap::Args;
use columns::ViewPart;
use pyhost_ledger::Scope;
use pyhost_os::{bytes::Bytes, clock, duration};
use pyhost_record::metrics::Pid;
use ratatui::Frame;
use sample::{SampledHost, Sampler};
use state::{Step, View};
use std::time::{Duration, Instant};
use std::{fmt::Display, io::IsTerminal, os::unix::fs::MetadataExt};
use terminal::{Keys, Screen, Wake};

/// The time between two readings if none is named, and its bounds.
const INTERVAL: Duration = Duration::from_secs(1);
const LEAST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(3600);

fn interval(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "expected a time between 50ms and 1h, such as 500ms, 1s or 2m";
    duration::parse(text, Some("s"), LEAST..=MOST).ok_or(EXPECTED)
}

fn shown(interval: Duration) -> String {
    match interval.as_millis() {
        short if short % 1000 != 0 => format!("{short} ms"),
        long => format!("{} s", long / 1000),
    }
}

#[derive(Debug, Args)]
pub struct TopOptions {
    /// How often to look: 50ms to 1h; a number alone is of seconds [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,

    /// List the hosts, or the accounts of one, and end; with --interval, with rates over it. If standard input or
    /// output is no terminal, top does so, too, with rates
    #[arg(long)]
    pub once: bool,

    /// The host to watch, to its end; without it, all of them
    #[arg(value_name = "PID")]
    pub pid: Option<Pid>,
}

/// Watches until the user or a signal ends it.
pub fn run(options: &TopOptions, directories: &Directories) -> Result<(), Failure> {
    if let (true, None, None) = (options.once, options.interval, options.pid) {
        return list(directories);
    }
    let sampler = Sampler::new(directories, options.pid.as_ref())?;
    let dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if options.once || !terminal || dumb {
        return once(sampler, options);
    }
    let cannot = |error| Failure(format!("the terminal cannot be used ({error})"));
    let mut keys = Keys::listen().map_err(cannot)?;
    let mut screen = Screen::enter().map_err(cannot)?;
    let watched = watch(sampler, options, directories, &mut keys, &mut screen);
    drop(screen);
    keys.follow_signal();
    watched
}

/// One table, with what moved in one interval.
fn once(mut sampler: Sampler, options: &TopOptions) -> Result<(), Failure> {
    let mut moment = sampler.look()?;
    let has_rates = !options.once || options.interval.is_some();
    if has_rates && !moment.hosts.is_empty() && moment.ended.is_none() {
        std::thread::sleep(options.interval.unwrap_or(INTERVAL));
        moment = sampler.look()?;
    }
    let mut state = View::new(options.pid.map(|name| name.id));
    state.take(moment);
    let parts = match options.pid {
        None => vec![tables::hosts(&state, u16::MAX)],
        Some(_) => tables::watched(&state, u16::MAX),
    };
    print(&parts.into_iter().map(ViewPart::text).collect::<String>())
}

fn watch(
    mut sampler: Sampler,
    options: &TopOptions,
    directories: &Directories,
    keys: &mut Keys,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let cannot = |error| Failure(format!("the terminal cannot be used ({error})"));
    let mut state = View::new(options.pid.map(|name| name.id));
    let interval = options.interval.unwrap_or(INTERVAL);
    let place = directories.to_string().replace('\'', "");
    let place = format!("every {}  {place}", shown(interval));
    let mut next = Instant::now();
    loop {
        if state.looks() && Instant::now() >= next {
            state.take(sampler.look()?);
            next = Instant::now() + interval;
        }
        let draw = |frame: &mut Frame<'_>| draw::draw(frame, &mut state, &place);
        screen.terminal.draw(draw).map_err(cannot)?;
        let left = || next.saturating_duration_since(Instant::now());
        let time = state.looks().then(left);
        match keys.wait(time).map_err(cannot)? {
            Wake::Look => {}
            Wake::Continued => screen.again().map_err(cannot)?,
            Wake::Ended => return Ok(()),
            Wake::Gone => return Err(Failure("the terminal is gone".to_owned())),
            Wake::Keys(pressed) => {
                for key in pressed {
                    match state.press(key) {
                        Step::On => {}
                        Step::Redraw => screen.again().map_err(cannot)?,
                        Step::Leave => return Ok(()),
                    }
                }
            }
        }
    }
}

/// The columns of standard output: those of a terminal, and no end of them for a program that reads it.
pub fn width() -> u16 {
    let size = std::io::stdout()
        .is_terminal()
        .then(crossterm::terminal::size);
    size.and_then(Result::ok)
        .map_or(u16::MAX, |(columns, _)| columns)
}

/// `--once`: the hosts that run, a line each, with whole command lines, and with their users if there are several.
fn list(directories: &Directories) -> Result<(), Failure> {
    let columns = usize::from(width());
    let hosts = find::running(directories)?.hosts;
    let lengths = hosts.iter().map(|host| host.name.to_string().len());
    let wide = lengths.max().unwrap_or(0).max(8);
    let user = |host: &FoundHost| host.entry.path.metadata().map_or(0, |it| it.uid());
    let mut users: Vec<u32> = hosts.iter().map(user).collect();
    users.sort_unstable();
    let has_several = users.first() != users.last();
    let shown_user = |user: &dyn Display| match has_several {
        true => format!("{user:>10} "),
        false => String::new(),
    };
    let mut text = shown_user(&"UID");
    text += &format!(
        "{:>wide$} {:>10} {:>11} {:>11} {:>11} {:>11} {:>17} {:>8}  COMMAND\n",
        "PID", "TIME", "LIVE", "PEAK", "RESIDENT", "RES PEAK", "CAP (AGE)", "REFUSED"
    );
    for host in hosts {
        let name = host.name.to_string();
        let mut row = shown_user(&user(&host));
        let host = SampledHost::at_once(host);
        let header = host.record.header();
        let figures = host.total();
        let shown = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |it| Bytes(it).to_string());
        let mut cap = shown(host.cap(Scope::Total).map(|used| used.cap));
        // One that follows a limit is of the moment when the host looked last.
        let age = header.cap_age(clock::monotonic());
        if let Some(age @ 1..) = age.map(|seconds| seconds as u64) {
            cap += &format!(" ({age} s)");
        }
        let [live, peak] = [figures.live_bytes, figures.peak_bytes].map(Bytes);
        let (time, resident) = (tables::clock(host.seconds), shown(host.usage.resident));
        let (refused, command) = (figures.refused, header.whole_command());
        row += &format!("{name:>wide$} {time:>10} {live:>11} {peak:>11} {resident:>11} ");
        let most = shown(host.usage.peak_resident);
        row += &format!("{most:>11} {cap:>17} {refused:>8}  {command}");
        text.extend(row.chars().take(columns).chain(['\n']));
    }
    print(&text)
}
