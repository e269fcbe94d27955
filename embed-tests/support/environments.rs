//! The pinned packages that tests import: NumPy with Cython, in folders below `target/`.

use crate::free_threaded::is_free_threaded;
use crate::host::{Run, folder, stock, version};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The pinned tools that users of the host run beneath it: pytest with xdist and asyncio, mypy.
pub fn development() -> Environment {
    named("development")
}

/// Packages for the Python under test.
pub struct Environment {
    /// Such as `numpy-2.4`.
    pub name: String,
    /// The value of `PYTHONPATH`.
    pub site_packages: PathBuf,
}

fn make(arguments: &[&str]) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("embed-tests/environments/make.py");
    let output = Command::new("python3")
        .arg(program)
        .arg("--python")
        .arg(stock())
        .args(arguments)
        .output()
        .expect("a python3 that runs the tests' own tools");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "make.py {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every NumPy that the Python under test has, oldest first. Installs them where need be. On a machine where nothing is
/// installed (devices/tests/board.py) `EMBED_TESTS_NUMPY` is the folder of the only one.
pub fn numpys() -> &'static [Environment] {
    static NUMPYS: OnceLock<Vec<Environment>> = OnceLock::new();
    NUMPYS.get_or_init(|| {
        if let Some(folder) = std::env::var_os("EMBED_TESTS_NUMPY") {
            return vec![Environment {
                name: "numpy".to_owned(),
                site_packages: PathBuf::from(folder),
            }];
        }
        let names = make(&["--list"]);
        names.lines().map(named).collect()
    })
}

/// Other packages that are pinned for the Python under test. Installs them where need be.
pub fn named(name: &str) -> Environment {
    Environment {
        name: name.to_owned(),
        site_packages: PathBuf::from(make(&[name]).lines().last().unwrap()),
    }
}

/// The file that lists the packages of an environment for the Python under test. It may be missing.
pub fn pins(name: &str) -> PathBuf {
    let (major, minor) = version();
    let build = if is_free_threaded() { "t" } else { "" };
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("embed-tests/environments/pins")
        .join(format!("py{major}.{minor}{build}-{name}.txt"))
}

/// A package with the version that an environment pins, such as `pytest==9.2.0`; `None` if it pins none.
pub fn pinned(name: &str, package: &str) -> Option<String> {
    let text = std::fs::read_to_string(pins(name)).ok()?;
    let mut lines = text.lines();
    let is_it = |line: &&str| {
        line.strip_prefix(package)
            .is_some_and(|rest| rest.starts_with("=="))
    };
    lines.find(is_it).map(str::to_owned)
}

/// The newest of [`numpys`].
pub fn newest_numpy() -> &'static Environment {
    numpys().last().expect("a NumPy is pinned for each Python")
}

impl Environment {
    /// The host, with these packages.
    pub fn host(&self) -> Run {
        Run::host().env("PYTHONPATH", &self.site_packages)
    }

    /// Stock Python, with these packages.
    pub fn stock(&self) -> Run {
        Run::stock().env("PYTHONPATH", &self.site_packages)
    }

    /// A fresh folder with an extension module, compiled by Cython and a C compiler from
    /// `embed-tests/c/NAME.pyx`, or by the compiler alone from `NAME.c`, with NumPy's headers.
    pub fn extension(&self, source: &str) -> PathBuf {
        let place = folder("extension");
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("embed-tests/c")
            .join(source);
        let name = source.file_stem().unwrap().to_str().unwrap();
        let code = "import numpy, sysconfig; print(sysconfig.get_paths()['include'], \
                    numpy.get_include(), sysconfig.get_config_var('EXT_SUFFIX'))";
        let facts = self.stock().code(code).ok().stdout;
        let facts: Vec<&str> = facts.split_whitespace().collect();
        let mut c_source = source.clone();
        if source
            .extension()
            .is_some_and(|extension| extension == "pyx")
        {
            c_source = place.join(name).with_extension("c");
            self.stock()
                .args(["-m", "cython", "-3", "-o"])
                .arg(&c_source)
                .arg(&source)
                .ok();
        }
        let status = Command::new("cc")
            .args(["-O0", "-g", "-w", "-shared", "-fPIC", "-pthread"])
            .args([format!("-I{}", facts[0]), format!("-I{}", facts[1])])
            .arg(&c_source)
            .arg("-o")
            .arg(place.join(format!("{name}{}", facts[2])))
            .status()
            .expect("a C compiler");
        assert!(status.success(), "cc {}", c_source.display());
        place
    }
}
