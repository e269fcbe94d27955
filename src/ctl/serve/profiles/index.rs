//! The page at `/debug/pprof/`: the hosts, and the profiles that they have.

use super::host::all;
use crate::find::FoundHost;
use crate::serve::response::Response;
use pyhost_os::bytes::Bytes;
use pyhost_record::lines::samples_of;
use std::fmt::Write;
use std::path::Path;

/// How to ask for a profile.
const HELP: &str = "
heap          bytes live now first, and those allocated so far
allocs        the same, those allocated so far first
?seconds=N    the change in N seconds, 1 to 300
?debug=1      as a table, for people
";

pub fn text(directory: &Path) -> Result<String, Response> {
    let hosts = all(directory)?;
    let mut text = match hosts.len() {
        1 => "heap profiles of the host that runs here".to_owned(),
        count => format!("heap profiles of the {count} hosts that run here"),
    };
    text += ", of the samples of --lines\n\n";
    for host in &hosts {
        text += &line(host);
    }
    let sampled = hosts.iter().filter(|host| host.has_samples()).count();
    text += HELP;
    text += match sampled {
        0 => "no host takes samples: expected --lines, or pyhostctl lines --start PID\n",
        1 => "/debug/pprof/heap is that of the one host that takes samples\n",
        _ => "?pid=PID       the host, since several take samples\n",
    };
    Ok(text)
}

fn line(host: &FoundHost) -> String {
    let (name, command) = (host.name, host.command());
    let _one = super::MAKING.lock();
    let Some(samples) = samples_of(&host.entry.path) else {
        return format!("{command}: {}\n", host.without_samples());
    };
    let (taken, _) = samples.counts();
    let mut line = format!("/hosts/{name}/debug/pprof/heap  {command}, ");
    let ended = match samples.is_over() {
        true => ", which have ended",
        false => "",
    };
    let of = match samples.interval() {
        ..=1 => "every allocation".to_owned(),
        interval => format!("one sample in {}", Bytes(interval)),
    };
    let _ = writeln!(line, "{of}, {taken} samples{ended}");
    line
}
