//! Proves the layout of the mimalloc structures that `mimalloc/ffi.rs` declares, and compiles what reads mimalloc's
//! list of arenas. Compiles mimalloc with the changes of `mimalloc/patches.rs`.

#[path = "mimalloc/patches.rs"]
mod patches;

use std::path::{Path, PathBuf};

fn main() {
    refuse_other_targets();
    println!("cargo::rerun-if-changed=mimalloc/layout.c");
    println!("cargo::rerun-if-changed=mimalloc/arenas.c");
    // The region sees mimalloc's calls of it, see `bounded_heap/mod.rs`. This is for the unit tests; the
    // executable's arguments are in `src/host/build.rs`.
    println!("cargo::rustc-link-arg=-Wl,--wrap=mprotect");
    let original = std::env::var_os("DEP_MIMALLOC_INCLUDE_DIR")
        .map(PathBuf::from)
        .expect("libmimalloc-sys hands over its include directory");
    let place = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("mimalloc");
    let copied = patch(original.parent().expect("mimalloc's folder"), &place);
    copied.unwrap_or_else(|error| fail(format_args!("{}: {error}", place.display())));
    let mut build = cc::Build::new();
    build.includes(["src", "include"].map(|folder| place.join(folder)));
    build.define("MI_DEBUG", "0").warnings(false);
    // As the crate's build script compiles it.
    build
        .clone()
        .file(place.join("src").join(CHANGED))
        .define("MI_NO_THP", "1")
        .define("NDEBUG", None)
        .flag("-ftls-model=initial-exec")
        .opt_level(3)
        .compile("pyhost_mimalloc");
    build.files(["mimalloc/layout.c", "mimalloc/arenas.c"]);
    build.compile("pyhost_layout");
}

/// The copy's only unit of compilation. By its name tools/build-inside, which links whole libraries, leaves out the crate's `static.o`.
const CHANGED: &str = "changed.c";

/// Lays a copy of mimalloc's folder `from` into `to`, changed as [`patches`] says.
fn patch(from: &Path, to: &Path) -> std::io::Result<()> {
    copy_folder(from, to)?;
    let removed = patches::REMOVED.iter();
    let removed = removed.flat_map(|(file, texts)| texts.iter().map(|text| (*file, *text, "")));
    for (file, old, new) in patches::REPLACED.iter().copied().chain(removed) {
        let file = to.join(file);
        let text = std::fs::read_to_string(&file)?;
        if text.matches(old).count() != 1 {
            fail(format_args!(
                "{}: {old:?} does not stand there once; expected the pinned version of mimalloc",
                file.display()
            ));
        }
        std::fs::write(&file, text.replace(old, new))?;
    }
    std::fs::rename(to.join("src/static.c"), to.join("src").join(CHANGED))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, target) = entry.map(|it| (it.path(), to.join(it.file_name())))?;
        match entry.is_dir() {
            true => copy_folder(&entry, &target)?,
            false => std::fs::write(&target, std::fs::read(&entry)?)?,
        }
    }
    Ok(())
}

/// Ends the build with one line on a target for which the host has no assembly, or no C library. Every crate of the host
/// depends on this one.
fn refuse_other_targets() {
    let of_target =
        |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let target = std::env::var("TARGET").expect("cargo names the target");
    let processor = match target.split_once('-') {
        Some(("armv7", _)) => "armv7".to_owned(),
        _ => of_target("ARCH"),
    };
    let found = [processor, of_target("OS"), of_target("ENV")];
    let found = found.each_ref().map(String::as_str);
    if !matches!(
        found,
        ["x86_64" | "aarch64", "linux", "gnu" | "musl"] | ["armv7", "linux", "gnu"]
    ) {
        fail(format_args!(
            "pyhost cannot be built for {}; expected x86_64 or aarch64, linux, gnu or musl, or armv7-linux-gnu",
            found.join("-")
        ));
    }
    if found[0] == "armv7" {
        require_macros(&target);
    }
}

/// What mimalloc must be compiled with for 32-bit ARM. Its number of a thread is else the address of a list of the
/// loader's, which changes when libraries are loaded and may then be another thread's. Its description of a page is else
/// in front of the page's blocks, so that those of arrays are not aligned.
const MACROS: [&str; 2] = [
    "-DMI_USE_BUILTIN_THREAD_POINTER=1",
    "-DMI_PAGE_META_IS_SEPARATED=1",
];

/// Ends the build with one line if C is compiled without [`MACROS`]. mimalloc's own build script reads the same variables.
fn require_macros(target: &str) {
    let compiler = cc::Build::new().get_compiler();
    let is_set = |flag: &&str| compiler.args().iter().any(|argument| argument == *flag);
    if !MACROS.iter().all(is_set) {
        fail(format_args!(
            "CFLAGS_{}: no {}; expected both, which devices/build sets",
            target.replace('-', "_"),
            MACROS.join(" ")
        ));
    }
}

/// Ends the build with one line.
fn fail(line: std::fmt::Arguments<'_>) -> ! {
    println!("cargo::error={line}");
    std::process::exit(1)
}
