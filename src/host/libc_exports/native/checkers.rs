//! Memory tools: what watches the process's memory from inside it and must see every block: Valgrind, the
//! run-time libraries of the sanitizers, and profilers that are preloaded.

use super::next::find;
use std::ffi::CStr;

/// A tool that comes as a preloaded library with a malloc of its own: its name, a part of the library's name, of gcc's and of
/// clang's, and something that only this library defines.
struct Tool(&'static str, &'static [u8], &'static CStr);

const TOOLS: [Tool; 9] = [
    Tool("AddressSanitizer", b"asan", c"__asan_init"),
    Tool("ThreadSanitizer", b"tsan", c"__tsan_init"),
    Tool("MemorySanitizer", b"msan", c"__msan_init"),
    Tool("HWAddressSanitizer", b"hwasan", c"__hwasan_init"),
    Tool("LeakSanitizer", b"lsan", c"__lsan_init"),
    Tool("Scalene", b"libscalene", c"p_whereInPython"),
    Tool("Heaptrack", b"libheaptrack_preload", c"heaptrack_init"),
    Tool("Fil", b"_filpreload", c"fil_initialize_from_python"),
    Tool("Electric Fence", b"libefence", c"EF_PROTECT_BELOW"),
];

/// Whether a value of `LD_PRELOAD` names a tool's library. Allocates nothing.
pub fn is_named_in(preloaded: &[u8]) -> bool {
    let holds = |name: &[u8]| preloaded.windows(name.len()).any(|part| part == name);
    // clang's libraries: libclang_rt.asan-x86_64.so and more
    TOOLS.iter().any(|Tool(_, library, _)| holds(library)) || holds(b"libclang_rt")
}

/// The name of the tool at work, if there is one.
pub fn at_work() -> Option<&'static str> {
    // Valgrind has the loader load a library of its own, and takes it from the environment of processes that it does not follow.
    let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    if preloaded.to_string_lossy().contains("vgpreload") {
        return Some("Valgrind");
    }
    let loaded = |Tool(_, _, symbol): &&Tool| !find(symbol).is_null();
    TOOLS.iter().find(loaded).map(|Tool(name, ..)| *name)
}

#[cfg(test)]
mod tests {
    use super::is_named_in;

    #[test]
    fn tools_are_known_by_the_names_of_their_libraries() {
        for (value, is_tool) in [
            ("", false),
            ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", false),
            ("/usr/lib/gcc/x86_64-linux-gnu/12/libasan.so", true),
            ("libx.so:/usr/lib/llvm/libclang_rt.tsan-x86_64.so", true),
            ("libscalene.so", true),
            ("/usr/lib/heaptrack/libheaptrack_preload.so other.so", true),
        ] {
            assert_eq!(is_named_in(value.as_bytes()), is_tool, "{value}");
        }
    }
}
