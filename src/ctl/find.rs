//! Finds the files of hosts: by process id, or all of those that run.

use crate::Failure;
use pyhost_record::Record;
use pyhost_record::directory::{self, Entry, Here, Identity};
use std::collections::HashSet;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A host that runs.
pub struct Host {
    /// Its file.
    pub entry: Entry,
    /// What the file said.
    pub record: Record,
}

/// The hosts of a directory that run, by process id. A file that is torn or another's is left out;
/// a directory that is not there has none.
///
/// # Errors
/// The directory cannot be read.
pub fn running(directory: &Path) -> Result<Vec<Host>, Failure> {
    let here = Here::find();
    let entries = match directory::entries(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return Err(Failure(format!(
                "'{}' cannot be read ({error})",
                directory.display()
            )));
        }
    };
    let mut hosts: Vec<Host> = entries
        .into_iter()
        .filter(|entry| entry.is_alive(&here))
        .filter_map(|entry| {
            let record = entry.read().ok()?;
            // It has said good-bye and is about to go.
            record.is_running().then_some(Host { entry, record })
        })
        .collect();
    hosts.sort_by_key(|host| host.entry.identity.pid);
    Ok(hosts)
}

/// How a word names a process: `PID`, or `NAMESPACE:PID` for one of several pid namespaces, as the
/// label `pid` of `pyhostctl serve` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    namespace: Option<u64>,
    /// The process id there.
    pub pid: i32,
}

impl Name {
    /// That process alone.
    pub fn of(identity: &Identity) -> Self {
        Name {
            namespace: Some(identity.pid_namespace),
            pid: identity.pid,
        }
    }

    /// Whether it may mean that process.
    pub fn fits(&self, identity: &Identity) -> bool {
        let is_there = |namespace| namespace == identity.pid_namespace;
        identity.pid == self.pid && self.namespace.is_none_or(is_there)
    }

    /// Of the files that it may mean, the one of the process that started last; None without any.
    ///
    /// # Errors
    /// They are of several pid namespaces.
    pub fn choose(
        &self,
        mut found: Vec<Entry>,
        directory: &Path,
    ) -> Result<Option<Entry>, Failure> {
        /// How many are named.
        const NAMED: usize = 8;
        found.sort_by_key(|entry| std::cmp::Reverse(entry.identity.start_ticks));
        let mut namespaces = HashSet::new();
        let is_first = |entry: &&Entry| namespaces.insert(entry.identity.pid_namespace);
        let several: Vec<&Entry> = found.iter().filter(is_first).collect();
        if several.len() < 2 {
            return Ok(found.into_iter().next());
        }
        let named = several.iter().take(NAMED).map(|entry| {
            let command = entry.read().map(|record| record.card().command());
            let name = format!("{}:{}", entry.identity.pid_namespace, self.pid);
            format!("{name} ({})", command.unwrap_or_default())
        });
        let named: Vec<String> = named.collect();
        let more = match several.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(Failure(format!(
            "process id {} is ambiguous in '{}': {}{more}; expected one of these names, or a file",
            self.pid,
            directory.display(),
            named.join(", ")
        )))
    }
}

impl Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            Some(namespace) => write!(out, "{namespace}:{}", self.pid),
            None => write!(out, "{}", self.pid),
        }
    }
}

impl FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = |_| "expected a process id, or NAMESPACE:PID";
        let (namespace, pid) = match text.split_once(':') {
            Some((namespace, pid)) => (Some(namespace.parse().map_err(expected)?), pid),
            None => (None, text),
        };
        let pid = pid.parse().map_err(expected)?;
        Ok(Name { namespace, pid })
    }
}

/// The file of a process: of the host that runs, else of the one that was killed last.
///
/// # Errors
/// There is none, or there are several.
pub fn of_process(name: &Name, directory: &Path) -> Result<PathBuf, Failure> {
    let here = Here::find();
    let mut found: Vec<Entry> = directory::entries(directory).unwrap_or_default();
    found.extend(directory::archived(directory));
    found.retain(|entry| name.fits(&entry.identity));
    let (alive, ended): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|entry| entry.is_alive(&here));
    let candidates = match alive.is_empty() {
        true => ended,
        false => alive,
    };
    match name.choose(candidates, directory)? {
        Some(entry) => Ok(entry.path),
        None => Err(Failure(format!(
            "no host with process id {name} in '{}'; expected one that was started with --live",
            directory.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_its_id_and_where_need_be_its_namespace() {
        let name = |text: &str| text.parse::<Name>().ok().map(|name| name.to_string());
        assert_eq!(name("17").as_deref(), Some("17"));
        assert_eq!(name("4026532198:1").as_deref(), Some("4026532198:1"));
        for bad in ["", "a", "1:a", "a:1", ":1", "1:", "1:2:3", "-1:1"] {
            assert_eq!(name(bad), None, "{bad}");
        }
        let entry = |pid_namespace, start_ticks| Entry {
            path: PathBuf::from(format!("{pid_namespace}-{start_ticks}")),
            identity: Identity {
                boot: "b".to_owned(),
                pid_namespace,
                pid: 1,
                start_ticks,
            },
        };
        let one: Name = "1".parse().unwrap();
        let of_second: Name = "2:1".parse().unwrap();
        assert!(one.fits(&entry(2, 5).identity) && of_second.fits(&entry(2, 5).identity));
        assert!(!of_second.fits(&entry(3, 5).identity));
        let chosen = |entries: Vec<Entry>| one.choose(entries, Path::new("d")).ok().flatten();
        assert!(chosen(vec![]).is_none());
        let last = chosen(vec![entry(2, 5), entry(2, 9), entry(2, 7)]).unwrap();
        assert_eq!(last.identity.start_ticks, 9);
        let several = one.choose(vec![entry(2, 5), entry(3, 1)], Path::new("d"));
        let Err(Failure(text)) = several else {
            panic!("several");
        };
        assert!(text.contains("2:1 (), 3:1 ()"), "{text}");
    }
}
