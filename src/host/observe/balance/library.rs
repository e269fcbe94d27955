//! One library in the account `mapped`: plain data.

/// Libraries that are named; the last entry stands for all others.
pub const LIBRARIES: usize = 24;

const NAME: usize = 64;

/// The maps of one library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    name: [u8; NAME],
    length: usize,
    /// Bytes that it has mapped and may write.
    pub mapped: u64,
    pub resident: u64,
}

impl Library {
    /// A library that has mapped nothing.
    pub const NONE: Library = Library {
        name: [0; NAME],
        length: 0,
        mapped: 0,
        resident: 0,
    };

    /// The file's name, or what stands for the libraries that are no longer loaded.
    pub fn name(&self) -> &str {
        match std::str::from_utf8(&self.name[..self.length]) {
            Ok("") | Err(_) => "others",
            Ok(name) => name,
        }
    }

    /// The library of that path, which has mapped nothing.
    pub(super) fn of(path: &[u8]) -> Self {
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let mut library = Library::NONE;
        let is_whole = file.len() <= NAME;
        let mark = if is_whole { "" } else { "\u{2026}" };
        let mut kept = file.len().min(NAME - mark.len());
        while !is_whole && file[kept] & 0xc0 == 0x80 {
            kept -= 1; // not within a letter
        }
        library.length = kept + mark.len();
        library.name[..kept].copy_from_slice(&file[..kept]);
        library.name[kept..library.length].copy_from_slice(mark.as_bytes());
        library
    }

    /// Whether the entry has no name yet, or the name of `other`.
    pub(super) fn can_hold(&self, other: &Library) -> bool {
        self.length == 0 || self.name == other.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_cut_says_so_and_is_not_cut_within_a_letter() {
        let of = |name: &str| Library::of(format!("/opt/{name}").as_bytes());
        assert_eq!(of("lib.so").name(), "lib.so");
        assert_eq!(of(&"x".repeat(NAME)).name(), "x".repeat(NAME));
        let long = of(&"x".repeat(NAME + 1));
        assert_eq!(long.name(), "x".repeat(NAME - 3) + "\u{2026}");
        let long = of(&("x".to_owned() + &"\u{e9}".repeat(NAME)));
        assert_eq!(
            long.name(),
            "x".to_owned() + &"\u{e9}".repeat(30) + "\u{2026}"
        );
    }
}
