//! A part of `src/host/build.rs`: the link of a static executable with musl.

use super::{Link, MAPPINGS, exported, fail, for_libraries, output_folder, run, tool};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether the executable is static: with musl. There is no static form with glibc, whose name service needs libraries. The library
/// that is preloaded is never static.
pub fn is_static() -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_ENV") != "musl" {
        return false;
    }
    // cargo's list of the target's features leaves this one out if it is the default.
    let is_static = !variable("CARGO_ENCODED_RUSTFLAGS").contains("-crt-static");
    match (is_static, std::env::var_os("PYO3_BUILD_EXTENSION_MODULE")) {
        (true, Some(_)) => fail(
            "a host inside an interpreter is no static executable; expected a build with tools/build-inside",
        ),
        (false, None) => fail(
            "pyhost with musl is a static executable; expected RUSTFLAGS without '-crt-static'",
        ),
        _ => is_static,
    }
}

/// Functions that the host has in place of libc's, also for libc itself, as the loader has it for malloc's with glibc. Of the
/// other ones libc calls its own.
const REPLACED: [&str; 11] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "malloc_usable_size",
    "exit",
];

/// Links libc in a form in which the host finds libc's functions behind its own: in a static executable one name is one
/// function. What the host exports, libc has as `__next_NAME`: see `native/next.rs`. The archive of Rust's musl
/// target comes after this one, which has the host's `exports`, too, and so has nothing left to give.
pub fn link_c_library(exports: &[PathBuf]) {
    let variable = |name: &str| std::env::var(name).expect("cargo sets it");
    let rustc = Command::new(variable("RUSTC"))
        .args(["--print", "target-libdir", "--target"])
        .arg(variable("TARGET"))
        .output()
        .expect("rustc starts");
    let folder = String::from_utf8_lossy(&rustc.stdout).trim().to_owned();
    let archive = Path::new(&folder).join("self-contained/libc.a");
    if !archive.exists() {
        fail(format_args!(
            "no musl in '{folder}'; expected Rust's target as rustup has it"
        ));
    }
    let output = output_folder();
    let object = output.join("libc.o");
    // One member's call of another is undefined before this link, and defined after it.
    let mut link = tool("LD", "ld");
    link.args(["-r", "-o"]).arg(&object);
    link.args(REPLACED.map(|name| format!("--wrap={name}")));
    run(link.arg("--whole-archive").arg(&archive));
    let mut rename = tool("OBJCOPY", "objcopy");
    for name in REPLACED {
        rename.arg(format!("--redefine-sym={name}=__next_{name}"));
        rename.arg(format!("--redefine-sym=__wrap_{name}={name}"));
    }
    let list = exported();
    for name in list
        .iter()
        .filter(|name| !REPLACED.contains(&name.as_str()))
    {
        rename.arg(format!("--redefine-sym={name}=__next_{name}"));
    }
    run(rename.arg(&object));
    let library = output.join("libpyhost_c.a");
    let _ = std::fs::remove_file(&library);
    let mut archive = tool("AR", "ar");
    run(archive.arg("cr").arg(&library).arg(&object).args(exports));
    println!("cargo:rustc-link-search=native={}", output.display());
    println!("cargo:rustc-link-lib=static:-bundle,+whole-archive=pyhost_c");
}

/// Links what a static libpython needs beside it.
pub fn link_python(link: &mut Link, object: &Path) {
    list_symbols(&[object, &output_folder().join("libpyhost_c.a")]);
    // In one that lies anywhere, a bit for each address that depends on it, instead of 24 bytes. Other linkers warn.
    link.with("-Wl,-z,pack-relative-relocs");
    // As threads have with glibc; musl's default is 128 KiB.
    link.with("-Wl,-z,stack-size=8388608");
    link.with("-lgcc");
}

/// Makes the table that `native/own_symbols.rs` reads: the names and addresses of what the objects define, in the order of the
/// names. A static executable that lies at one place has none of a loader's.
fn list_symbols(objects: &[&Path]) {
    let mut nm = tool("NM", "nm");
    let output = nm
        .args(["--extern-only", "--defined-only", "--format=posix"])
        .args(objects)
        .output();
    let output = match output {
        Ok(output) if output.status.success() => output.stdout,
        _ => fail(format_args!("{nm:?} failed; expected binutils' nm")),
    };
    let text = String::from_utf8_lossy(&output);
    // The host replaces libc's `__next_NAME` by a function called NAME.
    let names = text
        .lines()
        .filter(|line| !line.ends_with(':'))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, _)| name.strip_prefix("__next_").unwrap_or(name));
    let names: std::collections::BTreeSet<_> = names.filter(|name| !name.is_empty()).collect();
    let mut source = String::from(
        "\t.section .data.rel.ro,\"aw\"\n\t.balign 8\n\t.globl pyhost_symbols\npyhost_symbols:\n",
    );
    for (index, &name) in names.iter().enumerate() {
        let symbol = match MAPPINGS.contains(&name) {
            true => for_libraries(name),
            false => name.to_owned(),
        };
        source += &format!("\t.quad .Lname{index}, {symbol}\n");
    }
    let count = names.len();
    source += &format!("\t.globl pyhost_symbol_count\npyhost_symbol_count:\n\t.quad {count}\n");
    source += "\t.section .rodata.str1.1,\"aMS\",%progbits,1\n";
    for (index, name) in names.iter().enumerate() {
        source += &format!(".Lname{index}: .asciz \"{name}\"\n");
    }
    source += "\t.section .note.GNU-stack,\"\",%progbits\n";
    let path = output_folder().join("symbols.s");
    std::fs::write(&path, source).expect("it can be written");
    cc::Build::new().file(&path).compile("pyhost_symbols");
}
