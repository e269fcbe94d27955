//! Arguments and environment as the loader passes them, for code that runs before the standard library can.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

/// An array of strings that ends with null, or null for none. Nobody else changes it meanwhile. A function that the
/// loader calls takes its arrays as this type.
#[repr(transparent)]
pub struct Strings<'a>(*mut *const c_char, PhantomData<&'a CStr>);

impl<'a> Strings<'a> {
    /// The strings, without the bytes that end them.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let mut next = self.0;
        std::iter::from_fn(move || {
            // SAFETY: the array and its strings, as the type says; the end is not passed.
            unsafe {
                if next.is_null() || (*next).is_null() {
                    return None;
                }
                let text = CStr::from_ptr(*next).to_bytes();
                next = next.add(1);
                Some(text)
            }
        })
    }

    /// Takes the strings out that `keep` is false for.
    pub fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let (mut from, mut to) = (self.0, self.0);
        // SAFETY: as in `iter`; no more strings are kept than there were.
        unsafe {
            while !from.is_null() && !(*from).is_null() {
                if keep(CStr::from_ptr(*from).to_bytes()) {
                    *to = *from;
                    to = to.add(1);
                }
                from = from.add(1);
            }
            if let Some(end) = to.as_mut() {
                *end = std::ptr::null();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_taken_out_where_they_are() {
        let entries = [c"MIMALLOC_VERBOSE=1", c"HOME=/", c"M", c"MIMALLO=1", c"M"];
        let mut array: Vec<*const c_char> = entries.iter().map(|entry| entry.as_ptr()).collect();
        array.push(std::ptr::null());
        let mut strings = Strings(array.as_mut_ptr(), PhantomData);
        strings.retain(|text| text.len() > 1 && !text.starts_with(b"MIMALLOC_"));
        let left: Vec<&[u8]> = strings.iter().collect();
        assert_eq!(left, [b"HOME=/".as_slice(), b"MIMALLO=1"]);
        let mut none = Strings(std::ptr::null_mut(), PhantomData);
        none.retain(|_| true);
        assert_eq!(none.iter().count(), 0);
    }
}
