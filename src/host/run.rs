//! The order of events: what the host does before, around and after the script.

use crate::check::{faults, leaks, stacks};
use crate::cpython::functions::watch_forks;
use crate::cpython::{self, frames, layout::unsafe_caps, native_calls, objects::Gil, threads};
use crate::error::{Error, Result};
use crate::ledger::{Account, HEADER, LEDGER};
use crate::libc_exports::native::{self, Mode, mapped};
use crate::limit::caps::{self, cap_errors};
use crate::limit::{budgets, recycling, region};
use crate::observe::report::{self, Ending, Facts};
use crate::observe::{at_exhausted, exit_report, lines, live, peak, timeline};
use crate::options::{self, Allocators, Options, Request};
use crate::python::interpreter::{self, Arguments, Interpreter};
use crate::python::{hooks, memray, module, numpy};
use crate::{allocator::Allocator, descriptor::notice, forks::Fork, libc_exports::idle_return};
use crate::{heap, heap::guards::GuardSettings, process, python::hooks::domains};
use pyhost_os::forks;
use pyhost_os::strings::{ProcessArguments, take_out};
use std::ffi::{CStr, OsStr, OsString};
use std::{borrow::Cow, io::Write, os::unix::ffi::OsStrExt};

/// Runs the host with the process's arguments; the exit status. `called` is the name that it was called by, if it is not the
/// first of them.
///
/// # Errors
/// A bad host option, or a host that cannot start; nothing was run.
pub fn run(arguments: ProcessArguments<'_>, called: Option<&CStr>) -> Result<i32> {
    heap::bounded_heap::main_begins();
    crate::resident::start();
    let strings = arguments.strings();
    let words = options::words(&strings, called).map(OsStr::from_bytes);
    match options::read(words.map(OsString::from).collect())? {
        Request::Help(text) => show(&text),
        Request::Version => {
            let (own, python) = (env!("CARGO_PKG_VERSION"), interpreter::version());
            let (mimalloc, baked) = (report::mimalloc_version(), options::baked::summary());
            show(&format!(
                "pyhost {own} (Python {python}, mimalloc {mimalloc})\n{baked}"
            ))
        }
        // A live file that stayed would be taken for that of a process that was killed.
        Request::Run(options) => run_python(*options, arguments)
            .inspect_err(|error| live::end(Ending::Exit(error.exit_status()), None)),
    }
}

/// Prints what the host itself was asked for, instead of running anything.
fn show(text: &str) -> Result<i32> {
    let mut out = std::io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written
        .map(|()| 0)
        .map_err(|_| Error::start("standard output cannot be written"))
}

fn run_python(mut options: Options, arguments: ProcessArguments<'_>) -> Result<i32> {
    let program = arguments.strings().iter().next().map(OsStr::from_bytes);
    if let (Some(program), Some(name)) = (program, options.python_argv.first_mut()) {
        program.clone_into(name);
    }
    heap::register(HOST);
    // Python's alone are left where libraries and the system look for them: setproctitle overwrites them there.
    take_out(arguments, options.host_words());
    caps::join(&mut options.caps.hard, &mut options.exports)?;
    let native = prepare_process(&mut options)?;
    prepare_heaps(&options, native)?;
    process::set_variables(&options.exports);

    let arguments = Arguments::new(std::mem::take(&mut options.python_argv));
    process::loaded::clear_error();
    interpreter::preinitialize(&arguments);

    let allocators = Allocators::choose(&options, native, domains::asked())?;
    install(&options, &allocators)?;
    plan_report(&mut options, &allocators);
    let interpreter = initialize(&options, &allocators, &arguments);
    begin_observation(interpreter.gil(), &mut options, &allocators)?;
    Ok(interpreter.run())
}

/// Decides whose malloc serves, and puts the region and the ledger where they were asked for.
fn prepare_process(options: &mut Options) -> Result<Mode> {
    for line in &options.notices {
        notice(format_args!("{line}"));
    }
    let native = native::choose(options.given.malloc, options.region.is_some());
    region::start(options, native)?;
    let host_words = options.host_words();
    let samples = options.timeline.is_on();
    let (argv, command) = (&options.argv, &options.command);
    if let Some(service) = &options.service {
        HEADER.service.set(&service.0);
    }
    let is_in_place = live::start(&options.live, samples, argv, host_words, command)?;
    if !is_in_place {
        options.give_up_live();
    }
    if live::is_shared() {
        timeline::start(&options.timeline);
    }
    forks::watch::<Fork>();
    Ok(native)
}

/// What the heap asks of the host.
const HOST: heap::Host = heap::Host {
    caps: caps::DECISIONS,
    units: budgets::DECISIONS,
    peak: peak::WATCHER,
    lines: frames::LINE_FINDER,
    walk: native_calls::calls,
    objects: hooks::each_object_page,
    answer: live::lines::answer,
    several_gils: cpython::several_gils,
    start_fails: live::start_fails,
    bfc_is_full: numpy::report_failure,
};

fn prepare_heaps(options: &Options, native: Mode) -> Result<()> {
    let guard = options.guard();
    if !heap::start(native != Mode::Off) {
        return Err(Error::start("mimalloc gives no heap"));
    }
    if native != Mode::Off {
        heap::retention::apply(options.retain);
        if let Some(signal_is_due) = frames::signal_is_due() {
            idle_return::start(frames::interpreter_function(), signal_is_due);
        }
        if guard != GuardSettings::Off
            && let Err(error) = heap::guards::start(guard, guarded_process())
        {
            notice(format_args!(
                "--guard: no addresses for guard pages ({error}); nothing is guarded"
            ));
        } else if cpython::IS_FREE_THREADED && guard != GuardSettings::Off {
            notice(format_args!(
                "--guard: a free-threaded Python has its objects on its own heap; neither obj nor small blocks are guarded"
            ));
        }
    } else if guard != GuardSettings::Off {
        notice(format_args!(
            "--guard: malloc is left to another allocator, and nothing is guarded"
        ));
    }
    if let Err(reason) = lines::start(options.lines, native) {
        notice(format_args!("--lines: {reason}; nothing is sampled"));
    }
    if options.given.lines_native == Some(true)
        && native != Mode::Off
        && let Err(reason) = native_calls::start(std::ptr::from_ref(options).addr())
    {
        notice(format_args!(
            "--lines native: {reason}; the stacks have calls of Python only"
        ));
    }
    heap::set_largest(process::largest_grant());
    if cpython::IS_FREE_THREADED {
        LEDGER.without_gil();
    }
    Ok(())
}

/// The process as guard pages must know it. A quarter of the memory that it may have is theirs.
fn guarded_process() -> heap::guards::Process {
    let limit = process::cgroup::group().map_or(u64::MAX, |group| group.bytes);
    heap::guards::Process {
        serves_small: !cpython::IS_FREE_THREADED,
        memory: (process::physical_memory().min(limit) / 4) as usize,
    }
}

/// Gives CPython and NumPy their allocators. Between pre-initialisation and initialisation.
fn install(options: &Options, allocators: &Allocators) -> Result<()> {
    let (python, debug_hooks) = (allocators.python, allocators.debug_hooks);
    let is_asked = options.asks_for_hooks() && debug_hooks;
    let has_heaps = python == Allocator::Mimalloc && native::mode() == Mode::Count;
    let can_check = has_heaps && !cpython::IS_FREE_THREADED;
    if is_asked && !can_check {
        let what = match cpython::IS_FREE_THREADED {
            true => "a free-threaded Python has",
            false => "blocks that are on another allocator (--allocator, --malloc) have",
        };
        notice(format_args!(
            "--debug-hooks: {what} CPython's own hooks alone"
        ));
    }
    if is_asked && can_check && !heap::checked_blocks::start() {
        return Err(Error::start(
            "no memory for the quarantine of --debug-hooks",
        ));
    }
    if heap::checked_blocks::is_on() || heap::guards::are_on() {
        stacks::start(
            std::ptr::from_ref(options).addr(),
            options.guard().library(),
        );
    }
    if heap::checked_requests::is_on() {
        native::inject(true);
        #[cfg(not(target_feature = "crt-static"))]
        native::operators::start();
    }
    if cpython::IS_FREE_THREADED && options.leak_check != leaks::Scope::Off {
        // The leak check says so if there is no room for it.
        heap::live_objects::start();
    }
    faults::start(&options.faults, native::inject);
    domains::install(python, debug_hooks);
    let context = hooks::context(Account::Numpy);
    numpy::start(&allocators.numpy, python, debug_hooks, context)
}

/// Records what the report will say of the process, and where it goes.
fn plan_report(options: &mut Options, allocators: &Allocators) {
    let argv = options.argv.iter().map(|word| word.to_string_lossy());
    let facts = Facts {
        python_version: interpreter::version().to_owned(),
        mimalloc: report::mimalloc_version(),
        argv: argv.map(Cow::into_owned).collect(),
        command: options.command.clone(),
        allocator: allocators.python.name(),
        debug_hooks: allocators.debug_hooks,
        native: native::mode().name(),
        profile: options.retain.name(),
    };
    live::describe(&facts);
    let (stats, status) = (options.stats.take(), options.given.leak_status);
    let status = status.unwrap_or(leaks::DEFAULT_STATUS);
    exit_report::plan(facts, stats, options.closing, status);
}

fn initialize(options: &Options, allocators: &Allocators, arguments: &Arguments) -> Interpreter {
    module::register();
    let interpreter = interpreter::initialize(arguments);
    let gil = interpreter.gil();
    heap::bounded_heap::python_started();
    if allocators.python == Allocator::Mimalloc && !cpython::IS_FREE_THREADED {
        module::answer_allocated_blocks(gil);
    }
    if hooks::has_unknown_sizes() {
        notice(format_args!(
            "obj: this libpython's mimalloc is not known; its blocks are counted without their bytes"
        ));
    }
    memray::watch(gil, options.given.malloc, allocators.debug_hooks);
    interpreter
}

/// Puts caps, the leak check, faults and the report's triggers to work, from here to the script's end.
fn begin_observation(gil: Gil<'_>, options: &mut Options, allocators: &Allocators) -> Result<()> {
    threads::note_main();
    let (first_refusal, end) = (report::first_refusal, exit_report::end_exhausted);
    cap_errors::deliver(gil, budgets::another_pays, first_refusal, end);
    exit_report::watch_peak(gil);
    live::lines::python_started();
    let is_capped = !options.caps.hard.0.is_empty() || options.region.is_some();
    if is_capped {
        process::loaded::load_unwinder();
        cap_errors::prepare_errors(gil);
    }
    at_exhausted::plan(options.given.at_exhausted.take());
    caps::measure_maps_by(|| mapped::resident_of(mapped::COUNTED), mapped::purge);
    caps::start(&options.caps, heap::slot())?;
    let unsafe_caps = || unsafe_caps(interpreter::version(), cpython::IS_FREE_THREADED);
    if let Some(why) = is_capped.then(unsafe_caps).flatten() {
        notice(format_args!("--cap, --region: {why}"));
    }
    if caps::is_in_tree() {
        watch_forks(gil, caps::refuses_fork);
    }
    let are_waits_seen = native::mode() != Mode::Off && frames::signal_is_due().is_some();
    recycling::start(options.recycling, are_waits_seen, report::show_lines);
    let python = allocators.python;
    let hooks = allocators.debug_hooks;
    let suppressions = std::mem::take(&mut options.leak_suppressions);
    leaks::start(gil, options.leak_check, python, hooks, suppressions)?;
    let is_reported = exit_report::is_planned() || leaks::is_on();
    if is_reported || faults::is_on() || timeline::brief::descriptor() >= 0 {
        module::watch_script_end(gil);
    }
    if is_reported || heap::checked_blocks::is_on() {
        interpreter::at_finalized(exit_report::python_finalized)?;
    }
    let profiled = options.given.profile_lines.take().unwrap_or_default();
    module::profile_lines(gil, &profiled, options.profile_file.take());
    exit_report::watch_signals();
    if exit_report::dumps_on_signal() {
        cpython::dump::watch(gil, exit_report::dump_on_signal);
    }
    faults::enable();
    heap::guards::script_begins();
    Ok(())
}
