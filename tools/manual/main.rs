//! Writes the manual pages of `pyhost` and `pyhostctl` and their completions for bash, zsh and fish into a folder:
//!
//! ```sh
//! cargo run --package pyhost-manual [FOLDER]      without FOLDER: target/manual
//! ```
//!
//! The files lie below FOLDER/share as they do in /usr/share and in ~/.local/share. What is in them is from the programs'
//! own command lines: for pyhost that is the option table.

mod completions;
mod page;
mod values;

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use pyhost_host::Help;
use std::fs::{File, create_dir_all, write};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

const PAGES: &str = "share/man/man1";
/// Where each shell looks for the completions of a program.
const FOLDERS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Zsh, "share/zsh/site-functions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
];

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/manual"));
    let pyhost = pyhost_host::command(Help::All).version(env!("CARGO_PKG_VERSION"));
    let pyhostctl = visible(pyhost_ctl::Cli::command());
    let create = |place: &str, name: &str| {
        create_dir_all(folder.join(place))?;
        File::create(folder.join(place).join(name))
    };
    page::write(&pyhost, &mut create(PAGES, "pyhost.1")?)?;
    page::write_of_commands(pyhostctl.clone(), &mut create(PAGES, "pyhostctl.1")?)?;
    for (shell, place) in FOLDERS {
        let name = |program: &str| match shell {
            Shell::Bash => program.to_owned(),
            Shell::Zsh => format!("_{program}"),
            _ => format!("{program}.fish"),
        };
        let text = completions::of_pyhost(shell, &pyhost);
        create(place, &name("pyhost"))?.write_all(text.as_bytes())?;
        let mut file = create(place, &name("pyhostctl"))?;
        generate(shell, &mut pyhostctl.clone(), "pyhostctl", &mut file);
    }
    // Nothing else of the folder is of use to a shell or to man.
    write(
        folder.join("README"),
        "Copy share/ into ~/.local, /usr/local or /usr.\n",
    )?;
    println!("{}", folder.canonicalize()?.display());
    Ok(())
}

/// The command line without the commands that `--help` does not show either.
fn visible(command: Command) -> Command {
    let shown: Vec<Command> = command
        .get_subcommands()
        .filter(|each| !each.is_hide_set())
        .cloned()
        .collect();
    let mut without = Command::new("pyhostctl").version(env!("CARGO_PKG_VERSION"));
    without = without.about(command.get_about().cloned().unwrap_or_default());
    without = without.after_help(command.get_after_help().cloned().unwrap_or_default());
    without
        .args(command.get_arguments().cloned())
        .subcommands(shown)
        .subcommand_required(true)
        .disable_help_subcommand(true)
}
