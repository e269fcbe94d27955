//! A hash table of plain entries with open addressing. A removed entry leaves no trace: those behind it move up.

use pyhost_os::mmap_vec::MmapVec;

/// Bytes of the table at the start: a page, since entries touch all of it soon.
const FIRST_BYTES: usize = 4096;

pub trait Keyed: Copy + Default {
    /// By which it is found; 0 if the entry is free.
    fn key(&self) -> u64;
}

/// The table; without memory as long as it is empty.
#[derive(Default)]
pub struct Index<T: Keyed> {
    entries: MmapVec<T>,
    used: usize,
}

/// Spreads the bits of a key (the finalizer of splitmix64).
pub fn hash(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let key = (key ^ key >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    key ^ key >> 31
}

impl<T: Keyed> Index<T> {
    fn home(&self, key: u64) -> usize {
        hash(key) as usize & (self.entries.len() - 1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }

    /// Enters an entry, whose key is not 0 and not in the table. None if there is no memory for it.
    pub fn insert(&mut self, entry: T) -> Option<()> {
        if 4 * (self.used + 1) > 3 * self.entries.len() {
            self.grow()?;
        }
        self.put(entry);
        self.used += 1;
        Some(())
    }

    fn put(&mut self, entry: T) {
        let mut place = self.home(entry.key());
        while self.entries[place].key() != 0 {
            place = self.next(place);
        }
        self.entries[place] = entry;
    }

    fn grow(&mut self) -> Option<()> {
        let first = 1 << (FIRST_BYTES / size_of::<T>()).ilog2();
        let larger = MmapVec::filled((2 * self.entries.len()).max(first), T::default())?;
        let former = std::mem::replace(&mut self.entries, larger);
        for entry in former.iter().filter(|entry| entry.key() != 0) {
            self.put(*entry);
        }
        Some(())
    }

    pub fn remove(&mut self, wanted: u64) -> Option<T> {
        let place = self.place(wanted, |_| true)?;
        let found = self.entries[place];
        // Each entry behind it that may stand nearer to its home moves into the gap.
        let (mut gap, mut place) = (place, self.next(place));
        while self.entries[place].key() != 0 {
            let home = self.home(self.entries[place].key());
            let mask = self.entries.len() - 1;
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(gap) & mask {
                self.entries[gap] = self.entries[place];
                gap = place;
            }
            place = self.next(place);
        }
        self.entries[gap] = T::default();
        self.used -= 1;
        Some(found)
    }

    /// The entry of a key that `is_it`; keys need not be unique.
    pub fn find(&self, wanted: u64, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.place(wanted, is_it)?;
        Some(self.entries[place])
    }

    #[inline]
    fn place(&self, wanted: u64, is_it: impl Fn(&T) -> bool) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let mut place = self.home(wanted);
        loop {
            let entry = &self.entries[place];
            match entry.key() {
                0 => return None,
                found if found == wanted && is_it(entry) => return Some(place),
                _ => place = self.next(place),
            }
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter(|entry| entry.key() != 0)
    }

    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.entries.addresses()
    }
}

/// The number of an item, by a key such as the hash of its content.
#[derive(Clone, Copy, Default)]
pub struct Numbered {
    key: u64,
    number: u32,
}

impl Keyed for Numbered {
    fn key(&self) -> u64 {
        self.key
    }
}

impl Index<Numbered> {
    /// The number of the item that `is_it`, of those with this key.
    pub fn number(&self, key: u64, is_it: impl Fn(usize) -> bool) -> Option<u32> {
        let found = self.find(key, |entry| is_it(entry.number as usize));
        found.map(|entry| entry.number)
    }

    /// Enters an item by its number. None if there is no memory for it.
    pub fn enter(&mut self, key: u64, number: usize) -> Option<u32> {
        let number = u32::try_from(number).ok()?;
        self.insert(Numbered { key, number })?;
        Some(number)
    }
}
