//! Caps, and the dossier of the last shortage of refusals: who asked, where, what held the memory.

use super::figures::{Titles, bytes, count, facts, list, place, scroll, swatch, table};
use super::{chart::account_class, text};
use crate::model::{Caps, Dossier, Total};
use maud::{Markup, html};
use serde_json::{Value, json};

fn how(name: &str) -> &str {
    match name {
        "null" => "the request got null, of which its caller makes an error",
        "raised" => "MemoryError was raised in the script",
        "fatal" => "the process ended",
        other => other,
    }
}

fn scopes(caps: &Caps) -> Markup {
    let row = |(scope, cap, reserve_from): (&str, i64, Option<i64>)| json!({"over": scope, "cap_bytes": cap, "reserve_from_bytes": reserve_from});
    let rows: Vec<Value> = caps.heights().map(row).collect();
    list("Table of caps", &rows)
}

fn dossier(dossier: &Dossier) -> Markup {
    let total = text::sum(dossier.accounts.values().map(|held| held.live_bytes));
    let cap = html! { (bytes(dossier.cap_bytes)) " (" (text::clean(&dossier.scope)) ")" };
    let asked = [
        ("asked for", bytes(dossier.size_bytes)),
        ("live then", bytes(dossier.live_bytes)),
        ("cap", cap),
    ];
    let account = |(name, held): (&String, &Total)| {
        html! {
            th scope="row" { (swatch(account_class(name))) (text::clean(name)) }
            td.number { (bytes(held.live_bytes)) }
            td.number { (text::share(held.live_bytes, total)) }
            td.number { (bytes(held.peak_bytes)) }
        }
    };
    let classes = dossier.size_classes.iter().map(|it| {
        let together = it.block_bytes.saturating_mul(it.blocks);
        json!({"account": it.account, "block_bytes": it.block_bytes, "blocks": it.blocks, "together_bytes": together})
    });
    let classes: Vec<Value> = classes.collect();
    let of_accounts: Titles = [&["account"], &["live then", "share", "peak"], &[]];
    html! {
        article #dossier {
            h3 { "Refusal " (count(dossier.number)) ": " (text::clean(&dossier.account)) " asked for " (text::bytes(dossier.size_bytes)) }
            (facts(&asked))
            p.note { "Outcome: " (text::clean(how(&dossier.how))) "." }
            @if let Some(limit) = &dossier.limit {
                p.note {
                    "The limit of a block of code at " (place(Some(&limit.file), Some(limit.line))) ": "
                    (bytes(limit.bytes)) " above the " (bytes(limit.base_bytes)) " that were live when it was entered."
                }
            }
            h4 { "Asked at" }
            @if dossier.traceback.is_empty() {
                p { "A thread that runs no Python code." }
            } @else {
                @let trace = html! { ol.trace { @for line in &dossier.traceback { li { code { (text::clean(line)) } } } } };
                (scroll("Traceback, innermost first", &trace))
            }
            h4 { "What held the memory" }
            (table("Table of accounts at the refusal", of_accounts, dossier.accounts.iter().map(account)))
            @if !classes.is_empty() {
                h4 { "Largest size classes" }
                (list("Table of the largest size classes", &classes))
            }
            @if dossier.big_blocks > 0 || !dossier.largest.is_empty() {
                h4 { "Big blocks" }
                p.note { (count(dossier.big_blocks)) " of 1 MiB and more, " (bytes(dossier.big_bytes)) " together; the largest:" }
                (list("Table of the largest blocks", &dossier.largest))
            }
        }
    }
}

/// The section; None if there is neither a cap nor a refusal.
pub fn section(caps: &Caps) -> Option<Markup> {
    let has_caps = caps.heights().next().is_some();
    if !has_caps && caps.dossier.is_none() && caps.last_refusal.is_none() {
        return None;
    }
    Some(html! {
        @if has_caps { (scopes(caps)) }
        @match (&caps.dossier, &caps.last_refusal) {
            (Some(found), _) => (dossier(found)),
            (None, Some(line)) => p { "The last refusal: " (text::clean(line)) },
            (None, None) => p.note { "Nothing was refused." },
        }
    })
}
