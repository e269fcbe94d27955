//! The values of `--cap`, `--soft-cap` and `--cap-share`.

use crate::bytes::{self, Expected};
use crate::ledger::Scope;
use derive_more::Display;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum CapSize {
    Bytes(u64),
    /// So many hundredths of a percent of what the process may have.
    #[display("{}.{:02}%", _0 / 100, _0 % 100)]
    Share(u32),
    /// The limit of the process's cgroup, less the memory that the ledger does not see.
    #[display("auto")]
    Auto,
}

/// The name of the total's cap that does not count the maps of libraries.
pub const OWNED: &str = "owned";
/// The name of the cap that a process shares with all that descend from it.
const TREE: &str = "tree";

/// One cap: `[ACCOUNT=]SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub scope: Scope,
    /// Whether it is the total's, and does not count the maps of libraries.
    pub is_owned: bool,
    /// Whether it is one ceiling over all processes of a tree.
    pub is_tree: bool,
    pub size: CapSize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

/// All that is asked of caps at the start.
#[derive(Clone, Debug, Default)]
pub struct CapSettings {
    pub hard: Rules,
    pub soft: Rules,
    pub share: Option<Share>,
    /// The highest cap of the total in bytes, now and later.
    pub most: Option<u64>,
}

/// Among how many processes a cap is divided: 1 and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub struct Share(pub u32);

const EXPECTED: Expected = Expected(
    "a size such as 64M, 1.5GiB, 25% or auto, or ACCOUNT=SIZE with raw, mem, obj, arena, numpy, \
     native, mapped, total, owned or tree",
);

impl FromStr for CapSize {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        if text == "auto" {
            return Ok(CapSize::Auto);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let plain = percent
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
            let hundredths = percent.parse::<f64>().map_err(|_| EXPECTED)? * 100.0;
            return match plain && (1.0..=10_000.0).contains(&hundredths) {
                true => Ok(CapSize::Share(hundredths as u32)),
                false => Err(EXPECTED),
            };
        }
        match bytes::parse(text) {
            Some(bytes) if bytes > 0 => Ok(CapSize::Bytes(bytes)),
            _ => Err(EXPECTED),
        }
    }
}

impl FromStr for Rule {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let (name, size) = text.split_once('=').unwrap_or(("total", text));
        let scope = match name {
            OWNED | TREE => None,
            _ => Some(Scope::named(name).ok_or(EXPECTED)?),
        };
        match (scope, size.parse()?) {
            (None | Some(Scope::Account(_)), CapSize::Auto) if name != TREE => Err(Expected(
                "a size such as 64M or 25%; auto is for all accounts together",
            )),
            (_, size) => Ok(Rule {
                scope: scope.unwrap_or(Scope::Total),
                is_owned: name == OWNED,
                is_tree: name == TREE,
                size,
            }),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            Scope::Total if self.is_owned => write!(out, "{OWNED}={}", self.size),
            Scope::Total if self.is_tree => write!(out, "{TREE}={}", self.size),
            Scope::Total => write!(out, "{}", self.size),
            scope => write!(out, "{}={}", scope.name(), self.size),
        }
    }
}

impl Rules {
    /// The rule of a scope in this process; the last one counts.
    pub fn of(&self, scope: Scope) -> Option<&Rule> {
        let mut rules = self.0.iter().filter(|rule| !rule.is_tree);
        rules.rfind(|rule| rule.scope == scope)
    }

    /// The rule of the tree; the last one counts.
    pub fn tree(&self) -> Option<&Rule> {
        self.0.iter().rfind(|rule| rule.is_tree)
    }
}

impl FromStr for Share {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        match text.parse() {
            Ok(count @ 1..) => Ok(Share(count)),
            _ => Err(Expected("a number of processes, 1 or more")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Account;

    #[test]
    fn rules_name_an_account_or_the_total() {
        let parse = |text: &str| {
            let rules: Result<_, Expected> = text.split(';').map(str::parse).collect();
            rules.map(Rules)
        };
        let rules = parse("64M;numpy=25%;total=auto;tree=auto;tree=1G").unwrap();
        assert_eq!(rules.of(Scope::Total).unwrap().size, CapSize::Auto);
        let numpy = rules.of(Scope::Account(Account::Numpy)).unwrap();
        assert_eq!(numpy.size, CapSize::Share(2500));
        assert_eq!(rules.tree().unwrap().size, CapSize::Bytes(1 << 30));
        let owned = parse("64M;owned=32M").unwrap();
        let owned = *owned.of(Scope::Total).unwrap();
        assert!(owned.is_owned && owned.size == CapSize::Bytes(32 << 20));
        for rule in rules.0.into_iter().chain([owned]) {
            assert_eq!(rule.to_string().parse(), Ok(rule));
        }
        let bad = " 64m nump=64M pooled=64M 0 0% 101% -5% numpy=auto owned=auto tree 64M; 64M,numpy=25% nan% inf% 1e1% =64M";
        for bad in bad.split(' ') {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
