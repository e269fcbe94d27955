//! `pyhostctl convert`: a report of `--lines` in every format has the bytes that the report has. The profile for pprof
//! is read by its public field numbers alone, the one for OpenTelemetry by that project's own messages.

use crate::environments::{named, pins};
use crate::host::{Outcome, PYHOSTCTL, Run, folder, joined};
use crate::protobuf::{fields, packed, texts};
use crate::skipping::skipped;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keeps a mebibyte and frees eight, each in a function of its own.
const SCRIPT: &str = "
def keep():
    return [bytes(1 << 10) for _ in range(1 << 10)]
def free():
    [bytes(1 << 12) for _ in range(1 << 11)]
kept = keep()
free()
";

const VIEWS: [&str; 3] = ["at_peak", "live", "allocated"];

/// A report with lines, of every allocation, and its path.
fn report(options: &[&str]) -> (PathBuf, Value) {
    let folder = folder("convert");
    let (script, path) = (folder.join("job.py"), folder.join("report.json"));
    std::fs::write(&script, SCRIPT).unwrap();
    let file = joined("--stats=file=", &path);
    let run = Run::host().args(options).arg(file);
    run.arg(&script).ok();
    let text = std::fs::read_to_string(&path).unwrap();
    (path, serde_json::from_str(&text).unwrap())
}

fn convert(report: &Path, arguments: &[&str]) -> Run {
    Run::program(PYHOSTCTL)
        .arg("convert")
        .arg(report)
        .args(arguments)
}

/// The bytes and blocks of a view, from the report's sums, and by how much rounding may change them.
fn sums(report: &Value, view: &str) -> (i64, i64, i64) {
    let accounts = report["lines"]["sums"][view].as_object().unwrap();
    let of = |name: &str| {
        accounts
            .values()
            .map(|sum| sum[name].as_i64().unwrap())
            .sum()
    };
    let rows = report["lines"][view].as_array().unwrap().len();
    (of("bytes"), of("blocks"), rows as i64 + 8)
}

fn assert_near(found: i64, expected: i64, error: i64, what: &str) {
    assert!(
        (found - expected).abs() <= error,
        "{what}: {found}, {expected} \u{b1} {error}"
    );
}

/// Fails in one line with status 1, and writes nothing.
fn refused(outcome: &Outcome, part: &str) {
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    assert_eq!(outcome.stdout, "", "{outcome:#?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    assert!(outcome.stderr.starts_with("pyhostctl: "), "{outcome:#?}");
    assert!(outcome.stderr.contains(part), "{part}: {outcome:#?}");
}

#[test]
fn collapsed_stacks_have_the_bytes_of_each_view() {
    for interval in ["--lines=1", "--lines=64K,seed=7"] {
        let (path, report) = report(&[interval]);
        for view in VIEWS {
            let text = convert(&path, &["--to", "collapsed", "--view", view])
                .ok()
                .stdout;
            let bytes = text.lines().map(|line| line.rsplit_once(' ').unwrap().1);
            let sum = bytes.map(|bytes| bytes.parse::<i64>().unwrap()).sum();
            let (expected, _, error) = sums(&report, view);
            assert_near(sum, expected, error, &format!("{interval} {view}"));
            assert!(sum > 1 << 20);
        }
    }
}

#[test]
fn a_stack_has_the_account_then_the_callers_then_the_line() {
    let (path, _) = report(&["--lines=1"]);
    let text = convert(&path, &["--to", "collapsed", "--view", "live"])
        .ok()
        .stdout;
    // Before 3.12 a comprehension is a function of its own.
    let kept = text.lines().find(|line| line.contains("keep ("));
    let kept = kept.unwrap_or_else(|| panic!("{text}"));
    let frames: Vec<&str> = kept.rsplit_once(' ').unwrap().0.split(';').collect();
    assert_eq!(frames[0], "obj", "{kept}");
    let module = |line: u32| format!("job.py:{line})");
    let is_module = |frame: &&str| frame.starts_with("<module> (") && frame.ends_with(&module(6));
    assert!(frames.iter().any(is_module), "{kept}");
    assert!(frames.last().unwrap().ends_with(&module(3)), "{kept}");
    let begins = |begin: &str| text.lines().any(|line| line.starts_with(begin));
    assert!(begins("raw;outside of Python code "), "{text}");
    // Up to 3.10 a function's frame stays with its code.
    let gone = text.lines().filter(|line| line.contains("free ("));
    let gone: i64 = gone
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap())
        .sum();
    assert!(gone < 10_000, "its blocks are gone: {text}");
}

#[test]
fn a_speedscope_file_has_a_profile_for_each_view() {
    let (path, report) = report(&["--lines=1"]);
    let text = convert(&path, &["--to", "speedscope", "--view", "live"])
        .ok()
        .stdout;
    let file: Value = serde_json::from_str(&text).unwrap();
    let frames = file["shared"]["frames"].as_array().unwrap();
    let profiles = file["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 5, "no mark, no growth");
    for (profile, view) in profiles.iter().zip([
        "live",
        "at_peak",
        "at_account_peak",
        "at_resident_peak",
        "allocated",
    ]) {
        assert!(profile["name"].as_str().unwrap().starts_with(view));
        let weights = profile["weights"].as_array().unwrap();
        let sum: i64 = weights.iter().map(|weight| weight.as_i64().unwrap()).sum();
        let (expected, _, error) = sums(&report, view);
        assert_near(sum, expected, error, view);
        let samples = profile["samples"].as_array().unwrap();
        assert_eq!(samples.len(), weights.len());
        for number in samples.iter().flat_map(|sample| sample.as_array().unwrap()) {
            assert!((number.as_u64().unwrap() as usize) < frames.len());
        }
    }
    let is_keep = |frame: &&Value| frame["name"].as_str().unwrap().ends_with("keep");
    let keep = frames.iter().find(is_keep).expect("the function");
    assert!(keep["file"].as_str().unwrap().ends_with("job.py"), "{keep}");
    // Its own line, and up to 3.11 those of its comprehension.
    assert_eq!(keep["line"], 3, "{keep}");
    let first = |samples: &Value| frames[samples[0].as_u64().unwrap() as usize].clone();
    let samples = profiles[0]["samples"].as_array().unwrap();
    let accounts: Vec<Value> = samples.iter().map(first).collect();
    assert!(accounts.contains(&json!({"name": "obj"})), "{accounts:?}");
}

/// The version of speedscope that reads the files.
const SPEEDSCOPE: &str = "speedscope@1.25.0";

#[test]
fn speedscope_itself_reads_files_of_three_formats() {
    if Command::new("npm").arg("--version").output().is_err() {
        return skipped("there is no npm");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let unpack = Run::program(root.join("tools/npm-package")).arg(SPEEDSCOPE);
    let unpacked = unpack.run();
    if unpacked.code() != 0 {
        let errors = unpacked.stderr.trim();
        return skipped(format!("{SPEEDSCOPE} of npm cannot be had: {errors}"));
    }
    let (path, report) = report(&["--lines=1"]);
    let files = ["speedscope", "collapsed", "pprof"].map(|format| {
        let output = path.with_extension(format);
        convert(&path, &["--to", format, "-o"]).arg(&output).ok();
        output
    });
    let read = Run::program("python3")
        .arg(root.join("embed-tests/page/speedscope.py"))
        .arg(unpacked.stdout.trim())
        .args(&files)
        .ok();
    // The files as speedscope itself writes them, of what it has read.
    let groups: Vec<Value> = serde_json::from_str(&read.stdout).unwrap();
    assert_eq!(groups[0]["name"], "job.py");
    let expected: [&[&str]; 3] = [
        &[
            "at_peak",
            "at_account_peak",
            "at_resident_peak",
            "live",
            "allocated",
        ],
        &["at_peak"],
        &["at_peak"],
    ];
    for (group, views) in groups.iter().zip(expected) {
        let frames = group["shared"]["frames"].as_array().unwrap();
        let profiles = group["profiles"].as_array().unwrap();
        assert_eq!(profiles.len(), views.len());
        for (profile, view) in profiles.iter().zip(views) {
            let (bytes, _, error) = sums(&report, view);
            let found = profile["endValue"].as_i64().unwrap();
            assert_near(found, bytes, error, &profile["name"].to_string());
            if views.len() > 1 {
                assert_eq!(profile["unit"], "bytes");
                assert!(profile["name"].as_str().unwrap().starts_with(view));
            }
            let kept = bytes_in_calls(profile, frames, "keep");
            assert!((1 << 20..2 << 20).contains(&kept), "{view}: {kept}");
        }
    }
}

/// The bytes in calls of a function, by events that begin and end calls.
fn bytes_in_calls(profile: &Value, frames: &[Value], function: &str) -> i64 {
    let of_function = |event: &&Value| {
        let frame = &frames[event["frame"].as_u64().unwrap() as usize];
        let name = frame["name"].as_str().unwrap();
        name.split(' ').next() == Some(function)
    };
    let events = profile["events"].as_array().unwrap().iter();
    let signed = events.filter(of_function).map(|event| {
        let at = event["at"].as_i64().unwrap();
        if event["type"] == "O" { -at } else { at }
    });
    signed.sum()
}

#[test]
fn a_picture_has_the_views_bytes() {
    let (path, report) = report(&["--lines=1"]);
    for view in VIEWS {
        let text = convert(&path, &["--to", "svg", "--view", view]).ok().stdout;
        let (_, rest) = text.split_once("total_samples=\"").unwrap();
        let (total, _) = rest.split_once('"').unwrap();
        let (expected, _, error) = sums(&report, view);
        assert_near(total.parse().unwrap(), expected, error, view);
        assert!(text.contains(&format!("({view})")), "the title");
    }
}

#[test]
fn a_profile_for_pprof_has_the_bytes_and_blocks_of_two_views() {
    for (arguments, in_use, shown) in [
        (&[][..], "at_peak", "inuse_space"),
        (&["--view", "live"][..], "live", "inuse_space"),
        (&["--view", "allocated"][..], "at_peak", "alloc_space"),
    ] {
        let (path, report) = report(&["--lines=1"]);
        let output = path.with_extension("pb.gz");
        let run = convert(&path, &["--to", "pprof", "-o"])
            .arg(&output)
            .args(arguments);
        assert_eq!(run.ok().stdout, "");
        let mut bytes = Vec::new();
        let file = std::fs::File::open(&output).unwrap();
        GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        let profile = fields(&bytes);
        let texts = texts(&profile, 6);
        let types = profile.iter().filter(|field| field.number == 1);
        let types = types.map(|field| texts[fields(field.bytes)[0].value as usize]);
        let expected = [
            "alloc_objects",
            "alloc_space",
            "inuse_objects",
            "inuse_space",
        ];
        assert_eq!(types.collect::<Vec<_>>(), expected);
        let mut found = [0; 4];
        for sample in profile.iter().filter(|field| field.number == 2) {
            let values = fields(sample.bytes)
                .into_iter()
                .find(|field| field.number == 2);
            let values = packed(values.expect("values").bytes);
            assert_eq!(values.len(), 4);
            for (sum, value) in found.iter_mut().zip(values) {
                *sum += value as i64;
            }
        }
        let (alloc, used) = (sums(&report, "allocated"), sums(&report, in_use));
        assert_near(found[0], alloc.1, alloc.2, "alloc_objects");
        assert_near(found[1], alloc.0, alloc.2, "alloc_space");
        assert_near(found[2], used.1, used.2, "inuse_objects");
        assert_near(found[3], used.0, used.2, "inuse_space");
        let number = |wanted| {
            let mut fields = profile.iter();
            fields
                .find(|field| field.number == wanted)
                .map(|field| field.value)
        };
        assert_eq!(texts[number(14).unwrap() as usize], shown);
        assert_eq!(number(12), Some(1), "the period");
        assert!(number(9).unwrap() > 1_700_000_000_000_000_000, "the time");
        for name in ["account", "obj", "keep", "count", "bytes"] {
            assert!(
                texts.iter().any(|text| text.ends_with(name)),
                "{name}: {texts:?}"
            );
        }
    }
}

/// Reads profiles by the classes that OpenTelemetry's own Python package has, as a file and as a request to a collector;
/// prints the types with their sums, the stacks in bytes, and the facts.
const READ_OTLP: &str = "
import json, sys
from google.protobuf import unknown_fields
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest
from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData
content = open(sys.argv[1], 'rb').read()
data, request = ProfilesData.FromString(content), ExportProfilesServiceRequest.FromString(content)
assert data.resource_profiles == request.resource_profiles and data.dictionary == request.dictionary
tables = data.dictionary
for field in tables.DESCRIPTOR.fields:
    first = getattr(tables, field.name)[0]
    zero = type(first)()
    assert first == zero or field.name == 'link_table' and not any(first.trace_id + first.span_id), field.name
text = tables.string_table
def has_unknown(message):
    if len(unknown_fields.UnknownFieldSet(message)):
        return True
    parts = [value for field, value in message.ListFields() if field.type == field.TYPE_MESSAGE]
    return any(has_unknown(part) for value in parts for part in (value if hasattr(value, '__len__') else [value]))
assert not has_unknown(data)
attributes = lambda indices: {text[row.key_strindex]: row.value.string_value
                              for row in map(tables.attribute_table.__getitem__, indices)}
def call(index):
    location = tables.location_table[index]
    [line] = location.lines
    function = tables.function_table[line.function_index]
    kind = attributes(location.attribute_indices).get('profile.frame.type')
    return [text[function.name_strindex], text[function.filename_strindex], line.line, kind]
[resource] = data.resource_profiles
[scope] = resource.scope_profiles
profiles = []
for profile in scope.profiles:
    assert all(len(sample.values) == 1 and not sample.timestamps_unix_nano for sample in profile.samples)
    identities = [(sample.stack_index, *sample.attribute_indices) for sample in profile.samples]
    assert len(set(identities)) == len(identities)
    profiles.append({
        'type': text[profile.sample_type.type_strindex], 'unit': text[profile.sample_type.unit_strindex],
        'sum': sum(sample.values[0] for sample in profile.samples), 'period': profile.period,
        'seconds': profile.duration_nano / 1e9, 'started': profile.time_unix_nano,
        'samples': [{'value': sample.values[0], **attributes(sample.attribute_indices),
                     'stack': list(map(call, tables.stack_table[sample.stack_index].location_indices))}
                    for sample in profile.samples]})
print(json.dumps({'scope': scope.scope.name, 'profiles': profiles,
                  'resource': {row.key: row.value.string_value for row in resource.resource.attributes}}))
";

#[test]
fn opentelemetrys_own_reader_finds_the_bytes_and_blocks_of_two_views() {
    if !pins("otlp").exists() {
        return skipped("OpenTelemetry's messages are not pinned for this Python");
    }
    let reader = named("otlp");
    for (arguments, in_use, first) in [
        (&[][..], "at_peak", "inuse_space"),
        (&["--view", "live"][..], "live", "inuse_space"),
        (&["--view", "allocated"][..], "at_peak", "alloc_space"),
    ] {
        let (path, report) = report(&["--lines=64K,seed=7"]);
        let output = path.with_extension("otlp");
        let run = convert(&path, &["--to", "otlp", "-o"]).arg(&output);
        assert_eq!(run.args(arguments).ok().stdout, "");
        let read = reader.stock().code(READ_OTLP).arg(&output).ok().stdout;
        let read: Value = serde_json::from_str(&read).unwrap();
        assert_eq!(read["scope"], "pyhostctl");
        assert_eq!(read["resource"]["service.name"], "job.py");
        let profiles = read["profiles"].as_array().unwrap();
        assert_eq!(profiles.len(), 4);
        assert_eq!(profiles[0]["type"], first);
        let (alloc, used) = (sums(&report, "allocated"), sums(&report, in_use));
        for profile in profiles {
            let (expected, unit, error) = match profile["type"].as_str().unwrap() {
                "inuse_space" => (used.0, "bytes", used.2),
                "inuse_objects" => (used.1, "count", used.2),
                "alloc_space" => (alloc.0, "bytes", alloc.2),
                "alloc_objects" => (alloc.1, "count", alloc.2),
                other => panic!("{other}"),
            };
            let sum = profile["sum"].as_i64().unwrap();
            assert_near(sum, expected, error, &profile["type"].to_string());
            assert_eq!(
                (&profile["unit"], &profile["period"]),
                (&unit.into(), &65536.into())
            );
            assert!(
                profile["started"].as_i64() > Some(1_700_000_000_000_000_000),
                "{profile}"
            );
            let seconds = profile["seconds"].as_f64().unwrap();
            assert!(seconds > 0.0 && seconds < 120.0, "{seconds}");
        }
        let inuse = profiles
            .iter()
            .find(|profile| profile["type"] == "inuse_space");
        let samples = inuse.unwrap()["samples"].as_array().unwrap();
        let rows = report["lines"][in_use].as_array().unwrap();
        for row in rows {
            let calls = row["stack"].as_array().unwrap().iter();
            let calls =
                calls.map(|call| json!([call["function"], call["file"], call["line"], "cpython"]));
            let mut stack: Vec<Value> = calls.collect();
            if stack.is_empty() {
                stack.push(json!(["outside of Python code", "", 0, null]));
            }
            let sample = json!({
                "value": row["bytes"], "pyhost.account": row["account"], "thread.name": row["thread"], "stack": stack,
            });
            assert!(samples.contains(&sample), "{sample} of {samples:#?}");
        }
    }
}

#[test]
fn standard_input_and_output_are_files_too() {
    let (path, _) = report(&["--lines=1"]);
    let text = std::fs::read(&path).unwrap();
    let expected = convert(&path, &["--to", "collapsed"]).ok().stdout;
    let piped = convert(Path::new("-"), &["--to", "collapsed", "-o", "-"]);
    assert_eq!(piped.stdin(text).ok().stdout, expected);
    let output = path.with_extension("txt");
    convert(&path, &["--to", "collapsed", "-o"])
        .arg(&output)
        .ok();
    assert_eq!(std::fs::read_to_string(&output).unwrap(), expected);
}

#[test]
fn a_result_takes_the_place_of_an_earlier_one_but_of_no_other_file() {
    let (path, _) = report(&["--lines=1"]);
    for format in ["collapsed", "speedscope", "pprof", "otlp", "svg"] {
        let output = path.with_extension(format);
        let run = || convert(&path, &["--to", format, "-o"]).arg(&output);
        run().ok();
        let first = std::fs::read(&output).unwrap();
        run().ok();
        assert!(
            std::fs::read(&output).unwrap() == first,
            "{format}: the same again"
        );
        std::fs::write(&output, "notes\n").unwrap();
        refused(&run().run(), "pyhost did not write it");
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "notes\n");
        let whole = std::fs::read(&path).unwrap();
        let over = convert(&path, &["--to", format, "-o"]).arg(&path);
        refused(&over.run(), "has what a run wrote, which is not replaced");
        assert!(std::fs::read(&path).unwrap() == whole, "{format}");
    }
}

#[test]
fn a_report_without_lines_and_one_that_is_cut_are_refused_in_a_line() {
    let (path, report) = report(&[]);
    assert!(report["lines"].is_null(), "{report}");
    for format in ["collapsed", "speedscope", "pprof", "otlp", "svg"] {
        let output = path.with_extension("out");
        let run = convert(&path, &["--to", format, "-o"]).arg(&output);
        refused(
            &run.run(),
            "has no sampled lines; expected a report of `pyhost --lines`",
        );
        assert!(!output.exists());
    }
    let (path, _) = self::report(&["--lines=1"]);
    let whole = std::fs::read(&path).unwrap();
    for part in [0, 1, 2, 3] {
        let cut = path.with_extension("cut");
        std::fs::write(&cut, &whole[..whole.len() * part / 4]).unwrap();
        refused(&convert(&cut, &["--to", "svg"]).run(), "report.cut' ");
    }
    refused(
        &convert(Path::new("no-such-file"), &["--to", "svg"]).run(),
        "cannot be read",
    );
    let beyond = path.join("out.svg");
    refused(
        &convert(&path, &["--to", "svg", "-o"]).arg(beyond).run(),
        "out.svg' ",
    );
    let unknown = convert(&path, &["--to", "png"]).run();
    assert_eq!(unknown.code(), 2, "{unknown:#?}");
}

#[test]
fn a_profile_is_not_written_to_a_terminal() {
    let (path, _) = report(&["--lines=1"]);
    let code = "import os, pty, sys
sys.exit(os.WEXITSTATUS(pty.spawn(sys.argv[1:])))";
    let arguments = [
        OsStr::new(PYHOSTCTL),
        "convert".as_ref(),
        path.as_os_str(),
        "--to".as_ref(),
    ];
    let in_terminal = |format| Run::stock().code(code).args(arguments).arg(format).run();
    for format in ["pprof", "otlp"] {
        let refused = in_terminal(format);
        assert_eq!(refused.code(), 1, "{refused:#?}");
        assert_eq!(refused.stdout.lines().count(), 1, "{refused:#?}");
        let part = format!("a profile for {format} is not written to a terminal");
        assert!(refused.stdout.contains(&part), "{refused:#?}");
    }
    let shown = in_terminal("collapsed");
    assert!(
        shown.code() == 0 && shown.stdout.contains("keep ("),
        "{shown:#?}"
    );
}
