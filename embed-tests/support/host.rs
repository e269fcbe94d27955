//! Spawns the host, or stock Python, and collects what it did.

use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The host under test: the executable that cargo built, or the one that `tools/test` names, for `--built` and
/// `--form inside`.
pub const PYHOST: &str = match option_env!("EMBED_PYHOST") {
    Some(path) => path,
    None => env!("CARGO_BIN_EXE_pyhost"),
};

/// The controller under test.
pub const PYHOSTCTL: &str = match option_env!("EMBED_PYHOSTCTL") {
    Some(path) => path,
    None => env!("CARGO_BIN_EXE_pyhostctl"),
};

/// Whether the host under test is the library inside an interpreter.
pub const IS_INSIDE: bool = option_env!("EMBED_INSIDE").is_some();

/// What `sys.executable` names under the host.
pub fn executable() -> PathBuf {
    match IS_INSIDE {
        true => Path::new(PYHOST).with_file_name("python"),
        false => PathBuf::from(PYHOST),
    }
}

/// How long a condition may take.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// How many times longer all may take: `EMBED_TESTS_PATIENCE`, for a machine that is emulated.
fn patience() -> u32 {
    static PATIENCE: OnceLock<u32> = OnceLock::new();
    *PATIENCE.get_or_init(|| match std::env::var("EMBED_TESTS_PATIENCE") {
        Ok(times) => times.parse().expect("EMBED_TESTS_PATIENCE is a number"),
        Err(_) => 1,
    })
}

/// Looks until `found` says something; where it does not, fails with what it saw last.
pub fn until_seen<T>(what: &str, mut found: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    let deadline = DEADLINE * patience();
    loop {
        match found() {
            Ok(value) => return value,
            Err(seen) if start.elapsed() > deadline => {
                panic!("not within {deadline:?}: {what}; last seen:\n{seen}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Looks until there is an answer.
pub fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    until_seen(what, || found().ok_or_else(String::new))
}

/// The stock interpreter of the libpython that the host was built with.
pub fn stock() -> &'static Path {
    static STOCK: OnceLock<PathBuf> = OnceLock::new();
    STOCK.get_or_init(|| {
        let code =
            "import sys; print('%s/bin/python%d.%d' % ((sys.base_prefix,) + sys.version_info[:2]))";
        PathBuf::from(Run::host().args(["-I", "-c", code]).ok().stdout.trim())
    })
}

/// Python's version as (major, minor).
pub fn version() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let code = "import sys; print('%d %d' % sys.version_info[:2])";
        let out = Run::host().args(["-I", "-c", code]).ok().stdout;
        let mut numbers = out.split_whitespace().map(|word| word.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    })
}

/// MiB of memory that the machine has.
pub fn machine_mebibytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kibibytes: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes / 1024
}

/// Why a test that needs 5 GiB is skipped on a machine that is too small for them.
pub fn too_small_for_5_gib() -> Option<&'static str> {
    let reason = "the system gives no 5 GiB to a machine with less";
    (machine_mebibytes() < 6 << 10).then_some(reason)
}

/// The account of a bytearray's memory: 3.15 keeps it in an object of type `bytes`.
pub fn of_bytearray() -> &'static str {
    match version() {
        (3, 13 | 14) => "mem",
        _ => "obj",
    }
}

/// A script of `embed-tests/scripts`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("embed-tests/scripts")
        .join(name)
}

/// A fresh, empty folder under the build's own temporary folder.
pub fn folder(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let unique = format!(
        "{name}-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Relaxed)
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A copy of the host with nothing beside it.
pub fn host_alone() -> PathBuf {
    let root = folder("alone");
    let commands = root.join("bin");
    std::fs::create_dir(&commands).unwrap();
    let host = commands.join("pyhost");
    std::fs::copy(PYHOST, &host).unwrap();
    if IS_INSIDE {
        let library = Path::new("lib/pyhost/libpyhost.so");
        let from = Path::new(PYHOST).ancestors().nth(2).unwrap();
        std::fs::create_dir_all(root.join(library).parent().unwrap()).unwrap();
        std::fs::copy(from.join(library), root.join(library)).unwrap();
        std::os::unix::fs::symlink(executable(), commands.join("python")).unwrap();
    }
    host
}

/// An option up to its path, and the path.
pub fn joined(option: &str, path: impl AsRef<OsStr>) -> OsString {
    let mut option = OsString::from(option);
    option.push(path);
    option
}

/// `--timeline` with a file.
pub fn timeline_at(path: &Path) -> OsString {
    joined("--timeline=", path)
}

/// `--live` with one file.
pub fn ledger_at(path: &Path) -> OsString {
    joined("--live=file:", path)
}

/// Compiles a C file of `embed-tests/c` with further arguments; the path of what came out.
pub fn compile(source: &str, output: &str, arguments: &[&str]) -> PathBuf {
    let output = folder("c").join(output);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("embed-tests/c")
        .join(source);
    let status = Command::new("cc")
        .arg("-O1")
        .arg("-g")
        .args(arguments)
        .arg(&source)
        .arg("-o")
        .arg(&output)
        .arg("-pthread")
        .status()
        .expect("a C compiler");
    assert!(status.success(), "cc {}", source.display());
    output
}

/// A process to run: a fluent builder.
pub struct Run {
    command: Command,
    stdin: Vec<u8>,
    timeout: Duration,
}

/// The result of a process.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Run {
    /// The host.
    pub fn host() -> Self {
        Run::program(PYHOST)
    }

    /// Stock Python.
    pub fn stock() -> Self {
        Run::program(stock())
    }

    /// The host with the python of a venv.
    pub fn venv(python: &Path) -> Self {
        match IS_INSIDE {
            true => Run::host().arg("--python").arg(python),
            false => Run::program(python),
        }
    }

    /// Any program, in an environment without Python's and the host's variables.
    pub fn program(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            let prefixes = ["PYTHON", "PYHOST", "VIRTUAL_ENV"];
            if prefixes.iter().any(|prefix| name_text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        // As from a terminal: a test run that was started in the background, or by nohup, ignores
        // some signals, and its children would inherit that.
        // SAFETY: `signal` is async-signal-safe, and touches the child alone.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        Run {
            command,
            stdin: Vec::new(),
            timeout: Duration::from_secs(120),
        }
    }

    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn arg(self, argument: impl AsRef<OsStr>) -> Self {
        self.args([argument])
    }

    /// An option up to its path, and the path.
    pub fn at(self, option: &str, path: impl AsRef<OsStr>) -> Self {
        self.arg(joined(option, path))
    }

    /// A variable with a value up to its path, and the path.
    pub fn env_at(self, name: &str, key: &str, path: impl AsRef<OsStr>) -> Self {
        self.env(name, joined(key, path))
    }

    /// `-c` with this code.
    pub fn code(self, code: &str) -> Self {
        self.args(["-c", code])
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The name by which the program is called.
    pub fn called(mut self, name: &str) -> Self {
        self.command.arg0(name);
        self
    }

    pub fn folder(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = text.into();
        self
    }

    pub fn timeout(mut self, seconds: u64) -> Self {
        self.timeout = Duration::from_secs(seconds);
        self
    }

    /// Runs to the end. A process that outlives its time has its stacks printed and fails the
    /// test.
    pub fn run(mut self) -> Outcome {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        let mut stdin = child.stdin.take().unwrap();
        let text = std::mem::take(&mut self.stdin);
        // A process that does not read its input closes it: no failure.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&text)));
        let stdout = read_all(child.stdout.take().unwrap());
        let stderr = read_all(child.stderr.take().unwrap());
        let status = wait(&mut child, self.timeout * patience());
        writer.join().unwrap();
        Outcome {
            status,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    }

    /// Runs and expects status 0.
    pub fn ok(self) -> Outcome {
        let shown = format!("{:?}", self.command);
        let outcome = self.run();
        assert!(outcome.status.success(), "{shown}\n{outcome:#?}");
        outcome
    }

    /// Runs with a report into a file; the outcome and the report.
    pub fn reported(self) -> (Outcome, Value) {
        let file = folder("report").join("report.json");
        let outcome = self.env_at("PYHOST_STATS", "file=", &file).run();
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("no report: {error}\n{outcome:#?}"));
        let report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (outcome, report)
    }
}

impl Outcome {
    /// The exit status, or 128 plus the signal, as a shell shows it.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 128 + self.status.signal().unwrap())
    }

    /// The last line of standard output.
    pub fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }
}

/// A figure of an account in a report.
pub fn figure(report: &Value, account: &str, name: &str) -> i64 {
    let value = &report["accounts"][account][name];
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{account}.{name} is {value}"))
}

fn read_all(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, timeout: Duration) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > timeout {
            let pid = child.id().to_string();
            let stacks = Command::new("gdb")
                .args(["-p", &pid, "-batch", "-ex", "thread apply all backtrace"])
                .output()
                .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
                .unwrap_or_else(|_| "no gdb to show the stacks".to_owned());
            let _ = child.kill();
            let _ = child.wait();
            panic!("still running after {timeout:?}\n{stacks}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// CPython's and libc's functions that allocate, with addresses as numbers, in Python. The GIL is held.
pub const ALLOCATORS: &str = "import ctypes
def function(name, *types):
    found = getattr(ctypes.PyDLL(None), name)
    found.restype, found.argtypes = ctypes.c_void_p, types
    return found
malloc, free = function('malloc', ctypes.c_size_t), function('free', ctypes.c_void_p)
realloc = function('realloc', ctypes.c_void_p, ctypes.c_size_t)
aligned_alloc = function('aligned_alloc', ctypes.c_size_t, ctypes.c_size_t)
take, give = function('PyMem_Malloc', ctypes.c_size_t), function('PyMem_Free', ctypes.c_void_p)
take_object, give_object = function('PyObject_Malloc', ctypes.c_size_t), function('PyObject_Free', ctypes.c_void_p)
";
