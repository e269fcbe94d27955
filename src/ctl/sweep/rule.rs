//! Which requests a sweep counts, and which of them fail: one rule of `--fail` a run.

use clap::Args;
use pyhost_ledger::REPORTED;
use pyhost_os::bytes::{self, Bytes, Expected};
use serde::Serialize;
use std::str::FromStr;

#[derive(Clone, Debug, Default, Args, Serialize)]
pub struct Rule {
    /// Count the requests of these accounts alone: raw, mem, obj, arena, numpy, native, mapped, or several
    /// with + between them [default: all]
    #[arg(long, value_name = "ACCOUNT[+ACCOUNT]", value_parser = accounts)]
    accounts: Option<String>,

    /// Count requests above this size alone, such as 64K
    #[arg(long, value_name = "SIZE", value_parser = size)]
    above: Option<u64>,

    /// Count only while pyhost.fail() is open
    #[arg(long)]
    pub when_open: bool,
}

fn accounts(text: &str) -> Result<String, Expected> {
    let is_known = |name| REPORTED.iter().any(|account| account.name() == name);
    match text.split('+').all(is_known) {
        true => Ok(text.to_owned()),
        false => Err(Expected(
            "expected the name of an account, or several with + between them",
        )),
    }
}

fn size(text: &str) -> Result<u64, Expected> {
    bytes::parse(text).ok_or(Expected("expected a size such as 64K"))
}

impl Rule {
    /// The rule of `--fail` in whose run the request of this number fails.
    pub fn with_nth(&self, number: u64) -> String {
        let accounts = self.accounts.iter().map(|accounts| format!("{accounts}="));
        let above = self.above.map(|above| format!("above={above},"));
        let counted: String = accounts.chain(above).collect();
        let when = if self.when_open { ",when=open" } else { "" };
        format!("{counted}{number}{when}")
    }

    /// The line of a run's log for the request of this number, among those for the other rules of the run: those of
    /// `PYHOST_FAIL`, and the program's own. If several rules fail a request, it has the number of the first, which
    /// is the sweep's.
    pub fn line_of<'a>(&self, number: u64, injected: &'a [String]) -> Option<&'a str> {
        let mut lines = injected.iter().map(String::as_str);
        lines.find(|line| self.is_of(number, line))
    }

    fn is_of(&self, number: u64, line: &str) -> bool {
        let mut words = line.split(' ');
        let number_of = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
        let is_number = number_of(words.next()) == Some(number);
        let account = words.next().unwrap_or_default();
        let size = number_of(words.next());
        let is_counted = |names: &str| names.split('+').any(|name| name == account);
        let is_above = |above| size.is_some_and(|size| size > above);
        is_number
            && self.accounts.as_deref().is_none_or(is_counted)
            && self.above.is_none_or(is_above)
    }

    /// The requests that are swept, in words: `mem above 64.0 KiB`.
    pub fn subject(&self) -> String {
        let accounts = self.accounts.as_deref();
        let mut text = accounts.unwrap_or("all accounts").to_owned();
        if let Some(above) = self.above {
            text += &format!(" above {}", Bytes(above));
        }
        text
    }
}

/// The requests that fail, one a run: `first`, `first + step`, ... below `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub first: u64,
    /// The first that is not tried any more; `None` tries until the program passes.
    pub end: Option<u64>,
    /// How many requests lie between two runs.
    pub step: u64,
}

impl Range {
    pub fn numbers(self) -> impl Iterator<Item = u64> {
        let next = move |number: &u64| number.checked_add(self.step);
        let numbers = std::iter::successors(Some(self.first), next);
        numbers.take_while(move |&number| self.end.is_none_or(|end| number < end))
    }

    /// How many runs it takes if the program makes so many requests: those and the one in which nothing fails.
    pub fn runs(self, requests: u64) -> u64 {
        let below = |end: u64| end.saturating_sub(self.first).div_ceil(self.step);
        let to_the_first_that_passes = below(requests.saturating_add(1)) + 1;
        self.end.map_or(to_the_first_that_passes, |end| {
            below(end).min(to_the_first_that_passes)
        })
    }
}

impl FromStr for Range {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        const RANGE: Expected =
            Expected("expected FIRST:END:STEP, with END above FIRST, FIRST and STEP from 1 on");
        let mut parts = text.split(':');
        let mut part = || match parts.next() {
            None | Some("") => Ok(None),
            Some(text) => match text.parse() {
                Ok(number) if number > 0 => Ok(Some(number)),
                _ => Err(RANGE),
            },
        };
        let first = part()?.unwrap_or(1);
        let end = part()?;
        let step = part()?.unwrap_or(1);
        let is_empty = end.is_some_and(|end| end <= first);
        match parts.next().is_some() || is_empty {
            true => Err(RANGE),
            false => Ok(Range { first, end, step }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_first_an_end_and_a_step() {
        let range = |first, end, step| Some(Range { first, end, step });
        for (text, expected) in [
            ("1000:2000:10", range(1000, Some(2000), 10)),
            ("7", range(7, None, 1)),
            ("::3", range(1, None, 3)),
            (":9", range(1, Some(9), 1)),
            ("", range(1, None, 1)),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
        for text in ["5:5", "x", "0", "1:9:0", "1:9:1:1"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_sweep_takes_a_run_for_each_request_and_one_in_which_nothing_fails() {
        for (text, requests, runs) in [
            ("1", 7, 8),
            ("9", 7, 1),
            ("1:5", 7, 4),
            ("1:8", 7, 7),
            ("1:9", 7, 8),
            ("1:10", 7, 8),
            ("5:45:10", 50, 4),
            ("5:45:10", 34, 4),
            ("5:45:10", 20, 3),
            ("::3", 0, 1),
        ] {
            let range: Range = text.parse().unwrap();
            assert_eq!(range.runs(requests), runs, "{text} {requests}");
            let failing = range.numbers().take_while(|number| *number <= requests);
            let failing = failing.count();
            let passing = range.numbers().nth(failing).is_some();
            let made = (failing + usize::from(passing)) as u64;
            assert_eq!(made, runs, "{text} {requests}");
        }
    }

    #[test]
    fn a_rule_is_written_as_the_host_reads_it() {
        for (names, above, written, subject) in [
            ("", None, "7", "all accounts"),
            ("mem+obj", None, "mem+obj=7", "mem+obj"),
            ("mem", Some(1024), "mem=above=1024,7", "mem above 1.0 KiB"),
            ("", Some(10), "above=10,7", "all accounts above 10 B"),
        ] {
            let mut rule = Rule {
                accounts: accounts(names).ok(),
                above,
                when_open: false,
            };
            assert_eq!((&*rule.with_nth(7), &*rule.subject()), (written, subject));
            rule.when_open = true;
            assert_eq!(rule.with_nth(7), format!("{written},when=open"));
        }
        assert!(accounts("mem+x").is_err() && accounts("").is_err());
    }
}
