//! The host's variables: read as the options' defaults, set for child processes.

use super::arguments::{bad_value, one_of};
use super::command::SERVICE;
use super::outputs::{STATS_FILE, absolute};
use super::{RegionSettings, faults, observation};
use crate::allocator::Allocator;
use crate::bytes::Expected;
use crate::caps::{self, Rules};
use crate::cli::Cli;
use crate::error::Error;
use crate::heap::bound::Size;
use crate::heap::guards;
use crate::heap::profile::Profile;
use crate::leaks::Scope;
use crate::native::Mode;
use crate::numpy::Settings;
use crate::process;
use crate::report::Format;
use clap::ValueEnum;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::OsStringExt;
use std::str::FromStr;

/// Names the outermost host of a family of processes, by its process id.
pub const OUTERMOST: &str = "PYHOST_OUTERMOST";

/// The host's variables.
#[derive(Default)]
pub struct Variables {
    pub allocator: Option<Allocator>,
    pub debug_hooks: bool,
    pub native: Option<Mode>,
    pub profile: Option<Profile>,
    pub caps: caps::Settings,
    pub region: RegionSettings,
    pub numpy: Settings,
    pub faults: faults::Variables,
    pub guard: Option<guards::Settings>,
    pub leak_check: Option<Scope>,
    pub leak_status: Option<u8>,
    pub stats: Option<Format>,
    pub observation: observation::Variables,
    pub stats_file: Option<OsString>,
    pub stats_fd: Option<i32>,
    pub outermost: Option<OsString>,
    pub service: Option<String>,
}

/// A variable that is set and not empty.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A variable that names one of several choices.
fn choice<T: ValueEnum>(name: &str) -> Result<Option<T>, Error> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    match T::from_str(&value, false) {
        Ok(choice) => Ok(Some(choice)),
        Err(_) => {
            let names: Vec<String> = T::value_variants()
                .iter()
                .filter_map(|variant| variant.to_possible_value())
                .map(|possible| possible.get_name().to_owned())
                .collect();
            Err(Error::option(bad_value(
                name,
                &value,
                &one_of(&names.join(", ")),
            )))
        }
    }
}

/// A variable whose type says what its value should be.
pub(super) fn checked<T: FromStr<Err = Expected>>(name: &str) -> Result<Option<T>, Error> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    let bad = |Expected(expected)| Error::option(bad_value(name, &value, expected));
    value.parse().map(Some).map_err(bad)
}

/// A variable whose value should be `expected`.
pub(super) fn parsed<T: FromStr>(name: &str, expected: &'static str) -> Result<Option<T>, Error> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    let bad = |_| Error::option(bad_value(name, &value, expected));
    value.parse().map(Some).map_err(bad)
}

/// A variable that says yes (`1`) or no.
fn flag(name: &str) -> Result<bool, Error> {
    match variable(name) {
        None => Ok(false),
        Some(value) if value == "0" => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) => {
            let value = value.to_string_lossy();
            Err(Error::option(bad_value(name, &value, &one_of("1, 0"))))
        }
    }
}

impl Variables {
    /// Reads the host's variables; none where the start is not `trusted`.
    ///
    /// # Errors
    /// A variable whose value is not what it should be.
    pub fn read(trusted: bool) -> Result<Self, Error> {
        if !trusted {
            return Ok(Variables::default());
        }
        Ok(Variables {
            allocator: choice("PYHOST_ALLOCATOR")?,
            debug_hooks: flag("PYHOST_DEBUG_HOOKS")?,
            native: choice("PYHOST_NATIVE")?,
            profile: choice("PYHOST_PROFILE")?,
            caps: caps::Settings {
                hard: checked("PYHOST_CAP")?.unwrap_or_default(),
                soft: checked("PYHOST_SOFT_CAP")?.unwrap_or_default(),
                share: checked("PYHOST_CAP_SHARE")?,
                most: None,
            },
            region: RegionSettings {
                size: checked("PYHOST_REGION")?.map(|Size(size)| size),
                lock: flag("PYHOST_REGION_LOCK")?,
                huge_pages: flag("PYHOST_REGION_HUGE_PAGES")?,
            },
            numpy: Settings {
                allocator: choice("PYHOST_NUMPY_ALLOCATOR")?,
                alignment: checked("PYHOST_NUMPY_ALIGN")?,
                huge_pages: choice("PYHOST_NUMPY_HUGE_PAGES")?,
                node: parsed("PYHOST_NUMPY_NUMA", "a number")?,
                pool_limit: checked("PYHOST_NUMPY_POOL_LIMIT")?,
                region: checked("PYHOST_NUMPY_REGION")?,
            },
            faults: faults::Variables::read()?,
            leak_check: choice("PYHOST_LEAK_CHECK")?,
            leak_status: parsed("PYHOST_LEAK_EXIT_STATUS", "a number from 0 to 255")?,
            guard: checked("PYHOST_GUARD")?,
            stats: choice("PYHOST_STATS")?,
            observation: observation::Variables::read()?,
            stats_file: variable("PYHOST_STATS_FILE"),
            stats_fd: parsed("PYHOST_STATS_FD", "a number")?,
            service: variable(SERVICE).map(|name| name.to_string_lossy().into_owned()),
            // An exec keeps the process id: then this is still the outermost host.
            outermost: variable(OUTERMOST)
                .filter(|pid| pid.to_str() != Some(process::id().to_string().as_str())),
        })
    }
}

/// The variables that stand for what the command line gave.
pub fn exports(cli: &Cli) -> Result<Vec<(String, OsString)>, Error> {
    fn name<T: ValueEnum>(value: &T) -> OsString {
        let possible = value.to_possible_value();
        possible
            .map(|value| value.get_name().to_owned().into())
            .unwrap_or_default()
    }
    fn shown(value: impl Display) -> OsString {
        value.to_string().into()
    }
    let mut exports = Vec::new();
    let mut export = |variable: &str, value: Option<OsString>| {
        if let Some(value) = value {
            exports.push((variable.to_owned(), value));
        }
    };
    export("PYHOST_ALLOCATOR", cli.allocator.as_ref().map(name));
    export("PYHOST_DEBUG_HOOKS", cli.debug_hooks.then(|| "1".into()));
    export("PYHOST_NATIVE", cli.native.as_ref().map(name));
    export("PYHOST_PROFILE", cli.profile.as_ref().map(name));
    let rules = |rules: &[caps::Rule]| (!rules.is_empty()).then(|| shown(Rules(rules.to_vec())));
    export("PYHOST_CAP", rules(&cli.caps.cap));
    export("PYHOST_SOFT_CAP", rules(&cli.caps.soft_cap));
    export("PYHOST_CAP_SHARE", cli.caps.cap_share.map(shown));
    export("PYHOST_REGION", cli.device.region.map(shown));
    export(
        "PYHOST_REGION_LOCK",
        cli.device.region_lock.then(|| "1".into()),
    );
    export(
        "PYHOST_REGION_HUGE_PAGES",
        cli.device.region_huge_pages.then(|| "1".into()),
    );
    let numpy = &cli.numpy;
    export(
        "PYHOST_NUMPY_ALLOCATOR",
        numpy.numpy_allocator.as_ref().map(name),
    );
    export("PYHOST_NUMPY_ALIGN", numpy.numpy_align.map(shown));
    export(
        "PYHOST_NUMPY_HUGE_PAGES",
        numpy.numpy_huge_pages.as_ref().map(name),
    );
    export("PYHOST_NUMPY_NUMA", numpy.numpy_numa.map(shown));
    export("PYHOST_NUMPY_POOL_LIMIT", numpy.numpy_pool_limit.map(shown));
    export("PYHOST_NUMPY_REGION", numpy.numpy_region.map(shown));
    for (variable, value) in faults::exports(&cli.faults)? {
        export(variable, Some(value));
    }
    export("PYHOST_LEAK_CHECK", cli.leaks.leak_check.as_ref().map(name));
    export(
        "PYHOST_LEAK_EXIT_STATUS",
        cli.leaks.leak_exit_status.map(shown),
    );
    export("PYHOST_GUARD", cli.guards.guard.map(shown));
    export("PYHOST_STATS", cli.stats.as_ref().map(name));
    if let Some(path) = &cli.stats_file {
        let path = absolute(STATS_FILE.option, path)?;
        export("PYHOST_STATS_FILE", Some(OsString::from_vec(path)));
    }
    for (variable, value) in observation::exports(cli)? {
        export(variable, Some(value));
    }
    export("PYHOST_STATS_FD", cli.stats_fd.map(shown));
    Ok(exports)
}
