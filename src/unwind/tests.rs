use crate::{Call, MOST, object_of, start, walk};

fn calls() -> Vec<Call> {
    start().unwrap();
    let mut room = Vec::with_capacity(MOST);
    walk(|call| {
        room.push(*call);
        true
    });
    room
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

#[test]
fn a_walk_by_rules_that_are_known_finds_what_the_first_one_found() {
    #[inline(never)]
    fn twice() -> [Vec<Call>; 2] {
        [0, 1].map(std::hint::black_box(|_| calls()))
    }
    let thread = std::thread::spawn(twice);
    let [first, second] = thread.join().unwrap();
    assert!(first.len() > 4, "{first:?}");
    let of = |calls: &[Call]| -> Vec<_> {
        let calls = calls.iter();
        calls.map(|call| (call.function, call.stack_end)).collect()
    };
    assert_eq!(of(&first), of(&second));
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
    #[allow(unsafe_code)]
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) }.addr();
    let libc = object_of(address).unwrap();
    assert!(libc.path().starts_with(b"/"), "{:?}", libc.path());
    let name = libc.symbol(address + 1).unwrap();
    assert!(
        name.ends_with(b"getpid"),
        "{:?}",
        String::from_utf8_lossy(name)
    );
    assert_eq!(libc.build_id().len(), 20);
    assert!(object_of(8).is_none());
}
