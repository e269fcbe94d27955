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
    /// Resident bytes of them.
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
        let length = file.len().min(NAME);
        let mut library = Library {
            length,
            ..Library::NONE
        };
        library.name[..length].copy_from_slice(&file[..length]);
        library
    }

    /// Whether the entry has no name yet, or the name of `other`.
    pub(super) fn can_hold(&self, other: &Library) -> bool {
        self.length == 0 || self.name == other.name
    }
}
