use super::*;
use crate::stacks::tests::{sample, sample_value};
use flate2::read::GzDecoder;
use std::{collections::HashSet, io::Read};

fn decoded(view: View) -> Profile {
    let bytes = bytes(&sample(), &Choice::of_view(view)).unwrap();
    let mut plain = Vec::new();
    GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut plain)
        .unwrap();
    Profile::decode(plain.as_slice()).unwrap()
}

fn text(profile: &Profile, index: i64) -> &str {
    &profile.string_table[index as usize]
}

#[test]
fn a_sample_of_each_thread_has_its_name() {
    let report = crate::model::Report::of_json(&sample_value().to_string()).unwrap();
    let stacks = &Stacks::by_thread(&report).unwrap();
    let profile = profile(stacks, &Choice::of_view(View::Live));
    let of_thread = |name: &str| -> i64 {
        let has_it = |sample: &&Sample| {
            let label = |label: &Label| [text(&profile, label.key), text(&profile, label.str)];
            let mut labels = sample.label.iter().map(label);
            labels.any(|label| label == ["thread", name])
        };
        let samples = profile.sample.iter().filter(has_it);
        samples.map(|sample| sample.value[3]).sum()
    };
    assert_eq!([of_thread("main"), of_thread("work er")], [200, 100]);
}

#[test]
fn its_types_are_those_of_a_heap_profile() {
    let profile = decoded(View::AtPeak);
    let names = |of: &ValueType| [text(&profile, of.r#type), text(&profile, of.unit)];
    let types: Vec<_> = profile.sample_type.iter().map(names).collect();
    let expected = [
        ["alloc_objects", "count"],
        ["alloc_space", "bytes"],
        ["inuse_objects", "count"],
        ["inuse_space", "bytes"],
    ];
    assert_eq!(types, expected);
    let period = names(profile.period_type.as_ref().unwrap());
    assert_eq!(period, ["space", "bytes"]);
    assert_eq!(text(&profile, profile.default_sample_type), "inuse_space");
    assert_eq!(profile.period, 64);
    assert_eq!(profile.time_nanos, 1_795_266_480_000_000_000);
    assert_eq!(profile.duration_nanos, 1_500_000_000);
    let all = decoded(View::Allocated);
    assert_eq!(text(&all, all.default_sample_type), "alloc_space");
}

#[test]
fn every_reference_leads_somewhere_and_nothing_is_there_twice() {
    let profile = decoded(View::AtPeak);
    let strings: HashSet<&String> = profile.string_table.iter().collect();
    assert_eq!(strings.len(), profile.string_table.len());
    assert_eq!(profile.string_table[0], "");
    let (functions, locations) = (profile.function.iter(), profile.location.iter());
    let functions: HashSet<u64> = functions.map(|function| function.id).collect();
    let locations: HashSet<u64> = locations.map(|location| location.id).collect();
    assert_eq!(functions.len(), profile.function.len());
    assert_eq!(locations.len(), profile.location.len());
    assert!(!functions.contains(&0) && !locations.contains(&0));
    for location in &profile.location {
        assert_eq!(location.line.len(), 1);
        assert!(functions.contains(&location.line[0].function_id));
    }
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), profile.sample_type.len());
        assert!(!sample.location_id.is_empty());
        assert!(sample.location_id.iter().all(|id| locations.contains(id)));
    }
}

#[test]
fn a_sample_has_its_account_and_its_innermost_call_first() {
    let profile = decoded(View::AtPeak);
    let largest = profile.sample.iter().max_by_key(|sample| sample.value[3]);
    let largest = largest.unwrap();
    let Label { key, str } = largest.label[0];
    let label = [key, str].map(|index| text(&profile, index));
    assert_eq!(label, ["account", "obj"]);
    let calls = largest.location_id.iter().map(|id| {
        let location = &profile.location[*id as usize - 1];
        let function = &profile.function[location.line[0].function_id as usize - 1];
        let names = [
            text(&profile, function.name),
            text(&profile, function.filename),
        ];
        (names, location.line[0].line)
    });
    let expected = [(["load", "/job.py"], 3), (["<module>", "/job.py"], 9)];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
    assert_eq!(largest.value, [12, 1500, 7, 1000]);
}
