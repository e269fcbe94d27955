//! The readers of records and reports, given mutated ones by a fixed seed. Each is read or refused in
//! one line, nothing panics, and the output holds only letters and line ends.

use crate::document::Document;
use crate::model::Report;
use crate::stacks::Stacks;
use crate::stacks::tests::{mutated, sample_value};
use crate::summary::Summary;
use crate::{convert, diff, lines, top};
use pyhost_ledger::card::Card;
use pyhost_record::{Record, SIZE, blank};
use pyhost_testing::Random;
use std::path::PathBuf;

fn assert_plain(text: &str) {
    let steers = |letter: char| letter.is_control() && letter != '\n';
    assert!(!text.contains(steers), "{text:?}");
}

/// Shows a summary in every form.
fn show(summary: &Summary) {
    assert_plain(&summary.to_text());
    for form in diff::forms(summary, &Summary::default(), None) {
        assert_plain(&form);
    }
}

/// A file below the build's temporary folder, of these bytes.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pyhostctl-{name}-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn no_mutated_record_harms_its_reader() {
    let mut random = Random(6);
    let whole = blank();
    let card = size_of::<Card>();
    let mut read = 0;
    for round in 0..3000 {
        let mut bytes = whole.clone();
        let few = 1 + random.below(60);
        for _ in 0..if round % 4 == 0 { SIZE } else { few } {
            // Most of the output comes from the first fields and from the accounts.
            let end = random.of(&[160, 4096, card, card + 2048, SIZE]);
            let at = random.below(end);
            if at >= 8 && !(card..card + 8).contains(&at) {
                let any = random.number() as u8;
                bytes[at] = random.of(&[0, 1, 0x1b, 0x7f, 0x80, 0x9b, 0xc2, 0xff, any]);
            }
        }
        if round % 10 == 0 {
            bytes.truncate(random.below(SIZE));
        }
        let Ok(record) = Record::of_bytes(&bytes) else {
            assert!(bytes.len() < SIZE);
            continue;
        };
        read += 1;
        let alive = round % 2 == 0;
        let report = Box::new(Report::of_record(&record, alive));
        let text = report.to_json();
        show(&Summary::of_record(&record, alive, report));
        assert_plain(&text);
        // A count that no ledger has may be refused, in words.
        if let Err(error) = Report::of_json(&text) {
            assert!(error.contains("whole number"), "{error}");
        }
        top::tests::draw(record, alive, [0, 1, 20, 40, 80, 200][round % 6]);
    }
    assert_eq!(read, 2700);
}

#[test]
fn no_mutated_report_harms_its_readers() {
    let mut random = Random(66);
    let blank = Report::of_record(&Record::of_bytes(&blank()).unwrap(), true).to_json();
    let whole = [blank, sample_value().to_string()];
    assert!(Report::of_json(&whole[0]).is_ok());
    let is_line = |error: &str| {
        assert_plain(error);
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    let (mut read, mut with_stacks, mut refused) = (0, 0, 0);
    for round in 0..9000 {
        let text = mutated(&whole[round % 2], &mut random);
        let report = match Report::of_json(&text) {
            Ok(report) => report,
            Err(error) => {
                is_line(&error);
                continue;
            }
        };
        read += 1;
        match [Stacks::of_report, Stacks::by_thread][random.below(2)](&report) {
            Ok(stacks) => {
                with_stacks += 1;
                convert::tests::convert_all(&stacks);
                lines::tests::show_all(&stacks);
            }
            Err(error) => {
                refused += 1;
                is_line(&error);
            }
        }
        show(&Summary::of_report(Box::new(report)));
    }
    assert!(
        read > 1000 && with_stacks > 500 && refused > 500,
        "{read}, {with_stacks}, {refused}"
    );
}

#[test]
fn what_is_no_report_is_told_by_its_kind() {
    let deep = |open: &str, count: usize| open.repeat(count);
    for (text, part) in [
        (String::new(), "neither"),
        ("[]".to_owned(), "neither"),
        ("\0\0\0\0".to_owned(), "neither"),
        ("pyhcard1".to_owned(), "has 8 bytes"),
        ("pyhcard2".to_owned(), "has 8 bytes"),
        ("{".to_owned(), "not a report in JSON"),
        (" \n{}".to_owned(), "names no schema"),
        ("{\"schema\":7}".to_owned(), "names no schema"),
        (
            "{\"schema\":\"coverage/3\\u001b\"}".to_owned(),
            "of schema 'coverage/3 '",
        ),
        (deep("{\"a\":", 1_000_000), "recursion limit"),
        (
            format!("{{\"schema\":{}", deep("[", 1_000_000)),
            "recursion limit",
        ),
        (
            "{\"schema\":\"pyhost-report/1\"}".to_owned(),
            "has no accounts",
        ),
        (
            "{\"schema\":\"pyhost-report/1\",\"accounts\":{\"obj\":{\"live_bytes\":-1}}}"
                .to_owned(),
            "no whole number at accounts.obj.live_bytes",
        ),
        ("{} {}".to_owned(), "not a report in JSON"),
    ] {
        let path = file("kind", text.as_bytes());
        let Err(failure) = Document::read(&path) else {
            panic!("{part} was read");
        };
        assert!(failure.0.contains(part), "{part}: {}", failure.0);
        std::fs::remove_file(&path).unwrap();
    }
    let path = file("utf8", b"{\"schema\":\"\xff\"}");
    let Err(failure) = Document::read(&path) else {
        panic!("it was read");
    };
    assert!(failure.0.contains("is not UTF-8"), "{}", failure.0);
    std::fs::remove_file(&path).unwrap();
}
