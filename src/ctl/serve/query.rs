//! The values behind the question mark of a request.

use percent_encoding::percent_decode_str;

/// The names and values of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=1&b=2`.
    pub fn of(text: &str) -> Self {
        Query(
            form_urlencoded::parse(text.as_bytes())
                .into_owned()
                .collect(),
        )
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
    percent_decode_str(text).decode_utf8_lossy().into_owned()
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
