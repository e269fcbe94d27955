//! Links libpython so that it is found again at run time, exports the symbols that other
//! objects of the process must find in the executable, and proves the layout of the mimalloc
//! structures that `src/heap/ffi.rs` declares.

use std::path::PathBuf;

/// Symbols that the executable offers to every library of the process.
const EXPORTS: &str = "src/exports.txt";

fn main() {
    println!("cargo:rerun-if-changed=src/heap/layout.c");
    println!("cargo:rerun-if-changed={EXPORTS}");
    check_mimalloc_layout();
    link_python();
    export_symbols();
}

/// Compiles a C file that holds nothing but static assertions against mimalloc's own headers.
fn check_mimalloc_layout() {
    let include = std::env::var_os("DEP_MIMALLOC_INCLUDE_DIR")
        .map(PathBuf::from)
        .expect("libmimalloc-sys hands over its include directory");
    cc::Build::new()
        .file("src/heap/layout.c")
        .include(include)
        .define("MI_DEBUG", "0")
        .warnings(false)
        .compile("pyhost_layout");
}

/// Adds the run path of a shared libpython, or every member of a static one.
fn link_python() {
    pyo3_build_config::use_pyo3_cfgs();
    let config = pyo3_build_config::get();
    println!("cargo:rustc-env=PYHOST_BUILD_PYTHON={}", config.version());
    if config.shared() {
        pyo3_build_config::add_libpython_rpath_link_args();
        return;
    }
    // Extension modules expect every symbol of libpython in the executable, also those that the
    // host does not call.
    let name = config.lib_name().expect("a static libpython has a name");
    if let Some(dir) = config.lib_dir() {
        println!("cargo:rustc-link-arg-bins=-L{dir}");
    }
    println!("cargo:rustc-link-arg-bins=-Wl,--whole-archive,-l{name},--no-whole-archive");
    println!("cargo:rustc-link-arg-bins=-rdynamic");
    for library in ["dl", "m", "util", "pthread"] {
        println!("cargo:rustc-link-arg-bins=-l{library}");
    }
}

/// Puts the exported family into the executable's dynamic symbol table.
fn export_symbols() {
    let list = std::fs::read_to_string(EXPORTS).expect("the list of exported symbols");
    let names = list.lines().map(str::trim);
    for name in names.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol={name}");
    }
}
