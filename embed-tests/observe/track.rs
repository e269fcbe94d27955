//! `pyhost.track()` and `pyhost.snapshot()`: figures of a block against what it is known to take, in
//! every way that a block may run, and the differences of two moments.

use crate::host::{PYHOSTCTL, Run, folder, ledger_at, script, stock, version};
use std::process::Command;

#[test]
fn a_block_is_measured_in_whatever_way_it_runs() {
    for options in [&[][..], &["-I", "-S"], &["-X", "dev"]] {
        let outcome = Run::host().args(options).arg(script("tracks.py")).run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "tracked"),
            "{options:?} {outcome:#?}"
        );
    }
}

#[test]
fn a_block_is_measured_whatever_the_allocator_and_the_hooks_are() {
    for (name, value) in [
        ("PYHOST_ALLOCATOR", "pymalloc"),
        ("PYHOST_ALLOCATOR", "system"),
        ("PYHOST_DEBUG_HOOKS", "1"),
        ("PYHOST_CAP", "1G"),
    ] {
        let outcome = Run::host().env(name, value).arg(script("tracks.py")).run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "tracked"),
            "{name}={value} {outcome:#?}"
        );
    }
}

#[test]
fn blocks_of_several_interpreters_are_measured_at_once() {
    if version() >= (3, 12) {
        let outcome = Run::host().arg(script("track_gils.py")).run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "tracked"),
            "{outcome:#?}"
        );
    }
}

#[test]
fn the_peak_of_life_outlives_every_block() {
    let code = "import pyhost
data = bytes(30 << 20)
del data
for _ in range(3):
    with pyhost.track() as t:
        bytes(5 << 20)
assert t.peak_growth_bytes < 8 << 20, t
assert pyhost.memory_stats()['accounts']['obj']['peak_bytes'] > 30 << 20
assert pyhost.snapshot().total_peak_bytes > 30 << 20";
    let (outcome, report) = Run::host().code(code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(report["total"]["peak_bytes"].as_i64().unwrap() > 30 << 20);
    let obj = &report["accounts"]["obj"];
    assert!(obj["peak_bytes"].as_i64().unwrap() > 30 << 20, "{obj}");
}

#[test]
fn a_killed_process_leaves_the_peak_of_its_life_not_of_its_last_block() {
    let file = folder("ledger").join("ledger");
    let code = "import os, pyhost
data = bytes(64 << 20)
del data
with pyhost.track():
    os.kill(os.getpid(), 9)";
    let killed = Run::host().arg(ledger_at(&file)).code(code).run();
    assert_eq!(killed.code(), 137, "{killed:#?}");
    let shown = Run::program(PYHOSTCTL)
        .args(["report", "--text"])
        .arg(&file)
        .ok()
        .stdout;
    let total = shown
        .lines()
        .find(|line| line.starts_with("total"))
        .unwrap();
    let peak: f64 = total.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(peak >= 64.0 && total.ends_with("MiB"), "{shown}");
}

#[test]
fn the_python_parts_are_run_only_where_they_are_asked_for() {
    let code = "import pyhost, sys
before = set(sys.modules)
first = pyhost.memory_stats()['accounts']['obj']['live_bytes']
pyhost.limit, pyhost.track
assert 'snapshot' not in vars(pyhost) and 'snapshot' in dir(pyhost)
from pyhost import snapshot, Diff, Snapshot
assert vars(pyhost)['snapshot'] is snapshot is pyhost.snapshot
assert Snapshot.__module__ == snapshot.__module__ == 'pyhost' and Snapshot.__doc__ and snapshot.__doc__
print(sorted(set(sys.modules) - before))
try:
    pyhost.no_such_name
except AttributeError as error:
    print(error)
import traceback
try:
    snapshot().diff(1)
except TypeError:
    print(traceback.format_exc())";
    let outcome = Run::host().args(["-I", "-S"]).code(code).ok();
    let mut lines = outcome.stdout.lines();
    assert_eq!(lines.next(), Some("[]"), "{outcome:#?}");
    assert_eq!(
        lines.next(),
        Some("module 'pyhost' has no attribute 'no_such_name'")
    );
    // The line itself is shown, though there is no file.
    assert!(
        outcome
            .stdout
            .contains("File \"<pyhost>/snapshots.py\", line ")
    );
    assert!(outcome.stdout.contains("raise TypeError(f\"diff: expected"));
}

#[test]
fn a_zipapp_and_a_forked_child_track_too() {
    let place = folder("zipapp");
    let package = place.join("package");
    std::fs::create_dir(&package).unwrap();
    let code = "import os, pyhost
with pyhost.track() as outer:
    if os.fork() == 0:
        with pyhost.track() as t:
            data = bytes(4 << 20)
        outer.__exit__(None, None, None)
        right = 4 << 20 <= t.growth_bytes <= outer.growth_bytes + 4096
        os._exit(0 if right else 1)
    assert os.wait()[1] == 0
assert outer.peak_growth_bytes < 1 << 20, outer
print(pyhost.snapshot().diff(pyhost.snapshot()).total.account)";
    std::fs::write(package.join("__main__.py"), code).unwrap();
    Command::new(stock())
        .args(["-m", "zipapp", "package", "-o", "package.zip"])
        .current_dir(&place)
        .status()
        .unwrap();
    let outcome = Run::host().folder(&place).arg("package.zip").ok();
    assert_eq!(outcome.last_line(), "total");
}

#[test]
fn a_block_has_its_lines_and_no_block_disturbs_another_or_a_mark() {
    for options in [&[][..], &["--debug-hooks"], &["--allocator", "pymalloc"]] {
        let outcome = Run::host()
            .args(["--lines=1", "--stats=off"])
            .args(options)
            .arg(script("track_lines.py"))
            .arg("exact")
            .run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "done"),
            "{options:?} {outcome:#?}"
        );
    }
}

#[test]
fn the_lines_of_a_block_lie_within_their_errors_in_most_cases() {
    let (mut within, mut cases) = (0, 0);
    for seed in 1..=5 {
        let outcome = Run::host()
            .args([&format!("--lines=32K,seed={seed}"), "--stats=off"])
            .arg(script("track_lines.py"))
            .arg("sampled")
            .ok();
        let words = outcome.stdout.split_whitespace();
        let mut numbers = words.filter_map(|word| word.parse::<i32>().ok());
        within += numbers.next().unwrap();
        cases += numbers.next().unwrap();
    }
    assert!(cases == 120 && within >= 108, "{within} of {cases}");
}

#[test]
fn a_block_has_no_lines_without_samples_of_all_of_it() {
    let code = "import pyhost
with pyhost.track() as t:
    kept = [bytes(1000) for _ in range(3000)]
assert t.lines is None and 'lines' not in str(t), t
assert '<code>pyhost --lines</code>' in t._repr_html_()
try: pyhost.track().lines
except RuntimeError as error: print(error)";
    let outcome = Run::host().code(code).ok();
    assert_eq!(
        outcome.last_line(),
        "track: nothing was measured yet; expected a block that was entered"
    );
}

#[test]
fn the_lines_of_a_block_are_bounded_by_their_text_as_those_of_a_report() {
    let code = "
import json, pyhost
# 500 stacks of 40 calls, whose names take 12 MB.
name = 'f' * 240
def work(number, depth):
    code = f'def {name}(depth): return {name}(depth - 1) if depth else kept.append(bytes(20_000))'
    space = {'kept': kept}
    exec(compile(code, f'{\"g\" * 240}_{number}', 'exec'), space)
    space[name](depth)
kept = []
with pyhost.track() as block:
    for number in range(500): work(number, 40)
for lines in (block.lines, pyhost.lines()):
    for view in ('at_peak', 'grown', 'allocated'):
        length = len(json.dumps(lines[view], separators=(',', ':')))
        assert length <= 5 << 19, (view, length)
    assert len(json.dumps(lines['allocated'])) > 2 << 20
";
    Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .ok();
}

#[test]
fn lines_show_themselves_as_a_table_and_as_escaped_html() {
    let code = "import json, pyhost
with pyhost.track() as t:
    kept = eval(compile('[bytes(1000) for _ in range(3000)]', '<b>&.py', 'eval'))
lines = pyhost.lines()
assert isinstance(lines, dict) and json.loads(json.dumps(lines)) == lines
assert type(lines) is type(t.lines) is pyhost.Lines
first = t.lines.top(1)[0]
assert first['bytes'] > 3_000_000 and first['account'] == 'obj' and first['package'] is None, first
assert str(lines).startswith('lines at the peak (every allocation):'), str(lines)
for shown in (t, lines):
    bundle = shown._repr_mimebundle_(include=None, exclude=None)
    html = bundle['text/html']
    assert bundle['text/plain'] == str(shown) and '<module>' not in html, html
    assert '&lt;b&gt;&amp;.py' in html, html
    assert html.count('<table>') == html.count('</table>') > 0
    from html.parser import HTMLParser
    open_tags = []
    class Check(HTMLParser):
        def handle_starttag(self, tag, attributes): open_tags.append(tag)
        def handle_endtag(self, tag): assert open_tags.pop() == tag
    Check().feed(html)
    assert not open_tags
print('shown')";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off"])
        .code(code)
        .ok();
    assert_eq!(outcome.last_line(), "shown");
}

#[test]
fn lines_of_packages_are_given_to_the_line_that_called_them() {
    let place = folder("packages");
    let package = place.join("site-packages/some_package");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(
        package.join("__init__.py"),
        "def make():\n    return [bytes(1000) for _ in range(3000)]\n",
    )
    .unwrap();
    let code = "import pyhost, some_package
with pyhost.track() as t:
    kept = some_package.make()
first = t.lines.top(1)[0]
print(first['file'], first['line'], first['package'])
print(str(t))";
    let outcome = Run::host()
        .env("PYTHONPATH", place.join("site-packages"))
        .args(["--lines=1", "--stats=off"])
        .code(code)
        .ok();
    assert!(
        outcome.stdout.starts_with("<string> 3 some_package\n"),
        "{outcome:#?}"
    );
    assert!(
        outcome
            .stdout
            .contains(" obj     <string>:3 in <module>, by some_package"),
        "{outcome:#?}"
    );
}

#[test]
fn a_tracked_generator_keeps_no_item_that_its_consumer_dropped() {
    let code = "import pyhost, weakref
class Item: pass
@pyhost.track
def items():
    for _ in range(2):
        yield Item()
made = items()
dropped = weakref.ref(next(made))
print(dropped())";
    assert_eq!(Run::host().code(code).ok().stdout, "None\n");
}
