//! From the process's arguments and environment to checked options. The only place that reads the host's variables.

mod allocators;
pub mod baked;
mod bounds;
mod checks;
pub mod early;
mod kinds;
mod outputs;
mod page;
mod reader;
mod table;
mod values;
mod words;

use crate::check::leaks::{Scope, Suppressions};
use crate::error::{Error, Result};
use crate::heap::guards::GuardSettings;
use crate::heap::retention::Retention;
use crate::observe::report::{Destination, Format, Stats, command};
use crate::observe::{lines::LineSettings, live, timeline};
use crate::process;
use crate::python::numpy::{ArrayAllocator, ArraySettings, REGION_ALIGNMENT};
use crate::{allocator::Allocator, descriptor::name_process, ledger::Account};
use crate::{libc_exports::native::Mode, limit::recycling::RecycleSettings};
pub use allocators::Allocators;
use kinds::DebugHooks;
pub use kinds::Help;
use outputs::{Outputs, STATS_FILE};
use pyhost_os::{calls, file::is_open, strings::Strings};
use reader::{host_options, is_python_name, parts_of};
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStrExt;
use table::{ROWS, Values};
pub use words::command;

/// Names the outermost host of a family of processes, by its process id.
const OUTERMOST: &str = "PYHOST_OUTERMOST";
const LIVE: &str = "PYHOST_LIVE";
const UNPRINTED_LINES: &str = "--lines: --stats=off prints no lines; pyhost.lines() returns them, and with --live `pyhostctl lines PID` shows them";

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[derive(Debug)]
pub struct Options {
    /// What was given. The fields below are what follows from it, where that is another thing.
    pub given: Values,
    pub retain: Retention,
    /// `--cap`, `--soft-cap` and `--cap-share`.
    pub caps: crate::limit::caps::CapSettings,
    pub recycling: Option<RecycleSettings>,
    /// The size of the region.
    pub region: Option<u64>,
    pub numpy: ArraySettings,
    pub faults: checks::FaultSettings,
    pub lines: LineSettings,
    pub profile_file: Option<Vec<u8>>,
    pub leak_check: Scope,
    pub leak_suppressions: Suppressions,
    /// The report that this process shall write; None where another process does, or none.
    pub stats: Option<Stats>,
    pub live: live::LedgerPlace,
    pub timeline: timeline::TimelineSettings,
    /// Whether an interactive run ends with what `--stats` did not ask for: one line, or the table of `--lines`.
    pub closing: bool,
    pub argv: Vec<OsString>,
    /// The script's name.
    pub command: String,
    pub service: Option<command::Service>,
    /// The program's name, then Python's arguments.
    pub python_argv: Vec<OsString>,
    /// Variables to set, so that children inherit what the command line gave.
    pub exports: Vec<(String, OsString)>,
    /// Lines to be shown first: outputs that cannot be written.
    pub notices: Vec<String>,
}

impl Options {
    /// Whether `--debug-hooks` was given.
    pub fn asks_for_hooks(&self) -> bool {
        let hooks = self.given.debug_hooks;
        hooks.is_some_and(|hooks| hooks != DebugHooks::Off)
    }

    /// Which blocks are to be guarded.
    pub fn guard(&self) -> GuardSettings {
        let given = self.given.guard;
        match self.given.debug_hooks {
            Some(DebugHooks::Guard) => given.map_or(GuardSettings::FULL, GuardSettings::beside_all),
            _ => given.unwrap_or(GuardSettings::Off),
        }
    }

    /// How many arguments after the program's name are the host's.
    pub fn host_words(&self) -> usize {
        self.argv.len() - self.python_argv.len()
    }

    /// Takes `--live` from child processes: they would fail as this one did, each with a line.
    pub fn give_up_live(&mut self) {
        self.exports.retain(|(name, _)| name != LIVE);
        if std::env::var_os(LIVE).is_some() {
            self.exports.push((LIVE.to_owned(), "off".into()));
        }
    }
}

/// The action that the arguments ask for.
pub enum Request {
    Run(Box<Options>),
    /// Print the host's help on stdout and end with status 0.
    Help(String),
    /// Print the host's version on stdout and end with status 0.
    Version,
}

/// The words of the command line, with the name that the host was called by in the place of the program's. Allocates nothing.
pub fn words<'a>(
    arguments: &Strings<'a>,
    called: Option<&'a CStr>,
) -> impl Iterator<Item = &'a [u8]> + Clone {
    let name = called.map(CStr::to_bytes);
    let rest = arguments.iter().skip(usize::from(name.is_some()));
    name.into_iter().chain(rest)
}

/// Reads `argv` and the environment. An error names a bad option or variable, and what was expected.
pub fn read(argv: Vec<OsString>) -> Result<Request> {
    let as_python = (argv.first()).is_some_and(|name| is_python_name(name.as_bytes()));
    let words = argv.iter().skip(1).map(|word| word.as_bytes());
    let words = words.take(if as_python { 0 } else { usize::MAX });
    let host_count: usize = host_options(words.clone()).map(|found| found.words).sum();
    words::check(words.clone())?;
    let is_trusted = !process::is_privileged_start();
    let mut values = Values::default();
    for row in ROWS.iter().rev() {
        let text = variable(row.variable).filter(|_| is_trusted);
        let text = text.as_ref().map(|text| text.as_bytes());
        let words = words.clone().map(|word| -> &[u8] { word });
        values.read(row, parts_of(row, words, text))?;
        // They come first: the values of others may be wrong.
        if let Some(which) = values.help {
            return Ok(Request::Help(words::help(which)));
        }
        if values.host_version.is_some() {
            return Ok(Request::Version);
        }
    }
    // An exec keeps the process id: then this is still the outermost host.
    let own = process::id().to_string();
    let inherited = is_trusted && variable(OUTERMOST).is_some_and(|pid| pid != own.as_str());
    if inherited {
        name_process();
    }
    let mut outputs = Outputs {
        inherited,
        ..Outputs::default()
    };
    let region = bounds::region(&values)?;
    let faults = checks::faults(&mut values, &mut outputs)?;
    let directory = variable(LIVE).filter(|_| is_trusted);
    let live = outputs::place(&mut values, directory, &mut outputs)?;
    let profile_file = values.profile_file.clone();
    let profile_file = outputs.file(outputs::PROFILE_FILE, profile_file, &mut values)?;
    let is_named = values.stats_file.is_some();
    let mut stats = stats(&mut values, &mut outputs)?;
    let mut timeline = outputs::observation(&mut values, &mut outputs)?;
    if let Some(asked) = stats.take_if(|stats| stats.format == Format::Html) {
        stats = page::plan(asked, &mut timeline, !is_named, &mut values, &mut outputs)?;
    }
    if !as_python {
        words::check_rest(argv.get(host_count..).unwrap_or_default())?;
    }
    let mut python_argv: Vec<OsString> = argv.iter().take(1).cloned().collect();
    python_argv.extend(argv.iter().skip(1 + host_count).cloned());
    let caps = bounds::caps(&values)?;
    let bounded = region.is_some() || !caps.hard.0.is_empty();
    let text_of = |name| {
        let text = variable(name).filter(|_| is_trusted);
        text.map(|text| text.to_string_lossy().into_owned())
    };
    let (script, of_otel) = (text_of(command::SCRIPT), text_of("OTEL_SERVICE_NAME"));
    let is_first = || !(as_python || inherited || process::has_ancestor_of_its_kind());
    let exported = values.exports(&outputs.missing);
    let service = values.service.take().or_else(|| of_otel?.parse().ok());
    let mut options = Options {
        live,
        timeline,
        retain: bounds::retain(&values, bounded)?,
        caps,
        recycling: bounds::recycling(&values)?,
        region,
        numpy: numpy(&values),
        faults,
        leak_check: (values.leak_check)
            .or(values.has("--leak-check").then_some(Scope::Python))
            .unwrap_or_default(),
        leak_suppressions: checks::suppressions(&values, &mut outputs)?,
        lines: (values.lines)
            .or(values.has("--lines").then_some(LineSettings::DEFAULT))
            .unwrap_or(LineSettings::Off),
        profile_file,
        closing: calls::isatty(libc::STDERR_FILENO) == 1 && !values.has("--stats") && is_first(),
        stats,
        command: command::name(python_argv.get(1..).unwrap_or_default(), script.as_deref()),
        service,
        python_argv,
        exports: exported,
        given: values,
        notices: outputs.notices,
        argv,
    };
    check(&options)?;
    // Nothing goes into the environment of a script that the user did not ask for.
    let has_file = options.profile_file.is_some() || options.faults.log.is_some();
    let asked = options.stats.is_some() || options.timeline.is_on() || has_file;
    let is_watched = asked || options.live != live::LedgerPlace::Own;
    if is_watched && command::is_a_scripts(&options.command) {
        let script = options.command.clone().into();
        options.exports.push((command::SCRIPT.to_owned(), script));
    }
    if asked && !inherited {
        options.exports.push((OUTERMOST.to_owned(), own.into()));
    }
    Ok(Request::Run(Box::new(options)))
}

fn refuse_if(is_wrong: bool, text: &str) -> Result<()> {
    match is_wrong {
        true => Err(Error::option(text)),
        false => Ok(()),
    }
}

/// Refuses what does not go together.
fn check(options: &Options) -> Result<()> {
    let on_mimalloc = [Some(Allocator::Mimalloc), Some(Allocator::Pymalloc)];
    refuse_if(
        options.given.malloc == Some(Mode::Off) && on_mimalloc.contains(&options.given.allocator),
        "--malloc off: leaves no domain on mimalloc, but --allocator asks for it; expected \
         --allocator system",
    )?;
    refuse_if(
        options.guard().is_without_effect(),
        "--guard library: --debug-hooks=guard guards the blocks of all code; add align=1 or align=16, for those of the library, or leave =guard out",
    )?;
    check_numpy(options)?;
    bounds::check_region(options)?;
    early::check(options.region)?;
    bounds::check_caps(options)?;
    checks::check_faults(options)
}

fn numpy(values: &Values) -> ArraySettings {
    ArraySettings {
        allocator: values.numpy,
        alignment: values.numpy_align,
        huge_pages: values.numpy_huge_pages,
        node: values.numpy_numa,
        pool_limit: values.numpy_limit,
        region: values.numpy_region,
    }
}

/// Refuses what goes with another choice only.
fn check_numpy(options: &Options) -> Result<()> {
    let numpy = &options.numpy;
    let is_system = match numpy.allocator {
        Some(chosen) => chosen == ArrayAllocator::System,
        None => {
            options.given.allocator == Some(Allocator::System)
                || options.given.malloc == Some(Mode::Off)
        }
    };
    refuse_if(
        options.given.malloc == Some(Mode::Off) && !is_system,
        "--malloc off: leaves no array on mimalloc, but --numpy asks for it; expected --numpy system",
    )?;
    refuse_if(
        numpy.pool_limit.is_some() && numpy.allocator != Some(ArrayAllocator::Pool),
        "--numpy limit: there is no pool; expected --numpy pool,limit=LIMIT",
    )?;
    refuse_if(
        numpy.region.is_some() && numpy.allocator != Some(ArrayAllocator::Bfc),
        "--numpy region: there is no region; expected --numpy bfc,region=SIZE",
    )?;
    let placed = [
        ("align", numpy.alignment.is_some()),
        ("huge-pages", numpy.huge_pages.is_some()),
        ("numa", numpy.node.is_some()),
    ];
    if let Some((key, _)) = placed.into_iter().find(|(_, given)| *given && is_system) {
        return Err(Error::option(format!(
            "--numpy {key}: libc's malloc places array data itself; expected mimalloc, pool or bfc"
        )));
    }
    let is_bfc = numpy.allocator == Some(ArrayAllocator::Bfc);
    match numpy.alignment.filter(|_| is_bfc) {
        Some(alignment) if alignment.0 > REGION_ALIGNMENT => Err(Error::option(format!(
            "--numpy align: bad value '{alignment}'; expected at most {REGION_ALIGNMENT} with bfc"
        ))),
        _ => Ok(()),
    }
}

/// The account of the process's own memory that rules of an option name, if they name one.
fn native_account(
    option: &str,
    is_named: impl Fn(Account) -> bool,
    options: &Options,
) -> Result<Option<Account>> {
    let accounts = [Account::Native, Account::Mapped];
    let named = accounts.into_iter().find(|&account| is_named(account));
    match (named, options.given.malloc) {
        (Some(account), Some(mode @ (Mode::Off | Mode::Plain))) => Err(Error::option(format!(
            "{option} {}=...: not with --malloc {}; expected --malloc count",
            account.name(),
            mode.name()
        ))),
        _ => Ok(named),
    }
}

/// The report that this process writes. What only variables ask for, and would go to one place
/// for all processes, is the outermost host's to write.
fn stats(values: &mut Values, outputs: &mut Outputs) -> Result<Option<Stats>> {
    let is_inherited = outputs.is_inherited("--stats", values);
    let mut format = values.stats;
    let name = values.name("--stats");
    let has_lines = values.is_given("--lines") && values.lines != Some(LineSettings::Off);
    let to = match (values.stats_file.clone(), values.stats_fd) {
        _ if format == Some(Format::Off) => {
            // A kernel of Jupyter has these options, and no terminal to read from.
            let is_typed =
                calls::isatty(libc::STDIN_FILENO) + calls::isatty(libc::STDERR_FILENO) == 2;
            if has_lines && is_typed && values.live.is_none() {
                outputs.notices.push(UNPRINTED_LINES.to_owned());
            }
            return Ok(None);
        }
        (Some(_), Some(_)) => {
            return Err(Error::option(format!(
                "{name}: the report goes to a file or to a descriptor; expected file or fd"
            )));
        }
        (Some(path), None) => {
            let path = outputs.file(STATS_FILE, Some(path), values)?;
            path.map(Destination::File)
        }
        (None, Some(_) | None) if is_inherited => return Ok(None),
        (None, Some(_)) if format == Some(Format::Html) => {
            return Err(Error::option(format!(
                "{name} fd: a page goes to a file; expected html,file=PATH"
            )));
        }
        (None, Some(descriptor)) if !is_open(descriptor) => {
            return Err(Error::option(format!(
                "{name} fd: {descriptor} is no open descriptor; expected one that the caller opened"
            )));
        }
        (None, Some(descriptor)) => Some(Destination::Descriptor(descriptor)),
        (None, None) if format == Some(Format::Html) => {
            let path = page::default_file()?;
            let path = outputs.choose(STATS_FILE, &path, values, false)?;
            path.map(Destination::File)
        }
        (None, None) => {
            // The table is what the option is for.
            format = format.or(has_lines.then_some(Format::Text));
            format.map(|_| Destination::Stderr)
        }
    };
    Ok(to.map(|to| Stats {
        format: format.unwrap_or(Format::Json),
        to,
        page: None,
    }))
}
