//! `pyhostctl tree`: the processes of a tree, what each of them has, and their sum.
//!
//! A tree is a host and all that descends from it: by the parents that `/proc` shows, or of what it does not show by those that hosts
//! have noted. A killed host is in it as long as the one that started it runs.

use crate::find::{self, Directories, FoundHost};
use crate::model::escaped;
use crate::output::{Failure, print};
use crate::process::{self, Proportional};
use crate::top::columns::{Column, left, right, table};
use crate::top::tables::{clock, maybe};
use crate::top::width;
use clap::Args;
use pyhost_ledger::{AccountFigures, header::Header, header::command_line};
use pyhost_os::{bytes::Bytes, duration, terminal_text::plain};
use pyhost_record::directory::{self, Entry, Here};
use pyhost_record::{Killed, Record, metrics::Pid, was_killed};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::iter::successors;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{fmt::Write, path::PathBuf, thread};

/// The least time between two looks, which is as long as one takes at least.
const PAUSE: Duration = Duration::from_millis(100);
/// The bounds of `--for`.
const TIMES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(168 * 3600)];

fn time(text: &str) -> Result<Duration, &'static str> {
    let time = duration::parse(text, None, TIMES[0]..=TIMES[1]);
    time.ok_or("expected a time between 1s and 168h, such as 30s or 10m")
}

#[derive(Debug, Args)]
pub struct TreeOptions {
    /// Look again and again for this time, 1s to 168h, and show the largest sums and who has ended, too
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,

    /// As JSON, schema pyhost-tree/1
    #[arg(long)]
    pub json: bool,

    /// The process that the tree begins with; without it, all trees
    #[arg(value_name = "PID")]
    pub pid: Option<Pid>,
}

#[derive(Default)]
pub struct Member {
    pub name: Pid,
    start: u64,
    parent: Pid,
    pub role: &'static str,
    /// How it ended; `None` while it runs.
    pub ended: Option<String>,
    pub command: String,
    /// From the start to now or to the end; `None` if that is unknown, as of SIGKILL.
    pub seconds: Option<u64>,
    /// If it is a host: live bytes and their peak beyond those that it was forked with, and all accounts.
    pub live: Option<u64>,
    pub peak: Option<u64>,
    accounts: Vec<(&'static str, AccountFigures)>,
    pub memory: Option<Proportional>,
    /// How many ancestors in the tree it has.
    pub depth: usize,
    file: PathBuf,
}

/// Sums of what runs.
#[derive(Clone, Copy, Default)]
pub struct Sums {
    pub live: u64,
    /// `None` if nothing is known of any.
    pub memory: Option<Proportional>,
}

/// The largest sums of live bytes and of proportional sizes, with the seconds from the first look to each.
type Most = [(u64, f64); 2];

pub fn run(options: &TreeOptions, directories: &Directories) -> Result<(), Failure> {
    let (begin, mut seen, mut most) = (Instant::now(), BTreeMap::new(), Most::default());
    let sums = loop {
        let look = Instant::now();
        let sums = take(look_at(options.pid, directories)?, &mut seen);
        let seconds = (look - begin).as_secs_f64();
        let now = [sums.live, sums.memory.map_or(0, |it| it.proportional)];
        for (most, bytes) in most.iter_mut().zip(now) {
            if bytes > most.0 {
                *most = (bytes, seconds);
            }
        }
        let pause = PAUSE.max(look.elapsed());
        match options.time {
            Some(time) if begin.elapsed() + pause < time => thread::sleep(pause),
            _ => break sums,
        }
    };
    if let (Some(pid), true) = (options.pid, seen.is_empty()) {
        return Err(in_no_tree(pid, directories));
    }
    let most = options.time.map(|_| most);
    let members = ordered(seen.into_values().collect());
    print(&match options.json {
        true => to_json(&members, sums, most),
        false => to_text(&members, sums, most),
    })
}

fn in_no_tree(pid: Pid, directories: &Directories) -> Failure {
    Failure(format!(
        "process {pid} is in no tree of {directories}; expected a host that runs with --live, or a process that one has started"
    ))
}

/// The processes of a tree now, each behind its parent, and the sums of those that run.
pub fn statement_of(first: Pid, directories: &Directories) -> Result<(Vec<Member>, Sums), Failure> {
    let mut seen = BTreeMap::new();
    let sums = take(look_at(Some(first), directories)?, &mut seen);
    match seen.is_empty() {
        true => Err(in_no_tree(first, directories)),
        false => Ok((ordered(seen.into_values().collect()), sums)),
    }
}

/// The hosts of a tree that run: their names, commands and files, its first process first.
pub fn hosts_of(
    first: Pid,
    directories: &Directories,
) -> Result<Vec<(Pid, String, PathBuf)>, Failure> {
    let (members, _) = statement_of(first, directories)?;
    let members = members.into_iter();
    let hosts = members.filter(|it| it.ended.is_none() && it.live.is_some());
    Ok(hosts.map(|it| (it.name, it.command, it.file)).collect())
}

#[derive(Debug, Args)]
pub struct KilledOptions {
    /// As JSON, schema pyhost-tree/1
    #[arg(long)]
    pub json: bool,
}

/// `pyhostctl killed`: the hosts whose files say that they were killed.
pub fn list_killed(options: &KilledOptions, directories: &Directories) -> Result<(), Failure> {
    let here = Here::find();
    directories.ledgers()?; // else what cannot be read would pass for empty
    let killed = killed(directories, &here);
    let members = killed.map(|(entry, record)| of_record(&entry, &record, false));
    let members = ordered(members.collect());
    print(&match options.json {
        true => to_json(&members, Sums::default(), None),
        false => rows(&members),
    })
}

/// Adds the members of a look to those seen before; who is gone has ended. Returns the sums of those that run.
fn take(members: Vec<Member>, seen: &mut BTreeMap<(Pid, u64), Member>) -> Sums {
    for before in seen.values_mut() {
        before.ended.get_or_insert_with(|| "has ended".to_owned());
    }
    let mut sums = Sums::default();
    for member in members {
        if member.ended.is_none() {
            sums.live += member.live.unwrap_or(0);
            if let Some(of_member) = member.memory {
                let sum = sums.memory.get_or_insert_default();
                sum.proportional += of_member.proportional;
                sum.private += of_member.private;
            }
        }
        seen.insert((member.name, member.start), member);
    }
    sums
}

/// The members of the tree of `first`, or of all trees, at this moment.
fn look_at(first: Option<Pid>, directories: &Directories) -> Result<Vec<Member>, Failure> {
    let here = Here::find();
    let (hosts, processes) = (find::running(directories)?.hosts, process::all());
    let shown = |host: &FoundHost| process::id_of(&host.entry.identity, &here, &processes);
    let shown: Vec<(Option<i32>, FoundHost)> =
        hosts.into_iter().map(|host| (shown(&host), host)).collect();
    let names = shown
        .iter()
        .filter_map(|(id, host)| Some(((*id)?, host.name)));
    let names: HashMap<i32, Pid> = names.collect();
    let name_of = |id: i32| names.get(&id).copied().unwrap_or(of_id(id));
    let mut all: BTreeMap<Pid, Member> = BTreeMap::new();
    for (id, host) in shown {
        let mut member = of_record(&host.entry, &host.record, true);
        if let Some(process) = id.and_then(|id| processes.get(&id)) {
            member.parent = name_of(process.parent);
        }
        (member.name, member.memory) = (host.name, id.and_then(Proportional::of));
        all.insert(member.name, member);
    }
    for (entry, record) in killed(directories, &here) {
        let member = of_record(&entry, &record, false);
        let is_parent = |parent: &Member| parent.start <= member.start && parent.ended.is_none();
        if all.get(&member.parent).is_some_and(is_parent) {
            all.entry(member.name).or_insert(member);
        }
    }
    for (&id, process) in &processes {
        let line = successors(Some(process), |it| processes.get(&it.parent));
        let mut parents = line.take(processes.len()).map(|it| it.parent);
        let is_host = names.contains_key(&id) || all.contains_key(&of_id(id));
        if !is_host && parents.any(|parent| names.contains_key(&parent)) {
            let parent = name_of(process.parent);
            all.insert(of_id(id), of_program(id, process, parent));
        }
    }
    let mut members: Vec<Member> = all.into_values().collect();
    if let Some(first) = first {
        // A host of another namespace, if no other has the id.
        let fits = |it: &&Member| first.namespace.is_none() && it.name.id == first.id;
        let fitting: Vec<_> = members.iter().filter(fits).collect();
        let first = match fitting[..] {
            [only] if members.iter().all(|it| it.name != first) => only.name,
            _ => first,
        };
        let parents: BTreeMap<Pid, Pid> = members.iter().map(|it| (it.name, it.parent)).collect();
        let descends = |name: Pid| {
            let line = successors(Some(name), |name| parents.get(name).copied());
            line.take(parents.len() + 1).any(|name| name == first)
        };
        members.retain(|member| descends(member.name));
    }
    Ok(members)
}

/// A process that `/proc` shows.
fn of_id(id: i32) -> Pid {
    Pid {
        namespace: None,
        id,
    }
}

/// The files of hosts that were killed.
fn killed(directories: &Directories, here: &Here) -> impl Iterator<Item = (Entry, Record)> {
    let ended = directories.all_files().into_iter();
    let ended = ended.filter(|entry| !entry.is_alive(here));
    let records = ended.filter_map(|entry| Some((Record::read(&entry.path).ok()?, entry)));
    let killed = records.filter(|(record, _)| was_killed(record.header()));
    killed.map(|(record, entry)| (entry, record))
}

fn of_record(entry: &Entry, record: &Record, runs: bool) -> Member {
    let header: &Header = record.header();
    let identity = &entry.identity;
    let namespace =
        (identity.pid_namespace != directory::pid_namespace()).then_some(identity.pid_namespace);
    let own = |bytes: u64| Some(bytes.saturating_sub(header.inherited().unwrap_or(0)));
    let total = &record.snapshot;
    let active = total.accounts().filter(|row| record.is_active(row.0));
    let accounts = active.map(|(account, figures)| (account.name(), *figures));
    Member {
        name: Pid {
            namespace,
            id: identity.pid,
        },
        start: identity.start_ticks,
        parent: Pid {
            namespace,
            id: header.parent.load(Relaxed),
        },
        role: header.role(),
        ended: (!runs).then(|| Killed(header).to_string()),
        command: header.whole_command(),
        seconds: header.lasted(runs).map(|it| it / 1_000_000_000),
        live: own(total.total_live_bytes),
        peak: own(total.total_peak_bytes),
        accounts: accounts.collect(),
        file: entry.path.clone(),
        ..Member::default()
    }
}

fn of_program(id: i32, process: &process::Process, parent: Pid) -> Member {
    Member {
        name: of_id(id),
        start: process.start,
        parent,
        role: "program",
        command: command_line(process::words(id), ""),
        seconds: Some(process.seconds),
        memory: Proportional::of(id),
        ..Member::default()
    }
}

/// Each member behind its parent and the siblings that started before.
fn ordered(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by_key(|member| (member.start, member.name));
    let mut done: Vec<Member> = Vec::with_capacity(members.len());
    for mut member in members {
        let parent = done.iter().rposition(|it| it.name == member.parent);
        let place = parent.map_or(done.len(), |parent| {
            member.depth = done[parent].depth + 1;
            let below = &done[parent + 1..];
            let after = below.iter().take_while(|it| it.depth >= member.depth);
            parent + 1 + after.count()
        });
        done.insert(place, member);
    }
    done
}

/// The columns; `wide` is the length of the longest name.
fn columns(wide: usize) -> [Column<Member>; 9] {
    [
        right("PID", wide.max(8) as u16, 0, |it| {
            it.name.to_string().into()
        }),
        right("TIME", 9, 4, |it| {
            it.seconds.map_or("-".into(), |it| clock(it).into())
        }),
        right("LIVE", 11, 0, |it| maybe(it.live)),
        right("PEAK", 11, 2, |it| maybe(it.peak)),
        right("PRIVATE", 11, 3, |it| maybe(it.memory.map(|of| of.private))),
        right("PSS", 11, 0, |it| {
            maybe(it.memory.map(|of| of.proportional))
        }),
        right("RESIDENT", 11, 5, |it| {
            maybe(it.memory.map(|of| of.resident))
        }),
        left("ROLE", 7, |it| it.role.into()),
        left("COMMAND", 14, |it| {
            let how = it.ended.as_ref().map(|how| format!("{how}: "));
            let (indent, how) = ("  ".repeat(it.depth), how.unwrap_or_default());
            format!("{indent}{how}{}", plain(&it.command)).into()
        }),
    ]
}

fn rows(members: &[Member]) -> String {
    let wide = members.iter().map(|it| it.name.to_string().len());
    let columns = columns(wide.max().unwrap_or(0));
    table(&columns, members, None, width()).text()
}

fn to_text(members: &[Member], sums: Sums, most: Option<Most>) -> String {
    let mut text = rows(members);
    let running = members.iter().filter(|it| it.ended.is_none()).count();
    let run = ["processes run", "process runs"][usize::from(running == 1)];
    let _ = write!(text, "{running} {run}: {} live", Bytes(sums.live));
    if let Some(memory) = sums.memory {
        let [private, pss] = [memory.private, memory.proportional].map(Bytes);
        let _ = write!(text, ", {private} private, {pss} PSS");
    }
    text.push('\n');
    if let Some([live, proportional]) = most {
        let shown = |(bytes, seconds): (u64, f64), what| {
            format!("{} {what} (after {seconds:.1} s)", Bytes(bytes))
        };
        let [live, proportional] = [shown(live, "live"), shown(proportional, "PSS")];
        let _ = writeln!(text, "the most at a time: {live}, {proportional}");
    }
    text
}

fn to_json(members: &[Member], sums: Sums, most: Option<Most>) -> String {
    let of_memory = |it: &Proportional| json!({"resident_bytes": it.resident, "private_bytes": it.private, "pss_bytes": it.proportional});
    let processes = members.iter().map(|it| {
        let accounts = it.accounts.iter().map(|(name, figures)| {
            let of_account = json!({"live_bytes": figures.live_bytes, "peak_bytes": figures.peak_bytes});
            ((*name).to_owned(), of_account)
        });
        json!({
            "pid": it.name.id, "pid_namespace": it.name.namespace, "parent": it.parent.id, "depth": it.depth, "role": it.role,
            "command": it.command, "seconds": it.seconds, "ended": it.ended, "live_bytes": it.live, "peak_bytes": it.peak,
            "accounts": accounts.collect::<Map<String, Value>>(), "memory": it.memory.as_ref().map(of_memory),
        })
    });
    let most = most.map(|most| {
        let [live, proportional] =
            most.map(|(bytes, seconds)| json!({"bytes": bytes, "seconds": seconds}));
        json!({"live": live, "pss": proportional})
    });
    let (private, pss) = (
        sums.memory.map(|it| it.private),
        sums.memory.map(|it| it.proportional),
    );
    let sums = json!({"live_bytes": sums.live, "private_bytes": private, "pss_bytes": pss});
    let whole = json!({"schema": "pyhost-tree/1", "processes": processes.collect::<Vec<_>>(), "sum": sums, "most": most});
    escaped(&whole.to_string())
}
