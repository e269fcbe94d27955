//! Children of a host that is a preloaded library: those that run the same interpreter are hosted, too. So are those of a
//! host that runs in a virtual environment: a child that is to run the environment's python runs the host, by that name.
//!
//! The library is not in the environment while a script runs, so that other programs are not disturbed.
//! Here it is added for one call of `execve` or `posix_spawn`, if the new program is the interpreter that this
//! process runs: by its path, through `PATH`, or by the `#!` line of a script.
//!
//! Nothing here allocates or locks: the caller may be the child of a `vfork`.

#![allow(unsafe_code)]

use crate::path_template::PathBuffer;
use pyhost_os::file::{self, Fd};
use pyhost_os::{format::c_text_into, sanitizers, strings::Strings};
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::{io::Write, os::unix::ffi::OsStrExt, sync::OnceLock};

/// The variable that names the interpreter to the library: `DEVICE:INODE:`, in decimal, and the name that the launcher was
/// called by. A child that runs the interpreter itself has no such name.
pub const HANDSHAKE: &str = "PYHOST_INSIDE=";

const LIST: &[u8] = b"LD_PRELOAD=";
/// Bytes of the longest list of libraries that is made.
const LONGEST: usize = 8192;
/// Bytes that the kernel reads of a `#!` line.
const LINE: usize = 256;

struct Preload {
    library: &'static CStr,
    /// Device and inode of the interpreter.
    program: (u64, u64),
}

pyhost_os::state! {
    /// What children of a preloaded host load, and run in place of Python.
    static STATE: PreloadedLibrary {
        preload: OnceLock<Preload> = OnceLock::new(),
        /// The python of the environment that this host runs in, and the host.
        stands_in: OnceLock<(CString, CString)> = OnceLock::new(),
    }
}

/// Makes children that run `program`, a device and an inode, load `library`. Once, at the start.
pub fn start(library: &'static CStr, program: (u64, u64)) {
    let _ = STATE.preload.set(Preload { library, program });
}

/// Makes children that are to run `python`, by this very path, run `host`. Once, at the start.
pub fn stand_in_for(python: &Path, host: &Path) {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    let _ = STATE.stands_in.set((text(python), text(host)));
}

/// The path of the program that is run for the one at a path.
///
/// # Safety
/// Null, or a string that ends with a zero byte.
pub unsafe fn stand_in(path: *const c_char) -> *const c_char {
    // SAFETY: the caller's duty.
    let asked = unsafe { text(path) };
    match STATE.stands_in.get() {
        Some((python, host)) if asked == Some(python) => host.as_ptr(),
        _ => path,
    }
}

pub fn is_on() -> bool {
    STATE.preload.get().is_some()
}

/// The folder of the commands that were installed with the library; none if the host is an executable.
pub fn commands() -> Option<PathBuf> {
    let library = Path::new(OsStr::from_bytes(STATE.preload.get()?.library.to_bytes()));
    Some(library.parent()?.parent()?.parent()?.join("bin"))
}

/// A program that is to be run.
pub enum Program<'a> {
    /// The file at a path, which may be missing.
    At(Option<&'a CStr>),
    /// A name without a slash is looked for in the `PATH` of this process.
    Named(Option<&'a CStr>),
    Open(c_int),
}

/// The text at an address.
///
/// # Safety
/// Null, or a string that ends with a zero byte.
pub unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's duty.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Calls `run` with the environment for a new program: the one given, and the library if the program is to be hosted.
pub fn with_library<R>(
    program: Program<'_>,
    environment: Strings<'_>,
    run: impl FnOnce(Strings<'_>) -> R,
) -> R {
    match STATE.preload.get() {
        Some(preload) if preload.serves(program, &environment) => preload.add(environment, run),
        _ => run(environment),
    }
}

impl Preload {
    /// Whether a program is the interpreter, or a script of it.
    fn serves(&self, program: Program<'_>, environment: &Strings<'_>) -> bool {
        match program {
            Program::At(path) => path.is_some_and(|path| self.serves_file(path, environment)),
            Program::Named(name) => {
                // SAFETY: `execvp` and `posix_spawnp` themselves read the variable now.
                let own = unsafe { Strings::environment() };
                name.and_then(|name| found(name.to_bytes(), &own))
                    .is_some_and(|path| self.serves_file(path.as_c_str(), environment))
            }
            Program::Open(file) => file::identity(&file) == Some(self.program),
        }
    }

    fn serves_file(&self, path: &CStr, environment: &Strings<'_>) -> bool {
        if self.is_program(path) {
            return true;
        }
        let mut line = [0; LINE];
        let Some(words) = interpreter_line(path, &mut line) else {
            return false;
        };
        let words = words.split(|byte| byte.is_ascii_whitespace());
        let mut words = words.filter(|word| !word.is_empty());
        let Some(interpreter) = words.next().and_then(PathBuffer::of) else {
            return false;
        };
        if self.is_program(interpreter.as_c_str()) {
            return true;
        }
        if !interpreter.as_c_str().to_bytes().ends_with(b"/env") {
            return false;
        }
        // Options and assignments of env come before the program's name.
        let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        let path = name.and_then(|name| found(name, environment));
        path.is_some_and(|path| self.is_program(path.as_c_str()))
    }

    fn is_program(&self, path: &CStr) -> bool {
        let found = file::status_of(path, 0);
        found.is_ok_and(|found| (found.st_dev, found.st_ino) == self.program)
    }

    /// Calls `run` with the library and the handshake added; with what was given if there is no room for them.
    fn add<R>(&self, environment: Strings<'_>, run: impl FnOnce(Strings<'_>) -> R) -> R {
        let mut list = [0u8; LONGEST];
        let mut handshake = [0u8; 64];
        let others = environment.value(LIST);
        let (own, more) = (self.library.to_bytes(), others.unwrap_or_default());
        let parts = [LIST, own, b":", more];
        if environment.value(HANDSHAKE.as_bytes()).is_some() {
            return run(environment); // the launcher's, or ours
        }
        let parts = match others {
            Some(others) if sanitizers::named_in(others).is_some() => return run(environment),
            Some(_) => &parts[..],
            None => &parts[..2],
        };
        let mut room = &mut list[..LONGEST - 1];
        if !parts.iter().all(|part| room.write_all(part).is_ok()) {
            return run(environment);
        }
        let (device, inode) = self.program;
        let text = format_args!("{HANDSHAKE}{device}:{inode}:");
        let handshake = c_text_into(&mut handshake, text);
        let added = [list.as_ptr().cast(), handshake.as_ptr()];
        match environment.texts().count() {
            0..200 => extended::<256, R>(&environment, added, run),
            200..4000 => extended::<4096, R>(&environment, added, run),
            _ => run(environment),
        }
    }
}

/// Calls `run` with an environment of at most `ROOM` - 3 entries and two more, of which the first takes the place of
/// one of the same name.
#[inline(never)] // its array is on the stack
fn extended<const ROOM: usize, R>(
    environment: &Strings<'_>,
    added: [*const c_char; 2],
    run: impl FnOnce(Strings<'_>) -> R,
) -> R {
    let mut array = [std::ptr::null(); ROOM];
    let is_kept = |entry: &&CStr| !entry.to_bytes().starts_with(LIST);
    let kept = environment.texts().filter(is_kept);
    let entries = added.into_iter().chain(kept.map(CStr::as_ptr));
    for (place, entry) in array[..ROOM - 1].iter_mut().zip(entries) {
        *place = entry;
    }
    // SAFETY: strings, and null from the last of them on; `run` keeps nothing of it.
    run(unsafe { Strings::at(array.as_ptr()) })
}

/// The file that a program's name stands for, by the `PATH` of an environment.
fn found(name: &[u8], environment: &Strings<'_>) -> Option<PathBuffer> {
    if name.contains(&b'/') {
        return PathBuffer::of(name);
    }
    let folders = environment.value(b"PATH=").unwrap_or(b"/bin:/usr/bin");
    folders.split(|&byte| byte == b':').find_map(|folder| {
        let folder = if folder.is_empty() { b"." } else { folder };
        let path = PathBuffer::of(folder)?.with(b"/")?.with(name)?;
        file::is_executable(path.as_c_str()).then_some(path)
    })
}

/// The words of a script's `#!` line, if it has one.
fn interpreter_line<'a>(path: &CStr, room: &'a mut [u8; LINE]) -> Option<&'a [u8]> {
    if !file::is_executable(path) {
        return None; // a FIFO or a device, say, which may not be opened
    }
    let script = Fd::open(path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY).ok()?;
    let length = file::read_at(&script, room, 0).ok()?;
    let words = room[..length].strip_prefix(b"#!")?;
    words.split(|&byte| byte == b'\n').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    const OURS: &CStr = c"/opt/lib/libpyhost.so";

    fn environment_of(entries: &[&str], path: &CStr, preload: &Preload) -> Vec<String> {
        let texts = entries.iter().map(|text| CString::new(*text).unwrap());
        let texts: Vec<CString> = texts.collect();
        let mut array: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        array.push(std::ptr::null());
        let read = |strings: Strings<'_>| {
            let texts = strings.texts().map(|text| text.to_str().unwrap());
            texts.map(str::to_owned).collect()
        };
        // SAFETY: an array of strings that ends with null.
        let environment = unsafe { Strings::at(array.as_ptr()) };
        match preload.serves(Program::At(Some(path)), &environment) {
            true => preload.add(environment, read),
            false => read(environment),
        }
    }

    #[test]
    fn the_interpreter_and_its_scripts_are_hosted_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("pyhost-preload-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let python = file("python", "\x7fELF");
        let other = file("other", "\x7fELF");
        symlink(&python, folder.join("link")).unwrap();
        file("direct", &format!("#! {} -u\nprint()\n", python.display()));
        file("by-env", "#!/usr/bin/env -S A=1 python -u\n");
        file("by-other", &format!("#!{}\n", other.display()));
        file("empty", "#!\n");
        let found = std::fs::metadata(&python).unwrap();
        let preload = Preload {
            library: OURS,
            program: (found.dev(), found.ino()),
        };
        let path = format!("PATH=/nowhere:{}", folder.display());
        let handshake = format!("{HANDSHAKE}{}:{}:", found.dev(), found.ino());
        let program = |name: &str| CString::new(folder.join(name).to_str().unwrap()).unwrap();
        let [ours, other, both, twice] = [
            "/opt/lib/libpyhost.so",
            "other.so",
            "/opt/lib/libpyhost.so:other.so",
            "/opt/lib/libpyhost.so:/opt/lib/libpyhost.so",
        ]
        .map(|libraries| format!("LD_PRELOAD={libraries}"));
        let plain = ["A=1", &path];
        let hosted = [&ours, &handshake, "A=1", &path];
        for (name, given, expected) in [
            ("python", &plain[..], &hosted[..]),
            ("link", &plain, &hosted),
            ("direct", &plain, &hosted),
            ("by-env", &plain, &hosted),
            ("other", &plain, &plain),
            ("by-other", &plain, &plain),
            ("empty", &plain, &plain),
            ("missing", &plain, &plain),
            ("python", &[&other, "B=2"], &[&both, &handshake, "B=2"]),
            // The user may preload the library, too: only the first of the list is taken out again.
            ("python", &[&ours], &[&twice, &handshake]),
            ("python", &[&ours, &handshake], &[&ours, &handshake]),
        ] {
            let environment = environment_of(given, &program(name), &preload);
            assert_eq!(environment, expected, "{name} {given:?}");
        }
        let many: Vec<String> = (0..3000).map(|number| format!("V{number}=")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let environment = environment_of(&many, &program("python"), &preload);
        assert_eq!(environment.len(), 3002);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
