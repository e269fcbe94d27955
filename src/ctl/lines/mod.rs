//! `pyhostctl lines`: the sampled lines of a report as a table, by line, function, file, package, account, stack, thread or
//! type.

mod rows;
mod switch;
#[cfg(any(test, fuzzing))]
pub mod tests;
mod text;

pub use rows::{By, Row, Subject, Table};
pub use text::text;

use crate::document::Input;
use crate::find::{self, Directories};
use crate::output::{Failure, print};
use crate::stacks::{Stacks, View};
use crate::tree::hosts_of;
use clap::{Args, builder::PossibleValuesParser};
use pyhost_ledger::{REPORTED, header::Header};
use pyhost_os::clock;
use pyhost_record::lines::{samples_of, unwritten_samples};
use pyhost_record::metrics::Pid;
use switch::interval;

/// The options that say which table is shown: `--start` and `--stop` show none.
const OF_A_TABLE: [&str; 6] = ["view", "by", "account", "top", "json", "tree"];

#[derive(Debug, Args)]
pub struct LinesOptions {
    /// The bytes that count [default: at_peak, and live with --by type]
    #[arg(long, value_name = "VIEW")]
    pub view: Option<View>,

    /// Sum the bytes by
    #[arg(long, value_name = "WHAT", default_value = "line")]
    pub by: By,

    /// The bytes of one account only
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(REPORTED.iter().map(|account| account.name())))]
    pub account: Option<String>,

    /// The most rows that are shown
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,

    /// As JSON, schema pyhost-lines/1
    #[arg(long)]
    pub json: bool,

    /// Make a running process take samples from now on, one in INTERVAL bytes [default: 128K]
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "128K", value_parser = interval, conflicts_with = "stop", conflicts_with_all = OF_A_TABLE)]
    pub start: Option<u64>,

    /// Make a running process take no more samples
    #[arg(long, conflicts_with_all = OF_A_TABLE)]
    pub stop: bool,

    /// Of all hosts of the tree that begins with the process: what is live, of a forked child beyond what was live at the fork
    #[arg(long, conflicts_with = "view")]
    pub tree: bool,

    /// A report in JSON of `pyhost --lines`, `-` for stdin, or the process id of a host with --live that takes samples
    #[arg(value_name = "REPORT|PID")]
    pub what: String,
}

/// That the samples of a process cannot be read, and why; None if nothing is known to keep it from writing them.
pub fn unwritten(name: &Pid, header: &Header) -> Option<String> {
    let why = unwritten_samples(header)?;
    Some(format!(
        "the samples of process {name} cannot be read: {why}"
    ))
}

/// That a process takes no samples, and what to do.
pub fn no_samples(name: &Pid) -> Failure {
    Failure(format!(
        "process {name} takes no samples; expected one of `pyhost --lines`, or after `pyhostctl lines --start {name}`"
    ))
}

pub fn run(options: &LinesOptions, directories: &Directories) -> Result<(), Failure> {
    if options.start.is_some() || options.stop {
        return switch::run(&options.what, options.start, directories);
    }
    if options.tree {
        if options.by == By::Type {
            let what = "--tree knows no types; expected a report of a script that ended";
            return Err(Failure(what.to_owned()));
        }
        let stacks = of_tree(find::process(&options.what)?, directories)?;
        return show(options, &stacks, View::Live);
    }
    let input = Input::read(&options.what, directories)?;
    if let (None, None, Ok(name)) = (
        &input.report.lines,
        &input.report.lines_missing,
        options.what.parse::<Pid>(),
    ) {
        return Err(no_samples(&name));
    }
    let refuse = |what: String| Failure(format!("{} {what}", input.name));
    let stacks = Stacks::by_thread(&input.report).map_err(refuse)?;
    let view = match (options.by, options.view) {
        (By::Type, None | Some(View::Live)) => View::Live,
        (By::Type, Some(view)) => {
            let view = view.name();
            return Err(Failure(format!(
                "--by type knows the types of live objects, not those of the view {view}; expected --view live"
            )));
        }
        (_, view) => view.unwrap_or(View::AtPeak),
    };
    if options.by == By::Type && stacks.sites.iter().all(|site| site.types.is_empty()) {
        return Err(refuse(
            "has no types; expected the report of a script that ended, or of pyhost.lines()"
                .to_owned(),
        ));
    }
    show(options, &stacks, view)
}

/// The samples of the hosts of a tree that take them.
fn of_tree(first: Pid, directories: &Directories) -> Result<Stacks, Failure> {
    let mut command = None;
    let mut tree = Vec::new();
    for (name, its_command, file) in hosts_of(first, directories)? {
        command.get_or_insert(its_command);
        tree.extend(samples_of(&file).map(|mut samples| {
            samples.look_at_clock(clock::monotonic());
            (name, samples)
        }));
    }
    if tree.is_empty() {
        return Err(no_samples(&first));
    }
    let (count, command) = (tree.len(), command.unwrap_or_default());
    let command = match count {
        1 => format!("1 process of {command}"),
        _ => format!("{count} processes of {command}"),
    };
    Stacks::of_tree(&command, &tree)
        .map_err(|what| Failure(format!("the tree of process {first} {what}")))
}

fn show(options: &LinesOptions, stacks: &Stacks, view: View) -> Result<(), Failure> {
    let table = Table::new(stacks, view, options.by, options.account.as_deref());
    let top = options.top as usize;
    print(&match options.json {
        true => text::json(&table, top),
        false => text(&table, top),
    })
}
