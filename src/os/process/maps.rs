//! The process's mappings and what is resident of each: `/proc/self/smaps` and
//! `/proc/self/pagemap`, both as they are read, through buffers of the caller's.
//!
//! Nothing here allocates. Not for signal handlers all the same: reading takes the kernel a millisecond and more.

use super::small_file;
use crate::file::{self, Fd};
use crate::mapping::page_size;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First address.
    pub start: usize,
    /// Behind the last address.
    pub end: usize,
    /// Whether it may be read, written, and executed.
    pub readable: bool,
    /// See `readable`.
    pub writable: bool,
    /// See `readable`.
    pub executable: bool,
    /// Whether what is written to it is seen by nobody else.
    pub private: bool,
    /// The file's path, or a name in brackets; empty for anonymous memory.
    pub name: &'a [u8],
    /// Bytes that are resident, as far as they were read.
    pub resident: u64,
}

impl<'a> Mapping<'a> {
    /// Reads a line `start-end flags offset device inode   name` of `maps` or `smaps` (proc_pid_maps(5)).
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let mut addresses = words.next()?.split(|&byte| byte == b'-');
        let (start, end) = (addresses.next()?, addresses.next()?);
        let flags = words.next()?;
        Some(Mapping {
            start: address(start)?,
            end: address(end)?,
            readable: flags.first() == Some(&b'r'),
            writable: flags.get(1) == Some(&b'w'),
            executable: flags.get(2) == Some(&b'x'),
            private: flags.get(3) == Some(&b'p'),
            name: words.nth(3).unwrap_or_default().trim_ascii(),
            resident: 0,
        })
    }
}

/// The process's own memory, read so that an address that is gone is no fault: `/proc/self/mem`.
pub struct Memory(Fd);

impl Memory {
    /// Opens it; None if the kernel does not let us.
    pub fn open() -> Option<Self> {
        small_file::open(c"/proc/self/mem").map(Memory)
    }

    /// Reads what is at `address`; how many bytes, 0 if there is no memory.
    pub fn read(&self, address: usize, buffer: &mut [u8]) -> usize {
        file::read_at(&self.0, buffer, address as u64).unwrap_or(0)
    }
}

/// Calls back for each mapping, by ascending address, with its resident bytes. `buffer` holds the
/// longest line and more: 16 KiB will do. `None` if the kernel does not provide it.
pub fn each(buffer: &mut [u8], mut visit: impl FnMut(&Mapping<'_>)) -> Option<()> {
    let file = small_file::open(c"/proc/self/smaps")?;
    let mut parser = Parser::default();
    let read = |room: &mut [u8]| Some(file::read(&file, room).unwrap_or(0));
    file::each_line(buffer, read, |line| parser.line(line, &mut visit))?;
    parser.seen.then_some(())
}

/// Calls back for each mapping, by ascending address; `resident` is not read, which makes it cheap. As [`each`].
pub fn each_range(buffer: &mut [u8], mut visit: impl FnMut(&Mapping<'_>)) -> Option<()> {
    let file = small_file::open(c"/proc/self/maps")?;
    let read = |room: &mut [u8]| Some(file::read(&file, room).unwrap_or(0));
    file::each_line(buffer, read, |line| {
        visit(&Mapping::parse(line)?);
        Some(())
    })
}

/// Puts the lines of a mapping together: its own, and that with `Rss`.
struct Parser {
    header: Mapping<'static>,
    name: [u8; libc::PATH_MAX as usize],
    name_length: usize,
    seen: bool,
}

impl Default for Parser {
    fn default() -> Self {
        Parser {
            header: Mapping::default(),
            name: [0; libc::PATH_MAX as usize],
            name_length: 0,
            seen: false,
        }
    }
}

impl Parser {
    fn line(&mut self, line: &[u8], visit: &mut impl FnMut(&Mapping<'_>)) -> Option<()> {
        if let Some(rest) = line.strip_prefix(b"Rss:") {
            let resident = small_file::kilobytes(rest)?;
            self.seen = true;
            visit(&Mapping {
                name: &self.name[..self.name_length],
                resident,
                ..self.header
            });
        } else if line.first().is_some_and(|byte| !byte.is_ascii_uppercase()) {
            // Addresses are in lower case, the other lines' keys begin with a capital.
            let mapping = Mapping::parse(line)?;
            self.name_length = mapping.name.len().min(self.name.len());
            self.name[..self.name_length].copy_from_slice(&mapping.name[..self.name_length]);
            self.header = Mapping {
                name: b"",
                ..mapping
            };
        }
        Some(())
    }
}

fn address(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Pages of a run of addresses that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Pages that this process alone has.
    pub own: u64,
    /// Pages that others have too; and pages of zeroes that were read and never written, which the
    /// kernel does not count as resident.
    pub shared: u64,
}

/// `/proc/self/pagemap`, read in order.
pub struct PageMap<'a> {
    file: Fd,
    buffer: &'a mut [Entry],
    /// Number of the page that the buffer begins with, and pages in it.
    first: usize,
    length: usize,
    page: usize,
}

/// The bytes of an entry.
pub type Entry = [u8; 8];

/// Bits of an entry (`Documentation/admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const EXCLUSIVE: u64 = 1 << 56;

impl<'a> PageMap<'a> {
    /// Opens it; None if the kernel does not let us.
    pub fn open(buffer: &'a mut [Entry]) -> Option<Self> {
        Some(PageMap {
            file: small_file::open(c"/proc/self/pagemap")?,
            buffer,
            first: 0,
            length: 0,
            page: page_size() as usize,
        })
    }

    /// Whether the page of `address` is resident. The caller looks at further pages up to `end`.
    pub fn is_present(&mut self, address: usize, end: usize) -> bool {
        self.entry(address / self.page, end) & PRESENT != 0
    }

    /// Whether the page of `address` has been written to, and is resident or swapped out. As [`PageMap::is_present`].
    pub fn is_kept(&mut self, address: usize, end: usize) -> bool {
        self.entry(address / self.page, end) & (PRESENT | SWAPPED) != 0
    }

    /// Counts the pages of a run of addresses, which begins on a page.
    pub fn count(&mut self, start: usize, end: usize) -> Present {
        let mut present = Present::default();
        for number in start / self.page..end.div_ceil(self.page) {
            let entry = self.entry(number, end);
            if entry & PRESENT != 0 {
                match entry & EXCLUSIVE {
                    0 => present.shared += 1,
                    _ => present.own += 1,
                }
            }
        }
        present
    }

    /// The entry of a page; those that follow are read with it, to `end` and beyond.
    fn entry(&mut self, number: usize, end: usize) -> u64 {
        if !(self.first..self.first + self.length).contains(&number) {
            // Not far beyond the end: mappings may be far apart.
            let wanted = (end.div_ceil(self.page) - number).max(512);
            let wanted = wanted.min(self.buffer.len());
            let offset = (number * size_of::<Entry>()) as u64;
            let entries = self.buffer[..wanted].as_flattened_mut();
            let read = file::read_at(&self.file, entries, offset).unwrap_or(0);
            self.first = number;
            self.length = read / size_of::<Entry>();
            if self.length == 0 {
                return 0;
            }
        }
        u64::from_ne_bytes(self.buffer[number - self.first])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Mapped, advise_huge_pages};

    #[test]
    fn the_lines_of_a_mapping_are_put_together() {
        let text = b"00400000-0040b000 r-xp 00001000 fe:00 12   /bin/a b (deleted)\n\
            Size:                 44 kB\nRss:                  40 kB\nVmFlags: rd ex\n\
            7ffe-8000 ---p 00000000 00:00 0 \nRss:                   0 kB\n\
            9000-a000 rw-s 00000000 00:00 0                          [heap]\nRss: 4 kB\n";
        let mut parser = Parser::default();
        let mut seen = Vec::new();
        for line in text.split(|&byte| byte == b'\n') {
            let each = &mut |mapping: &Mapping<'_>| {
                let name = String::from_utf8(mapping.name.to_vec()).unwrap();
                seen.push((mapping.start, mapping.end, mapping.writable, name));
                seen.last_mut().unwrap().3 += &format!("|{}", mapping.resident);
            };
            parser.line(line, each).unwrap();
        }
        let expected = [
            (0x400000, 0x40b000, false, "/bin/a b (deleted)|40960".into()),
            (0x7ffe, 0x8000, false, "|0".into()),
            (0x9000, 0xa000, true, "[heap]|4096".into()),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn lines_of_another_kind_are_refused() {
        let mut parser = Parser::default();
        for line in [&b"zz-yy r-xp"[..], b"Rss: x kB", b"Rss: 4"] {
            assert_eq!(parser.line(line, &mut |_| {}), None);
        }
    }

    #[test]
    fn what_was_written_is_resident_and_what_was_not_is_not() {
        let page = page_size() as usize;
        let mut buffer = [[0; 8]; 1024];
        let Some(mut map) = PageMap::open(&mut buffer) else {
            return; // a system that hides it
        };
        let mut mapped = Mapped::<u8>::reserve(64 * page).unwrap();
        let start = mapped.addresses().start;
        advise_huge_pages(mapped.as_mut_ptr(), 64 * page, false);
        mapped[..3 * page].fill(1);
        let present = map.count(start, start + 64 * page);
        assert_eq!((present.own, present.shared), (3, 0));
        let mut text = vec![0; 16384];
        let mut found = 0;
        each(&mut text, |mapping| {
            if (mapping.start..mapping.end).contains(&start) {
                found = mapping.resident;
            }
        })
        .unwrap();
        assert!(found >= 3 * page as u64);
    }
}
