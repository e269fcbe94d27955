//! `pyhostctl install-kernel`: a kernel for Jupyter that runs under the host.

use crate::output::{Failure, print};
use crate::{output, sweep};
use clap::Args;
use serde_json::{Value, json};
use std::{ffi::OsString, fs, io, path::PathBuf};

/// The name that notebooks show.
const DISPLAY: &str = "Python (pyhost)";

#[derive(Debug, Args)]
pub struct KernelOptions {
    /// The kernel's folder is DIR/share/jupyter/kernels/pyhost [default: $VIRTUAL_ENV, else ~/.local]
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,

    /// Options of the host [default: --lines --stats=off]
    #[arg(value_name = "OPTION")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub options: Vec<String>,
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

pub fn run(options: &KernelOptions) -> Result<(), Failure> {
    let environment = variable("VIRTUAL_ENV");
    let local = || variable("HOME").map(|home| PathBuf::from(home).join(".local"));
    let prefix = options.prefix.clone();
    let prefix = prefix.or_else(|| environment.clone().map(PathBuf::from));
    let none = || Failure("there is no home directory; expected --prefix DIR".to_owned());
    let prefix = prefix.or_else(local).ok_or_else(none)?;
    let folder = prefix.join("share/jupyter/kernels/pyhost");
    let file = folder.join("kernel.json");
    match fs::read(&file) {
        Ok(text) => {
            let found: Value = serde_json::from_slice(&text).unwrap_or_default();
            if found["display_name"] != DISPLAY {
                let what = "is another kernel's; expected --prefix DIR";
                return Err(Failure::of(&file, what));
            }
            fs::remove_file(&file)
                .map_err(|error| Failure::of(&file, format!("cannot be replaced ({error})")))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::unreadable(&file, &error)),
    }
    fs::create_dir_all(&folder)
        .map_err(|error| Failure::of(&folder, format!("cannot be made ({error})")))?;
    let host = sweep::host();
    let defaults = ["--lines", "--stats=off"].map(str::to_owned);
    let of_host = match options.options.is_empty() {
        true => &defaults[..],
        false => &options.options,
    };
    let mut argv = vec![host.to_string_lossy().into_owned()];
    argv.extend_from_slice(of_host);
    argv.extend(["-m", "ipykernel_launcher", "-f", "{connection_file}"].map(str::to_owned));
    let mut kernel = json!({"argv": argv, "display_name": DISPLAY, "language": "python"});
    if let Some(environment) = environment {
        kernel["env"] = json!({"VIRTUAL_ENV": environment.to_string_lossy()});
    }
    output::write(&file, format!("{kernel:#}\n").as_bytes())?;
    print(&format!("{}\n", file.display()))
}
