//! The types of the live objects of a site, as the caller finds them at one moment.

use crate::stacks::Stacks;
use crate::sum::{Sum, Weight};
use pyhost_os::mmap_vec::MmapVec;
use std::ops::Range;

/// Reads the types of objects. It must neither allocate nor run Python code.
pub trait Kinds {
    /// The type of the object in the block of `bytes` bytes at `address`, as a number; None if it holds none.
    fn kind_of(&mut self, address: usize, bytes: usize) -> Option<usize>;
    /// Gives the name of a type.
    fn name(&mut self, kind: usize, take: &mut dyn FnMut(&[u8]));
}

/// The live objects of a site that have one type.
#[derive(Clone, Copy)]
struct OfType {
    site: u32,
    /// The number of the type, and then that of its name's text.
    kind: usize,
    sum: Sum,
}

/// The types, those of a site side by side.
#[derive(Default)]
pub struct Types {
    found: MmapVec<OfType>,
}

impl Types {
    /// A copy. None if there is no memory for it.
    pub fn copied(&self) -> Option<Self> {
        Some(Types {
            found: self.found.copied()?,
        })
    }

    /// Adds an object of a site; false if there is no memory for it.
    pub fn add(&mut self, site: u32, kind: usize, weight: Weight) -> bool {
        self.found.push(OfType {
            site,
            kind,
            sum: weight,
        })
    }

    /// Sums the objects by the name of their type. Those without a name are left out.
    pub fn named(mut self, kinds: &mut dyn Kinds, stacks: &mut Stacks) -> Self {
        self.merge();
        let mut known = None;
        let mut named = Types::default();
        self.found.sort_unstable_by_key(|found| found.kind);
        for found in self.found.iter() {
            if known.is_none_or(|(kind, _)| kind != found.kind) {
                let mut text = None;
                kinds.name(found.kind, &mut |name| {
                    text = (!name.is_empty()).then(|| stacks.text(name)).flatten();
                });
                known = Some((found.kind, text));
            }
            if let Some((_, Some(text))) = known {
                named.found.push(OfType {
                    kind: text as usize,
                    ..*found
                });
            }
        }
        named.merge();
        let bytes = |found: &OfType| std::cmp::Reverse(found.sum.bytes());
        named
            .found
            .sort_unstable_by_key(|found| (found.site, bytes(found)));
        named
    }

    fn merge(&mut self) {
        let mut merged: MmapVec<OfType> = MmapVec::new();
        self.found
            .sort_unstable_by_key(|found| (found.site, found.kind));
        for found in self.found.iter() {
            if let Some(last) = merged.last_mut()
                && (last.site, last.kind) == (found.site, found.kind)
            {
                last.sum += found.sum;
            } else if !merged.push(*found) {
                break;
            }
        }
        self.found = merged;
    }

    /// The names and sums of a site, those with the most bytes first.
    pub fn of<'a>(&'a self, site: u32, stacks: &'a Stacks) -> impl Iterator<Item = (&'a str, Sum)> {
        let start = self.found.partition_point(|found| found.site < site);
        let found = self.found[start..].iter();
        found
            .take_while(move |found| found.site == site)
            .map(|found| (stacks.text_at(found.kind as u32), found.sum))
    }

    pub fn addresses(&self) -> Range<usize> {
        self.found.addresses()
    }
}
