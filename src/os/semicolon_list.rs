//! Lists in one text, such as the value of an option. A separator that belongs to an item is written twice.
//! An item is not empty and does not begin with one.

#![deny(unsafe_code)]

/// The items, as they are written. Allocates nothing.
pub fn items(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut end = 0;
        while end < text.len() {
            match text[end] == separator {
                true if text.get(end + 1) == Some(&separator) => end += 2,
                true => {
                    rest = Some(&text[end + 1..]);
                    return Some(&text[..end]);
                }
                false => end += 1,
            }
        }
        rest = None;
        Some(text)
    })
}

pub fn written(item: &[u8], separator: u8) -> Vec<u8> {
    let parts = item.split(|&byte| byte == separator);
    parts.collect::<Vec<_>>().join(&[separator; 2][..])
}

/// Reads an item that [`items`] has found. Returns `None` if a separator in it is written once.
pub fn read(item: &[u8], separator: u8) -> Option<Vec<u8>> {
    let mut bytes = item.iter();
    let mut read = Vec::new();
    while let Some(&byte) = bytes.next() {
        if byte == separator && bytes.next() != Some(&separator) {
            return None;
        }
        read.push(byte);
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_back_as_they_were() {
        for list in [&["a", "b"][..], &["a,b", "c"], &["x,", "a,,b,"], &[""]] {
            let written = list.iter().map(|item| written(item.as_bytes(), b','));
            let text = written.collect::<Vec<_>>().join(&b',');
            let found = items(&text, b',').map(|item| read(item, b',').unwrap());
            let found: Vec<Vec<u8>> = found.collect();
            let expected: Vec<&[u8]> = list.iter().map(|item| item.as_bytes()).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(items(b"a,,b,c,", b',').count(), 3);
        assert_eq!(read(b"a,b", b','), None);
        assert_eq!(read(b"a,", b','), None);
    }
}
