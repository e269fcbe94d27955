//! Programs that run beside a test: hosts, `pyhostctl serve`, Prometheus. Waits for conditions, asks
//! over HTTP, and ends what it has started.

use crate::host::{DEADLINE, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;

/// A process that is killed at the test's end.
pub struct Daemon {
    pub child: Child,
}

impl Daemon {
    /// Starts a program; its standard input ends with the test.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped());
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Daemon { child }
    }

    /// Starts a program that says in one line on standard output that it is ready; the line.
    pub fn ready(command: &mut Command) -> (Self, String) {
        let mut daemon = Daemon::start(command.stdout(Stdio::piped()));
        let mut line = String::new();
        let mut out = BufReader::new(daemon.child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        daemon.child.stdout = Some(out.into_inner());
        (daemon, line.trim_end().to_owned())
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: a child that was not waited for.
        #[allow(unsafe_code)]
        unsafe {
            libc::kill(self.pid(), signal)
        };
    }

    /// How it ends, by itself or after a signal.
    pub fn ends(&mut self) -> ExitStatus {
        until("a process that ends", || self.child.try_wait().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of the loopback that was free a moment ago.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

/// Sends the bytes of a request; None where there is no answer, or its body is no text.
pub fn ask(address: SocketAddr, request: &str) -> Option<Answer> {
    let (answer, body) = ask_for_bytes(address, request)?;
    Some(Answer {
        body: String::from_utf8(body).ok()?,
        ..answer
    })
}

/// Sends the bytes of a request; the answer, and its body apart. None where there is no answer.
pub fn ask_for_bytes(address: SocketAddr, request: &str) -> Option<(Answer, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let headers = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let answer = Answer {
        status: headers.split(' ').nth(1)?.parse().ok()?,
        headers,
        body: String::new(),
    };
    Some((answer, bytes.split_off(end + 4)))
}

/// Asks for a path, with further header lines.
pub fn get(address: SocketAddr, path: &str, headers: &str) -> Option<Answer> {
    ask(address, &format!("GET {path} HTTP/1.0\r\n{headers}\r\n"))
}

/// A program of a Debian package, unpacked below `target/`.
pub fn debian(program: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let found = unpacked(&["prometheus", "prometheus-node-exporter"]);
        found.unwrap_or_else(|errors| panic!("tools/debian-programs: {errors}"))
    });
    folder.join("usr/bin").join(program)
}

/// The folder that Debian packages are unpacked in; or why they are not.
pub fn unpacked(packages: &[&str]) -> Result<PathBuf, String> {
    let unpack = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/debian-programs");
    let output = Command::new(unpack).args(packages).output().unwrap();
    match output.status.success() {
        true => Ok(PathBuf::from(
            String::from_utf8(output.stdout).unwrap().trim(),
        )),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Gives text to a program's standard input; what it says, where its status is 0.
pub fn fed(command: &mut Command, text: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}\n{text}");
    String::from_utf8(output.stdout).unwrap() + &errors
}

/// Has metrics checked by Prometheus's own tool, which must have nothing to say.
pub fn check_metrics(text: &str) {
    let said = fed(
        Command::new(debian("promtool")).args(["check", "metrics"]),
        text,
    );
    assert_eq!(said, "", "{text}");
}

/// The values of a metric's samples that have these labels.
pub fn values(text: &str, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
    let samples = text.lines().filter_map(|line| line.strip_prefix(name));
    samples
        .filter(|rest| rest.starts_with(['{', ' ']))
        .filter(|rest| {
            let has = |(name, value): &(&str, &str)| rest.contains(&format!("{name}=\"{value}\""));
            labels.iter().all(has)
        })
        .map(|rest| rest.rsplit(' ').next().unwrap().parse().unwrap())
        .collect()
}

/// The value of the one sample that has these labels.
pub fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let found = values(text, name, labels);
    assert_eq!(found.len(), 1, "{name} {labels:?}: {text}");
    found[0]
}
