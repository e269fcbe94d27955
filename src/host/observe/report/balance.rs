//! The resident size in a report, row by row. Does not allocate.

use super::Sink;
use crate::bytes::Bytes;
use crate::observe::balance::{Balance, Library, ROWS};
use arrayvec::ArrayVec;
use pyhost_record::table;
use std::cmp::Reverse;
use std::fmt::{self, Display, Write};

/// Rows of the table; the others are summed up.
const MOST_ROWS: usize = 8;

/// Says a balance without the braces around it.
pub fn describe(balance: &Balance, sink: &mut impl Sink) {
    sink.int("resident_bytes", balance.resident as i64);
    sink.list("rows", balance.rows(), |(name, kind, bytes), sink| {
        sink.text("name", name);
        sink.text("kind", kind.name());
        sink.int("resident_bytes", bytes as i64);
    });
    sink.list("mapped", balance.libraries(), describe_library);
    sink.int("remainder_bytes", balance.remainder());
}

/// Says what a library has mapped.
pub fn describe_library<S: Sink>(library: &Library, sink: &mut S) {
    sink.text("library", library.name());
    sink.int("mapped_bytes", library.mapped as i64);
    sink.int("resident_bytes", library.resident as i64);
}

/// Writes the lines of the table: the largest rows first. `when` says of which moment.
pub fn lines(balance: &Balance, when: impl Display, out: &mut impl Write) -> fmt::Result {
    let rows = balance.rows().map(|(name, _, bytes)| (name, bytes));
    let mut rows: ArrayVec<_, ROWS> = rows.collect();
    rows.sort_unstable_by_key(|&(_, bytes)| Reverse(bytes));
    let (shown, others) = rows.split_at(rows.len().min(MOST_ROWS));
    let resident = Bytes(balance.resident);
    writeln!(out, "resident {when}: {resident}, of which")?;
    let mut line = |name: &str, bytes: u64| writeln!(out, "  {name:<18}{:>12}", Bytes(bytes));
    for &(name, bytes) in shown {
        line(name, bytes)?;
    }
    if !others.is_empty() {
        line("others", others.iter().map(|&(_, bytes)| bytes).sum())?;
    }
    if let Ok(bytes @ 1..) = u64::try_from(balance.remainder()) {
        line("not explained", bytes)?;
    }
    libraries(balance.libraries(), out)
}

/// Writes who has mapped memory.
pub fn libraries<'a>(
    all: impl Iterator<Item = &'a Library> + Clone,
    out: &mut impl Write,
) -> fmt::Result {
    table::mapped_by(all.map(|it| (it.name(), [it.mapped, it.resident])), out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ledger::Account, observe::balance::Row};

    #[test]
    fn the_largest_rows_come_first_and_the_rest_is_summed() {
        let mut balance = Balance::EMPTY;
        balance.resident = 100 << 10;
        let of_heap = [Row::HeapSlack, Row::HeapOwn, Row::HostTables];
        let of_files = [Row::Executable, Row::Libpython, Row::Extensions];
        let rows = of_heap.into_iter().chain(of_files);
        for (row, kibibytes) in rows.chain([Row::Libraries, Row::Kernel]).zip(1..) {
            balance.add(row, kibibytes << 10);
        }
        balance.add_account(Account::Obj, 50 << 10);
        let mut text = String::new();
        lines(&balance, "now", &mut text).unwrap();
        let expected = "resident now: 100.0 KiB, of which
  obj                   50.0 KiB
  kernel                 8.0 KiB
  libraries              7.0 KiB
  extension_modules      6.0 KiB
  libpython              5.0 KiB
  executable             4.0 KiB
  host_tables            3.0 KiB
  heap_own               2.0 KiB
  others                 1.0 KiB
  not explained         14.0 KiB
";
        assert_eq!(text, expected);
    }
}
