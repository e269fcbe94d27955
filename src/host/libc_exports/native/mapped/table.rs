//! Which addresses libraries have mapped: a sorted list of ranges without overlaps, in memory that
//! the caller gives. Allocates nothing.

use pyhost_os::zeros_are_valid;

/// Addresses of private anonymous memory that one place of a library has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Range {
    pub start: usize,
    /// Behind the last address.
    pub end: usize,
    /// The address behind the call that mapped it.
    pub caller: usize,
    /// The address of the sample that it is a part of; 0 if it is of none.
    pub sample: usize,
    /// Whether it may be written: then it counts.
    pub writable: bool,
}

zeros_are_valid!(Range: start, end, caller, sample, writable);

/// Ranges that may be written.
pub const COUNTED: fn(&Range) -> bool = |range| range.writable;

impl Range {
    fn continues(&self, before: &Range) -> bool {
        let parts = |range: &Range| (range.caller, range.sample, range.writable);
        before.end == self.start && parts(before) == parts(self)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Bytes that may be written.
    pub bytes: usize,
    /// Ranges that may be written.
    pub ranges: usize,
}

/// The list. What it has no room for is left away.
pub struct Table<'a> {
    ranges: &'a mut [Range],
    length: usize,
    /// Its bytes that count.
    pub sums: Sums,
}

impl<'a> Table<'a> {
    pub fn new(ranges: &'a mut [Range]) -> Self {
        Table {
            ranges,
            length: 0,
            sums: Sums::default(),
        }
    }

    pub fn ranges(&self) -> &[Range] {
        &self.ranges[..self.length]
    }

    /// The ranges that have a part between `start` and `end`, by their index.
    fn within(&self, start: usize, end: usize) -> std::ops::Range<usize> {
        if start >= end {
            return 0..0;
        }
        let behind = self.ranges().partition_point(|it| it.start < end);
        self.behind(start)..behind
    }

    /// The place of a range that begins at `start`, where none holds that address.
    fn behind(&self, start: usize) -> usize {
        self.ranges().partition_point(|it| it.end <= start)
    }

    /// The first range that has a part between `start` and `end`.
    pub fn first_within(&self, start: usize, end: usize) -> Option<Range> {
        self.ranges()[self.within(start, end)].first().copied()
    }

    /// Copies ranges behind an address, as many as there is room for; how many.
    pub fn copy_behind(&self, at: usize, those: fn(&Range) -> bool, room: &mut [Range]) -> usize {
        let ranges = self.ranges()[self.behind(at)..].iter();
        let pairs = room.iter_mut().zip(ranges.filter(|range| those(range)));
        pairs.map(|(place, range)| *place = *range).count()
    }

    /// Bytes between `start` and `end` that are in the list: those that may be written, and the others.
    pub fn bytes_within(&self, start: usize, end: usize) -> (usize, usize) {
        let mut bytes = (0, 0);
        for range in &self.ranges()[self.within(start, end)] {
            let part = range.end.min(end) - range.start.max(start);
            match range.writable {
                true => bytes.0 += part,
                false => bytes.1 += part,
            }
        }
        bytes
    }

    /// Puts a range in, in place of what was there. False if there is no room.
    pub fn put(&mut self, range: Range) -> bool {
        if range.start >= range.end {
            return true;
        }
        self.remove(range.start, range.end);
        let place = self.behind(range.start);
        let joins_next = place < self.length && self.ranges[place].continues(&range);
        let end = match joins_next {
            true => self.take_out(place).end,
            false => range.end,
        };
        if place > 0 && range.continues(&self.ranges[place - 1]) {
            self.widen(place - 1, end);
            return true;
        }
        self.place_at(place, Range { end, ..range })
    }

    /// Takes the addresses between `start` and `end` out.
    pub fn remove(&mut self, start: usize, end: usize) {
        loop {
            let within = self.within(start, end);
            if within.is_empty() {
                return;
            }
            let old = self.take_out(within.start);
            if old.start < start {
                let left = Range { end: start, ..old };
                self.place_at(within.start, left);
            }
            if old.end > end {
                let place = self.behind(end);
                self.place_at(place, Range { start: end, ..old });
                return;
            }
        }
    }

    /// Calls `visit` with the sample of each range that has a part between `start` and `end`.
    pub fn each_sample(&self, start: usize, end: usize, visit: impl FnMut(usize)) {
        let ranges = self.ranges()[self.within(start, end)].iter();
        let samples = ranges.map(|range| range.sample);
        samples.filter(|sample| *sample != 0).for_each(visit);
    }

    /// The first address of a sample, and its bytes that count.
    pub fn extent_of(&self, sample: usize) -> (usize, usize) {
        let of_it = |range: &&Range| range.sample == sample && range.writable;
        let ranges = self.ranges().iter().filter(of_it);
        ranges.fold((0, 0), |(first, bytes), range| {
            let first = if bytes == 0 { range.start } else { first };
            (first, bytes + range.end - range.start)
        })
    }

    /// Gives each part of a range between `start` and `end` to `change`, which may put another one there.
    fn each_part(&mut self, start: usize, end: usize, mut change: impl FnMut(&mut Self, Range)) {
        let mut at = start;
        while let Some(range) = self.first_within(at, end) {
            let (start, end) = (range.start.max(at), range.end.min(end));
            change(
                self,
                Range {
                    start,
                    end,
                    ..range
                },
            );
            at = end;
        }
    }

    /// Makes what is between `start` and `end` and of the sample `from` a part of the sample `to`.
    pub fn rename_sample(&mut self, start: usize, end: usize, from: usize, to: usize) {
        self.each_part(start, end, |table, part| {
            if part.sample == from && (part.writable || from != 0) {
                table.put(Range { sample: to, ..part });
            }
        });
    }

    /// Lets what is in the list between `start` and `end` be written, or not. What changes is of no sample. Returns the first
    /// address that changes, or 0.
    pub fn protect(&mut self, start: usize, end: usize, writable: bool) -> usize {
        let mut changed = 0;
        self.each_part(start, end, |table, part| {
            if part.writable != writable {
                changed = if changed == 0 { part.start } else { changed };
                table.put(Range {
                    sample: 0,
                    writable,
                    ..part
                });
            }
        });
        changed
    }

    /// Puts what is between `start` and `end` at `target` as well, in place of what was there; of the same sample, or of
    /// none if it `stays` where it is. The two do not overlap.
    pub fn copy(&mut self, start: usize, end: usize, target: usize, stays: bool) {
        self.remove(target, target.saturating_add(end - start));
        self.each_part(start, end, |table, part| {
            table.put(Range {
                start: target + (part.start - start),
                end: target + (part.end - start),
                sample: if stays { 0 } else { part.sample },
                ..part
            });
        });
    }

    fn place_at(&mut self, place: usize, range: Range) -> bool {
        if self.length == self.ranges.len() {
            return false;
        }
        self.ranges.copy_within(place..self.length, place + 1);
        self.ranges[place] = range;
        self.length += 1;
        if range.writable {
            self.sums.bytes += range.end - range.start;
            self.sums.ranges += 1;
        }
        true
    }

    fn take_out(&mut self, place: usize) -> Range {
        let range = self.ranges[place];
        self.ranges.copy_within(place + 1..self.length, place);
        self.length -= 1;
        if range.writable {
            self.sums.bytes -= range.end - range.start;
            self.sums.ranges -= 1;
        }
        range
    }

    fn widen(&mut self, place: usize, end: usize) {
        let range = &mut self.ranges[place];
        if range.writable {
            self.sums.bytes += end - range.end;
        }
        range.end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_os::mapping::FromZeros;
    use pyhost_testing::Random;

    const PAGES: usize = 64;

    /// Who mapped each page, and whether it may be written.
    type Oracle = [Option<(usize, bool)>; PAGES];

    fn range(start: usize, end: usize, caller: usize, writable: bool) -> Range {
        Range {
            start,
            end,
            caller,
            sample: 0,
            writable,
        }
    }

    /// Neighbours of one caller that may be written alike are one range.
    fn ranges_of(oracle: &Oracle) -> Vec<Range> {
        let mut end = 0;
        let runs = oracle.chunk_by(|page, next| page == next).map(|run| {
            let start = end;
            end += run.len();
            run[0].map(|(caller, writable)| range(start, end, caller, writable))
        });
        runs.flatten().collect()
    }

    fn check(table: &Table<'_>, oracle: &Oracle) {
        let mut expected = ranges_of(oracle);
        assert_eq!(table.ranges(), expected);
        expected.retain(|range| range.writable);
        let ranges = expected.len();
        let bytes = expected.iter().map(|range| range.end - range.start).sum();
        assert_eq!(table.sums, Sums { bytes, ranges });
        // Copies, two at a time, are the ranges that count, in their order.
        let (mut behind, mut copied) = (0, Vec::new());
        loop {
            let mut room = [Range::zeroed(); 2];
            let count = table.copy_behind(behind, COUNTED, &mut room);
            copied.extend_from_slice(&room[..count]);
            if count < room.len() {
                break;
            }
            behind = room[1].end;
        }
        assert_eq!(copied, expected);
    }

    #[test]
    fn random_changes_leave_what_a_list_of_pages_has() {
        for seed in 1..=50 {
            let mut random = Random(seed * 7919);
            let mut memory = [Range::zeroed(); PAGES];
            let mut table = Table::new(&mut memory);
            let mut oracle: Oracle = [None; PAGES];
            for _ in 0..500 {
                let start = random.below(PAGES);
                let end = start + 1 + random.below(PAGES - start);
                let (caller, writable) = (random.below(3), random.below(2) == 0);
                match random.below(3) {
                    0 => {
                        assert!(table.put(range(start, end, caller, writable)));
                        oracle[start..end].fill(Some((caller, writable)));
                    }
                    1 => {
                        table.remove(start, end);
                        oracle[start..end].fill(None);
                    }
                    _ => {
                        table.protect(start, end, writable);
                        for page in oracle[start..end].iter_mut().flatten() {
                            page.1 = writable;
                        }
                    }
                }
                check(&table, &oracle);
                let known = oracle[start..end].iter().flatten();
                let writable = known.clone().filter(|page| page.1).count();
                let others = known.count() - writable;
                assert_eq!(table.bytes_within(start, end), (writable, others));
            }
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_left_away() {
        let mut memory = [Range::zeroed(); 2];
        let mut table = Table::new(&mut memory);
        let range = |start, end| range(start, end, 0, true);
        assert!(table.put(range(0, 10)) && table.put(range(20, 30)));
        assert!(!table.put(range(40, 50)));
        table.remove(4, 5);
        assert_eq!(table.ranges(), [range(0, 4), range(20, 30)]);
        assert_eq!(table.sums.bytes, 14);
    }
}
