//! Requests of HTTP/1.0 and 1.1, as far as a scrape needs them.

use super::response::{BAD_REQUEST, Response};
use httparse::{EMPTY_HEADER, Error, Status};
use std::borrow::Cow;

/// The bytes of a request line and its headers that are read at most.
pub const LIMIT: usize = 8 * 1024;
const HEADERS: usize = 64;

pub struct Request {
    method: String,
    /// The path, without what follows a question mark.
    pub path: String,
    /// What follows it, such as `a=1&b=2`: see [`value_of`].
    pub query: String,
    /// The `Host` header: of several that differ, one that no server has.
    pub host: Option<String>,
    /// Whether OpenMetrics is at least as welcome as Prometheus's text format.
    pub prefers_openmetrics: bool,
}

impl Request {
    /// Reads the bytes of a request that have come so far. Returns `None` if more must come. The error is the response to send.
    pub fn parse(bytes: &[u8]) -> Result<Option<Request>, Response> {
        let mut headers = [EMPTY_HEADER; HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(bytes) {
            Ok(Status::Complete(_)) => {}
            Ok(Status::Partial) if bytes.len() < LIMIT => return Ok(None),
            Ok(Status::Partial) | Err(Error::TooManyHeaders) => {
                return Err(Response::refused("431 Request Header Fields Too Large"));
            }
            Err(_) => return Err(Response::refused(BAD_REQUEST)),
        }
        let values = |name: &'static str| {
            let headers = parsed.headers.iter();
            let named = headers.filter(move |header| header.name.eq_ignore_ascii_case(name));
            named.map(|header| header.value)
        };
        let accept = values("accept").filter_map(|value| std::str::from_utf8(value).ok());
        let mut hosts =
            values("host").map(|value| String::from_utf8_lossy(value).trim().to_owned());
        let first = hosts.next();
        let host = match hosts.all(|other| Some(other) == first) {
            true => first,
            false => Some(String::new()),
        };
        let (absolute_host, path) = parts_of(parsed.path.unwrap_or_default());
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Ok(Some(Request {
            method: parsed.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            host: absolute_host.or(host),
            prefers_openmetrics: prefers_openmetrics(accept),
        }))
    }

    pub fn reads(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }
}

/// The host of a request target that is a whole address, `http://host/path` (RFC 9112, 3.2.2), which then counts instead
/// of the header; and the path.
fn parts_of(target: &str) -> (Option<String>, &str) {
    let Some(rest) = target.strip_prefix("http://") else {
        return (None, target);
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    (Some(host.to_owned()), path)
}

/// Compares the weights that the `Accept` headers give to the two formats (RFC 9110, 12.5.1).
/// OpenMetrics must be named: a wildcard alone is a browser's, or curl's.
fn prefers_openmetrics<'a>(accept: impl Iterator<Item = &'a str>) -> bool {
    let (mut open, mut plain) = (0.0_f32, 0.0_f32);
    for range in accept.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight = weight.map_or(1.0, |text| text.parse().unwrap_or(0.0));
        match kind.as_str() {
            "application/openmetrics-text" => open = open.max(weight),
            "text/plain" => plain = plain.max(weight),
            _ => {}
        }
    }
    open > 0.0 && open >= plain
}

/// The first value of that name in a query; None if it is empty, too.
pub fn value_of<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut values = form_urlencoded::parse(query.as_bytes());
    let found = values.find(|(own, _)| own == name);
    found.map(|it| it.1).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_more_welcome() {
        let open = "application/openmetrics-text";
        let prometheus = format!(
            "{open};version=1.0.0,{open};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        );
        let half = "text/plain;q=0.5".to_owned();
        for (accept, expected) in [
            (vec![], false),
            (vec!["*/*".to_owned()], false),
            (vec!["text/plain".to_owned()], false),
            (vec![open.to_owned()], true),
            (vec![format!("{}; version=1", open.to_uppercase())], true),
            (vec![format!("{open};version=1.0.0;q=0")], false),
            (vec![format!("{open};q=0.4,text/plain;q=0.5")], false),
            (vec![prometheus], true),
            (vec![half, format!("{open};q=0.5")], true),
            (vec![format!("{open};q=much")], false),
        ] {
            let found = prefers_openmetrics(accept.iter().map(String::as_str));
            assert_eq!(found, expected, "{accept:?}");
        }
    }
}
