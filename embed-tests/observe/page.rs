//! The page: `pyhostctl html` and `--stats=html`, looked at in headless Chromium.
//!
//! `page/check.py` drives the browser over a pipe and prints what it found; what must hold is here.

use crate::host::{
    IS_INSIDE, Outcome, PYHOSTCTL, Run, folder, host_alone, ledger_at, script, timeline_at, until,
};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Text of an untrusted script. A page must neither run it nor use it as markup.
const HOSTILE: &str =
    "</script><img src=x onerror=document.title='broken'><script>document.title='broken'</script>";

pub fn ctl(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Outcome {
    Run::program(PYHOSTCTL).args(arguments).run()
}

/// A report with every section that the repository has a sample of.
pub fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ctl/html/sample.json")
}

/// A timeline of 8,192 samples of a process.
fn timeline(folder: &Path, pid: i64) -> PathBuf {
    let path = folder.join("timeline");
    let made = Command::new("python3")
        .arg(script("make_timeline.py"))
        .arg(&path)
        .arg(pid.to_string())
        .status()
        .expect("a python3 that runs the tests' own tools");
    assert!(made.success());
    path
}

pub fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The content that Chromium found on a page made from a report.
pub fn look(page: &Path, report: &Path) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("embed-tests/page/check.py");
    let output = Command::new("python3")
        .arg(program)
        .args([page, report, &folder("shots")])
        .output()
        .expect("a python3 that runs the tests' own tools");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn strings(value: &Value) -> Vec<&str> {
    let list = value.as_array().unwrap_or_else(|| panic!("{value}"));
    list.iter().map(|word| word.as_str().unwrap()).collect()
}

/// Checks what must hold of every page.
pub fn check(found: &Value) {
    let report = &found["report"];
    assert_eq!(found["structure"]["report"], *report, "the page's own copy");
    for views in ["figures", "without_scripts"] {
        let figures = match views {
            "figures" => &found["figures"],
            _ => &found["without_scripts"]["figures"],
        };
        let accounts = report["accounts"].as_object().unwrap();
        assert_eq!(accounts.len(), 7);
        for (name, account) in accounts {
            for field in [
                "live_bytes",
                "peak_bytes",
                "live_blocks",
                "total_blocks",
                "refused",
                "failed",
                "injected",
            ] {
                let shown = &figures[format!("{name}.{field}")];
                assert!(shown.is_i64(), "{name}.{field}: {figures}");
                assert_eq!(*shown, account[field], "{name}.{field}");
            }
        }
        for field in ["live_bytes", "peak_bytes"] {
            assert_eq!(figures[format!("total.{field}")], report["total"][field]);
            assert_eq!(
                figures[format!("card.total.{field}")],
                report["total"][field]
            );
        }
        for field in ["resident_bytes", "peak_resident_bytes"] {
            assert_eq!(figures[format!("card.{field}")], report["process"][field]);
        }
    }
    for view in ["light", "dark", "phone-light", "phone-dark", "print"] {
        let view_found = &found[view];
        assert_eq!(strings(&view_found["said"]), [""; 0], "{view}");
        assert_eq!(strings(&view_found["asked"]), [""; 0], "{view}");
        let colours = view_found["shot"]["colours"].as_i64().unwrap();
        assert!(colours > 100, "{view}: {colours} colours");
        for layout in ["layout", "opened"] {
            if let Some(layout) = view_found.get(layout) {
                assert_eq!(layout["overflow"], 0, "{view}");
                assert_eq!(strings(&layout["wide"]), [""; 0], "{view}");
            }
        }
        if let Some(contrast) = view_found.get("contrast") {
            assert!(contrast["count"].as_i64().unwrap() > 100, "{view}");
            assert_eq!(
                contrast["poor"].as_array().unwrap().len(),
                0,
                "{view}: {contrast}"
            );
        }
    }
    let mean = |view: &str| found[view]["shot"]["mean"].as_f64().unwrap();
    for (light, dark) in [
        ("light", "dark"),
        ("phone-light", "phone-dark"),
        ("print", "dark"),
    ] {
        assert!(
            mean(light) > 170.0 && mean(dark) < 110.0,
            "{light}, {dark}: {}, {}",
            mean(light),
            mean(dark)
        );
    }
    let structure = &found["structure"];
    assert_eq!(structure["lang"], "en");
    assert_eq!(
        strings(&structure["landmarks"]),
        ["header", "nav", "main", "footer"]
    );
    const PACKED: &str = "application/json+deflate+base64";
    let scripts = match report["lines"].is_object() {
        true => &[PACKED, PACKED, "", ""][..],
        false => &[PACKED, ""],
    };
    assert_eq!(strings(&structure["scripts"]), scripts);
    for none in [
        "headersWithoutScope",
        "unnamedSections",
        "loose",
        "unreachable",
        "styles",
        "links",
    ] {
        assert_eq!(structure[none], 0, "{none}");
    }
    assert_eq!(
        structure["doubledIds"].as_array().unwrap().len(),
        0,
        "{structure}"
    );
    let title = structure["title"].as_str().unwrap();
    assert!(title.starts_with("Memory of "), "{title}");
    let tour = strings(&found["tour"]);
    assert_eq!(tour[0], "#main");
    assert!(tour.contains(&"Table of accounts"), "{tour:?}");
}

#[test]
fn a_full_report_with_its_timeline_is_shown_as_it_is() {
    let folder = folder("page");
    let mut report = read(&sample());
    report["process"]["argv"][3] = HOSTILE.into();
    let pid = report["process"]["pid"].as_i64().unwrap();
    let source = folder.join("report.json");
    std::fs::write(&source, report.to_string()).unwrap();
    let timeline = timeline(&folder, pid);
    let made = ctl([
        "html".as_ref(),
        source.as_os_str(),
        "--timeline".as_ref(),
        timeline.as_os_str(),
    ]);
    assert_eq!(made.code(), 0, "{made:#?}");
    let page = folder.join("report.html");
    assert_eq!(made.stdout.trim(), page.to_str().unwrap());
    let length = std::fs::metadata(&page).unwrap().len();
    assert!(length < 1_000_000, "{length} bytes");
    let found = look(&page, &source);
    check(&found);

    let structure = &found["structure"];
    assert_eq!(
        strings(&structure["headings"])[1..],
        [
            "Over time",
            "Accounts",
            "Lines",
            "Caps and refusals",
            "Balance sheet",
            "At the peak",
            "Blocks by size",
            "Leaks",
            "NumPy",
            "Bounded heap",
            "Guard pages",
            "Forced failures",
            "Host and process",
            "The report itself",
        ]
    );
    let events = strings(&structure["events"]);
    assert_eq!(events.len(), 11);
    assert_eq!(
        events[1],
        "</script><script>document.title='broken'</script>"
    );
    assert!(
        events[4].starts_with("\u{fffd}right to left\u{fffd}"),
        "{events:?}"
    );
    let samples = structure["samples"].as_i64().unwrap();
    assert!((256..=769).contains(&samples), "{samples}");
    for view in ["light", "dark", "phone-light", "phone-dark"] {
        assert_eq!(found[view]["layout"]["plots"], 1, "{view}");
    }

    let tour = strings(&found["tour"]);
    let at = |stop: &str| tour.iter().position(|found| *found == stop);
    assert!(
        at("cursor") < at("Table of accounts") && at("cursor").is_some(),
        "{tour:?}"
    );
    for stop in [
        "Table of the balance sheet",
        "Traceback, innermost first",
        "Table of lost blocks",
        "Table of rules",
    ] {
        assert!(at(stop).is_some(), "{stop}: {tour:?}");
    }
    let moved = &found["moved"];
    let read_out = |name: &str| moved[name].as_str().unwrap().replace('\u{a0}', " ");
    assert_eq!(read_out("before"), "");
    let right = read_out("right");
    assert!(
        right.starts_with("At 50.2") && right.contains("resident ") && right.contains("numpy "),
        "{right}"
    );
    assert!(moved["to"].as_f64() > moved["from"].as_f64(), "{moved}");
    assert!(
        read_out("home").starts_with("At 0 ms: resident "),
        "{moved}"
    );
    assert_eq!(read_out("still_home"), read_out("home"));
    assert!(read_out("end").starts_with("At 81.91 s: "), "{moved}");
    let mouse = read_out("mouse");
    assert!(
        mouse.starts_with("At 4") || mouse.starts_with("At 5"),
        "{mouse}"
    );
    let total = moved["legend"].as_str().unwrap().replace('\u{a0}', " ");
    assert!(
        mouse.contains(&format!("total {total}, ")),
        "{mouse}, {total}"
    );
    assert_eq!(found["without_scripts"]["structure"]["cursor"], false);
    assert_eq!(found["without_scripts"]["structure"]["samples"], samples);
}

#[test]
fn a_run_ends_with_its_page() {
    let folder = folder("page");
    let (page, timeline) = (folder.join("run.html"), folder.join("timeline"));
    let code = "import pyhost, time
pyhost.mark('begin </script>')
keep = [bytes(100_000) for _ in range(300)]
try:
    bytes(1 << 30)
except MemoryError:
    pyhost.mark('refused')
time.sleep(0.2)
print('done')";
    let outcome = Run::host()
        .at("--stats=html,file=", &page)
        .arg(timeline_at(&timeline))
        .args(["--cap", "200M", "-c", code, HOSTILE])
        .ok();
    assert_eq!(outcome.stdout, "done\n");
    assert!(!outcome.stderr.contains("page"), "{outcome:#?}");
    // The page contains the report that it was made from.
    let embedded = embedded_report(&page);
    let report = folder.join("report.json");
    std::fs::write(&report, embedded).unwrap();
    assert_eq!(read(&report)["process"]["ended_by"], "exit");
    assert_eq!(read(&report)["caps"]["total"]["cap_bytes"], 200 << 20);
    let found = look(&page, &report);
    check(&found);
    let headings = strings(&found["structure"]["headings"]);
    for heading in [
        "Over time",
        "Caps and refusals",
        "Balance sheet",
        "Blocks by size",
    ] {
        assert!(headings.contains(&heading), "{headings:?}");
    }
    assert!(
        found["structure"]["samples"].as_i64().unwrap() > 5,
        "{found}"
    );
    let events = strings(&found["structure"]["events"]);
    assert!(events.contains(&"begin </script>"), "{events:?}");
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_page_has_a_timeline_also_where_none_was_asked_for() {
    let folder = folder("page");
    let page = folder.join("run.html");
    let code = "import os, pyhost, signal, time
pyhost.mark('begin')
time.sleep(0.1)
os.kill(os.getpid(), signal.SIGUSR2)
end = time.monotonic() + 30
while not os.path.exists(os.environ['PAGE']):
    assert time.monotonic() < end
    time.sleep(0.01)
assert sorted(os.listdir(os.path.dirname(os.environ['PAGE']))) == ['run.html', 'run.html.timeline']
pyhost.mark('later')
time.sleep(0.1)";
    Run::host()
        .at("--stats=html,file=", &page)
        .env("PAGE", &page)
        .code(code)
        .ok();
    let text = whole(&page);
    for part in [">begin</td>", ">later</td>"] {
        assert!(text.contains(part), "{part}");
    }
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

/// The report that a whole page has, as JSON.
pub fn embedded_report(page: &Path) -> String {
    let unpack = r#"
import base64, re, sys, zlib
packed = re.search(r'<script id="report" type="application/json\+deflate\+base64">([^<]*)</script>', open(sys.argv[1]).read())[1]
sys.stdout.write(zlib.decompress(base64.b64decode(packed)).decode())"#;
    whole(page);
    Run::program("python3")
        .args(["-c", unpack])
        .arg(page)
        .ok()
        .stdout
}

/// The page that an ending left, if it is whole.
pub fn whole(page: &Path) -> String {
    let text =
        std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    assert!(
        text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>"),
        "{}",
        page.display()
    );
    text
}

#[test]
fn every_ending_leaves_a_whole_page_and_its_own_status() {
    for (ending, code, said) in [
        ("raise SystemExit(3)", 3, "exit status 3"),
        ("os._exit(4)", 4, "_exit, status 4"),
        ("os.abort()", 134, "ended by SIGABRT"),
        (
            "os.kill(os.getpid(), signal.SIGTERM)",
            143,
            "ended by SIGTERM",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            137,
            "ended by SIGKILL",
        ),
        (
            "os.execv('/bin/true', ['true'])",
            0,
            "became another program",
        ),
        // Without the three descriptors that a program starts with.
        ("os.closerange(0, 3); os._exit(0)", 0, "_exit, status 0"),
        // Whose children are reaped as they end.
        (
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
            0,
            "exit status 0",
        ),
        (
            "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
            0,
            "exit status 0",
        ),
    ] {
        let page = folder("page").join("page.html");
        let outcome = Run::host()
            .at("--stats=html,file=", &page)
            .code(&format!("import os, signal, threading, time\n{ending}"))
            .run();
        assert_eq!(outcome.code(), code, "{ending}: {outcome:#?}");
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("", ""),
            "{ending}"
        );
        assert!(whole(&page).contains(said), "{ending}");
        assert_eq!(
            std::fs::read_dir(page.parent().unwrap()).unwrap().count(),
            1,
            "{ending}"
        );
    }
}

#[test]
fn the_script_does_not_see_who_makes_the_page() {
    let page = folder("page").join("page.html");
    // An exec that fails: the page is made, and the script goes on.
    let code = "import os, signal, time
seen = []
signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
try:
    os.execv('/nonexistent', ['x'])
except FileNotFoundError:
    pass
try:
    os.waitpid(-1, 0)
    seen.append('child')
except ChildProcessError:
    pass
print(seen, os.path.exists(PAGE), sorted(os.listdir('/proc/self/fd')) == DESCRIPTORS)";
    let code = format!(
        "PAGE = {:?}\nimport os; DESCRIPTORS = sorted(os.listdir('/proc/self/fd'))\n{code}",
        page.to_str().unwrap()
    );
    let outcome = Run::host().at("--stats=html,file=", &page).code(&code).ok();
    assert_eq!(outcome.stdout, "[] True True\n");
    assert!(whole(&page).contains("exit status 0"));
}

#[test]
fn a_host_that_another_process_kills_leaves_a_page_of_its_last_counters() {
    let place = folder("page");
    let page = place.join("page.html");
    let code = "import os, subprocess, pyhost, time
keep = [bytes(1000) for _ in range(10000)]
pyhost.mark('before')
time.sleep(0.2)
subprocess.run(['kill', '-9', str(os.getpid())])
time.sleep(100)";
    let outcome = Run::host().at("--stats=html,file=", &page).code(code).run();
    assert_eq!(outcome.code(), 137, "{outcome:#?}");
    // The sampler outlives the host.
    until("the page, and no timeline", || {
        let left = std::fs::read_dir(&place).unwrap().count();
        (page.exists() && left == 1).then_some(())
    });
    let text = whole(&page);
    assert!(
        text.contains("was killed") && embedded_report(&page).contains("\"ended_by\":\"kill\"")
    );
    assert!(text.contains(">before</td>"));
}

#[test]
fn a_script_that_closes_every_descriptor_keeps_its_report() {
    let place = folder("page");
    let page = place.join("page.html");
    let code = "import os
os.closerange(3, os.sysconf('SC_OPEN_MAX'))
print('ran')";
    let outcome = Run::host().at("--stats=html,file=", &page).code(code).ok();
    assert_eq!(outcome.stdout, "ran\n");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    assert!(
        outcome
            .stderr
            .contains("page.html.json', of which `pyhostctl html` makes"),
        "{outcome:#?}"
    );
    let report = place.join("page.html.json");
    assert_eq!(read(&report)["process"]["exit_status"], 0);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
}

#[test]
fn a_child_that_outlives_its_parent_has_a_page_where_the_name_tells_them_apart() {
    let place = folder("page");
    let code = "import os, time
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    time.sleep(0.2)
    os.setsid()";
    Run::host()
        .at("--stats=html,file=", place.join("%p.html"))
        .code(code)
        .ok();
    let pages = until("two pages", || {
        let found = std::fs::read_dir(&place).unwrap();
        let found: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
        let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "html");
        (found.len() == 2 && found.iter().all(is_page)).then_some(found)
    });
    for page in pages {
        whole(&page);
    }
}

#[test]
fn the_page_of_no_named_file_lies_in_the_working_directory() {
    let place = folder("a%p%%b");
    let code = "import os
if os.fork() == 0: os._exit(0)
os.wait()
import subprocess, sys
subprocess.run([sys.executable, '-c', 'pass'], check=True)
print(os.getpid())";
    let outcome = Run::host()
        .arg("--stats=html")
        .folder(&place)
        .code(code)
        .ok();
    let page = place.join(format!("pyhost-{}.html", outcome.stdout.trim()));
    whole(&page);
    assert_eq!(
        outcome.stderr,
        format!("pyhost: the page is {}\n", page.display())
    );
    // Neither the fork nor the child host wrote one.
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
}

#[test]
fn forked_workers_have_pages_where_the_name_tells_them_apart() {
    let place = folder("page");
    let code = "import os
for _ in range(3):
    if os.fork() == 0:
        raise SystemExit(0)
for _ in range(3):
    os.wait()";
    Run::host()
        .at("--stats=html,file=", place.join("%p.html"))
        .code(code)
        .ok();
    let pages: Vec<_> = std::fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(pages.len(), 4, "{pages:?}");
    for page in pages {
        let pid = page.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(whole(&page).contains(&format!("Memory of process {pid}")));
    }
}

#[test]
fn a_page_that_cannot_be_made_is_told_in_a_line() {
    let host = host_alone();
    let alone = host.parent().unwrap();
    let page = host.with_file_name("page.html");
    let run = |path: &str| {
        Run::program(&host)
            .at("--stats=html,file=", &page)
            .code("print('ran')")
            .env("PATH", path)
            .run()
    };
    // The script runs, and its report is kept for a page that is made later.
    let outcome = run("/nonexistent");
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(outcome.stdout, "ran\n");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("there is no pyhostctl beside"),
        "{outcome:#?}"
    );
    assert!(!page.exists());
    let report = alone.join("page.html.json");
    let made = Run::program(PYHOSTCTL).arg("html").arg(&report).ok();
    assert!(made.stdout.ends_with("page.html.html\n"), "{made:#?}");
    std::fs::remove_file(alone.join("page.html.html")).unwrap();
    std::fs::remove_file(&report).unwrap();
    let beside = Path::new(PYHOSTCTL).parent().unwrap().to_str().unwrap();
    assert_eq!(run(beside).code(), 0);
    whole(&page);
    std::fs::remove_file(&page).unwrap();

    // One that fails, in each way: the script's own status stays, and there is no file.
    let program = alone.join("pyhostctl");
    for (text, told) in [
        (
            "#!/bin/sh\necho half of it; echo 'pyhostctl: no' >&2; exit 1\n",
            "pyhostctl: no\n",
        ),
        (
            "#!/bin/sh\necho half of it; kill -9 $$\n",
            "did not get to the end\n",
        ),
        (
            "#!/nonexistent/interpreter\n",
            "pyhostctl cannot be started\n",
        ),
    ] {
        std::fs::write(&program, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let outcome = run("/nonexistent");
        assert_eq!(
            (outcome.code(), outcome.stdout.as_str()),
            (0, "ran\n"),
            "{outcome:#?}"
        );
        assert!(outcome.stderr.ends_with(told), "{outcome:#?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        let files = if IS_INSIDE { 3 } else { 2 }; // the programs, and the link to the interpreter
        assert_eq!(std::fs::read_dir(alone).unwrap().count(), files, "{text}");
    }
    let outcome = Run::host()
        .args(["--stats=html,fd=1"])
        .code("print(1)")
        .run();
    assert_eq!(
        (outcome.code(), outcome.stdout.as_str()),
        (2, ""),
        "{outcome:#?}"
    );
    assert!(
        outcome.stderr.contains("expected html,file=PATH"),
        "{outcome:#?}"
    );
}

#[test]
fn reports_come_from_stdin_a_killed_process_or_a_file() {
    let place = folder("page");
    let text = std::fs::read_to_string(sample()).unwrap();
    let out = Run::program(PYHOSTCTL)
        .args(["html", "-"])
        .stdin(text.as_str())
        .ok()
        .stdout;
    assert!(out.starts_with("<!DOCTYPE html>") && out.contains("--timeline FILE"));
    // Of a ledger that a kill has left.
    let ledger = place.join("ledger");
    let killed = Run::host()
        .arg(ledger_at(&ledger))
        .code("import os, signal; keep = bytes(5_000_000); os.kill(os.getpid(), signal.SIGKILL)")
        .run();
    assert_eq!(killed.code(), 137);
    let out = ctl(["html".as_ref(), ledger.as_os_str()]).stdout;
    assert!(out.ends_with("</html>") && out.contains("SIGKILL"), "{out}");
    // A file that is replaced as a whole.
    let page = place.join("out.html");
    std::fs::write(&page, "").unwrap();
    let made = ctl([
        "html".as_ref(),
        sample().as_os_str(),
        "-o".as_ref(),
        page.as_os_str(),
    ]);
    assert_eq!((made.code(), made.stdout.as_str()), (0, ""), "{made:#?}");
    whole(&page);
}

#[test]
fn what_is_no_report_or_timeline_is_told_in_a_line() {
    let place = folder("page");
    let file = |name: &str, text: &[u8]| {
        let path = place.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let sample = sample().to_str().unwrap().to_owned();
    let (page, garbage) = (place.join("out"), vec![7; 4096]);
    let page = page.to_str().unwrap();
    let torn = std::fs::read(&sample).unwrap();
    let (torn, other) = (
        file("torn", &torn[..700]),
        file("other", b"{\"schema\":\"pyhost-report/9\"}"),
    );
    let (list, garbage) = (file("list", b"{\"schema\":[1]}"), file("garbage", &garbage));
    let line = file("line", b"{\"timeline\":\"pyhost-timeline/1\"}\nnothing\n");
    let folder = place.to_str().unwrap();
    for (arguments, part) in [
        (vec!["/nonexistent"], "'/nonexistent' cannot be read"),
        (vec![folder], "is not a regular file"),
        (vec![&torn], "is not a report in JSON"),
        (
            vec![&other],
            "is of schema 'pyhost-report/9'; expected pyhost-report/1",
        ),
        (vec![&list], "names no schema; expected pyhost-report/1"),
        (
            vec![&garbage],
            "is neither a file of --live nor a report in JSON",
        ),
        (
            vec![&sample, "--timeline", "/nonexistent"],
            "'/nonexistent' cannot be read",
        ),
        (vec![&sample, "--timeline", &garbage], "is not a timeline"),
        (
            vec![&sample, "--timeline", &line],
            "has a line 2 that is not JSON",
        ),
        (
            vec![&sample, "-o", "/nonexistent/x.html"],
            "is in no directory",
        ),
    ] {
        let mut arguments = arguments;
        if !arguments.contains(&"-o") {
            arguments.extend(["-o", page]);
        }
        let outcome = ctl([vec!["html"], arguments].concat());
        assert_eq!(outcome.code(), 1, "{outcome:#?}");
        assert_eq!(outcome.stdout, "");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        assert!(outcome.stderr.contains(part), "{part}: {outcome:#?}");
        assert!(!Path::new(page).exists());
    }
}
