//! Whose code a file of Python is: the user's own, a package's, or the standard library's.

use pyhost_sampler::HOSTS_FILE;

/// The folders that packages are installed into.
const PACKAGES: [&str; 2] = ["/site-packages/", "/dist-packages/"];
/// How the name of NumPy's generated wrappers begins: it has no folder.
const NUMPYS: &str = "<__array_function__ ";
/// The folders that the standard library is in, before the minor version.
const LIBRARIES: [&str; 2] = ["/lib/python3.", "/lib64/python3."];

/// Whether a file is of the user's own code: of no installed package, of no module of the standard library, and not of
/// frozen code or the host's.
pub fn is_users(file: &str) -> bool {
    package(file).is_none()
        && !file.starts_with("<frozen ")
        && !file.starts_with(HOSTS_FILE)
        && !is_standard(file)
}

/// Whether a call is none of a program, but one of the host's that says something of the others.
pub fn is_hosts(file: &str) -> bool {
    file == HOSTS_FILE
}

/// Whether a file is of the standard library: below a folder such as `lib/python3.11`, or `lib/python3.13t` without a GIL.
fn is_standard(file: &str) -> bool {
    LIBRARIES.iter().any(|folder| {
        file.split_once(folder).is_some_and(|(_, rest)| {
            let minor = rest.split('/').next().unwrap_or_default();
            let minor = minor.strip_suffix('t').unwrap_or(minor);
            rest.contains('/') && minor.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

/// The top-level package of an installed file: `pandas` for `.../site-packages/pandas/io/parsers.py`.
pub fn package(file: &str) -> Option<&str> {
    if file.starts_with(NUMPYS) {
        return Some("numpy");
    }
    let (_, rest) = PACKAGES
        .iter()
        .find_map(|folder| file.rsplit_once(folder))?;
    let first = rest.split('/').next()?;
    Some(first.strip_suffix(".py").unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_packages_and_of_the_standard_library_are_not_the_users() {
        let others = "/venv/lib/python3.11/site-packages/pandas/core/frame.py|/usr/lib/python3/dist-packages/yaml/__init__.py|\
            /usr/lib/python3.11/json/decoder.py|/usr/lib64/python3.9/json/decoder.py|/opt/lib/python3.13t/json/decoder.py|\
            <frozen importlib._bootstrap>|<__array_function__ internals>|<pyhost>/tracking.py";
        let users = "/home/me/job.py|job.py|<string>|/lib/python3.11|/opt/lib/python3.x/a.py";
        for (files, are_users) in [(others, false), (users, true)] {
            for file in files.split('|') {
                assert_eq!(is_users(file), are_users, "{file}");
            }
        }
    }

    #[test]
    fn a_package_is_the_first_name_below_the_folder_of_packages() {
        let file = "/v/lib/python3.11/site-packages/pandas/io/parsers.py";
        assert_eq!(package(file), Some("pandas"));
        assert_eq!(package("/v/site-packages/six.py"), Some("six"));
        assert_eq!(package("/usr/lib/python3.11/json/decoder.py"), None);
        assert_eq!(package("<__array_function__ internals>"), Some("numpy"));
    }
}
