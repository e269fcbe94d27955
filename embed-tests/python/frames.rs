//! Facts that the host reads from CPython's frames. `tools/newest-pythons` runs these on the CPythons of Debian sid.

use crate::environments::{named, pins};
use crate::host::{Run, compile, script, version};
use crate::skipping::skipped;

/// The options that read frames at most requests and frees.
const READERS: [&str; 3] = ["--debug-hooks", "--guard=min=1,every=1", "--lines=1"];

#[test]
fn a_refusal_names_the_calls_that_lead_to_it_for_every_kind_of_frame() {
    let outcome = Run::host()
        .args(["--cap", "1G"])
        .arg(script("frame_kinds.py"))
        .ok();
    assert_eq!(outcome.last_line(), "every kind of frame", "{outcome:#?}");
}

#[test]
fn a_big_block_has_the_line_that_made_it() {
    let code = "import pyhost
def make():
    yield bytearray(1 << 21)
kept = next(make())
print([(block['file'], block['line']) for block in pyhost.big_blocks() if block['size_bytes'] >= 1 << 21])";
    let outcome = Run::host().code(code).ok();
    assert_eq!(outcome.last_line(), "[('<string>', 3)]", "{outcome:#?}");
}

#[test]
fn an_error_inside_a_limit_names_the_line_of_its_block() {
    let code = "import pyhost
try:
    with pyhost.limit('1M'):
        bytearray(1 << 30)
except MemoryError:
    pass
limit = pyhost.last_refusal()['limit']
print(limit['file'], limit['line'])";
    let outcome = Run::host().code(code).ok();
    assert_eq!(outcome.last_line(), "<string> 3", "{outcome:#?}");
}

#[test]
fn threads_that_go_on_while_python_ends_have_no_frames() {
    let library = compile("allocate_for_ever.c", "allocate.so", &["-shared", "-fPIC"]);
    for option in READERS {
        // 3.13 itself reads the freed state of such a thread (`drop_gil`), which a guard makes a fault.
        if version() >= (3, 13) && option.starts_with("--guard") {
            continue;
        }
        for _ in 0..2 {
            let host = Run::host().args(["--stats=off", option]);
            let outcome = host.arg(script("threads_at_exit.py")).arg(&library).ok();
            assert_eq!(outcome.stdout, "done [0]\n", "{option}: {outcome:#?}");
        }
    }
}

#[test]
fn stacks_that_are_switched_are_no_frames() {
    if !pins("loops").exists() {
        return skipped("greenlet is not pinned for this Python");
    }
    let loops = named("loops");
    for option in READERS {
        let host = loops.host().args(["--stats=off", option]);
        let outcome = host.arg(script("switched_stacks.py")).ok();
        assert_eq!(outcome.stdout, "[15, 15, 15, 15]\n", "{option}");
    }
}

#[test]
fn a_name_that_is_too_long_begins_with_the_mark_of_a_cut() {
    let code = "import pyhost
folder, name = '/some/' + 'very/' * 200 + 'long', 'deep' * 100
code = f'def {name}(): return bytearray(1 << 21)\\nkept = {name}()'
for file in (folder + '/job.py', folder + '/j\\u00f6b.py'):
    names = {}
    exec(compile(code, file, 'exec'), names)
    [block] = [block for block in pyhost.big_blocks() if block['size_bytes'] >= 1 << 21]
    calls = [row['stack'][0] for row in pyhost.lines()['live'] if row['stack'] and row['bytes'] >= 1 << 21]
    cut = [block['file'], calls[0]['file'], calls[0]['function']]
    print([text[0] for text in cut], [text[-6:] for text in cut], [len(text.encode()) for text in cut])
    names.clear()";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .ok();
    let expected =
        "['\u{2026}', '\u{2026}', '\u{2026}'] ['job.py', 'job.py', 'epdeep'] [80, 512, 256]
['\u{2026}', '\u{2026}', '\u{2026}'] ['j\u{f6}b.py', 'j\u{f6}b.py', 'epdeep'] [80, 512, 256]\n";
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
}
