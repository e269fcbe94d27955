//! The word of the launcher to the library, in the environment: see [`pyhost_host::preload::HANDSHAKE`].

use pyhost_host::Strings;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

const NAME: &[u8] = pyhost_host::preload::HANDSHAKE.as_bytes();

/// The program that the library was preloaded for. Lies in the environment's strings, which are never freed.
pub struct Handshake {
    /// Device and inode of the interpreter.
    pub interpreter: (u64, u64),
    program: &'static [u8],
}

impl Handshake {
    /// The launcher's word, if there is one.
    pub fn find(environment: &Strings<'static>) -> Option<Self> {
        let text = environment.value(NAME)?;
        let mut parts = text.splitn(3, |&byte| byte == b':');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let interpreter = (number()?, number()?);
        Some(Handshake {
            interpreter,
            program: parts.next()?,
        })
    }

    /// Whether this process runs the interpreter that was meant, with no more rights than its caller.
    pub fn is_for_this_program(&self) -> bool {
        pyhost_host::runs_program(self.interpreter)
    }

    /// Whether a name is the path that the launcher gave.
    pub fn names(&self, name: &[u8]) -> bool {
        !name.is_empty() && name == self.program
    }

    /// The path that Python finds itself by, where it is not the program's name.
    pub fn program(&self) -> Option<OsString> {
        let given = !self.program.is_empty();
        given.then(|| OsStr::from_bytes(self.program).to_owned())
    }
}

/// Takes the launcher's word, and with it the library's place in `LD_PRELOAD`, out of an environment.
pub fn remove(environment: &mut Strings<'_>) {
    environment.retain(|entry| !entry.starts_with(NAME));
    // SAFETY: the environment that the kernel made, in memory of the stack, before anybody else reads it.
    unsafe { environment.take_first_of_list(b"LD_PRELOAD=") };
}
