//! Samples of what is allocated, for `--lines`: which allocations are samples, and what becomes of them.
//!
//! A thread counts the bytes that it allocates down to its next sample ([`pyhost_sampler::Chance`]). While it does, the
//! inlined paths see stand-ins instead of its theaps, so that each request takes a slow path, which counts: without
//! samples, nothing of this is in the inlined paths. A sampled block comes from a heap of its own account's samples. So
//! the inlined `free`, which compares the heap of the block's page with its account's in any case, leaves such a block
//! to the slow path, and no other.
//!
//! The samples are behind one lock, which is taken inside the gate, so that a forked child finds it free; a report in a
//! signal handler tries to take it elsewhere. A signal that would end the process and comes to the holder waits until it
//! holds it no more, so that the report has the samples. A request from another handler that has interrupted the holder is
//! no sample.

mod other_blocks;
#[cfg_attr(target_arch = "arm", path = "no_probes.rs")]
mod probes;
mod units;

use crate::host::{Host, host};
use crate::ledger::index::{MEM, OBJ, RAW};
use crate::ledger::{Account, HEADER, LEDGER, Scope};
use crate::mimalloc::ffi::{self, Theap};
use crate::mimalloc::gate::{self, Inside};
use crate::mimalloc::heaps::{HEAPS, is_marked, is_sampled};
use crate::threads::thread_state::{ThreadState, state, thread_id};
use crate::{NATIVE, bounded_heap, counts, make_theap, threads::thread_names::Names};
use other_blocks::ELSEWHERE;
pub use other_blocks::{Taken, booked, put_back, resized, take_out, unbooked};
pub(crate) use other_blocks::{booked_inside, unbooked_inside};
use pyhost_os::cell::{Exclusive, Held};
use pyhost_os::{calls, clock, errno::KeptErrno, forks::Child, process};
pub use pyhost_sampler::published::Renew;
use pyhost_sampler::{Added, Allocation, Chance, Heights, Units, Weight};
pub use pyhost_sampler::{
    Call, FrameView, HOSTS_FILE, Kinds, NativeCall, NativeView, Samples, Site, SpanView, Step, Sum,
    Thread, UnitFigures, UnitNumber, View,
};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, compiler_fence};
use std::thread::{sleep, yield_now};
use std::{ptr::null_mut, sync::OnceLock, time::Duration};
pub(crate) use units::may_grow;
pub use units::{begin_units, exhausted, let_another_pay, note_error, release_unit, with_units};

struct Recorder {
    /// Those of the lines; None if no lines were asked for.
    samples: Option<Samples>,
    units: Units,
    chance: Chance,
    /// The draws repeat themselves from run to run.
    is_repeatable: bool,
    names: Names,
}

pyhost_os::state! {
    /// Whether samples are taken, and those that are kept.
    static STATE: SampleState {
        on: AtomicBool = AtomicBool::new(false),
        /// The number of the present samples, from 1 on. A thread whose number is another draws anew: its distance may be of
        /// another interval.
        generation: AtomicU32 = AtomicU32::new(0),
        /// Forks so far, those of the parents included.
        forks: AtomicU64 = AtomicU64::new(0),
        has_lines: AtomicBool = AtomicBool::new(false),
        /// The intervals that lines and units ask for; the lower one holds. `u64::MAX` for none.
        line_interval: AtomicU64 = AtomicU64::new(u64::MAX),
        unit_interval: AtomicU64 = AtomicU64::new(u64::MAX),
        is_over: AtomicBool = AtomicBool::new(false),
        interval: AtomicU64 = AtomicU64::new(0),
        recorder: Exclusive<Option<Recorder>> = Exclusive::new(None),
        renew: OnceLock<Renew> = OnceLock::new(),
        /// The last request that was acted on, or that there was at the start.
        answered: AtomicU64 = AtomicU64::new(0),
        /// A signal that came to a thread that holds the samples, and is raised again when it no longer holds them; 0 without such a signal.
        deferred: AtomicI32 = AtomicI32::new(0),
    }
}

/// Begins to sample one of every `interval` allocated bytes in the mean, anew; 1 has every block sampled. With a `seed` the draws
/// repeat themselves from run to run, in forked children too. After [`crate::start`]; not in a signal handler. False once the
/// script has ended.
pub fn start(interval: u64, seed: Option<u64>) -> bool {
    if STATE.is_over.load(Relaxed) {
        return false;
    }
    let state = state();
    let inside = gate::enter(state.slot(), thread_id());
    let Some(mut holding) = hold(&inside) else {
        return false;
    };
    let held = &mut holding.0;
    // Those of the former samples: none of them are looked for again. Before the first ones the pages are untouched.
    if STATE.generation.load(Relaxed) != 0 && !has_units() {
        ELSEWHERE.iter().for_each(|count| count.store(0, Relaxed));
    }
    let mut samples = Samples::new(interval, Account::Mapped as u8);
    samples.begin_at(clock::monotonic_coarse());
    samples.generation = next_generation().into();
    if let Some(renew) = STATE.renew.get() {
        samples.publish_by(*renew);
    }
    let former = held.take();
    **held = Some(Recorder::new(Some(samples), former, seed));
    STATE.line_interval.store(interval, Relaxed);
    STATE.has_lines.store(true, Relaxed);
    begin(state, holding, &inside);
    true
}

fn next_generation() -> u32 {
    STATE.generation.load(Relaxed).wrapping_add(1).max(1)
}

/// Has all threads draw anew.
fn begin(state: &ThreadState, holding: Holding, inside: &Inside<'_>) {
    let of_units = STATE.unit_interval.load(Relaxed);
    let interval = STATE.line_interval.load(Relaxed).min(of_units);
    STATE.interval.store(interval, Relaxed);
    STATE.generation.store(next_generation(), Release);
    drop(holding);
    STATE.on.store(true, Release);
    switch(state, inside);
    // Every other thread takes a slow path soon, where it begins to count.
    LEDGER.close_cells();
}

fn has_units() -> bool {
    STATE.unit_interval.load(Relaxed) != u64::MAX
}

/// Keeps the samples, present and later ones, in memory that other processes can read. False if there are
/// samples and no such memory.
pub fn publish_by(renew: Renew) -> bool {
    let _ = STATE.renew.set(renew);
    with(|samples| samples.publish_by(renew)).unwrap_or(true)
}

/// Calls [`crate::Host::answer`] soon, though nobody has asked: for work that must not be done under the lock of
/// the samples.
pub fn answer_soon() {
    STATE.answered.store(u64::MAX, Relaxed); // no request has this number
}

/// Looks whether another process has asked for samples to begin or to end, and answers. In the slow path of an account
/// of the GIL, outside of the gate.
#[inline]
pub(crate) fn look_if_asked(account: Account) {
    let asked = HEADER.lines.asked.load(Relaxed);
    if asked != STATE.answered.load(Relaxed) && account.is_under_gil() {
        answer(asked);
    }
}

#[cold]
fn answer(asked: u64) {
    if let Some(Host { answer, .. }) = host()
        && STATE.answered.swap(asked, Relaxed) != asked
    {
        answer();
    }
}

/// Whether samples are taken, of lines or of units.
pub fn is_on() -> bool {
    STATE.on.load(Relaxed)
}

pub fn has_lines_on() -> bool {
    STATE.line_interval.load(Relaxed) != u64::MAX
}

/// The script has ended: [`end`], for good.
pub fn finish() {
    STATE.is_over.store(true, Relaxed);
    STATE.unit_interval.store(u64::MAX, Relaxed);
    end();
}

/// Keeps all samples of lines as they are now, and takes no more.
pub fn end() {
    STATE.line_interval.store(u64::MAX, Relaxed);
    STATE.on.store(has_units(), Relaxed);
    let moment = clock::monotonic_coarse();
    with(|samples| samples.end(moment));
}

/// [`end`], and forgets the samples: as if none had ever been asked for.
pub fn forget() {
    end();
    let inside = gate::enter(state().slot(), thread_id());
    with_recorder(&inside, |recorder| {
        recorder.samples = None;
        STATE.has_lines.store(false, Relaxed);
    });
}

/// A fork is on its way: the child's draws differ from its parent's and its siblings'.
pub(crate) fn forking() {
    STATE.forks.fetch_add(1, Relaxed);
}

/// In a forked child: a thread that read the samples in a signal handler may be gone, with the lock. Nobody else was in
/// them, since the gate was closed.
pub(crate) fn forked(child: &Child) {
    drop(STATE.recorder.take_in_child(child));
    if let Some(mut held) = STATE.recorder.try_hold_for(thread_id())
        && let Some(recorder) = held.as_mut()
    {
        if let Some(samples) = recorder.samples.as_mut() {
            samples.forked();
        }
        recorder.names.forked();
        recorder.chance.stir(STATE.forks.load(Relaxed));
        if !recorder.is_repeatable {
            recorder
                .chance
                .stir(u64::from(process::id().unsigned_abs()));
        }
        let left = recorder.chance.distance(STATE.interval.load(Relaxed));
        state().left.set(left);
    }
}

/// Calls `work` with the samples of lines; None without them. Any thread, not in a signal handler. `work` must neither wait nor
/// run Python code: other threads wait for the lock, one of them maybe with the GIL. What it allocates is no sample.
pub fn with<T>(work: impl FnOnce(&mut Samples) -> T) -> Option<T> {
    // Inside the gate, so that what `work` allocates never waits for a thread that waits for the lock.
    let inside = gate::enter(state().slot(), thread_id());
    with_recorder(&inside, |recorder| recorder.samples.as_mut().map(work))?
}

/// [`with`] in a signal handler, or inside the allocator: `None` also if what it has interrupted has the samples, or another
/// thread has them for a second.
pub fn with_in_handler<T>(work: impl FnOnce(&mut Samples) -> T) -> Option<T> {
    const LONGEST: u64 = 1_000_000_000;
    let until = clock::monotonic() + LONGEST;
    let mut holding = wait(|| clock::monotonic() > until)?;
    holding.0.as_mut()?.samples.as_mut().map(work)
}

/// Whether there are samples, though they may be out of reach at this moment.
pub fn have_begun() -> bool {
    STATE.has_lines.load(Relaxed)
}

/// In a signal handler: whether the signal has interrupted the use of the samples. It is raised again at the end of that use.
/// Not for a signal of what the thread itself does, which comes again at once.
pub fn defers(signal: i32) -> bool {
    let is_held = STATE.recorder.is_held_by(thread_id());
    if is_held {
        STATE.deferred.store(signal, Relaxed);
    }
    is_held
}

/// Raises the signal that was deferred, once the lock is free.
struct Delivery;

impl Drop for Delivery {
    #[inline]
    fn drop(&mut self) {
        if STATE.deferred.load(Relaxed) != 0 {
            deliver();
        }
    }
}

#[cold]
fn deliver() {
    let signal = STATE.deferred.swap(0, Relaxed);
    if signal != 0 {
        calls::raise(signal);
    }
}

/// The lock. The fields are dropped in their order.
struct Holding(Held<'static, Option<Recorder>>, Delivery);

/// Waits for the lock. None if the calling thread has it: in a signal handler, or as the reader of a report.
#[inline]
fn hold(_inside: &Inside<'_>) -> Option<Holding> {
    wait(|| false)
}

/// Calls `work` with what is recorded; None if nothing is yet, or the calling thread has the lock.
#[inline]
fn with_recorder<T>(inside: &Inside<'_>, work: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
    hold(inside)?.0.as_mut().map(work)
}

/// Waits for the lock until `gives_up`. None if the calling thread has it.
#[inline]
fn wait(gives_up: impl Fn() -> bool) -> Option<Holding> {
    let own = thread_id();
    let mut turns = 0;
    while !STATE.recorder.is_held_by(own) {
        if let Some(held) = STATE.recorder.try_hold_for(own) {
            return Some(Holding(held, Delivery));
        }
        if turns > 0 && gives_up() {
            break;
        }
        pause(turns);
        turns += 1;
    }
    None
}

/// A sample takes a microsecond; the reader of a report may take a while, for which nobody may burn a core.
#[cold]
fn pause(turns: u32) {
    const SHORT: u32 = 100;
    if turns < SHORT {
        yield_now();
    } else {
        let _errno = KeptErrno::new();
        sleep(Duration::from_micros(200));
    }
}

/// The least bytes that a request counts for.
const LEAST: usize = 16;

/// The bytes of a request that are counted.
#[inline(always)]
fn counted(size: usize) -> i64 {
    i64::try_from(size.max(LEAST)).unwrap_or(i64::MAX)
}

/// Pops a block as [`crate::hot::own_page::pop`] does and books it, for a thread that counts its bytes; null if the slow path must do it,
/// be it for a sample.
#[inline(always)]
pub(crate) fn pop<const A: usize, const ZERO: bool>(
    state: &ThreadState,
    size: usize,
    mask: usize,
) -> *mut u8 {
    // Larger sizes take the slow path anyway. Below, the sum needs no bounds: five instructions in all.
    if size > ffi::SMALL_SIZE_MAX {
        return null_mut();
    }
    let counted = size.max(LEAST) as i64;
    let left = state.left.get().wrapping_sub(counted);
    state.left.set(left);
    if left >= 0 {
        let theap = state.known_theap(Account::ALL[A]);
        let block = crate::hot::own_page::pop_from::<A, ZERO, true>(state, theap, size, mask);
        if !block.is_null() {
            return block;
        }
    }
    // The slow path counts it. The value is read anew, as a signal handler may have drawn; so no register keeps it above.
    compiler_fence(SeqCst);
    state.left.set(state.left.get().wrapping_add(counted));
    null_mut()
}

/// [`pop`] for an account that is not known when the program is compiled.
#[inline(never)]
pub(crate) fn pop_any(account: Account, size: usize, zero: bool) -> *mut u8 {
    fn choose<const A: usize>(size: usize, zero: bool) -> *mut u8 {
        match zero {
            true => pop::<A, true>(state(), size, 0),
            false => pop::<A, false>(state(), size, 0),
        }
    }
    match account {
        Account::Raw => choose::<RAW>(size, zero),
        Account::Mem => choose::<MEM>(size, zero),
        Account::Obj => choose::<OBJ>(size, zero),
        Account::Native if counts(account) => choose::<NATIVE>(size, zero),
        _ => null_mut(),
    }
}

/// The theap to serve a request from: that of the account's samples, if the request is one. Then with the unit that it counts
/// for, and the block must be passed to [`take`]. None if a budget refuses the request. Inside the gate.
#[inline]
pub(crate) fn theap(
    state: &ThreadState,
    account: Account,
    size: usize,
    inside: &Inside<'_>,
) -> Option<(*mut Theap, Option<UnitNumber>)> {
    if generation() != state.generation() {
        switch(state, inside);
    }
    if state.is_sampling() && counts(account) && is_due(state, size, inside) {
        let unit = units::admit(account, size, true, inside)?;
        if unit != 0 || has_lines_on() {
            let theap = theap_of_samples(state, account, inside);
            if !theap.is_null() {
                return Some((theap, Some(unit)));
            }
            with_recorder(inside, |it| it.samples.as_mut().map(Samples::count_dropped));
        }
    }
    Some((state.theap(account), None))
}

/// The number of the samples that threads count for; 0 while none are taken.
#[inline]
fn generation() -> u32 {
    match is_on() {
        true => STATE.generation.load(Acquire),
        false => 0,
    }
}

/// Makes the thread begin or end to count its bytes.
#[cold]
fn switch(state: &ThreadState, inside: &Inside<'_>) {
    let generation = generation();
    if generation != 0 {
        match draw(inside) {
            Some(left) => state.left.set(left),
            None => return,
        }
    }
    state.set_generation(generation);
}

fn draw(inside: &Inside<'_>) -> Option<i64> {
    let interval = STATE.interval.load(Relaxed);
    with_recorder(inside, |recorder| recorder.chance.distance(interval))
}

/// Whether a request is a sample in any case, and stands for itself alone: so is a large one while units have samples.
#[inline]
fn is_whole(size: usize) -> bool {
    size as u64 >= STATE.unit_interval.load(Relaxed)
}

/// The weight of a sample, of a request of so many bytes.
fn drawn(bytes: usize, counted: usize) -> Weight {
    let interval = match is_whole(counted) {
        true => 1,
        false => STATE.interval.load(Relaxed),
    };
    Weight::new(bytes, counted, interval)
}

/// Counts a request; whether it is a sample.
#[inline]
fn is_due(state: &ThreadState, size: usize, inside: &Inside<'_>) -> bool {
    if is_whole(size) {
        return !state.ending.get();
    }
    let left = state.left.get().saturating_sub(counted(size));
    state.left.set(left);
    left < 0 && draws_again(state, inside)
}

#[cold]
fn draws_again(state: &ThreadState, inside: &Inside<'_>) -> bool {
    // A thread that ends has no theaps any more.
    if state.ending.get() {
        return false;
    }
    let left = draw(inside);
    state.left.set(left.unwrap_or(0));
    left.is_some()
}

/// The heap of an account's samples, made for its first one: many programs have none of arrays, or of libraries. Null if
/// there is no memory for it.
fn heap_of_samples(state: &ThreadState, account: Account, inside: &Inside<'_>) -> *mut ffi::Heap {
    let heaps = match state.is_before() && is_marked(account) {
        true => &HEAPS.sampled_before,
        false => &HEAPS.sampled,
    };
    let place = &heaps[account as usize];
    let heap = place.load(Acquire);
    if !heap.is_null() {
        return heap;
    }
    // By one thread at a time.
    let Some(_held) = hold(inside) else {
        return null_mut();
    };
    if place.load(Acquire).is_null() {
        place.store(ffi::mi_heap_new(), Release);
    }
    place.load(Acquire)
}

/// The calling thread's theap in the heap of an account's samples; null if there is no memory for it.
fn theap_of_samples(state: &ThreadState, account: Account, inside: &Inside<'_>) -> *mut Theap {
    if !bounded_heap::has_room_for_a_thread() {
        return null_mut();
    }
    let heap = heap_of_samples(state, account, inside);
    if heap.is_null() {
        return null_mut();
    }
    make_theap(heap)
}

/// Notes a sample: a block that was booked with `bytes`, for a request of `size`, and counts for a unit. Inside the gate.
#[cold]
pub(crate) fn take(
    account: Account,
    block: *mut u8,
    bytes: usize,
    size: usize,
    unit: UnitNumber,
    inside: &Inside<'_>,
) -> Added {
    let counted = counted(size) as usize;
    let drawn = drawn(bytes, counted);
    let mut walk = |take: &mut dyn FnMut(Step<'_>)| {
        if let Some(Host { walk, .. }) = host() {
            walk(take);
        }
    };
    let recorded = with_recorder(inside, |recorder| {
        let of_unit = recorder.units.allocated(unit, block.addr(), drawn);
        let weight = recorder.weight_of_line(bytes, counted, drawn);
        let Recorder { samples, names, .. } = recorder;
        let of_line = samples.as_mut().zip(weight).map(|(samples, weight)| {
            let moment = clock::monotonic_coarse();
            let thread = names.number(&state().named, samples, samples.time.tick(moment));
            let allocation = Allocation {
                address: block.addr(),
                account: account as u8,
                thread,
                moment,
                weight,
            };
            let added = samples.add(allocation, &mut walk, heights(account));
            (added, weight.bytes)
        });
        (of_line, of_unit)
    });
    let (of_line, of_unit) = recorded.unwrap_or_default();
    let (added, weight) = of_line.unwrap_or((Added::Not, 0.0));
    // One that is not kept has no end either.
    if added != Added::Not && has_probes(account) {
        probes::allocated(block, size, weight);
    }
    added_to_both(added, of_unit)
}

impl Recorder {
    fn new(samples: Option<Samples>, former: Option<Recorder>, seed: Option<u64>) -> Self {
        let any = clock::monotonic() ^ (process::id() as u64) << 40;
        Recorder {
            samples,
            names: Names::new(former.as_ref().map(|former| &former.names)),
            units: former.map_or_else(Units::default, |former| former.units),
            chance: Chance::new(seed.unwrap_or(any)),
            is_repeatable: seed.is_some(),
        }
    }

    /// The weight of a sample of the lines. None if it is one of units alone: of those that are drawn by their interval, lines take so many
    /// as their own would have given.
    fn weight_of_line(&mut self, bytes: usize, counted: usize, drawn: Weight) -> Option<Weight> {
        let samples = self.samples.as_ref().filter(|samples| !samples.is_over)?;
        let weight = Weight::new(bytes, counted, samples.interval);
        // The blocks of a weight are one over the probability.
        let share = drawn.blocks / weight.blocks;
        self.chance.happens(share).then_some(weight)
    }

    /// Takes out a block that is freed: whether it was a sample of the lines, and whether one of a unit.
    fn remove(&mut self, block: *mut u8) -> (bool, bool) {
        let address = block.addr();
        let samples = self.samples.as_mut();
        let of_line = samples.is_some_and(|samples| samples.remove(address));
        (of_line, self.units.take_out(address).is_some())
    }
}

/// Whether the block is a sample of lines or units, and was one before.
fn added_to_both(of_line: Added, of_unit: Option<bool>) -> Added {
    match (of_line, of_unit) {
        (Added::Replaced, _) | (_, Some(true)) => Added::Replaced,
        (Added::New, _) | (_, Some(false)) => Added::New,
        (Added::Not, None) => Added::Not,
    }
}

/// Whether tracers are to see the samples of an account: theirs are blocks, and no maps.
fn has_probes(account: Account) -> bool {
    account != Account::Mapped
}

/// The ledger's live bytes, which are compared with the peaks. None if the samples' own sums are exact.
fn heights(account: Account) -> Option<Heights> {
    (STATE.line_interval.load(Relaxed) > 1).then(|| Heights {
        total: LEDGER.bound(Scope::Total),
        account: LEDGER.bound(Scope::Account(account)),
    })
}

/// Makes this moment the highest.
pub fn restart_peaks() {
    with(|samples| {
        samples.restart_peaks(|account| heights(*Account::ALL.get(usize::from(account))?));
    });
}

/// Begins to note which lines grow in a block of code, for the highest moment of its scope. `number` is the block's own. See
/// [`Samples::end_span`].
pub fn begin_span(number: u64, scope: Scope) {
    if !is_on() {
        return;
    }
    let account = match scope {
        Scope::Total => None,
        Scope::Account(account) => Some(account),
    };
    let heights = heights(account.unwrap_or(Account::Raw));
    with(|samples| samples.begin_span(number, account.map(|account| account as u8), heights));
}

/// Takes out a block of `account` that is about to be freed; false if it is no sample.
fn remove(account: Account, block: *mut u8, inside: &Inside<'_>) -> bool {
    let removed = with_recorder(inside, |recorder| recorder.remove(block));
    let (of_line, of_unit) = removed.unwrap_or_default();
    if of_line && has_probes(account) {
        probes::freed(block);
    }
    of_line || of_unit
}

/// Notes that a block of `account` is freed, if it is a sample: `heap` is the heap of its page. Inside the gate.
#[inline]
pub(crate) fn released(
    account: Account,
    block: *mut u8,
    heap: *mut ffi::Heap,
    inside: &Inside<'_>,
) {
    if is_sampled(heap, account) {
        remove(account, block, inside);
    }
}

/// Whether a block of `heap` may get `size` bytes where it lies: not if it would be a sample from then on, and its heap is
/// not one for samples.
#[inline]
pub(super) fn may_stay(
    state: &ThreadState,
    account: Account,
    heap: *mut ffi::Heap,
    size: usize,
) -> bool {
    if generation() != state.generation() {
        return false;
    }
    match state.is_sampling() && counts(account) {
        true => is_sampled(heap, account) || state.left.get() >= counted(size) && !is_whole(size),
        false => !is_sampled(heap, account),
    }
}

/// Counts a request that a block met where it lies, after [`may_stay`]: as if the old block was freed and a new one made.
#[inline]
pub(super) fn stayed(
    state: &ThreadState,
    account: Account,
    block: *mut u8,
    heap: *mut ffi::Heap,
    (bytes, size): (usize, usize),
    inside: &Inside<'_>,
) {
    if !state.is_sampling() || !counts(account) {
        return;
    }
    let is_due = is_due(state, size, inside);
    if is_sampled(heap, account) {
        remove(account, block, inside);
        if is_due {
            take(account, block, bytes, size, units::current(account), inside);
        }
    }
}

/// Calls `visit` with the addresses of each mapping that the samples lie in.
pub fn each_mapping(mut visit: impl FnMut(std::ops::Range<usize>)) {
    let inside = gate::enter(state().slot(), thread_id());
    with_recorder(&inside, |Recorder { samples, units, .. }| {
        let of_lines = samples.iter().flat_map(Samples::addresses);
        of_lines.chain(units.addresses()).for_each(&mut visit);
    });
}
