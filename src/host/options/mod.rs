//! From the process's arguments and environment to checked options. The only place that reads
//! the host's variables.

mod allocators;
mod arguments;
pub mod baked;
mod caps;
mod command;
pub mod early;
mod faults;
mod kinds;
mod observation;
mod outputs;
mod page;
mod region;
mod statuses;
mod suppressions;
mod table;
mod variables;

use crate::allocator::Allocator;
use crate::check::leaks::{DEFAULT_STATUS, Scope, Suppressions};
use crate::descriptor::name_process;
use crate::error::Error;
use crate::heap::guards;
use crate::heap::retention::Retention;
use crate::ledger::Account;
use crate::libc_exports::native::Mode;
use crate::observe::lines::LineSettings;
use crate::observe::live;
use crate::observe::report::{Destination, Format, Stats};
use crate::observe::timeline;
use crate::process;
use crate::python::numpy::{ArrayAllocator, ArraySettings, REGION_ALIGNMENT};
use crate::template::names_process;
pub use allocators::Allocators;
use arguments::{check_rest, help, host_arguments, is_python_name, parse};
use outputs::{Outputs, STATS_FILE};
use pyhost_os::calls;
use pyhost_os::file::is_open;
use pyhost_os::strings::Strings;
pub use region::RegionSettings;
use std::ffi::{CStr, OsString};
use table::Given;
use variables::{LIVE, OUTERMOST, variable};

/// The options of this run, checked.
#[derive(Debug)]
pub struct Options {
    /// `--allocator`, where given.
    pub allocator: Option<Allocator>,
    /// `--debug-hooks`.
    pub debug_hooks: bool,
    /// `--malloc`, where given.
    pub malloc: Option<Mode>,
    /// `--retain`.
    pub retain: Retention,
    /// `--cap` and its like.
    pub caps: crate::limit::caps::CapSettings,
    /// The bounded heap.
    pub region: RegionSettings,
    /// The `--numpy-*` options.
    pub numpy: ArraySettings,
    /// The `--fail` options.
    pub faults: faults::FaultSettings,
    /// `--lines`.
    pub lines: LineSettings,
    /// `--lines-native`.
    pub lines_native: bool,
    /// `--guard`.
    pub guard: guards::GuardSettings,
    /// `--leak-check`.
    pub leak_check: Scope,
    /// `--leak-exit-status`.
    pub leak_status: u8,
    pub leak_suppressions: Suppressions,
    /// The report that this process shall write; None where another process does, or none.
    pub stats: Option<Stats>,
    /// Where the ledger is kept.
    pub live: live::LedgerPlace,
    /// How often the process is sampled, and where to.
    pub timeline: timeline::TimelineSettings,
    /// Whether an interactive run ends with one line.
    pub closing_line: bool,
    /// All arguments of the process.
    pub argv: Vec<OsString>,
    /// The script's name.
    pub command: String,
    /// The program's name, then Python's arguments.
    pub python_argv: Vec<OsString>,
    /// Variables to set, so that children inherit what the command line gave.
    pub exports: Vec<(String, OsString)>,
    /// Lines to be shown first: outputs that cannot be written.
    pub notices: Vec<String>,
}

impl Options {
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
    /// Run Python.
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

/// Reads `argv` and the environment.
///
/// # Errors
/// A bad host option or variable; the text names it and what was expected.
pub fn read(argv: Vec<OsString>) -> Result<Request, Error> {
    let as_python = argv.first().is_some_and(|name| is_python_name(name));
    let host_count = if as_python { 0 } else { host_arguments(&argv) };
    let cli = match host_count {
        0 => Given::default(), // no need to build clap's command
        count => parse(&argv[..=count])?,
    };
    if cli.help.is_some() {
        return Ok(Request::Help(help()));
    }
    if cli.host_version.is_some() {
        return Ok(Request::Version);
    }
    let is_trusted = !process::is_privileged_start();
    let variables = match is_trusted {
        true => variables::read()?,
        false => Given::default(),
    };
    // An exec keeps the process id: then this is still the outermost host.
    let own = process::id().to_string();
    let inherited = is_trusted && variable(OUTERMOST).is_some_and(|pid| pid != own.as_str());
    if inherited {
        name_process();
    }
    let mut exports = cli.exports()?;
    let mut outputs = Outputs::default();
    let region = region::settings(&cli, &variables)?;
    let faults = faults::settings(&cli, &variables, inherited, &mut outputs)?;
    let live = observation::place(&cli, &variables, &mut outputs)?;
    let mut stats = stats(&cli, &variables, inherited, &mut outputs)?;
    let mut timeline = observation::settings(&cli, &variables, inherited, &mut outputs)?;
    if let Some(asked) = stats.take_if(|stats| stats.format == Format::Html) {
        let is_named = cli.stats_file.is_some() || variables.stats_file.is_some();
        stats = page::plan(asked, &mut timeline, !is_named, &mut outputs)?;
    }
    exports.retain(|(name, _)| !outputs.missing.contains(&name.as_str()));
    for name in outputs.missing.drain(..) {
        // Child processes would fail in the same way, each with a line. An empty variable is none.
        if std::env::var_os(name).is_some() {
            exports.push((name.to_owned(), OsString::new()));
        }
    }
    if !as_python {
        check_rest(argv.get(host_count..).unwrap_or_default())?;
    }
    let off = cli.stats.or(variables.stats) == Some(Format::Off);
    let mut python_argv: Vec<OsString> = argv.iter().take(1).cloned().collect();
    python_argv.extend(argv.iter().skip(1 + host_count).cloned());
    let caps = caps::settings(&cli, &variables)?;
    let bounded = region.size.is_some() || !caps.hard.0.is_empty();
    let retain = region::retain(&cli, &variables, bounded)?;
    let service = variable(command::SERVICE).filter(|_| is_trusted);
    let service = service.map(|name| name.to_string_lossy().into_owned());
    let mut options = Options {
        live,
        timeline,
        allocator: cli.allocator.or(variables.allocator),
        debug_hooks: (cli.debug_hooks)
            .or(variables.debug_hooks)
            .unwrap_or_default(),
        malloc: cli.malloc.or(variables.malloc),
        retain,
        caps,
        region,
        numpy: numpy(&cli, &variables),
        faults,
        leak_check: cli.leak_check.or(variables.leak_check).unwrap_or_default(),
        leak_status: cli
            .leak_exit_status
            .or(variables.leak_exit_status)
            .unwrap_or(DEFAULT_STATUS),
        leak_suppressions: suppressions::read(&cli, &variables, inherited, &mut outputs.notices)?,
        lines: cli.lines.or(variables.lines).unwrap_or_default(),
        lines_native: (cli.lines_native)
            .or(variables.lines_native)
            .unwrap_or_default(),
        guard: (cli.guard.or(variables.guard)).unwrap_or(guards::GuardSettings::Off),
        closing_line: calls::isatty(libc::STDERR_FILENO) == 1
            && !(as_python
                || off
                || stats.is_some()
                || inherited
                || process::has_ancestor_of_its_kind()),
        stats,
        argv,
        command: command::name(python_argv.get(1..).unwrap_or_default(), service.as_deref()),
        python_argv,
        exports,
        notices: outputs.notices,
    };
    if options.malloc == Some(Mode::Off) && conflicts_with_off(&options) {
        return Err(Error::option(
            "--malloc off: leaves no domain on mimalloc, but --allocator asks for it; expected \
             --allocator system",
        ));
    }
    check_numpy(&options)?;
    region::check(&options)?;
    early::check(options.region.size)?;
    caps::check(&options)?;
    faults::check(&options)?;
    // Nothing goes into the environment of a script that the user did not ask for.
    let asked = options.stats.is_some() || options.timeline.is_on() || options.faults.log.is_some();
    let is_watched = asked || options.live != live::LedgerPlace::Own;
    if is_watched && command::is_a_scripts(&options.command) {
        let service = options.command.clone().into();
        options.exports.push((command::SERVICE.to_owned(), service));
    }
    if asked && !inherited {
        options.exports.push((OUTERMOST.to_owned(), own.into()));
    }
    Ok(Request::Run(Box::new(options)))
}

/// Reads the options for array data; where they are silent, the variables.
fn numpy(cli: &Given, variables: &Given) -> ArraySettings {
    ArraySettings {
        allocator: cli.numpy_allocator.or(variables.numpy_allocator),
        alignment: cli.numpy_align.or(variables.numpy_align),
        huge_pages: cli.numpy_huge_pages.or(variables.numpy_huge_pages),
        node: cli.numpy_numa.or(variables.numpy_numa),
        pool_limit: cli.numpy_pool_limit.or(variables.numpy_pool_limit),
        region: cli.numpy_region.or(variables.numpy_region),
    }
}

/// Refuses what goes with another choice only.
fn check_numpy(options: &Options) -> Result<(), Error> {
    let ArraySettings {
        allocator,
        alignment,
        huge_pages,
        node,
        pool_limit,
        region,
    } = options.numpy;
    let refuse = |text: &str| Err(Error::option(text));
    let is_system = match allocator {
        Some(chosen) => chosen == ArrayAllocator::System,
        None => options.allocator == Some(Allocator::System) || options.malloc == Some(Mode::Off),
    };
    if options.malloc == Some(Mode::Off) && !is_system {
        return refuse(
            "--malloc off: leaves no array on mimalloc, but --numpy-allocator asks for it; \
             expected --numpy-allocator system",
        );
    }
    if pool_limit.is_some() && allocator != Some(ArrayAllocator::Pool) {
        return refuse("--numpy-pool-limit: there is no pool; expected --numpy-allocator pool");
    }
    if region.is_some() && allocator != Some(ArrayAllocator::Bfc) {
        return refuse("--numpy-region: there is no region; expected --numpy-allocator bfc");
    }
    let placed = [
        ("--numpy-align", alignment.is_some()),
        ("--numpy-huge-pages", huge_pages.is_some()),
        ("--numpy-numa", node.is_some()),
    ];
    for (option, given) in placed {
        if given && is_system {
            return Err(Error::option(format!(
                "{option}: libc's malloc places array data itself; expected --numpy-allocator \
                 mimalloc, pool or bfc"
            )));
        }
    }
    match alignment {
        Some(alignment)
            if allocator == Some(ArrayAllocator::Bfc) && alignment.0 > REGION_ALIGNMENT =>
        {
            Err(Error::option(format!(
                "--numpy-align: bad value '{alignment}'; expected at most {REGION_ALIGNMENT} with \
                 --numpy-allocator bfc"
            )))
        }
        _ => Ok(()),
    }
}

/// The account of the process's own memory that rules of an option name, if they name one.
///
/// # Errors
/// Such a rule where malloc is not the host's, or is not counted.
fn native_account(
    option: &str,
    is_named: impl Fn(Account) -> bool,
    options: &Options,
) -> Result<Option<Account>, Error> {
    let accounts = [Account::Native, Account::Mapped];
    let named = accounts.into_iter().find(|&account| is_named(account));
    match (named, options.malloc) {
        (Some(account), Some(mode @ (Mode::Off | Mode::Plain))) => Err(Error::option(format!(
            "{option} {}=...: not with --malloc {}; expected --malloc count",
            account.name(),
            mode.name()
        ))),
        _ => Ok(named),
    }
}

fn conflicts_with_off(options: &Options) -> bool {
    matches!(
        options.allocator,
        Some(Allocator::Mimalloc | Allocator::Pymalloc)
    )
}

/// The report that this process writes. What only variables ask for, and would go to one place
/// for all processes, is the outermost host's to write.
fn stats(
    cli: &Given,
    variables: &Given,
    inherited: bool,
    outputs: &mut Outputs,
) -> Result<Option<Stats>, Error> {
    let format = cli.stats.or(variables.stats);
    if format == Some(Format::Off) {
        return Ok(None);
    }
    if cli.stats_file.is_some() && cli.stats_fd.is_some() {
        return Err(Error::option(
            "--stats-fd: the report goes to --stats-file; expected one of them",
        ));
    }
    if let Some(path) = cli.stats_file.as_ref().or(variables.stats_file.as_ref()) {
        let is_inherited = cli.stats_file.is_none() && inherited;
        if is_inherited && !names_process(path.as_encoded_bytes()) {
            return Ok(None);
        }
        let output = STATS_FILE.given_by(cli.stats_file.is_some());
        let Some(path) = outputs.choose(output, path, true, is_inherited)? else {
            return Ok(None);
        };
        let format = format.unwrap_or(Format::Json);
        return Ok(Some(Stats {
            format,
            to: Destination::File(path),
            page: None,
        }));
    }
    if let Some(descriptor) = cli.stats_fd.or(variables.stats_fd) {
        if cli.stats_fd.is_none() && inherited {
            return Ok(None);
        }
        if format == Some(Format::Html) {
            return Err(Error::option(
                "--stats-fd: a page goes to a file; expected --stats-file with --stats=html",
            ));
        }
        if !is_open(descriptor) {
            return Err(Error::option(format!(
                "--stats-fd: {descriptor} is no open descriptor; expected one that the caller opened"
            )));
        }
        let format = format.unwrap_or(Format::Json);
        return Ok(Some(Stats {
            format,
            to: Destination::Descriptor(descriptor),
            page: None,
        }));
    }
    match format {
        Some(_) if cli.stats.is_none() && inherited => Ok(None),
        Some(Format::Html) => {
            let path = page::default_file()?;
            let chosen = outputs.choose(STATS_FILE, &path, true, false)?;
            Ok(chosen.map(|path| Stats {
                format: Format::Html,
                to: Destination::File(path),
                page: None,
            }))
        }
        Some(format) => Ok(Some(Stats {
            format,
            to: Destination::Stderr,
            page: None,
        })),
        // The table is what the option is for.
        None if !matches!(cli.lines, None | Some(LineSettings::Off)) => Ok(Some(Stats {
            format: Format::Text,
            to: Destination::Stderr,
            page: None,
        })),
        None => Ok(None),
    }
}
