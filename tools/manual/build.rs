//! Links the program as the host, whose option table it reads, asks for it: see `src/host/build.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arguments = std::env::var("DEP_PYHOST_HOST_LINK_ARGUMENTS").expect("the host's arguments");
    for argument in arguments.split('\t') {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
