//! Samples of blocks that are in none of the heaps for samples: of another allocator, of the guarded ones, and maps.

use super::gate::Inside;
use super::{
    Recorder, STATE, added_to_both, counted, drawn, gate, generation, has_probes, is_due, is_on,
    probes, remove, state, switch, take, thread_id, units, with_recorder,
};
use crate::ledger::Account;
use pyhost_sampler::{Added, TakenOut, UnitSample, Weight};
use std::{sync::atomic::AtomicU32, sync::atomic::Ordering::Relaxed};

/// How many samples lie at addresses with the same hash, of those in no heap for samples. Most blocks that are freed are
/// found to be no sample by one look here.
pub(super) static ELSEWHERE: [AtomicU32; 1 << 14] = [const { AtomicU32::new(0) }; 1 << 14];

fn elsewhere(block: *mut u8) -> &'static AtomicU32 {
    let mixed = (block.addr() as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &ELSEWHERE[(mixed >> 50) as usize]
}

/// Counts a block that is in none of the heaps: of another allocator, of the guarded ones, or a map. `block` is null if it
/// is a part of another account's block. Whether it is a sample.
#[cold]
pub fn booked(account: Account, block: *mut u8, bytes: usize) -> bool {
    if block.is_null() {
        return false;
    }
    let inside = gate::enter(state().slot(), thread_id());
    booked_inside(account, block, bytes, &inside)
}

/// [`booked`] for a caller inside the gate.
#[cold]
pub(crate) fn booked_inside(
    account: Account,
    block: *mut u8,
    bytes: usize,
    inside: &Inside<'_>,
) -> bool {
    let state = state();
    if generation() != state.generation() {
        switch(state, inside);
    }
    let added = match is_due(state, bytes, inside) {
        true => {
            let unit = units::admit(account, bytes, false, inside).unwrap_or(0);
            take(account, block, bytes, bytes, unit, inside)
        }
        false => Added::Not,
    };
    // One at this address whose end was not seen is counted already.
    if added == Added::New {
        elsewhere(block).fetch_add(1, Relaxed);
    }
    added != Added::Not
}

/// Notes that a block is freed that [`booked`] may have counted.
#[cold]
pub fn unbooked(account: Account, block: *mut u8) {
    if elsewhere(block).load(Relaxed) != 0 {
        unbooked_inside(account, block, &gate::enter(state().slot(), thread_id()));
    }
}

/// [`unbooked`] for a caller inside the gate.
#[cold]
pub(crate) fn unbooked_inside(account: Account, block: *mut u8, inside: &Inside<'_>) {
    if elsewhere(block).load(Relaxed) != 0 && remove(account, block, inside) {
        elsewhere(block).fetch_sub(1, Relaxed);
    }
}

/// A sample that was taken out while its block may go or move, of the samples of that number.
#[derive(Clone, Copy)]
pub struct Taken {
    of_line: Option<TakenOut>,
    of_unit: Option<UnitSample>,
    generation: u32,
}

/// [`unbooked`], before a call that may free or move the block, after which another thread may have its address; or which may
/// fail: then [`put_back`] follows.
pub fn take_out(account: Account, block: *mut u8) -> Option<Taken> {
    if !is_on() || elsewhere(block).load(Relaxed) == 0 {
        return None;
    }
    let inside = gate::enter(state().slot(), thread_id());
    let taken = with_recorder(&inside, |Recorder { samples, units, .. }| Taken {
        of_line: samples
            .as_mut()
            .and_then(|samples| samples.take_out(block.addr())),
        of_unit: units.take_out(block.addr()),
        generation: STATE.generation.load(Relaxed),
    })?;
    if taken.of_line.is_some() && has_probes(account) {
        probes::freed(block);
    }
    if taken.of_line.is_none() && taken.of_unit.is_none() {
        return None;
    }
    elsewhere(block).fetch_sub(1, Relaxed);
    Some(taken)
}

/// Puts back what [`take_out`] took.
pub fn put_back(account: Account, block: *mut u8, taken: Option<Taken>) {
    if let Some(taken) = taken {
        let inside = gate::enter(state().slot(), thread_id());
        let is_kept = put_back_grown(block, taken, 1.0, 0, &inside);
        if is_kept
            && has_probes(account)
            && let Some(sample) = taken.of_line
        {
            let Weight { bytes, blocks, .. } = sample.weight();
            probes::allocated(block, (bytes / blocks) as usize, bytes);
        }
    }
}

/// False if it could not be kept. `growth` is the bytes that it has grown by, if a point fell on them.
fn put_back_grown(
    block: *mut u8,
    taken: Taken,
    share: f64,
    growth: usize,
    inside: &Inside<'_>,
) -> bool {
    let added = with_recorder(inside, |recorder| {
        let (mut of_units, mut of_lines) = (Weight::default(), Weight::default());
        if growth > 0 {
            let counted = counted(growth) as usize;
            let drawn = drawn(growth, counted);
            of_units = drawn.without_block();
            let weight = recorder.weight_of_line(growth, counted, drawn);
            of_lines = weight.unwrap_or(Weight::default()).without_block();
        }
        let (address, Recorder { samples, units, .. }) = (block.addr(), recorder);
        // The site is one of those samples.
        let is_same = taken.generation == STATE.generation.load(Relaxed);
        let samples = samples.as_mut().filter(|_| is_same).zip(taken.of_line);
        let of_line =
            samples.map(|(samples, sample)| samples.put_back(address, sample, share, of_lines));
        let of_unit = taken.of_unit;
        let of_unit = of_unit.and_then(|it| units.put_back(address, it, share, of_units));
        added_to_both(of_line.unwrap_or(Added::Not), of_unit)
    });
    if added == Some(Added::New) {
        elsewhere(block).fetch_add(1, Relaxed);
    }
    added.is_some_and(|added| added != Added::Not)
}

/// A block that [`take_out`] was called for lies at `block` now, and has `bytes` in place of `before`. Draws for what it has
/// grown by, which is no block of its own.
pub fn resized(
    account: Account,
    block: *mut u8,
    taken: Option<Taken>,
    before: usize,
    bytes: usize,
) {
    if !is_on() {
        return;
    }
    let state = state();
    let inside = gate::enter(state.slot(), thread_id());
    if generation() != state.generation() {
        switch(state, &inside);
    }
    let growth = bytes.saturating_sub(before);
    let is_due = growth > 0 && is_due(state, growth, &inside);
    let share = bytes.min(before) as f64 / before.max(1) as f64;
    match taken {
        Some(taken) => {
            let growth = if is_due { growth } else { 0 };
            put_back_grown(block, taken, share, growth, &inside);
        }
        None if is_due => {
            let unit = units::current(account);
            if take(account, block, growth, growth, unit, &inside) == Added::New {
                elsewhere(block).fetch_add(1, Relaxed);
            }
        }
        None => {}
    }
}
