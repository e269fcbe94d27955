#![allow(unsafe_code)]

use crate::{Call, MOST, object_of, start, walk};
use std::ffi::c_void;

fn calls() -> Vec<Call> {
    start().unwrap();
    let mut room = Vec::with_capacity(MOST);
    walk(|call| {
        room.push(*call);
        true
    });
    room
}

/// The function of each call, and where its stack ends.
fn outline(calls: &[Call]) -> Vec<(usize, usize)> {
    let calls = calls.iter();
    calls.map(|call| (call.function, call.stack_end)).collect()
}

#[test]
fn the_callers_are_found_up_to_the_start_of_the_thread() {
    #[inline(never)]
    fn inner(left: usize) -> Vec<Call> {
        let mut found = match left {
            0 => calls(),
            _ => inner(left - 1),
        };
        found.reserve(std::hint::black_box(left)); // no tail call
        found
    }
    let thread = std::thread::spawn(|| inner(5));
    let found = thread.join().unwrap();
    let of_inner = found
        .iter()
        .filter(|call| call.function == inner as *const () as usize);
    assert_eq!(of_inner.count(), 6);
    let last = found.last().unwrap();
    let object = object_of(last.address).unwrap();
    let file = String::from_utf8_lossy(object.path()).into_owned();
    assert!(file.contains("libc.so"), "{file}");
    let ends: Vec<usize> = found.iter().map(|call| call.stack_end).collect();
    assert!(ends.is_sorted(), "{ends:?}");
}

// A function that has its caller's stack pointer in rbx alone, as one that aligns its stack may, calls its second argument
// with the first.
std::arch::global_asm!(
    ".pushsection .text",
    ".type pyhost_test_by_rbx, @function",
    "pyhost_test_by_rbx:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "mov rbx, rsp",
    ".cfi_def_cfa_register rbx",
    "and rsp, -64",
    "call rsi",
    "mov rsp, rbx",
    ".cfi_def_cfa_register rsp",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size pyhost_test_by_rbx, . - pyhost_test_by_rbx",
    ".popsection",
);

#[test]
fn a_caller_that_needs_a_register_no_rule_keeps_is_found_by_each_walk() {
    unsafe extern "C" {
        fn pyhost_test_by_rbx(argument: *mut c_void, inner: extern "C" fn(*mut c_void));
    }
    extern "C" fn inner(found: *mut c_void) {
        // SAFETY: the room of the function below.
        unsafe { *found.cast::<Vec<Call>>() = calls() };
    }
    #[inline(never)]
    fn twice() -> [Vec<Call>; 2] {
        [0, 1].map(|_| {
            let mut found = Vec::<Call>::new();
            // SAFETY: the function above.
            unsafe { pyhost_test_by_rbx((&raw mut found).cast(), inner) };
            found
        })
    }
    let [first, second] = std::thread::spawn(twice).join().unwrap();
    let is_it = |call: &Call| call.function == pyhost_test_by_rbx as *const () as usize;
    let place = first.iter().position(is_it).unwrap();
    assert!(first.len() > place + 3, "{first:?}");
    assert_eq!(outline(&first), outline(&second));
}

#[test]
fn a_deep_recursion_is_cut() {
    #[inline(never)]
    fn deep(left: usize) -> usize {
        match left {
            0 => calls().len(),
            _ => std::hint::black_box(deep(left - 1)),
        }
    }
    assert_eq!(deep(1000), MOST);
}

#[test]
fn an_object_knows_its_file_its_symbols_and_its_build_id() {
    start().unwrap();
    let own = object_of(calls as *const () as usize).unwrap();
    assert_eq!(own.path(), b"", "the executable");
    // SAFETY: the name ends in a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) }.addr();
    let libc = object_of(address).unwrap();
    assert!(libc.path().starts_with(b"/"), "{:?}", libc.path());
    let name = String::from_utf8_lossy(libc.symbol(address + 1).unwrap());
    assert!(name.ends_with("getpid"), "{name:?}");
    assert_eq!(libc.build_id().len(), 20);
    assert!(object_of(8).is_none());
}
