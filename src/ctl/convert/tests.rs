//! Reports that nobody should write.

use super::{Format, convert};
use crate::stacks::tests::{assert_has, call, empty, row, stacks_of, with_lines};
use crate::stacks::{Stacks, View};
use clap::ValueEnum;
use serde_json::json;

pub fn convert_all(stacks: &Stacks) {
    for format in Format::value_variants() {
        for view in View::ALL {
            match convert(stacks, *format, view) {
                Ok(bytes) if !format.is_binary() => {
                    let text = String::from_utf8(bytes).unwrap();
                    let steers = |letter: char| letter.is_control() && !"\n\t".contains(letter);
                    assert!(!text.contains(steers), "{format:?} {text:?}");
                }
                Ok(_) => {}
                Err(error) => assert_eq!(error.lines().count(), 1, "{error}"),
            }
        }
    }
}

#[test]
fn what_is_mapped_is_left_out_but_at_the_highest_resident_size() {
    let stack = [call("f", "f.py", 1)];
    let rows = json!([row("mapped", 500, 1, &stack), row("obj", 7, 1, &stack)]);
    let lines = json!({"interval_bytes": 1, "at_peak": rows, "at_resident_peak": rows});
    let stacks = stacks_of(&with_lines(&lines)).unwrap().in_total();
    let text = |view| String::from_utf8(convert(&stacks, Format::Collapsed, view).unwrap());
    let [of_obj, of_mapped] = ["obj;f (f.py:1) 7\n", "mapped;f (f.py:1) 500\n"];
    assert_eq!(text(View::AtPeak).unwrap(), of_obj);
    let all = text(View::AtResidentPeak).unwrap();
    assert_eq!(all, format!("{of_mapped}{of_obj}"));
}

#[test]
fn a_report_without_rows_and_one_with_the_deepest_stack_are_converted() {
    convert_all(&empty());
    let row = row("obj", i64::MAX, 1, &vec![call("f", "f.py", 1); 4000]);
    let lines = json!({"interval_bytes": 1, "at_peak": [row]});
    convert_all(&stacks_of(&with_lines(&lines)).unwrap());
}

#[test]
fn names_that_look_like_parts_of_a_format_stay_names() {
    let names = [
        "", " ", "f 12", "f 1.5", "# f", "f;g 3", "</svg>", "\"&'", "--", "\u{0}", "_[j]", "12",
    ];
    for name in names {
        let calls = [call(name, name, -3), call(name, name, i64::MAX)];
        let rows = json!([row(name, 5, 1, &calls), row("obj", 7, 1, &[])]);
        let stacks = stacks_of(&with_lines(&json!({"interval_bytes": 1, "live": rows}))).unwrap();
        convert_all(&stacks);
        // A name ends neither a frame nor a line.
        let text = convert(&stacks, Format::Collapsed, View::Live).unwrap();
        let ends = |line: &[u8]| line.iter().filter(|byte| **byte == b';').count();
        let lines = text.split(|byte| *byte == b'\n').map(ends);
        assert_eq!(lines.collect::<Vec<_>>(), [1, 2, 0], "{name:?}");
        let picture = convert(&stacks, Format::Svg, View::Live).unwrap();
        let picture = String::from_utf8(picture).unwrap();
        assert_has(&picture, &["total_samples=\"12\""]);
        assert!(picture.ends_with("</svg>"), "{name:?}");
        assert_eq!(picture.matches("</svg>").count(), 2, "{name:?}");
    }
}
