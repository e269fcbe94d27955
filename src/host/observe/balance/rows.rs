//! The rows of a balance sheet: their names, their kinds and their sums. Plain data; nothing here
//! allocates.

use super::library::{LIBRARIES, Library};
use crate::ledger::{Account, REPORTED};

/// The kind of a row's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Live blocks of an account.
    Account,
    /// Memory that the heap keeps beside live blocks.
    Heap,
    File,
    Stack,
    /// Anonymous memory of somebody else.
    Anonymous,
}

pyhost_os::named!(Kind: "account" Account, "heap" Heap, "file" File, "stack" Stack, "anonymous" Anonymous);

/// A row beside those of the accounts, which come first. The discriminant is its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Row {
    /// Free blocks, and room for blocks, in pages that have live ones.
    HeapSlack = REPORTED.len(),
    /// Pages without a live block, and memory that mimalloc has not given back.
    HeapKept,
    /// Live blocks of `malloc` that the ledger does not count (`--malloc plain`).
    Uncounted,
    /// mimalloc's descriptions of its arenas, pages and threads, and its page map.
    HeapOwn,
    /// The host's own tables: the ledger, the registers, and what a look at the balance takes.
    HostTables,
    /// The host's executable.
    Executable,
    Libpython,
    /// Extension modules of Python.
    Extensions,
    /// Other libraries.
    Libraries,
    /// Other files: the script's own, locales.
    Files,
    MainStack,
    /// Other threads' stacks, of threads that have ended too, as long as libc keeps them.
    ThreadStacks,
    SignalStack,
    /// libc's own heap.
    Brk,
    /// Memory that is shared with other processes.
    Shared,
    /// Memory that libraries have mapped themselves.
    LibraryMaps,
    Kernel,
}

/// How many rows there are.
pub const ROWS: usize = Row::Kernel as usize + 1;

const OTHERS: [(&str, Kind); ROWS - REPORTED.len()] = [
    ("heap_slack", Kind::Heap),
    ("heap_kept", Kind::Heap),
    ("uncounted", Kind::Heap),
    ("heap_own", Kind::Heap),
    ("host_tables", Kind::Heap),
    ("executable", Kind::File),
    ("libpython", Kind::File),
    ("extension_modules", Kind::File),
    ("libraries", Kind::File),
    ("other_files", Kind::File),
    ("main_stack", Kind::Stack),
    ("thread_stacks", Kind::Stack),
    ("signal_stack", Kind::Stack),
    ("brk", Kind::Anonymous),
    ("shared_memory", Kind::Anonymous),
    ("library_maps", Kind::Anonymous),
    ("kernel", Kind::Anonymous),
];

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

    /// Adds to an account's row.
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

    /// Adds to another row.
    pub fn add(&mut self, row: Row, bytes: u64) {
        self.rows[row as usize] += bytes;
    }

    /// Leaves an account `live` bytes at most. The excess goes to a row up to its `most` bytes, and what is
    /// left of it to the slack.
    pub fn limit(&mut self, account: Account, live: u64, (row, most): (Row, u64)) {
        let Some(bytes) = self.rows.get_mut(account as usize) else {
            return;
        };
        let excess = bytes.saturating_sub(live);
        *bytes -= excess;
        self.add(row, excess.min(most));
        self.add(Row::HeapSlack, excess - excess.min(most));
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

    /// The sum of all rows.
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
        let rows = names
            .zip(self.rows)
            .map(|((name, kind), bytes)| (name, kind, bytes));
        rows.filter(|&(_, _, bytes)| bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_remainder_sum_up_to_what_is_resident() {
        let mut balance = Balance {
            resident: 1000,
            ..Balance::EMPTY
        };
        balance.add_account(Account::Obj, 300);
        balance.add(Row::Kernel, 4);
        let mut part = Balance::EMPTY;
        part.add_account(Account::Native, 100);
        part.add(Row::HeapSlack, 50);
        balance.add_part(&part, 1, 3);
        let rows: Vec<_> = balance.rows().collect();
        assert_eq!(
            rows,
            [
                ("obj", Kind::Account, 300),
                ("native", Kind::Account, 33),
                ("heap_slack", Kind::Heap, 16),
                ("kernel", Kind::Anonymous, 4),
            ]
        );
        assert_eq!(balance.remainder(), 1000 - 353);
        assert_eq!(balance.explained() as i64 + balance.remainder(), 1000);
    }
}
