//! Which lines of Python allocated (`--lines`): starts the samples of the heap, and knows which calls are the user's own.

mod settings;

pub use settings::LineSettings;

use crate::heap::sampling::{self, FrameView};
use crate::native::Mode;
use pyhost_os::{moment, process};

/// Begins to sample. Once, after the heaps were made, while the process has one thread. Returns the reason if it
/// cannot: nothing is sampled.
pub fn start(settings: LineSettings, native: Mode) -> Result<(), &'static str> {
    let LineSettings::Every { interval, seed } = settings else {
        return Ok(());
    };
    if native == Mode::Off {
        return Err("malloc is left to another allocator");
    }
    let seed = seed.unwrap_or_else(|| moment::monotonic() ^ (process::id() as u64) << 40);
    match sampling::start(interval, seed) {
        true => Ok(()),
        false => Err("mimalloc gives no heap"),
    }
}

/// Whether a call is of the user's own code: of no installed package, of no module of the standard library, and not of
/// frozen code.
pub fn is_users(call: &FrameView<'_>) -> bool {
    let file = call.file;
    let is_installed = file.contains("/site-packages/") || file.contains("/dist-packages/");
    let is_frozen = file.starts_with("<frozen ") || file.starts_with("<__array_function__ ");
    !is_installed && !is_frozen && !is_standard(file)
}

/// Whether a file is of the standard library: below a folder such as `lib/python3.11`.
fn is_standard(file: &str) -> bool {
    let folders = ["/lib/python3.", "/lib64/python3."];
    folders.iter().any(|folder| {
        file.split_once(folder).is_some_and(|(_, rest)| {
            let minor = rest.split('/').next().unwrap_or_default();
            rest.contains('/') && minor.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

/// The top-level package of an installed file: `pandas` for `.../site-packages/pandas/io/parsers.py`.
pub fn package(file: &str) -> Option<&str> {
    let folders = ["/site-packages/", "/dist-packages/"];
    let (_, rest) = folders.iter().find_map(|folder| file.rsplit_once(folder))?;
    let first = rest.split('/').next()?;
    Some(first.strip_suffix(".py").unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_users_file(file: &str) -> bool {
        is_users(&FrameView {
            number: 0,
            file,
            function: "f",
            line: 1,
        })
    }

    #[test]
    fn files_of_packages_and_of_the_standard_library_are_not_the_users() {
        for file in [
            "/venv/lib/python3.11/site-packages/pandas/core/frame.py",
            "/usr/lib/python3/dist-packages/yaml/__init__.py",
            "/usr/lib/python3.11/json/decoder.py",
            "/usr/lib64/python3.9/json/decoder.py",
            "<frozen importlib._bootstrap>",
        ] {
            assert!(!is_users_file(file), "{file}");
        }
        for file in [
            "/home/me/job.py",
            "job.py",
            "<string>",
            "/lib/python3.11",
            "/opt/lib/python3.x/a.py",
        ] {
            assert!(is_users_file(file), "{file}");
        }
    }

    #[test]
    fn a_package_is_the_first_name_below_the_folder_of_packages() {
        let file = "/v/lib/python3.11/site-packages/pandas/io/parsers.py";
        assert_eq!(package(file), Some("pandas"));
        assert_eq!(package("/v/site-packages/six.py"), Some("six"));
        assert_eq!(package("/usr/lib/python3.11/json/decoder.py"), None);
    }
}
