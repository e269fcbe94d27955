//! NumPy's array data: the host's NEP 49 handler, what it allocates from, and its installation.
//!
//! [`start`] prepares the chosen store before Python starts; [`extension_loaded`] installs the handler
//! the moment NumPy has been loaded; nothing here loads NumPy itself. Whatever is wrong with a NumPy,
//! the program runs on as it would under `python`, with one line on standard error.

mod capi;
mod install;
mod pads;
mod settings;
mod stores;

pub use settings::{
    Alignment, ArrayAllocator, ArrayRegion, ArraySettings, DEFAULT_ALIGNMENT, REGION_ALIGNMENT,
};

use crate::bytes::{Bytes, Exact};
use crate::cpython::objects::{Gil, Object, or_none};
use crate::descriptor::{Descriptor, notice};
use crate::error::{Error, Result};
use crate::heap::placement::{self, HugePages};
use crate::heap::{self, array_blocks, bfc, big_blocks, guards, pool, region};
use crate::{allocator::Allocator, check::faults, cpython::frames, ledger::Account, process};
use capi::{DataMemAllocator, DataMemHandler, handler_over};
use pads::Padded;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fmt::Write, sync::Mutex, sync::OnceLock};
use stores::{Bfc, Checked, Faulty, Guarded, Mimalloc, Pool, Store, System};

/// The choices in force, made by [`start`].
struct Plan {
    allocator: ArrayAllocator,
    alignment: usize,
    huge_pages: HugePages,
    node: Option<u32>,
    has_pads: bool,
}

pyhost_os::state! {
    /// What NumPy got, and whether it uses it.
    static STATE: ArrayHandler {
        /// A line says that array data is not counted.
        is_reported: AtomicBool = AtomicBool::new(false),
        plan: OnceLock<Plan> = OnceLock::new(),
        /// The handler; made once, and NumPy's from then on.
        handler: OnceLock<DataMemHandler> = OnceLock::new(),
        /// Whether it is installed in a NumPy of this process.
        active: AtomicBool = AtomicBool::new(false),
        version: OnceLock<String> = OnceLock::new(),
        /// Array data is left to NumPy: see [`hand_over`].
        handed_over: AtomicBool = AtomicBool::new(false),
        /// All that [`install`] did. Locked with the GIL held, and never across a call of Python's.
        changes: Mutex<Vec<install::Change>> = Mutex::new(Vec::new()),
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ArrayFigures {
    /// NumPy's version; `None` if it is not known.
    pub version: Option<&'static str>,
    pub allocator: &'static str,
    pub alignment: usize,
    pub huge_pages: &'static str,
    pub node: Option<u32>,
    pub pool: Option<pool::Statistics>,
    pub region: Option<bfc::Statistics>,
}

/// If `--numpy region` is not given: what is in use from the start.
const FIRST_REGION: u64 = 64 << 20;

/// libc's own alignment, which [`ArrayAllocator::System`] leaves.
const SYSTEM_ALIGNMENT: usize = 16;

/// Prepares what array data is made from. Before Python starts. `context` becomes the handler's
/// `ctx`; `debug_hooks` puts pads around array data.
///
/// # Errors
/// The region cannot be reserved, or the machine has no such node.
pub fn start(
    settings: &ArraySettings,
    allocator: Allocator,
    debug_hooks: bool,
    context: *mut c_void,
) -> Result<()> {
    let array_allocator = match (allocator, settings.allocator) {
        (Allocator::System, None) => ArrayAllocator::System,
        (_, None) => ArrayAllocator::Mimalloc,
        (_, Some(chosen)) => chosen,
    };
    let alignment = match array_allocator {
        ArrayAllocator::System => SYSTEM_ALIGNMENT,
        _ => settings.alignment.unwrap_or(DEFAULT_ALIGNMENT).0,
    };
    array_blocks::set_alignment(alignment);
    let huge_pages = settings.huge_pages.unwrap_or_default();
    let asks_itself = std::env::var_os("NUMPY_MADVISE_HUGEPAGE").is_none_or(|value| value != "0"); // of its `__init__`
    placement::set_huge_pages(huge_pages, asks_itself);
    if let Some(node) = settings.node {
        check_node(node)?;
        placement::set_node(node);
    }
    match array_allocator {
        ArrayAllocator::Pool => pool::set_limit(settings.pool_limit.unwrap_or_default()),
        ArrayAllocator::Bfc => reserve_region(settings.region)?,
        ArrayAllocator::Mimalloc | ArrayAllocator::System => {}
    }
    let handler = match array_allocator {
        ArrayAllocator::Mimalloc if heap::checked_blocks::is_on() => over::<Checked>(true, context),
        ArrayAllocator::Mimalloc => over::<Mimalloc>(debug_hooks, context),
        ArrayAllocator::Pool => over::<Pool>(debug_hooks, context),
        ArrayAllocator::Bfc => over::<Bfc>(debug_hooks, context),
        ArrayAllocator::System => over::<System>(debug_hooks, context),
    };
    let _ = STATE.handler.set(handler);
    let _ = STATE.plan.set(Plan {
        allocator: array_allocator,
        alignment,
        huge_pages,
        node: settings.node,
        has_pads: debug_hooks,
    });
    Ok(())
}

fn over<S: Store>(debug_hooks: bool, context: *mut c_void) -> DataMemHandler {
    // A guarded block has no pads: it ends at its page.
    match (debug_hooks, guards::are_on()) {
        (false, false) => faulty_over::<S>(context),
        (false, true) => faulty_over::<Guarded<S, false>>(context),
        (true, false) => faulty_over::<Padded<S>>(context),
        (true, true) => faulty_over::<Guarded<Padded<S>, true>>(context),
    }
}

fn faulty_over<S: Store>(context: *mut c_void) -> DataMemHandler {
    match faults::is_on() {
        true => handler_over::<Faulty<S>>(context),
        false => handler_over::<S>(context),
    }
}

fn reserve_region(asked: Option<ArrayRegion>) -> Result<()> {
    let region = asked.unwrap_or_else(|| {
        let maximum = process::physical_memory().max(FIRST_REGION);
        ArrayRegion {
            initial: FIRST_REGION,
            maximum,
        }
    });
    let reserve = |maximum: u64| region::reserve(region.initial as usize, maximum as usize);
    let reserved = match asked {
        Some(_) => reserve(region.maximum),
        // A limit on address space may leave room for less.
        None => std::iter::successors(Some(region.maximum), |maximum| Some(maximum / 2))
            .take_while(|&maximum| maximum >= FIRST_REGION)
            .any(reserve),
    };
    match reserved {
        true => Ok(()),
        false => Err(Error::option(format!(
            "--numpy region: the system gives no address space of {}; expected a size that it can \
             reserve",
            Exact(region.maximum)
        ))),
    }
}

/// Says on standard error that the region could not meet a request, with its map. Beneath NumPy's
/// allocation: does not allocate.
pub fn report_failure(map: &bfc::Map, size: usize) {
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    let _ = writeln!(
        out,
        "pyhost: no room for {size} bytes in the region of --numpy bfc; this is said once"
    );
    let mut trace = [0; 2048];
    let length = frames::trace(&mut trace);
    let calls = std::str::from_utf8(&trace[..length]).unwrap_or_default();
    if !calls.is_empty() {
        let _ = write!(out, "asked at, innermost first:\n{calls}");
    }
    let _ = map.write(&[], &mut out);
    for block in big_blocks::largest::<8>(Account::Numpy).iter().flatten() {
        let _ = write!(out, "live: {}", Bytes(block.bytes));
        let _ = match block.source.line {
            0 => writeln!(out, ", made by no line of Python"),
            _ => writeln!(out, ", made at {}", block.source),
        };
    }
    out.flush();
}

fn check_node(node: u32) -> Result<()> {
    let nodes = process::numa_nodes();
    if nodes.len() < 2 {
        return Err(Error::option(format!(
            "--numpy numa {node}: this machine has one memory node; expected a machine with \
             several"
        )));
    }
    if !nodes.contains(&node) {
        let names: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let names = names.join(", ");
        return Err(Error::option(format!(
            "--numpy numa: bad value '{node}'; expected one of {names}"
        )));
    }
    Ok(())
}

/// How the full name of NumPy's extension module ends, also if another package carries a copy.
const EXTENSION: &[u8] = b"._multiarray_umath";

/// Where the module is found once it is loaded: 2.x, then 1.x.
const NAMES: [&CStr; 2] = [
    c"numpy._core._multiarray_umath",
    c"numpy.core._multiarray_umath",
];

/// Installs the handler in a NumPy that is loaded already, such as by a `.pth` file. Once, after initialisation.
pub fn look_for_loaded(gil: Gil<'_>) {
    if let Some(module) = NAMES.into_iter().find_map(|name| gil.loaded(name)) {
        loaded(&module);
    }
}

/// Installs the handler if the extension module that has been loaded is NumPy's. No exception is set.
pub fn extension_loaded(name: &[u8], module: &Object<'_>) {
    if name.ends_with(EXTENSION) {
        loaded(module);
    }
}

/// Leaves array data to NumPy's own handler from here on, in each NumPy that is loaded or will be. Arrays
/// keep the handler that they were made by.
pub fn hand_over(gil: Gil<'_>) {
    STATE.handed_over.store(true, Relaxed);
    install::undo(gil);
}

/// A NumPy has been loaded. No exception is set.
fn loaded(extension: &Object<'_>) {
    if STATE.handed_over.load(Relaxed) {
        return;
    }
    let Some(handler) = STATE.handler.get() else {
        return;
    };
    match install::install(extension, handler) {
        Ok(()) => {
            let _ = numpy_version(extension.gil()).map(|version| STATE.version.set(version));
            STATE.active.store(true, Relaxed);
        }
        Err(refusal) => {
            if !STATE.is_reported.swap(true, Relaxed) {
                let version =
                    numpy_version(extension.gil()).map_or(String::new(), |version| version + " ");
                notice(format_args!(
                    "NumPy {version}runs on, but its array data is not counted: {refusal}"
                ));
            }
        }
    }
}

/// The version of the NumPy that is being loaded. No exception is set.
fn numpy_version(gil: Gil<'_>) -> Option<String> {
    // Which of the modules is there at this moment differs by NumPy's version.
    const PLACES: [(&CStr, &CStr); 3] = [
        (c"numpy.version", c"version"),
        (c"numpy._version", c"version_version"),
        (c"numpy", c"__version__"),
    ];
    PLACES.into_iter().find_map(|(module, attribute)| {
        let version = or_none(gil.loaded(module)?.attribute(attribute))?;
        version.with_text(|text| String::from_utf8_lossy(text).into_owned())
    })
}

/// The functions that allocate array data. After [`start`], any thread.
pub fn functions() -> Option<&'static DataMemAllocator> {
    let handler = STATE.handler.get()?;
    STATE.active.store(true, Relaxed);
    Some(&handler.allocator)
}

/// The least alignment of array data, in bytes.
pub fn alignment() -> usize {
    let plan = STATE.plan.get();
    plan.map_or(SYSTEM_ALIGNMENT, |plan| plan.alignment)
}

/// Where an array's data may begin, in bytes from the start of its block, for the blocks that a guard
/// serves and for the others.
pub fn leads() -> [usize; 3] {
    let Some(plan) = STATE.plan.get() else {
        return [0; 3];
    };
    let pads = if plan.has_pads { pads::lead() } else { 0 };
    match plan.allocator {
        ArrayAllocator::Pool => [pads, pads + pool::lead(), 0],
        _ => [pads, pads, 0],
    }
}

/// Whether array data is booked to `numpy` in this process.
pub fn is_active() -> bool {
    STATE.active.load(Relaxed)
}

/// The allocator of array data; `None` if this process has no array data. Also from a signal handler.
pub fn figures() -> Option<ArrayFigures> {
    let plan = STATE.plan.get().filter(|_| is_active())?;
    let uses = |allocator| plan.allocator == allocator;
    Some(ArrayFigures {
        version: STATE.version.get().map(String::as_str),
        allocator: plan.allocator.name(),
        alignment: plan.alignment,
        huge_pages: plan.huge_pages.name(),
        node: plan.node,
        pool: uses(ArrayAllocator::Pool).then(pool::statistics).flatten(),
        region: uses(ArrayAllocator::Bfc).then(region::statistics).flatten(),
    })
}
