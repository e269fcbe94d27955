//! How a process comes into its tree (`--cap tree=SIZE`): the first makes the page in a file in memory, and each one keeps it open.
//! The others find it by a variable, which says who has it open and by which number. If that process has ended, any other that has it will do.

use super::claims::{NoRoom, claim, own_mark};
use super::settings::{CapSize, Rule, Rules};
use super::shares::{Shares, WORDS};
use super::start::Machine;
use super::{limits, tree};
use crate::descriptor::{in_memory_of, notice, out_of_the_way};
use crate::error::{Error, Result};
use crate::ledger::{LEDGER, Scope};
use crate::{bytes::Bytes, errno::Errno, process};
use pyhost_os::file::{self, Fd};
use pyhost_os::mapping::Shared;
use std::ffi::{CString, OsString};
use std::os::fd::RawFd;

/// Names the page of the tree: a process that has it open, its number there, its device and its inode.
const VARIABLE: &str = "PYHOST_TREE";
/// Bytes of the cap that a process needs to start.
const START: u64 = 8 << 20;
/// The least cap of a tree.
const LEAST: u64 = 2 * START;
const BYTES: u64 = WORDS as u64 * 8;

/// Makes the process one of the tree that the rules name, before Python is started. `exports` get what its children find it by. If
/// that is impossible, a notice says so, and the rule is one for this process.
pub fn join(rules: &mut Rules, exports: &mut Vec<(String, OsString)>) -> Result<()> {
    let Some(rule) = rules.tree().copied() else {
        return Ok(());
    };
    let bytes = Machine::look().size_of(&rule);
    if bytes < LEAST {
        return Err(Error::option(format!(
            "--cap: bad value '{rule}'; expected at least {} for a tree",
            Bytes(LEAST)
        )));
    }
    let page = found()
        .map(|it| it.and_then(mapped))
        .unwrap_or_else(|| made(bytes, rule.size == CapSize::Auto));
    let (file, shares) = match page {
        Ok(page) => page,
        Err(error) => {
            // Before the others: a cap of the process's own counts.
            let own = Rule {
                is_tree: false,
                ..rule
            };
            rules.0.retain(|rule| !rule.is_tree);
            rules.0.insert(0, own);
            notice(format_args!(
                "--cap tree: no memory to share ({error}); the script runs with the cap as its own"
            ));
            return Ok(());
        }
    };
    let (device, inode) = file::identity(&file).unwrap_or_default();
    let (id, number) = (process::id(), file.leak());
    let name = format!("{id}:{number}:{device}:{inode}");
    exports.push((VARIABLE.to_owned(), name.into()));
    let entry = shares.enter(id as u32, own_mark());
    tree::begin(
        shares,
        entry.unwrap_or(0),
        entry.map_or(0, |entry| shares.share(entry)),
    );
    limits::combine(Scope::Total);
    let rest = START.saturating_sub(tree::RESERVE + LEDGER.bound(Scope::Total).max(0) as u64);
    match claim(rest as usize) {
        true => Ok(()),
        false => Err(Error::start(NoRoom.to_string())),
    }
}

/// Makes the page of a new tree.
fn made(cap: u64, follows: bool) -> Result<(Fd, Shares<'static>), Errno> {
    let file = out_of_the_way(in_memory_of(c"pyhost-tree", BYTES)?);
    let (file, shares) = mapped(file)?;
    shares.set_cap(cap, follows.then_some(cap));
    Ok((file, shares))
}

fn mapped(file: Fd) -> Result<(Fd, Shares<'static>), Errno> {
    let words = Shared::of_file(&file, WORDS)?;
    Ok((file, Shares(words.leak())))
}

/// Opens the page of the tree that the variable names. Returns `None` if the variable names no page, or if no process in `/proc` has it.
fn found() -> Option<Result<Fd, Errno>> {
    let text = std::env::var(VARIABLE).ok()?;
    let words: Result<Vec<u64>, _> = text.split(':').map(str::parse).collect();
    let [id, number, device, inode] = words.ok().filter(|_| !process::is_privileged_start())?[..]
    else {
        return None;
    };
    let open = |process: &str| {
        let path = format!("/proc/{process}/fd/{number}");
        let path = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
        // Opening another file might have effects.
        let found = file::status_of(&path, 0)?;
        match (found.st_dev, found.st_ino, found.st_size as u64) == (device, inode, BYTES) {
            true => Ok(Fd::open(&path, libc::O_RDWR)?.moved_up(number as RawFd)),
            false => Err(Errno(libc::ENOENT)),
        }
    };
    let first = open(&id.to_string());
    if matches!(first, Ok(_) | Err(Errno(libc::EACCES))) {
        return Some(first);
    }
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let names = processes.filter_map(|it| it.file_name().into_string().ok());
    let found = names.filter_map(|name| open(&name).ok()).next();
    if let (None, Err(error)) = (&found, first) {
        notice(format_args!(
            "--cap tree: cannot open the page of the tree of process {id} in /proc: {error}; the script begins a tree of its own"
        ));
    }
    found.map(Ok)
}
