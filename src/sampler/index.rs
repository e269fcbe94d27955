//! A hash table of plain entries with open addressing. A removed entry leaves no trace: those behind it move up.

use pyhost_os::mmap_vec::MmapVec;

/// Bytes of the table at the start: a page, since entries touch all of it soon.
const FIRST_BYTES: usize = 4096;

/// The table. An entry whose key is 0 is free.
pub struct Index<T> {
    entries: MmapVec<T>,
    used: usize,
}

/// Spreads the bits of a key (the finalizer of splitmix64).
pub fn hash(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let key = (key ^ key >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    key ^ key >> 31
}

impl<T: Copy + Default> Index<T> {
    /// An empty table, without memory.
    pub const fn new() -> Self {
        Index {
            entries: MmapVec::new(),
            used: 0,
        }
    }

    fn home(&self, key: u64) -> usize {
        hash(key) as usize & (self.entries.len() - 1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }

    /// Enters an entry, whose key is not 0 and not in the table. None if there is no memory for it.
    pub fn insert(&mut self, entry: T, key: impl Fn(&T) -> u64 + Copy) -> Option<()> {
        if 4 * (self.used + 1) > 3 * self.entries.len() {
            self.grow(key)?;
        }
        self.put(entry, key);
        self.used += 1;
        Some(())
    }

    fn put(&mut self, entry: T, key: impl Fn(&T) -> u64) {
        let mut place = self.home(key(&entry));
        while key(&self.entries[place]) != 0 {
            place = self.next(place);
        }
        self.entries[place] = entry;
    }

    fn grow(&mut self, key: impl Fn(&T) -> u64 + Copy) -> Option<()> {
        let first = 1 << (FIRST_BYTES / size_of::<T>()).ilog2();
        let larger = MmapVec::filled((2 * self.entries.len()).max(first), T::default())?;
        let former = std::mem::replace(&mut self.entries, larger);
        for entry in former.iter().filter(|entry| key(entry) != 0) {
            self.put(*entry, key);
        }
        Some(())
    }

    /// Takes out the entry of a key.
    pub fn remove(&mut self, wanted: u64, key: impl Fn(&T) -> u64) -> Option<T> {
        if self.entries.is_empty() {
            return None;
        }
        let mut place = self.home(wanted);
        while key(&self.entries[place]) != wanted {
            if key(&self.entries[place]) == 0 {
                return None;
            }
            place = self.next(place);
        }
        let found = self.entries[place];
        // Each entry behind it that may stand nearer to its home moves into the gap.
        let (mut gap, mut place) = (place, self.next(place));
        while key(&self.entries[place]) != 0 {
            let home = self.home(key(&self.entries[place]));
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

    /// The entry of a hash that `is_it`; keys need not be unique.
    pub fn find(
        &self,
        wanted: u64,
        key: impl Fn(&T) -> u64,
        is_it: impl Fn(&T) -> bool,
    ) -> Option<T> {
        if self.entries.is_empty() {
            return None;
        }
        let mut place = self.home(wanted);
        loop {
            let entry = &self.entries[place];
            match key(entry) {
                0 => return None,
                found if found == wanted && is_it(entry) => return Some(*entry),
                _ => place = self.next(place),
            }
        }
    }

    /// All entries.
    pub fn all(&self, key: impl Fn(&T) -> u64) -> impl Iterator<Item = &T> {
        self.entries.iter().filter(move |entry| key(entry) != 0)
    }

    /// Its addresses.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.entries.addresses()
    }
}
