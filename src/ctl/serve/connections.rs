//! The connections: one thread, sockets that never block, and a deadline for each step.
//!
//! Whoever connects can do no more than lose the connection: a request has [`REQUEST_TIME`] to come
//! whole, however slowly its bytes drip, a response has [`RESPONSE_TIME`] to be taken, and of
//! [`MOST`] connections the oldest gives way to a new one. Each connection serves one request, so
//! nothing is left over between two.

use super::request::{Request, Response};
use super::system::{Wait, poll, wait_for};
use crate::Failure;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How long a request may take to come.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long a response may take to be sent.
const RESPONSE_TIME: Duration = Duration::from_secs(10);
/// How long the other side may take to close what is answered.
const CLOSING_TIME: Duration = Duration::from_secs(1);
/// How long new connections wait where the system has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections at a time.
const MOST: usize = 64;
/// Reads of one connection before the others have their turn.
const TURN: usize = 16;

enum State {
    /// What has come of the request.
    Reading(Vec<u8>),
    /// The response, and how much of it is sent.
    Writing(Vec<u8>, usize),
    /// All is sent. What still comes is thrown away: a socket that is closed over unread bytes takes
    /// the response back with it (RFC 9112, 9.6).
    Closing,
    /// Over.
    Done,
}

struct Connection {
    stream: TcpStream,
    state: State,
    deadline: Instant,
}

type Answer<'a> = &'a dyn Fn(&Request) -> Response;

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Connection {
            stream,
            state: State::Reading(Vec::new()),
            deadline: Instant::now() + REQUEST_TIME,
        }
    }

    fn wait(&self) -> Wait {
        let writes = matches!(self.state, State::Writing(..));
        wait_for(self.stream.as_raw_fd(), writes)
    }

    /// Goes as far as it can without waiting.
    fn advance(&mut self, answer: Answer<'_>) {
        for _ in 0..TURN {
            match self.step(answer) {
                Ok(()) if matches!(self.state, State::Done) => return,
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.state = State::Done,
            }
        }
    }

    fn step(&mut self, answer: Answer<'_>) -> std::io::Result<()> {
        let mut bytes = [0; 4096];
        match &mut self.state {
            State::Reading(request) => {
                let count = self.stream.read(&mut bytes)?;
                request.extend_from_slice(&bytes[..count]);
                let response = match Request::parse(request) {
                    Ok(None) if count == 0 => {
                        self.state = State::Done;
                        return Ok(());
                    }
                    Ok(None) => return Ok(()),
                    Ok(Some(request)) => answer(&request).into_bytes(request.is_head()),
                    Err(refusal) => refusal.into_bytes(false),
                };
                self.state = State::Writing(response, 0);
                self.deadline = Instant::now() + RESPONSE_TIME;
            }
            State::Writing(response, sent) => {
                *sent += self.stream.write(&response[*sent..])?;
                if *sent == response.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.state = State::Closing;
                    self.deadline = Instant::now() + CLOSING_TIME;
                }
            }
            State::Closing => {
                if self.stream.read(&mut bytes)? == 0 {
                    self.state = State::Done;
                }
            }
            State::Done => {}
        }
        Ok(())
    }
}

/// The listener and its connections, the oldest first.
pub struct Server {
    listener: TcpListener,
    connections: Vec<Connection>,
    /// Until when nothing new is accepted.
    paused: Option<Instant>,
}

impl Server {
    /// A server without connections.
    ///
    /// # Errors
    /// The system does not let the listener be asked without waiting.
    pub fn new(listener: TcpListener) -> Result<Self, Failure> {
        listener
            .set_nonblocking(true)
            .map_err(|error| Failure(format!("the socket cannot be used ({error})")))?;
        Ok(Server {
            listener,
            connections: Vec::with_capacity(MOST),
            paused: None,
        })
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// The system cannot wait for sockets.
    pub fn run(mut self, answer: Answer<'_>) -> Result<(), Failure> {
        loop {
            self.turn(answer)
                .map_err(|error| Failure(format!("cannot wait for connections ({error})")))?;
        }
    }

    /// Waits once, and serves whatever is ready.
    fn turn(&mut self, answer: Answer<'_>) -> std::io::Result<()> {
        let mut waits: Vec<Wait> = self.connections.iter().map(Connection::wait).collect();
        if self.paused.is_none() {
            waits.push(wait_for(self.listener.as_raw_fd(), false));
        }
        let deadlines = self.connections.iter().map(|open| open.deadline);
        let next = deadlines.chain(self.paused).min();
        let timeout = next.map(|next| next.saturating_duration_since(Instant::now()));
        poll(&mut waits, timeout)?;

        for (open, wait) in self.connections.iter_mut().zip(&waits) {
            if wait.revents != 0 {
                open.advance(answer);
            }
        }
        let now = Instant::now();
        self.connections
            .retain(|open| !matches!(open.state, State::Done) && open.deadline > now);
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
        }
        if self.paused.is_none() {
            self.accept();
        }
        Ok(())
    }

    /// Takes the connections that wait. Where there is no room the oldest has had its time.
    fn accept(&mut self) {
        for _ in 0..MOST / 2 {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.connections.len() == MOST {
                        self.connections.remove(0);
                    }
                    self.connections.push(Connection::new(stream));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // It has gone already; the next may not.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No descriptor or no memory is left.
                Err(_) => {
                    if self.connections.is_empty() {
                        self.paused = Some(Instant::now() + PAUSE);
                    } else {
                        self.connections.remove(0);
                    }
                    return;
                }
            }
        }
    }
}
