//! The total's cap follows what the kernel charges (`--cap auto`), what is committed of a region (`--region`), or else what is
//! resident of the maps of libraries, if they have mapped anything.
//!
//! A control group's limit is held against more than the ledger knows of: what the heaps keep,
//! stacks, shared memory, maps that libraries make themselves, other processes. So the cap moves:
//! it is the sum of the bytes that are live now and the bytes that the group's limit still leaves. Live memory that was
//! never touched is not charged yet and soon may be. So the cap is also at most the limit less the bytes that this
//! process had beside the ledger at its start.
//!
//! A region is committed by pages, and each size of blocks has pages of its own: its cap is its size less what is committed and not
//! live.
//!
//! [`read`] runs inside the allocator, on any thread: it reads two files by system calls (tens of
//! microseconds), as often as growth or time demands. For maps it asks the kernel about each of their pages, which takes a
//! millisecond for a gibibyte: so it does that for a hundredth of the time at most, or a tenth where a request waits for it.

use super::{claims, limits, tree, zone};
use crate::bytes::Bytes;
use crate::heap::{attend_to_caps, bounded_heap};
use crate::ledger::{HEADER, LEDGER, Scope};
use crate::process::cgroup::{GroupLimit, Watch, own};
use pyhost_os::clock;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

/// Left free below the limit: what the kernel's own counting lags by.
const MARGIN: u64 = 1 << 20;
/// Growth after which the files are read again, at least and as a part of what is left.
const LEAST_STEP: i64 = 256 << 10;
const STEP: i64 = 16;
/// Bytes a microsecond that a process may come to have without the ledger, as it touches pages:
/// what is left, divided by it, is when the files are read again.
const SPEED: i64 = 16 << 10;
/// The least and the most of that time, in microseconds.
const INTERVAL: (i64, i64) = (500, 100_000);
/// The least and the most of a region that is its reserve, in which CPython 3.13 imports `ast` for its first traceback, and that is kept back for pages of small requests and of new threads.
const REGION_RESERVE: (u64, u64) = (2 << 20, 4 << 20);
const REGION_MARGIN: (u64, u64) = (768 << 10, 1 << 20);
/// With fewer bytes left than this, every growth is checked.
const NEAR: i64 = 16 << 20;
/// Libraries that have mapped less than this are left alone.
const LEAST_MAPPED: i64 = 1 << 20;
/// What a reading of maps takes at most, in microseconds, beside one for each mebibyte.
const DURATION: i64 = 200;
/// For how long a map that was granted is given time to be touched before its bytes count by what is touched of others, in
/// nanoseconds: the first time, again and again while others touch it, and the second in all.
const SETTLING: (u64, u64) = (10_000_000, 300_000_000);
/// For so many of these times nothing is touched where nobody touches: on a busy machine a thread that does may wait for a processor.
const QUIET: u32 = 4;
/// For how long what was granted counts until it is touched, in microseconds: since the last grant, or since maps have grown.
const RECENT: i64 = 300_000;
/// By how many times its own duration a reading of maps comes after the last: one that is due, and one that is wanted.
const PAUSES: (i64, i64) = (99, 9);

/// Who holds what of the limit, when the files were read last.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    others: u64,
    beside: u64,
}

/// Displays as `256.0 MiB (memory.max of /sys/fs/cgroup/app), of which others hold 190.0 MiB and this process 12.0 MiB
/// beside`.
impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match STATE.charges.get().map(|it| (it.limited(), it.physical)) {
            Some((Some(group), _)) => group.fmt(out)?,
            Some((None, physical)) => machines(physical, out)?,
            None => {}
        }
        let (others, beside) = (Bytes(self.others), Bytes(self.beside));
        write!(
            out,
            ", of which others hold {others} and this process {beside} beside"
        )
    }
}

/// Writes that all of the machine's memory may be had.
pub(super) fn machines(bytes: u64, out: &mut impl fmt::Write) -> fmt::Result {
    write!(out, "{}, the machine's memory", Bytes(bytes))
}

struct Charges {
    /// Bytes of the machine, and the most that a limit may be.
    physical: u64,
    most: u64,
    /// By what the limit is divided: then only this process counts.
    share: u64,
    /// The largest charge that this process, or its share of the group, may reach.
    limit: AtomicU64,
    /// The group whose limit counts.
    group: Option<Watch>,
    /// Bytes charged to this process beside the ledger's live bytes at its start.
    beside: u64,
}

/// What was read, in bytes.
struct Reading {
    limit: u64,
    /// What is left for live bytes, and of the limit.
    left: i64,
    by_charge: i64,
    /// Bytes charged of the limit, and those of other processes.
    charged: i64,
    others: i64,
    /// Bytes that libraries have mapped and not touched.
    untouched: i64,
    /// Bytes of maps that were granted and are no longer to be counted.
    settled: i64,
}

pyhost_os::state! {
    /// What the process's group or the region leaves, and when to look again.
    static STATE: LimitWatch {
        charges: OnceLock<Charges> = OnceLock::new(),
        /// Bytes of the region that are kept back for the pages of small requests, if it is followed.
        region_margin: OnceLock<u64> = OnceLock::new(),
        /// What was committed of the region when its cap was last computed, and how much of it no block can have: the least since
        /// the region was nearly full. What is freed then is used again, though its pages stay.
        committed: AtomicU64 = AtomicU64::new(0),
        slack: AtomicU64 = AtomicU64::new(0),
        /// A thread is reading.
        busy: AtomicBool = AtomicBool::new(false),
        /// When to read again: total bytes published, and microseconds of the clock.
        next_bytes: AtomicI64 = AtomicI64::new(0),
        next_time: AtomicI64 = AtomicI64::new(0),
        /// When to read the group's limit again.
        next_limit: AtomicI64 = AtomicI64::new(0),
        is_near: AtomicBool = AtomicBool::new(false),
        /// Measures what is resident of the maps of libraries.
        resident_maps: OnceLock<fn() -> Option<u64>> = OnceLock::new(),
        purge: OnceLock<fn()> = OnceLock::new(),
        /// The end of the last reading of maps, and how long it took; whether anything was given back since.
        read_at: AtomicI64 = AtomicI64::new(0),
        duration: AtomicI64 = AtomicI64::new(0),
        is_given_back: AtomicBool = AtomicBool::new(false),
        /// Bytes left of the limit when the files were last read, and bytes that libraries have mapped since.
        left: AtomicI64 = AtomicI64::new(0),
        mapped_since: AtomicI64 = AtomicI64::new(0),
        /// When a library was granted a map last, or maps were seen to have grown, in microseconds.
        granted_at: AtomicI64 = AtomicI64::new(0),
        /// By how much maps have grown lately from one reading to the next.
        step: AtomicI64 = AtomicI64::new(0),
        /// Whether more was charged beside the ledger's live bytes than at the reading before.
        has_grown: AtomicBool = AtomicBool::new(false),
        /// Bytes charged then beside the ledger's live bytes, and those of them that other processes of the group have.
        external: AtomicI64 = AtomicI64::new(0),
        others: AtomicI64 = AtomicI64::new(0),
    }
}

/// Lets the total's caps and limits count the maps of libraries, of which `resident` measures what is resident: `None` if another
/// thread changes them. Any thread, also inside the allocator.
/// `purge` has their allocators give back what they keep free; it is called outside of the allocator.
pub fn measure_maps_by(resident: fn() -> Option<u64>, purge: fn()) {
    let _ = STATE.resident_maps.set(resident);
    let _ = STATE.purge.set(purge);
}

/// Has the allocators of libraries give back what they keep free. Not inside the allocator.
pub(super) fn purge() {
    if let Some(purge) = STATE.purge.get() {
        purge();
    }
}

/// Makes the total's cap follow the charges, and the limit of `group`, if that is below the `physical` memory. A limit is
/// `most` at most, and divided by `share`.
pub(super) fn start(group: Option<&GroupLimit>, physical: u64, most: u64, share: u64) {
    let charged = own().map_or(0, |charged| charged.total());
    let live = LEDGER.bound(Scope::Total).max(0) as u64;
    let charges = Charges {
        physical,
        most,
        share,
        limit: AtomicU64::new(0),
        group: group.and_then(Watch::open),
        beside: charged.saturating_sub(live),
    };
    charges.find_limit();
    let _ = STATE.charges.set(charges);
    attend_to_caps(true);
    read(true, |_, _| ());
}

/// Makes the total's cap follow what is committed of the region, if there is one.
pub(super) fn start_region() {
    let Some(figures) = bounded_heap::figures() else {
        return;
    };
    let left = figures.size.saturating_sub(figures.committed);
    let part =
        |part: u64, (least, most): (u64, u64)| (left / part).clamp(least, most).min(left / 4);
    let reserve = &limits::STATE.followed_reserve;
    reserve.store(part(16, REGION_RESERVE), Relaxed);
    let _ = STATE.region_margin.set(part(24, REGION_MARGIN));
    attend_to_caps(true);
    read_region(true);
}

/// Computes the cap anew if more of the region is committed than before, or `force`.
fn read_region(force: bool) {
    let (Some(margin), Some(figures)) = (STATE.region_margin.get(), bounded_heap::figures()) else {
        return;
    };
    let is_due = force || STATE.committed.load(Relaxed) != figures.committed;
    if is_due && !STATE.busy.swap(true, Acquire) {
        STATE.committed.store(figures.committed, Relaxed);
        let live = LEDGER.bound(Scope::Total).max(0) as u64;
        let slack = figures.committed.saturating_sub(live);
        let left = figures.size.saturating_sub(figures.committed);
        let is_near = left < margin + limits::STATE.followed_reserve.load(Relaxed);
        let least = STATE.slack.load(Relaxed);
        let slack = if is_near { slack.min(least) } else { slack };
        STATE.slack.store(slack, Relaxed);
        limits::follow(figures.size.saturating_sub(*margin + slack));
        STATE.busy.store(false, Release);
    }
}

fn follows() -> bool {
    STATE.charges.get().is_some() || STATE.region_margin.get().is_some()
}

pub(super) fn is_on() -> bool {
    follows() || follows_maps()
}

/// Whether the cap follows the maps of libraries.
pub(super) fn follows_maps() -> bool {
    (zone::mapped() >= LEAST_MAPPED || limits::maps() > 0) && limits::with_maps().is_some()
}

/// What is resident of the maps of libraries at this moment. Returns `None` if caps and limits of `scope` cannot count it: what
/// is followed otherwise has it in it.
pub(super) fn measured(scope: Scope) -> Option<u64> {
    if scope != Scope::Total || follows() {
        return None;
    }
    let settled = granted();
    note_maps(maps().unwrap_or(limits::maps()));
    count_no_longer(settled);
    Some(limits::maps())
}

/// Notes what is resident of the maps of libraries, for which the process needs a part of its tree's cap, too.
fn note_maps(bytes: u64) {
    let more = bytes.saturating_sub(limits::maps());
    if more > 0 {
        claims::make_room(more, false);
    }
    limits::set_maps(bytes);
}

/// What is resident of the maps of libraries. Returns `None` if another thread changes them.
fn maps() -> Option<u64> {
    match zone::mapped() < LEAST_MAPPED {
        true => Some(0),
        false => (STATE.resident_maps.get()?)(),
    }
}

/// Caps or limits have changed.
pub(super) fn ceilings_changed() {
    look_soon();
    if follows_maps() {
        attend_to_caps(true);
    }
}

/// A library is about to map `bytes`: whether that leaves so much below a cap that counts maps that it need not be looked
/// at, if all that libraries have mapped were touched.
pub(super) fn is_far(bytes: i64) -> bool {
    let Some((limit, height)) = limits::with_maps() else {
        return false;
    };
    let mapped = zone::mapped().saturating_add(bytes);
    if mapped < LEAST_MAPPED {
        return true;
    }
    attend_to_caps(true);
    let live = LEDGER.bound(Scope::Total);
    let is_far = (height as i64).saturating_sub(live.saturating_add(mapped)) > zone::near(limit);
    if is_far {
        grant(bytes);
    }
    is_far
}

/// Whether a library that maps `bytes` makes what it may never touch, as OpenBLAS does for each of its threads: below a cap
/// that counts maps, libraries have touched little of what they have.
pub(super) fn is_work_space(bytes: i64) -> bool {
    let touched = limits::maps() as i64;
    let is_one = STATE.charges.get().is_none()
        && bytes <= zone::ZONE_BOUNDS.1
        && touched < zone::mapped().saturating_add(bytes) / 4;
    if is_one {
        grant(bytes);
    }
    is_one
}

/// Whether so little is left that no thread should have a window.
pub(super) fn is_near() -> bool {
    STATE.is_near.load(Relaxed)
}

/// Asks for the files to be read at the next chance: memory was given back, say.
pub fn look_soon() {
    STATE.next_time.store(0, Relaxed);
    if !STATE.is_given_back.swap(true, Relaxed) && is_near() {
        // Live bytes may stay below the bounds of before.
        LEDGER.close_cells();
    }
}

fn microseconds() -> i64 {
    (clock::monotonic() / 1000) as i64
}

/// Reads the charges anew when growth or time demands it, or `force`. If they were read, `look` gets the limit and the
/// bytes left of it, before another thread reads. Returns whether they were.
pub(super) fn read(force: bool, look: impl FnOnce(u64, i64)) -> bool {
    read_region(force);
    let charges = STATE.charges.get();
    if charges.is_none() && !follows_maps() {
        return false;
    }
    let time = microseconds();
    let live = LEDGER.bound(Scope::Total);
    if !is_due(force, live, time) || STATE.busy.swap(true, Acquire) {
        return false;
    }
    let reading = match charges {
        Some(charges) => charges.follow(live, time),
        None => follow_maps(live, time),
    };
    let is_read = reading.is_some();
    if let Some(it) = reading {
        let step = (it.left / STEP).max(LEAST_STEP);
        STATE.next_bytes.store(live + step, Relaxed);
        let wait = (it.left / SPEED).clamp(INTERVAL.0, INTERVAL.1);
        STATE.next_time.store(time + wait, Relaxed);
        // What other threads are granted meanwhile still counts.
        count_no_longer(it.settled);
        STATE.left.store(it.by_charge, Relaxed);
        // Mapped memory that was never touched may be touched without a notice.
        let may_touch = charges.is_some() || it.untouched > zone::zone(it.limit) / 4;
        let (untouched, near) = match zone::is_at_work(it.limit) && may_touch {
            true => (it.untouched, zone::near(it.limit)),
            false => (0, NEAR),
        };
        let left = it.left.min(it.by_charge - untouched);
        STATE.is_near.store(left < near, Relaxed);
        let external = it.charged - live;
        let before = STATE.external.swap(external, Relaxed);
        let has_grown = charges.is_some() || before < external;
        STATE.has_grown.store(has_grown, Relaxed);
        STATE.others.store(it.others, Relaxed);
        look(it.limit, it.by_charge);
    }
    STATE.busy.store(false, Release);
    is_read
}

/// Gives maps that were granted since the last reading time to be touched, and reads: `in_turn`, as long as another thread touches
/// them. Of what is untouched then so much counts on as libraries have touched of all that they have: allocators reserve several
/// times what they use.
pub(super) fn settle(in_turn: bool, look: impl Fn(u64, i64)) {
    let read_now = || {
        STATE.is_given_back.store(true, Relaxed);
        read(true, &look)
    };
    let (before, step) = (limits::maps() as i64, STATE.step.load(Relaxed));
    let (mut is_read, mut last, mut quiet) = (false, before, 0);
    let is_settled = || {
        clock::wait_until(SETTLING.0, SETTLING.0, || false);
        // Another thread may be reading, or hold the table of maps.
        is_read = clock::wait_until(SETTLING.0, SETTLING.0 / 10, read_now);
        let touched = limits::maps() as i64;
        let is_quiet = touched - std::mem::replace(&mut last, touched) < LEAST_MAPPED;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        !in_turn || !is_read || quiet == QUIET
    };
    let is_over = clock::wait_until(SETTLING.1, 0, is_settled);
    let touched = limits::maps() as i64;
    // All these readings are one for a step.
    STATE.step.fetch_max(step.max(touched - before), Relaxed);
    // While others touch it, all of it counts.
    if is_read && is_over {
        let part = touched as f64 / zone::mapped().max(touched).max(1) as f64;
        let granted = granted();
        let settled = granted - (granted as f64 * part) as i64;
        count_no_longer(settled);
    }
}

/// Bytes that libraries were granted since the last reading.
pub(super) fn granted() -> i64 {
    STATE.mapped_since.load(Relaxed)
}

/// So many bytes of maps that were granted have been touched, or will not be.
fn count_no_longer(bytes: i64) {
    let rest = |since: i64| Some((since - bytes).max(0));
    let _ = STATE.mapped_since.fetch_update(Relaxed, Relaxed, rest);
}

/// Grants a map of `bytes` if it passes what is left by `slack` at most. Two threads never get the same room.
pub(super) fn claim(bytes: i64, slack: i64) -> bool {
    let add = |since| {
        left_beside(since).filter(|(_, left)| bytes <= left + slack)?;
        STATE.granted_at.store(microseconds(), Relaxed);
        Some(since + bytes)
    };
    let since = &STATE.mapped_since;
    since.fetch_update(Relaxed, Relaxed, add).is_ok()
}

/// A library maps `bytes` more.
fn grant(bytes: i64) {
    STATE.granted_at.store(microseconds(), Relaxed);
    STATE.mapped_since.fetch_add(bytes, Relaxed);
}

/// Whether growth or time demands a reading, or somebody who must have it. What libraries have given back alone makes room.
fn is_due(force: bool, live: i64, time: i64) -> bool {
    let pause = time - STATE.read_at.load(Relaxed);
    let duration = STATE.duration.load(Relaxed);
    let is_given_back = STATE.is_given_back.load(Relaxed);
    if force && (is_given_back || pause >= duration * PAUSES.1) {
        return true;
    }
    let is_changed =
        live >= STATE.next_bytes.load(Relaxed) || time >= STATE.next_time.load(Relaxed);
    is_changed && pause >= duration * PAUSES.0
}

/// Makes the total's cap follow what is resident of maps at this moment.
fn follow_maps(live: i64, time: i64) -> Option<Reading> {
    let (limit, height) = limits::with_maps()?;
    STATE.is_given_back.store(false, Relaxed);
    let granted = granted();
    let maps = maps();
    let now = microseconds();
    STATE.read_at.store(now, Relaxed);
    // Not the time in which the thread had no processor.
    let most = DURATION + (zone::mapped() >> 20);
    STATE.duration.store((now - time).min(most), Relaxed);
    let (maps, before) = (maps? as i64, limits::maps() as i64);
    note_maps(maps as u64);
    if maps - before >= LEAST_MAPPED {
        STATE.granted_at.fetch_max(now, Relaxed);
        let step = (maps - before).max(STATE.step.load(Relaxed) / 2);
        STATE.step.store(step, Relaxed);
    }
    let settled = match time - STATE.granted_at.load(Relaxed) < RECENT {
        true => granted.min((maps - before).max(0)),
        false => granted,
    };
    let left = height as i64 - live - maps;
    Some(Reading {
        limit,
        left,
        by_charge: left,
        charged: live + maps,
        others: 0,
        untouched: (zone::mapped() - maps).max(0),
        settled,
    })
}

/// Whether more is charged beside the ledger's live bytes than at the reading before.
pub(super) fn has_grown() -> bool {
    STATE.has_grown.load(Relaxed)
}

/// The bytes that libraries may touch before the next reading: as many as lately, but at most a quarter of what is resident of their maps.
/// 0 if the cap follows the charges.
pub(super) fn step() -> i64 {
    let most = limit().map_or(0, zone::another);
    let most = most.min(limits::maps() as i64 / 4);
    STATE.step.load(Relaxed).min(most)
}

pub(super) fn limit() -> Option<u64> {
    followed_limit().or_else(|| limits::with_maps().map(|(limit, _)| limit))
}

/// Whether the maps since the last reading, with one of `bytes`, are a large part of the bytes left.
pub(super) fn is_large_map(bytes: usize) -> bool {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    granted().saturating_add(bytes) > STATE.left.load(Relaxed) / STEP
}

/// The limit, and the bytes left of it for a map. Returns `None` if no limit is followed.
pub(super) fn left_for_map() -> Option<(u64, i64)> {
    left_beside(granted())
}

/// The same if so many bytes were granted `since` the last reading: what was before has been touched by now, or is a reserve.
fn left_beside(since: i64) -> Option<(u64, i64)> {
    let limit = limit()?;
    let left = match (STATE.charges.get(), limits::with_maps()) {
        (None, Some((_, height))) => {
            let touched = limits::maps() as i64;
            let most = (touched + since).min(zone::mapped().max(touched));
            height as i64 - LEDGER.bound(Scope::Total) - most
        }
        _ => STATE.left.load(Relaxed) - since,
    };
    Some((limit, left))
}

/// By how much what is charged beside the ledger's live bytes had grown since the start when the files
/// were read last, in bytes.
pub(super) fn external() -> Option<i64> {
    limit()?;
    let beside = STATE.charges.get().map_or(0, |charges| charges.beside);
    Some(STATE.external.load(Relaxed) - beside as i64)
}

/// Who holds what of the limit. Returns `None` if no limit is followed.
pub(super) fn held() -> Option<Held> {
    STATE.charges.get()?;
    let others = STATE.others.load(Relaxed);
    Some(Held {
        others: others.max(0) as u64,
        beside: (STATE.external.load(Relaxed) - others).max(0) as u64,
    })
}

/// Bytes left of the limit when the files were last read.
pub(super) fn left() -> i64 {
    STATE.left.load(Relaxed)
}

/// The limit and what was charged of it when the files were read last.
pub(super) fn charged() -> Option<(u64, i64)> {
    let margin = STATE.charges.get().map_or(0, |_| MARGIN);
    let limit = limit()?;
    Some((limit, limit.saturating_sub(margin) as i64 - left()))
}

/// The limit that is followed now, if the cap follows the charges.
pub(super) fn followed_limit() -> Option<u64> {
    let charges = STATE.charges.get()?;
    Some(charges.limit.load(Relaxed))
}

impl Charges {
    /// The group if it has a limit, whose charges then count if the limit is not divided.
    fn limited(&self) -> Option<&Watch> {
        let group = self.group.as_ref()?;
        (group.last_limit() < self.physical).then_some(group)
    }

    fn find_limit(&self) {
        let limit = self.group.as_ref().map_or(u64::MAX, Watch::limit);
        let limit = limit.min(self.physical).min(self.most) / self.share;
        self.limit.store(limit, Relaxed);
    }

    /// Reads the files, and makes the total's cap follow them; `None` if the kernel does not provide the figures.
    fn follow(&self, now: i64, time: i64) -> Option<Reading> {
        let settled = granted();
        // First: what others are granted from here on is not charged yet, and lowers what can be had.
        let tree = tree::shares().filter(|it| it.follows());
        let tree = tree.map(|shares| (shares, shares.sum()));
        let own = own()?.total();
        let charged = match self.limited().filter(|_| self.share == 1) {
            Some(group) => group.charged()?.total().max(own),
            None => own,
        };
        let before = self.limit.load(Relaxed);
        // Another process may have seen that it has changed, and use what it leaves now.
        let is_old = charged >= before || tree.is_some_and(|(it, _)| !it.is_size(before));
        if is_old || time >= STATE.next_limit.load(Relaxed) {
            STATE.next_limit.store(time + INTERVAL.1, Relaxed);
            self.find_limit();
        }
        let limit = self.limit.load(Relaxed);
        let live = LEDGER.bound(Scope::Total).max(0) as u64;
        let allowed = limit.saturating_sub(MARGIN);
        let by_charge = (live + allowed).saturating_sub(charged);
        let others = charged - own;
        let by_live = allowed.saturating_sub(others + self.beside);
        let cap = by_charge.min(by_live);
        limits::follow(cap);
        if let Some((shares, sum)) = tree {
            shares.set_cap(limit, Some((sum + allowed).saturating_sub(charged)));
        }
        HEADER.cap_computed.store(time as u64 * 1000, Relaxed);
        Some(Reading {
            limit,
            left: cap as i64 - now,
            by_charge: allowed as i64 - charged as i64,
            charged: charged as i64,
            others: others as i64,
            untouched: zone::untouched(own, now),
            settled,
        })
    }
}
