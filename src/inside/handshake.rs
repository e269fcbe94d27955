//! The word of the launcher to the library, in the environment: see [`pyhost_host::preload::HANDSHAKE`].

use pyhost_host::Strings;
use std::ffi::CStr;

const NAME: &[u8] = pyhost_host::preload::HANDSHAKE.as_bytes();

/// The program that the library was preloaded for. Lies in the environment's strings, which are never freed.
pub struct Handshake {
    /// Device and inode of the interpreter.
    pub interpreter: (u64, u64),
    /// The name that the launcher was called by; empty in a child that runs the interpreter.
    name: &'static CStr,
}

impl Handshake {
    /// The launcher's word, if there is one.
    pub fn find(environment: &Strings<'static>) -> Option<Self> {
        let mut entries = environment.texts().map(CStr::to_bytes_with_nul);
        let text = entries.find_map(|entry| entry.strip_prefix(NAME))?;
        let mut parts = text.splitn(3, |&byte| byte == b':');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let interpreter = (number()?, number()?);
        Some(Handshake {
            interpreter,
            name: CStr::from_bytes_with_nul(parts.next()?).ok()?,
        })
    }

    /// Whether this process runs the interpreter that was meant, with no more rights than its caller.
    pub fn is_for_this_program(&self) -> bool {
        pyhost_host::runs_program(self.interpreter)
    }

    /// The name that the launcher was called by, if it started this process.
    pub fn name(&self) -> Option<&'static CStr> {
        Some(self.name).filter(|name| !name.is_empty())
    }

    /// Takes the launcher's word out of an environment.
    pub fn remove(environment: &mut Strings<'_>) {
        environment.retain(|entry| !entry.starts_with(NAME));
    }
}
