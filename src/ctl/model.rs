//! A report, schema `pyhost-report/1`, as plain data: the one description of its shape in `pyhostctl`.
//! It is read from JSON, made of a host's file ([`of_record`]), and written as JSON.
//!
//! A field that a report does not have is `None` or empty: reports of a host's file leave fields null,
//! and older hosts leave them out. Unknown fields are skipped; the page shows them in the report's own
//! text. Numbers are the host's: signed 64-bit integers.

mod lines;
mod of_record;

pub use lines::{SampledLines, StackRow};
pub use of_record::whole;

use indexmap::IndexMap;
use pyhost_os::terminal_text::plain;
use pyhost_record::{describe::SCHEMA, table::HighestResident};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::fmt::Write;

/// The members of an object, in their order.
pub type Ordered<T> = IndexMap<String, T>;

impl Report {
    /// Reads a report in JSON. The text may be anything: serde_json bounds how deeply it may nest.
    /// The error is the end of a line that begins with the file's name.
    pub fn of_json(text: &str) -> Result<Self, String> {
        let refuse = |error: serde_json::Error| format!("is not a report in JSON ({error})");
        let value: Value = serde_json::from_str(text).map_err(refuse)?;
        match &value["schema"] {
            Value::String(schema) if schema == SCHEMA => {}
            Value::String(other) => {
                let other = shortened(other);
                return Err(format!("is of schema '{other}'; expected {SCHEMA}"));
            }
            _ => return Err(format!("names no schema; expected {SCHEMA}")),
        }
        check_figures(&value)?;
        serde_json::from_value(value).map_err(refuse)
    }

    /// The report as a line of JSON. Control characters from U+007F on are escaped, so that no text steers a terminal.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string(self).expect("its keys are strings");
        escaped(&text)
    }
}

/// A report's text as it is, but for control characters inside of strings, which JSON allows from U+007F on.
pub fn escaped(text: &str) -> String {
    escaped_where(text.trim_end(), char::is_control) + "\n"
}

/// The same JSON with such letters escaped, but for those that lay it out.
pub fn escaped_where(json: &str, is_hidden: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for letter in json.chars() {
        if !matches!(letter, '\n' | '\r' | '\t') && is_hidden(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(letter);
        }
    }
    text
}

/// A part of a text for an error message.
fn shortened(text: &str) -> String {
    plain(text).chars().take(40).collect()
}

/// Checks that the accounts and their total have their figures. All commands rely on them.
fn check_figures(report: &Value) -> Result<(), String> {
    let check = |object: &Value, shown: &str, name: &str| match object[name].as_i64() {
        Some(0..) => Ok(()),
        _ => Err(format!(
            "has no whole number at {shown}.{name}; expected {SCHEMA}"
        )),
    };
    let accounts = report["accounts"].as_object();
    for (name, account) in accounts.ok_or(format!("has no accounts; expected {SCHEMA}"))? {
        let shown = format!("accounts.{}", shortened(name));
        let figures = "live_bytes peak_bytes live_blocks total_blocks refused failed";
        for figure in figures.split(' ') {
            check(account, &shown, figure)?;
        }
    }
    check(&report["total"], "total", "live_bytes")?;
    check(&report["total"], "total", "peak_bytes")
}

/// Parts of a report: each may lack any of its fields.
macro_rules! parts {
    ($($(#[$doc:meta])* pub struct $name:ident { $($fields:tt)* })+) => {
        $(
            #[derive(Debug, Default, Serialize, Deserialize)]
            #[serde(default)]
            $(#[$doc])*
            pub struct $name { $($fields)* }
        )+
    };
}

parts! {
    pub struct Report {
        pub schema: String,
        pub partial: bool,
        pub host: HostFacts,
        pub python: Python,
        pub process: Process,
        pub children: Option<Children>,
        pub allocator: Option<String>,
        pub left_to: Option<String>,
        pub debug_hooks: Option<bool>,
        pub numpy: Option<Ordered<Value>>,
        pub region: Option<Ordered<Value>>,
        pub faults: Option<Ordered<Value>>,
        pub guards: Option<Ordered<Value>>,
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
        pub at_resident_peak: Option<AtResidentPeak>,
        pub lines: Option<SampledLines>,
        /// Why there are none, though there are samples.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lines_missing: Option<String>,
        /// Of a host's file alone.
        #[serde(skip)]
        pub of_header: Option<OfHeader>,
    }

    /// The program that ran the script.
    pub struct HostFacts {
        pub version: Option<String>,
        pub mimalloc: Option<String>,
        pub native: Option<String>,
        pub profile: Option<String>,
    }

    /// The libpython that was loaded.
    pub struct Python {
        pub version: Option<String>,
        pub debug_build: Option<bool>,
        pub free_threaded: Option<bool>,
    }

    pub struct Process {
        pub pid: Option<i64>,
        pub argv: Vec<String>,
        pub command: Option<String>,
        pub started: Option<String>,
        pub forked: Option<bool>,
        pub inherited_live_bytes: Option<i64>,
        pub wall_seconds: Option<f64>,
        pub ended_by: Option<String>,
        pub exit_status: Option<i64>,
        pub resident_bytes: Option<i64>,
        pub peak_resident_bytes: Option<i64>,
        pub peak_resident_source: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub finalized_resident_bytes: Option<i64>,
    }

    /// Memory that the figures do not include.
    pub struct Children {
        pub forks: i64,
        pub largest_peak_resident_bytes: Option<i64>,
        pub largest_peak_resident_at_most_bytes: Option<i64>,
    }

    pub struct Account {
        pub active: bool,
        pub live_bytes: i64,
        pub peak_bytes: i64,
        pub live_blocks: i64,
        pub total_blocks: i64,
        pub refused: i64,
        pub failed: i64,
        pub injected: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub finalized_live_bytes: Option<i64>,
    }

    /// The figures of all accounts together, or those of one at a refusal.
    pub struct Total {
        pub live_bytes: i64,
        pub peak_bytes: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub finalized_live_bytes: Option<i64>,
    }

    /// The section `caps`: scopes and their ceilings, and what was refused.
    pub struct Caps {
        /// A ceiling for each scope, `total` or an account; and what this version does not know.
        #[serde(flatten)]
        pub scopes: Map<String, Value>,
        /// The first refusal of the latest shortage.
        pub dossier: Option<Dossier>,
        /// How many refusals the host reported.
        pub told_refusals: Option<i64>,
        /// The last refusal in a host's file, as a line.
        pub last_refusal: Option<String>,
    }

    /// A refused request, and the memory that was live then.
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
        /// Each account's live and peak bytes.
        pub accounts: Ordered<Total>,
        pub size_classes: Vec<HeldClass>,
        pub big_blocks: i64,
        pub big_bytes: i64,
        pub largest: Vec<Value>,
    }

    /// The block of code whose limit it was.
    pub struct Limit {
        pub bytes: i64,
        pub base_bytes: i64,
        pub file: String,
        pub line: i64,
    }

    pub struct HeldClass {
        pub account: String,
        pub block_bytes: i64,
        pub blocks: i64,
    }

    pub struct Balance {
        pub resident_bytes: i64,
        pub rows: Vec<BalanceRow>,
        pub mapped: Vec<MappedBy>,
        pub remainder_bytes: i64,
    }

    /// The highest moment that the host saw.
    pub struct AtPeak {
        pub seconds: f64,
        pub live_bytes: i64,
        pub accounts: Ordered<i64>,
        pub resident_bytes: Option<i64>,
        pub big_blocks: BigBlocks,
        pub balance: Option<SheetAtPeak>,
    }

    /// The moment with the most resident memory that the host saw.
    pub struct AtResidentPeak {
        pub seconds: f64,
        pub resident_bytes: i64,
        pub missed_bytes: Option<i64>,
        pub live_bytes: i64,
        pub accounts: Ordered<i64>,
        pub shared_bytes: i64,
        pub heap_resident_bytes: i64,
        pub stack_resident_bytes: i64,
        pub library_data_resident_bytes: i64,
        pub other_bytes: i64,
        pub mapped_resident_bytes: i64,
        /// None if the libraries are not known: in a signal handler.
        pub mapped: Option<Vec<MappedBy>>,
    }

    /// Blocks of 1 MiB and more at one moment.
    pub struct BigBlocks {
        pub blocks: i64,
        pub bytes: i64,
        pub largest: Vec<Value>,
    }

    pub struct SheetAtPeak {
        pub seconds: f64,
        pub live_bytes: i64,
        #[serde(flatten)]
        pub balance: Balance,
    }

    /// Memory that a library has mapped itself.
    pub struct MappedBy {
        pub library: String,
        pub mapped_bytes: i64,
        pub resident_bytes: i64,
    }

    /// A part of the resident size.
    pub struct BalanceRow {
        pub name: String,
        pub kind: String,
        pub resident_bytes: i64,
    }

    /// Blocks of one size in an account's heap.
    pub struct SizeClass {
        pub block_bytes: i64,
        pub live_blocks: i64,
        pub live_bytes: i64,
        pub capacity_bytes: i64,
    }

    pub struct Leaks {
        pub blocks: i64,
        pub bytes: i64,
        pub threads: i64,
        pub interpreters: bool,
        pub sure: bool,
        pub groups: Vec<Value>,
    }
}

/// What a header says better than a report: which words of the command line are the host's, and how the process ended.
#[derive(Debug)]
pub struct OfHeader {
    /// The command line in one line, plain.
    pub command: String,
    /// The state in words, such as `was killed`.
    pub status: String,
}

impl Report {
    /// The highest resident moment, and whether it says more than the others, as in the host's table.
    pub fn highest_resident(&self) -> Option<(HighestResident, bool)> {
        let seen = self.at_resident_peak.as_ref()?;
        let live = self.total.live_bytes;
        let is_shown = |peak: &&AtPeak| peak.live_bytes > live.saturating_add(live / 8);
        let shown = self.at_peak.as_ref().filter(is_shown);
        let shown = shown.and_then(|peak| peak.resident_bytes);
        let shown = shown.max(self.process.resident_bytes);
        let count = |bytes: i64| bytes.max(0) as u64;
        let parts = [
            seen.mapped_resident_bytes,
            seen.heap_resident_bytes,
            seen.shared_bytes,
            seen.stack_resident_bytes,
            seen.library_data_resident_bytes,
            seen.other_bytes,
        ];
        let highest = HighestResident {
            seconds: seen.seconds,
            resident: count(seen.resident_bytes),
            live: count(seen.live_bytes),
            parts: parts.map(count),
            missed: seen.missed_bytes.map(count),
        };
        let says_more = highest.says_more_than(count(shown.unwrap_or(0)));
        Some((highest, says_more))
    }
}

impl Caps {
    /// The scopes, the ceiling of each in bytes, and where its reserve begins.
    pub fn heights(&self) -> impl Iterator<Item = (&str, i64, Option<i64>)> {
        self.scopes.iter().filter_map(|(scope, cap)| {
            let reserve_from = cap["reserve_from_bytes"].as_i64();
            Some((scope.as_str(), cap["cap_bytes"].as_i64()?, reserve_from))
        })
    }

    /// The ceiling of a scope, in bytes.
    pub fn of(&self, scope: &str) -> Option<i64> {
        self.scopes.get(scope)?["cap_bytes"].as_i64()
    }
}

/// The section, which may be null.
fn caps<'de, D: Deserializer<'de>>(input: D) -> Result<Caps, D::Error> {
    Option::deserialize(input).map(Option::unwrap_or_default)
}
