//! A heap profile for `go tool pprof` and other readers of `profile.proto`: [`message`] has its messages.
//!
//! The four values of a sample are those of Go's own heap profiles, so that readers choose the same names and the same
//! default.

mod message;

use super::{MADE_BY, in_use_of};
use crate::model::whole;
use crate::stacks::{Frame, Site, Stacks, View};
use flate2::{Compression, GzBuilder};
use indexmap::IndexSet;
use message::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use prost::Message;
use pyhost_os::clock::Utc;
use std::io::Write;

/// The id of the one mapping. It says that all locations have names, so that readers look for no symbols.
const MAPPING: u64 = 1;

pub struct Choice {
    pub in_use: View,
    pub alloc_first: bool,
    /// A comment beside the usual ones.
    pub remark: Option<String>,
}

impl Choice {
    /// `inuse` has the view; if that is all that was allocated, the peak, and readers show `alloc` first.
    pub fn of_view(view: View) -> Self {
        Choice {
            in_use: in_use_of(view),
            alloc_first: view == View::Allocated,
            remark: None,
        }
    }
}

/// The profile, compressed.
pub fn bytes(stacks: &Stacks, choice: &Choice) -> Result<Vec<u8>, String> {
    // By its comment a later conversion knows that it may take the file's place.
    let builder = GzBuilder::new().comment(MADE_BY);
    let mut encoder = builder.write(Vec::new(), Compression::default());
    let encoded = profile(stacks, choice).encode_to_vec();
    let written = encoder.write_all(&encoded).and_then(|()| encoder.finish());
    written.map_err(|error| format!("cannot be compressed ({error})"))
}

fn profile(stacks: &Stacks, choice: &Choice) -> Profile {
    let default = match choice.alloc_first {
        true => "alloc_space",
        false => "inuse_space",
    };
    let mut texts = IndexSet::from([String::new()]);
    let mut value_type = |name, unit| ValueType {
        r#type: index(name, &mut texts),
        unit: index(unit, &mut texts),
    };
    let sample_type = vec![
        value_type("alloc_objects", "count"),
        value_type("alloc_space", "bytes"),
        value_type("inuse_objects", "count"),
        value_type("inuse_space", "bytes"),
    ];
    let period_type = Some(value_type("space", "bytes"));
    let sites = stacks.sites.iter();
    let samples = sites.map(|site| sample(site, choice.in_use, &mut texts));
    let has_bytes = |sample: &Sample| sample.value.iter().any(|value| *value != 0);
    let sample = samples.filter(has_bytes).collect();
    let (location, function) = locations(&stacks.frames, &mut texts);
    // The remarks that `pprof -comments` prints.
    let in_use = choice.in_use.title();
    let comments = [
        format!("pyhost --lines, {}; inuse: {in_use}", stacks.command),
        format!("{} samples, {} lost", stacks.samples, stacks.dropped),
    ];
    let comments = comments.iter().chain(&choice.remark);
    Profile {
        sample_type,
        sample,
        mapping: vec![Mapping {
            id: MAPPING,
            filename: index(&stacks.command, &mut texts),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
        }],
        location,
        function,
        time_nanos: stacks.started.map_or(0, |Utc(time)| whole(time)),
        // The conversion takes what is no number as 0.
        duration_nanos: (stacks.seconds.unwrap_or(0.0).max(0.0) * 1e9) as i64,
        period_type,
        period: stacks.interval,
        comment: comments.map(|text| index(text, &mut texts)).collect(),
        default_sample_type: index(default, &mut texts),
        string_table: texts.into_iter().collect(),
    }
}

fn sample(site: &Site, in_use: View, texts: &mut IndexSet<String>) -> Sample {
    let alloc = site.amount(View::Allocated);
    // A stack that shrank has none in use.
    let in_use = Some(site.amount(in_use)).filter(|amount| amount.bytes > 0);
    let in_use = in_use.unwrap_or_default();
    let thread = site.thread.iter().map(|thread| ("thread", thread));
    let labels = [("account", &site.account)].into_iter().chain(thread);
    Sample {
        location_id: site.stack.iter().map(|number| id(*number)).collect(),
        value: vec![alloc.blocks, alloc.bytes, in_use.blocks, in_use.bytes],
        label: labels
            .map(|(key, text)| Label {
                key: index(key, texts),
                str: index(text, texts),
            })
            .collect(),
    }
}

/// A location for each frame, with the frame's number, and their functions.
///
/// The functions have no `system_name`: where it is the name, pprof takes it for one of C++ and removes what is between
/// `<` and `>`, which is all of `<module>` (seen with pprof of Go 1.19).
fn locations(frames: &[Frame], texts: &mut IndexSet<String>) -> (Vec<Location>, Vec<Function>) {
    let mut functions = IndexSet::new();
    let mut locations = Vec::new();
    for (number, frame) in frames.iter().enumerate() {
        let (file, line) = match &frame.place {
            Some((file, line)) => (file.as_str(), i64::from(*line)),
            None => ("", 0),
        };
        let name = index(&frame.name, texts);
        let function = functions.insert_full((name, index(file, texts))).0;
        locations.push(Location {
            id: id(number),
            mapping_id: MAPPING,
            line: vec![Line {
                function_id: id(function),
                line,
            }],
        });
    }
    let functions = functions.into_iter().enumerate();
    let functions = functions.map(|(number, (name, filename))| Function {
        id: id(number),
        name,
        filename,
    });
    (locations, functions.collect())
}

fn id(number: usize) -> u64 {
    number as u64 + 1
}

fn index(text: &str, texts: &mut IndexSet<String>) -> i64 {
    texts.insert_full(text.to_owned()).0 as i64
}
