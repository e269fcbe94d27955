//! Which `Host` headers are answered.
//!
//! A page of any origin can make a browser ask a server of its user's machine or network: its name is made to lead to
//! that address (DNS rebinding). The browser then sends the page's own name, so a request is answered only if the name
//! is one that the server is known by. An address cannot be made to lead elsewhere.

use std::net::IpAddr;

/// The names and addresses that the server answers to.
#[derive(Debug, Default)]
pub struct Names {
    /// In lower case.
    names: Vec<String>,
    /// Any address that the machine may have.
    takes_addresses: bool,
    takes_all: bool,
}

/// The word of `--allow-host` for every name.
const ALL: &str = "*";

impl Names {
    /// The names of a server that listens at an address: the one that `--listen` has, those of
    /// `--allow-host`, `localhost` and loopback addresses; if the address is not a loopback one, also
    /// all addresses and the machine's own name.
    pub fn new(listen: &str, address: IpAddr, allowed: &[String]) -> Self {
        let is_loopback = address.is_loopback();
        let machine = (!is_loopback).then(machine_name).flatten();
        let given = allowed.iter().map(String::as_str);
        let names = given.clone().chain([listen]).map(str::to_owned);
        let names = names.chain(machine);
        Names {
            names: names.map(|it| plain(&it).to_ascii_lowercase()).collect(),
            takes_addresses: !is_loopback,
            takes_all: given.into_iter().any(|name| name == ALL),
        }
    }

    /// Whether a request with this `Host` header is answered. One without the header is: browsers always send it.
    pub fn admit(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return true };
        if self.takes_all {
            return true;
        }
        let name = plain(without_port(host)).to_ascii_lowercase();
        if let Ok(address) = name.parse::<IpAddr>() {
            return self.takes_addresses || address.is_loopback() || self.names.contains(&name);
        }
        name == "localhost" || name.ends_with(".localhost") || self.names.contains(&name)
    }
}

/// A name without brackets around an address, or the dot at the end of a full name.
fn plain(name: &str) -> &str {
    let name = name.strip_prefix('[').unwrap_or(name);
    let name = name.strip_suffix(']').unwrap_or(name);
    name.strip_suffix('.').unwrap_or(name)
}

/// The part in front of the port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn machine_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim_end().to_owned()).filter(|name| !name.is_empty())
}
