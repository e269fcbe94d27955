//! `@pyhost.profile` and `--profile-lines`: the figures of lines against what they are known to take, and which function is found.

use crate::environments::newest_numpy;
use crate::host::{Outcome, Run, folder, script, version};
use crate::skipping::skipped;
use std::path::PathBuf;

#[test]
fn a_line_has_what_it_added_and_its_peak_in_whatever_way_its_function_runs() {
    for (name, value) in [
        ("PYHOST_STATS", "off"),
        ("PYHOST_STATS", "json"),
        ("PYHOST_LINES", "1"),
        ("PYHOST_CAP", "1G"),
        ("PYHOST_ALLOCATOR", "pymalloc"),
        ("PYHOST_DEBUG_HOOKS", "1"),
    ] {
        let outcome = newest_numpy()
            .host()
            .env(name, value)
            .arg(script("profile_lines.py"))
            .ok();
        assert_eq!(
            outcome.last_line(),
            "profiled",
            "{name}={value} {outcome:#?}"
        );
        let shown = "block = bytearray(10 * MIB)  # 10 10 1";
        assert!(outcome.stderr.contains(shown), "{outcome:#?}");
    }
}

#[test]
fn a_trace_function_of_the_script_sees_the_same_and_stays() {
    let run = |words: &[&str]| {
        let run = Run::host().arg(script("profile_traced.py")).args(words);
        run.ok()
    };
    let (plain, profiled) = (run(&[]), run(&["--profiled"]));
    assert!(plain.stdout.lines().count() > 50, "{plain:#?}");
    assert_eq!(plain.stdout, profiled.stdout);
    assert!(profiled.stderr.contains("lines of work, "), "{profiled:#?}");
}

/// A folder with a script and a module that it imports.
fn program() -> PathBuf {
    let place = folder("program");
    let module = "import functools
def decorated(function):
    @functools.wraps(function)
    def wrapper(*values): return function(*values)
    return wrapper
@decorated
def load():
    kept = bytearray(5 << 20)
    return kept
def make():
    def inner():
        return bytearray(2 << 20)
    return inner()
class Store:
    def read(self):
        return bytearray(3 << 20)
";
    let script = "import sys, subprocess
import parts
def work():
    return bytearray(7 << 20)
if __name__ == '__main__':
    work(), parts.load(), parts.make(), parts.Store().read()
    if 'child' in sys.argv:
        subprocess.run([sys.executable, '-c', 'pass'], check=True)
    sys.exit(7)
";
    std::fs::write(place.join("parts.py"), module).unwrap();
    std::fs::write(place.join("main.py"), script).unwrap();
    place
}

fn profiled(names: &[&str], words: &[&str]) -> Outcome {
    let options = names.iter().flat_map(|name| ["--profile-lines", *name]);
    Run::host()
        .folder(&program())
        .args(options)
        .args(words)
        .run()
}

#[test]
fn the_function_that_the_option_names_is_profiled() {
    for (name, line) in [
        ("__main__:work", "return bytearray(7 << 20)"),
        ("parts:load", "kept = bytearray(5 << 20)"),
        ("parts:make.<locals>.inner", "return bytearray(2 << 20)"),
        ("parts:Store.read", "return bytearray(3 << 20)"),
    ] {
        for words in [&["main.py"][..], &["-m", "main"], &["main.py", "child"]] {
            let outcome = profiled(&[name], words);
            assert_eq!(outcome.code(), 7, "{outcome:#?}");
            let row = outcome.stderr.lines().find(|row| row.ends_with(line));
            assert!(
                row.is_some_and(|row| row.contains(" MiB  ")),
                "{outcome:#?}"
            );
            assert_eq!(
                outcome.stderr.matches("pyhost: ").count(),
                1,
                "{outcome:#?}"
            );
        }
    }
    let both = profiled(&["parts:load", "__main__:work"], &["main.py"]);
    assert_eq!(
        both.stderr.matches("pyhost: lines of ").count(),
        2,
        "{both:#?}"
    );
}

#[test]
fn a_function_that_is_never_called_is_one_line_and_the_scripts_status() {
    for name in [
        "parts:nothing",
        "nowhere:work",
        "parts:Store.write",
        "parts:read",
    ] {
        let outcome = profiled(&[name], &["main.py"]);
        let line =
            format!("pyhost: --profile-lines: no call of '{name}' was seen in this process\n");
        assert_eq!((outcome.code(), outcome.stderr), (7, line));
    }
}

#[test]
fn a_forked_child_prints_its_own_table_and_a_bare_decorator_is_there() {
    let code = "import multiprocessing, os, sys
@profile
def work(mebibytes):
    return bytearray(mebibytes << 20)
work(2)
assert len(work.profile.rows) == 1
child = multiprocessing.get_context('fork').Process(target=work, args=(3,))
child.start(); child.join()
if os.fork() == 0: work(5); sys.exit()
os.wait()";
    let run = Run::host().args(["--profile-lines", "__main__:work"]);
    let file = folder("bare").join("job.py");
    std::fs::write(&file, code).unwrap();
    let text = run.arg(&file).ok().stderr;
    let tables = text.split("pyhost: ").skip(1);
    let mut tables: Vec<String> = tables.map(str::to_owned).collect();
    // The children's come first.
    let own = tables.pop().unwrap();
    assert!(own.starts_with("lines of __main__:work, "), "{text}");
    assert!(own.contains("+2."), "{text}");
    assert_eq!(tables.len(), 2, "{text}");
    for (table, bytes) in tables.iter().zip(["+3.", "+5."]) {
        assert!(table.starts_with("process "), "{text}");
        assert!(table.contains(bytes), "{text}");
    }
}

/// A script whose source is markup, with a decorated function, and a child that calls it, too.
const MARKUP: &str = "import os, pyhost
@pyhost.profile
def grow(size):
    return '<script>alert(1)</script>' and bytes(size << 20)  # &amp;
def named(): return grow(3)
named()
if os.fork() == 0: grow(5); raise SystemExit
os.wait()";

fn markup(option: &str, place: &std::path::Path) -> Run {
    std::fs::write(place.join("markup.py"), MARKUP).unwrap();
    let run = Run::host().folder(place).args(["--profile-lines", option]);
    run.arg("markup.py")
}

#[test]
fn the_tables_go_into_a_file_as_a_page_that_stands_alone() {
    let place = folder("page");
    let read = |name: &str| std::fs::read_to_string(place.join(name)).unwrap();
    for option in ["__main__:named,file=lines.html", "file=lines.html"] {
        // The second run takes the place of the first one's.
        let outcome = markup(option, &place).ok();
        let page = read("lines.html");
        assert!(
            page.starts_with("<!DOCTYPE html>\n<meta name=\"generator\" content=\"pyhost\">\n"),
            "{page}"
        );
        assert!(
            page.contains("lines of grow, ") && page.contains("+3."),
            "{page}"
        );
        assert_eq!(
            page.contains("lines of __main__:named, "),
            option.starts_with("__main__"),
            "{page}"
        );
        let source = "return&#160;&#x27;&lt;script&gt;alert(1)&lt;/script&gt;&#x27;";
        assert!(
            page.contains(source) && page.contains("&amp;amp;"),
            "{page}"
        );
        assert!(!page.contains("<script"), "{page}");
        // The child has no file, so it prints.
        assert_eq!(
            outcome.stderr.matches("pyhost: ").count(),
            1,
            "{outcome:#?}"
        );
        assert!(
            outcome.stderr.contains(": lines of grow, ") && outcome.stderr.contains("+5."),
            "{outcome:#?}"
        );
    }
    let outcome = markup("file=of-%p.html", &place).ok();
    assert_eq!(outcome.stderr, "");
    let files = std::fs::read_dir(&place).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = files
        .filter(|name| name.starts_with("of-"))
        .map(|name| read(&name))
        .collect();
    pages.sort_by_key(|page| page.contains("+5."));
    assert!(
        pages.len() == 2 && pages[0].contains("+3.") && pages[1].contains("+5."),
        "{pages:#?}"
    );
}

#[test]
fn a_file_that_pyhost_did_not_write_stays_and_one_that_cannot_be_written_is_no_end() {
    let place = folder("page");
    std::fs::write(place.join("mine.html"), "<!DOCTYPE html>\n<p>mine").unwrap();
    let outcome = markup("file=mine.html", &place).run();
    assert_eq!(outcome.code(), 2, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("pyhost did not write it"),
        "{outcome:#?}"
    );
    let outcome = markup("__main__:named,file=/proc/lines.html", &place).ok();
    assert!(
        outcome
            .stderr
            .contains("'/proc/lines.html' cannot be written"),
        "{outcome:#?}"
    );
    assert!(
        outcome.stderr.contains("pyhost: lines of __main__:named, "),
        "{outcome:#?}"
    );
}

#[test]
fn what_names_no_function_is_refused() {
    for name in ["work", "parts:", ":work", "parts:a:b"] {
        let outcome = profiled(&[name], &["main.py"]);
        assert_eq!(outcome.code(), 2, "{outcome:#?}");
        let expected = format!("bad value '{name}'; expected MODULE:FUNCTION");
        assert!(outcome.stderr.contains(&expected), "{outcome:#?}");
    }
}

#[test]
fn without_a_free_tool_one_line_says_so_and_the_script_runs() {
    if version() < (3, 12) {
        return skipped("before 3.12 the interpreter's loop is watched, without a tool");
    }
    let code = "import pyhost, sys
for tool in range(6): sys.monitoring.use_tool_id(tool, 'other')
@pyhost.profile
def one(): return 1
@pyhost.profile
def two(): return 2
print(one() + two())";
    let outcome = Run::host().code(code).ok();
    assert_eq!(outcome.last_line(), "3");
    let line = "pyhost: profile: no tool of sys.monitoring is free; no line is measured\n";
    assert_eq!(outcome.stderr, line);
}
