//! The leak check (`--leak-check`): after finalisation, the blocks that were allocated since the
//! script's start, are still live and cannot be reached from anywhere.
//!
//! [`start`] sets the mark when Python has been initialised, [`script_ended`] keeps what tracemalloc knows, [`check`]
//! looks when Python has been finalised and the process is about to end. What CPython of each version leaves on
//! purpose, what modules keep in static variables, and what was there before the script are reached, or older than the
//! mark; `docs/debug/leak-check.md` has the rule and the figures.

mod memory;
mod reach;
mod registers;
mod sites;
mod suppressions;
mod table;
mod types;

pub use suppressions::{Rule, Suppressions};
pub use types::look as look_at_types;

use crate::allocator::Allocator;
use crate::check::stacks;
use crate::cpython::imports::{self, Watcher};
use crate::cpython::layout::objects_in_blocks::{self, Memory, NAME};
use crate::cpython::{IS_FREE_THREADED, freelists, objects::Gil, threads};
use crate::descriptor::notice;
use crate::error::{Error, Result};
use crate::heap::call_site::CallSite;
use crate::heap::call_site::native_stacks::MOST;
use crate::heap::gate::Closed;
use crate::heap::guards;
use crate::heap::out_of_bounds::{self, HOOK};
use crate::heap::source_line::SourceLine;
use crate::heap::{self, leak_mark, live_objects, pool, region, thread_pointers};
use crate::ledger::Account;
use crate::python::hooks;
pub use memory::{StackTop, leave_out};
use pyhost_os::{path_template::format_into, terminal_text::leading_text};
use reach::Block;
pub use reach::Broken;
use sites::Site;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use suppressions::{Call, Facts};
use table::{Table, new_table};

/// Which accounts are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    #[default]
    Off = 0,
    /// CPython's three domains and NumPy's array data.
    Python = 1,
    /// Those and the process's malloc.
    Native = 2,
}

/// The exit status of a leak if none is chosen.
pub const DEFAULT_STATUS: u8 = 23;

/// Bytes of a pointer.
const WORD: usize = size_of::<usize>();

/// Kinds of lost blocks that are listed; further kinds are only counted.
const MOST_GROUPS: usize = 4096;

pyhost_os::state! {
    /// What the check looks for, and what it found.
    static STATE: LeakCheck {
        scope: AtomicU8 = AtomicU8::new(Scope::Off as u8),
        debug_hooks: AtomicBool = AtomicBool::new(false),
        /// Threads of Python that outlived the script, but for its own.
        threads: AtomicUsize = AtomicUsize::new(0),
        suppressions: OnceLock<Suppressions> = OnceLock::new(),
        findings: OnceLock<Findings> = OnceLock::new(),
    }
}

/// Lost blocks of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The account that they are booked to.
    pub account: Account,
    /// Usable bytes of each: the size class.
    pub size: usize,
    pub blocks: u64,
    /// The name of the objects' type, filled up with zeros; all zero if they are no objects.
    name: [u8; NAME],
    site: Option<Site>,
    /// What allocated them, if blocks keep it.
    pub origin: CallSite,
    source: SourceLine,
}

impl Group {
    /// The name of the objects' type; empty if they are no objects.
    pub fn type_name(&self) -> &str {
        leading_text(&self.name)
    }

    /// The file and the line that allocated them, if tracemalloc knew, or the blocks.
    pub fn place(&self) -> Option<(&str, i32)> {
        place_of(self.site, &self.source)
    }

    pub fn bytes(&self) -> u64 {
        self.blocks * self.size as u64
    }
}

pub struct Findings {
    /// Threads of Python that still ran when the script had ended: what their frames hold is lost
    /// without any fault of the script's.
    pub threads: usize,
    /// Whether there were further interpreters, of which CPython itself loses blocks.
    pub interpreters: bool,
    pub blocks: u64,
    pub bytes: u64,
    /// The lost blocks by kind, most bytes first.
    pub groups: Table<Group>,
    /// The pages in which a block was freed twice, or was written to after its release. Their live blocks
    /// are unknown, so none of their blocks is reported as lost.
    pub broken: Table<Broken>,
}

impl Findings {
    /// Whether a lost block is the script's fault, or a library's, beyond doubt.
    pub fn is_sure(&self) -> bool {
        self.threads == 0 && !self.interpreters
    }

    /// The rules that matched blocks, which are not among those that are reported.
    pub fn suppressed(&self) -> impl Iterator<Item = &'static Rule> {
        suppressions().flat_map(Suppressions::used)
    }

    /// The rules that matched nothing, if they are to be named.
    pub fn unused(&self) -> impl Iterator<Item = &'static Rule> {
        suppressions().flat_map(Suppressions::unused)
    }

    /// Whether there is nothing to report.
    pub fn is_nothing(&self) -> bool {
        self.blocks == 0 && self.broken.is_empty()
    }
}

fn suppressions() -> impl Iterator<Item = &'static Suppressions> {
    STATE.suppressions.get().into_iter()
}

/// Starts the leak check if `scope` asks for it and every block is in a heap of the host; otherwise prints
/// a notice with the reason. Called once, after Python's initialisation, while the process has one thread.
pub fn start(
    gil: Gil<'_>,
    scope: Scope,
    allocator: Allocator,
    debug_hooks: bool,
    suppressions: Suppressions,
) -> Result<()> {
    if scope == Scope::Off {
        return Ok(());
    }
    let _ = STATE.suppressions.set(suppressions.with_built_in());
    if allocator != Allocator::Mimalloc
        || IS_FREE_THREADED && !live_objects::are_kept()
        || hooks::has_unknown_sizes()
    {
        notice(format_args!(
            "--leak-check: CPython's own allocator has blocks that the host does not see; nothing \
             is checked"
        ));
        return Ok(());
    }
    memory::learn_description();
    freelists::clear(gil);
    if !set_mark(scope, debug_hooks) {
        return Err(Error::start("mimalloc gives no heap"));
    }
    // Objects that a module creates during its import belong to the module. An object from a free list
    // has an older block, so the lists are emptied before and after.
    let watcher = Watcher {
        begin: |gil| {
            if !leak_mark::is_before() {
                freelists::clear(gil);
            }
            leak_mark::enter_before();
        },
        end: |gil| {
            if leak_mark::is_outermost() {
                freelists::clear(gil);
            }
            leak_mark::leave_before();
        },
    };
    if !imports::watch(gil, watcher) {
        notice(format_args!(
            "--leak-check: imports cannot be watched in this Python: objects that modules keep count as leaks"
        ));
    }
    Ok(())
}

/// Begins to watch: what is allocated from here on counts. False if mimalloc gives no heap.
fn set_mark(scope: Scope, debug_hooks: bool) -> bool {
    STATE.debug_hooks.store(debug_hooks, Relaxed);
    if scope == Scope::Native {
        thread_pointers::watch();
    }
    let set = leak_mark::set(scope == Scope::Native);
    if set {
        STATE.scope.store(scope as u8, Relaxed);
    }
    set
}

/// Gives the check up: not all blocks lie in heaps of the host's any more.
pub fn disable() {
    STATE.scope.store(Scope::Off as u8, Relaxed);
}

pub fn is_on() -> bool {
    scope() != Scope::Off
}

fn scope() -> Scope {
    let chosen = STATE.scope.load(Relaxed);
    let mut all = [Scope::Python, Scope::Native].into_iter();
    all.find(|&scope| scope as u8 == chosen)
        .unwrap_or(Scope::Off)
}

fn accounts() -> &'static [Account] {
    let all = &Account::WITH_BLOCKS;
    &all[..all.len() - usize::from(scope() != Scope::Native)]
}

/// Bytes of CPython's debug hooks in front of the program's in the block that starts at an address.
fn front(start: usize) -> usize {
    let has_none = guards::do_lie_over_hooks() && guards::owns(start as *mut u8);
    HOOK * usize::from(STATE.debug_hooks.load(Relaxed) && !has_none)
}

/// The script has ended: waits a moment for threads that are ending too, and keeps where its blocks
/// were allocated, if tracemalloc knows.
pub fn script_ended(gil: Gil<'_>) {
    if is_on() {
        STATE.threads.store(threads::wait_for_ends(gil), Relaxed);
        sites::keep(gil, accounts());
        memory::clear_unused_stack();
    }
}

/// The bytes that the program has asked for, as far as they are known, without those of CPython's hooks.
fn asked(block: &Block) -> usize {
    match front(block.start) {
        0 => block.size,
        _ => out_of_bounds::asked_of(block.account, block.size),
    }
}

/// Looks for lost blocks. Once, after finalisation, in the thread that ends the process, whose stack is
/// searched from `top` on. None if the check is not on, or the system has no memory for it.
pub fn check(top: &StackTop) -> Option<&'static Findings> {
    if !is_on() {
        return None;
    }
    if let Some(findings) = STATE.findings.get() {
        return Some(findings);
    }
    threads::wait_for_last_frees();
    pool::give_back_all();
    let found =
        arrays_of_region().and_then(|arrays| heap::alone(|closed| look(closed, &arrays, top)));
    if found.is_none() {
        notice(format_args!(
            "--leak-check: the system has no memory for its tables (see ulimit -v and -d); nothing is checked"
        ));
    }
    found.map(|found| STATE.findings.get_or_init(|| found))
}

/// The findings of [`check`]; `None` before it has run.
pub fn findings() -> Option<&'static Findings> {
    STATE.findings.get()
}

/// The live blocks of `--numpy bfc`, in memory that is not searched for pointers.
fn arrays_of_region() -> Option<Table<(usize, usize)>> {
    let chunks = region::live_chunks()?;
    let mut table = new_table(chunks.len())?;
    table.extend(chunks.iter().copied());
    Some(table)
}

fn look(closed: &Closed, arrays: &[(usize, usize)], top: &StackTop) -> Option<Findings> {
    let mut ranges = memory::ranges(top)?;
    let objects = memory::objects()?;
    let mut far = new_table(memory::MOST_FAR)?;
    memory::add_mapped(&mut far);
    if scope() == Scope::Native {
        registers::add(&mut ranges);
        memory::add_descriptions(&mut far);
        memory::add_stacks(&mut far, &objects);
    }
    let mut broken = new_table(MOST_GROUPS)?;
    let places: [&[_]; 2] = [&ranges, &far];
    let memory = reach::Readable {
        ranges: &ranges,
        objects: &objects,
    };
    let mut blocks = reach::find(closed, accounts(), arrays, places, &memory, &mut broken)?;
    let mut findings = Findings {
        threads: STATE.threads.load(Relaxed),
        interpreters: threads::were_several_interpreters(),
        blocks: 0,
        bytes: 0,
        groups: new_table(MOST_GROUPS)?,
        broken,
    };
    let is_lost = |block: &&Block| {
        let is_tracemallocs = || {
            let front = front(block.start);
            let (start, size) = (block.start + front, block.size.saturating_sub(front));
            sites::may_be_tracemallocs(&memory, block.account, start, size)
        };
        !block.is_reached && !is_tracemallocs()
    };
    for rules in suppressions() {
        let mut known = new_table(blocks.len().max(1))?;
        for (index, block) in blocks.iter().enumerate() {
            if is_lost(&block)
                && let Some(rule) = rule_for(closed, rules, block, &memory)
            {
                rule.count(asked(block));
                known.push(index as u32);
            }
        }
        // What such a block holds is not lost either.
        reach::keep(&mut blocks, known);
    }
    for block in blocks.iter().filter(is_lost) {
        findings.blocks += 1;
        findings.bytes += asked(block) as u64;
        add(closed, &mut findings.groups, block, &memory);
    }
    let groups = &mut findings.groups;
    groups.sort_unstable_by_key(|group| std::cmp::Reverse(group.bytes()));
    Some(findings)
}

/// The type of the object in a block, and where the block was allocated.
fn kind_of(block: &Block, memory: &impl Memory) -> ([u8; NAME], Option<Site>) {
    let name = block.object.map_or([0; NAME], |object| {
        objects_in_blocks::type_name(memory, object.kind)
    });
    (name, sites::site_of(block.start + front(block.start)))
}

fn place_of(site: Option<Site>, source: &SourceLine) -> Option<(&str, i32)> {
    let kept = || (source.file(), source.line);
    let known = || Some(kept()).filter(|(file, _)| !file.is_empty());
    site.map(|site| (site.file(), site.line)).or_else(known)
}

/// What allocated a block, if blocks keep it.
fn origin_of(closed: &Closed, block: &Block) -> CallSite {
    heap::call_site_of(closed, block.start).unwrap_or_default()
}

/// The rule that matches a lost block.
fn rule_for<'a>(
    closed: &Closed,
    rules: &'a Suppressions,
    block: &Block,
    memory: &impl Memory,
) -> Option<&'a Rule> {
    let mut room = [0; 1024];
    let (name, site) = kind_of(block, memory);
    let origin = origin_of(closed, block);
    let source = origin.source();
    let line = place_of(site, &source).map_or(&[][..], |(file, line)| {
        format_into(&mut room, format_args!("{file}:{line}"))
    });
    let mut places = [const { None }; MOST];
    let known = places.iter_mut().zip(stacks::places(origin.calls));
    let count = known.map(|(place, known)| *place = Some(known)).count();
    let mut calls = [Call::default(); MOST];
    let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
    for (call, place) in calls.iter_mut().zip(places.iter().flatten()) {
        call.library = text(place.library());
        if rules.compares_functions() {
            call.function = place.name().map_or("", text);
        }
    }
    rules.matching(&Facts {
        account: block.account,
        size: asked(block),
        kind: leading_text(&name),
        line: str::from_utf8(line).unwrap_or_default(),
        calls: &calls[..count],
    })
}

fn add(closed: &Closed, groups: &mut Table<Group>, block: &Block, memory: &impl Memory) {
    let (name, site) = kind_of(block, memory);
    let (origin, size) = (origin_of(closed, block), asked(block));
    let same = |group: &&mut Group| {
        group.account == block.account
            && group.size == size
            && group.name == name
            && group.site == site
            && group.origin == origin
    };
    if let Some(group) = groups.iter_mut().find(same) {
        group.blocks += 1;
    } else {
        groups.push(Group {
            account: block.account,
            size,
            blocks: 1,
            name,
            site,
            origin,
            source: origin.source(),
        });
    }
}
