//! Writes the linker's arguments that the host asks for beside the library: see `src/host/build.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arguments = std::env::var("DEP_PYHOST_HOST_LINK_ARGUMENTS").expect("the host's arguments");
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo gives a folder"));
    // target/PROFILE/build/pyhost-inside-HASH/out
    let folder = out.ancestors().nth(3).expect("the folder of the profile");
    let arguments = arguments.replace('\t', "\n");
    std::fs::write(folder.join("pyhost-inside.arguments"), arguments)
        .expect("the folder of the profile can be written");
}
