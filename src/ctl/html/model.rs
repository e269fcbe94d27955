//! A report in JSON, schema `pyhost-report/1`, as plain data.
//!
//! What a report does not have is None or empty: reports of a ledger's file leave fields null, and
//! older hosts leave them out. Fields that are not known here are skipped; the page shows them in the
//! report's own text. Numbers are the host's: signed 64-bit integers.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;

/// The members of an object, in their order.
#[derive(Debug)]
pub struct Ordered<T>(pub Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Ordered(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Ordered<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }
        }
        input.deserialize_map(Members(PhantomData))
    }
}

/// The whole report.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Report {
    pub schema: String,
    pub partial: bool,
    pub host: Host,
    pub python: Python,
    pub process: Process,
    pub children: Option<Children>,
    pub allocator: Option<String>,
    pub debug_hooks: Option<bool>,
    pub numpy: Option<Numpy>,
    pub region: Option<Region>,
    pub faults: Option<Faults>,
    pub guards: Option<Guards>,
    pub leaks: Option<Leaks>,
    pub accounts: Ordered<Account>,
    pub total: Total,
    pub big_blocks_left_out: Option<i64>,
    #[serde(deserialize_with = "caps")]
    pub caps: Caps,
    pub balance: Option<Balance>,
    pub size_classes: Option<Ordered<Vec<SizeClass>>>,
    pub big_blocks: Option<BigBlocks>,
    pub at_peak: Option<AtPeak>,
}

/// The program that ran the script.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Host {
    pub version: Option<String>,
    pub mimalloc: Option<String>,
    pub native: Option<String>,
    pub profile: Option<String>,
}

/// The libpython that was loaded.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Python {
    pub version: Option<String>,
    pub debug_build: Option<bool>,
    pub free_threaded: Option<bool>,
}

/// The process that reports.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Process {
    pub pid: Option<i64>,
    pub argv: Vec<String>,
    pub started: Option<String>,
    pub wall_seconds: Option<f64>,
    pub ended_by: Option<String>,
    pub exit_status: Option<i64>,
    pub resident_bytes: Option<i64>,
    pub peak_resident_bytes: Option<i64>,
    pub peak_resident_source: Option<String>,
    pub finalized_resident_bytes: Option<i64>,
}

/// What is not in the figures.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Children {
    pub forks: i64,
    pub largest_peak_resident_bytes: Option<i64>,
    pub largest_peak_resident_at_most_bytes: Option<i64>,
}

/// An account's figures.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Account {
    pub active: bool,
    pub live_bytes: i64,
    pub peak_bytes: i64,
    pub live_blocks: i64,
    pub total_blocks: i64,
    pub refused: i64,
    pub failed: i64,
    pub injected: i64,
    pub finalized_live_bytes: Option<i64>,
}

/// The figures of all accounts together.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Total {
    pub live_bytes: i64,
    pub peak_bytes: i64,
    pub finalized_live_bytes: Option<i64>,
}

/// The section `caps`: scopes and their ceilings, and what was refused.
#[derive(Debug, Default)]
pub struct Caps {
    /// Bytes a scope, `total` or an account, and where its reserve begins.
    pub scopes: Vec<(String, Cap)>,
    /// The first refusal of the latest episode.
    pub dossier: Option<Dossier>,
    /// The last refusal that a ledger's file told of, in a line.
    pub last_refusal: Option<String>,
}

impl Caps {
    /// The ceiling of a scope, in bytes.
    pub fn of(&self, scope: &str) -> Option<i64> {
        let found = self.scopes.iter().find(|(name, _)| name == scope);
        found.map(|(_, cap)| cap.cap_bytes)
    }
}

/// A ceiling.
#[derive(Debug, Deserialize)]
pub struct Cap {
    pub cap_bytes: i64,
    #[serde(default)]
    pub reserve_from_bytes: Option<i64>,
}

fn caps<'de, D: Deserializer<'de>>(input: D) -> Result<Caps, D::Error> {
    let members: Option<Ordered<Value>> = Option::deserialize(input)?;
    let mut caps = Caps::default();
    for (name, value) in members.unwrap_or_default().0 {
        match name.as_str() {
            "dossier" => caps.dossier = serde_json::from_value(value).map_err(de::Error::custom)?,
            "last_refusal" => caps.last_refusal = value.as_str().map(str::to_owned),
            _ if value.is_object() => {
                let cap = serde_json::from_value(value).map_err(de::Error::custom)?;
                caps.scopes.push((name, cap));
            }
            _ => {}
        }
    }
    Ok(caps)
}

/// What was refused, and what held the memory.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Dossier {
    pub number: i64,
    pub scope: String,
    pub account: String,
    pub size_bytes: i64,
    pub cap_bytes: i64,
    pub live_bytes: i64,
    pub how: String,
    pub limit: Option<Limit>,
    pub traceback: Vec<String>,
    pub accounts: Ordered<Held>,
    pub size_classes: Vec<HeldClass>,
    pub big_blocks: i64,
    pub big_bytes: i64,
    pub largest: Vec<BigBlock>,
}

/// The block of code whose limit it was.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Limit {
    pub bytes: i64,
    pub base_bytes: i64,
    pub file: String,
    pub line: i64,
}

/// An account at a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Held {
    pub live_bytes: i64,
    pub peak_bytes: i64,
}

/// A size class at a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HeldClass {
    pub account: String,
    pub block_bytes: i64,
    pub blocks: i64,
}

/// A live block of 1 MiB or more.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BigBlock {
    pub account: String,
    pub size_bytes: i64,
    pub age_seconds: Option<f64>,
    pub file: Option<String>,
    pub line: Option<i64>,
}

/// The resident size, explained.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Balance {
    pub resident_bytes: i64,
    pub rows: Vec<BalanceRow>,
    pub mapped: Vec<MappedBy>,
    pub remainder_bytes: i64,
}

/// The highest moment that the host saw.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AtPeak {
    pub seconds: f64,
    pub live_bytes: i64,
    pub accounts: Ordered<i64>,
    pub resident_bytes: Option<i64>,
    pub big_blocks: BigBlocks,
    pub balance: Option<SheetAtPeak>,
}

/// Blocks of 1 MiB and more at one moment.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BigBlocks {
    pub blocks: i64,
    pub bytes: i64,
    pub largest: Vec<BigBlock>,
}

/// A balance sheet, and the moment that it is of.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SheetAtPeak {
    pub seconds: f64,
    pub live_bytes: i64,
    #[serde(flatten)]
    pub balance: Balance,
}

/// What a library has mapped for itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct MappedBy {
    pub library: String,
    pub mapped_bytes: i64,
    pub resident_bytes: i64,
}

/// A part of the resident size.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BalanceRow {
    pub name: String,
    pub kind: String,
    pub resident_bytes: i64,
}

/// Blocks of one size in an account's heap.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SizeClass {
    pub block_bytes: i64,
    pub live_blocks: i64,
    pub live_bytes: i64,
    pub capacity_bytes: i64,
}

/// What array data is made from.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Numpy {
    pub version: Option<String>,
    pub allocator: String,
    pub align: Option<i64>,
    pub huge_pages: Option<String>,
    pub numa_node: Option<i64>,
    pub pool: Option<Ordered<Value>>,
    pub region: Option<Ordered<Value>>,
}

/// The bounded heap.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Region {
    pub size_bytes: i64,
    pub reserved_bytes: i64,
    pub committed_bytes: i64,
    pub peak_committed_bytes: i64,
    pub before_main_bytes: i64,
    pub refused_commits: i64,
    pub locked: bool,
    pub huge_pages: bool,
}

/// The rules of `--fail`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Faults {
    pub rules: Vec<FaultRule>,
}

/// A rule, and what it saw.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct FaultRule {
    pub rule: String,
    pub requests: i64,
    pub injected: i64,
}

/// Guard pages.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Guards {
    pub min_bytes: i64,
    pub every: i64,
    pub guarded_blocks: i64,
    pub live_blocks: i64,
    pub missed_blocks: i64,
}

/// What the leak check found.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Leaks {
    pub blocks: i64,
    pub bytes: i64,
    pub threads: i64,
    pub interpreters: bool,
    pub sure: bool,
    pub groups: Vec<LeakGroup>,
}

/// Lost blocks of one kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LeakGroup {
    pub account: String,
    pub block_bytes: i64,
    pub blocks: i64,
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    pub file: Option<String>,
    pub line: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_report_leaves_out_or_null_is_none() {
        let text = r#"{"schema":"pyhost-report/1","process":{"wall_seconds":null},
            "python":{"debug_build":null},"balance":null,"unknown":[1],
            "caps":{"total":{"cap_bytes":7},"dossier":null,"told_refusals":0}}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        assert_eq!(report.process.wall_seconds, None);
        assert!(report.balance.is_none() && report.caps.dossier.is_none());
        assert_eq!(report.caps.of("total"), Some(7));
        assert_eq!(report.caps.of("obj"), None);
    }

    #[test]
    fn accounts_keep_their_order() {
        let text = r#"{"accounts":{"raw":{"live_bytes":1},"mem":{},"arena":{}}}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        let names: Vec<&str> = report.accounts.0.iter().map(|row| row.0.as_str()).collect();
        assert_eq!(names, ["raw", "mem", "arena"]);
    }
}
