//! The connections: one thread for each, and a time limit for each step.
//!
//! A client can do no harm but to its own connection: a request must arrive within [`REQUEST_TIME`], however slowly its
//! bytes drip, and a response must be taken within [`RESPONSE_TIME`]. If [`MOST`] connections are open, a new one
//! replaces the oldest. Each connection serves one request, so nothing is left over between two.

use super::{request::Request, response::Response};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope, sleep};
use std::time::{Duration, Instant};

const REQUEST_TIME: Duration = Duration::from_secs(5);
const RESPONSE_TIME: Duration = Duration::from_secs(10);
/// The time that a client has to close the connection after its response.
const CLOSING_TIME: Duration = Duration::from_secs(1);
/// The time until the next attempt if the system has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);
const MOST: usize = 64;

type Answer<'a> = &'a (dyn Fn(&Request, &Client<'_>) -> Response + Sync);

/// The client of a request, while its response is made.
pub struct Client<'a>(&'a TcpStream);

impl Client<'_> {
    /// Waits. Returns false, and at once, if the client closes the connection, or it gives way to a new one.
    pub fn waits(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while let Ok(left) = left_until(deadline) {
            if self.0.set_read_timeout(Some(left)).is_err() {
                return false;
            }
            match (&mut &*self.0).read(&mut [0; 4096]) {
                Ok(0) => return false,
                Ok(_) => {} // the body that it has sent
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return false,
                },
            }
        }
        true
    }
}

struct Connection<'scope> {
    /// Gone when the thread is done with it.
    stream: Weak<TcpStream>,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl Connection<'_> {
    /// Ends the connection. Its descriptor is free when this returns.
    fn close(self) {
        if let Some(stream) = self.stream.upgrade() {
            // The thread's next read or write returns at once.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = self.thread.join();
    }
}

pub fn serve(listener: &TcpListener, answer: Answer<'_>) -> ! {
    scope(|scope| {
        // The oldest first.
        let mut connections: Vec<Connection<'_>> = Vec::with_capacity(MOST);
        loop {
            let accepted = listener.accept();
            connections.retain(|open| !open.thread.is_finished());
            match accepted {
                Ok((stream, _)) => {
                    if connections.len() == MOST {
                        connections.remove(0).close();
                    }
                    connections.extend(start(scope, stream, answer));
                }
                // The client has gone already; the next one may not have.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No descriptor or no memory is left.
                Err(_) if connections.is_empty() => sleep(PAUSE),
                Err(_) => connections.remove(0).close(),
            }
        }
    })
}

/// Starts the thread of a connection. Returns `None`, and drops the connection, if the system has no thread left.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    stream: TcpStream,
    answer: Answer<'scope>,
) -> Option<Connection<'scope>> {
    let stream = Arc::new(stream);
    let weak = Arc::downgrade(&stream);
    // An error is the client's: it sees that the connection ends.
    let serve = move || drop(serve_one(&stream, answer));
    let thread = Builder::new().spawn_scoped(scope, serve).ok()?;
    Some(Connection {
        stream: weak,
        thread,
    })
}

/// Reads a request, sends its response and waits for the client to close the connection.
fn serve_one(mut stream: &TcpStream, answer: Answer<'_>) -> io::Result<()> {
    let deadline = Instant::now() + REQUEST_TIME;
    let mut received = Vec::new();
    let response = loop {
        let mut bytes = [0; 4096];
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        let count = stream.read(&mut bytes)?;
        received.extend_from_slice(&bytes[..count]);
        match Request::parse(&received) {
            Ok(None) if count == 0 => return Ok(()),
            Ok(None) => {}
            Ok(Some(request)) => {
                let response = answer(&request, &Client(stream));
                break response.into_bytes(request.is_head());
            }
            Err(refusal) => break refusal.into_bytes(false),
        }
    };

    let deadline = Instant::now() + RESPONSE_TIME;
    let mut rest = response.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left_until(deadline)?))?;
        let count = stream.write(rest)?;
        rest = &rest[count..];
    }

    // Reads and drops the rest of the request: if a socket is closed with unread bytes, the client may
    // lose the response (RFC 9112, 9.6).
    stream.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + CLOSING_TIME;
    loop {
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        if stream.read(&mut [0; 4096])? == 0 {
            return Ok(());
        }
    }
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}
