//! The tables and texts that `top` shows: the hosts, a host's accounts, the keys.
//!
//! Texts of the hosts are made plain here, so that no name that a script gives itself steers the terminal.

use super::columns::{Column, TITLE, ViewPart, left, right, table};
use super::sample::{Rates, SampledHost, Use};
use super::state::View;
use crate::summary::signed;
use pyhost_ledger::{AccountFigures, REPORTED, Scope};
use pyhost_os::{bytes::Bytes, terminal_text::plain};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// How many of the last marks are shown.
const LAST_MARKS: u64 = 3;

const WARNING: Style = Style::new().fg(Color::Yellow);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

const HOSTS: &[Column<SampledHost>] = &[
    right("PID", 8, 0, |host| {
        host.entry.identity.pid.to_string().into()
    }),
    right("TIME", 9, 9, |host| clock(host.seconds).into()),
    right("LIVE", 11, 0, |host| bytes(host.total().live_bytes)),
    right("PEAK", 11, 5, |host| bytes(host.total().peak_bytes)),
    right("RESIDENT", 11, 4, |host| maybe(host.usage.resident)),
    right("RES PEAK", 11, 8, |host| maybe(host.usage.peak_resident)),
    right("CAP", 11, 7, |host| {
        maybe(host.cap(Scope::Total).map(|used| used.cap))
    }),
    right("USED", 16, 3, |host| bar(host.fullest())),
    right("ALLOC/S", 9, 6, |host| {
        allocations(host.rates(Scope::Total))
    }),
    right("GROWTH/S", 12, 2, |host| growth(host.rates(Scope::Total))),
    right("REFUSED", 8, 10, |host| count(host.total().refused)),
    left("COMMAND", 14, |host| host.record.header().command().into()),
];

/// A row of a host's accounts: one of them, or their total.
struct AccountRow {
    scope: Scope,
    figures: AccountFigures,
    rates: Option<Rates>,
    cap: Option<Use>,
}

impl AccountRow {
    fn new(host: &SampledHost, scope: Scope) -> Self {
        AccountRow {
            scope,
            figures: host.figures(scope),
            rates: host.rates(scope),
            cap: host.cap(scope),
        }
    }

    /// A figure that only an account has.
    fn of_account(&self, figure: u64, shown: fn(u64) -> Span<'static>) -> Span<'static> {
        self.scope.account().map_or(nothing(), |_| shown(figure))
    }
}

const ACCOUNTS: &[Column<AccountRow>] = &[
    left("ACCOUNT", 8, |row| row.scope.name().into()),
    right("LIVE", 11, 0, |row| bytes(row.figures.live_bytes)),
    right("PEAK", 11, 2, |row| bytes(row.figures.peak_bytes)),
    right("BLOCKS", 10, 5, |row| {
        row.of_account(row.figures.live_blocks, |blocks| {
            number(blocks as f64).into()
        })
    }),
    right("ALLOC/S", 9, 3, |row| allocations(row.rates)),
    right("GROWTH/S", 12, 1, |row| growth(row.rates)),
    right("CAP", 11, 6, |row| maybe(row.cap.map(|used| used.cap))),
    right("USED", 16, 4, |row| bar(row.cap)),
    right("REFUSED", 8, 7, |row| count(row.figures.refused)),
    right("FAILED", 8, 8, |row| {
        row.of_account(row.figures.failed, count)
    }),
];

fn nothing() -> Span<'static> {
    "-".into()
}

fn bytes(bytes: u64) -> Span<'static> {
    Bytes(bytes).to_string().into()
}

pub fn maybe(found: Option<u64>) -> Span<'static> {
    found.map_or(nothing(), bytes)
}

fn count(count: u64) -> Span<'static> {
    let style = if count > 0 { WARNING } else { Style::new() };
    Span::styled(number(count as f64), style)
}

/// A count in at most six letters.
fn number(count: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    if count < 99_999.5 {
        return format!("{count:.0}");
    }
    let mut scaled = count;
    let mut unit = 0;
    while scaled >= 999.95 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    format!("{scaled:.1}{}", UNITS[unit])
}

pub fn clock(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours}:{minutes:02}:{:02}", seconds % 60)
}

fn allocations(rates: Option<Rates>) -> Span<'static> {
    rates.map_or(nothing(), |rates| number(rates.allocations).into())
}

fn growth(rates: Option<Rates>) -> Span<'static> {
    rates.map_or(nothing(), |rates| {
        signed(rates.growth.round() as i64).into()
    })
}

/// How full a cap is; with its name if it is an account's.
fn bar(used: Option<Use>) -> Span<'static> {
    const LENGTH: usize = 9;
    let Some(used) = used else { return nothing() };
    let percent = used.percent();
    let full = (percent as usize * LENGTH).div_ceil(100).min(LENGTH);
    let left = match used.scope {
        Scope::Total => format!("{}{}", "#".repeat(full), ".".repeat(LENGTH - full)),
        Scope::Account(account) => account.name().to_owned(),
    };
    let style = match percent {
        0..70 => Style::new(),
        70..90 => WARNING,
        _ => ALARM,
    };
    Span::styled(format!("{left} {percent:>3}%"), style)
}

pub fn hosts(state: &View, width: u16) -> ViewPart {
    table(HOSTS, &state.hosts, Some(state.sorted_by()), width)
}

/// A host's accounts with their rates and caps; its last marks and its last refusal.
pub fn accounts(host: &SampledHost, width: u16) -> [ViewPart; 2] {
    let scopes = REPORTED.iter().copied().map(Scope::Account);
    let rows = scopes.chain([Scope::Total]);
    let rows: Vec<AccountRow> = rows.map(|scope| AccountRow::new(host, scope)).collect();
    let mut lines: Vec<Line<'static>> = marks(host).map(Line::raw).into_iter().collect();
    if let Some((count, text)) = host.record.header().refusal() {
        let text = format!("refusals: {count}; the last: {}", plain(&text));
        let letters: Vec<char> = text.chars().collect();
        let parts = letters.chunks(width.clamp(1, 4096).into());
        lines.extend(parts.map(|part| Line::styled(String::from_iter(part), ALARM)));
    }
    [table(ACCOUNTS, &rows, None, width), ViewPart::Lines(lines)]
}

/// The last marks, with the seconds from the start to them.
fn marks(host: &SampledHost) -> Option<String> {
    let header = host.record.header();
    let count = header.marks();
    let last = (count.saturating_sub(LAST_MARKS)..count).filter_map(|before| {
        let mark = header.mark_of(before + 1)?;
        let seconds = header.seconds_until(mark.nanoseconds);
        Some(format!("{} at {seconds:.1} s", plain(mark.name())))
    });
    let last: Vec<String> = last.collect();
    (!last.is_empty()).then(|| match count > LAST_MARKS {
        true => format!("last of {count} marks: {}", last.join(", ")),
        false => format!("marks: {}", last.join(", ")),
    })
}

/// The watched process: whether it runs or how it ended, and its accounts.
pub fn watched(state: &View, width: u16) -> Vec<ViewPart> {
    let Some(host) = state.hosts.first() else {
        return Vec::new();
    };
    let pid = host.entry.identity.pid;
    let status = match &state.ended {
        None => Line::styled(format!("process {pid}, {}", clock(host.seconds)), TITLE),
        Some(how) => Line::styled(format!("process {pid} {how}; its last counters:"), ALARM),
    };
    let mut lines = vec![status, Line::raw(host.record.header().command())];
    if let Some(resident) = host.usage.resident.filter(|_| state.ended.is_none()) {
        let peak = host.usage.peak_resident.unwrap_or(resident);
        let text = format!("resident {}, peak {}", Bytes(resident), Bytes(peak));
        lines.push(Line::raw(text));
    }
    let mut parts = vec![ViewPart::Lines(lines)];
    parts.extend(accounts(host, width));
    parts
}

pub fn help() -> ViewPart {
    let keys = [
        "q, Ctrl-C      leave",
        "up, down, k, j select a host",
        "Home, End      the first, the last",
        "s              sort by the next column",
        "r              the other way round",
        "p, space       pause, go on",
        "Ctrl-L         draw everything anew",
        "?, h           this text",
        "",
        "LIVE    allocated and not freed",
        "USED    of the cap that is fullest",
        "/S      in a second, since the last look",
        "*       what the list is sorted by",
    ];
    ViewPart::Lines(keys.map(Line::raw).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_clocks_stay_short() {
        for (count, text) in [
            (0.0, "0"),
            (99_999.0, "99999"),
            (99_999.9, "100.0k"),
            (999_960.0, "1.0M"),
            (u64::MAX as f64, "18446.7P"),
        ] {
            assert_eq!(number(count), text);
        }
        assert_eq!(clock(3725), "1:02:05");
    }

    #[test]
    fn a_bar_is_full_at_the_cap() {
        let used = |live| {
            let (scope, cap) = (Scope::Total, 100);
            let part = bar(Some(Use { scope, cap, live }));
            (part.content.into_owned(), part.style)
        };
        assert_eq!(used(0), (".........   0%".to_owned(), Style::new()));
        assert_eq!(used(50), ("#####....  50%".to_owned(), Style::new()));
        assert_eq!(used(70).1, WARNING);
        assert_eq!(used(100), ("######### 100%".to_owned(), ALARM));
        assert_eq!(used(u64::MAX).0, "######### 999%");
    }
}
