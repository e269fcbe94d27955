//! Links libpython so that it is found again at run time, exports the symbols that other
//! objects of the process must find in the executable.

#[path = "../os/bytes.rs"]
#[allow(dead_code)]
mod bytes;
#[path = "../os/format.rs"]
#[allow(dead_code)]
mod format;
#[path = "../../devices/link_static.rs"]
mod link_static;

use link_static::is_static;
#[path = "../build_variables.rs"]
mod variables;

use std::path::{Path, PathBuf};
use std::process::Command;
use variables::{baked, fail, refuse};

/// Symbols that the executable offers to every library of the process.
const EXPORTS: &str = "exports.txt";

/// Arguments for the linker: of this package's unit tests, and of the executable.
struct Link(Vec<String>);

impl Link {
    fn with(&mut self, argument: impl std::fmt::Display) {
        println!("cargo::rustc-link-arg={argument}");
        self.0.push(argument.to_string());
    }

    /// Hands all to the executable's build script, one after the other with a tab between.
    fn hand_over(&self) {
        println!("cargo::metadata=LINK_ARGUMENTS={}", self.0.join("\t"));
    }
}

fn main() {
    let mut link = Link(Vec::new());
    println!("cargo:rerun-if-changed={EXPORTS}");
    let exports = compile_exports(&mut link);
    bake();
    if is_static() {
        link_static::link_c_library(&exports);
    } else {
        for object in &exports {
            link.with(object.display());
        }
        link_unwinder();
    }
    link_python(&mut link);
    if !is_static() {
        for name in exported() {
            link.with(format_args!("-Wl,--export-dynamic-symbol={name}"));
        }
    }
    order_functions(&mut link);
    link.hand_over();
    place_gdb_commands();
}

/// Lays what gives gdb CPython's commands beside the executable, where gdb looks for it.
fn place_gdb_commands() {
    const SOURCE: &str = "../../tools/pyhost-gdb.py";
    println!("cargo:rerun-if-changed={SOURCE}");
    let python = pyo3_build_config::get();
    let code = "import sys; print('%d.%d' % sys.version_info[:2], sys.base_prefix)";
    let answer = printed_by(python, code);
    // target/PROFILE/build/pyhost-HASH/out
    let out = output_folder();
    let (Some(answer), Some(folder)) = (answer, out.ancestors().nth(3)) else {
        return;
    };
    let Some((version, prefix)) = answer.trim().split_once(' ') else {
        return;
    };
    let text = std::fs::read_to_string(SOURCE).expect("the commands for gdb");
    let text = text
        .replace("@VERSION@", version)
        .replace("@PREFIX@", prefix)
        .replace("@STATIC@", if python.shared() { "false" } else { "true" });
    if let Err(error) = std::fs::write(folder.join("pyhost-gdb.py"), text) {
        println!("cargo::warning=pyhost-gdb.py cannot be written beside the executable: {error}");
    }
}

/// The functions by which memory is mapped: what libraries call and what the executable's own objects call are two, see
/// `libc_exports/native/mapped/calls.c`, and `src/heap/bounded_heap/mod.rs` for mimalloc's `mprotect`. The linker leads references to the latter
/// (`--wrap`).
const MAPPINGS: [&str; 6] = ["mmap", "mmap64", "munmap", "mremap", "madvise", "mprotect"];

/// What libraries call, by a name for the executable's own objects.
fn for_libraries(name: &str) -> String {
    format!("pyhost_exported_{name}")
}

/// Compiles the exported functions that C has to define, which are for the host alone; `pyhostctl` keeps libc's.
fn compile_exports(link: &mut Link) -> Vec<PathBuf> {
    for name in MAPPINGS.iter().chain(&["syscall"]) {
        link.with(format_args!("-Wl,--wrap={name}"));
    }
    let mut sources = vec!["native/mapped/calls.c", "idle_return.c"];
    if !is_static() {
        sources.push("native/operators.c");
    }
    let sources = sources.iter();
    let sources: Vec<_> = sources.map(|it| format!("libc_exports/{it}")).collect();
    for source in &sources {
        println!("cargo:rerun-if-changed={source}");
    }
    cc::Build::new()
        .files(&sources)
        .flag("-fno-builtin")
        .cargo_metadata(false)
        .compile_intermediates()
}

/// Makes the linker lay together what runs at a start: see tools/function-order. Not in a debug build, nor by the linkers
/// that do not read such a file.
fn order_functions(link: &mut Link) {
    const ORDER: &str = "function-order.ld";
    println!("cargo:rerun-if-changed={ORDER}");
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo gives a folder");
    let named = ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_LINKER"]
        .map(|name| std::env::var(name).unwrap_or_default());
    let others = ["mold", "gold", "wild"];
    let can_read = |name: &String| !others.iter().any(|linker| name.contains(linker));
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && named.iter().all(can_read)
    {
        link.0.push(format!("-Wl,-T,{folder}/{ORDER}"));
        // That of a libpython which was built from its source: see devices/toolchain/order.py.
        if let Some(of_cpython) = baked("PYHOST_FUNCTION_ORDER") {
            link.0.push(format!("-Wl,-T,{of_cpython}"));
        }
    }
}

/// Links GCC's unwinder in, if the compiler has it as an archive: the standard library needs it for
/// the backtrace of a panic alone, and `libgcc_s.so` would be mapped at every start. Without
/// link-time optimisation the linker may still take the shared one.
fn link_unwinder() {
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        return; // GNU's is for glibc: tools/build-inside links Rust's own
    }
    let compiler = cc::Build::new().get_compiler();
    let answer = Command::new(compiler.path())
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    let Ok(answer) = answer else { return };
    let archive = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    if let (true, Some(folder)) = (archive.is_file(), archive.parent()) {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// The least size of a region, of `src/heap/bounded_heap/mod.rs`.
const LEAST_REGION: u64 = 8 << 20;

/// Hands the values that are to be baked in to `options/baked.rs`: checked, and as plain numbers.
fn bake() {
    const OF_REGION: &str = "a size of at least 8M, such as 24M";
    for (variable, least, expected) in [
        ("PYHOST_BAKED_CAP", 1, "a size such as 64M"),
        ("PYHOST_BAKED_REGION", LEAST_REGION, OF_REGION),
    ] {
        if let Some(value) = baked(variable) {
            match bytes::parse(&value).filter(|&bytes| bytes >= least) {
                Some(bytes) => println!("cargo::rustc-env={variable}_BYTES={bytes}"),
                None => refuse(variable, &value, expected),
            }
        }
    }
    if let Some(value) = baked("PYHOST_BAKED_RETAIN") {
        let refuse = |expected| refuse("PYHOST_BAKED_RETAIN", &value, expected);
        if !["balanced", "speed", "small"].contains(&value.as_str()) {
            refuse("one of balanced, speed, small");
        }
        if value == "speed" && baked("PYHOST_BAKED_REGION").is_some() {
            refuse("balanced or small beside a region");
        }
        println!("cargo::rustc-env=PYHOST_BAKED_RETAIN_NAME={value}");
    }
}

/// The folder of libpython and of the libraries of extension modules at run time, such as `$ORIGIN/../lib`, instead of the
/// one that libpython was found in.
const RUN_PATH: &str = "PYHOST_RUN_PATH";

/// Adds the run path of a shared libpython, or all of a static one. Nothing for the library that is preloaded: the
/// interpreter has the C API, and pyo3 links no libpython either if this variable is set.
fn link_python(link: &mut Link) {
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo::rustc-check-cfg=cfg(shares_calls)");
    let version = pyo3_build_config::get().version();
    let (major, minor) = (version.major, version.minor);
    println!("cargo::rustc-env=PYHOST_PYTHON_VERSION={major}.{minor}");
    if std::env::var_os("PYO3_BUILD_EXTENSION_MODULE").is_some() {
        return;
    }
    let config = pyo3_build_config::get();
    let run_path = baked(RUN_PATH);
    if let Some(folder) = &run_path {
        // Of the older kind: extension modules find their libraries by it, too.
        link.with("-Wl,--disable-new-dtags");
        link.with(format_args!("-Wl,-rpath,{folder}"));
    }
    if config.shared() && is_static() {
        fail(
            "a static executable needs a static libpython; expected a build with devices/build --target ...-musl",
        )
    }
    if config.shared() {
        // In a cross build it is a folder of this machine.
        let is_cross_build = std::env::var_os("HOST") != std::env::var_os("TARGET");
        if let (Some(folder), false) = (config.lib_dir(), run_path.is_some() || is_cross_build) {
            link.with(format_args!("-Wl,-rpath,{folder}"));
        }
        tell_of_the_other_form(config);
        return;
    }
    // pyo3 would put the archive into a crate that the linker reads first, and the executable
    // would hold some of its members twice.
    assert!(
        config.suppress_build_script_link_lines(),
        "a static libpython: build with tools/build-static, or write \
         suppress_build_script_link_lines=true into the file of PYO3_CONFIG_FILE"
    );
    // CPython calls libc by the executable's own slots.
    println!("cargo::rustc-cfg=shares_calls");
    let object = static_python(config.lib_dir(), config.lib_name());
    link.with(object.display());
    if is_static() {
        link_static::link_python(link, &object);
        return;
    }
    // Extension modules find libpython's symbols in the executable, also those that the host
    // does not use itself; `ctypes` does, too.
    link.with("-Wl,--export-dynamic");
    // cargo keeps the link arguments of pyo3's own build script from this executable.
    let lines = config.extra_build_script_lines().iter();
    for argument in lines.filter_map(|line| line.strip_prefix("cargo:rustc-link-arg=")) {
        link.with(argument);
    }
    // `atexit` is in the archive part of libc, and ARM's `long double` in libgcc, both of which the linker has read before.
    for library in ["dl", "util", "pthread", "m", "c", "gcc"] {
        link.with(format_args!("-l{library}"));
    }
}

fn output_folder() -> PathBuf {
    PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo gives a folder"))
}

/// What the interpreter prints that the host is built for.
fn printed_by(config: &pyo3_build_config::InterpreterConfig, code: &str) -> Option<String> {
    let mut python = Command::new(config.executable()?);
    let output = python.args(["-I", "-c", code]).output();
    String::from_utf8(output.ok()?.stdout).ok()
}

/// Says which form of the host was made if the interpreter does not use the libpython that the host is linked with,
/// but has a copy of its own, as Debian's has: calls within it are direct. A host inside a free-threaded one of this kind was not tried.
fn tell_of_the_other_form(config: &pyo3_build_config::InterpreterConfig) {
    let code = "import sys, sysconfig; print(sys.executable); \
                print('libpython' in open('/proc/self/maps').read() or bool(sysconfig.get_config_var('Py_GIL_DISABLED')))";
    let answer = printed_by(config, code);
    if let Some((python, "False")) = answer.as_deref().and_then(|it| it.trim().split_once('\n')) {
        println!(
            "cargo::warning=this host is linked with lib{}; {python} itself is the faster one, and \
             'tools/build-inside {python}' makes a host that runs in it (docs/deploy/install.md)",
            config.lib_name().unwrap_or("python")
        );
    }
}

/// Makes one object file of every member of a static libpython, in which the hidden symbols are
/// local, as they are in a shared one.
///
/// From CPython 3.13 on the archive holds a mimalloc of its own, of another version and with many
/// names that the host's has, too.
fn static_python(folder: Option<&str>, name: Option<&str>) -> PathBuf {
    let folder = folder.expect("lib_dir in the file of PYO3_CONFIG_FILE");
    let name = name.expect("lib_name in the file of PYO3_CONFIG_FILE");
    let archive = Path::new(folder).join(format!("lib{name}.a"));
    println!("cargo:rerun-if-changed={}", archive.display());
    let object = output_folder().join("libpython.o");
    let mut link = tool("LD", "ld");
    link.args(["-r", "-o"]).arg(&object);
    link.arg("--whole-archive").arg(&archive);
    run(&mut link);
    let mut localize = tool("OBJCOPY", "objcopy");
    localize.arg("--localize-hidden").arg(&object);
    // It is a library still: what it maps is to be seen.
    for name in MAPPINGS {
        localize.arg(format!("--redefine-sym={name}={}", for_libraries(name)));
    }
    run(&mut localize);
    // The base of CPython's probes (`--with-dtrace`, as Debian builds it) lies in a section of which the linker keeps one, of
    // libgcc's perhaps. So its symbol stays global; the same call of objcopy cannot both make it local and global.
    let mut globalize = tool("OBJCOPY", "objcopy");
    globalize.args(["--globalize-symbol", "_.stapsdt.base"]);
    globalize.arg(&object);
    run(&mut globalize);
    object
}

/// A tool of binutils, by its variable or its usual name.
fn tool(variable: &str, name: &str) -> Command {
    println!("cargo:rerun-if-env-changed={variable}");
    Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()))
}

fn run(command: &mut Command) {
    let is_done = command.status().is_ok_and(|status| status.success());
    assert!(is_done, "{command:?} failed");
}

fn exported() -> Vec<String> {
    let list = std::fs::read_to_string(EXPORTS).expect("the list of exported symbols");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let names = lines.flat_map(str::split_whitespace);
    // In musl these are its own functions' names for each other.
    let names = names.filter(|name| !(is_static() && name.starts_with("__libc_")));
    names.map(str::to_owned).collect()
}
