//! Whether a file can be an interpreter with the host inside, as far as the file shows. The library checks the rest:
//! see `src/host/python/interpreter/version.rs`.

use object::elf::{self, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

/// Bytes of a file that are read: its header and its list of segments.
const HEAD: u64 = 4096;
/// Bytes of a path, with the zero byte.
const LONGEST: usize = 4096;
const SET_IDS: u32 = 0o6000;
const IS_MUSL: bool = cfg!(target_env = "musl");

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = elf::EM_AARCH64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the machine of an interpreter is known on x86-64 and aarch64");

/// Reads the beginning of a program; returns what the system knows of the file. The error is the rest of a line that begins
/// with the path.
pub fn check(path: &Path) -> Result<Metadata, String> {
    let (found, head) = read(path).map_err(|error| format!("cannot be read ({error})"))?;
    if head.starts_with(b"#!") {
        let line =
            "is a script; expected the interpreter that it starts, which sys.executable names";
        return Err(line.to_owned());
    }
    if found.permissions().mode() & SET_IDS != 0 {
        return Err("runs with the rights of its owner; expected a python without them".to_owned());
    }
    match loader(path, &head) {
        None => Err("is no dynamic executable of this machine; expected a python".to_owned()),
        Some(loader) if loader.windows(4).any(|part| part == b"musl") != IS_MUSL => Err(format!(
            "is {} for musl; expected a python for the C library of this host",
            if IS_MUSL { "not built" } else { "built" }
        )),
        Some(_) => Ok(found),
    }
}

fn read(path: &Path) -> io::Result<(Metadata, Vec<u8>)> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    Ok((found, head))
}

/// The name of the loader that a program asks for.
fn loader(path: &Path, head: &[u8]) -> Option<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine.get(endian) != MACHINE {
        return None;
    }
    let segments = header.program_headers(endian, head).ok()?;
    let segment = segments
        .iter()
        .find(|segment| segment.p_type(endian) == elf::PT_INTERP)?;
    // It may stand anywhere in the file.
    let mut name = vec![0; usize::try_from(segment.p_filesz(endian)).ok()?.min(LONGEST)];
    let file = File::open(path).ok()?;
    file.read_exact_at(&mut name, segment.p_offset(endian))
        .ok()?;
    Some(name)
}
