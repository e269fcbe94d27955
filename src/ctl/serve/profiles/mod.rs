//! The heap profiles of hosts, at the paths that readers of Go's profiles know: `/debug/pprof/heap`, `/debug/pprof/allocs`,
//! and below `/hosts/PID` for a host of several.
//!
//! A profile is made of the samples in the host's file at this moment: all of them, not the part that a report lists. The
//! content is that of `pyhostctl convert --to pprof`, with the time of the scrape.

mod host;
mod wish;

use super::connections::Client;
use super::request::{Request, value_of};
use super::response::{BAD_REQUEST, NOT_FOUND, PLAIN, Response};
use crate::convert::pprof;
use crate::find::{self, Directories, FoundHost};
use crate::lines::{By, Table, text};
use crate::output::Failure;
use crate::stacks::{Stacks, View};
use percent_encoding::percent_decode_str;
use pyhost_os::{clock::monotonic, named::Named};
use std::{borrow::Cow, sync::Mutex, time::Duration};
use wish::{Kind, Wish};

/// Held while samples are read and a profile is made, so that many clients need the memory of one.
static MAKING: Mutex<()> = Mutex::new(());

/// The rows of a table, those with the most bytes.
const ROWS: usize = 1000;

/// A place below `/debug/pprof/`.
pub struct Place {
    /// The name of the host, from `/hosts/NAME`.
    host: Option<String>,
    /// The profile; empty for the index.
    profile: String,
}

impl Place {
    /// Reads a path; None if it is another one.
    pub fn of_path(path: &str) -> Option<Self> {
        let (host, rest) = match path.strip_prefix("/hosts/") {
            Some(rest) => {
                let slash = rest.find('/')?;
                let host = percent_decode_str(&rest[..slash]).decode_utf8_lossy();
                (Some(host.into_owned()), &rest[slash..])
            }
            None => (None, path),
        };
        let profile = match rest.strip_prefix("/debug/pprof")? {
            "" => "",
            rest => rest.strip_prefix('/')?,
        };
        Some(Place {
            host,
            profile: profile.to_owned(),
        })
    }
}

pub fn answer(
    place: &Place,
    request: &Request,
    client: &Client<'_>,
    directories: &Directories,
) -> Response {
    if !request.reads() {
        return Response::not_allowed();
    }
    let done = match (place.profile.as_str(), Kind::of_name(&place.profile)) {
        ("", _) => host::index(directories).map(|text| Response::ok(PLAIN, text)),
        (_, Some(kind)) => profile(place, kind, request, client, directories),
        (other, None) => Err(Response::no_profile(
            NOT_FOUND,
            &format!(
                "no profile '{other}'; expected heap or allocs: pyhostctl serves the memory of Python's lines alone"
            ),
        )),
    };
    done.unwrap_or_else(|refusal| refusal)
}

/// The profile that was asked for; or the response that says why there is none.
fn profile(
    place: &Place,
    kind: Kind,
    request: &Request,
    client: &Client<'_>,
    directories: &Directories,
) -> Result<Response, Response> {
    let wish = Wish::of_query(kind, &request.query)?;
    let name = place.host.as_deref().map(Cow::Borrowed);
    let name = name.or_else(|| value_of(&request.query, "pid"));
    let name = name.map(|name| {
        let named = find::process(&name);
        named.map_err(|Failure(text)| Response::no_profile(BAD_REQUEST, &text))
    });
    let host = FoundHost::sampled(name.transpose()?.as_ref(), directories)?;
    match wish.seconds {
        // The headers of a change are those of any profile.
        Some(seconds) if !request.is_head() => change(&host, &wish, seconds, client, directories),
        _ => {
            let _one = MAKING.lock();
            let stacks = host.stacks()?;
            if wish.is_text {
                let table = Table::new(&stacks, kind.view(), By::Stack, None);
                return Ok(Response::ok(PLAIN, text(&table, ROWS)));
            }
            compressed(&stacks, &wish, kind.name())
        }
    }
}

/// The difference of two profiles.
fn change(
    host: &FoundHost,
    wish: &Wish,
    seconds: u32,
    client: &Client<'_>,
    directories: &Directories,
) -> Result<Response, Response> {
    let (before, start) = {
        let _one = MAKING.lock();
        (host.stacks()?, monotonic())
    };
    if !client.waits(Duration::from_secs(seconds.into())) {
        return Err(Response::refused(BAD_REQUEST)); // to nobody
    }
    let _one = MAKING.lock();
    let again = host.again(directories)?;
    let after = again.stacks()?;
    if again.requests() != host.requests()
        || after.samples < before.samples
        || after.interval != before.interval
    {
        return Err(Response::no_profile(
            "409 Conflict",
            &format!(
                "process {} began or ended its samples meanwhile; expected them to go on",
                host.name
            ),
        ));
    }
    let mut stacks = after.since(&before);
    stacks.seconds = Some((monotonic() - start) as f64 / 1e9);
    compressed(&stacks, wish, &format!("{}-delta", wish.kind.name()))
}

fn compressed(stacks: &Stacks, wish: &Wish, name: &str) -> Result<Response, Response> {
    let choice = pprof::Choice {
        in_use: View::Live,
        alloc_first: wish.kind == Kind::Allocs,
        remark: wish.remark(),
    };
    let bytes = pprof::bytes(stacks, &choice);
    let bytes = bytes.map_err(|what| Response::failed(&format!("the profile {what}")))?;
    Ok(Response::file(name, bytes))
}
