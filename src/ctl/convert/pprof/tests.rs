use super::*;
use crate::stacks::tests::sample_value;

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
