//! The rows of a view in a report: the stacks with the most bytes, and the others summed by line.
//!
//! A report has room for some stacks only. A line that many stacks lead to would lose the bytes of those left out, and its
//! error would say nothing of them. So the others are rows, too: one for each line, account, thread and package.

use crate::origin::{is_hosts, is_users, package};
use crate::threads::thread_name;
use pyhost_os::mmap_vec::MmapVec;
use pyhost_sampler::{FrameView, HOSTS_FILE, Samples, Site, Sum};
use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Stacks of each view that a report has at most, those with the most bytes.
const STACKS: usize = 1000;
/// Their calls, so that a report of deep stacks stays below the 16 MiB that `pyhostctl` reads.
const CALLS: usize = 25_000;
/// Bytes of each view in a report, for the same reason: there are five, and the rest of a report is small.
pub const BYTES: usize = 5 << 19;
/// The part of them that is for stacks that are summed.
const BYTES_OF_OTHERS: usize = BYTES / 5;

/// The outermost call of stacks that are summed by their line.
const OTHERS: FrameView<'_> = FrameView {
    number: u32::MAX,
    file: HOSTS_FILE,
    function: "other stacks",
    line: 0,
    native: None,
};

#[derive(Clone, Copy)]
pub struct Row {
    /// The stack; of several that are summed, the one with the most bytes.
    pub site: Site,
    pub sum: Sum,
    /// The mean age of its live bytes; None if it has none.
    pub age_seconds: Option<f64>,
    /// Several stacks are summed.
    pub is_summed: bool,
}

/// A stack that is summed with others of the same key.
#[derive(Clone, Copy)]
struct Other {
    key: u64,
    /// Its line has stacks that are rows of their own.
    is_listed: bool,
    site: Site,
    sum: Sum,
    /// The bytes whose age is known, and each times its age.
    age: [f64; 2],
}

/// Finds the line that a stack is given to.
pub struct Lines<'a> {
    samples: &'a Samples,
    /// For each call whether it is of the user's own code.
    are_users: MmapVec<bool>,
}

impl<'a> Lines<'a> {
    /// None if there is no memory.
    pub fn new(samples: &'a Samples) -> Option<Self> {
        let mut are_users = MmapVec::new();
        for call in samples.all_frames() {
            if !are_users.push(call.native.is_none() && is_users(call.file)) {
                return None;
            }
        }
        Some(Lines { samples, are_users })
    }

    /// The call that a site is given to: the innermost of the user's own code, else the innermost of Python, else the
    /// innermost.
    pub fn line_of(&self, site: Site) -> Option<FrameView<'a>> {
        let calls = || self.samples.calls(site);
        let users = calls().find(|call| self.are_users[call.number as usize]);
        users
            .or_else(|| calls().find(|call| call.native.is_none() && !is_hosts(call.file)))
            .or_else(|| calls().next())
    }

    /// Gives the rows of a report to `say`, which returns the bytes that a row takes, and leaves out a row that takes more
    /// than its second argument says. `sums` has the sites of the view, those with the most bytes first.
    pub fn each_row<E>(
        &self,
        sums: &[(Site, Sum)],
        mut say: impl FnMut(&Row, usize) -> Result<usize, E>,
    ) -> Result<(), E> {
        let mut room = BYTES - BYTES_OF_OTHERS;
        let (mut calls, mut listed) = (0, 0);
        for (site, sum) in sums.iter().take(STACKS) {
            let row = Row {
                site: *site,
                sum: *sum,
                age_seconds: self.samples.age_seconds(*site),
                is_summed: false,
            };
            calls += self.samples.calls(*site).count();
            if calls > CALLS {
                break;
            }
            let bytes = say(&row, room)?;
            if bytes > room {
                break;
            }
            room -= bytes;
            listed += 1;
        }
        room += BYTES_OF_OTHERS;
        // Without memory for them they are left out.
        let (shown, rest) = sums.split_at(listed);
        let others = self.others(shown, rest).unwrap_or_default();
        for other in others.iter().filter(|other| other.sum.bytes() != 0) {
            let [known, byte_seconds] = other.age;
            let row = Row {
                site: other.site,
                sum: other.sum,
                age_seconds: (known > 0.0).then(|| byte_seconds / known),
                is_summed: true,
            };
            let bytes = say(&row, room)?;
            if bytes > room {
                break;
            }
            room -= bytes;
        }
        Ok(())
    }

    /// The sums of the stacks that are not listed: first those of lines that are, so that no line of a report is there in
    /// part. None if there is no memory.
    fn others(&self, listed: &[(Site, Sum)], rest: &[(Site, Sum)]) -> Option<MmapVec<Other>> {
        let mut are_listed = MmapVec::filled(self.are_users.len() + 1, false)?;
        let place = |line: Option<FrameView>| line.map_or(0, |line| line.number as usize + 1);
        for (site, _) in listed {
            are_listed[place(self.line_of(*site))] = true;
        }
        let mut others = MmapVec::new();
        for (site, sum) in rest {
            let line = self.line_of(*site);
            let age = self.samples.age_seconds(*site);
            let known = sum.bytes().max(0) as f64;
            let other = Other {
                key: self.key(*site, line),
                is_listed: are_listed[place(line)],
                site: *site,
                sum: *sum,
                age: age.map_or([0.0; 2], |age| [known, known * age]),
            };
            if !others.push(other) {
                return None;
            }
        }
        let size = |other: &Other| Reverse(other.sum.bytes().unsigned_abs());
        others.sort_unstable_by_key(|other| (other.key, size(other)));
        let mut sums: MmapVec<Other> = MmapVec::new();
        for other in others.iter() {
            if let Some(sum) = sums.last_mut().filter(|sum| sum.key == other.key) {
                sum.sum += other.sum;
                sum.age[0] += other.age[0];
                sum.age[1] += other.age[1];
            } else if !sums.push(*other) {
                return None;
            }
        }
        sums.sort_unstable_by_key(|other| (!other.is_listed, size(other)));
        Some(sums)
    }

    /// The innermost call of a program, and the host's own that says for what it waits, if there are any.
    pub fn innermost(&self, site: Site) -> [Option<FrameView<'a>>; 2] {
        [false, true].map(|of_host| {
            let mut calls = self.samples.calls(site);
            calls.find(|call| is_hosts(call.file) == of_host)
        })
    }

    /// A number that sites have in common which are one row.
    fn key(&self, site: Site, line: Option<FrameView<'_>>) -> u64 {
        let [innermost, of_host] = self.innermost(site);
        let mut hasher = DefaultHasher::new();
        (site.account, thread_name(self.samples, site)).hash(&mut hasher);
        (
            line.map(|line| line.number),
            innermost.map(|it| owner(&it, line)),
            of_host.map(|it| it.number),
        )
            .hash(&mut hasher);
        hasher.finish()
    }

    /// The calls of a row, innermost first.
    pub fn calls(&self, row: &Row) -> impl Iterator<Item = FrameView<'a>> + use<'a> {
        let line = row.is_summed.then(|| self.line_of(row.site)).flatten();
        let [innermost, of_host] = self.innermost(row.site);
        let innermost = innermost.filter(|it| line.is_some_and(|line| line.number != it.number));
        // The file says whose code it is; the place in it is that of one stack.
        let innermost = innermost.map(|it| FrameView {
            function: "other calls",
            line: 0,
            native: it.native.map(|native| pyhost_sampler::NativeView {
                offset: 0,
                ..native
            }),
            ..it
        });
        let outer = |line| innermost.into_iter().chain([line, OTHERS]);
        let summed = line.map(|line| of_host.into_iter().chain(outer(line)));
        let whole = (!row.is_summed).then(|| self.samples.calls(row.site));
        let summed = summed.into_iter().flatten();
        summed.chain(whole.into_iter().flatten())
    }
}

/// Whose code the innermost call is of, for the rows of a line: a library's, a package's, the line's own, or another.
fn owner<'a>(call: &FrameView<'a>, line: Option<FrameView<'_>>) -> (bool, &'a str) {
    let is_line = line.is_some_and(|line| line.number == call.number);
    match call.native {
        Some(_) => (is_line, call.file),
        None => (is_line, package(call.file).unwrap_or_default()),
    }
}
