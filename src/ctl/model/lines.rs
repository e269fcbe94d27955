//! The section `lines` of a report: which lines of Python allocated, as `pyhost --lines` samples it.
//!
//! Rows and calls have all their fields: a host that writes the section writes them.

use super::{Ordered, escaped, whole};
use pyhost_ledger::Account;
use pyhost_record::rows::{Lines, Row};
use pyhost_record::threads::thread_name;
use pyhost_sampler::{Samples, Site, Sum, View};
use serde::{Deserialize, Serialize};

/// The samples, in views. `grown` has rows only after a mark.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledLines {
    /// The mean distance of two samples; 1 if every allocation was sampled.
    pub interval_bytes: i64,
    pub samples: i64,
    pub dropped: i64,
    /// The libraries of native calls.
    pub libraries: Vec<Library>,
    /// For each view, the sums of its accounts over all stacks.
    pub sums: Ordered<Ordered<LineSum>>,
    /// The stacks with the most bytes of each view, most first; in `grown` also those that shrank, with bytes below zero.
    pub at_peak: Vec<StackRow>,
    pub at_account_peak: Vec<StackRow>,
    pub live: Vec<StackRow>,
    pub allocated: Vec<StackRow>,
    pub grown: Vec<StackRow>,
}

/// A library that native calls are in.
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

/// The live objects of a type.
#[derive(Debug, Serialize, Deserialize)]
pub struct TypeRow {
    #[serde(rename = "type")]
    pub name: String,
    pub bytes: i64,
    pub blocks: i64,
    pub error_bytes: i64,
}

/// A call of a stack.
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
    /// A process's samples, as its host would report them.
    pub fn of_samples(samples: &Samples) -> Self {
        let (taken, dropped) = samples.counts();
        let named = |view: View| (view.name().to_owned(), sums(samples, view));
        // Without a mark there is no growth since.
        let lines = Lines::new(samples);
        let rows = |view| match &lines {
            Some(lines) if samples.views().any(|each| each == view) => rows(samples, lines, view),
            _ => Vec::new(),
        };
        SampledLines {
            interval_bytes: whole(samples.interval()),
            samples: whole(taken),
            dropped: whole(dropped),
            libraries: libraries(samples),
            sums: samples.views().map(named).collect(),
            at_peak: rows(View::AtPeak),
            at_account_peak: rows(View::AtAccountPeak),
            live: rows(View::Live),
            allocated: rows(View::Allocated),
            grown: rows(View::Grown),
        }
    }
}

/// An account of a site; None if a damaged file names one that is not there.
fn account_of(number: u8) -> Option<Account> {
    Account::ALL.get(usize::from(number)).copied()
}

/// The rows that a report has: as many as `pyhostctl` reads again. None if there is no memory.
fn rows(samples: &Samples, lines: &Lines, view: View) -> Vec<StackRow> {
    let with_sum = |site| (site, samples.sum(site, view));
    let mut sites: Vec<(Site, Sum)> = samples.sites().map(with_sum).collect();
    sites.retain(|(site, sum)| sum.bytes() != 0 && account_of(site.account).is_some());
    sites.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes().unsigned_abs()));
    let has_age = matches!(view, View::Live | View::Grown);
    let row_of = |row: &Row| {
        let calls = lines.calls(row).map(|call| Call {
            file: call.file.to_owned(),
            line: call.line.into(),
            function: match call.native {
                Some(native) if call.function.is_empty() => format!("+{:#x}", native.offset),
                _ => call.function.to_owned(),
            },
            offset: call.native.map(|native| native.offset as i64),
        });
        StackRow {
            account: account_of(row.site.account)
                .map_or("", Account::name)
                .to_owned(),
            bytes: row.sum.bytes(),
            blocks: row.sum.blocks(),
            error_bytes: row.sum.error_bytes(samples.interval()),
            age_seconds: row.age_seconds.filter(|_| has_age),
            thread: Some(thread_name(samples, row.site).to_string()),
            types: Vec::new(),
            stack: calls.collect(),
        }
    };
    let mut rows = Vec::new();
    let Ok(()) = lines.each_row(&sites, |row, room| {
        let row = row_of(row);
        let length = length_of(&row);
        if length <= room {
            rows.push(row);
        }
        Ok::<_, std::convert::Infallible>(length)
    });
    rows
}

/// Bytes of a row and a comma in the report's JSON.
fn length_of(row: &StackRow) -> usize {
    escaped(&serde_json::to_string(row).unwrap_or_default()).len()
}

fn libraries(samples: &Samples) -> Vec<Library> {
    let mut known = Vec::new();
    for call in samples.all_frames() {
        let Some(native) = call.native else { continue };
        let build_id = (!native.build_id.is_empty()).then(|| native.build_id.to_owned());
        let library = Library {
            file: call.file.to_owned(),
            build_id,
        };
        if !known.contains(&library) {
            known.push(library);
        }
    }
    known
}

fn sums(samples: &Samples, view: View) -> Ordered<LineSum> {
    let mut sums = Account::ALL.map(|_| (Sum::NONE, 0));
    for site in samples.sites() {
        let of_site = samples.sum(site, view);
        if let Some((sum, stacks)) = sums.get_mut(usize::from(site.account))
            && of_site.bytes() != 0
        {
            *sum += of_site;
            *stacks += 1;
        }
    }
    let rows = Account::ALL
        .iter()
        .zip(sums)
        .filter(|(_, (_, stacks))| *stacks > 0);
    let row = |(account, (sum, stacks)): (&Account, (Sum, i64))| {
        let row = LineSum {
            bytes: sum.bytes(),
            blocks: sum.blocks(),
            error_bytes: sum.error_bytes(samples.interval()),
            stacks,
        };
        (account.name().to_owned(), row)
    };
    rows.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_record::rows::BYTES;
    use pyhost_sampler::{Added, Allocation, Call, Step, Weight};

    /// Samples of 1,000 stacks with 40 calls each, whose names are the letter many times. The first has the most bytes.
    fn samples(letter: char) -> Samples {
        let mut samples = Samples::new(1, 99);
        let name = letter.to_string().repeat(250 / letter.len_utf8());
        for number in 0..1000 {
            let file = format!("{name}{name}{number}");
            let call = Call {
                file: file.as_bytes(),
                function: name.as_bytes(),
                line: 1,
                native: None,
            };
            let mut walk =
                |take: &mut dyn FnMut(Step<'_>)| (0..40).for_each(|_| take(Step::Whole(call)));
            let allocation = Allocation {
                address: 16 + 16 * number,
                account: Account::Obj as u8,
                thread: u8::MAX,
                moment: 0,
                weight: Weight::new(10_000 - number, 10_000 - number, 1),
            };
            assert_eq!(samples.add(allocation, &mut walk, None), Added::New);
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
                let next = written / rows.len();
                assert!(written <= BYTES + 2, "{letter:?}: {written}");
                assert!(written + next > BYTES, "{letter:?}: {written}");
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
