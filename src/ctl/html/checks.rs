//! The results of the checks: leaks, injected faults.

use super::figures::{Titles, bytes, count, place, swatch, table, trouble, unknown};
use super::{chart::account_class, text};
use crate::model::{FaultRule, Faults, LeakGroup, Leaks};
use maud::{Markup, html};

pub fn leaks(leaks: &Leaks) -> Markup {
    let row = |group: &LeakGroup| {
        html! {
            th scope="row" { (swatch(account_class(&group.account))) (text::clean(&group.account)) }
            td.number { (count(group.blocks)) }
            td.number { (bytes(group.block_bytes)) }
            td.number { (bytes(group.block_bytes.saturating_mul(group.blocks))) }
            td { @match &group.type_name { Some(name) => (text::clean(name)), None => (unknown()) } }
            td { (place(group.file.as_deref(), group.line)) }
        }
    };
    let titles: Titles = [
        &["account"],
        &["blocks", "size of each", "together"],
        &["type", "allocated at"],
    ];
    html! {
        @if leaks.blocks == 0 {
            p { "No block was lost." }
        } @else {
            p {
                strong { (count(leaks.blocks)) @if leaks.blocks == 1 { " block, " } @else { " blocks, " } (bytes(leaks.bytes)) }
                ": allocated since the script\u{2019}s start, live after finalisation, and nothing points there."
            }
            (table("Table of lost blocks", titles, leaks.groups.iter().map(row)))
        }
        @if leaks.threads > 0 { p.note { (text::count(leaks.threads)) @if leaks.threads == 1 { " thread" } @else { " threads" } " of Python still ran, of which CPython itself loses blocks." } }
        @if leaks.interpreters { p.note { "There were further interpreters, of which CPython itself loses blocks." } }
        @if !leaks.sure && leaks.blocks > 0 { p.note { "So the exit status stays the script\u{2019}s." } }
    }
}

/// The section of `--fail`.
pub fn faults(faults: &Faults) -> Markup {
    let row = |rule: &FaultRule| {
        html! {
            th scope="row" { code { (text::clean(&rule.rule)) } }
            td.number { (count(rule.requests)) }
            td.number { (trouble(rule.injected)) }
        }
    };
    let titles: Titles = [&["rule"], &["requests it counted", "made to fail"], &[]];
    let rows = faults.rules.iter().map(row);
    table("Table of forced failures", titles, rows)
}
