//! The types of sampled objects, read off their blocks while Python runs.

use super::WORD;
use crate::cpython::layout::objects_in_blocks::{self, Kind, Memory};
use crate::cpython::{IS_FREE_THREADED, objects::Gil};
use crate::heap::sampling::{Kinds, Samples};
use crate::{ledger::Account, process::read_memory};
use pyhost_os::mmap_vec::MmapVec;

/// Bytes at the start of a block that may be looked at: of the debug hooks, of the collector, of the object.
const HEAD: usize = super::HOOK + objects_in_blocks::LONGEST;
/// The second word of a block of the debug hooks: the domain `o`, and forbidden bytes.
const HOOKED: usize = (usize::MAX / 0xFF * 0xFD) & !0xFF | b'o' as usize;
/// Entries of the table of types.
const KNOWN: usize = 1 << 12;

/// Memory that other threads may unmap at any moment: the system reads it.
struct Unsure;

impl Memory for Unsure {
    fn holds(&self, address: usize, length: usize) -> bool {
        let mut room = [0; 1024];
        length <= room.len() && self.read(address, &mut room[..length])
    }

    fn word(&self, address: usize) -> Option<usize> {
        let mut word = [0; WORD];
        self.read(address, &mut word)
            .then(|| usize::from_ne_bytes(word))
    }
}

impl Unsure {
    fn read(&self, address: usize, to: &mut [u8]) -> bool {
        address.is_multiple_of(WORD) && address != 0 && read_memory(address, to) == to.len()
    }
}

/// The types of objects. While it lives no type is freed.
struct Types<'a> {
    /// What is known of an address, in the place of its hash.
    known: MmapVec<(usize, Option<Kind>)>,
    _gil: Gil<'a>,
}

impl Types<'_> {
    fn kind_at(&mut self, address: usize) -> Option<Kind> {
        // No type lies elsewhere, and most words that are no address end here.
        if !address.is_multiple_of(WORD) || !(1 << 12..1 << 56).contains(&(address as u64)) {
            return None;
        }
        let place = (address as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
        let known = &mut self.known[place as usize % KNOWN];
        if known.0 != address {
            *known = (address, objects_in_blocks::kind_at(&Unsure, address));
        }
        known.1
    }
}

impl Kinds for Types<'_> {
    fn kind_of(&mut self, address: usize, bytes: usize) -> Option<usize> {
        let mut head = [0; HEAD];
        let head = &mut head[..bytes.min(HEAD)];
        if read_memory(address, head) < head.len() {
            return None;
        }
        let word = |place: usize| {
            let word = head.get(place..place + WORD)?;
            word.try_into().ok().map(usize::from_ne_bytes)
        };
        let front = super::HOOK * usize::from(word(WORD) == Some(HOOKED));
        let size = bytes.checked_sub(front)?;
        let word_at = |at: usize| word(at - address);
        let found =
            objects_in_blocks::object_with(address + front, size, word_at, |at| self.kind_at(at))?;
        // One in a list of free objects has no reference.
        let references = word_at(found.address)? as isize;
        let fits = self.kind_at(found.kind)?.size <= address + bytes - found.address;
        (references > 0 && fits).then_some(found.kind)
    }

    fn name(&mut self, kind: usize, take: &mut dyn FnMut(&[u8])) {
        let name = objects_in_blocks::type_name(&Unsure, kind);
        take(name.split(|&byte| byte == 0).next().unwrap_or_default());
    }
}

/// Tells the samples the types of the objects that are live. Nothing of Python runs.
pub fn look(gil: Gil<'_>, samples: &mut Samples) {
    let nothing = MmapVec::filled(KNOWN, (0, None));
    if let Some(known) = nothing.filter(|_| !IS_FREE_THREADED) {
        let mut types = Types { known, _gil: gil };
        samples.look_at_types(Account::Obj as u8, &mut types);
    }
}
