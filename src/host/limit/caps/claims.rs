//! How a process gets more of its tree's cap, at the point where a request would be refused otherwise, and gives back what it does
//! not need. Inside the allocator, on any thread.

use super::{limits, shares::Shares, tree};
use crate::heap::{self, attend_to_caps, gate};
use crate::ledger::{LEDGER, Scope, Slot};
use crate::{bytes::Bytes, error::CANNOT_START};
use pyhost_os::errno::{Errno, KeptErrno};
use pyhost_os::process::small_file::{number, read_once};
use pyhost_os::{calls, clock, format::c_text_into, process::stat_fields};
use pyhost_record::directory::start_if_it_runs;
use std::{fmt, sync::atomic::Ordering::Relaxed};

/// Requests up to this size take what is left, if that is less: the reserve serves them then.
const SMALL: u64 = 64 << 10;
/// A forked child begins with this part of what no process has, and with so many bytes at least.
const PART: u64 = 8;
pub(super) const LEAST_PART: u64 = 128 << 10;
/// By how many times its duration a look at the other processes comes after the last, if small requests ask for it.
const PAUSE: u64 = 10;
/// The largest sum of the windows that the threads of a starting Python have.
const WINDOWS: u64 = 128 << 10;

/// Displays as the reason why a process of the tree cannot start.
pub(super) struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cap = Bytes(tree::size().unwrap_or(0));
        write!(out, "the cap of {cap} of its tree (--cap tree) ")?;
        out.write_str("has no room for another process")?;
        tree::others().map_or(Ok(()), |others| write!(out, "; {others}"))
    }
}

/// Makes room for `bytes` more below the reserve, if the tree has it. Returns whether the process has got any, or had room.
pub(super) fn claim(bytes: usize) -> bool {
    make_room(bytes as u64, bytes as u64 > SMALL)
}

/// [`claim`], of all or nothing if `is_whole`, else as far as the tree has it.
pub(super) fn make_room(bytes: u64, is_whole: bool) -> bool {
    let Some(shares) = tree::shares() else {
        return false;
    };
    let _errno = KeptErrno::new();
    let Some(entry) = own_entry(shares) else {
        return false;
    };
    let lacks = limits::lacks_of_tree(bytes);
    if lacks <= 0 {
        // Another thread may have set the ceiling by a lower height.
        limits::combine(Scope::Total);
        return true;
    }
    let want = (lacks as u64).next_multiple_of(tree::chunk());
    let least = if is_whole { lacks as u64 } else { 0 };
    let claim = |want| shares.claim(entry, least, want, tree::limit(shares));
    let mut got = claim(want);
    if got < lacks as u64 && free_ended(shares, entry, is_whole) {
        got += claim(want - got);
    }
    raise(got);
    got > 0
}

fn raise(bytes: u64) {
    if bytes > 0 {
        tree::raise(bytes);
        limits::combine(Scope::Total);
    }
}

/// The process's entry. A forked child gets one now, and a share to begin with.
fn own_entry(shares: &Shares<'_>) -> Option<usize> {
    let (own, id) = (tree::entry(), calls::getpid() as u32);
    if own != 0 {
        if shares.is_of(own, id) {
            if tree::STATE.is_new.swap(false, Relaxed) {
                claim_part(shares, own);
            }
            return Some(own);
        }
        // A system call has made this process, without what is done at a fork; or one that shares its memory was here.
        if let Some(entry) = shares.entry_of(id) {
            tree::set_entry(own, entry);
            return Some(entry);
        }
        tree::begin_child(tree::height().unwrap_or(0));
    }
    let enter = || shares.enter(id, own_mark());
    let again = || free_ended(shares, 0, false).then(enter).flatten();
    let entry = enter().or_else(again)?;
    if tree::set_entry(0, entry) {
        raise(shares.share(entry));
        claim_part(shares, entry);
    }
    Some(tree::entry())
}

/// Claims what a forked child begins with, once it needs memory: not so much that the next ones could not begin.
fn claim_part(shares: &Shares<'_>, entry: usize) {
    let cap = shares.cap();
    let part = cap.saturating_sub(shares.sum()) / PART;
    let want = part.clamp(LEAST_PART, tree::RESERVE + tree::chunk());
    raise(shares.claim(entry, 0, want, cap));
}

/// Frees what processes that have ended had. Returns whether it has looked: another process may have freed it just before, so that
/// what was refused is asked for again in any case.
fn free_ended(shares: &Shares<'_>, own: usize, is_forced: bool) -> bool {
    let begin = clock::monotonic();
    if !is_forced && begin < tree::STATE.next_look.load(Relaxed) {
        return false;
    }
    shares.free_ended(own, runs);
    let end = clock::monotonic();
    let next = end + (end - begin) * PAUSE;
    tree::STATE.next_look.store(next, Relaxed);
    true
}

/// Frees what processes of the tree that have ended had.
pub(super) fn look_for_ended() {
    if let Some(shares) = tree::shares() {
        free_ended(shares, tree::entry(), true);
    }
}

/// Claims what the child begins with that Python forks next; true if the tree has no room for it, or no entry.
pub fn refuses_fork() -> bool {
    let Some(shares) = tree::shares() else {
        return false;
    };
    let Some(entry) = own_entry(shares) else {
        return true;
    };
    let for_child = &tree::STATE.for_child;
    if for_child.load(Relaxed) != 0 {
        return false;
    }
    let claim = || shares.claim(entry, LEAST_PART, LEAST_PART, shares.cap()) > 0;
    let frees = || free_ended(shares, entry, true);
    let has_room = !shares.is_full() || frees() && !shares.is_full();
    let is_claimed = has_room && (claim() || frees() && claim());
    if !is_claimed {
        return true;
    }
    let owner = shares.owner(entry);
    if (for_child.compare_exchange(0, owner, Relaxed, Relaxed)).is_err() {
        // Another thread forks at the same time, without a GIL.
        shares.give_back(entry, LEAST_PART);
    }
    false
}

/// What tells the calling process from others that had its id, and from the programs that it was before; 0 if that is unknown.
pub(super) fn own_mark() -> u64 {
    let mut room = [0; 1024];
    let stat = read_once(c"/proc/self/stat", &mut room);
    stat.and_then(mark).unwrap_or(0)
}

/// The bits of a mark that a process keeps if it runs another program.
const START: u64 = (1 << 40) - 1;

/// The mark of a process that runs, by the text of its file `stat`: its start, and where its stack begins, as far as that is shown.
fn mark(stat: &[u8]) -> Option<u64> {
    let stack: Option<u64> = stat_fields(stat).nth(28 - 3).and_then(number);
    Some(start_if_it_runs(stat)? & START | (stack.unwrap_or(0) >> 4) << 40)
}

fn runs(id: u32, marked: u64) -> bool {
    let (mut path, mut room) = ([0; 32], [0; 1024]);
    let path = c_text_into(&mut path, format_args!("/proc/{id}/stat"));
    match read_once(path, &mut room).map(mark) {
        _ if id == 0 => false,
        Some(now) => now.is_some_and(|now| marked == 0 || [marked, marked & START].contains(&now)),
        None => calls::kill(id as i32, 0) == 0 || Errno::last() != Errno(libc::ESRCH),
    }
}

/// Gives back what the process does not need, if no other thread may be about to use it. Returns whether the process is in a
/// tree. Inside the heap's gate.
pub(super) fn give_back() -> bool {
    let Some(shares) = tree::shares() else {
        return false;
    };
    let is_alone = || gate::is_alone(heap::slot()) && !limits::is_combining();
    let freed = tree::disinherit(limits::live_of_tree());
    if freed > 0 {
        limits::combine(Scope::Total);
        // As below.
        if !is_alone() || limits::live_of_tree() > tree::height().unwrap_or(0) {
            tree::inherit(freed);
            limits::combine(Scope::Total);
        }
    }
    let (entry, chunk) = (tree::entry(), tree::chunk());
    let spare = limits::lacks_of_tree(0).min(0).unsigned_abs();
    if entry != 0 && spare >= 3 * chunk && shares.is_of(entry, calls::getpid() as u32) {
        let bytes = tree::lower(spare - chunk);
        if bytes > 0 {
            limits::combine(Scope::Total);
            // From here on no booking goes higher, unless a thread had the height of before.
            if is_alone() && limits::lacks_of_tree(0) <= 0 {
                shares.give_back(entry, bytes);
            } else {
                raise(bytes);
            }
        }
    }
    true
}

/// Makes room for a request of a Python that starts, or ends the process: nothing can be refused yet.
pub(super) fn claim_at_start(bytes: usize) {
    claim(bytes);
    let lacks = || limits::lacks_of_tree(bytes as u64 + WINDOWS);
    if tree::shares().is_some() && lacks() > tree::reserve() as i64 {
        heap::end_start(format_args!("cannot start: {NoRoom}"), CANNOT_START);
    }
}

/// Makes room for the reserve; false if the tree has none. Outside of the allocator, once Python has started.
pub(super) fn start_script(slot: &Slot) -> bool {
    if tree::shares().is_none() {
        return true;
    }
    attend_to_caps(true);
    LEDGER.close_windows(slot);
    limits::combine(Scope::Total);
    claim(0);
    limits::lacks_of_tree(0) <= 0
}

/// In a forked child: what lives now is its parent's. It has what its parent has claimed for it, or begins when it asks.
pub fn forked(slot: &Slot) {
    if let Some(shares) = tree::shares() {
        LEDGER.close_windows(slot);
        let (parent, owner) = (tree::entry(), tree::STATE.for_child.swap(0, Relaxed));
        tree::begin_child(limits::live_of_tree());
        let entry = (owner != 0).then(|| shares.enter(calls::getpid() as u32, own_mark()));
        if let Some(entry) = entry.flatten() {
            tree::set_entry(0, entry);
            let left = shares.share(entry);
            // The parent may have ended by now, or run another program.
            let got = match shares.pass(parent, owner, entry, LEAST_PART) {
                0 => shares.claim(entry, 0, LEAST_PART, shares.cap()),
                passed => passed,
            };
            tree::raise(left + got);
            tree::STATE.is_new.store(true, Relaxed);
        }
    }
    limits::forked(slot);
}

/// In the parent, right after its fork, before which `errno` was 0. If the fork failed, the claim is for the next one.
pub fn has_forked() {
    if Errno::last() == Errno(0) {
        tree::STATE.for_child.store(0, Relaxed);
    }
}
