//! Tests that cannot run here: they say so with the reason, and `tools/test` counts and names them.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Records that the running test was skipped: in the test's output, and in the file that `EMBED_TESTS_SKIPPED` names.
#[track_caller]
pub fn skipped(reason: impl Display) {
    println!("skipped: {reason}");
    let Some(record) = std::env::var_os("EMBED_TESTS_SKIPPED") else {
        return;
    };
    let place = std::panic::Location::caller();
    let thread = std::thread::current();
    // With a single thread libtest runs the tests on its main thread, whose name is not a test's.
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", place.file(), place.line()),
    };
    let reason = reason.to_string().replace('\n', " ");
    let reason: String = reason.chars().take(160).collect();
    let line = format!("{test}: {reason}\n");
    let mut file = OpenOptions::new().append(true).create(true).open(record);
    let file = file.as_mut().expect("EMBED_TESTS_SKIPPED can be opened");
    // One write a line, so that lines of several threads stay whole.
    file.write_all(line.as_bytes()).unwrap();
}

#[test]
fn no_test_returns_without_a_word() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("embed-tests");
    let mut files = 0;
    let folders = std::fs::read_dir(folder).unwrap();
    let folders = folders.filter_map(|entry| std::fs::read_dir(entry.unwrap().path()).ok());
    for entry in folders.flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        files += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            // A function that returned `None` has called `skipped`.
            let bare = line.trim_start().starts_with("return;") && !before.ends_with("else {");
            assert!(
                !bare,
                "{}:{}: use `return skipped(REASON);`",
                path.display(),
                number + 1
            );
            before = line;
        }
    }
    assert!(files > 30, "{files}");
}
