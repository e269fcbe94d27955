//! Proves the layout of the mimalloc structures that `ffi.rs` declares, and compiles what reads mimalloc's
//! list of arenas.

use std::path::PathBuf;

fn main() {
    refuse_other_targets();
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
        .include(include.join("../src"))
        .include(include)
        .define("MI_DEBUG", "0")
        .warnings(false)
        .compile("pyhost_layout");
}

/// Ends the build with one line on a target for which the host has no assembly, or no C library. Every crate of the host
/// depends on this one.
fn refuse_other_targets() {
    let of_target =
        |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let found = ["ARCH", "OS", "ENV"].map(of_target);
    let found = found.each_ref().map(String::as_str);
    if !matches!(found, ["x86_64" | "aarch64", "linux", "gnu" | "musl"]) {
        println!(
            "cargo::error=pyhost cannot be built for {}; expected x86_64 or aarch64, linux, gnu or musl",
            found.join("-")
        );
        std::process::exit(1);
    }
}
