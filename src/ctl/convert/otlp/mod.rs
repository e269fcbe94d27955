//! Profiles for OpenTelemetry: a `ProfilesData` in protobuf, which is an `ExportProfilesServiceRequest`, too.
//! [`Dictionary`] has the tables that the messages refer to: each entry once, and none that nothing refers to. Each table begins with its
//! zero value, so that an index of 0 stands for nothing.
//!
//! A profile has one type of value. There are four, with the names of pprof's heap profiles: see [`super::pprof`].

#[cfg(test)]
mod tests;

use super::in_use_of;
use crate::stacks::{Frame, Site, Stacks, View};
use indexmap::IndexSet;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesData,
    ProfilesDictionary, ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use pyhost_os::clock::Utc;

/// Letters of the service's name at most: later conversions look for the scope behind it.
const LONGEST_NAME: usize = 200;

/// The message. Readers show the first profile: the bytes of the chosen view.
pub fn bytes(stacks: &Stacks, view: View) -> Vec<u8> {
    data(stacks, view).encode_to_vec()
}

fn data(stacks: &Stacks, view: View) -> ProfilesData {
    let mut dictionary = Dictionary::new();
    let in_use = in_use_of(view);
    let mut profiles = [
        ("inuse_space", "bytes", in_use),
        ("inuse_objects", "count", in_use),
        ("alloc_space", "bytes", View::Allocated),
        ("alloc_objects", "count", View::Allocated),
    ]
    .map(|kind| profile(stacks, kind, &mut dictionary));
    if view == View::Allocated {
        profiles.rotate_left(2);
    }
    let name: String = stacks.command.chars().take(LONGEST_NAME).collect();
    ProfilesData {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(Resource {
                attributes: vec![KeyValue {
                    key: "service.name".to_owned(),
                    value: Some(text_value(name)),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            scope_profiles: vec![ScopeProfiles {
                scope: Some(InstrumentationScope {
                    name: "pyhostctl".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    ..Default::default()
                }),
                profiles: profiles.into(),
                ..Default::default()
            }],
            ..Default::default()
        }],
        dictionary: Some(dictionary.finish()),
    }
}

/// The name and the unit of a profile's values, and the view that they are of.
type Kind = (&'static str, &'static str, View);

fn profile(stacks: &Stacks, (name, unit, view): Kind, dictionary: &mut Dictionary) -> Profile {
    let mut value_type = |name, unit| ValueType {
        type_strindex: dictionary.text(name),
        unit_strindex: dictionary.text(unit),
    };
    let sample_type = Some(value_type(name, unit));
    let period_type = Some(value_type("allocated_bytes", "bytes"));
    let mut sample = |site: &Site| {
        let amount = site.amount(view);
        let mut attributes = vec![dictionary.attribute("pyhost.account", &site.account)];
        let thread = site.thread.as_ref();
        attributes.extend(thread.map(|name| dictionary.attribute("thread.name", name)));
        Sample {
            stack_index: dictionary.stack(stacks, site),
            attribute_indices: attributes,
            values: match unit {
                "bytes" => vec![amount.bytes],
                _ => vec![amount.blocks],
            },
            ..Default::default()
        }
    };
    Profile {
        sample_type,
        samples: stacks.of_view(view).into_iter().map(&mut sample).collect(),
        time_unix_nano: stacks.started.map_or(0, |Utc(time)| time),
        // The conversion takes what is no number as 0.
        duration_nano: (stacks.seconds.unwrap_or(0.0) * 1e9) as u64,
        period_type,
        period: stacks.interval,
        ..Default::default()
    }
}

/// The attribute of a call: what runs its code. Key and values are those of OpenTelemetry's semantic conventions.
const FRAME_TYPE: &str = "profile.frame.type";

/// The tables while they are filled. A report has at most 16 MiB, so that every index fits.
struct Dictionary {
    texts: IndexSet<String>,
    functions: IndexSet<Function>,
    locations: IndexSet<(Line, Vec<i32>)>,
    stacks: IndexSet<Stack>,
    attributes: IndexSet<(i32, String)>,
}

impl Dictionary {
    fn new() -> Self {
        Dictionary {
            texts: IndexSet::from([String::new()]),
            functions: IndexSet::from([Function::default()]),
            locations: IndexSet::new(),
            stacks: IndexSet::from([Stack::default()]),
            attributes: IndexSet::new(),
        }
    }

    fn text(&mut self, text: &str) -> i32 {
        self.texts.insert_full(text.to_owned()).0 as i32
    }

    fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let attribute = (self.text(key), value.to_owned());
        self.attributes.insert_full(attribute).0 as i32 + 1
    }

    fn stack(&mut self, stacks: &Stacks, site: &Site) -> i32 {
        let frames = site.stack.iter().map(|number| &stacks.frames[*number]);
        let location_indices = frames.map(|frame| self.location(frame)).collect();
        self.stacks.insert_full(Stack { location_indices }).0 as i32
    }

    fn location(&mut self, frame: &Frame) -> i32 {
        let (file, line, attribute_indices) = match &frame.place {
            Some((file, line)) => {
                let kind = match frame.library {
                    Some(_) => "native",
                    None => "cpython",
                };
                (file.as_str(), *line, vec![self.attribute(FRAME_TYPE, kind)])
            }
            None => ("", 0, Vec::new()),
        };
        let function = Function {
            name_strindex: self.text(&frame.name),
            filename_strindex: self.text(file),
            ..Default::default()
        };
        let line = Line {
            function_index: self.functions.insert_full(function).0 as i32,
            line: line.into(),
            column: 0,
        };
        self.locations.insert_full((line, attribute_indices)).0 as i32 + 1
    }

    fn finish(self) -> ProfilesDictionary {
        let location = |(line, attribute_indices)| Location {
            lines: vec![line],
            attribute_indices,
            ..Default::default()
        };
        let attribute = |(key_strindex, value)| KeyValueAndUnit {
            key_strindex,
            value: Some(text_value(value)),
            unit_strindex: 0,
        };
        ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: with_zero(self.locations.into_iter().map(location)),
            function_table: self.functions.into_iter().collect(),
            // The form of the zero value that readers with ids of a fixed length take, too.
            link_table: vec![Link {
                trace_id: vec![0; 16],
                span_id: vec![0; 8],
            }],
            string_table: self.texts.into_iter().collect(),
            attribute_table: with_zero(self.attributes.into_iter().map(attribute)),
            stack_table: self.stacks.into_iter().collect(),
        }
    }
}

/// A table that begins with its zero value.
fn with_zero<T: Default>(entries: impl Iterator<Item = T>) -> Vec<T> {
    std::iter::once(T::default()).chain(entries).collect()
}

fn text_value(text: String) -> AnyValue {
    AnyValue {
        value: Some(Value::StringValue(text)),
    }
}
