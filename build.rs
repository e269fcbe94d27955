//! Links the executable `pyhost` as the host asks for it: see `src/host/build.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arguments = std::env::var("DEP_PYHOST_HOST_LINK_ARGUMENTS").expect("the host's arguments");
    for argument in arguments.split('\t') {
        println!("cargo::rustc-link-arg-bin=pyhost={argument}");
    }
}
