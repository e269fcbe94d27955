//! Links the executable `pyhost` as the host asks for it, see `src/host/build.rs`, and has `pyhostctl` find libgcc_s beside
//! libpython in a build that is copied elsewhere.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arguments = std::env::var("DEP_PYHOST_HOST_LINK_ARGUMENTS").expect("the host's arguments");
    for argument in arguments.split('\t') {
        println!("cargo::rustc-link-arg-bin=pyhost={argument}");
    }
    println!("cargo::rerun-if-env-changed=PYHOST_RUN_PATH");
    if let Some(folder) = std::env::var("PYHOST_RUN_PATH")
        .ok()
        .filter(|it| !it.is_empty())
    {
        println!("cargo::rustc-link-arg-bin=pyhostctl=-Wl,-rpath,{folder}");
    }
}
