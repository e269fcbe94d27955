//! Proves the layout of the mimalloc structures that `ffi.rs` declares, and compiles what reads mimalloc's
//! list of arenas.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=layout.c");
    println!("cargo::rerun-if-changed=arenas.c");
    // The region sees mimalloc's calls of it, see `bound/mod.rs`. This is for the unit tests; the
    // executable's arguments are in `src/host/build.rs`.
    println!("cargo::rustc-link-arg=-Wl,--wrap=mprotect");
    let include = std::env::var_os("DEP_MIMALLOC_INCLUDE_DIR")
        .map(PathBuf::from)
        .expect("libmimalloc-sys hands over its include directory");
    cc::Build::new()
        .file("layout.c")
        .file("arenas.c")
        .include(include)
        .define("MI_DEBUG", "0")
        .warnings(false)
        .compile("pyhost_layout");
}
