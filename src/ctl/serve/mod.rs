//! `pyhostctl serve`: over HTTP, the metrics of all running hosts, for Prometheus, and the heap profiles of those that
//! sample lines, for readers of Go's.
//!
//! Each connection has a thread ([`connections`]), which parses the request ([`request`]), and reads the
//! hosts' files again for each scrape ([`hosts`], [`profiles`]). Nothing is kept from one scrape to the next but which
//! worker of a service has which number: a process that has ended is missing from the next one.

mod address;
mod connections;
mod hosts;
mod names;
mod profiles;
pub mod request;
mod response;

use crate::find::Directories;
use address::Address;

use crate::find;
use crate::output::{Failure, print};
use clap::Args;
use connections::Client;
use names::Names;
use pyhost_record::metrics::Form;
use request::Request;
use response::{NOT_FOUND, Response};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use std::{io, sync::Arc, sync::atomic::AtomicBool};

#[derive(Debug, Args)]
pub struct ServeOptions {
    /// Where to listen, as HOST:PORT; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value_t)]
    pub listen: Address,

    /// A name by which clients know this server, beside localhost, the name of --listen and, if that is
    /// not a loopback address, all addresses and the machine's own name; `*` for any. May be repeated
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
}

/// Serves until a signal ends the process.
pub fn run(options: &ServeOptions, directories: &Directories) -> Result<(), Failure> {
    find::running(directories)?;
    let listener = options.listen.listen()?;
    let own = listener
        .local_addr()
        .map_err(|error| Failure(format!("the socket has no address ({error})")))?;
    if !own.ip().is_loopback() {
        eprintln!(
            "pyhostctl: {own} is not a loopback address: everyone who can connect to it sees the names, the \
             memory and the sampled lines of this user's scripts"
        );
    }
    let names = Names::new(&options.listen.host, own.ip(), &options.allow_host);
    let workers = hosts::Workers::default();
    end_on_signals().map_err(|error| Failure(format!("signals cannot be handled ({error})")))?;
    print(&format!("serving http://{own}/metrics\n"))?;
    connections::serve(&listener, &|request, client| {
        answer(request, client, directories, &names, &workers)
    })
}

/// Lets SIGTERM and SIGINT end the process at once, with status 0: no state has to be saved.
fn end_on_signals() -> io::Result<()> {
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, Arc::new(AtomicBool::new(true)))?;
    }
    Ok(())
}

const PAGE: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pyhostctl</title>
<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">
</head><body><h1>pyhostctl serve</h1>
<p>The memory of the hosts that run here: <a href=\"/metrics\">metrics</a>, <a href=\"/debug/pprof/\">heap profiles</a>.</p>
</body></html>
";

fn answer(
    request: &Request,
    client: &Client<'_>,
    directories: &Directories,
    names: &Names,
    workers: &hosts::Workers,
) -> Response {
    if !names.admit(request.host.as_deref()) {
        return Response::misdirected();
    }
    if let Some(place) = profiles::Place::of_path(&request.path) {
        return profiles::answer(&place, request, client, directories);
    }
    match request.path.as_str() {
        "/" | "/metrics" if !request.reads() => Response::not_allowed(),
        "/" => Response::ok("text/html; charset=utf-8", PAGE.to_owned()),
        "/metrics" => match find::running(directories) {
            Ok(found) => {
                let form = match request.prefers_openmetrics {
                    true => Form::OpenMetrics,
                    false => Form::Prometheus,
                };
                Response::ok(
                    form.content_type(),
                    hosts::metrics_of(&found, form, workers),
                )
            }
            Err(Failure(text)) => Response::failed(&text),
        },
        _ => Response::refused(NOT_FOUND),
    }
}
