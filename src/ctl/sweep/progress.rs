//! How far a sweep is, on standard error: a line of a terminal that is written again and again, else a line every
//! five seconds.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Between two lines, and between two states of a terminal's line.
const LINES: Duration = Duration::from_secs(5);
const STATES: Duration = Duration::from_millis(200);

/// Says on standard error how far the sweep is, now and then.
pub struct Progress {
    subject: String,
    /// How many runs it will take, as far as that is known.
    expected: Option<u64>,
    is_terminal: bool,
    start: Instant,
    shown: Instant,
    /// A terminal's line is to be cleared before something else is printed.
    is_open: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// The request that failed last.
    pub number: u64,
    /// Runs that have ended, those of an earlier sweep included.
    pub runs: u64,
    /// Those of an earlier sweep.
    pub earlier: u64,
    /// Runs that crashed, hung or leaked.
    pub findings: u64,
}

impl Progress {
    pub fn new(subject: String, expected: Option<u64>) -> Self {
        let now = Instant::now();
        Progress {
            subject,
            expected,
            is_terminal: stderr().is_terminal(),
            start: now,
            shown: now,
            is_open: false,
        }
    }

    /// Says how far the sweep is, unless it was said a moment ago.
    pub fn show(&mut self, done: Done) {
        let interval = if self.is_terminal { STATES } else { LINES };
        if self.shown.elapsed() < interval {
            return;
        }
        self.shown = Instant::now();
        let text = text(done, self.expected, self.start.elapsed());
        let mut out = stderr();
        // A terminal that is gone stops nothing.
        let _ = match self.is_terminal {
            false => writeln!(out, "pyhostctl: sweep of {}: {text}", self.subject),
            true => {
                let width = crossterm::terminal::size().map_or(0, |(columns, _)| columns);
                let width = if width == 0 { 80 } else { width }; // one that does not say
                let most = usize::from(width).saturating_sub(1);
                let shown: String = text.chars().take(most).collect();
                write!(out, "\r\x1b[K{shown}").and_then(|()| out.flush())
            }
        };
        self.is_open = self.is_terminal;
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn text(done: Done, expected: Option<u64>, elapsed: Duration) -> String {
    let (number, runs, findings) = (done.number, done.runs, done.findings);
    let of = expected.map_or(String::new(), |expected| format!(" of about {expected}"));
    let plural = if findings == 1 { "" } else { "s" };
    let mut text = format!(
        "N = {number}, {runs}{of} runs, {findings} finding{plural}, {} so far",
        time(elapsed)
    );
    let made = runs.saturating_sub(done.earlier);
    if let Some(expected) = expected.filter(|_| made > 0) {
        let left = elapsed.mul_f64(expected.saturating_sub(runs) as f64 / made as f64);
        text += &format!(", about {} left", time(left));
    }
    text
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_estimated_by_the_runs_of_this_sweep() {
        let done = Done {
            number: 105,
            runs: 20,
            earlier: 10,
            findings: 1,
        };
        let text = |expected, seconds| super::text(done, expected, Duration::from_secs(seconds));
        for (expected, seconds, said) in [
            (Some(50), 30, "30 s so far, about 90 s left"),
            (Some(50), 300, "5 min so far, about 15 min left"),
            (Some(10), 8000, "2 h 13 min so far, about 0 s left"),
            (None, 5, "5 s so far"),
        ] {
            let of = expected.map_or(String::new(), |all| format!(" of about {all}"));
            let whole = format!("N = 105, 20{of} runs, 1 finding, {said}");
            assert_eq!(text(expected, seconds), whole);
        }
    }
}
