//! A rule as it is written: `[ACCOUNT[+ACCOUNT...]=]ITEM[,ITEM...]`.

use crate::bytes::{self, Expected};
use crate::ledger::{Account, REPORTED};
use std::{fmt, str::FromStr};

/// Which of the requests that a rule counts fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// None: the rule only has the wrappers installed, for `pyhost.fail`.
    Nothing,
    All,
    Nth(u64),
    Every(u64),
    /// Each with this probability, drawn from this seed.
    Chance(f64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// A bit for each account whose requests it counts.
    pub(super) accounts: u32,
    /// Requests of this size and below are not counted.
    above: Option<u64>,
    pub(super) choice: Choice,
    /// It counts only while `pyhost.fail` is open.
    pub(super) when_open: bool,
}

/// The accounts that a rule may name, which those of a report are.
const EVERY_ACCOUNT: u32 = (1 << REPORTED.len()) - 1;

const ITEMS: Expected = Expected(
    "[ACCOUNT[+ACCOUNT]=] and some of N, every=N, p=P, seed=N, above=SIZE, when=open, \
     with commas between them",
);
const NAMES: Expected =
    Expected("an account before the first '=': raw, mem, obj, arena, numpy, native, mapped");
const ONE_CHOICE: Expected = Expected("one of N, every=N, p=P");
const NUMBER: Expected = Expected("a number from 1 on for N and every");
const CHANCE: Expected = Expected("p=P with P above 0 and at most 1");
const SEED: Expected = Expected("p=P with seed=N, and a whole number for N");
const SIZE: Expected = Expected("above=SIZE, such as above=64K");
const WHEN: Expected = Expected("when=open");
const NO_SWEEP: Expected =
    Expected("a rule of one run; `pyhostctl sweep` runs a program once for each N");
const NO_TWICE: Expected = Expected("each item once");

fn number(text: &str) -> Result<u64, Expected> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(NUMBER),
    }
}

/// The accounts of `a+b`; None if one is unknown.
fn accounts(text: &str) -> Option<u32> {
    text.split('+').try_fold(0, |bits, name| {
        let account = REPORTED.iter().find(|account| account.name() == name)?;
        Some(bits | 1 << *account as usize)
    })
}

fn once<T>(place: &mut Option<T>, value: T, twice: Expected) -> Result<(), Expected> {
    place.replace(value).map_or(Ok(()), |_| Err(twice))
}

impl FromStr for Spec {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let (mut items, mut named) = (text, EVERY_ACCOUNT);
        if let Some((before, after)) = text.split_once('=')
            && !matches!(before, "every" | "p" | "seed" | "above" | "when" | "sweep")
            && !before.contains(',')
        {
            named = accounts(before).ok_or(NAMES)?;
            items = after;
        }
        let (mut choice, mut above, mut seed, mut when_open) = (None, None, None, None);
        for item in items.split(',') {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            match name {
                "every" => once(&mut choice, Choice::Every(number(value)?), ONE_CHOICE)?,
                "p" => {
                    let chance = value.parse().map_err(|_| CHANCE)?;
                    if !(chance > 0.0 && chance <= 1.0) {
                        return Err(CHANCE);
                    }
                    once(&mut choice, Choice::Chance(chance, 0), ONE_CHOICE)?;
                }
                "sweep" => return Err(NO_SWEEP),
                "seed" => once(&mut seed, value.parse().map_err(|_| SEED)?, NO_TWICE)?,
                "above" => once(&mut above, bytes::parse(value).ok_or(SIZE)?, NO_TWICE)?,
                "when" if value == "open" => once(&mut when_open, (), NO_TWICE)?,
                "when" => return Err(WHEN),
                _ if item.starts_with(|c: char| c.is_ascii_digit()) => {
                    once(&mut choice, Choice::Nth(number(item)?), ONE_CHOICE)?;
                }
                _ => return Err(ITEMS),
            }
        }
        let choice = match (choice, seed) {
            (Some(Choice::Chance(chance, _)), seed) => Choice::Chance(chance, seed.unwrap_or(0)),
            (_, Some(_)) => return Err(SEED),
            (Some(choice), None) => choice,
            (None, None) if above.is_none() => Choice::Nothing,
            (None, None) => Choice::All,
        };
        Ok(Spec {
            accounts: named,
            above,
            choice,
            when_open: when_open.is_some(),
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if self.accounts != EVERY_ACCOUNT {
            for &account in REPORTED {
                if self.counts(account) {
                    write!(out, "{separator}{}", account.name())?;
                    separator = "+";
                }
            }
            separator = "=";
        }
        if let Some(above) = self.above {
            write!(out, "{separator}above={above}")?;
            separator = ",";
        }
        let mut items = true;
        match self.choice {
            Choice::Nothing | Choice::All => items = false,
            Choice::Nth(number) => write!(out, "{separator}{number}")?,
            Choice::Every(number) => write!(out, "{separator}every={number}")?,
            Choice::Chance(chance, seed) => write!(out, "{separator}p={chance},seed={seed}")?,
        }
        if self.when_open {
            let separator = if items { "," } else { separator };
            write!(out, "{separator}when=open")?;
        }
        Ok(())
    }
}

impl Spec {
    pub fn counts(&self, account: Account) -> bool {
        self.accounts & (1 << account as usize) != 0
    }

    /// Whether `account` is named, and not merely one of all.
    pub fn names(&self, account: Account) -> bool {
        self.accounts != EVERY_ACCOUNT && self.counts(account)
    }

    pub(super) fn least_size(&self) -> u64 {
        self.above.map_or(0, |above| above.saturating_add(1))
    }

    /// Whether it says which requests fail.
    pub fn is_a_rule(&self) -> bool {
        self.choice != Choice::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Spec {
        text.parse()
            .unwrap_or_else(|Expected(expected)| panic!("{text}: expected {expected}"))
    }

    #[test]
    fn a_rule_shows_itself_as_it_can_be_read_again() {
        let rules = "100 obj=100 every=3 when=open native=when=open p=1->p=1,seed=0 above=64K->above=65536 \
            p=0.001,seed=7 seed=7,p=0.001->p=0.001,seed=7 numpy=above=1M,every=3->numpy=above=1048576,every=3 \
            obj+mem=5,when=open->mem+obj=5,when=open raw+mem+obj+arena+numpy+native+mapped=2->2";
        for rule in rules.split(' ') {
            let (text, shown) = rule.split_once("->").unwrap_or((rule, rule));
            let spec = parse(text);
            assert_eq!(spec.to_string(), shown, "{text}");
            assert_eq!(parse(shown), spec, "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_what_was_expected() {
        for (texts, expected) in [
            (" -1 obj= obj=3,wrong=1 3,", ITEMS),
            ("0 1x every every=0 every=x", NUMBER),
            ("3,every=3", ONE_CHOICE),
            ("sweep,p=0.5 obj=sweep=5:9", NO_SWEEP),
            ("p=0 p=2 p=NaN p=x", CHANCE),
            ("seed=3 p=0.1,seed=x", SEED),
            ("above=x", SIZE),
            ("above=1K,above=2K", NO_TWICE),
            ("when=closed", WHEN),
            ("pooled=3 objects=3 obj+=3", NAMES),
        ] {
            for text in texts.split(' ') {
                assert_eq!(text.parse::<Spec>(), Err(expected), "{text}");
            }
        }
    }

    #[test]
    fn sizes_and_accounts_are_what_a_rule_counts() {
        let spec = parse("mem+numpy=above=64K,every=2");
        assert!(spec.counts(Account::Mem) && spec.counts(Account::Numpy));
        assert!(!spec.counts(Account::Obj) && spec.names(Account::Mem));
        assert_eq!(spec.least_size(), 65537);
        let all = parse("every=2");
        assert!(all.counts(Account::Native) && !all.names(Account::Native));
        assert!(!all.counts(Account::Pooled));
    }
}
