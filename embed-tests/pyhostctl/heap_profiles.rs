//! `/debug/pprof/heap` of `pyhostctl serve`: read by its field numbers, and by Debian's `go tool pprof`, which must see the
//! lines that `pyhostctl lines` shows.

use crate::daemon::{Answer, ask, ask_for_bytes, get, unpacked};
use crate::host::{PYHOSTCTL, Run, folder, joined, until, until_seen};
use crate::prometheus::Prometheus;
use crate::protobuf::{fields, packed, texts};
use crate::serve::{host, live_folder, serve};
use crate::skipping::skipped;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keeps six mebibytes and frees two, each in a function of its own.
const KEEP: &str = "
def keep(): return [bytes(1000 + number) for number in range(4000)]
def keep_more(): return [bytes(9000) for _ in range(200)]
def free(): [bytes(9000) for _ in range(200)]
kept = keep(), keep_more()
free()
";

/// Bytes and blocks: all allocated, and in use.
type Values = [i64; 4];

/// A profile for pprof, as far as the tests compare it.
#[derive(Debug)]
struct Profile {
    /// By the account and the calls `function file:line`, the innermost first.
    samples: BTreeMap<Vec<String>, Values>,
    threads: BTreeSet<String>,
    time: i64,
    duration: i64,
    default: String,
    comments: Vec<String>,
}

impl Profile {
    fn of(bytes: &[u8]) -> Self {
        let mut plain = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
        let profile = fields(&plain);
        let text = texts(&profile, 6);
        let text = |number: u64| text[number as usize].to_owned();
        let number = |bytes, wanted| {
            let found = fields(bytes).into_iter();
            found
                .filter(|field| field.number == wanted)
                .map(|field| field.value)
                .next()
                .unwrap_or(0)
        };
        let all = |wanted| profile.iter().filter(move |field| field.number == wanted);
        let functions: BTreeMap<u64, String> = all(5)
            .map(|field| {
                let name = format!(
                    "{} {}",
                    text(number(field.bytes, 2)),
                    text(number(field.bytes, 4))
                );
                (number(field.bytes, 1), name)
            })
            .collect();
        let calls: BTreeMap<u64, String> = all(4)
            .map(|field| {
                let line = fields(field.bytes)
                    .into_iter()
                    .find(|field| field.number == 4);
                let line = line.unwrap().bytes;
                let call = format!("{}:{}", functions[&number(line, 1)], number(line, 2));
                (number(field.bytes, 1), call)
            })
            .collect();
        let (mut samples, mut threads) = (BTreeMap::new(), BTreeSet::new());
        for field in all(2) {
            let sample = fields(field.bytes);
            let list = |wanted| {
                let field = sample.iter().find(|field| field.number == wanted);
                packed(field.unwrap().bytes)
            };
            let labels = sample.iter().filter(|field| field.number == 3);
            let labels = labels.map(|it| [1, 2].map(|part| text(number(it.bytes, part))));
            let labels: BTreeMap<_, _> = labels.map(|[key, value]| (key, value)).collect();
            threads.extend(labels.get("thread").cloned());
            let mut key = vec![labels["account"].clone()];
            key.extend(list(1).iter().map(|id| calls[id].clone()));
            let values = list(2).into_iter().map(|value| value as i64);
            let values: Vec<i64> = values.collect();
            assert!(samples.insert(key, values.try_into().unwrap()).is_none());
        }
        let one = |wanted| all(wanted).next().map_or(0, |field| field.value as i64);
        let comments = all(13).flat_map(|field| match field.bytes {
            [] => vec![field.value],
            bytes => packed(bytes),
        });
        Profile {
            samples,
            threads,
            time: one(9),
            duration: one(10),
            default: text(one(14) as u64),
            comments: comments.map(text).collect(),
        }
    }

    /// The sum of a value over the stacks that have a function.
    fn sum_in(&self, function: &str, value: usize) -> i64 {
        let has_it = |key: &&Vec<String>| {
            key.iter()
                .any(|call| call.starts_with(&format!("{function} ")))
        };
        let keys = self.samples.keys().filter(has_it);
        keys.map(|key| self.samples[key][value]).sum()
    }
}

/// A profile, with the header lines of the response.
fn profile(address: SocketAddr, path: &str) -> (Profile, String) {
    let (answer, body) = ask_for_bytes(address, &format!("GET {path} HTTP/1.0\r\n\r\n")).unwrap();
    assert_eq!(
        answer.status,
        200,
        "{path}: {}",
        String::from_utf8_lossy(&body)
    );
    (Profile::of(&body), answer.headers)
}

/// Asks for what is refused.
fn refused(address: SocketAddr, path: &str, status: u16, part: &str) {
    let answer = get(address, path, "").unwrap();
    assert_eq!(answer.status, status, "{path}: {answer:?}");
    assert!(answer.body.contains(part), "{path}: {answer:?}");
    assert_eq!(answer.body.lines().count(), 1, "{path}: {answer:?}");
    // So `go tool pprof` shows the reason.
    assert!(answer.headers.contains("X-Go-Pprof: 1\r\n"), "{answer:?}");
}

fn ctl(live: &Path, words: &[&str]) -> Run {
    Run::program(PYHOSTCTL).arg("--dir").arg(live).args(words)
}

/// The profile of a process that `convert` makes.
fn converted(live: &Path, pid: i32, view: &str) -> Profile {
    let output = folder("heap-profiles").join("heap.pb.gz");
    let pid = pid.to_string();
    ctl(
        live,
        &["convert", &pid, "--to", "pprof", "--view", view, "-o"],
    )
    .arg(&output)
    .ok();
    Profile::of(&std::fs::read(output).unwrap())
}

#[test]
fn a_heap_profile_has_what_convert_writes_with_the_time_of_the_scrape() {
    let live = live_folder("heap-profiles");
    let (_server, address) = serve(&live);
    let host = host(&live, &["--lines=1"], KEEP);
    let named = format!("/hosts/{}/debug/pprof", host.pid());
    // It may still be on its way into the call that waits.
    let (heap, headers, made) = until("the same samples twice", || {
        let (heap, headers) = profile(address, "/debug/pprof/heap");
        let made = converted(&live, host.pid(), "live");
        (heap.samples == made.samples).then_some((heap, headers, made))
    });
    assert!(
        headers.contains("Content-Type: application/octet-stream\r\n"),
        "{headers}"
    );
    assert!(
        headers.contains("Content-Disposition: attachment; filename=\"heap\"\r\n"),
        "{headers}"
    );
    assert!(heap.sum_in("keep", 3) > 5_000_000 && heap.sum_in("keep_more", 3) > 1_800_000);
    assert!(heap.sum_in("free", 1) > 1_800_000 && heap.sum_in("free", 3) < 10_000);
    assert!(
        heap.time > made.time + made.duration - 1_000_000_000,
        "{heap:?}"
    );
    assert_eq!((heap.duration, heap.default.as_str()), (0, "inuse_space"));
    assert_eq!(heap.comments.len(), 2);
    assert!(Vec::from_iter(&heap.threads) == ["main"] && made.threads == heap.threads);
    let (allocs, headers) = profile(address, &format!("{named}/allocs?gc=1"));
    assert!(headers.contains("filename=\"allocs\""), "{headers}");
    assert_eq!(allocs.samples, heap.samples);
    assert_eq!(allocs.default, "alloc_space");
    assert!(allocs.comments[2].starts_with("gc=1: nothing was collected"));
    // A later scrape has a later time.
    assert!(profile(address, "/debug/pprof/heap").0.time > heap.time);

    let (head, body) = ask_for_bytes(
        address,
        "HEAD /debug/pprof/heap?seconds=300 HTTP/1.1\r\n\r\n",
    )
    .unwrap();
    assert_eq!((head.status, body.len()), (200, 0), "{head:?}");
    assert!(head.headers.contains("octet-stream"), "{head:?}");
    let table = get(
        address,
        "/debug/pprof/heap?other=1&pid=&gc=0&debug=2&debug=0&seconds=",
        "",
    )
    .unwrap();
    assert!(table.headers.contains("text/plain"), "{table:?}");
    assert!(table.body.contains(" in keep_more\n"), "{table:?}");
}

#[test]
fn all_stacks_are_in_a_profile_and_all_lines_in_a_report() {
    let live = live_folder("heap-profiles");
    let (_server, address) = serve(&live);
    let code = "kept = []
for number in range(1900):
    exec(compile(f'def made_{number}(): return bytes(5000)\\nkept.append(made_{number}())', f'f{number}.py', 'exec'))";
    let host = host(&live, &["--lines=1"], code);
    let made = |profile: &Profile| {
        let calls = profile
            .samples
            .keys()
            .map(|key| &key[1])
            .filter(|name| name.starts_with("made_"));
        calls.collect::<HashSet<_>>().len()
    };
    let (heap, _) = profile(address, "/debug/pprof/heap");
    assert_eq!(made(&heap), 1900);
    // Of more than 1000 stacks it has the sums by line.
    assert_eq!(made(&converted(&live, host.pid(), "live")), 1900);
    assert_eq!(heap.sum_in("stacks that the report leaves out", 3), 0);
}

#[test]
fn of_several_hosts_one_is_named_and_the_index_lists_them() {
    let live = live_folder("heap-profiles");
    let (_server, address) = serve(&live);
    refused(
        address,
        "/debug/pprof/heap",
        404,
        "started with --live --lines",
    );
    let without = host(&live, &[], "kept = bytes(10)");
    refused(
        address,
        "/debug/pprof/heap",
        404,
        "`pyhostctl lines --start PID`",
    );
    let of_without = format!("/debug/pprof/heap?pid={}", without.pid());
    let start = format!("`pyhostctl lines --start {}`", without.pid());
    refused(address, &of_without, 404, &start);
    let first = host(
        &live,
        &["--lines=1"],
        "def first(): return bytes(50_000)\nkept = first()",
    );
    assert!(profile(address, "/debug/pprof/heap").0.sum_in("first", 3) >= 50_000);
    let second = host(
        &live,
        &["--lines=1"],
        "def second(): return bytes(70_000)\nkept = second()",
    );
    refused(address, "/debug/pprof/heap", 400, "2 hosts take samples");
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace = namespace.to_str().unwrap();
    let namespace = namespace.trim_start_matches("pid:[").trim_end_matches(']');
    for (host, function) in [(&first, "first"), (&second, "second")] {
        let pid = host.pid();
        for path in [
            format!("/debug/pprof/heap?pid={pid}"),
            format!("/debug/pprof/heap?pid={namespace}%3A{pid}"),
            format!("/hosts/{pid}/debug/pprof/heap"),
            format!("/hosts/{namespace}:{pid}/debug/pprof/heap"),
        ] {
            let (found, _) = profile(address, &path);
            for other in ["first", "second"] {
                assert_eq!(
                    found.sum_in(other, 3) >= 50_000,
                    other == function,
                    "{path}"
                );
            }
        }
    }
    let Answer {
        status,
        headers,
        body,
    } = get(address, "/debug/pprof/", "").unwrap();
    assert!(status == 200 && headers.contains("text/plain"), "{headers}");
    for host in [&first, &second] {
        let line = format!(
            "/hosts/{}/debug/pprof/heap  -c, every allocation",
            host.pid()
        );
        assert!(body.contains(&line), "{body}");
    }
    assert!(body.contains(&start), "{body}");

    refused(
        address,
        "/debug/pprof/heap?pid=x",
        400,
        "expected a process id",
    );
    refused(
        address,
        "/hosts/1:x/debug/pprof/heap",
        400,
        "expected a process id",
    );
    refused(
        address,
        "/debug/pprof/heap?pid=1",
        404,
        "no host with process id 1 runs",
    );
    refused(
        address,
        "/debug/pprof/heap?pid=9:1",
        404,
        "no host with process id 9:1 runs",
    );
    refused(address, "/debug/pprof/profile", 404, "no profile 'profile'");
    let values = "seconds=0 seconds=301 seconds=-1 seconds=x seconds=99999999999 debug=yes gc=yes";
    for value in values.split(' ').chain(["debug=1&seconds=1"]) {
        let path = format!("/debug/pprof/heap?{value}&seconds=2");
        refused(address, &path, 400, "expected ");
    }
    for path in [
        "/hosts/debug/pprof/heap",
        "/hosts/12/metrics",
        "/debug/pprofs",
    ] {
        let answer = get(address, path, "").unwrap();
        assert!(answer.status == 404 && answer.body.starts_with("404 "));
    }
    assert_eq!(
        get(address, "/debug/pprof/", "Host: evil.example\r\n")
            .unwrap()
            .status,
        421
    );
    let posted = ask(address, "POST /debug/pprof/heap HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(posted.status, 405);

    // Samples that are begun from outside are served as well.
    let pid = without.pid().to_string();
    let mut without = without;
    ctl(&live, &["lines", "--start=1", &pid]).ok();
    without.child.stdin.take();
    without.ends();
    assert_eq!(get(address, &of_without, "").unwrap().status, 404);
}

/// Grows in one function and comes back to the same in another, all the time.
const GROW: &str = "
import threading, time
def before(): return bytes(1_000_000)
def grow(): kept.append(bytes(20_000))
def churn(): return len(bytes(30_000))
kept = [before()]
def work():
    while True:
        grow(); churn(); time.sleep(0.001)
threading.Thread(target=work, daemon=True).start()
";

#[test]
fn the_change_in_some_seconds_has_what_came_in_them() {
    let live = live_folder("heap-profiles");
    let (_server, address) = serve(&live);
    let _host = host(&live, &["--lines=1"], GROW);
    let changed = until("a change", || {
        let (changed, headers) = profile(address, "/debug/pprof/heap?seconds=1");
        assert!(headers.contains("filename=\"heap-delta\""), "{headers}");
        assert_eq!(changed.sum_in("before", 1), 0, "{changed:?}");
        (changed.sum_in("grow", 3) > 0).then_some(changed)
    });
    assert!(changed.sum_in("grow", 3) >= 20_000);
    assert!(changed.sum_in("churn", 1) >= 30_000 && changed.sum_in("churn", 3) < 100_000);
    assert!(changed.duration >= 1_000_000_000, "{changed:?}");
    assert_eq!(changed.comments[2], "the change in 1 s");
}

#[test]
fn a_process_that_ends_or_begins_anew_meanwhile_has_no_change() {
    let live = live_folder("heap-profiles");
    let (_server, address) = serve(&live);
    for (act, status, part) in [
        ("end", 404, "has ended meanwhile"),
        ("start", 409, "began or ended its samples meanwhile"),
    ] {
        // The machine may be so busy that the first of the two looks comes later than the end.
        until("a change that was interrupted", || {
            let mut host = host(&live, &["--lines=1"], GROW);
            let path = format!("/hosts/{}/debug/pprof/heap?seconds=2", host.pid());
            let answer = std::thread::scope(|scope| {
                let asks = scope.spawn(|| get(address, &path, ""));
                std::thread::sleep(Duration::from_millis(500));
                match act {
                    "end" => {
                        host.signal(libc::SIGKILL);
                        host.ends();
                    }
                    _ => drop(ctl(&live, &["lines", "--start=1", &host.pid().to_string()]).ok()),
                }
                asks.join().unwrap()
            })?;
            (answer.status == status && answer.body.contains(part)).then_some(())
        });
    }
}

#[test]
fn clients_that_wait_for_a_change_keep_nobody_out() {
    let live = live_folder("heap-profiles");
    let (mut server, address) = serve(&live);
    let _host = host(&live, &["--lines"], KEEP);
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .write_all(b"GET /debug/pprof/heap?seconds=300 HTTP/1.1\r\n\r\n")
            .unwrap();
        waiting.push(stream);
    }
    assert_eq!(get(address, "/metrics", "").unwrap().status, 200);
    // The oldest gave way; none has an answer yet.
    let mut rest = Vec::new();
    let _ = waiting.remove(0).read_to_end(&mut rest); // it may be reset
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{rest:?}");
    let threads = |pid: i32| {
        std::fs::read_dir(format!("/proc/{pid}/task"))
            .unwrap()
            .count()
    };
    assert!(threads(server.pid()) > 30);
    drop(waiting);
    until("the end of the clients' threads", || {
        (threads(server.pid()) < 5).then_some(())
    });
    assert_eq!(profile(address, "/debug/pprof/heap").0.comments.len(), 2);
    server.signal(libc::SIGTERM);
    assert_eq!(server.ends().code(), Some(0));
}

/// Debian's `go`, with what `go tool pprof` needs.
fn go() -> Result<PathBuf, String> {
    let folder = unpacked(&["golang-1.19-go"])?;
    Ok(folder.join("usr/lib/go-1.19"))
}

/// The flat bytes of each line, as `go tool pprof -top` shows them; and its whole output.
fn top(go: &Path, source: &str, options: &[&str]) -> (BTreeMap<String, i64>, String) {
    let outcome = Run::program(go.join("bin/go"))
        .env("GOROOT", go)
        .env("GOFLAGS", "")
        .env("PPROF_TMPDIR", folder("pprof"))
        .args([
            "tool",
            "pprof",
            "-top",
            "-lines",
            "-unit=B",
            "-nodecount=1000",
            "-nodefraction=0",
        ])
        .args(options)
        .arg(source)
        .ok();
    let (_, rows) = outcome
        .stdout
        .split_once("cum%\n")
        .unwrap_or_else(|| panic!("{outcome:#?}"));
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for row in rows.lines() {
        let words: Vec<&str> = row.split_whitespace().collect();
        let bytes: i64 = words[0]
            .trim_end_matches('B')
            .parse()
            .unwrap_or_else(|_| panic!("{row}"));
        // A function and a place, which may have a space as `<frozen os>:1` has, or words alone.
        let place = match words.last().unwrap().contains(':') {
            true => words[6..].join(" "),
            false => words[5..].join(" "),
        };
        *lines.entry(place).or_default() += bytes;
    }
    lines.retain(|_, bytes| *bytes != 0);
    (lines, outcome.stdout)
}

/// The bytes of each line, by `pyhostctl lines`.
fn lines(live: &Path, what: &str, view: &str) -> BTreeMap<String, i64> {
    let words = ["lines", "--json", "--top=1000", "--view", view, what];
    let table: Value = serde_json::from_str(&ctl(live, &words).ok().stdout).unwrap();
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for row in table["rows"].as_array().unwrap() {
        let place = match row["file"].as_str() {
            Some(file) => format!("{file}:{}", row["line"]),
            None => row["name"].as_str().unwrap().to_owned(),
        };
        *lines.entry(place).or_default() += row["bytes"].as_i64().unwrap();
    }
    lines
}

#[test]
fn go_tool_pprof_shows_the_lines_of_a_host_while_prometheus_scrapes_it() {
    let go = match go() {
        Ok(go) => go,
        Err(errors) => return skipped(format!("Debian's golang-1.19-go cannot be had: {errors}")),
    };
    let live = live_folder("heap-profiles");
    let (_server, address) = serve(&live);
    let host = host(&live, &["--lines=16K,seed=3"], KEEP);
    let prometheus = Prometheus::start(address);
    let named = format!("http://{address}/hosts/{}/debug/pprof", host.pid());
    let scrapes = || {
        let found = prometheus.query("count_over_time(up{job=\"pyhost\"}[1h])");
        found.first().map_or(0.0, |(_, count)| *count)
    };
    let mut fetched = 0;
    until("five scrapes, and as many profiles", || {
        for (source, index, view) in [
            (
                format!("http://{address}/debug/pprof/heap"),
                "inuse_space",
                "live",
            ),
            (format!("{named}/allocs"), "alloc_space", "allocated"),
        ] {
            let sample_index = format!("-sample_index={index}");
            // The host may still be on its way into the call that waits.
            let (rows, shown) = until_seen("the same lines", || {
                let (rows, shown) = top(&go, &source, &[&sample_index]);
                let expected = lines(&live, &host.pid().to_string(), view);
                match rows == expected {
                    true => Ok((rows, shown)),
                    false => Err(format!("{expected:?}\n{shown}")),
                }
            });
            assert!(shown.contains(&format!("Type: {index}")), "{shown}");
            assert!(shown.contains("pyhost --lines, -c"), "{shown}");
            assert!(rows["<string>:2"] > 4_000_000, "{shown}");
            fetched += 1;
        }
        (fetched >= 5 && scrapes() >= 5.0).then_some(())
    });
    let failed = prometheus.query("count_over_time((up{job=\"pyhost\"} == 0)[1h:1s])");
    assert!(failed.is_empty(), "{failed:?}");
    let targets = prometheus.ask("/api/v1/targets").unwrap();
    assert_eq!(targets["activeTargets"][0]["lastError"], "", "{targets}");

    // Why there is no profile is what it says.
    let outcome = Run::program(go.join("bin/go"))
        .env("GOROOT", &go)
        .env("PPROF_TMPDIR", folder("pprof"))
        .args(["tool", "pprof", "-top", &format!("{named}/goroutine")])
        .run();
    assert_ne!(outcome.code(), 0);
    assert!(
        outcome.stderr.contains("expected heap or allocs"),
        "{outcome:#?}"
    );
}

#[test]
fn go_tool_pprof_shows_the_lines_of_a_report() {
    let go = match go() {
        Ok(go) => go,
        Err(errors) => return skipped(format!("Debian's golang-1.19-go cannot be had: {errors}")),
    };
    let folder = folder("heap-profiles");
    let (report, output) = (folder.join("report.json"), folder.join("heap.pb.gz"));
    let file = joined("--stats=file=", &report);
    Run::host()
        .args(["--lines=16K,seed=5", "--stats=json"])
        .arg(file)
        .code(KEEP)
        .ok();
    let report = report.to_str().unwrap();
    for (view, index) in [("at_peak", "inuse_space"), ("allocated", "alloc_space")] {
        let words = ["convert", report, "--to", "pprof", "--view", view, "-o"];
        ctl(&folder, &words).arg(&output).ok();
        let (rows, shown) = top(&go, output.to_str().unwrap(), &[]);
        assert!(shown.contains(&format!("Type: {index}")), "{shown}");
        assert_eq!(rows, lines(&folder, report, view), "{shown}");
    }
    let tags = Run::program(go.join("bin/go"))
        .env("GOROOT", &go)
        .env("PPROF_TMPDIR", &folder)
        .args(["tool", "pprof", "-tags"])
        .arg(&output)
        .ok();
    assert!(
        tags.stdout.contains("account: Total") && tags.stdout.contains("obj"),
        "{tags:#?}"
    );
}
