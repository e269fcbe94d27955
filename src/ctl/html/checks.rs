//! The results of the checks: leaks, guarded blocks, injected faults.

use super::chart::account_class;
use super::figures::{bytes, count, facts, place, scroll, swatch, trouble, unknown};
use super::text;
use crate::model::{Faults, Guards, Leaks};
use maud::{Markup, html};

fn threads(count: i64) -> String {
    match count {
        1 => "1 thread".to_owned(),
        count => format!("{} threads", text::count(count)),
    }
}

/// The section of leaks.
pub fn leaks(leaks: &Leaks) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "account" }
                th scope="col" .number { "blocks" }
                th scope="col" .number { "size of each" }
                th scope="col" .number { "together" }
                th scope="col" { "type" }
                th scope="col" { "allocated at" }
            } }
            tbody {
                @for group in &leaks.groups {
                    tr {
                        th scope="row" { (swatch(account_class(&group.account))) (text::clean(&group.account)) }
                        td.number { (count(group.blocks)) }
                        td.number { (bytes(group.block_bytes)) }
                        td.number { (bytes(group.block_bytes.saturating_mul(group.blocks))) }
                        td { @match &group.type_name { Some(name) => (text::clean(name)), None => (unknown()) } }
                        td { (place(group.file.as_deref(), group.line)) }
                    }
                }
            }
        }
    };
    html! {
        @if leaks.blocks == 0 {
            p { "No block was lost." }
        } @else {
            p {
                strong { (count(leaks.blocks)) @if leaks.blocks == 1 { " block, " } @else { " blocks, " } (bytes(leaks.bytes)) }
                ": allocated since the script\u{2019}s start, live after finalisation, and nothing points there."
            }
            (scroll("Table of lost blocks", &table))
        }
        @if leaks.threads > 0 { p.note { (threads(leaks.threads)) " of Python still ran, of which CPython itself loses blocks." } }
        @if leaks.interpreters { p.note { "There were further interpreters, of which CPython itself loses blocks." } }
        @if !leaks.sure && leaks.blocks > 0 { p.note { "So the exit status stays the script\u{2019}s." } }
    }
}

/// The section of guard pages.
pub fn guards(guards: &Guards) -> Markup {
    facts(&[
        ("blocks from".to_owned(), bytes(guards.min_bytes)),
        ("one of".to_owned(), count(guards.every)),
        ("guarded so far".to_owned(), count(guards.guarded_blocks)),
        ("live of them".to_owned(), count(guards.live_blocks)),
        ("found no room".to_owned(), trouble(guards.missed_blocks)),
    ])
}

/// The section of `--fail`.
pub fn faults(faults: &Faults) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "rule" }
                th scope="col" .number { "requests it counted" }
                th scope="col" .number { "made to fail" }
            } }
            tbody {
                @for rule in &faults.rules {
                    tr {
                        th scope="row" { code { (text::clean(&rule.rule)) } }
                        td.number { (count(rule.requests)) }
                        td.number { (trouble(rule.injected)) }
                    }
                }
            }
        }
    };
    scroll("Table of forced failures", &table)
}
