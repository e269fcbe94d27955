//! The section `lines` of a report: which lines of Python allocated, as `pyhost --lines` samples it.
//!
//! Rows and calls have all their fields: a host that writes the section writes them.

use super::Ordered;
use pyhost_record::{json::Json, sampled::describe_samples};
use pyhost_sampler::Samples;
use serde::{Deserialize, Serialize};

/// The samples, in views. `grown` has rows only after a mark.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledLines {
    /// The mean distance of two samples; 1 if every allocation was sampled.
    pub interval_bytes: i64,
    pub samples: i64,
    pub dropped: i64,
    pub libraries: Vec<Library>,
    /// For each view, the sums of its accounts over all stacks.
    pub sums: Ordered<Ordered<LineSum>>,
    /// The stacks with the most bytes of each view, most first; in `grown` also those that shrank, with bytes below zero.
    pub at_peak: Vec<StackRow>,
    pub at_account_peak: Vec<StackRow>,
    /// Empty if there was no such moment; of maps, what was resident.
    pub at_resident_peak: Vec<StackRow>,
    pub live: Vec<StackRow>,
    pub allocated: Vec<StackRow>,
    pub grown: Vec<StackRow>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    pub file: String,
    /// In hexadecimal; None if it has none.
    pub build_id: Option<String>,
}

/// An account's sum in a view.
#[derive(Debug, Serialize, Deserialize)]
pub struct LineSum {
    pub bytes: i64,
    pub blocks: i64,
    pub error_bytes: i64,
    pub stacks: i64,
}

/// The memory of an account that one stack allocated in one thread.
#[derive(Debug, Serialize, Deserialize)]
pub struct StackRow {
    pub account: String,
    pub bytes: i64,
    pub blocks: i64,
    pub error_bytes: i64,
    /// The mean age of what is live; in the views `live` and `grown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The thread that allocated it; None in a report of an older host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The types of the objects with the most bytes, in the view `live` of a report of the script's end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeRow>,
    /// The innermost call first; empty if no Python code ran.
    pub stack: Vec<Call>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct TypeRow {
    #[serde(rename = "type")]
    pub name: String,
    pub bytes: i64,
    pub blocks: i64,
    pub error_bytes: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: i64,
    pub function: String,
    /// Set for a native call: the address of its instruction in the library, which is the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
}

impl SampledLines {
    /// A process's samples, as its host would report them. No rows if there is no memory.
    pub fn of_samples(samples: &Samples) -> Self {
        let mut text = String::new();
        let mut json = Json::new(&mut text);
        let described = describe_samples(samples, &mut json);
        json.finish();
        let lines = described.ok();
        let lines = lines.and_then(|()| serde_json::from_str(&text).ok());
        lines.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::escaped;
    use pyhost_ledger::Account;
    use pyhost_record::rows::BYTES;
    use pyhost_sampler::{Added, Allocation, Call, Weight};

    /// Samples of 1,000 stacks with 40 calls each, whose names are the letter many times. The first has the most bytes.
    fn samples(letter: char) -> Samples {
        let mut samples = Samples::new(1, 99);
        let name = letter.to_string().repeat(250 / letter.len_utf8());
        for number in 0..1000 {
            let file = format!("{name}{name}{number}");
            let weight = Weight::new(10_000 - number, 10_000 - number, 1);
            let block = Allocation::of(16 + 16 * number, Account::Obj as u8, weight);
            let calls = [Call::of(&file, &name, 1); 40];
            assert_eq!(samples.add_at(block, &calls), Added::New);
        }
        samples
    }

    #[test]
    fn the_bytes_of_a_view_are_bounded_however_long_the_names_are() {
        // A name of control characters from U+007F on is three times as long when it is escaped.
        for (letter, listed) in [('x', 400..800), ('\u{85}', 60..300)] {
            let samples = samples(letter);
            let lines = SampledLines::of_samples(&samples);
            for rows in [&lines.live, &lines.allocated] {
                let written = escaped(&serde_json::to_string(rows).unwrap()).len();
                assert!(written <= BYTES + 2, "{letter:?}: {written}");
                assert!(written + written / 50 > BYTES, "{letter:?}: {written}");
                assert!(listed.contains(&rows.len()), "{letter:?}: {}", rows.len());
                let bytes: Vec<i64> = rows.iter().map(|row| row.bytes).collect();
                assert!(bytes.is_sorted_by(|a, b| a > b) && bytes[0] == 10_000);
            }
            // The sums have the rows that are left out, too.
            let sums = &lines.sums[2];
            assert_eq!(sums[0].stacks, 1000);
        }
    }
}
