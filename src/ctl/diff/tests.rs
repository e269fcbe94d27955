use super::*;

fn row(name: &str, live_bytes: u64) -> AccountSummary {
    AccountSummary {
        name: name.to_owned(),
        live_bytes,
        ..AccountSummary::default()
    }
}

#[test]
fn accounts_of_either_side_have_a_row() {
    let a = Summary {
        accounts: vec![row("raw", 1024), row("gone", u64::MAX)],
        ..Summary::default()
    };
    let b = Summary {
        accounts: vec![row("new", 5), row("raw", 3072)],
        ..Summary::default()
    };
    let pairs = pairs(&a, &b);
    let names: Vec<&str> = pairs.iter().map(|(a, _)| a.name.as_str()).collect();
    assert_eq!(names, ["raw", "gone", "new"]);
    let text = to_text(&a, &b, &pairs);
    assert!(text.contains("+2.0 KiB"), "{text}");
    assert!(text.contains("-16384.0 PiB"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&to_json(&a, &b, &pairs, None)).unwrap();
    assert_eq!(json["accounts"]["raw"]["live_bytes"]["change"], 2048);
    assert_eq!(
        json["accounts"]["gone"]["live_bytes"]["change"],
        -i64::MAX - 1
    );
    assert_eq!(json["accounts"]["new"]["live_bytes"]["a"], 0);
}
