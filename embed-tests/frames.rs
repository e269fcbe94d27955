//! Facts that the host reads from CPython's frames. `tools/newest-pythons` runs these on the CPythons of Debian sid.

use crate::host::{Run, script};

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
