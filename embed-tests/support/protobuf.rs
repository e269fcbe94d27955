//! Reads messages of protobuf by their field numbers alone.

/// A field of a message.
pub struct Field<'a> {
    pub number: u64,
    /// Of a number.
    pub value: u64,
    /// Of a text, a message or a packed list.
    pub bytes: &'a [u8],
}

/// The fields of a message of numbers, texts and messages.
pub fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let mut field = Field {
            number: key >> 3,
            value: 0,
            bytes: &[],
        };
        match key & 7 {
            0 => field.value = varint(&mut bytes),
            2 => {
                let length = varint(&mut bytes) as usize;
                (field.bytes, bytes) = bytes.split_at(length);
            }
            kind => panic!("a field of kind {kind}"),
        }
        found.push(field);
    }
    found
}

/// The numbers of a packed list.
pub fn packed(mut bytes: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(varint(&mut bytes));
    }
    found
}

/// The texts of a repeated field.
pub fn texts<'a>(fields: &[Field<'a>], number: u64) -> Vec<&'a str> {
    let texts = fields.iter().filter(|field| field.number == number);
    texts
        .map(|field| str::from_utf8(field.bytes).unwrap())
        .collect()
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a byte");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}
