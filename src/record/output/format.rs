//! Whether a file holds what pyhost writes, by its first bytes.

use pyhost_ledger::Account;

/// Bytes of a file that are enough to know.
pub const ENOUGH: usize = 2048;

/// The first bytes of the formats of runs that are recognised by them alone.
const OF_RUNS: [&[u8]; 8] = [
    b"{\"schema\":\"pyhost-report/", // of each version
    b"pyhost: Python ",              // --stats=text
    b"pyhost: process ",             // --brief
    b"{\"timeline\":\"pyhost-timeline/",
    b"# HELP pyhost_",
    b"# TYPE pyhost_",
    b"pyhcard", // --live=file:PATH, of each version
    b"<!DOCTYPE html>\n<meta name=\"generator\" content=\"pyhost\">", // --profile-lines file
];

/// The formats of `pyhostctl`: the first bytes, and others that soon follow.
const OF_RESULTS: [(&[u8], &[u8]); 5] = [
    // pyhostctl sweep --junit
    (
        b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
        b"\n<testsuites name=\"pyhostctl sweep of ",
    ),
    // pyhostctl convert --to speedscope
    (
        b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",",
        b",\"exporter\":\"pyhostctl@",
    ),
    // pyhostctl html
    (
        b"<!DOCTYPE html>",
        b"<meta name=\"generator\" content=\"pyhostctl ",
    ),
    // pyhostctl convert --to svg
    (b"<?xml ", b"<!--NOTES: pyhostctl "),
    // pyhostctl convert --to otlp: field 1, and soon the scope, whose first field is the program's name
    (b"\x0a", b"\x0a\x09pyhostctl\x12"),
];

/// Whether a file that begins with these bytes was written by pyhost. `beginning` holds [`ENOUGH`]
/// bytes, or the whole file.
pub fn is_ours(beginning: &[u8]) -> bool {
    OF_RUNS.iter().any(|known| beginning.starts_with(known))
        || is_log(beginning)
        || is_result(beginning)
}

/// Whether such a file is a result of `pyhostctl`, which it can make again, and no measurement of a run.
pub fn is_result(beginning: &[u8]) -> bool {
    let has = |part: &[u8]| beginning.windows(part.len()).any(|found| found == part);
    let is = |(first, other): &(&[u8], &[u8])| beginning.starts_with(first) && has(other);
    OF_RESULTS.iter().any(is) || is_profile(beginning) || is_collapsed(beginning)
}

fn is_account(name: &[u8]) -> bool {
    let mut names = Account::ALL.iter().map(|account| account.name());
    names.any(|account| account.as_bytes() == name)
}

/// A log of `--fail log`: process, number, account, size, place.
fn is_log(beginning: &[u8]) -> bool {
    let mut words = beginning.split(|&byte| byte == b' ');
    let mut next = || words.next().unwrap_or_default();
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    is_number(next()) && is_number(next()) && is_account(next()) && is_number(next())
}

/// A profile of `pyhostctl convert --to pprof`: gzip, with a comment and nothing else behind the header.
fn is_profile(beginning: &[u8]) -> bool {
    const HEADER: usize = 10;
    const COMMENT: u8 = 1 << 4;
    let rest = beginning.get(HEADER..).unwrap_or_default();
    beginning.starts_with(&[0x1f, 0x8b, 8, COMMENT]) && rest.starts_with(b"pyhostctl ")
}

/// Stacks of `pyhostctl convert --to collapsed`: an account, then a call with its place, or words for none.
fn is_collapsed(beginning: &[u8]) -> bool {
    let mut lines = beginning.split(|&byte| byte == b'\n');
    let line = lines.next().unwrap_or_default();
    let mut frames = line.splitn(3, |&byte| byte == b';');
    if !is_account(frames.next().unwrap_or_default()) {
        return false;
    }
    let frame = frames.next().unwrap_or_default();
    // The last frame of a line has the bytes behind it.
    let frame = match frame.iter().rposition(|&byte| byte == b' ') {
        Some(space) if frame[space + 1..].iter().all(u8::is_ascii_digit) => &frame[..space],
        _ => frame,
    };
    let is_call = frame.ends_with(b")") && frame.windows(2).any(|part| part == b" (");
    is_call || NO_CALLS.iter().any(|words| words.as_bytes() == frame)
}

/// The words for stacks without a call in what `pyhostctl convert` makes: no Python code ran; the report does not list
/// the stack.
pub const NO_CALLS: [&str; 2] = [
    "outside of Python code",
    "stacks that the report leaves out",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pyhost_writes_is_known_and_nothing_else_is() {
        for run in [
            &b"{\"schema\":\"pyhost-report/1\",\"partial\":false"[..],
            b"{\"schema\":\"pyhost-report/2\"}",
            b"{\"timeline\":\"pyhost-timeline/1\",\"pid\":1",
            b"pyhost: Python 3.11.7, 0.26 s, exit status 0\n",
            b"pyhost: process 7 (x), 0.1 s: running or killed\n",
            b"# HELP pyhost_memory_bytes Live bytes\n",
            b"pyhcard1",
            b"<!DOCTYPE html>\n<meta name=\"generator\" content=\"pyhost\">\n<title>",
            b"4711 20000 obj 64 script.py:3 in f\n",
        ] {
            assert!(is_ours(run) && !is_result(run), "{}", run.escape_ascii());
        }
        for result in [
            &b"<!DOCTYPE html><html lang=\"en\"><head><meta name=\"generator\" content=\"pyhostctl 0.1.0\">"[..],
            b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"pyhostctl@0.1.0\"",
            b"<?xml version=\"1.0\" standalone=\"no\"?><svg><!--NOTES: pyhostctl 0.1.0-->",
            b"obj;<module> (/job.py:9);load (/job.py:3) 1000\n",
            b"obj;<module> (/job.py:9) 1000\nraw;",
            b"raw;outside of Python code 400\n",
            b"raw;stacks that the report leaves out 4\n",
            b"\x1f\x8b\x08\x10\0\0\0\0\0\xffpyhostctl 0.1.0\0\xb5",
            b"\x0a\x20\x0a\x02\x0a\0\x12\x10\x0a\x09pyhostctl\x12\x050.1.0",
        ] {
            assert!(is_ours(result) && is_result(result), "{}", result.escape_ascii());
        }
        for other in [
            &b""[..],
            b"print(1)\n",
            b"#!/usr/bin/env pyhost\n",
            b"import pyhost\n",
            b"{\"schema\":\"other/1\"}",
            b"{\"schema\":\"pyhost-reports\"}",
            b"<!DOCTYPE html><html><head><title>pyhostctl</title>",
            b"# HELP node_load1 x\n",
            b"pyhost: notes\n",
            b"1 2 3 4\n",
            b"4711 20000 obj\n",
            b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"py-spy\"",
            b"<?xml version=\"1.0\"?><svg><!--NOTES: -->",
            b"obj;main;load 1000\n",
            b"native;name;value\nx;1;2\n",
            b"main;f (a.py:1) 7\n",
            b"obj\n",
            b"\x1f\x8b\x08\0\0\0\0\0\0\xffpyhostctl 0.1.0\0",
            b"\x1f\x8b\x08\x10",
            b"\x12\x0a\x09pyhostctl\x12\x050.1.0",
            b"\x0a\x08pyhostct\x12\x050.1.0",
        ] {
            assert!(!is_ours(other), "{}", other.escape_ascii());
        }
    }
}
