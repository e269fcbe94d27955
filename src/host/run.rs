//! The order of events: what the host does before, around and after the script.

use crate::allocator::Allocator;
use crate::bytes::Bytes;
use crate::caps;
use crate::descriptor::notice;
use crate::device;
use crate::endings;
use crate::error::Error;
use crate::faults;
use crate::handover;
use crate::heap;
use crate::hooks;
use crate::leaks::{self, Scope};
use crate::ledger::{Account, LEDGER};
use crate::live;
use crate::module;
use crate::native::{self, Mode, checkers, lookup};
use crate::numpy;
use crate::options::{self, Options, Request};
use crate::process;
use crate::process::limits::{self, Limit};
use crate::python::domains;
use crate::python::extensions;
use crate::python::freelists;
use crate::python::imports::{self, Watcher};
use crate::python::interpreter::{self, Arguments};
use crate::python::{self, place, surface, threads};
use crate::report::{self, Ending, Facts};
use crate::timeline;
use std::ffi::OsString;
use std::io::Write;

/// Runs the host with the process's arguments; the exit status.
///
/// # Errors
/// A bad host option, or a host that cannot start; nothing was run.
pub fn run(argv: Vec<OsString>) -> Result<i32, Error> {
    heap::bound::main_begins();
    crate::resident::start();
    match options::read(argv)? {
        Request::Help(text) => show(&text),
        Request::Version => show(&format!(
            "pyhost {} (Python {}, mimalloc {})\n{}",
            env!("CARGO_PKG_VERSION"),
            interpreter::version(),
            report::mimalloc_version(),
            options::baked::summary()
        )),
        // A live file that stayed would be taken for that of a process that was killed.
        Request::Run(options) => run_python(*options)
            .inspect_err(|error| live::end(Ending::Exit(error.exit_status()), None)),
    }
}

/// Prints what the host itself was asked for, instead of running anything.
fn show(text: &str) -> Result<i32, Error> {
    let mut out = std::io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written
        .map(|()| 0)
        .map_err(|_| Error::start("standard output cannot be written"))
}

fn run_python(mut options: Options) -> Result<i32, Error> {
    for line in &options.notices {
        notice(format_args!("{line}"));
    }
    lookup::learn_libc();
    let native = choose_native(&options);
    device::start(&options.region, native)?;
    // Before the heap's own handler of forks, which changes a child's ledger.
    let host_words = options.argv.len() - options.python_argv.len();
    let samples = options.timeline.is_on();
    let kept = live::start(
        &options.live,
        samples,
        &options.argv,
        host_words,
        &options.command,
    )?;
    if !kept.is_in_place {
        options.exports.retain(|(name, _)| name != options::LIVE);
        // Child processes would fail in the same way, each with a line.
        if std::env::var_os(options::LIVE).is_some() {
            let off = (options::LIVE.to_owned(), "off".into());
            options.exports.push(off);
        }
    }
    if kept.is_shared {
        timeline::start(&options.timeline);
    }
    native::mapped::watch_forks();
    if !heap::start(native != Mode::Off) {
        return Err(Error::start("mimalloc gives no heap"));
    }
    if native != Mode::Off {
        heap::profile::apply(options.profile);
        if let Err(error) = heap::guards::start(options.guard) {
            notice(format_args!(
                "--guard: no addresses for guard pages ({error}); nothing is guarded"
            ));
        }
    } else if options.guard != heap::guards::Settings::Off {
        notice(format_args!(
            "--guard: malloc is left to another allocator, and nothing is guarded"
        ));
    }
    heap::set_several_gils(python::several_gils);
    heap::set_largest(process::largest_grant());
    if cfg!(Py_GIL_DISABLED) {
        LEDGER.without_gil();
    }
    process::set_variables(&options.exports);

    let arguments = Arguments::new(options.python_argv);
    lookup::clear_error();
    interpreter::preinitialize(&arguments);

    let asked = domains::asked();
    if asked.is_taken {
        leave_to_preloaded();
    }
    let allocator = match native {
        Mode::Off => Allocator::System,
        _ if asked.is_taken => Allocator::System,
        _ => options
            .allocator
            .or(asked.allocator)
            .unwrap_or(Allocator::Mimalloc),
    };
    let debug_hooks = asked.debug_hooks || options.debug_hooks && !asked.is_taken;
    if allocator == Allocator::System && options.region.size.is_some() {
        return Err(device::refuse_system());
    }
    if allocator == Allocator::System {
        native::set_mode(Mode::Off);
    } else if cfg!(Py_GIL_DISABLED)
        && let Some(asked) = options.allocator
    {
        notice(format_args!(
            "--allocator {}: a free-threaded Python keeps OBJ on its own mimalloc, whose \
             blocks are counted without their bytes",
            asked.name()
        ));
    }
    faults::start(&options.faults, place::calls_in_a_line, native::inject);
    domains::install(allocator, debug_hooks);
    numpy::start(
        &numpy_settings(&options.numpy, native),
        allocator,
        debug_hooks,
        hooks::context(Account::Numpy),
    )?;

    let python = interpreter::version();
    let facts = Facts::gather(
        &options.argv,
        &options.command,
        python,
        allocator.name(),
        debug_hooks,
        options.profile.name(),
    );
    live::describe(&facts);
    endings::plan(
        facts,
        options.stats,
        options.closing_line,
        options.leak_status,
    );

    module::register();
    interpreter::initialize(&arguments);
    heap::bound::python_started();
    if allocator == Allocator::Mimalloc && !cfg!(Py_GIL_DISABLED) {
        module::answer_allocated_blocks();
    }
    watch_extensions(options.native, debug_hooks);
    surface::arm(report::first_refusal, endings::end_exhausted);
    endings::watch_peak(surface::peak_watcher());
    let is_capped = !options.caps.hard.0.is_empty();
    if is_capped || options.region.size.is_some() {
        threads::load_unwinder();
    }
    if is_capped {
        surface::prepare_errors();
    }
    caps::start(&options.caps, heap::slot())?;
    start_leak_check(options.leak_check, allocator, debug_hooks)?;
    let tells_of_the_end = endings::is_planned() || timeline::brief::descriptor() >= 0;
    if tells_of_the_end || faults::is_on() || leaks::is_armed() {
        module::watch_script_end();
    }
    if endings::is_planned() || leaks::is_armed() {
        interpreter::at_finalized(python_finalized)?;
    }
    endings::watch_signals();
    if endings::dumps_on_signal() {
        python::dump::watch(endings::dump_on_signal);
    }
    faults::arm();
    Ok(interpreter::run())
}

/// Watches for leaks from here on, where that is asked for and every block lies in a heap of the
/// host's.
fn start_leak_check(scope: Scope, allocator: Allocator, debug_hooks: bool) -> Result<(), Error> {
    if scope != Scope::Off && (allocator != Allocator::Mimalloc || cfg!(Py_GIL_DISABLED)) {
        notice(format_args!(
            "--leak-check: CPython's own allocator has blocks that the host does not see; nothing \
             is checked"
        ));
        return Ok(());
    }
    if scope == Scope::Off {
        return Ok(());
    }
    freelists::clear();
    if !leaks::arm(scope, debug_hooks) {
        return Err(Error::start("mimalloc gives no heap"));
    }
    // What a module makes while it is imported is the module's own. An object off a free list lies
    // in a block of another time, so the lists are emptied on the way.
    let watcher = Watcher {
        begin: || {
            if !heap::mark::is_before() {
                freelists::clear();
            }
            heap::mark::enter_before();
        },
        end: || {
            if heap::mark::is_outermost() {
                freelists::clear();
            }
            heap::mark::leave_before();
        },
    };
    if !imports::watch(watcher) {
        notice(format_args!(
            "--leak-check: imports cannot be watched in this Python: objects that modules keep count as leaks"
        ));
    }
    Ok(())
}

extern "C" fn python_finalized() {
    endings::python_finalized();
}

/// Sees NumPy and memray being loaded. Memory is handed over to memray unless `--native` asks for malloc to be
/// served by the host.
fn watch_extensions(native: Option<Mode>, debug_hooks: bool) {
    if native.is_none_or(|asked| asked == Mode::Off) {
        handover::arm(debug_hooks);
    }
    let watcher = extensions::Watcher {
        begins: handover::extension_begins,
        loaded: numpy::extension_loaded,
    };
    if !extensions::watch(watcher) {
        notice(format_args!(
            "the loading of NumPy and memray cannot be watched in this Python: array data is not \
             counted, and memray sees few allocations"
        ));
    }
    numpy::look_for_loaded();
}

/// Says that CPython's allocators are a preloaded library's, unless the tool was named already.
fn leave_to_preloaded() {
    if native::left_to().is_none() {
        native::leave_to("a preloaded library");
        notice(format_args!(
            "a preloaded library has put its own allocators in place of CPython's: they are left to it \
             (--native off)"
        ));
    }
}

/// What holds for array data: as asked, but beneath a tool that must see every block all is left
/// to it.
fn numpy_settings(asked: &numpy::Settings, native: Mode) -> numpy::Settings {
    match native {
        Mode::Off => numpy::Settings::default(),
        _ => *asked,
    }
}

/// How the process's malloc serves: as asked, else not at all beneath a tool that must see
/// every block, or under a limit that leaves too little for the heaps.
fn choose_native(options: &Options) -> Mode {
    let mode = match (options.native, checkers::at_work()) {
        (Some(mode), _) => mode,
        (None, None) => match limits::too_tight().filter(|_| options.region.size.is_none()) {
            None => Mode::Count,
            Some(Limit { command, bytes }) => {
                notice(format_args!(
                    "{command} leaves {}, too little for heaps of the host's own: malloc and \
                     CPython's allocators are the system's (--native off)",
                    Bytes(bytes)
                ));
                Mode::Off
            }
        },
        (None, Some(tool)) => {
            native::leave_to(tool);
            notice(format_args!(
                "{tool} is at work: malloc and CPython's allocators are left to it \
                 (--native off)"
            ));
            Mode::Off
        }
    };
    native::set_mode(mode);
    mode
}
