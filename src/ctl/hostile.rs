//! The readers of foreign bytes: each reads them or refuses them in one line, nothing panics, and the output holds only letters and
//! line ends. The fuzz targets call the functions; the tests give them what is mutated by a fixed seed.

use crate::html::{self, lines::Baseline, page::Beside};
use crate::model::{Report, SampledLines};
use crate::stacks::tests::{assert_plain, mutated, sample_value};
use crate::{convert, document::text_of, stacks::Stacks, symbols::Symbols};
use crate::{diff, lines, serve, symbolize, top};
use pyhost_ledger::header::Header;
use pyhost_os::clock::Utc;
use pyhost_record::{Record, SIZE, blank};
use pyhost_testing::Random;

fn show(report: &Report) {
    assert_plain(&report.to_text());
    let other = Report::default();
    assert_plain(&diff::to_text(report, &other));
    assert_plain(&diff::to_json(report, &other, None));
}

/// Shows a record in all forms. Its file is of `patches`, as [`patched`] reads them.
pub fn live_file(patches: &[u8]) {
    let (mut bytes, alive) = (patched(patches), patches.len().is_multiple_of(2));
    bytes.resize(SIZE, 0);
    let mut whole = blank();
    whole.truncate(8);
    bytes[..8].copy_from_slice(&whole);
    bytes[size_of::<Header>()..][..8].copy_from_slice(&blank()[size_of::<Header>()..][..8]);
    let Ok(record) = Record::of_bytes(&bytes) else {
        return;
    };
    assert!(!record.last_words().is_empty());
    for number in [0, 1, 64, u64::MAX] {
        let mark = record.header().mark_of(number);
        let _ = mark.map(|mark| mark.name().len());
    }
    let report = Report::of_record(&record, alive);
    let text = report.to_json();
    show(&report);
    assert_plain(&text);
    // A count that no ledger has may be refused, in words.
    if let Err(error) = Report::of_json(&text) {
        assert!(error.contains("whole number"), "{error}");
    }
    let widths = [0, 1, 20, 40, 80, 200];
    top::tests::draw(record, alive, widths[patches.len() % widths.len()]);
}

/// Bytes that are zero but for patches: three bytes of a place, one of a length, as many bytes.
fn patched(mut patches: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some((&[a, b, c, length], rest)) = patches.split_first_chunk() {
        let patch = &rest[..rest.len().min(length.into())];
        let place = u32::from_le_bytes([a, b, c, 0]) as usize % (4 * SIZE);
        bytes.resize(bytes.len().max(place + patch.len()), 0);
        bytes[place..place + patch.len()].copy_from_slice(patch);
        patches = &rest[patch.len()..];
    }
    bytes
}

/// Shows the samples of a file of lines, of `patches`, in all forms.
pub fn lines(patches: &[u8]) {
    let bytes = patched(patches);
    let words = bytes.as_chunks().0.iter();
    let words: Vec<u64> = words.map(|word| u64::from_ne_bytes(*word)).collect();
    let Some(mut samples) = pyhost_sampler::published::read(&words) else {
        return;
    };
    samples.look_at_clock(u64::MAX);
    let lines = Some(SampledLines::of_samples(&samples));
    let report = Report {
        schema: "pyhost-report/1".to_owned(),
        lines,
        ..Report::default()
    };
    show_report(&report.to_json());
}

/// Shows a report in JSON in all forms, or refuses it in a line.
pub fn report(bytes: &[u8]) {
    if let Ok(text) = text_of(bytes) {
        show_report(&text);
    }
}

/// Which was: no report, one without stacks, one that was shown whole.
fn show_report(text: &str) -> usize {
    let is_line = |error: &str| {
        assert_plain(error);
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    let report = match Report::of_json(text) {
        Ok(report) => report,
        Err(error) => {
            is_line(&error);
            return 0;
        }
    };
    let mut shown = 1;
    for of in [Stacks::of_report, Stacks::by_thread] {
        match of(&report) {
            Ok(stacks) => {
                shown = 2;
                convert::tests::convert_all(&stacks);
                lines::tests::show_all(&stacks);
            }
            Err(error) => is_line(&error),
        }
    }
    let other = sample_value().to_string();
    for (text, before) in [(text, None), (text, Some(&*other)), (&other, Some(text))] {
        match page_of(text, before) {
            Ok(page) => {
                let tags = |tag: &str| page.matches(tag).count();
                assert_eq!(tags("<script"), tags("</script>"));
                // The scripts' data, in base 64, may have these letters.
                let shown = page.split("<script").next();
                assert!(shown.is_some_and(|shown| !shown.contains("NaN")));
            }
            Err(error) => {
                assert!(before.is_some(), "{error}");
                is_line(&error);
            }
        }
    }
    show(&report);
    shown
}

/// The page of a report in JSON, compared with another one.
pub fn page_of(text: &str, before: Option<&str>) -> Result<String, String> {
    let baseline = |text| Baseline::new(Box::new(Report::of_json(text)?));
    let baseline = before.map(baseline).transpose()?;
    let beside = Beside {
        baseline: baseline.as_ref(),
        ..Beside::default()
    };
    html::page::page(&Report::of_json(text)?, text, &beside)
}

/// Draws a timeline, or refuses it in a line.
pub fn timeline(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match html::timeline::Timeline::of_text(&text) {
        Ok(timeline) => {
            let report = Report::of_record(&Record::of_bytes(&blank()).unwrap(), true);
            let beside = Beside {
                timeline: Some(&timeline),
                ..Beside::default()
            };
            html::page::page(&report, &report.to_json(), &beside).unwrap();
        }
        Err(error) => assert_eq!(error.lines().count(), 1, "{error}"),
    }
}

/// Looks for the names of calls in a library. The first eight bytes are an offset in it.
pub fn elf(bytes: &[u8]) {
    let Some((offset, library)) = bytes.split_first_chunk() else {
        return;
    };
    let path = std::env::temp_dir().join(format!("pyhostctl-elf-{}", std::process::id()));
    std::fs::write(&path, library).unwrap();
    let name = path.to_str().unwrap();
    let mut symbols = Symbols::new([(name, "")].into_iter(), Some(Utc(u64::MAX)));
    let places = symbols.of_call(name, "f", u64::from_le_bytes(*offset));
    assert!(!places.is_empty());
    let mut others = Symbols::new([(name, "00")].into_iter(), None);
    others.of_call(name, "f", 1);
}

/// Reads a request to `pyhostctl serve`, and a text that names native calls.
pub fn request(bytes: &[u8]) {
    let _ = serve::request::Request::parse(bytes);
    symbolize::named(bytes, None);
}

#[test]
fn no_bytes_of_a_record_harm_its_reader() {
    let mut random = Random(6);
    for _ in 0..500 {
        let length = random.below(2000);
        let patches: Vec<u8> = (0..length).map(|_| random.number() as u8).collect();
        live_file(&patches);
    }
}

#[test]
fn no_mutated_report_harms_its_readers() {
    let mut random = Random(66);
    let blank = Report::of_record(&Record::of_bytes(&blank()).unwrap(), true).to_json();
    let whole = [blank, sample_value().to_string()];
    let mut shown = [0; 3];
    for round in 0..2000 {
        shown[show_report(&mutated(&whole[round % 2], &mut random))] += 1;
    }
    assert!(shown.iter().all(|&count| count > 100), "{shown:?}");
}

/// The kinds of files that are no report are the embedded test's: `files_of_every_other_kind_are_refused_in_a_line`.
#[test]
fn a_report_that_no_host_writes_is_refused_with_its_fault() {
    for (text, part) in [
        ("{\"schema\":7}", "names no schema"),
        (r#"{"schema":"coverage/3\u001b"}"#, "schema 'coverage/3 '"),
        ("{\"schema\":\"pyhost-report/1\"}", "has no accounts"),
        (
            "{\"schema\":\"pyhost-report/1\",\"accounts\":{\"obj\":{\"live_bytes\":-1}}}",
            "no whole number at accounts.obj.live_bytes",
        ),
        ("{} {}", "not a report in JSON"),
    ] {
        let error = Report::of_json(text).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(text_of(&b"\xff"[..]).unwrap_err(), "is not UTF-8");
}
