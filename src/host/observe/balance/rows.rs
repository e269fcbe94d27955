//! The rows of a balance sheet: their names, their kinds and their sums, and the libraries in the account `mapped`. Plain data; nothing here
//! allocates.

use crate::ledger::{Account, REPORTED};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Account,
    /// Memory that the heap keeps beside live blocks.
    Heap,
    File,
    Stack,
    /// Anonymous memory of somebody else.
    Anonymous,
}

pyhost_os::named!(Kind: "account" Account, "heap" Heap, "file" File, "stack" Stack, "anonymous" Anonymous);

/// The rows beside those of the accounts, which come first: of each its kind and its name.
macro_rules! rows {
    ($($(#[$doc:meta])* $kind:ident $row:ident $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Row {
            $($(#[$doc])* $row,)*
        }

        const OTHERS: [(&str, Kind); [$($name),*].len()] = [$(($name, Kind::$kind)),*];
    };
}

rows! {
    /// Free blocks, and room for blocks, in pages that have live ones.
    Heap HeapSlack "heap_slack",
    /// Pages without a live block, and memory that mimalloc has not given back.
    Heap HeapKept "heap_kept",
    /// Live blocks of `malloc` that the ledger does not count (`--malloc plain`).
    Heap Uncounted "uncounted",
    /// mimalloc's descriptions of its arenas, pages and threads, and its page map.
    Heap HeapOwn "heap_own",
    /// What CPython's own mimalloc has beside live objects, on a free-threaded Python.
    Heap PythonArena "python_arena",
    /// The host's own tables: the ledger, the registers, and what a look at the balance takes.
    Heap HostTables "host_tables",
    File Executable "executable",
    File Libpython "libpython",
    File Extensions "extension_modules",
    File Libraries "libraries",
    /// Other files: the script's own, locales.
    File Files "other_files",
    Stack MainStack "main_stack",
    /// Other threads' stacks, of threads that have ended too, as long as libc keeps them.
    Stack ThreadStacks "thread_stacks",
    Stack SignalStack "signal_stack",
    /// libc's own heap.
    Anonymous Brk "brk",
    /// Memory that is shared with other processes.
    Anonymous Shared "shared_memory",
    /// Memory that libraries have mapped themselves.
    Anonymous LibraryMaps "library_maps",
    /// Machine code that was made at run time, by CPython's JIT or by Numba.
    Anonymous JitCode "jit_code",
    Anonymous Kernel "kernel",
}

pub const ROWS: usize = REPORTED.len() + OTHERS.len();

/// A resident size, explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    pub resident: u64,
    /// The account `mapped`, by library.
    libraries: [Library; LIBRARIES],
    rows: [u64; ROWS],
}

impl Balance {
    pub const EMPTY: Balance = Balance {
        resident: 0,
        libraries: [Library::NONE; LIBRARIES],
        rows: [0; ROWS],
    };

    /// Nothing yet, of what these libraries have mapped.
    pub(super) fn of(libraries: [Library; LIBRARIES]) -> Self {
        Balance {
            libraries,
            ..Balance::EMPTY
        }
    }

    pub fn add_account(&mut self, account: Account, bytes: u64) {
        if let Some(row) = self.rows.get_mut(account as usize) {
            *row += bytes;
        }
    }

    /// Adds to the row of `mapped`, and to one library's part of it.
    pub fn add_library(&mut self, library: usize, bytes: u64) {
        self.add_account(Account::Mapped, bytes);
        self.libraries[library].resident += bytes;
    }

    /// The libraries that have mapped anything, in no order.
    pub fn libraries(&self) -> impl Iterator<Item = &Library> + Clone {
        self.libraries.iter().filter(|it| it.mapped > 0)
    }

    pub fn add(&mut self, row: Row, bytes: u64) {
        self.rows[REPORTED.len() + row as usize] += bytes;
    }

    /// Leaves an account `live` bytes at most. The excess goes to a row up to its `most` bytes, and what is
    /// left of it to the slack.
    pub fn limit(&mut self, account: Account, live: u64, (row, most): (Row, u64)) {
        if let Some(bytes) = self.rows.get_mut(account as usize) {
            let excess = bytes.saturating_sub(live);
            *bytes -= excess;
            self.add(row, excess.min(most));
            self.add(Row::HeapSlack, excess - excess.min(most));
        }
    }

    /// Adds `numerator / denominator` of the rows of `other`, rounded down.
    pub fn add_part(&mut self, other: &Balance, numerator: u64, denominator: u64) {
        for (row, bytes) in self.rows.iter_mut().zip(other.rows) {
            let part = u128::from(bytes) * u128::from(numerator) / u128::from(denominator.max(1));
            *row += part as u64;
        }
        for (own, other) in self.libraries.iter_mut().zip(&other.libraries) {
            let part = u128::from(other.resident) * u128::from(numerator);
            own.resident += (part / u128::from(denominator.max(1))) as u64;
        }
    }

    pub fn explained(&self) -> u64 {
        self.rows.iter().sum()
    }

    /// Resident bytes that are in no row. Below 0 if memory was added during the measurement.
    pub fn remainder(&self) -> i64 {
        self.resident as i64 - self.explained() as i64
    }

    /// The rows that have anything: name, kind, bytes.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, Kind, u64)> + Clone {
        let accounts = REPORTED.iter().map(|it| (it.name(), Kind::Account));
        let names = accounts.chain(OTHERS);
        let rows = names.zip(self.rows).filter(|&(_, bytes)| bytes > 0);
        rows.map(|((name, kind), bytes)| (name, kind, bytes))
    }
}

pub fn row_of(path: &[u8]) -> Row {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let shared = [&b"/dev/zero"[..], b"/memfd:", b"/dev/shm/", b"/SYSV"];
    if shared.iter().any(|prefix| path.starts_with(prefix)) {
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
    fn the_name_of_a_file_decides_its_row() {
        let extensions = "math.cpython-311-x86_64-linux-gnu.so (deleted)|/a/_x.abi3.so|/a/plain.so";
        let libraries = "/a/numpy.libs/libopenblas64_p-r0.so|/lib/ld-linux-x86-64.so.2";
        let shared = "/dev/zero (deleted)|/memfd:x (deleted)|/dev/shm/psm_1";
        for (paths, row) in [
            ("/usr/lib/libpython3.11.so.1.0", Row::Libpython),
            (extensions, Row::Extensions),
            (libraries, Row::Libraries),
            ("/lib/locale/C.utf8/LC_CTYPE|/a/data.sock", Row::Files),
            (shared, Row::Shared),
        ] {
            for path in paths.split('|') {
                assert_eq!(row_of(path.as_bytes()), row, "{path}");
            }
        }
    }

    #[test]
    fn a_name_that_is_cut_says_so_and_is_not_cut_within_a_letter() {
        let of = |name: &str| Library::of(format!("/opt/{name}").as_bytes());
        assert_eq!(of("lib.so").name(), "lib.so");
        assert_eq!(of(&"x".repeat(NAME)).name(), "x".repeat(NAME));
        let long = of(&"x".repeat(NAME + 1));
        assert_eq!(long.name(), "x".repeat(NAME - 3) + "\u{2026}");
        let long = of(&("x".to_owned() + &"\u{e9}".repeat(NAME)));
        let cut = format!("x{}\u{2026}", "\u{e9}".repeat(30));
        assert_eq!(long.name(), cut);
    }
}
