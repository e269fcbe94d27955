//! Compiles what reads CPython's frames, against the headers of the Python that is linked.

#[path = "../build_variables.rs"]
mod variables;

use std::path::{Path, PathBuf};
use std::process::Command;
use variables::{baked, fail, refuse};

fn main() {
    const SOURCE: &str = "frames.c";
    pyo3_build_config::use_pyo3_cfgs();
    for file in [SOURCE, "layout/frames.h"] {
        println!("cargo:rerun-if-changed={file}");
    }
    cc::Build::new()
        .file(SOURCE)
        .include(headers())
        .flag("-std=gnu11")
        .define("NDEBUG", None)
        .warnings(false)
        .compile("pyhost_frames");
}

/// Names the folder of the headers of the Python that is built for, if pyo3 knows no interpreter: in a cross build.
const HEADERS: &str = "PYHOST_PYTHON_INCLUDE";

/// The folder of `Python.h`.
fn headers() -> PathBuf {
    let python = pyo3_build_config::get();
    if let Some(named) = baked(HEADERS) {
        let expected = format!("{}.{}", python.version().major, python.version().minor);
        let folder = PathBuf::from(&named);
        return match version_of(&folder) {
            Some(version) if version == expected => folder,
            _ => refuse(
                HEADERS,
                &named,
                &format!("the folder of Python.h of CPython {expected}"),
            ),
        };
    }
    let Some(executable) = python.executable() else {
        fail(format_args!(
            "{HEADERS}: not set; expected the folder of the target's Python.h, since pyo3 knows no interpreter \
             (PYO3_CROSS* or PYO3_CONFIG_FILE without 'executable')"
        ))
    };
    let code = "import sysconfig; print(sysconfig.get_path('include'))";
    let output = Command::new(executable).args(["-I", "-c", code]).output();
    let folder = match output {
        Ok(output) => PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()),
        Err(error) => fail(format_args!("'{executable}' cannot be started ({error})")),
    };
    if !folder.join("Python.h").exists() {
        fail(format_args!(
            "no Python.h in '{}': CPython's headers are needed (Debian: python3-dev)",
            folder.display()
        ));
    }
    folder
}

/// The minor version of CPython that headers are of, such as `3.11`.
fn version_of(headers: &Path) -> Option<String> {
    let text = std::fs::read_to_string(headers.join("patchlevel.h")).ok()?;
    let number = |name: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        lines.find_map(|mut words| (words.nth(1) == Some(name)).then(|| words.next())?)
    };
    let (major, minor) = (number("PY_MAJOR_VERSION")?, number("PY_MINOR_VERSION")?);
    Some(format!("{major}.{minor}"))
}
