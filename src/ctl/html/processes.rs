//! The processes of the tree that begins with the one that the page is of.

use super::figures::{self, maybe_bytes};
use super::text;
use crate::model::whole;
use crate::process::Proportional;
use crate::top::tables::clock;
use crate::tree::{Member, Sums};
use maud::{Markup, html};

pub fn section((members, sums): &(Vec<Member>, Sums)) -> Markup {
    let sum = |of: fn(Proportional) -> u64| maybe_bytes(sums.memory.map(of).map(whole));
    let cell = |bytes: Option<u64>| html! { td.number { (maybe_bytes(bytes.map(whole))) } };
    let rows = members.iter().map(|it| {
        let of = |part: u64| it.memory.map(|_| part);
        let memory = it.memory.unwrap_or_default();
        html! {
            td.number { (it.name) }
            td.number { (it.seconds.map_or("\u{2013}".to_owned(), clock)) }
            (cell(it.live)) (cell(it.peak)) (cell(of(memory.private))) (cell(of(memory.proportional))) (cell(of(memory.resident)))
            td { (it.role) }
            td {
                ("\u{2003}".repeat(it.depth))
                @if let Some(how) = &it.ended { (text::clean(how)) ": " }
                code { (text::clean(&it.command)) }
            }
        }
    });
    let numbers = ["pid", "time", "live", "peak", "private", "PSS", "resident"];
    let titles = [&[][..], &numbers, &["role", "command"]];
    html! {
        p.note {
            "What descends from this process, at the moment of the page. Live and peak bytes of a forked child are those beyond what it \
             was forked with. PSS has a part of each page that several processes share, by their number."
        }
        (figures::table("Table of processes", titles, rows))
        p {
            "Those that run have " (figures::bytes(whole(sums.live))) " live, " (sum(|it| it.private)) " private, " (sum(|it| it.proportional)) " PSS."
        }
    }
}
