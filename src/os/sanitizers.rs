//! The run-time libraries of sanitizers. Each must be the first that the loader loads, and ends the process otherwise.

/// Parts of their names, of gcc's and of clang's.
const NAMES: [&[u8]; 5] = [b"asan", b"tsan", b"msan", b"lsan", b"libclang_rt"];

/// The first of them in a value of `LD_PRELOAD`. Allocates nothing.
pub fn named_in(preloaded: &[u8]) -> Option<&[u8]> {
    let mut files = preloaded.split(|byte| b": ".contains(byte));
    let holds = |file: &[u8], part: &[u8]| file.windows(part.len()).any(|found| found == part);
    files.find(|file| NAMES.iter().any(|name| holds(file, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sanitizer_is_found_wherever_it_stands() {
        let list = b"/lib/libeatmydata.so:/usr/lib/libasan.so.8 libm.so.6";
        assert_eq!(named_in(list), Some(&b"/usr/lib/libasan.so.8"[..]));
        let own = b"libclang_rt.hwasan-x86_64.so";
        assert_eq!(named_in(own), Some(&own[..]));
        assert_eq!(named_in(b"libjemalloc.so.2"), None);
        assert_eq!(named_in(b""), None);
    }
}
