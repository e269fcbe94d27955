//! The values behind the question mark of a request.

/// The names and values of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=1&b=2`.
    pub fn of(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let plain = |text: &str| decoded(&text.replace('+', " "));
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (plain(name), plain(value))
        });
        Query(pairs.collect())
    }

    /// The first value of that name; None if it is empty, too.
    pub fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

/// A text with its percent-encoded bytes decoded (RFC 3986, 2.1). A `%` that begins none stays.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let digit = |place: usize| (*others.get(place)? as char).to_digit(16);
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &others[2..];
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_the_first_counts() {
        let query = Query::of("pid=1%3a2&&seconds=5&seconds=6&gc&debug=&odd=%zz%4+%41%");
        assert_eq!(query.value("pid"), Some("1:2"));
        assert_eq!(query.value("seconds"), Some("5"));
        assert_eq!(query.value("odd"), Some("%zz%4 A%"));
        for missing in ["gc", "debug", "other"] {
            assert_eq!(query.value(missing), None, "{missing}");
        }
        assert_eq!(Query::of(""), Query::default());
    }
}
