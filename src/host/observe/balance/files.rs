//! The kind of a mapped file, by its name.

use super::rows::Row;

/// The row of a mapped file.
pub fn row_of(path: &[u8]) -> Row {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let is_shared = [&b"/dev/zero"[..], b"/memfd:", b"/dev/shm/", b"/SYSV"]
        .iter()
        .any(|prefix| path.starts_with(prefix));
    if is_shared {
        return Row::Shared;
    }
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let contains = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    let is_library = name.ends_with(b".so") || contains(b".so.");
    match is_library {
        _ if name.starts_with(b"libpython") && is_library => Row::Libpython,
        _ if contains(b".cpython-") && is_library => Row::Extensions,
        // The suffixes of `_imp.extension_suffixes`; libraries proper begin with `lib`.
        true if name.ends_with(b".so") && !name.starts_with(b"lib") => Row::Extensions,
        true => Row::Libraries,
        false => Row::Files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_decides_its_row() {
        for (path, row) in [
            ("/usr/lib/libpython3.11.so.1.0", Row::Libpython),
            (
                "/a/math.cpython-311-x86_64-linux-gnu.so (deleted)",
                Row::Extensions,
            ),
            ("/a/_x.abi3.so", Row::Extensions),
            ("/a/plain.so", Row::Extensions),
            ("/a/numpy.libs/libopenblas64_p-r0.so", Row::Libraries),
            ("/lib/ld-linux-x86-64.so.2", Row::Libraries),
            ("/usr/lib/locale/C.utf8/LC_CTYPE", Row::Files),
            ("/a/data.sock", Row::Files),
            ("/dev/zero (deleted)", Row::Shared),
            ("/memfd:x (deleted)", Row::Shared),
            ("/dev/shm/psm_1", Row::Shared),
        ] {
            assert_eq!(row_of(path.as_bytes()), row, "{path}");
        }
    }
}
