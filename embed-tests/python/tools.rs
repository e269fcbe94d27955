//! Debuggers and profilers that take part in the process: gdb and what drives it, memray, Scalene.

use crate::environments::{Environment, named, pins};
use crate::free_threaded::is_free_threaded;
use crate::host::{IS_INSIDE, PYHOST, Run, compile, executable, folder, script, stock, version};
use crate::skipping::skipped;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// debugpy, memray and Scalene. They have no wheels for pre-releases, so a Python may have none.
fn tools() -> Option<Environment> {
    if !pins("tools").exists() {
        skipped("no tools are pinned for this Python");
        return None;
    }
    Some(named("tools"))
}

/// Whether there is a gdb, which few machines of users have.
fn has_gdb() -> bool {
    let found = Command::new("gdb").arg("--version").output().is_ok();
    if !found {
        skipped("there is no gdb");
    }
    found
}

/// Whether gdb calls functions of a process. One that is older than the processor cannot write its registers (gdb 13 with AMX: "Couldn't
/// write extended state status: Bad address"), and the process dies of it.
fn gdb_calls_functions() -> bool {
    if !has_gdb() {
        return false;
    }
    let process = Running(Command::new("sleep").arg("60").spawn().unwrap());
    let (pid, call) = (process.pid(), "print (unsigned long)strlen(\"four\")");
    let gdb = ["-nx", "-batch", "-p", &pid, "-ex", call];
    let found = Command::new("gdb").args(gdb).output().unwrap();
    let calls = String::from_utf8_lossy(&found.stdout).contains(" = 4\n");
    if !calls {
        skipped("gdb cannot call functions of any process here");
    }
    calls
}

/// A process that a debugger may attach to.
struct Running(Child);

impl Running {
    fn start(program: &Path, environment: Option<&Environment>) -> Self {
        let mut command = Command::new(program);
        if let Some(environment) = environment {
            command.env("PYTHONPATH", &environment.site_packages);
        }
        let mut child = command
            .arg(script("allocates_on.py"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        Running(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn gdb(process: &Running, options: &[&str], commands: &[&str]) -> String {
    let mut run = Run::program("gdb").args(["-nx", "-batch"]).args(options);
    run = run.args(["-p", &process.pid()]);
    for command in commands {
        run = run.args(["-ex", command]);
    }
    let outcome = run.ok();
    outcome.stdout + &outcome.stderr
}

#[test]
fn gdb_calls_malloc_as_c_declares_it() {
    let true = gdb_calls_functions() else {
        return;
    };
    let process = Running::start(Path::new(PYHOST), None);
    // gdb takes room for a string from malloc in the process.
    let text = gdb(
        &process,
        &[],
        &[
            "print (void *)malloc(10) != 0",
            "print (unsigned long)strlen(\"four\")",
        ],
    );
    assert!(text.contains("$1 = 1\n$2 = 4\n"), "{text}");
}

#[test]
fn gdb_loads_the_commands_of_cpython_for_the_host() {
    let true = has_gdb() else {
        return;
    };
    if IS_INSIDE {
        return skipped("the process's program is the interpreter, whose own commands gdb loads");
    }
    let commands = stock().with_file_name(format!("python{}.{}-gdb.py", version().0, version().1));
    if !commands.exists() {
        return skipped("this Python has no commands for gdb");
    }
    let process = Running::start(Path::new(PYHOST), None);
    let trusted = format!(
        "add-auto-load-safe-path {}",
        Path::new(PYHOST).parent().unwrap().display()
    );
    let text = gdb(&process, &["-iex", &trusted], &["py-bt"]);
    assert!(text.contains("allocates_on.py\", line "), "{text}");
}

#[test]
fn debugpy_attaches_to_a_running_host() {
    let Some(tools) = tools().filter(|_| gdb_calls_functions()) else {
        return;
    };
    let process = Running::start(Path::new(PYHOST), None);
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    tools
        .stock()
        .args(["-m", "debugpy", "--listen", &port.to_string(), "--pid"])
        .arg(process.pid())
        .ok();
    // Its adapter speaks first, as the debug adapter protocol has it.
    let mut adapter = crate::host::until("debugpy listens", || {
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    adapter
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut begin = [0; 15];
    adapter.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"Content-Length:");
}

/// The allocations that a record of memray's has, and their bytes.
fn recorded(tools: &Environment, record: &Path) -> (u64, u64) {
    let code = "import memray, sys
sizes = [(r.n_allocations, r.size) for r in memray.FileReader(sys.argv[1]).get_high_watermark_allocation_records()]
print(sum(n for n, _ in sizes), sum(size for _, size in sizes))";
    let text = tools.stock().code(code).arg(record).ok().stdout;
    let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

const HANDED_OVER: &str = "pyhost: memray is loaded: malloc and CPython's allocators are left to it from here on \
                           (--malloc off)\n";

#[test]
fn memray_attaches_to_a_running_host_and_records_what_it_allocates() {
    let Some(tools) = tools().filter(|_| gdb_calls_functions()) else {
        return;
    };
    let process = Running::start(Path::new(PYHOST), Some(&tools));
    let record = folder("memray").join("record");
    // Since 3.14 it would ask sys.remote_exec instead.
    let attach = [
        "-m",
        "memray",
        "attach",
        "--method",
        "gdb",
        "--duration",
        "2",
        "-o",
    ];
    let attached = tools
        .stock()
        .args(attach)
        .arg(&record)
        .arg(process.pid())
        .ok();
    assert!(!attached.stderr.contains("rror"), "{attached:?}");
    std::thread::sleep(Duration::from_secs(3));
    let (blocks, bytes) = recorded(&tools, &record);
    assert!(
        blocks >= 100 && bytes >= 100_000,
        "{blocks} blocks, {bytes} bytes"
    );
}

#[test]
fn memray_records_under_the_host_what_it_records_under_python() {
    let Some(tools) = tools() else { return };
    // memray sees small objects as arenas of CPython's, 1 MiB each since 3.10. How many a script takes depends
    // on how full the last one is at its start, which varies by one with the variables of the environment, and
    // the table of arenas grows with the seventeenth. So the script takes 60 of them.
    let code = folder("memray").join("allocates.py");
    std::fs::write(
        &code,
        "small = [[number] for number in range(500_000)]\nlarge = [bytearray(5000) for _ in range(1000)]\n",
    )
    .unwrap();
    let record = |run: Run, name: &str| {
        let record = folder("memray").join(name);
        let run = run.args(["-m", "memray", "run", "-q", "-o"]).arg(&record);
        let outcome = run.arg(&code).ok();
        (recorded(&tools, &record), outcome.stderr)
    };
    let ((blocks, bytes), _) = record(tools.stock(), "stock");
    let ((hosted_blocks, hosted_bytes), errors) = record(tools.host(), "hosted");
    assert_eq!(errors, HANDED_OVER);
    let near = |hosted: u64, stock: u64| hosted.abs_diff(stock) * 20 < stock;
    assert!(
        near(hosted_blocks, blocks) && near(hosted_bytes, bytes),
        "host: {hosted_blocks} blocks, {hosted_bytes} bytes; python: {blocks}, {bytes}"
    );
}

#[test]
fn blocks_of_before_outlive_the_moment_when_memray_takes_over() {
    let Some(tools) = tools() else { return };
    for (name, value) in [
        ("PYHOST_RETAIN", "small"),
        ("PYHOST_DEBUG_HOOKS", "1"),
        ("PYHOST_ALLOCATOR", "pymalloc"),
        ("PYHOST_LEAK_CHECK", "python"),
    ] {
        let run = tools
            .host()
            .env(name, value)
            .arg(script("memray_tracker.py"));
        let (outcome, report) = run.reported();
        assert_eq!(
            outcome.stdout, "large True\nsmall True\nforked 7\nstarted 7\n",
            "{name}: {outcome:?}"
        );
        assert!(outcome.stderr.starts_with(HANDED_OVER), "{outcome:?}");
        assert_eq!(report["left_to"], "memray");
        assert_eq!(report["host"]["native"], "off");
    }
}

#[test]
fn memray_that_sees_little_is_said_to_and_why() {
    let Some(tools) = tools() else { return };
    for (option, reason) in [
        ("--region=200M", "--region keeps them in its heaps"),
        ("--fail=obj=when=open", "another hook lies over them"),
    ] {
        let outcome = tools.host().args([option, "-c", "import memray"]).ok();
        assert!(outcome.stderr.contains(reason), "{outcome:?}");
    }
    let outcome = tools
        .host()
        .args(["--malloc=count", "-c", "import memray"])
        .ok();
    assert_eq!(outcome.stderr, "", "--malloc given outright wins");
}

#[test]
fn scalene_profiles_memory_as_under_python() {
    let Some(tools) = tools() else { return };
    let place = folder("scalene");
    let program = place.join("grows.py");
    std::fs::write(
        &program,
        "blocks = []\nfor number in range(300):\n    blocks.append(bytearray(1_000_000))\n",
    )
    .unwrap();
    let profile = |run: Run, name: &str| {
        let file = place.join(name);
        let run = run.args(["-m", "scalene", "run", "-o"]).arg(&file);
        let outcome = run.arg(&program).ok();
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
        (
            profile["max_footprint_mb"].as_f64().unwrap(),
            outcome.stderr,
        )
    };
    let (stock, _) = profile(tools.stock(), "stock.json");
    let (hosted, errors) = profile(tools.host(), "hosted.json");
    assert!((200.0..400.0).contains(&stock), "{stock}");
    assert!(
        (hosted - stock).abs() < 0.2 * stock,
        "host {hosted}, python {stock}"
    );
    assert!(errors.contains("Scalene is at work"), "{errors}");
}

#[test]
fn allocators_that_a_preloaded_library_put_in_place_of_cpythons_stay() {
    if is_free_threaded() {
        return skipped("a free-threaded Python crashes with objects of another allocator");
    }
    let library = compile(
        "taking_allocator.c",
        "taking_allocator.so",
        &["-shared", "-fPIC", "-ldl"],
    );
    let code = "import ctypes, json, sys
blocks = [bytearray(size) for size in range(5000)]
del blocks
print(ctypes.CDLL(sys.argv[1]).blocks_made() > 10_000)";
    for hooks in ["0", "1"] {
        let run = |run: Run| run.env("LD_PRELOAD", &library).code(code).arg(&library);
        let stock = run(Run::stock()).ok();
        let (host, report) = run(Run::host().env("PYHOST_DEBUG_HOOKS", hooks)).reported();
        assert_eq!(host.code(), 0, "{host:?}");
        assert_eq!(host.stdout, stock.stdout);
        assert!(
            host.stderr
                .contains("a preloaded library has put its own allocators in place of CPython's"),
            "{host:?}"
        );
        assert_eq!(report["allocator"], "system");
        assert_eq!(report["left_to"], "a preloaded library");
    }
}

#[test]
fn a_program_finds_no_error_of_the_hosts_in_dlerror() {
    let library = compile(
        "first_dlerror.c",
        "first_dlerror.so",
        &["-shared", "-fPIC", "-ldl"],
    );
    let said = |run: Run| {
        let run = run.env("LD_PRELOAD", &library);
        run.args(["-I", "-S", "-c", "pass"]).ok().stderr
    };
    if IS_INSIDE && said(Run::stock()).is_empty() {
        return skipped(
            "the interpreter is static, and calls no function of a preloaded library's",
        );
    }
    assert_eq!(said(Run::host()), "dlerror: none\n");
}

#[test]
fn started_by_naming_the_loader_the_host_is_still_its_own_executable() {
    let loader = PathBuf::from("/lib64/ld-linux-x86-64.so.2");
    if !loader.exists() {
        return skipped("the loader is elsewhere");
    }
    let code = "import sys; print(sys.executable)";
    let outcome = Run::program(&loader).arg(PYHOST).code(code).ok();
    assert_eq!(outcome.stdout, format!("{}\n", executable().display()));
}
