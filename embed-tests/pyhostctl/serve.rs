//! `pyhostctl serve`: what it answers, and whom it withstands.

use crate::daemon::{Answer, Daemon, ask, check_metrics, get, value, values};
use crate::host::{PYHOST, PYHOSTCTL, Run, folder, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A host that says it is ready, then waits for the end of the test.
pub fn host(live: &Path, arguments: &[&str], code: &str) -> Daemon {
    let code = format!("{code}\nimport sys; print('ready', flush=True); sys.stdin.read()");
    let (host, line) = Daemon::ready(
        Command::new(PYHOST)
            .arg(format!("--live={}", live.display()))
            .args(arguments)
            .args(["-c", &code]),
    );
    assert_eq!(line, "ready");
    host
}

/// A server of a directory's metrics, at a free port.
pub fn serve(live: &Path) -> (Daemon, SocketAddr) {
    let (server, line) = Daemon::ready(Command::new(PYHOSTCTL).arg("--dir").arg(live).args([
        "serve",
        "--listen",
        "127.0.0.1:0",
    ]));
    let address = line.strip_prefix("serving http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap();
    (server, address.parse().unwrap())
}

fn scrape(address: SocketAddr) -> String {
    let Answer { status, body, .. } = get(address, "/metrics", "").expect("an answer");
    assert_eq!(status, 200, "{body}");
    body
}

pub fn live_folder(name: &str) -> PathBuf {
    folder(name).join("live")
}

/// Live bytes of `obj` by `pyhostctl report --text`.
pub fn shown(live: &Path, pid: i32) -> f64 {
    let shown = Run::program(PYHOSTCTL)
        .arg("--dir")
        .arg(live)
        .args(["report", &pid.to_string()])
        .ok();
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();
    report["accounts"]["obj"]["live_bytes"].as_f64().unwrap()
}

/// Compares two readings of a host that has said it is ready, and may still be on its way into the
/// call that waits.
pub fn assert_close(first: f64, second: f64) {
    assert!((first - second).abs() < 65536.0, "{first} and {second}");
}

#[test]
fn workers_of_a_service_keep_their_series_when_others_take_their_place() {
    let live = live_folder("service");
    let (_server, address) = serve(&live);
    let code = "import os, threading, time
parent = os.getpid()
def worker():
    if os.fork() == 0:
        while os.getppid() == parent: time.sleep(0.05)
        os._exit(0)
def replace():
    while True: os.wait(); worker()
worker(); worker(); threading.Thread(target=replace, daemon=True).start()";
    let service = host(&live, &["--service", "api"], code);
    let samples = |worker: &str| {
        let labels = [("service", "api"), ("role", "fork"), ("worker", worker)];
        values(&scrape(address), "process_start_time_seconds", &labels)
    };
    until("two workers", || {
        let counts = ["0", "1"].map(|worker| samples(worker).len());
        (counts == [1, 1]).then_some(())
    });
    assert!(samples("2").is_empty());
    let text = scrape(address);
    assert_eq!(
        values(
            &text,
            "pyhost_info",
            &[("service", "api"), ("role", "host"), ("worker", "0")]
        )
        .len(),
        1
    );
    assert!(!text.contains("pid="), "{text}");
    let children = format!("/proc/{0}/task/{0}/children", service.pid());
    let children = std::fs::read_to_string(children).unwrap();
    let first = children.split_whitespace().next().unwrap();
    let starts = || [samples("0"), samples("1")];
    let before = starts();
    Run::program("kill").args(["-9", first]).ok();
    until("another worker in its place", || {
        let after = starts();
        let changed = after
            .iter()
            .zip(&before)
            .filter(|(after, before)| after.len() == 1 && after != before);
        let same = after
            .iter()
            .zip(&before)
            .filter(|(after, before)| after == before);
        ((changed.count(), same.count()) == (1, 1)).then_some(())
    });
    assert!(samples("2").is_empty());
}

#[test]
fn a_scrape_has_every_host_that_runs_and_none_that_has_ended() {
    let live = live_folder("serve");
    let (_server, address) = serve(&live);
    assert_eq!(value(&scrape(address), "pyhost_hosts", &[]), 0.0);
    let mut hosts: Vec<Daemon> = (0..3)
        .map(|_| host(&live, &["--cap", "300M"], "keep = b'x' * 20_000_000"))
        .collect();
    let text = scrape(address);
    check_metrics(&text);
    assert!(text.contains("# TYPE pyhost_allocations_total counter\n") && !text.contains("# EOF"));
    for host in &hosts {
        let pid = host.pid().to_string();
        let of_obj = [("pid", pid.as_str()), ("account", "obj"), ("command", "-c")];
        let scraped = value(&text, "pyhost_memory_bytes", &of_obj);
        assert_close(scraped, shown(&live, host.pid()));
        let total = [("pid", pid.as_str()), ("account", "total")];
        let cap = value(&text, "pyhost_memory_cap_bytes", &total);
        assert_eq!(cap, f64::from(300 << 20));
        let resident = value(&text, "process_resident_memory_bytes", &total[..1]);
        assert!(resident > 2e7, "{resident}");
        assert_eq!(
            values(&text, "pyhost_cpu_seconds_total", &total[..1]).len(),
            1
        );
    }
    let openmetrics = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let answer = get(address, "/metrics", openmetrics).unwrap();
    assert!(
        answer
            .headers
            .contains("application/openmetrics-text; version=1.0.0")
    );
    assert!(answer.body.contains("# TYPE pyhost_allocations counter\n"));
    assert!(answer.body.ends_with("\n# EOF\n"));

    // One ends by itself, and one is killed, whose parent, this test, does not wait for it.
    drop(hosts[0].child.stdin.take());
    hosts[0].ends();
    hosts[1].signal(libc::SIGKILL);
    let stat = format!("/proc/{}/stat", hosts[1].pid());
    until("a process that was killed", || {
        let text = std::fs::read_to_string(&stat).unwrap();
        text.contains(") Z ").then_some(())
    });
    let text = scrape(address);
    let left = hosts[2].pid().to_string();
    assert_eq!(value(&text, "pyhost_hosts", &[]), 1.0);
    let samples = values(&text, "pyhost_info", &[]);
    assert_eq!(samples.len(), 1, "{text}");
    value(&text, "pyhost_info", &[("pid", &left)]);
}

#[test]
fn files_that_are_no_ledger_are_counted_and_stop_nothing() {
    let live = live_folder("serve");
    let (_server, address) = serve(&live);
    let running = host(&live, &[], "");
    let ledger = std::fs::read_dir(&live).unwrap().next().unwrap().unwrap();
    let whole = std::fs::read(ledger.path()).unwrap();
    let name = ledger.file_name().into_string().unwrap();
    let forged = |ticks: &str| live.join(name.replace(".live", ticks));
    // Torn, empty, garbage, of another version; a copy is whole, but nobody's who runs; a forged
    // name of the same process does not double it.
    std::fs::write(forged("1.live"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(forged("2.live"), "").unwrap();
    std::fs::write(live.join("garbage.live"), "garbage").unwrap();
    let mut other = whole.clone();
    other[7] = b'9';
    std::fs::write(forged("3.live"), other).unwrap();
    std::fs::write(forged("4.live"), &whole).unwrap();
    std::fs::write(live.join("other"), "no file of a host's, by its name").unwrap();
    let pid = running.pid().to_string();
    let again = name.replace(&format!("-{pid}-"), &format!("-0{pid}-"));
    std::fs::write(live.join(again), &whole).unwrap();
    std::fs::create_dir(live.join("folder.live")).unwrap();

    let text = scrape(address);
    check_metrics(&text);
    assert_eq!(value(&text, "pyhost_unreadable_files", &[]), 5.0, "{text}");
    assert_eq!(value(&text, "pyhost_hosts", &[]), 1.0, "{text}");
    value(&text, "pyhost_info", &[("pid", &pid)]);
}

#[test]
fn only_what_there_is_can_be_read() {
    let (_server, address) = serve(&live_folder("serve"));
    let status = |request: &str| ask(address, request).unwrap().status;
    let page = get(address, "/", "").unwrap();
    assert_eq!(page.status, 200);
    assert!(page.headers.contains("text/html") && page.body.contains("href=\"/metrics\""));
    assert_eq!(get(address, "/other", "").unwrap().status, 404);
    assert_eq!(get(address, "/metrics/", "").unwrap().status, 404);
    assert_eq!(get(address, "/metrics?x=y", "").unwrap().status, 200);
    let refused = ask(
        address,
        "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\na=b",
    )
    .unwrap();
    assert_eq!(refused.status, 405);
    assert!(refused.headers.contains("Allow: GET, HEAD"), "{refused:?}");
    assert_eq!(status("DELETE / HTTP/1.1\r\n\r\n"), 405);
    let mut pieces = TcpStream::connect(address).unwrap();
    for piece in [
        "GET /met",
        "rics HTTP/1.1\r\nHost: loc",
        "alhost\r\n\r",
        "\n",
    ] {
        pieces.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut answer = String::new();
    pieces.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let head = ask(address, "HEAD /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(status("\x16\x03\x01\x02\r\n\r\n"), 400);
    assert_eq!(status("GET / HTTP/9\r\n\r\n"), 400);
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
    assert_eq!(status(&many), 431);
    assert_eq!(
        status(&format!(
            "GET / HTTP/1.1\r\nA: {}\r\n\r\n",
            "x".repeat(20_000)
        )),
        431
    );
}

#[test]
fn whoever_holds_connections_open_keeps_nobody_out() {
    let live = live_folder("serve");
    let (mut server, address) = serve(&live);
    let _host = host(&live, &[], "");
    let connect = || TcpStream::connect(address).unwrap();
    // Many that say nothing, some that stop in the middle, some that ask and do not read.
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..300 {
        let mut stream = connect();
        let said: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /metr",
            _ => b"GET /metrics HTTP/1.1\r\n\r\n",
        };
        // The server may have closed it to make room.
        let _ = stream.write_all(said);
        idle.push(stream);
        if number % 50 == 0 {
            assert_eq!(value(&scrape(address), "pyhost_hosts", &[]), 1.0);
        }
    }
    assert_eq!(value(&scrape(address), "pyhost_hosts", &[]), 1.0);
    // One whose bytes drip: they do not make its time longer.
    let mut slow = connect();
    slow.set_nonblocking(true).unwrap();
    until("the end of a request that drips", || {
        let gone = slow.write_all(b"G").is_err();
        let mut byte = [0];
        let closed = match slow.read(&mut byte) {
            Ok(_) => true,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        };
        (gone || closed).then_some(())
    });
    assert_eq!(value(&scrape(address), "pyhost_hosts", &[]), 1.0);
    assert!(server.child.try_wait().unwrap().is_none());
}

#[test]
fn a_server_without_descriptors_to_spare_goes_on() {
    let live = live_folder("serve");
    let _host = host(&live, &[], "");
    let (_server, line) = Daemon::ready(Command::new("sh").args([
        "-c",
        "ulimit -n 16; exec \"$0\" --dir \"$1\" serve --listen 127.0.0.1:0",
        PYHOSTCTL,
        live.to_str().unwrap(),
    ]));
    let address = line.trim_start_matches("serving http://");
    let address = address.trim_end_matches("/metrics").parse().unwrap();
    let _idle: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    until("a whole scrape", || {
        let answer = get(address, "/metrics", "")?;
        (answer.status == 200 && answer.body.contains("pyhost_hosts 1")).then_some(())
    });
}

#[test]
fn a_signal_ends_it_at_once_with_status_0() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let (mut server, address) = serve(&live_folder("serve"));
        let _idle = TcpStream::connect(address).unwrap();
        server.signal(signal);
        assert_eq!(server.ends().code(), Some(0));
    }
}

#[test]
fn an_address_that_cannot_be_had_is_told_in_a_line() {
    let live = live_folder("serve");
    let (_server, address) = serve(&live);
    let run = |listen: &str| {
        let run = Run::program(PYHOSTCTL).arg("--dir").arg(&live);
        run.args(["serve", "--listen", listen]).run()
    };
    let outcome = run(&address.to_string());
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    assert_eq!(
        outcome.stderr,
        format!("pyhostctl: --listen: {address} is in use; expected a free port\n")
    );
    assert_eq!(outcome.stdout, "");
    let outcome = run("nowhere.invalid:80");
    assert_eq!((outcome.code(), outcome.stderr.lines().count()), (1, 1));
    let outcome = run("127.0.0.1:port");
    assert_eq!(outcome.code(), 2, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("expected HOST:PORT"),
        "{outcome:#?}"
    );
}

#[test]
fn an_address_that_others_reach_is_said_aloud() {
    let (mut server, line) = Daemon::ready(
        Command::new(PYHOSTCTL)
            .arg("--dir")
            .arg(live_folder("serve"))
            .args(["serve", "--listen", "0.0.0.0:0"])
            .stderr(Stdio::piped()),
    );
    assert!(line.starts_with("serving http://0.0.0.0:"), "{line}");
    server.signal(libc::SIGTERM);
    server.ends();
    let mut said = String::new();
    let mut stderr = server.child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("is not a loopback address"), "{said}");
}

#[test]
fn a_name_that_is_not_the_servers_is_not_answered() {
    let live = live_folder("serve");
    let (_server, address) = serve(&live);
    let status = |address: SocketAddr, host: &str| {
        let headers = format!("Host: {host}\r\n");
        get(address, "/metrics", &headers).unwrap().status
    };
    let own =
        "localhost LOCALHOST:14450 app.localhost localhost. 127.0.0.1:14450 127.9.9.9 [::1]:14450";
    for host in own.split(' ').chain([&*address.to_string()]) {
        assert_eq!(status(address, host), 200, "{host}");
    }
    let others = "evil.example localhost.evil.example 127.0.0.1.evil.example evil.example:14450 notlocalhost 10.0.0.1 \
        0.0.0.0:14450  :14450";
    for host in others.split(' ').chain(["localhost\r\nHost: 127.0.0.1"]) {
        assert_eq!(status(address, host), 421, "{host}");
    }
    let rebound = ask(
        address,
        "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert_eq!(rebound.unwrap().status, 421);

    // One of the network has its machine's name and addresses, and those that are allowed.
    let (_open, line) = Daemon::ready(Command::new(PYHOSTCTL).arg("--dir").arg(&live).args([
        "serve",
        "--listen=0.0.0.0:0",
        "--allow-host=metrics.example",
    ]));
    let port = line.rsplit(':').next().unwrap();
    let port: u16 = port.trim_end_matches("/metrics").parse().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for host in [
        machine.trim(),
        "10.1.2.3:14450",
        "[fe80::1]:9",
        "Metrics.Example:80",
    ] {
        assert_eq!(status(address, host), 200, "{host}");
    }
    assert_eq!(status(address, "evil.example"), 421);
    let (_any, line) = Daemon::ready(Command::new(PYHOSTCTL).arg("--dir").arg(&live).args([
        "serve",
        "--listen=:0",
        "--allow-host=*",
    ]));
    let address = line.trim_start_matches("serving http://");
    let address = address.trim_end_matches("/metrics").parse().unwrap();
    assert_eq!(status(address, "any.example"), 200);
}
