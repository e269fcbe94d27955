//! CPython's start and run, through `PyPreConfig`, `PyConfig` and `Py_RunMain` (PEP 587).
//!
//! The configuration is the one that `python` itself uses; only `executable` and `base_executable` are set,
//! and only if CPython would find another file or none: see [`executable`].

#![allow(unsafe_code)]

mod executable;
pub mod version;

use crate::cpython::{IS_FREE_THREADED, objects::Gil};
use crate::error::{Error, Result};
use crate::{descriptor::notice, libc_exports::preload, process};
use pyo3::ffi::{self, PyConfig, PyPreConfig, PyStatus};
use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::{marker::PhantomData, mem::MaybeUninit, path::PathBuf};

/// Python's version, such as `3.11.7`, from the libpython that is loaded. May be called before initialisation.
pub fn version() -> &'static str {
    full_version().split(' ').next().unwrap_or_default()
}

/// As [`version()`], with what follows it.
fn full_version() -> &'static str {
    // SAFETY: a constant string of libpython.
    let text = unsafe { CStr::from_ptr(ffi::Py_GetVersion()) };
    text.to_str().unwrap_or_default()
}

/// Python's arguments as C has them. Lives as long as the process.
pub struct Arguments {
    pointers: Vec<*mut c_char>,
}

impl Arguments {
    /// Takes the program's name and Python's arguments.
    pub fn new(words: Vec<OsString>) -> Self {
        let pointers = words
            .into_iter()
            // The words came from C strings, so none holds a zero byte.
            .map(|word| CString::new(word.into_vec()).unwrap_or_default().into_raw())
            .collect();
        Arguments { pointers }
    }

    fn count(&self) -> isize {
        self.pointers.len() as isize
    }
}

/// Ends the process as Python does if a step of its start fails.
fn check(status: PyStatus) {
    // SAFETY: a status that CPython returned; the second call does not return.
    unsafe {
        if ffi::PyStatus_Exception(status) != 0 {
            ffi::Py_ExitStatusException(status);
        }
    }
}

/// Pre-initialises: reads the options and variables that concern encoding and allocators.
///
/// Ends the process, with Python's message, if Python would refuse them.
pub fn preinitialize(arguments: &Arguments) {
    let mut config = MaybeUninit::<PyPreConfig>::uninit();
    // SAFETY: the first call fills the structure; the strings outlive the process.
    unsafe {
        ffi::PyPreConfig_InitPythonConfig(config.as_mut_ptr());
        let words = arguments.pointers.as_ptr().cast_mut();
        check(ffi::Py_PreInitializeFromBytesArgs(
            config.as_ptr(),
            arguments.count(),
            words,
        ));
    }
}

/// Python, initialised. Its main thread has it.
pub struct Interpreter(PhantomData<*mut ()>);

/// Initialises Python. The calling thread is its main thread from here on and holds the GIL.
///
/// Ends the process, with Python's message, if Python would.
pub fn initialize(arguments: &Arguments) -> Interpreter {
    let mut config = MaybeUninit::<PyConfig>::uninit();
    let config = config.as_mut_ptr();
    // SAFETY: the first call fills the structure, the last frees it; the strings outlive the process.
    unsafe {
        ffi::PyConfig_InitPythonConfig(config);
        let words = arguments.pointers.as_ptr().cast_mut().cast();
        check(ffi::PyConfig_SetBytesArgv(config, arguments.count(), words));
        let name = arguments.pointers.first().map(|name| CStr::from_ptr(*name));
        let name = OsStr::from_bytes(name.unwrap_or_default().to_bytes());
        // A preloaded host is inside the python that was called: that finds itself.
        let executable = match preload::is_on() {
            true => None,
            false => in_venv(name).or_else(|| executable::misnamed(name)),
        };
        let base = executable::base(executable.clone(), name);
        for (field, path) in [
            (&raw mut (*config).executable, executable),
            (&raw mut (*config).base_executable, base),
        ] {
            let path = path.map(|path| CString::new(path.into_os_string().into_vec()));
            if let Some(Ok(path)) = path {
                check(ffi::PyConfig_SetBytesString(config, field, path.as_ptr()));
            }
        }
        check(ffi::Py_InitializeFromConfig(config));
        ffi::PyConfig_Clear(config);
    }
    Interpreter(PhantomData)
}

/// The python of the virtual environment that the host runs in; children that run it are hosted, too.
fn in_venv(name: &OsStr) -> Option<PathBuf> {
    let mut parts = version().split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    let suffix = if IS_FREE_THREADED { "t" } else { "" };
    let found = executable::of_venv(name, &format!("{major}.{minor}{suffix}"));
    let python = found.unwrap_or_else(|line| {
        // Each child would say the same.
        if !process::has_ancestor_of_its_kind() {
            notice(format_args!("{line}"));
        }
        None
    })?;
    preload::stand_in_for(&python, &process::executable()?);
    Some(python)
}

impl Interpreter {
    pub fn gil(&self) -> Gil<'_> {
        // SAFETY: `initialize` attached the thread, which only `run` detaches.
        unsafe { Gil::assume() }
    }

    /// Runs what the arguments ask for and finalises Python; its exit status.
    pub fn run(self) -> i32 {
        // SAFETY: Python is initialised.
        unsafe { ffi::Py_RunMain() }
    }
}

/// Registers `function`, called last of all when Python has been finalised.
pub fn at_finalized(function: extern "C" fn()) -> Result<()> {
    // SAFETY: a function of the executable.
    match unsafe { ffi::Py_AtExit(Some(function)) } {
        0 => Ok(()),
        _ => Err(Error::start("Py_AtExit has no room")),
    }
}
