//! Profiles for OpenTelemetry: a `ProfilesData` in protobuf, which is an `ExportProfilesServiceRequest`, too.
//! [`message`] has the messages, [`dictionary`] the tables that they refer to.
//!
//! A profile has one type of value. There are four, with the names of pprof's heap profiles: see [`super::pprof`].

mod dictionary;
mod message;
#[cfg(test)]
mod tests;

use super::in_use_of;
use crate::stacks::{Site, Stacks, View};
use dictionary::{Dictionary, text_value};
use message::{
    InstrumentationScope, KeyValue, Profile, ProfilesData, Resource, ResourceProfiles, Sample,
    ScopeProfiles, ValueType,
};
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
    let mut profiles: Vec<Profile> = [
        ("inuse_space", "bytes", in_use),
        ("inuse_objects", "count", in_use),
        ("alloc_space", "bytes", View::Allocated),
        ("alloc_objects", "count", View::Allocated),
    ]
    .into_iter()
    .map(|(name, unit, view)| profile(stacks, name, unit, view, &mut dictionary))
    .collect();
    if view == View::Allocated {
        profiles.rotate_left(2);
    }
    let name: String = stacks.command.chars().take(LONGEST_NAME).collect();
    ProfilesData {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(Resource {
                attributes: vec![KeyValue {
                    key: "service.name".to_owned(),
                    value: Some(text_value(&name)),
                }],
            }),
            scope_profiles: vec![ScopeProfiles {
                scope: Some(InstrumentationScope {
                    name: "pyhostctl".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                }),
                profiles,
            }],
        }],
        dictionary: Some(dictionary.finish()),
    }
}

fn profile(
    stacks: &Stacks,
    name: &str,
    unit: &str,
    view: View,
    dictionary: &mut Dictionary,
) -> Profile {
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
            values: vec![if unit == "bytes" {
                amount.bytes
            } else {
                amount.blocks
            }],
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
    }
}
