//! The bytes of responses.

/// The response. The connection ends after it.
pub struct Response {
    status: &'static str,
    content_type: &'static str,
    /// Further header lines, or nothing.
    headers: String,
    body: Vec<u8>,
}

pub const NOT_FOUND: &str = "404 Not Found";
pub const BAD_REQUEST: &str = "400 Bad Request";
pub const PLAIN: &str = "text/plain; charset=utf-8";

impl Response {
    /// A status with its reason.
    fn of_text(status: &'static str, headers: &str, text: &str) -> Self {
        Response {
            status,
            content_type: PLAIN,
            headers: headers.to_owned(),
            body: format!("{text}\n").into_bytes(),
        }
    }

    pub fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Response {
            status: "200 OK",
            content_type,
            headers: String::new(),
            body: body.into(),
        }
    }

    /// A file to be kept under that name.
    pub fn file(name: &str, body: Vec<u8>) -> Self {
        Response {
            headers: format!("Content-Disposition: attachment; filename=\"{name}\"\r\n"),
            ..Response::ok("application/octet-stream", body)
        }
    }

    /// A refusal that the status says all of.
    pub fn refused(status: &'static str) -> Self {
        Response::of_text(status, "", status)
    }

    /// Nothing can be written here.
    pub fn not_allowed() -> Self {
        let status = "405 Method Not Allowed";
        Response::of_text(status, "Allow: GET, HEAD\r\n", status)
    }

    /// The server is not known by the name that was asked for.
    pub fn misdirected() -> Self {
        let text = "421 Misdirected Request: this server does not answer to that name; expected localhost, \
                    or a name of pyhostctl serve --allow-host";
        Response::of_text("421 Misdirected Request", "", text)
    }

    /// The hosts cannot be looked at; `text` says why.
    pub fn failed(text: &str) -> Self {
        Response::of_text("500 Internal Server Error", "", text)
    }

    /// There is no profile; `text` says why, and `go tool pprof` shows it, by the header of Go's own servers.
    pub fn no_profile(status: &'static str, text: &str) -> Self {
        Response::of_text(status, "X-Go-Pprof: 1\r\n", text)
    }

    /// The bytes to send; the body's length alone if the request is one of `HEAD`.
    pub fn into_bytes(self, is_head: bool) -> Vec<u8> {
        let length = self.body.len();
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{}\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status, self.content_type, self.headers
        );
        let mut bytes = head.into_bytes();
        if !is_head {
            bytes.extend(self.body);
        }
        bytes
    }
}
