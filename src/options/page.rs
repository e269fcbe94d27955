//! What `--stats=html` needs beside a file: the program that makes the page, looked for at the start,
//! so that its absence is told before anything runs.

use super::Destination;
use crate::error::Error;
use crate::process;
use crate::template::PathBuffer;
use crate::timeline;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The program's name.
const PROGRAM: &str = "pyhostctl";

/// How the page is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The path of `pyhostctl`.
    pub program: CString,
    /// The timeline of this process; None where its path is too long.
    pub timeline: Option<CString>,
    /// Whether the timeline is for the page alone, and goes once that is made.
    pub is_timeline_its_own: bool,
    /// Whether to say where the page is, since nobody has named the file.
    pub is_told: bool,
}

impl Page {
    /// Finds what makes the page: beside the host's own executable, else in `PATH`, unless the start
    /// is privileged. Where no timeline was asked for, one is kept beside the page until that is made.
    ///
    /// # Errors
    /// It is in neither place.
    pub fn find(
        page: &Destination,
        timeline: &mut timeline::Settings,
        is_told: bool,
    ) -> Result<Self, Error> {
        let own = std::fs::read_link("/proc/self/exe").ok();
        let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        let path = match process::is_privileged_start() {
            true => None,
            false => std::env::var_os("PATH"),
        };
        let folders = path.iter().flat_map(std::env::split_paths);
        let program = beside
            .into_iter()
            .chain(folders.filter(|folder| folder.is_absolute()))
            .map(|folder| folder.join(PROGRAM))
            .find_map(executable);
        let Some(program) = program else {
            return Err(Error::option(format!(
                "--stats=html: there is no {PROGRAM} beside the host's executable, nor in PATH; \
                 expected one that makes the page"
            )));
        };
        let is_timeline_its_own = timeline.timeline.is_none();
        if let (true, Destination::File(page)) = (is_timeline_its_own, page) {
            timeline.timeline = Some([page.as_slice(), b".timeline"].concat());
        }
        let template = timeline.timeline.as_deref();
        let path = template.and_then(|path| PathBuffer::expand(path, process::id(), b""));
        Ok(Page {
            program,
            timeline: path.map(|path| path.as_c_str().to_owned()),
            is_timeline_its_own,
            is_told,
        })
    }
}

/// The path as the system takes it, where it is a file that the user may run.
#[allow(unsafe_code)]
fn executable(path: PathBuf) -> Option<CString> {
    if !path.is_file() {
        return None;
    }
    let path = CString::new(path.into_os_string().into_encoded_bytes()).ok()?;
    // SAFETY: a path that ends with a zero byte.
    (unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0).then_some(path)
}

/// Where the page goes if nobody has named a file: `pyhost-PID.html` in the working directory. Not a
/// name with `%p`, so that forked children write none.
///
/// # Errors
/// There is no working directory.
pub fn default_file() -> Result<Destination, Error> {
    let name = format!("pyhost-{}.html", process::id());
    let path = std::path::absolute(name).map_err(|_| {
        Error::option("--stats=html: there is no working directory; expected --stats-file PATH")
    })?;
    Ok(Destination::File(escaped(path.as_os_str())))
}

/// A path as a template that stands for itself.
fn escaped(path: &OsStr) -> Vec<u8> {
    let bytes = path.as_bytes().iter();
    let doubled = bytes.flat_map(|&byte| std::iter::repeat_n(byte, 1 + usize::from(byte == b'%')));
    doubled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stands_for_itself() {
        assert_eq!(escaped(OsStr::new("/a%p/b%%")), b"/a%%p/b%%%%");
    }
}
