//! The functions that an object's file names, also those that it does not export.

use object::elf::{FileHeader64, SHT_SYMTAB, STT_FUNC, SectionHeader64, Sym64};
use object::pod::{Pod, bytes_of_slice_mut, from_bytes};
use object::{LittleEndian as Little, read::elf::Sym};
use std::io::{BufRead, BufReader, ErrorKind, Read, Result, Seek, SeekFrom};
use std::{fs::File, path::Path};

/// The value of the function whose name ends so: its address in the file. `None` if the file has no table of symbols, as a stripped
/// one, or no such function. Reads the whole table, a part at a time.
pub fn function_ending_in(path: &Path, ending: &[u8]) -> Result<Option<u64>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let header: FileHeader64<Little> = next(&mut file)?;
    file.seek(SeekFrom::Start(header.e_shoff.get(Little)))?;
    let sections = (0..header.e_shnum.get(Little)).map(|_| next(&mut file));
    let sections: Vec<SectionHeader64<Little>> = sections.collect::<Result<_>>()?;
    let is_table = |it: &&SectionHeader64<Little>| it.sh_type.get(Little) == SHT_SYMTAB;
    let Some(symbols) = sections.iter().find(is_table) else {
        return Ok(None);
    };
    let texts = sections.get(symbols.sh_link.get(Little) as usize);
    let texts = texts.ok_or(ErrorKind::InvalidData)?;
    file.seek(SeekFrom::Start(texts.sh_offset.get(Little)))?;
    let (mut text, mut names, mut start) = (Vec::new(), Vec::new(), 0);
    while start < texts.sh_size.get(Little) {
        text.clear();
        let length = file.read_until(0, &mut text)? as u64;
        if length == 0 {
            break;
        }
        let name = text.strip_suffix(b"\0");
        if name.is_some_and(|it| it.ends_with(ending)) {
            names.push(start..start + length - ending.len() as u64);
        }
        start += length;
    }
    file.seek(SeekFrom::Start(symbols.sh_offset.get(Little)))?;
    for _ in 0..symbols.sh_size.get(Little) / size_of::<Sym64<Little>>() as u64 {
        let symbol: Sym64<Little> = next(&mut file)?;
        let is_function = symbol.st_type() == STT_FUNC && !symbol.is_undefined(Little);
        let name = symbol.st_name.get(Little).into();
        if is_function && names.iter().any(|it| it.contains(&name)) {
            return Ok(Some(symbol.st_value.get(Little)));
        }
    }
    Ok(None)
}

fn next<T: Pod>(file: &mut impl Read) -> Result<T> {
    // Aligned for all of them.
    let mut words = [0u64; 8];
    let bytes = &mut bytes_of_slice_mut(&mut words)[..size_of::<T>()];
    file.read_exact(bytes)?;
    let (read, _) = from_bytes::<T>(bytes).map_err(|()| ErrorKind::InvalidData)?;
    Ok(*read)
}

#[cfg(test)]
mod tests {
    use super::function_ending_in;

    #[test]
    fn a_function_that_is_not_exported_is_found_by_the_end_of_its_name() {
        let path = std::env::current_exe().unwrap();
        let of = |ending: &[u8]| function_ending_in(&path, ending).unwrap();
        // Rust's own, which no executable exports: it is at a multiple of 4 in the code.
        let found = of(b"rust_eh_personality").expect("the test is not stripped");
        assert!(found > 0 && found.is_multiple_of(4));
        assert_eq!(of(b"no_such_function_anywhere"), None);
        assert!(function_ending_in("/proc/self/status".as_ref(), b"x").is_err());
    }
}
