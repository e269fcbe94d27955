use super::*;
use crate::stacks::tests::{call, empty, row, sample, stacks_of, with_lines};
use pyhost_record::output::format::{ENOUGH, is_ours};
use serde_json::json;
use std::{collections::HashSet, fmt::Debug};

fn decoded(stacks: &Stacks, view: View) -> ProfilesData {
    ProfilesData::decode(bytes(stacks, view).as_slice()).unwrap()
}

fn profiles(data: &ProfilesData) -> &[Profile] {
    &data.resource_profiles[0].scope_profiles[0].profiles
}

fn tables(data: &ProfilesData) -> &ProfilesDictionary {
    data.dictionary.as_ref().unwrap()
}

/// A table has its zero value first, nothing twice, and the entries of exactly these indices.
fn assert_table<T: Debug + PartialEq + Default>(table: &[T], used: impl IntoIterator<Item = i32>) {
    assert_eq!(table[0], T::default());
    for (place, entry) in table.iter().enumerate() {
        assert!(!table[..place].contains(entry), "{entry:?} is there twice");
    }
    let used: HashSet<i32> = used.into_iter().chain([0]).collect();
    let all: HashSet<i32> = (0..table.len() as i32).collect();
    assert_eq!(used, all, "of {table:?}");
}

#[test]
fn every_index_leads_somewhere_and_every_entry_is_used() {
    for (stacks, view) in [
        (sample(), View::AtPeak),
        (sample(), View::Live),
        (empty(), View::Live),
    ] {
        let data = decoded(&stacks, view);
        let tables = tables(&data);
        let samples = || profiles(&data).iter().flat_map(|profile| &profile.samples);
        let stacks = samples().map(|sample| sample.stack_index);
        assert_table(&tables.stack_table, stacks);
        let stacks = tables.stack_table.iter();
        let calls = stacks.flat_map(|stack| &stack.location_indices);
        assert_table(&tables.location_table, calls.copied());
        let locations = || tables.location_table.iter();
        let lines = locations().flat_map(|location| &location.lines);
        let functions = lines.map(|line| line.function_index);
        assert_table(&tables.function_table, functions);
        let of_calls = locations().map(|location| &location.attribute_indices);
        let of_samples = samples().map(|sample| &sample.attribute_indices);
        let attributes = of_calls.chain(of_samples).flatten();
        assert_table(&tables.attribute_table, attributes.copied());
        let mut texts: Vec<i32> = Vec::new();
        for function in &tables.function_table {
            texts.extend([function.name_strindex, function.filename_strindex]);
        }
        for profile in profiles(&data) {
            let kinds = [&profile.sample_type, &profile.period_type];
            for of in kinds.into_iter().flatten() {
                texts.extend([of.type_strindex, of.unit_strindex]);
            }
        }
        let attributes = tables.attribute_table.iter();
        texts.extend(attributes.map(|attribute| attribute.key_strindex));
        assert_table(&tables.string_table, texts);
        let unused = (tables.mapping_table.len(), tables.link_table.len());
        assert_eq!(unused, (1, 1));
    }
}

#[test]
fn a_long_command_hides_neither_the_scope_nor_the_program() {
    let mut stacks = sample();
    stacks.command = "\u{1f40d}".repeat(50_000);
    let bytes = bytes(&stacks, View::Live);
    assert!(is_ours(&bytes[..bytes.len().min(ENOUGH)]));
}

#[test]
fn native_calls_and_those_of_python_have_their_kinds() {
    let native = json!({"file": "/lib/liba.so", "line": 0, "function": "f", "offset": 16});
    let stack = [native, call("g", "/job.py", 9)];
    let lines = json!({"interval_bytes": 1, "live": [row("native", 5, 1, &stack)]});
    let data = decoded(&stacks_of(&with_lines(&lines)).unwrap(), View::Live);
    let tables = tables(&data);
    let text = |index: i32| tables.string_table[index as usize].as_str();
    let kinds = tables.location_table[1..].iter().map(|location| {
        let function = &tables.function_table[location.lines[0].function_index as usize];
        let kind = &tables.attribute_table[location.attribute_indices[0] as usize];
        assert_eq!(text(kind.key_strindex), "profile.frame.type");
        (text(function.name_strindex), kind.value.clone().unwrap())
    });
    let mut kinds: Vec<(&str, AnyValue)> = kinds.collect();
    kinds.sort_by_key(|kind| kind.0);
    let expected = [("f", "native"), ("g", "cpython")];
    let expected = expected.map(|(name, kind)| (name, text_value(kind.to_owned())));
    assert_eq!(kinds, expected);
}
