//! Where to listen: a host and a port, of which either may be left out.

use crate::output::Failure;
use pyhost_os::bytes::Expected;
use std::{fmt, net::TcpListener, str::FromStr};

/// The port if none is named: outside of those that exporters have shared out (9100 to 9999), of
/// which none is left, and below those that systems give to clients. The number is PEP 445's.
const PORT: u16 = 14450;
/// The address if none is named.
const HOST: &str = "127.0.0.1";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The host's name or address.
    pub host: String,
    port: u16,
}

impl Default for Address {
    fn default() -> Self {
        Address {
            host: HOST.to_owned(),
            port: PORT,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Address {
    type Err = Expected;

    /// Reads `HOST:PORT`, `HOST`, `:PORT`, `[::1]:PORT` or `::1`.
    fn from_str(text: &str) -> Result<Self, Expected> {
        const FORM: Expected =
            Expected("expected HOST:PORT, such as 127.0.0.1:14450 or [::1]:14450");
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or(FORM)?;
                let port = match rest {
                    "" => None,
                    rest => Some(rest.strip_prefix(':').ok_or(FORM)?),
                };
                (host, port)
            }
            None if text.matches(':').count() > 1 => (text, None),
            None => text
                .split_once(':')
                .map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if text.is_empty() || host.contains(char::is_whitespace) {
            return Err(FORM);
        }
        let host = if host.is_empty() { HOST } else { host }.to_owned();
        let port = port.map_or(Ok(PORT), str::parse).map_err(|_| FORM)?;
        Ok(Address { host, port })
    }
}

impl Address {
    pub fn listen(&self) -> Result<TcpListener, Failure> {
        TcpListener::bind((self.host.as_str(), self.port)).map_err(|error| {
            Failure(match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    format!("--listen: {self} is in use; expected a free port")
                }
                _ => format!("--listen: cannot listen at {self} ({error})"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_part_of_an_address_may_be_left_out() {
        for (text, shown) in [
            ("127.0.0.1:8000", "127.0.0.1:8000"),
            ("localhost", "localhost:14450"),
            (":0", "127.0.0.1:0"),
            ("[::1]:8000", "[::1]:8000"),
            ("[::1]", "[::1]:14450"),
            ("::1", "[::1]:14450"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
        }
        for text in ["", "a:b", "a:70000", "[::1", "[::1]8000", "a b:1", "a:"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
