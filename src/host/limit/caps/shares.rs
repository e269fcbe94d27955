//! The page that the processes of a tree share: who they are, and what each of them has of the tree's cap.
//!
//! A claim adds to the process's own share, then sums all shares, and takes its addition back if the sum is above the limit. Of two
//! claims the one that adds later sees what the other added, and what is given back meanwhile only makes the sum too high: so what
//! was granted is never above the limit. Nobody waits, and nothing is locked: a process may end at any step.
//!
//! A process that ends keeps its share until another finds no room, which frees the shares of all that have ended.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, fence};

/// Words of the page: the cap, how many entries were used, and what the cap is at the moment if it follows a control group's charges,
/// else 0; then two words a process: its id with its share, and what tells it from others that had the id.
pub const WORDS: usize = 2050;
/// The number of the first entry: its words are those after the cap's.
const FIRST: usize = 2;

/// Shares are counted in these.
pub const UNIT: u64 = 1 << 10;
/// The place of the process's id, above its share. The highest bit is another one after an exec.
const ID: u32 = 40;
const EXEC: u64 = 1 << 63;

/// The share in a word, in units, and the id.
fn parts(word: u64) -> (u64, u32) {
    (word & ((1 << ID) - 1), ((word & !EXEC) >> ID) as u32)
}

/// How often a claim tries again that was in the way of another.
const ATTEMPTS: usize = 64;

#[derive(Clone, Copy)]
pub struct Shares<'a>(pub &'a [AtomicU64]);

impl Shares<'_> {
    /// Makes a page of zeros the page of a tree with a cap, which follows a group's charges or not; or sets such a cap anew, of
    /// which `now` can be had at the moment.
    pub fn set_cap(&self, cap: u64, now: Option<u64>) {
        self.0[0].store(cap / UNIT, SeqCst);
        self.0[2].store(now.map_or(0, |now| (now / UNIT).max(1)), SeqCst);
    }

    pub fn size(&self) -> u64 {
        self.0[0].load(SeqCst) * UNIT
    }

    /// Whether the cap is of so many bytes, to a unit.
    pub fn is_size(&self, bytes: u64) -> bool {
        self.size() == bytes / UNIT * UNIT
    }

    /// Whether the cap follows the charges of a control group.
    pub fn follows(&self) -> bool {
        self.0[2].load(SeqCst) != 0
    }

    /// What can be had of the cap at the moment, in bytes.
    pub fn cap(&self) -> u64 {
        match self.0[2].load(SeqCst) {
            0 => self.size(),
            now => (now * UNIT).min(self.size()),
        }
    }

    /// The numbers of the entries that were ever used.
    fn used(&self) -> std::ops::RangeInclusive<usize> {
        FIRST..=(self.0[1].load(SeqCst) as usize).min(self.0.len() / 2 - 1)
    }

    fn word(&self, entry: usize) -> &AtomicU64 {
        &self.0[2 * entry]
    }

    pub fn share(&self, entry: usize) -> u64 {
        parts(self.word(entry).load(SeqCst)).0 * UNIT
    }

    pub fn entry_of(&self, id: u32) -> Option<usize> {
        self.used().find(|&entry| self.is_of(entry, id))
    }

    /// Whether an entry is that of the process with this id.
    pub fn is_of(&self, entry: usize, id: u32) -> bool {
        parts(self.word(entry).load(SeqCst)).1 == id
    }

    /// The bytes of all entries but `own`, and how many processes have them.
    pub fn others(&self, own: usize) -> (u64, u32) {
        let others = self.used().filter(|&entry| entry != own);
        let shares = others.map(|entry| self.share(entry));
        shares
            .filter(|&bytes| bytes > 0)
            .fold((0, 0), |(sum, count), bytes| (sum + bytes, count + 1))
    }

    /// Whether another child may find no entry: some that were forked just now may not have theirs yet.
    pub fn is_full(&self) -> bool {
        const FORKED_NOW: usize = 15;
        let free = (FIRST..self.0.len() / 2).filter(|&entry| self.word(entry).load(SeqCst) == 0);
        free.take(FORKED_NOW + 1).count() <= FORKED_NOW
    }

    /// The bytes that all processes have together.
    pub fn sum(&self) -> u64 {
        self.others(0).0
    }

    /// The entry of the process with this id, and what tells it from others that had the id: the one that it had before an exec, or a
    /// free one. `None` if all are used.
    pub fn enter(&self, id: u32, mark: u64) -> Option<usize> {
        let own = u64::from(id) << ID;
        let is_taken = |&entry: &usize| {
            let word = self.word(entry);
            word.load(SeqCst) == 0 && word.compare_exchange(0, own, SeqCst, SeqCst).is_ok()
        };
        let mut all = FIRST..self.0.len() / 2;
        let before = self.entry_of(id);
        // Who has judged what the process was before the exec does not free its entry.
        let _ = before.map(|entry| self.word(entry).fetch_add(EXEC, SeqCst));
        let entry = before.or_else(|| all.find(is_taken))?;
        self.0[1].fetch_max(entry as u64, SeqCst);
        self.0[2 * entry + 1].store(mark, SeqCst);
        Some(entry)
    }

    /// Adds to the share of an entry: `want` bytes, or as many as the limit of the sum of all leaves, `least` or more. Returns
    /// how many; 0 if there are not so many.
    pub fn claim(&self, entry: usize, least: u64, want: u64, limit: u64) -> u64 {
        for _ in 0..ATTEMPTS {
            let room = limit.saturating_sub(self.sum());
            let units = want.min(room) / UNIT;
            if units == 0 || units * UNIT < least {
                break;
            }
            self.word(entry).fetch_add(units, SeqCst);
            // Of two claims one sees the other.
            fence(SeqCst);
            if self.sum() <= limit {
                return units * UNIT;
            }
            self.word(entry).fetch_sub(units, SeqCst);
            spin_loop();
        }
        0
    }

    /// Identifies the process that has an entry, until it ends or runs another program.
    pub fn owner(&self, entry: usize) -> u64 {
        self.word(entry).load(SeqCst) >> ID
    }

    /// Passes whole units from an entry to another, if `owner` still has the first and has so many. Returns how many bytes; 0 if
    /// not. For a moment the sum has them twice.
    pub fn pass(&self, from: usize, owner: u64, to: usize, bytes: u64) -> u64 {
        let units = bytes / UNIT;
        self.word(to).fetch_add(units, SeqCst);
        let less = |word| (word >> ID == owner && parts(word).0 >= units).then(|| word - units);
        let taken = self.word(from).fetch_update(SeqCst, SeqCst, less);
        if taken.is_err() {
            self.give_back(to, bytes);
        }
        taken.map_or(0, |_| units * UNIT)
    }

    /// Takes whole units off the share of an entry, which has them.
    pub fn give_back(&self, entry: usize, bytes: u64) {
        let units = bytes / UNIT;
        let less = |word| (parts(word).0 >= units).then(|| word - units);
        let _ = self.word(entry).fetch_update(SeqCst, SeqCst, less);
    }

    /// Frees the entries of processes that have ended, which `runs` says of an id and what tells it from others, 0 if that is
    /// unknown. Returns whether there was one.
    pub fn free_ended(&self, own: usize, runs: impl Fn(u32, u64) -> bool) -> bool {
        let mut is_any = false;
        for entry in self.used().filter(|&entry| entry != own) {
            let (word, mark) = (self.word(entry), &self.0[2 * entry + 1]);
            let (before, marked) = (word.load(SeqCst), mark.load(SeqCst));
            if before != 0 && !runs(parts(before).1, marked) {
                // First: who takes the entry next has not noted its own yet.
                let unmarked = mark.compare_exchange(marked, 0, SeqCst, SeqCst);
                is_any |= matches!(unmarked, Ok(_) | Err(0))
                    && word.compare_exchange(before, 0, SeqCst, SeqCst).is_ok();
            }
        }
        is_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_one_entry_until_all_are_used() {
        let words: Vec<_> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let shares = Shares(&words);
        let entries: Vec<_> = (1..1024).map(|id| shares.enter(id, 1)).collect();
        assert!(entries.iter().all(Option::is_some));
        assert_eq!(shares.enter(1024, 1), None);
        assert!(shares.is_full());
        assert_eq!(shares.enter(700, 2), entries[699]);
        let owner = shares.owner(entries[0].unwrap());
        assert_eq!(shares.claim(2, 0, UNIT, 2 * UNIT), UNIT);
        assert_eq!(shares.pass(2, owner, 3, UNIT), UNIT);
        assert_eq!(shares.pass(3, owner, 2, UNIT), 0);
        assert_eq!((shares.share(2), shares.share(3)), (0, UNIT));
        // Its start says that another process has the id by now.
        assert!(shares.free_ended(entries[0].unwrap(), |id, start| (id, start) != (700, 2)));
        assert_eq!(shares.enter(1024, 1), entries[699]);
    }
}
